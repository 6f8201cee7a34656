"""DropBlock: dropout of whole squares of a feature map, after which neighbours cannot stand in for what is missing."""

from __future__ import annotations

from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ...core.traced import keep_whole
from ...nn import functional as F

__all__ = ["DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d"]

_POOL = {2: F.max_pool2d, 3: F.max_pool3d}


def _drop_block(input: Tensor, p: float, block_size: int, inplace: bool, eps: float, training: bool, dims: int) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    if input.ndim != dims + 2:
        raise ValueError(f"input should be {dims + 2} dimensional. Got {input.ndim} dimensions.")
    if not training or p == 0.0:
        return input
    sizes = tuple(input.shape[2:])
    block_size = min(block_size, *sizes)
    if block_size % 2 == 0:
        raise ValueError(f"block size should be odd. Got {block_size} which is even.")
    centres = tuple(size - block_size + 1 for size in sizes)
    elements, places = 1, 1
    for size, count in zip(sizes, centres):
        elements, places = elements * size, places * count
    rate = p * elements / (block_size**dims * places)  # of centres, so that p is the share of dropped elements
    noise = ops.empty((*input.shape[:2], *centres), dtype=input.dtype, device=input.device).bernoulli_(rate)
    half = block_size // 2
    noise = _POOL[dims](F.pad(noise, [half] * (2 * dims), value=0), kernel_size=block_size, stride=1, padding=half)
    kept = 1 - noise
    scale = kept.numel() / (eps + kept.sum())
    if inplace:
        return input.mul_(kept).mul_(scale)
    return input * kept * scale


def drop_block2d(input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06, training: bool = True) -> Tensor:
    """Squares of ``input`` set to zero, each channel for itself; the rest is scaled so that the mean stays.

    Args:
        input: ``(N, C, H, W)``.
        p: share of elements to drop.
        block_size: side of a square, odd; limited to the input's sides.
        inplace: write into ``input``.
        eps: added to the divisor of the scale.
        training: ``input`` as it is when False.
    Returns:
        A tensor like ``input``.
    Raises:
        ValueError: ``p`` outside of [0, 1], another number of dimensions, an even block.
    Source: torchvision.ops.drop_block2d. Ghiasi et al. 2018.
    Example:
        >>> drop_block2d(torch.ones(2, 3, 8, 8), p=0.3, block_size=3).shape
        torch.Size([2, 3, 8, 8])
    """
    return _drop_block(input, p, block_size, inplace, eps, training, 2)


def drop_block3d(input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06, training: bool = True) -> Tensor:
    """Cubes of ``input``, ``(N, C, D, H, W)``, set to zero; otherwise ``drop_block2d``.

    Args:
        input: ``(N, C, D, H, W)``.
        p: share of elements to drop.
        block_size: side of a cube, odd.
        inplace: write into the input.
        eps: added to the divisor of the scale.
        training: otherwise the input is returned as it is.
    Returns:
        Of the input's shape.
    Source: torchvision.ops.drop_block3d. Ghiasi et al. 2018.
    Example:
        >>> drop_block3d(torch.ones(2, 3, 4, 8, 8), p=0.3, block_size=3).shape
        torch.Size([2, 3, 4, 8, 8])
    """
    return _drop_block(input, p, block_size, inplace, eps, training, 3)


class DropBlock2d(nn.Module):
    """``drop_block2d`` while training.

    Args:
        p: share of elements to drop.
        block_size: side of a square, odd.
        inplace: write into the input.
        eps: added to the divisor of the scale.
    Shape:
        ``(N, C, H, W)`` to the same.
    Source: torchvision.ops.DropBlock2d.
    Example:
        >>> DropBlock2d(p=0.3, block_size=3)(torch.ones(2, 3, 8, 8)).shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06) -> None:
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input: Tensor) -> Any:
        return drop_block2d(input, self.p, self.block_size, self.inplace, self.eps, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, block_size={self.block_size}, inplace={self.inplace})"


class DropBlock3d(DropBlock2d):
    """``drop_block3d`` while training.

    Args:
        p: share of elements to drop.
        block_size: side of a cube, odd.
        inplace: write into the input.
        eps: added to the divisor of the scale.
    Shape:
        ``(N, C, D, H, W)`` to the same.
    Source: torchvision.ops.DropBlock3d.
    Example:
        >>> DropBlock3d(p=0.3, block_size=3).eval()(torch.ones(1, 1, 3, 3, 3)).sum()
        tensor(27.)
    """

    def forward(self, input: Tensor) -> Any:
        return drop_block3d(input, self.p, self.block_size, self.inplace, self.eps, self.training)


keep_whole(globals(), "drop_block2d", "drop_block3d")
