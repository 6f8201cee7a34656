"""Forms of softmax and its logarithm, of few elements: the loops of their Python wrappers in the same order."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..compiler.language import Value
from . import records
from .along import Along
from .code import Code
from .products import Product, loops_are_dots
from .records import DTYPES, F32, F64

_MOST = 256  # elements
_LOOPS = (np.maximum, np.subtract, np.exp, np.add, np.divide, np.log)
_MAXIMUM, _SUBTRACT, _EXP, _ADD, _DIVIDE, _LOG = range(len(_LOOPS))
_MATMUL, _ONES, _TABLE = records.EXTRA, records.EXTRA + 2, records.EXTRA + 3  # the loop of products, a matrix of ones, all other loops
_SIZE = _TABLE + 4 * len(_LOOPS)


class _Softmax(Product, Along):
    """A form over probabilities."""

    def loops(self, place: Value) -> list[tuple[Value, Value]]:
        return [self.loop_in(_TABLE, len(_LOOPS), which, place) for which in range(len(_LOOPS))]

    def answer_rows(self, a: Value, bits: Value) -> None:
        """Answer with softmax of the rows of a float32 matrix without large numbers: a product with ones puts each sum where it belongs."""
        rows, columns = self.require_matrix(a)
        n, size, place = rows * columns, self.i64(4), self.i64(F32)
        data, grown = self.data(a), self.scratch(_MOST, "f32")
        loops, row = self.loops(place), columns * 4
        sums = self.new_array(self.dtype(a), self.i64(2), self.dims(a))
        self.run(*loops[_EXP], n, [(data, size), (grown, size)])
        loop, own, ones = (self.word(_MATMUL + k, element="ptr") for k in range(3))
        operands = [(grown, row, size), (ones, row, size), (self.data(sums), row, size)]
        self.multiply(loop, own, (rows, columns, columns), operands)
        self.run(*loops[_DIVIDE], n, [(grown, size), (self.data(sums), size), (self.data(sums), size)])
        self.answer_new(sums, bits)

    def answer_along(self, a: Value, bits: Value, dim: Value, place: Value, of_logarithm: bool) -> None:
        """Answer with softmax along a dimension, the maximum subtracted first."""
        self.along(a, dim, self.const(True, "b1"))
        n, size, loops = self.outer * self.length * self.inner, self.item_size(self.dtype(a)), self.loops(place)
        r = self.new_array(self.dtype(a), self.ndim(a), self.dims(a))
        cells, grown, to = self.scratch(_MOST, "i64"), self.scratch(_MOST, "i64"), self.data(r)
        self.reduce(loops[_MAXIMUM], self.data(a), size, cells)
        self.spread(loops[_SUBTRACT], self.data(a), size, cells, to)
        grown = grown if of_logarithm else to
        self.run(*loops[_EXP], n, [(to, size), (grown, size)])
        count = self.outer * self.inner
        self.call_c("memset", "ptr", cells, self.i32(0), count * size)
        self.reduce(loops[_ADD], grown, size, cells, 0)
        if of_logarithm:
            self.run(*loops[_LOG], count, [(cells, size), (cells, size)])
        self.spread(loops[_SUBTRACT if of_logarithm else _DIVIDE], to, size, cells, to)
        self.answer_new(r, bits)


def _written(code: Code, name: str, of_logarithm: bool) -> str:
    """``softmax(x, dim, dtype)``, or its logarithm, of few floats."""
    k = _Softmax(code, name)
    a, bits = k.begin(3)
    n, no_short = k.measured(a)
    k.require(k.is_row_major(a) & k.same(k.argument(2), k.object(None)) & (n > 0) & (k.ndim(a) > 0) & (n < k.word(records.LIMIT)))
    k.require_usual_strides([k.argument(0)], no_short)
    dim, place = k.index(k.argument(1), k.ndim(a)), k.place_of(k.dtype(a), (F32, F64))
    if not of_logarithm:
        is_matrix = place.eq(F32) & k.ndim(a).eq(2) & dim.eq(1)
        k.case(k.when(is_matrix, lambda: k.is_moderate(k.data(a), n), lambda: is_matrix), lambda: k.answer_rows(a, bits))
    k.answer_along(a, bits, dim, place, of_logarithm)
    return k.finish()


def softmax(code: Code) -> str:
    """``softmax(x, dim, dtype)``."""
    return _written(code, "softmax", False)


def log_softmax(code: Code) -> str:
    """``log_softmax(x, dim, dtype)``."""
    return _written(code, "log_softmax", True)


def of_softmaxes(op: Any) -> records.Record:
    """The record of either.

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    if not loops_are_dots():
        raise records.Unfit(op.name)
    record = records.Record(_SIZE)
    record.put_history(op, {name: k for k, name in enumerate(op.names)}, records.DTYPE)
    record.put_limit(op, min(_MOST, vars(sys.modules[op.module])["LIMIT"]) + 1)
    record.put_loop(_MATMUL, np.matmul, DTYPES[F32])
    ones = np.ones((_MOST // 2) ** 2, np.float32)  # the rows of a matrix of ones with at most so many columns as there are with two rows
    record.kept.append(ones)
    record.put(_ONES, ones.ctypes.data)
    record.put_table(_TABLE, _LOOPS)
    return record
