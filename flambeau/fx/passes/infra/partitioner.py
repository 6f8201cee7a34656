"""Parts of a graph that something supports, as large as they can be. Source: torch.fx.passes.infra.partitioner.

    relu --+--> add        supported: relu, add; not: sin
           |     ^         one part cannot have all three: a value would go out of it, to sin, and come back
          sin ---+

Nodes are looked at from the last to the first. Each begins a part of its own, which is then joined with all others with which it may be.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ...graph_module import GraphModule
from ...node import Node, qualified_name
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import downstream_of, fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

logger = logging.getLogger(__name__)


class Partition:
    """Nodes that may become one.

    Args:
        id: a number. nodes, node_orders: the nodes, and their places in the graph.
    Raises:
        AssertionError: more of one than of the other.
    Source: torch.fx.passes.infra.partitioner.Partition.
    Example:
        >>> torch.fx.passes.infra.partitioner.Partition(1).size()
        0
    """

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None):
        self.id = id
        given = list(nodes or ())
        places: list[Any] = [None] * len(given) if node_orders is None else list(node_orders)
        if len(places) != len(given):
            raise AssertionError("nodes and node_orders must have the same length")
        self.nodes: dict[Node, int | None] = dict(zip(given, places, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node. Source: torch.fx.passes.infra.partitioner.Partition.add_node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Take a node out. Source: torch.fx.passes.infra.partitioner.Partition.remove_node."""
        del self.nodes[node]

    def size(self) -> int:
        """The number of nodes. Source: torch.fx.passes.infra.partitioner.Partition.size."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Finds the parts of a graph that a rule supports, and makes modules of them.

    Args:
        graph_module: the module. operator_support: the rule.
        allows_single_node_partition: whether a part may have one node that computes something.
        non_compute_ops: names of functions that compute nothing, beside indexing.
        allowed_single_node_partition_ops: names of functions that may be alone all the same.
        skip_horizontal_fusion: whether parts are joined only if one takes a value of the other.
    Source: torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner.
    Example:
        >>> from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        >>> from flambeau.fx.passes.operator_support import create_op_support
        >>> module = torch.fx.symbolic_trace(lambda x: torch.sin(torch.relu(x) + 1))
        >>> rule = create_op_support(lambda submodules, node: node.name in ("relu", "add"))
        >>> [node.name for node in CapabilityBasedPartitioner(module, rule).partition_and_fuse().graph.nodes]
        ['x', 'fused_0', 'sin', 'output']
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ):
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition, self.skip_horizontal_fusion = allows_single_node_partition, skip_horizontal_fusion
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())

    def propose_partitions(self) -> list[Partition]:
        """The parts. Source: torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner.propose_partitions."""
        parts = _Parts(self.graph_module, self.skip_horizontal_fusion)
        modules = dict(self.graph_module.named_modules())
        for node in reversed(self.graph_module.graph.nodes):
            parts.visit(node, self.operator_support.is_node_supported(modules, node))
        parts.keep_items_with_their_tuples()
        found = [part for part in parts.by_id.values() if part.size() > 0]
        return [part for part in found if self.allows_single_node_partition or self._is_worth(part)]

    def _is_worth(self, part: Partition) -> bool:
        """Whether a part has more than one node that computes something, or one that may be alone."""
        idle = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        called = [qualified_name(node.target) for node in part.nodes if node.op == "call_function"]  # type: ignore[arg-type]
        computing = sum(name not in idle for name in called) + sum(name in self.allowed_single_node_partition_ops for name in called)
        return computing > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Make modules of parts. Source: torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner.fuse_partitions."""
        logger.debug("Fusing partitions...")
        return fuse_by_partitions(self.graph_module, [part.nodes for part in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take nodes that compute nothing from the beginnings and the ends of parts.

        Source: torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner.remove_bookend_non_compute_ops.
        """
        idle = set(self.non_compute_ops)

        def is_idle(node: Node) -> bool:
            return node.op == "call_function" and qualified_name(node.target) in idle  # type: ignore[arg-type]

        for part in partitions:
            for edges in ("all_input_nodes", "users"):
                removed = True
                while removed:
                    removed = False
                    for node in list(part.nodes):
                        if is_idle(node) and not any(each in part.nodes for each in getattr(node, edges)):
                            part.remove_node(node)
                            removed = True

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Find the parts and make modules of them. Source: torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


class _Parts:
    """The parts so far.

    Attributes:
        by_id: all of them. part_of: the part of a node.
    """

    def __init__(self, module: GraphModule, only_connected: bool):
        self.by_id: dict[int, Partition] = {}
        self.part_of: dict[Node, int] = {}
        self._ranks: dict[int, int] = {}  # of parts: the least of the numbers of the parts that were joined to it
        self._numbers = itertools.count()
        self._places = {node: place for place, node in enumerate(module.graph.nodes)}
        self._nodes, self._only_connected = list(module.graph.nodes), only_connected

    def visit(self, node: Node, is_supported: bool) -> None:
        """Begin a part with a node, if it is supported, and join what may be joined."""
        candidates: list[int] = []
        if is_supported:
            number = next(self._numbers)
            self.by_id[number], self._ranks[number] = Partition(number, [node], [self._places[node]]), number
            self.part_of[node] = number
            candidates.append(number)
        candidates += [number for number in sorted(self._ranks, key=self._ranks.__getitem__) if number not in candidates]
        if self._only_connected:
            reached = {self.part_of[user] for user in node.users if user in self.part_of}
            candidates = [number for place, number in enumerate(candidates) if not place or number in reached] if is_supported else []
        if candidates:
            mine = candidates[0]
            for other in candidates[1:]:
                mine = self._joined(mine, other)

    def _joined(self, mine: int, other: int) -> int:
        """Join two parts, if no value would go out and come back; the number of the part that ``mine`` is in now."""
        nodes = {**self.by_id[mine].nodes, **self.by_id[other].nodes}
        outside = {user for node in nodes for user in node.users if user not in nodes}
        if self._leads_back(outside, nodes):
            return mine
        if self.by_id[mine].size() < self.by_id[other].size():
            mine, other = other, mine
        removed = self.by_id.pop(other)
        self._ranks[mine] = min(self._ranks[mine], self._ranks.pop(other))
        self.part_of.update(dict.fromkeys(removed.nodes, mine))
        self.by_id[mine].nodes = dict(sorted({**self.by_id[mine].nodes, **removed.nodes}.items(), key=lambda item: item[1] or 0))
        return mine

    def _leads_back(self, nodes: set[Node], into: dict[Node, Any]) -> bool:
        """Whether one of ``into`` needs one of ``nodes``, where a whole part needs what any node of it does."""
        seen: set[Node] = set()
        stack = list(nodes)
        while stack:
            for node in downstream_of([stack.pop()]):
                if node in seen:
                    continue
                if node in into:
                    return True
                seen.add(node)
                part = self.part_of.get(node)
                if part is not None:
                    stack += [each for each in self.by_id[part].nodes if each not in seen]
        return False

    def keep_items_with_their_tuples(self) -> None:
        """Items of a tuple belong to the part of the node that gives it."""
        for node in self._nodes:
            if not node.users or not all(getattr(user.target, "__name__", "") == "getitem" for user in node.users):
                continue
            part = self.part_of.get(node)
            for user in node.users:
                had = self.part_of.get(user)
                if had == part:
                    continue
                if had is not None:
                    self.by_id[had].remove_node(user)
                    del self.part_of[user]
                if part is not None:
                    self.by_id[part].add_node(user, self._places[user])
                    self.part_of[user] = part
