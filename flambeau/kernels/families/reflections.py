r"""Householder's reflections out of registers: QR factors, and products with the orthogonal matrix that they are.

A block's columns make reflections, one after the other; together they are ``I - V M^-1 V.T``, where M's upper triangle is that of ``V.T V``
and its diagonal has the reciprocals of their factors ``tau``:

        block   others                     V         as many columns as a block has: ones on the diagonal, zeros above
        +-----+--------------+
        |R\   |      R       |             Y = -V.T @ others
        |  \  |              |             solved with -M, or -M.T where reflections come in the other order
        | V   |   others     |             others -= V @ Y
        +-----+--------------+

Source: Golub and Van Loan 2013, "Matrix computations", section 5.2; Joffrain et al. 2006, "Accumulating Householder transformations,
revisited", for M.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty
from ..compiler.target import current
from .blocks import Blocks, Rows, are_for_blocks, block_size, in_rows, lies, reserve, slices, tile_columns, up_to_blocks
from .tiles import below

LEAST, MOST = {"f32": 2.0**-80, "f64": 2.0**-800}, {"f32": 2.0**120, "f64": 2.0**1000}  # of a column's sum of squares
STRIPE = 4  # tiles' columns that are multiplied at a time


class Reflected(Record):
    """A batch of matrices, ``m`` by ``n``, that become R and reflections."""

    a: Array
    rows: Array
    tau: Array
    triangles: Array  # -M of each block
    flag: Array  # set where a matrix is for LAPACK
    work: Array
    m: Integer
    n: Integer
    pitch: Integer
    by_rows: Integer
    by: Integer
    step: Integer
    room: Integer
    triangles_room: Integer
    per: Integer  # elements of ``work`` for a matrix


class _Reflecting(Blocks):
    """Parts of what is done with the reflections of a block: ``vectors`` is a copy of V, ``size`` columns wide."""

    def copy_vectors(self, source: tuple[Value, Value], taus: Value, vectors: Value, m: Value, width: Value) -> None:
        """V from ``width`` columns of ``m`` rows below a diagonal; columns of zeros for those without reflection."""
        k, (start, pitch) = self.k, source
        numbers = [k.indices(self.lanes, "i32") + v * self.lanes for v in self.every]
        here = []
        for v in self.every:
            there = below(k, width - v * self.lanes, self.lanes)
            here.append(there & self.vector(taus, v * self.lanes, there).ne(0.0))

        def row(i: Value) -> None:
            place = k.splat(k.cast(i, "i32"), self.lanes)
            for v in self.every:
                value = self.vector(start, i * pitch + v * self.lanes)
                value = k.select(numbers[v] < place, value, k.select(numbers[v].eq(place), 1.0, self.zero))
                self.put(k.select(here[v], value, 0.0), vectors, i * self.size + v * self.lanes)

        k.loop(0, m, row)
        k.loop(m * self.size, (m + self.size) * self.size, lambda i: self.put(self.zero, vectors, i), step=self.lanes)

    def triangle(self, vectors: Value, taus: Value, m: Value, width: Value, target: Value) -> None:
        """-M; ones on the diagonal where there is no reflection."""
        k, side = self.k, self.k.const(self.size, "i64")
        k.loop(0, self.size * self.size, lambda i: self.put(self.zero, target, i), step=self.lanes)
        self.subtract((target, side), (vectors, side), (vectors, side), self.size, side, m, True)

        def factor(i: Value) -> None:
            tau = k.when(i < width, lambda: self.number(taus, i), lambda: k.const(0, self.element))
            zero = tau.eq(0.0)
            k.store(k.select(zero, 1.0, -1.0 / k.select(zero, 1.0, tau)), target, i * self.size + i, self.element)

        k.loop(0, self.size, factor)

    def apply(
        self,
        vectors: Value,
        triangle: Value,
        others: tuple[Value, Value],
        y: tuple[Value, Value],
        sizes: tuple[Value, Value],
        adjoint: bool,
    ) -> None:
        """Reflect ``sizes`` rows and columns of ``others``; ``y`` has room for a block of rows."""
        k, (m, n), side = self.k, sizes, self.k.const(self.size, "i64")
        k.loop(0, self.size, lambda i: k.loop(0, n, lambda j: self.put(self.zero, self.at(y[0], i, y[1]), j), step=self.lanes))
        self.subtract(y, (vectors, side), others, self.size, n, m, True)
        self.solve((triangle, side), y, n, adjoint, False, adjoint)
        self.subtract(others, (vectors, side), y, m, n, side, False)


class _Reflection(_Reflecting):
    """The factors of one matrix in padded rows."""

    def __init__(self, k: Builder, element: str, o: Reflected, b: Value):
        super().__init__(k, element)
        self.o, self.rows = o, k.at(o.rows, b * o.room, element)
        self.short = k.least(o.m, o.n)
        self.tau, self.triangles = k.at(o.tau, b * self.short, element), k.at(o.triangles, b * o.triangles_room, element)
        self.y = k.at(o.work, b * o.per, element)
        self.vectors = k.at(self.y, o.pitch * self.size, element)

    def here(self, row: Value | int, column: Value) -> tuple[Value, Value]:
        return self.at(self.rows, row, self.o.pitch, column), self.o.pitch

    def factor(self) -> Value:
        return self.k.loop(0, self.short, self._block, step=self.size, carried=[self.k.const(True, "b1")])

    def _block(self, first: Value, fine: Value) -> Value:
        k, o, after = self.k, self.o, first + self.size
        stop = k.least(after, self.short)
        fine = k.loop(first, stop, partial(self._column, first), carried=[fine])
        taus, triangle = k.at(self.tau, first, self.element), k.at(self.triangles, first * self.size, self.element)
        self.copy_vectors(self.here(first, first), taus, self.vectors, o.m - first, stop - first)
        self.triangle(self.vectors, taus, o.m - first, stop - first, triangle)

        def others() -> None:
            self.apply(self.vectors, triangle, self.here(first, after), (self.y, o.pitch), (o.m - first, o.n - after), True)

        k.when(after < o.n, others)
        return fine

    def _column(self, first: Value, column: Value, fine: Value) -> Value:
        """One reflection, and what it does to the block's columns to the right."""
        k, o = self.k, self.o
        line, place = self.here(column, first)[0], column - first
        sums = self._products(first, column, place)
        numbers = [k.indices(self.lanes, "i32") + v * self.lanes for v in self.every]
        spread = k.splat(k.cast(place, "i32"), self.lanes)
        near = k.const(0, self.element)  # the column's own product
        for v, value in enumerate(sums):
            near = near + k.sum(k.select(numbers[v].eq(spread), value, self.zero))
        alpha = self.number(line, place)
        whole = k.fma(alpha, alpha, near)
        size = k.sqrt(whole)
        beta = k.select(alpha > 0.0, -size, size)
        nothing = near.eq(0.0)
        tau = k.select(nothing, 0.0, (beta - alpha) / beta)
        scale = k.select(nothing, 0.0, 1.0 / (alpha - beta))
        k.store(tau, self.tau, column, self.element)
        steps = []
        for v, value in enumerate(sums):
            top = self.vector(line, v * self.lanes)
            step = k.splat(tau, self.lanes) * k.fma(k.splat(scale, self.lanes), value, top)
            steps.append(k.select(numbers[v] > spread, step, 0.0))
            changed = k.select(numbers[v].eq(spread), k.splat(k.select(nothing, alpha, beta), self.lanes), top - steps[v])
            self.put(changed, line, v * self.lanes)

        def reflect_row(i: Value) -> None:
            target = self.here(i, first)[0]
            factor = k.splat(self.number(target, place) * scale, self.lanes)
            for v in self.every:
                value = k.fma(-factor, steps[v], self.vector(target, v * self.lanes))
                self.put(k.select(numbers[v].eq(spread), factor, value), target, v * self.lanes)

        k.when(~nothing, lambda: k.loop(column + 1, o.m, reflect_row))
        near_enough = (whole > LEAST[self.element]) & (whole < MOST[self.element])
        return fine & k.when(near_enough, lambda: k.const(True, "b1"), lambda: nothing & self._is_zero(column))

    def _is_zero(self, column: Value) -> Value:
        """Whether there are only zeros below the diagonal."""
        k, top = self.k, self.here(0, column)[0]
        return k.loop(
            column + 1, self.o.m, lambda i, zero: zero & self.number(top, i * self.o.pitch).eq(0.0), carried=[k.const(True, "b1")]
        )

    def _products(self, first: Value, column: Value, place: Value) -> list[Value]:
        """Of what is below the diagonal with each of the block's columns, four rows at a time."""
        k, o, ways = self.k, self.o, 4

        def rows(count: int, i: Value, *sums: Value) -> list[Value]:
            found = list(sums)
            for way in range(count):
                line = self.here(i + way, first)[0]
                factor = k.splat(self.number(line, place), self.lanes)
                for v in self.every:
                    at = way * len(self.every) + v
                    found[at] = k.fma(factor, self.vector(line, v * self.lanes), found[at])
            return found

        main = o.m - (o.m - column - 1) % ways
        sums = list(k.loop(column + 1, main, partial(rows, ways), step=ways, carried=[self.zero] * (ways * len(self.every))))
        sums = list(k.loop(main, o.m, partial(rows, 1), carried=sums))
        each = [sums[v :: len(self.every)] for v in self.every]
        return [(a + b) + (c + d) for a, b, c, d in each]


@kernel
def reflect(k: Builder, element: str) -> None:
    """R and reflections of each matrix, a matrix a chunk."""
    o = k.arguments(Reflected)

    def matrix(b: Value) -> None:
        work = _Reflection(k, element, o, b)
        finite = work.read(k.at(o.a, b * o.step, element), o.by, o.by_rows.ne(0), (o.m, o.n), work.rows, o.pitch)
        fine = k.when(finite, work.factor, lambda: k.const(False, "b1"))
        work.ones_behind(work.rows, o.pitch, work.short)
        k.when(~fine, lambda: k.store(k.const(1, "i64"), o.flag, 0, "i64"))

    k.for_chunks(matrix)


class Multiplied(Record):
    """Matrices of ``m`` rows that are multiplied by reflections, or the first columns of their product; some columns are a chunk."""

    rows: Array  # reflections
    tau: Array
    triangles: Array
    b: Array
    out: Array
    work: Array
    m: Integer
    columns: Integer
    short: Integer  # reflections
    pitch: Integer
    by_rows: Integer
    by: Integer
    step: Integer
    room: Integer
    triangles_room: Integer
    stripes: Integer
    per: Integer


class _Multiplication(_Reflecting):
    """Some columns of a matrix, which are reflected."""

    def __init__(self, k: Builder, element: str, o: Multiplied, chunk: Value):
        super().__init__(k, element)
        self.matrix, stripe = divmod(chunk, o.stripes)
        self.o, self.width = o, STRIPE * self.wide
        self.first = stripe * self.width
        self.count = k.least(o.columns - self.first, self.width)
        self.y, self.py = k.at(o.work, chunk * o.per, element), k.const(self.width, "i64")
        self.vectors = k.at(self.y, self.width * self.size, element)
        self.x = k.at(self.vectors, (o.m + self.size) * self.size, element)
        self.rows = k.at(o.rows, self.matrix * o.room, element)

    def load(self) -> None:
        k, o = self.k, self.o
        start = k.at(o.b, self.matrix * o.step + k.select(o.by_rows.ne(0), self.first, self.first * o.by), self.element)
        self.read(start, o.by, o.by_rows.ne(0), (o.m, self.count), self.x, self.py)

    def identity(self) -> None:
        k, o = self.k, self.o
        k.loop(0, o.m * self.width, lambda i: self.put(self.zero, self.x, i), step=self.lanes)

        def one(j: Value) -> None:
            k.when(self.first + j < o.m, lambda: k.store(k.const(1, self.element), self.x, (self.first + j) * self.width + j, self.element))

        k.loop(0, self.count, one)

    def reflect(self, adjoint: bool, fresh: bool) -> None:
        """All reflections, of the last block first unless ``adjoint``; of ``fresh`` columns only those that reach a one."""
        k, o = self.k, self.o
        blocks = (o.short + self.size - 1) // self.size

        def block(number: Value) -> None:
            first = (number if adjoint else blocks - 1 - number) * self.size
            width, m = k.least(o.short - first, self.size), o.m - first
            taus = k.at(o.tau, self.matrix * o.short + first, self.element)
            self.copy_vectors((self.at(self.rows, first, o.pitch, first), o.pitch), taus, self.vectors, m, width)
            triangle = k.at(o.triangles, self.matrix * o.triangles_room + first * self.size, self.element)
            others = self.at(self.x, first, self.py), self.py
            self.apply(self.vectors, triangle, others, (self.y, self.py), (m, self.count), adjoint)

        def some(number: Value) -> None:
            reached = (blocks - 1 - number) * self.size < self.first + self.count
            k.when(reached, lambda: block(number))

        k.loop(0, blocks, some if fresh else block)

    def store(self) -> None:
        target = self.k.at(self.o.out, (self.matrix * self.o.columns + self.first) * self.o.m, self.element)
        self.write_columns(self.x, self.py, (self.o.m, self.count), target, self.o.m)

    def store_rows(self) -> None:
        target = self.k.at(self.o.out, self.matrix * (self.o.m * self.o.columns) + self.first, self.element)
        self.write_rows(self.x, self.py, (self.o.m, self.count), target, self.o.columns)


@kernel
def multiply_reflections(k: Builder, element: str, adjoint: bool, fresh: bool, by_rows: bool) -> None:
    """Some columns of a matrix, or ``fresh`` of the identity, times reflections, which are written column by column, or row by row."""
    o = k.arguments(Multiplied)

    def chunk(c: Value) -> None:
        part = _Multiplication(k, element, o, c)
        if fresh:
            part.identity()
        else:
            part.load()
        part.reflect(adjoint, fresh)
        if by_rows:
            part.store_rows()
        else:
            part.store()

    k.for_chunks(chunk)


class Gathered(Record):
    """Triangles of reflections that are given; a block of one matrix is a chunk."""

    rows: Array
    tau: Array
    triangles: Array
    work: Array
    m: Integer
    short: Integer
    pitch: Integer
    room: Integer
    triangles_room: Integer
    blocks: Integer
    per: Integer


@kernel
def gather_triangles(k: Builder, element: str) -> None:
    """-M of each block."""
    o, parts = k.arguments(Gathered), _Reflecting(k, element)

    def chunk(c: Value) -> None:
        matrix, block = divmod(c, o.blocks)
        first, vectors = block * parts.size, k.at(o.work, c * o.per, element)
        width = k.least(o.short - first, parts.size)
        taus = k.at(o.tau, matrix * o.short + first, element)
        start = k.at(o.rows, matrix * o.room + first * o.pitch + first, element)
        parts.copy_vectors((start, o.pitch), taus, vectors, o.m - first, width)
        triangle = k.at(o.triangles, matrix * o.triangles_room + first * parts.size, element)
        parts.triangle(vectors, taus, o.m - first, width, triangle)

    k.for_chunks(chunk)


class Reflections(NamedTuple):
    """The reflections of matrices in padded rows, of ``m`` rows, whose upper triangles are R where they come from a factorisation."""

    rows: Rows
    tau: np.ndarray  # (count, short)
    triangles: np.ndarray
    m: int


def factors(A: np.ndarray) -> Reflections | None:
    """R and reflections; None where these matrices are for LAPACK."""
    m, n = A.shape[-2:]
    if not are_for_blocks(A):
        return None
    matrices, size, short = lies(A), block_size(current()), min(m, n)
    count = len(matrices.array)
    rows, flag = reserve(count, m, n, A.dtype), np.zeros(1, np.int64)
    tau, triangles = np.empty((count, short), A.dtype), np.empty((count, up_to_blocks(short), size), A.dtype)
    run = reflect(FLOATS[A.dtype]).launch
    work = np.empty((min(count, slices(count)[0].stop), rows.pitch * size + (m + 2 * size) * size), A.dtype)
    for part in slices(count):
        run(
            part.stop - part.start, a=matrices.array[part], rows=rows.array[part], tau=tau[part], triangles=triangles[part], flag=flag,
            work=work, m=m, n=n, pitch=rows.pitch, by_rows=matrices.by_rows, by=matrices.by, step=matrices.step, room=rows.room,
            triangles_room=triangles.shape[1] * size, per=work.shape[1],
        )  # fmt: skip
    return None if flag[0] else Reflections(rows, tau, triangles, m)


def given(A: np.ndarray, tau: np.ndarray) -> Reflections | None:
    """Reflections as ``geqrf`` returns them."""
    m, size = A.shape[-2], block_size(current())
    rows = in_rows(A) if tau.shape[-1] >= size else None
    if rows is None:
        return None
    factors = np.ascontiguousarray(tau).reshape(-1, tau.shape[-1])
    count, short = factors.shape
    triangles, blocks = np.empty((count, up_to_blocks(short), size), A.dtype), up_to_blocks(short) // size
    work = np.empty((count * blocks, (m + 2 * size) * size), A.dtype)
    gather_triangles(FLOATS[A.dtype]).launch(
        count * blocks, rows=rows.array, tau=factors, triangles=triangles, work=work, m=m, short=short, pitch=rows.pitch, room=rows.room,
        triangles_room=triangles.shape[1] * size, blocks=blocks, per=work.shape[1],
    )  # fmt: skip
    return Reflections(rows, factors, triangles, m)


def product(reflections: Reflections, B: np.ndarray | None, columns: int, adjoint: bool = False, by_rows: bool = False) -> np.ndarray:
    """``Q B``, or ``Q.T B``, column by column, or row by row; where B is None the first columns of Q."""
    rows, tau, triangles, m = reflections
    count, size, dtype = len(tau), block_size(current()), tau.dtype
    right, width = lies(tau[:, None] if B is None else B), STRIPE * tile_columns(dtype)
    stripes = -(-columns // width)
    out = empty((count, m, columns) if by_rows else (count, columns, m), dtype)
    per = width * (size + up_to_blocks(m) + size) + (m + 2 * size) * size
    work = np.empty((min(count, slices(count)[0].stop) * stripes, per), dtype)
    run = multiply_reflections(FLOATS[dtype], adjoint, B is None, by_rows).launch
    for part in slices(count):
        run(
            (part.stop - part.start) * stripes, rows=rows.array[part], tau=tau[part], triangles=triangles[part], b=right.array[part],
            out=out[part], work=work, m=m, columns=columns, short=tau.shape[1], pitch=rows.pitch, by_rows=right.by_rows, by=right.by,
            step=right.step, room=rows.room, triangles_room=triangles.shape[1] * size, stripes=stripes, per=per,
        )  # fmt: skip
    return out
