"""S3D: Inception over videos, its convolutions separated into space and time."""

from __future__ import annotations

from functools import partial
from typing import Any

from .... import nn, ops
from ....core.tensor import Tensor
from ...ops.misc import Conv3dNormActivation
from .._builders import Layer, builder_and_weights
from ..googlenet import INCEPTIONS

__all__ = ["S3D", "S3D_Weights", "s3d"]


POOLED_AFTER = {"inception3b": (3, 1), "inception4e": (2, 0)}  # size and padding


class TemporalSeparableConv(nn.Sequential):
    """A convolution over each frame, then one over time, each with norm and ReLU.

    Args:
        in_planes: channels of the input.
        out_planes: channels of the result.
        kernel_size, stride, padding: along each axis.
        norm_layer: normalisation.
    Source: torchvision.models.video.s3d.TemporalSeparableConv.
    """

    def __init__(self, in_planes: int, out_planes: int, kernel_size: int, stride: int, padding: int, norm_layer: Layer) -> None:
        frames: Any = {"kernel_size": (1, kernel_size, kernel_size), "stride": (1, stride, stride), "padding": (0, padding, padding)}
        times: Any = {"kernel_size": (kernel_size, 1, 1), "stride": (stride, 1, 1), "padding": (padding, 0, 0)}
        convolution = partial(Conv3dNormActivation, bias=False, norm_layer=norm_layer)
        super().__init__(convolution(in_planes, out_planes, **frames), convolution(out_planes, out_planes, **times))


class SepInceptionBlock3D(nn.Module):
    """Four branches beside each other: one pixel, two separated convolutions, and pooling.

    Args:
        in_planes: channels of the input.
        b0_out, b1_mid, b1_out, b2_mid, b2_out, b3_out: channels of the branches.
        norm_layer: normalisation.
    Source: torchvision.models.video.s3d.SepInceptionBlock3D. Xie et al. 2018, figure 7.
    """

    def __init__(
        self, in_planes: int, b0_out: int, b1_mid: int, b1_out: int, b2_mid: int, b2_out: int, b3_out: int, norm_layer: Layer
    ) -> None:
        super().__init__()
        point = partial(Conv3dNormActivation, kernel_size=1, stride=1, norm_layer=norm_layer)
        wide = partial(TemporalSeparableConv, kernel_size=3, stride=1, padding=1, norm_layer=norm_layer)
        self.branch0 = point(in_planes, b0_out)
        self.branch1 = nn.Sequential(point(in_planes, b1_mid), wide(b1_mid, b1_out))
        self.branch2 = nn.Sequential(point(in_planes, b2_mid), wide(b2_mid, b2_out))
        self.branch3 = nn.Sequential(nn.MaxPool3d(kernel_size=(3, 3, 3), stride=1, padding=1), point(in_planes, b3_out))

    def forward(self, x: Tensor) -> Tensor:
        return ops.cat((self.branch0(x), self.branch1(x), self.branch2(x), self.branch3(x)), 1)


class S3D(nn.Module):
    """S3D.

    Args:
        num_classes: features of the result.
        dropout: probability before the classifier.
        norm_layer: normalisation; batch norms with an epsilon and a momentum of 0.001 when None.
    Shape:
        ``(N, 3, T, H, W)``, at least 14 frames of 224 by 224, to ``(N, num_classes)``.
    Source: torchvision.models.video.S3D. Xie et al. 2018, "Rethinking spatiotemporal feature learning".
    Example:
        >>> with torch.device('meta'):
        ...     model = S3D(num_classes=10)
        >>> model(torch.empty(1, 3, 16, 224, 224, device='meta')).shape
        torch.Size([1, 10])
    """

    def __init__(self, num_classes: int = 400, dropout: float = 0.2, norm_layer: Layer | None = None) -> None:
        super().__init__()
        norm = partial(nn.BatchNorm3d, eps=0.001, momentum=0.001) if norm_layer is None else norm_layer
        space = partial(nn.MaxPool3d, kernel_size=(1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1))
        layers: list[nn.Module] = [
            *(TemporalSeparableConv(3, 64, 7, 2, 3, norm), space()),
            Conv3dNormActivation(64, 64, kernel_size=1, stride=1, norm_layer=norm),
            *(TemporalSeparableConv(64, 192, 3, 1, 1, norm), space()),
        ]
        block = partial(SepInceptionBlock3D, norm_layer=norm)
        for name, channels in INCEPTIONS.items():
            layers.append(block(*channels))
            if name in POOLED_AFTER:
                size, padding = POOLED_AFTER[name]
                layers.append(nn.MaxPool3d(kernel_size=(size,) * 3, stride=(2, 2, 2), padding=(padding,) * 3))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AvgPool3d(kernel_size=(2, 7, 7), stride=1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Conv3d(1024, num_classes, kernel_size=1, stride=1, bias=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x))).mean(dim=(2, 3, 4))


s3d, S3D_Weights = builder_and_weights("s3d", __name__, S3D, pretrained="KINETICS400_V1")
