"""Derivatives of sums and means, which spread the gradient, and of views, which show it in another way or put it in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tape.node import Node
from ..compiler.language import Value
from . import records
from .code import Code
from .indices import locate
from .records import DTYPES
from .rules import Rule
from .views import MOST_DIMS, View, require_usual_storage, unrecorded_view

_DIVIDE = records.EXTRA  # of each dtype the loop that divides, with its data; 0 in the record of a sum
_UNTIL = 1 << 15  # elements that a mean may have


class ViewRule(Rule, View):
    """A rule that shows a gradient's memory."""

    def attributes(self, node: Value, count: int) -> list[Value]:
        """Values that the node keeps besides tensors (borrowed); its one edge is there, and the gradient's storage is usual."""
        self.make_room(self.any_array_of(self.argument(1)))
        (edge,) = self.items(node, "edges", 1)
        self.require(~self.same(edge, self.object(None)))
        require_usual_storage(self, self.argument(1))
        return self.items(node, "attrs", count)

    def shape_of(self, shape: Value) -> Value:
        """Write a tuple of sizes down; the number of elements."""
        self.require(self.is_exactly(shape, tuple))
        rank = self.field(shape, 16, "i64")
        self.require(rank < MOST_DIMS)

        def put(i: Value, n: Value) -> Value:
            size = self.integer_of(self.load(self.at(shape, self.interpreter.tuple_items, "i8"), i, "ptr"))
            self.require((size > 0) & (size < 1 << 31))
            self.put_dim(i, size, self.i64(0))
            self.require(n < 1 << 31)
            return n * size

        return self.loop(0, rank, put, carried=(self.i64(1),))

    def give_view(self, x: Value, a: Value, ndim: Value, offset: Value | int = 0, strides: Value | None = None) -> None:
        """Return a view of a tensor with the dimensions that were written down."""
        r = self.shown(a, ndim, self.like(offset, self.i64(0)), strides)
        self.give_gradients(unrecorded_view(self, r, x))

    def give_filled(self, dtype: Value, ndim: Value, n: Value, put: Callable[[Value], None]) -> None:
        """Return ``n`` zeros with the dimensions that were written down, where ``put`` writes to the array; what it refuses is Python's."""
        r = self.own(self.new_array(dtype, ndim, self.new_dims))
        self.call_c("memset", "ptr", self.data(r), self.const(0, "i32"), n * self.item_size(dtype))

        def put_all() -> Value:
            put(r)
            return self.const(True, "b1")

        def leave() -> None:
            self.decref(r)
            self.decline()

        self.case(~self.attempt(put_all, lambda: self.const(False, "b1")), leave)
        self.give_gradients(self.unrecorded(self.disown(r)))


def spread_rule(code: Code) -> str:
    """The gradient of ``sum`` and ``mean`` of all, or along one dimension."""
    k = ViewRule(code, "spread_rule")
    node, g = k.open()
    grad, none = k.argument(1), k.object(None)
    shape, dim, keeps = k.attributes(node, 3)
    n, rank = k.shape_of(shape), k.field(shape, 16, "i64")
    place = k.place_of(k.dtype(g), (0, 1))
    k.require(n < _UNTIL)
    kept = k.same(keeps, k.object(True))

    def of_all() -> Value:
        k.require(k.ndim(g).eq(0) & ~kept & (rank > 0))
        return n

    def along() -> Value:
        axis = k.index(dim, rank)
        k.require((k.ndim(g) + k.pick(kept, k.i64(0), k.i64(1))).eq(rank))
        strides = k.strides(g)

        def step(d: Value) -> None:
            size = k.load(k.new_dims, d, "i64")
            k.require(size > 1)
            its = k.pick(kept | (d < axis), d, d - 1)

            def there() -> None:
                k.require(k.load(k.dims(g), its, "i64").eq(size))
                k.store(k.load(strides, its, "i64"), k.new_strides, d, "i64")

            k.when(d.ne(axis), there)

        k.loop(0, rank, step)
        return k.load(k.new_dims, axis, "i64")

    count = k.when(k.same(dim, none), of_all, along)
    divide, data = (k.word(_DIVIDE + part, place * 2, "ptr") for part in (0, 1))
    k.require(~k.exists(divide) | k.is_row_major(g))

    def mean() -> None:
        r = k.new_array(k.dtype(g), k.ndim(g), k.dims(g))
        cell, size = k.scratch(1, "i64"), k.item_size(k.dtype(g))
        k.when(place.eq(0), lambda: k.store(k.cast(count, "f32"), cell, 0, "f32"), lambda: k.store(k.cast(count, "f64"), cell, 0, "f64"))
        k.run(divide, data, k.size(g), [(k.data(g), size), (cell, k.i64(0)), (k.data(r), size)])
        share = k.unrecorded(r)
        view = unrecorded_view(k, k.shown(r, rank, k.i64(0)), share)
        k.drop(share)
        k.give_gradients(view)

    k.case(k.exists(divide), mean)
    k.give_view(grad, g, rank)
    return k.finish()


def shape_rule(code: Code) -> str:
    """The gradient of operations that give another shape: the same memory in the operand's."""
    k = ViewRule(code, "shape_rule")
    node, g = k.open()
    (shape,) = k.attributes(node, 1)
    n, rank = k.shape_of(shape), k.field(shape, 16, "i64")
    k.require(n.eq(k.size(g)) & ~k.has_shape(g, shape))  # else it is the gradient itself

    def spread() -> None:
        k.give_view(k.argument(1), g, rank)

    k.case(k.strides_are_zero(g), spread)
    k.require(k.is_row_major(g) & (rank > 0))
    _, no_short = k.measured(g)
    k.when(~no_short, lambda: k.require_in_order(k.argument(1)))
    k.give_view(k.argument(1), g, rank, 0, k.null)
    return k.finish()


def turn_rule(code: Code) -> str:
    """The gradient of ``t``, and of ``transpose`` with two dimensions: with them exchanged."""
    k = ViewRule(code, "turn_rule")
    node, g = k.open()
    count = k.field(k.slot(node, Node, "attrs"), 16, "i64")

    def matrix() -> tuple[Value, Value]:
        k.require(count.eq(0) & k.ndim(g).eq(2))
        return k.i64(0), k.i64(1)

    def two() -> tuple[Value, Value]:
        attributes = k.slot(node, Node, "attrs")
        items = [k.field(attributes, k.interpreter.tuple_items + 8 * place) for place in range(2)]
        one, other = (k.index(item, k.ndim(g)) for item in items)
        return one, other

    one, other = k.when(count.eq(2), two, matrix)
    k.make_room(g)
    k.require(k.field(k.slot(node, Node, "edges"), 16, "i64").eq(1))
    require_usual_storage(k, k.argument(1))
    k.copy_dims(g, 1)
    for to, source in ((one, other), (other, one)):
        k.put_dim(to, k.load(k.dims(g), source, "i64"), k.load(k.strides(g), source, "i64"))
    k.give_view(k.argument(1), g, k.ndim(g))
    return k.finish()


def put_part(k: ViewRule, r: Value, key: Value, g: Value) -> None:
    """Write an array into the part of another that a key takes, which is a slice, or ints and slices with an ellipsis behind."""
    several = k.is_exactly(key, tuple)
    count = k.when(several, lambda: k.field(key, 16, "i64") - 1, lambda: k.i64(1))
    cell = k.scratch(1, "ptr")
    k.store(key, cell, 0, "ptr")
    items = k.pick(several, k.at(key, k.interpreter.tuple_items, "i8"), cell)
    ndim, offset, _ = locate(k, r, items, count, k.i64(0))
    k.require(ndim.eq(k.ndim(g)))
    k.loop(0, ndim, lambda i: k.require(k.load(k.new_dims, i, "i64").eq(k.load(k.dims(g), i, "i64"))))
    k.own(k.incref(g))
    part = k.shown(r, ndim, offset)
    k.check(k.call_c("PyArray_CopyInto", "i32", part, g).eq(0))
    k.drop(part, g)


def part_rule(code: Code) -> str:
    """The gradient of a part that ints and slices take: zeros with the gradient in its place."""
    k = ViewRule(code, "part_rule")
    node, g = k.open()
    shape, key = k.attributes(node, 2)
    n, rank = k.shape_of(shape), k.field(shape, 16, "i64")
    k.place_of(k.dtype(g), (0, 1))
    k.require((n < k.word(records.LIMIT)) & (rank > 0))
    k.give_filled(k.dtype(g), rank, n, lambda r: put_part(k, r, key, g))
    return k.finish()


def _of(names: tuple[str, ...], kind: Any) -> records.Record:
    """A record of nodes of class ``kind``, which must keep no tensors, and these attributes."""
    if kind.tensors or tuple(item.name for item in kind.others) != names or len(kind.inputs) != 1:
        raise records.Unfit(kind.__name__)
    record = records.Record()
    record.put(records.LIMIT, _UNTIL)
    return record


def of_spreads(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of ``sum`` or ``mean``.

    Raises:
        Unfit: nodes keep something else.
    """
    record = _of(("input_shape", "dim", "keepdim"), kind)
    if op.name == "mean":
        for place, dtype in enumerate(DTYPES[:2]):
            record.put_loop(_DIVIDE + 2 * place, np.divide, dtype)
    return record


def of_shapes(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of an operation that gives another shape."""
    return _of(("input_shape",), kind)


def of_turns(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of ``t`` or ``transpose``."""
    return _of(() if op.name == "t" else ("dim0", "dim1"), kind)


def of_parts(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of indexing with ints and slices."""
    return _of(("input_shape", "key"), kind)
