"""Parts that segmentation models share: a backbone, one or two classifiers of pixels, and the functions that build them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....nn import functional as F
from .._builders import enum_of, name_builder, shown_as
from .._utils import IntermediateLayerGetter, _ovewrite_value_param, stages_of_mobilenet


def _enlarged(x: Tensor, size: list[int]) -> Tensor:
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


def mobilenet_places(features: Any, stages: tuple[int, ...]) -> list[tuple[str, int]]:
    """Name and channels of blocks of a MobileNet, by the numbers of the stages that they begin; -1 is the last block."""
    begins = stages_of_mobilenet(features)
    return [(str(begins[stage]), features[begins[stage]].out_channels) for stage in stages]


def segmentation_model(
    name: str, module: str, about: str, model: type, make: Callable[..., Any], backbone_enum: Any, has_auxiliary: bool = True
) -> tuple[Any, Any]:
    """The function ``name``, registered, and the enum of its weights.

    Args:
        name: of the function.
        module: which has both.
        about: what the model is.
        model: its class.
        make: makes it of weights of the backbone, the number of classes, and whether there is a second classifier.
        backbone_enum: of the backbone's weights.
        has_auxiliary: whether there can be a second classifier; otherwise ``make`` need not look at it.
    """
    enum, default = enum_of(name, module), backbone_enum.IMAGENET1K_V1

    def builder(
        *,
        weights: Any = None,
        progress: bool = True,
        num_classes: int | None = None,
        aux_loss: bool | None = None,
        weights_backbone: Any = default,
        **kwargs: Any,
    ) -> Any:
        """{about}

        Args:
            weights: of the model.
            progress: whether downloads show a bar.
            num_classes: classes, background included; 21 without weights.
            aux_loss: whether there is a second classifier, of an earlier map; LR-ASPP has none.
            weights_backbone: of the backbone, where there are none of the model.
            kwargs: none.
        Returns:
            The model.
        Raises:
            NotImplementedError: ``aux_loss`` of a model that does not have it.
            TypeError: further arguments.
        Source: torchvision{package}.{name}.
        Example:
            >>> with torch.device('meta'):
            ...     model = {name}(weights_backbone=None, num_classes=2)
            >>> type(model).__name__
            '{model}'
        """
        if aux_loss and not has_auxiliary:
            raise NotImplementedError("This model does not use auxiliary loss")
        if kwargs:
            raise TypeError(f"unexpected keyword arguments of a segmentation model: {', '.join(kwargs)}")
        chosen, backbone = enum.verify(weights), backbone_enum.verify(weights_backbone)
        if chosen is None:
            return make(backbone, 21 if num_classes is None else num_classes, aux_loss)
        classes = _ovewrite_value_param("num_classes", num_classes, len(chosen.meta["categories"]))
        built = make(None, classes, _ovewrite_value_param("aux_loss", aux_loss, True) if has_auxiliary else None)
        built.load_state_dict(chosen.get_state_dict(progress=progress, check_hash=True))
        return built

    name_builder(builder, name, module, enum, about=about, model=model.__name__)
    builder.__annotations__["return"] = model.__name__
    hidden = () if has_auxiliary else ("aux_loss",)
    pairs: dict[str, Any] = {"weights": (enum, enum.COCO_WITH_VOC_LABELS_V1), "weights_backbone": (backbone_enum, default)}
    return shown_as(builder, builder, hidden=hidden, **pairs), enum


def over_resnet(
    model: type, head: Callable[..., Any], aux_head: Callable[..., Any], module: str, resnet: Callable[..., Any], backbone_enum: Any
) -> tuple[Any, Any]:
    """:func:`segmentation_model` over a dilated ResNet."""

    def make(weights: Any, num_classes: int, aux: bool | None) -> Any:
        backbone = resnet(weights=weights, replace_stride_with_dilation=[False, True, True])
        return with_classifiers(model, head, aux_head, backbone, (("layer4", 2048), ("layer3", 1024)), num_classes, aux)

    family, depth = model.__name__, resnet.__name__.removeprefix("resnet")
    about = f"{family} over a dilated ResNet-{depth}."
    return segmentation_model(f"{family.lower()}_{resnet.__name__}", module, about, model, make, backbone_enum)
