"""Coordinates of pixels, sampling at them, and enlarging of flows."""

from __future__ import annotations

from typing import Any

from .... import ops
from ....core.tensor import Tensor
from ....nn import functional as F


def grid_sample(img: Tensor, absolute_grid: Tensor, mode: str = "bilinear", align_corners: bool | None = None) -> Tensor:
    """``F.grid_sample`` with coordinates in pixels, ``x, y``; a single row is sampled at ``y`` as it is."""
    height, width = img.shape[-2:]
    x, y = absolute_grid.split([1, 1], dim=-1)
    x = 2 * x / (width - 1) - 1
    if height > 1:
        y = 2 * y / (height - 1) - 1
    return F.grid_sample(img, ops.cat([x, y], dim=-1), mode=mode, align_corners=align_corners)


def make_coords_grid(batch_size: int, h: int, w: int, device: Any = "cpu") -> Tensor:
    """The coordinates of every pixel, ``(batch_size, 2, h, w)``: x, then y."""
    y, x = ops.meshgrid(ops.arange(h, device=device), ops.arange(w, device=device), indexing="ij")
    return ops.stack((x, y), dim=0).float()[None].repeat(batch_size, 1, 1, 1)


def upsample_flow(flow: Tensor, up_mask: Tensor | None = None, factor: int = 8) -> Tensor:
    """A flow ``(N, 2, h, w)`` in an image ``factor`` times as large.

    Args:
        flow: in pixels.
        up_mask: ``(N, 9 * factor**2, h, w)``, logits of the weights of the nine neighbours for every new pixel; bilinear when None.
        factor: see above.
    Source: torchvision.models.optical_flow._utils.upsample_flow. Teed and Deng 2020, section 3.3.
    """
    batch, channels, height, width = flow.shape
    size = (height * factor, width * factor)
    if up_mask is None:
        return factor * F.interpolate(flow, size=size, mode="bilinear", align_corners=True)
    weights = ops.softmax(up_mask.view(batch, 1, 9, factor, factor, height, width), dim=2)
    neighbours = F.unfold(factor * flow, kernel_size=3, padding=1).view(batch, channels, 9, 1, 1, height, width)
    return (weights * neighbours).sum(dim=2).permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, *size)
