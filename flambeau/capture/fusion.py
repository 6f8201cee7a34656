"""Element-wise nodes of one shape, and operations along its rows, as groups, each of which one kernel computes.

A node joins the group of what it is computed from if nothing outside lies between them, for a group runs as one:

    a = exp(x)          b may not join a's group if c is outside of it: the group would have to
    c = sum(a)          run before c and after it
    b = a / c

What lies between is seen in sets of ancestors, one bit a node, kept for whole groups. A write counts as a reader of all that reads the
memory as it was, so that nothing moves across it.

A group with a softmax, a norm or sums of the last dimensions has rows (``rowwise.Frame``): its other nodes have the shape of the elements,
or that of one value for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FunctionType

from .elementwise import divides_integers, has_program
from .graph import Graph, Node, Value
from .rowwise import Frame, fits, frame_of

__all__ = ["PRODUCTS", "factors", "fused", "may_refuse", "ordered", "predecessors"]

LARGEST = 24  # members of a group
ARRAYS = 14  # that a group reads and writes: each is a stream of memory that the processor has to follow
_OF_MATRICES = frozenset(
    f"linalg.{name}"
    for name in "cholesky_factors decompositions exponentials inverses least_squares linear_systems low_rank lu_factors".split()
)  # modules
_OF_RANGES = frozenset(("_binary_cross_entropy", "histc"))
PRODUCTS = frozenset(("matmul", "mm"))  # with which a group may begin (``epilogues``)


def fused(graph: Graph) -> Graph:
    """The graph with groups of element-wise nodes.

    Args:
        graph: it stays as it is.
    """
    graph = graph.copy()
    groups = _Groups(graph).found()
    if not groups:
        return graph
    users, outputs = graph.users(), set(graph.outputs)
    instead: dict[Node, Node] = {}
    for members in groups:
        inside = set(members)
        made = {out: None for node in members for out in node.outs}
        args = dict.fromkeys(value for node in members for value in node.inputs() if value not in made)
        outs = [out for out in made if out in outputs or any(user not in inside for user in users.get(out, ()))]
        group = Node("group", None, args, outs, members=tuple(members))
        instead.update(dict.fromkeys(members, group))
    return ordered(graph.with_nodes(dict.fromkeys(instead.get(node, node) for node in graph.nodes)))


def predecessors(graph: Graph) -> dict[Node, list[Node]]:
    """The nodes that must run before each: what makes its operands, readers of memory that it overwrites, earlier calls and writes.

    Nodes may stand in any order but for calls, writes, and operations that may raise, which do so when what came before is done: who reads
    memory as it was names its value before the write.
    """
    maker = {out: node for node in graph.nodes for out in node.outs}
    shown = {node.outs[0]: node.args[0] for node in graph.nodes if node.kind == "view"}

    def memory(value: Value) -> Value:
        while value in shown:
            value = shown[value]
        return value

    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs():
            readers.setdefault(memory(value), []).append(node)
    found: dict[Node, list[Node]] = {}
    pinned: Node | None = None
    for node in graph.nodes:
        before = dict.fromkeys(maker[value] for value in node.inputs() if value in maker)
        for old in node.overwritten:
            before.update(dict.fromkeys(readers.get(memory(old), ())))
        if node.kind in ("write", "call") or may_refuse(node):
            if pinned is not None:
                before[pinned] = None
            pinned = node
        before.pop(node, None)
        found[node] = list(before)
    return found


def may_refuse(node: Node) -> bool:
    """Whether a node raises for some contents of its operands: indices, divisors, matrices, or any that an own operation refuses."""
    return any(map(_refuses, node.members or (node,)))


def _refuses(node: Node) -> bool:
    if node.kind != "op":
        return node.kind == "call" and node.random and node.op.__class__ is FunctionType  # draws by weights that are looked at
    if node.op.elementwise:
        return divides_integers(node)
    whole = any(value.dtype.kind in "iu" for value in node.inputs())
    package, _, family = node.op.kernel.__module__.partition(".ops.")
    return whole or family in _OF_MATRICES or node.op.name in _OF_RANGES or package.partition(".")[0] != __name__.partition(".")[0]


def factors(node: Node) -> list[Value]:
    """The values that a group which begins with a product multiplies; its kernel reads them as long as it writes results."""
    return [value for member in node.members if member.op.key in PRODUCTS for value in member.inputs()]


class _Groups:
    """The search for groups, node by node in the program's order."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.before = predecessors(graph)
        self.number = {node: i for i, node in enumerate(graph.nodes)}
        self.bit = {node: 1 << i for node, i in self.number.items()}
        self.above: dict[Node, int] = {}  # ancestors of a node; for the members of a group those of all of them
        self.group: dict[Node, list[Node]] = {}
        self.frame: dict[Node, Frame] = {}

    def found(self) -> list[list[Node]]:
        """Groups of two nodes and more."""
        for node in self.graph.nodes:
            above = 0
            for other in self.before[node]:
                above |= self.bit[other] | self.above[other]
            self.above[node] = above
            frame = Frame(node.outs[0].shape) if has_program(node) and node.outs[0].size else frame_of(node)
            if frame is not None:
                self._join(node, frame)
        groups = {id(members): members for members in self.group.values()}
        return [members for members in groups.values() if len(members) > 1]

    def _join(self, node: Node, frame: Frame) -> None:
        members = self.group[node] = [node]
        self.frame[node] = frame
        for other in self.before[node]:
            theirs = self.group.get(other)
            if theirs is None or theirs is members:
                continue
            both, joined = theirs + members, self._frame_of(theirs, members)
            if joined is not None and len(both) <= LARGEST and _arrays_of(both) <= ARRAYS and self._closed(both):
                members = self._unite(both)
                self.frame.update(dict.fromkeys(members, joined))

    def _frame_of(self, a: Sequence[Node], b: Sequence[Node]) -> Frame | None:
        """The frame of two groups together; None where one kernel cannot do both."""
        first, second = self.frame[a[0]], self.frame[b[0]]
        frame = first.joined(second)
        if frame is None or not frame.row:
            return frame if frame is not None and _alike(a[0], b[0]) else None
        members = (*a, *b)
        made = {out for node in members for out in node.outs}
        read = {value for node in members for value in node.inputs() if value in made}
        if not all(value.shape in (frame.shape, frame.reduced) for value in read):
            return None  # sums without the dimensions that they are along: a shape that means something else where it is broadcast
        return frame if all(fits(node, frame) for node in members) else None

    def _closed(self, members: Sequence[Node]) -> bool:
        """Whether no path leads out of these nodes and back into them."""
        inside = self._bits(members)
        for node in members:
            for other in self.before[node]:
                if not self.bit[other] & inside and self.above[other] & inside:
                    return False
        return True

    def _bits(self, members: Iterable[Node]) -> int:
        bits = 0
        for node in members:
            bits |= self.bit[node]
        return bits

    def _unite(self, members: list[Node]) -> list[Node]:
        members = sorted(members, key=self.bit.__getitem__)
        inside, above = self._bits(members), 0
        for node in members:
            above |= self.above[node]
        above &= ~inside
        for node in members:
            self.group[node] = members
            self.above[node] = above
        for node in self.graph.nodes[self.number[members[0]] : self.number[members[-1]]]:
            own = self.above[node]
            if own & inside:  # whatever needs one member now needs what any of them needs
                self.above[node] = own | above | inside
        for node in members:
            self.above[node] = above
        return members


def _alike(a: Node, b: Node) -> bool:
    """Whether two nodes' results have one shape and lie in one order, whatever the sizes of their elements."""
    return a.outs[0].shape == b.outs[0].shape and _steps(a.outs[0]) == _steps(b.outs[0])


def _steps(value: Value) -> list[float]:
    return [stride / value.dtype.itemsize for stride in value.strides]


def _arrays_of(members: Sequence[Node]) -> int:
    """Number of arrays that a group reads from outside, and one that it writes."""
    made = {node.outs[0] for node in members}
    return len({value for node in members for value in node.inputs() if value not in made}) + 1


def ordered(graph: Graph) -> Graph:
    """The same nodes, each after all that must run before it, otherwise in the order that they have."""
    before = predecessors(graph)
    done: set[Node] = set()
    kept: list[Node] = []
    for first in graph.nodes:
        stack = [(first, False)]
        while stack:
            node, is_ready = stack.pop()
            if node in done:
                continue
            if is_ready:
                done.add(node)
                kept.append(node)
                continue
            stack.append((node, True))
            stack.extend((other, False) for other in before[node] if other not in done)
    return graph.with_nodes(kept)
