"""Factorisations of many small matrices at once: each lane of a vector has a matrix of its own.

LAPACK's routines take some hundred nanoseconds before they compute anything.  Here element (i, j) of as many matrices as a vector has
lanes lies together, so that every step of the elimination is one instruction for all of them, and rows are exchanged by selection.

Source: Golub and Van Loan 2013, "Matrix computations", algorithms 3.4.1 and 4.2.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, FLOATS, Builder, Value
from ..compiler.memory import empty

SIDE = 28  # of the largest matrix: 50 KB for as many as a vector has lanes
MANY = 32  # matrices from which on this pays
_CHUNK = 1 << 14  # multiplications


class Lanes:
    """As many matrices as a vector has lanes, of ``n`` rows and ``columns``, on the thread's stack."""

    def __init__(self, k: Builder, element: str, n: Value, columns: Value | None = None, side: int = SIDE):
        self.k, self.element, self.n, self.lanes = k, element, n, k.lanes(element)
        self.columns = n if columns is None else columns
        self.memory = k.scratch(side * side * self.lanes, element)

    def place(self, i: Value, j: Value) -> Value:
        return (i * self.columns + j) * self.lanes

    def read(self, x: Value, group: tuple[Value, Value]) -> None:
        """Matrices of a ``group``, the first and how many there are, that lie row by row; the last one where there is none."""
        k, (first, count), size = self.k, group, self.n * self.columns

        def lane(lane: Value) -> None:
            matrix = k.least(first + lane, count - 1) * size
            k.loop(0, size, lambda e: k.store(k.load(x, matrix + e, self.element), self.memory, e * self.lanes + lane, self.element))

        k.loop(0, self.lanes, lane)

    def fetch(self, x: Value, group: tuple[Value, Value], strides: tuple[Value, Value, Value]) -> None:
        """Those of a group that lie otherwise: ``strides`` from matrix to matrix, row to row, column to column."""
        k, (first, count), (step, row, column) = self.k, group, strides

        def lane(lane: Value) -> None:
            start = k.at(x, k.least(first + lane, count - 1) * step, self.element)

            def entry(i: Value, j: Value) -> None:
                k.store(k.load(start, i * row + j * column, self.element), self.memory, self.place(i, j) + lane, self.element)

            self.each(entry)

        k.loop(0, self.lanes, lane)

    def give(
        self, out: Value, group: tuple[Value, Value], columns_first: bool = True, more: Callable[[Value, Value], None] | None = None
    ) -> None:
        """The matrices of a group that are there, column by column or row by row; ``more(lane, matrix)`` writes what else is one's."""
        k, (first, count) = self.k, group

        def lane(lane: Value) -> None:
            start = k.at(out, (first + lane) * (self.n * self.columns), self.element)

            def entry(i: Value, j: Value) -> None:
                value = k.load(self.memory, self.place(i, j) + lane, self.element)
                k.store(value, start, j * self.n + i if columns_first else i * self.columns + j, self.element)

            self.each(entry)
            if more is not None:
                more(lane, first + lane)

        k.loop(0, k.least(count - first, self.lanes), lane)

    def identity(self) -> None:
        k = self.k

        def entry(i: Value, j: Value) -> None:
            self.store(k.splat(k.select(i.eq(j), k.const(1, self.element), k.const(0, self.element)), self.lanes), i, j)

        self.each(entry)

    def each(self, entry: Callable[[Value, Value], None]) -> None:
        self.k.loop(0, self.n, lambda i: self.k.loop(0, self.columns, lambda j: entry(i, j)))

    def load(self, i: Value, j: Value) -> Value:
        return self.k.load(self.memory, self.place(i, j), self.element, self.lanes)

    def store(self, value: Value, i: Value, j: Value) -> None:
        self.k.store(value, self.memory, self.place(i, j), self.element)


def for_groups(k: Builder, per: Value, count: Value, lanes: int, group: Callable[[Value], None]) -> None:
    """``group`` of every ``lanes``-th of ``count`` matrices, ``per`` matrices a chunk."""
    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, count), group, step=lanes))


@kernel
def eliminate(k: Builder, element: str) -> None:
    """Both factors of each matrix, column by column, the row of each pivot counted from 1, and the first pivot that is 0 (0: none)."""
    x, out, pivots, failures, count, n, per = k.array(), k.array(), k.array(), k.array(), k.integer(), k.integer(), k.integer()
    a, number = Lanes(k, element, n), "i32" if element == "f32" else "i64"
    lanes = a.lanes
    chosen, failed = k.scratch(SIDE * lanes, number), k.scratch(lanes, number)

    def spread(i: Value) -> Value:
        return k.splat(k.cast(i, number), lanes)

    def step(s: Value, failure: Value) -> Value:
        def compare(i: Value, size: Value, row: Value) -> tuple[Value, Value]:
            other = k.abs(a.load(i, s))
            larger = other > size
            return k.select(larger, other, size), k.select(larger, spread(i), row)

        _, row = k.loop(s + 1, n, compare, carried=[k.abs(a.load(s, s)), spread(s)])
        k.store(row + 1, chosen, s * lanes, number)

        def exchange(i: Value) -> None:
            here = row.eq(spread(i))

            def entry(j: Value) -> None:
                upper, lower = a.load(s, j), a.load(i, j)
                a.store(k.select(here, lower, upper), s, j)
                a.store(k.select(here, upper, lower), i, j)

            k.when(k.any(here), lambda: k.loop(0, n, entry))

        k.loop(s + 1, n, exchange)
        pivot = a.load(s, s)
        zero = pivot.eq(0.0)
        divisor = k.select(zero, 1.0, pivot)

        def subtract(i: Value) -> None:
            factor = a.load(i, s) / divisor
            a.store(factor, i, s)
            k.loop(s + 1, n, lambda j: a.store(k.fma(-factor, a.load(s, j), a.load(i, j)), i, j))

        k.loop(s + 1, n, subtract)
        return k.select(zero & failure.eq(0), spread(s + 1), failure)

    def group(first: Value) -> None:
        a.read(x, (first, count))
        k.store(k.loop(0, n, step, carried=[k.const(0, number, lanes)]), failed, 0, number)

        def more(lane: Value, matrix: Value) -> None:
            def pivot(s: Value) -> None:
                k.store(k.cast(k.load(chosen, s * lanes + lane, number), "i64"), pivots, matrix * n + s, "i64")

            k.loop(0, n, pivot)
            k.store(k.cast(k.load(failed, lane, number), "i64"), failures, matrix, "i64")

        a.give(out, (first, count), True, more)

    for_groups(k, per, count, lanes, group)


@kernel
def take_roots(k: Builder, element: str, upper: bool) -> None:
    """Cholesky's factor of each matrix, column by column, made from its lower or upper triangle; a flag is set where there is none."""
    x, out, flag, count, n, per = k.array(), k.array(), k.array(), k.integer(), k.integer(), k.integer()
    a = Lanes(k, element, n)
    lanes = a.lanes

    def entry(i: Value, j: Value) -> Value:
        """Of the matrix less the products of the factor's columns before ``j``; only the factor's lower half is ever stored."""
        whole = a.load(j, i) if upper else a.load(i, j)
        return k.loop(0, j, lambda s, rest: k.fma(-a.load(i, s), a.load(j, s), rest), carried=[whole])

    def column(j: Value, fine: Value) -> Value:
        square = entry(j, j)
        root = k.sqrt(square)
        a.store(root, j, j)
        k.loop(j + 1, n, lambda i: a.store(entry(i, j) / root, i, j))
        k.loop(j + 1, n, lambda i: a.store(k.const(0, element, lanes), j, i))
        return fine & (square > 0.0)

    def group(first: Value) -> None:
        a.read(x, (first, count))
        fine = k.loop(0, n, column, carried=[k.const(True, "b1", lanes)])
        k.when(k.any(~fine), lambda: k.store(k.const(1, "i64"), flag, 0, "i64"))
        a.give(out, (first, count), not upper)

    for_groups(k, per, count, lanes, group)


def are_many(A: np.ndarray) -> bool:
    """Whether these are many small square matrices."""
    m, n = A.shape[-2:]
    return A.dtype in FLOATS and m == n and 0 < n <= SIDE and A.size >= MANY * n * n


def _taken(A: np.ndarray) -> tuple[str, np.ndarray, int, int] | None:
    """Element type, row-major stack, its length and how many matrices make a chunk; None for other matrices than many small square ones."""
    if not are_many(A):
        return None
    element, n = ELEMENTS[A.dtype], A.shape[-1]
    stack = np.ascontiguousarray(A).reshape(-1, n, n)
    return element, stack, len(stack), max(_CHUNK // (n**3 * 16), 1) * 16  # a multiple of every vector


def factors(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Packed LU factors of many small matrices, transposed, with pivots and failures, as LAPACK leaves them."""
    taken = _taken(A)
    if taken is None:
        return None
    element, stack, count, per = taken
    n = stack.shape[-1]
    out, pivots, failures = empty(stack.shape, A.dtype), np.empty((count, n), np.int64), np.empty(count, np.int64)
    eliminate(element)(-(-count // per), id(stack), id(out), id(pivots), id(failures), count, n, per)
    return out, pivots, failures


def roots(A: np.ndarray, upper: bool) -> np.ndarray | None:
    """Cholesky's factors of many small matrices, transposed; None where a matrix is not positive definite."""
    taken = _taken(A)
    if taken is None:
        return None
    element, stack, count, per = taken
    out, flag = empty(stack.shape, A.dtype), np.zeros(1, np.int64)
    take_roots(element, upper)(-(-count // per), id(stack), id(out), id(flag), count, stack.shape[-1], per)
    return None if flag[0] else out
