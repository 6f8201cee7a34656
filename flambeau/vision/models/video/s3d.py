"""S3D: Inception over videos, its convolutions separated into space and time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .... import nn, ops
from ....core.tensor import Tensor
from ...ops.misc import Conv3dNormActivation
from .._builders import builder_and_weights

__all__ = ["S3D", "S3D_Weights", "s3d"]

Norm = Callable[..., Any]


class TemporalSeparableConv(nn.Sequential):
    """A convolution over each frame, then one over time, each with norm and ReLU.

    Args:
        in_planes: channels of the input.
        out_planes: channels of the result.
        kernel_size, stride, padding: along each axis.
        norm_layer: normalisation.
    Source: torchvision.models.video.s3d.TemporalSeparableConv.
    """

    def __init__(self, in_planes: int, out_planes: int, kernel_size: int, stride: int, padding: int, norm_layer: Norm) -> None:
        super().__init__(
            Conv3dNormActivation(
                *(in_planes, out_planes),
                kernel_size=(1, kernel_size, kernel_size),
                stride=(1, stride, stride),
                padding=(0, padding, padding),
                bias=False,
                norm_layer=norm_layer,
            ),
            Conv3dNormActivation(
                *(out_planes, out_planes),
                kernel_size=(kernel_size, 1, 1),
                stride=(stride, 1, 1),
                padding=(padding, 0, 0),
                bias=False,
                norm_layer=norm_layer,
            ),
        )


class SepInceptionBlock3D(nn.Module):
    """Four branches beside each other: one pixel, two separated convolutions, and pooling.

    Args:
        in_planes: channels of the input.
        b0_out, b1_mid, b1_out, b2_mid, b2_out, b3_out: channels of the branches.
        norm_layer: normalisation.
    Source: torchvision.models.video.s3d.SepInceptionBlock3D. Xie et al. 2018, figure 7.
    """

    def __init__(
        self, in_planes: int, b0_out: int, b1_mid: int, b1_out: int, b2_mid: int, b2_out: int, b3_out: int, norm_layer: Norm
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

    def __init__(self, num_classes: int = 400, dropout: float = 0.2, norm_layer: Norm | None = None) -> None:
        super().__init__()
        norm = partial(nn.BatchNorm3d, eps=0.001, momentum=0.001) if norm_layer is None else norm_layer
        space = partial(nn.MaxPool3d, kernel_size=(1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1))
        self.features = nn.Sequential(
            TemporalSeparableConv(3, 64, 7, 2, 3, norm),
            space(),
            Conv3dNormActivation(64, 64, kernel_size=1, stride=1, norm_layer=norm),
            TemporalSeparableConv(64, 192, 3, 1, 1, norm),
            space(),
            SepInceptionBlock3D(192, 64, 96, 128, 16, 32, 32, norm),
            SepInceptionBlock3D(256, 128, 128, 192, 32, 96, 64, norm),
            nn.MaxPool3d(kernel_size=(3, 3, 3), stride=(2, 2, 2), padding=(1, 1, 1)),
            SepInceptionBlock3D(480, 192, 96, 208, 16, 48, 64, norm),
            SepInceptionBlock3D(512, 160, 112, 224, 24, 64, 64, norm),
            SepInceptionBlock3D(512, 128, 128, 256, 24, 64, 64, norm),
            SepInceptionBlock3D(512, 112, 144, 288, 32, 64, 64, norm),
            SepInceptionBlock3D(528, 256, 160, 320, 32, 128, 128, norm),
            nn.MaxPool3d(kernel_size=(2, 2, 2), stride=(2, 2, 2), padding=(0, 0, 0)),
            SepInceptionBlock3D(832, 256, 160, 320, 32, 128, 128, norm),
            SepInceptionBlock3D(832, 384, 192, 384, 48, 128, 128, norm),
        )
        self.avgpool = nn.AvgPool3d(kernel_size=(2, 7, 7), stride=1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Conv3d(1024, num_classes, kernel_size=1, stride=1, bias=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x))).mean(dim=(2, 3, 4))


s3d, S3D_Weights = builder_and_weights("s3d", __name__, S3D, pretrained="KINETICS400_V1")
