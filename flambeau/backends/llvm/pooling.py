"""Pooling over windows and bins.

Windows and bins are the same thing here: ``limits`` has, for each output row and column, where its elements start and stop in the input
(cut at the borders), so that one kernel serves both.  Planes whose columns lie together are pooled in two steps,

      rows of a window  --combined column by column-->  one row  --combined along the row-->  one row of the result

the first with all lanes busy.  Where channels lie together instead (channels last), lanes run over the channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.layout import channels_last, is_contiguous_as
from ...core.native import native
from .build import kernel
from .copies import contiguous
from .language import Builder, Value
from .memory import empty

CHUNK = 1 << 17  # bytes of input
_FLOATS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_NONE = {"sum": 0.0, "max": -math.inf}


def _combined(k: Builder, way: str, a: Value, b: Value) -> Value:
    return a + b if way == "sum" else k.maximum(a, b)


class _Limits:
    """Where output ``at`` starts and stops along a dimension, and by what its sum is divided; read from a table of three rows."""

    def __init__(self, k: Builder, table: Value, count: Value):
        self.k, self.table, self.count = k, table, count

    def __call__(self, at: Value) -> tuple[Value, Value]:
        return self.k.load(self.table, at, "i64"), self.k.load(self.table, at + self.count, "i64")

    def divisor(self, at: Value) -> Value:
        return self.k.load(self.table, at + self.count * 2, "i64")


# -- columns together ------------------------------------------------------------------------------------------------------------
@kernel
def pool_planes(k: Builder, kind: str, way: str, stride: int) -> None:
    """``stride`` is the step between windows if it is known (1 or 2), else 0; from ``inner`` to ``inner_stop`` windows are whole."""
    x, y, rows, down, across = k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, inner, inner_stop, taps, step, per, units = (k.integer() for _ in range(12))
    lanes = k.lanes(kind)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def unit(u: Value, row: Value) -> None:
        plane = u // high
        out = u - plane * high
        top, bottom = vertical(out)
        source, target = k.at(x, plane * height * width, kind), k.at(y, u * wide, kind)

        def fold(c: Value, mask: Value | None, unroll: int = 1) -> None:
            first = [k.load(source, top * width + c + i * lanes, kind, lanes, mask) for i in range(unroll)]

            def more(r: Value, *found: Value) -> tuple[Value, ...]:
                lines = [k.load(source, r * width + c + i * lanes, kind, lanes, mask) for i in range(unroll)]
                return tuple(_combined(k, way, a, b) for a, b in zip(found, lines, strict=True))

            found = k.loop(top + rate_y, bottom, more, step=rate_y, carried=first)
            for i, each in enumerate([found] if unroll == 1 else found):
                k.store(each, row, c + i * lanes, kind, mask)

        twos = width - (width & (2 * lanes - 1))
        k.loop(0, twos, lambda c: fold(c, None, 2), step=2 * lanes)
        k.vector_loop(twos, width, lanes, fold)

        def finish(value: Value, at: Value) -> None:
            if way == "sum":
                value = value / k.splat(k.cast(vertical.divisor(out) * horizontal.divisor(at), kind), value.lanes)
            k.store(value, target, at, kind)

        def single(at: Value) -> None:
            start, stop = horizontal(at)
            first = k.load(row, start, kind)
            finish(k.loop(start + rate_x, stop, lambda c, v: _combined(k, way, v, k.load(row, c, kind)), step=rate_x, carried=(first,)), at)

        def several(at: Value) -> None:
            start, _ = horizontal(at)
            first = _spaced(k, row, start, stride, step, kind, lanes)

            def more(i: Value, value: Value) -> Value:
                return _combined(k, way, value, _spaced(k, row, start + i * rate_x, stride, step, kind, lanes))

            finish(k.loop(1, taps, more, carried=(first,)), at)

        end = inner_stop - ((inner_stop - inner) & (lanes - 1))
        k.loop(0, inner, single)
        k.loop(inner, end, several, step=lanes)
        k.loop(end, wide, single)

    def chunk(c: Value) -> None:
        row = k.at(rows, c * width, kind)
        k.loop(c * per, k.least((c + 1) * per, units), lambda u: unit(u, row))

    k.for_chunks(chunk)


def _spaced(k: Builder, pointer: Value, start: Value, stride: int, step: Value, kind: str, lanes: int) -> Value:
    """Every ``step``-th element from ``start`` on; nothing beyond the last of them is read."""
    if stride == 1:
        return k.load(pointer, start, kind, lanes)
    if stride == 2:  # the second vector ends with the last element wanted
        low, high = k.load(pointer, start, kind, lanes), k.load(pointer, start + (lanes - 1), kind, lanes)
        half = lanes // 2
        return k.shuffle(low, [2 * i for i in range(half)] + [lanes + 2 * i + 1 for i in range(half)], high)
    return k.load_strided(pointer, start, step, kind, lanes)


@kernel
def spread_planes(k: Builder, kind: str) -> None:
    """The gradient of an average: each element of ``g``, divided, is added to its window. A chunk has whole planes."""
    g, y, rows, down, across = k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, per, units = (k.integer() for _ in range(6))
    lanes = k.lanes(kind)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def line(start: Value, stop: Value, body: Any) -> None:
        k.vector_loop(start, stop, lanes, body)

    def unit(plane: Value, row: Value) -> None:
        source, target = k.at(g, plane * high * wide, kind), k.at(y, plane * height * width, kind)
        none = k.const(0, kind, lanes)

        def output_row(out: Value, cleared: Value) -> Value:
            top, bottom = vertical(out)
            divisor = vertical.divisor(out)
            line(k.const(0, "i64"), width, lambda c, mask: k.store(none, row, c, kind, mask))

            def one(at: Value) -> None:
                start, stop = horizontal(at)
                share = k.load(source, out * wide + at, kind) / k.cast(divisor * horizontal.divisor(at), kind)
                k.loop(start, stop, lambda c: k.store(k.load(row, c, kind) + share, row, c, kind))

            k.loop(0, wide, one)

            def write(r: Value) -> None:  # rows from ``cleared`` on have not been written yet
                def old(c: Value, mask: Value | None) -> None:
                    added = k.load(target, r * width + c, kind, lanes, mask) + k.load(row, c, kind, lanes, mask)
                    k.store(added, target, r * width + c, kind, mask)

                def new(c: Value, mask: Value | None) -> None:
                    k.store(k.load(row, c, kind, lanes, mask), target, r * width + c, kind, mask)

                k.when(r < cleared, lambda: line(k.const(0, "i64"), width, old), lambda: line(k.const(0, "i64"), width, new))

            clear(cleared, top)
            cleared = k.most(cleared, top)
            k.loop(top, bottom, write)
            return k.most(cleared, bottom)

        def clear(start: Value, stop: Value) -> None:
            line(start * width, k.most(start, stop) * width, lambda c, mask: k.store(none, target, c, kind, mask))

        clear(k.loop(0, high, output_row, carried=(k.const(0, "i64"),)), height)

    def chunk(c: Value) -> None:
        row = k.at(rows, c * width, kind)
        k.loop(c * per, k.least((c + 1) * per, units), lambda u: unit(u, row))

    k.for_chunks(chunk)


# -- channels together -----------------------------------------------------------------------------------------------------------
@kernel
def pool_channels(k: Builder, kind: str, way: str) -> None:
    """Pooling of ``(N, H, W, C)``."""
    x, y, down, across = k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, channels, per, units = (k.integer() for _ in range(9))
    lanes = k.lanes(kind)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def unit(u: Value) -> None:
        line = u // wide
        at = u - line * wide
        image = line // high
        out = line - image * high
        (top, bottom), (left, right) = vertical(out), horizontal(at)
        source, target = k.at(x, image * height * width * channels, kind), k.at(y, u * channels, kind)
        divisor = k.cast(vertical.divisor(out) * horizontal.divisor(at), kind) if way == "sum" else None

        def some(c: Value, mask: Value | None) -> None:
            def tap(r: Value, q: Value, value: Value) -> Value:
                return _combined(k, way, value, k.load(source, (r * width + q) * channels + c, kind, lanes, mask))

            value = k.loop(
                top,
                bottom,
                lambda r, value: k.loop(left, right, lambda q, value: tap(r, q, value), step=rate_x, carried=(value,)),
                step=rate_y,
                carried=(k.const(_NONE[way], kind, lanes),),
            )
            k.store(value / k.splat(divisor, lanes) if divisor is not None else value, target, c, kind, mask)

        k.vector_loop(0, channels, lanes, some)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


# -- places of maxima ------------------------------------------------------------------------------------------------------------
@kernel
def pool_places(k: Builder, kind: str, last: bool) -> None:
    """Maxima and their places in the plane: the first of them, or the last NaN. ``last``: channels lie together."""
    x, y, places, down, across = k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, channels, per, units = (k.integer() for _ in range(9))
    lanes = k.lanes(kind) if last else 1
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def unit(u: Value) -> None:
        plane = u // high
        out = u - plane * high
        top, bottom = vertical(out)
        source = k.at(x, plane * height * width * channels, kind)

        def one(at: Value, c: Value, mask: Value | None = None) -> None:
            left, right = horizontal(at)

            def tap(r: Value, q: Value, best: Value, place: Value) -> tuple[Value, Value]:
                here = r * width + q
                value = k.load(source, here * channels + c, kind, lanes, mask)
                better = (value > best) | value.is_nan() | (place < 0)
                return k.select(better, value, best), k.select(better, k.splat(here, lanes), place)

            best, place = k.loop(
                top,
                bottom,
                lambda r, *old: k.loop(left, right, lambda q, *old: tap(r, q, *old), step=rate_x, carried=old),
                step=rate_y,
                carried=(k.const(-math.inf, kind, lanes), k.const(-1, "i64", lanes)),
            )
            to = (u * wide + at) * channels + c
            k.store(best, y, to, kind, mask)
            k.store(place, places, to, "i64", mask)

        if last:
            k.loop(0, wide, lambda at: k.vector_loop(0, channels, lanes, lambda c, mask: one(at, c, mask)))
        else:
            k.loop(0, wide, lambda at: one(at, k.const(0, "i64")))

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


@kernel
def add_at_places(k: Builder, kind: str) -> None:
    """``y[plane, places[plane, i]] += g[plane, i]`` into zeros; a chunk has whole planes."""
    g, places, y, bad = k.array(), k.array(), k.array(), k.array()
    area, count, per, units = (k.integer() for _ in range(4))
    lanes = k.lanes(kind)

    def unit(plane: Value) -> None:
        target = k.at(y, plane * area, kind)
        none = k.const(0, kind, lanes)
        k.vector_loop(0, area, lanes, lambda c, mask: k.store(none, target, c, kind, mask))

        def one(i: Value) -> None:
            place = k.load(places, plane * count + i, "i64")
            good = Value(k, place.text, "u64") < Value(k, area.text, "u64")

            def add() -> None:
                k.store(k.load(target, place, kind) + k.load(g, plane * count + i, kind), target, place, kind)

            k.when(good, add, lambda: k.store(k.const(1, "i64"), bad, 0, "i64"))

        k.loop(0, count, one)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


# -- gradient of maxima ----------------------------------------------------------------------------------------------------------
@kernel
def max_backward_planes(k: Builder, kind: str, stride: int) -> None:
    """Each element of ``g`` is added at the place of its window's maximum ``v``: the first, or the last NaN. A chunk has whole planes.

    The windows are looked through backwards, so that the first place is what remains.
    """
    g, x, v, y, down, across = k.array(), k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, inner, inner_stop, taps, step, per, units = (k.integer() for _ in range(12))
    lanes = k.lanes(kind)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)
    found_places, shares = k.scratch(lanes, "i32"), k.scratch(lanes, kind)

    def unit(plane: Value) -> None:
        source, target = k.at(x, plane * height * width, kind), k.at(y, plane * height * width, kind)
        none = k.const(0, kind, lanes)
        k.vector_loop(0, height * width, lanes, lambda c, mask: k.store(none, target, c, kind, mask))

        def output_row(out: Value) -> None:
            top, bottom = vertical(out)
            row = (plane * high + out) * wide

            def search(value: Value, count: Value, load: Any, first: Value) -> Value:
                """The place of ``value``; ``load(row, i)`` reads tap ``i`` of ``count``, whose place is ``first + i * rate_x``."""

                def tap(r: Value, i: Value, place: Value) -> Value:
                    here = load(r, i)
                    same = here.eq(value) | (here.is_nan() & value.is_nan() & (place < 0))
                    at = k.cast(r * width + i * rate_x, "i32") + first
                    return k.select(same, at, place)

                def line(j: Value, place: Value) -> Value:
                    r = bottom - rate_y - j
                    return k.loop(1, count + 1, lambda i, place: tap(r, count - i, place), carried=(place,))

                place = k.loop(0, bottom - top, line, step=rate_y, carried=(k.const(-1, "i32", first.lanes),))
                return k.select(place < 0, first, place)  # -1 only where ``v`` is not what the forward pass found

            def single(at: Value) -> None:
                left, right = horizontal(at)
                value = k.load(v, row + at, kind)
                place = search(value, (right - left) // rate_x, lambda r, i: k.load(source, r * width + left + i * rate_x, kind), k.cast(left, "i32"))
                add(place, k.load(g, row + at, kind))

            def add(place: Value, share: Value) -> None:
                at = k.cast(place, "i64")
                k.store(k.load(target, at, kind) + share, target, at, kind)

            def several(at: Value) -> None:
                left, _ = horizontal(at)
                starts = k.splat(k.cast(left, "i32"), lanes) + k.indices(lanes, "i32") * k.cast(step, "i32")

                def load(r: Value, i: Value) -> Value:
                    return _spaced(k, source, r * width + left + i * rate_x, stride, step, kind, lanes)

                k.store(search(k.load(v, row + at, kind, lanes), taps, load, starts), found_places, 0, "i32")
                k.store(k.load(g, row + at, kind, lanes), shares, 0, kind)
                for lane in range(lanes):
                    add(k.load(found_places, lane, "i32"), k.load(shares, lane, kind))

            end = inner_stop - ((inner_stop - inner) & (lanes - 1))
            k.loop(0, inner, single)
            k.loop(inner, end, several, step=lanes)
            k.loop(end, wide, single)

        k.loop(0, high, output_row)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


@kernel
def max_backward_channels(k: Builder, kind: str) -> None:
    """The same for ``(N, H, W, C)``; a chunk has some vectors of channels of one image."""
    g, x, v, y, down, across = k.array(), k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, channels, block, blocks = (k.integer() for _ in range(9))
    lanes = k.lanes(kind)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def chunk(u: Value) -> None:
        image = u // blocks
        first = (u - image * blocks) * block
        stop = k.least(first + block, channels)
        source, target = k.at(x, image * height * width * channels, kind), k.at(y, image * height * width * channels, kind)
        none = k.const(0, kind, lanes)

        def clear(at: Value) -> None:
            k.vector_loop(first, stop, lanes, lambda c, mask: k.store(none, target, at * channels + c, kind, mask))

        k.loop(0, height * width, clear)

        def window(out: Value, at: Value) -> None:
            (top, bottom), (left, right) = vertical(out), horizontal(at)
            here = ((image * high + out) * wide + at) * channels

            def some(c: Value, mask: Value | None) -> None:
                value, share = k.load(v, here + c, kind, lanes, mask), k.load(g, here + c, kind, lanes, mask)

                def look(matches: Any, tap_at: Any) -> None:
                    def tap(i: Value, j: Value, unset: Value) -> Value:
                        r, q = tap_at(i, j)
                        place = (r * width + q) * channels + c
                        chosen = matches(k.load(source, place, kind, lanes, mask)) & unset
                        old = k.load(target, place, kind, lanes, mask)
                        k.store(k.select(chosen, old + share, old), target, place, kind, mask)
                        return unset & ~chosen

                    def line(i: Value, unset: Value) -> Value:
                        return k.loop(0, right - left, lambda j, unset: tap(i, j, unset), step=rate_x, carried=(unset,))

                    k.loop(0, bottom - top, line, step=rate_y, carried=(k.const(True, "b1", lanes),))

                nan = value.is_nan()
                look(lambda here: here.eq(value), lambda i, j: (top + i, left + j))
                k.when(k.any(nan), lambda: look(lambda here: here.is_nan() & nan, lambda i, j: (bottom - rate_y - i, right - rate_x - j)))

            k.vector_loop(first, stop, lanes, some)

        k.loop(0, high, lambda out: k.loop(0, wide, lambda at: window(out, at)))

    k.for_chunks(chunk)


# -- limits ----------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension: its size, how many outputs it has, and the table of their limits.

    Attributes:
        rate: step between the elements of a window; ``step``: between windows.
        inner, inner_stop: outputs whose windows are whole, ``taps`` elements each.
    """

    size: int
    count: int
    table: np.ndarray
    rate: int = 1
    step: int = 1
    inner: int = 0
    inner_stop: int = 0
    taps: int = 0


_POINT = Axis(1, 1, np.array([[0], [1], [1]], np.int64), 1, 1, 0, 1, 1)


@lru_cache(maxsize=256)
def window_axis(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool, count_padding: bool, divisor: int | None
) -> Axis | None:
    """The windows along a dimension; None where the reference finds something to complain about, or where a window is empty."""
    reach = dilation * (kernel - 1)
    if min(kernel, stride, dilation) < 1 or not 0 <= padding <= (reach + 1) // 2:
        return None
    span = size + 2 * padding - reach - 1
    count = (-(-span // stride) if ceil_mode else span // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    if count < 1:
        return None
    start = np.arange(count) * stride - padding
    stop = np.minimum(start + kernel, size + padding)
    counted = stop - start if count_padding else stop.clip(None, size) - start.clip(0)
    first = start + -(np.minimum(start, 0) // dilation) * dilation
    taps = np.minimum(kernel - (first - start) // dilation, (size - first + dilation - 1) // dilation)
    if taps.min() < 1:
        return None
    if divisor is not None:
        counted = np.full(count, divisor)
    table = np.array([first, first + taps * dilation, counted], np.int64)
    inner = min(-(-padding // stride), count)
    whole = max(inner, min((size - 1 - reach + padding) // stride + 1, count))
    return Axis(size, count, table, dilation, stride, inner, whole, kernel)


@lru_cache(maxsize=256)
def bin_axis(size: int, count: int) -> Axis | None:
    """The bins along a dimension."""
    if count < 1 or size < 1:
        return None
    at = np.arange(count)
    start, stop = at * size // count, -(-(at + 1) * size // count)
    table = np.array([start, stop, stop - start], np.int64)
    each = size // count
    return Axis(size, count, table, 1, each, 0, count if size % count == 0 else 0, each)


Axes = tuple[Axis, Axis]


def _windows(
    shape: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, count_padding: bool = True, divisor: Any = None
) -> Axes | None:
    """The axes of a pooling operation's arguments; None where they are not plainly right."""
    rank = len(kernel_size)
    if rank > 2 or len(shape) not in (rank + 1, rank + 2) or 0 in shape:
        return None
    stride = kernel_size if stride is None or stride == () or stride == [] else stride
    given = [each if isinstance(each, (tuple, list)) else (each,) * rank for each in (kernel_size, stride, padding, dilation)]
    given = [each * rank if len(each) == 1 else each for each in map(tuple, given)]
    if any(len(each) != rank or any(n.__class__ is not int for n in each) for each in given):
        return None
    axes = [
        window_axis(shape[i - rank], *[each[i] for each in given], bool(ceil_mode), bool(count_padding), divisor if not i else None if divisor is None else 1)
        for i in range(rank)
    ]
    return _pair(axes)


def _bins(shape: Any, size: Any) -> Axes | None:
    rank = len(size)
    if rank > 2 or len(shape) not in (rank + 1, rank + 2) or 0 in shape:
        return None
    return _pair([bin_axis(shape[i - rank], size[i]) for i in range(rank)])


def _pair(axes: list[Axis | None]) -> Axes | None:
    if None in axes:
        return None
    return (_POINT, axes[0]) if len(axes) == 1 else (axes[0], axes[1])  # type: ignore[return-value]


# -- operations ------------------------------------------------------------------------------------------------------------------
def _layout(input: np.ndarray) -> str:
    """How the planes lie: ``"columns"`` or ``"channels"`` together; ``""`` for anything else."""
    if input.flags.c_contiguous:
        return "columns"
    return "channels" if input.ndim == 4 and input.shape[1] > 1 and is_contiguous_as(input, channels_last) else ""


def _together(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else contiguous(array)


def _result(input: np.ndarray, sizes: Any, layout: str, dtype: Any) -> np.ndarray:
    if layout == "channels":
        return np.moveaxis(empty((input.shape[0], *sizes, input.shape[1]), dtype), -1, 1)
    return empty((*input.shape[: input.ndim - len(sizes)], *sizes), dtype)


def _units(count: int, size: int) -> tuple[int, int, int]:
    """Chunks, units of each, and units, for ``count`` units of ``size`` bytes."""
    per = max(1, CHUNK // max(size, 1))
    return -(-count // per), per, count


def _pool(input: np.ndarray, axes: Axes | None, rank: int, way: str) -> np.ndarray | None:
    kind, layout = _FLOATS.get(input.dtype), _layout(input)
    if axes is None or kind is None or not layout:
        return None
    y, x = axes
    made = _result(input, (y.count, x.count)[-rank:], layout, input.dtype)
    planes = input.size // (y.size * x.size)
    sizes = (y.size, x.size, y.count, x.count, y.rate, x.rate)
    taps = -(-y.size // y.count)
    if layout == "channels":
        channels = input.shape[1]
        chunks, per, units = _units(input.shape[0] * y.count * x.count, channels * taps * input.itemsize)
        pool_channels(kind, way)(chunks, id(input), id(made), id(y.table), id(x.table), *sizes, channels, per, units)
        return made
    chunks, per, units = _units(planes * y.count, x.size * taps * input.itemsize)
    rows = empty((chunks, x.size), input.dtype)
    run = pool_planes(kind, way, x.step if x.step < 3 else 0)
    arrays = (id(input), id(made), id(rows), id(y.table), id(x.table))
    run(chunks, *arrays, *sizes, x.inner, x.inner_stop, x.taps, x.step, per, units)
    return made


@native("nn.functional._max_pool1d", "nn.functional._max_pool2d")
def max_pool(input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> np.ndarray | None:
    return _pool(input, _windows(input.shape, kernel_size, stride, padding, dilation, ceil_mode), len(kernel_size), "max")


@native("nn.functional._avg_pool1d", "nn.functional._avg_pool2d")
def average_pool(
    input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: Any
) -> np.ndarray | None:
    if divisor_override == 0:
        return None
    axes = _windows(input.shape, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override)
    return _pool(input, axes, len(kernel_size), "sum")


@native("nn.functional._adaptive_avg_pool1d", "nn.functional._adaptive_avg_pool2d")
def adaptive_average(input: np.ndarray, size: Any) -> np.ndarray | None:
    return _pool(input, _bins(input.shape, size), len(size), "sum")


def _places(input: np.ndarray, axes: Axes | None, rank: int) -> tuple[np.ndarray, np.ndarray] | None:
    kind, layout = _FLOATS.get(input.dtype), _layout(input)
    if axes is None or kind is None or not layout:
        return None
    y, x = axes
    sizes = (y.count, x.count)[-rank:]
    values, places = _result(input, sizes, layout, input.dtype), _result(input, sizes, layout, np.int64)
    channels = input.shape[1] if layout == "channels" else 1
    planes = input.size // (y.size * x.size * channels)
    chunks, per, units = _units(planes * y.count, x.size * channels * -(-y.size // y.count) * input.itemsize)
    arrays = (id(input), id(values), id(places), id(y.table), id(x.table))
    run = pool_places(kind, layout == "channels")
    run(chunks, *arrays, y.size, x.size, y.count, x.count, y.rate, x.rate, channels, per, units)
    return values, places


@native("nn.functional._max_pool1d_with_places", "nn.functional._max_pool2d_with_places")
def max_pool_with_places(
    input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    return _places(input, _windows(input.shape, kernel_size, stride, padding, dilation, ceil_mode), len(kernel_size))


@native("nn.functional._adaptive_max_pool1d", "nn.functional._adaptive_max_pool2d")
def adaptive_max(input: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray] | None:
    return _places(input, _bins(input.shape, size), len(size))


@native("nn.functional._scatter_planes")
def scatter_planes(source: np.ndarray, indices: np.ndarray, spatial: Any) -> np.ndarray | None:
    kind, rank = _FLOATS.get(source.dtype), len(spatial)
    lead, area = source.shape[: source.ndim - rank], math.prod(spatial)
    if kind is None or indices.dtype != np.int64 or indices.shape != source.shape or not source.size or not area:
        return None
    source, indices = _together(source), _together(indices)
    made, bad = empty((*lead, *spatial), source.dtype), np.zeros(1, np.int64)
    chunks, per, units = _units(math.prod(lead), area * source.itemsize)
    add_at_places(kind)(chunks, id(source), id(indices), id(made), id(bad), area, source.size // units, per, units)
    return None if bad[0] else made


@native("nn.functional._max_pool_backward")
def max_backward(
    grad_output: np.ndarray,
    input: np.ndarray,
    values: np.ndarray,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> np.ndarray | None:
    axes = _windows(input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    kind, layout = _FLOATS.get(input.dtype), _layout(input)
    if axes is None or kind is None or not layout or values.dtype is not input.dtype or grad_output.dtype is not input.dtype:
        return None
    y, x = axes
    made = _result(input, input.shape[-len(kernel_size) :], layout, input.dtype)
    sizes = (y.size, x.size, y.count, x.count, y.rate, x.rate)
    tables = (id(y.table), id(x.table))
    if layout == "channels":
        images, channels = input.shape[:2]
        block = 64
        blocks = -(-channels // block)
        g, v = (np.moveaxis(_together(np.moveaxis(each, 1, -1)), -1, 1) for each in (grad_output, values))
        run = max_backward_channels(kind)
        run(images * blocks, id(g), id(input), id(v), id(made), *tables, *sizes, channels, block, blocks)
        return made
    if y.size * x.size >= 1 << 31:
        return None  # places are counted in 32 bits
    g, v = _together(grad_output), _together(values)
    chunks, per, units = _units(input.size // (y.size * x.size), y.size * x.size * input.itemsize)
    run = max_backward_planes(kind, x.step if x.step < 3 else 0)
    run(chunks, id(g), id(input), id(v), id(made), *tables, *sizes, x.inner, x.inner_stop, x.taps, x.step, per, units)
    return made


def _spread(grad_output: np.ndarray, shape: Any, axes: Axes | None) -> np.ndarray | None:
    kind = _FLOATS.get(grad_output.dtype)
    if axes is None or kind is None:
        return None
    y, x = axes
    g, made = _together(grad_output), empty(shape, grad_output.dtype)
    chunks, per, units = _units(made.size // (y.size * x.size), y.size * x.size * made.itemsize)
    rows = empty((chunks, x.size), made.dtype)
    run = spread_planes(kind)
    run(chunks, id(g), id(made), id(rows), id(y.table), id(x.table), y.size, x.size, y.count, x.count, per, units)
    return made


@native("nn.functional._avg_pool_backward")
def average_backward(
    grad_output: np.ndarray,
    shape: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> np.ndarray | None:
    shape = tuple(shape)
    axes = _windows(shape, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override)
    return _spread(grad_output, shape, axes)


@native("nn.functional._adaptive_avg_pool_backward")
def adaptive_average_backward(grad_output: np.ndarray, spatial: Any) -> np.ndarray | None:
    rank = len(spatial)
    if rank > 2:
        return None
    shape = (*grad_output.shape[: grad_output.ndim - rank], *spatial)
    return _spread(grad_output, shape, _bins(shape, grad_output.shape[-rank:]))
