"""Convolutions and poolings of the shapes that image models have, forward and backward apart.

Backward is with respect to image, filters and bias; where the image is a photograph (1 or 3 channels) only to filters and bias, as in a
model's first layer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS


@dataclass(frozen=True, slots=True)
class Convolution:
    name: str
    image: tuple[int, ...]  # batch, channels, and one to three sizes
    channels: int  # that come out
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    channels_last: bool = False
    transposed: bool = False

    def canonicalize(self, source: Source) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """Operands, those to differentiate by, and the function of ``torch`` and the operands."""
        form = source.torch.channels_last if self.channels_last else source.torch.contiguous_format
        image = source.normal(*self.image).contiguous(memory_format=form)
        rank = len(self.image) - 2
        outer, inner = (self.image[1], self.channels) if self.transposed else (self.channels, self.image[1])
        shape = (outer, inner // self.groups, *[self.kernel] * rank)
        filters = source.normal(*shape, scale=0.1).contiguous(memory_format=form)
        values = [image, filters, source.normal(self.channels)]
        settings = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        function = f"conv{'_transpose' if self.transposed else ''}{rank}d"

        def row(torch: ModuleType, image: Any, filters: Any, bias: Any) -> Any:
            return getattr(torch.nn.functional, function)(image, filters, bias, **settings)

        return values, values[1:] if self.image[1] <= 3 else values, row


@dataclass(frozen=True, slots=True)
class Pooling:
    name: str
    image: tuple[int, int, int, int]
    function: str
    arguments: tuple[Any, ...]

    def canonicalize(self, source: Source) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """As for a convolution."""
        values = [source.normal(*self.image)]
        return values, values, lambda torch, image: getattr(torch.nn.functional, self.function)(image, *self.arguments)


SHAPES: list[Convolution | Pooling] = [
    Convolution("3x3, 64 channels, 16x16", (32, 64, 16, 16), 64, 3, padding=1),
    Convolution("3x3, 64 channels, 56x56", (8, 64, 56, 56), 64, 3, padding=1),
    Convolution("3x3, 256 channels, 14x14", (8, 256, 14, 14), 256, 3, padding=1),
    Convolution("3x3, 16 channels, 32x32", (32, 16, 32, 32), 16, 3, padding=1),
    Convolution("3x3, stride 2, 64 to 128", (16, 64, 32, 32), 128, 3, stride=2, padding=1),
    Convolution("1x1, 64 to 256", (8, 64, 56, 56), 256, 1),
    Convolution("1x1, stride 2, 256 to 512", (8, 256, 28, 28), 512, 1, stride=2),
    Convolution("7x7, stride 2, 3 to 64, 224x224", (4, 3, 224, 224), 64, 7, stride=2, padding=3),
    Convolution("5x5, 1 to 6, 28x28 (LeNet)", (64, 1, 28, 28), 6, 5, padding=2),
    Convolution("5x5, 6 to 16, 14x14 (LeNet)", (64, 6, 14, 14), 16, 5),
    Convolution("3x3, depthwise, 128 channels", (16, 128, 28, 28), 128, 3, padding=1, groups=128),
    Convolution("3x3, 8 groups, 128 channels", (16, 128, 28, 28), 128, 3, padding=1, groups=8),
    Convolution("3x3, dilation 2, 64 channels", (8, 64, 32, 32), 64, 3, padding=2, dilation=2),
    Convolution("3x3, batch 1, 64 channels, 28x28", (1, 64, 28, 28), 64, 3, padding=1),
    Convolution("3x3, channels last, 64 channels, 28x28", (16, 64, 28, 28), 64, 3, padding=1, channels_last=True),
    Convolution("1x1, 256 to 64", (8, 256, 56, 56), 64, 1),
    Convolution("1x1, channels last, 256 to 64", (8, 256, 28, 28), 64, 1, channels_last=True),
    Convolution("3x3, batch 1, 512 channels, 7x7", (1, 512, 7, 7), 512, 3, padding=1),
    Convolution("3x3, 512 channels, 7x7", (16, 512, 7, 7), 512, 3, padding=1),
    Convolution("3x3, stride 2, batch 1, 256 to 512", (1, 256, 14, 14), 512, 3, stride=2, padding=1),
    Convolution("7x7, stride 2, batch 1, 3 to 64, 224x224", (1, 3, 224, 224), 64, 7, stride=2, padding=3),
    Convolution("transposed, 4x4, stride 2, 64 to 32", (8, 64, 28, 28), 32, 4, stride=2, padding=1, transposed=True),
    Convolution("transposed, 3x3, 64 channels", (8, 64, 28, 28), 64, 3, padding=1, transposed=True),
    Convolution("1-d, 3, 64 channels", (16, 64, 1000), 64, 3, padding=1),
    Convolution("1-d, 10, stride 5, 1 to 512", (2, 1, 16000), 512, 10, stride=5),
    Convolution("3-d, 3x3x3, 16 channels", (2, 16, 16, 16, 16), 16, 3, padding=1),
    Convolution("3-d, 3x3x3, 32 channels", (2, 32, 8, 28, 28), 32, 3, padding=1),
    Pooling("max_pool2d, 3x3, stride 2, padding 1", (8, 64, 112, 112), "max_pool2d", (3, 2, 1)),
    Pooling("max_pool2d, 2x2 (LeNet)", (64, 6, 28, 28), "max_pool2d", (2,)),
    Pooling("avg_pool2d, 2x2", (16, 64, 56, 56), "avg_pool2d", (2,)),
    Pooling("adaptive_avg_pool2d, to 1x1", (32, 256, 14, 14), "adaptive_avg_pool2d", (1,)),
    Pooling("adaptive_avg_pool2d, to 7x7", (8, 256, 28, 28), "adaptive_avg_pool2d", (7,)),
]


def builder(shape: Convolution | Pooling, back: bool) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        values, differentiated, row = shape.canonicalize(source)
        return comparison.backward(row, torch, values, differentiated, source) if back else comparison.forward(row, torch, values)

    return build


CASES = [
    Case(shape.name, f"{kind}, {direction}", builder(shape, direction == "backward"))
    for kind, form in (("convolution", Convolution), ("pooling", Pooling))
    for direction in ("forward", "backward")
    for shape in SHAPES
    if isinstance(shape, form)
]


def main(options: argparse.Namespace) -> int:
    return comparison.report(__name__, CASES, options)
