"""Forms of losses of few elements, and of their derivatives: the same loops of NumPy's, in the same order, as in Python."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...core.calls.registry import primitive
from ..compiler.language import Value
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


class _Scores(Product):
    """A matrix of scores and a class of each row."""

    def require_scores(self, a: Value) -> tuple[Value, Value]:
        """The number of rows and of columns of a small float32 matrix, row-major and without large numbers."""
        self.require(self.is_row_major(a) & self.same(self.dtype(a), self.object(_F32)))
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

    def require_mean(self, reduction: Value, ignore_index: Value) -> None:
        """Go on for means over all samples."""
        self.require(self.same(reduction, self.object("mean")))
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
    target, none = k.argument(1), k.object(None)
    for place in (2, 3, 5):
        k.require(k.same(k.argument(place), none))
    k.require_mean(k.argument(6), k.argument(4))
    k.require(k.is_exactly(k.argument(7), float))
    k.require(k.field(k.argument(7), 16, "f64").eq(0.0) & k.is_plain(target))
    rows, columns = k.require_scores(a)
    labels, data, four = k.require_classes(k.any_array_of(target), rows, columns), k.data(a), k.i64(4)
    k.require_moderate(data, rows * columns)
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
    k.require(~k.same(edge, k.object(None)) & k.same(weight, k.object(None)))
    k.require_mean(reduction, ignore_index)
    k.require(k.same(k.dtype(g), k.object(_F32)) & k.ndim(g).eq(0))
    a = k.saved_array(node, scores)
    rows, columns = k.require_scores(a)
    labels, data, four = k.require_classes(k.saved_array(node, target), rows, columns), k.data(a), k.i64(4)
    k.require_moderate(data, rows * columns)
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
