"""RetinaNet: a dense detector trained with the focal loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import nn, ops
from ....core.tensor import Tensor
from ...ops import Conv2dNormActivation, sigmoid_focal_loss
from ...ops.feature_pyramid_network import LastLevelP6P7
from .._api import weights_enum
from .._builders import Layer
from .._utils import RenamedLayers
from ._builders import IMAGENET, Choice, detector_builder, resnet_pyramid
from ._dense import PyramidDetector
from ._utils import BoxCoder, Matcher, Target, _box_loss, draw_convolutions, joined_rows
from .anchor_utils import AnchorGenerator
from .faster_rcnn import check_parts
from .transform import image_transform

__all__ = [
    *("RetinaNet", "RetinaNet_ResNet50_FPN_V2_Weights", "RetinaNet_ResNet50_FPN_Weights", "retinanet_resnet50_fpn"),
    "retinanet_resnet50_fpn_v2",
]


def _default_anchorgen() -> AnchorGenerator:
    """Three sizes, a third of an octave apart, for each of five maps; three proportions."""
    sizes = tuple((x, int(x * 2 ** (1.0 / 3)), int(x * 2 ** (2.0 / 3))) for x in (32, 64, 128, 256, 512))
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


def rarely(layer: Any, probability: float) -> None:
    """Normal weights of standard deviation 0.01, and a bias with which the logits give ``probability`` at first."""
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.constant_(layer.bias, -math.log((1 - probability) / probability))


class _Tower(RenamedLayers):
    """Four convolutions over each map; files of version 1 count the activations among them."""

    def _old_names(self) -> dict[str, str]:
        return {f"conv.{2 * place}": f"conv.{place}.0" for place in range(4)}


def _convolutions(channels: int, norm_layer: Layer | None) -> nn.Sequential:
    return nn.Sequential(*(Conv2dNormActivation(channels, channels, norm_layer=norm_layer) for _ in range(4)))


class RetinaNetHead(nn.Module):
    """The heads of classes and of boxes.

    Args:
        in_channels: channels of the maps.
        num_anchors: anchors a pixel.
        num_classes: classes.
        norm_layer: normalisation after each convolution.
    Shape:
        A list of maps to ``{"cls_logits": (N, anchors, num_classes), "bbox_regression": (N, anchors, 4)}``.
    Source: torchvision.models.detection.retinanet.RetinaNetHead.
    """

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, norm_layer: Layer | None = None) -> None:
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(in_channels, num_anchors, num_classes, norm_layer=norm_layer)
        self.regression_head = RetinaNetRegressionHead(in_channels, num_anchors, norm_layer=norm_layer)

    def compute_loss(
        self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor], matched_idxs: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """The losses of classes and of boxes."""
        return {
            "classification": self.classification_head.compute_loss(targets, head_outputs, matched_idxs),
            "bbox_regression": self.regression_head.compute_loss(targets, head_outputs, anchors, matched_idxs),
        }

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        return {"cls_logits": self.classification_head(x), "bbox_regression": self.regression_head(x)}


class RetinaNetClassificationHead(_Tower):
    """Logits of classes for each anchor.

    Args:
        in_channels: channels of the maps.
        num_anchors: anchors a pixel.
        num_classes: classes.
        prior_probability: probability of each class at initialization, which determines the last bias.
        norm_layer: normalisation after each convolution.
    Source: torchvision.models.detection.retinanet.RetinaNetClassificationHead. Lin et al. 2017, section 4.
    """

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int, prior_probability: float = 0.01, norm_layer: Layer | None = None
    ) -> None:
        super().__init__()
        self.conv = _convolutions(in_channels, norm_layer)
        draw_convolutions(self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, kernel_size=3, stride=1, padding=1)
        rarely(self.cls_logits, prior_probability)
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.BETWEEN_THRESHOLDS = Matcher.BETWEEN_THRESHOLDS

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], matched_idxs: Sequence[Tensor]) -> Tensor:
        """The focal loss of all anchors but those between the thresholds, by the number of matched ones, over the images' mean."""
        losses = []
        for target, logits, matches in zip(targets, head_outputs["cls_logits"], matched_idxs):
            matched = ops.where(matches >= 0)[0]
            wanted = ops.zeros_like(logits)
            wanted[matched, target["labels"][matches[matched]]] = 1.0
            valid = matches != self.BETWEEN_THRESHOLDS
            losses.append(sigmoid_focal_loss(logits[valid], wanted[valid], reduction="sum") / max(1, matched.numel()))
        return ops.stack(losses).sum() / len(targets)

    def forward(self, x: list[Tensor]) -> Tensor:
        return joined_rows((self.cls_logits(self.conv(feature)) for feature in x), self.num_classes)


class RetinaNetRegressionHead(_Tower):
    """Offsets of the box for each anchor.

    Args:
        in_channels: channels of the maps.
        num_anchors: anchors a pixel.
        norm_layer: normalisation after each convolution.
    Source: torchvision.models.detection.retinanet.RetinaNetRegressionHead.
    """

    def __init__(self, in_channels: int, num_anchors: int, norm_layer: Layer | None = None) -> None:
        super().__init__()
        self.conv = _convolutions(in_channels, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, kernel_size=3, stride=1, padding=1)
        draw_convolutions(self.bbox_reg)
        draw_convolutions(self.conv)
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self._loss_type = "l1"

    def compute_loss(
        self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor], matched_idxs: Sequence[Tensor]
    ) -> Tensor:
        """The loss of matched anchors' boxes, by their number, over the images' mean."""
        losses = []
        for target, offsets, own, matches in zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs):
            matched = ops.where(matches >= 0)[0]
            wanted = target["boxes"][matches[matched]]
            loss = _box_loss(self._loss_type, self.box_coder, own[matched], wanted, offsets[matched])
            losses.append(loss / max(1, matched.numel()))
        return ops.stack(losses).sum() / max(1, len(targets))

    def forward(self, x: list[Tensor]) -> Tensor:
        return joined_rows((self.bbox_reg(self.conv(feature)) for feature in x), 4)


class RetinaNet(PyramidDetector):
    """RetinaNet over a backbone.

    Args:
        backbone: images to a map or a dict of maps of ``backbone.out_channels`` channels.
        num_classes: classes, background included.
        min_size, max_size: the images' shorter side after resizing, and the limit of the longer one.
        image_mean, image_std: by which images are normalised; ImageNet's when None.
        anchor_generator: anchors; of three sizes and three proportions for each of five maps when None.
        head: predictions; a ``RetinaNetHead`` when None.
        proposal_matcher: which anchor belongs to which target.
        score_thresh: least score of a detection.
        nms_thresh: overlap above which a detection of the same class is suppressed.
        detections_per_img: most detections.
        fg_iou_thresh, bg_iou_thresh: overlaps from which on an anchor belongs to a target, and below which it is background.
        topk_candidates: most detections of a map before suppression.
        kwargs: of ``GeneralizedRCNNTransform``.
    Shape:
        See ``DenseDetector``.
    Raises:
        ValueError: a backbone without ``out_channels``.
        TypeError: an anchor generator of another class.
    Source: torchvision.models.detection.RetinaNet. Lin et al. 2017, "Focal loss for dense object detection".
    Example:
        >>> backbone = nn.Conv2d(3, 8, 3, stride=8)  # it has ``out_channels``
        >>> with torch.device('meta'):
        ...     model = RetinaNet(backbone, num_classes=2)
        >>> model.head.classification_head.num_classes
        2
    """

    def __init__(
        self,
        backbone: Any,
        num_classes: int,
        min_size: Any = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        anchor_generator: AnchorGenerator | None = None,
        head: nn.Module | None = None,
        proposal_matcher: Matcher | None = None,
        score_thresh: float = 0.05,
        nms_thresh: float = 0.5,
        detections_per_img: int = 300,
        fg_iou_thresh: float = 0.5,
        bg_iou_thresh: float = 0.4,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        check_parts(backbone, anchor_generator=anchor_generator)
        self.backbone = backbone
        anchors = _default_anchorgen() if anchor_generator is None else anchor_generator
        self.anchor_generator = anchors
        self.head = RetinaNetHead(backbone.out_channels, anchors.num_anchors_per_location()[0], num_classes) if head is None else head
        if proposal_matcher is None:
            proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True)
        self.proposal_matcher = proposal_matcher
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.transform = image_transform(min_size, max_size, image_mean, image_std, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor]) -> dict[str, Tensor]:
        """The losses of anchors that are matched with targets."""
        return self.head.compute_loss(targets, head_outputs, anchors, self._matched(targets, anchors))

    def _scores(self, outputs: dict[str, Tensor]) -> Tensor:
        return ops.sigmoid(outputs["cls_logits"])

    def _boxes(self, offsets: Tensor, anchors: Tensor) -> Tensor:
        return self.box_coder.decode_single(offsets, anchors)


RetinaNet_ResNet50_FPN_Weights = weights_enum("RetinaNet_ResNet50_FPN_Weights", __name__)
RetinaNet_ResNet50_FPN_V2_Weights = weights_enum("RetinaNet_ResNet50_FPN_V2_Weights", __name__)


@detector_builder(RetinaNet_ResNet50_FPN_Weights, IMAGENET, without_eps="COCO_V1")
def retinanet_resnet50_fpn(choice: Choice, **kwargs: Any) -> RetinaNet:
    """RetinaNet over ResNet-50 with a pyramid.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.retinanet_resnet50_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = retinanet_resnet50_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'RetinaNet'
    """
    backbone = resnet_pyramid(choice, returned_layers=[2, 3, 4], extra_blocks=partial(LastLevelP6P7, 256, 256))
    return RetinaNet(backbone, choice.num_classes, **kwargs)


@detector_builder(RetinaNet_ResNet50_FPN_V2_Weights, IMAGENET, from_pretrained=False)
def retinanet_resnet50_fpn_v2(choice: Choice, **kwargs: Any) -> RetinaNet:
    """RetinaNet over ResNet-50, second version: group norms in the head, the generalised IoU's loss of boxes.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.retinanet_resnet50_fpn_v2. Zhang et al. 2020.
    Example:
        >>> with torch.device('meta'):
        ...     model = retinanet_resnet50_fpn_v2(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'RetinaNet'
    """
    extra = partial(LastLevelP6P7, 2048, 256)
    backbone = resnet_pyramid(choice, norm_layer=nn.BatchNorm2d, returned_layers=[2, 3, 4], extra_blocks=extra)
    anchors = _default_anchorgen()
    per_pixel = anchors.num_anchors_per_location()[0]
    head = RetinaNetHead(backbone.out_channels, per_pixel, choice.num_classes, norm_layer=partial(nn.GroupNorm, 32))
    head.regression_head._loss_type = "giou"
    return RetinaNet(backbone, choice.num_classes, anchor_generator=anchors, head=head, **kwargs)
