"""LR-ASPP: a light classifier of pixels over MobileNet v3."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....nn import functional as F
from .._utils import IntermediateLayerGetter
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ._utils import mobilenet_places, segmentation_model

__all__ = ["LRASPP", "LRASPP_MobileNet_V3_Large_Weights", "lraspp_mobilenet_v3_large"]


class LRASPP(nn.Module):
    """A classifier of two maps over a backbone.

    Args:
        backbone: images to a dict with the maps ``"low"`` and ``"high"``.
        low_channels: channels of ``"low"``.
        high_channels: channels of ``"high"``.
        num_classes: classes, background included.
        inter_channels: channels between.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of ``(N, num_classes, H, W)`` under ``"out"``.
    Source: torchvision.models.segmentation.LRASPP. Howard et al. 2019, section 6.4.
    Example:
        >>> class Backbone(nn.Module):
        ...     def forward(self, x):
        ...         return {"low": x[..., ::2, ::2], "high": x[..., ::4, ::4]}
        >>> LRASPP(Backbone(), 3, 3, num_classes=2).eval()(torch.ones(1, 3, 16, 16))["out"].shape
        torch.Size([1, 2, 16, 16])
    """

    def __init__(self, backbone: nn.Module, low_channels: int, high_channels: int, num_classes: int, inter_channels: int = 128) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> OrderedDict[str, Tensor]:
        scores = self.classifier(self.backbone(input))
        return OrderedDict(out=F.interpolate(scores, size=input.shape[-2:], mode="bilinear", align_corners=False))


class LRASPPHead(nn.Module):
    """Scores of the low map and of the high one, whose channels are weighted by its means.

    Args:
        low_channels: channels of the low map.
        high_channels: channels of the high map.
        num_classes: classes.
        inter_channels: channels between.
    Source: torchvision.models.segmentation.lraspp.LRASPPHead.
    """

    def __init__(self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int) -> None:
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(high_channels, inter_channels, 1, bias=False), nn.BatchNorm2d(inter_channels), nn.ReLU(inplace=True)
        )
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(high_channels, inter_channels, 1, bias=False), nn.Sigmoid())
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        low, high = input["low"], input["high"]
        weighted = self.cbr(high) * self.scale(high)
        weighted = F.interpolate(weighted, size=low.shape[-2:], mode="bilinear", align_corners=False)
        return self.low_classifier(low) + self.high_classifier(weighted)


def _over_mobilenet(weights: Any, num_classes: int, aux: bool | None) -> LRASPP:
    features = mobilenet_v3_large(weights=weights, dilated=True).features
    (low, low_channels), (high, high_channels) = mobilenet_places(features, (-4, -1))
    layers = IntermediateLayerGetter(features, return_layers={low: "low", high: "high"})
    return LRASPP(layers, low_channels, high_channels, num_classes)


lraspp_mobilenet_v3_large, LRASPP_MobileNet_V3_Large_Weights = segmentation_model(
    *("lraspp_mobilenet_v3_large", __name__, "LR-ASPP over a dilated MobileNet v3.", LRASPP),
    *(_over_mobilenet, MobileNet_V3_Large_Weights, False),
)
