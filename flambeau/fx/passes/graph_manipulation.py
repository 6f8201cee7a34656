"""Other targets of nodes, and sizes of their values. Source: torch.fx.passes.graph_manipulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Callable[..., Any] | str, new_op: str, new_target: Callable[..., Any] | str
) -> None:
    """Have nodes call something else.

    Args:
        fx_module: the module; it gets a new graph.
        old_op, old_target: of the nodes that are changed. new_op, new_target: what they become.
    Source: torch.fx.passes.graph_manipulation.replace_target_nodes_with.
    Example:
        >>> from flambeau.fx.passes.graph_manipulation import replace_target_nodes_with
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x))
        >>> replace_target_nodes_with(module, "call_function", torch.relu, "call_function", torch.tanh)
        >>> module(torch.zeros(1))
        tensor([0.])
    """
    graph = Graph()
    made: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg((node.args, node.kwargs), made.__getitem__)
            made[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            made[node] = graph.node_copy(node, made.__getitem__)
    fx_module.graph = graph


class size_bytes(NamedTuple):
    """Sizes of a node.

    Args:
        output_size, total_size: the attributes.
    Source: torch.fx.passes.graph_manipulation.size_bytes.

    Attributes:
        output_size: bytes of its value. total_size: with the parameters of the module that it calls.
    Example:
        >>> torch.fx.passes.graph_manipulation.size_bytes(4, 12).total_size
        12
    """

    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Note the sizes of all nodes but the last as their ``size_bytes``.

    Args:
        fx_module: the module. args: inputs to run it on; None if ``ShapeProp`` has run.
    Raises:
        RuntimeError: a node without notes of ``ShapeProp``.
    Source: torch.fx.passes.graph_manipulation.get_size_of_all_nodes.
    Example:
        >>> module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3)))
        >>> torch.fx.passes.graph_manipulation.get_size_of_all_nodes(module, [torch.ones(4, 2)])
        >>> [node.size_bytes.total_size for node in module.graph.nodes if node.op != "output"]
        [32, 84]
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]


def get_tensor_meta(node: Node) -> TensorMetadata:
    """Notes of ``ShapeProp`` about a node's value.

    Args:
        node: the node.
    Returns: its metadata.
    Raises:
        RuntimeError: nothing.
    Source: torch.fx.passes.graph_manipulation.get_tensor_meta.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> _ = torch.fx.passes.shape_prop.ShapeProp(module).propagate(torch.ones(2))
        >>> torch.fx.passes.graph_manipulation.get_tensor_meta(list(module.graph.nodes)[1]).shape
        torch.Size([2])
    """
    found: TensorMetadata | None = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return found


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Sizes of a node.

    Args:
        fx_module: the module. node: of its graph.
    Returns: its value's size in bytes, and that with the parameters of the module that it calls.
    Raises:
        RuntimeError: a node without notes of ``ShapeProp``.
    Source: torch.fx.passes.graph_manipulation.get_size_of_node.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> _ = torch.fx.passes.shape_prop.ShapeProp(module).propagate(torch.ones(2))
        >>> torch.fx.passes.graph_manipulation.get_size_of_node(module, list(module.graph.nodes)[1])
        size_bytes(output_size=8, total_size=8)
    """
    called = fx_module.get_submodule(str(node.target)) if node.op == "call_module" else None
    parameters = 0 if called is None else sum(parameter.numel() for parameter in called.parameters())
    meta = get_tensor_meta(node)
    elements = meta.shape.numel()
    return size_bytes(meta.dtype.itemsize * elements, meta.dtype.itemsize * (elements + parameters))
