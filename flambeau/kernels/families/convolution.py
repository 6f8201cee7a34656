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

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import ml_dtypes
import numpy as np

from ...core.arrays.native import native
from ...core.layout import is_channels_last
from ..compiler import target as targets
from ..compiler.language import ELEMENTS, FLOATS
from ..compiler.memory import empty
from ..compiler.pool import pool
from . import channels_last, depthwise, tiled_convolution, volumes
from .gemm import multiply, own_plan
from .microkernel import (
    Place,
    Scratch,
    images_of,
    mode_of,
    plane_layout,
    store_mode,
    strides_of,
    strides_of_images,
    tile_width,
)  # fmt: skip
from .windows import PIXELS, channel_sums, further_rows, join_partial, pack_weight, sums_tile, windows_times_grad, windows_times_weight

DEPTH = 576  # rows of a panel: a strip of factors (18 KB) stays in the first-level cache
BAND = 640  # pixels of a band, at least
SUM_DEPTH, SUM_PIXELS = 144, 512  # the same of the weight gradient, whose panels are read once for each few outputs
ROOM = 1 << 20  # bytes of a band, at most: rows of very wide images are packed as panels
CHUNKS = 8  # that many chunks at least, where there is work enough for them
Pair = tuple[int, int]  # of the rows and of the columns


def _table(taps: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(taps, np.int64).reshape(-1, 3)


_CENTRE = _table([(0, 0, 0)])
_NOWHERE = Place(y0=0, x0=0, rows=0, pitch=0, step_y=0, step_x=0, phases_y=0, phases_x=0)  # of panels, which have no use for it


def _band_costs(line: int, width: int, outputs: int, count: int) -> float:
    """Cost of a pixel, in units of its multiplications, if rows are packed as they are: pixels between rows are computed, too."""
    return line / width * (1 + 8 / (outputs * count))


def _panel_costs(x: np.ndarray, width: int, outputs: int) -> float:
    """The same if panels are packed: some 6 cycles a register, where a multiplication takes one.

    More if the planes lie multiples of 4 KB apart, so that all of them compete for the same few lines of the first-level cache.
    """
    return 1 + (18 if x.strides[1] % 4096 == 0 else 6) * max(1, 16 / width) / outputs


def _even(total: int, most: int) -> int:
    """The size of equal parts of ``total``, none larger than ``most``."""
    return -(-total // -(-total // max(1, min(most, total))))


def _spread_over_sets(elements: int) -> int:
    """As many elements or some more, so that lines of different channels lie in different sets of the cache."""
    return (-(-elements // 16) | 1) * 16


# -- products: forward, and the input gradient ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Cut:
    """Division of the pixels of a product into blocks; lengths are in elements.

    Attributes:
        place, table: of a band, and of the distances in it; ``_NOWHERE`` for panels.
        size: of the packed block.
        pixels, pixel_block: as the kernel counts them.
        blocks: how many there are.
        line: pixels that lie side by side in the result.
        apart: from a channel's band to the next one's.
        group: images whose pixels are taken row by row.
    """

    place: Place
    table: np.ndarray
    size: int
    pixels: int
    pixel_block: int
    blocks: int
    line: int
    apart: int = 0
    group: int = 1


@dataclass(frozen=True, slots=True)
class _Product:
    """``out[n, g o, y, x] = bias + sum of x[n, g c, y step + dy, x step + dx] * weight[...]`` for one table of taps.

    Attributes:
        block: channels that are packed at once.
        panel: pixels of a tile.
    """

    x: np.ndarray
    out: np.ndarray
    table: np.ndarray
    step: Pair
    groups: int
    block: int
    panel: int

    def cut(self) -> _Cut:
        return self._bands() or self._panels()

    def _group(self) -> int:
        """Images whose pixels are taken row by row, where windows overhang the image above or below."""
        n, _, height, width = self.out.shape
        overhangs = any(dy < 0 or (height - 1) * self.step[0] + dy >= self.x.shape[2] for dy in self.table[:, 0].tolist())
        return min(n, -(-self.panel // width)) if overhangs else 1

    def _bands(self) -> _Cut | None:
        """Blocks of rows of an image; None where panels cost less, or a row is too wide."""
        (n, outputs, height, width), count = self.out.shape, len(self.table)
        if not count:
            return None
        line = plane_layout(self.table.tobytes(), self.step, height, width)[1].pitch
        outputs //= self.groups
        rows_seen = 1 - (self._group() > 1) * min(0.3, 0.7 / height)  # panels of a few rows leave out taps that meet no row
        quantum = -(-height * line // self.panel) * self.panel / (height * line)
        if _band_costs(line, width, outputs, count) * quantum >= _panel_costs(self.x, width, outputs) * rows_seen:
            return None
        tall = _even(height, -(-BAND // line))
        while tall > 8 and n * self.groups * -(-height // tall) < CHUNKS:
            tall = -(-tall // 2)
        table, place = plane_layout(self.table.tobytes(), self.step, tall, width)
        apart = _spread_over_sets(place.phases_y * place.phases_x * place.rows * line)
        size = self.block * apart + self.panel + line
        if size * self.x.itemsize > ROOM:
            return None
        return _Cut(place, table, size, height * line, tall * line, n * -(-height // tall), line, apart)

    def _panels(self) -> _Cut:
        """Blocks of any pixels."""
        (n, _, height, width), group, panel = self.out.shape, self._group(), self.panel
        pixels = n * height * width
        pixel_block = min(PIXELS // panel * panel or panel, -(-pixels // panel) * panel)
        while pixel_block > panel and self.groups * -(-pixels // pixel_block) < CHUNKS:
            pixel_block -= panel
        size = pixel_block * self.block * len(self.table) + targets.current().width // self.x.itemsize
        is_one_line = store_mode(self.out) == "row" and group == 1 and (strides_of(self.out)[2] == width or height == 1)
        line = height * width if is_one_line else width
        return _Cut(_NOWHERE, _CENTRE, size, pixels, pixel_block, -(-pixels // pixel_block), line, group=group)


def _rows(outputs: int, registers: int) -> int:
    """Outputs of a strip: as many as registers hold, fewer where there are fewer."""
    return 4 if outputs <= 4 else 6 if outputs <= 6 or registers < 32 else 8


def _product(
    x: np.ndarray, by_weight: tuple[int, int, int], table: np.ndarray, step: Pair, out: np.ndarray, groups: int, channels: int
) -> Callable[..., None]:
    """Function of (x, weight, out, bias) that computes a ``_Product``.

    ``by_weight`` are the weight's strides from group to group, output to output and channel to channel.
    """
    tiled = _tiled_product(x, by_weight, table, step, out, groups, channels)
    return tiled or _plain_product(x, by_weight, table, step, out, groups, channels)


def _require_wide(x: np.ndarray) -> None:
    """Raise _LeftToOthersError for numbers that are multiplied in tiles only."""
    if x.dtype not in FLOATS:
        raise _LeftToOthersError


def _tiled_product(
    x: np.ndarray, by_weight: tuple[int, int, int], table: np.ndarray, step: Pair, out: np.ndarray, groups: int, channels: int
) -> Callable[..., None] | None:
    """The same in tile registers, where that is quicker."""

    def plain(x: np.ndarray, out: np.ndarray) -> Callable[..., None]:
        return _plain_product(x, by_weight, table, step, out, groups, channels)

    return tiled_convolution.product(x, by_weight, table, step, out, groups, channels, plain)


def _plain_product(
    x: np.ndarray, by_weight: tuple[int, int, int], table: np.ndarray, step: Pair, out: np.ndarray, groups: int, channels: int
) -> Callable[..., None]:
    """The same without tiles."""
    _require_wide(x)
    element, dtype, count = ELEMENTS[x.dtype], x.dtype, len(table)
    outputs, target = out.shape[1] // groups, targets.current()
    rows = _rows(outputs, target.registers)
    strips, block = -(-outputs // rows), _even(channels, DEPTH // max(1, count))
    cut = _Product(x, out, table, step, groups, block, panel=tile_width(target, rows) * (target.width // x.itemsize)).cut()
    strip_block = max(1, -(-strips // max(1, CHUNKS // (groups * cut.blocks))))
    factors_shape, scratch = (groups * strips * rows * channels * count,), Scratch(cut.size, dtype)
    pack = pack_weight(element, rows).bind(
        groups * strips, taps=table, count=count, channels=channels, block=block, outputs=outputs,
        by_group=by_weight[0], by_output=by_weight[1], by_channel=by_weight[2],
    )  # fmt: skip
    multiply = windows_times_weight(element, mode_of(x, step[1]), store_mode(out), rows, cut.place is not _NOWHERE).bind(
        groups * cut.blocks * -(-strips // strip_block), table=cut.table, place=cut.place,
        images=images_of(x, step, out.shape[2:], table, cut.group), pieces=scratch.pieces, room_size=scratch.size, apart=cut.apart,
        channels=channels, block=block, outputs=outputs, pixels=cut.pixels, pixel_block=cut.pixel_block, strip_block=strip_block,
        line=cut.line, to=strides_of_images(out),
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        factors = empty(factors_shape, dtype)
        pack(weight=weight, target=factors)
        flags, room = scratch.take()
        multiply(source=x, out=out, factors=factors, bias=bias, flags=flags, room=room)

    return run


# -- layouts ----------------------------------------------------------------------------------------------------------------------
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


def _unfit(*arrays: np.ndarray, ranks: tuple[int, ...] = (3, 4), dtypes: Collection[np.dtype] = FLOATS) -> bool:
    first = arrays[0]
    return first.ndim not in ranks or first.dtype not in dtypes or any(a.size == 0 or a.dtype != first.dtype for a in arrays)


# -- plans ------------------------------------------------------------------------------------------------------------------------
Plan = Callable[..., np.ndarray | None]
_plans: dict[tuple[Any, ...], Plan] = {}
PLANS = 4096  # kept at most
_NUMBERS = frozenset((*FLOATS, np.dtype(ml_dtypes.bfloat16)))
_MANY_PIXELS = 400  # of an image: from here on each is a product of its own, and smaller ones share panels


def _planned(make: Callable[..., Plan], a: np.ndarray, b: np.ndarray, *geometry: Any) -> Plan:
    """The plan of ``make`` for arrays like these; it is a function of the arrays."""
    key = (make, a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides, geometry, pool.threads)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= PLANS:
            _plans.clear()
        plan = _plans[key] = _made(make, a, b, geometry)
    return plan


class _LeftToOthersError(Exception):
    """There is no kernel for these numbers."""


def _made(make: Callable[..., Plan], a: np.ndarray, b: np.ndarray, geometry: tuple[Any, ...]) -> Plan:
    if _unfit(a, b, dtypes=_NUMBERS):
        return _none
    try:
        return make(a, b, *geometry) if a.ndim == 4 else _of_lines(make, a, b, geometry)
    except _LeftToOthersError:
        return _none


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


def _flat(values: Any, fill: int) -> Pair:
    return (values[0], values[1]) if len(values) == 2 else (fill, values[0])


def _bias_dtype(dtype: np.dtype) -> np.dtype:
    """Of the numbers that sums begin with."""
    return dtype if dtype in FLOATS else np.dtype(np.float32)


def _correlation(x: np.ndarray, weight: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int, last: bool) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    height, width = (x.shape[2] + 2 * py - ey * (kh - 1) - 1) // sy + 1, (x.shape[3] + 2 * px - ex * (kw - 1) - 1) // sx + 1
    by, dtype = strides_of(weight), x.dtype
    table = _window_table((kh, kw), (py, px), (ey, ex), (by[2], by[3]))
    shape, zeros = (x.shape[0], outputs, height, width), np.zeros(outputs, _bias_dtype(dtype))
    few = len(x) > 1 and height * width < _MANY_PIXELS
    has_one_place = groups == kh == kw == sy == sx == 1 and py == px == 0
    are_matrices = has_one_place and x.flags.c_contiguous and not last and not few
    by_weight, step = (outputs // groups * by[0], by[0], by[1]), (sy, sx)
    is_depthwise, part = channels == 1 and groups >= outputs // groups, None
    if is_depthwise:
        _require_wide(x)
    if last and _is_last(x):
        out = _empty_last(shape, dtype)
        if not is_depthwise:
            part = _tiled_product(x, by_weight, table, step, out, groups, channels)
            if part is None and has_one_place:
                return partial(_each_place, True)
        elif groups == outputs:
            part = channels_last.convolution(x, weight, table, step, out)
    stays_last = part is not None
    if part is None:
        x, out = _planes(x), empty(shape, dtype)
        if is_depthwise:
            part = depthwise.convolution(x, by[0], table, step, out)
        else:
            part = _tiled_product(x, by_weight, table, step, out, groups, channels)
            if part is None and are_matrices and dtype in FLOATS:
                return _products_of_images(x, weight)
            part = part or _plain_product(x, by_weight, table, step, out, groups, channels)

    def run(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        bias = zeros if bias is None else np.ascontiguousarray(bias, zeros.dtype)
        x, out = (x, _empty_last(shape, dtype)) if stays_last else (_planes(x), empty(shape, dtype))
        part(x, weight, out, bias)
        return out if stays_last else _in_layout(out, last)

    return run


def _each_place(forward: bool, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray | None:
    """A window of one place over images whose channels are innermost: one product of all pixels; ``forward``, or its adjoint."""
    n, channels, height, width = x.shape
    matrix = weight[:, :, 0, 0].T if forward else weight[:, :, 0, 0]
    bias = None if bias is None else np.ascontiguousarray(bias)
    result = multiply(x.transpose(0, 2, 3, 1).reshape(-1, channels), matrix, bias, 0)
    return None if result is None else np.moveaxis(result.reshape(n, height, width, -1), -1, 1)


def _products_of_images(x: np.ndarray, weight: np.ndarray) -> Plan:
    """A window of one place over row-major images: the weight times each image's matrix of channels and pixels."""
    (n, channels, height, width), size, outputs = x.shape, x.itemsize, len(weight)
    pixels, dtype, zeros = height * width, x.dtype, np.zeros(outputs, x.dtype)
    factors = (n, outputs, channels), (0, *weight.strides[:2])
    launch = own_plan(dtype, factors, ((n, channels, pixels), (channels * pixels * size, pixels * size, size)), "rows")
    if launch is None:
        return _none

    def run(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        out = empty((n, outputs, height, width), dtype)
        launch(weight, x, out, zeros if bias is None else np.ascontiguousarray(bias))
        return out

    return run


def _spreading(
    grad: np.ndarray, weight: np.ndarray, spatial: Any, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    by, dtype = strides_of(weight), grad.dtype
    shape, zeros = (grad.shape[0], channels * groups, *_flat(spatial, 1)), np.zeros(channels * groups, _bias_dtype(dtype))
    is_depthwise = outputs == groups and channels == 1
    places = [(ry, rx) for ry in range(min(sy, shape[2])) for rx in range(min(sx, shape[3]))]
    tables = {place: _turned_table((kh, kw), (place[0] + py, place[1] + px), (ey, ex), (sy, sx), (by[2], by[3])) for place in places}
    seen = [place for place in places if len(tables[place])]
    wheres = [(slice(None), slice(None), slice(ry, None, sy), slice(rx, None, sx)) for ry, rx in seen]
    by_weight = (outputs // groups * by[0], by[1], by[0])

    def part(grad: np.ndarray, out: np.ndarray, table: np.ndarray, stays_last: bool) -> Callable[..., None] | None:
        """The function that computes each ``sy``-th row and ``sx``-th column; None where channels are to stay innermost, and cannot."""
        if is_depthwise:
            _require_wide(grad)
            innermost = stays_last and channels_last.convolution(grad, weight, table, (1, 1), out)
            return innermost or depthwise.convolution(grad, by[0], table, (1, 1), out)
        product = _tiled_product if stays_last else _product
        return product(grad, by_weight, table, (1, 1), out, groups, outputs // groups)

    def parts_of(grad: np.ndarray, out: np.ndarray, stays_last: bool) -> list[Callable[..., None] | None]:
        return [part(grad, out[where], tables[place], stays_last) for where, place in zip(wheres, seen, strict=True)]

    parts: list[Any] = parts_of(grad, _empty_last(shape, dtype), True) if last and _is_last(grad) else [None]
    stays_last = None not in parts
    if not stays_last and last and groups == kh == kw == sy == sx == 1 and py == px == 0 and _is_last(grad):
        return partial(_each_place, False)
    if not stays_last:
        parts = parts_of(_planes(grad), empty(shape, dtype), False)

    def run(grad: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        bias = zeros if bias is None else np.ascontiguousarray(bias, zeros.dtype)
        grad, out = (grad, _empty_last(shape, dtype)) if stays_last else (_planes(grad), empty(shape, dtype))
        if len(seen) < len(places):
            out[...] = bias.reshape(-1, 1, 1)
        for where, compute in zip(wheres, parts, strict=True):
            compute(grad, weight, out[where], bias)
        return out if stays_last else _in_layout(out, last)

    return run


@lru_cache(maxsize=1024)
def _window_table(size: Pair, padding: Pair, dilation: Pair, by: Pair) -> np.ndarray:
    """Taps of a window: where each lies, and where its weight; ``by`` are the weight's strides."""
    (py, px), (ey, ex) = padding, dilation
    return _table([(y * ey - py, x * ex - px, y * by[0] + x * by[1]) for y in range(size[0]) for x in range(size[1])])


@lru_cache(maxsize=1024)
def _turned_table(size: Pair, offset: Pair, dilation: Pair, stride: Pair, by: Pair) -> np.ndarray:
    """Taps through which one of the result's pixels was seen; of every ``stride``-th row and column only, from ``offset`` on."""
    (py, px), (ey, ex), (sy, sx) = offset, dilation, stride
    return _table(
        [
            ((py - y * ey) // sy, (px - x * ex) // sx, y * by[0] + x * by[1])
            for y in reversed(range(size[0]))
            if (py - y * ey) % sy == 0
            for x in reversed(range(size[1]))
            if (px - x * ex) % sx == 0
        ]
    )


# -- sums of products: the weight gradient ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _SumCut:
    """Division of the pixels of a weight gradient into blocks; lengths are in elements.

    Attributes:
        place, table: of a band, and of the distances in it; ``_NOWHERE`` for panels.
        block: channels that are packed at once.
        pixels, pixel_block: as the kernel counts them; ``unit``: of what a range of pixels is a multiple.
        pitch: from a packed line to the next one.
        room: of the packed images.
        apart: from a channel's band to the next one's.
    """

    place: Place
    table: np.ndarray
    block: int
    pixels: int
    pixel_block: int
    unit: int
    pitch: int
    room: int
    apart: int = 0


def _pitch(length: int, lanes: int) -> int:
    """From a line of packed pixels to the next one; as in ``windows_times_grad``."""
    return length // lanes * lanes + 2 * lanes


def _sum_bands(x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: Pair, groups: int) -> _SumCut | None:
    """Blocks of rows of an image; None where panels cost less, or a row is too wide."""
    (n, outputs, height, width), count = grad.shape, len(table)
    outputs, lanes = outputs // groups, targets.current().width // x.itemsize
    line = plane_layout(table.tobytes(), step, height, width)[1].pitch
    if _band_costs(line, width, outputs, count) >= _panel_costs(x, width, outputs):
        return None
    block, tall = _even(x.shape[1] // groups, 2 * SUM_DEPTH // count), min(height, -(-SUM_PIXELS // line))
    offsets, place = plane_layout(table.tobytes(), step, tall, width)
    apart = _spread_over_sets((place.phases_y * place.phases_x * place.rows + further_rows(line, lanes)) * line)
    room = block * apart + line + lanes
    if room * x.itemsize > ROOM:
        return None
    return _SumCut(place, offsets, block, n * -(-height // tall), tall, 1, _pitch(tall * line, lanes), room, apart)


def _sum_panels(x: np.ndarray, grad: np.ndarray, count: int, groups: int) -> _SumCut:
    """Blocks of any pixels."""
    lanes, columns = targets.current().width // x.itemsize, sums_tile(targets.current())[1]
    block, pixels = _even(x.shape[1] // groups, SUM_DEPTH // count), grad.size // grad.shape[1]
    unit = -(-_even(pixels, SUM_PIXELS) // lanes) * lanes
    pitch = _pitch(unit, lanes)
    return _SumCut(_NOWHERE, _CENTRE, block, pixels, unit, unit, pitch, -(-block * count // columns) * columns * pitch)


def _sums(x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: Pair, groups: int, shape: tuple[int, ...]) -> Plan:
    """Function of (x, grad) that computes a weight gradient of ``shape``."""
    element, dtype, count = ELEMENTS[x.dtype], x.dtype, len(table)
    channels, outputs = x.shape[1] // groups, grad.shape[1] // groups
    target = targets.current()
    lanes, (rows, columns) = target.width // dtype.itemsize, sums_tile(target)
    cut = _sum_bands(x, grad, table, step, groups) or _sum_panels(x, grad, count, groups)
    blocks, units = groups * -(-channels // cut.block), -(-cut.pixels // cut.unit)
    split = -(-units // max(1, min(units, CHUNKS // blocks))) * cut.unit
    splits, output_tiles = -(-cut.pixels // split), -(-outputs // rows)
    output_block = min(16, output_tiles) * rows
    apart = blocks * output_tiles * -(-cut.block * count // columns) * (-(-rows * columns // lanes) * lanes)
    scratch = Scratch(cut.room + output_block * cut.pitch, dtype)
    out = grad.shape[2:]
    multiply = windows_times_grad(element, mode_of(x, step[1]), mode_of(grad, 1), cut.place is not _NOWHERE).bind(
        splits * blocks, table=cut.table, images=images_of(x, step, out, table), grads=images_of(grad, (1, 1), out, _CENTRE),
        place=cut.place, pieces=scratch.pieces, room_size=scratch.size, room_panel=cut.room, between_channels=cut.apart,
        channels=channels, block=cut.block, outputs=outputs, output_block=output_block, pixels=cut.pixels, pixel_block=cut.pixel_block,
        split=split, apart=apart,
    )  # fmt: skip
    join = join_partial(element).bind(
        blocks * output_tiles, count=count, channels=channels, block=cut.block, outputs=outputs, splits=splits, apart=apart
    )

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        partial, result = empty((splits * apart,), dtype), empty(shape, dtype)
        flags, room = scratch.take()
        multiply(source=x, grad=grad, partial=partial, flags=flags, room=room)
        join(partial=partial, out=result)
        return result

    return run


def _weight_gradient(x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Plan:
    step, size = _flat(stride, 1), _flat(kernel_size, 1)
    channels, outputs = x.shape[1] // groups, grad.shape[1] // groups
    table, shape = _window_table(size, _flat(padding, 0), _flat(dilation, 1), (0, 0)), (groups * outputs, channels, *size)
    if channels == 1 and outputs == 1 and len(kernel_size) == 2 and groups > 1 and _is_last(x) and _is_last(grad):
        _require_wide(x)
        innermost = channels_last.weight_gradient(x, grad, table, step)
        return lambda x, grad: innermost(x, grad).reshape(shape)
    x, grad = _planes(x), _planes(grad)
    if channels == 1 and groups >= outputs:
        _require_wide(x)
        by_plane = depthwise.weight_gradient(x, grad, table, step)
        return lambda x, grad: by_plane(_planes(x), _planes(grad)).reshape(shape)

    def plain(x: np.ndarray, grad: np.ndarray) -> Plan:
        return _sums(x, grad, table, step, groups, shape) if x.dtype in FLOATS else _widened(x, grad)

    def _widened(x: np.ndarray, grad: np.ndarray) -> Plan:
        wide: Any = _sums(x.astype(np.float32), grad.astype(np.float32), table, step, groups, shape)
        return lambda x, grad: wide(x.astype(np.float32), grad.astype(np.float32)).astype(x.dtype)

    compute = tiled_convolution.weight_gradient(x, grad, table, step, groups, shape, plain)
    if compute is None:
        _require_wide(x)
        compute = plain(x, grad)
    return lambda x, grad: compute(_planes(x), _planes(grad))


# -- operations -------------------------------------------------------------------------------------------------------------------
@native("_correlate")
def correlate(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray | None:
    """The convolution; geometry has been checked."""
    if x.ndim == 5:
        unfit = last or _unfit(x, weight, ranks=(5,))
        return None if unfit else volumes.correlate(correlate, x, weight, bias, stride, padding, dilation, groups)
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


@native("_convolution_weight")
def correlate_pair(
    x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to the weight."""
    kernel_size = tuple(kernel_size)
    if x.ndim == 5:
        unfit = _unfit(x, grad, ranks=(5,))
        return None if unfit else volumes.correlate_pair(correlate_pair, x, grad, kernel_size, stride, padding, dilation, groups)
    return _planned(_weight_gradient, x, grad, kernel_size, stride, padding, dilation, groups)(x, grad)


def _few_places(x: np.ndarray, weight: np.ndarray, stride: Any, padding: Any, dilation: Any) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    shape = (len(x), outputs, (x.shape[2] + 2 * py - ey * (kh - 1) - 1) // sy + 1, (x.shape[3] + 2 * px - ex * (kw - 1) - 1) // sx + 1)
    by, zeros = strides_of(weight), np.zeros(outputs, x.dtype)
    table = _window_table((kh, kw), (py, px), (ey, ex), (by[2], by[3]))
    part = _tiled_product(x, (0, by[0], by[1]), table, (sy, sx), empty(shape, x.dtype), 1, channels)
    if part is None:
        raise _LeftToOthersError

    def run(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        out = empty(shape, x.dtype)
        part(x, weight, out, zeros)
        return out

    return run


@native("_correlate_few")
def correlate_few(x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any) -> np.ndarray | None:
    """The convolution of one sample in tiles; products of columns are as quick as other kernels."""
    return None if _unfit(x, w) else _planned(_few_places, x, w, stride, padding, dilation)(x, w)


@native("bfloat16:convolution")
def convolve_narrow(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> np.ndarray | None:
    """A convolution of bfloat16, or a transposed one; None where float32 is to do it, or to say what is wrong with the operands."""
    rank = weight.ndim - 2
    if rank not in (1, 2) or input.ndim != weight.ndim or input.shape[1] != (weight.shape[0] if transposed else weight.shape[1] * groups):
        return None
    geometry = list(zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True))
    if min(groups, *stride, *dilation) < 1 or min(*padding, *output_padding) < 0 or len(weight) % groups:
        return None
    outputs = weight.shape[1] * groups if transposed else len(weight)
    if bias is not None and bias.shape != (outputs,):
        return None
    last = is_channels_last(input) or is_channels_last(weight)
    if transposed:
        spatial = tuple([(n - 1) * s - 2 * p + d * (k - 1) + 1 + o for n, k, s, p, d, o in geometry])
        if min(spatial) < 1 or any(o >= max(s, d) for _, _, s, _, d, o in geometry):
            return None
        return _planned(_spreading, input, weight, spatial, stride, padding, dilation, groups, last)(input, weight, bias)
    if any(n + 2 * p < d * (k - 1) + 1 for n, k, _, p, d, _ in geometry):
        return None
    return _planned(_correlation, input, weight, stride, padding, dilation, groups, last)(input, weight, bias)


@native("bfloat16:_convolution_weight")
def correlate_pair_narrow(
    input: np.ndarray, other: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to a weight of bfloat16."""
    kernel_size = tuple(kernel_size)
    return _planned(_weight_gradient, input, other, kernel_size, stride, padding, dilation, groups)(input, other)


@native("_channel_sums")
def sums_of_channels(x: np.ndarray) -> np.ndarray | None:
    if not x.flags.c_contiguous or x.dtype not in FLOATS or x.size == 0:
        return None
    out = empty((x.shape[1],), x.dtype)
    channel_sums(ELEMENTS[x.dtype])(x.shape[1], id(x), id(out), *x.shape[:2], x[0, 0].size)
    return out
