"""Mask R-CNN: Faster R-CNN with a mask for each box."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from .... import nn
from ..._signatures import taking
from ...ops import MultiScaleRoIAlign
from ...ops.misc import Conv2dNormActivation
from .._api import weights_enum
from .._builders import Layer
from .._utils import RenamedLayers
from ._builders import IMAGENET, Choice, detector_builder, resnet_pyramid
from .faster_rcnn import FasterRCNN, check_parts, initialise_convolutions, pyramid_pool, second_version

__all__ = [
    *("MaskRCNN", "MaskRCNN_ResNet50_FPN_V2_Weights", "MaskRCNN_ResNet50_FPN_Weights", "maskrcnn_resnet50_fpn"),
    "maskrcnn_resnet50_fpn_v2",
]


class MaskRCNN(FasterRCNN):
    """Mask R-CNN over a backbone; targets have ``masks`` ``(n, H, W)`` too, and detections ``(n, 1, H, W)``.

    Args:
        backbone to bbox_reg_weights: see ``FasterRCNN``.
        mask_roi_pool: features of boxes for masks.
        mask_head: convolutions over them.
        mask_predictor: logits of a mask for each class; None with ``num_classes``.
        kwargs: of ``GeneralizedRCNNTransform``.
    Raises:
        ValueError: both ``num_classes`` and ``mask_predictor``, and what ``FasterRCNN`` raises.
        TypeError: a pool of another class.
    Source: torchvision.models.detection.MaskRCNN. He et al. 2017.
    Example:
        >>> backbone = nn.Conv2d(3, 8, 3, stride=8)  # it has ``out_channels``
        >>> with torch.device('meta'):
        ...     model = MaskRCNN(backbone, num_classes=2)
        >>> type(model.roi_heads.mask_predictor).__name__
        'MaskRCNNPredictor'
    """

    @taking(FasterRCNN.__init__)
    def __init__(
        self,
        *,
        backbone: Any,
        num_classes: int | None = None,
        mask_roi_pool: MultiScaleRoIAlign | None = None,
        mask_head: nn.Module | None = None,
        mask_predictor: nn.Module | None = None,
        **others: Any,
    ) -> None:
        check_parts(backbone, mask_roi_pool=mask_roi_pool)
        if num_classes is not None and mask_predictor is not None:
            raise ValueError("num_classes should be None when mask_predictor is specified")
        pool = pyramid_pool(14) if mask_roi_pool is None else mask_roi_pool
        if mask_head is None:
            mask_head = MaskRCNNHeads(backbone.out_channels, (256, 256, 256, 256), 1)
        if mask_predictor is None:
            mask_predictor = MaskRCNNPredictor(256, 256, num_classes)
        super().__init__(backbone=backbone, num_classes=num_classes, **others)
        self.roi_heads.mask_roi_pool = pool
        self.roi_heads.mask_head = mask_head
        self.roi_heads.mask_predictor = mask_predictor


class MaskRCNNHeads(RenamedLayers, nn.Sequential):
    """Convolutions of 3x3 with ReLU.

    Args:
        in_channels: channels of the features.
        layers: channels of each convolution.
        dilation: of all of them; the maps keep their size.
        norm_layer: normalisation after each convolution.
    Source: torchvision.models.detection.mask_rcnn.MaskRCNNHeads.
    """

    def __init__(self, in_channels: int, layers: Sequence[int], dilation: int, norm_layer: Layer | None = None) -> None:
        convolution = partial(Conv2dNormActivation, padding=dilation, dilation=dilation, norm_layer=norm_layer)
        super().__init__(*(convolution(*channels) for channels in pairwise((in_channels, *layers))))
        initialise_convolutions(self)

    def _old_names(self) -> dict[str, str]:
        return {f"mask_fcn{place + 1}": f"{place}.0" for place in range(len(self))}


class MaskRCNNPredictor(nn.Sequential):
    """Logits of a mask for each class, twice as large as the features.

    Args:
        in_channels: channels of the features.
        dim_reduced: channels between the two layers.
        num_classes: classes, background included.
    Source: torchvision.models.detection.mask_rcnn.MaskRCNNPredictor.
    """

    def __init__(self, in_channels: int, dim_reduced: int, num_classes: Any) -> None:
        super().__init__(
            OrderedDict(
                conv5_mask=nn.ConvTranspose2d(in_channels, dim_reduced, 2, 2, 0),
                relu=nn.ReLU(inplace=True),
                mask_fcn_logits=nn.Conv2d(dim_reduced, num_classes, 1, 1, 0),
            )
        )
        for name, parameter in self.named_parameters():
            if "weight" in name:
                nn.init.kaiming_normal_(parameter, mode="fan_out", nonlinearity="relu")


MaskRCNN_ResNet50_FPN_Weights = weights_enum("MaskRCNN_ResNet50_FPN_Weights", __name__)
MaskRCNN_ResNet50_FPN_V2_Weights = weights_enum("MaskRCNN_ResNet50_FPN_V2_Weights", __name__)


@detector_builder(MaskRCNN_ResNet50_FPN_Weights, IMAGENET, without_eps="COCO_V1")
def maskrcnn_resnet50_fpn(choice: Choice, **kwargs: Any) -> MaskRCNN:
    """Mask R-CNN over ResNet-50 with a pyramid.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.maskrcnn_resnet50_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = maskrcnn_resnet50_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'MaskRCNN'
    """
    return MaskRCNN(resnet_pyramid(choice), num_classes=choice.num_classes, **kwargs)


@detector_builder(MaskRCNN_ResNet50_FPN_V2_Weights, IMAGENET, from_pretrained=False)
def maskrcnn_resnet50_fpn_v2(choice: Choice, **kwargs: Any) -> MaskRCNN:
    """Mask R-CNN over ResNet-50, second version.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.maskrcnn_resnet50_fpn_v2. Li et al. 2021.
    Example:
        >>> with torch.device('meta'):
        ...     model = maskrcnn_resnet50_fpn_v2(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'MaskRCNN'
    """
    backbone = resnet_pyramid(choice, norm_layer=nn.BatchNorm2d, pyramid_norm=nn.BatchNorm2d)
    parts = second_version(backbone.out_channels)
    mask_head = MaskRCNNHeads(backbone.out_channels, [256, 256, 256, 256], 1, norm_layer=nn.BatchNorm2d)
    return MaskRCNN(backbone, num_classes=choice.num_classes, mask_head=mask_head, **parts, **kwargs)
