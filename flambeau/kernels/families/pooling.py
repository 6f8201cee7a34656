"""Pooling over windows and bins.

Windows and bins are the same thing here: a table has, for each output row and column, where its elements start and stop in the input
(cut at the borders), so that one kernel serves both.  Planes whose columns lie together are pooled in two steps,

      rows of a window  --combined column by column-->  one row  --combined along the row-->  one row of the result

the first with all lanes busy.  Where channels lie together instead (channels last), lanes run over the channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.layout import channels_last, is_contiguous_as
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from .copies import contiguous

CHUNK = 1 << 17  # bytes of input
_FLOATS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_NONE = {"sum": 0.0, "max": -math.inf}


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
def pool_planes(k: Builder, element: str, way: str, stride: int) -> None:
    """Planes whose columns lie together.

    ``way`` is ``"sum"``, which is divided, ``"max"``, or ``"place"``: the maximum and its place in the plane, the first of equal ones or
    the last NaN.  ``stride`` is the step between windows if it is at most 4, else 0.  Windows are whole from ``inner`` to ``inner_stop``.
    """
    x, y, places, rows, down, across = (k.array() for _ in range(6))
    height, width, high, wide, rate_y, rate_x, inner, inner_stop, taps, step, per, units = (k.integer() for _ in range(12))
    lanes = k.lanes(element)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)
    elements = [element, "i32"] if way == "place" else [element]
    combined = _MORE[way]
    span = inner_stop - inner
    span = k.select(span >= lanes // 2, span, 0)

    def unit(u: Value, row: list[Value]) -> None:
        plane = u // high
        out = u - plane * high
        top, bottom = vertical(out)
        source = k.at(x, plane * height * width, element)

        def fold(c: Value, mask: Value | None) -> None:
            def line(r: Value) -> list[Value]:
                value = k.load(source, r * width + c, element, lanes, mask)
                return [value, k.splat(k.cast(r * width + c, "i32"), lanes) + k.indices(lanes, "i32")][: len(elements)]

            kept = k.loop(top + rate_y, bottom, lambda r, *kept: combined(k, kept, line(r)), step=rate_y, carried=line(top))
            for value, stored, to in zip(_listed(kept), elements, row, strict=True):
                k.store(value, to, c, stored, mask)

        k.vector_loop(0, width, lanes, fold)

        def finish(kept: Any, at: Value) -> None:
            value, *place = _listed(kept)
            if way == "sum":
                value = value / k.splat(k.cast(vertical.divisor(out) * horizontal.divisor(at), element), value.lanes)
            k.store(value, y, u * wide + at, element)
            if place:
                k.store(k.cast(place[0], "i64"), places, u * wide + at, "i64")

        def single(at: Value) -> None:
            start, stop = horizontal(at)

            def column(c: Value) -> list[Value]:
                return [k.load(from_, c, stored) for from_, stored in zip(row, elements, strict=True)]

            more = k.loop(start + rate_x, stop, lambda c, *kept: combined(k, kept, column(c)), step=rate_x, carried=column(start))
            finish(more, at)

        def unrolled(at: Value, lanes: int) -> None:
            start, _ = horizontal(at)

            def columns(i: Any) -> list[Value]:
                return [
                    _spaced(k, from_, start + i * rate_x, stride, step, stored, lanes) for from_, stored in zip(row, elements, strict=True)
                ]

            first = columns(k.const(0, "i64"))
            finish(k.loop(1, taps, lambda i, *carried: combined(k, carried, columns(i)), carried=first), at)

        # whole windows in vectors, the last of which overlaps the one before it, the others one by one
        def vectors(lanes: int) -> None:
            k.loop(inner, inner_stop, lambda at: unrolled(k.least(at, inner_stop - lanes), lanes), step=lanes)

        k.when(span >= lanes, lambda: vectors(lanes), lambda: k.when(span > 0, lambda: vectors(lanes // 2)))
        k.loop(0, wide - span, lambda i: single(i + k.select(i >= inner, span, 0)))

    def chunk(c: Value) -> None:
        row = [k.at(rows, c * (width * len(elements)), element)]
        if way == "place":
            row.append(k.at(row[0], width, element))
        k.loop(c * per, k.least((c + 1) * per, units), lambda u: unit(u, row))

    k.for_chunks(chunk)


def _listed(values: Any) -> list[Value]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def _first_of_two(k: Builder, kept: Any, other: Any) -> tuple[Value, Value]:
    """The greater of two values with places; the first of equal ones, the last of NaN."""
    (best, place), (value, at) = kept, other
    before = at < place
    better = (value > best) | (value.eq(best) & before) | (value.is_nan() & ~(best.is_nan() & before))
    return k.select(better, value, best), k.select(better, at, place)


_MORE = {
    "sum": lambda k, kept, other: (kept[0] + other[0],),
    "max": lambda k, kept, other: (k.maximum(kept[0], other[0]),),
    "place": _first_of_two,
}


def _spaced(k: Builder, pointer: Value, start: Value, stride: int, step: Value, element: str, lanes: int) -> Value:
    """Every ``step``-th element from ``start`` on; nothing beyond the last of them is read."""
    if lanes == 1:
        return k.load(pointer, start, element)
    if not stride:
        return k.load_strided(pointer, start, step, element, lanes)
    vector = k.load(pointer, start, element, lanes)
    for n in range(1, stride):  # the last vector ends with the last element wanted
        first = n * lanes if n < stride - 1 else n * (lanes - 1)
        more = k.load(pointer, start + first, element, lanes)
        have = [i if n > 1 else i * stride for i in range(lanes)]  # where lane i is, if it is in ``vector``
        vector = k.shuffle(
            vector, [have[i] if i * stride < n * lanes else min(lanes + i * stride - first, 2 * lanes - 1) for i in range(lanes)], more
        )
    return vector


@kernel
def spread_planes(k: Builder, element: str) -> None:
    """The gradient of an average: each element of ``g``, divided, is added to its window. A chunk has whole planes."""
    g, y, rows, down, across = k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, per, units = (k.integer() for _ in range(6))
    lanes = k.lanes(element)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def line(start: Value, stop: Value, body: Any) -> None:
        k.vector_loop(start, stop, lanes, body)

    def unit(plane: Value, row: Value) -> None:
        source, target = k.at(g, plane * high * wide, element), k.at(y, plane * height * width, element)
        none = k.const(0, element, lanes)

        def output_row(out: Value, cleared: Value) -> Value:
            top, bottom = vertical(out)
            divisor = vertical.divisor(out)
            line(k.const(0, "i64"), width, lambda c, mask: k.store(none, row, c, element, mask))

            def one(at: Value) -> None:
                start, stop = horizontal(at)
                share = k.load(source, out * wide + at, element) / k.cast(divisor * horizontal.divisor(at), element)
                k.loop(start, stop, lambda c: k.store(k.load(row, c, element) + share, row, c, element))

            k.loop(0, wide, one)

            def write(r: Value) -> None:  # rows from ``cleared`` on have not been written yet
                def old(c: Value, mask: Value | None) -> None:
                    added = k.load(target, r * width + c, element, lanes, mask) + k.load(row, c, element, lanes, mask)
                    k.store(added, target, r * width + c, element, mask)

                def new(c: Value, mask: Value | None) -> None:
                    k.store(k.load(row, c, element, lanes, mask), target, r * width + c, element, mask)

                k.when(r < cleared, lambda: line(k.const(0, "i64"), width, old), lambda: line(k.const(0, "i64"), width, new))

            clear(cleared, top)
            cleared = k.most(cleared, top)
            k.loop(top, bottom, write)
            return k.most(cleared, bottom)

        def clear(start: Value, stop: Value) -> None:
            line(start * width, k.most(start, stop) * width, lambda c, mask: k.store(none, target, c, element, mask))

        clear(k.loop(0, high, output_row, carried=(k.const(0, "i64"),)), height)

    def chunk(c: Value) -> None:
        row = k.at(rows, c * width, element)
        k.loop(c * per, k.least((c + 1) * per, units), lambda u: unit(u, row))

    k.for_chunks(chunk)


# -- channels together -----------------------------------------------------------------------------------------------------------
@kernel
def pool_channels(k: Builder, element: str, way: str) -> None:
    """Pooling of ``(N, H, W, C)``."""
    x, y, down, across = k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, channels, per, units = (k.integer() for _ in range(9))
    lanes = k.lanes(element)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def unit(u: Value) -> None:
        line = u // wide
        at = u - line * wide
        image = line // high
        out = line - image * high
        (top, bottom), (left, right) = vertical(out), horizontal(at)
        source, target = k.at(x, image * height * width * channels, element), k.at(y, u * channels, element)
        divisor = k.cast(vertical.divisor(out) * horizontal.divisor(at), element) if way == "sum" else None

        def some(c: Value, mask: Value | None) -> None:
            def tap(r: Value, q: Value, value: Value) -> Value:
                return _MORE[way](k, [value], [k.load(source, (r * width + q) * channels + c, element, lanes, mask)])[0]

            value = k.loop(
                top,
                bottom,
                lambda r, value: k.loop(left, right, lambda q, value: tap(r, q, value), step=rate_x, carried=(value,)),
                step=rate_y,
                carried=(k.const(_NONE[way], element, lanes),),
            )
            k.store(value / k.splat(divisor, lanes) if divisor is not None else value, target, c, element, mask)

        k.vector_loop(0, channels, lanes, some)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


@kernel
def place_channels(k: Builder, element: str) -> None:
    """Maxima of ``(N, H, W, C)`` and their places in the plane: the first of equal ones, or the last NaN."""
    x, y, places, down, across = k.array(), k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, rate_y, rate_x, channels, per, units = (k.integer() for _ in range(9))
    lanes = k.lanes(element)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def unit(u: Value) -> None:
        line = u // wide
        at = u - line * wide
        image = line // high
        (top, bottom), (left, right) = vertical(line - image * high), horizontal(at)
        source = k.at(x, image * height * width * channels, element)

        def some(c: Value, mask: Value | None) -> None:
            def tap(r: Value, q: Value, best: Value, place: Value) -> tuple[Value, Value]:
                here = r * width + q
                value = k.load(source, here * channels + c, element, lanes, mask)
                better = (value > best) | value.is_nan() | (place < 0)
                return k.select(better, value, best), k.select(better, k.splat(k.cast(here, "i32"), lanes), place)

            best, place = k.loop(
                top,
                bottom,
                lambda r, *old: k.loop(left, right, lambda q, *old: tap(r, q, *old), step=rate_x, carried=old),
                step=rate_y,
                carried=(k.const(-math.inf, element, lanes), k.const(-1, "i32", lanes)),
            )
            k.store(best, y, u * channels + c, element, mask)
            k.store(k.cast(place, "i64"), places, u * channels + c, "i64", mask)

        k.vector_loop(0, channels, lanes, some)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


# -- gradients -------------------------------------------------------------------------------------------------------------------
@kernel
def add_at_places(k: Builder, element: str) -> None:
    """``y[n, places[n, i, c], c] += g[n, i, c]`` into zeros; a chunk has a block of the channels ``c`` of some ``n``."""
    g, places, y, bad = k.array(), k.array(), k.array(), k.array()
    area, count, channels, block, blocks, per, units = (k.integer() for _ in range(7))
    lanes = k.lanes(element)

    def unit(u: Value, wrong: Value) -> Value:
        plane = u // blocks
        first = (u - plane * blocks) * block
        stop = k.least(first + block, channels)
        target = k.at(y, plane * area * channels, element)
        none = k.const(0, element, lanes)

        def clear(start: Value, stop: Value) -> None:
            k.vector_loop(start, stop, lanes, lambda c, mask: k.store(none, target, c, element, mask))

        def clear_blocks() -> None:
            k.loop(0, area, lambda i: clear(i * channels + first, i * channels + stop))

        k.when(blocks.eq(1), lambda: clear(k.const(0, "i64"), area * channels), clear_blocks)

        def one(i: Value, wrong: Value) -> Value:
            place = k.load(places, i, "i64")
            good = Value(k, place.text, "u64") < Value(k, area.text, "u64")
            at = k.select(good, place, 0)
            k.store(k.load(target, at, element) + k.load(g, i, element), target, at, element)
            return wrong | ~good

        def channel(i: Value, c: Value, wrong: Value) -> Value:
            from_ = (plane * count + i) * channels + c
            place = k.load(places, from_, "i64")
            good = Value(k, place.text, "u64") < Value(k, area.text, "u64")
            at = k.select(good, place, 0) * channels + c
            k.store(k.load(target, at, element) + k.load(g, from_, element), target, at, element)
            return wrong | ~good

        def by_channels() -> Value:
            def line(i: Value, wrong: Value) -> Value:
                return k.loop(first, stop, lambda c, wrong: channel(i, c, wrong), carried=(wrong,))

            return k.loop(0, count, line, carried=(wrong,))

        start = plane * count
        return k.when(channels.eq(1), lambda: k.loop(start, start + count, one, carried=(wrong,)), by_channels)

    def chunk(c: Value) -> None:
        wrong = k.loop(c * per, k.least((c + 1) * per, units), unit, carried=(k.const(False, "b1"),))
        k.when(wrong, lambda: k.store(k.const(1, "i64"), bad, 0, "i64"))

    k.for_chunks(chunk)


@kernel
def spread_channels(k: Builder, element: str) -> None:
    """The gradient of an average over ``(N, H, W, C)``; a chunk has a block of the channels of one image."""
    g, y, down, across = k.array(), k.array(), k.array(), k.array()
    height, width, high, wide, channels, block, blocks = (k.integer() for _ in range(7))
    lanes = k.lanes(element)
    vertical, horizontal = _Limits(k, down, high), _Limits(k, across, wide)

    def chunk(u: Value) -> None:
        image = u // blocks
        first = (u - image * blocks) * block
        stop = k.least(first + block, channels)
        target = k.at(y, image * height * width * channels, element)
        none = k.const(0, element, lanes)

        def clear(at: Value) -> None:
            k.vector_loop(first, stop, lanes, lambda c, mask: k.store(none, target, at * channels + c, element, mask))

        def window(out: Value, at: Value) -> None:
            (top, bottom), (left, right) = vertical(out), horizontal(at)
            divisor = k.cast(vertical.divisor(out) * horizontal.divisor(at), element)
            from_ = ((image * high + out) * wide + at) * channels

            def some(c: Value, mask: Value | None) -> None:
                share = k.load(g, from_ + c, element, lanes, mask) / k.splat(divisor, lanes)

                def tap(place: Value) -> None:
                    k.store(k.load(target, place, element, lanes, mask) + share, target, place, element, mask)

                k.loop(top, bottom, lambda r: k.loop(left, right, lambda q: tap((r * width + q) * channels + c)))

            k.vector_loop(first, stop, lanes, some)

        def row(out: Value, cleared: Value) -> Value:
            _, bottom = vertical(out)
            k.loop(cleared * width, k.most(bottom, cleared) * width, clear)
            k.loop(0, wide, lambda at: window(out, at))
            return k.most(bottom, cleared)

        k.loop(k.loop(0, high, row, carried=(k.const(0, "i64"),)) * width, height * width, clear)

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
    bin_size = size // count
    return Axis(size, count, table, 1, bin_size, 0, count if size % count == 0 else 0, bin_size)


Axes = tuple[Axis, Axis]


def _windows(
    shape: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, count_padding: bool = True, divisor: Any = None
) -> Axes | None:
    """The axes of a pooling operation's arguments; None where they are not plainly right."""
    rank = len(kernel_size)
    if rank > 2 or len(shape) not in (rank + 1, rank + 2) or 0 in shape:
        return None
    stride = kernel_size if stride is None or stride == () or stride == [] else stride
    given = [
        argument if isinstance(argument, (tuple, list)) else (argument,) * rank for argument in (kernel_size, stride, padding, dilation)
    ]
    given = [argument * rank if len(argument) == 1 else argument for argument in map(tuple, given)]
    if any(len(argument) != rank or any(n.__class__ is not int for n in argument) for argument in given):
        return None
    divisors = (divisor, None if divisor is None else 1)
    return _pair(
        [
            window_axis(shape[i - rank], *[argument[i] for argument in given], bool(ceil_mode), bool(count_padding), divisors[i])
            for i in range(rank)
        ]
    )


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
        one = input.ndim == 4 and input.shape[1] == 1 and input.strides[1] < input.strides[2] * input.shape[2]
        return "" if one else "columns"  # one channel may be told to lie innermost, and then does in the result
    return "channels" if input.ndim == 4 and input.shape[1] > 1 and is_contiguous_as(input, channels_last) else ""


def _together(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else contiguous(array)


def _result(shape: tuple[int, ...], layout: str, dtype: Any) -> np.ndarray:
    if layout == "channels":
        return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)
    return empty(shape, dtype)


def _units(count: int, size: int) -> tuple[int, int, int]:
    """Chunks, units of each, and units, for ``count`` units of ``size`` bytes."""
    per = max(1, CHUNK // max(size, 1))
    return -(-count // per), per, count


Plan = Callable[[np.ndarray], Any]
_plans: dict[Any, Plan] = {}
PLANS = 4096  # kept at most


def _none(_: np.ndarray) -> None:
    """The plan for what is left to others."""


def _planned(make: Callable[..., Plan], array: np.ndarray, axes: Callable[..., Axes | None], given: Any, *more: Any) -> Plan:
    """What computes arrays like this one: ``make(array, axes(*given), *more)``, made once.

    What is ``given`` counts as it is written, because ``True`` and ``1`` are equal but not both right.
    """
    key = (make, more, axes, repr(given), array.dtype, array.shape, array.strides)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= PLANS:
            _plans.clear()
        axis_pair = axes(*given)
        plan = _plans[key] = _none if axis_pair is None else make(array, axis_pair, *more)
    return plan


def _pooling(input: np.ndarray, axes: Axes, rank: int, way: str) -> Plan:
    """Its result is for ``"place"`` two arrays, else one."""
    element, layout, dtype = _FLOATS.get(input.dtype), _layout(input), input.dtype
    y, x = axes
    if element is None or not layout or y.size * x.size >= 1 << 31:
        return _none  # places are counted in 32 bits
    shape = (*input.shape[: input.ndim - rank], *(y.count, x.count)[-rank:])
    both = way == "place"
    sizes = (y.size, x.size, y.count, x.count, y.rate, x.rate)
    taps = -(-y.size // y.count)
    rows_shape: tuple[int, int] | None = None
    if layout == "channels":
        images, channels = input.shape[:2]
        chunks, per, units = _units(images * y.count * x.count, channels * taps * taps * input.itemsize)
        kernel = place_channels(element) if both else pool_channels(element, way)
        call = kernel.call(chunks, y.table, x.table, *sizes, channels, per, units)
    else:
        chunks, per, units = _units(input.size // (y.size * x.size) * y.count, x.size * taps * input.itemsize)
        rows_shape = (chunks, x.size * (2 if both else 1))
        kernel = pool_planes(element, way, x.step if x.step < 5 else 0)
        call = kernel.call(chunks, y.table, x.table, *sizes, x.inner, x.inner_stop, x.taps, x.step, per, units)

    def run(input: np.ndarray) -> Any:
        result = _result(shape, layout, dtype)
        places = _result(shape, layout, np.int64) if both else result
        if rows_shape is not None:
            call(input, result, places, empty(rows_shape, dtype))
        elif both:
            call(input, result, places)
        else:
            call(input, result)
        return (result, places) if both else result

    return run


@native("nn.functional._max_pool1d", "nn.functional._max_pool2d")
def max_pool(input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> np.ndarray | None:
    given = (input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return _planned(_pooling, input, _windows, given, len(kernel_size), "max")(input)


@native("nn.functional._avg_pool1d", "nn.functional._avg_pool2d")
def average_pool(
    input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: Any
) -> np.ndarray | None:
    if divisor_override == 0:
        return None
    given = (input.shape, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override)
    return _planned(_pooling, input, _windows, given, len(kernel_size), "sum")(input)


@native("nn.functional._adaptive_avg_pool1d", "nn.functional._adaptive_avg_pool2d")
def adaptive_average(input: np.ndarray, size: Any) -> np.ndarray | None:
    return _planned(_pooling, input, _bins, (input.shape, size), len(size), "sum")(input)


@native("nn.functional._max_pool1d_with_places", "nn.functional._max_pool2d_with_places")
def max_pool_with_places(
    input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    given = (input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return _planned(_pooling, input, _windows, given, len(kernel_size), "place")(input)


@native("nn.functional._adaptive_max_pool1d", "nn.functional._adaptive_max_pool2d")
def adaptive_max(input: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray] | None:
    if len(size) == 1 and input.shape[-1] >= _WIDE * size[0]:
        return largest_of_bins(input, size)
    return _planned(_pooling, input, _bins, (input.shape, size), len(size), "place")(input)


@native("nn.functional._scatter_planes")
def scatter_planes(source: np.ndarray, indices: np.ndarray, spatial: Any) -> np.ndarray | None:
    element, rank = _FLOATS.get(source.dtype), len(spatial)
    lead, area = source.shape[: source.ndim - rank], math.prod(spatial)
    layout = _layout(indices)
    if element is None or not layout or indices.dtype != np.int64 or indices.shape != source.shape or not source.size or not area:
        return None
    result, bad = _result((*lead, *spatial), layout, source.dtype), np.zeros(1, np.int64)
    planes, channels, block = math.prod(lead), 1, 1
    if layout == "channels":
        planes, channels = lead
        block = min(channels, 64)
        source = np.moveaxis(source, 1, -1)
    source = _together(source)
    blocks = -(-channels // block)
    chunks, per, units = _units(planes * blocks, area * block * source.itemsize)
    arrays = (id(source), id(indices), id(result), id(bad))
    add_at_places(element)(chunks, *arrays, area, source.size // (planes * channels), channels, block, blocks, per, units)
    return None if bad[0] else result


def _spreading(grad_output: np.ndarray, axes: Axes, shape: tuple[int, ...]) -> Plan:
    element, layout, dtype = _FLOATS.get(grad_output.dtype), _layout(grad_output), grad_output.dtype
    if element is None or not grad_output.size:
        return _none
    y, x = axes
    sizes = (y.size, x.size, y.count, x.count)
    if layout == "channels":
        images, channels = shape[:2]
        block = min(channels, 64)
        blocks = -(-channels // block)
        by_channels = spread_channels(element).call(images * blocks, y.table, x.table, *sizes, channels, block, blocks)

        def run_channels(grad_output: np.ndarray) -> np.ndarray:
            result = _result(shape, layout, dtype)
            by_channels(grad_output, result)
            return result

        return run_channels
    area = y.size * x.size
    chunks, per, units = _units(math.prod(shape) // area, area * dtype.itemsize)
    by_planes = spread_planes(element).call(chunks, y.table, x.table, *sizes, per, units)

    def run(grad_output: np.ndarray) -> np.ndarray:
        result = empty(shape, dtype)
        by_planes(_together(grad_output), result, empty((chunks, x.size), dtype))
        return result

    return run


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
    given = (shape, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override)
    return _planned(_spreading, grad_output, _windows, given, shape)(grad_output)


@native("nn.functional._adaptive_avg_pool_backward")
def adaptive_average_backward(grad_output: np.ndarray, spatial: Any) -> np.ndarray | None:
    rank = len(spatial)
    if rank > 2:
        return None
    shape = (*grad_output.shape[: grad_output.ndim - rank], *spatial)
    return _planned(_spreading, grad_output, _bins, (shape, grad_output.shape[-rank:]), shape)(grad_output)


# -- large bins -----------------------------------------------------------------------------------------------------------------------
@kernel
def bin_places(k: Builder, element: str) -> None:
    """The largest element of each bin of a plane, and its place; a register holds neighbours of one row of the bin, a unit is a plane.

    Each lane keeps its first largest element or its last NaN; at the end the lanes are joined by the same rule.
    """
    x, values, places, limits = k.array(), k.array(), k.array(), k.array()
    depth, height, width, counts, per, units = (
        k.integer(),
        k.integer(),
        k.integer(),
        [k.integer() for _ in range(3)],
        k.integer(),
        k.integer(),
    )
    lanes = k.lanes(element)
    area, bins = depth * height * width, counts[0] * counts[1] * counts[2]
    offsets = [k.const(0, "i64"), counts[0] * 2, (counts[0] + counts[1]) * 2]

    def bounds(dim: int, i: Value) -> tuple[Value, Value]:
        return k.load(limits, offsets[dim] + i * 2, "i64"), k.load(limits, offsets[dim] + i * 2 + 1, "i64")

    def joined(a: tuple[Value, Value], b: tuple[Value, Value]) -> tuple[Value, Value]:
        later = (b[0] > a[0]) | (b[0].eq(a[0]) & (b[1] < a[1])) | (b[0].is_nan() & (~a[0].is_nan() | (b[1] > a[1])))
        return k.select(later, b[0], a[0]), k.select(later, b[1], a[1])

    def unit(u: Value) -> None:
        plane = k.at(x, u * area, element)

        def one(o: Value) -> None:
            down = o // counts[2]
            front, back = bounds(0, down // counts[1])
            top, bottom = bounds(1, down % counts[1])
            left, right = bounds(2, o % counts[2])
            first = k.cast((front * height + top) * width + left, "i32")

            def line(d: Value, h: Value, *kept: Value) -> Any:
                row = (d * height + h) * width

                def some(w: Value, mask: Value | None, best: Value, at: Value) -> tuple[Value, Value]:
                    here = k.load(plane, row + w, element, lanes, mask)
                    better = (here > best) | here.is_nan()
                    better = better if mask is None else better & mask
                    numbers = k.splat(k.cast(row + w, "i32"), lanes) + k.indices(lanes, "i32")
                    return k.select(better, here, best), k.select(better, numbers, at)

                return k.vector_loop(left, right, lanes, some, carried=kept)

            start = (k.const(float("-inf"), element, lanes), k.splat(first, lanes))
            state = k.loop(
                front, back, lambda d, *kept: k.loop(top, bottom, lambda h, *kept: line(d, h, *kept), carried=kept), carried=start
            )
            while state[0].lanes > 1:
                (low, high), (low_at, high_at) = k.halves(state[0]), k.halves(state[1])
                state = joined((low, low_at), (high, high_at))
            k.store(state[0], values, u * bins + o, element)
            k.store(k.cast(state[1], "i64"), places, u * bins + o, "i64")

        k.loop(0, bins, one)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


_WIDE = 16  # elements of a bin of a line, from which on a register holds them rather than neighbouring bins


def _is_plain(input: np.ndarray) -> bool:
    """Whether the result of an array lies row by row: not where channels lie innermost, or might."""
    return input.flags.c_contiguous and input.shape[1] != 1


@native("nn.functional._adaptive_max_pool3d")
def largest_of_bins(input: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray] | None:
    rank, element = len(size), _FLOATS.get(input.dtype)
    lead, spatial = input.shape[: input.ndim - rank], input.shape[input.ndim - rank :]
    area = math.prod(spatial)
    if element is None or not input.size or 0 in size or area >= 1 << 31 or (input.ndim > 3 and not _is_plain(input)):
        return None
    source = _together(input)
    sizes, counts = [1] * (3 - rank) + list(spatial), [1] * (3 - rank) + list(size)
    limits = np.array(
        [
            bound
            for n, count in zip(sizes, counts, strict=True)
            for b in range(count)
            for bound in (b * n // count, -(-(b + 1) * n // count))
        ],
        np.int64,
    )
    values, places = empty((*lead, *size), input.dtype), empty((*lead, *size), np.int64)
    chunks, per, units = _units(math.prod(lead), area * input.itemsize)
    bin_places(element)(chunks, *map(id, (source, values, places, limits)), *sizes, *counts, per, units)
    return values, places
