"""Convolution of volumes by that of images: the planes that a window covers in depth are channels of one image.

    volume (N, C, D, H, W)  ->  images (N * positions in depth, C * taps in depth, H, W)

Some samples at a time, so that these images stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous, copy_into
from ..compiler.memory import empty

_ROOM = 1 << 25  # bytes of the images of one step


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
