"""For how long a graph's values are needed, and an order of its nodes in which that is shorter.

Memory counts by root: a view needs none, but keeps what it shows. What goes in, comes out or is held lies outside of the arena and is not
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..kernels.index import memory_use
from .fusion import factors, predecessors
from .graph import Graph, Node, Value
from .memory import extent
from .passes import RANDOM, root_of

__all__ = ["Lifetimes", "delayed", "hastened", "is_elementwise", "most_bytes"]


class Lifetimes:
    """The roots of a graph's values, and which nodes need them.

    Attributes:
        bytes_of: by root, of those that lie in the arena.
        uses: by such a root, the numbers of the nodes that read it or write to it, the first of which makes it.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node]):
        self._roots: dict[Value, Value] = {}
        outside = {root_of(value) for value in graph.outputs}
        self.bytes_of: dict[Value, int] = {}
        self.uses: dict[Value, list[int]] = {}
        for i, node in enumerate(nodes):
            if node.kind == "view":
                continue
            for out in node.outs:
                root = self.root(out)
                if root is out and root not in outside:
                    self.bytes_of[root] = extent(root.shape, root.strides, root.dtype.itemsize)
                    self.uses[root] = [i]
            for value in node.inputs():
                uses = self.uses.get(self.root(value))
                if uses is not None and uses[-1] != i:
                    uses.append(i)

    def root(self, value: Value) -> Value:
        found = self._roots.get(value)
        if found is None:
            found = self._roots[value] = root_of(value)
        return found

    def read(self, node: Node) -> list[Value]:
        """The roots in the arena that a node reads, each once."""
        return [root for root in dict.fromkeys(map(self.root, node.inputs())) if root in self.bytes_of]

    def profile(self, nodes: Sequence[Node], scratch_of: Callable[[Node], int]) -> list[int]:
        """Bytes of the values that are there while each node runs, and of its own scratch memory."""
        changes = [0] * (len(nodes) + 1)
        for root, uses in self.uses.items():
            changes[uses[0]] += self.bytes_of[root]
            changes[uses[-1] + 1] -= self.bytes_of[root]
        now, found = 0, []
        for i, node in enumerate(nodes):
            now += changes[i]
            found.append(now - self._written_over(node, i) + scratch_of(node))
        return found

    def _written_over(self, node: Node, i: int) -> int:
        """Bytes of a result that has the memory of an operand."""
        if not replaces(node) or node.outs[0] not in self.bytes_of:
            return 0
        out, read = node.outs[0], set(map(self.root, factors(node)))
        for value in node.inputs():
            root = self.root(value)
            if root in read:
                continue
            lies_alike = (value.strides, value.shape) == (out.strides, out.shape) and self.bytes_of.get(root) == self.bytes_of[out]
            if lies_alike and self.uses[root][-1] == i:
                return self.bytes_of[out]
        return 0


def most_bytes(graph: Graph, scratch_of: Callable[[Node], int]) -> int:
    """The most bytes that values of a graph need while a node runs."""
    return max(Lifetimes(graph, graph.nodes).profile(graph.nodes, scratch_of), default=0)


def replaces(node: Node) -> bool:
    """Whether a node's kernel may write over what it reads."""
    return is_elementwise(node) or (node.kind == "op" and memory_use(node.op.key).overwrites > 0)


def is_elementwise(node: Node) -> bool:
    return node.kind == "group" or (node.kind == "op" and node.op.elementwise)


def delayed(graph: Graph) -> Graph:
    """The same nodes, each that makes more than it is the last to need not before somebody needs what it makes.

    The product that gives the gradient of a layer's input, say, waits until that of its weights has used what was saved for it.
    """
    before = predecessors(graph)
    after: dict[Node, list[Node]] = {}
    for node, others in before.items():
        for other in others:
            after.setdefault(other, []).append(node)
    nodes = graph.nodes
    lives = Lifetimes(graph, nodes)
    rank: dict[Node, tuple[int, int]] = {}  # the node that it waits for, and among those that wait for one the later first
    waiting = [0] * len(nodes)
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        rank[node] = i, 0
        if node.kind not in ("op", "group", "view") or node not in after or (node.kind == "op" and node.op.name in RANDOM):
            continue
        first = min(rank[other] for other in after[node])
        if first[0] == i + 1 or not (node.kind == "view" or _gains(lives, node, nodes, rank, first)):
            continue
        waiting[first[0]] -= 1
        rank[node] = first[0], waiting[first[0]]
    return graph.with_nodes(sorted(nodes, key=rank.__getitem__))


def hastened(graph: Graph) -> Graph:
    """The same nodes, those whose results lie outside of the arena as soon as what they read is there: they may be the last to need it.

    The gradient of a layer's weights, say, before that of its input has memory.
    """
    before = predecessors(graph)
    outside = {root_of(value) for value in graph.outputs}
    rank: dict[Node, tuple[int, int]] = {}
    following = [0] * len(graph.nodes)
    for i, node in enumerate(graph.nodes):
        rank[node] = i, 0
        is_outside = node.kind == "op" and node.op.name not in RANDOM and outside.issuperset(node.outs)
        if (is_outside or node.kind == "view") and before[node]:
            last = max(rank[other] for other in before[node])[0]
            following[last] += 1
            rank[node] = last, following[last]
    return graph.with_nodes(sorted(graph.nodes, key=rank.__getitem__))


def _gains(lives: Lifetimes, node: Node, nodes: Sequence[Node], rank: dict[Node, tuple[int, int]], until: tuple[int, int]) -> bool:
    """Whether there is less in memory if a node runs only just before ``until``."""
    gained = sum(lives.bytes_of.get(out, 0) for out in node.outs)
    for root in lives.read(node):
        if max(rank.get(nodes[use], (use, 0)) for use in lives.uses[root]) < until:
            gained -= lives.bytes_of[root]
    return gained > 0
