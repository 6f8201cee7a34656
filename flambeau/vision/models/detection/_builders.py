"""Helpers of the functions that build detectors: weights, number of classes, share of the backbone that is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .... import nn
from ...ops import FrozenBatchNorm2d
from .._builders import shown_as
from .._utils import _ovewrite_value_param
from ..resnet import ResNet50_Weights, resnet50
from ._utils import overwrite_eps
from .backbone_utils import _resnet_fpn_extractor, _validate_trainable_layers

IMAGENET = ResNet50_Weights.IMAGENET1K_V1


@dataclass(frozen=True, slots=True)
class Choice:
    """Weights and sizes with which a detector is built.

    Attributes:
        weights: of the whole detector, or None.
        weights_backbone: of the backbone alone, or None.
        num_classes: classes, background included.
        trained: whether there are weights of either kind.
        layers: parts of the backbone that are trained.
        progress: whether downloads show a bar.
    """

    weights: Any
    weights_backbone: Any
    num_classes: int
    trained: bool
    layers: int
    progress: bool


def detector_builder(
    enum: Any,
    pretrained_backbone: Any,
    *,
    from_pretrained: bool = True,
    pretrained: Any = None,
    without_eps: str = "",
    stages: tuple[int, int] = (5, 3),
    classes: int = 91,
    after: str = "trainable_backbone_layers",
) -> Callable[[Callable[..., Any]], Any]:
    """Decorates ``build(choice, *, own=None, **kwargs)``: the function that is registered chooses, builds, and loads the weights.

    Args:
        enum: of the detector's weights.
        pretrained_backbone: the backbone's weights that ``pretrained_backbone=True`` stands for.
        from_pretrained: whether the backbone has these where nothing is said.
        pretrained: what ``pretrained=True`` stands for; COCO_V1 when None.
        without_eps: name of the weights that were trained with frozen norms without an epsilon.
        stages: parts that the backbone has, and how many of them are trained unless it is said.
        classes: how many there are unless it is said.
        after: argument behind which the own ones stand.
    """
    backbone_enum = type(pretrained_backbone)
    default = pretrained_backbone if from_pretrained else None

    def decorate(build: Callable[..., Any]) -> Any:
        def builder(
            *,
            weights: Any = None,
            progress: bool = True,
            num_classes: int | None = None,
            weights_backbone: Any = default,
            trainable_backbone_layers: int | None = None,
            **kwargs: Any,
        ) -> Any:
            chosen, backbone = enum.verify(weights), backbone_enum.verify(weights_backbone)
            if chosen is not None:
                backbone = None
                num_classes = _ovewrite_value_param("num_classes", num_classes, len(chosen.meta["categories"]))
            trained = chosen is not None or backbone is not None
            layers = _validate_trainable_layers(trained, trainable_backbone_layers, *stages)
            count = classes if num_classes is None else num_classes
            model = build(Choice(chosen, backbone, count, trained, layers, progress), **kwargs)
            if chosen is not None:
                model.load_state_dict(chosen.get_state_dict(progress=progress, check_hash=True))
                if chosen.name == without_eps:
                    overwrite_eps(model, 0.0)
            return model

        meant = enum.COCO_V1 if pretrained is None else pretrained
        return shown_as(build, builder, after, weights=(enum, meant), weights_backbone=(backbone_enum, pretrained_backbone))

    return decorate


def resnet_pyramid(choice: Choice, norm_layer: Any = None, pyramid_norm: Any = None, **extractor: Any) -> Any:
    """ResNet-50 with a pyramid; with weights its norms are frozen, unless ``norm_layer`` is another class.

    Args:
        choice: weights and layers.
        norm_layer: normalisation in the ResNet.
        pyramid_norm: normalisation in the pyramid.
        extractor: arguments of ``_resnet_fpn_extractor``; ``extra_blocks`` is a function that makes them.
    """
    if norm_layer is None:
        norm_layer = FrozenBatchNorm2d if choice.trained else nn.BatchNorm2d
    backbone = resnet50(weights=choice.weights_backbone, progress=choice.progress, norm_layer=norm_layer)
    if "extra_blocks" in extractor:
        extractor["extra_blocks"] = extractor["extra_blocks"]()  # its weights are drawn after the ResNet's
    return _resnet_fpn_extractor(backbone, choice.layers, norm_layer=pyramid_norm, **extractor)


__all__ = ["IMAGENET", "Choice", "detector_builder", "resnet_pyramid"]
