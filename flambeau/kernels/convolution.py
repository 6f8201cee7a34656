"""Convolutions of images and their gradients, as matrix products whose one factor is packed from the images on the way.

    forward            out[pixel, output]   = sum over (tap, channel)   input[pixel + tap, channel] * weight[output, channel, tap]
    input gradient     the same, with the output's gradient as input and the window turned round; for a stride of s each s-th row and
                       column of the result is a convolution of its own, with those taps that meet it
    weight gradient    weight[output, (tap, channel)] = sum over pixels  grad[pixel, output] * input[pixel + tap, channel]

Nothing of the size of all windows is ever written: a block of pixels is packed into scratch memory that stays in the second-level cache.
Blocks depend on sizes alone, so that the same bits come out for any number of threads.

All that follows from shapes, strides and geometry is worked out once: a *plan* is a function of the arrays, kept in ``_plans``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.arrays.native import native
from . import channels_last, depthwise, target as targets, volumes
from .language import KINDS
from .memory import empty
from .microkernel import Scratch, mode_of, plane_layout, store_mode, strides_of, tile_width
from .pool import pool
from .windows import PIXELS, channel_sums, further_rows, join_partial, pack_weight, sums_tile, windows_times_grad, windows_times_weight

DEPTH = 576  # rows of a panel: a strip of factors (18 KB) stays in the first-level cache
BAND = 640  # pixels of a band, at least
SUM_DEPTH, SUM_PIXELS = 144, 512  # the same of the weight gradient, whose panels are read once for each few outputs
ROOM = 1 << 20  # bytes of a band, at most: rows of very wide images are packed as panels
CHUNKS = 8  # that many chunks at least, where there is work enough for them


def _table(taps: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(taps, np.int64).reshape(-1, 3)


_CENTRE = _table([(0, 0, 0)])


def _described(array: np.ndarray, step: tuple[int, int], out: tuple[int, int], table: np.ndarray, group: int = 1) -> tuple[Any, ...]:
    """The arguments that ``images_of`` takes."""
    n, _, height, width = array.shape
    return (*strides_of(array), height, width, *step, *out, table, len(table), n, group)


def _band_costs(line: int, width: int, outputs: int, count: int) -> float:
    """What a pixel costs if rows are packed as they are, in units of its multiplications: pixels between rows are computed, too."""
    return line / width * (1 + 8 / (outputs * count))


def _panel_costs(x: np.ndarray, width: int, outputs: int) -> float:
    """The same if panels are packed: some 6 cycles a register, where a multiplication takes one.

    More if the planes lie multiples of 4 KB apart, so that all of them compete for the same few lines of the first-level cache.
    """
    return 1 + (18 if x.strides[1] % 4096 == 0 else 6) * max(1, 16 / width) / outputs


def _even(total: int, most: int) -> int:
    """The size of equal parts of ``total``, none larger than ``most``."""
    return -(-total // -(-total // max(1, min(most, total))))


def _rows(outputs: int, registers: int) -> int:
    """Outputs of a strip: as many as registers hold, fewer where there are fewer."""
    return 4 if outputs <= 4 else 6 if outputs <= 6 or registers < 32 else 8


def _product(
    x: np.ndarray,
    weight_strides: tuple[int, int, int],
    table: np.ndarray,
    step: tuple[int, int],
    out: np.ndarray,
    groups: int,
    channels: int,
) -> Callable[..., None]:
    """What does ``out[n, g o, y, x] = bias + sum of x[n, g c, y step + dy, x step + dx] * weight[...]`` for one table of taps.

    The result is a function of (x, weight, out, bias).
    """
    kind, count = KINDS[x.dtype], len(table)
    n, outputs, height, width = out.shape
    outputs //= groups
    target = targets.current()
    rows = _rows(outputs, target.registers)
    strips = -(-outputs // rows)
    panel = tile_width(target, rows) * (target.width // x.itemsize)
    block = _even(channels, DEPTH // max(1, count))
    factors_shape, dtype = (groups * strips * rows * channels * count,), x.dtype
    pack = pack_weight(kind, rows).call(groups * strips, table, count, channels, block, outputs, *weight_strides)
    to = strides_of(out)
    store = store_mode(out)
    overhangs = any(dy < 0 or (height - 1) * step[0] + dy >= x.shape[2] for dy in table[:, 0].tolist())
    group = min(n, -(-panel // width)) if overhangs else 1
    offsets, place = plane_layout(table.tobytes(), step, height, width) if count else (_CENTRE, (0,) * 8)
    line, pitch, band = place[3], 0, count > 0
    if band:
        rows_seen = 1 - (group > 1) * min(0.3, 0.7 / height)  # panels of a few rows leave out taps that meet no row
        quantum = -(-height * line // panel) * panel / (height * line)
        band = _band_costs(line, width, outputs, count) * quantum < _panel_costs(x, width, outputs) * rows_seen
    if band:
        tall = _even(height, -(-BAND // line))
        while tall > 8 and n * groups * -(-height // tall) < CHUNKS:
            tall = -(-tall // 2)
        offsets, place = plane_layout(table.tobytes(), step, tall, width)
        pixels, pixel_block, blocks = height * line, tall * line, n * -(-height // tall)
        pitch = (-(-place[6] * place[7] * place[2] * line // 16) | 1) * 16  # lines of different channels in different sets of the cache
        size = block * pitch + panel + line
        line_length, band = line, size * x.itemsize <= ROOM
    if not band:
        pixels = n * height * width
        pixel_block = min(PIXELS // panel * panel or panel, -(-pixels // panel) * panel)
        while pixel_block > panel and groups * -(-pixels // pixel_block) < CHUNKS:
            pixel_block -= panel
        blocks = -(-pixels // pixel_block)
        size = pixel_block * block * count + target.width // x.itemsize
        line_length = height * width if store == "row" and group == 1 and (to[2] == width or height == 1) else width
    strip_block = max(1, -(-strips // max(1, CHUNKS // (groups * blocks))))
    scratch = Scratch(size, dtype)
    description = _described(x, step, (height, width), table, 1 if band else group)
    multiply = windows_times_weight(kind, mode_of(x, step[1]), store, rows, band).call(
        groups * blocks * -(-strips // strip_block), offsets, *description, *place, *scratch.shape, pitch,
        channels, block, outputs, pixels, pixel_block, strip_block, line_length, *to,
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        factors = empty(factors_shape, dtype)
        pack(weight, factors)
        multiply(x, out, factors, bias, *scratch.take())

    return run


def _planes(array: np.ndarray) -> np.ndarray:
    """``array``, or a copy where neighbours in a row are not neighbours in memory."""
    if array.flags.c_contiguous or array.strides[3] == array.itemsize:
        return array
    return channels_last.to_planes(array) if _is_last(array) else np.ascontiguousarray(array)


def _is_last(array: np.ndarray) -> bool:
    """Whether channels are innermost, without gaps."""
    _, channels, height, width = array.shape
    size = array.itemsize
    return array.strides == (channels * height * width * size, size, channels * width * size, channels * size)


def _in_layout(planes: np.ndarray, last: bool) -> np.ndarray:
    """The result as PyTorch lays it out."""
    if not last:
        return planes
    out = _empty_last(planes.shape, planes.dtype)
    channels_last.from_planes(planes, out)
    return out


def _empty_last(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def _unfit(*arrays: np.ndarray, ranks: tuple[int, ...] = (3, 4)) -> bool:
    first = arrays[0]
    return first.ndim not in ranks or first.dtype not in _DTYPES or any(a.size == 0 or a.dtype != first.dtype for a in arrays)


_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


# -- plans ------------------------------------------------------------------------------------------------------------------------
Plan = Callable[..., np.ndarray | None]
_plans: dict[tuple[Any, ...], Plan] = {}
PLANS = 4096  # kept at most


def _planned(make: Callable[..., Plan], a: np.ndarray, b: np.ndarray, *geometry: Any) -> Plan:
    """The plan of ``make`` for arrays like these; it is a function of the arrays."""
    key = (make, a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides, geometry, pool.threads)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= PLANS:
            _plans.clear()
        plan = _plans[key] = _none if _unfit(a, b) else make(a, b, *geometry) if a.ndim == 4 else _of_lines(make, a, b, geometry)
    return plan


def _none(*_: Any) -> None:
    """The plan for what is left to others."""


def _line(array: np.ndarray) -> np.ndarray:
    """Images of one dimension as images of two, one row high."""
    return array[:, :, None]


def _of_lines(make: Callable[..., Plan], a: np.ndarray, b: np.ndarray, geometry: tuple[Any, ...]) -> Plan:
    """The plan for one dimension from that for two."""
    plan: Any = make(_line(a), _line(b), *geometry)

    def run(a: np.ndarray, b: np.ndarray, *bias: Any) -> np.ndarray:
        return plan(_line(a), _line(b), *bias)[:, :, 0]

    return run


def _flat(values: Any, fill: int) -> tuple[int, int]:
    return (values[0], values[1]) if len(values) == 2 else (fill, values[0])


def _correlation(x: np.ndarray, weight: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int, last: bool) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    height, width = (x.shape[2] + 2 * py - ey * (kh - 1) - 1) // sy + 1, (x.shape[3] + 2 * px - ex * (kw - 1) - 1) // sx + 1
    by, dtype = strides_of(weight), x.dtype
    table = _window_table(kh, kw, py, px, ey, ex, by[2], by[3])
    shape, zeros = (x.shape[0], outputs, height, width), np.zeros(outputs, dtype)
    innermost = channels == 1 and groups == outputs and last and _is_last(x)
    x, out = (x, _empty_last(shape, dtype)) if innermost else (_planes(x), empty(shape, dtype))
    if innermost:
        part = channels_last.convolution(x, weight, table, (sy, sx), out)
    elif channels == 1 and groups >= outputs // groups:
        part = depthwise.convolution(x, by[0], table, (sy, sx), out)
    else:
        part = _product(x, (outputs // groups * by[0], by[0], by[1]), table, (sy, sx), out, groups, channels)

    def run(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        bias = zeros if bias is None else np.ascontiguousarray(bias)
        if innermost:
            out = _empty_last(shape, dtype)
            part(x, weight, out, bias)
            return out
        out = empty(shape, dtype)
        part(_planes(x), weight, out, bias)
        return _in_layout(out, last)

    return run


def _spreading(
    grad: np.ndarray, weight: np.ndarray, spatial: Any, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    by, dtype = strides_of(weight), grad.dtype
    shape, zeros = (grad.shape[0], channels * groups, *_flat(spatial, 1)), np.zeros(channels * groups, dtype)
    is_depthwise = outputs == groups and channels == 1
    innermost = is_depthwise and last and _is_last(grad)
    grad, out = (grad, _empty_last(shape, dtype)) if innermost else (_planes(grad), empty(shape, dtype))

    def part(ry: int, rx: int) -> tuple[tuple[slice, ...], Callable[..., None]]:
        """What computes each ``sy``-th row and ``sx``-th column from ``ry`` and ``rx`` on, and where these lie."""
        table = _turned_table(kh, kw, ry + py, rx + px, ey, ex, sy, sx, by[2], by[3])
        where = (slice(None), slice(None), slice(ry, None, sy), slice(rx, None, sx))
        if innermost:
            return where, channels_last.convolution(grad, weight, table, (1, 1), out[where])
        if is_depthwise and len(table):
            return where, depthwise.convolution(grad, by[0], table, (1, 1), out[where])
        strides = (outputs // groups * by[0], by[1], by[0])
        return where, _product(grad, strides, table, (1, 1), out[where], groups, outputs // groups)

    parts = [part(ry, rx) for ry in range(min(sy, shape[2])) for rx in range(min(sx, shape[3]))]

    def run(grad: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        bias = zeros if bias is None else np.ascontiguousarray(bias)
        grad, out = (grad, _empty_last(shape, dtype)) if innermost else (_planes(grad), empty(shape, dtype))
        for where, compute in parts:
            compute(grad, weight, out[where], bias)
        return out if innermost else _in_layout(out, last)

    return run


@lru_cache(maxsize=1024)
def _window_table(kh: int, kw: int, py: int, px: int, ey: int, ex: int, by_y: int, by_x: int) -> np.ndarray:
    """Taps of a window: where each lies, and where its weight."""
    return _table([(y * ey - py, x * ex - px, y * by_y + x * by_x) for y in range(kh) for x in range(kw)])


@lru_cache(maxsize=1024)
def _turned_table(kh: int, kw: int, py: int, px: int, ey: int, ex: int, sy: int, sx: int, by_y: int, by_x: int) -> np.ndarray:
    """Taps through which one of the result's pixels was seen; of every ``sy``-th row and ``sx``-th column only."""
    return _table(
        [
            ((py - y * ey) // sy, (px - x * ex) // sx, y * by_y + x * by_x)
            for y in reversed(range(kh))
            if (py - y * ey) % sy == 0
            for x in reversed(range(kw))
            if (px - x * ex) % sx == 0
        ]
    )


def _weight_gradient(x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    kh, kw = _flat(kernel_size, 1)
    kind, dtype = KINDS[x.dtype], x.dtype
    n, outputs, height, width = grad.shape
    channels, outputs = x.shape[1] // groups, outputs // groups
    table = _window_table(kh, kw, py, px, ey, ex, 0, 0)
    count, shape = kh * kw, (groups * outputs, channels, kh, kw)
    if channels == 1 and outputs == 1 and len(kernel_size) == 2 and groups > 1 and _is_last(x) and _is_last(grad):
        innermost = channels_last.weight_gradient(x, grad, table, (sy, sx))
        return lambda x, grad: innermost(x, grad).reshape(shape)
    x, grad = _planes(x), _planes(grad)
    if channels == 1 and groups >= outputs:
        by_plane = depthwise.weight_gradient(x, grad, table, (sy, sx))
        return lambda x, grad: by_plane(_planes(x), _planes(grad)).reshape(shape)
    target = targets.current()
    lanes = target.width // dtype.itemsize
    rows, columns = sums_tile(target)
    size = -(-rows * columns // lanes) * lanes
    offsets, place = plane_layout(table.tobytes(), (sy, sx), height, width)
    line, between_channels = place[3], 0
    band = _band_costs(line, width, outputs, count) < _panel_costs(x, width, outputs)
    if band:
        block = _even(channels, 2 * SUM_DEPTH // count)
        pixel_block = min(height, -(-SUM_PIXELS // line))
        offsets, place = plane_layout(table.tobytes(), (sy, sx), pixel_block, width)
        extra = further_rows(line, lanes)
        between_channels = (-(-(place[6] * place[7] * place[2] + extra) * line // 16) | 1) * 16
        pixels = n * -(-height // pixel_block)  # counted in blocks
        unit, pitch, room_panel = 1, pixel_block * line, block * between_channels + line + lanes
        band = room_panel * dtype.itemsize <= ROOM
    if not band:
        block = _even(channels, SUM_DEPTH // count)
        pixels = n * height * width
        unit = pitch = pixel_block = -(-_even(pixels, SUM_PIXELS) // lanes) * lanes
    pitch = pitch // lanes * lanes + 2 * lanes
    blocks = groups * -(-channels // block)
    units = -(-pixels // unit)
    split = -(-units // max(1, min(units, CHUNKS // blocks))) * unit
    splits = -(-pixels // split)
    output_tiles, tiles = -(-outputs // rows), -(-block * count // columns)
    output_block = min(16, output_tiles) * rows
    apart = blocks * output_tiles * tiles * size
    if not band:
        room_panel = tiles * columns * pitch
    scratch = Scratch(room_panel + output_block * pitch, dtype)
    multiply = windows_times_grad(kind, mode_of(x, sx), mode_of(grad, 1), band).call(
        splits * blocks, offsets, *_described(x, (sy, sx), (height, width), table),
        *_described(grad, (1, 1), (height, width), _CENTRE), *place, *scratch.shape, room_panel, between_channels,
        channels, block, outputs, output_block, pixels, pixel_block, split, apart,
    )  # fmt: skip
    join = join_partial(kind).call(blocks * output_tiles, count, channels, block, outputs, splits, apart)
    partial_shape = (splits * apart,)

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        partial, result = empty(partial_shape, dtype), empty(shape, dtype)
        multiply(_planes(x), _planes(grad), partial, *scratch.take())
        join(partial, result)
        return result

    return run


# -- operations -------------------------------------------------------------------------------------------------------------------
@native("_correlate")
def correlate(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray | None:
    """The convolution; geometry has been checked."""
    if x.ndim == 5:
        return (
            None
            if last or _unfit(x, weight, ranks=(5,))
            else volumes.correlate(correlate, x, weight, bias, stride, padding, dilation, groups)
        )
    return _planned(_correlation, x, weight, stride, padding, dilation, groups, last)(x, weight, bias)


@native("_spread")
def spread(
    grad: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    spatial: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    last: bool,
) -> np.ndarray | None:
    """The gradient with respect to the input, which is the transposed convolution."""
    if grad.ndim == 5:
        unfit = last or _unfit(grad, weight, ranks=(5,))
        return None if unfit else volumes.spread(spread, grad, weight, bias, spatial, stride, padding, dilation, groups)
    return _planned(_spreading, grad, weight, spatial, stride, padding, dilation, groups, last)(grad, weight, bias)


@native("_correlate_pair")
def correlate_pair(
    x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to the weight."""
    if x.ndim == 5:
        unfit = _unfit(x, grad, ranks=(5,))
        return None if unfit else volumes.correlate_pair(correlate_pair, x, grad, kernel_size, stride, padding, dilation, groups)
    return _planned(_weight_gradient, x, grad, kernel_size, stride, padding, dilation, groups)(x, grad)


@native("_channel_sums")
def sums_of_channels(x: np.ndarray) -> np.ndarray | None:
    if not x.flags.c_contiguous or x.dtype not in _DTYPES or x.size == 0:
        return None
    out = empty((x.shape[1],), x.dtype)
    size = x[0, 0].size
    channel_sums(KINDS[x.dtype])(x.shape[1], id(x), id(out), x.shape[0], size, x.shape[1] * size, size)
    return out
