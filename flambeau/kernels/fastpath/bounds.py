"""Forms of ``clamp`` by numbers: the two loops of its Python wrapper, into a new tensor or into the first operand."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise, number_cell
from .records import DTYPES, F32, F64, I64

_LOOPS = (np.maximum, np.minimum)


class _Bounds(Pointwise):
    """``clamp(x, min, max)``, either of which may be None."""

    def read(self, a: Value) -> None:
        """Look at the operand and the bounds."""
        self.place = self.place_of(self.dtype(a), (F32, F64, I64))
        none = self.object(None)
        self.given = self.operands[1]
        bounds = [self.argument(place) for place in (1, 2)]
        self.is_there = [~self.same(bound, none) for bound in bounds]
        self.require(self.is_there[0] | self.is_there[1])
        self.cells = [
            self.when(there, lambda bound=bound: number_cell(self, bound, self.place), lambda: self.null)  # type: ignore[misc]
            for there, bound in zip(self.is_there, bounds, strict=True)
        ]

    def limit(self, a: Value, target: Value, n: Value) -> None:
        """Write elements within the bounds to ``target``."""
        size, source = self.item_size(self.dtype(a)), self.data(a)
        for which, (there, cell) in enumerate(zip(self.is_there, self.cells, strict=True)):
            loop = self.loop_in(records.EXTRA, len(_LOOPS), which, self.place)
            self.when(there, lambda: self.run(*loop, n, [(cell, self.i64(0)), (source, size), (target, size)]))  # noqa: B023  # at once
            source = self.pick(there, target, source)


def limited(code: Code) -> str:
    """``clamp(x, min, max)``."""
    k = _Bounds(code, "limited")
    x, bits = k.enter(3)
    a = k.array_of(x)
    n, no_short = k.small(a)
    k.require_usual_strides([x], no_short)
    k.read(a)
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(a))
    k.limit(a, k.data(r), n)
    k.answer_new(r, bits)
    return k.finish()


def limited_there(code: Code) -> str:
    """``clamp_(x, min, max)``, which nobody records."""
    k = _Bounds(code, "limited_there")
    x, bits = k.enter(3)
    k.require(bits.eq(0))
    a, storage = k.require_writable(x)
    n, _ = k.small(a)
    k.read(a)
    k.write_to(x, storage, (a,), lambda: k.limit(a, k.data(a), n))
    k.give(k.incref(x))
    return k.finish()


def of_bounds(op: Any) -> records.Record:
    """The record of ``clamp`` and ``clamp_``.

    Raises:
        Unfit: NumPy has other loops.
    """
    record = records.of_views(op)
    record.put_table(records.EXTRA, _LOOPS, DTYPES[:3])
    record.put_limit(op, vars(sys.modules[op.module])["BRANCHLESS"])
    return record
