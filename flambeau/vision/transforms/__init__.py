"""Transforms of images: the classic ones here, those of images, videos, masks, boxes and points in :mod:`.v2`.

What is random is drawn as torchvision draws it, from PyTorch's generator; the classic ``RandomOrder`` and ``RandomChoice`` from Python's
``random``. After the same seed Pillow gives the same pixels for PIL images; of tensors, bytes differ by a level at most and floating point
by 1e-5. Tensors of bytes are resized as Pillow does it, with whole numbers: in :mod:`.v2` to the bytes that PyTorch gives; classic
torchvision goes by way of floating point, which can be a level apart.
"""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from . import functional
from .autoaugment import AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from .transforms import *
from .transforms import RandomTransforms as RandomTransforms, __all__ as _names

_late.adopt(__name__)

__all__ = [*_names, "AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide", "functional"]


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, ("v2", "_presets"))
