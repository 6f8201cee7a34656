"""GoogLeNet: modules of four branches of different fields of view."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ._builders import Layer, builder_and_weights
from ._inceptions import BasicConv2d, asked_to_draw, draw_truncated, from_imagenet_normalization, prepare_auxiliary

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "_GoogLeNetOutputs", "googlenet"]

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])
_GoogLeNetOutputs = GoogLeNetOutputs

# By name: channels of the input, of the 1x1 branch, of the second branch's two convolutions, of the third's, and of the fourth.
INCEPTIONS = {
    "inception3a": (192, 64, 96, 128, 16, 32, 32),
    "inception3b": (256, 128, 128, 192, 32, 96, 64),
    "inception4a": (480, 192, 96, 208, 16, 48, 64),
    "inception4b": (512, 160, 112, 224, 24, 64, 64),
    "inception4c": (512, 128, 128, 256, 24, 64, 64),
    "inception4d": (512, 112, 144, 288, 32, 64, 64),
    "inception4e": (528, 256, 160, 320, 32, 128, 128),
    "inception5a": (832, 256, 160, 320, 32, 128, 128),
    "inception5b": (832, 384, 192, 384, 48, 128, 128),
}
POOLED_AFTER = {"inception3b": ("maxpool3", 3), "inception4e": ("maxpool4", 2)}


class GoogLeNet(nn.Module):
    """Three convolutions, nine inception modules and a linear layer; in training, two auxiliary classifiers on the way.

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
        draws = asked_to_draw(init_weights, "GoogleNet")
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

    def eager_outputs(self, x: Tensor, aux2: Tensor | None, aux1: Tensor | None) -> Any:
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> Any:
        return self.eager_outputs(*self._forward(from_imagenet_normalization(x) if self.transform_input else x))


class Inception(nn.Module):
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
        self.branch2 = nn.Sequential(
            conv_block(in_channels, ch3x3red, kernel_size=1), conv_block(ch3x3red, ch3x3, kernel_size=3, padding=1)
        )
        self.branch3 = nn.Sequential(
            conv_block(in_channels, ch5x5red, kernel_size=1), conv_block(ch5x5red, ch5x5, kernel_size=3, padding=1)
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True), conv_block(in_channels, pool_proj, kernel_size=1)
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]

    def forward(self, x: Tensor) -> Tensor:
        return ops.cat(self._forward(x), 1)


class InceptionAux(nn.Module):
    """A classifier of features on the way: means over a grid of 4 by 4, a 1x1 convolution and two linear layers."""

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
