"""Finding of parts of graphs that are as a pattern says. Source: torch.fx.passes.utils.matcher_utils."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place where a pattern was found.

    Args:
        anchors: its last nodes.
    Attributes:
        anchors: its last nodes. nodes_map: its node for each node of the pattern.
        placeholder_nodes: what stands for the pattern's arguments, in their order. returning_nodes: what stands for its results.
        name_node_map: its nodes by names, where the pattern returns such a dict.
    Source: torch.fx.passes.utils.matcher_utils.InternalMatch.
    Example:
        >>> from flambeau.fx.passes.utils.matcher_utils import InternalMatch
        >>> InternalMatch(anchors=[]).nodes_map
        {}
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(self.anchors, dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes))


class SubgraphMatcher:
    """Finds the places of a pattern in a graph, matching backwards from its results.

    Args:
        pattern: the graph of the pattern. match_output: whether its output has to be the whole graph's.
        match_placeholder: whether its arguments have to be the whole graph's.
        remove_overlapping_matches: whether places that overlap earlier ones are left.
        ignore_literals: whether constants of the pattern match any others.
    Raises:
        ValueError: a pattern without nodes.
    Source: torch.fx.passes.utils.matcher_utils.SubgraphMatcher.
    Example:
        >>> from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
        >>> pattern, whole = (torch.fx.symbolic_trace(f).graph for f in (lambda x: x + 1, lambda x: (x + 1) * 2))
        >>> len(SubgraphMatcher(pattern).match(whole))
        1
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ):
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            self.pattern_anchors = [node for node in output.all_input_nodes if len(node.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places of the pattern in a graph, in its order.

        Args:
            graph: where to look. node_name_match: nodes of other names are no last nodes of a place.
        """
        candidates = {
            anchor: [node for node in graph.nodes if self._fits(anchor, node) and node_name_match in node.name]
            for anchor in self.pattern_anchors
        }
        found: list[InternalMatch] = []

        def extend(index: int, match: InternalMatch) -> None:
            if index == len(self.pattern_anchors):
                match.placeholder_nodes = [match.nodes_map.get(node) for node in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[node] for node in self.pattern_returning_nodes]
                found.append(match)
                return
            anchor = self.pattern_anchors[index]
            for node in candidates[anchor]:
                longer = copy.copy(match)
                if self._match_nodes(anchor, node, longer):
                    longer.anchors = [*match.anchors, node]
                    extend(index + 1, longer)

        extend(0, InternalMatch(anchors=[]))
        found = [match for match in found if self._is_contained(match)]
        order = {node: i for i, node in enumerate(graph.nodes)}
        found = [match for match in found if self._is_acyclic(match, order)]
        if not self.remove_overlapping_matches:
            return found
        taken: set[Node] = set()
        kept = []
        for match in found:
            own = {node for mine, node in match.nodes_map.items() if mine.op not in ("placeholder", "output") and isinstance(node, Node)}
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept

    def _fits(self, mine: Node, other: Node) -> bool:
        """Whether two nodes do the same, their arguments aside."""
        if mine.op == "placeholder" and not self.match_placeholder:
            return True
        if mine.op != other.op:
            return False
        if mine.op in ("placeholder", "output"):
            return True
        if mine.op == "get_attr":
            return mine.target == other.target or str(mine.target).rpartition(".")[2] == str(other.target).rpartition(".")[2]
        return mine.target == other.target

    def _match_nodes(self, mine: Node, other: Any, match: InternalMatch) -> bool:
        if not isinstance(other, Node):
            return False
        if mine in match.nodes_map:
            return match.nodes_map[mine] is other
        if other in match.nodes_map.values() and mine.op != "placeholder":
            return False
        if not self._fits(mine, other):
            return False
        saved = dict(match.nodes_map)
        match.nodes_map[mine] = other
        if mine.op == "placeholder":
            return True
        if self._match_arguments(mine, other, match):
            return True
        match.nodes_map.clear()
        match.nodes_map.update(saved)
        return False

    def _match_arguments(self, mine: Node, other: Node, match: InternalMatch) -> bool:
        args, kwargs, other_args, other_kwargs = mine.args, mine.kwargs, other.args, other.kwargs
        if (len(args) != len(other_args) or kwargs.keys() != other_kwargs.keys()) and mine.op in ("call_function", "call_module"):
            one = mine.normalized_arguments(mine.graph.owning_module, normalize_to_only_use_kwargs=True)
            two = other.normalized_arguments(other.graph.owning_module, normalize_to_only_use_kwargs=True)
            if one is not None and two is not None:
                (args, kwargs), (other_args, other_kwargs) = one, two
        if len(args) != len(other_args) or kwargs.keys() != other_kwargs.keys():
            return False
        pairs = [*zip(args, other_args, strict=True), *((kwargs[key], other_kwargs[key]) for key in kwargs)]
        return all(self._match_values(one, two, match) for one, two in pairs)

    def _match_values(self, mine: Any, other: Any, match: InternalMatch) -> bool:
        if isinstance(mine, Node):
            if not isinstance(other, Node) and mine.op == "placeholder":
                if mine in match.nodes_map:
                    return type(match.nodes_map[mine]) is type(other) and match.nodes_map[mine] == other
                match.nodes_map[mine] = other
                return True
            return self._match_nodes(mine, other, match)
        if isinstance(mine, list | tuple):
            return (
                isinstance(other, list | tuple)
                and len(mine) == len(other)
                and all(self._match_values(one, two, match) for one, two in zip(mine, other, strict=True))
            )
        if isinstance(mine, dict):
            alike = isinstance(other, dict) and mine.keys() == other.keys()
            return alike and all(self._match_values(mine[key], other[key], match) for key in mine)
        if isinstance(other, Node):
            return False
        return self.ignore_literals or (type(mine) is type(other) and mine == other)

    def _is_contained(self, match: InternalMatch) -> bool:
        """Whether nothing outside uses values of the place but its results."""
        lookup = {node: mine for mine, node in match.nodes_map.items() if isinstance(node, Node)}
        for node, mine in lookup.items():
            if mine.op == "placeholder" or mine in self.pattern_returning_nodes:
                continue
            if any(user not in lookup for user in node.users):
                return False
        return True

    def _is_acyclic(self, match: InternalMatch, order: dict[Node, int]) -> bool:
        """Whether no argument of the place is computed of its results."""
        own = {node for mine, node in match.nodes_map.items() if mine.op != "placeholder" and isinstance(node, Node)}
        start = min((order[node] for node in own), default=0)
        for given in match.placeholder_nodes:
            if isinstance(given, Node) and order.get(given, 0) > start and _reaches(given, own, set()):
                return False
        return True


def _reaches(node: Node, targets: set[Node], seen: set[Node]) -> bool:
    """Whether a node is computed of one of ``targets``."""
    for source in node.all_input_nodes:
        if source in targets:
            return True
        if source not in seen:
            seen.add(source)
            if _reaches(source, targets, seen):
                return True
    return False
