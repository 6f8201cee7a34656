"""Parts that GoogLeNet and Inception v3 share: convolution, images prepared for another normalization, and auxiliary classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ._utils import _ovewrite_named_param


class BasicConv2d(nn.Module):
    """A convolution without bias, batch normalization and ReLU. ``kwargs`` are the convolution's."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.bn(self.conv(x)), inplace=True)


MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue


def from_imagenet_normalization(x: Tensor) -> Tensor:
    """Images normalized by ImageNet's means and deviations, in the range of -1 to 1 that the first weights were trained with."""
    channels = (x[:, i : i + 1] * (DEVIATIONS[i] / 0.5) + (MEANS[i] - 0.5) / 0.5 for i in range(3))
    return ops.cat(tuple(channels), 1)


def asked_to_draw(init_weights: bool | None, model: str) -> bool:
    """Whether to draw weights; the default is yes, with a warning."""
    if init_weights is not None:
        return init_weights
    warnings.warn(
        f"The default weight initialization of {model} will be changed in future releases of torchvision. If you wish to keep the old "
        "behavior (which leads to long initialization times due to scipy/scipy#11299), please set init_weights=True.",
        FutureWarning,
        stacklevel=3,
    )
    return True


def draw_truncated(model: nn.Module, std: float) -> None:
    """Draw weights from truncated normal distributions: of ``std``, or of a layer's own ``stddev``."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, mean=0.0, std=float(getattr(module, "stddev", std)), a=-2, b=2)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def prepare_auxiliary(kwargs: dict[str, Any], wanted: bool, heads: tuple[str, ...], warning: str = "") -> Callable[[nn.Module], None]:
    """Build for a file of weights, which has the auxiliary classifiers; afterwards those that are not wanted go."""
    kwargs.setdefault("transform_input", True)
    _ovewrite_named_param(kwargs, "aux_logits", True)
    _ovewrite_named_param(kwargs, "init_weights", False)

    def finish(model: nn.Module) -> None:
        if wanted:
            if warning:
                warnings.warn(warning)
            return
        model.aux_logits = False
        for head in heads:
            setattr(model, head, None)

    return finish
