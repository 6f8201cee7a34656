"""The Vision Transformer: patches of an image as the words of an encoder."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

from ... import nn, ops
from ...core.checks import _assert
from ...core.tensor import Tensor
from ..ops.misc import MLP, Conv2dNormActivation
from ._builders import Built, Layer, builder_and_weights
from ._utils import RenamedLayers, _ovewrite_named_param

__all__ = [
    *("VisionTransformer", "ViT_B_16_Weights", "ViT_B_32_Weights", "ViT_L_16_Weights", "ViT_L_32_Weights", "ViT_H_14_Weights"),
    *("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14"),
]


class ConvStemConfig(NamedTuple):
    """A convolution of a stem that takes the place of the patches."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Layer = nn.BatchNorm2d
    activation_layer: Layer = nn.ReLU


def draw_perceptron(perceptron: nn.Module) -> None:
    """Linear layers of a block: weights drawn uniformly by both their sides (Xavier), biases close to zero."""
    for module in perceptron.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.normal_(module.bias, std=1e-6)


class MLPBlock(RenamedLayers, MLP):
    """The perceptron of a block: ``in_dim`` to ``mlp_dim`` and back, with GELU between and dropout after both."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        draw_perceptron(self)

    def _old_names(self) -> dict[str, str]:
        return {"linear_1": "0", "linear_2": "3"}


def _check_sequence(input: Tensor) -> None:
    _assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")


_LAYER_NORM = partial(nn.LayerNorm, eps=1e-6)


class EncoderBlock(nn.Module):
    """Attention and a perceptron, normalization before each, the input added to each.

    Args:
        num_heads, hidden_dim: of the attention.
        mlp_dim: features in the perceptron.
        dropout, attention_dropout: probabilities.
        norm_layer: built with ``hidden_dim``.
    Shape:
        ``(N, length, hidden_dim)`` to the same.
    Raises:
        AssertionError: input of other than three dimensions.
    """

    def __init__(
        self, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float, attention_dropout: float, norm_layer: Layer = _LAYER_NORM
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        _check_sequence(input)
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Places added to a sequence, blocks, and normalization.

    Args:
        seq_length: of the sequences.
        num_layers: blocks.
        num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer: of the blocks.
    Attributes:
        pos_embedding: ``(1, seq_length, hidden_dim)``, drawn from a normal distribution of standard deviation 0.02.
    """

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Layer = _LAYER_NORM,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(ops.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        settings = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.layers = nn.Sequential(OrderedDict((f"encoder_layer_{i}", EncoderBlock(*settings)) for i in range(num_layers)))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        _check_sequence(input)
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Patches of an image and a token that stands for its class, through an encoder; the token's features, through a linear layer.

    Args:
        image_size: height and width of the images.
        patch_size: height and width of the patches, which divides ``image_size``.
        num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer: of the encoder.
        num_classes: features of the result.
        representation_size: features between two linear layers at the end; one layer when None.
        conv_stem_configs: convolutions in place of the patches' linear map, of Xiao et al. 2021, "Early convolutions help".
    Shape:
        ``(N, 3, image_size, image_size)`` to ``(N, num_classes)``.
    Attributes:
        class_token: zeros at first.
        conv_proj: the map of the patches, drawn from a truncated normal distribution by its inputs.
        heads: the last layer is zeros at first.
    Raises:
        AssertionError: images of another size, or a size that patches do not divide.
    Source: torchvision.models.VisionTransformer. Dosovitskiy et al. 2021, "An image is worth 16x16 words".
    Example:
        >>> with torch.device('meta'):
        ...     model = VisionTransformer(32, 16, 1, 2, 16, 32, num_classes=10)
        >>> model(torch.empty(1, 3, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Layer = _LAYER_NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size != 0:
            raise AssertionError("Input shape indivisible by patch size!")
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.mlp_dim, self.attention_dropout, self.dropout = mlp_dim, attention_dropout, dropout
        self.num_classes, self.representation_size, self.norm_layer = num_classes, representation_size, norm_layer
        if conv_stem_configs is None:
            self.conv_proj: Any = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        else:
            self.conv_proj = _stem(conv_stem_configs, hidden_dim)
        self.class_token = nn.Parameter(ops.zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        encoder = (num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.encoder = Encoder(self.seq_length, *encoder)
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
        heads["head"] = nn.Linear(hidden_dim if representation_size is None else representation_size, num_classes)
        self.heads = nn.Sequential(heads)
        self._initialize()

    def _initialize(self) -> None:
        if isinstance(self.conv_proj, nn.Conv2d):
            _draw_by_inputs(self.conv_proj, math.prod(self.conv_proj.weight.shape[1:]))
        else:
            last = self.conv_proj.conv_last
            nn.init.normal_(last.weight, mean=0.0, std=math.sqrt(2.0 / last.out_channels))
            nn.init.zeros_(last.bias)
        if self.representation_size is not None:
            _draw_by_inputs(self.heads.pre_logits, self.hidden_dim)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def _process_input(self, x: Tensor) -> Tensor:
        """The patches as a sequence: ``(N, number, hidden_dim)``."""
        n, _, height, width = x.shape
        for name, size in (("height", height), ("width", width)):
            _assert(size == self.image_size, f"Wrong image {name}! Expected {self.image_size} but got {size}!")
        rows, columns = height // self.patch_size, width // self.patch_size
        return self.conv_proj(x).reshape(n, self.hidden_dim, rows * columns).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        n = x.shape[0]
        x = ops.cat([self.class_token.expand(n, -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


def _draw_by_inputs(layer: Any, inputs: int) -> None:
    nn.init.trunc_normal_(layer.weight, std=math.sqrt(1 / inputs))
    nn.init.zeros_(layer.bias)


def _stem(configs: list[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 3
    for i, config in enumerate(configs):
        layers[f"conv_bn_relu_{i}"] = Conv2dNormActivation(channels, **config._asdict())
        channels = config.out_channels
    layers["conv_last"] = nn.Conv2d(channels, hidden_dim, kernel_size=1)
    return nn.Sequential(layers)


def interpolate_embeddings(
    image_size: int, patch_size: int, model_state: OrderedDict[str, Tensor], interpolation_mode: str = "bicubic", reset_heads: bool = False
) -> OrderedDict[str, Tensor]:
    """A model's state for images of another size: the embeddings of the places are interpolated on their grid.

    Args:
        image_size: of the new model.
        patch_size: of the new model.
        model_state: a state with square images; changed in place.
        interpolation_mode: that of ``interpolate``.
        reset_heads: leave out the last layers, if the number of places changes.
    Returns:
        ``model_state``, or a new dictionary without the last layers.
    Raises:
        ValueError: embeddings of another shape, or not of a square.
    Source: torchvision.models.vision_transformer.interpolate_embeddings.
    """
    embedding = model_state["encoder.pos_embedding"]
    n, seq_length, hidden_dim = embedding.shape
    if n != 1:
        raise ValueError(f"Unexpected position embedding shape: {embedding.shape}")
    side = image_size // patch_size
    if side**2 + 1 == seq_length:
        return model_state
    old_side = math.isqrt(seq_length - 1)
    if old_side**2 != seq_length - 1:
        raise ValueError(
            f"seq_length is not a perfect square! Instead got seq_length_1d * seq_length_1d = {old_side**2} "
            f"and seq_length = {seq_length - 1}"
        )
    token, places = embedding[:, :1], embedding[:, 1:]
    grid = places.permute(0, 2, 1).reshape(1, hidden_dim, old_side, old_side)
    grid = nn.functional.interpolate(grid, size=side, mode=interpolation_mode, align_corners=True)
    places = grid.reshape(1, hidden_dim, side**2).permute(0, 2, 1)
    model_state["encoder.pos_embedding"] = ops.cat([token, places], dim=1)
    if not reset_heads:
        return model_state
    return OrderedDict((key, value) for key, value in model_state.items() if not key.startswith("heads"))


def _prepare(weights: Any, kwargs: dict[str, Any]) -> None:
    _ovewrite_named_param(kwargs, "image_size", weights.meta["min_size"][0])


def _builder(name: str, *sizes: int) -> Built[VisionTransformer]:
    settings: dict[str, Any] = dict(zip(("patch_size", "num_layers", "num_heads", "hidden_dim", "mlp_dim"), sizes))
    build = partial(VisionTransformer, image_size=224, **settings)
    return builder_and_weights(name, __name__, build, prepare=_prepare)


vit_b_16, ViT_B_16_Weights = _builder("vit_b_16", 16, 12, 12, 768, 3072)
vit_b_32, ViT_B_32_Weights = _builder("vit_b_32", 32, 12, 12, 768, 3072)
vit_l_16, ViT_L_16_Weights = _builder("vit_l_16", 16, 24, 16, 1024, 4096)
vit_l_32, ViT_L_32_Weights = _builder("vit_l_32", 32, 24, 16, 1024, 4096)
vit_h_14, ViT_H_14_Weights = _builder("vit_h_14", 14, 32, 16, 1280, 5120)
