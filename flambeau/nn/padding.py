"""Padding layers: a border of constants, mirror images, copies of the edge, or the other side."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from ._families import of_dims
from ._tuples import repeated
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """A border of ``_mode`` around the last ``_dims`` dimensions."""

    __constants__ = ["padding"]
    _mode = ""
    padding: tuple[int, ...]

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self._dims)

    def extra_repr(self) -> str:
        return f"{self.padding}"

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)


class _ConstantPad(_Pad):
    """Puts a border of ``value`` around {last}.

    Args:
        padding: elements before and after, last dimension first: ``({sides})``; one number for all sides.
        value: of the border.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Raises:
        RuntimeError: an input of fewer dimensions than are padded.
    Source: torch.nn.ConstantPad{dims}d.
    """

    __constants__ = ["padding", "value"]

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


@of_dims(1)
class ConstantPad1d(_ConstantPad):
    """
    Example:
        >>> nn.ConstantPad1d((2, 1), 7.0)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[7., 7., 1., 2., 3., 7.]]])
    """


@of_dims(2)
class ConstantPad2d(_ConstantPad):
    """
    Example:
        >>> nn.ConstantPad2d((1, 1, 0, 1), 7.0)(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[7., 1., 2., 7.],
                  [7., 3., 4., 7.],
                  [7., 7., 7., 7.]]]])
    """


@of_dims(3)
class ConstantPad3d(_ConstantPad):
    """
    Example:
        >>> nn.ConstantPad3d((1, 1, 0, 0, 0, 1), 7.0)(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[7., 1., 2., 7.],
                [7., 3., 4., 7.],
                [7., 7., 7., 7.]])
    """


class _ZeroPad(_ConstantPad):
    """Puts a border of zeros around {last}.

    Args:
        padding: elements before and after, last dimension first: ``({sides})``; one number for all sides.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Raises:
        RuntimeError: an input of fewer dimensions than are padded.
    Source: torch.nn.ZeroPad{dims}d.
    """

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@of_dims(1)
class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """
    Example:
        >>> nn.ZeroPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[0., 0., 1., 2., 3., 0.]]])
    """


@of_dims(2)
class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """
    Example:
        >>> nn.ZeroPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[0., 1., 2., 0.],
                  [0., 3., 4., 0.],
                  [0., 0., 0., 0.]]]])
    """


@of_dims(3)
class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """
    Example:
        >>> nn.ZeroPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[0., 1., 2., 0.],
                [0., 3., 4., 0.],
                [0., 0., 0., 0.]])
    """


class _ReflectionPad(_Pad):
    """Continues the input by its mirror image, without repeating the edge.

    Args:
        padding: elements before and after, last dimension first: ``({sides})``; one number for all sides.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Raises:
        RuntimeError: a side as long as the dimension that it continues, or an input of too few dimensions.
    Source: torch.nn.ReflectionPad{dims}d.
    """

    _mode = "reflect"


@of_dims(1)
class ReflectionPad1d(_ReflectionPad):
    """
    Example:
        >>> nn.ReflectionPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 2., 1., 2., 3., 2.]]])
    """


@of_dims(2)
class ReflectionPad2d(_ReflectionPad):
    """
    Example:
        >>> nn.ReflectionPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[2., 1., 2., 1.],
                  [4., 3., 4., 3.],
                  [2., 1., 2., 1.]]]])
    """


@of_dims(3)
class ReflectionPad3d(_ReflectionPad):
    """
    Example:
        >>> nn.ReflectionPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[2., 1., 2., 1.],
                [4., 3., 4., 3.],
                [2., 1., 2., 1.]])
    """


class _ReplicationPad(_Pad):
    """Continues the input by copies of its edge.

    Args:
        padding: elements before and after, last dimension first: ``({sides})``; one number for all sides.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Raises:
        RuntimeError: an input of too few dimensions.
    Source: torch.nn.ReplicationPad{dims}d.
    """

    _mode = "replicate"


@of_dims(1)
class ReplicationPad1d(_ReplicationPad):
    """
    Example:
        >>> nn.ReplicationPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[1., 1., 1., 2., 3., 3.]]])
    """


@of_dims(2)
class ReplicationPad2d(_ReplicationPad):
    """
    Example:
        >>> nn.ReplicationPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [3., 3., 4., 4.],
                  [3., 3., 4., 4.]]]])
    """


@of_dims(3)
class ReplicationPad3d(_ReplicationPad):
    """
    Example:
        >>> nn.ReplicationPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[1., 1., 2., 2.],
                [3., 3., 4., 4.],
                [3., 3., 4., 4.]])
    """


class _CircularPad(_Pad):
    """Continues the input by its other side.

    Args:
        padding: elements before and after, last dimension first: ``({sides})``; one number for all sides.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Raises:
        RuntimeError: a side longer than the dimension that it continues.
        ValueError: an input of neither {unbatched} nor {batched} dimensions.
    Source: torch.nn.CircularPad{dims}d.
    """

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        dims = self._dims
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(f"expected {dims + 1}D or {dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


@of_dims(1)
class CircularPad1d(_CircularPad):
    """
    Example:
        >>> nn.CircularPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[2., 3., 1., 2., 3., 1.]]])
    """


@of_dims(2)
class CircularPad2d(_CircularPad):
    """
    Example:
        >>> nn.CircularPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[2., 1., 2., 1.],
                  [4., 3., 4., 3.],
                  [2., 1., 2., 1.]]]])
    """


@of_dims(3)
class CircularPad3d(_CircularPad):
    """
    Example:
        >>> nn.CircularPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[2., 1., 2., 1.],
                [4., 3., 4., 3.],
                [2., 1., 2., 1.]])
    """
