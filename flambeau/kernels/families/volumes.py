"""Convolutions of volumes as those of images: the planes that a window covers in depth are channels of one image.

    volume (N, C, D, H, W)  ->  images (N * positions in depth, C * taps in depth, H, W)

The kernels pack these images from the volume (``microkernel.Depth``). Where that is not the best way, because planes are small, or because
of strides of the input gradient, some samples' images at a time are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous, copy_into
from ..compiler.memory import empty
from . import tiled_convolution, window_blocks
from .microkernel import Depth
from .window_blocks import LeftToOthersError, window_table

Sizes = tuple[int, ...]
Plan = Callable[..., np.ndarray]
_ROOM = 1 << 25  # bytes of the images of one step


# -- images that are packed from volumes -----------------------------------------------------------------------------------------------
def _rows(volume: np.ndarray) -> np.ndarray:
    """``volume``, or a copy where neighbours in a row are not neighbours in memory."""
    return volume if volume.strides[4] == volume.itemsize else contiguous(volume)


def _plan(
    x: np.ndarray, weight: Sizes, positions: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]:
    """Function of (x, weight, bias), which is a convolution with so many windows; the weight is row-major and has this shape.

    Raises:
        LeftToOthersError: images are better written.
    """
    outputs, channels, layers, *size = weight
    dtype, taps, shape = x.dtype, size[0] * size[1], (len(x), outputs, *positions)
    table = window_table((size[0], size[1]), (padding[1], padding[2]), (dilation[1], dilation[2]), (size[1], 1))
    by_weight, step = (outputs // groups * channels * layers * taps, channels * layers * taps, taps), (stride[1], stride[2])
    depth, numbers = Depth(positions[0], layers, stride[0], dilation[0], -padding[0]), channels * layers

    x, out = _rows(x), empty(shape, dtype)
    by_bands = window_blocks.product(x, by_weight, table, step, out, groups, numbers, depth)
    part = tiled_convolution.product(x, by_weight, table, step, out, groups, numbers, lambda *_: by_bands, depth) or by_bands
    zeros = np.zeros(outputs, dtype)

    def run(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        out = empty(shape, dtype)
        part(_rows(x), weight, out, zeros if bias is None else np.ascontiguousarray(bias))
        return out

    return run


def correlation(x: np.ndarray, weight: np.ndarray, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Plan:
    """The plan of a convolution, a function of (x, weight, bias)."""
    geometry = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    positions = tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in geometry])
    plan = _plan(x, weight.shape, positions, stride, padding, dilation, groups)
    return lambda x, weight, bias: plan(x, contiguous(weight), bias)


def _adjoint(weight: np.ndarray, groups: int) -> np.ndarray:
    """The weight whose convolution is the transposed one: channels are outputs, and windows are turned round."""
    apart = weight.reshape(groups, -1, *weight.shape[1:])[..., ::-1, ::-1, ::-1].swapaxes(1, 2)
    return np.ascontiguousarray(apart).reshape(-1, len(weight) // groups, *weight.shape[2:])


def spreading(grad: np.ndarray, weight: np.ndarray, spatial: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Plan:
    """The plan of the gradient with respect to the input, a function of (grad, weight, bias), without strides."""
    if max(stride) > 1:
        raise LeftToOthersError
    outputs, channels, *size = weight.shape
    turned = tuple([d * (k - 1) - p for k, p, d in zip(size, padding, dilation, strict=True)])
    plan = _plan(grad, (channels * groups, outputs // groups, *size), tuple(spatial), stride, turned, dilation, groups)
    return lambda grad, weight, bias: plan(grad, _adjoint(weight, groups), bias)


def weight_gradient(
    x: np.ndarray, grad: np.ndarray, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Plan:
    """The plan of the gradient with respect to the weight, a function of (x, grad)."""
    (layers, *size), channels = kernel_size, x.shape[1] // groups
    table = window_table((size[0], size[1]), (padding[1], padding[2]), (dilation[1], dilation[2]), (0, 0))
    depth, step = Depth(grad.shape[2], layers, stride[0], dilation[0], -padding[0]), (stride[1], stride[2])
    shape = (grad.shape[1], channels * layers, *size)
    x, grad = _rows(x), _rows(grad)
    by_bands = window_blocks.sums(x, grad, table, step, groups, shape, depth)
    compute = tiled_convolution.weight_gradient(x, grad, table, step, groups, shape, lambda *_: by_bands, depth) or by_bands
    return lambda x, grad: compute(_rows(x), _rows(grad)).reshape(grad.shape[1], channels, *kernel_size)


# -- images that are written -----------------------------------------------------------------------------------------------------------
def _taps(depth: int, count: int, taps: int, stride: int, padding: int, dilation: int) -> Iterator[tuple[int, slice, slice]]:
    """For each tap, the positions at which it lies in the volume, and the planes that it sees there."""
    for t in range(taps):
        shift = t * dilation - padding
        first = max(0, -(shift // stride))
        last = min(count, (depth - 1 - shift) // stride + 1)
        if first < last:
            yield t, slice(first, last), slice(first * stride + shift, (last - 1) * stride + shift + 1, stride)


def _windows(x: np.ndarray, count: int, taps: int, stride: int, padding: int, dilation: int) -> np.ndarray:
    """The images of volumes."""
    samples, channels, depth, height, width = x.shape
    images = empty((samples, count, channels, taps, height, width), x.dtype)
    if padding:
        images.fill(0)
    for t, positions, planes in _taps(depth, count, taps, stride, padding, dilation):
        copy_into(images[:, positions, :, t], x[:, :, planes].swapaxes(1, 2))
    return images.reshape(samples * count, channels * taps, height, width)


def _as_images(grad: np.ndarray) -> np.ndarray:
    """Each position in depth as an image."""
    samples, channels, count, *plane = grad.shape
    return contiguous(grad.swapaxes(1, 2)).reshape(samples * count, channels, *plane)


def _flat_weight(weight: np.ndarray) -> np.ndarray:
    outputs, channels, taps, *plane = weight.shape
    return contiguous(weight).reshape(outputs, channels * taps, *plane)


def _steps(samples: int, size: int) -> Iterator[slice]:
    """Slices of samples that are computed together; each sample needs ``size`` bytes."""
    several = max(1, _ROOM // max(size, 1))
    for start in range(0, samples, several):
        yield slice(start, min(start + several, samples))


def correlate(
    plane: Callable[..., Any], x: np.ndarray, weight: np.ndarray, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The convolution; ``plane`` is that of images."""
    taps, depth = weight.shape[2], x.shape[2]
    count = (depth + 2 * padding[0] - dilation[0] * (taps - 1) - 1) // stride[0] + 1
    flat, result = _flat_weight(weight), None
    for part in _steps(x.shape[0], x[0].nbytes * taps * count // depth):
        images = _windows(x[part], count, taps, stride[0], padding[0], dilation[0])
        made = plane(images, flat, bias, stride[1:], padding[1:], dilation[1:], groups, False)
        if made is None:
            return None
        if result is None:
            result = empty((x.shape[0], weight.shape[0], count, *made.shape[2:]), x.dtype)
        copy_into(result[part], made.reshape(-1, count, *made.shape[1:]).swapaxes(1, 2))
    return result


def spread(
    plane: Callable[..., Any], grad: np.ndarray, weight: np.ndarray, bias: Any, spatial: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> np.ndarray | None:  # fmt: skip
    """The gradient with respect to the input: what each tap gives to the planes that it sees is added."""
    (depth, *size), taps, count = spatial, weight.shape[2], grad.shape[2]
    channels = weight.shape[1] * groups
    flat = _flat_weight(weight)
    result = np.zeros((grad.shape[0], channels, *spatial), grad.dtype)
    for part in _steps(grad.shape[0], channels * taps * count * size[0] * size[1] * grad.itemsize):
        made = plane(_as_images(grad[part]), flat, None, tuple(size), stride[1:], padding[1:], dilation[1:], groups, False)
        if made is None:
            return None
        made = made.reshape(-1, count, channels, taps, *size)
        for t, positions, planes in _taps(depth, count, taps, stride[0], padding[0], dilation[0]):
            result[part, :, planes] += made[:, positions, :, t].swapaxes(1, 2)
    if bias is not None:
        result += bias.reshape(-1, 1, 1, 1)
    return result


def correlate_pair(
    plane: Callable[..., Any], x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to the weight."""
    taps, count = kernel_size[0], grad.shape[2]
    total: np.ndarray | None = None
    for part in _steps(x.shape[0], x[0].nbytes * taps * count // x.shape[2]):
        images = _windows(x[part], count, taps, stride[0], padding[0], dilation[0])
        made = plane(images, _as_images(grad[part]), tuple(kernel_size[1:]), stride[1:], padding[1:], dilation[1:], groups)
        if made is None:
            return None
        total = made if total is None else total + made
    return None if total is None else total.reshape(grad.shape[1], x.shape[1] // groups, taps, *kernel_size[1:])
