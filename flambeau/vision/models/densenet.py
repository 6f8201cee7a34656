"""DenseNet: blocks in which every layer sees the results of all layers before it."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import partial
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ._builders import Built, builder_and_weights, initialize

__all__ = [
    *("DenseNet", "DenseNet121_Weights", "DenseNet161_Weights", "DenseNet169_Weights", "DenseNet201_Weights"),
    *("densenet121", "densenet161", "densenet169", "densenet201"),
]


class _DenseLayer(nn.Module):
    """A 1x1 and a 3x3 convolution, normalization and activation before each."""

    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float, memory_efficient: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def bn_function(self, inputs: list[Tensor]) -> Tensor:
        return self.conv1(self.relu1(self.norm1(ops.cat(inputs, 1))))

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        features = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(tensor.requires_grad for tensor in features):
            from ...utils.checkpoint import checkpoint

            narrow = checkpoint(lambda *tensors: self.bn_function(list(tensors)), *features, use_reentrant=False)
        else:
            narrow = self.bn_function(features)
        result = self.conv2(self.relu2(self.norm2(narrow)))
        return nn.functional.dropout(result, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else result


class _DenseBlock(nn.ModuleDict):
    """Layers of which each gets the input and the results of all layers before; their results are joined."""

    _version = 2

    def __init__(
        self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int, drop_rate: float, memory_efficient: bool = False
    ) -> None:
        super().__init__()
        for i in range(num_layers):
            layer = _DenseLayer(num_input_features + i * growth_rate, growth_rate, bn_size, drop_rate, memory_efficient)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return ops.cat(features, 1)


class _Transition(nn.Sequential):
    """A 1x1 convolution and a pooling between two blocks."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """A strided convolution and a pooling, four dense blocks with transitions that halve channels and size, and a linear layer.

    Args:
        growth_rate: channels that each layer adds.
        block_config: layers of each block.
        num_init_features: channels of the first convolution.
        bn_size: channels between the convolutions of a layer, in growth rates.
        drop_rate: probability of dropout after each layer.
        num_classes: features of the result.
        memory_efficient: compute the joined features again in the backward pass instead of keeping them.
    Shape:
        ``(N, 3, H, W)``, at least 29 by 29, to ``(N, num_classes)``.
    Source: torchvision.models.DenseNet. Huang et al. 2017, "Densely connected convolutional networks", table 1.
    Example:
        >>> with torch.device('meta'):
        ...     model = DenseNet(8, (2, 2), 16, num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, int, int, int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(num_init_features),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        channels = num_init_features
        for i, count in enumerate(block_config, 1):
            layers[f"denseblock{i}"] = _DenseBlock(count, channels, bn_size, growth_rate, drop_rate, memory_efficient)
            channels += count * growth_rate
            if i < len(block_config):
                layers[f"transition{i}"] = _Transition(channels, channels // 2)
                channels //= 2
        layers["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(layers)
        self.classifier = nn.Linear(channels, num_classes)
        initialize(self, {nn.Conv2d: nn.init.kaiming_normal_, nn.Linear: None}, norms=(nn.BatchNorm2d,))

    def forward(self, x: Tensor) -> Tensor:
        features = nn.functional.relu(self.features(x), inplace=True)
        return self.classifier(nn.functional.adaptive_avg_pool2d(features, (1, 1)).flatten(1))


# The files of weights are older than the rule that names of modules have no dots: norm.1.weight is norm1.weight here.
_OLD_KEY = re.compile(r"^(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\.(?:weight|bias|running_mean|running_var))$")


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    for key in [key for key in state if _OLD_KEY.match(key)]:
        state[_OLD_KEY.sub(r"\1\2", key)] = state.pop(key)
    return state


def _builder(name: str, growth_rate: int, block_config: tuple[int, ...], num_init_features: int) -> Built[DenseNet]:
    build: Any = partial(DenseNet, growth_rate, block_config, num_init_features)  # type: ignore[arg-type]  # four layers
    return builder_and_weights(name, __name__, build, renamed=_renamed)


densenet121, DenseNet121_Weights = _builder("densenet121", 32, (6, 12, 24, 16), 64)
densenet161, DenseNet161_Weights = _builder("densenet161", 48, (6, 12, 36, 24), 96)
densenet169, DenseNet169_Weights = _builder("densenet169", 32, (6, 12, 32, 32), 64)
densenet201, DenseNet201_Weights = _builder("densenet201", 32, (6, 12, 48, 32), 64)
