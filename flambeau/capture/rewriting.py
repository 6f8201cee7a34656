"""Common to rewrites of a graph: new nodes in place of some, in the order of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.calls.registry import declared_as
from ..core.layout import contiguous_format
from ..core.shape import contiguous_strides
from .elementwise import is_row_major
from .graph import Graph, Node, Value

__all__ = ["Rewriting", "exchanged_from", "reshaped_from", "transposed_from"]


class Rewriting:
    """The nodes of a graph one after the other, some of them replaced.

    Attributes:
        nodes: those of the new graph so far.
    """

    def __init__(self, graph: Graph):
        self._graph = graph
        self._instead: dict[Value, Value] = {}
        self.nodes: list[Node] = []

    def __iter__(self) -> Iterator[Node]:
        """The nodes, with what stands for their arguments by now; each is to be kept or replaced."""
        for node in self._graph.nodes:
            node.take(self._now)
            yield node

    def _now(self, value: Value) -> Value:
        return self._instead.get(value, value)

    def keep(self, node: Node) -> None:
        self.nodes.append(node)

    def replace(self, outs: Iterable[Value], by: Iterable[Value]) -> None:
        """Let later nodes take other values in place of a node's results."""
        self._instead.update(zip(outs, by, strict=True))

    def op(self, name: str, args: Sequence[Any], *shapes: tuple[int, ...], dtype: np.dtype) -> list[Value]:
        """Add an operation; its results, row-major and of these shapes."""
        outs = [Value(shape, _strides(shape, dtype), dtype) for shape in shapes]
        self.nodes.append(Node("op", declared_as(name), args, outs))
        return outs

    def view(self, value: Value, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Value:
        """Other words for the memory of a row-major value; itself where they are its own."""
        strides = _strides(shape, value.dtype) if strides is None else strides
        if (shape, strides) == (value.shape, value.strides):
            return value
        made = Value(shape, strides, value.dtype, "view")
        self.nodes.append(Node("view", None, (value, 0, shape, strides), (made,)))
        return made

    def copy(self, value: Value) -> Value:
        """A row-major copy."""
        return self.op("clone", [value, contiguous_format], value.shape, dtype=value.dtype)[0]

    def rows(self, value: Value) -> Value:
        """A value as a row-major matrix of its last dimension's rows."""
        value = value if is_row_major(value) else self.copy(value)
        return self.view(value, (value.size // value.shape[-1], value.shape[-1]))

    def turned(self, value: Value) -> Value:
        """A row-major matrix as its transpose."""
        (rows, columns), size = value.shape, value.dtype.itemsize
        return self.view(value, (columns, rows), (size, columns * size))

    def finished(self) -> Graph:
        return self._graph.with_nodes(self.nodes, self._now)


def _strides(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    return np.empty(shape, dtype).strides if 0 in shape else tuple([step * dtype.itemsize for step in contiguous_strides(shape)])


def reshaped_from(value: Value) -> Value:
    """The value whose elements ``value`` has in the same order: through views that only reshape what is row-major."""
    while value.node is not None and value.node.kind == "view":
        source = value.node.args[0]
        if source.size != value.size or source.dtype != value.dtype or not (is_row_major(source) and is_row_major(value)):
            break
        value = source
    return value


def exchanged_from(value: Value) -> Value | None:
    """The row-major value of which ``value`` is a view with the first two of at least three dimensions exchanged."""
    node = value.node
    if node is None or node.kind != "view" or len(value.shape) < 3 or node.args[1] != 0:
        return None
    source = node.args[0]
    if len(source.shape) != len(value.shape):
        return None
    (first, second, *rest), (by_first, by_second, *by_rest) = source.shape, source.strides
    alike = (value.shape, value.strides) == ((second, first, *rest), (by_second, by_first, *by_rest))
    return source if alike and source.dtype == value.dtype and is_row_major(source) else None


def transposed_from(value: Value) -> Value | None:
    """The row-major value of which ``value``, a matrix, is the transpose; with the same elements in rows as long as its columns."""
    node = value.node
    if node is None or node.kind != "view" or len(value.shape) != 2 or node.args[1] != 0:
        return None
    source, (columns, rows), size = node.args[0], value.shape, value.dtype.itemsize
    turned = (size, columns * size)
    if value.strides != turned or source.size != value.size or source.dtype != value.dtype or not is_row_major(source):
        return None
    return source if source.shape and source.shape[-1] == columns and rows > 1 else None
