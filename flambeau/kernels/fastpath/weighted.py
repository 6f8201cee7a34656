"""Forms of sums and differences whose second operand is multiplied first: ``alpha`` is not 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise, common_end, number_cell
from .records import DTYPES, F32, F64, I64

_BLOCK = 512  # elements that are multiplied and then added
_LOOPS = 2  # of each dtype: multiply, and add or subtract


class _Weighted(Pointwise):
    """``add(x, y, alpha)`` of tensors of one dtype and shape, or of one element ``y``."""

    def read(self, a: Value, y: Value, n: Value) -> None:
        """Look at the second operand and at its factor."""
        self.b = self.array_of(y)
        self.require(self.same(self.dtype(a), self.dtype(self.b)))
        self.place = self.place_of(self.dtype(a), (F32, F64, I64))
        inner, size = common_end(self, a, self.b), self.item_size(self.dtype(a))
        self.require((n > 0) & (inner.eq(n) | inner.eq(1)))
        self.bytes_, self.step = size, self.pick(inner.eq(1) & n.ne(1), self.i64(0), size)
        self.factor = number_cell(self, self.argument(2), self.place)

    def add_up(self, a: Value, n: Value, target: Value) -> None:
        """Write the sums."""
        room, size, none = self.scratch(_BLOCK, "i64"), self.bytes_, self.i64(0)
        multiply, add = (self.loop_in(records.EXTRA, _LOOPS, which, self.place) for which in range(_LOOPS))

        def block(begin: Value) -> None:
            left = n - begin
            count = self.pick(left < _BLOCK, left, self.i64(_BLOCK))
            one, other = (self.at(self.data(array), begin * step, "i8") for array, step in ((a, size), (self.b, self.step)))
            self.run(*multiply, count, [(other, self.step), (self.factor, none), (room, size)])
            self.run(*add, count, [(one, size), (room, size), (self.at(target, begin * size, "i8"), size)])

        self.loop(0, n, block, step=_BLOCK)


def weighted(code: Code) -> str:
    """``add(x, y, alpha)``."""
    k = _Weighted(code, "weighted")
    x, bits = k.enter(3)
    y, a = k.argument(1), k.array_of(x)
    k.require(k.is_plain(y))
    n, no_short = k.small(a)
    k.read(a, y, n)
    k.require_usual_strides([x, y], no_short)
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(a))
    k.add_up(a, n, k.data(r))
    k.answer_new(r, bits)
    return k.finish()


def weighted_there(code: Code) -> str:
    """``add_(x, y, alpha)``, which nobody records."""
    k = _Weighted(code, "weighted_there")
    x, bits = k.enter(3)
    y = k.argument(1)
    k.require(k.is_plain(y) & bits.eq(0))
    a, storage = k.require_writable(x)
    n, _ = k.small(a)
    k.read(a, y, n)
    others = k.slot(y, Tensor, "_storage")
    k.require(k.same(others, k.object(None)) | ~k.same(others, storage) | k.same(x, y))
    k.write_to(x, storage, (a, k.b), lambda: k.add_up(a, n, k.data(a)))
    k.give(k.incref(x))
    return k.finish()


def of_weighted(op: Any) -> records.Record:
    """The record of ``add`` or ``sub`` with a factor.

    Raises:
        Unfit: NumPy has other loops.
    """
    record = records.of_views(op)
    record.put_table(records.EXTRA, (np.multiply, {"add": np.add, "sub": np.subtract}[op.key]), DTYPES[:3])
    record.put_limit(op)
    return record
