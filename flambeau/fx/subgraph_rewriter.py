"""Replacing of parts of graphs that are as a pattern says. Source: torch.fx.subgraph_rewriter."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place where a pattern was found.

    Args:
        anchor, nodes_map: the attributes.
    Source: torch.fx.subgraph_rewriter.Match.

    Attributes:
        anchor: the last node of the place. nodes_map: its node for each node of the pattern.
    Example:
        >>> torch.fx.subgraph_rewriter.Match(None, {}).nodes_map
        {}
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place where a pattern was replaced.

    Args:
        anchor, nodes_map, replacements: the attributes.
    Source: torch.fx.subgraph_rewriter.ReplacedPatterns.

    Attributes:
        anchor: the last node of what was replaced. nodes_map: its node for each node of the pattern. replacements: the new nodes.
    Example:
        >>> torch.fx.subgraph_rewriter.ReplacedPatterns(None, {}).replacements
        []
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node] = field(default_factory=list)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Put other operations in place of those that a pattern says, wherever they are.

    Args:
        gm: the module whose graph is changed; it is compiled again.
        pattern: a function or module whose operations are looked for; its arguments match any value.
        replacement: a function or module whose operations come in their place, of the same number of arguments.
    Returns:
        What was found; places that overlap earlier ones are left.
    Source: torch.fx.replace_pattern.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> found = torch.fx.replace_pattern(module, lambda x: torch.relu(x), lambda x: torch.sigmoid(x))
        >>> len(found), module(torch.zeros(1))
        (1, tensor([1.5000]))
    """
    return [Match(each.anchor, each.nodes_map) for each in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """``replace_pattern`` where filters agree.

    Args:
        gm, pattern, replacement: as of ``replace_pattern``; graphs, too.
        match_filters: each is given the place, the whole graph and the pattern; all have to be true.
        ignore_literals: whether numbers and other constants in the pattern match any others.
        replacement_callback: makes the replacement for each place, in place of ``replacement``.
        node_name_match: only ``""`` is supported.
    Returns:
        What was replaced.
    Raises:
        NotImplementedError: ``node_name_match``.
    Source: torch.fx.subgraph_rewriter.replace_pattern_with_filters.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> torch.fx.subgraph_rewriter.replace_pattern_with_filters(
        ...     module, lambda x: torch.relu(x), lambda x: x * 2, [lambda match, graph, pattern: False])
        []
    """
    if node_name_match:
        raise NotImplementedError("replace_pattern_with_filters(node_name_match=...) is not supported")
    return _replace(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback)


def _graph_of(program: Any) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    match_filters: Any = None,
    ignore_literals: bool = False,
    replacement_callback: Any = None,
) -> list[ReplacedPatterns]:
    sought, whole = _graph_of(pattern), gm.graph
    matches = SubgraphMatcher(sought, ignore_literals=ignore_literals).match(whole, node_name_match="")
    matches = [match for match in matches if all(agrees(match, whole, sought) for agrees in match_filters or ())]
    common = None
    if replacement_callback is None:
        if replacement is None:
            raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
        common = _graph_of(replacement)
    done: list[ReplacedPatterns] = []
    changed: dict[Node, Node] = {}
    for match in matches:
        new = common if common is not None else replacement_callback(match, whole, sought)
        done.append(_replace_one(whole, match, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_members(gm, replacement)
    return done


def _replace_one(whole: Graph, match: InternalMatch, new: Graph, changed: dict[Node, Node]) -> ReplacedPatterns:
    inputs = [node for node in new.nodes if node.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"expected {len(match.placeholder_nodes)} arguments of the replacement, got {len(inputs)}")
    values: dict[Node, Any] = {}
    for own, given in zip(inputs, match.placeholder_nodes, strict=True):
        values[own] = changed.get(given, given) if isinstance(given, Node) else given
    inside = set(match.nodes_map.values()) - {each for each in match.placeholder_nodes if isinstance(each, Node)}
    users = {user for node in match.returning_nodes for user in node.users if user not in inside}
    first = next((node for node in whole.nodes if node in users), None)
    before = set(whole.nodes)
    with whole.inserting_before(first if first is not None else match.returning_nodes[0].next):
        returned = whole.graph_copy(new, values)
    copied = returned if isinstance(returned, tuple | list) else (returned,)
    if len(match.returning_nodes) != len(copied):
        raise AssertionError(f"expected {len(match.returning_nodes)} results of the replacement, got {len(copied)}")
    for old, made in zip(match.returning_nodes, copied, strict=True):
        old.replace_all_uses_with(made)
        changed[old] = made
    for node in reversed(list(whole.nodes)):
        if node in inside and not node.users:
            whole.erase_node(node)
    made_nodes = [node for node in whole.nodes if node not in before]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made_nodes)


def _take_members(gm: GraphModule, replacement: Module) -> None:
    """Give a module what the replacement has and it has not."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        path = str(node.target)
        if _found(gm, path) is not None:
            continue
        member = _found(replacement, path)
        if member is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {path}, but the referenced attribute does '
                "not exist in the replacement GraphModule or the original GraphModule"
            )
        if isinstance(member, Module):
            gm.add_submodule(path, copy.deepcopy(member))
        else:
            *outer, name = path.split(".")
            owner: Any = gm
            for part in outer:
                owner = getattr(owner, part)
            setattr(owner, name, member)
    gm.graph.lint()


def _found(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module
