"""Forms of losses of few elements, and of their derivatives: the same loops of NumPy's, in the same order, as in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.calls.registry import primitive
from ..compiler.language import SIZES, Value
from . import records
from .code import Code
from .interpreter import dot_function
from .products import Product, loops_are_dots
from .records import DTYPES
from .rules import Rule

_F32, _F64, _I64, _ = DTYPES
# In ``records.EXTRA``: the loops of exp, log, divide and matmul, each with its data, the dot function, and where enough ones lie.
_LOOPS = (np.exp, np.log, np.divide, np.matmul)
_EXP, _LOG, _DIVIDE, _MATMUL = (records.EXTRA + 2 * k for k in range(len(_LOOPS)))
_DOT = records.EXTRA + 2 * len(_LOOPS)
_ONES, _SIZE = _DOT + 1, _DOT + 2
_MOST = 256  # scores of a small matrix, see ``ops.small``; so there are at most half as many classes
_LONGEST = 1024  # losses that are added up at once


class _Loss(Product):
    """A loss of two operands, of which this form takes the mean."""

    def require_mean(self, reduction: Value, *absent: Value) -> None:
        """Go on for a mean, without the arguments ``absent``."""
        self.require(self.same(reduction, self.object("mean")))
        for thing in absent:
            self.require(self.same(thing, self.object(None)))

    def require_alike(self, a: Value, b: Value) -> Value:
        """The number of elements of two small row-major arrays of one dtype and shape."""
        self.require(self.is_row_major(a) & self.is_row_major(b) & self.same(self.dtype(a), self.dtype(b)))
        self.require(self.same_sizes(a, b, self.dims))
        n, _ = self.measured(a)
        self.require((n > 0) & (n < self.word(records.LIMIT)))
        return n

    def answer_mean(self, dtype: Value, n: Value, bits: Value, loss: Callable[[Value, str], Value]) -> None:
        """Return the mean of ``loss(i, element)`` for each of ``n`` places, added up as NumPy does."""
        place, loop, data, dtype = self.loop_for(dtype, (0, 1))
        losses, r, none = self.scratch(_LONGEST, "f64"), self.new_array(dtype, self.i64(0), self.null), self.i64(0)
        cell = self.data(r)

        def of(element: str) -> None:
            self.loop(0, n, lambda i: self.store(loss(i, element), losses, i, element))
            self.store(self.const(0.0, element), cell, 0, element)
            self.run(loop, data, n, [(cell, none), (losses, self.i64(SIZES[element])), (cell, none)])
            self.store(self.load(cell, 0, element) / self.cast(n, element), cell, 0, element)

        self.when(place.eq(0), lambda: of("f32"), lambda: of("f64"))
        self.answer_new(r, bits)


class _Scores(_Loss):
    """A matrix of scores and a class of each row."""

    def require_scores(self, a: Value) -> tuple[Value, Value]:
        """The number of rows and of columns of a small float32 matrix, row-major and without large numbers."""
        self.require(self.same(self.dtype(a), self.object(_F32)))
        return self.require_small(a)

    def require_small(self, a: Value) -> tuple[Value, Value]:
        """The number of rows and of columns of a small row-major matrix."""
        self.require(self.is_row_major(a))
        rows, columns = self.require_matrix(a)
        self.require(rows * columns < self.word(records.LIMIT))
        return rows, columns

    def require_classes(self, array: Value, rows: Value, columns: Value) -> Value:
        """The address of one class for each row."""
        self.require(self.is_row_major(array) & self.same(self.dtype(array), self.object(_I64)) & self.ndim(array).eq(1))
        self.require(self.load(self.dims(array), 0, "i64").eq(rows))
        data = self.data(array)

        def wrong(i: Value, found: Value) -> Value:
            label = self.load(data, i, "i64")
            return found | self.cast((label < 0) | (label >= columns), "i64")

        self.require(self.loop(0, rows, wrong, carried=(self.i64(0),)).eq(0))
        return data

    def loop_at(self, place: int) -> tuple[Value, Value]:
        """A loop and its data."""
        return self.word(place, element="ptr"), self.word(place + 1, element="ptr")

    def require_all_samples(self, ignore_index: Value) -> None:
        """Go on where no class is ignored."""
        self.require(self.integer_of(ignore_index) < 0)

    def row_sums(self, grown: Value, rows: Value, columns: Value, sums: Value) -> None:
        ones, four = self.word(_ONES, element="ptr"), self.i64(4)
        self.multiply(
            *self.loop_at(_MATMUL), (rows, columns, self.i64(1)), [(grown, columns * 4, four), (ones, four, four), (sums, four, four)]
        )


def class_loss(code: Code) -> str:
    """``cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)`` of few scores."""
    k = _Scores(code, "class_loss")
    a, bits = k.begin(8)
    target = k.argument(1)
    k.require_mean(k.argument(6), *[k.argument(place) for place in (2, 3, 5)])
    k.require_all_samples(k.argument(4))
    k.require(k.is_exactly(k.argument(7), float))
    k.require(k.field(k.argument(7), 16, "f64").eq(0.0) & k.is_plain(target))
    rows, columns = k.require_scores(a)
    labels, data, four = k.require_classes(k.any_array_of(target), rows, columns), k.data(a), k.i64(4)
    k.require(k.is_moderate(data, rows * columns))
    grown, sums, picked = (k.scratch(_MOST, "f32") for _ in range(3))
    k.run(*k.loop_at(_EXP), rows * columns, [(data, four), (grown, four)])
    k.row_sums(grown, rows, columns, sums)
    k.loop(0, rows, lambda i: k.store(k.load(grown, i * columns + k.load(labels, i, "i64"), "f32"), picked, i, "f32"))
    k.run(*k.loop_at(_DIVIDE), rows, [(sums, four), (picked, four), (sums, four)])
    k.run(*k.loop_at(_LOG), rows, [(sums, four), (sums, four)])
    r = k.new_array(k.object(_F32), k.i64(0), k.null)
    k.call_c(k.word(_DOT, element="ptr"), None, sums, four, k.word(_ONES, element="ptr"), four, k.data(r), rows, k.null)
    k.store(k.load(k.data(r), 0, "f32") / k.cast(rows, "f32"), k.data(r), 0, "f32")
    k.answer_new(r, bits)
    return k.finish()


class _Slopes(_Scores, Rule):
    """A rule over scores."""


def class_slope(code: Code) -> str:
    """The gradient of a mean cross entropy of few scores."""
    k = _Slopes(code, "class_slope")
    node, g = k.open()
    (edge,), (scores, target, weight) = k.items(node, "edges", 1), k.items(node, "saved", 3)
    reduction, ignore_index = k.items(node, "attrs", 2)
    k.require(~k.same(edge, k.object(None)))
    k.require_mean(reduction, weight)
    k.require_all_samples(ignore_index)
    k.require(k.same(k.dtype(g), k.object(_F32)) & k.ndim(g).eq(0))
    a = k.saved_array(node, scores)
    rows, columns = k.require_scores(a)
    labels, data, four = k.require_classes(k.saved_array(node, target), rows, columns), k.data(a), k.i64(4)
    k.require(k.is_moderate(data, rows * columns))
    n, step, sums = rows * columns, columns * 4, k.scratch(_MOST, "f32")
    share = k.load(k.data(g), 0, "f32") / k.cast(rows, "f32")
    r = k.matrix(k.object(_F32), rows, columns)
    grown = k.data(r)
    k.run(*k.loop_at(_EXP), n, [(data, four), (grown, four)])
    ones = k.word(_ONES, element="ptr")
    k.multiply(*k.loop_at(_MATMUL), (rows, columns, columns), [(grown, step, four), (ones, step, four), (sums, step, four)])
    k.run(*k.loop_at(_DIVIDE), n, [(grown, four), (sums, four), (grown, four)])

    def less(i: Value) -> None:
        place = i * columns + k.load(labels, i, "i64")
        k.store(k.load(grown, place, "f32") - 1.0, grown, place, "f32")

    k.loop(0, rows, less)
    k.loop(0, n, lambda i: k.store(k.load(grown, i, "f32") * share, grown, i, "f32"))
    k.give_gradients(k.unrecorded(r))
    return k.finish()


# -- likelihoods --------------------------------------------------------------------------------------------------------------------------
def likelihood(code: Code) -> str:
    """``nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction)`` of few scores."""
    k = _Scores(code, "likelihood")
    a, bits = k.begin(7)
    target = k.argument(1)
    k.require_mean(k.argument(6), *[k.argument(place) for place in (2, 3, 5)])
    k.require_all_samples(k.argument(4))
    k.require(k.is_plain(target))
    rows, columns = k.require_small(a)
    labels, data = k.require_classes(k.any_array_of(target), rows, columns), k.data(a)
    k.answer_mean(k.dtype(a), rows, bits, lambda i, element: -k.load(data, i * columns + k.load(labels, i, "i64"), element))
    return k.finish()


# -- squared differences ------------------------------------------------------------------------------------------------------------------
def squared_loss(code: Code) -> str:
    """``mse_loss(input, target, size_average, reduce, reduction, weight)`` of few elements."""
    k = _Loss(code, "squared_loss")
    a, bits = k.begin(6)
    target = k.argument(1)
    k.require_mean(k.argument(4), *[k.argument(place) for place in (2, 3, 5)])
    k.require(k.is_plain(target))
    b = k.any_array_of(target)

    def square(i: Value, element: str) -> Value:
        apart = k.load(k.data(a), i, element) - k.load(k.data(b), i, element)
        return apart * apart

    k.answer_mean(k.dtype(a), k.require_alike(a, b), bits, square)
    return k.finish()


# -- records ------------------------------------------------------------------------------------------------------------------------------
def _of_scores(op: Any) -> records.Record:
    if not loops_are_dots():
        raise records.Unfit(op.name)
    record = records.Record(_SIZE)
    for place, ufunc in zip((_EXP, _LOG, _DIVIDE, _MATMUL), _LOOPS, strict=True):
        record.put_loop(place, ufunc, _F32)
    ones = np.ones((_MOST // 2) ** 2, _F32)
    record.put(_DOT, dot_function(_F32))
    record.kept.append(ones)
    record.put(_ONES, ones.ctypes.data)
    record.put_limit(op, vars(sys.modules[op.module])["small_cross_entropy"].__globals__["LIMIT"] + 1)
    return record


def of_class_loss(composite: Any) -> records.Record:
    """The record of ``cross_entropy``.

    Raises:
        Unfit: the loops are others than those of the function in Python.
    """
    op = primitive("_cross_entropy", "nn.functional")
    record = _of_scores(op)
    record.put_history(op, {name: composite.names.index(name) for name in op.names})
    return record


def of_class_slope(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of ``cross_entropy``.

    Raises:
        Unfit: the loops are others than those of the rule in Python.
    """
    return _of_scores(op)


def _of_means(op: Any) -> records.Record:
    record = records.Record()
    record.put_loops(np.add, [_F32, _F64])
    record.put_limit(op, _LONGEST)
    return record


def of_mean_loss(composite: Any) -> records.Record:
    """The record of ``nll_loss`` or ``mse_loss``.

    Raises:
        Unfit: the loops are others than those of the function in Python.
    """
    op = primitive("_" + composite.name, "nn.functional")
    record = _of_means(op)
    record.put_history(op, {name: composite.names.index(name) for name in op.names})
    return record
