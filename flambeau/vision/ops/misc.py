"""Blocks that the models are built from: convolutions with normalization and activation, squeeze and excitation, perceptrons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from .._signatures import taking

__all__ = ["MLP", "Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation"]

Layer = Callable[..., nn.Module]
Size = int | tuple[int, ...]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization with fixed statistics and a fixed affine map: all four are buffers, and none is trained or updated.

    Args:
        num_features: channels.
        eps: added to the variance.
    Shape:
        ``(N, num_features, H, W)`` to the same.
    Attributes:
        weight, running_var: ones at first.
        bias, running_mean: zeros at first.
    Source: torchvision.ops.FrozenBatchNorm2d.
    Example:
        >>> FrozenBatchNorm2d(3)
        FrozenBatchNorm2d(3, eps=1e-05)
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, fill in (("weight", ops.ones), ("bias", ops.zeros), ("running_mean", ops.zeros), ("running_var", ops.ones)):
            self.register_buffer(name, fill(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)  # files of the layer that counts have it
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, mean, variance = (
            buffer.reshape(1, -1, 1, 1) for buffer in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        scale = weight * (variance + self.eps).rsqrt()
        return x * scale + (bias - mean * scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


def padding_of_same_size(kernel_size: Size, dilation: Size) -> Size:
    """The padding that keeps a size at stride 1, for odd kernels."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    count = len(kernel_size) if isinstance(kernel_size, Sequence) else len(dilation)  # type: ignore[arg-type]
    sizes, spaces = ((value,) * count if isinstance(value, int) else tuple(value) for value in (kernel_size, dilation))
    return tuple((size - 1) // 2 * space for size, space in zip(sizes, spaces))


class ConvNormActivation(nn.Sequential):
    """A convolution, its normalization and its activation; use the 2d and 3d forms.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, groups, dilation, bias: as for :class:`Conv2dNormActivation`.
        norm_layer, activation_layer, inplace: likewise.
        conv_layer: the class of the convolution.
    Source: torchvision.ops.misc.ConvNormActivation.
    Example:
        >>> [type(layer).__name__ for layer in Conv2dNormActivation(3, 8)]
        ['Conv2d', 'BatchNorm2d', 'ReLU']
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size = 3,
        stride: Size = 1,
        padding: Size | str | None = None,
        groups: int = 1,
        norm_layer: Layer | None = nn.BatchNorm2d,
        activation_layer: Layer | None = nn.ReLU,
        dilation: Size = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Layer = nn.Conv2d,
    ) -> None:
        if padding is None:
            padding = padding_of_same_size(kernel_size, dilation)
        if bias is None:
            bias = norm_layer is None
        layers = [conv_layer(in_channels, out_channels, kernel_size, stride, padding, dilation=dilation, groups=groups, bias=bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels
        if type(self) is ConvNormActivation:
            warnings.warn(
                "Don't use ConvNormActivation directly, please use Conv2dNormActivation and Conv3dNormActivation instead.", stacklevel=2
            )


class Conv2dNormActivation(ConvNormActivation):
    """A 2-dimensional convolution, then ``norm_layer`` of its channels, then ``activation_layer``: a ``Sequential`` of up to three.

    Args:
        in_channels, out_channels: of the convolution.
        kernel_size, stride, groups, dilation: of the convolution.
        padding: of the convolution; what keeps the size at stride 1 when None.
        norm_layer: built with ``out_channels``; no such layer when None.
        activation_layer: built with ``inplace``, unless that is None; no such layer when None.
        bias: whether the convolution has one; when None, only if no normalization follows.
    Attributes:
        out_channels: channels of the result.
    Source: torchvision.ops.Conv2dNormActivation.
    Example:
        >>> [type(layer).__name__ for layer in Conv2dNormActivation(1, 8, bias=True)]
        ['Conv2d', 'BatchNorm2d', 'ReLU']
    """

    @taking(ConvNormActivation.__init__, without=("conv_layer",))
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, conv_layer=nn.Conv2d)


class Conv3dNormActivation(ConvNormActivation):
    __doc__ = (Conv2dNormActivation.__doc__ or "").replace("2", "3")

    @taking(ConvNormActivation.__init__, without=("conv_layer",), norm_layer=nn.BatchNorm3d)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, conv_layer=nn.Conv3d)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a number between 0 and 1 that two small layers compute from the means of all channels.

    Args:
        input_channels: channels of the input.
        squeeze_channels: channels between the two layers.
        activation: built for use after the first layer.
        scale_activation: built for use after the second.
    Shape:
        ``(N, input_channels, H, W)`` to the same.
    Source: torchvision.ops.SqueezeExcitation. Hu, Shen and Sun 2018, "Squeeze-and-Excitation Networks", figure 1.
    Example:
        >>> SqueezeExcitation(8, 2)(torch.ones(1, 8, 4, 4)).shape
        torch.Size([1, 8, 4, 4])
    """

    def __init__(
        self, input_channels: int, squeeze_channels: int, activation: Layer = nn.ReLU, scale_activation: Layer = nn.Sigmoid
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def _scale(self, input: Tensor) -> Tensor:
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))

    def forward(self, input: Tensor) -> Tensor:
        return self._scale(input) * input


class MLP(nn.Sequential):
    """A perceptron: linear, ``norm_layer``, ``activation_layer`` and dropout for each layer; the last lacks the middle two.

    Args:
        in_channels: features of the input.
        hidden_channels: features of each layer, that of the output included.
        norm_layer: built with the features; no such layers when None.
        activation_layer: built with ``inplace``, unless that is None.
        inplace: for activations and dropout.
        bias: whether the linear layers have one.
        dropout: probability.
    Source: torchvision.ops.MLP.
    Example:
        >>> MLP(4, [8, 2])(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: Layer | None = None,
        activation_layer: Layer | None = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options: dict[str, Any] = {} if inplace is None else {"inplace": inplace}
        layers: list[nn.Module] = []
        for features in hidden_channels[:-1]:
            layers.append(nn.Linear(in_channels, features, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(features))
            layers += [activation_layer(**options), nn.Dropout(dropout, **options)]  # type: ignore[misc]  # None fails as in torchvision
            in_channels = features
        super().__init__(*layers, nn.Linear(in_channels, hidden_channels[-1], bias=bias), nn.Dropout(dropout, **options))


class Permute(nn.Module):
    """Its input with the dimensions in another order, a view. Source: torchvision.ops.Permute.

    Args:
        dims: the dimension of the input that each one of the result is.
    Example:
        >>> Permute([0, 2, 1])(torch.ones(2, 3, 4)).shape
        torch.Size([2, 4, 3])
    """

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)
