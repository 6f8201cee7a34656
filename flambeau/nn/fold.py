"""Sliding windows as columns, and back."""

from __future__ import annotations

# Named in the calls.
from ..core.tensor import Tensor  # noqa: F401
from . import functional as F  # noqa: F401
from ._layer import _Printed, layer

__all__ = ["Fold", "Unfold"]

Sizes = int | tuple[int, ...]


@layer("F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)")
class Unfold(_Printed):
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

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1


@layer("F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)")
class Fold(_Printed):
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

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1
