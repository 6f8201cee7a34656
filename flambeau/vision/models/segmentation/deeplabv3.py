"""DeepLabV3: a classifier of pixels that sees them in surroundings of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import nn, ops
from ....core.tensor import Tensor
from ....nn import functional as F
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ..resnet import ResNet50_Weights, ResNet101_Weights, resnet50, resnet101
from ._utils import _SimpleSegmentationModel, mobilenet_places, over_resnet, segmentation_model, with_classifiers
from .fcn import FCNHead

__all__ = [
    *("DeepLabV3", "DeepLabV3_MobileNet_V3_Large_Weights", "DeepLabV3_ResNet50_Weights", "DeepLabV3_ResNet101_Weights"),
    *("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "deeplabv3_resnet101"),
]


class DeepLabV3(_SimpleSegmentationModel):
    """DeepLabV3, a classifier over the map of a backbone, enlarged to the image.

    Args:
        backbone: images to a dict with the map ``"out"`` and, for ``aux_classifier``, ``"aux"``.
        classifier: a map to scores of classes.
        aux_classifier: likewise, of an earlier map.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of ``(N, classes, H, W)`` under ``"out"`` and, with ``aux_classifier``, ``"aux"``.
    Source: torchvision.models.segmentation.DeepLabV3. Chen et al. 2017.
    Example:
        >>> class Backbone(nn.Conv2d):
        ...     def forward(self, x):
        ...         return {"out": super().forward(x)}
        >>> DeepLabV3(Backbone(3, 8, 3, stride=4), nn.Conv2d(8, 2, 1))(torch.ones(1, 3, 16, 16))["out"].shape
        torch.Size([1, 2, 16, 16])
    """


def _block(convolution: nn.Module, channels: int) -> tuple[nn.Module, ...]:
    return convolution, nn.BatchNorm2d(channels), nn.ReLU()


class DeepLabHead(nn.Sequential):
    """Surroundings of several sizes, a convolution, and one of each pixel to scores.

    Args:
        in_channels: channels of the map.
        num_classes: classes.
        atrous_rates: dilations of the surroundings.
    Source: torchvision.models.segmentation.deeplabv3.DeepLabHead.
    """

    def __init__(self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)) -> None:
        super().__init__(
            ASPP(in_channels, atrous_rates), *_block(nn.Conv2d(256, 256, 3, padding=1, bias=False), 256), nn.Conv2d(256, num_classes, 1)
        )


class ASPPConv(nn.Sequential):
    """A dilated convolution, batch norm, ReLU. Source: torchvision.models.segmentation.deeplabv3.ASPPConv."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        convolution = nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation, bias=False)
        super().__init__(*_block(convolution, out_channels))


class ASPPPooling(nn.Sequential):
    """The mean of the whole map at every pixel. Source: torchvision.models.segmentation.deeplabv3.ASPPPooling."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), *_block(nn.Conv2d(in_channels, out_channels, 1, bias=False), out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(super().forward(x), size=x.shape[-2:], mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    """Surroundings of several sizes: each pixel, dilated convolutions, and the whole map, put together by one convolution.

    Args:
        in_channels: channels of the map.
        atrous_rates: dilations.
        out_channels: channels of each part and of the result.
    Source: torchvision.models.segmentation.deeplabv3.ASPP. Chen et al. 2017, section 3.3.
    """

    def __init__(self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Sequential(*_block(nn.Conv2d(in_channels, out_channels, 1, bias=False), out_channels))]
        parts += [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        parts.append(ASPPPooling(in_channels, out_channels))
        self.convs = nn.ModuleList(parts)
        joined = nn.Conv2d(len(parts) * out_channels, out_channels, 1, bias=False)
        self.project = nn.Sequential(*_block(joined, out_channels), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.project(ops.cat([part(x) for part in self.convs], dim=1))


def _over_mobilenet(weights: Any, num_classes: int, aux: bool | None) -> DeepLabV3:
    features = mobilenet_v3_large(weights=weights, dilated=True).features
    return with_classifiers(DeepLabV3, DeepLabHead, FCNHead, features, mobilenet_places(features, (-1, -4)), num_classes, aux)


deeplabv3_resnet50, DeepLabV3_ResNet50_Weights = over_resnet(DeepLabV3, DeepLabHead, FCNHead, __name__, resnet50, ResNet50_Weights)
deeplabv3_resnet101, DeepLabV3_ResNet101_Weights = over_resnet(DeepLabV3, DeepLabHead, FCNHead, __name__, resnet101, ResNet101_Weights)
deeplabv3_mobilenet_v3_large, DeepLabV3_MobileNet_V3_Large_Weights = segmentation_model(
    *("deeplabv3_mobilenet_v3_large", __name__, "DeepLabV3 over a dilated MobileNet v3.", DeepLabV3),
    *(_over_mobilenet, MobileNet_V3_Large_Weights),
)
