"""The form of calls that find the first few elements by rank."""

from __future__ import annotations

from typing import Any

from ..compiler.language import Value
from . import records
from .code import Code
from .extremes import MOST, NUMBERS, Named, put_named
from .records import DTYPES, I64


class _Leading(Named):
    """A form that takes the largest or the smallest elements in turn; of equal ones the first, and NaN counts as the largest."""

    def next_of(self, data: Value, element: str, begin: Value, step: Value, taken: Value, largest: Value) -> tuple[Value, Value]:
        """The next element, which is marked as ``taken``, and its place."""

        def compare(i: Value, best: Value, at: Value) -> tuple[Value, Value]:
            value = self.load(data, begin + i * step, element)
            better = self.pick(largest, value > best, value < best)
            if value.is_float:
                ahead = self.pick(largest, value.is_nan() & ~best.is_nan(), best.is_nan() & ~value.is_nan())
                better = better | ahead
            better = self.load(taken, i, "i64").eq(0) & (better | (at < 0))
            return self.pick(better, value, best), self.pick(better, i, at)

        best, at = self.loop(0, self.length, compare, carried=(self.const(0, element), self.i64(-1)))
        self.store(self.i64(1), taken, at, "i64")
        return best, at


def leading(code: Code) -> str:
    """``topk(x, k, dim, largest, sorted)``."""
    k = _Leading(code, "leading")
    a, bits = k.begin(5)
    k.require(k.ndim(a) > 0)
    largest, count = k.flag(k.argument(3)), k.integer_of(k.argument(1))
    k.flag(k.argument(4))
    dim = k.index(k.argument(2), k.ndim(a))
    k.along(a, dim, k.const(True, "b1"))
    k.require((count > 0) & (count <= k.length))
    k.store(count, k.left, dim, "i64")
    k.keep_dim(dim, k.ndim(a).ne(1), 2, 5)
    values = k.own(k.new_array(k.dtype(a), k.ndim(a), k.left))
    places = k.new_array(k.object(DTYPES[I64]), k.ndim(a), k.left)
    k.disown(values)
    taken = k.scratch(MOST, "i64")
    for element, place in NUMBERS:

        def take(element: str = element) -> None:
            def row(number: Value) -> None:
                outer, inner = divmod(number, k.inner)
                begin, to = outer * (k.length * k.inner) + inner, outer * (count * k.inner) + inner
                k.call_c("memset", "ptr", taken, k.i32(0), k.length * 8)

                def rank(i: Value) -> None:
                    value, at = k.next_of(k.data(a), element, begin, k.inner, taken, largest)
                    k.store(value, k.data(values), to + i * k.inner, element)
                    k.store(at, k.data(places), to + i * k.inner, "i64")

                k.loop(0, count, rank)

            k.loop(0, k.outer * k.inner, row)

        k.when(k.place.eq(place), take)
    k.answer_named([values, places], bits)
    return k.finish()


def of_leading(op: Any) -> records.Record:
    """The record of ``topk``.

    Raises:
        Unfit: nodes keep something else than the places.
    """
    record = records.Record()
    put_named(record, op)
    record.put_limit(op, MOST)
    return record
