"""Pooling layers."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from ._families import of_dims
from ._tuples import repeated
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

Sizes = int | tuple[int, ...]


# -- maximum ------------------------------------------------------------------------------------------------------------------
class _MaxPoolNd(Module):
    """The largest element under each place of the kernel.

    Args:
        kernel_size: of the kernel.
        stride: step of the kernel; ``kernel_size`` when None.
        padding: elements of minus infinity on each side, at most half the kernel.
        dilation: distance of neighbouring kernel elements in the input.
        return_indices: return the positions of the maxima too, for MaxUnpool{dims}d.
        ceil_mode: round the output size up.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``, to the same with sizes
        ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.
    Raises:
        RuntimeError: padding above half the kernel, or an input smaller than the kernel.
    Source: torch.nn.MaxPool{dims}d.
    """

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation, self.return_indices = padding, dilation, return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        pool = getattr(F, self._functional_form)
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode, return_indices=self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


@of_dims(1, "max_pool1d")
class MaxPool1d(_MaxPoolNd):
    """
    Example:
        >>> nn.MaxPool1d(2)(torch.arange(4.0).reshape(1, 1, 4)).flatten()
        tensor([1., 3.])
    """


@of_dims(2, "max_pool2d")
class MaxPool2d(_MaxPoolNd):
    """
    Example:
        >>> nn.MaxPool2d(2)(torch.arange(16.0).reshape(1, 1, 4, 4)).flatten()
        tensor([ 5.,  7., 13., 15.])
    """


@of_dims(3, "max_pool3d")
class MaxPool3d(_MaxPoolNd):
    """
    Example:
        >>> nn.MaxPool3d(2)(torch.arange(64.0).reshape(1, 1, 4, 4, 4)).flatten()
        tensor([21., 23., 29., 31., 53., 55., 61., 63.])
    """


class _MaxUnpoolNd(Module):
    """Puts the values that MaxPool{dims}d returned to their former positions, and zeros elsewhere.

    Args:
        kernel_size, stride, padding: those of the pooling.
    Shape:
        Two tensors of the shape that MaxPool{dims}d returns (values and indices) become one of the shape that it takes. Several sizes
        may be pooled to one; ``output_size`` chooses among them.
    Source: torch.nn.MaxUnpool{dims}d.
    """

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self._dims)
        self.stride = repeated(stride if stride is not None else kernel_size, self._dims)
        self.padding = repeated(padding, self._dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, self._functional_form)(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@of_dims(1, "max_unpool1d")
class MaxUnpool1d(_MaxUnpoolNd):
    """
    Example:
        >>> pool, unpool = nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)
        >>> values, indices = pool(torch.ones(1, 3, 8))
        >>> values.shape, unpool(values, indices).shape
        (torch.Size([1, 3, 4]), torch.Size([1, 3, 8]))
    """


@of_dims(2, "max_unpool2d")
class MaxUnpool2d(_MaxUnpoolNd):
    """
    Example:
        >>> pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
        >>> values, indices = pool(torch.ones(1, 3, 8, 6))
        >>> values.shape, unpool(values, indices).shape
        (torch.Size([1, 3, 4, 3]), torch.Size([1, 3, 8, 6]))
    """


@of_dims(3, "max_unpool3d")
class MaxUnpool3d(_MaxUnpoolNd):
    """
    Example:
        >>> pool, unpool = nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)
        >>> values, indices = pool(torch.ones(1, 3, 8, 6, 4))
        >>> values.shape, unpool(values, indices).shape
        (torch.Size([1, 3, 4, 3, 2]), torch.Size([1, 3, 8, 6, 4]))
    """


# -- mean ---------------------------------------------------------------------------------------------------------------------
class _AvgPoolNd(Module):
    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of the elements under each place of the kernel.

    Args:
        kernel_size: of the kernel.
        stride: step of the kernel; ``kernel_size`` when None.
        padding: zeros on each side, at most half the kernel.
        ceil_mode: round the output size up.
        count_include_pad: count the zeros of the padding as elements.
    Shape:
        ``(N, C, L)`` or ``(C, L)``, to the same with sizes ``(size + 2 * padding - kernel_size) // stride + 1``.
    Raises:
        RuntimeError: padding above half the kernel, or an input smaller than the kernel.
    Source: torch.nn.AvgPool1d.
    Example:
        >>> nn.AvgPool1d(2)(torch.arange(4.0).reshape(1, 1, 4)).flatten()
        tensor([0.5000, 2.5000])
    """

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(stride if stride is not None else kernel_size, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """The mean of the elements under each place of the kernel.

    Args:
        kernel_size: of the kernel.
        stride: step of the kernel; ``kernel_size`` when None.
        padding: zeros on each side, at most half the kernel.
        ceil_mode: round the output size up.
        count_include_pad: count the zeros of the padding as elements.
        divisor_override: divide the sums by this instead of the number of elements.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``, to the same with sizes ``(size + 2 * padding - kernel_size) // stride + 1``.
    Raises:
        RuntimeError: padding above half the kernel, or an input smaller than the kernel.
    Source: torch.nn.AvgPool{dims}d.
    """

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, default in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True), ("divisor_override", None)):
            self.__dict__.setdefault(name, default)  # older files lack some of them

    def forward(self, input: Tensor) -> Tensor:
        pool = getattr(F, self._functional_form)
        return pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override)


@of_dims(2, "avg_pool2d")
class AvgPool2d(_AvgPoolWithDivisor):
    """
    Example:
        >>> nn.AvgPool2d(2)(torch.arange(16.0).reshape(1, 1, 4, 4)).flatten()
        tensor([ 2.5000,  4.5000, 10.5000, 12.5000])
    """


@of_dims(3, "avg_pool3d")
class AvgPool3d(_AvgPoolWithDivisor):
    """
    Example:
        >>> nn.AvgPool3d(2)(torch.arange(64.0).reshape(1, 1, 4, 4, 4)).flatten()
        tensor([10.5000, 12.5000, 18.5000, 20.5000, 42.5000, 44.5000, 50.5000, 52.5000])
    """


# -- a given output size ------------------------------------------------------------------------------------------------------
_KEPT = "; None keeps the input's"


class _AdaptiveAvgPoolNd(Module):
    """Means over windows that give an output of the wanted size.

    Args:
        output_size: a size, or one for each dimension{none}.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``, to the same with the wanted sizes. Window ``i`` of ``n`` reaches from
        ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.
    Source: torch.nn.AdaptiveAvgPool{dims}d.
    """

    __constants__ = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._functional_form)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@of_dims(1, "adaptive_avg_pool1d", none="")
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """
    Example:
        >>> nn.AdaptiveAvgPool1d(2)(torch.arange(4.0).reshape(1, 1, 4)).flatten()
        tensor([0.5000, 2.5000])
        >>> nn.AdaptiveAvgPool1d(5)(torch.ones(1, 3, 8)).shape
        torch.Size([1, 3, 5])
    """


@of_dims(2, "adaptive_avg_pool2d", none=_KEPT)
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """
    Example:
        >>> nn.AdaptiveAvgPool2d(2)(torch.arange(16.0).reshape(1, 1, 4, 4)).flatten()
        tensor([ 2.5000,  4.5000, 10.5000, 12.5000])
        >>> nn.AdaptiveAvgPool2d(5)(torch.ones(1, 3, 8, 6)).shape
        torch.Size([1, 3, 5, 5])
    """


@of_dims(3, "adaptive_avg_pool3d", none=_KEPT)
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """
    Example:
        >>> nn.AdaptiveAvgPool3d((1, 1, 2))(torch.arange(64.0).reshape(1, 1, 4, 4, 4)).flatten()
        tensor([30.5000, 32.5000])
        >>> nn.AdaptiveAvgPool3d(5)(torch.ones(1, 3, 8, 6, 4)).shape
        torch.Size([1, 3, 5, 5, 5])
    """


class _AdaptiveMaxPoolNd(Module):
    """Maxima over windows that give an output of the wanted size.

    Args:
        output_size: a size, or one for each dimension{none}.
        return_indices: return the positions of the maxima too.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``, to the same with the wanted sizes. Window ``i`` of ``n`` reaches from
        ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.
    Source: torch.nn.AdaptiveMaxPool{dims}d.
    """

    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._functional_form)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@of_dims(1, "adaptive_max_pool1d", none="")
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """
    Example:
        >>> nn.AdaptiveMaxPool1d(2)(torch.arange(4.0).reshape(1, 1, 4)).flatten()
        tensor([1., 3.])
        >>> nn.AdaptiveMaxPool1d(5)(torch.ones(1, 3, 8)).shape
        torch.Size([1, 3, 5])
    """


@of_dims(2, "adaptive_max_pool2d", none=_KEPT)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """
    Example:
        >>> nn.AdaptiveMaxPool2d(2)(torch.arange(16.0).reshape(1, 1, 4, 4)).flatten()
        tensor([ 5.,  7., 13., 15.])
        >>> nn.AdaptiveMaxPool2d(5)(torch.ones(1, 3, 8, 6)).shape
        torch.Size([1, 3, 5, 5])
    """


@of_dims(3, "adaptive_max_pool3d", none=_KEPT)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """
    Example:
        >>> nn.AdaptiveMaxPool3d((1, 1, 2))(torch.arange(64.0).reshape(1, 1, 4, 4, 4)).flatten()
        tensor([61., 63.])
        >>> nn.AdaptiveMaxPool3d(5)(torch.ones(1, 3, 8, 6, 4)).shape
        torch.Size([1, 3, 5, 5, 5])
    """


# -- p-norm and random windows ------------------------------------------------------------------------------------------------
class _LPPoolNd(Module):
    """The p-norm of the elements under each place of the kernel: ``sum(input ** norm_type) ** (1 / norm_type)``.

    Args:
        norm_type: p.
        kernel_size: of the kernel.
        stride: step of the kernel; ``kernel_size`` when None.
        ceil_mode: round the output size up.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``, to the same with sizes ``(size - kernel_size) // stride + 1``.
    Source: torch.nn.LPPool{dims}d.
    """

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._functional_form)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


@of_dims(1, "lp_pool1d")
class LPPool1d(_LPPoolNd):
    """
    Example:
        >>> nn.LPPool1d(2, kernel_size=2)(torch.ones(1, 1, 4)).flatten()
        tensor([1.4142, 1.4142])
    """


@of_dims(2, "lp_pool2d")
class LPPool2d(_LPPoolNd):
    """
    Example:
        >>> nn.LPPool2d(2, kernel_size=2)(torch.ones(1, 1, 4, 2)).flatten()
        tensor([2., 2.])
    """


@of_dims(3, "lp_pool3d")
class LPPool3d(_LPPoolNd):
    """
    Example:
        >>> nn.LPPool3d(2, kernel_size=2)(torch.ones(1, 1, 4, 2, 2)).flatten()
        tensor([2.8284, 2.8284])
    """


class _FractionalMaxPoolNd(Module):
    """Maxima over windows of nearly equal, randomly drawn steps.

    Args:
        kernel_size: of the windows.
        output_size: the wanted size, or
        output_ratio: the wanted size as a part of the input's, between 0 and 1.
        return_indices: return the positions of the maxima too.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``, to the same with the wanted sizes.
    Raises:
        ValueError: not exactly one of ``output_size`` and ``output_ratio``; a ratio outside ``(0, 1)``.
    Source: torch.nn.FractionalMaxPool{dims}d; Graham 2014.
    """

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, dims = self._get_name(), self._dims
        self.kernel_size = repeated(kernel_size, dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, dims)
        self.output_ratio = None if output_ratio is None else repeated(output_ratio, dims)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        pool = getattr(F, self._functional_form)
        return pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, _random_samples=self._random_samples)


@of_dims(2, "fractional_max_pool2d")
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """
    Example:
        >>> nn.FractionalMaxPool2d(2, output_size=(5, 4))(torch.ones(1, 3, 8, 6)).shape
        torch.Size([1, 3, 5, 4])
        >>> nn.FractionalMaxPool2d(2, output_ratio=0.5)(torch.ones(1, 3, 8, 6)).shape
        torch.Size([1, 3, 4, 3])
    """


@of_dims(3, "fractional_max_pool3d")
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """
    Example:
        >>> nn.FractionalMaxPool3d(2, output_size=(5, 4, 3))(torch.ones(1, 3, 8, 6, 4)).shape
        torch.Size([1, 3, 5, 4, 3])
        >>> nn.FractionalMaxPool3d(2, output_ratio=0.5)(torch.ones(1, 3, 8, 6, 4)).shape
        torch.Size([1, 3, 4, 3, 2])
    """
