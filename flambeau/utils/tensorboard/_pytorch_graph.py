"""The graph of a module's forward pass as the messages that TensorBoard's page of graphs reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from ...nn import Module
from .._forward_graph import Node, evaluating, trace_forward

OPS = {"input": "IO Node", "output": "IO Node", "parameter": "prim::GetAttr", "buffer": "prim::GetAttr", "constant": "prim::Constant"}
FOLDERS = {"input": ("input",), "output": ("output",)}


def graph(model: Module, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[GraphDef, RunMetadata]:
    """A module's graph, from one forward pass in evaluation mode.

    Args:
        model: the module; afterwards it is in the mode that it was in.
        args: its argument, or a tuple of its arguments.
        verbose: print a line for each node.
        use_strict_trace: refuse a module that returns a list or a dictionary.
    Returns:
        Nodes named by their modules (``Net/Linear[fc]/linear``), with their results' shapes; and the device, always the CPU.
    Raises:
        RuntimeError: with ``use_strict_trace``, a list or a dictionary is returned; what the module raises.
    Source: torch.utils.tensorboard._pytorch_graph.graph.
    """
    try:
        with evaluating(model):
            nodes, result = trace_forward(model, args)
        if use_strict_trace and isinstance(result, (list, dict)):
            kind = "list" if isinstance(result, list) else "dictionary"
            raise RuntimeError(
                f"Encountering a {kind} at the output of the tracer might cause the trace to be incorrect: "
                "return a tuple of tensors, or say use_strict_trace=False"
            )
    except RuntimeError as error:
        print(error)
        print("Error occurs, No graph saved")
        raise
    messages = _messages(nodes)
    if verbose:
        for message in messages:
            print(f"{message.name} = {message.op}({', '.join(message.input)})")
    run = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
    return GraphDef(node=messages, versions=VersionDef(producer=22)), run


def _messages(nodes: Sequence[Node]) -> list[NodeDef]:
    uses = {value.node for node in nodes for value in node.inputs}
    taken: Counter[str] = Counter()
    names: list[str] = []
    messages = []
    for place, node in enumerate(nodes):
        name = "/".join((*FOLDERS.get(node.kind, node.scope), node.name))
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}_{taken[name] - 1}")
        if node.kind == "input" and place not in uses:
            continue
        inputs = [names[source] + (f":{result}" if result else "") for source, result in node.inputs]
        op = OPS.get(node.kind, f"aten::{node.name}")
        shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape]) for shape in node.shapes]
        attributes = {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes)), "attr": AttrValue(s=_text_of(node))}
        messages.append(NodeDef(name=names[-1], op=op, input=inputs, attr=attributes))
    return messages


def _text_of(node: Node) -> bytes:
    """An operation's other arguments; quotes confuse TensorBoard's page."""
    if node.kind in FOLDERS:
        return b""
    settings = node.attributes if node.kind == "operation" else {"name": node.name}
    return str(settings).replace("'", " ").encode()
