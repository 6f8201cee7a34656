"""RegNet: residual bottlenecks whose widths follow a line that is cut into stages; Y has squeeze and excitation, X has none."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ... import nn
from ...core.tensor import Tensor
from .._signatures import taking
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._builders import Built, Layer, builder_and_weights, initialize, normal
from ._utils import _make_divisible

__all__ = [
    *("RegNet", "RegNet_Y_400MF_Weights", "RegNet_Y_800MF_Weights", "RegNet_Y_1_6GF_Weights", "RegNet_Y_3_2GF_Weights"),
    *("RegNet_Y_8GF_Weights", "RegNet_Y_16GF_Weights", "RegNet_Y_32GF_Weights", "RegNet_Y_128GF_Weights"),
    *("RegNet_X_400MF_Weights", "RegNet_X_800MF_Weights", "RegNet_X_1_6GF_Weights", "RegNet_X_3_2GF_Weights"),
    *("RegNet_X_8GF_Weights", "RegNet_X_16GF_Weights", "RegNet_X_32GF_Weights"),
    *("regnet_y_400mf", "regnet_y_800mf", "regnet_y_1_6gf", "regnet_y_3_2gf", "regnet_y_8gf", "regnet_y_16gf", "regnet_y_32gf"),
    *("regnet_y_128gf", "regnet_x_400mf", "regnet_x_800mf", "regnet_x_1_6gf", "regnet_x_3_2gf", "regnet_x_8gf", "regnet_x_16gf"),
    "regnet_x_32gf",
]


class SimpleStemIN(Conv2dNormActivation):
    """The stem for ImageNet: a strided 3x3 convolution with normalization and activation."""

    def __init__(self, width_in: int, width_out: int, norm_layer: Layer, activation_layer: Layer) -> None:
        super().__init__(width_in, width_out, kernel_size=3, stride=2, norm_layer=norm_layer, activation_layer=activation_layer)


class BottleneckTransform(nn.Sequential):
    """1x1, grouped 3x3 and 1x1 convolution, with squeeze and excitation before the last one where there is a ratio."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None,
    ) -> None:
        width = round(width_out * bottleneck_multiplier)
        convolution = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation_layer)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["a"] = convolution(width_in, width, kernel_size=1)
        layers["b"] = convolution(width, width, kernel_size=3, stride=stride, groups=width // group_width)
        if se_ratio:
            layers["se"] = SqueezeExcitation(width, round(se_ratio * width_in), activation=activation_layer)
        layers["c"] = convolution(width, width_out, kernel_size=1, activation_layer=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    """A bottleneck to which the input is added, through a 1x1 convolution where the shape changes."""

    @taking(BottleneckTransform.__init__, group_width=1, bottleneck_multiplier=1.0, se_ratio=None)
    def __init__(
        self, *, width_in: int, width_out: int, stride: int, norm_layer: Layer, activation_layer: Layer, **bottleneck: Any
    ) -> None:
        super().__init__()
        self.proj = None
        if width_in != width_out or stride != 1:
            self.proj = Conv2dNormActivation(
                width_in, width_out, kernel_size=1, stride=stride, norm_layer=norm_layer, activation_layer=None
            )
        self.f = BottleneckTransform(width_in, width_out, stride, norm_layer, activation_layer, **bottleneck)
        self.activation = activation_layer(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation((x if self.proj is None else self.proj(x)) + self.f(x))


class AnyStage(nn.Sequential):
    """Blocks of one width, of which the first changes width and size; each is named after its stage."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        depth: int,
        block_constructor: Layer,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None = None,
        stage_index: int = 0,
    ) -> None:
        super().__init__()
        rest = (norm_layer, activation_layer, group_width, bottleneck_multiplier, se_ratio)
        for i in range(depth):
            first = (width_in, width_out, stride) if i == 0 else (width_out, width_out, 1)
            self.add_module(f"block{stage_index}-{i}", block_constructor(*first, *rest))


@dataclass(eq=False, repr=False)
class BlockParams:
    """Parameters of a RegNet's stages, a list with an entry for each.

    Args:
        depths: blocks.
        widths: channels.
        group_widths: channels of a group.
        bottleneck_multipliers: channels in the middle of a block, in widths.
        strides: of the first block.
        se_ratio: channels that squeezing leaves, in widths of a block's input; no squeezing when None.
    """

    depths: list[int]
    widths: list[int]
    group_widths: list[int]
    bottleneck_multipliers: list[float]
    strides: list[int]
    se_ratio: float | None = None

    @classmethod
    def from_init_params(
        cls,
        depth: int,
        w_0: int,
        w_a: float,
        w_m: float,
        group_width: int,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
        **kwargs: Any,
    ) -> BlockParams:
        """Stages from the paper's parameters: block ``i`` has the power of ``w_m`` nearest to ``w_0 + w_a * i``, a multiple of 8.

        Args:
            depth: blocks of all stages.
            w_0: the first width, a multiple of 8.
            w_a: slope of the line, at least 0.
            w_m: quotient of neighbouring stages' widths, above 1.
            group_width, bottleneck_multiplier, se_ratio: of every stage.
            kwargs: have no meaning here.
        Raises:
            ValueError: other numbers.
        Source: Radosavovic et al. 2020, "Designing network design spaces", equations 2 to 4.
        """
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8 != 0:
            raise ValueError("Invalid RegNet settings")
        line = np.arange(depth, dtype=np.float32) * w_a + w_0
        powers = np.round(np.log(line / w_0) / math.log(w_m))
        block_widths = (np.round(w_0 * w_m**powers / 8) * 8).astype(int).tolist()
        starts = [i for i, width in enumerate(block_widths) if i == 0 or width != block_widths[i - 1]]
        depths = [end - start for start, end in zip(starts, [*starts[1:], depth])]
        stages = len(set(block_widths))
        multipliers = [bottleneck_multiplier] * stages
        widths, group_widths = cls._adjust_widths_groups_compatibilty(
            [block_widths[start] for start in starts], multipliers, [group_width] * stages
        )
        return cls(depths, widths, group_widths, multipliers, [2] * stages, se_ratio)

    def _get_expanded_params(self) -> Iterator[tuple[int, int, int, int, float]]:
        return zip(self.widths, self.strides, self.depths, self.group_widths, self.bottleneck_multipliers)

    @staticmethod
    def _adjust_widths_groups_compatibilty(
        stage_widths: list[int], bottleneck_ratios: list[float], group_widths: list[int]
    ) -> tuple[list[int], list[int]]:
        """Widths that their groups divide, and groups no wider than the middle of a block."""
        middles = [int(width * ratio) for width, ratio in zip(stage_widths, bottleneck_ratios)]
        groups = [min(group, middle) for group, middle in zip(group_widths, middles)]
        middles = [_make_divisible(middle, group) for middle, group in zip(middles, groups)]
        return [int(middle / ratio) for middle, ratio in zip(middles, bottleneck_ratios)], groups


def _draw_convolutions(model: nn.Module) -> None:
    """Weights from normal distributions by their outputs, as by Kaiming; the biases, of squeeze and excitation alone, stay."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = math.prod(module.kernel_size) * module.out_channels
            nn.init.normal_(module.weight, mean=0.0, std=math.sqrt(2.0 / fan_out))


class RegNet(nn.Module):
    """A stem, the stages, the mean over places, and a linear layer.

    Args:
        block_params: the stages.
        num_classes: features of the result.
        stem_width: channels of the stem.
        stem_type: :class:`SimpleStemIN` when None.
        block_type: :class:`ResBottleneckBlock` when None.
        norm_layer: ``BatchNorm2d`` when None.
        activation: ``ReLU`` when None.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Source: torchvision.models.RegNet. Radosavovic et al. 2020.
    Example:
        >>> with torch.device('meta'):
        ...     model = RegNet(BlockParams.from_init_params(4, 16, 8.0, 2.0, 8), num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        stem_type: Layer | None = None,
        block_type: Layer | None = None,
        norm_layer: Layer | None = None,
        activation: Layer | None = None,
    ) -> None:
        super().__init__()
        stem_type, block_type = stem_type or SimpleStemIN, block_type or ResBottleneckBlock
        norm_layer, activation = norm_layer or nn.BatchNorm2d, activation or nn.ReLU
        self.stem = stem_type(3, stem_width, norm_layer, activation)
        width = stem_width
        stages: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (width_out, stride, depth, group_width, multiplier) in enumerate(block_params._get_expanded_params(), 1):
            rest = (block_type, norm_layer, activation, group_width, multiplier, block_params.se_ratio, i)
            stages[f"block{i}"] = AnyStage(width, width_out, stride, depth, *rest)
            width = width_out
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(in_features=width, out_features=num_classes)
        _draw_convolutions(self)
        initialize(self, {nn.Linear: normal(0.01)}, norms=(nn.BatchNorm2d,))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(1))


def _regnet(settings: dict[str, Any], **kwargs: Any) -> RegNet:
    """A model of the paper's parameters; those of the stages may be given with the model's."""
    norm_layer = kwargs.pop("norm_layer", partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return RegNet(BlockParams.from_init_params(**settings, **kwargs), norm_layer=norm_layer, **kwargs)


def _builder(name: str, depth: int, w_0: int, w_a: float, w_m: float, group_width: int) -> Built[RegNet]:
    settings: dict[str, Any] = {"depth": depth, "w_0": w_0, "w_a": w_a, "w_m": w_m, "group_width": group_width}
    if name.startswith("regnet_y"):
        settings["se_ratio"] = 0.25
    return builder_and_weights(name, __name__, partial(_regnet, settings))


# Blocks, first width, slope, quotient, width of a group: appendix of the paper.
regnet_y_400mf, RegNet_Y_400MF_Weights = _builder("regnet_y_400mf", 16, 48, 27.89, 2.09, 8)
regnet_y_800mf, RegNet_Y_800MF_Weights = _builder("regnet_y_800mf", 14, 56, 38.84, 2.4, 16)
regnet_y_1_6gf, RegNet_Y_1_6GF_Weights = _builder("regnet_y_1_6gf", 27, 48, 20.71, 2.65, 24)
regnet_y_3_2gf, RegNet_Y_3_2GF_Weights = _builder("regnet_y_3_2gf", 21, 80, 42.63, 2.66, 24)
regnet_y_8gf, RegNet_Y_8GF_Weights = _builder("regnet_y_8gf", 17, 192, 76.82, 2.19, 56)
regnet_y_16gf, RegNet_Y_16GF_Weights = _builder("regnet_y_16gf", 18, 200, 106.23, 2.48, 112)
regnet_y_32gf, RegNet_Y_32GF_Weights = _builder("regnet_y_32gf", 20, 232, 115.89, 2.53, 232)
regnet_y_128gf, RegNet_Y_128GF_Weights = _builder("regnet_y_128gf", 27, 456, 160.83, 2.52, 264)
regnet_x_400mf, RegNet_X_400MF_Weights = _builder("regnet_x_400mf", 22, 24, 24.48, 2.54, 16)
regnet_x_800mf, RegNet_X_800MF_Weights = _builder("regnet_x_800mf", 16, 56, 35.73, 2.28, 16)
regnet_x_1_6gf, RegNet_X_1_6GF_Weights = _builder("regnet_x_1_6gf", 18, 80, 34.01, 2.25, 24)
regnet_x_3_2gf, RegNet_X_3_2GF_Weights = _builder("regnet_x_3_2gf", 25, 88, 26.31, 2.25, 48)
regnet_x_8gf, RegNet_X_8GF_Weights = _builder("regnet_x_8gf", 23, 80, 49.56, 2.88, 120)
regnet_x_16gf, RegNet_X_16GF_Weights = _builder("regnet_x_16gf", 22, 216, 55.59, 2.1, 128)
regnet_x_32gf, RegNet_X_32GF_Weights = _builder("regnet_x_32gf", 23, 320, 69.86, 2.0, 168)
