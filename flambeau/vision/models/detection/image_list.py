"""Images of several sizes as one tensor."""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor

__all__ = ["ImageList"]


class ImageList:
    """Images padded to one size, and the sizes they had.

    Args:
        tensors: ``(N, C, H, W)``.
        image_sizes: height and width of each before padding.
    Source: torchvision.models.detection.image_list.ImageList.
    Example:
        >>> ImageList(torch.zeros(1, 3, 8, 8), [(6, 8)]).image_sizes
        [(6, 8)]
    """

    def __init__(self, tensors: Tensor, image_sizes: list[tuple[int, int]]) -> None:
        self.tensors, self.image_sizes = tensors, image_sizes

    def to(self, device: Any) -> ImageList:
        """The same images on another device."""
        return ImageList(self.tensors.to(device), self.image_sizes)
