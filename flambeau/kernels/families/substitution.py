r"""Systems of equations with triangular matrices, or with factors that are triangles, out of registers.

Some right hand sides at a time, as many as a tile has columns, are copied to where they stay in the first cache:

        triangle                  right hand sides
    +-----+                        +---------+
    |  \  |                        | solved  |        a block of rows less the products of what is left of its triangle
    |   \ |         x              |         |   =    with what is solved already, then solved with the triangle, in registers
    |----+-+                       +---------+
    |    |\|                       | block   |
    +-----+                        +---------+

Source: Golub and Van Loan 2013, "Matrix computations", algorithms 3.1.3 and 3.1.4, by blocks.
"""

from __future__ import annotations

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from .blocks import Blocks, Rows, lies, slices, tile_columns, up_to_blocks


class Substituted(Record):
    """Right hand sides of systems whose factors lie in padded rows; a chunk has some columns of one of them."""

    rows: Array
    b: Array
    out: Array  # solutions, column by column
    pivots: Array
    order: Array
    work: Array  # room for a chunk's columns
    n: Integer
    columns: Integer
    pitch: Integer
    by_rows: Integer  # how right hand sides lie
    by: Integer
    step: Integer  # from matrix to matrix
    room: Integer  # from factors to factors
    stripes: Integer  # chunks of a matrix
    whole: Integer  # rows up to a whole block
    per: Integer  # elements of ``work`` for a chunk


class _Substitution(Blocks):
    """Some columns of right hand sides, which become solutions."""

    def __init__(self, k: Builder, element: str, o: Substituted, chunk: Value):
        super().__init__(k, element)
        matrix, stripe = divmod(chunk, o.stripes)
        self.o, self.matrix, self.first = o, matrix, stripe * self.wide
        self.count = k.least(o.columns - self.first, self.wide)
        self.rows = k.at(o.rows, matrix * o.room, element)
        self.x, self.px = k.at(o.work, chunk * o.per, element), k.const(self.wide, "i64")
        self.pivots, self.order = (k.at(array, matrix * o.n, "i32") for array in (o.pivots, o.order))
        self.zeros = k.const(0, "i64")  # rows at the beginning that have zeros only: whole blocks

    def factor(self, row: Value, column: Value) -> tuple[Value, Value]:
        return self.at(self.rows, row, self.o.pitch, column), self.o.pitch

    def lines(self, row: Value) -> tuple[Value, Value]:
        return self.at(self.x, row, self.px), self.px

    def load(self) -> None:
        k, o = self.k, self.o
        start = k.at(o.b, self.matrix * o.step + k.select(o.by_rows.ne(0), self.first, self.first * o.by), self.element)
        self.read(start, o.by, o.by_rows.ne(0), (o.n, self.count), self.x, self.px)

    def identity(self) -> None:
        k, o = self.k, self.o
        k.loop(0, o.whole * self.wide, lambda i: self.put(self.zero, self.x, i), step=self.lanes)
        k.loop(0, self.count, lambda j: k.store(k.const(1, self.element), self.x, (self.first + j) * self.wide + j, self.element))
        self.zeros = self.first // self.size * self.size

    def exchange(self, backwards: bool = False) -> None:
        k = self.k

        def swap(i: Value) -> None:
            row = self.o.n - 1 - i if backwards else i
            other = k.cast(k.load(self.pivots, row, "i32"), "i64") - 1
            (a, _), (b, _) = self.lines(row), self.lines(other)
            for v in range(self.wide // self.lanes):
                upper, lower = self.vector(a, v * self.lanes), self.vector(b, v * self.lanes)
                self.put(lower, a, v * self.lanes)
                self.put(upper, b, v * self.lanes)

        k.loop(0, self.o.n, swap)

    def forward(self, unit: bool, across: bool) -> None:
        """The solutions with a lower triangle, ``across`` if it is an upper one, transposed."""
        k, begin = self.k, self.zeros

        def block(at: Value) -> None:
            left = self.factor(begin, at) if across else self.factor(at, begin)
            self.subtract(self.lines(at), left, self.lines(begin), self.size, self.count, at - begin, across)
            self.solve(self.factor(at, at), self.lines(at), self.count, True, unit, across)

        k.loop(begin, self.o.n, block, step=self.size)

    def backward(self, unit: bool, across: bool) -> None:
        """The solutions with an upper triangle, ``across`` if it is a lower one, transposed."""
        k, n, blocks = self.k, self.o.n, self.o.whole // self.size
        k.loop(n * self.wide, self.o.whole * self.wide, lambda i: self.put(self.zero, self.x, i), step=self.lanes)

        def block(number: Value) -> None:
            at = (blocks - 1 - number) * self.size
            after = at + self.size
            right = self.factor(after, at) if across else self.factor(at, after)
            self.subtract(self.lines(at), right, self.lines(after), self.size, self.count, n - after, across)
            self.solve(self.factor(at, at), self.lines(at), self.count, False, unit, across)

        k.loop(0, blocks, block)

    def store_rows(self) -> None:
        target = self.k.at(self.o.out, self.matrix * (self.o.n * self.o.columns) + self.first, self.element)
        self.write_rows(self.x, self.px, (self.o.n, self.count), target, self.o.columns)

    def store(self, in_order: bool) -> None:
        k, o = self.k, self.o
        target = k.at(o.out, self.matrix * (o.n * o.columns), self.element)
        start = target if in_order else k.at(target, self.first * o.n, self.element)
        place = (lambda j: k.cast(k.load(self.order, self.first + j, "i32"), "i64")) if in_order else None
        self.write_columns(self.x, self.px, (o.n, self.count), start, o.n, place)


_LOAD, _STORE = ("load", ()), ("store", (False,))
_IDENTITY = ("identity", ())
_LOWER, _UPPER = ("forward", (False, False)), ("backward", (False, False))
_UNIT_LOWER, _UNIT_UPPER = ("forward", (True, False)), ("backward", (True, False))
_OF_UPPER, _OF_LOWER, _OF_UNIT_LOWER = ("forward", (False, True)), ("backward", (False, True)), ("backward", (True, True))  # transposed
# What is done with right hand sides, by what is solved: steps of ``_Substitution`` and their arguments.
STEPS: dict[str, tuple[tuple[str, tuple[bool, ...]], ...]] = {
    "factors": (_LOAD, ("exchange", ()), _UNIT_LOWER, _UPPER, _STORE),
    "transposed factors": (_LOAD, _OF_UPPER, _OF_UNIT_LOWER, ("exchange", (True,)), _STORE),
    "inverse": (_IDENTITY, _UNIT_LOWER, _UPPER, ("store", (True,))),
    "lower root": (_LOAD, _LOWER, _OF_LOWER, _STORE),
    "upper root": (_LOAD, _OF_UPPER, _UPPER, _STORE),
    "inverse of lower root": (_IDENTITY, _LOWER, _OF_LOWER, _STORE),
    "inverse of upper root": (_IDENTITY, _OF_UPPER, _UPPER, _STORE),
    "inverse of upper": (_IDENTITY, _UPPER, _STORE),
    "lower": (_LOAD, _LOWER, _STORE),
    "upper": (_LOAD, _UPPER, _STORE),
    "unit lower": (_LOAD, _UNIT_LOWER, _STORE),
    "unit upper": (_LOAD, _UNIT_UPPER, _STORE),
    "rows of lower": (_LOAD, _LOWER, ("store_rows", ())),
    "rows of upper": (_LOAD, _UPPER, ("store_rows", ())),
    "rows of unit lower": (_LOAD, _UNIT_LOWER, ("store_rows", ())),
    "rows of unit upper": (_LOAD, _UNIT_UPPER, ("store_rows", ())),
}


@kernel
def substitute(k: Builder, element: str, solved: str) -> None:
    """Some columns of right hand sides a chunk; see ``STEPS``."""
    o = k.arguments(Substituted)

    def chunk(c: Value) -> None:
        part = _Substitution(k, element, o, c)
        for name, words in STEPS[solved]:
            getattr(part, name)(*words)

    k.for_chunks(chunk)


_NONE = np.zeros(1, np.int32)


def solutions(solved: str, rows: Rows, B: np.ndarray | None, pivots: np.ndarray = _NONE, order: np.ndarray = _NONE) -> np.ndarray:
    """Solutions, column by column ``(count, columns, n)``; those of ``rows of ...`` row by row.

    Args:
        solved: what with, a word of ``STEPS``. rows: its matrices. B: right hand sides, as many; None for an inverse.
    """
    dtype, n = rows.array.dtype, rows.n
    count, given = len(rows.array), lies(rows.array[:, :n, :n] if B is None else B)
    columns = n if B is None else B.shape[-1]
    wide = tile_columns(dtype)
    stripes, whole = -(-columns // wide), up_to_blocks(n)
    by_rows = solved.startswith("rows")
    out = np.empty((count, n, columns) if by_rows else (count, columns, n), dtype)
    run = substitute(FLOATS[dtype], solved).launch
    work = np.empty((min(count, slices(count)[0].stop) * stripes, whole * wide), dtype)
    for part in slices(count):
        run(
            (part.stop - part.start) * stripes, rows=rows.array[part], b=given.array[part], out=out[part], pivots=pivots[part],
            order=order[part], work=work, n=n, columns=columns, pitch=rows.pitch, by_rows=given.by_rows, by=given.by, step=given.step,
            room=rows.room, stripes=stripes, whole=whole, per=work.shape[1],
        )  # fmt: skip
    return out
