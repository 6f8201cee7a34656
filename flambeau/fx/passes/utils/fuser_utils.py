"""Parts of a graph taken out, as modules that the graph calls. Source: torch.fx.passes.utils.fuser_utils."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import after_their_inputs, stable_topological_sort
from .common import lift_subgraph_as_module

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort", "validate_partition"]

Nodes = tuple[Node, ...]


def topo_sort(nodes: list[Node]) -> list[Node]:
    """Nodes in an order in which each comes after its inputs.

    Args:
        nodes: of one graph.
    Returns: a new list.
    Raises:
        AssertionError: they take each other's values.
    Source: torch.fx.passes.utils.fuser_utils.topo_sort.
    Example:
        >>> x, relu, _ = torch.fx.symbolic_trace(lambda x: torch.relu(x)).graph.nodes
        >>> torch.fx.passes.utils.fuser_utils.topo_sort([relu, x])
        [x, relu]
    """
    order = after_their_inputs(nodes)
    if len(order) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return order


def validate_partition(partition: Iterable[Node]) -> bool:
    """Whether nodes can become one: no value goes out of them and comes back.

    Args:
        partition: the nodes.
    Returns: a bool.
    Source: torch.fx.passes.utils.fuser_utils.validate_partition.
    Example:
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(torch.sin(torch.relu(x)))).graph
        >>> _, first, sin, second, _ = graph.nodes
        >>> check = torch.fx.passes.utils.fuser_utils.validate_partition
        >>> check([first, sin]), check([first, second])
        (True, False)
    """
    inside = set(partition)
    return not any(node in inside for node in downstream_of({user for node in inside for user in node.users if user not in inside}))


def downstream_of(nodes: Iterable[Node]) -> set[Node]:
    """All nodes that need one of these, and these."""
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.users
    return found


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: list[Node],
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, Nodes, Nodes]:
    """A module of some nodes of another's graph, which stays as it is.

    Args:
        gm: the module. nodes: of its graph, each after its inputs.
        module_name: the new module's class. partition_lookup_table: has the nodes as keys, for a quick look.
        always_return_tuple: whether it gives a tuple of one result, too.
    Returns:
        The new module, the nodes whose values are its arguments, and those whose values it gives.
    Raises:
        AssertionError: nodes of another module, or that cannot become one.
    Source: torch.fx.passes.utils.fuser_utils.fuse_as_graphmodule.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> part, inputs, outputs = torch.fx.passes.utils.fuser_utils.fuse_as_graphmodule(module, list(module.graph.nodes)[1:3], "Part")
        >>> inputs, outputs, part(torch.ones(1))
        ((x,), (add,), tensor([2.]))
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes) if partition_lookup_table is None else partition_lookup_table
    part = Graph()
    made: dict[Node, Node] = {}
    inputs: dict[Node, Node] = {}

    def value_of(node: Node) -> Node:
        if node in inside:
            return made[node]
        if node not in inputs:
            inputs[node] = part.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = dict(node.meta)
        return inputs[node]

    for node in nodes:
        made[node] = part.node_copy(node, value_of)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    results = tuple([made[node] for node in outputs])
    part.output(results if len(results) != 1 or always_return_tuple else results[0])
    part.lint()
    module, _ = lift_subgraph_as_module(gm, part, class_name=module_name)
    return module, tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: Nodes, orig_outputs: Nodes, insertion_point: Node | None = None
) -> GraphModule:
    """Have a graph call a module in place of nodes whose values it gives.

    Args:
        gm: the module. sub_gm: becomes a part of it, under its class's name.
        orig_inputs: nodes whose values are its arguments. orig_outputs: nodes whose values it gives.
        insertion_point: the node after which it is called; at the end when None.
    Returns: ``gm``.
    Source: torch.fx.passes.utils.fuser_utils.insert_subgm.
    Example:
        >>> from flambeau.fx.passes.utils.fuser_utils import fuse_as_graphmodule, insert_subgm
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> part, inputs, outputs = fuse_as_graphmodule(module, list(module.graph.nodes)[1:3], "Part")
        >>> list(insert_subgm(module, part, inputs, outputs).graph.nodes)
        [x, relu, add, part, output]
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    results = next(node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(results) if insertion_point is None else gm.graph.inserting_after(insertion_point):
        called = gm.graph.call_module(name, orig_inputs, {})
    returns_tuple = isinstance(next(node for node in sub_gm.graph.nodes if node.op == "output").args[0], tuple)
    if not returns_tuple and len(orig_outputs) == 1:
        orig_outputs[0].replace_all_uses_with(called, propagate_meta=True)
        return gm
    last = called
    for place, node in enumerate(orig_outputs):
        with gm.graph.inserting_after(last):
            last = gm.graph.call_function(operator.getitem, (called, place))
        node.replace_all_uses_with(last, propagate_meta=True)
    called.meta["val"] = tuple([node.meta.get("val") for node in orig_outputs])
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Take nodes out of a module's graph.

    Args:
        gm: the module. nodes: each after its inputs.
    Source: torch.fx.passes.utils.fuser_utils.erase_nodes.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: (torch.relu(x), x)[1])
        >>> torch.fx.passes.utils.fuser_utils.erase_nodes(module, [list(module.graph.nodes)[1]])
        >>> list(module.graph.nodes)
        [x, output]
    """
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: list[dict[Node, Any]], prefix: str = "fused_", always_return_tuple: bool = False
) -> GraphModule:
    """Make each of some parts of a module's graph a module of its own.

    Args:
        gm: the module, which is changed. partitions: the nodes of each part.
        prefix: begins the names of the new modules. always_return_tuple: whether these give a tuple of one result, too.
    Returns: ``gm``.
    Raises:
        AssertionError: nodes that cannot become one.
    Source: torch.fx.passes.utils.fuser_utils.fuse_by_partitions.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> _ = torch.fx.passes.utils.fuser_utils.fuse_by_partitions(module, [dict.fromkeys(list(module.graph.nodes)[1:3])])
        >>> [node.op for node in module.graph.nodes], module(torch.ones(1))
        (['placeholder', 'call_module', 'output'], tensor([2.]))
    """
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        part, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple)
        insert_subgm(gm, part, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
