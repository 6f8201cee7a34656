"""ShuffleNet v2: half of the channels goes past each block, and the halves are shuffled."""

from __future__ import annotations

from functools import partial

from ... import nn, ops
from ...core.tensor import Tensor
from ._builders import Built, Layer, builder_and_weights
from ._utils import Classifier

__all__ = [
    *("ShuffleNetV2", "ShuffleNet_V2_X0_5_Weights", "ShuffleNet_V2_X1_0_Weights", "ShuffleNet_V2_X1_5_Weights"),
    *("ShuffleNet_V2_X2_0_Weights", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0"),
]


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """The channels of ``groups`` equal parts in turn: the first of each part, then the second of each."""
    n, channels, height, width = x.size()
    parts = x.view(n, groups, channels // groups, height, width)
    return parts.transpose(1, 2).contiguous().view(n, channels, height, width)


def _pointwise(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel_size=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


class InvertedResidual(nn.Module):
    """At stride 1, half of the channels goes through three convolutions; at stride 2, all go through two branches.

    Args:
        inp, oup: channels of the input and the result.
        stride: of the depthwise convolutions, 1 to 3.
    Raises:
        ValueError: another stride, or stride 1 with other channels than those of the input.
    Source: torchvision.models.shufflenetv2.InvertedResidual. Ma et al. 2018, figure 3.
    """

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        half = oup // 2
        if stride == 1 and inp != 2 * half:
            raise ValueError(
                f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values. "
                "If stride == 1 then inp should be equal to oup // 2 << 1."
            )
        self.stride = stride
        if stride > 1:
            self.branch1 = nn.Sequential(*self._depthwise(inp, stride), *_pointwise(inp, half))
        else:
            self.branch1 = nn.Sequential()
        inputs = inp if stride > 1 else half
        self.branch2 = nn.Sequential(*_pointwise(inputs, half), *self._depthwise(half, stride), *_pointwise(half, half))

    def _depthwise(self, channels: int, stride: int) -> list[nn.Module]:
        return [self.depthwise_conv(channels, channels, kernel_size=3, stride=stride, padding=1), nn.BatchNorm2d(channels)]

    @staticmethod
    def depthwise_conv(i: int, o: int, kernel_size: int, stride: int = 1, padding: int = 0, bias: bool = False) -> nn.Conv2d:
        return nn.Conv2d(i, o, kernel_size, stride, padding, bias=bias, groups=i)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            past, through = x.chunk(2, dim=1)
            out = ops.cat((past, self.branch2(through)), dim=1)
        else:
            out = ops.cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


class ShuffleNetV2(Classifier):
    """A strided convolution and a pooling, three stages, a 1x1 convolution, the mean over places, and a linear layer.

    Args:
        stages_repeats: blocks of the three stages.
        stages_out_channels: channels of the first convolution, the stages and the last convolution.
        num_classes: features of the result.
        inverted_residual: class of the blocks.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Raises:
        ValueError: other than three stages, or five numbers of channels.
    Source: torchvision.models.ShuffleNetV2. Ma et al. 2018, "ShuffleNet V2", table 5.
    Example:
        >>> with torch.device('meta'):
        ...     model = ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 128], num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        stages_repeats: list[int],
        stages_out_channels: list[int],
        num_classes: int = 1000,
        inverted_residual: Layer = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        self._stage_out_channels = stages_out_channels
        channels = stages_out_channels[0]
        self.conv1 = nn.Sequential(nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        for i, (repeats, outputs) in enumerate(zip(stages_repeats, stages_out_channels[1:]), 2):
            first = inverted_residual(channels, outputs, 2)
            setattr(self, f"stage{i}", nn.Sequential(first, *(inverted_residual(outputs, outputs, 1) for _ in range(repeats - 1))))
            channels = outputs
        self.conv5 = nn.Sequential(*_pointwise(channels, stages_out_channels[-1]))
        self.fc = nn.Linear(stages_out_channels[-1], num_classes)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean([2, 3]))


def _builder(name: str, *channels: int) -> Built[ShuffleNetV2]:
    return builder_and_weights(name, __name__, partial(ShuffleNetV2, [4, 8, 4], list(channels)))


shufflenet_v2_x0_5, ShuffleNet_V2_X0_5_Weights = _builder("shufflenet_v2_x0_5", 24, 48, 96, 192, 1024)
shufflenet_v2_x1_0, ShuffleNet_V2_X1_0_Weights = _builder("shufflenet_v2_x1_0", 24, 116, 232, 464, 1024)
shufflenet_v2_x1_5, ShuffleNet_V2_X1_5_Weights = _builder("shufflenet_v2_x1_5", 24, 176, 352, 704, 1024)
shufflenet_v2_x2_0, ShuffleNet_V2_X2_0_Weights = _builder("shufflenet_v2_x2_0", 24, 244, 488, 976, 2048)
