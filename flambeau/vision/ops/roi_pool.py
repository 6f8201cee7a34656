"""RoIPool: the largest value in each bin of a region."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...core.tensor import Tensor
from ...core.traced import keep_whole
from ...nn.modules.utils import _pair
from ._bins import RegionPool, regions_of, whole_spans

__all__ = ["RoIPool", "roi_pool"]


def roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """For each region a grid of bins, each the largest of its pixels.

    Args:
        input: ``(N, C, H, W)``.
        boxes: ``(K, 5)``, image number and two corners, or a list of ``(L, 4)``, one an image.
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels; the corners are then rounded, the last one included.
    Returns:
        ``(K, C, *output_size)``; 0 in empty bins.
    Raises:
        AssertionError: boxes of another shape.
        RuntimeError: boxes of another dtype than ``input``.
    Gradient: to the first largest pixel of each bin; none with respect to the boxes.
    Source: torchvision.ops.roi_pool. Girshick 2015, Fast R-CNN.
    Example:
        >>> image = torch.arange(16.0).view(1, 1, 4, 4)
        >>> roi_pool(image, torch.tensor([[0.0, 0.0, 0.0, 3.0, 3.0]]), 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """
    regions, bins = regions_of("roi_pool", input, boxes), _pair(output_size)
    _, channels, height, width = input.shape
    rows, columns = whole_spans(regions, spatial_scale, bins, (height, width), last=1)
    places, empty = _largest(input.detach().cpu().numpy(), regions[:, 0].astype(np.int64), rows, columns)
    index = ops.as_tensor(places, device=input.device)
    values = input.reshape(-1)[index.reshape(-1)].reshape(len(regions), channels, *bins)
    return values.masked_fill(ops.as_tensor(empty, device=input.device)[:, None], 0)


def _largest(images: np.ndarray, numbers: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position of each bin's largest value in the flat image, ``(K, C, PH, PW)``, and mask of the empty bins ``(K, PH, PW)``."""
    _, channels, height, width = images.shape
    regions, bins = len(numbers), (rows.shape[1], columns.shape[1])
    places = np.zeros((regions, channels, *bins), dtype=np.int64)
    empty = np.ones((regions, *bins), dtype=bool)
    planes = np.arange(channels) * (height * width)
    for k, i, j in np.ndindex(regions, *bins):
        (top, bottom), (left, right) = rows[k, i], columns[k, j]
        if bottom <= top or right <= left:
            continue
        block = images[numbers[k], :, top:bottom, left:right]
        first = block.reshape(channels, -1).argmax(axis=1)
        y, x = np.divmod(first, right - left)
        places[k, :, i, j] = numbers[k] * channels * height * width + planes + (top + y) * width + left + x
        empty[k, i, j] = False
    return places, empty


class RoIPool(RegionPool):
    """``roi_pool`` as a module.

    Args:
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels.
    Source: torchvision.ops.RoIPool.
    Example:
        >>> RoIPool(2, 1.0)(torch.ones(1, 3, 8, 8), [torch.tensor([[0.0, 0.0, 7.0, 7.0]])]).shape
        torch.Size([1, 3, 2, 2])
    """

    _operation = staticmethod(roi_pool)


keep_whole(globals(), "roi_pool")
