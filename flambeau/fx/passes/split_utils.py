"""A graph in parts that its nodes' tags name. Source: torch.fx.passes.split_utils."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """The value at a path of attributes; None where there is nothing.

    Args:
        obj: where the path begins. name: the path.
    Returns: the value.
    Source: torch.fx.passes.split_utils.getattr_recursive.
    Example:
        >>> torch.fx.passes.split_utils.getattr_recursive(nn.Sequential(nn.ReLU()), "0.inplace")
        False
    """
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set the value at a path of attributes.

    Args:
        obj: where the path begins. attr: the path. value: the value.
    Source: torch.fx.passes.split_utils.setattr_recursive.
    Example:
        >>> model = nn.Sequential(nn.ReLU())
        >>> torch.fx.passes.split_utils.setattr_recursive(model, "0.inplace", True)
        >>> model
        Sequential(
          (0): ReLU(inplace=True)
        )
    """
    *path, name = attr.split(".")
    for part in path:
        obj = getattr(obj, part)
    setattr(obj, name, value)


@dataclass
class Component:
    """A part of a graph.

    Args:
        graph, order, name: its own graph, its place, and its name; the others are the attributes.
    Source: torch.fx.passes.split_utils.Component.

    Attributes:
        input_placeholders: its placeholders. orig_inputs: for each the node of the whole.
        orig_outputs: nodes of the whole whose values it gives. getattr_maps: its nodes for ``get_attr`` nodes of the whole.
        constructor_args: names that are not used. gm: its module, when it is made.
    Example:
        >>> torch.fx.passes.split_utils.Component(torch.fx.Graph(), 0, "first").orig_outputs
        []
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None

    def input_for(self, node: Node) -> Node:
        """The placeholder for a node of the whole."""
        if node not in self.orig_inputs:
            self.orig_inputs.append(node)
            made = self.graph.placeholder(node.name, type_expr=node.type)
            made.meta = dict(node.meta)
            self.input_placeholders.append(made)
        return self.input_placeholders[self.orig_inputs.index(node)]


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:
    """A module of parts, one for each tag, that computes what a graph did.

    Args:
        gm: the module; nodes that call something have a ``tag``.
        tags: in the order in which the parts run.
        return_fqn_mapping: whether to tell where modules and tensors are now.
        return_tuple: whether parts give a tuple of one value, too.
        GraphModuleCls: class of the module.
    Returns:
        The module; with ``return_fqn_mapping``, and a dictionary of new paths by the old ones.
    Raises:
        AssertionError: a node without a tag, or that needs a part which runs later.
    Source: torch.fx.passes.split_utils.split_by_tags.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> for node in module.graph.nodes:
        ...     node.tag = "first" if node.name == "relu" else "second"
        >>> parts = torch.fx.passes.split_utils.split_by_tags(module, ["first", "second"])
        >>> [name for name, _ in parts.named_children()], parts(torch.ones(1))
        (['first', 'second'], tensor([2.]))
    """
    parts = {tag: Component(Graph(), order, tag) for order, tag in enumerate(tags)}
    part_of: dict[Node, Component] = {}
    made: dict[Node, Node] = {}  # nodes of parts by those of the whole
    results: Any = None
    for node in gm.graph.nodes:
        if node.op == "output":
            results = node
            for source in node.all_input_nodes:
                if source in part_of and source not in part_of[source].orig_outputs:
                    part_of[source].orig_outputs.append(source)
        elif node.op not in ("placeholder", "get_attr"):
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node does not have tag: {node.format_node()}")
            part_of[node] = parts[node.tag]
            made[node] = _copied(node, parts[node.tag], part_of, made)
    places = {}
    for part in parts.values():
        outputs = tuple([made[node] for node in part.orig_outputs])
        part.graph.output(outputs if len(outputs) != 1 or return_tuple else outputs[0])
        part.gm, moved = lift_subgraph_as_module(gm, part.graph, comp_name=part.name)
        places.update({old: new for new, old in moved.items()})
    whole = _joined(gm, parts, results, return_tuple, GraphModuleCls)
    return (whole, places) if return_fqn_mapping else whole


def _copied(node: Node, part: Component, part_of: dict[Node, Component], made: dict[Node, Node]) -> Node:
    """A node in its part, whose inputs from elsewhere become the part's."""

    def value_of(source: Node) -> Node:
        if source.op == "get_attr":
            if source not in part.getattr_maps:
                part.getattr_maps[source] = part.graph.get_attr(str(source.target), type_expr=source.type)
            return part.getattr_maps[source]
        if source in part_of and part_of[source] is part:
            return made[source]
        if source in part_of:
            if part_of[source].order > part.order:
                raise AssertionError(
                    f"{node.name} of part {part.name!r} needs {source.name} of part {part_of[source].name!r}, which runs later"
                )
            if source not in part_of[source].orig_outputs:
                part_of[source].orig_outputs.append(source)
        return part.input_for(source)

    return part.graph.node_copy(node, value_of)


def _joined(gm: GraphModule, parts: dict[str, Component], results: Node, return_tuple: bool, cls: type[GraphModule]) -> GraphModule:
    """The module that calls the parts."""
    graph = Graph()
    values: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = graph.node_copy(node)
    for part in parts.values():
        called = graph.call_module(part.name, tuple([values[node] for node in part.orig_inputs]))
        if len(part.orig_outputs) == 1 and not return_tuple:
            values[part.orig_outputs[0]] = called
            continue
        for place, node in enumerate(part.orig_outputs):
            values[node] = graph.call_function(operator.getitem, (called, place))
    holder: Any = HolderModule({part.name: part.gm for part in parts.values()})
    for node in results.all_input_nodes:
        if node.op == "get_attr":  # a result that no part computes
            values[node] = graph.get_attr(str(node.target))
            setattr(holder, str(node.target), getattr_recursive(gm, str(node.target)))
    graph.output(map_arg(results.args[0], values.__getitem__))
    return cls(holder, graph)
