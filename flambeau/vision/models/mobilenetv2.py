"""MobileNet v2: depthwise convolutions between a widening and a narrowing 1x1 convolution."""

from __future__ import annotations

from functools import partial

from ... import nn
from ...core.tensor import Tensor
from ..ops.misc import Conv2dNormActivation
from ._builders import Layer, builder_and_weights, initialize, normal
from ._utils import Classifier, _make_divisible

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]


class InvertedResidual(nn.Module):
    """Widens the channels, convolves each by itself, narrows them; the input is added where the shape stays.

    Args:
        inp, oup: channels of the input and the result.
        stride: 1 or 2.
        expand_ratio: how many times more channels there are between; at 1 nothing is widened.
        norm_layer: ``BatchNorm2d`` when None.
    Raises:
        ValueError: another stride.
    Source: torchvision.models.mobilenetv2.InvertedResidual. Sandler et al. 2018, table 1.
    """

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Layer | None = None) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm_layer = norm_layer or nn.BatchNorm2d
        hidden = round(inp * expand_ratio)
        block = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        layers: list[nn.Module] = [] if expand_ratio == 1 else [block(inp, hidden, kernel_size=1)]
        layers += [block(hidden, hidden, stride=stride, groups=hidden), nn.Conv2d(hidden, oup, 1, bias=False), norm_layer(oup)]
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(*layers)
        self.out_channels = oup
        self._is_cn = stride > 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


# Widening, channels, blocks, stride of the first block.
STAGES = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]


class MobileNetV2(Classifier):
    """A strided convolution, stages of inverted residuals, a 1x1 convolution, the mean over places, and a linear layer.

    Args:
        num_classes: features of the result.
        width_mult: factor of all channels.
        inverted_residual_setting: stages, each of widening, channels, blocks and first stride; those of the paper when None.
        round_nearest: what all numbers of channels are multiples of.
        block: :class:`InvertedResidual` when None.
        norm_layer: ``BatchNorm2d`` when None.
        dropout: probability, before the linear layer.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Raises:
        ValueError: no stages, or stages of other than four numbers.
    Source: torchvision.models.MobileNetV2. Sandler et al. 2018, "MobileNetV2", table 2.
    Example:
        >>> with torch.device('meta'):
        ...     model = MobileNetV2(num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: list[list[int]] | None = None,
        round_nearest: int = 8,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block, norm_layer = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        stages = STAGES if inverted_residual_setting is None else inverted_residual_setting
        if len(stages) == 0 or len(stages[0]) != 4:
            raise ValueError(f"inverted_residual_setting should be non-empty or a 4-element list, got {stages}")
        outer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        channels = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [outer(3, channels, stride=2)]
        for widening, width, count, first_stride in stages:
            outputs = _make_divisible(width * width_mult, round_nearest)
            for i in range(count):
                features.append(block(channels, outputs, first_stride if i == 0 else 1, expand_ratio=widening, norm_layer=norm_layer))
                channels = outputs
        features.append(outer(channels, self.last_channel, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        initialize(self, {nn.Conv2d: partial(nn.init.kaiming_normal_, mode="fan_out"), nn.Linear: normal(0.01)})

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


mobilenet_v2, MobileNet_V2_Weights = builder_and_weights("mobilenet_v2", __name__, MobileNetV2)
