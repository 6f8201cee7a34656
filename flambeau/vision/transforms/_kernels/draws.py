"""Draws of random transforms, from PyTorch's generator and in torchvision's order: equal seeds give equal transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from .filters import gaussian_blur

Bounds = Sequence[float]


def uniform(low: float, high: float) -> float:
    return ops.empty(1).uniform_(low, high).item()


def whole(low: int, high: int) -> int:
    """From ``low`` to below ``high``."""
    return int(ops.randint(low, high, (1,)))


def happens(probability: float) -> bool:
    return bool(ops.rand(1) < probability)


def _area_and_ratio(area: int, scale: Bounds, ratio: Bounds) -> tuple[float, float]:
    share = area * uniform(scale[0], scale[1])
    return share, ops.exp(ops.empty(1).uniform_(*_logarithms(dtypes._default, *ratio))).item()


@lru_cache(maxsize=64)
def _logarithms(dtype: Any, low: float, high: float) -> tuple[float, float]:
    """As tensors of the default dtype have them."""
    low, high = ops.log(ops.tensor((low, high), dtype=dtype)).tolist()
    return low, high


def resized_window(height: int, width: int, scale: Bounds, ratio: Bounds) -> tuple[int, int, int, int]:
    """Top, left, height and width of a window of random area and shape; in ten tries none that fits: the largest in the middle."""
    for _ in range(10):
        area, shape = _area_and_ratio(height * width, scale, ratio)
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            top = whole(0, height - h + 1)
            return top, whole(0, width - w + 1), h, w
    w, h = width, height
    if width / height < min(ratio):
        h = round(width / min(ratio))
    elif width / height > max(ratio):
        w = round(height * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


def erased_window(
    channels: int, height: int, width: int, scale: Bounds, ratio: Bounds, value: Any
) -> tuple[int, int, int, int, Tensor] | None:
    """Top, left, height, width and contents of a window to erase; None if no window of ten fits."""
    for _ in range(10):
        area, shape = _area_and_ratio(height * width, scale, ratio)
        h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if h >= height or w >= width:
            continue
        contents = ops.empty(channels, h, w).normal_() if value is None else ops.tensor(value).view(-1, 1, 1)
        top = whole(0, height - h + 1)
        return top, whole(0, width - w + 1), h, w, contents
    return None


def affine(
    degrees: Bounds, translate: Any, scale: Any, shear: Any, height: int, width: int
) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
    """Angle, translation, scale and shear."""
    angle = uniform(degrees[0], degrees[1])
    translation = (0, 0)
    if translate is not None:
        right, down = float(translate[0] * width), float(translate[1] * height)
        across = round(uniform(-right, right))
        translation = across, round(uniform(-down, down))
    factor = 1.0 if scale is None else uniform(scale[0], scale[1])
    shear_x = shear_y = 0.0
    if shear is not None:
        shear_x = uniform(shear[0], shear[1])
        if len(shear) == 4:
            shear_y = uniform(shear[2], shear[3])
    return angle, translation, factor, (shear_x, shear_y)


def perspective(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
    """The corners of an image, and where they go: inwards."""
    across, down = int(distortion_scale * (width // 2)) + 1, int(distortion_scale * (height // 2)) + 1
    left, right, top, bottom = (0, across), (width - across, width), (0, down), (height - down, height)
    endpoints = [[whole(*x), whole(*y)] for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))]
    return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], endpoints


def jitter(bounds: Sequence[Any]) -> tuple[Tensor, list[float | None]]:
    """An order of brightness, contrast, saturation and hue, and a factor for each that has bounds."""
    order = ops.randperm(4)
    return order, [None if bound is None else uniform(bound[0], bound[1]) for bound in bounds]


def displacement(alpha: Bounds, sigma: Bounds, height: int, width: int) -> Tensor:
    """Smooth displacements ``(1, H, W, 2)``."""
    parts = []
    for strength, deviation, length in ((alpha[0], sigma[0], width), (alpha[1], sigma[1], height)):
        part = ops.rand(1, 1, height, width) * 2 - 1
        if deviation > 0.0:
            size = int(8 * deviation + 1) | 1
            part = gaussian_blur.kernel(part, [size, size], list(sigma))
        parts.append(part * strength / length)
    return ops.cat(parts, 1).permute(0, 2, 3, 1)
