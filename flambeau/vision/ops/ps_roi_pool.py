"""Position-sensitive RoIPool: each bin is the mean of whole pixels of channels of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...core.traced import keep_whole
from ...nn.modules.utils import _pair
from ._bins import RegionPool, mean_matrix, pooled, regions_of, whole_spans
from .ps_roi_align import channels_by_bin

__all__ = ["PSRoIPool", "ps_roi_pool"]


def ps_roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Means of pixels, where the bin ``(i, j)`` of output channel ``c`` reads input channel ``(c * PH + i) * PW + j``.

    Args:
        input: ``(N, C, H, W)``.
        boxes: ``(K, 5)``, image number and two corners, or a list of ``(L, 4)``, one an image.
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels; the corners are then rounded.
    Returns:
        ``(K, C / (PH * PW), PH, PW)``; 0 in empty bins. The image's last row and column are never read, as in torchvision.
    Raises:
        AssertionError: boxes of another shape.
        RuntimeError: boxes of another dtype than ``input``; channels that the bins do not divide.
    Gradient: with respect to ``input`` only.
    Source: torchvision.ops.ps_roi_pool. Dai et al. 2016, R-FCN.
    Example:
        >>> ps_roi_pool(torch.ones(1, 8, 4, 4), [torch.tensor([[0.0, 0.0, 4.0, 4.0]])], 2).shape
        torch.Size([1, 2, 2, 2])
    """
    regions, bins = regions_of("ps_roi_pool", input, boxes), _pair(output_size)
    pixels = channels_by_bin(input, bins)
    images, _, height, width = input.shape
    spans = whole_spans(regions, spatial_scale, bins, (height - 1, width - 1), last=0)
    matrix = mean_matrix(regions[:, 0].astype(np.int64), spans, bins, (images, height, width)).astype(regions.dtype)
    return pooled(pixels, matrix, bins)


class PSRoIPool(RegionPool):
    """``ps_roi_pool`` as a module.

    Args:
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels.
    Source: torchvision.ops.PSRoIPool.
    Example:
        >>> PSRoIPool(2, 1.0)(torch.ones(1, 8, 4, 4), [torch.tensor([[0.0, 0.0, 4.0, 4.0]])]).shape
        torch.Size([1, 2, 2, 2])
    """

    _operation = staticmethod(ps_roi_pool)


keep_whole(globals(), "ps_roi_pool")
