"""MobileNet v3: inverted residuals with squeeze and excitation and hard activations, found by a search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import table
from ._builders import Built, Layer, builder_and_weights, initialize, normal
from ._utils import Classifier, _make_divisible, check_stages

__all__ = ["MobileNetV3", "MobileNet_V3_Large_Weights", "MobileNet_V3_Small_Weights", "mobilenet_v3_large", "mobilenet_v3_small"]

SElayer = SqueezeExcitation


class InvertedResidualConfig:
    """A row of the tables of the paper: what a block looks like.

    Args:
        input_channels, expanded_channels, out_channels: before ``width_mult``.
        kernel: size of the depthwise convolution.
        use_se: whether there is squeeze and excitation.
        activation: ``"HS"`` for hard swish; ReLU otherwise.
        stride, dilation: of the depthwise convolution.
        width_mult: factor of the channels, which become multiples of 8.
    """

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride, self.dilation = stride, dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        return _make_divisible(channels * width_mult, 8)


_HARD_SQUEEZE_EXCITATION = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidual(nn.Module):
    """Widens the channels, convolves each by itself, scales them, narrows them; the input is added where the shape stays.

    Args:
        cnf: the block's row.
        norm_layer: built with the channels of each convolution.
        se_layer: squeeze and excitation.
    Raises:
        ValueError: a stride other than 1 or 2.
    Source: torchvision.models.mobilenetv3.InvertedResidual. Howard et al. 2019, section 5.
    """

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Layer, se_layer: Layer = _HARD_SQUEEZE_EXCITATION) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        expanded = cnf.expanded_channels
        block = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish if cnf.use_hs else nn.ReLU)
        layers: list[nn.Module] = [] if expanded == cnf.input_channels else [block(cnf.input_channels, expanded, kernel_size=1)]
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(block(expanded, expanded, kernel_size=cnf.kernel, stride=stride, dilation=cnf.dilation, groups=expanded))
        if cnf.use_se:
            layers.append(se_layer(expanded, _make_divisible(expanded // 4, 8)))
        layers.append(block(expanded, cnf.out_channels, kernel_size=1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(Classifier):
    """A strided convolution, inverted residuals, a 1x1 convolution, the mean over places, and two linear layers.

    Args:
        inverted_residual_setting: a row for each block.
        last_channel: features between the linear layers.
        num_classes: features of the result.
        block: :class:`InvertedResidual` when None.
        norm_layer: ``BatchNorm2d`` with ``eps`` 0.001 and ``momentum`` 0.01 when None.
        dropout: probability, between the linear layers.
        kwargs: have no meaning here.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Raises:
        ValueError: no blocks.
        TypeError: rows of another class.
    Source: torchvision.models.MobileNetV3. Howard et al. 2019, "Searching for MobileNetV3", tables 1 and 2.
    Example:
        >>> with torch.device('meta'):
        ...     model = MobileNetV3(*_mobilenet_v3_conf("mobilenet_v3_small"), num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        rows = inverted_residual_setting
        check_stages("inverted_residual_setting", rows, InvertedResidualConfig, "InvertedResidualConfig")
        block, norm_layer = block or InvertedResidual, norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        outer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish)
        channels = rows[-1].out_channels
        self.features = nn.Sequential(
            outer(3, rows[0].input_channels, kernel_size=3, stride=2),
            *(block(row, norm_layer) for row in rows),
            outer(channels, 6 * channels, kernel_size=1),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            *(nn.Linear(6 * channels, last_channel), nn.Hardswish(inplace=True)),
            *(nn.Dropout(p=dropout, inplace=True), nn.Linear(last_channel, num_classes)),
        )
        initialize(self, {nn.Conv2d: partial(nn.init.kaiming_normal_, mode="fan_out"), nn.Linear: normal(0.01)})


# Blocks: input channels, kernel, expanded channels, channels of the result, squeeze and excitation, activation, stride. The last three
# are the tail, whose channels may be halved (those of the first one's input and middle stay) and which may dilate.
MODELS: dict[str, Any] = table("stages")["mobilenet_v3"]


def _mobilenet_v3_conf(
    arch: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any
) -> tuple[list[InvertedResidualConfig], int]:
    """The blocks of a model, and its last channels; ``kwargs`` have no meaning here.

    Raises:
        ValueError: another model.
    """
    if arch not in MODELS:
        raise ValueError(f"Unsupported model type {arch}")
    rows, last_channel = MODELS[arch]["blocks"], MODELS[arch]["last_channel"]
    divider = 2 if reduced_tail else 1
    settings = []
    for i, (inputs, kernel, expanded, outputs, use_se, activation, stride) in enumerate(rows):
        tail = i - (len(rows) - 3)
        if tail >= 0:
            outputs //= divider
        if tail > 0:
            inputs, expanded = inputs // divider, expanded // divider
        dilation = 2 if dilated and tail >= 0 else 1
        settings.append(InvertedResidualConfig(inputs, kernel, expanded, outputs, use_se, activation, stride, dilation, width_mult))
    return settings, InvertedResidualConfig.adjust_channels(last_channel // divider, width_mult)


def _mobilenet_v3(arch: str, **kwargs: Any) -> MobileNetV3:
    return MobileNetV3(*_mobilenet_v3_conf(arch, **kwargs), **kwargs)


def _builder(name: str) -> Built[MobileNetV3]:
    return builder_and_weights(name, __name__, partial(_mobilenet_v3, name))


mobilenet_v3_large, MobileNet_V3_Large_Weights = _builder("mobilenet_v3_large")
mobilenet_v3_small, MobileNet_V3_Small_Weights = _builder("mobilenet_v3_small")
