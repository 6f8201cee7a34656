"""FCOS: a dense detector without anchors of several shapes; every pixel predicts the distances of a box's sides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import nn, ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops import generalized_box_iou_loss, sigmoid_focal_loss
from ...ops.feature_pyramid_network import LastLevelP6P7
from .._api import weights_enum
from .._builders import Layer
from ._builders import IMAGENET, Choice, detector_builder, resnet_pyramid
from ._dense import PyramidDetector
from ._utils import BoxLinearCoder, Target, draw_convolutions, joined_rows
from .anchor_utils import AnchorGenerator
from .faster_rcnn import check_parts
from .retinanet import rarely
from .transform import image_transform

__all__ = ["FCOS", "FCOS_ResNet50_FPN_Weights", "fcos_resnet50_fpn"]


def _tower(channels: int, count: int, norm_layer: Layer | None) -> nn.Sequential:
    """Convolutions, group norms and ReLUs."""
    norm = partial(nn.GroupNorm, 32) if norm_layer is None else norm_layer
    layers: list[nn.Module] = []
    for _ in range(count):
        layers += [nn.Conv2d(channels, channels, kernel_size=3, stride=1, padding=1), norm(channels), nn.ReLU()]
    return nn.Sequential(*layers)


class FCOSHead(nn.Module):
    """The heads of classes, of distances, and of how central a pixel is in its box.

    Args:
        in_channels: channels of the maps.
        num_anchors: anchors a pixel, 1.
        num_classes: classes.
        num_convs: convolutions of each head.
    Shape:
        A list of maps to ``{"cls_logits": (N, pixels, num_classes), "bbox_regression": (N, pixels, 4), "bbox_ctrness": (N, pixels, 1)}``.
    Source: torchvision.models.detection.fcos.FCOSHead.
    """

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int | None = 4) -> None:
        super().__init__()
        convolutions = 4 if num_convs is None else num_convs
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.classification_head = FCOSClassificationHead(in_channels, num_anchors, num_classes, convolutions)
        self.regression_head = FCOSRegressionHead(in_channels, num_anchors, convolutions)

    def compute_loss(
        self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor], matched_idxs: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """The three losses, by the number of matched pixels."""
        pairs = [self._wanted(target, matches) for target, matches in zip(targets, matched_idxs)]
        labels, boxes = ops.stack([label for label, _ in pairs]), ops.stack([box for _, box in pairs])
        places = ops.stack(list(anchors))
        matched = labels >= 0
        count = max(1, int(matched.sum().item()))
        logits = head_outputs["cls_logits"]
        wanted = ops.zeros_like(logits)
        wanted[(*ops.where(matched), labels[matched])] = 1.0
        predicted = self.box_coder.decode(head_outputs["bbox_regression"], places)
        centrality = self._centrality(self.box_coder.encode(places, boxes)[matched])
        losses = {
            "classification": sigmoid_focal_loss(logits, wanted, reduction="sum"),
            "bbox_regression": generalized_box_iou_loss(predicted[matched], boxes[matched], reduction="sum"),
            "bbox_ctrness": F.binary_cross_entropy_with_logits(
                head_outputs["bbox_ctrness"].squeeze(dim=2)[matched], centrality, reduction="sum"
            ),
        }
        return {name: loss / count for name, loss in losses.items()}

    @staticmethod
    def _wanted(target: Target, matches: Tensor) -> tuple[Tensor, Tensor]:
        """Label (-1: none) and box that each pixel should predict."""
        if len(target["labels"]) == 0:
            labels = target["labels"].new_zeros((len(matches),))
            boxes = target["boxes"].new_zeros((len(matches), 4))
        else:
            labels, boxes = target["labels"][matches.clip(min=0)], target["boxes"][matches.clip(min=0)]
        labels[matches < 0] = -1
        return labels, boxes

    @staticmethod
    def _centrality(distances: Tensor) -> Tensor:
        """1 in the middle of a box, 0 at its sides (Tian et al. 2019, equation 3)."""
        across, down = distances[:, [0, 2]], distances[:, [1, 3]]
        ratios = [pair.min(dim=-1)[0] / pair.max(dim=-1)[0] for pair in (across, down)]
        return ops.sqrt(ratios[0] * ratios[1])

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        logits = self.classification_head(x)
        distances, centrality = self.regression_head(x)
        return {"cls_logits": logits, "bbox_regression": distances, "bbox_ctrness": centrality}


class FCOSClassificationHead(nn.Module):
    """Logits of classes for each pixel.

    Args:
        in_channels: channels of the maps.
        num_anchors: anchors a pixel.
        num_classes: classes.
        num_convs: convolutions.
        prior_probability: probability of each class at initialization, which determines the last bias.
        norm_layer: normalisation; group norms of 32 groups when None.
    Source: torchvision.models.detection.fcos.FCOSClassificationHead.
    """

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        num_convs: int = 4,
        prior_probability: float = 0.01,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.conv = _tower(in_channels, num_convs, norm_layer)
        draw_convolutions(self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, kernel_size=3, stride=1, padding=1)
        rarely(self.cls_logits, prior_probability)

    def forward(self, x: list[Tensor]) -> Tensor:
        return joined_rows((self.cls_logits(self.conv(feature)) for feature in x), self.num_classes)


class FCOSRegressionHead(nn.Module):
    """Distances of the four sides for each pixel, and how central it is.

    Args:
        in_channels: channels of the maps.
        num_anchors: anchors a pixel.
        num_convs: convolutions.
        norm_layer: normalisation; group norms of 32 groups when None.
    Source: torchvision.models.detection.fcos.FCOSRegressionHead.
    """

    def __init__(self, in_channels: int, num_anchors: int, num_convs: int = 4, norm_layer: Layer | None = None) -> None:
        super().__init__()
        self.conv = _tower(in_channels, num_convs, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, kernel_size=3, stride=1, padding=1)
        self.bbox_ctrness = nn.Conv2d(in_channels, num_anchors * 1, kernel_size=3, stride=1, padding=1)
        for part in (self.bbox_reg, self.bbox_ctrness, self.conv):
            draw_convolutions(part)

    def forward(self, x: list[Tensor]) -> tuple[Tensor, Tensor]:
        hidden = [self.conv(feature) for feature in x]
        distances = joined_rows((F.relu(self.bbox_reg(feature)) for feature in hidden), 4)
        return distances, joined_rows((self.bbox_ctrness(feature) for feature in hidden), 1)


class FCOS(PyramidDetector):
    """FCOS over a backbone.

    Args:
        backbone: images to a map or a dict of maps of ``backbone.out_channels`` channels.
        num_classes: classes, background included.
        min_size, max_size: the images' shorter side after resizing, and the limit of the longer one.
        image_mean, image_std: by which images are normalised; ImageNet's when None.
        anchor_generator: one square a pixel, of the size of the map's step.
        head: predictions; an ``FCOSHead`` when None.
        center_sampling_radius: how far from a target's centre pixels belong to it, in steps of the map.
        score_thresh: least score of a detection.
        nms_thresh: overlap above which a detection of the same class is suppressed.
        detections_per_img: most detections.
        topk_candidates: most detections of a map before suppression.
        kwargs: of ``GeneralizedRCNNTransform``.
    Shape:
        See ``DenseDetector``.
    Raises:
        ValueError: a backbone without ``out_channels``, more than one anchor a pixel.
        TypeError: an anchor generator of another class.
    Source: torchvision.models.detection.FCOS. Tian et al. 2019.
    Example:
        >>> backbone = nn.Conv2d(3, 32, 3, stride=8)  # it has ``out_channels``
        >>> with torch.device('meta'):
        ...     model = FCOS(backbone, num_classes=2)
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
        center_sampling_radius: float = 1.5,
        score_thresh: float = 0.2,
        nms_thresh: float = 0.6,
        detections_per_img: int = 100,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        check_parts(backbone, anchor_generator=anchor_generator)
        self.backbone = backbone
        if anchor_generator is None:
            anchor_generator = AnchorGenerator(((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5)
        self.anchor_generator = anchor_generator
        per_pixel = anchor_generator.num_anchors_per_location()[0]
        if per_pixel != 1:
            raise ValueError(f"anchor_generator.num_anchors_per_location()[0] should be 1 instead of {per_pixel}")
        self.head = FCOSHead(backbone.out_channels, per_pixel, num_classes) if head is None else head
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.transform = image_transform(min_size, max_size, image_mean, image_std, **kwargs)
        self.center_sampling_radius = center_sampling_radius
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def compute_loss(
        self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor], num_anchors_per_level: Sequence[int]
    ) -> dict[str, Tensor]:
        """The losses of pixels that are matched with targets."""
        return self.head.compute_loss(targets, head_outputs, anchors, self._matched(targets, anchors, num_anchors_per_level))

    def _match(self, anchors: Tensor, boxes: Tensor, pixels: Sequence[int]) -> Tensor:
        """For each pixel the smallest target that it lies in, near the centre of, and on the map of the scale of; -1 for none."""
        centres, places = (boxes[:, :2] + boxes[:, 2:]) / 2, (anchors[:, :2] + anchors[:, 2:]) / 2
        step = anchors[:, 2] - anchors[:, 0]
        away = (places[:, None, :] - centres[None, :, :]).abs().max(dim=2)[0]
        distances = ops.cat((places[:, None] - boxes[None, :, :2], boxes[None, :, 2:] - places[:, None]), dim=2)
        least, most = step * 4, step * 8
        least[: pixels[0]] = 0
        most[-pixels[-1] :] = float("inf")
        farthest = distances.max(dim=2)[0]
        fits = (away < self.center_sampling_radius * step[:, None]) & (distances.min(dim=2)[0] > 0)
        fits &= (farthest > least[:, None]) & (farthest < most[:, None])
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        preference, matches = (fits.to(dtypes.float32) * (1e8 - areas[None, :])).max(dim=1)
        matches[preference < 1e-5] = -1
        return matches

    def _losses(self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], pixels: list[int]) -> dict[str, Tensor]:
        return self.compute_loss(targets, outputs, anchors, pixels)

    def _scores(self, outputs: dict[str, Tensor]) -> Tensor:
        return ops.sqrt(ops.sigmoid(outputs["cls_logits"]) * ops.sigmoid(outputs["bbox_ctrness"]))

    def _boxes(self, offsets: Tensor, anchors: Tensor) -> Tensor:
        return self.box_coder.decode(offsets, anchors)


FCOS_ResNet50_FPN_Weights = weights_enum("FCOS_ResNet50_FPN_Weights", __name__)


@detector_builder(FCOS_ResNet50_FPN_Weights, IMAGENET)
def fcos_resnet50_fpn(choice: Choice, **kwargs: Any) -> FCOS:
    """FCOS over ResNet-50 with a pyramid.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.fcos_resnet50_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = fcos_resnet50_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'FCOS'
    """
    backbone = resnet_pyramid(choice, returned_layers=[2, 3, 4], extra_blocks=partial(LastLevelP6P7, 256, 256))
    return FCOS(backbone, choice.num_classes, **kwargs)
