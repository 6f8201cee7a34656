"""MNASNet: inverted residuals found by a search for accuracy and latency."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ._builders import Built, builder_and_weights, initialize, kaiming_fan_out
from ._utils import _make_divisible

__all__ = [
    *("MNASNet", "MNASNet0_5_Weights", "MNASNet0_75_Weights", "MNASNet1_0_Weights", "MNASNet1_3_Weights"),
    *("mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"),
]

_BN_MOMENTUM = 1 - 0.9997  # the paper's decay is the share that stays


class _InvertedResidual(nn.Module):
    """Widens the channels, convolves each by itself, narrows them; the input is added where the shape stays."""

    def __init__(self, in_ch: int, out_ch: int, kernel_size: int, stride: int, expansion_factor: int, bn_momentum: float = 0.1) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        if kernel_size not in (3, 5):
            raise ValueError(f"kernel_size should be 3 or 5 instead of {kernel_size}")
        middle = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            *_convolution(in_ch, middle, 1, bn_momentum),
            *_convolution(middle, middle, kernel_size, bn_momentum, stride=stride, groups=middle),
            *_convolution(middle, out_ch, 1, bn_momentum)[:2],
        )

    def forward(self, input: Tensor) -> Tensor:
        return self.layers(input) + input if self.apply_residual else self.layers(input)


def _convolution(inputs: int, outputs: int, size: int, momentum: float, **options: int) -> list[nn.Module]:
    """A convolution of unchanged size at stride 1, its normalization and its activation."""
    convolution = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False, **options)  # type: ignore[arg-type]  # no padding mode
    return [convolution, nn.BatchNorm2d(outputs, momentum=momentum), nn.ReLU(inplace=True)]


def _stack(in_ch: int, out_ch: int, kernel_size: int, stride: int, exp_factor: int, repeats: int, bn_momentum: float) -> nn.Sequential:
    """Blocks of which the first changes the shape.

    Raises:
        ValueError: no blocks.
    """
    if repeats < 1:
        raise ValueError(f"repeats should be >= 1, instead got {repeats}")
    block = partial(_InvertedResidual, expansion_factor=exp_factor, bn_momentum=bn_momentum)
    return nn.Sequential(block(in_ch, out_ch, kernel_size, stride), *(block(out_ch, out_ch, kernel_size, 1) for _ in range(1, repeats)))


def _get_depths(alpha: float) -> list[int]:
    """The channels of the stages."""
    return [_make_divisible(depth * alpha, 8) for depth in (32, 16, 24, 40, 80, 96, 192, 320)]


def _stem(first: int, second: int) -> list[nn.Module]:
    """A strided convolution, and a depthwise one with a 1x1 one that has no activation."""
    return [
        *_convolution(3, first, 3, _BN_MOMENTUM, stride=2),
        *_convolution(first, first, 3, _BN_MOMENTUM, groups=first),
        *_convolution(first, second, 1, _BN_MOMENTUM)[:2],
    ]


STACKS = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))  # kernel, stride, widening, blocks


class MNASNet(nn.Module):
    """A stem, six stacks of inverted residuals, a 1x1 convolution, the mean over places, and a linear layer.

    Args:
        alpha: factor of the channels of all stages.
        num_classes: features of the result.
        dropout: probability, before the linear layer.
    Shape:
        ``(N, 3, H, W)`` to ``(N, num_classes)``.
    Raises:
        ValueError: ``alpha`` not above 0.
    Source: torchvision.models.MNASNet. Tan et al. 2019, "MnasNet", figure 7.
    Example:
        >>> with torch.device('meta'):
        ...     model = MNASNet(0.5, num_classes=10)
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    _version = 2  # in version 1 the stem was not scaled by alpha

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha, self.num_classes = alpha, num_classes
        depths = _get_depths(alpha)
        stacks = (_stack(*channels, *row, _BN_MOMENTUM) for channels, row in zip(pairwise(depths[1:]), STACKS))
        self.layers = nn.Sequential(*_stem(*depths[:2]), *stacks, *_convolution(depths[-1], 1280, 1, _BN_MOMENTUM))
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes))
        linear = partial(nn.init.kaiming_uniform_, mode="fan_out", nonlinearity="sigmoid")
        initialize(self, {nn.Conv2d: kaiming_fan_out, nn.Linear: linear}, norms=(nn.BatchNorm2d,))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).mean([2, 3]))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *arguments: Any) -> None:
        version = local_metadata.get("version", None)
        if version not in (1, 2):
            raise ValueError(f"version should be set to 1 or 2 instead of {version}")
        if version == 1 and self.alpha != 1.0:
            self._return_to_the_first_stem()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *arguments)

    def _return_to_the_first_stem(self) -> None:
        """Become the model of version 1, for its files."""
        first_stack = _stack(16, _get_depths(self.alpha)[2], *STACKS[0], _BN_MOMENTUM)
        for i, layer in enumerate([*_stem(32, 16), first_stack]):
            self.layers[i] = layer
        self._version = 1
        warnings.warn(
            "A new version of MNASNet model has been implemented. Your checkpoint was saved using the previous version. "
            "This checkpoint will load and work as before, but you may want to upgrade by training a newer model or "
            "transfer learning from an updated ImageNet checkpoint.",
            UserWarning,
        )


def _builder(name: str, alpha: float) -> Built[MNASNet]:
    return builder_and_weights(name, __name__, partial(MNASNet, alpha))


mnasnet0_5, MNASNet0_5_Weights = _builder("mnasnet0_5", 0.5)
mnasnet0_75, MNASNet0_75_Weights = _builder("mnasnet0_75", 0.75)
mnasnet1_0, MNASNet1_0_Weights = _builder("mnasnet1_0", 1.0)
mnasnet1_3, MNASNet1_3_Weights = _builder("mnasnet1_3", 1.3)
