"""EfficientNet v1 and v2: inverted residuals with squeeze and excitation, scaled in width, depth and image size together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from .._signatures import taking
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._api import table
from ._builders import Built, Layer, builder_and_weights, initialize
from ._utils import Classifier, _make_divisible, check_stages

__all__ = [
    *("EfficientNet", "EfficientNet_B0_Weights", "EfficientNet_B1_Weights", "EfficientNet_B2_Weights", "EfficientNet_B3_Weights"),
    *("EfficientNet_B4_Weights", "EfficientNet_B5_Weights", "EfficientNet_B6_Weights", "EfficientNet_B7_Weights"),
    *("EfficientNet_V2_S_Weights", "EfficientNet_V2_M_Weights", "EfficientNet_V2_L_Weights"),
    *("efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4", "efficientnet_b5"),
    *("efficientnet_b6", "efficientnet_b7", "efficientnet_v2_s", "efficientnet_v2_m", "efficientnet_v2_l"),
]


@dataclass
class _MBConvConfig:
    """A stage: blocks of one class, of which the first one changes channels and size."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    block: Layer

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    """A stage of :class:`MBConv`: a row of table 1 of the first paper, scaled, or of table 4 of the second."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: Layer | None = None,
    ) -> None:
        inputs, outputs = self.adjust_channels(input_channels, width_mult), self.adjust_channels(out_channels, width_mult)
        super().__init__(expand_ratio, kernel, stride, inputs, outputs, self.adjust_depth(num_layers, depth_mult), block or MBConv)

    @staticmethod
    def adjust_depth(num_layers: int, depth_mult: float) -> int:
        return math.ceil(num_layers * depth_mult)


class FusedMBConvConfig(_MBConvConfig):
    """A stage of :class:`FusedMBConv`: a row of table 4 of the second paper."""

    @taking(_MBConvConfig.__init__)
    def __init__(self, *, block: Layer | None = None, **stage: Any) -> None:
        super().__init__(**stage, block=block or FusedMBConv)


class _Residual(nn.Module):
    """A block around which the input goes where the shape stays; in training, it is left out for some images.

    Args:
        cnf: the stage, as it is for this block.
        stochastic_depth_prob: probability that an image leaves the block out.
        norm_layer: built with the channels of each convolution.
    Raises:
        ValueError: a stride other than 1 or 2.
    """

    def __init__(self, cnf: _MBConvConfig, stochastic_depth_prob: float, layers: list[nn.Module]) -> None:
        super().__init__()
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


def _convolution(cnf: _MBConvConfig, norm_layer: Layer) -> Layer:
    """A stage's convolutions, each with normalization and activation."""
    if not 1 <= cnf.stride <= 2:
        raise ValueError("illegal stride value")
    return partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)


class MBConv(_Residual):
    """Widens the channels, convolves each by itself, scales them, narrows them. Source: torchvision.models.efficientnet.MBConv."""

    def __init__(self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: Layer, se_layer: Layer = SqueezeExcitation) -> None:
        convolution = _convolution(cnf, norm_layer)
        inputs = cnf.input_channels
        expanded = cnf.adjust_channels(inputs, cnf.expand_ratio)
        layers: list[nn.Module] = [] if expanded == inputs else [convolution(inputs, expanded, kernel_size=1)]
        layers += [
            convolution(expanded, expanded, kernel_size=cnf.kernel, stride=cnf.stride, groups=expanded),
            se_layer(expanded, max(1, inputs // 4), activation=partial(nn.SiLU, inplace=True)),
            convolution(expanded, cnf.out_channels, kernel_size=1, activation_layer=None),
        ]
        super().__init__(cnf, stochastic_depth_prob, layers)


class FusedMBConv(_Residual):
    """Widens the channels by a whole convolution and narrows them. Source: torchvision.models.efficientnet.FusedMBConv."""

    def __init__(self, cnf: FusedMBConvConfig, stochastic_depth_prob: float, norm_layer: Layer) -> None:
        convolution = _convolution(cnf, norm_layer)
        inputs = cnf.input_channels
        expanded = cnf.adjust_channels(inputs, cnf.expand_ratio)
        widened = cnf.out_channels if expanded == inputs else expanded
        layers: list[nn.Module] = [convolution(inputs, widened, kernel_size=cnf.kernel, stride=cnf.stride)]
        if expanded != inputs:
            layers.append(convolution(expanded, cnf.out_channels, kernel_size=1, activation_layer=None))
        super().__init__(cnf, stochastic_depth_prob, layers)


def _draw_linear(weight: Tensor) -> None:
    bound = 1.0 / math.sqrt(weight.shape[0])
    nn.init.uniform_(weight, -bound, bound)


class EfficientNet(Classifier):
    """A strided convolution, stages of blocks, a 1x1 convolution, the mean over places, and a linear layer.

    Args:
        inverted_residual_setting: the stages.
        dropout: probability, before the linear layer.
        stochastic_depth_prob: probability that an image leaves out a block; it rises from 0 to nearly this.
        num_classes: features of the result.
        norm_layer: ``BatchNorm2d`` when None.
        last_channel: channels of the last convolution; four times the last stage's when None.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Raises:
        ValueError: no stages.
        TypeError: stages of another class.
    Source: torchvision.models.EfficientNet. Tan and Le 2019, "EfficientNet", table 1; 2021, "EfficientNetV2", table 4.
    Example:
        >>> with torch.device('meta'):
        ...     model = EfficientNet([MBConvConfig(6, 3, 2, 16, 24, 2)], dropout=0.2, num_classes=10)
        >>> model(torch.empty(1, 3, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[MBConvConfig | FusedMBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        stages = inverted_residual_setting
        check_stages("inverted_residual_setting", stages, _MBConvConfig, "MBConvConfig")
        norm_layer = norm_layer or nn.BatchNorm2d
        outer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        layers: list[nn.Module] = [outer(3, stages[0].input_channels, kernel_size=3, stride=2)]
        count, total = 0, sum(stage.num_layers for stage in stages)
        for stage in stages:
            blocks = []
            for i in range(stage.num_layers):
                cnf = copy(stage)
                if i > 0:
                    cnf.input_channels, cnf.stride = stage.out_channels, 1
                blocks.append(cnf.block(cnf, stochastic_depth_prob * float(count) / total, norm_layer))
                count += 1
            layers.append(nn.Sequential(*blocks))
        channels = stages[-1].out_channels
        last_channel = 4 * channels if last_channel is None else last_channel
        layers.append(outer(channels, last_channel, kernel_size=1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(last_channel, num_classes))
        initialize(self, {nn.Conv2d: partial(nn.init.kaiming_normal_, mode="fan_out"), nn.Linear: _draw_linear})


# Rows of stages: widening, kernel, stride, channels of the input and the result, blocks.
def _v1(name: str, width_mult: float, depth_mult: float, dropout: float, **options: Any) -> Built[EfficientNet]:
    scaled = partial(MBConvConfig, width_mult=width_mult, depth_mult=depth_mult)
    stages = [scaled(*row) for row in table("stages")["efficientnet_v1"]]
    build = partial(EfficientNet, stages, dropout=dropout, last_channel=None, **options)
    return builder_and_weights(name, __name__, build)


def _v2(name: str, dropout: float) -> Built[EfficientNet]:
    rows = table("stages")["efficientnet_v2"][name[-1]]
    stages: list[Any] = [*(FusedMBConvConfig(*row) for row in rows["fused"]), *(MBConvConfig(*row) for row in rows["unfused"])]
    build = partial(EfficientNet, stages, dropout=dropout, last_channel=1280, norm_layer=partial(nn.BatchNorm2d, eps=1e-03))
    return builder_and_weights(name, __name__, build)


_tensorflow_norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)  # of the original's, from which the weights of B5 to B7 come

efficientnet_b0, EfficientNet_B0_Weights = _v1("efficientnet_b0", 1.0, 1.0, 0.2)
efficientnet_b1, EfficientNet_B1_Weights = _v1("efficientnet_b1", 1.0, 1.1, 0.2)
efficientnet_b2, EfficientNet_B2_Weights = _v1("efficientnet_b2", 1.1, 1.2, 0.3)
efficientnet_b3, EfficientNet_B3_Weights = _v1("efficientnet_b3", 1.2, 1.4, 0.3)
efficientnet_b4, EfficientNet_B4_Weights = _v1("efficientnet_b4", 1.4, 1.8, 0.4)
efficientnet_b5, EfficientNet_B5_Weights = _v1("efficientnet_b5", 1.6, 2.2, 0.4, norm_layer=_tensorflow_norm)
efficientnet_b6, EfficientNet_B6_Weights = _v1("efficientnet_b6", 1.8, 2.6, 0.5, norm_layer=_tensorflow_norm)
efficientnet_b7, EfficientNet_B7_Weights = _v1("efficientnet_b7", 2.0, 3.1, 0.5, norm_layer=_tensorflow_norm)
efficientnet_v2_s, EfficientNet_V2_S_Weights = _v2("efficientnet_v2_s", 0.2)
efficientnet_v2_m, EfficientNet_V2_M_Weights = _v2("efficientnet_v2_m", 0.3)
efficientnet_v2_l, EfficientNet_V2_L_Weights = _v2("efficientnet_v2_l", 0.4)
