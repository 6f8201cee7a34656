"""ResNets whose convolutions reach over time as well: R3D, MC3, R(2+1)D."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from .._builders import Built, Layer, builder_and_weights, initialize, kaiming_fan_out, normal

__all__ = ["MC3_18_Weights", "R2Plus1D_18_Weights", "R3D_18_Weights", "VideoResNet", "mc3_18", "r2plus1d_18", "r3d_18"]


class Conv3DSimple(nn.Conv3d):
    """A convolution of 3x3x3 without a bias. Source: torchvision.models.video.resnet.Conv3DSimple."""

    def __init__(self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1, padding: int = 1) -> None:
        super().__init__(in_planes, out_planes, kernel_size=(3, 3, 3), stride=stride, padding=padding, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """The stride of a shortcut beside it."""
        return stride, stride, stride


class Conv2Plus1D(nn.Sequential):
    """A convolution over each frame, then one over time.

    Args:
        in_planes: channels of the input.
        out_planes: channels of the output.
        midplanes: channels between the two.
        stride, padding: along each axis.
    Source: torchvision.models.video.resnet.Conv2Plus1D. Tran et al. 2018, section 3.5.
    """

    def __init__(self, in_planes: int, out_planes: int, midplanes: int, stride: int = 1, padding: int = 1) -> None:
        frames: Any = {"kernel_size": (1, 3, 3), "stride": (1, stride, stride), "padding": (0, padding, padding)}
        times: Any = {"kernel_size": (3, 1, 1), "stride": (stride, 1, 1), "padding": (padding, 0, 0)}
        super().__init__(
            *(nn.Conv3d(in_planes, midplanes, **frames, bias=False), nn.BatchNorm3d(midplanes), nn.ReLU(inplace=True)),
            nn.Conv3d(midplanes, out_planes, **times, bias=False),
        )

    get_downsample_stride = staticmethod(Conv3DSimple.get_downsample_stride)


class Conv3DNoTemporal(nn.Conv3d):
    """A convolution of 3x3 over each frame, without a bias. Source: torchvision.models.video.resnet.Conv3DNoTemporal."""

    def __init__(self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1, padding: int = 1) -> None:
        sizes: Any = {"kernel_size": (1, 3, 3), "stride": (1, stride, stride), "padding": (0, padding, padding)}
        super().__init__(in_planes, out_planes, **sizes, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """The stride of a shortcut beside it."""
        return 1, stride, stride


def _midplanes(inplanes: int, planes: int) -> int:
    """Channels with which two convolutions have as many weights as one of 3x3x3."""
    return (inplanes * planes * 3 * 3 * 3) // (inplanes * 3 * 3 + 3 * planes)


def _normalized(convolution: nn.Module, planes: int, *further: nn.Module) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm3d(planes), *further)


class BasicBlock(nn.Module):
    """Two convolutions, and the input added to their result.

    Args:
        inplanes: channels of the input.
        planes: channels of the result.
        conv_builder: makes the convolutions.
        stride: of the first one.
        downsample: brings the input to the result's shape.
    Source: torchvision.models.video.resnet.BasicBlock.
    """

    expansion = 1

    def __init__(self, inplanes: int, planes: int, conv_builder: Layer, stride: int = 1, downsample: nn.Module | None = None) -> None:
        super().__init__()
        middle = _midplanes(inplanes, planes)
        self.conv1 = _normalized(conv_builder(inplanes, planes, middle, stride), planes, nn.ReLU(inplace=True))
        self.conv2 = _normalized(conv_builder(planes, planes, middle), planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        found = self.conv2(self.conv1(x))
        return self.relu(found + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A convolution between two of one pixel, and the input added to their result; arguments as those of ``BasicBlock``.

    Source: torchvision.models.video.resnet.Bottleneck.
    """

    expansion = 4

    def __init__(self, inplanes: int, planes: int, conv_builder: Layer, stride: int = 1, downsample: nn.Module | None = None) -> None:
        super().__init__()
        wide = planes * self.expansion
        self.conv1 = _normalized(nn.Conv3d(inplanes, planes, kernel_size=1, bias=False), planes, nn.ReLU(inplace=True))
        middle = _midplanes(inplanes, planes)
        self.conv2 = _normalized(conv_builder(planes, planes, middle, stride), planes, nn.ReLU(inplace=True))
        self.conv3 = _normalized(nn.Conv3d(planes, wide, kernel_size=1, bias=False), wide)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        found = self.conv3(self.conv2(self.conv1(x)))
        return self.relu(found + (x if self.downsample is None else self.downsample(x)))


class BasicStem(nn.Sequential):
    """A convolution of 3x7x7 with stride 2 in space. Source: torchvision.models.video.resnet.BasicStem."""

    def __init__(self) -> None:
        convolution = nn.Conv3d(3, 64, kernel_size=(3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), bias=False)
        super().__init__(convolution, nn.BatchNorm3d(64), nn.ReLU(inplace=True))


class R2Plus1dStem(nn.Sequential):
    """A convolution of 7x7 with stride 2, then one over time. Source: torchvision.models.video.resnet.R2Plus1dStem."""

    def __init__(self) -> None:
        frames = nn.Conv3d(3, 45, kernel_size=(1, 7, 7), stride=(1, 2, 2), padding=(0, 3, 3), bias=False)
        times = nn.Conv3d(45, 64, kernel_size=(3, 1, 1), stride=(1, 1, 1), padding=(1, 0, 0), bias=False)
        super().__init__(frames, nn.BatchNorm3d(45), nn.ReLU(inplace=True), times, nn.BatchNorm3d(64), nn.ReLU(inplace=True))


class VideoResNet(nn.Module):
    """A ResNet over videos.

    Args:
        block: class of the blocks.
        conv_makers: makes the convolutions of each of the four layers.
        layers: blocks of each.
        stem: makes what comes first.
        num_classes: features of the result.
        zero_init_residual: whether the last norm of each bottleneck starts at zero. The original looks for it under a name that is not
            there, and raises an ``AttributeError``.
    Shape:
        ``(N, 3, T, H, W)`` to ``(N, num_classes)``.
    Source: torchvision.models.video.VideoResNet. Tran et al. 2018, "A closer look at spatiotemporal convolutions".
    Example:
        >>> with torch.device('meta'):
        ...     model = VideoResNet(BasicBlock, [Conv3DSimple] * 4, [1] * 4, BasicStem, num_classes=10)
        >>> model(torch.empty(1, 3, 4, 32, 32, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        block: Any,
        conv_makers: Sequence[Any],
        layers: Sequence[int],
        stem: Layer,
        num_classes: int = 400,
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        self.inplanes = 64
        self.stem = stem()
        for place, (maker, planes, count) in enumerate(zip(conv_makers, (64, 128, 256, 512), layers)):
            stride = 1 if place == 0 else 2
            self.add_module(f"layer{place + 1}", self._make_layer(block, maker, planes, count, stride=stride))
        self.avgpool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initialize(self, {nn.Conv3d: kaiming_fan_out, nn.Linear: normal(0.01)}, norms=(nn.BatchNorm3d,))
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, Bottleneck):
                    nn.init.zeros_(module.conv3[1].weight)

    def _make_layer(self, block: Any, conv_builder: Any, planes: int, blocks: int, stride: int = 1) -> nn.Sequential:
        wide = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != wide:
            steps = conv_builder.get_downsample_stride(stride)
            downsample = _normalized(nn.Conv3d(self.inplanes, wide, kernel_size=1, stride=steps, bias=False), wide)
        first = block(self.inplanes, planes, conv_builder, stride, downsample)
        self.inplanes = wide
        return nn.Sequential(first, *(block(wide, planes, conv_builder) for _ in range(1, blocks)))

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.stem, self.layer1, self.layer2, self.layer3, self.layer4, self.avgpool):
            x = layer(x)
        return self.fc(x.flatten(1))


def _builder(name: str, conv_makers: list[Any], stem: Any) -> Built[VideoResNet]:
    return builder_and_weights(
        name, __name__, partial(VideoResNet, BasicBlock, conv_makers, [2, 2, 2, 2], stem), pretrained="KINETICS400_V1"
    )


r3d_18, R3D_18_Weights = _builder("r3d_18", [Conv3DSimple] * 4, BasicStem)
mc3_18, MC3_18_Weights = _builder("mc3_18", [Conv3DSimple] + [Conv3DNoTemporal] * 3, BasicStem)
r2plus1d_18, R2Plus1D_18_Weights = _builder("r2plus1d_18", [Conv2Plus1D] * 4, R2Plus1dStem)
