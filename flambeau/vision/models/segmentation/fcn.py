"""FCN: a classifier of pixels by convolutions alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from .._api import weights_enum
from ..resnet import ResNet50_Weights, ResNet101_Weights, resnet50, resnet101
from ._utils import RESNET_PLACES, _SimpleSegmentationModel, segmentation_builder, with_classifiers

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


FCN_ResNet50_Weights = weights_enum("FCN_ResNet50_Weights", __name__)
FCN_ResNet101_Weights = weights_enum("FCN_ResNet101_Weights", __name__)


def _fcn_resnet(resnet: Callable[..., Any], weights: Any, num_classes: int, aux: bool | None) -> FCN:
    backbone = resnet(weights=weights, replace_stride_with_dilation=[False, True, True])
    return with_classifiers(FCN, FCNHead, FCNHead, backbone, RESNET_PLACES, num_classes, aux)


@segmentation_builder(FCN_ResNet50_Weights, ResNet50_Weights)
def fcn_resnet50(weights: Any, num_classes: int, aux: bool | None) -> FCN:
    """FCN over a dilated ResNet-50.

    Args:
        weights: of the model.
        progress: whether downloads show a bar.
        num_classes: classes, background included; 21 without weights.
        aux_loss: whether there is a second classifier, of an earlier map.
        weights_backbone: of the backbone, where there are none of the model.
    Returns:
        The model.
    Raises:
        TypeError: further arguments.
    Source: torchvision.models.segmentation.fcn_resnet50.
    Example:
        >>> with torch.device('meta'):
        ...     model = fcn_resnet50(weights_backbone=None, num_classes=2)
        >>> type(model).__name__
        'FCN'
    """
    return _fcn_resnet(resnet50, weights, num_classes, aux)


@segmentation_builder(FCN_ResNet101_Weights, ResNet101_Weights)
def fcn_resnet101(weights: Any, num_classes: int, aux: bool | None) -> FCN:
    """FCN over a dilated ResNet-101.

    Args:
        weights, progress, num_classes, aux_loss, weights_backbone: as those of ``fcn_resnet50``.
    Returns:
        The model.
    Raises:
        TypeError: further arguments.
    Source: torchvision.models.segmentation.fcn_resnet101.
    Example:
        >>> with torch.device('meta'):
        ...     model = fcn_resnet101(weights_backbone=None, num_classes=2)
        >>> type(model).__name__
        'FCN'
    """
    return _fcn_resnet(resnet101, weights, num_classes, aux)
