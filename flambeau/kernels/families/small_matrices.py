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

    def fetch(self, x: Value, group: tuple[Value, Value], strides: tuple[Value, Value, Value]) -> None:
        """Matrices of a ``group``, the first and how many there are; ``strides`` from matrix to matrix, row to row, column to column."""
        k, (first, count), (step, row, column) = self.k, group, strides

        def lane(lane: Value) -> None:
            start = k.at(x, k.least(first + lane, count - 1) * step, self.element)

            def entry(i: Value, j: Value) -> None:
                k.store(k.load(start, i * row + j * column, self.element), self.memory, self.place(i, j) + lane, self.element)

            k.loop(0, self.n, lambda i: k.loop(0, self.columns, lambda j: entry(i, j)))

        k.loop(0, self.lanes, lane)

    def give(self, out: Value, group: tuple[Value, Value], columns_first: bool = True) -> None:
        """The matrices of a group that are there, column by column or row by row."""
        k, (first, count) = self.k, group

        def lane(lane: Value) -> None:
            start = k.at(out, (first + lane) * (self.n * self.columns), self.element)

            def entry(i: Value, j: Value) -> None:
                value = k.load(self.memory, self.place(i, j) + lane, self.element)
                k.store(value, start, j * self.n + i if columns_first else i * self.columns + j, self.element)

            k.loop(0, self.n, lambda i: k.loop(0, self.columns, lambda j: entry(i, j)))

        k.loop(0, k.least(count - first, self.lanes), lane)

    def load(self, i: Value, j: Value) -> Value:
        return self.k.load(self.memory, self.place(i, j), self.element, self.lanes)

    def store(self, value: Value, i: Value, j: Value) -> None:
        self.k.store(value, self.memory, self.place(i, j), self.element)

    def read(self, x: Value, first: Value, count: Value) -> None:
        """Matrices ``first`` and following of ``count``, the last one in the place of those that are not there."""
        k, size = self.k, self.n * self.n

        def lane(lane: Value) -> None:
            matrix = k.least(first + lane, count - 1) * size
            k.loop(0, size, lambda e: k.store(k.load(x, matrix + e, self.element), self.memory, e * self.lanes + lane, self.element))

        k.loop(0, self.lanes, lane)

    def write(
        self, out: Value, first: Value, count: Value, columns_first: bool, more: Callable[[Value, Value], None] | None = None
    ) -> None:
        """The matrices that are there, row by row or column by column; ``more(lane, matrix)`` writes what else belongs to one."""
        k, n = self.k, self.n

        def lane(lane: Value) -> None:
            matrix = first + lane

            def row(i: Value) -> None:
                def entry(j: Value) -> None:
                    value = k.load(self.memory, self.place(i, j) + lane, self.element)
                    k.store(value, out, matrix * n * n + (j * n + i if columns_first else i * n + j), self.element)

                k.loop(0, n, entry)

            k.loop(0, n, row)
            if more is not None:
                more(lane, matrix)

        k.loop(0, k.least(count - first, self.lanes), lane)


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
        a.read(x, first, count)
        k.store(k.loop(0, n, step, carried=[k.const(0, number, lanes)]), failed, 0, number)

        def more(lane: Value, matrix: Value) -> None:
            def pivot(s: Value) -> None:
                k.store(k.cast(k.load(chosen, s * lanes + lane, number), "i64"), pivots, matrix * n + s, "i64")

            k.loop(0, n, pivot)
            k.store(k.cast(k.load(failed, lane, number), "i64"), failures, matrix, "i64")

        a.write(out, first, count, True, more)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, count), group, step=lanes))


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
        a.read(x, first, count)
        fine = k.loop(0, n, column, carried=[k.const(True, "b1", lanes)])
        k.when(k.any(~fine), lambda: k.store(k.const(1, "i64"), flag, 0, "i64"))
        a.write(out, first, count, not upper)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, count), group, step=lanes))


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
