"""Sliding windows as columns, and back."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module

__all__ = ["Fold", "Unfold"]

Sizes = int | tuple[int, ...]


class Unfold(Module):
    """Every window of the input as a column.

    Args:
        kernel_size: of the window.
        dilation: distance of neighbouring window elements in the input.
        padding: zeros on each side.
        stride: step of the window.
    Shape:
        ``(N, C, H, W)`` or ``(C, H, W)`` to ``(N, C * kernel elements, windows)`` or without ``N``.
    Source: torch.nn.Unfold.
    Example:
        >>> nn.Unfold(2)(torch.arange(6.0).reshape(1, 1, 2, 3))
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding = kernel_size, dilation, padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Sums columns into the windows that they stand for: the transpose of Unfold.

    Args:
        output_size: height and width of the result.
        kernel_size, dilation, padding, stride: as in Unfold.
    Shape:
        ``(N, C * kernel elements, windows)`` or without ``N`` to ``(N, C, *output_size)`` or ``(C, *output_size)``.
    Source: torch.nn.Fold.
    Example:
        >>> nn.Fold(output_size=(2, 3), kernel_size=2)(torch.ones(1, 4, 2))
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__()
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )
