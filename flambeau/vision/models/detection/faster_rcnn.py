"""Faster R-CNN: proposals from the features that the detections are made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops import FrozenBatchNorm2d, MultiScaleRoIAlign
from ...ops.misc import Conv2dNormActivation
from .._api import weights_enum
from .._builders import Layer, kaiming_fan_out
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ._builders import IMAGENET, Choice, detector_builder, resnet_pyramid
from ._utils import draw_convolutions
from .anchor_utils import AnchorGenerator
from .backbone_utils import _mobilenet_extractor
from .generalized_rcnn import GeneralizedRCNN
from .roi_heads import RoIHeads
from .rpn import RegionProposalNetwork, RPNHead
from .transform import image_transform

__all__ = [
    *("FasterRCNN", "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights", "FasterRCNN_MobileNet_V3_Large_FPN_Weights"),
    *("FasterRCNN_ResNet50_FPN_V2_Weights", "FasterRCNN_ResNet50_FPN_Weights", "fasterrcnn_mobilenet_v3_large_320_fpn"),
    *("fasterrcnn_mobilenet_v3_large_fpn", "fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2"),
]


def check_parts(backbone: Any, **generators_and_pools: Any) -> None:
    """Check that a backbone has ``out_channels`` and that parts have the classes they need.

    Raises:
        ValueError: a backbone without ``out_channels``.
        TypeError: a part of another class.
    """
    if not hasattr(backbone, "out_channels"):
        raise ValueError(
            "backbone should contain an attribute out_channels specifying the number of output channels (assumed to be the same for all "
            "the levels)"
        )
    for name, part in generators_and_pools.items():
        cls = AnchorGenerator if name.endswith("generator") else MultiScaleRoIAlign
        if part is not None and not isinstance(part, cls):
            raise TypeError(f"{name} should be of type {cls.__name__} or None instead of {type(part)}")


def _default_anchorgen() -> AnchorGenerator:
    """One size for each of five maps, three proportions."""
    return AnchorGenerator((32, 64, 128, 256, 512), (0.5, 1.0, 2.0))


def pyramid_pool(output_size: int) -> MultiScaleRoIAlign:
    """The features of boxes from the four maps of a pyramid."""
    return MultiScaleRoIAlign(featmap_names=["0", "1", "2", "3"], output_size=output_size, sampling_ratio=2)


class FasterRCNN(GeneralizedRCNN):
    """Faster R-CNN over a backbone.

    Args:
        backbone: images to a map or a dict of maps of ``backbone.out_channels`` channels.
        num_classes: classes, background included; None with a ``box_predictor``.
        min_size: the images' shorter side after resizing; several to choose from at random while training.
        max_size: limit of the longer side.
        image_mean, image_std: by which images are normalised; ImageNet's when None.
        rpn_anchor_generator: anchors; of five sizes and three proportions when None.
        rpn_head: scores and offsets of anchors.
        rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test: anchors of each map that go into suppression.
        rpn_post_nms_top_n_train, rpn_post_nms_top_n_test: proposals.
        rpn_nms_thresh: overlap above which a proposal is suppressed.
        rpn_fg_iou_thresh, rpn_bg_iou_thresh: overlaps from which on an anchor is positive, and below which it is negative.
        rpn_batch_size_per_image, rpn_positive_fraction: anchors that the loss takes, and the share of positive ones.
        rpn_score_thresh: least score of a proposal.
        box_roi_pool, box_head, box_predictor: features of boxes, vectors of them, predictions.
        box_score_thresh, box_nms_thresh, box_detections_per_img: least score, overlap and number of detections.
        box_fg_iou_thresh, box_bg_iou_thresh: overlaps from which on a proposal is of a class, and below which it is background.
        box_batch_size_per_image, box_positive_fraction: proposals that the loss takes, and the share of positive ones.
        bbox_reg_weights: factors of offsets.
        kwargs: of ``GeneralizedRCNNTransform``.
    Shape:
        See ``GeneralizedRCNN``.
    Raises:
        ValueError: a backbone without ``out_channels``; both or neither of ``num_classes`` and ``box_predictor``.
        TypeError: an anchor generator or pool of another class.
    Source: torchvision.models.detection.FasterRCNN. Ren et al. 2015.
    Example:
        >>> backbone = nn.Conv2d(3, 8, 3, stride=8)  # it has ``out_channels``
        >>> with torch.device('meta'):
        ...     model = FasterRCNN(backbone, num_classes=2, rpn_anchor_generator=AnchorGenerator(((32, 64),), ((1.0,),)))
        >>> model.rpn.head.cls_logits.out_channels
        2
    """

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        min_size: Any = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        rpn_anchor_generator: AnchorGenerator | None = None,
        rpn_head: nn.Module | None = None,
        rpn_pre_nms_top_n_train: int = 2000,
        rpn_pre_nms_top_n_test: int = 1000,
        rpn_post_nms_top_n_train: int = 2000,
        rpn_post_nms_top_n_test: int = 1000,
        rpn_nms_thresh: float = 0.7,
        rpn_fg_iou_thresh: float = 0.7,
        rpn_bg_iou_thresh: float = 0.3,
        rpn_batch_size_per_image: int = 256,
        rpn_positive_fraction: float = 0.5,
        rpn_score_thresh: float = 0.0,
        box_roi_pool: MultiScaleRoIAlign | None = None,
        box_head: nn.Module | None = None,
        box_predictor: nn.Module | None = None,
        box_score_thresh: float = 0.05,
        box_nms_thresh: float = 0.5,
        box_detections_per_img: int = 100,
        box_fg_iou_thresh: float = 0.5,
        box_bg_iou_thresh: float = 0.5,
        box_batch_size_per_image: int = 512,
        box_positive_fraction: float = 0.25,
        bbox_reg_weights: Any = None,
        **kwargs: Any,
    ) -> None:
        check_parts(backbone, rpn_anchor_generator=rpn_anchor_generator, box_roi_pool=box_roi_pool)
        if (num_classes is None) == (box_predictor is None):
            state = "not be None when box_predictor is not" if num_classes is None else "be None when box_predictor is"
            raise ValueError(f"num_classes should {state} specified")
        channels = backbone.out_channels
        anchors = _default_anchorgen() if rpn_anchor_generator is None else rpn_anchor_generator
        rpn = RegionProposalNetwork(
            anchors,
            RPNHead(channels, anchors.num_anchors_per_location()[0]) if rpn_head is None else rpn_head,
            *(rpn_fg_iou_thresh, rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction),
            {"training": rpn_pre_nms_top_n_train, "testing": rpn_pre_nms_top_n_test},
            {"training": rpn_post_nms_top_n_train, "testing": rpn_post_nms_top_n_test},
            rpn_nms_thresh,
            score_thresh=rpn_score_thresh,
        )
        pool = pyramid_pool(7) if box_roi_pool is None else box_roi_pool
        head = TwoMLPHead(channels * pool.output_size[0] ** 2, 1024) if box_head is None else box_head
        predictor: Any = box_predictor if num_classes is None else FastRCNNPredictor(1024, num_classes)
        roi_heads = RoIHeads(
            *(pool, head, predictor, box_fg_iou_thresh, box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction),
            *(bbox_reg_weights, box_score_thresh, box_nms_thresh, box_detections_per_img),
        )
        super().__init__(backbone, rpn, roi_heads, image_transform(min_size, max_size, image_mean, image_std, **kwargs))


class TwoMLPHead(nn.Module):
    """Two linear layers with ReLU over the flattened features of a box.

    Args:
        in_channels: features.
        representation_size: features of the results.
    Source: torchvision.models.detection.faster_rcnn.TwoMLPHead.
    """

    def __init__(self, in_channels: int, representation_size: int) -> None:
        super().__init__()
        self.fc6 = nn.Linear(in_channels, representation_size)
        self.fc7 = nn.Linear(representation_size, representation_size)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.fc7(F.relu(self.fc6(x.flatten(start_dim=1)))))


initialise_convolutions = partial(draw_convolutions, draw=kaiming_fan_out)  # weights by their number of outputs, biases 0


class FastRCNNConvFCHead(nn.Sequential):
    """Convolutions, then linear layers over the features of a box.

    Args:
        input_size: channels, height and width.
        conv_layers: channels of each convolution.
        fc_layers: features of each linear layer.
        norm_layer: normalisation after each convolution.
    Source: torchvision.models.detection.faster_rcnn.FastRCNNConvFCHead.
    """

    def __init__(
        self, input_size: tuple[int, int, int], conv_layers: Sequence[int], fc_layers: Sequence[int], norm_layer: Layer | None = None
    ) -> None:
        in_channels, height, width = input_size
        widths = (in_channels, *conv_layers)
        blocks: list[nn.Module] = [Conv2dNormActivation(*channels, norm_layer=norm_layer) for channels in pairwise(widths)]
        blocks.append(nn.Flatten())
        for features in pairwise((widths[-1] * height * width, *fc_layers)):
            blocks += [nn.Linear(*features), nn.ReLU(inplace=True)]
        super().__init__(*blocks)
        initialise_convolutions(self)


class FastRCNNPredictor(nn.Module):
    """Logits of classes and offsets of boxes, two linear layers.

    Args:
        in_channels: features of a box.
        num_classes: classes, background included.
    Shape:
        ``(N, in_channels)`` to ``(N, num_classes)`` and ``(N, 4 * num_classes)``.
    Source: torchvision.models.detection.faster_rcnn.FastRCNNPredictor.
    """

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.cls_score = nn.Linear(in_channels, num_classes)
        self.bbox_pred = nn.Linear(in_channels, num_classes * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.dim() == 4 and tuple(x.shape[2:]) != (1, 1):
            raise AssertionError(f"x has the wrong shape, expecting the last two dimensions to be [1,1] instead of {list(x.shape[2:])}")
        x = x.flatten(start_dim=1)
        return self.cls_score(x), self.bbox_pred(x)


FasterRCNN_ResNet50_FPN_Weights = weights_enum("FasterRCNN_ResNet50_FPN_Weights", __name__)
FasterRCNN_ResNet50_FPN_V2_Weights = weights_enum("FasterRCNN_ResNet50_FPN_V2_Weights", __name__)
FasterRCNN_MobileNet_V3_Large_FPN_Weights = weights_enum("FasterRCNN_MobileNet_V3_Large_FPN_Weights", __name__)
FasterRCNN_MobileNet_V3_Large_320_FPN_Weights = weights_enum("FasterRCNN_MobileNet_V3_Large_320_FPN_Weights", __name__)
_MOBILE = MobileNet_V3_Large_Weights.IMAGENET1K_V1


@detector_builder(FasterRCNN_ResNet50_FPN_Weights, IMAGENET, without_eps="COCO_V1")
def fasterrcnn_resnet50_fpn(choice: Choice, **kwargs: Any) -> FasterRCNN:
    """Faster R-CNN over ResNet-50 with a pyramid.

    Args:
        weights: of the detector.
        progress: whether downloads show a bar.
        num_classes: classes, background included; 91 without weights.
        weights_backbone: of the ResNet, where there are none of the detector.
        trainable_backbone_layers: parts of the ResNet that are trained, 0 to 5; 3 with weights.
        kwargs: of ``FasterRCNN``.
    Returns:
        The model.
    Source: torchvision.models.detection.fasterrcnn_resnet50_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = fasterrcnn_resnet50_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'FasterRCNN'
    """
    return FasterRCNN(resnet_pyramid(choice), num_classes=choice.num_classes, **kwargs)


def second_version(channels: int) -> dict[str, Any]:
    """The parts that differ in the second version: a deeper head of proposals, convolutions in the head of boxes."""
    anchors = _default_anchorgen()
    rpn_head = RPNHead(channels, anchors.num_anchors_per_location()[0], conv_depth=2)
    box_head = FastRCNNConvFCHead((channels, 7, 7), [256, 256, 256, 256], [1024], norm_layer=nn.BatchNorm2d)
    return {"rpn_anchor_generator": anchors, "rpn_head": rpn_head, "box_head": box_head}


@detector_builder(FasterRCNN_ResNet50_FPN_V2_Weights, IMAGENET, from_pretrained=False)
def fasterrcnn_resnet50_fpn_v2(choice: Choice, **kwargs: Any) -> FasterRCNN:
    """Faster R-CNN over ResNet-50, second version.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.fasterrcnn_resnet50_fpn_v2. Li et al. 2021.
    Example:
        >>> with torch.device('meta'):
        ...     model = fasterrcnn_resnet50_fpn_v2(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'FasterRCNN'
    """
    backbone = resnet_pyramid(choice, norm_layer=nn.BatchNorm2d, pyramid_norm=nn.BatchNorm2d)
    return FasterRCNN(backbone, num_classes=choice.num_classes, **second_version(backbone.out_channels), **kwargs)


def _fasterrcnn_mobilenet_v3_large_fpn(choice: Choice, **kwargs: Any) -> FasterRCNN:
    norm_layer = FrozenBatchNorm2d if choice.trained else nn.BatchNorm2d
    mobilenet = mobilenet_v3_large(weights=choice.weights_backbone, progress=choice.progress, norm_layer=norm_layer)
    backbone = _mobilenet_extractor(mobilenet, True, choice.layers)
    anchors = AnchorGenerator(((32, 64, 128, 256, 512),) * 3, ((0.5, 1.0, 2.0),) * 3)
    return FasterRCNN(backbone, choice.num_classes, rpn_anchor_generator=anchors, **kwargs)


@detector_builder(FasterRCNN_MobileNet_V3_Large_320_FPN_Weights, _MOBILE, stages=(6, 3))
def fasterrcnn_mobilenet_v3_large_320_fpn(choice: Choice, **kwargs: Any) -> FasterRCNN:
    """Faster R-CNN over MobileNet v3 with a pyramid, for images of 320 pixels; the backbone has six parts.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = fasterrcnn_mobilenet_v3_large_320_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'FasterRCNN'
    """
    small = {"min_size": 320, "max_size": 640, "rpn_pre_nms_top_n_test": 150, "rpn_post_nms_top_n_test": 150, "rpn_score_thresh": 0.05}
    return _fasterrcnn_mobilenet_v3_large_fpn(choice, **{**small, **kwargs})


@detector_builder(FasterRCNN_MobileNet_V3_Large_FPN_Weights, _MOBILE, stages=(6, 3))
def fasterrcnn_mobilenet_v3_large_fpn(choice: Choice, **kwargs: Any) -> FasterRCNN:
    """Faster R-CNN over MobileNet v3 with a pyramid; the backbone has six parts.

    Args:
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers, kwargs: as those of ``fasterrcnn_resnet50_fpn``.
    Returns:
        The model.
    Source: torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn.
    Example:
        >>> with torch.device('meta'):
        ...     model = fasterrcnn_mobilenet_v3_large_fpn(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'FasterRCNN'
    """
    return _fasterrcnn_mobilenet_v3_large_fpn(choice, **{"rpn_score_thresh": 0.05, **kwargs})
