"""SqueezeNet: modules that squeeze the channels with 1x1 convolutions before they widen them again."""

from __future__ import annotations

from functools import partial

from ... import nn, ops
from ...core.tensor import Tensor
from ._builders import builder_and_weights, initialize

__all__ = ["SqueezeNet", "SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights", "squeezenet1_0", "squeezenet1_1"]


class Fire(nn.Module):
    """A 1x1 convolution to few channels, then a 1x1 and a 3x3 one side by side.

    Args:
        inplanes, squeeze_planes: of the first convolution.
        expand1x1_planes, expand3x3_planes: results of the other two, which are joined.
    """

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return ops.cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


# By version: channels and size of the first convolution, then planes of the fire modules (half of the results each), 0 for a pooling.
VERSIONS = {"1_0": (96, 7, (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)), "1_1": (64, 3, (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64))}


class SqueezeNet(nn.Module):
    """A strided convolution, fire modules and poolings, and a convolution to the classes, whose mean over places is the result.

    Args:
        version: ``"1_0"``, that of the paper, or ``"1_1"``, of 2.4 times less computation.
        num_classes: features of the result.
        dropout: probability, before the last convolution.
    Shape:
        ``(N, 3, H, W)``, at least 21 by 21 (17 by 17 in version 1_1), to ``(N, num_classes)``.
    Raises:
        ValueError: another version.
    Source: torchvision.models.SqueezeNet. Iandola et al. 2016, "SqueezeNet", table 1.
    Example:
        >>> with torch.device('meta'):
        ...     model = SqueezeNet('1_1', num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        channels, size, planes = VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel_size=size, stride=2), nn.ReLU(inplace=True)]
        for squeezed in planes:
            if squeezed:
                layers.append(Fire(channels, squeezed, 4 * squeezed, 4 * squeezed))
                channels = 8 * squeezed
            else:
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(channels, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        initialize(self.features, {nn.Conv2d: nn.init.kaiming_uniform_})
        initialize(self.classifier, {nn.Conv2d: partial(nn.init.normal_, mean=0.0, std=0.01)})

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


squeezenet1_0, SqueezeNet1_0_Weights = builder_and_weights("squeezenet1_0", __name__, partial(SqueezeNet, "1_0"))
squeezenet1_1, SqueezeNet1_1_Weights = builder_and_weights("squeezenet1_1", __name__, partial(SqueezeNet, "1_1"))
