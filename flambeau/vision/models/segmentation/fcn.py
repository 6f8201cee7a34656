"""FCN: a classifier of pixels by convolutions alone."""

from __future__ import annotations

from .... import nn
from ..resnet import ResNet50_Weights, ResNet101_Weights, resnet50, resnet101
from ._utils import _SimpleSegmentationModel, over_resnet

__all__ = ["FCN", "FCN_ResNet50_Weights", "FCN_ResNet101_Weights", "fcn_resnet50", "fcn_resnet101"]


class FCN(_SimpleSegmentationModel):
    """A fully convolutional network, a classifier over the map of a backbone, enlarged to the image.

    Args:
        backbone: images to a dict with the map ``"out"`` and, for ``aux_classifier``, ``"aux"``.
        classifier: a map to scores of classes.
        aux_classifier: likewise, of an earlier map.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of ``(N, classes, H, W)`` under ``"out"`` and, with ``aux_classifier``, ``"aux"``.
    Source: torchvision.models.segmentation.FCN. Long et al. 2015.
    Example:
        >>> class Backbone(nn.Conv2d):
        ...     def forward(self, x):
        ...         return {"out": super().forward(x)}
        >>> FCN(Backbone(3, 8, 3, stride=4), nn.Conv2d(8, 2, 1))(torch.ones(1, 3, 16, 16))["out"].shape
        torch.Size([1, 2, 16, 16])
    """


class FCNHead(nn.Sequential):
    """A convolution of 3x3 to a quarter of the channels, and one of each pixel to scores.

    Args:
        in_channels: channels of the map.
        channels: classes.
    Source: torchvision.models.segmentation.fcn.FCNHead.
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        hidden = in_channels // 4
        super().__init__(
            nn.Conv2d(in_channels, hidden, 3, padding=1, bias=False),
            *(nn.BatchNorm2d(hidden), nn.ReLU(), nn.Dropout(0.1)),
            nn.Conv2d(hidden, channels, 1),
        )


fcn_resnet50, FCN_ResNet50_Weights = over_resnet(FCN, FCNHead, FCNHead, __name__, resnet50, ResNet50_Weights)
fcn_resnet101, FCN_ResNet101_Weights = over_resnet(FCN, FCNHead, FCNHead, __name__, resnet101, ResNet101_Weights)
