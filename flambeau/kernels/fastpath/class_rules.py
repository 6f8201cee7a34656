"""Derivatives of softmax, of its logarithm and of losses: NumPy's loops in the order of the kernels in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.kinds import host
from ...core.calls.registry import primitive
from ...core.dtype import BY_NUM
from ..compiler.language import Value
from . import records
from .along import Along
from .code import Code
from .formulas import ResultRule
from .records import DTYPES

_LOOPS = (np.add, np.subtract, np.multiply, np.exp, np.negative)  # of each dtype in ``records.EXTRA``, with their data
_ADD, _SUBTRACT, _MULTIPLY, _EXP, _NEGATE = range(len(_LOOPS))
_SIZE = records.EXTRA + 4 * len(_LOOPS)
_MOST = 1 << 10  # elements, and those of a row
# What the rules in Python call, which has kernels of its own for more elements.
_KERNELS = {
    "softmax": ("_softmax_backward_data",),
    "log_softmax": ("_log_softmax_backward_data",),
    "nn.functional._nll_loss": ("_nll_loss_backward", "nn.functional"),
    "nn.functional._mse_loss": ("_mse_loss_backward", "nn.functional"),
}


class _ClassRule(ResultRule, Along):
    """A rule of several of NumPy's loops."""

    def loop_at(self, which: int, place: Value) -> tuple[Value, Value]:
        """A loop for the dtype at a place, and its data."""
        return self.loop_in(records.EXTRA, len(_LOOPS), which, place)

    def dims_of(self, a: Value) -> tuple[Value, Value, Value]:
        """The numbers of all elements and of those in a row of what is row-major, and whether the last dimension is meant."""
        n, rank = self.size(a), self.ndim(a)
        self.require((rank > 0) & (n > 0) & (n < self.word(records.LIMIT)))
        columns = self.load(self.dims(a), rank - 1, "i64")
        self.require((columns > 1) & (columns <= _MOST))
        return n, columns, rank


def _slope_across(k: _ClassRule, g: Value, y: Value, dim: Value, place: Value, of_logarithm: bool) -> None:
    """Answer with the gradient along a dimension that is not the last."""
    k.require(k.is_row_major(g))
    k.along(y, dim, k.const(True, "b1"))
    n = k.outer * k.length * k.inner
    k.require((n > 0) & (n < k.word(records.LIMIT)) & (k.inner > 1))
    size, loops = k.item_size(k.dtype(y)), [k.loop_at(which, place) for which in range(len(_LOOPS))]
    r, cells, room = k.new_array(k.dtype(y), k.ndim(y), k.dims(y)), k.scratch(_MOST, "f64"), k.scratch(_MOST, "f64")
    to, grad, output = k.data(r), k.data(g), k.data(y)
    if of_logarithm:
        k.run(*loops[_EXP], n, [(output, size), (to, size)])
    else:
        k.run(*loops[_MULTIPLY], n, [(grad, size), (output, size), (to, size)])
    k.call_c("memset", "ptr", cells, k.i32(0), k.outer * k.inner * size)
    k.reduce(loops[_ADD], grad if of_logarithm else to, size, cells, 0)
    k.spread(loops[_MULTIPLY], to if of_logarithm else output, size, cells, room)
    k.run(*loops[_SUBTRACT], n, [(grad if of_logarithm else to, size), (room, size), (to, size)])
    k.give_gradients(k.unrecorded(r))


def _slope(code: Code, name: str, of_logarithm: bool) -> str:
    """The gradient of ``softmax`` or its logarithm."""
    k = _ClassRule(code, name)
    node, g = k.open()
    (edge,), (saved,), (dim, dtype) = k.items(node, "edges", 1), k.items(node, "saved", 1), k.items(node, "attrs", 2)
    k.require(~k.same(edge, k.object(None)) & k.is_exactly(saved, tuple))
    y = k.saved_result(node, saved)
    place = k.place_of(k.dtype(g), (0, 1))
    k.require(k.same(k.dtype(y), k.dtype(g)) & k.is_row_major(y) & k.same_sizes(g, y, k.dims))
    wanted = k.pick(place.eq(0), k.object(BY_NUM[DTYPES[0].num]), k.object(BY_NUM[DTYPES[1].num]))
    k.require(k.same(dtype, wanted))
    at, last = k.index(dim, k.ndim(y)), k.ndim(y) - 1
    k.case(at.ne(last), lambda: _slope_across(k, g, y, at, place, of_logarithm))
    n, columns, rank = k.dims_of(y)
    in_order, one = k.is_row_major(g), k.strides_are_zero(g)
    k.require(in_order | one)
    size = k.pick(place.eq(0), k.i64(4), k.i64(8))
    across, along = k.pick(in_order, columns * size, k.i64(0)), k.pick(in_order, size, k.i64(0))
    r, cell, room = k.new_array(k.dtype(y), rank, k.dims(y)), k.scratch(1, "i64"), k.scratch(_MOST, "f64")
    loops = [k.loop_at(which, place) for which in range(len(_LOOPS))]

    if of_logarithm:
        k.run(*loops[_EXP], n, [(k.data(y), size), (k.data(r), size)])  # at once: the last bits may depend on where a vector begins

    def row(i: Value) -> None:
        grad, output, to = (
            k.at(k.data(g), i * across, "i8"),
            k.at(k.data(y), i * columns * size, "i8"),
            k.at(k.data(r), i * columns * size, "i8"),
        )
        k.store(k.i64(0), cell, 0, "i64")
        if of_logarithm:
            k.run(*loops[_ADD], columns, [(cell, k.i64(0)), (grad, along), (cell, k.i64(0))])
            k.run(*loops[_MULTIPLY], columns, [(to, size), (cell, k.i64(0)), (to, size)])
            k.run(*loops[_SUBTRACT], columns, [(grad, along), (to, size), (to, size)])
            return
        k.run(*loops[_MULTIPLY], columns, [(grad, along), (output, size), (to, size)])
        k.run(*loops[_ADD], columns, [(cell, k.i64(0)), (to, size), (cell, k.i64(0))])
        k.run(*loops[_MULTIPLY], columns, [(output, size), (cell, k.i64(0)), (room, size)])
        k.run(*loops[_SUBTRACT], columns, [(to, size), (room, size), (to, size)])

    k.loop(0, n // columns, row)
    k.give_gradients(k.unrecorded(r))
    return k.finish()


def softmax_rule(code: Code) -> str:
    """The gradient of ``softmax``."""
    return _slope(code, "softmax_rule", False)


def log_softmax_rule(code: Code) -> str:
    """The gradient of ``log_softmax``."""
    return _slope(code, "log_softmax_rule", True)


def likelihood_rule(code: Code) -> str:
    """The gradient of a mean or sum of negative log likelihoods of the rows of a matrix."""
    k = _ClassRule(code, "likelihood_rule")
    node, g = k.open()
    (edge,), (target, weight) = k.items(node, "edges", 1), k.items(node, "saved", 2)
    reduction, ignored, shape = k.items(node, "attrs", 3)
    is_mean = k.same(reduction, k.object("mean"))
    k.require(~k.same(edge, k.object(None)) & k.same(weight, k.object(None)) & (is_mean | k.same(reduction, k.object("sum"))))
    place = k.place_of(k.dtype(g), (0, 1))
    labels = k.saved_array(node, target)
    k.require(k.ndim(g).eq(0) & k.ndim(labels).eq(1) & k.is_row_major(labels) & k.same(k.dtype(labels), k.object(DTYPES[2])))
    k.require(k.field(shape, 16, "i64").eq(2))
    rows, columns = (k.integer_of(k.field(shape, k.interpreter.tuple_items + 8 * d)) for d in (0, 1))
    k.require(k.load(k.dims(labels), 0, "i64").eq(rows) & (rows > 0) & (columns > 0) & (columns < _MOST))
    k.require(rows * columns < k.word(records.LIMIT))
    out, classes = k.integer_of(ignored), k.data(labels)

    def wrong(i: Value, found: Value) -> Value:
        label = k.load(classes, i, "i64")
        return found | k.cast((label < 0) | (label >= columns) | label.eq(out), "i64")

    k.require(k.loop(0, rows, wrong, carried=(k.i64(0),)).eq(0))
    size = k.pick(place.eq(0), k.i64(4), k.i64(8))
    r = k.matrix(k.dtype(g), rows, columns)
    k.call_c("memset", "ptr", k.data(r), k.const(0, "i32"), rows * columns * size)

    def of(element: str) -> None:
        grad = k.load(k.data(g), 0, element)
        share = k.pick(is_mean, grad / k.cast(rows, element), grad)
        cell = k.scratch(1, element)
        k.store(share, cell, 0, element)
        k.run(*k.loop_at(_NEGATE, place), k.i64(1), [(cell, size), (cell, size)])
        share = k.load(cell, 0, element)
        k.loop(0, rows, lambda i: k.store(share, k.data(r), i * columns + k.load(classes, i, "i64"), element))

    k.when(place.eq(0), lambda: of("f32"), lambda: of("f64"))
    k.give_gradients(k.unrecorded(r))
    return k.finish()


def squares_rule(code: Code) -> str:
    """The gradients of a mean or sum of squared differences."""
    k = _ClassRule(code, "squares_rule")
    node, g = k.open()
    edges, saved, (reduction,) = k.items(node, "edges", 2), k.items(node, "saved", 2), k.items(node, "attrs", 1)
    none, is_mean = k.object(None), k.same(reduction, k.object("mean"))
    k.require(k.ndim(g).eq(0) & (is_mean | k.same(reduction, k.object("sum"))))
    place = k.place_of(k.dtype(g), (0, 1))
    a, b = (k.saved_array(node, tensor) for tensor in saved)
    for array in (a, b):
        k.require(k.same(k.dtype(array), k.dtype(g)) & k.is_row_major(array))
    k.require(k.same_sizes(a, b, k.dims))
    n, no_short = k.small(a)
    k.require(n > 0)
    k.require_usual_strides(saved, no_short)
    size, wanted = k.item_size(k.dtype(g)), [~k.same(edge, none) for edge in edges]
    cell = k.scratch(1, "i64")
    factor = k.pick(is_mean, k.const(2.0, "f64") / k.cast(n, "f64"), k.const(2.0, "f64"))

    def of(element: str) -> None:
        k.store(k.load(k.data(g), 0, element) * k.cast(factor, element), cell, 0, element)

    k.when(place.eq(0), lambda: of("f32"), lambda: of("f64"))
    loops = [k.loop_at(which, place) for which in range(len(_LOOPS))]
    r = k.own(k.new_array(k.dtype(g), k.ndim(a), k.dims(a)))
    to = k.data(r)
    k.run(*loops[_SUBTRACT], n, [(k.data(a), size), (k.data(b), size), (to, size)])
    k.run(*loops[_MULTIPLY], n, [(to, size), (cell, k.i64(0)), (to, size)])

    def less() -> Value:
        made = k.new_array(k.dtype(r), k.ndim(r), k.dims(r))
        k.run(*loops[_NEGATE], n, [(to, size), (k.data(made), size)])
        return k.wrapped(made)

    second = k.own(k.when(wanted[1], less, lambda: k.incref(none)))
    first = k.own(k.when(wanted[0], lambda: k.wrapped(k.incref(r)), lambda: k.incref(none)))
    k.drop(r)
    k.give_gradients(first, second)
    return k.finish()


def of_class_rules(op: Any, kind: Any) -> records.Record:
    """The record of one of these derivatives.

    Raises:
        Unfit: NumPy has other loops.
    """
    record = records.Record(_SIZE)
    choice = host.choice_for(primitive(*_KERNELS[op.key]))
    record.put(records.LIMIT, _MOST if choice is None else min(_MOST, choice.threshold // 8))  # they count an element as eight
    record.put_table(records.EXTRA, _LOOPS)
    return record
