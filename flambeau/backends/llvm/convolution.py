"""Convolutions of images and their gradients, as matrix products whose one factor is packed from the images on the way.

    forward            out[pixel, output]   = sum over (tap, channel)   input[pixel + tap, channel] * weight[output, channel, tap]
    input gradient     the same, with the output's gradient as input and the window turned round; for a stride of s each s-th row and
                       column of the result is a convolution of its own, with those taps that meet it
    weight gradient    weight[output, (tap, channel)] = sum over pixels  grad[pixel, output] * input[pixel + tap, channel]

Nothing of the size of all windows is ever written: a block of pixels is packed into scratch memory that stays in the second-level cache.
Blocks depend on sizes alone, so that the same bits come out for any number of threads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...core.native import native
from . import channels_last, depthwise
from . import target as targets
from .language import KINDS
from .memory import empty
from .microkernel import mode_of, plane_layout, scratch_memory, store_mode, strides_of, tile_width
from .windows import PIXELS, channel_sums, join_partial, pack_weight, sums_tile, windows_times_grad, windows_times_weight

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
    return (*strides_of(array), height, width, *step, *out, id(table), len(table), n, group)


def _band_costs(line: int, width: int, outputs: int, count: int) -> float:
    """What a pixel costs if rows are packed as they are, in units of its multiplications: pixels between rows are computed, too."""
    return line / width * (1 + 8 / (outputs * count))


def _panel_costs(width: int, outputs: int) -> float:
    """The same if panels are packed, some 6 cycles a register, where a multiplication takes one."""
    return 1 + 6 * max(1, 16 / width) / outputs


def _even(total: int, most: int) -> int:
    """The size of equal parts of ``total``, none larger than ``most``."""
    return -(-total // -(-total // max(1, min(most, total))))


def _rows(outputs: int, registers: int) -> int:
    """Outputs of a strip: as many as registers hold, fewer where there are fewer."""
    return 4 if outputs <= 4 else 6 if outputs <= 6 or registers < 32 else 8


def _convolve(
    x: np.ndarray,
    weight: np.ndarray,
    weight_strides: tuple[int, int, int],
    table: np.ndarray,
    step: tuple[int, int],
    out: np.ndarray,
    bias: np.ndarray,
    groups: int,
    channels: int,
) -> None:
    """``out[n, g o, y, x] = bias + sum of x[n, g c, y step + dy, x step + dx] * weight[...]`` for one table of taps."""
    kind, count = KINDS[x.dtype], len(table)
    n, outputs, height, width = out.shape
    outputs //= groups
    target = targets.current()
    rows = _rows(outputs, target.registers)
    strips = -(-outputs // rows)
    panel = tile_width(target, rows) * (target.width // x.itemsize)
    block = _even(channels, DEPTH // max(1, count))
    factors = empty((groups * strips * rows * channels * count,), x.dtype)
    pack_weight(kind, rows)(groups * strips, id(weight), id(factors), id(table), count, channels, block, outputs, *weight_strides)
    to = strides_of(out)
    store = store_mode(out)
    overhangs = any(dy < 0 or (height - 1) * step[0] + dy >= x.shape[2] for dy in table[:, 0].tolist())
    group = min(n, -(-panel // width)) if overhangs else 1
    offsets, place = plane_layout(table.tobytes(), step, height, width) if count else (_CENTRE, (0,) * 8)
    line, pitch, band = place[3], 0, count > 0
    if band:
        rows_seen = 1 - (group > 1) * min(0.3, 0.7 / height)  # panels of a few rows leave out taps that meet no row
        quantum = -(-height * line // panel) * panel / (height * line)
        band = _band_costs(line, width, outputs, count) * quantum < _panel_costs(width, outputs) * rows_seen
    if band:
        tall = min(height, max(1, -(-BAND // line)))
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
        size = pixel_block * block * count
        line_length = height * width if store == "row" and group == 1 and (to[2] == width or height == 1) else width
    strip_block = max(1, -(-strips // max(1, CHUNKS // (groups * blocks))))
    flags, room = scratch_memory(size, x.dtype)
    description = _described(x, step, (height, width), table, 1 if band else group)
    windows_times_weight(kind, mode_of(x, step[1]), store, rows, band)(
        groups * blocks * -(-strips // strip_block), id(x), id(out), id(factors), id(bias), id(flags), id(room), id(offsets), *description,
        *place, *room.shape, pitch, channels, block, outputs, pixels, pixel_block, strip_block, line_length, *to,
    )  # fmt: skip


def _planar(array: np.ndarray) -> np.ndarray:
    """Images of one dimension as images of two, one row high."""
    return array if array.ndim == 4 else array[:, :, None]


def _flat(values: Any, fill: int) -> tuple[int, int]:
    return (values[0], values[1]) if len(values) == 2 else (fill, values[0])


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


def _in_layout(planes: np.ndarray, last: bool, rank: int) -> np.ndarray:
    """The result as PyTorch lays it out."""
    if rank == 3:
        return planes[:, :, 0]
    if not last:
        return planes
    out = _empty_last(planes.shape, planes.dtype)
    channels_last.from_planes(planes, out)
    return out


def _empty_last(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def _unfit(*arrays: np.ndarray) -> bool:
    first = arrays[0]
    return first.ndim not in (3, 4) or first.dtype not in _DTYPES or any(a.size == 0 or a.dtype != first.dtype for a in arrays)


_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@native("_correlate")
def correlate(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray | None:
    """The convolution; geometry has been checked."""
    if _unfit(x, weight):
        return None
    rank = x.ndim
    x, weight = _planar(x), _planar(weight)
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    height, width = (x.shape[2] + 2 * py - ey * (kh - 1) - 1) // sy + 1, (x.shape[3] + 2 * px - ex * (kw - 1) - 1) // sx + 1
    by = strides_of(weight)
    table = _window_table(kh, kw, py, px, ey, ex, by[2], by[3])
    shape = (x.shape[0], outputs, height, width)
    bias = np.zeros(outputs, x.dtype) if bias is None else np.ascontiguousarray(bias)
    if channels == 1 and groups == outputs and last and _is_last(x):
        out = _empty_last(shape, x.dtype)
        channels_last.convolve(x, _tap_major(weight, table), table, (sy, sx), out, bias)
        return out
    x, out = _planes(x), empty(shape, x.dtype)
    if channels == 1 and groups >= outputs // groups:
        depthwise.convolve(x, weight, by[0], table, (sy, sx), out, bias)
    else:
        _convolve(x, weight, (outputs // groups * by[0], by[0], by[1]), table, (sy, sx), out, bias, groups, channels)
    return _in_layout(out, last, rank)


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
    if _unfit(grad, weight):
        return None
    rank = grad.ndim
    grad, weight = _planar(grad), _planar(weight)
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    by = strides_of(weight)
    shape = (grad.shape[0], channels * groups, *_flat(spatial, 1))
    bias = np.zeros(channels * groups, grad.dtype) if bias is None else np.ascontiguousarray(bias)
    each, innermost = outputs == groups and channels == 1, False
    if each and last and _is_last(grad):
        out, innermost = _empty_last(shape, grad.dtype), True
    else:
        grad, out = _planes(grad), empty(shape, grad.dtype)
    for ry in range(min(sy, out.shape[2])):
        for rx in range(min(sx, out.shape[3])):
            table = _turned_table(kh, kw, ry + py, rx + px, ey, ex, sy, sx, by[2], by[3])
            part = out[:, :, ry::sy, rx::sx]
            if innermost:
                channels_last.convolve(grad, _tap_major(weight, table), table, (1, 1), part, bias)
                continue
            if each and len(table):
                depthwise.convolve(grad, weight, by[0], table, (1, 1), part, bias)
                continue
            _convolve(grad, weight, (outputs // groups * by[0], by[1], by[0]), table, (1, 1), part, bias, groups, outputs // groups)
    return out if innermost else _in_layout(out, last, rank)


def _tap_major(weight: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Depthwise weights as ``(tap, channel)`` in the order of a table of taps."""
    by = strides_of(weight)
    places = [(y * by[2] + x * by[3]) for y in range(weight.shape[2]) for x in range(weight.shape[3])]
    order = [places.index(place) for place in table[:, 2].tolist()]
    return np.ascontiguousarray(weight.reshape(len(weight), -1).T[order])


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


@native("_correlate_pair")
def correlate_pair(
    x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to the weight."""
    if _unfit(x, grad):
        return None
    rank = x.ndim
    x, grad = _planar(x), _planar(grad)
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    kh, kw = _flat(kernel_size, 1)
    kind, dtype = KINDS[x.dtype], x.dtype
    n, outputs, height, width = grad.shape
    channels, outputs = x.shape[1] // groups, outputs // groups
    table = _window_table(kh, kw, py, px, ey, ex, 0, 0)
    count = kh * kw
    if channels == 1 and outputs == 1 and rank == 4 and groups > 1 and _is_last(x) and _is_last(grad):
        return channels_last.correlate_pair(x, grad, table, (sy, sx)).reshape(groups, 1, kh, kw)
    x, grad = _planes(x), _planes(grad)
    if channels == 1 and groups >= outputs:
        made = depthwise.correlate_pair(x, grad, table, (sy, sx))
        return made.reshape(groups * outputs, 1, *kernel_size)
    target = targets.current()
    lanes = target.width // dtype.itemsize
    rows, columns = sums_tile(target)
    size = -(-rows * columns // lanes) * lanes
    offsets, place = plane_layout(table.tobytes(), (sy, sx), height, width)
    line, between_channels = place[3], 0
    band = _band_costs(line, width, outputs, count) < _panel_costs(width, outputs)
    if band:
        block = _even(channels, 2 * SUM_DEPTH // count)
        pixel_block = min(height, -(-SUM_PIXELS // line))
        offsets, place = plane_layout(table.tobytes(), (sy, sx), pixel_block, width)
        extra = lanes // line + 1
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
    partial = empty((splits * apart,), dtype)
    flags, room = scratch_memory(room_panel + output_block * pitch, dtype)
    windows_times_grad(kind, mode_of(x, sx), mode_of(grad, 1), band)(
        splits * blocks, id(x), id(grad), id(partial), id(flags), id(room), id(offsets),
        *_described(x, (sy, sx), (height, width), table),
        *_described(grad, (1, 1), (height, width), _CENTRE), *place, *room.shape, room_panel, between_channels,
        channels, block, outputs, output_block, pixels, pixel_block, split, apart,
    )  # fmt: skip
    made = empty((groups * outputs, channels, kh, kw), dtype)
    join_partial(kind)(blocks * output_tiles, id(partial), id(made), count, channels, block, outputs, splits, apart)
    return made if rank == 4 else made[:, :, 0]


@native("_channel_sums")
def sums_of_channels(x: np.ndarray) -> np.ndarray | None:
    if not x.flags.c_contiguous or x.dtype not in _DTYPES or x.size == 0:
        return None
    out = empty((x.shape[1],), x.dtype)
    size = x[0, 0].size
    channel_sums(KINDS[x.dtype])(x.shape[1], id(x), id(out), x.shape[0], size, x.shape[1] * size, size)
    return out
