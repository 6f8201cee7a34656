"""Layers that put pixels or channels in another order."""

from __future__ import annotations

# Named in the calls.
from ..core.tensor import Tensor  # noqa: F401
from . import functional as F  # noqa: F401
from ._layer import _Printed, layer

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


@layer("F.pixel_shuffle(input, self.upscale_factor)")
class PixelShuffle(_Printed):
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

    upscale_factor: int


@layer("F.pixel_unshuffle(input, self.downscale_factor)")
class PixelUnshuffle(_Printed):
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

    downscale_factor: int


@layer("F.channel_shuffle(input, self.groups)")
class ChannelShuffle(_Printed):
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

    groups: int
