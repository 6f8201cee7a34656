"""Products of rows that are looked up in a table: where more rows are looked up than the table has, the table itself is multiplied.

    embedding(T, i) @ W        ->  embedding(T @ W, i)
    G.t() @ embedding(T, i)    ->  added(G, i).t() @ T         added: rows of G summed for each row of the table, what
    added(G @ W, i)            ->  added(G, i) @ W             an embedding's derivative does

    embedding(T, i).transpose(0, 1), copied    ->  embedding(T, i.t())        so that the rest applies where a batch comes first

So a language model of 200 words over 512 tokens has three products of 200 rows in place of three of 512. Sums come in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .elementwise import is_row_major
from .graph import Graph, Node, Value
from .passes import root_of, without_dead
from .rewriting import Rewriting, exchanged_from, reshaped_from, transposed_from

__all__ = ["looked_up"]

PRODUCTS = 1 << 18  # multiply-adds that have to be saved
LEAST = 64  # indices that are transposed
SUMMED = 256  # lookups of a row on average: sums of more, one gradient after the other, are less exact than a product
WIDTH = 16  # multiply-adds that take as long as one element takes to be moved twice


def looked_up(graph: Graph) -> Graph:
    """The graph with products of tables in place of those of rows from them.

    Args:
        graph: it stays as it is.
    """
    if not any(node.kind == "op" and node.op.name == "embedding" for node in graph.nodes):
        return graph
    return _Lookups(graph.copy()).run()


class _Rows(NamedTuple):
    """Rows that are looked up."""

    table: Value
    indices: Value


class _Lookups:
    def __init__(self, graph: Graph):
        self.graph, self.now = graph, Rewriting(graph)
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.written: dict[Value, int] = {}  # by memory, the first node that writes to it
        for i, node in enumerate(graph.nodes):
            for value in node.overwritten:
                self.written.setdefault(root_of(value), i)
        self.added: dict[Any, Value] = {}
        self.exchanged: dict[Value, Value] = {}  # matrices of indices, and their transposes
        self.is_changed = False

    def run(self) -> Graph:
        rules = {
            "linear": self.linear,
            "matmul": self.product,
            "mm": self.product,
            "_embedding_backward": self.gradient,
            "clone": self.copy,
        }
        for number, node in enumerate(self.now):
            self.number = number
            rule = rules.get(node.op.name) if node.kind == "op" and node.dtypes == (None, None) else None
            made = rule(node) if rule is not None and is_row_major(node.outs[0]) else None
            if made is None:
                self.now.keep(node)
            else:
                self.now.replace(node.outs, [self.now.view(made, node.outs[0].shape)])
                self.is_changed = True
        return without_dead(self.now.finished()) if self.is_changed else self.graph

    # -- what is looked up ------------------------------------------------------------------------------------------------------------
    def rows(self, value: Value | None, outputs: int) -> _Rows | None:
        """The table whose rows a value has, if it pays to multiply that table by a matrix of so many columns; and their indices."""
        node = None if value is None else reshaped_from(value).node
        if node is None or node.kind != "op" or node.op.name != "embedding" or node.dtypes != (None, None):
            return None
        found = _Rows(*node.args[:2])
        assert value is not None
        return found if value.shape[-1] == found.table.shape[-1] and self.pays(found, outputs) else None

    def pays(self, rows: _Rows, outputs: int) -> bool:
        """Whether there is less to do, and table and indices are still what they were."""
        table, indices = rows
        if len(table.shape) != 2 or not indices.shape or indices.size > SUMMED * table.shape[0] or not self.are_there(rows):
            return False
        saved = (indices.size - table.shape[0]) * table.shape[1]
        return saved * outputs >= PRODUCTS and saved > WIDTH * indices.size

    def are_there(self, values: Iterable[Value]) -> bool:
        """Whether nothing has written to some values so far."""
        return not any(self.written.get(root_of(value), self.number) < self.number for value in values)

    def exchange(self, indices: Value) -> Value:
        """The transpose of a row-major matrix of indices, row-major too."""
        if indices not in self.exchanged:
            self.exchanged[indices] = self.now.copy(self.now.turned(indices))
        return self.exchanged[indices]

    # -- rules ------------------------------------------------------------------------------------------------------------------------
    def linear(self, node: Node) -> Value | None:
        input, weight = node.args[:2]
        rows = self.rows(input, weight.shape[0]) if len(weight.shape) == 2 else None
        if rows is None:
            return None
        return self.of_table("linear", [rows.table, *node.args[1:]], rows, weight.shape[0])

    def of_left_rows(self, node: Node) -> Value | None:
        left, right = node.args
        rows = self.rows(left, right.shape[1])
        return None if rows is None else self.of_table("matmul", [rows.table, right], rows, right.shape[1])

    def of_table(self, name: str, args: list[Any], rows: _Rows, width: int) -> Value:
        """Rows of a product of the table."""
        dtype = rows.table.dtype
        (products,) = self.now.op(name, args, (rows.table.shape[0], width), dtype=dtype)
        return self.now.op("embedding", [products, rows.indices, -1, False, False], (*rows.indices.shape, width), dtype=dtype)[0]

    def copy(self, node: Node) -> Value | None:
        source = exchanged_from(node.args[0])
        maker = None if source is None else source.node
        if maker is None or maker.kind != "op" or maker.op.name != "embedding" or maker.dtypes != (None, None):
            return None
        table, indices = maker.args[:2]
        if len(indices.shape) != 2 or not is_row_major(indices) or indices.size < LEAST or not self.are_there((table, indices)):
            return None
        args = [table, self.exchange(indices), -1, False, False]
        return self.now.op("embedding", args, node.outs[0].shape, dtype=node.outs[0].dtype)[0]

    def product(self, node: Node) -> Value | None:
        left, right = node.args
        if len(left.shape) < 2 or len(right.shape) != 2:
            return None
        rows, grad = self.rows(right, left.shape[0]), transposed_from(left)
        if rows is not None and grad is not None:
            added = self.sums(grad, rows.indices, rows.table.shape[0])
            return self.now.op("mm", [self.now.turned(added), rows.table], node.outs[0].shape, dtype=node.outs[0].dtype)[0]
        rows = self.rows(transposed_from(left), right.shape[1])
        if rows is None or not is_row_major(right):
            return self.of_left_rows(node)
        added = self.sums(right, rows.indices, rows.table.shape[0])
        table = self.now.rows(rows.table)
        return self.now.op("mm", [self.now.turned(table), added], node.outs[0].shape, dtype=node.outs[0].dtype)[0]

    def gradient(self, node: Node) -> Value | None:
        grad, indices, count, padding, by_frequency = node.args
        source, is_exchanged = reshaped_from(grad), False
        if (other := exchanged_from(grad)) is not None and len(indices.shape) == 2 and is_row_major(indices):
            source, is_exchanged = reshaped_from(other), True
        maker = source.node
        if by_frequency or maker is None or maker.kind != "op" or maker.op.name not in ("matmul", "mm") or maker.dtypes != (None, None):
            return None
        left, right = maker.args
        table = Value((count, grad.shape[-1]), (), grad.dtype)
        if (
            len(right.shape) != 2
            or not is_row_major(left)
            or not self.pays(_Rows(table, indices), right.shape[0])
            or not self.is_only(source, node)
        ):
            return None
        added = self.sums(left, self.exchange(indices) if is_exchanged else indices, count, padding)
        return self.now.op("matmul", [added, right], (count, right.shape[1]), dtype=grad.dtype)[0]

    def is_only(self, value: Value, user: Node) -> bool:
        """Whether nobody else needs a value."""
        if value in self.outputs:
            return False
        return all(each is user or (each.kind == "view" and self.is_only(each.outs[0], user)) for each in self.users.get(value, ()))

    def sums(self, grad: Value, indices: Value, count: int, padding: int = -1) -> Value:
        """The rows of ``grad`` added up for each row of a table of ``count``; once for all who need them."""
        source, width = reshaped_from(grad), grad.shape[-1]
        key = source, indices, count, padding
        if key not in self.added:
            given = self.now.view(source, (*indices.shape, width))
            args = [given, indices, count, padding, False]
            (self.added[key],) = self.now.op("_embedding_backward", args, (count, width), dtype=grad.dtype)
        return self.added[key]
