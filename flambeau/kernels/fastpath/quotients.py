"""The form of ``//`` and ``%``, both rounded down."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..compiler.language import SIZES, Value
from . import records
from .code import Code
from .forms import Pointwise, common_end, number_cell
from .records import ELEMENTS, F32, F64, I64

_MOST = 1 << 14
_REST, _FMOD = records.EXTRA, records.EXTRA + 1  # whether the remainder is wanted, and C's loop of it for floats


class _Quotient(Pointwise):
    """A form over numbers and their divisors, which are ``step`` elements apart, or one."""

    def read(self, a: Value, y: Value) -> None:
        """Look at the divisors."""
        n, no_short = self.measured(a)
        self.require((n > 0) & (n < self.word(records.LIMIT)))
        self.place, self.of_rest = self.place_of(self.dtype(a), (F32, F64, I64)), self.word(_REST).ne(0)

        def tensor() -> tuple[Value, Value, Value]:
            b = self.array_of(y)
            self.require(self.same(self.dtype(b), self.dtype(a)))
            count = common_end(self, a, b)
            self.require(count.eq(n) | count.eq(1))
            self.require_usual_strides([y], no_short)
            return self.data(b), count, self.cast(count.eq(n), "i64")

        def number() -> tuple[Value, Value, Value]:
            return number_cell(self, y, self.place), self.i64(1), self.i64(0)

        self.elements, (self.divisors, count, self.step) = n, self.when(self.is_plain(y), tensor, number)

        def is_usual(i: Value, every: Value) -> Value:
            divisor = self.load(self.divisors, i, "i64")
            return every & self.cast(divisor.ne(0) & divisor.ne(-1), "i64")  # by -1 the smallest has no quotient

        self.when(self.place.eq(I64), lambda: self.require(self.loop(0, count, is_usual, carried=(self.i64(1),)).ne(0)))

    def divide_whole(self, numbers: Value, target: Value) -> None:
        def divide(i: Value) -> None:
            number, divisor = self.load(numbers, i, "i64"), self.load(self.divisors, i * self.step, "i64")
            quotient = self.binary("sdiv", number, divisor)
            rest = number - quotient * divisor
            is_above = rest.ne(0) & ((rest ^ divisor) < 0)
            down = self.pick(is_above, quotient - 1, quotient)
            self.store(self.pick(self.of_rest, self.pick(is_above, rest + divisor, rest), down), target, i, "i64")

        self.loop(0, self.elements, divide)

    def divide_real(self, numbers: Value, target: Value, element: str) -> None:
        """The steps of ``ops.arithmetic._remainder`` and ``_floor_quotient``."""
        size, loop = self.i64(SIZES[element]), self.loop_in(_FMOD, 1, 0, self.place)
        self.run(*loop, self.elements, [(numbers, size), (self.divisors, self.step * size), (target, size)])

        def divide(i: Value) -> None:
            rest, number = self.load(target, i, element), self.load(numbers, i, element)
            divisor = self.load(self.divisors, i * self.step, element)
            is_above, true = rest.ne(0) & ((divisor < 0) ^ (rest < 0)), number / divisor
            quotient = (number - rest) / divisor
            quotient = self.pick(is_above, quotient - 1.0, quotient)
            down = self.floor(quotient)
            down = self.pick(quotient - down > 0.5, down + 1.0, down)
            down = self.pick(quotient.eq(0), self.copysign(0.0, true), down)
            down = self.pick(divisor.eq(0), true, down)
            self.store(self.pick(self.of_rest, self.pick(is_above, rest + divisor, rest), down), target, i, element)

        self.loop(0, self.elements, divide)


def divided(code: Code) -> str:
    """``floor_divide(x, y)`` and ``remainder(x, y)`` of a tensor and a number, or a tensor of its shape or of one element."""
    k = _Quotient(code, "divided")
    x, bits = k.enter(2)
    a = k.array_of(x)
    k.read(a, k.argument(1))
    k.require_usual_strides([x], k.measured(a)[1])
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(a))
    k.when(k.place.eq(I64), lambda: k.divide_whole(k.data(a), k.data(r)))
    for place in (F32, F64):
        k.when(k.place.eq(place), partial(k.divide_real, k.data(a), k.data(r), ELEMENTS[place]))
    k.answer_new(r, bits)
    return k.finish()


def of_quotients(op: Any) -> records.Record:
    """The record of ``floor_divide`` or ``remainder``.

    Raises:
        Unfit: NumPy has another loop.
    """
    record = records.of_views(op)
    record.put(_REST, int(op.key == "remainder"))
    record.put_table(_FMOD, (np.fmod,))
    record.put_limit(op, _MOST)
    return record
