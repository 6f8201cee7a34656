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
from . import channels_last, columns, depthwise, few_pixels, tiled_convolution, volumes, window_blocks
from .gemm import multiply, own_plan
from .microkernel import strides_of
from .window_blocks import LeftToOthersError, table_of, window_table
from .windows import channel_sums, channel_sums_of_pixels

Pair = tuple[int, int]  # of the rows and of the columns


# -- products: forward, and the input gradient ------------------------------------------------------------------------------------
def _product(
    x: np.ndarray, by_weight: tuple[int, int, int], table: np.ndarray, step: Pair, out: np.ndarray, groups: int, channels: int
) -> Callable[..., None]:
    """Function of (x, weight, out, bias) that computes a ``window_blocks._Product``.

    ``by_weight`` are the weight's strides from group to group, output to output and channel to channel.
    """
    tiled = _tiled_product(x, by_weight, table, step, out, groups, channels)
    if tiled is None:
        _require_wide(x)
    return tiled or window_blocks.product(x, by_weight, table, step, out, groups, channels)


def _require_wide(x: np.ndarray) -> None:
    """Raise LeftToOthersError for numbers that are multiplied in tiles only."""
    if x.dtype not in FLOATS:
        raise LeftToOthersError


def _tiled_product(
    x: np.ndarray, by_weight: tuple[int, int, int], table: np.ndarray, step: Pair, out: np.ndarray, groups: int, channels: int
) -> Callable[..., None] | None:
    """The same in tile registers, where that is quicker."""

    def plain(x: np.ndarray, out: np.ndarray) -> Callable[..., None]:
        return window_blocks.product(x, by_weight, table, step, out, groups, channels)

    return tiled_convolution.product(x, by_weight, table, step, out, groups, channels, plain)


def _column_product(
    x: np.ndarray, weight: np.ndarray, table: np.ndarray, step: Pair, out: np.ndarray, groups: int
) -> Callable[..., None] | None:
    """The same by what pixels see, all of it or of few pixels, where that is quickest."""
    if groups > 1 or not weight.flags.c_contiguous:
        return None
    windows = columns.windows_of(x, weight.shape, table, step, out.shape[2:])
    if windows is None:
        return None
    other = columns.WORTH * tiled_convolution.least_cost(x, table, step, out, groups, weight.shape[1])
    ways = {columns.product: windows.forward_cost, few_pixels.product: few_pixels.WORTH * few_pixels.cost(windows)}
    way = min(ways, key=ways.__getitem__)
    return way(x, windows) if ways[way] < other else None


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


def _made(make: Callable[..., Plan], a: np.ndarray, b: np.ndarray, geometry: tuple[Any, ...]) -> Plan:
    if _unfit(a, b, ranks=(3, 4, 5), dtypes=_NUMBERS):
        return _none
    try:
        return make(a, b, *geometry) if a.ndim > 3 else _of_lines(make, a, b, geometry)
    except LeftToOthersError:
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


def _positions(x: np.ndarray, size: Pair, stride: Pair, padding: Pair, dilation: Pair) -> list[int]:
    """Numbers of windows in a column and in a row."""
    geometry = zip(x.shape[2:], size, stride, padding, dilation, strict=True)
    return [(n + 2 * p - e * (k - 1) - 1) // s + 1 for n, k, s, p, e in geometry]


def _bias_dtype(dtype: np.dtype) -> np.dtype:
    """Of the numbers that sums begin with."""
    return dtype if dtype in FLOATS else np.dtype(np.float32)


def _correlation(x: np.ndarray, weight: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int, last: bool) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    height, width = _positions(x, (kh, kw), (sy, sx), (py, px), (ey, ex))
    by, dtype = strides_of(weight), x.dtype
    table = window_table((kh, kw), (py, px), (ey, ex), (by[2], by[3]))
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
            part = None if are_matrices else _column_product(x, weight, table, step, out, groups)
            part = part or _tiled_product(x, by_weight, table, step, out, groups, channels)
            if part is None:
                _require_wide(x)
                if are_matrices:
                    return _products_of_images(x, weight)
            part = part or window_blocks.product(x, by_weight, table, step, out, groups, channels)

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
        grad, out = _planes(grad), empty(shape, dtype)
        pieces = [(out[where], tables[place]) for where, place in zip(wheres, seen, strict=True)]
        table = window_table((kh, kw), (py, px), (ey, ex), (0, 0))
        whole = _column_gradient(grad, weight, table, (sy, sx), out, pieces) if groups == 1 and not is_depthwise else None
        if whole is None:
            parts = parts_of(grad, out, False)
        else:
            parts, seen, wheres = [whole], places, [(slice(None),) * 4]

    def run(grad: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        bias = zeros if bias is None else np.ascontiguousarray(bias, zeros.dtype)
        grad, out = (grad, _empty_last(shape, dtype)) if stays_last else (_planes(grad), empty(shape, dtype))
        if len(seen) < len(places):
            out[...] = bias.reshape(-1, 1, 1)
        for where, compute in zip(wheres, parts, strict=True):
            compute(grad, weight, out[where], bias)
        return out if stays_last else _in_layout(out, last)

    return run


def _column_gradient(
    grad: np.ndarray, weight: np.ndarray, table: np.ndarray, step: Pair, out: np.ndarray, pieces: list[tuple[np.ndarray, np.ndarray]]
) -> Callable[..., None] | None:
    """Function of (grad, weight, out, bias) for the whole input gradient, by columns; None where ``pieces``, by tables, are quicker."""
    windows = columns.windows_of(grad, weight.shape, table, step, grad.shape[2:])
    if windows is None or not weight.flags.c_contiguous:
        return None
    other = sum([tiled_convolution.least_cost(grad, taps, (1, 1), piece, 1, len(weight)) for piece, taps in pieces])
    return columns.input_gradient(grad, windows, out.shape[2:]) if windows.input_cost < columns.WORTH * other else None


@lru_cache(maxsize=1024)
def _turned_table(size: Pair, offset: Pair, dilation: Pair, stride: Pair, by: Pair) -> np.ndarray:
    """Taps through which one of the result's pixels was seen; of every ``stride``-th row and column only, from ``offset`` on."""
    (py, px), (ey, ex), (sy, sx) = offset, dilation, stride
    return table_of(
        [
            ((py - y * ey) // sy, (px - x * ex) // sx, y * by[0] + x * by[1])
            for y in reversed(range(size[0]))
            if (py - y * ey) % sy == 0
            for x in reversed(range(size[1]))
            if (px - x * ex) % sx == 0
        ]
    )


def _weight_gradient(x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Plan:
    step, size = _flat(stride, 1), _flat(kernel_size, 1)
    channels, outputs = x.shape[1] // groups, grad.shape[1] // groups
    table, shape = window_table(size, _flat(padding, 0), _flat(dilation, 1), (0, 0)), (groups * outputs, channels, *size)
    if channels == 1 and outputs == 1 and len(kernel_size) == 2 and groups > 1 and _is_last(x) and _is_last(grad):
        _require_wide(x)
        innermost = channels_last.weight_gradient(x, grad, table, step)
        return lambda x, grad: innermost(x, grad).reshape(shape)
    if channels == 1 and groups >= outputs:
        _require_wide(x)
        by_plane = depthwise.weight_gradient(_planes(x), _planes(grad), table, step)
        return lambda x, grad: by_plane(_planes(x), _planes(grad)).reshape(shape)
    by_columns = _column_sums(x, grad, table, step, groups, shape)
    if by_columns is not None:
        return by_columns
    compute = _tiled_gradient(_packable(x), _packable(grad), table, step, groups, shape)
    if compute is not None:
        return lambda x, grad: compute(_packable(x), _packable(grad))
    _require_wide(x)
    sums = window_blocks.sums(_planes(x), _planes(grad), table, step, groups, shape)
    return lambda x, grad: sums(_planes(x), _planes(grad))


def _column_sums(
    x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: Pair, groups: int, shape: tuple[int, ...]
) -> window_blocks.Sums | None:
    """The weight gradient by columns, where that is quickest."""
    if groups > 1 or _is_last(x) or _is_last(grad) or not columns.has_places(grad):
        return None
    windows = columns.windows_of(x, shape, table, step, grad.shape[2:])
    if windows is None:
        return None
    other = tiled_convolution.least_sums_cost(x, grad, table, step, groups)
    return columns.weight_gradient(x, grad, windows, shape) if windows.weight_cost < columns.WORTH * other else None


def _packable(array: np.ndarray) -> np.ndarray:
    """``array`` where its channels are innermost, too; else as ``_planes``."""
    return array if _is_last(array) and tiled_convolution.is_last(array) else _planes(array)


def _tiled_gradient(
    x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: Pair, groups: int, shape: tuple[int, ...]
) -> window_blocks.Sums | None:
    """The weight gradient in tile registers, where that is quicker."""

    def widened(array: np.ndarray) -> np.ndarray:
        return _planes(array.astype(_bias_dtype(array.dtype), copy=False))

    def plain(x: np.ndarray, grad: np.ndarray) -> window_blocks.Sums:
        compute = window_blocks.sums(widened(x), widened(grad), table, step, groups, shape)
        return lambda x, grad: compute(widened(x), widened(grad)).astype(x.dtype, copy=False)

    return tiled_convolution.weight_gradient(x, grad, table, step, groups, shape, plain)


# -- operations -------------------------------------------------------------------------------------------------------------------
@native("_correlate")
def correlate(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray | None:
    """The convolution; geometry has been checked."""
    if x.ndim == 5:
        if last or _unfit(x, weight, ranks=(5,)):
            return None
        result = _planned(volumes.correlation, x, weight, stride, padding, dilation, groups)(x, weight, bias)
        return volumes.correlate(correlate, x, weight, bias, stride, padding, dilation, groups) if result is None else result
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
        if last or _unfit(grad, weight, ranks=(5,)):
            return None
        result = _planned(volumes.spreading, grad, weight, spatial, stride, padding, dilation, groups)(grad, weight, bias)
        return volumes.spread(spread, grad, weight, bias, spatial, stride, padding, dilation, groups) if result is None else result
    return _planned(_spreading, grad, weight, spatial, stride, padding, dilation, groups, last)(grad, weight, bias)


@native("_convolution_weight")
def correlate_pair(
    x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to the weight."""
    kernel_size = tuple(kernel_size)
    if x.ndim == 5:
        if _unfit(x, grad, ranks=(5,)):
            return None
        result = _planned(volumes.weight_gradient, x, grad, kernel_size, stride, padding, dilation, groups)(x, grad)
        if result is None:
            return volumes.correlate_pair(correlate_pair, x, grad, kernel_size, stride, padding, dilation, groups)
        return result
    return _planned(_weight_gradient, x, grad, kernel_size, stride, padding, dilation, groups)(x, grad)


def _few_places(x: np.ndarray, weight: np.ndarray, stride: Any, padding: Any, dilation: Any) -> Plan:
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    shape = (len(x), outputs, *_positions(x, (kh, kw), (sy, sx), (py, px), (ey, ex)))
    by, zeros, out = strides_of(weight), np.zeros(outputs, x.dtype), empty(shape, x.dtype)
    table = window_table((kh, kw), (py, px), (ey, ex), (by[2], by[3]))
    part = _column_product(x, weight, table, (sy, sx), out, 1) or _tiled_product(x, (0, by[0], by[1]), table, (sy, sx), out, 1, channels)
    if part is None:
        raise LeftToOthersError

    def run(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        out = empty(shape, x.dtype)
        part(x, weight, out, zeros)
        return out

    return run


@native("_correlate_few")
def correlate_few(x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any) -> np.ndarray | None:
    """The convolution of one sample by its few pixels, or in tiles; products of columns are as quick as other kernels."""
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
    if input.ndim == 5:
        return None
    kernel_size = tuple(kernel_size)
    return _planned(_weight_gradient, input, other, kernel_size, stride, padding, dilation, groups)(input, other)


@native("_channel_sums")
def sums_of_channels(x: np.ndarray) -> np.ndarray | None:
    if x.dtype not in FLOATS or x.size == 0:
        return None
    images, channels = x.shape[:2]
    sizes = images, channels, x[0, 0].size
    if x.flags.c_contiguous:
        out = empty((channels,), x.dtype)
        channel_sums(ELEMENTS[x.dtype])(channels, id(x), id(out), *sizes)
    elif x.ndim == 4 and _is_last(x):
        out = empty((channels,), x.dtype)
        channel_sums_of_pixels(ELEMENTS[x.dtype])(-(-channels * x.itemsize // targets.current().width), id(x), id(out), *sizes)
    else:
        return None
    return out
