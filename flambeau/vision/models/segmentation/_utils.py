"""Parts that segmentation models share: a backbone, one or two classifiers of pixels, and the functions that build them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....nn import functional as F
from .._builders import shown_as
from .._utils import IntermediateLayerGetter, _ovewrite_value_param


def _enlarged(x: Tensor, size: Any) -> Tensor:
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class _SimpleSegmentationModel(nn.Module):
    """A classifier over a backbone's map, enlarged to the image.

    Args:
        backbone: images to a dict with the map ``"out"`` and, for ``aux_classifier``, ``"aux"``.
        classifier: a map to scores of classes.
        aux_classifier: likewise, of an earlier map.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of ``(N, classes, H, W)`` under ``"out"`` and, with ``aux_classifier``, ``"aux"``.
    """

    def __init__(self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone, self.classifier, self.aux_classifier = backbone, classifier, aux_classifier

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        size = x.shape[-2:]
        features = self.backbone(x)
        result = OrderedDict(out=_enlarged(self.classifier(features["out"]), size))
        if self.aux_classifier is not None:
            result["aux"] = _enlarged(self.aux_classifier(features["aux"]), size)
        return result


def with_classifiers(
    model: Callable[..., Any], head: Callable[..., Any], aux_head: Callable[..., Any], backbone: Any, places: Any, classes: int, aux: Any
) -> Any:
    """A segmentation model over two of a backbone's layers.

    Args:
        model: the class.
        head: of the classifier.
        aux_head: of the auxiliary classifier.
        backbone: whose children give the maps.
        places: name and channels of the layer for the classifier, and of the one for the auxiliary classifier.
        classes: how many there are.
        aux: whether there is an auxiliary classifier.
    """
    (out, channels), (early, early_channels) = places
    layers = IntermediateLayerGetter(backbone, return_layers={out: "out", **({early: "aux"} if aux else {})})
    auxiliary = aux_head(early_channels, classes) if aux else None
    return model(layers, head(channels, classes), auxiliary)


RESNET_PLACES = (("layer4", 2048), ("layer3", 1024))


def mobilenet_places(features: Any, stages: tuple[int, ...]) -> list[tuple[str, int]]:
    """Name and channels of blocks of a MobileNet, by the numbers of the stages that they begin; -1 is the last block."""
    begins = [0, *(place for place, block in enumerate(features) if getattr(block, "_is_cn", False)), len(features) - 1]
    return [(str(begins[stage]), features[begins[stage]].out_channels) for stage in stages]


def segmentation_builder(enum: Any, backbone_enum: Any, has_auxiliary: bool = True) -> Callable[[Callable[..., Any]], Any]:
    """Decorates ``make(weights_backbone, num_classes, aux_loss)``: the function that is registered takes weights of the whole model, too.

    Args:
        enum: of the model's weights.
        backbone_enum: of the backbone's.
        has_auxiliary: whether the model can have a second classifier, which ``aux_loss`` asks for; otherwise ``make`` need not look at it.
    """
    default = backbone_enum.IMAGENET1K_V1

    def decorate(make: Callable[..., Any]) -> Any:
        def builder(
            *,
            weights: Any = None,
            progress: bool = True,
            num_classes: int | None = None,
            aux_loss: bool | None = None,
            weights_backbone: Any = default,
            **kwargs: Any,
        ) -> Any:
            if aux_loss and not has_auxiliary:
                raise NotImplementedError("This model does not use auxiliary loss")
            if kwargs:
                raise TypeError(f"unexpected keyword arguments of a segmentation model: {', '.join(kwargs)}")
            chosen, backbone = enum.verify(weights), backbone_enum.verify(weights_backbone)
            if chosen is None:
                return make(backbone, 21 if num_classes is None else num_classes, aux_loss)
            classes = _ovewrite_value_param("num_classes", num_classes, len(chosen.meta["categories"]))
            model = make(None, classes, _ovewrite_value_param("aux_loss", aux_loss, True) if has_auxiliary else None)
            model.load_state_dict(chosen.get_state_dict(progress=progress, check_hash=True))
            return model

        hidden = () if has_auxiliary else ("aux_loss",)
        meant = enum.COCO_WITH_VOC_LABELS_V1
        return shown_as(make, builder, hidden=hidden, weights=(enum, meant), weights_backbone=(backbone_enum, default))

    return decorate
