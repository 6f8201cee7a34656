"""Classifiers as backbones of detectors: their feature maps, with a pyramid on top."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ...ops import misc
from ...ops.feature_pyramid_network import ExtraFPNBlock, FeaturePyramidNetwork, LastLevelMaxPool
from .._api import _get_enum_from_fn
from .._builders import Layer
from .._utils import IntermediateLayerGetter, handle_legacy_interface, stages_of_mobilenet

__all__ = ["BackboneWithFPN", "mobilenet_backbone", "resnet_fpn_backbone"]

_CHANNELS = 256  # of the pyramid


class BackboneWithFPN(nn.Module):
    """Some layers of a model, and a pyramid over what they give.

    Args:
        backbone: the model.
        return_layers: for the name of a layer the name of its map.
        in_channels_list: channels of each map.
        out_channels: channels of the pyramid.
        extra_blocks: adds further maps; one by pooling when None.
        norm_layer: normalisation in the pyramid.
    Shape:
        ``(N, 3, H, W)`` to an OrderedDict of ``(N, out_channels, H_i, W_i)``.
    Attributes:
        body: the layers.
        fpn: the pyramid.
    Source: torchvision.models.detection.backbone_utils.BackboneWithFPN.
    Example:
        >>> layers = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 8, 3, 2, 1))
        >>> model = BackboneWithFPN(layers, {"0": "fine", "1": "coarse"}, [4, 8], 2)
        >>> {name: tuple(each.shape) for name, each in model(torch.ones(1, 3, 8, 8)).items()}
        {'fine': (1, 2, 4, 4), 'coarse': (1, 2, 2, 2), 'pool': (1, 2, 1, 1)}
    """

    def __init__(
        self,
        backbone: nn.Module,
        return_layers: dict[str, str],
        in_channels_list: Sequence[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Layer | None = None,
    ) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers=return_layers)
        self.fpn = FeaturePyramidNetwork(
            in_channels_list, out_channels, LastLevelMaxPool() if extra_blocks is None else extra_blocks, norm_layer
        )
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return self.fpn(self.body(x))


def _builder(family: str, name: str) -> Any:
    return getattr(importlib.import_module(f"..{family}", __package__), name)


def _first_weights(family: str) -> Callable[[dict[str, Any]], Any]:
    """Weights for ``pretrained=True``, by the name of the backbone."""
    return lambda kwargs: _get_enum_from_fn(_builder(family, kwargs["backbone_name"]))["IMAGENET1K_V1"]


@handle_legacy_interface(weights=("pretrained", _first_weights("resnet")))
def resnet_fpn_backbone(
    *,
    backbone_name: str,
    weights: Any,
    norm_layer: Layer = misc.FrozenBatchNorm2d,
    trainable_layers: int = 3,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> BackboneWithFPN:
    """A ResNet with a pyramid on top.

    Args:
        backbone_name: of the ResNet's builder.
        weights: of the ResNet; initial weights when None.
        norm_layer: normalisation in the ResNet.
        trainable_layers: how many of the five parts are trained, from the end.
        returned_layers: which of the layers 1 to 4 give maps; all when None.
        extra_blocks: adds further maps; one by pooling when None.
    Returns:
        A ``BackboneWithFPN`` of 256 channels.
    Raises:
        ValueError: numbers out of range.
    Source: torchvision.models.detection.backbone_utils.resnet_fpn_backbone.
    Example:
        >>> with torch.device('meta'):
        ...     model = resnet_fpn_backbone(backbone_name="resnet18", weights=None)
        >>> model.out_channels
        256
    """
    backbone = _builder("resnet", backbone_name)(weights=weights, norm_layer=norm_layer)
    return _resnet_fpn_extractor(backbone, trainable_layers, returned_layers, extra_blocks)


def _resnet_fpn_extractor(
    backbone: Any,
    trainable_layers: int,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Layer | None = None,
) -> BackboneWithFPN:
    if not 0 <= trainable_layers <= 5:
        raise ValueError(f"Trainable layers should be in the range [0,5], got {trainable_layers}")
    trained = ("layer4", "layer3", "layer2", "layer1", "conv1")[:trainable_layers] + (("bn1",) if trainable_layers == 5 else ())
    for name, parameter in backbone.named_parameters():
        if not name.startswith(trained):
            parameter.requires_grad_(False)
    returned = [1, 2, 3, 4] if returned_layers is None else returned_layers
    if min(returned) <= 0 or max(returned) >= 5:
        raise ValueError(f"Each returned layer should be in the range [1,4]. Got {returned}")
    return_layers = {f"layer{layer}": str(place) for place, layer in enumerate(returned)}
    channels = [backbone.inplanes // 8 * 2 ** (layer - 1) for layer in returned]
    return BackboneWithFPN(backbone, return_layers, channels, _CHANNELS, extra_blocks=extra_blocks, norm_layer=norm_layer)


def _validate_trainable_layers(is_trained: bool, trainable_backbone_layers: int | None, max_value: int, default_value: int) -> int:
    """Number of parts of a backbone that are trained: all if it has initial weights.

    Raises:
        ValueError: more than there are, or fewer than none.
    """
    if not is_trained:
        if trainable_backbone_layers is not None:
            warnings.warn(
                "Changing trainable_backbone_layers has no effect if neither pretrained nor pretrained_backbone have been set to True, "
                f"falling back to trainable_backbone_layers={max_value} so that all layers are trainable"
            )
        trainable_backbone_layers = max_value
    elif trainable_backbone_layers is None:
        trainable_backbone_layers = default_value
    if not 0 <= trainable_backbone_layers <= max_value:
        raise ValueError(f"Trainable backbone layers should be in the range [0,{max_value}], got {trainable_backbone_layers} ")
    return trainable_backbone_layers


@handle_legacy_interface(weights=("pretrained", _first_weights("mobilenet")))
def mobilenet_backbone(
    *,
    backbone_name: str,
    weights: Any,
    fpn: bool,
    norm_layer: Layer = misc.FrozenBatchNorm2d,
    trainable_layers: int = 2,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> nn.Module:
    """A MobileNet as a backbone.

    Args:
        backbone_name: of the MobileNet's builder.
        weights: of the MobileNet; initial weights when None.
        fpn: whether a pyramid stands on top; otherwise a convolution to 256 channels.
        norm_layer: normalisation in the MobileNet.
        trainable_layers: how many stages are trained, from the end.
        returned_layers: which stages give maps; the last two when None.
        extra_blocks: adds further maps; one by pooling when None.
    Returns:
        A ``BackboneWithFPN``, or a ``Sequential`` without ``fpn``; either has 256 ``out_channels``.
    Raises:
        ValueError: numbers out of range.
    Source: torchvision.models.detection.backbone_utils.mobilenet_backbone.
    Example:
        >>> with torch.device('meta'):
        ...     model = mobilenet_backbone(backbone_name="mobilenet_v2", weights=None, fpn=False)
        >>> model.out_channels
        256
    """
    backbone = _builder("mobilenet", backbone_name)(weights=weights, norm_layer=norm_layer)
    return _mobilenet_extractor(backbone, fpn, trainable_layers, returned_layers, extra_blocks)


def freeze_stages(features: Any, stages: Sequence[int], trainable_layers: int) -> None:
    """Stop gradients of all blocks before the last ``trainable_layers`` stages."""
    end = len(features) if trainable_layers == 0 else stages[len(stages) - trainable_layers]
    for block in features[:end]:
        for parameter in block.parameters():
            parameter.requires_grad_(False)


def _mobilenet_extractor(
    backbone: Any,
    fpn: bool,
    trainable_layers: int,
    returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
    norm_layer: Layer | None = None,
) -> nn.Module:
    features = backbone.features
    stages = stages_of_mobilenet(features)
    if not 0 <= trainable_layers <= len(stages):
        raise ValueError(f"Trainable layers should be in the range [0,{len(stages)}], got {trainable_layers} ")
    freeze_stages(features, stages, trainable_layers)
    if not fpn:
        model = nn.Sequential(features, nn.Conv2d(features[-1].out_channels, _CHANNELS, 1))
        model.out_channels = _CHANNELS
        return model
    returned = [len(stages) - 2, len(stages) - 1] if returned_layers is None else returned_layers
    if min(returned) < 0 or max(returned) >= len(stages):
        raise ValueError(f"Each returned layer should be in the range [0,{len(stages) - 1}], got {returned} ")
    return_layers = {f"{stages[stage]}": str(place) for place, stage in enumerate(returned)}
    channels = [features[stages[stage]].out_channels for stage in returned]
    return BackboneWithFPN(features, return_layers, channels, _CHANNELS, extra_blocks=extra_blocks, norm_layer=norm_layer)
