"""Fourier transforms of short rows, and of columns: as many at a time as a register has lanes, each lane with one of its own.

    array                            memory of a thread                                      array
    row 0  re im re im ..            element 0   re [row 0 | row 1 | ..]  im [row 0 | ..]    row 0  re im ..
    row 1  re im re im ..      ->    element 1   re [row 0 | row 1 | ..]  im [row 0 | ..] -> row 1  re im ..
    ..         (transposed)          ..                 (passes)                                (transposed)

So every pass is plain code over whole registers, whatever its radix.  Passes go from one half of the memory to the other and sort on the
way (Stockham): with ``s`` transforms of length ``r m`` still to do, butterfly (p, q) reads elements ``q + s (p + m j)`` and writes
``q + s (r p + j)``.  Which radices there are is data: a table of passes, and the factors they multiply by.

Transforms of dimensions before the last read and write columns, whose neighbours are neighbours in memory already.  Real rows of even
length are transformed as complex ones of half of it; one pass more takes the halves apart, or puts them together.

Source: Van Loan 1992, "Computational frameworks for the fast Fourier transform", algorithms 1.7.1 (Stockham) and 4.3.1 (real rows).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .fourier_butterflies import (
    LENGTHS,
    Complex,
    chunks_in_memory,
    put_together,
    radices_of,
    roots,
    taken_apart,
    times,
    transform_of,
    with_memory,
)
from .microkernel import Scratch
from .tiles import Tiles, below

LONGEST = 4096  # elements: both halves of a thread's memory fit the second cache
SHORT = 128  # elements for which that memory is on the stack
_CHUNK = 1 << 15  # elements
_TURNS = 32  # rows of the first of two tables that together turn results
_PASS = 4  # numbers in a row of the table of passes


# -- the kernel ---------------------------------------------------------------------------------------------------------------------------
class Transform(Record):
    """Arguments; pitches are counted in real numbers."""

    x: Array
    y: Array
    flags: Array
    memory: Array
    factors: Array  # of each pass for each p the r - 1 factors of its results, then those that take halves apart
    passes: Array  # rows of radix, m, s, and where their factors begin
    turns: Array  # for _TURNS rows, then for each multiple of so many, planes of the columns' cosines and sines
    pieces: Integer  # of memory
    size: Integer  # of a piece, in numbers
    pass_count: Integer
    n: Integer  # elements of a transform
    count: Integer  # rows; or columns of a matrix
    x_pitch: Integer  # from row to row
    y_pitch: Integer
    x_length: Integer  # of a row
    y_length: Integer
    swap: Integer  # 1 for the inverse, which is the transform with real and imaginary parts exchanged
    groups: Integer  # of as many rows as there are lanes
    per_chunk: Integer
    scale: Number
    sign: Number  # of a real row's imaginary parts


class _Lanes:
    """The memory of a thread: two halves of ``n`` elements and one, each a register of real and one of imaginary parts."""

    def __init__(self, k: Builder, element: str, radices: tuple[int, ...], o: Transform):
        self.k, self.element, self.radices, self.o, self.lanes = k, element, radices, o, k.lanes(element)
        self.tiles = Tiles(k, element, 1)
        self.scale = k.splat(k.cast(o.scale, element), self.lanes)

    def load(self, half: Value, at: Value | int, swap: Value | None = None) -> Complex:
        k, lanes = self.k, self.lanes
        place = at * (2 * lanes)
        re, im = (place, place + lanes) if swap is None else (place + swap * lanes, place + (1 - swap) * lanes)
        return k.load(half, re, self.element, lanes), k.load(half, im, self.element, lanes)

    def store(self, value: Complex, half: Value, at: Value | int, swap: Value | None = None) -> None:
        k, lanes = self.k, self.lanes
        place = at * (2 * lanes)
        re, im = (place, place + lanes) if swap is None else (place + swap * lanes, place + (1 - swap) * lanes)
        k.store(value[0], half, re, self.element)
        k.store(value[1], half, im, self.element)

    def put_line(self, value: Complex, target: Value, masks: Sequence[Value | None] = (None, None)) -> None:
        """Scaled complex numbers of all lanes, side by side."""
        k, lanes = self.k, self.lanes
        re, im = (part * self.scale for part in value)
        for half in range(2):
            order = [i // 2 + half * lanes // 2 + i % 2 * lanes for i in range(lanes)]
            k.store(k.shuffle(re, order, im), target, half * lanes, self.element, masks[half])

    # -- passes -------------------------------------------------------------------------------------------------------------------------
    def passes(self, first: Value, second: Value) -> tuple[Value, Value]:
        """All passes; the half in which the result lies, and the other one."""
        k, o = self.k, self.o

        def one(number: Value, x: Value, y: Value) -> tuple[Value, Value]:
            radix, m, s, at = (k.load(o.passes, number * _PASS + i, "i64") for i in range(_PASS))
            for r in self.radices:
                k.when(radix.eq(r), partial(self._pass, r, x, y, m, s, k.at(o.factors, at, self.element)))
            return y, x

        x, y = k.loop(0, o.pass_count, one, carried=[first, second])
        return x, y

    def _pass(self, r: int, x: Value, y: Value, m: Value, s: Value, factors: Value) -> None:
        k, lanes, swap = self.k, self.lanes, self.o.swap

        def some(p: Value) -> None:
            numbers = [k.load(factors, p * (2 * r - 2) + i, self.element) for i in range(2 * r - 2)]
            wide = [k.splat(number, lanes) for number in numbers]

            def butterfly(q: Value) -> None:
                read, write = q + s * p, q + s * (p * r)
                result = transform_of(k, [self.load(x, read + s * m * j, swap) for j in range(r)])
                self.store(result[0], y, write, swap)
                for j in range(1, r):
                    self.store(times(k, result[j], (wide[2 * j - 2], wide[2 * j - 1])), y, write + s * j, swap)

            k.loop(0, s, butterfly)

        k.loop(0, m, some)

    # -- real rows ------------------------------------------------------------------------------------------------------------------------
    def _halves(self, x: Value, y: Value, body: Callable[[Value, Complex, Complex, Complex], tuple[Complex, Complex]], wraps: bool) -> None:
        """``body(j, x[j], x[n - j], factor)`` gives ``y[j]`` and ``y[n - j]``, for j from 0 to the middle.

        Of a transform (``wraps``) element n is element 0.
        """
        k, n = self.k, self.o.n
        last = self.o.pass_count - 1
        radix, m, at = (k.load(self.o.passes, last * _PASS + i, "i64") for i in (0, 1, 3))
        factors = k.at(self.o.factors, at + m * (radix * 2 - 2), self.element)

        def pair(j: Value) -> None:
            other = n - j
            back = k.select(other.eq(n), 0, other) if wraps else other
            re, im = (k.splat(k.load(factors, j * 2 + i, self.element), self.lanes) for i in range(2))
            here, there = body(j, self.load(x, j), self.load(x, back), (re, im))
            self.store(here, y, j)
            self.store(there, y, other)

        k.loop(0, n // 2 + 1, pair)

    def taken_apart(self, x: Value, y: Value) -> None:
        """The spectrum of 2 n real numbers from that of n complex ones."""
        k = self.k
        sign = k.splat(k.cast(self.o.sign, self.element), self.lanes)

        self._halves(x, y, lambda _, a, b, factor: taken_apart(k, a, b, factor, 0.5, sign), True)

    def mirrored(self, y: Value) -> None:
        """The other half of a real row's spectrum: conjugates from behind."""
        k, n = self.k, self.o.n

        def copy(j: Value) -> None:
            re, im = self.load(y, n * 2 - j)
            self.store((re, -im), y, j)

        k.loop(n + 1, n * 2, copy)

    def put_together(self, x: Value, y: Value) -> None:
        """The n complex numbers whose transform has 2 n real ones, from half of the spectrum of these."""
        k = self.k

        def pair(j: Value, a: Complex, b: Complex, factor: Complex) -> tuple[Complex, Complex]:
            ends = j.eq(0)  # neither end has an imaginary part
            zero = k.const(0, self.element, self.lanes)
            a, b = ((value[0], k.select(ends, zero, value[1])) for value in (a, b))
            return put_together(k, a, b, factor)

        self._halves(x, y, pair, False)


class _Rows(_Lanes):
    """Transforms of rows."""

    def group(self, kind: str, g: Value, first: Value, second: Value) -> None:
        k, o = self.k, self.o
        row = g * self.lanes
        rows = k.least(o.count - row, self.lanes)
        self.tiles.pack(k.at(o.x, row * o.x_pitch, self.element), o.x_pitch, (rows, o.x_length), first, lambda value: value)
        if kind == "to_real":
            self.put_together(first, second)
            first, second = second, first
        x, y = self.passes(first, second)
        if kind in ("from_real", "whole"):
            self.taken_apart(x, y)
            x = y
        if kind == "whole":
            self.mirrored(x)
        target = k.at(o.y, row * o.y_pitch, self.element)
        self.tiles.unpack(x, target, o.y_pitch, (rows, o.y_length), lambda value, _: value * self.scale)


class _Columns(_Lanes):
    """Transforms of columns of complex matrices; "turned", each result is then turned by as much as its row and column say."""

    def group(self, kind: str, g: Value, first: Value, second: Value) -> None:
        k, o, lanes = self.k, self.o, self.lanes
        across = (o.count + lanes - 1) // lanes
        matrix, column = g // across, g % across * lanes
        begin = (matrix * o.n * o.count + column) * 2
        numbers = k.least(o.count - column, lanes) * 2
        masks = [below(k, numbers - half * lanes, lanes) for half in range(2)]
        both = range(2 * lanes)

        def read(j: Value) -> None:
            source = k.at(o.x, begin + j * o.count * 2, self.element)
            a, b = (k.load(source, half * lanes, self.element, lanes, masks[half]) for half in range(2))
            self.store((k.shuffle(a, both[::2], b), k.shuffle(a, both[1::2], b)), first, j)

        k.loop(0, o.n, read)
        x, _ = self.passes(first, second)

        def write(j: Value) -> None:
            value = self.load(x, j)
            if kind == "turned":
                value = times(k, value, self._turn(j, column))
            self.put_line(value, k.at(o.y, begin + j * o.count * 2, self.element), masks)

        k.loop(0, o.n, write)

    def _turn(self, row: Value, column: Value) -> Complex:
        """The root of unity that a row's elements meet, by two tables."""
        lines = (row % _TURNS, row // _TURNS + _TURNS)
        low, high = (
            [self.k.load(self.o.turns, (line * 2 + part) * self.o.count + column, self.element, self.lanes) for part in range(2)]
            for line in lines
        )
        c, s = times(self.k, (low[0], low[1]), (high[0], high[1]))
        return c, s * self.k.splat(self.k.cast(self.o.sign, self.element), self.lanes)


class _Crossed(_Lanes):
    """Transforms of rows of complex matrices of ``count`` rows, a multiple of the lanes, that become columns."""

    def group(self, kind: str, g: Value, first: Value, second: Value) -> None:
        k, o = self.k, self.o
        row = g * self.lanes
        rows = k.least(o.count, self.lanes)
        self.tiles.pack(k.at(o.x, row * o.x_pitch, self.element), o.x_pitch, (rows, o.x_length), first, lambda value: value)
        x, _ = self.passes(first, second)
        begin = row // o.count * (o.count * o.n) + row % o.count

        def write(j: Value) -> None:
            self.put_line(self.load(x, j), k.at(o.y, (begin + j * o.count) * 2, self.element))

        k.loop(0, o.n, write)


_GROUPS: dict[str, type[_Rows | _Columns | _Crossed]] = {"columns": _Columns, "turned": _Columns, "crossed": _Crossed}


@kernel
def transforms(k: Builder, element: str, kind: str, radices: tuple[int, ...], is_short: bool) -> None:
    """Groups of transforms whose passes have these radices.

    ``kind`` is "complex", "from_real", "whole" (the same, with both halves), "to_real"; "columns", "turned" or "crossed".
    """
    without = [*(("flags", "memory", "pieces") if is_short else ()), *(() if kind == "turned" else ("turns",))]
    o = k.arguments(Transform, without=without)
    own = k.scratch(_room(SHORT, k.lanes(element)), element) if is_short else None
    lanes = _GROUPS.get(kind, _Rows)(k, element, radices, o)

    def groups(c: Value, memory: Value) -> None:
        second = k.at(memory, o.size // 2, element)
        k.loop(c * o.per_chunk, k.least((c + 1) * o.per_chunk, o.groups), lambda g: lanes.group(kind, g, memory, second))

    chunks_in_memory(k, element, o, own, groups)


# -- plans --------------------------------------------------------------------------------------------------------------------------------
def _room(elements: int, lanes: int) -> int:
    """Numbers of both halves of a thread's memory; squares that are transposed may hang over the end by a register's lanes."""
    return 2 * (2 * elements + lanes) * lanes


@lru_cache(maxsize=64)
def _tables(n: int, dtype: np.dtype, registers: int, halves: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Factors of all passes, and the table of these; ``halves``: then those of real rows. None where a prime is too large."""
    found = radices_of(n, registers)
    if found is None:
        return None
    factors, passes, done, at = [], [], 1, 0
    for radix in found[1]:
        m = n // (done * radix)
        places = np.arange(m)[:, None] * np.arange(1, radix)
        factors.append(roots(radix * m, radix * m)[places].ravel())
        passes.append((radix, m, done, at))
        at += factors[-1].size
        done *= radix
    if halves:
        factors.append(roots(n // 2 + 1, 2 * n).ravel())
    return np.concatenate(factors).astype(dtype), np.array(passes, np.int64)


def _turns(rows: int, columns: int, lanes: int) -> np.ndarray:
    """The two tables, and as many numbers behind them as a register hangs over the end."""
    lines = np.concatenate([np.arange(_TURNS), np.arange(0, rows, _TURNS)])
    turns = roots(rows * columns, rows * columns)[lines[:, None] * np.arange(columns)].swapaxes(1, 2)
    return np.concatenate([turns.ravel(), np.zeros(lanes)])


def plan(
    kind: str, dtype: np.dtype, rows: int, n: int, inner: int, inverse: bool, scale: float, pitch: int = 0
) -> Callable[..., None] | None:
    """Function ``launch(x, y)`` that transforms rows of ``n`` complex, or ``2 n`` real numbers, or columns of ``rows`` matrices.

    ``inner`` is the number of columns, or of a "crossed" matrix's rows; ``pitch`` how many real numbers rows lie apart that do not lie
    side by side.
    """
    target = targets.current()
    element, lanes = ("f32", target.width // 4) if dtype.itemsize == 4 else ("f64", target.width // 8)
    elements = 2 * n if kind == "whole" else n + 1
    is_columns = kind in ("columns", "turned")
    many = inner if is_columns else rows
    tables = _tables(n, dtype, target.registers, kind in ("from_real", "whole", "to_real")) if 1 < n and elements <= LONGEST + 1 else None
    if tables is None or many * 2 < lanes:
        return None
    x_length, y_length = (0, 0) if is_columns else LENGTHS[kind](n)
    groups = rows * -(-inner // lanes) if is_columns else -(-rows // lanes)
    per_chunk, is_short = max(1, _CHUNK // (lanes * n)), elements <= SHORT
    places: dict[str, Any] = {
        "pass_count": len(tables[1]),
        "n": n,
        "count": inner if kind == "crossed" else many,
        "groups": groups,
        "per_chunk": per_chunk,
        "scale": scale,
        "x_pitch": pitch or x_length,
        "y_pitch": y_length,
        "x_length": x_length,
        "y_length": y_length,
        "swap": int(inverse and kind not in ("from_real", "whole")),
        "sign": -1.0 if inverse else 1.0,
    }
    chunks, size = -(-groups // per_chunk), _room(SHORT if is_short else elements, lanes)
    scratch = None if is_short else Scratch(size, dtype)
    if scratch is not None:
        places["pieces"] = scratch.pieces
    if kind == "turned":
        places["turns"] = _turns(n, inner, lanes).astype(dtype)
    radices = tuple(sorted({int(radix) for radix in tables[1][:, 0]}))
    launch = transforms(element, kind, radices, is_short).bind(chunks, factors=tables[0], passes=tables[1], size=size, **places)
    return with_memory(launch, scratch)
