"""Products of a few rows of numbers with weights of 8 or 4 bits, which become numbers in registers.

    bytes      a row of weights and a row of numbers have a register of sums, added up at the end
    halves     64 rows of weights are packed together (``ops/integer_products.py``): registers of sums stand for neighbouring rows, and each
               element of the numbers is spread over one. The zero points of a group are taken off by the sum of its numbers.

With more rows the weights are written as float32 first, and the product is an ordinary one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.calls.casting import opmath
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, SIZES, Builder, Value, as_tuple
from ..compiler.memory import empty
from . import gemm
from .products import by_powers, for_units, launch_units

FEW, SOME = 48, 256  # rows up to which weights of 8 and of 4 bits become numbers in registers
TOGETHER = 4  # rows of weights of bytes that are multiplied at once
BLOCK, HALF = 64, 32  # rows of weights that are packed together, and bytes of an element of these
CHUNK = 1 << 17  # bytes of weights


class Bytes(Record):
    """``c = (a @ w.T) * scale`` for ``(m, inner)`` and ``(n, inner)``."""

    a: Array
    w: Array
    scale: Array
    c: Array
    m: Integer
    n: Integer
    inner: Integer
    units: Integer
    per_chunk: Integer


class _Dots:
    """Sums of a few rows of numbers with ``columns`` rows of bytes from ``j`` on."""

    def __init__(self, k: Builder, o: Bytes, element: str):
        self.k, self.o, self.element, self.lanes = k, o, element, k.lanes("f32")

    def unit(self, u: Value) -> None:
        k, o = self.k, self.o
        j = u * TOGETHER
        most = TOGETHER if k.target.registers > 16 else 2

        def some(columns: int, start: Value) -> None:
            by_powers(k, most, k.const(0, "i64"), o.m, lambda i, rows: self._block(start, columns, i, rows))

        whole = o.n - j >= TOGETHER
        k.when(whole, lambda: some(TOGETHER, j), lambda: k.loop(j, o.n, lambda each: some(1, each)))

    def _block(self, j: Value, columns: int, i: Value, rows: int) -> None:
        k, o, lanes = self.k, self.o, self.lanes
        lines = [k.at(o.a, (i + row) * o.inner, self.element) for row in range(rows)]
        weights = [k.at(o.w, (j + column) * o.inner, "i8") for column in range(columns)]
        together = max(1, 8 // (rows * columns))

        def step(at: Value, mask: Any, *total: Value) -> list[Value]:
            numbers = [k.load(line, at, self.element, lanes, mask) for line in lines]
            sums = []
            for column, weight in enumerate(weights):
                value = k.cast(k.cast(k.load(weight, at, "i8", lanes, mask), "i32"), "f32")
                sums += [k.fma(number, value, total[column * rows + row]) for row, number in enumerate(numbers)]
            return sums

        size, wide = rows * columns, lanes * together
        zeros = [k.const(0, "f32", lanes)] * size

        def several(at: Value, *total: Value) -> list[Value]:
            return [v for u in range(together) for v in step(at + u * lanes, None, *total[u * size : (u + 1) * size])]

        main = o.inner - o.inner % wide
        total = as_tuple(k.loop(0, main, several, step=wide, carried=zeros * together))
        total = tuple(sum(total[at + size :: size], total[at]) for at in range(size))
        total = as_tuple(k.vector_loop(main, o.inner, lanes, step, carried=total))
        for at, sums in enumerate(total):
            column, row = divmod(at, rows)
            value = k.sum(sums) * k.load(o.scale, j + column, self.element)
            k.store(value, o.c, (i + row) * o.n + j + column, self.element)


@kernel
def bytes_product(k: Builder, element: str) -> None:
    """A few rows with weights of bytes; a unit is ``TOGETHER`` rows of weights."""
    o = k.arguments(Bytes)
    for_units(k, o, _Dots(k, o, element).unit)


class Halves(Record):
    """``c = a @ ((w - 8) * scale + zero).T`` for ``(m, inner)`` and ``(n, inner)``."""

    a: Array
    sums: Array  # of each group of ``a``: ``(m, inner / group)``
    w: Array
    scales: Array  # and zeros: ``(inner / group, n, 2)``
    c: Array
    m: Integer
    n: Integer
    inner: Integer
    group: Integer
    units: Integer
    per_chunk: Integer


class _Groups:
    """Sums of a few rows of numbers with two registers of bytes: neighbouring rows of weights, and those 32 further on."""

    def __init__(self, k: Builder, o: Halves, element: str):
        self.k, self.o, self.element, self.lanes = k, o, element, k.lanes("f32")
        self.pieces = HALF // (2 * self.lanes)

    def unit(self, u: Value) -> None:
        k, o = self.k, self.o
        block = k.at(o.w, u * HALF * o.inner, "u8")
        for piece in range(self.pieces):
            first = piece * 2 * self.lanes
            most = 6 if k.target.registers > 16 else 2
            by_powers(k, most, k.const(0, "i64"), o.m, partial(self._block, k.at(block, first, "u8"), u * BLOCK + first))

    def _block(self, weights: Value, j: Value, i: Value, rows: int) -> None:
        k, o, lanes = self.k, self.o, self.lanes
        lines = [k.at(o.a, (i + row) * o.inner, self.element) for row in range(rows)]
        together, size = max(1, 2 // rows), 4 * rows
        zeros = [k.const(0, "f32", lanes)] * size
        columns = [j, j + lanes, j + HALF, j + HALF + lanes]

        def step(at: Value, total: Any) -> list[Value]:
            raw = [k.cast(k.load(weights, at * HALF + v * lanes, "u8", lanes), "i32") for v in range(2)]
            values = [k.cast(half, "f32") for half in (raw[0] & 15, raw[1] & 15, raw[0] >> 4, raw[1] >> 4)]
            sums = []
            for row, line in enumerate(lines):
                number = k.splat(k.load(line, at, self.element), lanes)
                sums += [k.fma(number, value, total[4 * row + v]) for v, value in enumerate(values)]
            return sums

        def several(at: Value, *total: Value) -> list[Value]:
            return [v for u in range(together) for v in step(at + u, total[u * size : (u + 1) * size])]

        def group(g: Value, *total: Value) -> list[Value]:
            start = g * o.group
            self._fetch((g + 1) * o.n + j)
            parts = as_tuple(k.loop(start, start + o.group, several, step=together, carried=zeros * together))
            part = [sum(parts[at + size :: size], parts[at]) for at in range(size)]
            pairs = [self._scales(g * o.n + column) for column in columns]
            sums = []
            for row in range(rows):
                count = k.splat(k.load(o.sums, (i + row) * (o.inner // o.group) + g, "f32"), lanes)
                for v, (scale, zero) in enumerate(pairs):
                    at = 4 * row + v
                    sums.append(k.fma(zero, count, k.fma(scale, part[at] - count * 8.0, total[at])))
            return sums

        total = as_tuple(k.loop(0, o.inner // o.group, group, carried=zeros))
        for at, value in enumerate(total):
            k.store(value, o.c, (i + at // 4) * o.n + columns[at % 4], self.element)

    def _fetch(self, at: Value) -> None:
        """Ask for the next group's scales, which lie a whole row of ``scales`` further on: no processor guesses that."""
        k, per_line = self.k, 64 // SIZES[self.element]
        for first in (0, 2 * HALF):  # rows of weights, and those 32 further on
            for line in range(0, 4 * self.lanes, per_line):
                k.prefetch(self.o.scales, at * 2 + (first + line), self.element)

    def _scales(self, at: Value) -> tuple[Value, Value]:
        """Scales and zeros of neighbouring rows of weights, which lie in turns."""
        k, lanes = self.k, self.lanes
        both = [k.load(self.o.scales, at * 2 + half * lanes, self.element, lanes) for half in range(2)]
        scale, zero = (k.shuffle(both[0], range(first, 2 * lanes, 2), both[1]) for first in range(2))
        return scale, zero


@kernel
def halves_product(k: Builder, element: str) -> None:
    """A few rows with weights of 4 bits; a unit is ``BLOCK`` rows of weights."""
    o = k.arguments(Halves)
    for_units(k, o, _Groups(k, o, element).unit)


@native("_weight_int8pack_mm")
def weight_int8pack_mm(input: np.ndarray, mat2: np.ndarray, scales: np.ndarray) -> np.ndarray | None:
    (m, inner), n = input.shape, len(mat2)
    if not m * n * inner:
        return None
    if m > FEW:
        product = gemm.linear(np.ascontiguousarray(opmath(input)), mat2.astype(np.float32))
        return None if product is None else (product * opmath(scales)).astype(input.dtype, copy=False)
    run = bytes_product(ELEMENTS[input.dtype])
    numbers, scale, made = np.ascontiguousarray(input), np.ascontiguousarray(scales), empty((m, n), input.dtype)
    arrays = {"a": numbers, "w": mat2, "scale": scale, "c": made}
    launch_units(run, -(-n // TOGETHER), (mat2.size, CHUNK), arrays, m=m, n=n, inner=inner)
    return made


@native("_weight_int4pack_mm_for_cpu")
def weight_int4pack_mm(input: np.ndarray, mat2: np.ndarray, qGroupSize: int, qScaleAndZeros: np.ndarray) -> np.ndarray | None:
    (m, inner), n = input.shape, len(mat2)
    if not m * n * inner or n % BLOCK or m > SOME:
        return None
    run = halves_product(ELEMENTS[input.dtype])
    sums = np.add.reduce(opmath(input).reshape(m, inner // qGroupSize, qGroupSize), 2)
    scales, made = np.ascontiguousarray(qScaleAndZeros), empty((m, n), input.dtype)
    arrays = {"a": input, "sums": sums, "w": mat2, "scales": scales, "c": made}
    launch_units(run, n // BLOCK, (mat2.size, CHUNK), arrays, m=m, n=n, inner=inner, group=qGroupSize)
    return made
