r"""LU factors with partial pivoting, out of registers.

    panels of ``PANEL`` columns: within one, blocks of columns, each factored a column at a time; rows are exchanged whole

         done      U         a panel's block: below its pivots, row by row
        +-----+----------+
        |  \  |          |   then the block's rows to the right are solved with its triangle,
        |   \ |----------|   and its columns times these rows taken off what is below
        |  L  |  rest    |
        +-----+----------+

Source: Golub and Van Loan 2013, "Matrix computations", section 3.4; Toledo 1997, "Locality of reference in LU decomposition with partial
pivoting", for panels within panels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from .blocks import Blocks, Rows, are_for_blocks, lies, reserve, slices

PANEL = 64  # columns
APART = 384  # rows from which on a panel is a launch, and what it does to other columns another one
DECLINED = -1  # in place of a failure's number: numbers that are not finite, or a pivot whose reciprocal is not


class Eliminated(Record):
    """A batch of ``count`` matrices, ``m`` by ``n``, and where factors, pivots and failures go."""

    a: Array
    rows: Array  # the factors, in padded rows
    pivots: Array  # int32, counted from 1
    order: Array  # int32: which row of the matrix each row of the factors was
    failures: Array  # int64: the first pivot that is 0, counted from 1; 0 where there is none
    m: Integer
    n: Integer
    pitch: Integer
    by_rows: Integer  # how the matrices lie
    by: Integer  # from row to row, or from column to column
    step: Integer  # from matrix to matrix, and from factors to factors
    room: Integer
    first: Integer  # column of the panel, where each is a launch


class _Elimination(Blocks):
    """The factors of one matrix in padded rows."""

    def __init__(self, k: Builder, element: str, o: Eliminated, b: Value):
        super().__init__(k, element)
        self.o, self.rows = o, k.at(o.rows, b * o.room, element)
        self.pivots, self.order = k.at(o.pivots, b * k.least(o.m, o.n), "i32"), k.at(o.order, b * o.m, "i32")
        self.short, self.columns = k.least(o.m, o.n), (k.const(0, "i64"), o.n)  # columns in which rows are exchanged
        self.number_of = "i32" if element == "f32" else "i64"  # rows, beside elements of that size

    def here(self, row: Value | int, column: Value) -> tuple[Value, Value]:
        return self.at(self.rows, row, self.o.pitch, column), self.o.pitch

    def start(self, a: Value) -> Value:
        """Copy the matrix; whether all of its numbers are finite."""
        k, o = self.k, self.o
        k.loop(0, o.m, lambda i: k.store(k.cast(i, "i32"), self.order, i, "i32"))
        return self.read(a, o.by, o.by_rows.ne(0), (o.m, o.n), self.rows, o.pitch)

    def factor(self) -> Value:
        def panel(first: Value, failure: Value) -> Value:
            failure, end = self.panel(first, failure), self._end(first)
            self.right_of_panel(first, end, self.o.n - end)
            return failure

        return self.k.loop(0, self.short, panel, step=PANEL, carried=[self.k.const(0, "i64")])

    def _end(self, first: Value) -> Value:
        return self.k.least(first + PANEL, (self.o.n + self.size - 1) // self.size * self.size)

    def panel(self, first: Value, failure: Value) -> Value:
        """A panel's columns."""
        stop = self.k.least(first + PANEL, self.short)
        return self.k.loop(first, stop, partial(self._block, self._end(first)), step=self.size, carried=[failure])

    def right_of_panel(self, first: Value, begin: Value, columns: Value) -> None:
        """So many columns from ``begin`` on: rows of the panel solved with its triangle, and the products taken off below."""
        k, o, stop = self.k, self.o, self.k.least(first + PANEL, self.short)

        def block(at: Value) -> None:
            line, pitch = self.here(at, begin)
            depth = at - first
            self.subtract((line, pitch), self.here(at, first), self.here(first, begin), self.size, columns, depth, False)
            self.solve(self.here(at, at), (line, pitch), columns, True, True, False)

        def right() -> None:
            k.loop(first, stop, block, step=self.size)
            self.subtract(self.here(stop, begin), self.here(stop, first), self.here(first, begin), o.m - stop, columns, stop - first, False)

        k.when(columns > 0, right)

    def follow(self, first: Value, stripe: Value) -> None:
        """As many columns as a panel has, beside the one that has been factored: its rows exchanged, and what comes right of it."""
        k, begin = self.k, stripe * PANEL
        self.columns = begin, k.least(begin + PANEL, self.o.n)

        def swap(row: Value) -> None:
            other = k.cast(k.load(self.pivots, row, "i32"), "i64") - 1
            k.when(other.ne(row), partial(self._swap, row, other))

        def beside() -> None:
            k.loop(first, k.least(first + PANEL, self.short), swap)
            k.when(begin > first, lambda: self.right_of_panel(first, *self._span()))

        k.when(begin.ne(first), beside)

    def _span(self) -> tuple[Value, Value]:
        return self.columns[0], self.columns[1] - self.columns[0]

    def _block(self, end: Value, first: Value, failure: Value) -> Value:
        """A block's columns, and what they leave of the panel's others."""
        k, o, after = self.k, self.o, first + self.size
        stop = k.least(after, self.short)
        failure = k.loop(first, stop, partial(self._column, first), carried=[failure])

        def others() -> None:
            self.solve(self.here(first, first), self.here(first, after), end - after, True, True, False)
            self.subtract(
                self.here(after, after), self.here(after, first), self.here(first, after), o.m - after, end - after, stop - first, False
            )

        k.when(end > after, others)
        return failure

    def _column(self, first: Value, column: Value, failure: Value) -> Value:
        k = self.k
        chosen = self._pivot(column)
        k.store(k.cast(chosen + 1, "i32"), self.pivots, column, "i32")
        k.when(chosen.ne(column), partial(self._exchange, column, chosen))
        line = self.here(column, first)[0]
        pivot = self.number(line, column - first)
        size = k.abs(pivot)
        small = size < float(np.finfo(np.float32 if self.element == "f32" else np.float64).smallest_normal)
        k.when(~small, partial(self._below, first, column, line, 1.0 / pivot))
        failure = k.select(failure.eq(0) & size.eq(0.0), column + 1, failure)
        return k.select(small & (size > 0.0), DECLINED, failure)

    def _pivot(self, column: Value) -> Value:
        """The row of the largest number from the diagonal down, the first of equal ones."""
        k, o, lanes = self.k, self.o, self.lanes
        top = self.here(0, column)[0]

        def compare(i: Value, mask: Value | None, size: Value, row: Value) -> tuple[Value, Value]:
            other = k.abs(k.load_strided(top, i * o.pitch, o.pitch, self.element, lanes, mask))
            larger = other > size
            if mask is not None:
                larger = larger & mask
            places = k.splat(k.cast(i, self.number_of), lanes) + k.indices(lanes, self.number_of)
            return k.select(larger, other, size), k.select(larger, places, row)

        start = [k.const(-1.0, self.element, lanes), k.splat(k.cast(column, self.number_of), lanes)]
        size, row = k.vector_loop(column, o.m, lanes, compare, carried=start)
        while size.lanes > 1:
            (size, other), (row, place) = k.halves(size), k.halves(row)
            better = (other > size) | (other.eq(size) & (place < row))
            size, row = k.select(better, other, size), k.select(better, place, row)
        return k.cast(row, "i64")

    def _exchange(self, row: Value, other: Value) -> None:
        self._swap(row, other)
        first, second = (self.k.load(self.order, place, "i32") for place in (row, other))
        self.k.store(second, self.order, row, "i32")
        self.k.store(first, self.order, other, "i32")

    def _swap(self, row: Value, other: Value) -> None:
        begin, count = self._span()
        a, b = self.here(row, begin)[0], self.here(other, begin)[0]

        def some(j: Value) -> None:
            upper, lower = self.vector(a, j), self.vector(b, j)
            self.put(lower, a, j)
            self.put(upper, b, j)

        self.k.loop(0, count, some, step=self.lanes)

    def _below(self, first: Value, column: Value, line: Value, inverse: Value) -> None:
        """Multiples of the pivot's row taken off the block's rows below it."""
        k = self.k
        place = k.splat(k.cast(column - first, "i32"), self.lanes)
        numbers = [k.indices(self.lanes, "i32") + v * self.lanes for v in self.every]
        right, here = [number > place for number in numbers], [number.eq(place) for number in numbers]
        pivots = [-k.select(right[v], self.vector(line, v * self.lanes), self.zero) for v in self.every]

        def row(i: Value) -> None:
            target = self.here(i, first)[0]
            factor = k.splat(self.number(target, column - first) * inverse, self.lanes)
            for v in self.every:
                value = k.fma(factor, pivots[v], self.vector(target, v * self.lanes))
                self.put(k.select(here[v], factor, value), target, v * self.lanes)

        k.loop(column + 1, self.o.m, row)


@kernel
def eliminate_blocks(k: Builder, element: str) -> None:
    """Factors of each matrix, a matrix a chunk."""
    o = k.arguments(Eliminated)

    def matrix(b: Value) -> None:
        work = _Elimination(k, element, o, b)
        finite = work.start(k.at(o.a, b * o.step, element))
        k.store(k.when(finite, work.factor, lambda: k.const(DECLINED, "i64")), o.failures, b, "i64")
        work.ones_behind(work.rows, o.pitch, work.short)

    k.for_chunks(matrix)


@kernel
def eliminate_panel(k: Builder, element: str, begins: bool) -> None:
    """A panel of one matrix, which is copied where it ``begins``."""
    o = k.arguments(Eliminated)

    def matrix(b: Value) -> None:
        work = _Elimination(k, element, o, b)
        if begins:
            finite = work.start(o.a)
            k.store(k.select(finite, k.const(0, "i64"), DECLINED), o.failures, 0, "i64")
            work.ones_behind(work.rows, o.pitch, work.short)
        work.columns = o.first, k.least(o.first + PANEL, o.n)
        before = k.load(o.failures, 0, "i64")
        failure = k.when(before < 0, lambda: before, lambda: work.panel(o.first, before))
        k.store(failure, o.failures, 0, "i64")

    k.for_chunks(matrix)


@kernel
def eliminate_beside(k: Builder, element: str) -> None:
    """The columns beside a panel, as many as it has a chunk."""
    o = k.arguments(Eliminated)

    def stripe(c: Value) -> None:
        _Elimination(k, element, o, k.const(0, "i64")).follow(o.first, c)

    k.when(k.load(o.failures, 0, "i64") >= 0, lambda: k.for_chunks(stripe))  # else there are no pivots


def factors(A: np.ndarray) -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray] | None:
    """Factors in padded rows, pivots, the order of rows and failures; None where these matrices are for LAPACK."""
    m, n = A.shape[-2:]
    if not are_for_blocks(A):
        return None
    matrices, element = lies(A), FLOATS[A.dtype]
    count, short = len(matrices.array), min(m, n)
    rows = reserve(count, m, n, A.dtype)
    pivots, order, failures = (np.empty((count, size), kind) for size, kind in ((short, np.int32), (m, np.int32), (1, np.int64)))

    def launch(kernel: Any, chunks: int, part: slice, first: int = 0) -> None:
        kernel.launch(
            chunks, a=matrices.array[part], rows=rows.array[part], pivots=pivots[part], order=order[part], failures=failures[part], m=m,
            n=n, pitch=rows.pitch, by_rows=matrices.by_rows, by=matrices.by, step=matrices.step, room=rows.room, first=first,
        )  # fmt: skip

    if count > 1 or short < APART:
        for part in slices(count):
            launch(eliminate_blocks(element), part.stop - part.start, part)
    else:
        for first in range(0, short, PANEL):
            launch(eliminate_panel(element, first == 0), 1, slice(1), first)
            launch(eliminate_beside(element), -(-n // PANEL), slice(1), first)
    return None if failures.min() < 0 else (rows, pivots, order, failures[:, 0])


class Ordered(Record):
    """Pivots of a batch of matrices, ``short`` for each, and the order of their ``rows``."""

    pivots: Array  # int32
    order: Array  # int64
    rows: Integer
    short: Integer


@kernel
def order_rows(k: Builder) -> None:
    """The row from which each row comes after the pivots' swaps; a matrix is a chunk."""
    o = k.arguments(Ordered)

    def matrix(b: Value) -> None:
        pivots, order = k.at(o.pivots, b * o.short, "i32"), k.at(o.order, b * o.rows, "i64")
        k.loop(0, o.rows, lambda i: k.store(i, order, i, "i64"))

        def swap(i: Value) -> None:
            other = k.cast(k.load(pivots, i, "i32"), "i64") - 1
            first, second = k.load(order, i, "i64"), k.load(order, other, "i64")
            k.store(second, order, i, "i64")
            k.store(first, order, other, "i64")

        k.loop(0, o.short, swap)

    k.for_chunks(matrix)


@native("_order_of_pivots")
def order_of_pivots(pivots: np.ndarray, rows: int) -> np.ndarray | None:
    if not pivots.size or pivots.shape[-1] > rows:
        return None
    order = np.empty((*pivots.shape[:-1], rows), np.int64)
    swaps = np.ascontiguousarray(pivots, np.int32)
    order_rows().launch(order.size // rows, pivots=swaps, order=order, rows=rows, short=pivots.shape[-1])
    return order
