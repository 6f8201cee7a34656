"""Swin Transformers over videos: attention in windows of space and time that move by half their size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....core.traced import keep_whole
from ..._signatures import taking
from .. import swin_transformer as swin
from .._builders import Built, Layer, builder_and_weights, initialize, truncated
from ..swin_transformer import PatchMerging as PatchMerging, SwinTransformer, SwinTransformerBlock

__all__ = ["Swin3D_B_Weights", "Swin3D_S_Weights", "Swin3D_T_Weights", "SwinTransformer3d", "swin3d_b", "swin3d_s", "swin3d_t"]

F: Any = nn.functional


def shifted_window_attention_3d(
    input: Tensor,
    qkv_weight: Tensor,
    proj_weight: Tensor,
    relative_position_bias: Tensor,
    window_size: Sequence[int],
    num_heads: int,
    shift_size: Sequence[int],
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    qkv_bias: Tensor | None = None,
    proj_bias: Tensor | None = None,
    training: bool = True,
) -> Tensor:
    """Attention of the places of a window to each other, the windows moved by ``shift_size``.

    Args:
        input: ``(N, T, H, W, C)``; padded by zeros to whole windows.
        qkv_weight, qkv_bias: the map to queries, keys and values.
        proj_weight, proj_bias: the map of the results.
        relative_position_bias: ``(1, num_heads, places, places)``, added to the scores.
        window_size: frames, rows and columns of a window.
        num_heads: heads.
        shift_size: frames, rows and columns.
        attention_dropout, dropout: probabilities, for the weights and the results.
        training: whether there is dropout.
    Returns:
        ``input``'s shape.
    Source: torchvision.models.video.swin_transformer.shifted_window_attention_3d. Liu et al. 2022, "Video Swin Transformer".
    """

    def scores_of(query: Tensor, key: Tensor) -> Tensor:
        return swin.scaled_products(query, key) + relative_position_bias

    maps, dropouts = ((qkv_weight, qkv_bias), (proj_weight, proj_bias)), (attention_dropout, dropout)
    return swin.attend_in_windows(input, scores_of, window_size, shift_size, num_heads, maps, dropouts, training)


class ShiftedWindowAttention3d(swin.WindowAttention):
    """:func:`shifted_window_attention_3d` with its maps and a table of biases.

    Args:
        dim: channels.
        window_size, shift_size: frames, rows and columns; an axis with one window is not moved.
        num_heads: heads.
        qkv_bias, proj_bias: whether the maps have biases.
        attention_dropout, dropout: probabilities.
    Attributes:
        relative_position_bias_table: a row for each difference of two places, drawn from a truncated normal distribution of 0.02.
    Raises:
        ValueError: sizes of other than three numbers.
    Source: torchvision.models.video.swin_transformer.ShiftedWindowAttention3d.
    """

    _axes = 3

    def get_relative_position_bias(self, window_size: Sequence[int]) -> Tensor:
        """``(1, num_heads, places, places)`` for windows that may be smaller."""
        places = math.prod(window_size)
        return swin._get_relative_position_bias(
            self.relative_position_bias_table, self.relative_position_index[:places, :places].reshape(-1), places
        )

    def forward(self, x: Tensor) -> Tensor:
        whole = [length <= side for length, side in zip(x.shape[1:4], self.window_size)]
        window = [length if one else side for one, length, side in zip(whole, x.shape[1:4], self.window_size)]
        shift = [0 if one else moved for one, moved in zip(whole, self.shift_size)]
        return shifted_window_attention_3d(x, **self._given(self.get_relative_position_bias(window), window, shift))


class PatchEmbed3d(nn.Module):
    """Patches of space and time mapped to channels, by a convolution.

    Args:
        patch_size: frames, rows and columns.
        in_channels: channels of the video.
        embed_dim: channels of the result.
        norm_layer: built with ``embed_dim``; none when None.
    Shape:
        ``(N, in_channels, T, H, W)`` to ``(N, T', H', W', embed_dim)``, sizes rounded up.
    Source: torchvision.models.video.swin_transformer.PatchEmbed3d.
    """

    def __init__(self, patch_size: list[int], in_channels: int = 3, embed_dim: int = 96, norm_layer: Layer | None = None) -> None:
        super().__init__()
        self.tuple_patch_size = (patch_size[0], patch_size[1], patch_size[2])
        self.proj = nn.Conv3d(in_channels, embed_dim, kernel_size=self.tuple_patch_size, stride=self.tuple_patch_size)
        self.norm = nn.Identity() if norm_layer is None else norm_layer(embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, swin.padding_to(x.shape[2:], self.tuple_patch_size))
        return self.norm(self.proj(x).permute(0, 2, 3, 4, 1))


class SwinTransformer3d(nn.Module):
    """Patches, stages of blocks of which every second one moves its windows, the mean over places, and a linear layer.

    Args:
        patch_size: frames, rows and columns.
        embed_dim: channels of the first stage; each further one has twice as many.
        depths, num_heads: blocks and heads of each stage.
        window_size: frames, rows and columns of a window.
        mlp_ratio, dropout, attention_dropout: of the blocks.
        stochastic_depth_prob: probability that a video leaves out a part of a block in training; it rises from 0 to this.
        num_classes: features of the result.
        norm_layer: ``LayerNorm`` with ``eps`` 1e-5 when None.
        block: a ``SwinTransformerBlock`` when None.
        downsample_layer: built with the channels and ``norm_layer`` between two stages.
        patch_embed: :class:`PatchEmbed3d` when None.
    Shape:
        ``(N, 3, T, H, W)`` to ``(N, num_classes)``.
    Source: torchvision.models.video.SwinTransformer3d. Liu et al. 2022, "Video Swin Transformer".
    Example:
        >>> with torch.device('meta'):
        ...     model = SwinTransformer3d([2, 4, 4], 16, [1, 1], [2, 4], [2, 4, 4], num_classes=10)
        >>> model(torch.empty(1, 3, 4, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    @taking(SwinTransformer.__init__)
    def __init__(
        self,
        *,
        patch_size: list[int],
        embed_dim: int,
        dropout: float = 0.0,
        num_classes: int = 400,
        norm_layer: Layer | None = None,
        block: Layer | None = None,
        patch_embed: Layer | None = None,
        **stages: Any,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        norm: Layer = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        self.patch_embed = (patch_embed or PatchEmbed3d)(patch_size=patch_size, embed_dim=embed_dim, norm_layer=norm)
        self.pos_drop = nn.Dropout(p=dropout)
        stages |= {"norm_layer": norm, "block": block or SwinTransformerBlock, "dropout": dropout, "attn_layer": ShiftedWindowAttention3d}
        layers, dim = swin.stages_of(embed_dim, **stages)
        self.features = nn.Sequential(*layers)
        self.num_features = dim
        self.norm = norm(dim)
        self.avgpool = nn.AdaptiveAvgPool3d(1)
        self.head = nn.Linear(dim, num_classes)
        initialize(self, {nn.Linear: truncated}, norms=())

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.features(self.pos_drop(self.patch_embed(x))))
        return self.head(self.avgpool(x.permute(0, 4, 1, 2, 3)).flatten(1))


def _builder(name: str, embed_dim: int, depth: int) -> Built[SwinTransformer3d]:
    build = partial(SwinTransformer3d, patch_size=[2, 4, 4], window_size=[8, 7, 7], **swin.sizes_of(embed_dim, depth))
    return builder_and_weights(name, __name__, partial(build, stochastic_depth_prob=0.1), pretrained="KINETICS400_V1")


swin3d_t, Swin3D_T_Weights = _builder("swin3d_t", 96, 6)
swin3d_s, Swin3D_S_Weights = _builder("swin3d_s", 96, 18)
swin3d_b, Swin3D_B_Weights = _builder("swin3d_b", 128, 18)


keep_whole(globals(), "shifted_window_attention_3d")
