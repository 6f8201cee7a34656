"""ResNet, ResNeXt and Wide ResNet: residual blocks in four stages."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from .._signatures import taking
from ._builders import Built, Layer, builder_and_weights, initialize, kaiming_fan_out
from ._utils import Classifier

__all__ = [
    *("ResNet", "ResNet18_Weights", "ResNet34_Weights", "ResNet50_Weights", "ResNet101_Weights", "ResNet152_Weights"),
    *("ResNeXt50_32X4D_Weights", "ResNeXt101_32X8D_Weights", "ResNeXt101_64X4D_Weights"),
    *("Wide_ResNet50_2_Weights", "Wide_ResNet101_2_Weights"),
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
    *("wide_resnet50_2", "wide_resnet101_2"),
]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A 3x3 convolution without bias whose padding keeps the size at stride 1."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, padding=dilation, dilation=dilation, groups=groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1x1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around which the input goes.

    Args:
        inplanes: channels of the input.
        planes: channels of the result.
        stride: of the first convolution.
        downsample: gives the input the shape of the result; not needed when None.
        groups, base_width: of :class:`Bottleneck`; 1 and 64 here.
        dilation: 1 here.
        norm_layer: ``BatchNorm2d`` when None.
    Raises:
        ValueError: other groups or widths.
        NotImplementedError: dilation.
    Source: torchvision.models.resnet.BasicBlock. He et al. 2016, "Deep residual learning", figure 5, left.
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        norm_layer = norm_layer or nn.BatchNorm2d
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 convolutions, around which the input goes.

    The stride is that of the 3x3 convolution, not of the first one as in the paper, which is more accurate ("ResNet v1.5").

    Args:
        inplanes: channels of the input.
        planes: a quarter of the channels of the result.
        stride: of the 3x3 convolution.
        downsample: gives the input the shape of the result; not needed when None.
        groups, dilation: of the 3x3 convolution.
        base_width: channels of each group in the middle, for 64 planes.
        norm_layer: ``BatchNorm2d`` when None.
    Source: torchvision.models.resnet.Bottleneck. He et al. 2016, figure 5, right; Xie et al. 2017 for groups.
    """

    expansion = 4

    @taking(BasicBlock.__init__)
    def __init__(
        self, *, inplanes: int, planes: int, stride: int, downsample: Any, groups: int, base_width: int, dilation: int, norm_layer: Any
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        outplanes = planes * self.expansion
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, outplanes)
        self.bn3 = norm_layer(outplanes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(Classifier):
    """A strided 7x7 convolution and a pooling, four stages of blocks, the mean over places, and a linear layer.

    Args:
        block: :class:`BasicBlock`, :class:`Bottleneck` or a class like them.
        layers: blocks of each stage.
        num_classes: features of the result.
        zero_init_residual: zero weights for the last normalization of each block, so that blocks do nothing at first.
        groups, width_per_group: ``groups`` and ``base_width`` of the blocks.
        replace_stride_with_dilation: for each of the last three stages, whether it keeps the size and dilates instead.
        norm_layer: ``BatchNorm2d`` when None.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Attributes:
        conv1, bn1, layer1, layer2, layer3, layer4: convolutions are drawn from normal distributions by their outputs (Kaiming).
        fc: the linear layer, with its own initial weights.
    Raises:
        ValueError: ``replace_stride_with_dilation`` of other than three elements.
    Source: torchvision.models.ResNet. He et al. 2016, "Deep residual learning for image recognition", table 1.
    Example:
        >>> with torch.device('meta'):
        ...     model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        dilates = [False, False, False] if replace_stride_with_dilation is None else replace_stride_with_dilation
        if len(dilates) != 3:
            raise ValueError(f"replace_stride_with_dilation should be None or a 3-element tuple, got {dilates}")
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, 2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilates[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilates[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilates[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initialize(self, {nn.Conv2d: kaiming_fan_out})
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, BasicBlock | Bottleneck):
                    last = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                    if last.weight is not None:
                        nn.init.zeros_(last.weight)

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        """A stage; channels and dilation of the stages before are attributes of the model."""
        norm_layer = self._norm_layer
        first_dilation = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        outplanes = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != outplanes:
            downsample = nn.Sequential(conv1x1(self.inplanes, outplanes, stride), norm_layer(outplanes))
        widths = (self.groups, self.base_width)
        stage = [block(self.inplanes, planes, stride, downsample, *widths, first_dilation, norm_layer)]
        self.inplanes = outplanes
        stage += [block(outplanes, planes, 1, None, *widths, self.dilation, norm_layer) for _ in range(1, blocks)]
        return nn.Sequential(*stage)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def _builder(name: str, block: type[BasicBlock | Bottleneck], *layers: int, **enforced: Any) -> Built[ResNet]:
    return builder_and_weights(name, __name__, partial(ResNet, block, list(layers)), **enforced)


resnet18, ResNet18_Weights = _builder("resnet18", BasicBlock, 2, 2, 2, 2)
resnet34, ResNet34_Weights = _builder("resnet34", BasicBlock, 3, 4, 6, 3)
resnet50, ResNet50_Weights = _builder("resnet50", Bottleneck, 3, 4, 6, 3)
resnet101, ResNet101_Weights = _builder("resnet101", Bottleneck, 3, 4, 23, 3)
resnet152, ResNet152_Weights = _builder("resnet152", Bottleneck, 3, 8, 36, 3)
resnext50_32x4d, ResNeXt50_32X4D_Weights = _builder("resnext50_32x4d", Bottleneck, 3, 4, 6, 3, groups=32, width_per_group=4)
resnext101_32x8d, ResNeXt101_32X8D_Weights = _builder("resnext101_32x8d", Bottleneck, 3, 4, 23, 3, groups=32, width_per_group=8)
resnext101_64x4d, ResNeXt101_64X4D_Weights = _builder("resnext101_64x4d", Bottleneck, 3, 4, 23, 3, groups=64, width_per_group=4)
wide_resnet50_2, Wide_ResNet50_2_Weights = _builder("wide_resnet50_2", Bottleneck, 3, 4, 6, 3, width_per_group=128)
wide_resnet101_2, Wide_ResNet101_2_Weights = _builder("wide_resnet101_2", Bottleneck, 3, 4, 23, 3, width_per_group=128)
