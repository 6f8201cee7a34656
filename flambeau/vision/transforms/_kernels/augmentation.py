"""Learned and random policies of augmentation: their operations, how strong these are, and which pairs AutoAugment found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .... import ops
from ....core.tensor import Tensor
from . import draws
from .conversion import max_value, to_pil_image
from .pil import pil_to_tensor

SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness")
_MAPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_ENHANCING = ("Brightness", "Color", "Contrast", "Sharpness")
_REST = ("Posterize", "Solarize", "AutoContrast", "Equalize")


@dataclass(frozen=True, slots=True)
class Space:
    """The operations to choose from, and the largest magnitude of each; ``posterize`` goes from 8 or 4 bits down by the second number."""

    names: tuple[str, ...]
    shear: float
    translate: Callable[[int], float]
    rotate: float
    enhance: float
    posterize: tuple[int, int]

    def magnitudes(self, name: str, bins: int, size: Sequence[int], white: float) -> Tensor | None:
        """``bins`` magnitudes for an image of ``size``, ``(height, width)``, weakest first; None for what has none."""
        if name.startswith("Shear"):
            return ops.linspace(0.0, self.shear, bins)
        if name.startswith("Translate"):
            return ops.linspace(0.0, self.translate(size[name == "TranslateX"]), bins)
        if name == "Rotate":
            return ops.linspace(0.0, self.rotate, bins)
        if name in _ENHANCING:
            return ops.linspace(0.0, self.enhance, bins)
        if name == "Posterize":
            bits, fewer = self.posterize
            return bits - (ops.arange(bins) / ((bins - 1) / fewer)).round().int()
        return ops.linspace(white, 0.0, bins) if name == "Solarize" else None


def _share(size: int) -> float:
    return 150.0 / 331.0 * size  # 150 pixels of the 331 that AutoAugment was found with


AUTO = Space((*_MAPS, *_ENHANCING, *_REST, "Invert"), 0.3, _share, 30.0, 0.9, (8, 4))
RAND = Space(("Identity", *_MAPS, *_ENHANCING, *_REST), 0.3, _share, 30.0, 0.9, (8, 4))
TRIVIAL_WIDE = Space(("Identity", *_MAPS, *_ENHANCING, *_REST), 0.99, lambda size: 32.0, 135.0, 0.99, (8, 6))
MIX = Space((*_MAPS, *_REST, *_ENHANCING), 0.3, lambda size: size / 3.0, 30.0, 0.9, (4, 4))
MIX_WITHOUT_ENHANCING = Space((*_MAPS, *_REST), 0.3, lambda size: size / 3.0, 30.0, 0.9, (4, 4))


def _affine(F: Any, image: Any, interpolation: Any, fill: Any, shear: Any = (0.0, 0.0), translate: Any = (0, 0), center: Any = None) -> Any:
    return F.affine(image, 0.0, list(translate), 1.0, list(shear), interpolation, fill, center)


def _degrees(slope: float) -> float:
    return math.degrees(math.atan(slope))


_APPLIED: dict[str, Callable[[Any, Any, float, Any, Any], Any]] = {
    "Identity": lambda F, image, magnitude, mode, fill: image,
    "ShearX": lambda F, image, magnitude, mode, fill: _affine(F, image, mode, fill, shear=(_degrees(magnitude), 0.0), center=[0, 0]),
    "ShearY": lambda F, image, magnitude, mode, fill: _affine(F, image, mode, fill, shear=(0.0, _degrees(magnitude)), center=[0, 0]),
    "TranslateX": lambda F, image, magnitude, mode, fill: _affine(F, image, mode, fill, translate=(int(magnitude), 0)),
    "TranslateY": lambda F, image, magnitude, mode, fill: _affine(F, image, mode, fill, translate=(0, int(magnitude))),
    "Rotate": lambda F, image, magnitude, mode, fill: F.rotate(image, magnitude, mode, fill=fill),
    "Brightness": lambda F, image, magnitude, mode, fill: F.adjust_brightness(image, 1.0 + magnitude),
    "Color": lambda F, image, magnitude, mode, fill: F.adjust_saturation(image, 1.0 + magnitude),
    "Contrast": lambda F, image, magnitude, mode, fill: F.adjust_contrast(image, 1.0 + magnitude),
    "Sharpness": lambda F, image, magnitude, mode, fill: F.adjust_sharpness(image, 1.0 + magnitude),
    "Posterize": lambda F, image, magnitude, mode, fill: F.posterize(image, int(magnitude)),
    "Solarize": lambda F, image, magnitude, mode, fill: F.solarize(image, magnitude),
    "AutoContrast": lambda F, image, magnitude, mode, fill: F.autocontrast(image),
    "Equalize": lambda F, image, magnitude, mode, fill: F.equalize(image),
    "Invert": lambda F, image, magnitude, mode, fill: F.invert(image),
}


def applied(functions: Any, name: str, image: Any, magnitude: float, interpolation: Any, fill: Any) -> Any:
    """``image`` after the operation ``name`` of this strength; ``functions`` is the module of the classic functions or of v2's."""
    return _APPLIED[name](functions, image, magnitude, interpolation, fill)


def white_of(image: Any) -> float:
    return max_value(image.dtype) if isinstance(image, Tensor) else 255.0


def mixed(image: Any, mixture_width: int, chain_depth: int, alpha: float, frame_dims: int, augmented: Callable[[Tensor], Tensor]) -> Any:
    """``image`` and chains of ``augmented`` images, in proportions from Dirichlet distributions. Hendrycks et al. 2020, "AugMix"."""
    pixels = image if isinstance(image, Tensor) else pil_to_tensor(image)
    batch = pixels.reshape(*(1,) * max(frame_dims - pixels.ndim, 0), *pixels.shape)
    count = batch.shape[0]
    per_image = (count, *(1,) * (batch.ndim - 1))
    kept, rest = ops._sample_dirichlet(ops.full((2,), float(alpha), device=batch.device).expand(count, -1)).unbind(1)
    weights = ops._sample_dirichlet(ops.full((mixture_width,), float(alpha), device=batch.device).expand(count, -1)) * rest.unsqueeze(1)
    total = kept.reshape(per_image) * batch
    for weight in weights.unbind(1):
        chained = batch
        for _ in range(chain_depth if chain_depth > 0 else draws.whole(1, 4)):
            chained = augmented(chained)
        total.add_(weight.reshape(per_image) * chained)
    result = total.reshape(pixels.shape).to(pixels.dtype)
    return result if isinstance(image, Tensor) else to_pil_image(result)


# -- policies ----------------------------------------------------------------------------------------------------------------------------
class AutoAugmentPolicy(Enum):
    """The data set for which a policy was found. Source: torchvision.transforms.AutoAugmentPolicy. Cubuk et al. 2018, "AutoAugment"."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


Step = tuple[str, float, int | None]  # operation, probability, magnitude

# A line is a pair of steps: operation, probability, and where it has one the magnitude from 0 to 9 (tables 7 to 9 of the paper).
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize 0.4 8, Rotate 0.6 9
        Solarize 0.6 5, AutoContrast 0.6
        Equalize 0.8, Equalize 0.6
        Posterize 0.6 7, Posterize 0.6 6
        Equalize 0.4, Solarize 0.2 4
        Equalize 0.4, Rotate 0.8 8
        Solarize 0.6 3, Equalize 0.6
        Posterize 0.8 5, Equalize 1
        Rotate 0.2 3, Solarize 0.6 8
        Equalize 0.6, Posterize 0.4 6
        Rotate 0.8 8, Color 0.4 0
        Rotate 0.4 9, Equalize 0.6
        Equalize 0, Equalize 0.8
        Invert 0.6, Equalize 1
        Color 0.6 4, Contrast 1 8
        Rotate 0.8 8, Color 1 2
        Color 0.8 8, Solarize 0.8 7
        Sharpness 0.4 7, Invert 0.6
        ShearX 0.6 5, Equalize 1
        Color 0.4 0, Equalize 0.6
        Equalize 0.4, Solarize 0.2 4
        Solarize 0.6 5, AutoContrast 0.6
        Invert 0.6, Equalize 1
        Color 0.6 4, Contrast 1 8
        Equalize 0.8, Equalize 0.6
    """,
    AutoAugmentPolicy.CIFAR10: """
        Invert 0.1, Contrast 0.2 6
        Rotate 0.7 2, TranslateX 0.3 9
        Sharpness 0.8 1, Sharpness 0.9 3
        ShearY 0.5 8, TranslateY 0.7 9
        AutoContrast 0.5, Equalize 0.9
        ShearY 0.2 7, Posterize 0.3 7
        Color 0.4 3, Brightness 0.6 7
        Sharpness 0.3 9, Brightness 0.7 9
        Equalize 0.6, Equalize 0.5
        Contrast 0.6 7, Sharpness 0.6 5
        Color 0.7 7, TranslateX 0.5 8
        Equalize 0.3, AutoContrast 0.4
        TranslateY 0.4 3, Sharpness 0.2 6
        Brightness 0.9 6, Color 0.2 8
        Solarize 0.5 2, Invert 0
        Equalize 0.2, AutoContrast 0.6
        Equalize 0.2, Equalize 0.6
        Color 0.9 9, Equalize 0.6
        AutoContrast 0.8, Solarize 0.2 8
        Brightness 0.1 3, Color 0.7 0
        Solarize 0.4 5, AutoContrast 0.9
        TranslateY 0.9 9, TranslateY 0.7 9
        AutoContrast 0.9, Solarize 0.8 3
        Equalize 0.8, Invert 0.1
        TranslateY 0.7 9, AutoContrast 0.9
    """,
    AutoAugmentPolicy.SVHN: """
        ShearX 0.9 4, Invert 0.2
        ShearY 0.9 8, Invert 0.7
        Equalize 0.6, Solarize 0.6 6
        Invert 0.9, Equalize 0.6
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, AutoContrast 0.8
        ShearY 0.9 8, Invert 0.4
        ShearY 0.9 5, Solarize 0.2 6
        Invert 0.9, AutoContrast 0.8
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, Solarize 0.3 3
        ShearY 0.8 8, Invert 0.7
        Equalize 0.9, TranslateY 0.6 6
        Invert 0.9, Equalize 0.6
        Contrast 0.3 3, Rotate 0.8 4
        Invert 0.8, TranslateY 0 2
        ShearY 0.7 6, Solarize 0.4 8
        Invert 0.6, Rotate 0.8 4
        ShearY 0.3 7, TranslateX 0.9 3
        ShearX 0.1 6, Invert 0.6
        Solarize 0.7 2, TranslateY 0.6 7
        ShearY 0.8 4, Invert 0.8
        ShearX 0.7 9, TranslateY 0.8 3
        ShearY 0.8 5, AutoContrast 0.7
        ShearX 0.7 2, Invert 0.1
    """,
}


def policies_of(policy: Any) -> list[tuple[Step, Step]]:
    """The pairs of steps of which AutoAugment takes one."""
    if policy not in _POLICIES:
        raise ValueError(f"The provided policy {policy} is not recognized.")

    def step(words: str) -> Step:
        name, probability, *magnitude = words.split()
        return name, float(probability), int(magnitude[0]) if magnitude else None

    lines = [line.split(",") for line in _POLICIES[policy].strip().splitlines()]
    return [(step(first), step(second)) for first, second in lines]
