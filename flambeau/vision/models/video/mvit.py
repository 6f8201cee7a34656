"""MViT: attention over videos whose queries, keys and values are pooled, so that maps shrink and channels grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .... import nn, ops
from ....core.tensor import Tensor
from ...ops import MLP, StochasticDepth
from .._builders import Built, Layer, builder_and_weights, initialize, truncated
from .._utils import _ovewrite_named_param

__all__ = ["MViT", "MViT_V1_B_Weights", "MViT_V2_S_Weights", "mvit_v1_b", "mvit_v2_s"]

F: Any = nn.functional
Sizes = tuple[int, int, int]


@dataclass
class MSBlockConfig:
    """One block: heads, channels, and kernels and strides of the poolings of queries and of keys and values; empty for none."""

    num_heads: int
    input_channels: int
    output_channels: int
    kernel_q: list[int]
    kernel_kv: list[int]
    stride_q: list[int]
    stride_kv: list[int]


class Pool(nn.Module):
    """Pools places but the first, the class token.

    Args:
        pool: over ``(N, C, T, H, W)``.
        norm: of the channels; none when None.
        activation: after the norm.
        norm_before_pool: whether the norm comes first.
    Shape:
        ``(N, 1 + places, C)`` or ``(N, heads, 1 + places, C)``, and the places' frames, rows and columns, to the same of fewer places.
    Source: torchvision.models.video.mvit.Pool.
    """

    def __init__(
        self, pool: nn.Module, norm: nn.Module | None, activation: nn.Module | None = None, norm_before_pool: bool = False
    ) -> None:
        super().__init__()
        self.pool = pool
        layers = [layer for layer in (norm, activation) if layer is not None]
        self.norm_act = nn.Sequential(*layers) if layers else None
        self.norm_before_pool = norm_before_pool

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        if x.dim() not in (3, 4):
            raise ValueError(f"Unsupported input dimension {x.shape}")
        heads = x if x.dim() == 4 else x.unsqueeze(1)
        token, places = heads[:, :, :1], heads[:, :, 1:]
        videos, count, _, channels = heads.shape
        maps = places.transpose(2, 3).reshape((videos * count, channels, *thw)).contiguous()
        if self.norm_before_pool and self.norm_act is not None:
            maps = self.norm_act(maps)
        maps = self.pool(maps)
        frames, height, width = maps.shape[2:]
        pooled = ops.cat((token, maps.reshape(videos, count, channels, -1).transpose(2, 3)), dim=2)
        if not self.norm_before_pool and self.norm_act is not None:
            pooled = self.norm_act(pooled)
        return pooled if x.dim() == 4 else pooled.squeeze(1), (frames, height, width)


def _interpolate(embedding: Tensor, d: int) -> Tensor:
    """A table ``(differences, C)`` with ``d`` rows."""
    if embedding.shape[0] == d:
        return embedding
    return F.interpolate(embedding.permute(1, 0).unsqueeze(0), size=d, mode="linear").squeeze(0).permute(1, 0)


def _relative_rows(table: Tensor, queries: int, keys: int) -> Tensor:
    """The rows ``(queries, keys, C)`` of a table that belong to the distances along one axis, where one of the two may be coarser."""
    query_step, key_step = max(keys / queries, 1.0), max(queries / keys, 1.0)
    distance = ops.arange(queries)[:, None] * query_step - (ops.arange(keys)[None, :] + (1.0 - keys)) * key_step
    return _interpolate(table, 2 * max(queries, keys) - 1)[distance.long().to(table.device)]


def _add_rel_pos(attn: Tensor, q: Tensor, q_thw: Sizes, k_thw: Sizes, rel_pos_h: Tensor, rel_pos_w: Tensor, rel_pos_t: Tensor) -> Tensor:
    """Scores with the products of queries and the embeddings of distances along each axis added; not for class tokens.

    Source: torchvision.models.video.mvit. Li et al. 2022, MViTv2, section 4.1.
    """
    videos, heads, _, channels = q.shape
    queries = q[:, :, 1:].reshape(videos, heads, *q_thw, channels)
    along_t = ops.einsum("bythwc,tkc->bythwk", queries, _relative_rows(rel_pos_t, q_thw[0], k_thw[0]))
    along_h = ops.einsum("bythwc,hkc->bythwk", queries, _relative_rows(rel_pos_h, q_thw[1], k_thw[1]))
    along_w = ops.einsum("bythwc,wkc->bythwk", queries, _relative_rows(rel_pos_w, q_thw[2], k_thw[2]))
    added = along_h[..., None, :, None] + along_w[..., None, None, :] + along_t[..., :, None, None]
    return attn + F.pad(added.reshape(videos, heads, -1, k_thw[0] * k_thw[1] * k_thw[2]), (1, 0, 1, 0))


class MultiscaleAttention(nn.Module):
    """Attention with pooled queries, keys and values.

    Args:
        input_size: frames, rows and columns of the places.
        embed_dim, output_dim: channels of the input and of the result.
        num_heads: heads.
        kernel_q, stride_q, kernel_kv, stride_kv: of the poolings; no pooling where all are 1.
        residual_pool: whether the pooled queries are added to the result.
        residual_with_cls_embed: whether that holds for the class token too.
        rel_pos_embed: whether distances count.
        dropout: probability, for the results.
        norm_layer: normalisation after each pooling.
    Source: torchvision.models.video.mvit.MultiscaleAttention. Fan et al. 2021, section 3.1.
    """

    def __init__(
        self,
        input_size: list[int],
        embed_dim: int,
        output_dim: int,
        num_heads: int,
        kernel_q: list[int],
        kernel_kv: list[int],
        stride_q: list[int],
        stride_kv: list[int],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        dropout: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.embed_dim, self.output_dim, self.num_heads = embed_dim, output_dim, num_heads
        self.head_dim = output_dim // num_heads
        self.scaler = 1.0 / math.sqrt(self.head_dim)
        self.residual_pool, self.residual_with_cls_embed = residual_pool, residual_with_cls_embed
        self.qkv = nn.Linear(embed_dim, 3 * output_dim)
        self.project = nn.Sequential(nn.Linear(output_dim, output_dim), *([nn.Dropout(dropout, inplace=True)] if dropout > 0.0 else []))
        self.pool_q = self._pooling(kernel_q, stride_q, norm_layer)
        self.pool_k = self._pooling(kernel_kv, stride_kv, norm_layer)
        self.pool_v = self._pooling(kernel_kv, stride_kv, norm_layer)
        self.rel_pos_h = self.rel_pos_w = self.rel_pos_t = None
        if rel_pos_embed:
            side = max(input_size[1:])
            finest = max(side // (steps[1] if len(steps) > 0 else 1) for steps in (stride_q, stride_kv))
            tables = {"rel_pos_h": 2 * finest - 1, "rel_pos_w": 2 * finest - 1, "rel_pos_t": 2 * input_size[0] - 1}
            for name, rows in tables.items():
                setattr(self, name, nn.Parameter(ops.zeros(rows, self.head_dim)))
            for name in tables:
                nn.init.trunc_normal_(getattr(self, name), std=0.02)

    def _pooling(self, kernel: Any, stride: Any, norm_layer: Layer) -> Pool | None:
        if math.prod(kernel) <= 1 and math.prod(stride) <= 1:
            return None
        padding = tuple(size // 2 for size in kernel)
        channels = self.head_dim
        convolution = nn.Conv3d(channels, channels, kernel, stride=stride, padding=padding, groups=channels, bias=False)
        return Pool(convolution, norm_layer(channels))

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        videos, places, _ = x.shape
        heads = self.qkv(x).reshape(videos, places, 3, self.num_heads, self.head_dim).transpose(1, 3)
        query, key, value = heads.unbind(dim=2)
        key, key_thw = (key, thw) if self.pool_k is None else self.pool_k(key, thw)
        if self.pool_v is not None:
            value = self.pool_v(value, thw)[0]
        if self.pool_q is not None:
            query, thw = self.pool_q(query, thw)
        scores = (self.scaler * query) @ key.transpose(2, 3)
        if self.rel_pos_h is not None:
            scores = _add_rel_pos(scores, query, thw, key_thw, self.rel_pos_h, self.rel_pos_w, self.rel_pos_t)
        x = scores.softmax(dim=-1) @ value
        if self.residual_pool:
            x = x + query if self.residual_with_cls_embed else ops.cat((x[:, :, :1], x[:, :, 1:] + query[:, :, 1:]), dim=2)
        return self.project(x.transpose(1, 2).reshape(videos, -1, self.output_dim)), thw


class MultiscaleBlock(nn.Module):
    """Attention with poolings and a perceptron, normalisation before each, the (pooled) input added to each.

    Args:
        input_size: frames, rows and columns of the places.
        cnf: of the block.
        residual_pool, residual_with_cls_embed, rel_pos_embed: of the attention.
        proj_after_attn: whether channels grow in the attention, not in the perceptron.
        dropout: of both.
        stochastic_depth_prob: probability that a video leaves out a part in training.
        norm_layer: built with channels.
    Source: torchvision.models.video.mvit.MultiscaleBlock.
    """

    def __init__(
        self,
        input_size: list[int],
        cnf: MSBlockConfig,
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Layer = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.proj_after_attn = proj_after_attn
        self.pool_skip = None
        if math.prod(cnf.stride_q) > 1:
            kernel: Any = [step + 1 if step > 1 else step for step in cnf.stride_q]
            stride: Any = cnf.stride_q
            padding: Any = [size // 2 for size in kernel]
            pooling = nn.MaxPool3d(kernel, stride=stride, padding=padding)
            self.pool_skip = Pool(pooling, None)
        channels = cnf.output_channels if proj_after_attn else cnf.input_channels
        self.norm1, self.norm2 = norm_layer(cnf.input_channels), norm_layer(channels)
        self.needs_transposal = isinstance(self.norm1, nn.BatchNorm1d)
        poolings: Any = {name: getattr(cnf, name) for name in ("kernel_q", "kernel_kv", "stride_q", "stride_kv")}
        poolings |= {"residual_pool": residual_pool, "residual_with_cls_embed": residual_with_cls_embed, "rel_pos_embed": rel_pos_embed}
        sizes = (input_size, cnf.input_channels, channels, cnf.num_heads)
        self.attn = MultiscaleAttention(*sizes, **poolings, dropout=dropout, norm_layer=norm_layer)
        self.mlp = MLP(channels, [4 * channels, cnf.output_channels], activation_layer=nn.GELU, dropout=dropout, inplace=None)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.project = None
        if cnf.input_channels != cnf.output_channels:
            self.project = nn.Linear(cnf.input_channels, cnf.output_channels)

    def forward(self, x: Tensor, thw: Sizes) -> tuple[Tensor, Sizes]:
        first = self.norm1(x.transpose(1, 2)).transpose(1, 2) if self.needs_transposal else self.norm1(x)
        attended, new_thw = self.attn(first, thw)
        if self.project is not None and self.proj_after_attn:
            x = self.project(first)
        shortcut = x if self.pool_skip is None else self.pool_skip(x, thw)[0]
        x = shortcut + self.stochastic_depth(attended)
        second = self.norm2(x.transpose(1, 2)).transpose(1, 2) if self.needs_transposal else self.norm2(x)
        if self.project is not None and not self.proj_after_attn:
            x = self.project(second)
        return x + self.stochastic_depth(self.mlp(second)), new_thw


class PositionalEncoding(nn.Module):
    """A class token before the places and, without embeddings of distances, an embedding of each place.

    Args:
        embed_size: channels.
        spatial_size: rows and columns.
        temporal_size: frames.
        rel_pos_embed: whether distances have embeddings.
    Source: torchvision.models.video.mvit.PositionalEncoding.
    """

    def __init__(self, embed_size: int, spatial_size: tuple[int, int], temporal_size: int, rel_pos_embed: bool) -> None:
        super().__init__()
        self.spatial_size, self.temporal_size = spatial_size, temporal_size
        self.class_token = nn.Parameter(ops.zeros(embed_size))
        self.spatial_pos = self.temporal_pos = self.class_pos = None
        if not rel_pos_embed:
            self.spatial_pos = nn.Parameter(ops.zeros(spatial_size[0] * spatial_size[1], embed_size))
            self.temporal_pos = nn.Parameter(ops.zeros(temporal_size, embed_size))
            self.class_pos = nn.Parameter(ops.zeros(embed_size))

    def forward(self, x: Tensor) -> Tensor:
        x = ops.cat((self.class_token.expand(x.size(0), -1).unsqueeze(1), x), dim=1)
        if self.spatial_pos is None or self.temporal_pos is None or self.class_pos is None:
            return x
        places = (self.temporal_pos[:, None] + self.spatial_pos[None]).flatten(0, 1)
        return x + ops.cat((self.class_pos.unsqueeze(0), places), dim=0).unsqueeze(0)


class MViT(nn.Module):
    """A multiscale vision transformer.

    Args:
        spatial_size, temporal_size: rows and columns, and frames of the videos.
        block_setting: the blocks.
        residual_pool, residual_with_cls_embed, rel_pos_embed, proj_after_attn: of the blocks.
        dropout: probability before the classifier.
        attention_dropout: of the blocks.
        stochastic_depth_prob: probability that a video leaves out a part of a block in training; it rises from 0 to this.
        num_classes: features of the result.
        block: :class:`MultiscaleBlock` when None.
        norm_layer: ``LayerNorm`` with ``eps`` 1e-6 when None.
        patch_embed_kernel, patch_embed_stride, patch_embed_padding: of the first convolution.
    Shape:
        ``(N, 3, temporal_size, *spatial_size)``, or an image ``(N, 3, *spatial_size)`` for one frame, to ``(N, num_classes)``.
    Raises:
        ValueError: no blocks.
    Source: torchvision.models.video.MViT. Fan et al. 2021; Li et al. 2022.
    Example:
        >>> blocks = [MSBlockConfig(1, 16, 16, [], [], [], [])] * 2
        >>> with torch.device('meta'):
        ...     model = MViT((32, 32), 4, blocks, False, False, False, False, num_classes=10)
        >>> model(torch.empty(1, 3, 4, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        spatial_size: tuple[int, int],
        temporal_size: int,
        block_setting: Sequence[MSBlockConfig],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.5,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        num_classes: int = 400,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        patch_embed_kernel: Sizes = (3, 7, 7),
        patch_embed_stride: Sizes = (2, 4, 4),
        patch_embed_padding: Sizes = (1, 3, 3),
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The configuration parameter can't be empty.")
        norm = partial(nn.LayerNorm, eps=1e-6) if norm_layer is None else norm_layer
        channels, last = block_setting[0].input_channels, block_setting[-1].output_channels
        self.conv_proj = nn.Conv3d(3, channels, kernel_size=patch_embed_kernel, stride=patch_embed_stride, padding=patch_embed_padding)
        size = [length // step for length, step in zip((temporal_size, *spatial_size), self.conv_proj.stride)]
        self.pos_encoding = PositionalEncoding(channels, (size[1], size[2]), size[0], rel_pos_embed)
        self.blocks = nn.ModuleList()
        settings: Any = {"residual_pool": residual_pool, "residual_with_cls_embed": residual_with_cls_embed, "rel_pos_embed": rel_pos_embed}
        settings |= {"proj_after_attn": proj_after_attn, "dropout": attention_dropout, "norm_layer": norm}
        for place, setting in enumerate(block_setting):
            probability = stochastic_depth_prob * place / max(len(block_setting) - 1, 1)
            self.blocks.append((block or MultiscaleBlock)(input_size=size, cnf=setting, stochastic_depth_prob=probability, **settings))
            if len(setting.stride_q) > 0:
                size = [length // step for length, step in zip(size, setting.stride_q)]
        self.norm = norm(last)
        self.head = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        for parameter in self.pos_encoding.parameters():
            truncated(parameter)
        initialize(self, {nn.Linear: truncated}, norms=(nn.LayerNorm,))

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() not in (4, 5):
            raise ValueError(f"Unsupported input dimension {x.shape}")
        video = x if x.dim() == 5 else x.unsqueeze(2)
        places = self.pos_encoding(self.conv_proj(video).flatten(2).transpose(1, 2))
        thw = (self.pos_encoding.temporal_size, *self.pos_encoding.spatial_size)
        for block in self.blocks:
            places, thw = block(places, thw)
        return self.head(self.norm(places)[:, 0])


def _settings(inputs: Sequence[int], outputs: Sequence[int], pooled: bool) -> list[MSBlockConfig]:
    """Sixteen blocks of four scales; queries are pooled where a scale begins, or ``pooled`` everywhere."""
    scales = [0] + [1] * 2 + [2] * 11 + [3] * 2
    settings = []
    for place, scale in enumerate(scales):
        begins = place > 0 and scales[place - 1] != scale
        coarse = 2 ** (3 - scale)
        queries = [3, 3, 3] if begins or pooled else [], [1, 2, 2] if begins else [1, 1, 1] if pooled else []
        pooling = {"kernel_q": queries[0], "kernel_kv": [3, 3, 3], "stride_q": queries[1], "stride_kv": [1, coarse, coarse]}
        settings.append(MSBlockConfig(2**scale, inputs[place], outputs[place], **pooling))
    return settings


def _sized(weights: Any, kwargs: dict[str, Any]) -> None:
    """Weights fit videos of one size."""
    _ovewrite_named_param(kwargs, "spatial_size", tuple(weights.meta["min_size"]))
    _ovewrite_named_param(kwargs, "temporal_size", weights.meta["min_temporal_size"])


def _builder(name: str, inputs: list[int], outputs: list[int], is_second: bool) -> Built[MViT]:
    usual: dict[str, Any] = {"spatial_size": (224, 224), "temporal_size": 16, "stochastic_depth_prob": 0.2}
    usual |= dict.fromkeys(("residual_pool", "rel_pos_embed", "proj_after_attn"), is_second)
    build = partial(MViT, **usual, residual_with_cls_embed=False, block_setting=_settings(inputs, outputs, is_second))
    return builder_and_weights(name, __name__, build, pretrained="KINETICS400_V1", prepare=_sized)


mvit_v1_b, MViT_V1_B_Weights = _builder("mvit_v1_b", [96] + [192] * 2 + [384] * 11 + [768] * 2, [192] * 2 + [384] * 11 + [768] * 3, False)
mvit_v2_s, MViT_V2_S_Weights = _builder(
    "mvit_v2_s", [96] * 2 + [192] * 2 + [384] * 11 + [768], [96] + [192] * 2 + [384] * 11 + [768] * 2, True
)
