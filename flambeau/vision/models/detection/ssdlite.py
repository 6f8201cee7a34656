"""SSDLite: SSD of separable convolutions over MobileNet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ...ops.misc import Conv2dNormActivation
from .._api import weights_enum
from .._builders import Layer
from .._utils import stages_of_mobilenet
from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ._builders import Choice, detector_builder
from ._utils import draw_convolutions, retrieve_out_channels
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import freeze_stages
from .ssd import SSD, SSDScoringHead, check_maps, predictors, warn_of_size

__all__ = ["SSDLite320_MobileNet_V3_Large_Weights", "ssdlite320_mobilenet_v3_large"]


def _prediction_block(in_channels: int, out_channels: int, kernel_size: int, norm_layer: Layer) -> nn.Sequential:
    """A convolution of each channel and one of each pixel."""
    separate = Conv2dNormActivation(
        in_channels, in_channels, kernel_size=kernel_size, groups=in_channels, norm_layer=norm_layer, activation_layer=nn.ReLU6
    )
    return nn.Sequential(separate, nn.Conv2d(in_channels, out_channels, 1))


def _extra_block(in_channels: int, out_channels: int, norm_layer: Layer) -> nn.Sequential:
    """Convolutions that halve the map."""
    hidden = out_channels // 2
    layer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
    return nn.Sequential(
        layer(in_channels, hidden, kernel_size=1),
        layer(hidden, hidden, kernel_size=3, stride=2, groups=hidden),
        layer(hidden, out_channels, kernel_size=1),
    )


_normal_init = partial(draw_convolutions, draw=partial(nn.init.normal_, std=0.03))


class SSDLiteHead(nn.Module):
    """The heads of classes and of boxes.

    Args:
        in_channels: channels of each map.
        num_anchors: boxes a pixel of each map.
        num_classes: classes, background included.
        norm_layer: normalisation.
    Source: torchvision.models.detection.ssdlite.SSDLiteHead.
    """

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int, norm_layer: Layer) -> None:
        super().__init__()
        self.classification_head = SSDLiteClassificationHead(in_channels, num_anchors, num_classes, norm_layer)
        self.regression_head = SSDLiteRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


def _predictors(norm_layer: Layer, *sizes: Any) -> nn.ModuleList:
    return predictors(partial(_prediction_block, kernel_size=3, norm_layer=norm_layer), _normal_init, *sizes)


class SSDLiteClassificationHead(SSDScoringHead):
    """Logits of classes for each box. Source: torchvision.models.detection.ssdlite.SSDLiteClassificationHead."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int, norm_layer: Layer) -> None:
        super().__init__(_predictors(norm_layer, in_channels, num_anchors, num_classes), num_classes)


class SSDLiteRegressionHead(SSDScoringHead):
    """Offsets for each box. Source: torchvision.models.detection.ssdlite.SSDLiteRegressionHead."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], norm_layer: Layer) -> None:
        super().__init__(_predictors(norm_layer, in_channels, num_anchors, 4), 4)


class SSDLiteFeatureExtractorMobileNet(nn.Module):
    """MobileNet in two parts, the first up to the widened map of one of its blocks, and further convolutions.

    Args:
        backbone: the features of a MobileNet.
        c4_pos: the block that is divided.
        norm_layer: normalisation.
        width_mult: factor of the channels of further maps.
        min_depth: their least number.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of six maps.
    Raises:
        ValueError: a divided block that adds its input to its result.
    Source: torchvision.models.detection.ssdlite.SSDLiteFeatureExtractorMobileNet. Howard et al. 2019, section 6.3.
    """

    def __init__(self, backbone: Any, c4_pos: int, norm_layer: Layer, width_mult: float = 1.0, min_depth: int = 16) -> None:
        super().__init__()
        divided = backbone[c4_pos]
        if divided.use_res_connect:
            raise ValueError("backbone[c4_pos].use_res_connect should be False")
        self.features = nn.Sequential(
            nn.Sequential(*backbone[:c4_pos], divided.block[0]), nn.Sequential(divided.block[1:], *backbone[c4_pos + 1 :])
        )
        widths = [max(min_depth, int(channels * width_mult)) for channels in (512, 256, 256, 128)]
        inputs = [backbone[-1].out_channels, *widths]
        extra = nn.ModuleList(_extra_block(before, width, norm_layer) for before, width in zip(inputs, widths))
        _normal_init(extra)
        self.extra = extra

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = []
        for block in (*self.features, *self.extra):
            x = block(x)
            maps.append(x)
        return OrderedDict((str(place), feature) for place, feature in enumerate(maps))


def _mobilenet_extractor(backbone: Any, trainable_layers: int, norm_layer: Layer) -> SSDLiteFeatureExtractorMobileNet:
    features = backbone.features
    stages = stages_of_mobilenet(features)
    if not 0 <= trainable_layers <= len(stages):
        raise ValueError(f"trainable_layers should be in the range [0, {len(stages)}], instead got {trainable_layers}")
    freeze_stages(features, stages, trainable_layers)
    return SSDLiteFeatureExtractorMobileNet(features, stages[-2], norm_layer)


SSDLite320_MobileNet_V3_Large_Weights = weights_enum("SSDLite320_MobileNet_V3_Large_Weights", __name__)
_MOBILE = MobileNet_V3_Large_Weights.IMAGENET1K_V1


@detector_builder(SSDLite320_MobileNet_V3_Large_Weights, _MOBILE, stages=(6, 6))
def ssdlite320_mobilenet_v3_large(choice: Choice, *, norm_layer: Layer | None = None, **kwargs: Any) -> SSD:
    """SSDLite over MobileNet v3 for images of 320 pixels; the backbone has six parts, all of them trained where it is not said.

    Args:
        norm_layer: normalisation; batch norms with an epsilon of 0.001 and a momentum of 0.03 when None.
        weights, progress, num_classes, weights_backbone, trainable_backbone_layers: as those of ``fasterrcnn_resnet50_fpn``.
        kwargs: of the MobileNet and of ``SSD``.
    Returns:
        The model.
    Source: torchvision.models.detection.ssdlite320_mobilenet_v3_large.
    Example:
        >>> with torch.device('meta'):
        ...     model = ssdlite320_mobilenet_v3_large(weights_backbone=None, num_classes=3)
        >>> type(model).__name__
        'SSD'
    """
    warn_of_size(kwargs)
    norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.03) if norm_layer is None else norm_layer
    initial = choice.weights_backbone is None
    mobilenet = mobilenet_v3_large(
        weights=choice.weights_backbone, progress=choice.progress, norm_layer=norm, reduced_tail=initial, **kwargs
    )
    if initial:
        _normal_init(mobilenet)
    backbone = _mobilenet_extractor(mobilenet, choice.layers, norm)
    anchors = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    channels = retrieve_out_channels(backbone, (320, 320))
    check_maps(channels, anchors)
    head = SSDLiteHead(channels, anchors.num_anchors_per_location(), choice.num_classes, norm)
    settings: dict[str, Any] = {"score_thresh": 0.001, "nms_thresh": 0.55, "detections_per_img": 300, "topk_candidates": 300}
    settings |= {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    return SSD(backbone, anchors, (320, 320), choice.num_classes, head=head, **{**settings, **kwargs})
