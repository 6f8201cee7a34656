"""Swin Transformers: attention within windows that move by half their size from one block to the next, in stages of halved size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import nn, ops
from ...core.dtype import float32, int64
from ...core.tensor import Tensor
from ...core.traced import keep_whole
from .._signatures import taking
from ..ops.misc import MLP, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._builders import Built, Layer, builder_and_weights, initialize, truncated
from .vision_transformer import draw_perceptron

__all__ = [
    *("SwinTransformer", "Swin_T_Weights", "Swin_S_Weights", "Swin_B_Weights", "Swin_V2_T_Weights", "Swin_V2_S_Weights"),
    *("Swin_V2_B_Weights", "swin_t", "swin_s", "swin_b", "swin_v2_t", "swin_v2_s", "swin_v2_b"),
]

F: Any = nn.functional


# -- halving the size --------------------------------------------------------------------------------------------------------------
def _patch_merging_pad(x: Tensor) -> Tensor:
    """The four places of each square of 2 by 2 joined: ``(*, H, W, C)`` to ``(*, H / 2, W / 2, 4 * C)``, odd sizes padded."""
    height, width, _ = x.shape[-3:]
    x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    corners = [x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
    return ops.cat(corners, -1)


class PatchMerging(nn.Module):
    """Squares of 2 by 2 places joined, normalized and mapped to twice the channels.

    Args:
        dim: channels.
        norm_layer: built with four times the channels.
    Shape:
        ``(*, H, W, dim)`` to ``(*, H / 2, W / 2, 2 * dim)``, odd sizes rounded up.
    """

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.reduction(self.norm(_patch_merging_pad(x)))


class PatchMergingV2(nn.Module):
    """:class:`PatchMerging` whose normalization comes after the map, and is built with twice the channels."""

    def __init__(self, dim: int, norm_layer: Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.reduction(_patch_merging_pad(x)))


# -- biases by the difference of two places in a window -----------------------------------------------------------------------------
def relative_position_index(*sides: int) -> Tensor:
    """For each two places of a window the row of the table of biases that belongs to their difference: ``(places, places)``."""
    index = ops.zeros((), dtype=int64)
    for axis, side in zip(ops.meshgrid(*map(ops.arange, sides), indexing="ij"), sides):
        place = axis.flatten()
        difference = place[:, None] - place[None, :] + (side - 1)  # 0 and up
        index = index * (2 * side - 1) + difference
    return index


def _get_relative_position_bias(table: Tensor, index: Tensor, places: int) -> Tensor:
    """``(1, heads, places, places)`` of a table of shape ``(differences, heads)``."""
    return table[index.view(-1)].view(places, places, -1).permute(2, 0, 1).contiguous().unsqueeze(0)


# -- attention in windows -----------------------------------------------------------------------------------------------------------
def windows_of(x: Tensor, window: Sequence[int]) -> Tensor:
    """``(N, *sizes, C)`` cut into windows: ``(N * windows, places, C)``."""
    images, *sizes, channels = x.shape
    pairs = [number for size, side in zip(sizes, window) for number in (size // side, side)]
    counts, sides = range(1, 2 * len(sizes), 2), range(2, 2 * len(sizes) + 1, 2)
    return x.view(images, *pairs, channels).permute(0, *counts, *sides, -1).reshape(-1, math.prod(window), channels)


def from_windows(x: Tensor, window: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The inverse of :func:`windows_of`."""
    images, *sizes, channels = shape
    counts = [size // side for size, side in zip(sizes, window)]
    pairs = [axis for k in range(1, len(sizes) + 1) for axis in (k, k + len(sizes))]
    return x.view(images, *counts, *window, channels).permute(0, *pairs, -1).reshape(tuple(shape))


# Rolled by the shift, the image's first rows stand behind its last ones. In the last window, which has both, a place attends only to
# those from its own side:
#
#     rows    0 ... H - window | H - window ... H - shift | H - shift ... H (the first ones)
#     region         0         |            1             |         2
def shift_mask(x: Tensor, window: Sequence[int], shift: Sequence[int]) -> Tensor:
    """``(windows, places, places)``: -100 for two places that were not neighbours before the shift, 0 for others.

    An axis that is not moved is of one region: all of its places are compared by the other axes alone.
    """
    sizes = x.shape[1:-1]
    region = ops.zeros(sizes, dtype=x.dtype, device=x.device)
    for axis, (length, side, moved) in enumerate(zip(sizes, window, shift)):
        if moved:
            place = ops.arange(length, device=x.device)
            numbers = (place >= length - side).to(x.dtype) + (place >= length - moved).to(x.dtype)
            region = region + 3**axis * numbers.view([-1 if k == axis else 1 for k in range(len(sizes))])
    return mask_of_regions(region, window)


def mask_of_regions(region: Tensor, window: Sequence[int]) -> Tensor:
    """``(windows, places, places)``: 0 for two places of a window that are of one region, otherwise -100."""
    places = windows_of(region[None, ..., None], window).squeeze(-1)
    return ops.where(places[:, None, :] != places[:, :, None], -100.0, 0.0).to(region.dtype)


def padding_to(sizes: Sequence[int], units: Sequence[int]) -> list[int]:
    """``pad``'s numbers, last dimension first, that bring sizes to multiples of ``units``."""
    return [side for size, unit in zip(reversed(sizes), reversed(units)) for side in (0, -size % unit)]


def attend_in_windows(
    input: Tensor,
    scores_of: Callable[[Tensor, Tensor], Tensor],
    window: Sequence[int],
    shift: Sequence[int],
    num_heads: int,
    maps: tuple[tuple[Tensor, Tensor | None], tuple[Tensor, Tensor | None]],
    dropouts: tuple[float, float],
    training: bool,
) -> Tensor:
    """Attention of the places of a window to each other, the windows moved by ``shift``.

    Args:
        input: ``(N, *sizes, C)``; padded by zeros to whole windows.
        scores_of: scores ``(N * windows, num_heads, places, places)`` of queries and keys.
        window, shift: places along each axis.
        num_heads: heads.
        maps: weight and bias of the map to queries, keys and values, and of the map of the results.
        dropouts: probabilities, for the weights and the results.
        training: whether there is dropout.
    Returns:
        ``input``'s shape.
    """
    sizes, axes = input.shape[1:-1], tuple(range(1, input.ndim - 1))
    x = F.pad(input, (0, 0, *padding_to(sizes, window)))
    padded, is_moved = tuple(x.shape), sum(shift) > 0
    mask = None
    if is_moved:
        x = ops.roll(x, shifts=tuple(-moved for moved in shift), dims=axes)
        mask = shift_mask(x, window, shift)
    x = windows_of(x, window)
    batch, places, channels = x.shape
    heads = F.linear(x, *maps[0]).reshape(batch, places, 3, num_heads, channels // num_heads)
    query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
    scores = scores_of(query, key)
    if mask is not None:
        by_image = scores.view(-1, mask.shape[0], num_heads, places, places) + mask[:, None]
        scores = by_image.view(batch, num_heads, places, places)
    weights = F.dropout(F.softmax(scores, dim=-1), p=dropouts[0], training=training)
    x = (weights @ value).transpose(1, 2).reshape(batch, places, channels)
    x = from_windows(F.dropout(F.linear(x, *maps[1]), p=dropouts[1], training=training), window, padded)
    if is_moved:
        x = ops.roll(x, shifts=tuple(shift), dims=axes)
    return x[:, *map(slice, sizes)].contiguous()


def scaled_products(query: Tensor, key: Tensor) -> Tensor:
    """The products of queries and keys over the square root of their length."""
    return (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)


def shifted_window_attention(
    input: Tensor,
    qkv_weight: Tensor,
    proj_weight: Tensor,
    relative_position_bias: Tensor,
    window_size: list[int],
    num_heads: int,
    shift_size: list[int],
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    qkv_bias: Tensor | None = None,
    proj_bias: Tensor | None = None,
    logit_scale: Tensor | None = None,
    training: bool = True,
) -> Tensor:
    """Attention of the places of a window to each other, the windows moved by ``shift_size``.

    Args:
        input: ``(N, H, W, C)``; padded by zeros to whole windows.
        qkv_weight, qkv_bias: the map to queries, keys and values.
        proj_weight, proj_bias: the map of the results.
        relative_position_bias: ``(1, num_heads, places, places)``, added to the scores.
        window_size: rows and columns of a window.
        num_heads: heads.
        shift_size: rows and columns; a dimension with one window is not moved.
        attention_dropout, dropout: probabilities, for the weights and the results.
        logit_scale: ``(num_heads, 1, 1)``, logarithms of the factors of cosines (version 2); scaled products when None.
        training: whether there is dropout.
    Returns:
        ``input``'s shape.
    Source: torchvision.models.swin_transformer.shifted_window_attention. Liu et al. 2021, section 3.2; 2022, section 3.
    """
    shift = [0 if window >= length else moved for window, length, moved in zip(window_size, input.shape[1:3], shift_size)]
    if logit_scale is not None and qkv_bias is not None:  # keys have no bias in version 2
        third = qkv_bias.numel() // 3
        qkv_bias = ops.cat((qkv_bias[:third], ops.zeros_like(qkv_bias[third : 2 * third]), qkv_bias[2 * third :]))

    def scores_of(query: Tensor, key: Tensor) -> Tensor:
        if logit_scale is None:
            return scaled_products(query, key) + relative_position_bias
        scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)
        return scores * ops.clamp(logit_scale, max=math.log(100.0)).exp() + relative_position_bias

    maps, dropouts = ((qkv_weight, qkv_bias), (proj_weight, proj_bias)), (attention_dropout, dropout)
    return attend_in_windows(input, scores_of, window_size, shift, num_heads, maps, dropouts, training)


class WindowAttention(nn.Module):
    """Base of attention in windows: its maps, and a table of biases."""

    _axes: int  # of the windows

    def __init__(
        self,
        dim: int,
        window_size: list[int],
        shift_size: list[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != self._axes or len(shift_size) != self._axes:
            raise ValueError(f"window_size and shift_size must be of length {self._axes}")
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        differences = math.prod(2 * side - 1 for side in self.window_size)
        self.relative_position_bias_table = nn.Parameter(ops.zeros(differences, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        self.register_buffer("relative_position_index", relative_position_index(*self.window_size))

    def _given(self, bias: Tensor, window: Sequence[int], shift: Sequence[int]) -> dict[str, Any]:
        """The function's arguments beside its input."""
        maps = {"qkv_weight": self.qkv.weight, "proj_weight": self.proj.weight, "qkv_bias": self.qkv.bias, "proj_bias": self.proj.bias}
        sizes = {"window_size": window, "num_heads": self.num_heads, "shift_size": shift}
        dropouts = {"attention_dropout": self.attention_dropout, "dropout": self.dropout, "training": self.training}
        return {**maps, "relative_position_bias": bias, **sizes, **dropouts}


class ShiftedWindowAttention(WindowAttention):
    """:func:`shifted_window_attention` with its maps and a table of biases.

    Args:
        dim: channels.
        window_size, shift_size: rows and columns.
        num_heads: heads.
        qkv_bias, proj_bias: whether the maps have biases.
        attention_dropout, dropout: probabilities.
    Attributes:
        relative_position_bias_table: a row for each difference of two places, drawn from a truncated normal distribution of 0.02.
    Raises:
        ValueError: sizes of other than two numbers.
    """

    _axes = 2

    def define_relative_position_index(self) -> None:
        self.register_buffer("relative_position_index", relative_position_index(*self.window_size).flatten())

    def get_relative_position_bias(self) -> Tensor:
        return _get_relative_position_bias(self.relative_position_bias_table, self.relative_position_index, math.prod(self.window_size))

    def _scale(self) -> Tensor | None:
        return None

    def forward(self, x: Tensor) -> Tensor:
        given = self._given(self.get_relative_position_bias(), self.window_size, self.shift_size)
        return shifted_window_attention(x, **given, logit_scale=self._scale())


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Attention by cosines, whose biases a small perceptron computes from the logarithms of differences of places.

    Attributes:
        logit_scale: logarithms of the cosines' factors, of 10 at first.
    """

    @taking(ShiftedWindowAttention.__init__)
    def __init__(self, *, dim: int, num_heads: int, qkv_bias: bool = True, **others: Any) -> None:
        super().__init__(dim=dim, num_heads=num_heads, qkv_bias=qkv_bias, **others)
        self.logit_scale = nn.Parameter(ops.log(10 * ops.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False))
        if qkv_bias:
            self.qkv.bias.detach()[dim : 2 * dim].zero_()

    def define_relative_position_bias_table(self) -> None:
        """The differences themselves, -8 to 8 and by the logarithm: ``(1, 2 * height - 1, 2 * width - 1, 2)``."""
        scaled = [ops.arange(-(size - 1), size, dtype=float32) / (size - 1) * 8 for size in self.window_size]
        differences = ops.stack(ops.meshgrid(*scaled, indexing="ij"), dim=-1).unsqueeze(0)
        table = ops.sign(differences) * ops.log2(ops.abs(differences) + 1.0) / 3.0
        self.register_buffer("relative_coords_table", table)

    def get_relative_position_bias(self) -> Tensor:
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        return 16 * ops.sigmoid(_get_relative_position_bias(table, self.relative_position_index, math.prod(self.window_size)))

    def _scale(self) -> Tensor | None:
        return self.logit_scale


# -- blocks ---------------------------------------------------------------------------------------------------------------------------
class SwinTransformerBlock(nn.Module):
    """Attention and a perceptron, normalization before each, the input added to each.

    Args:
        dim, num_heads, window_size, shift_size, attention_dropout, dropout: of the attention.
        mlp_ratio: features in the perceptron, in ``dim``.
        stochastic_depth_prob: probability that an image leaves out a part in training.
        norm_layer: built with ``dim``.
        attn_layer: class of the attention.
    Shape:
        ``(N, H, W, dim)`` to the same.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
        attn_layer: Layer = ShiftedWindowAttention,
    ) -> None:
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout, dropout=dropout)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        draw_perceptron(self.mlp)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """:class:`SwinTransformerBlock` whose normalizations come after attention and perceptron."""

    @taking(SwinTransformerBlock.__init__, attn_layer=ShiftedWindowAttentionV2)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


def stages_of(
    dim: int,
    depths: Sequence[int],
    num_heads: Sequence[int],
    window_size: Sequence[int],
    stochastic_depth_prob: float,
    norm_layer: Layer,
    downsample_layer: Layer,
    block: Layer,
    **settings: Any,
) -> tuple[list[nn.Module], int]:
    """Stages of blocks of which every second one moves its windows, the size halved between two stages.

    Args:
        dim: channels of the first stage; each further one has twice as many.
        depths, num_heads: blocks and heads of each stage.
        window_size: of the blocks.
        stochastic_depth_prob: of the last block; it rises from 0 to this.
        norm_layer, settings: of the blocks.
        downsample_layer: built with the channels and ``norm_layer`` between two stages.
        block: class of the blocks.
    Returns:
        The layers, and the channels of the last stage.
    """
    layers: list[nn.Module] = []
    count, total = 0, sum(depths)
    for stage, (depth, heads) in enumerate(zip(depths, num_heads)):
        if stage > 0:
            layers.append(downsample_layer(dim, norm_layer))
            dim *= 2
        blocks = []
        for i in range(depth):
            own: dict[str, Any] = {
                "window_size": window_size,
                "shift_size": [0 if i % 2 == 0 else side // 2 for side in window_size],
                "stochastic_depth_prob": stochastic_depth_prob * float(count) / (total - 1),
            }
            blocks.append(block(dim, heads, norm_layer=norm_layer, **own, **settings))
            count += 1
        layers.append(nn.Sequential(*blocks))
    return layers, dim


class SwinTransformer(nn.Module):
    """Patches, stages of blocks of which every second one moves its windows, the mean over places, and a linear layer.

    Args:
        patch_size: rows and columns.
        embed_dim: channels of the first stage; each further one has twice as many.
        depths, num_heads: blocks and heads of each stage.
        window_size: rows and columns of a window.
        mlp_ratio, dropout, attention_dropout: of the blocks.
        stochastic_depth_prob: probability that an image leaves out a part of a block in training; it rises from 0 to this.
        num_classes: features of the result.
        norm_layer: ``LayerNorm`` with ``eps`` 1e-5 when None.
        block: :class:`SwinTransformerBlock` when None.
        downsample_layer: built with the channels and ``norm_layer`` between two stages.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Source: torchvision.models.SwinTransformer. Liu et al. 2021, "Swin Transformer"; 2022, "Swin Transformer V2".
    Example:
        >>> with torch.device('meta'):
        ...     model = SwinTransformer([4, 4], 16, [1, 1], [2, 4], [4, 4], num_classes=10)
        >>> model(torch.empty(1, 3, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        patch_size: list[int],
        embed_dim: int,
        depths: list[int],
        num_heads: list[int],
        window_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        downsample_layer: Layer = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        block, norm_layer = block or SwinTransformerBlock, norm_layer or partial(nn.LayerNorm, eps=1e-5)
        size = (patch_size[0], patch_size[1])
        patches = nn.Conv2d(3, embed_dim, kernel_size=size, stride=size)
        embedding = nn.Sequential(patches, Permute([0, 2, 3, 1]), norm_layer(embed_dim))
        settings: dict[str, Any] = {"mlp_ratio": mlp_ratio, "dropout": dropout, "attention_dropout": attention_dropout}
        stages = (embed_dim, depths, num_heads, window_size, stochastic_depth_prob, norm_layer, downsample_layer, block)
        layers, dim = stages_of(*stages, **settings)
        self.features = nn.Sequential(embedding, *layers)
        self.norm = norm_layer(dim)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(dim, num_classes)
        initialize(self, {nn.Linear: truncated}, norms=())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.flatten(self.avgpool(self.permute(self.norm(self.features(x))))))


def sizes_of(embed_dim: int, depth: int) -> dict[str, Any]:
    """Arguments of a model of four stages, of which the third has ``depth`` blocks; heads are of 32 channels."""
    return {"embed_dim": embed_dim, "depths": [2, 2, depth, 2], "num_heads": [embed_dim // 32 * 2**stage for stage in range(4)]}


def _builder(name: str, embed_dim: int, depth: int, window: int, stochastic_depth_prob: float, **version: Any) -> Built[SwinTransformer]:
    build = partial(SwinTransformer, patch_size=[4, 4], window_size=[window, window], **sizes_of(embed_dim, depth), **version)
    return builder_and_weights(name, __name__, partial(build, stochastic_depth_prob=stochastic_depth_prob))


_V2: dict[str, Any] = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2}

swin_t, Swin_T_Weights = _builder("swin_t", 96, 6, 7, 0.2)
swin_s, Swin_S_Weights = _builder("swin_s", 96, 18, 7, 0.3)
swin_b, Swin_B_Weights = _builder("swin_b", 128, 18, 7, 0.5)
swin_v2_t, Swin_V2_T_Weights = _builder("swin_v2_t", 96, 6, 8, 0.2, **_V2)
swin_v2_s, Swin_V2_S_Weights = _builder("swin_v2_s", 96, 18, 8, 0.3, **_V2)
swin_v2_b, Swin_V2_B_Weights = _builder("swin_v2_b", 128, 18, 8, 0.5, **_V2)


keep_whole(globals(), "_get_relative_position_bias", "_patch_merging_pad", "shifted_window_attention")
