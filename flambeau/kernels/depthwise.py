"""Depthwise convolutions: every channel with windows of its own.

There is no matrix product in them.  Each plane is copied into scratch memory with its zeros around it, its rows ``pitch`` apart, so that
a tap is one distance for all of a plane's pixels:

    out[q] = sum over taps   weight[tap] * plane[q + offset[tap]]         q = row * pitch + column

Pixels are computed straight on, also those between the end of a row and the next, which are left out when rows are copied to the result.
With a stride the plane is split into those that every ``step``-th row and column make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import target as targets
from .build import kernel
from .language import KINDS, Builder, Value
from .memory import empty
from .microkernel import Scratch, borrow, copy_line, fill_plane, give_back, mode_of, plane_layout, store_mode, strides_of

BAND = 1024  # pixels computed before they are copied to the result
OUTPUTS = 8  # of a chunk of the weight gradient, at most
PLANES = 4096  # pixels of the planes of a chunk, at least


def _zeros_behind(k: Builder, kind: str, plane: Value, place: list[Value]) -> None:
    """The last pixels see what lies behind the plane."""
    lanes = k.lanes(kind)
    _, _, rows, pitch, _, _, phases_y, phases_x = place
    end = k.at(plane, phases_y * phases_x * rows * pitch, kind)
    k.loop(0, pitch + 4 * lanes, lambda v: k.store(k.const(0, kind, lanes), end, v, kind), step=lanes)


@kernel
def each_plane(k: Builder, kind: str, mode: str, store: str) -> None:
    """The convolution of ``times`` windows with each plane; a chunk is some planes."""
    lanes = k.lanes(kind)
    x, out, weight, bias, flags, room, table = (k.array() for _ in range(7))
    pieces, room_size, buffer = (k.integer() for _ in range(3))
    planes, per_chunk, channels, times, taps = (k.integer() for _ in range(5))
    from_n, from_c, from_y, from_x, height, width = (k.integer() for _ in range(6))
    place = [k.integer() for _ in range(8)]
    to_n, to_c, to_y, to_x, out_height, out_width = (k.integer() for _ in range(6))
    by_weight, band = k.integer(), k.integer()
    pitch = place[3]

    def chunk(index: Value) -> None:
        piece = borrow(k, flags, pieces)
        plane = k.at(room, piece * room_size, kind)
        results = k.at(plane, buffer, kind)

        def one(which: Value) -> None:
            n, c = which // channels, which % channels
            source = k.at(x, n * from_n + c * from_c, kind)
            fill_plane(k, kind, mode, plane, source, (from_y, from_x), (height, width), place)
            _zeros_behind(k, kind, plane, place)

            def output(m: Value) -> None:
                o = c * times + m
                factors, plus = k.at(weight, o * by_weight, kind), k.load(bias, o, kind)
                target = k.at(out, n * to_n + o * to_c, kind)

                def rows(y: Value) -> None:
                    last = k.least(y + band, out_height)
                    q0 = y * pitch
                    length = (last - y) * pitch

                    def unrolled(wide: int) -> Any:
                        def at_pixels(q: Value) -> None:
                            seen = k.at(plane, q0 + q, kind)

                            def tap(t: Value, *total: Value) -> list[Value]:
                                from_here = k.at(seen, k.load(table, t * 2, "i64"), kind)
                                factor = k.splat(k.load(factors, k.load(table, t * 2 + 1, "i64"), kind), lanes)
                                return [k.fma(factor, k.load(from_here, u * lanes, kind, lanes), s) for u, s in enumerate(total)]

                            total = k.loop(0, taps, tap, carried=[k.splat(plus, lanes)] * wide)
                            for u, value in enumerate(total if wide > 1 else [total]):
                                k.store(value, results, q + u * lanes, kind)

                        return at_pixels

                    main = length // (8 * lanes) * (8 * lanes)
                    k.loop(0, main, unrolled(8), step=8 * lanes)
                    k.loop(main, length, unrolled(2), step=2 * lanes)

                    def copy(r: Value) -> None:
                        to = k.at(target, (y + r) * to_y, kind)
                        copy_line(k, kind, store, k.at(results, r * pitch, kind), to, out_width, to_x, lambda value, old: value)

                    k.loop(0, last - y, copy)

                k.loop(0, out_height, rows, step=band)

            k.loop(0, times, output)

        k.loop(index * per_chunk, k.least((index + 1) * per_chunk, planes), one)
        give_back(k, flags, piece)

    k.for_chunks(chunk)


@kernel
def plane_products(k: Builder, kind: str, mode: str, grad_mode: str) -> None:
    """The weight gradient: for each tap the sum of a plane times a plane of the gradient.

    A chunk is ``block`` outputs and a range of images; planes are taken in the order in which they lie in memory.
    """
    lanes = k.lanes(kind)
    x, grad, out, flags, room, table = (k.array() for _ in range(6))
    pieces, room_size, buffer, second = (k.integer() for _ in range(4))
    images, per_chunk, outputs, block, times, taps = (k.integer() for _ in range(6))
    from_n, from_c, from_y, from_x, height, width = (k.integer() for _ in range(6))
    place = [k.integer() for _ in range(8)]
    grad_n, grad_c, grad_y, grad_x, grad_height, grad_width = (k.integer() for _ in range(6))
    pitch, zero, one = place[3], k.const(0, kind, lanes), k.const(1, "i64")
    blocks = (outputs + block - 1) // block
    plain = [k.const(0, "i64"), k.const(0, "i64"), grad_height, pitch, one, one, one, one]

    def chunk(index: Value) -> None:
        piece = borrow(k, flags, pieces)
        plane = k.at(room, piece * room_size, kind)
        other, all_sums = k.at(plane, buffer, kind), k.at(plane, second, kind)
        number, o0 = index // blocks, (index % blocks) * block
        count, first = k.least(block, outputs - o0), number * per_chunk
        k.loop(0, count * taps, lambda t: k.store(zero, all_sums, t * lanes, kind))

        def one_plane(n: Value, i: Value) -> None:
            o, sums = o0 + i, k.at(all_sums, i * taps * lanes, kind)
            source = k.at(x, n * from_n + (o // times) * from_c, kind)
            fill_plane(k, kind, mode, plane, source, (from_y, from_x), (height, width), place)
            _zeros_behind(k, kind, plane, place)
            source = k.at(grad, n * grad_n + o * grad_c, kind)
            fill_plane(k, kind, grad_mode, other, source, (grad_y, grad_x), (grad_height, grad_width), plain)
            _zeros_behind(k, kind, other, plain)
            size = grad_height * pitch

            def part(q0: Value) -> None:
                q1 = k.least(q0 + BAND, size)

                def unrolled(count: int) -> Any:
                    """Sums of ``count`` taps at once, for which the gradient is read once."""

                    def taps_from(t: Value) -> None:
                        seen = [k.at(plane, k.load(table, (t + i) * 2, "i64"), kind) for i in range(count)]

                        def step(q: Value, *total: Value) -> list[Value]:
                            sums = list(total)
                            for u in range(4):
                                value = k.load(other, q + u * lanes, kind, lanes)
                                for i in range(count):
                                    sums[i * 4 + u] = k.fma(k.load(seen[i], q + u * lanes, kind, lanes), value, total[i * 4 + u])
                            return sums

                        partial_sums = k.loop(q0, q1, step, step=4 * lanes, carried=[zero] * (4 * count))
                        for i in range(count):
                            whole = (partial_sums[4 * i] + partial_sums[4 * i + 1]) + (partial_sums[4 * i + 2] + partial_sums[4 * i + 3])
                            k.store(k.load(sums, (t + i) * lanes, kind, lanes) + whole, sums, (t + i) * lanes, kind)

                    return taps_from

                k.loop(0, taps - taps % 3, unrolled(3), step=3)
                k.loop(taps - taps % 3, taps, unrolled(1))

            k.loop(0, size, part, step=BAND)

        k.loop(first, k.least(first + per_chunk, images), lambda n: k.loop(0, count, lambda i: one_plane(n, i)))
        target = k.at(out, (number * outputs + o0) * taps, kind)
        k.loop(0, count * taps, lambda t: k.store(k.sum(k.load(all_sums, t * lanes, kind, lanes)), target, t, kind))
        give_back(k, flags, piece)

    k.for_chunks(chunk)


# -- calls ----------------------------------------------------------------------------------------------------------------------------
def convolution(x: np.ndarray, by_weight: int, taps: np.ndarray, step: tuple[int, int], out: np.ndarray) -> Callable[..., None]:
    """What convolves each channel of ``x`` with ``out.shape[1] // x.shape[1]`` windows: a function of (x, weight, out, bias).

    ``taps`` has rows ``(dy, dx, place of the weight)``.
    """
    n, channels = x.shape[:2]
    height, width = out.shape[2:]
    lanes = targets.current().width // x.itemsize
    table, place = plane_layout(taps.tobytes(), step, height, width)
    pitch = place[3]
    band = max(1, BAND // pitch)
    buffer = (place[6] * place[7] * place[2] + 1) * pitch + 8 * lanes
    scratch = Scratch(buffer + min(band, height) * pitch + 8 * lanes, x.dtype)
    planes = n * channels
    per_chunk = max(1, min(PLANES // (place[2] * pitch), planes // 16))
    call = each_plane(KINDS[x.dtype], mode_of(x, step[1]), store_mode(out)).call(
        -(-planes // per_chunk), table, *scratch.shape, buffer, planes, per_chunk, channels, out.shape[1] // channels, len(table),
        *strides_of(x), *x.shape[2:], *place, *strides_of(out), height, width, by_weight, band,
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        call(x, out, weight, bias, *scratch.take())

    return run


def weight_gradient(x: np.ndarray, grad: np.ndarray, taps: np.ndarray, step: tuple[int, int]) -> Callable[..., np.ndarray]:
    """What makes the weight gradient ``(output, tap)``: a function of (x, grad)."""
    n, outputs, height, width = grad.shape
    dtype = x.dtype
    lanes = targets.current().width // x.itemsize
    table, place = plane_layout(taps.tobytes(), step, height, width)
    size = place[2] * place[3]
    buffer = place[6] * place[7] * size + place[3] + 8 * lanes
    second = buffer + (height + 1) * place[3] + 8 * lanes
    block = max(1, min(OUTPUTS, outputs // 16))
    scratch = Scratch(second + block * len(table) * lanes, dtype)
    parts = max(1, min(n, 32 // outputs))
    per_chunk = -(-n // parts)
    parts = -(-n // per_chunk)
    shape = (parts, outputs, len(table))
    call = plane_products(KINDS[dtype], mode_of(x, step[1]), mode_of(grad, 1)).call(
        parts * -(-outputs // block), table, *scratch.shape, buffer, second, n, per_chunk, outputs, block, outputs // x.shape[1],
        len(table), *strides_of(x), *x.shape[2:], *place, *strides_of(grad), height, width,
    )  # fmt: skip

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        partial = empty(shape, dtype)
        call(x, grad, partial, *scratch.take())
        return partial[0] if parts == 1 else partial.sum(0)

    return run
