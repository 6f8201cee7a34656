"""Keypoint R-CNN: Faster R-CNN with key points for each box."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....nn import functional as F
from ..._signatures import taking
from ...ops import MultiScaleRoIAlign
from .._api import weights_enum
from .._utils import _ovewrite_value_param
from ._builders import IMAGENET, Choice, detector_builder, resnet_pyramid
from .faster_rcnn import FasterRCNN, check_parts, initialise_convolutions, pyramid_pool

__all__ = ["KeypointRCNN", "KeypointRCNN_ResNet50_FPN_Weights", "keypointrcnn_resnet50_fpn"]


class KeypointRCNN(FasterRCNN):
    """Keypoint R-CNN over a backbone; targets have ``keypoints`` ``(n, K, 3)`` too, and detections likewise with their scores.

    Args:
        backbone to bbox_reg_weights: see ``FasterRCNN``; ``min_size`` is one of six from 640 to 800 when None.
        keypoint_roi_pool: features of boxes for key points.
        keypoint_head: convolutions over them.
        keypoint_predictor: a heat map for each key point; None with ``num_keypoints``.
        num_keypoints: key points of an object; 17 when None.
        kwargs: of ``GeneralizedRCNNTransform``.
    Raises:
        ValueError: both ``num_keypoints`` and ``keypoint_predictor``, and what ``FasterRCNN`` raises.
        TypeError: a pool of another class.
    Source: torchvision.models.detection.KeypointRCNN. He et al. 2017, section 5.
    Example:
        >>> backbone = nn.Conv2d(3, 8, 3, stride=8)  # it has ``out_channels``
        >>> with torch.device('meta'):
        ...     model = KeypointRCNN(backbone, num_classes=2, num_keypoints=5)
        >>> type(model.roi_heads.keypoint_predictor).__name__
        'KeypointRCNNPredictor'
    """

    @taking(FasterRCNN.__init__)
    def __init__(
        self,
        *,
        backbone: Any,
        min_size: Any = None,
        keypoint_roi_pool: MultiScaleRoIAlign | None = None,
        keypoint_head: nn.Module | None = None,
        keypoint_predictor: nn.Module | None = None,
        num_keypoints: int | None = None,
        **others: Any,
    ) -> None:
        check_parts(backbone, keypoint_roi_pool=keypoint_roi_pool)
        if num_keypoints is not None and keypoint_predictor is not None:
            raise ValueError("num_keypoints should be None when keypoint_predictor is specified")
        if min_size is None:
            min_size = (640, 672, 704, 736, 768, 800)
        pool = pyramid_pool(14) if keypoint_roi_pool is None else keypoint_roi_pool
        if keypoint_head is None:
            keypoint_head = KeypointRCNNHeads(backbone.out_channels, (512,) * 8)
        if keypoint_predictor is None:
            keypoint_predictor = KeypointRCNNPredictor(512, 17 if num_keypoints is None else num_keypoints)
        super().__init__(backbone=backbone, min_size=min_size, **others)
        self.roi_heads.keypoint_roi_pool = pool
        self.roi_heads.keypoint_head = keypoint_head
        self.roi_heads.keypoint_predictor = keypoint_predictor


class KeypointRCNNHeads(nn.Sequential):
    """Convolutions of 3x3 with ReLU.

    Args:
        in_channels: channels of the features.
        layers: channels of each convolution.
    Source: torchvision.models.detection.keypoint_rcnn.KeypointRCNNHeads.
    """

    def __init__(self, in_channels: int, layers: Sequence[int]) -> None:
        blocks: list[nn.Module] = []
        for inputs, outputs in pairwise((in_channels, *layers)):
            blocks += [nn.Conv2d(inputs, outputs, 3, stride=1, padding=1), nn.ReLU(inplace=True)]
        super().__init__(*blocks)
        initialise_convolutions(self)


class KeypointRCNNPredictor(nn.Module):
    """A heat map for each key point, four times as large as the features.

    Args:
        in_channels: channels of the features.
        num_keypoints: key points.
    Source: torchvision.models.detection.keypoint_rcnn.KeypointRCNNPredictor.
    """

    def __init__(self, in_channels: int, num_keypoints: int) -> None:
        super().__init__()
        self.kps_score_lowres = nn.ConvTranspose2d(in_channels, num_keypoints, 4, stride=2, padding=1)
        nn.init.kaiming_normal_(self.kps_score_lowres.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.kps_score_lowres.bias)
        self.up_scale = 2
        self.out_channels = num_keypoints

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(
            self.kps_score_lowres(x), scale_factor=float(self.up_scale), mode="bilinear", align_corners=False, recompute_scale_factor=False
        )


KeypointRCNN_ResNet50_FPN_Weights = weights_enum("KeypointRCNN_ResNet50_FPN_Weights", __name__)


def _old_weights(kwargs: dict[str, Any]) -> Any:
    """Weights for ``pretrained=True`` and ``pretrained="legacy"``."""
    legacy = kwargs["pretrained"] == "legacy"
    return KeypointRCNN_ResNet50_FPN_Weights.COCO_LEGACY if legacy else KeypointRCNN_ResNet50_FPN_Weights.COCO_V1


@detector_builder(
    KeypointRCNN_ResNet50_FPN_Weights, IMAGENET, pretrained=_old_weights, without_eps="COCO_V1", classes=2, after="num_classes"
)
def keypointrcnn_resnet50_fpn(choice: Choice, *, num_keypoints: int | None = None, **kwargs: Any) -> KeypointRCNN:
    """Keypoint R-CNN over ResNet-50 with a pyramid, for persons where it is not said otherwise.

    Args:
        num_keypoints: key points of an object; 17 without weights.
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``;
            2 classes without weights.
    Returns:
        The model.
    Source: torchvision.models.detection.keypointrcnn_resnet50_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = keypointrcnn_resnet50_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'KeypointRCNN'
    """
    if choice.weights is not None:
        num_keypoints = _ovewrite_value_param("num_keypoints", num_keypoints, len(choice.weights.meta["keypoint_names"]))
    points = 17 if num_keypoints is None else num_keypoints
    return KeypointRCNN(resnet_pyramid(choice), choice.num_classes, num_keypoints=points, **kwargs)
