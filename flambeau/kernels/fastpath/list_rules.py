"""Derivatives of operations that put tensors together, which show parts of the gradient, and of those that take them apart."""

from __future__ import annotations

from typing import Any

from ..compiler.language import Value
from . import records
from .code import Code
from .view_rules import ViewRule
from .views import require_usual_storage, unrecorded_view

_MOST = 64  # tensors


class _ListRule(ViewRule):
    """A rule with an edge for each of several tensors."""

    def parts(self, g: Value, edges: Value, count: Value, make: Any) -> None:
        """Return a tuple with the view of the gradient, an array, that ``make`` gives for each edge; None where there is no edge.

        ``make(place)`` makes it from ``begin`` on, and returns that of the next.
        """
        self.own(self.incref(g))
        made = self.own(self.call_c("PyTuple_New", "ptr", count))
        self.check(self.exists(made))
        items, none = self.at(made, self.interpreter.tuple_items, "i8"), self.object(None)

        def part(i: Value, begin: Value) -> Value:
            edge = self.load(self.at(edges, self.interpreter.tuple_items, "i8"), i, "ptr")
            ndim, offset, after = make(i, begin)

            def show() -> Value:
                view = unrecorded_view(self, self.shown(g, ndim, offset), self.argument(1))
                return self.disown(view)

            self.store(self.when(self.same(edge, none), lambda: self.incref(none), show), items, i, "ptr")
            return after

        self.loop(0, count, part, carried=(self.i64(0),))
        self.drop(g)
        self.give(made)


def cat_rule(code: Code) -> str:
    """The gradients of ``cat``: one part after the other."""
    k = _ListRule(code, "cat_rule")
    node, g = k.open()
    dim, shapes = k.items(node, "attrs", 2)
    edges = k.edges_of(node)
    count, rank = k.field(edges, 16, "i64"), k.ndim(g)
    k.require((count > 0) & (count < _MOST) & k.is_exactly(shapes, tuple) & (rank > 0))
    k.require(k.field(shapes, 16, "i64").eq(count))
    axis = k.index(dim, rank)
    k.make_room(g)
    require_usual_storage(k, k.argument(1))
    k.copy_dims(g, 1)
    stride = k.load(k.strides(g), axis, "i64")
    lengths = k.scratch(_MOST, "i64")

    def note(i: Value, total: Value) -> Value:
        shape = k.load(k.at(shapes, k.interpreter.tuple_items, "i8"), i, "ptr")
        k.require(k.is_exactly(shape, tuple))
        k.require(k.field(shape, 16, "i64").eq(rank))
        length = k.integer_of(k.load(k.at(shape, k.interpreter.tuple_items, "i8"), axis, "ptr"))
        k.require(length > 0)
        k.store(length, lengths, i, "i64")
        return total + length

    k.require(k.loop(0, count, note, carried=(k.i64(0),)).eq(k.load(k.dims(g), axis, "i64")))

    def make(i: Value, begin: Value) -> tuple[Value, Value, Value]:
        length = k.load(lengths, i, "i64")
        k.store(length, k.new_dims, axis, "i64")
        return rank, begin, begin + length * stride

    k.parts(g, edges, count, make)
    return k.finish()


def stack_rule(code: Code) -> str:
    """The gradients of ``stack``: one place after the other."""
    k = _ListRule(code, "stack_rule")
    node, g = k.open()
    (dim,) = k.items(node, "attrs", 1)
    edges = k.edges_of(node)
    count, rank = k.field(edges, 16, "i64"), k.ndim(g)
    k.require((count > 0) & (rank > 0))
    axis = k.index(dim, rank)
    k.require(k.load(k.dims(g), axis, "i64").eq(count))
    k.make_room(g)
    require_usual_storage(k, k.argument(1))
    k.copy_dims(g, 1, lambda i: i - k.cast(i > axis, "i64"))
    stride, last = k.load(k.strides(g), axis, "i64"), rank - 1

    def tail(i: Value) -> None:
        k.put_dim(i, k.load(k.dims(g), i + 1, "i64"), k.load(k.strides(g), i + 1, "i64"))

    k.loop(axis, last, tail)  # what the dimension itself was written over
    k.parts(g, edges, count, lambda i, begin: (last, begin, begin + stride))
    return k.finish()


def of_lists(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of ``cat`` or ``stack``.

    Raises:
        Unfit: nodes keep something else.
    """
    names = tuple(item.name for item in kind.others)
    if kind.tensors or names != (("dim", "tensors_shape") if op.name == "cat" else ("dim",)):
        raise records.Unfit(op.name)
    return records.Record()
