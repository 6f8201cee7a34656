"""Triangular systems and QR factors of many small matrices at once: each lane of a vector has a matrix of its own (``small_matrices.py``).

Source: Golub and Van Loan 2013, "Matrix computations", algorithms 3.1.1, 3.1.2 and 5.2.1.
"""

from __future__ import annotations

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty
from .reflections import LEAST, MOST
from .small_matrices import MANY, Lanes, for_groups
from .substitution import STEPS

SIDE = 16  # rows and columns of the largest matrix
_CHUNK = 1 << 14  # multiplications


class Strides(Record):
    """From matrix to matrix, row to row, and column to column, in elements."""

    step: Integer
    row: Integer
    column: Integer


class Solved(Record):
    """``count`` triangles of ``n`` rows, right hand sides with so many ``columns``, and where solutions go."""

    a: Array
    b: Array
    out: Array
    count: Integer
    n: Integer
    columns: Integer
    per: Integer  # matrices of a chunk
    of_a: Strides
    of_b: Strides


class _Substitution:
    """A vector's lanes of systems: the steps of ``substitution.STEPS``."""

    def __init__(self, k: Builder, element: str, o: Solved):
        self.k, self.o = k, o
        self.a, self.x = Lanes(k, element, o.n, None, SIDE), Lanes(k, element, o.n, o.columns, SIDE)

    def begin(self, first: Value) -> None:
        self.group = first, self.o.count
        of = self.o.of_a
        self.a.fetch(self.o.a, self.group, (of.step, of.row, of.column))

    def load(self) -> None:
        of = self.o.of_b
        self.x.fetch(self.o.b, self.group, (of.step, of.row, of.column))

    def identity(self) -> None:
        self.x.identity()

    def forward(self, unit: bool, across: bool) -> None:
        self.k.loop(0, self.o.n, lambda i: self._row(i, 0, i, unit, across))

    def backward(self, unit: bool, across: bool) -> None:
        n = self.o.n
        self.k.loop(0, n, lambda number: self._row(n - 1 - number, n - number, n, unit, across))

    def _row(self, i: Value, first: Value | int, last: Value, unit: bool, across: bool) -> None:
        """A row of the solutions, from rows ``first`` to ``last`` of them."""
        k, a, x = self.k, self.a, self.x

        def column(j: Value) -> None:
            def less(s: Value, rest: Value) -> Value:
                return k.fma(-(a.load(s, i) if across else a.load(i, s)), x.load(s, j), rest)

            rest = k.loop(first, last, less, carried=[x.load(i, j)])
            x.store(rest if unit else rest / a.load(i, i), i, j)

        k.loop(0, x.columns, column)

    def store(self, _: bool) -> None:
        self.x.give(self.o.out, self.group)

    def store_rows(self) -> None:
        self.x.give(self.o.out, self.group, False)


@kernel
def substitute_small(k: Builder, element: str, solved: str) -> None:
    """Solutions of small systems; see ``substitution.STEPS``."""
    o = k.arguments(Solved)
    part = _Substitution(k, element, o)

    def group(first: Value) -> None:
        part.begin(first)
        for name, words in STEPS[solved]:
            getattr(part, name)(*words)

    for_groups(k, o.per, o.count, part.a.lanes, group)


def _strides(stack: np.ndarray) -> tuple[np.ndarray, Strides] | None:
    """A stack that is read as it lies; None where it is none of whole elements."""
    matrices = stack if stack.ndim == 3 else stack.reshape(-1, *stack.shape[-2:])
    if any(stride % stack.itemsize for stride in matrices.strides):
        return None
    step, row, column = (stride // stack.itemsize for stride in matrices.strides)
    return matrices, Strides(step=step, row=row, column=column)


def _per(work: int) -> int:
    """Matrices of a chunk: a multiple of every vector."""
    return max(_CHUNK // (work * 16), 1) * 16


def solutions(solved: str, A: np.ndarray, B: np.ndarray | None) -> np.ndarray | None:
    """Solutions with triangles as ``substitution.solutions`` returns them; None for others than many small systems."""
    n, columns = A.shape[-1], A.shape[-1] if B is None else B.shape[-1]
    if A.dtype not in FLOATS or not 0 < n <= SIDE or not 0 < columns <= SIDE or A.size < MANY * n * n:
        return None
    triangles, right = _strides(A), _strides(A if B is None else B)
    if triangles is None or right is None:
        return None
    count = len(triangles[0])
    by_rows = solved.startswith("rows")
    out, per = empty((count, n, columns) if by_rows else (count, columns, n), A.dtype), _per(n * n * columns)
    substitute_small(FLOATS[A.dtype], solved).launch(
        -(-count // per), a=triangles[0], b=right[0], out=out, count=count, n=n, columns=columns, per=per, of_a=triangles[1], of_b=right[1]
    )
    return out


# -- reflections ---------------------------------------------------------------------------------------------------------------------
class Reflected(Record):
    """``count`` matrices, ``m`` by ``n``; R and reflections, their factors, and products' first ``columns``."""

    a: Array
    tau: Array
    out: Array
    flag: Array  # set where a column is for LAPACK
    count: Integer
    m: Integer
    n: Integer
    columns: Integer
    per: Integer
    of_a: Strides


class _Reflections:
    """A vector's lanes of matrices, and their reflections."""

    def __init__(self, k: Builder, element: str, o: Reflected):
        self.k, self.o, self.element = k, o, element
        self.a, self.q = Lanes(k, element, o.m, o.n, SIDE), Lanes(k, element, o.m, o.columns, SIDE)
        self.short, self.lanes = k.least(o.m, o.n), k.lanes(element)
        self.tau = k.scratch(SIDE * self.lanes, element)

    def begin(self, first: Value) -> None:
        self.group, of = (first, self.o.count), self.o.of_a
        self.a.fetch(self.o.a, self.group, (of.step, of.row, of.column))

    def factor(self) -> Value:
        """Whether all columns were within what squares can be added of."""
        return self.k.loop(0, self.short, self._column, carried=[self.k.const(True, "b1", self.lanes)])

    def _column(self, c: Value, fine: Value) -> Value:
        k, a, zero = self.k, self.a, self.k.const(0, self.element, self.lanes)

        def add(i: Value, total: Value) -> Value:
            value = a.load(i, c)
            return k.fma(value, value, total)

        below, alpha = k.loop(c + 1, self.o.m, add, carried=[zero]), a.load(c, c)
        whole, nothing = k.fma(alpha, alpha, below), below.eq(0.0)
        size = k.sqrt(whole)
        beta = k.select(alpha > 0.0, -size, size)
        tau = k.select(nothing, 0.0, (beta - alpha) / k.select(nothing, 1.0, beta))
        scale = k.select(nothing, 0.0, 1.0 / k.select(nothing, 1.0, alpha - beta))
        k.store(tau, self.tau, c * self.lanes, self.element)
        k.loop(c + 1, self.o.m, lambda i: a.store(a.load(i, c) * scale, i, c))
        self._reflect(a, c, c + 1, tau)
        a.store(k.select(nothing, alpha, beta), c, c)
        return fine & (whole > LEAST[self.element]) & (whole < MOST[self.element])

    def _reflect(self, target: Lanes, c: Value, first: Value, tau: Value) -> None:
        """Columns from ``first`` on of ``target`` reflected by column ``c`` of the factors."""
        k, a = self.k, self.a

        def column(j: Value) -> None:
            start = target.load(c, j)
            product = k.loop(c + 1, self.o.m, lambda i, total: k.fma(a.load(i, c), target.load(i, j), total), carried=[start]) * tau
            target.store(start - product, c, j)
            k.loop(c + 1, self.o.m, lambda i: target.store(k.fma(-a.load(i, c), product, target.load(i, j)), i, j))

        k.loop(first, target.columns, column)

    def take_taus(self) -> None:
        k, (first, count) = self.k, self.group

        def lane(lane: Value) -> None:
            start = k.at(self.o.tau, (first + lane) * self.short, self.element)
            k.loop(0, self.short, lambda c: k.store(k.load(start, c, self.element), self.tau, c * self.lanes + lane, self.element))

        k.loop(0, k.least(count - first, self.lanes), lane)

    def give_taus(self) -> None:
        k, (first, count) = self.k, self.group

        def lane(lane: Value) -> None:
            start = k.at(self.o.tau, (first + lane) * self.short, self.element)
            k.loop(0, self.short, lambda c: k.store(k.load(self.tau, c * self.lanes + lane, self.element), start, c, self.element))

        k.loop(0, k.least(count - first, self.lanes), lane)

    def product(self) -> None:
        """The first columns of the product of the reflections."""
        k, q = self.k, self.q
        q.identity()

        def reflection(number: Value) -> None:
            c = self.short - 1 - number
            self._reflect(q, c, c, k.load(self.tau, c * self.lanes, self.element, self.lanes))

        k.loop(0, self.short, reflection)


@kernel
def reflect_small(k: Builder, element: str) -> None:
    """R and reflections of each matrix, column by column."""
    o = k.arguments(Reflected)
    work = _Reflections(k, element, o)

    def group(first: Value) -> None:
        work.begin(first)
        fine = work.factor()
        k.when(k.any(~fine), lambda: k.store(k.const(1, "i64"), o.flag, 0, "i64"))
        work.a.give(o.out, work.group)
        work.give_taus()

    for_groups(k, o.per, o.count, work.lanes, group)


@kernel
def multiply_small_reflections(k: Builder, element: str) -> None:
    """The first columns of the product of each matrix's reflections, column by column."""
    o = k.arguments(Reflected)
    work = _Reflections(k, element, o)
    k.loop(0, SIDE, lambda c: k.store(k.const(0, element, work.lanes), work.tau, c * work.lanes, element))

    def group(first: Value) -> None:
        work.begin(first)
        work.take_taus()
        work.product()
        work.q.give(o.out, work.group)

    for_groups(k, o.per, o.count, work.lanes, group)


def _are_small(dtype: np.dtype, m: int, n: int, size: int) -> bool:
    return dtype in FLOATS and 0 < min(m, n) and max(m, n) <= SIDE and size >= MANY * m * n


def are_many(A: np.ndarray) -> bool:
    """Whether these are many small matrices."""
    m, n = A.shape[-2:]
    return _are_small(A.dtype, m, n, A.size)


def reflections(A: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """R and reflections, transposed, and their factors; None for others than many small matrices, and for LAPACK's."""
    m, n = A.shape[-2:]
    given = _strides(A) if are_many(A) else None
    if given is None:
        return None
    count, per, flag = len(given[0]), _per(m * n * n), np.zeros(1, np.int64)
    out, tau = empty((count, n, m), A.dtype), np.empty((count, min(m, n)), A.dtype)
    reflect_small(FLOATS[A.dtype]).launch(
        -(-count // per), a=given[0], tau=tau, out=out, flag=flag, count=count, m=m, n=n, columns=1, per=per, of_a=given[1]
    )
    return None if flag[0] else (out, tau)


def product(A: np.ndarray, tau: np.ndarray, columns: int) -> np.ndarray | None:
    """The first ``columns`` of the product of reflections, transposed; None for others than many small matrices."""
    m, short = A.shape[-2], tau.shape[-1]
    given = (
        _strides(A[..., :short]) if short and _are_small(A.dtype, m, max(columns, short), A[..., :1].size * max(columns, short)) else None
    )
    if given is None:
        return None
    count, per = len(given[0]), _per(m * columns * short)
    out, factors = empty((count, columns, m), A.dtype), np.ascontiguousarray(tau).reshape(count, short)
    multiply_small_reflections(FLOATS[A.dtype]).launch(
        -(-count // per), a=given[0], tau=factors, out=out, flag=out, count=count, m=m, n=short, columns=columns, per=per, of_a=given[1]
    )
    return out
