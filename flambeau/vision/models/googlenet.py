"""GoogLeNet: modules of four branches of different fields of view."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ...jit import is_scripting, unused
from ._api import table
from ._builders import Layer, builder_and_weights
from ._utils import _ovewrite_named_param

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "_GoogLeNetOutputs", "googlenet"]


# -- shared with Inception v3 ---------------------------------------------------------------------------------------------------------
class BasicConv2d(nn.Module):
    """A convolution without bias, batch normalization and ReLU. ``kwargs`` are the convolution's."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.bn(self.conv(x)), inplace=True)


class Branches(nn.Module):
    """A module whose ``_forward`` gives results of several branches, which are joined."""

    def _forward(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return ops.cat(self._forward(x), 1)


MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue


def from_imagenet_normalization(x: Tensor) -> Tensor:
    """Images normalized by ImageNet's means and deviations, in the range of -1 to 1 that the first weights were trained with."""
    channels = [x[:, i : i + 1] * (DEVIATIONS[i] / 0.5) + (MEANS[i] - 0.5) / 0.5 for i in range(3)]
    return ops.cat(channels, 1)


def draws_weights(init_weights: bool | None, model: str) -> bool:
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


# -- the model -----------------------------------------------------------------------------------------------------------------------
GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])
GoogLeNetOutputs.__annotations__ = {"logits": Tensor, "aux_logits2": Tensor | None, "aux_logits1": Tensor | None}  # for scripts
GoogLeNetOutputs.__doc__ = """What GoogLeNet returns in training with auxiliary classifiers.

Attributes:
    logits: ``(N, num_classes)``.
    aux_logits2: likewise, of the later auxiliary classifier.
    aux_logits1: of the earlier one.
Source: torchvision.models.GoogLeNetOutputs.
Example:
    >>> GoogLeNetOutputs(1, 2, 3)._asdict()
    {'logits': 1, 'aux_logits2': 2, 'aux_logits1': 3}
"""
_GoogLeNetOutputs = GoogLeNetOutputs

# By name: channels of the input, of the 1x1 branch, of the second branch's two convolutions, of the third's, and of the fourth.
INCEPTIONS: dict[str, list[int]] = table("stages")["googlenet"]
POOLED_AFTER = {"inception3b": ("maxpool3", 3), "inception4e": ("maxpool4", 2)}


class GoogLeNet(nn.Module):
    """Three convolutions, nine inception modules and a linear layer; in training, two auxiliary classifiers in between.

    Args:
        num_classes: features of each result.
        aux_logits: whether there are auxiliary classifiers.
        transform_input: take images normalized as for other models, not to the range of -1 to 1.
        init_weights: whether to draw weights from a truncated normal distribution of 0.01; True with a warning when None.
        blocks: classes in place of :class:`BasicConv2d`, :class:`Inception` and :class:`InceptionAux`.
        dropout: probability, before the linear layer.
        dropout_aux: probability in the auxiliary classifiers.
    Shape:
        ``(N, 3, H, W)``, at least 15 by 15, to ``(N, num_classes)``; in training, to a tuple of three.
    Raises:
        ValueError: other than three ``blocks``.
    Source: torchvision.models.GoogLeNet. Szegedy et al. 2015, "Going deeper with convolutions", table 1.
    Example:
        >>> with torch.device('meta'):
        ...     model = GoogLeNet(10, init_weights=False).eval()
        >>> model(torch.empty(1, 3, 64, 64, device='meta')).shape
        torch.Size([1, 10])
    """

    __constants__ = ["aux_logits", "transform_input"]

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: list[Layer] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        blocks = [BasicConv2d, Inception, InceptionAux] if blocks is None else blocks
        draws = draws_weights(init_weights, "GoogleNet")
        if len(blocks) != 3:
            raise ValueError(f"blocks length should be 3 instead of {len(blocks)}")
        conv_block, inception_block, aux_block = blocks
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = conv_block(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = conv_block(64, 64, kernel_size=1)
        self.conv3 = conv_block(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        for name, channels in INCEPTIONS.items():
            setattr(self, name, inception_block(*channels))
            if name in POOLED_AFTER:
                pooling, size = POOLED_AFTER[name]
                setattr(self, pooling, nn.MaxPool2d(size, stride=2, ceil_mode=True))
        self.aux1 = aux_block(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = aux_block(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(1024, num_classes)
        if draws:
            draw_truncated(self, std=0.01)

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The scores, and those of the second and the first auxiliary classifier."""
        x = self.maxpool1(self.conv1(x))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        x = self.inception4a(x)
        aux1 = self.aux1(x) if self.aux1 is not None and self.training else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2 = self.aux2(x) if self.aux2 is not None and self.training else None
        x = self.maxpool4(self.inception4e(x))
        x = self.inception5b(self.inception5a(x))
        return self.fc(self.dropout(self.avgpool(x).flatten(1))), aux2, aux1

    @unused
    def eager_outputs(self, x: Tensor, aux2: Tensor | None, aux1: Tensor | None) -> Any:
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> GoogLeNetOutputs:
        if self.transform_input:
            x = from_imagenet_normalization(x)
        x, aux2, aux1 = self._forward(x)
        if is_scripting():  # a scripted model always returns the tuple
            return GoogLeNetOutputs(x, aux2, aux1)
        return self.eager_outputs(x, aux2, aux1)


class Inception(Branches):
    """A 1x1 convolution, two pairs of a 1x1 and a 3x3 one, and a pooling with a 1x1 one, side by side.

    The third branch's kernel has 3x3 places, not the paper's 5x5: that is how the official weights were trained.
    """

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Layer | None = None,
    ) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        self.branch1 = conv_block(in_channels, ch1x1, kernel_size=1)
        point, wide = partial(conv_block, kernel_size=1), partial(conv_block, kernel_size=3, padding=1)
        self.branch2 = nn.Sequential(point(in_channels, ch3x3red), wide(ch3x3red, ch3x3))
        self.branch3 = nn.Sequential(point(in_channels, ch5x5red), wide(ch5x5red, ch5x5))
        self.branch4 = nn.Sequential(nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True), point(in_channels, pool_proj))

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]


class InceptionAux(nn.Module):
    """A classifier of intermediate features: means over a grid of 4 by 4, a 1x1 convolution and two linear layers."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Layer | None = None, dropout: float = 0.7) -> None:
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(nn.functional.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(nn.functional.relu(self.fc1(x), inplace=True)))


def _prepare(weights: Any, kwargs: dict[str, Any]) -> Any:
    warning = "auxiliary heads in the pretrained googlenet model are NOT pretrained, so make sure to train them"
    return prepare_auxiliary(kwargs, kwargs.get("aux_logits", False), ("aux1", "aux2"), warning)


googlenet, GoogLeNet_Weights = builder_and_weights("googlenet", __name__, GoogLeNet, prepare=_prepare)
