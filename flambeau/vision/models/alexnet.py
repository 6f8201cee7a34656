"""AlexNet."""

from __future__ import annotations

from ... import nn
from ._builders import builder_and_weights
from ._utils import Classifier

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]


class AlexNet(Classifier):
    """Five convolutions and three linear layers, in the narrow form of the later paper.

    Args:
        num_classes: features of the result.
        dropout: probability, before the first two linear layers.
    Shape:
        ``(N, 3, H, W)``, at least 63 by 63, to ``(N, num_classes)``.
    Source: torchvision.models.AlexNet. Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks".
    Example:
        >>> with torch.device('meta'):
        ...     model = AlexNet(num_classes=10)
        >>> model(torch.empty(1, 3, 224, 224, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, size, stride, padding, pooled in (
            *((3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True)),
            *((192, 384, 3, 1, 1, False), (384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True)),
        ):
            layers += [nn.Conv2d(inputs, outputs, size, stride, padding), nn.ReLU(inplace=True)]
            if pooled:
                layers.append(nn.MaxPool2d(3, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            *(nn.Dropout(p=dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True)),
            *(nn.Dropout(p=dropout), nn.Linear(4096, 4096), nn.ReLU(inplace=True)),
            nn.Linear(4096, num_classes),
        )


alexnet, AlexNet_Weights = builder_and_weights("alexnet", __name__, AlexNet)
