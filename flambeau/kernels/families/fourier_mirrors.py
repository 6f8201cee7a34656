"""Spectra of real numbers: of long rows from those of complex rows of half the length, and back; of matrices from their first halves.

    elements     0   1   2  ..  j  ..              n/2            ..  n - j  ..  n - 1   n
                     |----------- chunks ---------->                 <--- their partners

A row of ``2 n`` real numbers is one of ``n`` complex ones.  Elements j and ``n - j`` of either spectrum come from the same two of the other
one, and the factor ``exp(-pi i j / n)``, which is a product out of two tables.  Rows that fit a thread's memory need no such pass
(``fourier_rows.py``).

Of a matrix of real numbers, and of more dimensions, element ``(-j, -k)`` of the spectrum is the conjugate of element ``(j, k)``.

Source: Van Loan 1992, "Computational frameworks for the fast Fourier transform", section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from .fourier_butterflies import Complex, put_together, roots, taken_apart, times

_CHUNK = 1 << 13  # pairs of elements
_NEAR = 1 << 10  # factors in the first table; a multiple of any register's lanes


class Mirrored(Record):
    """Arguments."""

    x: Array
    y: Array
    near: Array  # cosines, then sines, of the elements from 1 on
    far: Array  # pairs of them, for each multiple of ``_NEAR``
    n: Integer  # complex elements of a row
    per_row: Integer  # chunks of a row
    scale: Number
    sign: Number  # of imaginary parts of the spectrum


class _Pairs:
    """Complex numbers side by side in memory, a register of them at a time."""

    def __init__(self, k: Builder, element: str, o: Mirrored):
        self.k, self.element, self.o, self.lanes = k, element, o, k.lanes(element)
        self.scale, self.sign = (k.splat(k.cast(number, element), self.lanes) for number in (o.scale, o.sign))

    def read(self, row: Value, at: Value, is_reversed: bool = False) -> Complex:
        k, both = self.k, range(2 * self.lanes)
        a, b = (k.load(row, at * 2 + half, self.element, self.lanes) for half in (0, self.lanes))
        step = -1 if is_reversed else 1
        re, im = (k.shuffle(a, both[part::2][::step], b) for part in range(2))
        return re, im

    def write(self, row: Value, value: Complex, at: Value, is_reversed: bool = False) -> None:
        k, lanes = self.k, self.lanes
        for half in range(2):
            places = [i // 2 + half * lanes // 2 for i in range(lanes)]
            order = [(lanes - 1 - place if is_reversed else place) + i % 2 * lanes for i, place in enumerate(places)]
            k.store(k.shuffle(value[0], order, value[1]), row, at * 2 + half * lanes, self.element)

    def factor(self, at: Value) -> Complex:
        """Of elements ``at + 1`` and the following; ``at`` may be any number."""
        k, o = self.k, self.o
        line = at // _NEAR
        near = [k.load(o.near, at % _NEAR + part * (_NEAR + self.lanes), self.element, self.lanes) for part in range(2)]
        far = [k.splat(k.load(o.far, line * 2 + part, self.element), self.lanes) for part in range(2)]
        return times(k, (near[0], near[1]), (far[0], far[1]))

    def over(self, chunk: Value, body: Callable[[Value, Value, Complex], None]) -> None:
        """``body(j, n - j - lanes + 1, factor)`` for the pairs of a chunk; the last register lies over the one before."""
        k, half = self.k, self.o.n // 2
        last = half - self.lanes

        def some(at: Value) -> None:
            at = k.least(at, last)
            body(at + 1, self.o.n - at - self.lanes, self.factor(at))

        k.loop(chunk * _CHUNK, k.least((chunk + 1) * _CHUNK, half), some, step=self.lanes)


def _to_spectrum(pairs: _Pairs, x: Value, y: Value, chunk: Value, whole: bool) -> None:
    k, o, element, lanes = pairs.k, pairs.o, pairs.element, pairs.lanes

    def some(j: Value, back: Value, factor: Complex) -> None:
        here, there = taken_apart(k, pairs.read(x, j), pairs.read(x, back, True), factor, pairs.scale * 0.5, pairs.sign)
        pairs.write(y, here, j)
        pairs.write(y, there, back, True)
        if whole:
            pairs.write(y, (here[0], -here[1]), o.n * 2 - j - (lanes - 1), True)
            pairs.write(y, (there[0], -there[1]), o.n + j)

    def ends() -> None:
        re, im = (k.load(x, at, element) for at in range(2))
        scale = k.cast(o.scale, element)
        for at, value in ((k.const(0, "i64"), re + im), (o.n * 2, re - im)):
            k.store(value * scale, y, at, element)
            k.store(k.const(0, element), y, at + 1, element)

    pairs.over(chunk, some)
    k.when(chunk.eq(0), ends)


def _to_row(pairs: _Pairs, x: Value, y: Value, chunk: Value) -> None:
    k, o, element = pairs.k, pairs.o, pairs.element

    def some(j: Value, back: Value, factor: Complex) -> None:
        here, there = put_together(k, pairs.read(x, j), pairs.read(x, back, True), factor)
        pairs.write(y, here, j)
        pairs.write(y, there, back, True)

    def ends() -> None:
        first, last = (k.load(x, at, element) for at in (k.const(0, "i64"), o.n * 2))
        k.store(first + last, y, 0, element)
        k.store(first - last, y, 1, element)

    pairs.over(chunk, some)
    k.when(chunk.eq(0), ends)


@kernel
def mirrored(k: Builder, element: str, kind: str) -> None:
    """``kind`` is "from_real", "whole" (with both halves) or "to_real"."""
    o = k.arguments(Mirrored)
    lengths = {"from_real": (o.n * 2, o.n * 2 + 2), "whole": (o.n * 2, o.n * 4), "to_real": (o.n * 2 + 2, o.n * 2)}[kind]

    def one(c: Value) -> None:
        row, chunk = divmod(c, o.per_row)
        x, y = (k.at(array, row * length, element) for array, length in zip((o.x, o.y), lengths, strict=True))
        pairs = _Pairs(k, element, o)
        if kind == "to_real":
            _to_row(pairs, x, y, chunk)
        else:
            _to_spectrum(pairs, x, y, chunk, kind == "whole")

    k.for_chunks(one)


def plan(kind: str, dtype: np.dtype, rows: int, n: int, inverse: bool, scale: float) -> Callable[..., None]:
    """Function ``launch(x=, y=)``: from the spectrum of ``n`` complex numbers to that of ``2 n`` real ones, or ("to_real") back."""
    element, lanes = ("f32", targets.current().width // 4) if dtype.itemsize == 4 else ("f64", targets.current().width // 8)
    near = np.ascontiguousarray(roots(_NEAR + lanes + 1, 2 * n)[1:].T)
    far = roots(n // 2 + 1, 2 * n)[::_NEAR]
    chunks = -(-(n // 2) // _CHUNK)
    return mirrored(element, kind).bind(
        rows * chunks,
        near=near.astype(dtype),
        far=np.ascontiguousarray(far, dtype),
        n=n,
        per_row=chunks,
        scale=scale,
        sign=-1.0 if inverse else 1.0,
    )


# -- matrices -----------------------------------------------------------------------------------------------------------------------------
@kernel
def mirrored_rows(k: Builder, element: str) -> None:
    """Rows of ``points`` complex numbers, the first ``known`` of them from ``half``, the others from its row ``partners[r]``."""
    half, partners, result = k.array(), k.array(), k.array()
    rows, points, known, per = (k.integer() for _ in range(4))
    lanes = k.lanes(element)
    backward = [lane ^ 1 for lane in range(lanes)][::-1]  # pairs in the opposite order

    def row(r: Value) -> None:
        source, target = k.at(half, r * known * 2, element), k.at(result, r * points * 2, element)
        k.vector_loop(0, known * 2, lanes, lambda i, mask: k.store(k.load(source, i, element, lanes, mask), target, i, element, mask))
        other = k.at(half, k.load(partners, r, "i64") * known * 2, element)
        tail, missing = k.at(target, known * 2, element), points - known
        whole = missing - missing % (lanes // 2)

        def some(j: Value) -> None:
            value = k.shuffle(k.load(other, (missing - j - (lanes // 2 - 1)) * 2, element, lanes), backward)
            k.store(k.select((k.indices(lanes, "i32") & 1).ne(0), -value, value), tail, j * 2, element)

        def one(j: Value) -> None:
            k.store(k.load(other, (missing - j) * 2, element), tail, j * 2, element)
            k.store(-k.load(other, (missing - j) * 2 + 1, element), tail, j * 2 + 1, element)

        k.loop(0, whole, some, step=lanes // 2)
        k.loop(whole, missing, one)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, rows), row))


def plan_of_matrices(real: np.dtype, shape: tuple[int, ...], dims: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """Function ``launch(half, result)`` for results of that shape, transformed along the last ``dims`` dimensions."""
    *outer, points = shape
    mirrored = len(outer) - (dims - 1)
    places = np.arange(math.prod(outer)).reshape(outer)
    for dim in range(mirrored, len(outer)):
        places = np.roll(np.flip(places, dim), 1, dim)
    partners, per = np.ascontiguousarray(places).ravel(), max(1, 2 * _CHUNK // points)
    run = partial(mirrored_rows(FLOATS[real]), -(-partners.size // per))
    return lambda half, result: run(id(half), id(partners), id(result), partners.size, points, points // 2 + 1, per)
