r"""Cholesky's factors out of registers.

Rows of the upper factor U, a block at a time: the matrix's rows less what the rows above multiply to, the block's own triangle
column by column, and the rest of its rows solved with that. The lower factor's columns are U's rows.

        +-----------------+
         \       U        |
           \              |      block -= U[:, block].T @ U
             +-----+-------|
              \ own| rest  |      rest = own.T^-1 @ rest
                \  |       |
                 +---------+

Source: Golub and Van Loan 2013, "Matrix computations", section 4.2.
"""

from __future__ import annotations

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from .blocks import Blocks, are_for_blocks, in_columns, lies, reserve


class Roots(Record):
    """A batch of matrices of ``n`` rows."""

    a: Array
    rows: Array
    out: Array  # U's rows, which are the lower factor's columns
    flag: Array  # set where there is no factor
    n: Integer
    pitch: Integer
    by_rows: Integer
    by: Integer
    step: Integer
    room: Integer


class _Root(Blocks):
    """The factor of one matrix in padded rows, of which the upper triangle is read."""

    def __init__(self, k: Builder, element: str, o: Roots, rows: Value):
        super().__init__(k, element)
        self.o, self.rows = o, rows

    def here(self, row: Value | int, column: Value) -> tuple[Value, Value]:
        return self.at(self.rows, row, self.o.pitch, column), self.o.pitch

    def block(self, at: Value, fine: Value) -> Value:
        k, n = self.k, self.o.n
        after = at + self.size
        self.subtract(self.here(at, at), self.here(0, at), self.here(0, at), self.size, n - at, at, True)
        fine = k.loop(at, k.least(after, n), lambda s, fine: self._row(at, s, fine), carried=[fine])
        k.when(after < n, lambda: self.solve(self.here(at, at), self.here(at, after), n - after, True, False, True))
        return fine

    def _row(self, first: Value, s: Value, fine: Value) -> Value:
        """A row of a block's own triangle, and what it takes from those below."""
        k = self.k
        line, place = self.here(s, first)[0], s - first
        square = self.number(line, place)
        root = k.sqrt(square)
        values = [self.vector(line, v * self.lanes) / root for v in self.every]
        for v, value in enumerate(values):
            self.put(value, line, v * self.lanes)
        k.store(root, line, place, self.element)

        def below(i: Value) -> None:
            target, factor = self.here(i, first)[0], -k.splat(self.number(line, i - first), self.lanes)
            for v, value in enumerate(values):
                self.put(k.fma(factor, value, self.vector(target, v * self.lanes)), target, v * self.lanes)

        k.loop(s + 1, first + self.size, below)
        return fine & (square > 0.0) & (root < float("inf"))

    def write(self, out: Value, pitch: Value) -> None:
        """The factor, with zeros below the diagonal, in rows ``pitch`` elements apart, which may be its own."""
        k, n = self.k, self.o.n

        def row(i: Value) -> None:
            line, target = self.here(i, k.const(0, "i64"))[0], k.at(out, i * pitch, self.element)
            diagonal = i // self.lanes * self.lanes

            def copy(j: Value, mask: Value | None) -> None:
                self.put(self.vector(line, j, mask), target, j, mask)

            k.vector_loop(diagonal, n, self.lanes, copy)
            k.vector_loop(0, i, self.lanes, lambda j, mask: self.put(self.zero, target, j, mask))

        k.loop(0, n, row)


@kernel
def take_block_roots(k: Builder, element: str, in_place: bool) -> None:
    """U with ``U.T @ U`` equal to a matrix, of which the upper triangle is read, in padded rows or in those of ``out``; one a chunk."""
    o = k.arguments(Roots)

    def matrix(b: Value) -> None:
        rows = k.at(o.rows, b * o.room, element)
        root = _Root(k, element, o, rows)
        finite = root.read(k.at(o.a, b * o.step, element), o.by, o.by_rows.ne(0), (o.n, o.n), rows, o.pitch)
        fine = k.loop(0, o.n, root.block, step=root.size, carried=[finite])
        if in_place:
            root.write(rows, o.pitch)
        else:
            root.write(k.at(o.out, b * (o.n * o.n), element), o.n)
        k.when(~fine, lambda: k.store(k.const(1, "i64"), o.flag, 0, "i64"))

    k.for_chunks(matrix)


def roots(A: np.ndarray, upper: bool) -> np.ndarray | None:
    """The transposed stack of the factors; None where one has none, or is for LAPACK."""
    n = A.shape[-1]
    if not are_for_blocks(A):
        return None
    given, flag = lies(A), np.zeros(1, np.int64)
    rows = reserve(len(given.array), n, n, A.dtype)
    out = flag if upper else np.empty((len(given.array), n, n), A.dtype)
    take_block_roots(FLOATS[A.dtype], upper).launch(
        len(given.array), a=given.array, rows=rows.array, out=out, flag=flag, n=n, pitch=rows.pitch,
        by_rows=given.by_rows ^ (not upper), by=given.by, step=given.step, room=rows.room,
    )  # fmt: skip
    if flag[0]:
        return None
    return in_columns(rows, n) if upper else out
