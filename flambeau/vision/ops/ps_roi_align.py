"""Position-sensitive RoIAlign: each bin reads channels of its own."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...core.traced import keep_whole
from ...nn.modules.utils import _pair
from ._bins import RegionPool, bilinear_matrix, pooled, regions_of

__all__ = ["PSRoIAlign", "ps_roi_align"]


def channels_by_bin(input: Tensor, bins: tuple[int, int]) -> Tensor:
    """Pixels ``(N * H * W * bins, C / bins)`` of an image whose channels are ``(C / bins, *bins)``.

    Raises:
        RuntimeError: a number of channels that the bins do not divide.
    """
    images, channels, height, width = input.shape
    if channels % (bins[0] * bins[1]) != 0:
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    per_bin = channels // (bins[0] * bins[1])
    return input.reshape(images, per_bin, *bins, height, width).permute(0, 4, 5, 2, 3, 1).reshape(-1, per_bin)


def ps_roi_align(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0, sampling_ratio: int = -1) -> Tensor:
    """``roi_align`` where the bin ``(i, j)`` of output channel ``c`` reads input channel ``(c * PH + i) * PW + j``.

    Args:
        input: ``(N, C, H, W)``.
        boxes: ``(K, 5)``, image number and two corners, or a list of ``(L, 4)``, one an image.
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels.
        sampling_ratio: points a bin along each axis; where not positive, the bin's size in pixels, rounded up.
    Returns:
        ``(K, C / (PH * PW), PH, PW)``.
    Raises:
        AssertionError: boxes of another shape.
        RuntimeError: boxes of another dtype than ``input``; channels that the bins do not divide.
    Gradient: with respect to ``input`` only.
    Source: torchvision.ops.ps_roi_align. Li et al. 2017, Light-Head R-CNN.
    Example:
        >>> ps_roi_align(torch.ones(1, 8, 4, 4), [torch.tensor([[0.0, 0.0, 4.0, 4.0]])], 2).shape
        torch.Size([1, 2, 2, 2])
    """
    regions, bins = regions_of("ps_roi_align", input, boxes), _pair(output_size)
    pixels = channels_by_bin(input, bins)
    image = (input.shape[0], input.shape[2], input.shape[3])
    return pooled(pixels, bilinear_matrix(regions, spatial_scale, bins, sampling_ratio, image, aligned=True, split=True), bins)


class PSRoIAlign(RegionPool):
    """``ps_roi_align`` as a module.

    Args:
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels.
        sampling_ratio: points a bin along each axis.
    Source: torchvision.ops.PSRoIAlign.
    Example:
        >>> PSRoIAlign(2, 1.0, 2)(torch.ones(1, 8, 4, 4), [torch.tensor([[0.0, 0.0, 4.0, 4.0]])]).shape
        torch.Size([1, 2, 2, 2])
    """

    _operation = staticmethod(ps_roi_align)
    _settings = (*RegionPool._settings, "sampling_ratio")

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int) -> None:
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio = sampling_ratio


keep_whole(globals(), "ps_roi_align")
