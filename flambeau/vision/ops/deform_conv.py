"""Deformable convolution: a convolution that reads its input at learnt places."""

from __future__ import annotations

import math
from typing import Any

from ... import nn, ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...nn import init
from ...nn.modules.utils import _pair

__all__ = ["DeformConv2d", "deform_conv2d"]


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose every tap is moved by an offset of its own, between pixels by bilinear interpolation; zeros lie outside.

    Args:
        input: ``(N, C, H, W)``.
        offset: ``(N, 2 * G * KH * KW, OH, OW)``: for each of ``G`` groups of channels and each tap a step down and a step right.
        weight: ``(O, C / groups, KH, KW)``.
        bias: ``(O,)``.
        stride: rows and columns between two positions.
        padding: rows and columns of zeros around the image.
        dilation: rows and columns between two taps.
        mask: ``(N, G * KH * KW, OH, OW)``, a factor for each tap (version 2 of the paper); ones when None.
    Returns:
        ``(N, O, OH, OW)``.
    Raises:
        RuntimeError: shapes that do not fit together.
    Gradient: with respect to all five tensors.
    Source: torchvision.ops.deform_conv2d. Dai et al. 2017; with ``mask`` Zhu et al. 2018.
    Example:
        >>> image, weight = torch.arange(9.0).view(1, 1, 3, 3), torch.ones(1, 1, 1, 1)
        >>> offset = torch.full((1, 2, 3, 3), 0.5)  # half a pixel down and right
        >>> deform_conv2d(image, offset, weight)[0, 0, 0]
        tensor([2.0000, 3.0000, 1.7500])
    """
    stride, padding, dilation = _pair(stride), _pair(padding), _pair(dilation)
    _check_shapes(input, offset, weight, mask, stride, padding, dilation)
    images, channels, height, width = input.shape
    out_channels, per_group, *kernel = weight.shape
    taps = kernel[0] * kernel[1]
    groups, offset_groups = channels // per_group, offset.shape[1] // (2 * taps)
    positions = offset.shape[2:]
    y, x = _sampled_places(offset, offset_groups, kernel, stride, padding, dilation)
    columns = _bilinear(input.reshape(images, offset_groups, channels // offset_groups, height * width), y, x, height, width)
    columns = columns.reshape(images, offset_groups, channels // offset_groups, taps, -1)
    if mask is not None:
        columns = columns * mask.reshape(images, offset_groups, 1, taps, -1)
    columns = columns.reshape(images, groups, per_group * taps, -1)
    result = weight.reshape(groups, out_channels // groups, per_group * taps) @ columns
    result = result.reshape(images, out_channels, *positions)
    return result if bias is None else result + bias[:, None, None]


def _check_shapes(input: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None, *geometry: tuple[int, int]) -> None:
    if input.dim() != 4 or offset.dim() != 4 or weight.dim() != 4:
        raise RuntimeError(
            f"deform_conv2d: expected input, offset and weight of 4 dimensions, got {input.dim()}, {offset.dim()} and {weight.dim()}"
        )
    stride, padding, dilation = geometry
    kernel = weight.shape[2:]
    taps = kernel[0] * kernel[1]
    channels, per_group = input.shape[1], weight.shape[1]
    groups, offset_groups = channels // per_group, offset.shape[1] // (2 * taps)
    if offset_groups == 0:
        raise RuntimeError(
            "the shape of the offset tensor at dimension 1 is not valid. It should be a multiple of 2 * weight.size[2] * weight.size[3].\n"
            f"Got offset.shape[1]={offset.shape[1]}, while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    if per_group * groups != channels or weight.shape[0] % groups != 0:
        raise RuntimeError(f"deform_conv2d: {channels} input channels do not fit a weight of shape {tuple(weight.shape)}")
    if offset.shape[1] != offset_groups * 2 * taps:
        raise RuntimeError(f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: {offset_groups * 2 * taps}")
    if channels % offset_groups != 0:
        raise RuntimeError(f"deform_conv2d: {channels} input channels cannot be divided into {offset_groups} offset groups")
    expected = tuple((input.shape[2 + k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) // stride[k] + 1 for k in range(2))
    if tuple(offset.shape[2:]) != expected:
        raise RuntimeError(f"offset output dims: ({offset.shape[2]}, {offset.shape[3]}) - computed output dims: {expected}")
    if offset.shape[0] != input.shape[0] or (mask is not None and mask.shape[0] != input.shape[0]):
        raise RuntimeError("invalid batch size of offset" if offset.shape[0] != input.shape[0] else "invalid batch size of mask")
    if mask is not None and tuple(mask.shape[1:]) != (offset_groups * taps, *expected):
        raise RuntimeError(f"mask.shape is not valid: got: {tuple(mask.shape)} expected: (N, {offset_groups * taps}, *{expected})")


def _sampled_places(
    offset: Tensor, groups: int, kernel: Any, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Rows and columns at which taps read, each ``(N, groups, KH * KW * OH * OW)``."""
    images, _, *positions = offset.shape
    moved = offset.reshape(images, groups, *kernel, 2, *positions)
    axes = []
    for axis, view in enumerate(((-1, 1, 1, 1), (-1, 1, 1))):
        steps = {"dtype": offset.dtype, "device": offset.device}
        position = ops.arange(positions[axis], **steps) * stride[axis] - padding[axis]
        tap = ops.arange(kernel[axis], **steps) * dilation[axis]
        regular = tap.reshape(view) + (position[:, None] if axis == 0 else position)
        axes.append((moved[:, :, :, :, axis] + regular).reshape(images, groups, -1))
    return axes[0], axes[1]


def _bilinear(pixels: Tensor, y: Tensor, x: Tensor, height: int, width: int) -> Tensor:
    """Values of ``pixels``, ``(N, G, C, H * W)``, at ``y`` and ``x``, ``(N, G, P)``: ``(N, G, C, P)``; zeros lie outside."""
    top, left = y.detach().floor(), x.detach().floor()
    below, right = y - top, x - left
    total = None
    for row, weight_y in ((top, 1 - below), (top + 1, below)):
        for column, weight_x in ((left, 1 - right), (left + 1, right)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).to(dtypes.int64)
            values = pixels.gather(3, index[:, :, None].expand(-1, -1, pixels.shape[2], -1))
            part = values * (weight_y * weight_x * inside)[:, :, None]
            total = part if total is None else total + part
    assert total is not None
    return total


class DeformConv2d(nn.Module):
    """``deform_conv2d`` with a weight of its own; the offsets come with the input.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: rows and columns of taps.
        stride: rows and columns between two positions.
        padding: rows and columns of zeros around the image.
        dilation: rows and columns between two taps.
        groups: into how many the channels are divided.
        bias: whether there is a bias.
    Shape:
        See ``deform_conv2d``.
    Attributes:
        weight: ``(out_channels, in_channels / groups, *kernel_size)``, uniform as that of ``nn.Conv2d``.
        bias: ``(out_channels,)``, likewise.
    Raises:
        ValueError: channels that ``groups`` does not divide.
    Source: torchvision.ops.DeformConv2d.
    Example:
        >>> layer = DeformConv2d(3, 4, kernel_size=3, padding=1)
        >>> layer(torch.rand(1, 3, 5, 5), torch.zeros(1, 18, 5, 5)).shape
        torch.Size([1, 4, 5, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.weight = nn.Parameter(ops.empty(out_channels, in_channels // groups, *self.kernel_size))
        if bias:
            self.bias = nn.Parameter(ops.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(
            input, offset, self.weight, self.bias, stride=self.stride, padding=self.padding, dilation=self.dilation, mask=mask
        )

    def __repr__(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        usual = {"padding": (0, 0), "dilation": (1, 1), "groups": 1}
        parts += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        if self.bias is None:
            parts.append("bias=False")
        return f"{type(self).__name__}({', '.join(parts)})"
