"""Transforms that the models' weights prescribe for images before the model sees them."""

from __future__ import annotations

from typing import Any

from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...nn import Module
from . import functional as F
from ._kernels.modes import InterpolationMode

__all__ = ["ImageClassification", "ObjectDetection", "OpticalFlow", "SemanticSegmentation", "VideoClassification"]

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet
_INPUTS = "Accepts ``PIL.Image``, batched ``(B, C, H, W)`` and single ``(C, H, W)`` image ``torch.Tensor`` objects."


def _floating(img: Any) -> Tensor:
    """``img`` as a tensor with values from 0 to 1."""
    return F.convert_image_dtype(img if isinstance(img, Tensor) else F.pil_to_tensor(img), dtypes.float32)


class _Preset(Module):
    """Shows ``shown`` of its attributes."""

    shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        if not self.shown:
            return f"{type(self).__name__}()"
        return "\n".join([f"{type(self).__name__}(", *[f"    {name}={getattr(self, name)}" for name in self.shown], ")"])

    def _normalizing(self) -> str:
        return (
            f"Finally the values are first rescaled to ``[0.0, 1.0]`` and then normalized using ``mean={self.mean}`` and "
            f"``std={self.std}``."
        )

    def _resizing(self) -> str:
        return f"resized to ``resize_size={self.resize_size}`` using ``interpolation={self.interpolation}``"


class ObjectDetection(_Preset):
    """Values from 0 to 1, in images of any size."""

    def forward(self, img: Any) -> Tensor:
        return _floating(img)

    def describe(self) -> str:
        return f"{_INPUTS} The images are rescaled to ``[0.0, 1.0]``."


class ImageClassification(_Preset):
    """Resized, cut out in the middle, normalised."""

    shown = ("crop_size", "resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = _MEAN,
        std: tuple[float, ...] = _STD,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ):
        super().__init__()
        self.crop_size = [crop_size]
        self.resize_size = [resize_size]
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        return F.normalize(_floating(F.center_crop(img, self.crop_size)), self.mean, self.std)

    def describe(self) -> str:
        return (
            f"{_INPUTS} The images are {self._resizing()}, followed by a central crop of ``crop_size={self.crop_size}``. "
            f"{self._normalizing()}"
        )


class VideoClassification(_Preset):
    """``(..., T, C, H, W)`` resized, cut out in the middle, normalised: ``(..., C, T, H, W)``."""

    shown = ("crop_size", "resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        crop_size: tuple[int, int],
        resize_size: tuple[int, ...],
        mean: tuple[float, ...] = (0.43216, 0.394666, 0.37645),
        std: tuple[float, ...] = (0.22803, 0.22145, 0.216989),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    ):
        super().__init__()
        self.crop_size = list(crop_size)
        self.resize_size = list(resize_size)
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation

    def forward(self, vid: Tensor) -> Tensor:
        frames = vid.reshape(-1, *vid.shape[-3:])
        frames = F.resize(frames, self.resize_size, interpolation=self.interpolation, antialias=False)
        frames = F.normalize(_floating(F.center_crop(frames, self.crop_size)), self.mean, self.std)
        return frames.view(*vid.shape[:-2], *frames.shape[-2:]).transpose(-4, -3)

    def describe(self) -> str:
        return (
            "Accepts batched ``(B, T, C, H, W)`` and single ``(T, C, H, W)`` video frame ``torch.Tensor`` objects. The frames are "
            f"{self._resizing()}, followed by a central crop of ``crop_size={self.crop_size}``. {self._normalizing()} "
            "Finally the output dimensions are permuted to ``(..., C, T, H, W)`` tensors."
        )


class SemanticSegmentation(_Preset):
    """Resized if a size is told, normalised."""

    shown = ("resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        resize_size: int | None,
        mean: tuple[float, ...] = _MEAN,
        std: tuple[float, ...] = _STD,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ):
        super().__init__()
        self.resize_size = None if resize_size is None else [resize_size]
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        if self.resize_size is not None:
            img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        return F.normalize(_floating(img), self.mean, self.std)

    def describe(self) -> str:
        return f"{_INPUTS} The images are {self._resizing()}. {self._normalizing()}"


class OpticalFlow(_Preset):
    """Two images with values from -1 to 1."""

    def forward(self, img1: Any, img2: Any) -> tuple[Tensor, Tensor]:
        first, second = [F.normalize(_floating(img), [0.5] * 3, [0.5] * 3).contiguous() for img in (img1, img2)]
        return first, second

    def describe(self) -> str:
        return f"{_INPUTS} The images are rescaled to ``[-1.0, 1.0]``."
