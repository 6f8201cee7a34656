"""Forms of variances, standard deviations and norms of few floats: in float64, as in Python."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.calls.registry import primitive
from ..compiler.language import Value
from . import records
from .code import Code
from .records import DTYPES, ELEMENTS, F32, F64
from .reductions import Reduction

_MOST = 256  # elements
_LOOPS = (np.add, np.subtract, np.multiply)  # of float64, with their data
_ADD, _SUBTRACT, _MULTIPLY = range(len(_LOOPS))
_ROOT = records.EXTRA + 2 * len(_LOOPS)  # whether the root is taken


class _Spread(Reduction):
    """``var(x, dim, unbiased, keepdim, correction)`` and ``std``."""

    def correction(self) -> tuple[Value, Value]:
        """The number that is taken from that of elements, as a float and as the object that nodes keep."""
        unbiased, given, none = self.argument(2), self.argument(4), self.object(None)
        is_default = self.same(given, none)
        one = self.same(unbiased, none) | self.same(unbiased, self.object(True))
        self.require(one | (is_default & self.same(unbiased, self.object(False))))
        self.require(is_default | self.same(unbiased, none))
        thing = self.pick(is_default, self.pick(one, self.object(1), self.object(0)), given)
        is_float = self.is_exactly(thing, float)
        return self.when(is_float, lambda: self.field(thing, 16, "f64"), lambda: self.cast(self.integer_of(thing), "f64")), thing

    def counted_from_front(self, dim: Value) -> Value:
        """A tuple of a dimension (a new reference), which nodes keep where it stays with size 1."""
        number = self.scratch(1, "i64")
        self.store(dim, number, 0, "i64")
        return self.tuple_of(number, self.i64(1))

    def loop_of(self, which: int) -> tuple[Value, Value]:
        return self.loop_in(records.EXTRA, len(_LOOPS), which, self.i64(0))

    def widened(self, a: Value, place: Value, n: Value) -> Value:
        """Address of the elements in float64."""
        rest = self.scratch(_MOST, "f64")
        for k in (F32, F64):
            element = ELEMENTS[k]

            def widen(i: Value, element: str = element) -> None:
                self.store(self.cast(self.load(self.data(a), i, element), "f64"), rest, i, "f64")

            self.when(place.eq(k), partial(self.loop, 0, n, widen))
        return rest

    def add_up(self, rest: Value, cells: Value, divisor: Value) -> None:
        """Write sums along the dimension, divided by a number."""
        count = self.outer * self.inner
        self.call_c("memset", "ptr", cells, self.i32(0), count * 8)
        self.reduce(self.loop_of(_ADD), rest, self.i64(8), cells, 0)
        self.loop(0, count, lambda i: self.store(self.load(cells, i, "f64") / divisor, cells, i, "f64"))

    def square(self, rest: Value, n: Value) -> None:
        size = self.i64(8)
        self.run(*self.loop_of(_MULTIPLY), n, [(rest, size), (rest, size), (rest, size)])

    def squares(self, a: Value, place: Value, n: Value, freedom: Value) -> Value:
        """Address of the sums of squared distances from the mean, over the degrees of freedom, in float64."""
        rest, cells = self.widened(a, place, n), self.scratch(_MOST, "f64")
        self.add_up(rest, cells, self.cast(self.length, "f64"))
        self.spread(self.loop_of(_SUBTRACT), rest, self.i64(8), cells, rest)
        self.square(rest, n)
        self.add_up(rest, cells, freedom)
        return cells

    def answer_cells(self, a: Value, place: Value, cells: Value, is_root: Value, bits: Value) -> None:
        """Answer with numbers in float64, or their roots, in the dtype of an array."""
        r, count = self.new_array(self.dtype(a), self.remaining, self.left), self.outer * self.inner
        for at in (F32, F64):
            element = ELEMENTS[at]

            def finish(i: Value, element: str = element) -> None:
                value = self.load(cells, i, "f64")
                self.store(self.cast(self.pick(is_root, self.sqrt(value), value), element), self.data(r), i, element)

            self.when(place.eq(at), partial(self.loop, 0, count, finish))
        self.answer_new(r, bits)


def spread(code: Code) -> str:
    """``var(x, dim, unbiased, keepdim, correction)`` and ``std``, of a dimension, neighbours, or all."""
    k = _Spread(code, "spread")
    x, bits = k.enter(5)
    a, dim, keeps = k.array_of(x), k.argument(1), k.flag(k.argument(3))
    n, place = k.size(a), k.place_of(k.dtype(a), (F32, F64))
    k.require((n > 0) & (n <= _MOST) & (k.ndim(a) > 0))
    k.require(k.same(dim, k.object(None)) | k.is_exactly(dim, int))
    first, last = k.range(a, dim, keeps)
    k.along(a, first, keeps, last)
    less, thing = k.correction()
    freedom = k.cast(k.length, "f64") - less
    k.require(freedom > 0)
    k.own(k.incref(a))  # a tuple's allocation may run Python code
    kept_dim = k.own(k.when(keeps, lambda: k.counted_from_front(first), lambda: k.incref(dim)))
    given = k.scratch(4, "ptr")
    for at, kept in enumerate((x, kept_dim, thing, k.argument(3))):
        k.store(kept, given, at, "ptr")
    k.given = given
    k.answer_cells(a, place, k.squares(a, place, n, freedom), k.word(_ROOT).ne(0), bits)
    return k.finish()


def length(code: Code) -> str:
    """``vector_norm(x, 2, dim, keepdim, dtype)`` along a dimension."""
    k = _Spread(code, "length")
    x, bits = k.enter(5)
    a, order, keeps = k.array_of(x), k.argument(1), k.flag(k.argument(3))
    n, place = k.size(a), k.place_of(k.dtype(a), (F32, F64))
    k.require((n > 0) & (n <= _MOST) & (k.ndim(a) > 0) & k.same(k.argument(4), k.object(None)))
    is_float = k.is_exactly(order, float)
    k.require(k.when(is_float, lambda: k.field(order, 16, "f64").eq(2.0), lambda: k.integer_of(order).eq(2)))
    dim = k.index(k.argument(2), k.ndim(a))
    k.along(a, dim, keeps)
    k.own(k.incref(a))
    two = k.own(k.call_c("PyFloat_FromDouble", "ptr", k.const(2.0, "f64")))
    k.check(k.exists(two))
    given = k.scratch(5, "ptr")
    for at, kept in enumerate((x, two, k.own(k.counted_from_front(dim)), k.argument(3), k.object(None))):
        k.store(kept, given, at, "ptr")
    k.given = given
    rest, cells = k.widened(a, place, n), k.scratch(_MOST, "f64")
    k.square(rest, n)
    k.add_up(rest, cells, k.const(1.0, "f64"))
    k.answer_cells(a, place, cells, k.const(True, "b1"), bits)
    return k.finish()


def of_lengths(op: Any) -> records.Record:
    """The record of ``vector_norm``.

    Raises:
        Unfit: NumPy has other loops.
    """
    record = records.of_views(op)
    record.put_table(records.EXTRA, _LOOPS, DTYPES[F64 : F64 + 1])
    return record


def of_spreads(composite: Any) -> records.Record:
    """The record of ``var`` or ``std``.

    Raises:
        Unfit: NumPy has other loops.
    """
    op, record = primitive(f"_{composite.name}"), records.Record()
    record.put_history(op, {name: k for k, name in enumerate(op.names)})
    record.put_table(records.EXTRA, _LOOPS, DTYPES[F64 : F64 + 1])
    record.put(_ROOT, int(composite.name == "std"))
    return record
