"""One graph as several, of a function that says which part a node belongs to. Source: torch.fx.passes.split_module."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg

__all__ = ["Partition", "split_module"]


@dataclass
class Partition:
    """Nodes that become a module of their own.

    Args:
        name: of the part.
        submod_name: of its module; ``submod_`` and ``name`` when empty.
    Attributes:
        node_names: the nodes. inputs, outputs: nodes whose values it takes and gives.
        dependencies, dependents: names of parts that it takes values from, and gives values to. graph: of the module.
    Source: torch.fx.passes.split_module.Partition.
    Example:
        >>> from flambeau.fx.passes.split_module import Partition
        >>> Partition("0").submod_name
        'submod_0'
    """

    name: str
    submod_name: str = ""
    node_names: list[str] = field(default_factory=list)
    inputs: dict[str, None] = field(default_factory=dict)
    outputs: dict[str, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    dependents: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.submod_name = self.submod_name or f"submod_{self.name}"

    def add_node(self, node: Node) -> None:
        """Add a node to the part."""
        self.node_names.append(node.name)


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module of parts, each a graph module, that computes what one graph did.

    Args:
        m: the module whose graph is split. root_m: where its targets are.
        split_callback: the part that a node belongs to, by number or name.
        qualname_map: is told where modules were, by where they are.
        keep_original_order: whether parts run in the order in which they come first; they do anyway where that is possible.
        keep_original_node_name, keep_original_input_name: whether nodes and inputs of the parts are named as in ``m``.
        partition_affix: between ``submod_`` and the part's name. tuple_return: whether parts return tuples of one value, too.
    Returns:
        The module.
    Raises:
        RuntimeError: parts take values of each other.
    Source: torch.fx.passes.split_module.split_module.
    Example:
        >>> from flambeau.fx.passes.split_module import split_module
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> parts = split_module(module, module, lambda node: 0 if node.name == "relu" else 1)
        >>> [name for name, _ in parts.named_children()], parts(torch.ones(1))
        (['submod_0', 'submod_1'], tensor([2.]))
    """
    parts, part_of = _parts(m, split_callback, partition_affix)
    for node in m.graph.nodes:
        for source in () if node.op == "placeholder" else node.all_input_nodes:
            _connect(parts, part_of.get(source.name), part_of.get(node.name), source.name)
    order = list(parts) if keep_original_order else _ordered(parts)
    by_name = {node.name: node for node in m.graph.nodes}
    for part in parts.values():
        for name in part.inputs:
            source = by_name[name]
            made = part.graph.placeholder(name if keep_original_input_name else f"arg_{len(part.environment)}", type_expr=source.type)
            made.meta = dict(source.meta)
            part.environment[source] = made
    for node in m.graph.nodes:
        if node.name in part_of:
            _copy_node(parts[part_of[node.name]], node, root_m, qualname_map, bool(keep_original_node_name))
    return _joined(m, root_m, parts, order, by_name, tuple_return)


def _parts(m: GraphModule, split_callback: Callable[[Node], Any], affix: str | None) -> tuple[dict[str, Partition], dict[str, str]]:
    """The parts in the order in which they come first, and the part of each node."""
    parts: dict[str, Partition] = {}
    part_of: dict[str, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        if name not in parts:
            parts[name] = Partition(name, f"submod_{affix}_{name}" if affix else f"submod_{name}")
        parts[name].add_node(node)
        part_of[node.name] = name
    return parts, part_of


def _connect(parts: dict[str, Partition], source: str | None, target: str | None, value: str) -> None:
    """Note that a part takes a value of another, or of the whole."""
    if source == target:
        return
    if source is not None:
        parts[source].outputs.setdefault(value)
        if target is not None:
            parts[source].dependents.setdefault(target)
            parts[target].dependencies.setdefault(source)
    if target is not None:
        parts[target].inputs.setdefault(value)


def _ordered(parts: dict[str, Partition]) -> list[str]:
    waiting = {name: set(part.dependencies) for name, part in parts.items()}
    order: list[str] = []
    ready = [name for name, needs in waiting.items() if not needs]
    while ready:
        name = ready.pop(0)
        order.append(name)
        for other in parts[name].dependents:
            waiting[other].discard(name)
            if not waiting[other] and other not in order and other not in ready:
                ready.append(other)
    if len(order) != len(parts):
        raise RuntimeError("cycle exists between partitions!")
    return order


def _member(root: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(root, part):
            raise RuntimeError(f"Operator target {path} not found!")
        root = getattr(root, part)
    return root


def _copy_node(part: Partition, node: Node, root: Module, qualname_map: dict[str, str] | None, keeps_name: bool) -> None:
    args, kwargs = map_arg(node.args, part.environment.__getitem__), map_arg(node.kwargs, part.environment.__getitem__)
    target = node.target
    if node.op == "call_module":
        target = str(node.target).replace(".", "_")
        part.targets[target] = _member(root, str(node.target))
        if qualname_map is not None:
            qualname_map[f"{part.submod_name}.{target}"] = str(node.target)
    made = part.graph.create_node(node.op, target, args, dict(kwargs), node.name if keeps_name else None, node.type)
    made.meta = dict(node.meta)
    part.environment[node] = made


def _joined(
    m: GraphModule, root: Module, parts: dict[str, Partition], order: list[str], by_name: dict[str, Node], tuple_return: bool
) -> GraphModule:
    """The module that calls the parts."""
    whole = Graph()
    values: dict[Node, Any] = {}
    members: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            values[node] = whole.placeholder(str(node.target), node.type, node.args[0] if node.args else ...)
            values[node].meta = dict(node.meta)
        elif node.op == "get_attr":
            values[node] = whole.get_attr(str(node.target))
            members[str(node.target)] = _member(root, str(node.target))
    for name in order:
        part = parts[name]
        results = tuple(part.environment[by_name[each]] for each in part.outputs)
        single = len(results) == 1 and not tuple_return
        if results:
            part.graph.output(results[0] if single else results)
        members[part.submod_name] = GraphModule(part.targets, part.graph)
        called = whole.call_module(part.submod_name, tuple(values[by_name[each]] for each in part.inputs))
        if single:
            values[by_name[next(iter(part.outputs))]] = called
        else:
            for i, each in enumerate(part.outputs):
                values[by_name[each]] = whole.call_function(operator.getitem, (called, i))
    for node in m.graph.nodes:
        if node.op == "output":
            whole.output(map_arg(node.args[0], values.__getitem__))
    return GraphModule(members, whole)
