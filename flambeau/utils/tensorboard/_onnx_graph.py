"""The graph of an ONNX file as TensorBoard's."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef


def load_onnx_graph(fname: Any) -> GraphDef:
    """Read a file by the onnx package. Source: torch.utils.tensorboard._onnx_graph.load_onnx_graph."""
    import onnx

    return parse(onnx.load(fname).graph)


def parse(graph: Any) -> GraphDef:
    """Inputs and outputs with dtype and shape, and an operation for each node under the name of its first output.

    Source: torch.utils.tensorboard._onnx_graph.parse.
    """
    nodes = []
    for value in (*graph.input, *graph.output):
        tensor = value.type.tensor_type
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=dim.dim_value) for dim in tensor.shape.dim])
        attributes = {"dtype": AttrValue(type=tensor.elem_type), "shape": AttrValue(shape=shape)}
        nodes.append(NodeDef(name=value.name, op="Variable", attr=attributes))
    for node in graph.node:
        settings = ", ".join(" = ".join(str(value) for _, value in attribute.ListFields()) for attribute in node.attribute)
        parameters = {"parameters": AttrValue(s=settings.encode())}
        nodes.append(NodeDef(name=node.output[0], op=node.op_type, input=node.input, attr=parameters))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
