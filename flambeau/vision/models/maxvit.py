"""MaxViT: convolutions, attention within windows and attention over a grid that spans the image, in every layer."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np

from ... import nn, ops
from ...core.tensor import Tensor
from .._signatures import taking
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._builders import Layer, builder_and_weights, initialize, normal
from ._utils import _ovewrite_named_param
from .swin_transformer import _get_relative_position_bias, relative_position_index

__all__ = ["MaxVit", "MaxVit_T_Weights", "maxvit_t"]

Size = tuple[int, int]


def _get_conv_output_shape(input_size: Size, kernel_size: int, stride: int, padding: int) -> Size:
    """Height and width after a convolution."""
    height, width = ((length - kernel_size + 2 * padding) // stride + 1 for length in input_size)
    return height, width


def _make_block_input_shapes(input_size: Size, n_blocks: int) -> list[Size]:
    """Height and width in each block; the stem and every block halve them."""
    shapes = [_get_conv_output_shape(input_size, 3, 2, 1)]
    for _ in range(n_blocks):
        shapes.append(_get_conv_output_shape(shapes[-1], 3, 2, 1))
    return shapes[1:]


class MBConv(nn.Module):
    """Normalization, widening, a depthwise convolution, squeeze and excitation, narrowing; the input is added.

    Args:
        in_channels, out_channels: of the input and the result.
        expansion_ratio, squeeze_ratio: channels between, and within squeeze and excitation, in ``out_channels``.
        stride: of the depthwise convolution; 2 halves the size.
        activation_layer, norm_layer: of the convolutions.
        p_stochastic_dropout: probability that an image leaves the block out in training.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        expansion_ratio: float,
        squeeze_ratio: float,
        stride: int,
        activation_layer: Layer,
        norm_layer: Layer,
        p_stochastic_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.proj: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            pooling = [nn.AvgPool2d(kernel_size=3, stride=stride, padding=1)] if stride == 2 else []
            self.proj = nn.Sequential(*pooling, nn.Conv2d(in_channels, out_channels, kernel_size=1))
        middle = int(out_channels * expansion_ratio)
        self.stochastic_depth: nn.Module = nn.Identity()
        if p_stochastic_dropout:
            self.stochastic_depth = StochasticDepth(p_stochastic_dropout, mode="row")
        convolution = partial(Conv2dNormActivation, activation_layer=activation_layer, norm_layer=norm_layer, inplace=None)
        self.layers = nn.Sequential(
            OrderedDict(
                pre_norm=norm_layer(in_channels),
                conv_a=convolution(in_channels, middle, kernel_size=1),
                conv_b=convolution(middle, middle, kernel_size=3, stride=stride, groups=middle),
                squeeze_excitation=SqueezeExcitation(middle, int(out_channels * squeeze_ratio), activation=nn.SiLU),
                conv_c=nn.Conv2d(middle, out_channels, kernel_size=1),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) + self.stochastic_depth(self.layers(x))


class RelativePositionalMultiHeadAttention(nn.Module):
    """Attention of the places of a part to each other, with a bias for each difference of two places.

    Args:
        feat_dim: channels.
        head_dim: channels of a head, which divide ``feat_dim``.
        max_seq_len: places of a part, a square.
    Shape:
        ``(N, parts, max_seq_len, feat_dim)`` to the same.
    Raises:
        ValueError: heads that do not divide the channels.
    """

    def __init__(self, feat_dim: int, head_dim: int, max_seq_len: int) -> None:
        super().__init__()
        if feat_dim % head_dim != 0:
            raise ValueError(f"feat_dim: {feat_dim} must be divisible by head_dim: {head_dim}")
        self.n_heads = feat_dim // head_dim
        self.head_dim = head_dim
        self.size = math.isqrt(max_seq_len)
        self.max_seq_len = max_seq_len
        self.to_qkv = nn.Linear(feat_dim, self.n_heads * head_dim * 3)
        self.scale_factor = feat_dim**-0.5
        self.merge = nn.Linear(head_dim * self.n_heads, feat_dim)
        self.relative_position_bias_table = nn.Parameter(ops.empty((2 * self.size - 1) ** 2, self.n_heads))
        self.register_buffer("relative_position_index", relative_position_index(self.size, self.size))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_positional_bias(self) -> Tensor:
        return _get_relative_position_bias(self.relative_position_bias_table, self.relative_position_index, self.max_seq_len)

    def forward(self, x: Tensor) -> Tensor:
        n, parts, places, channels = x.shape
        heads = self.to_qkv(x).reshape(n, parts, places, 3, self.n_heads, self.head_dim)
        query, key, value = heads.permute(3, 0, 1, 4, 2, 5).unbind(0)
        scores = query @ (key * self.scale_factor).transpose(-2, -1)
        weights = nn.functional.softmax(scores + self.get_relative_positional_bias(), dim=-1)
        return self.merge((weights @ value).permute(0, 1, 3, 2, 4).reshape(n, parts, places, channels))


class SwapAxes(nn.Module):
    """Two dimensions of the input in each other's place."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        return x.swapaxes(self.a, self.b)


class WindowPartition(nn.Module):
    """``(N, C, H, W)`` in windows of ``p`` by ``p``: ``(N, windows, p * p, C)``."""

    def forward(self, x: Tensor, p: int) -> Tensor:
        n, channels, height, width = x.shape
        x = x.reshape(n, channels, height // p, p, width // p, p).permute(0, 2, 4, 3, 5, 1)
        return x.reshape(n, (height // p) * (width // p), p * p, channels)


class WindowDepartition(nn.Module):
    """The inverse of :class:`WindowPartition`, for rows and columns of windows."""

    def forward(self, x: Tensor, p: int, h_partitions: int, w_partitions: int) -> Tensor:
        n, channels = x.shape[0], x.shape[-1]
        x = x.reshape(n, h_partitions, w_partitions, p, p, channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(n, channels, h_partitions * p, w_partitions * p)


class PartitionAttentionLayer(nn.Module):
    """Attention within windows, or over the places that have the same place in all windows; then a perceptron.

    Args:
        in_channels, head_dim: of the attention.
        partition_size: rows and columns of a window, or of the grid.
        partition_type: ``"window"`` or ``"grid"``.
        grid_size: height and width of the input.
        mlp_ratio: features in the perceptron, in ``in_channels``.
        activation_layer: of the perceptron.
        norm_layer: before the attention.
        attention_dropout, mlp_dropout: probabilities.
        p_stochastic_dropout: probability that an image leaves out a part in training.
    Raises:
        ValueError: another type.
        AssertionError: at the call, a size that the windows do not divide.
    """

    def __init__(
        self,
        in_channels: int,
        head_dim: int,
        partition_size: int,
        partition_type: str,
        grid_size: Size,
        mlp_ratio: int,
        activation_layer: Layer,
        norm_layer: Layer,
        attention_dropout: float,
        mlp_dropout: float,
        p_stochastic_dropout: float,
    ) -> None:
        super().__init__()
        if partition_type not in ("grid", "window"):
            raise ValueError("partition_type must be either 'grid' or 'window'")
        self.n_heads = in_channels // head_dim
        self.head_dim = head_dim
        self.n_partitions = grid_size[0] // partition_size
        self.partition_type, self.grid_size = partition_type, grid_size
        self.p, self.g = partition_size, self.n_partitions
        if partition_type == "grid":
            self.p, self.g = self.g, self.p
        self.partition_op = WindowPartition()
        self.departition_op = WindowDepartition()
        self.partition_swap = SwapAxes(-2, -3) if partition_type == "grid" else nn.Identity()
        self.departition_swap = SwapAxes(-2, -3) if partition_type == "grid" else nn.Identity()
        attention = RelativePositionalMultiHeadAttention(in_channels, head_dim, partition_size**2)
        self.attn_layer = nn.Sequential(norm_layer(in_channels), attention, nn.Dropout(attention_dropout))
        self.mlp_layer = nn.Sequential(
            *(nn.LayerNorm(in_channels), nn.Linear(in_channels, in_channels * mlp_ratio), activation_layer()),
            *(nn.Linear(in_channels * mlp_ratio, in_channels), nn.Dropout(mlp_dropout)),
        )
        self.stochastic_dropout = StochasticDepth(p_stochastic_dropout, mode="row")

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = self.grid_size[0] // self.p, self.grid_size[1] // self.p
        if any(length % self.p for length in self.grid_size):
            raise AssertionError(
                f"Grid size must be divisible by partition size. Got grid size of {self.grid_size} and partition size of {self.p}"
            )
        x = self.partition_swap(self.partition_op(x, self.p))
        x = x + self.stochastic_dropout(self.attn_layer(x))
        x = x + self.stochastic_dropout(self.mlp_layer(x))
        return self.departition_op(self.departition_swap(x), self.p, rows, columns)


class MaxVitLayer(nn.Module):
    """:class:`MBConv`, attention within windows and attention over a grid; see these for the arguments."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        squeeze_ratio: float,
        expansion_ratio: float,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        head_dim: int,
        mlp_ratio: int,
        mlp_dropout: float,
        attention_dropout: float,
        p_stochastic_dropout: float,
        partition_size: int,
        grid_size: Size,
    ) -> None:
        super().__init__()
        convolution = MBConv(
            *(in_channels, out_channels, expansion_ratio, squeeze_ratio, stride),
            *(activation_layer, norm_layer, p_stochastic_dropout),
        )
        sizes = (out_channels, head_dim, partition_size)
        settings: Any = (grid_size, mlp_ratio, activation_layer, nn.LayerNorm, attention_dropout, mlp_dropout, p_stochastic_dropout)
        window, grid = (PartitionAttentionLayer(*sizes, kind, *settings) for kind in ("window", "grid"))
        self.layers = nn.Sequential(OrderedDict(MBconv=convolution, window_attention=window, grid_attention=grid))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class MaxVitBlock(nn.Module):
    """Layers of which the first one halves the size.

    Args:
        input_grid_size: height and width of the input.
        n_layers: layers.
        p_stochastic: probabilities of stochastic depth, one for each layer.
        in_channels, out_channels: of the first layer; the others keep ``out_channels``.
    Raises:
        ValueError: another number of probabilities.
    """

    @taking(MaxVitLayer.__init__, without=("stride", "p_stochastic_dropout", "grid_size"))
    def __init__(
        self, *, in_channels: int, out_channels: int, input_grid_size: Size, n_layers: int, p_stochastic: list[float], **settings: Any
    ) -> None:
        super().__init__()
        if len(p_stochastic) != n_layers:
            raise ValueError(f"p_stochastic must have length n_layers={n_layers}, got p_stochastic={p_stochastic}.")
        self.grid_size = _get_conv_output_shape(input_grid_size, kernel_size=3, stride=2, padding=1)
        settings |= {"out_channels": out_channels, "grid_size": self.grid_size}
        self.layers = nn.ModuleList()
        for i, probability in enumerate(p_stochastic):
            channels, stride = (in_channels, 2) if i == 0 else (out_channels, 1)
            self.layers.append(MaxVitLayer(in_channels=channels, stride=stride, p_stochastic_dropout=probability, **settings))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.layers:
            x = part(x)
        return x


class MaxVit(nn.Module):
    """A stem of two convolutions, blocks, the mean over places, and two linear layers.

    Args:
        input_size: height and width of the images.
        stem_channels: of the stem.
        partition_size: rows and columns of windows and grids, which divide the size in every block.
        block_channels, block_layers: channels and layers of each block.
        head_dim: channels of a head.
        stochastic_depth_prob: probability that an image leaves out a part in training; it rises from 0 to this.
        norm_layer: of the convolutions; ``BatchNorm2d`` with ``eps`` 0.001 and ``momentum`` 0.01 when None.
        activation_layer: of convolutions and perceptrons.
        squeeze_ratio, expansion_ratio, mlp_ratio, mlp_dropout, attention_dropout: of the layers.
        num_classes: features of the result.
    Shape:
        ``(N, 3, *input_size)`` to ``(N, num_classes)``.
    Raises:
        ValueError: sizes that the windows do not divide.
    Source: torchvision.models.MaxVit. Tu et al. 2022, "MaxViT: multi-axis vision transformer".
    Example:
        >>> with torch.device('meta'):
        ...     model = MaxVit((64, 64), 8, 2, [8], [1], 4, 0.1, num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        input_size: Size,
        stem_channels: int,
        partition_size: int,
        block_channels: list[int],
        block_layers: list[int],
        head_dim: int,
        stochastic_depth_prob: float,
        norm_layer: Layer | None = None,
        activation_layer: Layer = nn.GELU,
        squeeze_ratio: float = 0.25,
        expansion_ratio: float = 4,
        mlp_ratio: int = 4,
        mlp_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)
        sizes = _make_block_input_shapes(input_size, len(block_channels))
        for i, size in enumerate(sizes):
            if any(length % partition_size for length in size):
                raise ValueError(
                    f"Input size {size} of block {i} is not divisible by partition size {partition_size}. "
                    "Consider changing the partition size or the input size.\n"
                    f"Current configuration yields the following block input sizes: {sizes}."
                )
        activated: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": activation_layer, "bias": False, "inplace": None}
        self.stem = nn.Sequential(
            Conv2dNormActivation(3, stem_channels, 3, stride=2, **activated),
            Conv2dNormActivation(stem_channels, stem_channels, 3, norm_layer=None, activation_layer=None, bias=True),
        )
        self.partition_size = partition_size
        settings: dict[str, Any] = {"squeeze_ratio": squeeze_ratio, "expansion_ratio": expansion_ratio, "mlp_ratio": mlp_ratio}
        settings |= {"norm_layer": norm_layer, "activation_layer": activation_layer, "head_dim": head_dim}
        settings |= {"mlp_dropout": mlp_dropout, "attention_dropout": attention_dropout, "partition_size": partition_size}
        probabilities = np.linspace(0, stochastic_depth_prob, sum(block_layers)).tolist()
        channels, grid = stem_channels, _get_conv_output_shape(input_size, kernel_size=3, stride=2, padding=1)
        self.blocks = nn.ModuleList()
        for outputs, count in zip(block_channels, block_layers):
            own, probabilities = probabilities[:count], probabilities[count:]
            block = {"in_channels": channels, "out_channels": outputs, "input_grid_size": grid}
            self.blocks.append(MaxVitBlock(**block, n_layers=count, p_stochastic=own, **settings))
            channels, grid = outputs, _get_conv_output_shape(grid, kernel_size=3, stride=2, padding=1)
        self.classifier = nn.Sequential(
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(channels)),
            *(nn.Linear(channels, channels), nn.Tanh(), nn.Linear(channels, num_classes, bias=False)),
        )
        initialize(self, {nn.Conv2d: normal(0.02), nn.Linear: normal(0.02)}, norms=(nn.BatchNorm2d,))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x)


def _prepare(weights: Any, kwargs: dict[str, Any]) -> None:
    _ovewrite_named_param(kwargs, "input_size", weights.meta["min_size"])


_blocks: dict[str, Any] = {"block_channels": [64, 128, 256, 512], "block_layers": [2, 2, 5, 2], "head_dim": 32, "partition_size": 7}
_tiny = partial(MaxVit, input_size=(224, 224), stem_channels=64, stochastic_depth_prob=0.2, **_blocks)
maxvit_t, MaxVit_T_Weights = builder_and_weights("maxvit_t", __name__, _tiny, prepare=_prepare)
