"""Layers that put pixels or channels in another order."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Blocks of ``r * r`` channels become squares of ``r`` by ``r`` pixels.

    Args:
        upscale_factor: ``r``.
    Shape:
        ``(*, C * r * r, H, W)`` to ``(*, C, H * r, W * r)``.
    Source: torch.nn.PixelShuffle. Shi et al. 2016.
    Example:
        >>> nn.PixelShuffle(2)(torch.arange(4.0).reshape(4, 1, 1))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Squares of ``r`` by ``r`` pixels become channels: the inverse of ``PixelShuffle``.

    Args:
        downscale_factor: ``r``.
    Shape:
        ``(*, C, H * r, W * r)`` to ``(*, C * r * r, H, W)``.
    Source: torch.nn.PixelUnshuffle.
    Example:
        >>> nn.PixelUnshuffle(2)(torch.arange(4.0).reshape(1, 2, 2)).flatten(1)
        tensor([[0.],
                [1.],
                [2.],
                [3.]])
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels dealt out anew: those of ``groups`` groups in turns.

    Args:
        groups: number of groups.
    Shape:
        ``(N, C, *)`` to the same; ``groups`` divides ``C``.
    Source: torch.nn.ChannelShuffle. Zhang et al. 2018.
    Example:
        >>> nn.ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
