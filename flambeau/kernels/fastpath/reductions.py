"""Forms of calls that make one element of many: sums and means, largest elements, products, truths."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..compiler.language import Value
from . import records
from .along import Along
from .code import Code
from .interpreter import dot_function
from .products import SECOND, Product, of_products
from .records import BOOL, DTYPES, ELEMENTS, F32, F64, I64

# In ``records.EXTRA``: of each dtype the loop that divides, with its data, the dot function, the ones, and the loop of sums with its data.
_DOTS, _ONES, _ADD = SECOND + 4, SECOND + 6, SECOND + 8
_LONG = records.EXTRA + 12  # from so many elements on others add up; below ``LIMIT`` BLAS does where it can
_MOST = 1 << 14


class Reduction(Product, Along):
    """A form over sums: products with ones, or what ``add.reduce`` adds along dimensions, zero coming first."""

    place: Value
    bytes_: Value

    def answer_sums(self, r: Value, bits: Value, count: Value, of: Value) -> None:
        """Return sums, each of them divided by the number of elements ``of`` which it is where that is meant."""

        def divide() -> None:
            cell = self.scratch(1, "i64")
            for k in (F32, F64):
                element = ELEMENTS[k]
                self.when(self.place.eq(k), lambda element=element: self.store(self.cast(of, element), cell, 0, element))  # type: ignore[misc]
            operands = [(self.data(r), self.bytes_), (cell, self.i64(0)), (self.data(r), self.bytes_)]
            self.run(self.second(self.place, 0), self.second(self.place, 1), count, operands)

        self.when(self.divides(), divide)
        self.answer_new(r, bits)

    def divides(self) -> Value:
        return self.exists(self.second(self.i64(F32), 0))

    def add(self) -> tuple[Value, Value]:
        """The loop of sums."""
        return self.loop_in(_ADD, 1, 0, self.place)

    def answer_whole(self, a: Value, n: Value, bits: Value) -> None:
        """Answer with the sum or mean of all elements."""
        r = self.new_array(self.dtype(a), self.i64(0), self.null)
        to, size, none = self.data(r), self.bytes_, self.i64(0)

        def by_dot() -> None:
            ones = self.word(_ONES, self.place, "ptr")
            self.call_c(self.word(_DOTS, self.place, "ptr"), None, self.data(a), size, ones, size, to, n, self.null)

        def by_loop() -> None:
            self.call_c("memset", "ptr", to, self.i32(0), size)
            self.run(*self.add(), n, [(to, none), (self.data(a), size), (to, none)])

        self.when(n < self.word(records.LIMIT), by_dot, by_loop)
        self.answer_sums(r, bits, self.i64(1), n)

    def answer_along(self, a: Value, dim: Value, keeps: Value, bits: Value) -> None:
        """Answer with sums or means along dimensions."""
        first, last = self.neighbours(dim, self.ndim(a))
        self.along(a, first, keeps, last)
        r = self.new_array(self.dtype(a), self.remaining, self.left)
        count = self.outer * self.inner
        self.call_c("memset", "ptr", self.data(r), self.i32(0), count * self.bytes_)
        self.reduce(self.add(), self.data(a), self.bytes_, self.data(r), 0)
        self.answer_sums(r, bits, count, self.length)

    def answer_numbers(self, a: Value, dim: Value, keeps: Value) -> None:
        """Answer with sums of whole numbers or truths."""
        self.require(~self.divides())
        first, last = self.range(a, dim, keeps)
        self.along(a, first, keeps, last)
        r = self.new_array(self.object(DTYPES[I64]), self.remaining, self.left)
        for k in (I64, BOOL):

            def add(element: str = ELEMENTS[k]) -> None:
                def row(number: Value) -> None:
                    begin = (number // self.inner) * (self.length * self.inner) + number % self.inner

                    def more(i: Value, total: Value) -> Value:
                        return total + self.cast(self.load(self.data(a), begin + i * self.inner, element), "i64")

                    self.store(self.loop(0, self.length, more, carried=(self.i64(0),)), self.data(r), number, "i64")

                self.loop(0, self.outer * self.inner, row)

            self.when(self.place.eq(k), add)
        self.answer_new(r, self.i64(0))

    def range(self, a: Value, dim: Value, keeps: Value) -> tuple[Value, Value]:
        """The first and the last dimension that are meant; none given are all."""

        def every() -> tuple[Value, Value]:
            self.require(~keeps)
            return self.i64(0), self.ndim(a) - 1

        return self.when(self.same(dim, self.object(None)), every, lambda: self.neighbours(dim, self.ndim(a)))


def reduced(code: Code) -> str:
    """``sum(x, dim, keepdim, dtype)`` and ``mean`` of few elements."""
    k = Reduction(code, "reduced")
    a, bits = k.begin(4)
    dim, keeps = k.argument(1), k.flag(k.argument(2))
    k.require(k.same(k.argument(3), k.object(None)) & k.is_row_major(a))
    n, _ = k.measured(a)
    k.require((n > 0) & (n < k.word(_LONG)))
    k.place, k.bytes_ = k.place_of(k.dtype(a)), k.size_of(k.dtype(a))
    k.case(k.place >= I64, lambda: k.answer_numbers(a, dim, keeps))
    k.case(k.same(dim, k.object(None)) & ~keeps, lambda: k.answer_whole(a, n, bits))
    by_loop = keeps | k.ndim(a).ne(2) | (n >= k.word(records.LIMIT)) | ~k.is_exactly(dim, int)
    k.case(by_loop, lambda: k.answer_along(a, dim, keeps, bits))
    _, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64))
    rows, columns = k.require_matrix(a)
    ones, size = k.word(_ONES, k.place, "ptr"), k.bytes_
    along = k.index(dim, k.i64(2)).eq(1)
    length = k.scratch(1, "i64")
    k.store(k.pick(along, rows, columns), length, 0, "i64")
    r = k.new_array(dtype, k.i64(1), length)
    across, step = k.steps(a)
    of_rows = [(k.data(a), across, step), (ones, size, size), (k.data(r), size, size)]
    of_columns = [(ones, size, size), (k.data(a), across, step), (k.data(r), size, size)]
    one = k.i64(1)
    k.when(
        along,
        lambda: k.multiply(loop, data, (rows, columns, one), of_rows),
        lambda: k.multiply(loop, data, (one, rows, columns), of_columns),
    )
    k.answer_sums(r, bits, k.pick(along, rows, columns), k.pick(along, columns, rows))
    return k.finish()


def summed(code: Code) -> str:
    """``_sum_to_size(x, shape)`` of a small matrix and the shape of its rows: a product with ones."""
    k = Product(code, "summed")
    a, bits = k.begin(2)
    shape = k.argument(1)
    k.require(k.is_row_major(a) & k.is_exactly(shape, tuple))
    k.require(k.field(shape, 16, "i64").eq(1))
    rows, columns = k.require_matrix(a)
    k.require(k.integer_of(k.field(shape, k.interpreter.tuple_items)).eq(columns))
    k.require(rows * columns < k.word(records.LIMIT))
    place, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64))
    ones, size = k.word(_ONES, place, "ptr"), k.item_size(dtype)
    r = k.new_array(dtype, k.i64(1), k.at(k.dims(a), 1, "i64"))
    across, along = k.steps(a)
    k.multiply(loop, data, (k.i64(1), rows, columns), [(ones, size, size), (k.data(a), across, along), (k.data(r), size, size)])
    k.answer_new(r, bits)
    return k.finish()


def of_sums(op: Any) -> records.Record:
    """The record of ``sum`` or ``mean``.

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    record = of_products(op)
    record.words[SECOND : SECOND + 4] = 0
    most: int = sys.modules[op.module].small_sum.__globals__["LIMIT"]  # as the fast path of the Python wrapper has it
    record.put_limit(op, _MOST)
    record.put(_LONG, int(record.words[records.LIMIT]))
    record.put_limit(op, most + 1)
    for k, dtype in enumerate(DTYPES[:2]):
        ones = np.ones(most, dtype)
        record.put(_DOTS + k, dot_function(dtype))
        record.kept.append(ones)
        record.put(_ONES + k, ones.ctypes.data)
        record.put_loop(_ADD + 2 * k, np.add, dtype)
        if op.name == "mean":
            record.put_loop(SECOND + 2 * k, np.divide, dtype)
    return record


# -- by other ufuncs ----------------------------------------------------------------------------------------------------------------------
def folded(code: Code) -> str:
    """``amax(x, dim, keepdim)``, ``amin`` and ``prod(x, dim, keepdim, dtype)``: a ufunc from the first element on."""
    k = Reduction(code, "folded")
    count = k.word(records.EXTRA)
    a, bits = k.begin(count)
    k.when(count.eq(4), lambda: k.require(k.same(k.argument(3), k.object(None))))
    keeps = k.flag(k.argument(2))
    k.require(k.is_row_major(a))
    n, _ = k.small(a)
    k.require(n > 0)
    _, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64, I64))
    dim = k.argument(1)
    k.require(count.eq(4) | ~k.same(dim, k.object(None)))
    first, last = k.range(a, k.pick(k.same(dim, k.object(())), k.object(None), dim), keeps)
    k.along(a, first, keeps, last)
    r = k.new_array(dtype, k.remaining, k.left)
    k.reduce((loop, data), k.data(a), k.item_size(dtype), k.data(r))
    k.answer_new(r, bits)
    return k.finish()


def of_folds(op: Any) -> records.Record:
    """The record of ``amax``, ``amin`` or ``prod``.

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    record = records.of_views(op)
    record.put(records.EXTRA, len(op.names))
    record.put_loops({"amax": np.maximum, "amin": np.minimum, "prod": np.multiply}[op.key], DTYPES[:3])
    record.put_limit(op, _MOST)
    return record


# -- truths -------------------------------------------------------------------------------------------------------------------------------
def truths(code: Code) -> str:
    """``any(x, dim, keepdim)`` and ``all``, of any numbers."""
    k = Reduction(code, "truths")
    x, _ = k.enter(3)
    dim, keeps, a, for_all = k.argument(1), k.flag(k.argument(2)), k.array_of(x), k.word(records.EXTRA).ne(0)
    n, place = k.size(a), k.place_of(k.dtype(a))
    k.require((n > 0) & (n < k.word(records.LIMIT)) & (k.same(dim, k.object(None)) | k.is_exactly(dim, int)))
    first, last = k.range(a, dim, keeps)
    k.along(a, first, keeps, last)
    r = k.new_array(k.object(DTYPES[BOOL]), k.remaining, k.left)
    for at, element in enumerate(ELEMENTS):

        def decide(element: str = element) -> None:
            def row(number: Value) -> None:
                begin = (number // k.inner) * (k.length * k.inner) + number % k.inner

                def more(i: Value, found: Value) -> Value:
                    value = k.load(k.data(a), begin + i * k.inner, element)
                    truth = k.cast(value, "i64") if element == "b8" else k.cast(value.ne(0), "i64")
                    return found + truth

                found = k.loop(0, k.length, more, carried=(k.i64(0),))
                k.store(k.pick(for_all, found.eq(k.length), found.ne(0)), k.data(r), number, "b8")

            k.loop(0, k.outer * k.inner, row)

        k.when(place.eq(at), decide)
    k.answer_new(r, k.i64(0))
    return k.finish()


def of_truths(op: Any) -> records.Record:
    """The record of ``any`` or ``all``."""
    record = records.Record()
    record.put_limit(op, _MOST)
    record.put(records.EXTRA, int(op.key == "all"))
    return record
