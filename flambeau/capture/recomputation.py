"""Values that are computed again where they are needed rather than kept: less memory for a little more work.

        norm   linear   gelu   linear  ...  backward passes of the four
    x   [=======================================================]
    n          [=========]                              [====]       computed again from x
    w                  [=========================]
    g                           [=====]     [==]                     computed again from w

At the moment at which most memory is needed, the values that wait are looked at. What would be free without one of them, less what would have
to be kept to compute it again, is compared with the work; the best goes, and so on, until the work reaches a share of the graph's or nothing
is gained. Results are the same bit for bit, as the same kernels compute them. Random numbers and whatever Python does are never done again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .graph import Graph, Node, Value, _copied
from .interpret import is_checked
from .lifetimes import Lifetimes, replaces
from .passes import RANDOM, root_of

__all__ = ["recomputed", "work_of"]

LEAST = 1 << 20  # bytes: graphs that need less stay as they are
SHARE = 0.05  # work of the graph that may be done again
_NEGLIGIBLE = 1 << 8  # share of the memory: a value of less than one part in so many is kept
_PER_ELEMENT = 16  # products and sums that take as long as one element takes to be read or written
_DEPTH = 4  # operations that are done again for one value
_ROWS = frozenset(
    (
        *("softmax", "log_softmax", "nn.functional._layer_norm", "nn.functional._rms_norm", "nn.functional._batch_norm"),
        *("nn.functional._group_norm", "nn.functional._batch_norm_fixed", "_reshaped_copy", "clone", "contiguous", "_contiguous"),
    )
)
_PRODUCTS = frozenset(("matmul", "mm", "bmm", "addmm", "nn.functional.linear"))


def recomputed(graph: Graph) -> Graph:
    """The graph with values computed again where that needs less memory.

    Args:
        graph: after fusion; it stays as it is, and shares nodes with the result.
    """
    search = _Search(graph)
    search.run()
    return search.graph


def work_of(node: Node) -> float:
    """Estimate of the time of a node, in elements read or written."""
    if node.kind == "view":
        return 0.0
    inputs = list(node.inputs())
    moved = sum(out.size for out in node.outs) + sum(value.size for value in dict.fromkeys(inputs))
    if node.kind != "op":
        return float(moved)
    if node.op.key in _PRODUCTS:
        return moved + node.outs[0].size * inputs[0].shape[-1] * 2 / _PER_ELEMENT
    if "convolution" in node.op.name:
        weight = min((value for value in (*inputs, *node.outs) if len(value.shape) > 2), key=lambda value: value.size)
        across = max(math.prod(value.shape[2:]) * value.shape[0] for value in (*inputs, *node.outs) if len(value.shape) > 2)
        return moved + across * weight.size * 2 / _PER_ELEMENT
    return float(moved)


class _Candidate(NamedTuple):
    """Values to compute again, bytes that are gained at the moment of most memory, and the work."""

    values: tuple[Value, ...]
    gained: int
    work: float


class _Search:
    """The search for values to compute again.

    Attributes:
        graph: as it is by now.
    """

    def __init__(self, graph: Graph):
        self.graph = self.original = graph
        self.number = {node: i for i, node in enumerate(graph.nodes)}
        self.maker = {out: node for node in graph.nodes for out in node.outs}
        self.last_write = self._last_writes()
        self.again: dict[Value, int] = {}  # by value the number of the last node that takes the first one
        self.refused: set[Value] = set()
        self._rebuild()

    def _last_writes(self) -> dict[Value, list[int]]:
        found: dict[Value, list[int]] = {}
        for i, node in enumerate(self.original.nodes):
            for value in node.overwritten:
                found.setdefault(root_of(value), []).append(i)
        return found

    # -- the graph as it is by now --------------------------------------------------------------------------------------------------------
    def _rebuild(self) -> None:
        """Make the graph anew, in which nodes late in the program have values that are computed again just before."""
        made: dict[Value, Value] = {}
        nodes: list[Node] = []
        self.demand: list[int] = []  # by node of the present graph, the number of the original one that it is there for
        for i, node in enumerate(self.original.nodes):
            new = self._with_late(node, i, made, nodes) if node.kind != "view" else node
            nodes.append(new)
            self.demand.append(i)
        self.graph = self.original.with_nodes(nodes)
        self.nodes = nodes
        self.lives = Lifetimes(self.graph, nodes)
        self.profile = self.lives.profile(nodes)
        self.most = max(self.profile, default=0)

    def _with_late(self, node: Node, i: int, made: dict[Value, Value], nodes: list[Node]) -> Node:
        changed: dict[Value, Value] = {}
        for value in dict.fromkeys(node.inputs()):
            late = self._late(value, i, made, nodes)
            if late is not value:
                changed[value] = late
        if not changed:
            return node
        changed.update((out, out) for out in node.outs)
        return self._copy(node, changed)

    def _late(self, value: Value, i: int, made: dict[Value, Value], nodes: list[Node]) -> Value:
        """What node i of the original graph takes for a value."""
        if value in made:
            return made[value]
        node = self.maker.get(value)
        if node is None:
            return value
        if node.kind == "view":
            base = self._late(node.args[0], i, made, nodes)
            if base is node.args[0]:
                return value
        elif value not in self.again or i <= self.again[value]:
            return value
        new = {each: self._late(each, i, made, nodes) for each in dict.fromkeys(node.inputs())}
        copy = self._copy(node, new)
        nodes.append(copy)
        self.demand.append(i)
        made[value] = copy.outs[node.outs.index(value)]
        return made[value]

    @staticmethod
    def _copy(node: Node, new: dict[Value, Value]) -> Node:
        return _copied(node, new)

    # -- what to compute again --------------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Go on until nothing is gained."""
        if self.most < LEAST:
            return
        left = SHARE * sum(map(work_of, self.original.nodes))
        while True:
            best = self._best(left)
            if not best:
                return
            before, most = dict(self.again), self.most
            for candidate in best:
                self._take(candidate)
            self._rebuild()
            if self.most < most:
                left -= sum(candidate.work for candidate in best)
                continue
            self.again = before
            self.refused.update(value for candidate in best for value in candidate.values)
            self._rebuild()

    def _take(self, candidate: _Candidate) -> None:
        for value in candidate.values:
            uses = self.lives.uses[value]
            self.again[value] = max(self.demand[use] for use in uses if use < self.peak)

    def _best(self, left: float) -> list[_Candidate]:
        """The candidates that gain most for the work, as many as may be done."""
        self.peak = self.profile.index(self.most)
        found = [candidate for root, uses in self.lives.uses.items() if (candidate := self._candidate(root, uses)) is not None]
        found.sort(key=lambda candidate: -candidate.gained / candidate.work)
        chosen: list[_Candidate] = []
        taken: set[Value] = set()
        for candidate in found:
            if chosen and candidate.gained / candidate.work < 0.99 * chosen[0].gained / chosen[0].work:
                break
            if candidate.work <= left and taken.isdisjoint(candidate.values):
                chosen.append(candidate)
                taken.update(candidate.values)
                left -= candidate.work
        return chosen

    def _candidate(self, root: Value, uses: list[int]) -> _Candidate | None:
        peak = self.peak
        if not uses[0] < peak < uses[-1] or peak in uses or root in self.refused or self.lives.bytes_of[root] * _NEGLIGIBLE < self.most:
            return None
        values: list[Value] = []
        gained = self._without(root, next(use for use in uses if use > peak), uses[-1], values)
        if gained <= 0:
            return None
        return _Candidate(tuple(values), gained, sum(work_of(self.maker[value]) for value in values))

    def _without(self, root: Value, begin: int, end: int, values: list[Value]) -> int:
        """Bytes that are free at the moment of most memory if a value is computed again at node ``begin``; ``values`` gets which with it."""
        if not self._may_be_done_again(root, end) or len(values) >= _DEPTH:
            return -self.lives.bytes_of[root]
        values.append(root)
        gained = self.lives.bytes_of[root] if self.lives.uses[root][-1] > self.peak else 0
        for operand in self.lives.read(self.maker[root]):
            last = self.lives.uses[operand][-1]
            if operand in values or operand in self.again or last >= begin:
                continue
            if last <= self.peak:
                gained += self._without(operand, begin, end, values)
        return gained

    def _may_be_done_again(self, root: Value, end: int) -> bool:
        node = self.maker.get(root)
        if node is None or root in self.again or root in self.refused or not _is_cheap(node):
            return False
        number, until = self.number[node], self.demand[end]
        return not any(number < write <= until for value in node.inputs() for write in self.last_write.get(root_of(value), ()))


def _is_cheap(node: Node) -> bool:
    if node.kind == "op" and (node.op.name in RANDOM or is_checked(node)):
        return False
    return replaces(node) or (node.kind == "op" and node.op.key in _ROWS | _PRODUCTS)
