"""VGG: stacks of 3x3 convolutions between poolings, with and without batch normalization."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import nn
from ._builders import Built, builder_and_weights, initialize, kaiming_fan_out, normal
from ._utils import Classifier

__all__ = [
    *("VGG", "VGG11_Weights", "VGG11_BN_Weights", "VGG13_Weights", "VGG13_BN_Weights", "VGG16_Weights", "VGG16_BN_Weights"),
    *("VGG19_Weights", "VGG19_BN_Weights", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
]


class VGG(Classifier):
    """Convolutions, then three linear layers.

    Args:
        features: a module that gives 512 channels.
        num_classes: features of the result.
        init_weights: whether to draw the weights as below; the layers' own initial weights otherwise.
        dropout: probability, after the first two linear layers.
    Shape:
        ``(N, 3, H, W)``, at least 32 by 32, to ``(N, num_classes)``.
    Attributes:
        features: convolutions, drawn from normal distributions by their number of outputs (Kaiming).
        classifier: linear layers, drawn from a normal distribution of standard deviation 0.01.
    Source: torchvision.models.VGG. Simonyan and Zisserman 2015, "Very deep convolutional networks", table 1.
    Example:
        >>> with torch.device('meta'):
        ...     model = VGG(make_layers(cfgs['A']), num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            *(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(p=dropout)),
            *(nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(p=dropout)),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            initialize(self, {nn.Conv2d: kaiming_fan_out, nn.Linear: normal(0.01)}, norms=(nn.BatchNorm2d,))


def make_layers(cfg: list[str | int], batch_norm: bool = False) -> nn.Sequential:
    """The convolutions of a row of the table: channels, and ``"M"`` for a pooling."""
    layers: list[nn.Module] = []
    channels = 3
    for entry in cfg:
        if isinstance(entry, str):
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(channels, entry, kernel_size=3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2d(entry))
        layers.append(nn.ReLU(inplace=True))
        channels = entry
    return nn.Sequential(*layers)


cfgs: dict[str, list[str | int]] = {
    "A": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "B": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "D": [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"],
    "E": [64, 64, "M", 128, 128, "M", 256, 256, 256, 256, "M", 512, 512, 512, 512, "M", 512, 512, 512, 512, "M"],
}


def _vgg(cfg: str, batch_norm: bool, **kwargs: Any) -> VGG:
    return VGG(make_layers(cfgs[cfg], batch_norm=batch_norm), **kwargs)


def _without_drawing(weights: Any, kwargs: dict[str, Any]) -> None:
    kwargs["init_weights"] = False


def _builder(name: str, cfg: str, batch_norm: bool = False) -> Built[VGG]:
    build = partial(_vgg, cfg, batch_norm)
    return builder_and_weights(name, __name__, build, prepare=_without_drawing)


vgg11, VGG11_Weights = _builder("vgg11", "A")
vgg11_bn, VGG11_BN_Weights = _builder("vgg11_bn", "A", True)
vgg13, VGG13_Weights = _builder("vgg13", "B")
vgg13_bn, VGG13_BN_Weights = _builder("vgg13_bn", "B", True)
vgg16, VGG16_Weights = _builder("vgg16", "D")
vgg16_bn, VGG16_BN_Weights = _builder("vgg16_bn", "D", True)
vgg19, VGG19_Weights = _builder("vgg19", "E")
vgg19_bn, VGG19_BN_Weights = _builder("vgg19_bn", "E", True)
