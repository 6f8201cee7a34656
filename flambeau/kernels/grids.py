"""Images looked up at the places of a grid: a register holds neighbouring places, whose pixels are gathered channel by channel."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..core.arrays.native import contiguous, native
from .build import kernel
from .language import Builder, Value
from .memory import empty

_SPAN = 1024  # places in a chunk
_KINDS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_CUBIC = -0.75  # the free parameter of Keys' cubic convolution, as in PyTorch


def _cubic_weights(share: Value) -> list[Value]:
    def near(x: Value) -> Value:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1

    def far(x: Value) -> Value:
        return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


@kernel
def look_up(k: Builder, kind: str, mode: str, is_clipped: bool, align_corners: bool) -> None:
    """``y[n, c, p]``, made of pixels around ``grid[n, p]``; outside of the image stands 0, or if ``is_clipped`` the nearest pixel."""
    x, grid, y = k.array(), k.array(), k.array()
    channels, height, width, count, blocks = (k.integer() for _ in range(5))
    lanes = k.lanes(kind)

    def clipped(place: Value, most: Value) -> Value:
        return k.select(place > 0, k.select(place < most, place, most), 0) if is_clipped else place

    def chunk(c: Value) -> None:
        n = c // blocks
        first = (c - n * blocks) * _SPAN
        here, target = k.at(grid, n * count * 2, kind), k.at(y, n * channels * count, kind)

        def line(offset: int, size: Value, i: Value, mask: Value | None) -> list[tuple[Value, Value, Value | None]]:
            """Along one dimension: the places of pixels, which of them are in the image, and their weights."""
            at = k.load_strided(here, i * 2 + offset, k.const(2, "i64"), kind, lanes, mask)
            whole = k.cast(size, kind)
            most = k.splat(whole - 1, lanes)
            place = (at + 1) / 2 * (whole - 1) if align_corners else ((at + 1) * whole - 1) / 2
            if mode != "bicubic":
                place = clipped(place, most)
            if mode == "nearest":
                tried: list[tuple[Value, Value | None]] = [(k.rint(place), None)]
            else:
                low = k.floor(place)
                share = place - low
                if mode == "bilinear":
                    tried = [(low, 1 - share), (low + 1, share)]
                else:
                    tried = [(clipped(low + (d - 1), most), weight) for d, weight in enumerate(_cubic_weights(share))]
            found = []
            for spot, weight in tried:
                valid = (spot >= 0) & (spot <= most)
                valid = valid if mask is None else valid & mask
                found.append((k.cast(k.select(valid, spot, 0), "i64"), valid, weight))
            return found

        def some(i: Value, mask: Value | None) -> None:
            across, down = line(0, width, i, mask), line(1, height, i, mask)
            spots = [[(row * width + column, a & b) for column, b, _ in across] for row, a, _ in down]

            def channel(c: Value) -> None:
                plane = k.at(x, (n * channels + c) * height * width, kind)
                total = k.const(0, kind, lanes)
                if mode == "nearest":
                    total = k.gather(plane, *_split(spots[0][0], kind))
                elif mode == "bilinear":
                    for a, b in itertools.product((0, 1), repeat=2):
                        total = k.gather(plane, *_split(spots[a][b], kind)) * (_weight(down[a]) * _weight(across[b])) + total
                else:
                    for a in range(4):
                        row = k.const(0, kind, lanes)
                        for b in range(4):
                            row = k.gather(plane, *_split(spots[a][b], kind)) * _weight(across[b]) + row
                        total = row * _weight(down[a]) + total
                k.store(total, target, c * count + i, kind, mask)

            k.loop(0, channels, channel)

        k.vector_loop(first, k.least(first + _SPAN, count), lanes, some)

    k.for_chunks(chunk)


def _weight(pixel: tuple[Value, Value, Value | None]) -> Any:
    return pixel[2]


def _split(spot: tuple[Value, Value], kind: str) -> tuple[Value, str, Value]:
    return spot[0], kind, spot[1]


@native("_grid_sample")
def grid_sample(input: np.ndarray, grid: np.ndarray, mode: str, padding: str, align_corners: bool) -> np.ndarray | None:
    """Of images alone, and not with what is mirrored."""
    if input.ndim != 4 or padding == "reflection" or input.dtype not in _KINDS or not input.size or not grid.size:
        return None
    batch, channels, height, width = input.shape
    count = math.prod(grid.shape[1:-1])
    result = empty((batch, channels, *grid.shape[1:-1]), input.dtype)
    blocks = -(-count // _SPAN)
    run = look_up(_KINDS[input.dtype], mode, padding == "border", align_corners)
    arrays = contiguous(input), contiguous(grid), result
    run(batch * blocks, *map(id, arrays), channels, height, width, count, blocks)
    return result
