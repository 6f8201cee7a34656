"""ConvNeXt: depthwise 7x7 convolutions and a perceptron for each place, in the stages of a hierarchical Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ..ops.misc import Conv2dNormActivation, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._builders import Built, Layer, builder_and_weights, initialize, truncated
from ._utils import Classifier, check_stages

__all__ = [
    *("ConvNeXt", "ConvNeXt_Tiny_Weights", "ConvNeXt_Small_Weights", "ConvNeXt_Base_Weights", "ConvNeXt_Large_Weights"),
    *("convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),
]


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of images: ``(N, C, H, W)`` to the same."""

    def forward(self, x: Tensor) -> Tensor:
        channels_last = x.permute(0, 2, 3, 1)
        result = nn.functional.layer_norm(channels_last, self.normalized_shape, self.weight, self.bias, self.eps)
        return result.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A depthwise convolution, normalization and a perceptron for each place, scaled, around which the input goes.

    Args:
        dim: channels.
        layer_scale: what the factor of each channel is at first.
        stochastic_depth_prob: probability that an image leaves the block out in training.
        norm_layer: ``LayerNorm`` with ``eps`` 1e-6 when None.
    Source: torchvision.models.convnext.CNBlock. Liu et al. 2022, figure 4.
    """

    def __init__(self, dim: int, layer_scale: float, stochastic_depth_prob: float, norm_layer: Layer | None = None) -> None:
        super().__init__()
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim),
            *(Permute([0, 2, 3, 1]), norm_layer(dim)),
            *(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(ops.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


@dataclass(eq=False)
class CNBlockConfig:
    """A stage: channels, those after the convolution that halves the size (None where there is none), and blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(Classifier):
    """Patches of 4 by 4, stages of blocks, the mean over places, normalization, and a linear layer.

    Args:
        block_setting: the stages.
        stochastic_depth_prob: probability that an image leaves out a block in training; it rises from 0 to this.
        layer_scale: what the factors in the blocks are at first.
        num_classes: features of the result.
        block: :class:`CNBlock` when None.
        norm_layer: :class:`LayerNorm2d` with ``eps`` 1e-6 when None; not that of the blocks.
        kwargs: have no meaning here.
    Shape:
        ``(N, 3, H, W)``, at least 32 by 32, to ``(N, num_classes)``.
    Raises:
        ValueError: no stages.
        TypeError: stages of another class.
    Source: torchvision.models.ConvNeXt. Liu et al. 2022, "A ConvNet for the 2020s", section 3.
    Example:
        >>> with torch.device('meta'):
        ...     model = ConvNeXt([CNBlockConfig(8, None, 2)], num_classes=10)
        >>> model(torch.empty(1, 3, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        check_stages("block_setting", block_setting, CNBlockConfig, "CNBlockConfig")
        block, norm_layer = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        patches: dict[str, Any] = {"kernel_size": 4, "stride": 4, "padding": 0, "activation_layer": None, "bias": True}
        layers: list[nn.Module] = [Conv2dNormActivation(3, block_setting[0].input_channels, norm_layer=norm_layer, **patches)]
        count, total = 0, sum(stage.num_layers for stage in block_setting)
        for stage in block_setting:
            probabilities = [stochastic_depth_prob * i / (total - 1.0) for i in range(count, count + stage.num_layers)]
            layers.append(nn.Sequential(*(block(stage.input_channels, layer_scale, probability) for probability in probabilities)))
            count += stage.num_layers
            if stage.out_channels is not None:
                halving = nn.Conv2d(stage.input_channels, stage.out_channels, kernel_size=2, stride=2)
                layers.append(nn.Sequential(norm_layer(stage.input_channels), halving))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        last = block_setting[-1]
        channels = last.input_channels if last.out_channels is None else last.out_channels
        self.classifier = nn.Sequential(norm_layer(channels), nn.Flatten(1), nn.Linear(channels, num_classes))
        initialize(self, {nn.Conv2d: truncated, nn.Linear: truncated}, norms=())

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


def _builder(name: str, width: int, depth: int, stochastic_depth_prob: float) -> Built[ConvNeXt]:
    widths = [width, 2 * width, 4 * width, 8 * width]
    stages = [CNBlockConfig(*row) for row in zip(widths, [*widths[1:], None], (3, 3, depth, 3))]
    build = partial(ConvNeXt, stages, stochastic_depth_prob=stochastic_depth_prob)
    return builder_and_weights(name, __name__, build)


convnext_tiny, ConvNeXt_Tiny_Weights = _builder("convnext_tiny", 96, 9, 0.1)
convnext_small, ConvNeXt_Small_Weights = _builder("convnext_small", 96, 27, 0.4)
convnext_base, ConvNeXt_Base_Weights = _builder("convnext_base", 128, 27, 0.5)
convnext_large, ConvNeXt_Large_Weights = _builder("convnext_large", 192, 27, 0.5)
