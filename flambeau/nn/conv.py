"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..autograd.grad_mode import no_grad
from ..core.tensor import Parameter, Tensor
from . import functional as F, init
from ._families import of_dims
from ._shown import unusual
from ._tuples import repeated
from .lazy import LazyModuleMixin, lazy_variant
from .module import Module
from .parameter import UninitializedParameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_PADDINGS = {"same", "valid"}
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Base class of all convolution layers. ``transposed`` layers hold their weight as ``(in, out / groups, *kernel)``."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels", "kernel_size",
    ]  # fmt: skip
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {_PADDINGS}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.transposed, self.output_padding, self.groups = transposed, output_padding, groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _pad_argument(padding, kernel_size, dilation)
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(ops.empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        # a = sqrt(5) gives the bound 1 / sqrt(fan_in)
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        ones, zeros = (1,) * len(self.kernel_size), (0,) * len(self.kernel_size)
        shown = [str(self.in_channels), str(self.out_channels), f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        shown += unusual(self, padding=zeros, dilation=ones, output_padding=zeros, groups=1)
        if self.bias is None:
            shown.append("bias=False")
        return ", ".join(shown + unusual(self, padding_mode="zeros"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")  # older files have no padding mode


def _pad_argument(padding: str | tuple[int, ...], kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    """The padding as ``F.pad`` takes it: before and after, last dimension first."""
    sides: list[int] = []
    for dim in reversed(range(len(kernel_size))):
        if padding == "same":
            total = dilation[dim] * (kernel_size[dim] - 1)
            sides += [total // 2, total - total // 2]
        elif isinstance(padding, str):
            sides += [0, 0]
        else:
            sides += [padding[dim], padding[dim]]
    return tuple(sides)


class _Conv(_ConvNd):
    """Cross-correlation with ``out_channels`` kernels over {dimensions}.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: of the kernel.
        stride: step of the kernel.
        padding: elements added on each side of the input; ``"valid"`` for none, ``"same"`` to keep the size (stride 1).
        dilation: distance of neighbouring kernel elements in the input.
        groups: blocks of channels that do not see each other; divides both channel numbers.
        bias: whether there is a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, in_channels, {axes})`` to ``(N, out_channels, {outputs})``, both with or without ``N``, where each
        output size is ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.
    Attributes:
        weight: ``(out_channels, in_channels / groups, *kernel_size)``, uniform in ``±1 / sqrt(fan_in)``.
        bias: ``(out_channels,)``, the same; None without bias.
    Raises:
        ValueError: ``groups`` does not fit the channels; an unknown padding; ``"same"`` with a stride.
    Source: torch.nn.Conv{dims}d.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        dims = self._dims
        super().__init__(
            in_channels,
            out_channels,
            repeated(kernel_size, dims),
            repeated(stride, dims),
            padding if isinstance(padding, str) else repeated(padding, dims),
            repeated(dilation, dims),
            False,
            (0,) * dims,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        convolve = getattr(F, self._functional_form)
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return convolve(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


@of_dims(1, "conv1d")
class Conv1d(_Conv):
    """
    Example:
        >>> layer = nn.Conv1d(3, 16, kernel_size=3, stride=2, padding=1)
        >>> layer(torch.ones(5, 3, 10)).shape
        torch.Size([5, 16, 5])
        >>> layer.weight.shape
        torch.Size([16, 3, 3])
    """


@of_dims(2, "conv2d")
class Conv2d(_Conv):
    """
    Example:
        >>> layer = nn.Conv2d(3, 16, kernel_size=3, stride=2, padding=1)
        >>> layer(torch.ones(5, 3, 10, 8)).shape
        torch.Size([5, 16, 5, 4])
        >>> layer.weight.shape
        torch.Size([16, 3, 3, 3])
    """


@of_dims(3, "conv3d")
class Conv3d(_Conv):
    """
    Example:
        >>> layer = nn.Conv3d(3, 16, kernel_size=3, stride=2, padding=1)
        >>> layer(torch.ones(5, 3, 10, 8, 6)).shape
        torch.Size([5, 16, 5, 4, 3])
        >>> layer.weight.shape
        torch.Size([16, 3, 3, 3, 3])
    """


class _ConvTransposeNd(_ConvNd):
    """Transposed convolution over {dimensions}: enlarges its input by ``stride``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: of the kernel.
        stride: distance of neighbouring inputs in the output.
        padding: elements cut off on each side of the full output.
        output_padding: elements added on one side, to choose among the sizes that a convolution maps to one.
        groups: blocks of channels that do not see each other; divides both channel numbers.
        bias: whether there is a bias.
        dilation: distance of neighbouring kernel elements in the output.
        padding_mode: ``"zeros"`` only.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, in_channels, {axes})`` to ``(N, out_channels, {outputs})``, both with or without ``N``, where each output size is
        ``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.
    Attributes:
        weight: ``(in_channels, out_channels / groups, *kernel_size)``, uniform in ``±1 / sqrt(fan_in)``.
        bias: ``(out_channels,)``, the same; None without bias.
    Raises:
        ValueError: ``groups`` does not fit the channels, or another padding mode.
    Source: torch.nn.ConvTranspose{dims}d. Zeiler et al. 2010.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        dims = self._dims
        super().__init__(
            in_channels,
            out_channels,
            repeated(kernel_size, dims),
            repeated(stride, dims),
            repeated(padding, dims),
            repeated(dilation, dims),
            True,
            repeated(output_padding, dims),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding_for(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The ``output_padding`` that gives ``output_size``; the module's own when None.

        Raises:
            ValueError: a wrong number of sizes, or a size that no padding gives.
        """
        if output_size is None:
            return self.output_padding
        dims, sizes = self._dims, tuple(output_size)
        spatial = tuple(input.shape)[-dims:]
        if len(sizes) == input.dim():
            sizes = sizes[-dims:]
        if len(sizes) != dims:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {dims} or {input.dim()} elements "
                f"(got {len(sizes)})"
            )
        places: Any = zip(spatial, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        smallest = [(n - 1) * step - 2 * pad + gap * (kernel - 1) + 1 for n, step, pad, gap, kernel in places]
        largest = [low + step - 1 for low, step in zip(smallest, self.stride, strict=True)]
        if any(not low <= n <= high for n, low, high in zip(sizes, smallest, largest, strict=True)):
            raise ValueError(
                f"requested an output size of {list(sizes)}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {list(spatial)})"
            )
        return tuple(n - low for n, low in zip(sizes, smallest, strict=True))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding_for(input, output_size)
        function = getattr(F, self._functional_form)
        return function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


@of_dims(1, "conv_transpose1d")
class ConvTranspose1d(_ConvTransposeNd):
    """
    Example:
        >>> layer = nn.ConvTranspose1d(16, 3, kernel_size=4, stride=2, padding=1)
        >>> layer(torch.ones(5, 16, 10)).shape
        torch.Size([5, 3, 20])
        >>> layer.weight.shape
        torch.Size([16, 3, 4])
    """


@of_dims(2, "conv_transpose2d")
class ConvTranspose2d(_ConvTransposeNd):
    """
    Example:
        >>> layer = nn.ConvTranspose2d(16, 3, kernel_size=4, stride=2, padding=1)
        >>> layer(torch.ones(5, 16, 10, 8)).shape
        torch.Size([5, 3, 20, 16])
        >>> layer.weight.shape
        torch.Size([16, 3, 4, 4])
    """


@of_dims(3, "conv_transpose3d")
class ConvTranspose3d(_ConvTransposeNd):
    """
    Example:
        >>> layer = nn.ConvTranspose3d(16, 3, kernel_size=4, stride=2, padding=1)
        >>> layer(torch.ones(5, 16, 10, 8, 6)).shape
        torch.Size([5, 3, 20, 16, 12])
        >>> layer.weight.shape
        torch.Size([16, 3, 4, 4, 4])
    """


# -- layers that take their channels from the first input -------------------------------------------------------------------------
class _LazyConvXdMixin(LazyModuleMixin):
    """Methods of all lazy convolution layers."""

    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    transposed: bool
    weight: Any
    bias: Any
    _dims: int

    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Put uninitialized parameters in the place of those for no channels."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new weights, once there are any."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take ``in_channels`` from an input.

        Raises:
            RuntimeError: the input has another number of dimensions.
            ValueError: its channels are not a multiple of ``groups``.
        """
        if self.has_uninitialized_params():
            with no_grad():
                self.in_channels = self._get_in_channels(input)
                if self.in_channels % self.groups != 0:
                    raise ValueError("in_channels must be divisible by groups")
                channels = [self.in_channels, self.out_channels] if self.transposed else [self.out_channels, self.in_channels]
                channels[1] //= self.groups
                self.weight.materialize((*channels, *self.kernel_size))
                if self.bias is not None:
                    self.bias.materialize((self.out_channels,))
                self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        single = self._dims + 1
        if input.dim() not in (single, single + 1):
            raise RuntimeError(
                f"Expected {single}D (unbatched) or {single + 1}D (batched) input to {type(self).__name__}, but got input of size: "
                f"{input.shape}"
            )
        return input.shape[0 if input.dim() == single else 1]


class _LazyConv(_LazyConvXdMixin, _Conv):
    """A lazy convolution that is not transposed."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._begin(out_channels, bias, device, dtype)


LazyConv1d = lazy_variant(Conv1d, (_LazyConv, Conv1d), "in_channels")
LazyConv2d = lazy_variant(Conv2d, (_LazyConv, Conv2d), "in_channels")
LazyConv3d = lazy_variant(Conv3d, (_LazyConv, Conv3d), "in_channels")


class _LazyConvTranspose(_LazyConvXdMixin, _ConvTransposeNd):
    """A lazy transposed convolution."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype)
        self._begin(out_channels, bias, device, dtype)


LazyConvTranspose1d = lazy_variant(ConvTranspose1d, (_LazyConvTranspose, ConvTranspose1d), "in_channels")
LazyConvTranspose2d = lazy_variant(ConvTranspose2d, (_LazyConvTranspose, ConvTranspose2d), "in_channels")
LazyConvTranspose3d = lazy_variant(ConvTranspose3d, (_LazyConvTranspose, ConvTranspose3d), "in_channels")
