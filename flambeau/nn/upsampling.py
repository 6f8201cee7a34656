"""Interpolation as a layer."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from .module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]

Sizes = int | tuple[int, ...]
Factors = float | tuple[float, ...]


class Upsample(Module):
    """Signals, images or volumes of another size.

    Args:
        size: of the result; or
        scale_factor: by which sizes are multiplied.
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
        align_corners: whether the centres of the corner elements stay where they are; for modes other than nearest.
        recompute_scale_factor: compute the factors anew from the result's size.
    Shape:
        ``(N, C, *)`` to the same with other sizes.
    Source: torch.nn.Upsample.
    Example:
        >>> nn.Upsample(scale_factor=2, mode="linear")(torch.tensor([[[0.0, 4.0]]]))
        tensor([[[0., 1., 3., 4.]]])
        >>> nn.Upsample(size=(4, 6))(torch.zeros(1, 3, 2, 2)).shape
        torch.Size([1, 3, 4, 6])
    """

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Factors | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, recompute_scale_factor=self.recompute_scale_factor
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("recompute_scale_factor", True)  # older files do not have it
        super().__setstate__(state)

    def extra_repr(self) -> str:
        given = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{given}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images of another size, each element that of the nearest input element; ``Upsample`` in its default mode.

    Args:
        size: ``(H, W)`` or one number for both; or
        scale_factor: by which sizes are multiplied.
    Shape:
        ``(N, C, H, W)`` to the same with other sizes.
    Source: torch.nn.UpsamplingNearest2d.
    Example:
        >>> nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images of another size by bilinear interpolation that keeps the corners; ``Upsample`` with ``align_corners=True``.

    Args:
        size: ``(H, W)`` or one number for both; or
        scale_factor: by which sizes are multiplied.
    Shape:
        ``(N, C, H, W)`` to the same with other sizes.
    Source: torch.nn.UpsamplingBilinear2d.
    Example:
        >>> nn.UpsamplingBilinear2d(size=(1, 3))(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
