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
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ...core.layout import channels_last, is_contiguous_as
from ..compiler.language import FLOATS
from ..compiler.memory import empty
from .pooling_kernels import Units, Windows, add_at_places, bin_places, pool_channels, pool_planes, spread_channels, spread_planes

CHUNK = 1 << 17  # bytes of input


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
    """Layout of the planes: ``"columns"``, or ``"channels"`` that lie together; ``""`` for anything else."""
    if input.flags.c_contiguous:
        one = input.ndim == 4 and input.shape[1] == 1 and input.strides[1] < input.strides[2] * input.shape[2]
        return "" if one else "columns"  # one channel may be told to lie innermost, and then does in the result
    return "channels" if input.ndim == 4 and input.shape[1] > 1 and is_contiguous_as(input, channels_last) else ""


def _result(shape: tuple[int, ...], layout: str, dtype: Any) -> np.ndarray:
    if layout == "channels":
        return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)
    return empty(shape, dtype)


def _units(count: int, size: int) -> tuple[int, Units]:
    """Number of chunks, and the units, for ``count`` units of ``size`` bytes."""
    per = max(1, CHUNK // max(size, 1))
    return -(-count // per), Units(per=per, count=count)


def _windows_of(axes: Axes) -> Windows:
    y, x = axes
    return Windows(
        down=y.table, across=x.table, height=y.size, width=x.size, high=y.count, wide=x.count, rate_y=y.rate, rate_x=x.rate
    )  # fmt: skip


Plan = Callable[[np.ndarray], Any]
_plans: dict[Any, Plan] = {}
PLANS = 4096  # kept at most


def _none(_: np.ndarray) -> None:
    """The plan for what is left to others."""


def _planned(make: Callable[..., Plan], array: np.ndarray, axes: Callable[..., Axes | None], given: Any, *more: Any) -> Plan:
    """Function for arrays like this one: ``make(array, axes(*given), *more)``, made once.

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
    element, layout, dtype = FLOATS.get(input.dtype), _layout(input), input.dtype
    y, x = axes
    if element is None or not layout or y.size * x.size >= 1 << 31:
        return _none  # places are counted in 32 bits
    shape = (*input.shape[: input.ndim - rank], *(y.count, x.count)[-rank:])
    both = way == "place"
    taps = -(-y.size // y.count)
    rows_shape: tuple[int, int] | None = None
    if layout == "channels":
        images, channels = input.shape[:2]
        chunks, units = _units(images * y.count * x.count, channels * taps * taps * input.itemsize)
        pool = pool_channels(element, way).bind(chunks, windows=_windows_of(axes), channels=channels, units=units)
    else:
        chunks, units = _units(input.size // (y.size * x.size) * y.count, x.size * taps * input.itemsize)
        rows_shape = (chunks, x.size * (2 if both else 1))
        pool = pool_planes(element, way, x.step if x.step < 5 else 0).bind(
            chunks, windows=_windows_of(axes), inner=x.inner, inner_stop=x.inner_stop, taps=x.taps, step=x.step, units=units
        )

    def run(input: np.ndarray) -> Any:
        result = _result(shape, layout, dtype)
        places = _result(shape, layout, np.int64) if both else result
        if rows_shape is not None:
            pool(x=input, y=result, places=places, rows=empty(rows_shape, dtype))
        elif both:
            pool(x=input, y=result, places=places)
        else:
            pool(x=input, y=result)
        return (result, places) if both else result

    return run


def _max_pool(way: str, input: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    given = (input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return _planned(_pooling, input, _windows, given, len(kernel_size), way)(input)


max_pool = native("nn.functional._max_pool1d", "nn.functional._max_pool2d")(partial(_max_pool, "max"))
max_pool_with_places = native("nn.functional._max_pool1d_with_places", "nn.functional._max_pool2d_with_places")(partial(_max_pool, "place"))


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


@native("nn.functional._adaptive_max_pool1d", "nn.functional._adaptive_max_pool2d")
def adaptive_max(input: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray] | None:
    if len(size) == 1 and input.shape[-1] >= _WIDE * size[0]:
        return largest_of_bins(input, size)
    return _planned(_pooling, input, _bins, (input.shape, size), len(size), "place")(input)


@native("nn.functional._scatter_planes")
def scatter_planes(source: np.ndarray, indices: np.ndarray, spatial: Any) -> np.ndarray | None:
    element, rank = FLOATS.get(source.dtype), len(spatial)
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
    source = contiguous(source)
    blocks = -(-channels // block)
    chunks, units = _units(planes * blocks, area * block * source.itemsize)
    add_at_places(element).launch(
        chunks, g=source, places=indices, y=result, bad=bad, area=area, count=source.size // (planes * channels), channels=channels,
        block=block, blocks=blocks, units=units,
    )  # fmt: skip
    return None if bad[0] else result


def _spreading(grad_output: np.ndarray, axes: Axes, shape: tuple[int, ...]) -> Plan:
    element, layout, dtype = FLOATS.get(grad_output.dtype), _layout(grad_output), grad_output.dtype
    if element is None or not grad_output.size:
        return _none
    y, x = axes
    if layout == "channels":
        images, channels = shape[:2]
        block = min(channels, 64)
        blocks = -(-channels // block)
        by_channels = spread_channels(element).bind(
            images * blocks, windows=_windows_of(axes), channels=channels, block=block, blocks=blocks
        )

        def run_channels(grad_output: np.ndarray) -> np.ndarray:
            result = _result(shape, layout, dtype)
            by_channels(g=grad_output, y=result)
            return result

        return run_channels
    area = y.size * x.size
    chunks, units = _units(math.prod(shape) // area, area * dtype.itemsize)
    by_planes = spread_planes(element).bind(chunks, windows=_windows_of(axes), units=units)

    def run(grad_output: np.ndarray) -> np.ndarray:
        result = empty(shape, dtype)
        by_planes(g=contiguous(grad_output), y=result, rows=empty((chunks, x.size), dtype))
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
_WIDE = 16  # elements of a bin of a line, from which on a register holds them rather than neighbouring bins


def _is_plain(input: np.ndarray) -> bool:
    """Whether the result of an array lies row by row: not where channels lie innermost, or might."""
    return input.flags.c_contiguous and input.shape[1] != 1


@native("nn.functional._adaptive_max_pool3d")
def largest_of_bins(input: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray] | None:
    rank, element = len(size), FLOATS.get(input.dtype)
    lead, spatial = input.shape[: input.ndim - rank], input.shape[input.ndim - rank :]
    area = math.prod(spatial)
    if element is None or not input.size or 0 in size or area >= 1 << 31 or (input.ndim > 3 and not _is_plain(input)):
        return None
    source = contiguous(input)
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
    chunks, units = _units(math.prod(lead), area * input.itemsize)
    bin_places(element).launch(
        chunks, x=source, values=values, places=places, limits=limits, depth=sizes[0], height=sizes[1], width=sizes[2],
        count_d=counts[0], count_h=counts[1], count_w=counts[2], units=units,
    )  # fmt: skip
    return values, places
