"""Derivatives of operations that put tensors together, which show parts of the gradient, and of those that take them apart."""

from __future__ import annotations

from typing import Any

from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .view_rules import ViewRule, put_part
from .views import MOST_DIMS, require_usual_storage, unrecorded_view

_MOST, _UNTIL = 64, 1 << 14  # tensors, and elements


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
    stride = k.load(k.strides(g), axis, "i64")
    k.parts(g, edges, count, lambda i, begin: (rank - 1, begin, begin + stride))
    return k.finish()


def parts_rule(code: Code) -> str:
    """The gradient of several parts of a tensor, from a list of theirs: each in its place, zeros where there is none."""
    k = _ListRule(code, "parts_rule")
    k.require(k.same(k.operands[2], k.emit("inttoptr i64 3 to ptr", "ptr")))  # the engine's call alone: wrappers have no such list
    node, grads = k.argument(0), k.argument(1)
    shape, keys = k.items(node, "attrs", 2)
    (edge,) = k.items(node, "edges", 1)
    k.require(~k.same(edge, k.object(None)) & k.is_exactly(grads, list) & k.is_exactly(keys, list))
    count = k.field(grads, 16, "i64")
    k.require((count > 0) & (count <= _MOST) & k.field(keys, 16, "i64").eq(count))
    k.new_dims, k.new_strides = k.scratch(MOST_DIMS, "i64"), k.scratch(MOST_DIMS, "i64")
    n, rank, dtypes = k.shape_of(shape), k.field(shape, 16, "i64"), k.slot(node, Node, "dtype")
    k.require(k.is_exactly(dtypes, tuple) & (rank > 0) & (n < _UNTIL))
    dtype = k.field(dtypes, k.interpreter.tuple_items)
    k.place_of(dtype, (0, 1))
    items, places = (k.field(each, k.interpreter.list_items) for each in (grads, keys))

    def look(i: Value) -> None:
        grad = k.load(items, i, "ptr")

        def usual() -> None:
            k.require(k.is_exactly(grad, Tensor))
            k.require(~k.requires_grad(grad))
            k.require(k.same(k.dtype(k.any_array_of(grad)), dtype))

        k.when(~k.same(grad, k.object(None)), usual)

    k.loop(0, count, look)

    def put(r: Value) -> None:
        def part(i: Value) -> None:
            grad, key = k.load(items, i, "ptr"), k.load(places, i, "ptr")
            k.when(~k.same(grad, k.object(None)), lambda: put_part(k, r, key, k.slot(grad, Tensor, "_array")))

        k.loop(0, count, part)

    k.give_filled(dtype, rank, n, put)
    return k.finish()


def of_parts(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of an operation that gives several parts.

    Raises:
        Unfit: nodes keep something else.
    """
    if kind.tensors or tuple(item.name for item in kind.others) != ("input_shape", "keys"):
        raise records.Unfit(op.name)
    return records.Record()


def of_lists(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of ``cat`` or ``stack``.

    Raises:
        Unfit: nodes keep something else.
    """
    names = tuple(item.name for item in kind.others)
    if kind.tensors or names != (("dim", "tensors_shape") if op.name == "cat" else ("dim",)):
        raise records.Unfit(op.name)
    return records.Record()
