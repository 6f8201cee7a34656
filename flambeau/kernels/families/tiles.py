"""Products of tiles in registers: scalars of one operand, each spread over a register, times vectors of the other.

A *panel* has ``width`` neighbours in each of its lines (``vectors`` registers), so that the sum for a few rows stays in registers while
lines are walked down:

      factor                     panel                              sum
      row 0  a00 a01 a02 ..      line 0 [    |    |    |    ]       row 0 [    |    |    |    ]   += a00 * line 0 + a01 * line 1 + ..
      row 1  a10 a11 a12 ..   x  line 1 [    |    |    |    ]   =   row 1 [    |    |    |    ]
      ..                         ..                                 ..

The factor is read in place, whatever the distance of its rows; panels are packed, transposed on the way if need be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..compiler.language import Builder, Value, as_tuple, register_element

Span = range  # of a panel's registers
Change = Callable[[Value], Value]
Factor = Callable[[int, Value], Value]  # the scalar of a row for a line


class Tiles:
    """Tiles whose lines have ``vectors`` registers of one element type.

    Attributes:
        width: elements in a line.
        rows: how many rows are summed at once.
    """

    def __init__(self, k: Builder, element: str, vectors: int):
        self.k, self.element, self.vectors = k, element, vectors
        self.lanes = k.lanes(element)
        self.width = self.lanes * vectors
        self.every = range(vectors)
        self.zero = k.const(0, element, self.lanes)
        self.rows = rows_at_once(k, vectors)

    def line(self, panel: Value, at: Value | int, span: Span, pitch: Value | int = 0) -> list[Value]:
        """The registers ``span`` of a line."""
        start = at * (pitch or self.width)
        return [self.k.load(panel, start + v * self.lanes, self.element, self.lanes) for v in span]

    def put(self, values: Sequence[Value], panel: Value, at: Value | int, span: Span) -> None:
        for v, value in zip(span, values, strict=True):
            self.k.store(value, panel, at * self.width + v * self.lanes, self.element)

    def clear(self, panel: Value, lines: Value) -> None:
        self.k.loop(0, lines, lambda at: self.put([self.zero] * self.vectors, panel, at, self.every))

    def product(
        self,
        factor: Factor,
        rows: int,
        panel: Value,
        lines: tuple[Value | int, Value],
        span: Span,
        start: Sequence[Value],
        pitch: Any = 0,
        together: int = 1,
        meanwhile: Callable[[Value], None] | None = None,
    ) -> tuple[Value, ...]:
        """``start`` and the products of ``rows`` rows of a factor with the panel's ``lines``: a register for each row and of ``span``.

        A step of the loop takes so many lines ``together``; ``meanwhile(line)`` is done beside each.
        """
        k = self.k

        def add(at: Value, *total: Value) -> list[Value]:
            line, sums = self.line(panel, at, span, pitch), list(total)
            if meanwhile is not None:
                meanwhile(at)
            for row in range(rows):
                scalar = k.splat(factor(row, at), self.lanes)
                for v, value in enumerate(line):
                    place = row * len(line) + v
                    sums[place] = k.fma(scalar, value, total[place])
            return sums

        def add_some(at: Value, *total: Value) -> Sequence[Value]:
            for line in range(together):
                total = tuple(add(at + line, *total))
            return total

        first, last = lines
        if together == 1:
            return as_tuple(k.loop(first, last, add, carried=list(start)))
        main = last - (last - first) % together
        total = as_tuple(k.loop(first, main, add_some, step=together, carried=list(start)))
        return as_tuple(k.loop(main, last, add, carried=total))

    # -- between rows in memory and panels ---------------------------------------------------------------------------------------------
    def pack(
        self, rows: Value, by: Value, limits: tuple[Value, Value], panel: Value, change: Change, memory: str = "", other: Any = 0
    ) -> None:
        """Write rows ``by`` elements apart as the panel's columns; ``limits`` are their number and length, behind them is ``other``.

        ``change`` is applied to each register of a row. The panel's lines are filled up to a multiple of the lanes.
        """
        k, lanes, memory = self.k, self.lanes, memory or self.element

        def square(first: Value, c: Value) -> None:
            values = []
            for r in range(lanes):
                mask = self._inside(first + r, c, limits)
                values.append(change(k.load(rows, (first + r) * by + c, memory, lanes, mask, other)))
            for r, value in enumerate(transposed(k, values)):
                k.store(value, panel, (c + r) * self.width + first, self.element)

        self._squares(limits[1], square)

    def pack_whole(self, rows: Value, by: Value, limits: tuple[Value, Value], panel: Value, depth: Value) -> None:
        """Write rows as they are as the panel's columns, and zeros behind them up to ``depth`` lines."""
        self.pack(rows, by, limits, panel, lambda value: value)
        written = (limits[1] + self.lanes - 1) // self.lanes * self.lanes
        self.clear(self.k.at(panel, written * self.width, self.element), self.k.most(depth - written, 0))

    def unpack(self, panel: Value, rows: Value, by: Value, limits: tuple[Value, Value], change: Callable[[Value, Value], Value]) -> None:
        """Write the panel's columns as rows; ``change(register, first of its columns)`` goes before."""
        k, lanes = self.k, self.lanes

        def square(first: Value, c: Value) -> None:
            values = [change(k.load(panel, (c + r) * self.width + first, self.element, lanes), first) for r in range(lanes)]
            for r, value in enumerate(transposed(k, values)):
                k.store(value, rows, (first + r) * by + c, self.element, self._inside(first + r, c, limits))

        self._squares(limits[1], square)

    def _squares(self, length: Value, body: Callable[[Value, Value], None]) -> None:
        """``body(row, column)`` for each square of as many rows and columns as a register has lanes."""
        k, lanes = self.k, self.lanes
        k.loop(0, self.width, lambda first: k.loop(0, length, partial(body, first), step=lanes), step=lanes)

    def _inside(self, row: Value, column: Value, limits: tuple[Value, Value]) -> Value:
        """Mask of the lanes of a row's register from ``column`` on that lie within the limits; none if the row does not."""
        return below(self.k, self.k.select(row < limits[0], limits[1] - column, 0), self.lanes)


def rows_at_once(k: Builder, vectors: int) -> int:
    """Rows whose sums fit the registers beside a line and a scalar."""
    return min(8, (16 if k.target.registers > 16 else 12) // vectors)


def below(k: Builder, count: Value, lanes: int) -> Value:
    """The first ``count`` lanes; none where it is negative."""
    return k.indices(lanes, "i32") < k.splat(k.cast(count, "i32"), lanes)


def by_rows(k: Builder, rows: int, start: Value, stop: Value, body: Callable[..., Any], carried: Sequence[Value] = ()) -> tuple[Value, ...]:
    """``body(first, count, *carried)`` for so many rows at a time, and for each of those that are left; ``stop`` is at least ``start``."""
    main = start + (stop - start) // rows * rows
    values = as_tuple(k.loop(start, main, lambda i, *v: body(i, rows, *v), step=rows, carried=carried))
    return as_tuple(k.loop(main, stop, lambda i, *v: body(i, 1, *v), carried=values))


def transposed(k: Builder, lines: list[Value]) -> list[Value]:
    """As many vectors as each has lanes, rows and columns exchanged: each round exchanges one bit of row and lane number."""
    lines, side = list(lines), len(lines)
    half = 1
    while half < side:
        for i in range(side):
            if not i & half:
                a, b = lines[i], lines[i + half]
                lines[i] = k.shuffle(a, [n + side - half if n & half else n for n in range(side)], b)
                lines[i + half] = k.shuffle(a, [n + side if n & half else n + half for n in range(side)], b)
        half *= 2
    return lines


def aligned(k: Builder, pointer: Value) -> Value:
    """The next address that a cache line begins at."""
    address = k.emit(f"ptrtoint ptr {pointer.text} to i64", "i64")
    return k.emit(f"inttoptr i64 {((address + 63) & -64).text} to ptr", "ptr")


def register_of(memory: str, element: str, k: Builder, value: Value) -> Value:
    """A mask's register as what is added to scores: bools are 0 or minus infinity."""
    if register_element(memory) == "b1":
        return k.select(value, k.const(0, element, value.lanes), k.const(float("-inf"), element, value.lanes))
    return k.cast(value, element)
