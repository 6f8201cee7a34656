"""Inception v3: branches whose large kernels are taken apart into small and one-dimensional ones."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from ... import nn, ops
from ...core.tensor import Tensor
from ...jit import is_scripting, unused
from ._builders import Layer, builder_and_weights
from .googlenet import BasicConv2d, Branches, draw_truncated, draws_weights, from_imagenet_normalization, prepare_auxiliary

__all__ = ["Inception3", "InceptionOutputs", "Inception_V3_Weights", "_InceptionOutputs", "inception_v3"]

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])
InceptionOutputs.__annotations__ = {"logits": Tensor, "aux_logits": Tensor | None}  # for scripts
InceptionOutputs.__doc__ = """What Inception v3 returns in training with its auxiliary classifier.

Attributes:
    logits: ``(N, num_classes)``.
    aux_logits: likewise, of the auxiliary classifier.
Source: torchvision.models.InceptionOutputs.
Example:
    >>> InceptionOutputs(1, 2)._asdict()
    {'logits': 1, 'aux_logits': 2}
"""
_InceptionOutputs = InceptionOutputs


class Inception3(nn.Module):
    """Five convolutions, eleven modules of branches and a linear layer; in training, an auxiliary classifier in between.

    Args:
        num_classes: features of each result.
        aux_logits: whether there is an auxiliary classifier.
        transform_input: take images normalized as for other models, not to the range of -1 to 1.
        inception_blocks: classes in place of the convolution's, those of the modules A to E, and the auxiliary classifier's.
        init_weights: whether to draw weights from a truncated normal distribution of 0.1; True with a warning when None.
        dropout: probability, before the linear layer.
    Shape:
        ``(N, 3, H, W)``, at least 75 by 75 and 299 by 299 as in the paper, to ``(N, num_classes)``; in training, to a tuple of two.
    Raises:
        ValueError: other than seven ``inception_blocks``.
    Source: torchvision.models.Inception3. Szegedy et al. 2016, "Rethinking the inception architecture", table 1.
    Example:
        >>> with torch.device('meta'):
        ...     model = Inception3(10, init_weights=False).eval()
        >>> model(torch.empty(1, 3, 128, 128, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: Sequence[Layer] | None = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if inception_blocks is None:
            inception_blocks = (BasicConv2d, InceptionA, InceptionB, InceptionC, InceptionD, InceptionE, InceptionAux)
        draws = draws_weights(init_weights, "inception_v3")
        if len(inception_blocks) != 7:
            raise ValueError(f"length of inception_blocks should be 7 instead of {len(inception_blocks)}")
        conv_block, inception_a, inception_b, inception_c, inception_d, inception_e, inception_aux = inception_blocks
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = conv_block(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = conv_block(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = conv_block(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = conv_block(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = conv_block(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Mixed_5b = inception_a(192, pool_features=32)
        self.Mixed_5c = inception_a(256, pool_features=64)
        self.Mixed_5d = inception_a(288, pool_features=64)
        self.Mixed_6a = inception_b(288)
        self.Mixed_6b = inception_c(768, channels_7x7=128)
        self.Mixed_6c = inception_c(768, channels_7x7=160)
        self.Mixed_6d = inception_c(768, channels_7x7=160)
        self.Mixed_6e = inception_c(768, channels_7x7=192)
        self.AuxLogits = inception_aux(768, num_classes) if aux_logits else None
        self.Mixed_7a = inception_d(768)
        self.Mixed_7b = inception_e(1280)
        self.Mixed_7c = inception_e(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(2048, num_classes)
        if draws:
            draw_truncated(self, std=0.1)

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The scores, and those of the auxiliary classifier; sizes are for images of 299 by 299."""
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))  # (N, 64, 73, 73)
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))  # (N, 192, 35, 35)
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x)))  # (N, 288, 35, 35)
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))  # (N, 768, 17, 17)
        aux = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))  # (N, 2048, 8, 8)
        return self.fc(self.dropout(self.avgpool(x)).flatten(1)), aux

    @unused
    def eager_outputs(self, x: Tensor, aux: Tensor | None) -> Any:
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> InceptionOutputs:
        if self.transform_input:
            x = from_imagenet_normalization(x)
        x, aux = self._forward(x)
        if is_scripting():  # a scripted model always returns the tuple
            return InceptionOutputs(x, aux)
        return self.eager_outputs(x, aux)


class InceptionA(Branches):
    """1x1, 5x5 and twice 3x3, and a mean over places with ``pool_features``: 224 and these channels."""

    def __init__(self, in_channels: int, pool_features: int, conv_block: Layer | None = None) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        self.branch1x1 = conv_block(in_channels, 64, kernel_size=1)
        self.branch5x5_1 = conv_block(in_channels, 48, kernel_size=1)
        self.branch5x5_2 = conv_block(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = conv_block(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv_block(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv_block(96, 96, kernel_size=3, padding=1)
        self.branch_pool = conv_block(in_channels, pool_features, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch1x1 = self.branch1x1(x)
        branch5x5 = self.branch5x5_2(self.branch5x5_1(x))
        branch3x3dbl = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        branch_pool = self.branch_pool(nn.functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [branch1x1, branch5x5, branch3x3dbl, branch_pool]


class InceptionB(Branches):
    """Halves the size: 3x3, twice 3x3, and a pooling."""

    def __init__(self, in_channels: int, conv_block: Layer | None = None) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        self.branch3x3 = conv_block(in_channels, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = conv_block(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv_block(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv_block(96, 96, kernel_size=3, stride=2)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch3x3 = self.branch3x3(x)
        branch3x3dbl = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return [branch3x3, branch3x3dbl, nn.functional.max_pool2d(x, kernel_size=3, stride=2)]


class InceptionC(Branches):
    """1x1, one and two 7x7 as rows and columns with ``channels_7x7`` between, and a mean over places: 768 channels."""

    def __init__(self, in_channels: int, channels_7x7: int, conv_block: Layer | None = None) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        row: dict[str, Any] = {"kernel_size": (1, 7), "padding": (0, 3)}
        column: dict[str, Any] = {"kernel_size": (7, 1), "padding": (3, 0)}
        self.branch1x1 = conv_block(in_channels, 192, kernel_size=1)
        self.branch7x7_1 = conv_block(in_channels, channels_7x7, kernel_size=1)
        self.branch7x7_2 = conv_block(channels_7x7, channels_7x7, **row)
        self.branch7x7_3 = conv_block(channels_7x7, 192, **column)
        self.branch7x7dbl_1 = conv_block(in_channels, channels_7x7, kernel_size=1)
        self.branch7x7dbl_2 = conv_block(channels_7x7, channels_7x7, **column)
        self.branch7x7dbl_3 = conv_block(channels_7x7, channels_7x7, **row)
        self.branch7x7dbl_4 = conv_block(channels_7x7, channels_7x7, **column)
        self.branch7x7dbl_5 = conv_block(channels_7x7, 192, **row)
        self.branch_pool = conv_block(in_channels, 192, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch1x1 = self.branch1x1(x)
        branch7x7 = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        branch7x7dbl = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        branch7x7dbl = self.branch7x7dbl_5(self.branch7x7dbl_4(branch7x7dbl))
        branch_pool = self.branch_pool(nn.functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [branch1x1, branch7x7, branch7x7dbl, branch_pool]


class InceptionD(Branches):
    """Halves the size: 3x3, 7x7 with 3x3, and a pooling."""

    def __init__(self, in_channels: int, conv_block: Layer | None = None) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        self.branch3x3_1 = conv_block(in_channels, 192, kernel_size=1)
        self.branch3x3_2 = conv_block(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = conv_block(in_channels, 192, kernel_size=1)
        self.branch7x7x3_2 = conv_block(192, 192, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7x3_3 = conv_block(192, 192, kernel_size=(7, 1), padding=(3, 0))
        self.branch7x7x3_4 = conv_block(192, 192, kernel_size=3, stride=2)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch3x3 = self.branch3x3_2(self.branch3x3_1(x))
        branch7x7x3 = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return [branch3x3, branch7x7x3, nn.functional.max_pool2d(x, kernel_size=3, stride=2)]


class InceptionE(Branches):
    """1x1, 3x3 and twice 3x3 as a row beside a column, and a mean over places: 2048 channels."""

    def __init__(self, in_channels: int, conv_block: Layer | None = None) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        row: dict[str, Any] = {"kernel_size": (1, 3), "padding": (0, 1)}
        column: dict[str, Any] = {"kernel_size": (3, 1), "padding": (1, 0)}
        self.branch1x1 = conv_block(in_channels, 320, kernel_size=1)
        self.branch3x3_1 = conv_block(in_channels, 384, kernel_size=1)
        self.branch3x3_2a = conv_block(384, 384, **row)
        self.branch3x3_2b = conv_block(384, 384, **column)
        self.branch3x3dbl_1 = conv_block(in_channels, 448, kernel_size=1)
        self.branch3x3dbl_2 = conv_block(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a = conv_block(384, 384, **row)
        self.branch3x3dbl_3b = conv_block(384, 384, **column)
        self.branch_pool = conv_block(in_channels, 192, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch1x1 = self.branch1x1(x)
        branch3x3 = self.branch3x3_1(x)
        branch3x3 = ops.cat([self.branch3x3_2a(branch3x3), self.branch3x3_2b(branch3x3)], 1)
        branch3x3dbl = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        branch3x3dbl = ops.cat([self.branch3x3dbl_3a(branch3x3dbl), self.branch3x3dbl_3b(branch3x3dbl)], 1)
        branch_pool = self.branch_pool(nn.functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [branch1x1, branch3x3, branch3x3dbl, branch_pool]


class InceptionAux(nn.Module):
    """A classifier of intermediate features: a mean over places, a 1x1 and a 5x5 convolution, and a linear layer."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Layer | None = None) -> None:
        super().__init__()
        conv_block = conv_block or BasicConv2d
        self.conv0 = conv_block(in_channels, 128, kernel_size=1)
        self.conv1 = conv_block(128, 768, kernel_size=5)
        self.conv1.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.conv0(nn.functional.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


def _prepare(weights: Any, kwargs: dict[str, Any]) -> Any:
    return prepare_auxiliary(kwargs, kwargs.get("aux_logits", True), ("AuxLogits",))


inception_v3, Inception_V3_Weights = builder_and_weights("inception_v3", __name__, Inception3, prepare=_prepare)
