"""Depthwise convolutions: every channel with windows of its own.

There is no matrix product in them.  Each plane is copied into scratch memory with its zeros around it, its rows ``pitch`` apart, so that
a tap is one distance for all of a plane's pixels:

    out[q] = sum over taps   weight[tap] * plane[q + offset[tap]]         q = row * pitch + column

Pixels are computed straight on, also those between the end of a row and the next, which are left out when rows are copied to the result.
With a stride the plane is split into those that every ``step``-th row and column make.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from . import target as targets
from .build import kernel
from .language import KINDS, Builder, Value
from .memory import empty
from .microkernel import between, borrow, give_back, scratch_memory, strides_of
from .pool import pool

BAND = 1024  # pixels computed before they are copied to the result
PLANES = 4096  # pixels of the planes of a chunk, at least


def fill_plane(
    k: Builder, kind: str, mode: str, plane: Value, source: Value, strides: tuple[Value, Value], sizes: tuple[Value, Value], place: Any
) -> None:
    """Copy a plane with zeros around it.

    ``place`` has Values: the first row and column that are seen, ``rows`` and ``pitch`` of the copy, the steps, and how many of the planes that
    the steps make are wanted in each direction.
    """
    lanes = k.lanes(kind)
    (by_y, by_x), (height, width) = strides, sizes
    y0, x0, rows, pitch, step_y, step_x, phases_y, phases_x = place

    def phase(f: Value) -> None:
        fy, fx = f // phases_x, f % phases_x
        to = k.at(plane, f * rows * pitch, kind)

        def row(j: Value) -> None:
            iy = j * step_y + fy + y0
            limit = k.select((iy >= 0) & (iy < height), width, 0)
            line = k.at(source, iy * by_y, kind)

            def some(v: Value) -> None:
                ix = v * step_x + fx + x0
                if mode == "row":
                    value = k.load(line, ix, kind, lanes, between(k, -ix, limit - ix, lanes))
                elif mode == "pair":
                    a, b = (k.load(line, ix + h, kind, lanes, between(k, -(ix + h), limit - ix - h, lanes)) for h in (0, lanes))
                    value = k.shuffle(a, range(0, 2 * lanes, 2), b)
                else:
                    at = k.indices(lanes) * step_x + ix
                    value = k.gather(line, at * by_x, kind, (at >= 0) & (at < limit))
                k.store(value, to, j * pitch + v, kind)  # what it writes beyond the row is written again by the next one

            k.loop(0, pitch, some, step=lanes)

        k.loop(0, rows, row)

    k.loop(0, phases_y * phases_x, phase)


@kernel
def each_plane(k: Builder, kind: str, mode: str, dense: bool) -> None:
    """The convolution of ``times`` windows with each plane; a chunk is some planes."""
    lanes = k.lanes(kind)
    x, out, weight, bias, table, flags, room = (k.array() for _ in range(7))
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
        made = k.at(plane, buffer, kind)

        def one(which: Value) -> None:
            n, c = which // channels, which % channels
            source = k.at(x, n * from_n + c * from_c, kind)
            fill_plane(k, kind, mode, plane, source, (from_y, from_x), (height, width), place)

            def output(m: Value) -> None:
                o = c * times + m
                factors, plus = k.at(weight, o * by_weight, kind), k.load(bias, o, kind)
                target = k.at(out, n * to_n + o * to_c, kind)

                def rows(y: Value) -> None:
                    last = k.least(y + band, out_height)
                    q0 = y * pitch
                    length = (last - y) * pitch

                    def several(wide: int) -> Any:
                        def at_pixels(q: Value) -> None:
                            seen = k.at(plane, q0 + q, kind)

                            def tap(t: Value, *total: Value) -> list[Value]:
                                from_here = k.at(seen, k.load(table, t * 2, "i64"), kind)
                                factor = k.splat(k.load(factors, k.load(table, t * 2 + 1, "i64"), kind), lanes)
                                return [k.fma(factor, k.load(from_here, u * lanes, kind, lanes), s) for u, s in enumerate(total)]

                            total = k.loop(0, taps, tap, carried=[k.splat(plus, lanes)] * wide)
                            for u, value in enumerate(total if wide > 1 else [total]):
                                k.store(value, made, q + u * lanes, kind)

                        return at_pixels

                    main = length // (4 * lanes) * (4 * lanes)
                    k.loop(0, main, several(4), step=4 * lanes)
                    k.loop(main, length, several(1), step=lanes)

                    def copy(r: Value) -> None:
                        to, line = k.at(target, (y + r) * to_y, kind), k.at(made, r * pitch, kind)
                        if dense:
                            k.vector_loop(
                                0, out_width, lanes, lambda i, mask: k.store(k.load(line, i, kind, lanes, mask), to, i, kind, mask)
                            )
                        else:
                            k.loop(0, out_width, lambda i: k.store(k.load(line, i, kind), to, i * to_x, kind))

                    k.loop(0, last - y, copy)

                k.loop(0, out_height, rows, step=band)

            k.loop(0, times, output)

        k.loop(index * per_chunk, k.least((index + 1) * per_chunk, planes), one)
        give_back(k, flags, piece)

    k.for_chunks(chunk)


@kernel
def plane_products(k: Builder, kind: str, mode: str, grad_mode: str) -> None:
    """The weight gradient: for each tap the sum of a plane times a plane of the gradient; a chunk is an output and a range of images."""
    lanes = k.lanes(kind)
    x, grad, out, table, flags, room = (k.array() for _ in range(6))
    pieces, room_size, buffer, second = (k.integer() for _ in range(4))
    images, per_chunk, outputs, times, taps = (k.integer() for _ in range(5))
    from_n, from_c, from_y, from_x, height, width = (k.integer() for _ in range(6))
    place = [k.integer() for _ in range(8)]
    grad_n, grad_c, grad_y, grad_x, grad_height, grad_width = (k.integer() for _ in range(6))
    pitch, zero, one = place[3], k.const(0, kind, lanes), k.const(1, "i64")
    plain = [k.const(0, "i64"), k.const(0, "i64"), grad_height, pitch, one, one, one, one]

    def chunk(index: Value) -> None:
        piece = borrow(k, flags, pieces)
        plane = k.at(room, piece * room_size, kind)
        other, sums = k.at(plane, buffer, kind), k.at(plane, second, kind)
        o, first = index % outputs, (index // outputs) * per_chunk
        k.loop(0, taps, lambda t: k.store(zero, sums, t * lanes, kind))

        def image(n: Value) -> None:
            source = k.at(x, n * from_n + (o // times) * from_c, kind)
            fill_plane(k, kind, mode, plane, source, (from_y, from_x), (height, width), place)
            source = k.at(grad, n * grad_n + o * grad_c, kind)
            fill_plane(k, kind, grad_mode, other, source, (grad_y, grad_x), (grad_height, grad_width), plain)
            size = grad_height * pitch
            k.loop(size, size + 4 * lanes, lambda q: k.store(zero, other, q, kind), step=lanes)

            def part(q0: Value) -> None:
                q1 = k.least(q0 + BAND, size)

                def tap(t: Value) -> None:
                    seen = k.at(plane, k.load(table, t * 2, "i64"), kind)

                    def step(q: Value, *total: Value) -> list[Value]:
                        return [
                            k.fma(k.load(seen, q + u * lanes, kind, lanes), k.load(other, q + u * lanes, kind, lanes), s)
                            for u, s in enumerate(total)
                        ]

                    total = k.loop(q0, q1, step, step=4 * lanes, carried=[zero] * 4)
                    whole = (total[0] + total[1]) + (total[2] + total[3])
                    k.store(k.load(sums, t * lanes, kind, lanes) + whole, sums, t * lanes, kind)

                k.loop(0, taps, tap)

            k.loop(0, size, part, step=BAND)

        k.loop(first, k.least(first + per_chunk, images), image)
        k.loop(0, taps, lambda t: k.store(k.sum(k.load(sums, t * lanes, kind, lanes)), out, index * taps + t, kind))
        give_back(k, flags, piece)

    k.for_chunks(chunk)


# -- calls ----------------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1024)
def _layout(taps: bytes, step: tuple[int, int], out: tuple[int, int]) -> tuple[np.ndarray, tuple[int, ...]]:
    """The table (offset, place of the weight) of taps ``(dy, dx, place)``, and the ``place`` of ``fill_plane``."""
    rows = np.frombuffer(taps, np.int64).reshape(-1, 3)
    (sy, sx), (height, width) = step, out
    first, last = rows[:, :2].min(0), rows[:, :2].max(0)
    reach = last - first
    pitch = width + int(reach[1]) // sx
    lines = height + int(reach[0]) // sy
    phases_y, phases_x = min(sy, int(reach[0]) + 1), min(sx, int(reach[1]) + 1)
    dy, dx = (rows[:, :2] - first).T
    phase = dy % sy * phases_x + dx % sx
    table = np.stack([(phase * lines + dy // sy) * pitch + dx // sx, rows[:, 2]], 1)
    return np.ascontiguousarray(table), (int(first[0]), int(first[1]), lines, pitch, sy, sx, phases_y, phases_x)


def convolve(
    x: np.ndarray, weight: np.ndarray, by_weight: int, taps: np.ndarray, step: tuple[int, int], out: np.ndarray, bias: np.ndarray, mode: str
) -> None:
    """Each channel of ``x`` with ``out.shape[1] // x.shape[1]`` windows; ``taps`` has rows ``(dy, dx, place of the weight)``."""
    n, channels = x.shape[:2]
    height, width = out.shape[2:]
    lanes = targets.current().width // x.itemsize
    table, place = _layout(taps.tobytes(), step, (height, width))
    pitch = place[3]
    band = max(1, BAND // pitch)
    buffer = place[6] * place[7] * place[2] * pitch + 8 * lanes
    flags, room = scratch_memory(buffer + min(band, height) * pitch + 8 * lanes, x.dtype)
    planes = n * channels
    per_chunk = max(1, min(PLANES // (place[2] * pitch), planes // 16))
    to = strides_of(out)
    each_plane(KINDS[x.dtype], mode, to[3] == 1 or width == 1)(
        -(-planes // per_chunk), id(x), id(out), id(weight), id(bias), id(table), id(flags), id(room), pool.threads, room.shape[1], buffer,
        planes, per_chunk, channels, out.shape[1] // channels, len(table), *strides_of(x), *x.shape[2:], *place, *to, height, width,
        by_weight, band,
    )  # fmt: skip


def correlate_pair(
    x: np.ndarray, grad: np.ndarray, taps: np.ndarray, step: tuple[int, int], modes: tuple[str, str]
) -> np.ndarray:
    """The weight gradient ``(output, tap)``."""
    n, outputs, height, width = grad.shape
    lanes = targets.current().width // x.itemsize
    table, place = _layout(taps.tobytes(), step, (height, width))
    size = place[2] * place[3]
    buffer = place[6] * place[7] * size + 8 * lanes
    second = buffer + height * place[3] + 8 * lanes
    flags, room = scratch_memory(second + len(table) * lanes, x.dtype)
    parts = max(1, min(n, 32 // outputs))
    per_chunk = -(-n // parts)
    parts = -(-n // per_chunk)
    made = empty((parts, outputs, len(table)), x.dtype)
    plane_products(KINDS[x.dtype], *modes)(
        parts * outputs, id(x), id(grad), id(made), id(table), id(flags), id(room), pool.threads, room.shape[1], buffer, second,
        n, per_chunk, outputs, outputs // x.shape[1], len(table), *strides_of(x), *x.shape[2:], *place, *strides_of(grad), height, width,
    )  # fmt: skip
    return made[0] if parts == 1 else made.sum(0)
