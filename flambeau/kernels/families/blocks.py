"""Blocks of matrices for factorisations: copies into padded rows and out of them, products that are taken off, and small triangles.

A factorisation works on a copy of its matrix that lies row by row, rows ``pitch`` elements apart, with zeros behind the matrix up to whole
registers and whole blocks of rows, so that only the copies know where it ends:

      columns (n)      padding
    +----------------+-------+        block     ``size`` rows, or columns: a multiple of a register's lanes; a triangle of a block is
    |                |   0   |                  solved in registers
    |     matrix     |       |        tile      rows of a product whose sums are in registers, ``wide`` columns
    |                |       |        factor    what a tile reads one number at a time; it lies row by row, or ``across``
    +----------------+       |
    |  0                     |
    +------------------------+

Parts that are used in several places are functions of the kernel (``Builder.function``), which LLVM compiles once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value, as_tuple
from ..compiler.memory import empty
from ..compiler.target import Target, current
from .tiles import below, transposed

ROWS = 12, 1024  # of a matrix, and columns: LAPACK is as quick for fewer, and for more
WIDE = 64  # elements: padded rows are a multiple of it, and of every tile's columns and every block
TOGETHER = 64  # matrices that have room to work in at once, at most
LARGEST = 1 << 25  # elements of the padded rows of a batch, which are all in memory


def block_size(target: Target) -> int:
    """Rows and columns of a block: as many rows of one register each as stay in registers beside a number of the triangle."""
    return 16 if target.registers > 16 else 8


def padded(columns: int, itemsize: int) -> int:
    """Elements from row to row: not a multiple of 256 bytes, lest rows below each other meet in few sets of the first cache."""
    pitch = -(-columns // WIDE) * WIDE
    return pitch + WIDE // itemsize * 2 if itemsize * pitch % 256 == 0 else pitch


class Blocks:
    """Writes the parts of a factorisation of ``element``s."""

    def __init__(self, k: Builder, element: str):
        self.k, self.element, self.lanes = k, element, k.lanes(element)
        self.size = block_size(k.target)
        self.every = range(self.size // self.lanes)  # registers of a block's row
        self.tile, self.wide = 8 if k.target.registers > 16 else 4, 2 * self.lanes

    def vector(self, pointer: Value, index: Value | int, mask: Value | None = None) -> Value:
        return self.k.load(pointer, index, self.element, self.lanes, mask)

    def number(self, pointer: Value, index: Value | int) -> Value:
        return self.k.load(pointer, index, self.element)

    def put(self, value: Value, pointer: Value, index: Value | int, mask: Value | None = None) -> None:
        self.k.store(value, pointer, index, self.element, mask)

    def at(self, pointer: Value, row: Value | int, pitch: Value, column: Value | int = 0) -> Value:
        return self.k.at(pointer, self.k.like(row, pitch) * pitch + column, self.element)

    # -- copies ----------------------------------------------------------------------------------------------------------------
    def read(self, source: Value, by: Value, by_rows: Value, limits: tuple[Value, Value], rows: Value, pitch: Value) -> Value:
        """Copy a matrix of ``limits`` rows and columns, zeros around it; whether all of its numbers are finite.

        Its rows, or if not ``by_rows`` its columns, lie ``by`` elements apart.
        """
        k, (m, n) = self.k, limits
        rest = (m + self.size - 1) // self.size * self.size

        def straight() -> Value:
            def row(i: Value, check: Value) -> Value:
                line, target = k.at(source, i * by, self.element), self.at(rows, i, pitch)

                def some(j: Value, check: Value) -> Value:
                    value = self.vector(line, j, below(k, n - j, self.lanes))
                    self.put(value, target, j)
                    return k.fma(value, 0.0, check)

                return k.loop(0, pitch, some, step=self.lanes, carried=[check])

            check = k.loop(0, m, row, carried=[self.zero])
            k.loop(m, rest, lambda i: k.loop(0, pitch, lambda j: self.put(self.zero, self.at(rows, i, pitch), j), step=self.lanes))
            return check

        def turned() -> Value:
            def square(i: Value, j: Value, check: Value) -> Value:
                mask = below(k, m - i, self.lanes)
                values = []
                for r in range(self.lanes):
                    seen = below(k, k.select(j + r < n, m - i, 0), self.lanes) if self.lanes > 1 else mask
                    value = self.vector(source, (j + r) * by + i, seen)
                    check = k.fma(value, 0.0, check)
                    values.append(value)
                for r, value in enumerate(transposed(k, values)):
                    self.put(value, self.at(rows, i + r, pitch), j)
                return check

            def line(i: Value, check: Value) -> Value:
                return k.loop(0, pitch, partial(square, i), step=self.lanes, carried=[check])

            return k.loop(0, rest, line, step=self.lanes, carried=[self.zero])

        return ~k.any(k.when(by_rows, straight, turned).is_nan())

    @property
    def zero(self) -> Value:
        return self.k.const(0, self.element, self.lanes)

    def write_columns(
        self,
        rows: Value,
        pitch: Value,
        limits: tuple[Value, Value],
        target: Value,
        by: Value,
        place: Callable[[Value], Value] | None = None,
        diagonal: Value | None = None,
    ) -> None:
        """Write ``limits`` rows and columns column by column, ``by`` elements apart, column j to ``place(j)`` where that is given.

        With zeros below a ``diagonal``, which begins in that row.
        """
        k, (m, n) = self.k, limits

        def square(i: Value, j: Value) -> None:
            values = [self.vector(rows, (i + r) * pitch + j) for r in range(self.lanes)]
            mask = below(k, m - i, self.lanes)
            for r, value in enumerate(transposed(k, values)):

                def column(r: int = r, value: Value = value) -> None:
                    number = j + r if place is None else place(j + r)
                    above = value if diagonal is None else k.select(below(k, diagonal + j + r + 1 - i, self.lanes), value, 0.0)
                    k.store(above, target, number * by + i, self.element, mask)

                k.when(j + r < n, column)

        k.loop(0, m, lambda i: k.loop(0, n, partial(square, i), step=self.lanes), step=self.lanes)

    def write_rows(self, rows: Value, pitch: Value, limits: tuple[Value, Value], target: Value, by: Value) -> None:
        """Write ``limits`` rows and columns row by row, ``by`` elements apart."""
        k, (m, n) = self.k, limits

        def row(i: Value) -> None:
            line = self.at(rows, i, pitch)
            k.vector_loop(0, n, self.lanes, lambda j, mask: self.put(self.vector(line, j, mask), target, i * by + j, mask))

        k.loop(0, m, row)

    def ones_behind(self, rows: Value, pitch: Value, n: Value) -> None:
        """Ones on the diagonal behind ``n`` rows, up to a whole block, so that none of a triangle's divides by zero."""
        k = self.k
        whole = (n + self.size - 1) // self.size * self.size
        k.loop(n, whole, lambda i: k.store(k.const(1, self.element), rows, i * pitch + i, self.element))

    # -- products --------------------------------------------------------------------------------------------------------------
    def subtract(
        self,
        target: tuple[Value, Value],
        factor: tuple[Value, Value],
        lines: tuple[Value, Value],
        m: Value | int,
        n: Value,
        depth: Value,
        across: bool,
    ) -> None:
        """``target -= factor @ lines``: ``m`` by ``n`` sums of ``depth`` products; each operand a pointer and a pitch.

        Rows are computed up to a multiple of a tile's, columns up to one of a register's lanes.
        """
        k, name = self.k, "subtract_across" if across else "subtract"
        operands = (*target, *factor, *lines, *(k.like(size, k.const(0, "i64")) for size in (m, n, depth)))

        def write(
            inner: Builder, c: Value, pc: Value, a: Value, pa: Value, b: Value, pb: Value, m: Value, n: Value, depth: Value
        ) -> list[Value]:
            parts = Blocks(inner, self.element)

            def column(j: Value) -> None:
                rows = partial(
                    parts._subtracted, (inner.at(c, j, self.element), pc), (a, pa), (inner.at(b, j, self.element), pb), m, depth, across
                )
                inner.when(n - j > parts.lanes, partial(rows, range(2)), partial(rows, range(1)))

            inner.loop(0, n, column, step=parts.wide)
            return [m]

        k.function(name, write, *operands)

    def _subtracted(
        self,
        target: tuple[Value, Value],
        factor: tuple[Value, Value],
        lines: tuple[Value, Value],
        m: Value,
        depth: Value,
        across: bool,
        span: range,
    ) -> None:
        k, (c, pc), (a, pa), (b, pb) = self.k, target, factor, lines

        def tile(i: Value) -> None:
            results = [self.at(c, i + r, pc) for r in range(self.tile)]
            places = [(row, v) for row in range(self.tile) for v in span]
            begin = [k.at(a, i, self.element)] if across else [self.at(a, i + r, pa) for r in range(self.tile)]

            def step(at: Value, line: Value, *total: Value) -> list[Value]:
                values, sums = [self.vector(line, v * self.lanes) for v in span], []
                here = k.at(begin[0], at * pa, self.element) if across else None
                for row in range(self.tile):
                    scalar = self.number(begin[row], at) if here is None else self.number(here, row)
                    spread = -k.splat(scalar, self.lanes)
                    sums += [k.fma(spread, value, total[row * len(span) + v]) for v, value in enumerate(values)]
                return [k.at(line, pb, self.element), *sums]

            start = [self.vector(results[row], v * self.lanes) for row, v in places]
            _, *total = as_tuple(k.loop(0, depth, step, carried=[b, *start]))
            for value, (row, v) in zip(total, places, strict=True):
                self.put(value, results[row], v * self.lanes)

        k.loop(0, m, tile, step=self.tile)

    # -- triangles of a block ----------------------------------------------------------------------------------------------------
    def solve(self, triangle: tuple[Value, Value], target: tuple[Value, Value], n: Value, lower: bool, unit: bool, across: bool) -> None:
        """A block's rows of ``target``, ``n`` columns, become the solutions with a triangle: a block's, ``across`` if it is transposed.

        Columns are computed up to a multiple of a register's lanes.
        """
        k = self.k
        name = f"solve_{'lower' if lower else 'upper'}{'_unit' if unit else ''}{'_across' if across else ''}"

        def write(inner: Builder, t: Value, pt: Value, x: Value, px: Value, n: Value) -> list[Value]:
            Blocks(inner, self.element)._solved((t, pt), (x, px), n, lower, unit, across)
            return [n]

        k.function(name, write, *triangle, *target, n)

    def _solved(self, triangle: tuple[Value, Value], target: tuple[Value, Value], n: Value, lower: bool, unit: bool, across: bool) -> None:
        k, size, (x, px) = self.k, self.size, target
        near = k.scratch(size * size, self.element)  # the triangle, at places that are known
        for row in range(size):
            for v in self.every:
                self.put(self.vector(self.at(*triangle[:1], row, triangle[1]), v * self.lanes), near, row * size + v * self.lanes)
        order = range(size) if lower else range(size - 1, -1, -1)
        lines = [self.at(x, row, px) for row in range(size)]

        def some(j: Value) -> None:
            solved = [self.vector(line, j) for line in lines]
            for at in order:
                if not unit:
                    solved[at] = solved[at] / k.splat(self.number(near, at * size + at), self.lanes)
                for row in range(at + 1, size) if lower else range(at):
                    scalar = self.number(near, at * size + row if across else row * size + at)
                    solved[row] = k.fma(-k.splat(scalar, self.lanes), solved[at], solved[row])
            for line, value in zip(lines, solved, strict=True):
                self.put(value, line, j)

        k.loop(0, n, some, step=self.lanes)


# -- matrices in padded rows -----------------------------------------------------------------------------------------------------------
class Rows(NamedTuple):
    """Matrices of ``n`` columns in padded rows: ``array[i]`` is one, and has ``room`` elements."""

    array: np.ndarray
    n: int
    pitch: int
    room: int


class Lies(NamedTuple):
    """The layout of a stack of matrices: rows, or columns if not ``by_rows``, ``by`` elements apart; the next one ``step`` elements on."""

    array: np.ndarray
    by_rows: int
    by: int
    step: int


@cache
def _block() -> int:
    return block_size(current())


@cache
def tile_columns(dtype: np.dtype) -> int:
    return 2 * current().width // dtype.itemsize


def up_to_blocks(rows: int) -> int:
    return -(-rows // _block()) * _block()


def slices(count: int) -> list[slice]:
    """Parts of a batch that are computed one after the other."""
    return [slice(first, min(first + TOGETHER, count)) for first in range(0, count, TOGETHER)]


def are_for_blocks(A: np.ndarray) -> bool:
    """Whether factorisations of these matrices are computed by blocks, and not by LAPACK, which needs no padded rows."""
    m, n = A.shape[-2:]
    if A.dtype not in FLOATS or min(m, n) < ROWS[0] or max(m, n) > ROWS[1]:
        return False
    return 0 < A.size // (m * n) * _room(m, n, A.itemsize) <= LARGEST


def lies(matrices: np.ndarray) -> Lies:
    """A stack of matrices as a kernel may read them, which is their own memory where their rows or columns are whole."""
    size, (m, n) = matrices.itemsize, matrices.shape[-2:]
    stack = matrices[None] if matrices.ndim == 2 else matrices.reshape(-1, m, n)
    step, row, column = stack.strides
    if column == size and row >= n * size and row % size == step % size == 0 <= step:
        return Lies(stack, 1, row // size, step // size)
    if row == size and column >= m * size and column % size == step % size == 0 <= step:
        return Lies(stack, 0, column // size, step // size)
    return Lies(np.ascontiguousarray(stack), 1, n, m * n)


def _room(m: int, n: int, itemsize: int) -> int:
    """Elements of a matrix in padded rows; a tile may reach behind its last row."""
    return (up_to_blocks(m) + _block()) * padded(n, itemsize)


def reserve(count: int, m: int, n: int, dtype: np.dtype) -> Rows:
    """Memory for matrices in padded rows."""
    pitch, room = padded(n, dtype.itemsize), _room(m, n, dtype.itemsize)
    return Rows(empty((count, room // pitch, pitch), dtype), n, pitch, room)


class Turned(Record):
    """Matrices in padded rows that are copied there, or out of them."""

    rows: Array
    others: Array
    flag: Array
    m: Integer
    n: Integer
    pitch: Integer
    by_rows: Integer
    by: Integer
    step: Integer
    room: Integer
    stripes: Integer  # chunks of a matrix


@kernel
def pad(k: Builder, element: str) -> None:
    """Copy matrices into padded rows; a flag is set where a number is not finite."""
    o, parts = k.arguments(Turned), Blocks(k, element)

    def matrix(b: Value) -> None:
        rows = k.at(o.rows, b * o.room, element)
        finite = parts.read(k.at(o.others, b * o.step, element), o.by, o.by_rows.ne(0), (o.m, o.n), rows, o.pitch)
        k.when(~finite, lambda: k.store(k.const(1, "i64"), o.flag, 0, "i64"))
        k.when(o.m.eq(o.n), lambda: parts.ones_behind(rows, o.pitch, o.n))

    k.for_chunks(matrix)


@kernel
def turn(k: Builder, element: str, upper: bool) -> None:
    """Copy matrices in padded rows, or their upper triangles with zeros below, column by column; some columns are a chunk."""
    o, parts = k.arguments(Turned), Blocks(k, element)

    def chunk(c: Value) -> None:
        b, stripe = divmod(c, o.stripes)
        first = stripe * parts.wide
        count = k.least(parts.k.like(parts.wide, first), o.n - first)
        target = k.at(o.others, (b * o.n + first) * o.m, element)
        diagonal = first if upper else None
        parts.write_columns(k.at(o.rows, b * o.room + first, element), o.pitch, (o.m, count), target, o.m, diagonal=diagonal)

    k.for_chunks(chunk)


def in_rows(matrices: np.ndarray) -> Rows | None:
    """Matrices in padded rows; None where a number is not finite, and where they are for LAPACK."""
    m, n = matrices.shape[-2:]
    if not are_for_blocks(matrices):
        return None
    given, flag = lies(matrices), np.zeros(1, np.int64)
    rows = reserve(len(given.array), m, n, matrices.dtype)
    pad(FLOATS[matrices.dtype]).launch(
        len(given.array), rows=rows.array, others=given.array, flag=flag, m=m, n=n, pitch=rows.pitch, by_rows=given.by_rows, by=given.by,
        step=given.step, room=rows.room, stripes=1,
    )  # fmt: skip
    return None if flag[0] else rows


def in_columns(rows: Rows, m: int, upper: bool = False) -> np.ndarray:
    """The transposed stack of matrices of ``m`` rows, or of their upper triangles."""
    count, out = len(rows.array), np.empty((len(rows.array), rows.n, m), rows.array.dtype)
    stripes = -(-rows.n // tile_columns(out.dtype))
    turn(FLOATS[out.dtype], upper).launch(
        count * stripes, rows=rows.array, others=out, flag=out, m=m, n=rows.n, pitch=rows.pitch, by_rows=0, by=m, step=m * rows.n,
        room=rows.room, stripes=stripes,
    )  # fmt: skip
    return out
