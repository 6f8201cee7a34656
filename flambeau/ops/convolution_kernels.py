"""Convolution over arrays: patches copied to columns, then matrix products.

Three functions, each other's adjoints, for input ``x`` ``(N, C, *S)``, weight ``w`` ``(O, C/groups, *K)``, output ``y`` ``(N, O, *P)``:

    correlate       x, w -> y
    spread          y, w -> x     the gradient with respect to x; also the transposed convolution
    correlate_pair  x, y -> w     the gradient with respect to w

Columns are made for a few samples at a time, so that they stay in the second-level cache.  Where rows are short (small images),
copying them is slow, and the columns are made from channels-last images instead, whose runs are ``kernel width * channels`` long.
"""

from __future__ import annotations

import math
import threading
from functools import lru_cache

import numpy as np

from ..core.arrays import native
from ..core.arrays.kinds import host, view_at
from .patches import Ints, add_windows, is_channels_last, padded, taps, window_count, windows

_COLUMN_BYTES = 1 << 19
_SHORT_ROW = 8  # elements; below it a channels-last copy is faster from 16 elements a run on
_LONG_RUN = 16


@lru_cache(maxsize=4096)
def _positions(spatial: Ints, before: Ints, after: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """Number of windows that fit along each dimension of an input with zeros around it."""
    geometry = zip(spatial, before, after, kernel, stride, dilation, strict=True)
    return tuple([window_count(size + low + high, k, s, d) for size, low, high, k, s, d in geometry])


def _prefers_channels_last(channels: int, kernel: Ints, positions: Ints) -> bool:
    return positions[-1] < _SHORT_ROW and channels * kernel[-1] >= _LONG_RUN


@lru_cache(maxsize=256)
def _samples(total: int, bytes_each: int) -> list[slice]:
    """Slices of the batch whose columns fit the cache together."""
    step = max(1, min(total, _COLUMN_BYTES // max(1, bytes_each)))
    return [slice(start, min(total, start + step)) for start in range(0, total, step)]


class _Room(threading.local):
    """Memory for columns, one piece per thread that is used again: fresh pages cost more than filling them."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Uninitialized; valid until the next call in this thread."""
        count = math.prod(shape) * dtype.itemsize
        if count > 4 * _COLUMN_BYTES:
            return np.empty(shape, dtype)
        if count > self.memory.size:
            self.memory = np.empty(max(count, _COLUMN_BYTES), np.uint8)
        return self.memory[:count].view(dtype).reshape(shape)


_room = _Room()


def _last_images(x: np.ndarray, before: Ints, after: Ints) -> np.ndarray:
    """``x`` with zeros around it, channels innermost."""
    spatial = tuple([size + low + high for size, low, high in zip(x.shape[2:], before, after, strict=True)])
    seen = x.transpose(0, *range(2, x.ndim), 1)
    if spatial == x.shape[2:]:
        return np.ascontiguousarray(seen)
    whole = np.zeros((x.shape[0], *spatial, x.shape[1]), x.dtype)
    whole[(slice(None), *[slice(low, low + size) for low, size in zip(before, x.shape[2:], strict=True)])] = seen
    return whole


def _last_columns(images: np.ndarray, kernel: Ints, stride: Ints, dilation: Ints, positions: Ints) -> np.ndarray:
    """A view ``(N, *positions, *kernel, C)`` of channels-last images."""
    steps = images.strides
    outer = tuple([step * s for step, s in zip(steps[1:-1], stride, strict=True)])
    inner = tuple([step * d for step, d in zip(steps[1:-1], dilation, strict=True)])
    shape = (images.shape[0], *positions, *kernel, images.shape[-1])
    return view_at(images, shape, images.dtype, 0, (steps[0], *outer, *inner, steps[-1]))


def _filled(seen: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of a view as an array of another shape, in the memory that is used again."""
    columns = _room.array(seen.shape, seen.dtype) if seen.__class__ is host.array_class else np.empty(seen.shape, seen.dtype)
    columns[...] = seen
    return columns.reshape(shape)


def _correlate_last(
    x: np.ndarray, w: np.ndarray, stride: Ints, before: Ints, after: Ints, dilation: Ints, positions: Ints, last: bool
) -> np.ndarray:
    """``correlate`` through channels-last columns; the result is channels-last in memory where ``last``."""
    n, outputs, kernel, area = x.shape[0], w.shape[0], w.shape[2:], math.prod(positions)
    weights = w.transpose(*range(2, w.ndim), 1, 0).reshape(-1, outputs)
    result = np.empty((n * area, outputs), x.dtype)
    seen = _last_columns(_last_images(x, before, after), kernel, stride, dilation, positions)
    for part in _samples(n, weights.shape[0] * area * x.itemsize):
        rows = slice(part.start * area, part.stop * area)
        np.matmul(_filled(seen[part], (rows.stop - rows.start, weights.shape[0])), weights, out=result[rows])
    result = np.moveaxis(result.reshape(n, *positions, outputs), -1, 1)
    return result if last else np.ascontiguousarray(result)


def correlate(x: np.ndarray, w: np.ndarray, stride: Ints, before: Ints, after: Ints, dilation: Ints, groups: int) -> np.ndarray:
    """The convolution without bias; ``before`` and ``after`` are the zeros put around ``x``."""
    n, channels = x.shape[:2]
    outputs, kernel = w.shape[0], w.shape[2:]
    positions = _positions(x.shape[2:], before, after, kernel, stride, dilation)
    if x.size == 0 or w.size == 0:
        return np.zeros((n, outputs, *positions), x.dtype)
    area = math.prod(positions)
    last = is_channels_last(x) and groups == 1
    if groups == 1 and (last or _prefers_channels_last(channels, kernel, positions)) and min(before) >= 0 and min(after) >= 0:
        return _correlate_last(x, w, stride, before, after, dilation, positions, last)
    x = padded(x, before, after)
    if groups > 1 and groups == channels:
        return _correlate_each(x, w, stride, dilation, positions)
    weights = w.reshape(groups, outputs // groups, -1)
    if math.prod(kernel) == 1 and max(stride) == 1:
        columns = x.reshape(n, groups, channels // groups, area)
        if groups == 1:
            return np.matmul(weights[0], columns[:, 0]).reshape(n, outputs, *positions)
        return np.matmul(weights, columns).reshape(n, outputs, *positions)
    result = np.empty((n, groups, outputs // groups, area), x.dtype)
    seen = windows(x, kernel, stride, dilation, positions)
    for part in _samples(n, weights.shape[2] * groups * area * x.itemsize):
        columns = _filled(seen[part], (part.stop - part.start, groups, weights.shape[2], area))
        if groups == 1:
            np.matmul(weights[0], columns[:, 0], out=result[part, 0])
        else:
            np.matmul(weights, columns, out=result[part])
    return result.reshape(n, outputs, *positions)


@native.part("mm", work="a.size * b.shape[1] // 16")
def _multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b``; its kernel leaves BLAS's own threads asleep."""
    return np.matmul(a, b)


def correlate_places(x: np.ndarray, w: np.ndarray, stride: Ints, padding: Ints, dilation: Ints) -> np.ndarray:
    """The convolution of one sample with a kernel of one place, at every place."""
    return _multiplied(w.reshape(w.shape[:2]), x.reshape(x.shape[1], -1)).reshape(1, w.shape[0], *x.shape[2:])


@native.part("_correlate_few", work="w.size // 4")
def correlate_few(x: np.ndarray, w: np.ndarray, stride: Ints, padding: Ints, dilation: Ints) -> np.ndarray:
    """The convolution of one sample, through columns; the weights are taken as they lie."""
    kernel = w.shape[2:]
    positions = _positions(x.shape[2:], padding, padding, kernel, stride, dilation)
    x = padded(x, padding, padding)
    columns = _filled(windows(x, kernel, stride, dilation, positions), (-1, math.prod(positions)))
    return _multiplied(w.reshape(w.shape[0], -1), columns).reshape(1, w.shape[0], *positions)


def _correlate_each(x: np.ndarray, w: np.ndarray, stride: Ints, dilation: Ints, positions: Ints) -> np.ndarray:
    """Depthwise: each channel with its own filters, summed over the places of the kernel."""
    n, channels, kernel = x.shape[0], x.shape[1], w.shape[2:]
    times = w.shape[0] // channels
    result = np.empty((n, channels, times, *positions), x.dtype)
    ones = (1,) * len(positions)
    for part in _samples(n, 3 * channels * times * math.prod(positions) * x.itemsize):
        total, first = result[part], True
        room = np.empty(total.shape, x.dtype)
        for at, where in taps(kernel, stride, dilation, positions):
            seen = x[(part, slice(None), None, *where)]
            factor = w[(slice(None), 0, *at)].reshape(channels, times, *ones)
            np.multiply(seen, factor, out=total if first else room)
            if not first:
                total += room
            first = False
    return result.reshape(n, channels * times, *positions)


def spread(y: np.ndarray, w: np.ndarray, spatial: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> np.ndarray:
    """The adjoint of ``correlate`` in its first argument, for an input of spatial size ``spatial``."""
    n, kernel = y.shape[0], w.shape[2:]
    per_group = w.shape[1]
    if y.size == 0 or w.size == 0:
        return np.zeros((n, per_group * groups, *spatial), y.dtype)
    reach = tuple([d * (k - 1) for d, k in zip(dilation, kernel, strict=True)])
    if max(stride) == 1 and all(r >= p for r, p in zip(reach, padding, strict=True)):
        # with stride 1 it is the correlation with the turned kernel, inputs and outputs exchanged
        turned = w[(slice(None), slice(None), *[slice(None, None, -1)] * len(kernel))]
        turned = turned.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2).reshape(groups * per_group, -1, *kernel)
        before = tuple([r - p for r, p in zip(reach, padding, strict=True)])
        after = tuple([size + r - got - low for size, r, got, low in zip(spatial, reach, y.shape[2:], before, strict=True)])
        return correlate(y, turned, stride, before, after, dilation, groups)
    positions, area = y.shape[2:], math.prod(y.shape[2:])
    weights = w.reshape(groups, w.shape[0] // groups, -1).swapaxes(1, 2)
    values = y.reshape(n, groups, -1, area)
    whole = tuple(
        [max(s + 2 * p, (n_ - 1) * st + r + 1) for s, p, n_, st, r in zip(spatial, padding, positions, stride, reach, strict=True)]
    )
    result = np.zeros((n, groups * per_group, *whole), y.dtype)
    for part in _samples(n, weights.shape[1] * groups * area * y.itemsize):
        columns = np.matmul(weights, values[part]).reshape(-1, groups * per_group, *kernel, *positions)
        add_windows(result[part], columns, kernel, stride, dilation, positions)
    inside = tuple([slice(p, p + s) for p, s in zip(padding, spatial, strict=True)])
    return np.ascontiguousarray(result[(..., *inside)])


def correlate_pair(x: np.ndarray, y: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> np.ndarray:
    """The adjoint of ``correlate`` in its second argument: the weight ``(O, C/groups, *kernel)``."""
    n, channels, outputs, positions = x.shape[0], x.shape[1], y.shape[1], y.shape[2:]
    area, per_group = math.prod(positions), channels // groups
    if x.size == 0 or y.size == 0:
        return np.zeros((outputs, per_group, *kernel), x.dtype)
    last = is_channels_last(x) and is_channels_last(y)
    if groups == 1 and (last or _prefers_channels_last(channels, kernel, positions)):
        if last:
            values = np.moveaxis(y, 1, -1).reshape(n * area, outputs).T
        else:
            values = y.reshape(n, outputs, area).swapaxes(0, 1).reshape(outputs, -1)
        result = np.zeros((outputs, channels * math.prod(kernel)), x.dtype)
        seen = _last_columns(_last_images(x, padding, padding), kernel, stride, dilation, positions)
        for part in _samples(n, result.shape[1] * area * x.itemsize):
            columns = _filled(seen[part], (-1, result.shape[1]))
            result += np.matmul(values[:, part.start * area : part.stop * area], columns)
        return np.ascontiguousarray(np.moveaxis(result.reshape(outputs, *kernel, channels), -1, 1))
    x = padded(x, padding, padding)
    if groups > 1 and groups == channels:
        return _correlate_pair_each(x, y, kernel, stride, dilation)
    result = np.zeros((groups, outputs // groups, per_group * math.prod(kernel)), x.dtype)
    for group in range(groups):
        images = x[:, group * per_group : (group + 1) * per_group]
        view = windows(images, kernel, stride, dilation, positions)
        view = view.transpose(*range(1, 2 + len(kernel)), 0, *range(2 + len(kernel), view.ndim))  # (C, *K, N, *P)
        values = y[:, group * result.shape[1] : (group + 1) * result.shape[1]].swapaxes(0, 1)
        for part in _samples(n, result.shape[2] * area * x.itemsize):
            columns = _filled(view[(*[slice(None)] * (1 + len(kernel)), part)], (result.shape[2], -1))
            result[group] += np.matmul(values[:, part].reshape(result.shape[1], -1), columns.T)
    return result.reshape(outputs, per_group, *kernel)


def _correlate_pair_each(x: np.ndarray, y: np.ndarray, kernel: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    """``correlate_pair`` of a depthwise convolution."""
    n, channels, positions = x.shape[0], x.shape[1], y.shape[2:]
    times = y.shape[1] // channels
    values = y.reshape(n, channels, times, *positions)
    result = np.empty((channels, times, *kernel), x.dtype)
    for at, where in taps(kernel, stride, dilation, positions):
        seen = x[(slice(None), slice(None), *where)]
        for k in range(times):
            result[(slice(None), k, *at)] = np.multiply(seen, values[:, :, k]).reshape(n, channels, -1).sum(-1).sum(0)
    return result.reshape(channels * times, 1, *kernel)
