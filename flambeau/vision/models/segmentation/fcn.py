"""FCN: a classifier of pixels by convolutions alone."""

from __future__ import annotations

from .... import nn
from ..resnet import ResNet50_Weights, ResNet101_Weights, resnet50, resnet101
from ._utils import _SimpleSegmentationModel, over_resnet

__all__ = ["FCN", "FCN_ResNet50_Weights", "FCN_ResNet101_Weights", "fcn_resnet50", "fcn_resnet101"]


class FCN(_SimpleSegmentationModel):
    """A fully convolutional network; see ``_SimpleSegmentationModel``. Source: torchvision.models.segmentation.FCN. Long et al. 2015."""


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
