"""RoIAlign: features of regions by bilinear interpolation."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...core.traced import keep_whole
from ...nn.modules.utils import _pair
from ._bins import RegionPool, bilinear_matrix, pooled, regions_of

__all__ = ["RoIAlign", "roi_align"]


def roi_align(
    input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False
) -> Tensor:
    """For each region a grid of bins, each the mean of the image at some points, interpolated between pixels.

    Args:
        input: ``(N, C, H, W)``.
        boxes: ``(K, 5)``, image number and two corners, or a list of ``(L, 4)``, one an image.
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels of ``input``.
        sampling_ratio: points a bin along each axis; where not positive, the bin's size in pixels, rounded up.
        aligned: whether pixel ``i`` covers ``[i, i + 1]`` with its value in the middle; otherwise its value lies at ``i``, and regions are
            at least one pixel wide.
    Returns:
        ``(K, C, *output_size)``.
    Raises:
        AssertionError: boxes of another shape.
        RuntimeError: boxes of another dtype than ``input``.
    Gradient: with respect to ``input`` only.
    Source: torchvision.ops.roi_align. He et al. 2017, Mask R-CNN, section 3.
    Example:
        >>> image = torch.arange(16.0).view(1, 1, 4, 4)
        >>> roi_align(image, torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0]]), 2, aligned=True)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
    """
    regions, bins = regions_of("roi_align", input, boxes), _pair(output_size)
    images, channels, height, width = input.shape
    image = (images, height, width)
    matrix = bilinear_matrix(regions, spatial_scale, bins, sampling_ratio, image, aligned=aligned, split=False)
    return pooled(input.permute(0, 2, 3, 1).reshape(-1, channels), matrix, bins)


class RoIAlign(RegionPool):
    """``roi_align`` as a module.

    Args:
        output_size: bins vertically and horizontally.
        spatial_scale: from the boxes' coordinates to pixels.
        sampling_ratio: points a bin along each axis.
        aligned: whether values lie in the middle of pixels.
    Source: torchvision.ops.RoIAlign.
    Example:
        >>> pool = RoIAlign((2, 2), spatial_scale=0.5, sampling_ratio=2)
        >>> pool(torch.ones(1, 3, 8, 8), [torch.tensor([[0.0, 0.0, 8.0, 8.0]])]).shape
        torch.Size([1, 3, 2, 2])
    """

    _operation = staticmethod(roi_align)
    _settings = (*RegionPool._settings, "sampling_ratio", "aligned")

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False) -> None:
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio, self.aligned = sampling_ratio, aligned


keep_whole(globals(), "roi_align")
