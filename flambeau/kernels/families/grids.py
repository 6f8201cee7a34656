"""Images looked up at the places of a grid: a register holds neighbouring places, whose pixels are gathered channel by channel.

Along each dimension a place has some pixels around it, its taps: the place of each, whether it is in the image, its weight, and how its
weight changes with the place.  A corner is one tap of each dimension, and its weight the product of theirs.

The derivatives go the same way.  What flows to the pixels is added one by one, since several places may share a pixel; so an image is
one thread's work there.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty

_SPAN = 1024  # places in a chunk

_CUBIC = -0.75  # the free parameter of Keys' cubic convolution, as in PyTorch


@dataclass(frozen=True, slots=True)
class _Tap:
    """A pixel along one dimension; ``weight`` and ``slope`` are None where the pixel counts whole."""

    place: Value
    is_valid: Value
    weight: Value | None
    slope: Value | None


@dataclass(frozen=True, slots=True)
class _Way:
    """Settings by which a grid is read: the arguments of ``grid_sample``."""

    rank: int
    mode: str
    padding: str
    align_corners: bool


def _near(x: Value) -> tuple[Value, Value]:
    """Keys' polynomial up to 1, and its derivative."""
    return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1, (3 * (_CUBIC + 2) * x - 2 * (_CUBIC + 3)) * x


def _far(x: Value) -> tuple[Value, Value]:
    """Keys' polynomial from 1 to 2, and its derivative."""
    return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC, (3 * _CUBIC * x - 10 * _CUBIC) * x + 8 * _CUBIC


def _cubic_weights(share: Value) -> list[tuple[Value, Value]]:
    (a, da), (b, db), (c, dc), (d, dd) = _far(share + 1), _near(share), _near(1 - share), _far(2 - share)
    return [(a, da), (b, db), (c, -dc), (d, -dd)]


def _padded(k: Builder, way: _Way, place: Value, whole: Value) -> tuple[Value, Value | None]:
    """Place within an image of ``whole`` pixels that one outside stands for, and its slope; None as slope if the place is kept."""
    if way.padding == "zeros":
        return place, None
    one = k.const(1, place.element, place.lanes)
    most = k.splat(whole - 1, place.lanes)
    slope = one
    if way.padding == "reflection":  # mirrored at both limits as often as it takes
        low, span = (0.0, most) if way.align_corners else (-0.5, k.splat(whole, place.lanes))
        apart = place - low
        distance = k.abs(apart)
        turns = k.floor(distance / span)
        rest = k.fma(-turns, span, distance)
        is_even = (k.floor(turns * 0.5) * 2.0).eq(turns)
        place = k.select(is_even, rest, span - rest) + low
        slope = k.select(is_even, one, -one)
        slope = k.select(apart < 0, -slope, slope)
    inside = (place > 0) & (place < most)
    return k.select(place > 0, k.select(place < most, place, most), 0), k.select(inside, slope, 0)


def _line(k: Builder, way: _Way, at: Value, size: Value, mask: Value | None) -> tuple[list[_Tap], Value]:
    """The taps of coordinates along a dimension of ``size`` pixels, and how much a place moves with its coordinate."""
    element, lanes = at.element, at.lanes
    whole = k.cast(size, element)
    rate = k.splat((whole - 1) / 2 if way.align_corners else whole / 2, lanes)
    place = (at + 1) / 2 * (whole - 1) if way.align_corners else ((at + 1) * whole - 1) / 2
    if way.mode != "bicubic":
        place, slope = _padded(k, way, place, whole)
        rate = rate if slope is None else rate * slope
    low = k.rint(place) if way.mode == "nearest" else k.floor(place)
    share = place - low
    one = k.const(1, element, lanes)
    tried: list[tuple[Value, Value | None, Value | None]]
    if way.mode == "nearest":
        tried = [(low, None, None)]
    elif way.mode == "bilinear":
        tried = [(low, 1 - share, -one), (low + 1, share, one)]
    else:
        tried = [(_padded(k, way, low + (d - 1), whole)[0], *both) for d, both in enumerate(_cubic_weights(share))]
    taps = []
    for spot, weight, change in tried:
        is_valid = (spot >= 0) & (spot <= k.splat(whole - 1, lanes))
        is_valid = is_valid if mask is None else is_valid & mask
        taps.append(_Tap(k.cast(k.select(is_valid, spot, 0), "i64"), is_valid, weight, change))
    return taps, rate


def _corners(way: _Way, lines: list[list[_Tap]], sizes: list[Value]) -> list[tuple[tuple[_Tap, ...], Value, Value]]:
    """Each corner: its taps, its place in a plane, and whether it is in the image; the last dimension's tap changes first."""
    corners = []
    for taps in itertools.product(*lines):
        place, valid = taps[0].place, taps[0].is_valid
        for tap, size in zip(taps[1:], sizes[1:], strict=True):
            place, valid = place * size + tap.place, valid & tap.is_valid
        corners.append((taps, place, valid))
    return corners


def _lines_at(
    k: Builder, way: _Way, grid: Value, i: Value, mask: Value | None, element: str, sizes: list[Value]
) -> tuple[list[list[_Tap]], list[Value]]:
    """Taps and rates of all dimensions for the places from ``i`` on; a grid names the last dimension first."""
    lines, rates = [], []
    for dim, size in enumerate(sizes):
        at = k.load_strided(grid, i * way.rank + (way.rank - 1 - dim), k.const(way.rank, "i64"), element, k.lanes(element), mask)
        taps, rate = _line(k, way, at, size, mask)
        lines.append(taps)
        rates.append(rate)
    return lines, rates


def _summed(k: Builder, way: _Way, corners: list[Any], pixels: list[Value], weight_of: Callable[[int, _Tap], Any]) -> Value:
    """The sum of the pixels at all corners, each times the weights of its taps; ``weight_of(dim, tap)`` is such a weight."""
    if way.mode == "bicubic":  # rows first, as PyTorch does it
        total = k.const(0, pixels[0].element, pixels[0].lanes)
        for a in range(4):
            row = k.const(0, pixels[0].element, pixels[0].lanes)
            for b in range(4):
                row = pixels[4 * a + b] * weight_of(1, corners[4 * a + b][0][1]) + row
            total = row * weight_of(0, corners[4 * a][0][0]) + total
        return total
    total = k.const(0, pixels[0].element, pixels[0].lanes)
    for (taps, _, _), pixel in zip(corners, pixels, strict=True):
        weights = [weight_of(dim, tap) for dim, tap in enumerate(taps)]
        total = pixel * functools.reduce(lambda product, weight: weight * product, reversed(weights)) + total
    return total


def _weight(dim: int, tap: _Tap) -> Any:
    return tap.weight


@kernel
def look_up(k: Builder, element: str, rank: int, mode: str, padding: str, align_corners: bool) -> None:
    """``y[n, c, p]``, made of pixels around ``grid[n, p]``."""
    way = _Way(rank, mode, padding, align_corners)
    x, grid, y = k.array(), k.array(), k.array()
    channels, count, blocks, sizes = k.integer(), k.integer(), k.integer(), [k.integer() for _ in range(rank)]
    lanes, area = k.lanes(element), functools.reduce(lambda a, b: a * b, sizes)

    def chunk(c: Value) -> None:
        n = c // blocks
        first = (c - n * blocks) * _SPAN
        here, target = k.at(grid, n * count * rank, element), k.at(y, n * channels * count, element)

        def some(i: Value, mask: Value | None) -> None:
            lines, _ = _lines_at(k, way, here, i, mask, element, sizes)
            corners = _corners(way, lines, sizes)

            def channel(c: Value) -> None:
                plane = k.at(x, (n * channels + c) * area, element)
                pixels = [k.gather(plane, place, element, valid) for _, place, valid in corners]
                k.store(pixels[0] if mode == "nearest" else _summed(k, way, corners, pixels, _weight), target, c * count + i, element, mask)

            k.loop(0, channels, channel)

        k.vector_loop(first, k.least(first + _SPAN, count), lanes, some)

    k.for_chunks(chunk)


@kernel
def look_up_backward(
    k: Builder, element: str, rank: int, mode: str, padding: str, align_corners: bool, to_input: bool, to_grid: bool
) -> None:
    """The gradients ``dx[n, c, pixel]``, zeros before, and ``dgrid[n, p, dimension]``; a chunk is an image."""
    way = _Way(rank, mode, padding, align_corners)
    grad, x, grid, dx, dgrid = (k.array() for _ in range(5))
    channels, count, sizes = k.integer(), k.integer(), [k.integer() for _ in range(rank)]
    lanes, area = k.lanes(element), functools.reduce(lambda a, b: a * b, sizes)
    spots, shares = k.scratch(4**rank * lanes, "i64"), k.scratch(4**rank * lanes, element)
    zero = k.const(0, element, lanes)

    def chunk(n: Value) -> None:
        here, slopes = k.at(grid, n * count * rank, element), k.at(dgrid, n * count * rank, element)
        arrived = k.at(grad, n * channels * count, element)

        def some(i: Value, mask: Value | None) -> None:
            lines, rates = _lines_at(k, way, here, i, mask, element, sizes)
            corners = _corners(way, lines, sizes)
            for number, (_, place, _) in enumerate(corners):
                k.store(place, spots, number * lanes, "i64")
            left = k.least(count - i, lanes)

            def channel(c: Value, *sums: Value) -> Any:
                value = k.load(arrived, c * count + i, element, lanes, mask)
                if to_input:
                    for number, (taps, _, valid) in enumerate(corners):
                        share = value
                        for tap in taps:
                            share = share if tap.weight is None else share * tap.weight
                        k.store(k.select(valid, share, zero), shares, number * lanes, element)
                    plane = k.at(dx, (n * channels + c) * area, element)

                    def add(j: Value) -> None:
                        for number in range(len(corners)):
                            at = k.load(spots, j + number * lanes, "i64")
                            k.store(k.load(plane, at, element) + k.load(shares, j + number * lanes, element), plane, at, element)

                    k.loop(0, left, add)
                if not to_grid or mode == "nearest":
                    return sums
                source = k.at(x, (n * channels + c) * area, element)
                pixels = [k.gather(source, place, element, valid) for _, place, valid in corners]

                def changing(dim: int) -> Callable[[int, _Tap], Any]:
                    return lambda d, tap: tap.slope if d == dim else tap.weight

                return [total + value * _summed(k, way, corners, pixels, changing(dim)) for dim, total in enumerate(sums)]

            totals = k.loop(0, channels, channel, carried=[zero] * rank)
            if to_grid:
                for dim, (total, rate) in enumerate(zip(totals, rates, strict=True)):
                    at = i * rank + (rank - 1 - dim)
                    for lane in range(lanes):
                        value = k.extract(total * rate, lane)

                        def put(lane: int = lane, value: Value = value, at: Value = at) -> None:
                            k.store(value, slopes, at + lane * rank, element)

                        put() if mask is None else k.when(left > lane, put)

        k.vector_loop(0, count, lanes, some)

    k.for_chunks(chunk)


def _able(input: np.ndarray, grid: np.ndarray) -> bool:
    return input.dtype in FLOATS and grid.dtype == input.dtype and bool(input.size and grid.size)


@native("_grid_sample2d", "_grid_sample3d")
def grid_sample(input: np.ndarray, grid: np.ndarray, mode: str, padding: str, align_corners: bool) -> np.ndarray | None:
    if not _able(input, grid):
        return None
    batch, channels, *sizes = input.shape
    count = math.prod(grid.shape[1:-1])
    result = empty((batch, channels, *grid.shape[1:-1]), input.dtype)
    blocks = -(-count // _SPAN)
    run = look_up(FLOATS[input.dtype], len(sizes), mode, padding, align_corners)
    arrays = contiguous(input), contiguous(grid), result
    run(batch * blocks, *map(id, arrays), channels, count, blocks, *sizes)
    return result


@native("_grid_sample_backward")
def grid_sample_backward(
    grad: np.ndarray, input: np.ndarray, grid: np.ndarray, mode: str, padding: str, align_corners: bool, to_input: bool, to_grid: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """The gradients of input and grid; a gradient that is not needed has no meaning."""
    if not _able(input, grid) or grad.dtype != input.dtype:
        return None
    batch, channels, *sizes = input.shape
    count = math.prod(grid.shape[1:-1])
    dx = np.zeros(input.shape if to_input else 0, input.dtype)
    dgrid = empty(grid.shape, input.dtype) if to_grid else dx
    run = look_up_backward(FLOATS[input.dtype], len(sizes), mode, padding, align_corners, to_input, to_grid)
    arrays = contiguous(grad), contiguous(input), contiguous(grid), dx, dgrid
    run(batch, *map(id, arrays), channels, count, *sizes)
    return dx, dgrid
