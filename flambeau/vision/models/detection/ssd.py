"""SSD: a dense detector over maps of falling size."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import nn, ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops import boxes as box_ops
from .._api import weights_enum
from .._builders import Draw, Layer
from ..vgg import VGG16_Weights, vgg16
from ._builders import Choice, detector_builder
from ._dense import DenseDetector
from ._utils import BoxCoder, SSDMatcher, Target, _topk_min, draw_convolutions, joined_rows, retrieve_out_channels
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import freeze_stages
from .transform import image_transform

__all__ = ["SSD300_VGG16_Weights", "ssd300_vgg16"]


_xavier_init = partial(draw_convolutions, draw=nn.init.xavier_uniform_)


class SSDHead(nn.Module):
    """The heads of classes and of boxes.

    Args:
        in_channels: channels of each map.
        num_anchors: boxes a pixel of each map.
        num_classes: classes, background included.
    Shape:
        A list of maps to ``{"bbox_regression": (N, boxes, 4), "cls_logits": (N, boxes, num_classes)}``.
    Source: torchvision.models.detection.ssd.SSDHead.
    """

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


class SSDScoringHead(nn.Module):
    """Predictions by a module for each map.

    Args:
        module_list: the modules.
        num_columns: numbers predicted for each box.
    Source: torchvision.models.detection.ssd.SSDScoringHead.
    """

    def __init__(self, module_list: nn.ModuleList, num_columns: int) -> None:
        super().__init__()
        self.module_list, self.num_columns = module_list, num_columns

    def forward(self, x: list[Tensor]) -> Tensor:
        return joined_rows((module(feature) for module, feature in zip(self.module_list, x)), self.num_columns)


def predictors(make: Layer, draw: Draw, in_channels: Sequence[int], num_anchors: Sequence[int], columns: int) -> nn.ModuleList:
    """A module for each map, made of its channels and those of its predictions, and drawn."""
    modules = nn.ModuleList(make(channels, columns * anchors) for channels, anchors in zip(in_channels, num_anchors))
    draw(modules)
    return modules


_convolutions = partial(predictors, partial(nn.Conv2d, kernel_size=3, padding=1), _xavier_init)


class SSDClassificationHead(SSDScoringHead):
    """Logits of classes for each box. Source: torchvision.models.detection.ssd.SSDClassificationHead."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int) -> None:
        super().__init__(_convolutions(in_channels, num_anchors, num_classes), num_classes)


class SSDRegressionHead(SSDScoringHead):
    """Offsets for each box. Source: torchvision.models.detection.ssd.SSDRegressionHead."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int]) -> None:
        super().__init__(_convolutions(in_channels, num_anchors, 4), 4)


class SSD(DenseDetector):
    """SSD over a backbone.

    Args:
        backbone: images to a dict of maps; their channels are ``backbone.out_channels``, or tried out.
        anchor_generator: default boxes.
        size: width and height to which images are resized.
        num_classes: classes, background included.
        image_mean, image_std: by which images are normalised; ImageNet's when None.
        head: predictions; an ``SSDHead`` when None.
        score_thresh: least score of a detection.
        nms_thresh: overlap above which a detection of the same class is suppressed.
        detections_per_img: most detections.
        iou_thresh: overlap from which on a box belongs to a target.
        topk_candidates: most detections of a class before suppression.
        positive_fraction: share of matched boxes that the loss takes; the hardest of the others make it up.
        kwargs: of ``GeneralizedRCNNTransform``.
    Shape:
        See ``DenseDetector``.
    Raises:
        ValueError: another number of maps than of the generator's ratios.
    Source: torchvision.models.detection.ssd.SSD. Liu et al. 2016.
    """

    def __init__(
        self,
        backbone: Any,
        anchor_generator: DefaultBoxGenerator,
        size: tuple[int, int],
        num_classes: int,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        head: nn.Module | None = None,
        score_thresh: float = 0.01,
        nms_thresh: float = 0.45,
        detections_per_img: int = 200,
        iou_thresh: float = 0.5,
        topk_candidates: int = 400,
        positive_fraction: float = 0.25,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.backbone, self.anchor_generator = backbone, anchor_generator
        self.box_coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))
        if head is None:
            channels = backbone.out_channels if hasattr(backbone, "out_channels") else retrieve_out_channels(backbone, size)
            check_maps(channels, anchor_generator)
            head = SSDHead(channels, anchor_generator.num_anchors_per_location(), num_classes)
        self.head = head
        self.proposal_matcher = SSDMatcher(iou_thresh)
        sizes: dict[str, Any] = {"size_divisible": 1, "fixed_size": size}
        self.transform = image_transform(min(size), max(size), image_mean, image_std, **sizes, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction

    def compute_loss(
        self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor], matched_idxs: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """The losses of boxes and of classes, by the number of matched boxes."""
        box_losses, labels, count = [], [], 0
        for target, offsets, own, matches in zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs):
            matched = ops.where(matches >= 0)[0]
            count += matched.numel()
            wanted = self.box_coder.encode_single(target["boxes"][matches[matched]], own[matched])
            box_losses.append(F.smooth_l1_loss(offsets[matched], wanted, reduction="sum"))
            label = ops.zeros((len(matches),), dtype=target["labels"].dtype, device=target["labels"].device)
            label[matched] = target["labels"][matches[matched]]
            labels.append(label)
        return {
            "bbox_regression": ops.stack(box_losses).sum() / max(1, count),
            "classification": self._hardest(head_outputs["cls_logits"], ops.stack(labels)) / max(1, count),
        }

    def _hardest(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The summed loss of matched boxes and, for each, of some others whose loss is largest (Liu et al. 2016, section 2.2)."""
        losses = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), reduction="none").view(labels.size())
        matched = labels > 0
        wanted = self.neg_to_pos_ratio * matched.sum(1, keepdim=True)
        others = losses.detach().clone()
        others[matched] = -float("inf")
        rank = others.sort(1, descending=True)[1].sort(1)[1]
        return losses[matched].sum() + losses[rank < wanted].sum()

    def _losses(self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], pixels: list[int]) -> dict[str, Tensor]:
        return self.compute_loss(targets, outputs, anchors, self._matched(targets, anchors))

    def postprocess_detections(
        self, head_outputs: dict[str, Tensor], image_anchors: Sequence[Tensor], image_shapes: Sequence[tuple[int, int]]
    ) -> list[Target]:
        """The detections of each image."""
        all_scores = F.softmax(head_outputs["cls_logits"], dim=-1)
        detections = []
        for offsets, scores, anchors, shape in zip(head_outputs["bbox_regression"], all_scores, image_anchors, image_shapes):
            boxes = box_ops.clip_boxes_to_image(self.box_coder.decode_single(offsets, anchors), shape)
            parts = []
            for label in range(1, scores.size(-1)):
                places = ops.where(scores[:, label] > self.score_thresh)[0]
                best, order = scores[places, label].topk(_topk_min(places, self.topk_candidates, 0))
                parts.append((boxes[places[order]], best, ops.full_like(best, fill_value=label, dtype=dtypes.int64)))
            detections.append(self._suppressed(parts))
        return detections

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], shapes: list[tuple[int, int]], pixels: list[int]
    ) -> list[Target]:
        return self.postprocess_detections(outputs, anchors, shapes)


def check_maps(channels: Sequence[int], anchor_generator: DefaultBoxGenerator) -> None:
    """ValueError unless the generator has ratios for every map."""
    ratios = anchor_generator.aspect_ratios
    if len(channels) != len(ratios):
        raise ValueError(
            f"The length of the output channels from the backbone ({len(channels)}) do not match the length of the anchor generator aspect "
            f"ratios ({len(ratios)})"
        )


def warn_of_size(kwargs: dict[str, Any]) -> None:
    """That ``size`` cannot be chosen; building the model then fails, as it is given twice."""
    if "size" in kwargs:
        warnings.warn("The size of the model is already fixed; ignoring the parameter.")


# -- VGG as a backbone -----------------------------------------------------------------------------------------------------------
def _extra(in_channels: int, hidden: int, out_channels: int, **convolution: Any) -> nn.Sequential:
    """A convolution of one pixel and one that makes the map smaller."""
    return nn.Sequential(
        *(nn.Conv2d(in_channels, hidden, kernel_size=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(hidden, out_channels, **convolution), nn.ReLU(inplace=True)),
    )


class SSDFeatureExtractorVGG(nn.Module):
    """VGG-16 up to its fourth pooling, the rest with dilated convolutions in place of linear layers, and further convolutions.

    Args:
        backbone: the features of a VGG.
        highres: whether there is a seventh map, for images of 512 pixels.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of six or seven maps.
    Attributes:
        scale_weight: factor of each channel of the first map, 20 at first, whose pixels have length 1.
    Source: torchvision.models.detection.ssd.SSDFeatureExtractorVGG. Liu et al. 2016, section 3.
    """

    def __init__(self, backbone: Any, highres: bool) -> None:
        super().__init__()
        _, _, third, fourth, _ = (place for place, layer in enumerate(backbone) if isinstance(layer, nn.MaxPool2d))
        backbone[third].ceil_mode = True  # 75 columns become 38
        self.scale_weight = nn.Parameter(ops.ones(512) * 20)
        self.features = nn.Sequential(*backbone[:fourth])
        extra = nn.ModuleList(
            [
                _extra(1024, 256, 512, kernel_size=3, padding=1, stride=2),
                _extra(512, 128, 256, kernel_size=3, padding=1, stride=2),
                _extra(256, 128, 256, kernel_size=3),
                _extra(256, 128, 256, kernel_size=3),
                *([_extra(256, 128, 256, kernel_size=4)] if highres else []),
            ]
        )
        _xavier_init(extra)
        dilated = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=False),
            *(nn.Conv2d(512, 1024, kernel_size=3, padding=6, dilation=6), nn.ReLU(inplace=True)),
            *(nn.Conv2d(1024, 1024, kernel_size=1), nn.ReLU(inplace=True)),
        )
        _xavier_init(dilated)
        extra.insert(0, nn.Sequential(*backbone[fourth:-1], dilated))
        self.extra = extra

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.features(x)
        maps = [self.scale_weight.view(1, -1, 1, 1) * F.normalize(x)]
        for block in self.extra:
            x = block(x)
            maps.append(x)
        return OrderedDict((str(place), feature) for place, feature in enumerate(maps))


def _vgg_extractor(backbone: Any, highres: bool, trainable_layers: int) -> SSDFeatureExtractorVGG:
    features = backbone.features
    poolings = [place for place, layer in enumerate(features) if isinstance(layer, nn.MaxPool2d)]
    stages = [0, *poolings[:-1]]
    if not 0 <= trainable_layers <= len(stages):
        raise AssertionError(f"trainable_layers should be in the range [0, {len(stages)}]. Instead got {trainable_layers}")
    freeze_stages(features, stages, trainable_layers)
    return SSDFeatureExtractorVGG(features, highres)


SSD300_VGG16_Weights = weights_enum("SSD300_VGG16_Weights", __name__)
_FEATURES = VGG16_Weights.IMAGENET1K_FEATURES


@detector_builder(SSD300_VGG16_Weights, _FEATURES, stages=(5, 4))
def ssd300_vgg16(choice: Choice, **kwargs: Any) -> SSD:
    """SSD over VGG-16 for images of 300 pixels; the backbone has five parts, of which 4 are trained with weights.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.ssd300_vgg16.
    Example:
        >>> with torch.device('meta'):
        ...     model = ssd300_vgg16(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'SSD'
    """
    warn_of_size(kwargs)
    backbone = _vgg_extractor(vgg16(weights=choice.weights_backbone, progress=choice.progress), False, choice.layers)
    anchors = DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]], scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05], steps=[8, 16, 32, 64, 100, 300]
    )
    values = {"image_mean": [0.48235, 0.45882, 0.40784], "image_std": [1.0 / 255.0, 1.0 / 255.0, 1.0 / 255.0]}
    return SSD(backbone, anchors, (300, 300), choice.num_classes, **{**values, **kwargs})
