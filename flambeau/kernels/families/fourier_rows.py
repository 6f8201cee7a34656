"""Fourier transforms of single rows, whose lanes are neighbours in the row.

    row   re im re im ..    first pass     planes  re [0 1 2 ..]     passes       planes  re [0 1 2 ..]    last pass    row  re im re im ..
                            ---------->            im [0 1 2 ..]  ------------>           im [0 1 2 ..]   ---------->

All of a row stays in the first cache, or the second.  Passes sort on the way (Stockham): with ``s`` transforms of length ``r m`` still to
do, butterfly (p, q) reads elements ``q + s (p + m j)`` and writes ``q + s (r p + j)``.  In the first pass s is 1, lanes are neighbouring
p, and results are transposed in registers; in the others lanes are neighbouring q.  Where a multiple of the lanes is none of the elements,
the last register lies over the one before.  A register of a pass with fewer q than lanes hangs over what is written later.

Lengths with large prime factors are convolutions with a chirp (Bluestein), by two transforms of a length that has none.  Real rows of
even length are complex ones of half of it, whose halves are taken apart or put together by one pass more; odd ones have zeros between.

Source: Van Loan 1992, "Computational frameworks for the fast Fourier transform", algorithms 1.7.1, 4.2.2 (Bluestein) and 4.3.1.
Error: see ``fourier.py``; ``tests/kernels/test_fourier.py`` holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import SIZES, Builder, Value
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
from .tiles import transposed

LONGEST = 1 << 17  # elements of a row; from there on it takes memory beyond the second cache
_CHUNK = 1 << 14  # elements
_STACK = 1 << 16  # bytes up to which a row's planes are on the stack
_PASS = 4  # numbers in a row of the table of passes

Read = Callable[[Value], Complex]  # the elements from a place on
Write = Callable[[Complex, Value], None]
Transform = Callable[[Read, Write], None]
Radices = tuple[int, tuple[int, ...], int]  # of the first pass, those between, and of the last


class Row(Record):
    """Arguments; pitches are counted in real numbers."""

    x: Array
    y: Array
    flags: Array
    memory: Array
    factors: Array  # of the first pass for each of its results but one a plane of cosines and of sines, then those of ``passes``
    halves: Array  # cosines, then sines, that take halves of real rows apart
    chirp: Array  # cosines, then sines of the chirp; then the planes of its own transform
    passes: Array  # between the first and the last: rows of radix, m, s, and where their factors begin
    pieces: Integer  # of memory
    size: Integer  # of a piece, in numbers
    plane: Integer  # from real parts to imaginary ones
    pass_count: Integer
    n: Integer  # elements of the passes' transform
    length: Integer  # complex elements of a row; ``n`` where no chirp is
    rows: Integer
    x_pitch: Integer  # from row to row
    y_pitch: Integer
    per_chunk: Integer
    scale: Number
    sign: Number  # -1 for the inverse, which is the conjugate of the conjugate's transform


class _Row:
    """Vectors of a row's elements, in memory and in planes."""

    def __init__(self, k: Builder, element: str, o: Row):
        self.k, self.element, self.o, self.lanes = k, element, o, k.lanes(element)
        self.zero = k.const(0, element, self.lanes)
        self.scale, self.sign = (k.splat(k.cast(number, element), self.lanes) for number in (o.scale, o.sign))

    def vector(self, pointer: Value, at: Value) -> Value:
        return self.k.load(pointer, at, self.element, self.lanes)

    def load(self, planes: Value, at: Value) -> Complex:
        return self.vector(planes, at), self.vector(planes, at + self.o.plane)

    def store(self, planes: Value, value: Complex, at: Value) -> None:
        self.k.store(value[0], planes, at, self.element)
        self.k.store(value[1], planes, at + self.o.plane, self.element)

    def reversed(self, value: Complex) -> Complex:
        re, im = (self.k.shuffle(part, range(self.lanes)[::-1]) for part in value)
        return re, im

    def pairs(self, row: Value, at: Value) -> Complex:
        """Complex numbers of a row."""
        a, b = (self.vector(row, at * 2 + half) for half in (0, self.lanes))
        both = range(2 * self.lanes)
        return self.k.shuffle(a, both[::2], b), self.k.shuffle(a, both[1::2], b)

    def put_pairs(self, row: Value, value: Complex, at: Value) -> None:
        k, lanes = self.k, self.lanes
        for half in range(2):
            order = [i // 2 + half * lanes // 2 + i % 2 * lanes for i in range(lanes)]
            k.store(k.shuffle(value[0], order, value[1]), row, at * 2 + half * lanes, self.element)

    def put_reversed(self, row: Value, value: Complex, at: Value) -> None:
        """The same for lanes in the opposite order, the last one's place being given."""
        k, lanes = self.k, self.lanes
        for half in range(2):
            order = [lanes - 1 - (i // 2 + half * lanes // 2) + i % 2 * lanes for i in range(lanes)]
            k.store(k.shuffle(value[0], order, value[1]), row, at * 2 + half * lanes, self.element)

    def over(self, start: Any, count: Value, body: Callable[[Value], None]) -> None:
        """``body`` for the places of registers that cover so many elements, at least one register's."""
        last = count - self.lanes
        self.k.loop(0, count, lambda at: body(self.k.least(at, last) + start), step=self.lanes)

    def pair_places(self, body: Callable[[Value, Value, Complex], None]) -> None:
        """``body(j, n - j - lanes + 1, factor)`` for j from 1 to the middle: elements j, and their partners in the opposite order."""
        o = self.o
        half = o.length // 2

        def some(j: Value) -> None:
            body(j, o.length - j - (self.lanes - 1), (self.vector(o.halves, j), self.vector(o.halves, j + half + 1)))

        self.over(1, half, some)


class _Passes(_Row):
    """A transform by passes between the planes ``a`` and ``b``."""

    def __init__(self, k: Builder, element: str, o: Row, radices: Radices, a: Value, b: Value):
        super().__init__(k, element, o)
        self.first, self.radices, self.last = radices
        self.a, self.b = a, b

    def __call__(self, read: Read, write: Write) -> None:
        k, o = self.k, self.o
        self._first_pass(read)

        def one(number: Value, x: Value, y: Value) -> tuple[Value, Value]:
            radix, m, s, at = (k.load(o.passes, number * _PASS + i, "i64") for i in range(_PASS))
            for r in self.radices:
                k.when(radix.eq(r), partial(self._pass, r, x, y, m, s, k.at(o.factors, at, self.element)))
            return y, x

        x, _ = k.loop(0, o.pass_count, one, carried=[self.a, self.b])
        s = o.n // self.last

        def butterfly(q: Value) -> None:
            for j, value in enumerate(transform_of(k, [self.load(x, q + s * j) for j in range(self.last)])):
                write(value, q + s * j)

        self.over(0, s, butterfly)

    def _first_pass(self, read: Read) -> None:
        k, r = self.k, self.first
        m = self.o.n // r

        def some(p: Value) -> None:
            result = transform_of(k, [read(p + m * j) for j in range(r)])
            for j in range(1, r):
                c, s = (self.vector(self.o.factors, m * (2 * j - 2 + part) + p) for part in range(2))
                result[j] = times(k, result[j], (c, s))
            for part in range(2):
                self._side_by_side([value[part] for value in result], k.at(self.a, self.o.plane * part + p * r, self.element))

        self.over(0, m, some)

    def _side_by_side(self, values: list[Value], target: Value) -> None:
        """Lane i of value j becomes element ``i * len(values) + j``; what hangs over is overwritten by the next."""
        k, lanes = self.k, self.lanes
        groups = [values[at : at + lanes] for at in range(0, len(values), lanes)]
        lines = [transposed(k, group + [group[0]] * (lanes - len(group))) for group in groups]
        for i in range(lanes):
            for number, line in enumerate(lines):
                k.store(line[i], target, i * len(values) + number * lanes, self.element)

    def _pass(self, r: int, x: Value, y: Value, m: Value, s: Value, factors: Value) -> None:
        k, lanes = self.k, self.lanes
        last = k.most(s - lanes, 0)

        def some(p: Value) -> None:
            numbers = [k.load(factors, p * (2 * r - 2) + i, self.element) for i in range(2 * r - 2)]
            wide = [k.splat(number, lanes) for number in numbers]

            def butterfly(q: Value) -> None:
                at = k.least(q, last)
                read, write = at + s * p, at + s * (p * r)
                result = transform_of(k, [self.load(x, read + s * m * j) for j in range(r)])
                self.store(y, result[0], write)
                for j in range(1, r):
                    self.store(y, times(k, result[j], (wide[2 * j - 2], wide[2 * j - 1])), write + s * j)

            k.loop(0, s, butterfly, step=lanes)

        k.loop(0, m, some)


class _Chirped(_Row):
    """A transform of any length as a convolution, by ``passes`` there and back; ``planes`` are a third pair."""

    def __init__(self, passes: _Passes, planes: Value):
        super().__init__(passes.k, passes.element, passes.o)
        self.passes, self.planes = passes, planes

    def _factor(self, at: Value) -> Complex:
        return self.vector(self.o.chirp, at), self.vector(self.o.chirp, at + self.o.length)

    def __call__(self, read: Read, write: Write) -> None:
        k, o, planes = self.k, self.o, self.planes
        self.over(0, o.length, lambda at: self.store(planes, times(k, read(at), self._factor(at)), at))
        self.over(o.length, o.n - o.length, lambda at: self.store(planes, (self.zero, self.zero), at))
        self.passes(partial(self.load, planes), partial(self.store, planes))

        def filtered(at: Value) -> Complex:
            """The conjugate of the product with the chirp's transform, whose imaginary parts are negative in the table."""
            (re, im), place = self.load(planes, at), at + o.length * 2
            c, s = self.vector(o.chirp, place), self.vector(o.chirp, place + o.n)
            return k.fma(re, c, im * s), k.fma(re, s, -(im * c))

        self.passes(filtered, partial(self.store, planes))

        def turned(at: Value) -> None:
            (re, im), (c, s) = self.load(planes, at), self._factor(at)
            write((k.fma(re, c, im * s), k.fma(re, s, -(im * c))), at)

        self.over(0, o.length, turned)


class _Ends(_Row):
    """Both ends of a transform: rows ``x`` and ``y`` in memory, and planes ``own`` for elements between row and transform."""

    def __init__(self, k: Builder, element: str, o: Row, x: Value, y: Value, own: Value):
        super().__init__(k, element, o)
        self.x, self.y, self.own = x, y, own

    # -- rows that are transformed --------------------------------------------------------------------------------------------------------
    def complex_row(self, at: Value) -> Complex:
        re, im = self.pairs(self.x, at)
        return re, im * self.sign

    def real_pairs(self, at: Value) -> Complex:
        return self.pairs(self.x, at)

    def real_row(self, at: Value) -> Complex:
        return self.vector(self.x, at), self.zero

    def planes(self, at: Value) -> Complex:
        return self.load(self.own, at)

    def put_together(self) -> None:
        """To planes: conjugates of the complex numbers whose transform has a row's real ones, from half of the spectrum of these."""
        k, o = self.k, self.o

        def some(j: Value, back: Value, factor: Complex) -> None:
            here, there = put_together(k, self.pairs(self.x, j), self.reversed(self.pairs(self.x, back)), factor)
            self.store(self.own, (here[0], -here[1]), j)
            self.store(self.own, self.reversed((there[0], -there[1])), back)

        self.pair_places(some)
        first, last = (k.load(self.x, at, self.element) for at in (k.const(0, "i64"), o.length * 2))
        k.store(first + last, self.own, 0, self.element)
        k.store(last - first, self.own, o.plane, self.element)

    def mirrored(self) -> None:
        """To planes: the conjugate of the whole spectrum of which a row is the first half, of odd length."""
        k, o = self.k, self.o

        def some(j: Value) -> None:
            re, im = self.pairs(self.x, j)
            self.store(self.own, (re, -im), j)
            self.store(self.own, self.reversed((re, im)), o.length - j - (self.lanes - 1))

        self.over(1, o.length // 2, some)
        k.store(k.load(self.x, 0, self.element), self.own, 0, self.element)
        k.store(k.const(0, self.element), self.own, o.plane, self.element)

    # -- results --------------------------------------------------------------------------------------------------------------------------
    def to_complex_row(self, value: Complex, at: Value) -> None:
        self.put_pairs(self.y, (value[0] * self.scale, value[1] * (self.scale * self.sign)), at)

    def to_real_row(self, value: Complex, at: Value) -> None:
        self.k.store(value[0] * self.scale, self.y, at, self.element)

    def to_planes(self, value: Complex, at: Value) -> None:
        self.store(self.own, value, at)

    def halved(self, whole: bool) -> None:
        """From planes: the first half of the spectrum of a real row of odd length; ``whole``: and its mirror image."""
        length = self.o.length

        def some(at: Value) -> None:
            re, im = self.load(self.own, at)
            re, im = re * self.scale, im * (self.scale * self.sign)
            self.put_pairs(self.y, (re, im), at)
            if whole:
                self.put_reversed(self.y, (re, -im), length - at - (self.lanes - 1))

        self.over(1, length // 2, some)
        self.k.store(self.k.load(self.own, 0, self.element) * self.k.cast(self.o.scale, self.element), self.y, 0, self.element)
        self.k.store(self.k.const(0, self.element), self.y, 1, self.element)

    def taken_apart(self, whole: bool) -> None:
        """From planes: the spectrum of a row of real numbers from that of half as many complex ones; ``whole``: both halves of it."""
        k, o, lanes = self.k, self.o, self.lanes
        half = self.scale * 0.5

        def some(j: Value, back: Value, factor: Complex) -> None:
            a, b = self.load(self.own, j), self.reversed(self.load(self.own, back))
            here, there = taken_apart(k, a, b, factor, half, self.sign)
            self.put_pairs(self.y, here, j)
            self.put_reversed(self.y, there, back)
            if whole:
                self.put_reversed(self.y, (here[0], -here[1]), o.length * 2 - j - (lanes - 1))
                self.put_pairs(self.y, (there[0], -there[1]), o.length + j)

        self.pair_places(some)
        re, im = k.load(self.own, 0, self.element), k.load(self.own, o.plane, self.element)
        zero, scale = k.const(0, self.element), k.cast(o.scale, self.element)
        for at, value in ((k.const(0, "i64"), re + im), (o.length * 2, re - im)):
            k.store(value * scale, self.y, at, self.element)
            k.store(zero, self.y, at + 1, self.element)


def _ends_of(kind: str, ends: _Ends) -> tuple[Callable[[], None], Read, Write, Callable[[], None]]:
    """Steps of a kind: before the transform, to read an element, to write one, and after the transform."""

    def nothing() -> None:
        pass

    table: dict[str, tuple[Callable[[], None], Read, Write, Callable[[], None]]] = {
        "complex": (nothing, ends.complex_row, ends.to_complex_row, nothing),
        "from_real": (nothing, ends.real_pairs, ends.to_planes, partial(ends.taken_apart, False)),
        "whole": (nothing, ends.real_pairs, ends.to_planes, partial(ends.taken_apart, True)),
        "to_real": (ends.put_together, ends.planes, ends.to_complex_row, nothing),
        "from_odd": (nothing, ends.real_row, ends.to_planes, partial(ends.halved, False)),
        "whole_odd": (nothing, ends.real_row, ends.to_planes, partial(ends.halved, True)),
        "to_odd": (ends.mirrored, ends.planes, ends.to_real_row, nothing),
    }
    return table[kind]


@kernel
def row_transforms(k: Builder, element: str, kind: str, radices: Radices, is_chirped: bool, is_short: bool) -> None:
    """Rows one after the other.

    ``kind`` is "complex", "from_real", "whole" (with both halves) or "to_real"; "from_odd", "whole_odd" or "to_odd" of odd length.
    """
    left_out = {"chirp": not is_chirped, "halves": kind not in ("from_real", "whole", "to_real"), "flags": is_short, "memory": is_short}
    o = k.arguments(Row, without=[name for name, is_left_out in left_out.items() if is_left_out])
    stack = k.scratch(_STACK // SIZES[element], element) if is_short else None

    def one(memory: Value, row: Value) -> None:
        a, b, own, third = (k.at(memory, o.plane * (2 * i), element) for i in range(4))
        passes = _Passes(k, element, o, radices, a, b)
        transform: Transform = _Chirped(passes, third) if is_chirped else passes
        ends = _Ends(k, element, o, k.at(o.x, row * o.x_pitch, element), k.at(o.y, row * o.y_pitch, element), own)
        before, read, write, after = _ends_of(kind, ends)
        before()
        transform(read, write)
        after()

    def rows(c: Value, memory: Value) -> None:
        k.loop(c * o.per_chunk, k.least((c + 1) * o.per_chunk, o.rows), partial(one, memory))

    chunks_in_memory(k, element, o, stack, rows)


# -- plans --------------------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=256)
def _chirp_length(length: int, lanes: int, registers: int) -> int:
    """The length at least ``2 length - 1`` whose transform is cheapest; 0 where there is none."""
    sizes = {
        size: found[0] * size
        for q in (1, 3, 5, 7, 9, 15)
        if (size := q << max(0, (-(-(2 * length - 1) // q) - 1).bit_length())) and (found := radices_of(size, registers, lanes))
    }
    return min(sizes, key=sizes.__getitem__, default=0)


def _chirp_table(length: int, n: int) -> np.ndarray:
    """The chirp ``exp(-pi i j**2 / length)``, and of the transform of its conjugate by ``n`` the conjugate; in planes."""
    from scipy import fft

    squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
    chirp = roots(2 * length, 2 * length)[squares]
    conjugate = chirp[:, 0] - 1j * chirp[:, 1]
    whole = np.zeros(n, conjugate.dtype)
    whole[:length], whole[n - length + 1 :] = conjugate, conjugate[:0:-1]
    spectrum = fft.fft(whole) / n
    return np.concatenate([chirp[:, 0], chirp[:, 1], spectrum.real, -spectrum.imag])


def _tables(n: int, radices: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Factors of all passes but the last, and the table of those between it and the first."""
    m = n // radices[0]
    places = np.arange(1, radices[0])[:, None] * np.arange(m)
    factors = [roots(n, n)[places].swapaxes(1, 2).ravel()]
    passes, s, at = [], radices[0], factors[0].size
    for radix in radices[1:-1]:
        m = n // (s * radix)
        factors.append(roots(radix * m, radix * m)[np.arange(m)[:, None] * np.arange(1, radix)].ravel())
        passes.append((radix, m, s, at))
        at += factors[-1].size
        s *= radix
    return np.concatenate(factors), np.array(passes, np.int64).reshape(-1, _PASS)


def plan(kind: str, dtype: np.dtype, rows: int, length: int, inverse: bool, scale: float, pitch: int = 0) -> Callable[..., None] | None:
    """Function ``launch(x, y)`` that transforms rows of ``length`` complex numbers, or as many pairs of real ones; None where none can."""
    target = targets.current()
    element, lanes = ("f32", target.width // 4) if dtype.itemsize == 4 else ("f64", target.width // 8)
    if length > LONGEST or length < (lanes if kind == "complex" else 2 * lanes):
        return None
    n, found = length, radices_of(length, target.registers, lanes)
    if found is None:
        n = _chirp_length(length, lanes, target.registers)
        found = radices_of(n, target.registers, lanes) if n - length >= lanes else None
    if found is None:
        return None
    radices = found[1]
    factors, passes = _tables(n, radices)
    values: dict[str, Any] = {"factors": factors.astype(dtype)}
    if kind in ("from_real", "whole", "to_real"):
        values["halves"] = np.ascontiguousarray(roots(length // 2 + 1, 2 * length).T.astype(dtype))
    if n != length:
        values["chirp"] = _chirp_table(length, n).astype(dtype)
    plane = -(-n // lanes) * lanes + 2 * lanes
    plane += lanes * (plane * dtype.itemsize % 4096 == 0)
    size, per_chunk = plane * (4 if n == length and kind == "complex" else 6 if n == length else 8), max(1, _CHUNK // n)
    scratch = None if size * dtype.itemsize <= _STACK else Scratch(size, dtype)
    x_pitch, y_pitch = LENGTHS[kind](length)
    middle = tuple(sorted(set(radices[1:-1])))
    launch = row_transforms(element, kind, (radices[0], middle, radices[-1]), n != length, scratch is None).bind(
        -(-rows // per_chunk), **values, passes=passes, pieces=scratch.pieces if scratch else 0, size=size, plane=plane,
        pass_count=len(passes), n=n, length=length, rows=rows, x_pitch=pitch or x_pitch, y_pitch=y_pitch, per_chunk=per_chunk, scale=scale,
        sign=-1.0 if inverse else 1.0,
    )  # fmt: skip
    return with_memory(launch, scratch)
