"""Learned and random policies of augmentation: their operations, how strong these are, and which pairs AutoAugment found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
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
    """The data set for which a policy was found. Source: torchvision.transforms.AutoAugmentPolicy. Cubuk et al. 2018, "AutoAugment".

    Example:
        >>> AutoAugmentPolicy('svhn')
        <AutoAugmentPolicy.SVHN: 'svhn'>
    """

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


Step = tuple[str, float, int | None]  # operation, probability, and where it has one the magnitude from 0 to 9


@cache
def _policies() -> dict[str, list[list[Any]]]:
    """Pairs of steps, by the name of the data set (tables 7 to 9 of the paper)."""
    return json.loads((Path(__file__).parent / "policies.json").read_text(encoding="utf-8"))


def policies_of(policy: Any) -> list[tuple[Step, Step]]:
    """The pairs of steps of which AutoAugment takes one."""
    if not isinstance(policy, AutoAugmentPolicy):
        raise ValueError(f"The provided policy {policy} is not recognized.")
    return [(tuple(first), tuple(second)) for first, second in _policies()[policy.value]]
