"""Values that are computed again where they are needed rather than kept: less memory for a little more work.

        norm   linear   gelu   linear  ...  backward passes of the four
    x   [=======================================================]
    n          [=========]                              [====]       computed again from x
    w                  [=========================]
    g                           [=====]     [==]                     computed again from w

At the moment at which most memory is needed, the values that wait are looked at. What would be free without one of them, less what would
have to be kept to compute it again, is compared with the work; the best goes, and so on, until less than half of the memory is enough, the
work reaches a share of the graph's, or nothing is gained. Results are the same bit for bit, as the same kernels compute them. Random
numbers and whatever Python does are never done again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from .graph import Graph, Node, Value, copied
from .interpret import is_checked
from .lifetimes import Lifetimes, is_elementwise
from .passes import RANDOM, root_of

__all__ = ["recomputed", "work_of"]

LEAST = 1 << 20  # bytes: graphs that need less stay as they are
KEPT = 0.15  # of all values; programs that need less at a time keep little for later, as those without gradients
ENOUGH = 0.45  # of the memory that is needed where nothing is computed again
SHARE = 0.1  # of the graph's work that may be done again
_NEGLIGIBLE = 1 << 8  # share of the memory: a value of less than one part in so many is kept
_PER_ELEMENT = 16  # products and sums that take as long as one element takes to be read or written
_DEPTH = 4  # operations that are done again for one value
_ALIKE = 0.99  # of the best gain for the work: such values, of layers that are alike, go at once
_ROUNDS, _PATIENCE = 64, 4  # of the search in all, and without gain
_NORMS = ("_layer_norm", "_rms_norm", "_batch_norm", "_group_norm", "_batch_norm_fixed")
_COPIES = ("_reshaped_copy", "clone", "contiguous", "_contiguous", "embedding")
_CHEAP = frozenset(("softmax", "log_softmax", *_COPIES, *[f"nn.functional.{name}" for name in _NORMS]))
_PRODUCTS = frozenset(("matmul", "mm", "bmm", "addmm", "nn.functional.linear"))


def recomputed(graph: Graph, scratch_of: Callable[[Node], int] = lambda node: 0) -> Graph:
    """The graph with values computed again where that needs less memory.

    Args:
        graph: after fusion; it stays as it is.
        scratch_of: bytes that a node's kernel needs for itself.
    """
    search = _Search(graph.copy(), scratch_of)
    search.run()
    return search.graph


def work_of(node: Node) -> float:
    """Estimate of the time of a node, in elements read or written."""
    if node.kind == "view":
        return 0.0
    inputs = list(node.inputs())
    moved = sum(out.size for out in node.outs) + sum(value.size for value in dict.fromkeys(inputs))
    if node.kind != "op":
        return float(moved) + sum(work_of(member) for member in node.members if member.op.key in _PRODUCTS)
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
        original: the graph without.
        again: by value of the original graph the numbers of nodes behind which it is computed anew; what the search decides.
        graph, nodes: as they are by then, with ``lives`` and the bytes that each node needs in ``profile``, the ``most`` of which
            at node number ``peak``.
        demand: by node of that graph, the number of the original one that it is there for.
        origin: by value that is computed again, the value of the original graph, and how often that was computed before.
    """

    def __init__(self, graph: Graph, scratch_of: Callable[[Node], int]):
        self.original, self.scratch_of = graph, cache(scratch_of)
        self.number: dict[Node, int] = {}
        self.maker: dict[Value, Node] = {}  # of a group only what makes the value from the group's other results
        for i, node in enumerate(graph.nodes):
            for out in node.outs:
                maker = self.maker[out] = node if node.kind != "group" or len(node.outs) == 1 else _part(node, out)
                self.number[maker] = i
        self.writes: dict[Value, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.overwritten:
                self.writes.setdefault(root_of(value), []).append(i)
        self.again: dict[Value, tuple[int, ...]] = {}
        self.refused: set[Value] = set()
        self._rebuild()

    # -- the graph as it is by then ---------------------------------------------------------------------------------------------------
    def _rebuild(self) -> None:
        self.nodes: list[Node] = []
        self.demand: list[int] = []
        self.origin: dict[Value, tuple[Value, int]] = {}
        self._made: dict[tuple[Value, Any], Value] = {}
        for i, node in enumerate(self.original.nodes):
            if node.kind != "view":
                new = {value: self._late(value, i) for value in node.inputs()}
                if any(late is not value for value, late in new.items()):
                    new.update((out, out) for out in node.outs)
                    node = copied(node, new)
            self._add(node, i)
        self.graph = self.original.with_nodes(self.nodes)
        self.lives = Lifetimes(self.graph, self.nodes)
        self.profile = self.lives.profile(self.nodes, self.scratch_of)
        self.most = max(self.profile, default=0)
        self.peak = self.profile.index(self.most) if self.profile else 0

    def _add(self, node: Node, i: int) -> None:
        self.nodes.append(node)
        self.demand.append(i)
        for out in node.outs:
            out.node = node  # not a copy of it that an earlier state of the search had

    def _late(self, value: Value, i: int) -> Value:
        """The value that node i of the original graph takes for one."""
        node = self.maker.get(value)
        if node is None or (node.kind != "view" and value not in self.again):
            return value
        if node.kind == "view":
            version: Any = self._late(node.args[0], i)
            is_first = version is node.args[0]
        else:
            version = self._version(value, i)
            is_first = not version
        if is_first:
            return value
        made = self._made.get((value, version))
        if made is None:
            copy = copied(node, {each: self._late(each, i) for each in node.inputs()})
            self._add(copy, i)
            made = self._made[value, version] = copy.outs[node.outs.index(value)]
            self.origin[made] = value, version
        return made

    def _version(self, value: Value, i: int) -> int:
        """The number of times that a value has been computed again when node i of the original graph needs it."""
        return sum(behind < i for behind in self.again.get(value, ()))

    # -- what to compute again ------------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Go on until it is enough, or nothing is gained for a while."""
        if self.most < max(LEAST, KEPT * sum(self.lives.bytes_of.values())):
            return
        enough = ENOUGH * self.most
        left = SHARE * sum(map(work_of, self.original.nodes))
        best = self.most, self.again, left
        tried: list[Value] = []  # since the best
        for _ in range(_ROUNDS):
            found = self._best(left, self.most - enough) if best[0] > enough and len(tried) < _PATIENCE else []
            if found:
                for candidate in found:
                    self._take(candidate)
                left -= sum(candidate.work for candidate in found)
                tried.append(self._first_one(found[0].values[0]))
            elif tried:
                self.refused.add(tried[0])
                tried = []
                self.again, left = best[1:]
            else:
                break
            self._rebuild()
            if self.most < best[0]:
                best, tried = (self.most, self.again, left), []
        if self.again is not best[1]:
            self.again = best[1]
            self._rebuild()

    def _take(self, candidate: _Candidate) -> None:
        for root in candidate.values:
            value = self._first_one(root)
            self.again = {**self.again, value: tuple(sorted({*self.again.get(value, ()), self._behind(root)}))}

    def _behind(self, root: Value) -> int:
        """The number of the last node that needs a value before the moment of most memory."""
        return max(self.demand[use] for use in self.lives.uses[root] if use < self.peak)

    def _best(self, left: float, wanted: float) -> list[_Candidate]:
        """The candidates that gain most for the work, as many as may be done until ``wanted`` bytes are gained."""
        found = [candidate for root in self.lives.uses if (candidate := self._candidate(root)) is not None and candidate.work <= left]
        found.sort(key=lambda candidate: -candidate.gained / candidate.work)
        chosen: list[_Candidate] = []
        taken: set[Value] = set()
        for candidate in found:
            if wanted <= 0 or candidate.gained * found[0].work < _ALIKE * found[0].gained * candidate.work:
                break
            if candidate.work <= left and taken.isdisjoint(candidate.values):
                chosen.append(candidate)
                taken.update(candidate.values)
                left -= candidate.work
                wanted -= candidate.gained
        return chosen

    def _candidate(self, root: Value) -> _Candidate | None:
        uses, size = self.lives.uses[root], self.lives.bytes_of[root]
        if not uses[0] < self.peak < uses[-1] or self.peak in uses or size * _NEGLIGIBLE < self.most:
            return None
        values: list[Value] = []
        gained = self._without(root, next(use for use in uses if use > self.peak), uses[-1], values)
        if gained <= 0:
            return None
        return _Candidate(tuple(values), gained, sum(work_of(self._maker(value)) for value in values))

    def _first_one(self, root: Value) -> Value:
        """The value of the original graph of which a value of the present one is a repetition, or itself."""
        return self.origin[root][0] if root in self.origin else root

    def _maker(self, root: Value) -> Node:
        """The node of the original graph that makes a value of the present one."""
        return self.maker[self._first_one(root)]

    def _without(self, root: Value, begin: int, end: int, values: list[Value]) -> int:
        """Bytes that are free at the moment of most memory if a value is computed again at node ``begin``.

        Args:
            end: the node that needs it last.
            values: gets the value, and those that are computed again for it.
        """
        size = self.lives.bytes_of[root]
        if len(values) >= _DEPTH or self._behind(root) >= self.demand[begin] or not self._may_be_done_again(root, end):
            return -size
        values.append(root)
        gained = size if self.lives.uses[root][-1] > self.peak else 0
        maker = self.nodes[self.lives.uses[root][0]] if root in self.origin else self.maker[root]
        for operand in self.lives.read(maker):
            last = self.lives.uses[operand][-1]
            value, version = self.origin.get(operand, (operand, 0))
            is_there = last >= begin or operand in values or self._version(value, self.demand[begin]) != version
            if not is_there and last <= self.peak:
                gained += self._without(operand, begin, end, values)
        return gained

    def _may_be_done_again(self, root: Value, end: int) -> bool:
        node, until = self._maker(root), self.demand[end]
        if self._first_one(root) in self.refused or root in self.writes or not _is_cheap(node):
            return False
        number = self.number[node]
        return not any(number < write <= until for value in node.inputs() for write in self.writes.get(root_of(value), ()))


def _part(group: Node, out: Value) -> Node:
    """The node that makes one result of a group from operands and the group's other results."""
    maker = {made: node for node in group.members for made in node.outs}
    needed: dict[Node, None] = {}
    stack = [maker[out]]
    while stack:
        node = stack.pop()
        needed[node] = None
        stack += [maker[value] for value in node.inputs() if value in maker and value not in group.outs and maker[value] not in needed]
    members = tuple([node for node in group.members if node in needed])
    made = {each for node in members for each in node.outs}
    args = dict.fromkeys(value for node in members for value in node.inputs() if value not in made or maker[value] not in needed)
    part = Node("group", None, args, [out], members=members)
    out.node = group
    return part


def _is_cheap(node: Node) -> bool:
    if node.kind == "op" and (node.op.name in RANDOM or is_checked(node)):
        return False
    return is_elementwise(node) or (node.kind == "op" and node.op.key in _CHEAP | _PRODUCTS)
