"""The cases of test_transforms.py: how a transform is made, what it is given, and how far a result may be from the oracle's.

A case is written once and runs through both libraries: ``make`` gets the module of transforms and its library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

KINDS = ("rgb", "grey", "bytes", "floats", "batch")


@dataclass(frozen=True)
class Case:
    """``seeds`` is how often it runs, each time with another seed."""

    name: str
    make: Callable[[Any, Any], Any]
    kinds: Sequence[str] = KINDS
    seeds: int = 1


def sample(kind: str, library: Any) -> Any:
    """An image with smooth parts, edges and noise, the same for both libraries."""
    rows, columns = np.mgrid[0:19, 0:26]
    noise = np.random.default_rng(7).integers(0, 60, (19, 26, 3))
    planes = np.stack([9 * rows, 7 * columns, 120 * ((rows - columns) % 11 < 5)], -1)
    pixels = (planes + noise).clip(3, 250).astype(np.uint8)
    if kind == "rgb":
        return Image.fromarray(pixels)
    if kind == "grey":
        return Image.fromarray(np.ascontiguousarray(pixels[..., 0]))
    tensor = library.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
    if kind == "batch":
        return library.stack([tensor, tensor.flip(-1)])
    return tensor.float() / 255 if kind == "floats" else tensor


TENSORS, PICTURES, COLOURED = ("bytes", "floats", "batch"), ("rgb", "grey"), ("rgb", "bytes", "floats", "batch")
BYTES = ("rgb", "grey", "bytes", "batch")


def mode(T: Any, name: str) -> Any:
    return T.InterpolationMode[name]


# Both the classic and the v2 form have these.
SHARED = [
    Case("resize", lambda T, t: T.Resize(12)),
    Case("resize both", lambda T, t: T.Resize((31, 9), antialias=True)),
    Case("resize at most", lambda T, t: T.Resize(12, max_size=14)),
    Case("resize bicubic", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "BICUBIC"))),
    Case("resize nearest", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "NEAREST"))),
    Case("resize exact", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "NEAREST_EXACT"))),
    Case("resize sharp", lambda T, t: T.Resize((8, 11), antialias=False), TENSORS),
    Case("resize box", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "BOX")), PICTURES),
    Case("center crop", lambda T, t: T.CenterCrop((8, 11))),
    Case("center crop beyond", lambda T, t: T.CenterCrop((30, 11))),
    Case("five crop", lambda T, t: T.FiveCrop(9)),
    Case("ten crop", lambda T, t: T.TenCrop((9, 4), vertical_flip=True)),
    Case("pad", lambda T, t: T.Pad((3, 2), fill=7)),
    Case("pad edge", lambda T, t: T.Pad((3, 2, 0, 1), padding_mode="edge")),
    Case("pad reflect", lambda T, t: T.Pad(4, padding_mode="reflect")),
    Case("pad symmetric", lambda T, t: T.Pad((4, 1), padding_mode="symmetric")),
    Case("pad colour", lambda T, t: T.Pad(2, fill=(1, 2, 3)), ("rgb",)),
    Case("random crop", lambda T, t: T.RandomCrop(11), seeds=2),
    Case("random crop padded", lambda T, t: T.RandomCrop((11, 8), padding=3, fill=2)),
    Case("random crop if needed", lambda T, t: T.RandomCrop((25, 20), pad_if_needed=True, padding_mode="edge")),
    Case("random resized crop", lambda T, t: T.RandomResizedCrop(10), seeds=2),
    Case("random resized crop, no window fits", lambda T, t: T.RandomResizedCrop((10, 12), scale=(3.0, 4.0), ratio=(4.0, 5.0))),
    Case("flip", lambda T, t: T.RandomHorizontalFlip(), seeds=3),
    Case("vertical flip", lambda T, t: T.RandomVerticalFlip(0.9)),
    Case("rotation", lambda T, t: T.RandomRotation(40), seeds=2),
    Case("rotation expanded", lambda T, t: T.RandomRotation((20, 70), mode(T, "BILINEAR"), expand=True, fill=1)),
    Case("rotation about a corner", lambda T, t: T.RandomRotation(40, mode(T, "BILINEAR"), center=(0, 3))),
    Case("affine", lambda T, t: T.RandomAffine(30, translate=(0.2, 0.1), scale=(0.7, 1.4), shear=(-9, 9, -5, 5), fill=9), seeds=2),
    Case("affine smooth", lambda T, t: T.RandomAffine(0, shear=11, interpolation=mode(T, "BILINEAR"), center=(4, 5))),
    Case("perspective", lambda T, t: T.RandomPerspective(0.6, p=1.0, fill=1), seeds=2),
    Case("perspective nearest", lambda T, t: T.RandomPerspective(p=0.9, interpolation=mode(T, "NEAREST"))),
    Case("elastic", lambda T, t: T.ElasticTransform(alpha=60.0, sigma=1.5, fill=1)),
    Case("jitter", lambda T, t: T.ColorJitter(0.4, 0.5, 0.6, 0.2), seeds=3),
    Case("jitter brightness", lambda T, t: T.ColorJitter(brightness=(0.5, 2.0))),
    Case("jitter hue", lambda T, t: T.ColorJitter(hue=0.5)),
    Case("grey", lambda T, t: T.Grayscale(3), COLOURED),
    Case("grey alone", lambda T, t: T.Grayscale(), COLOURED),
    Case("random grey", lambda T, t: T.RandomGrayscale(0.5), seeds=2),
    Case("invert", lambda T, t: T.RandomInvert(), seeds=2),
    Case("posterize", lambda T, t: T.RandomPosterize(3, p=1.0), BYTES),
    Case("solarize", lambda T, t: T.RandomSolarize(100, p=1.0), BYTES),
    Case("solarize floats", lambda T, t: T.RandomSolarize(0.4, p=1.0), ("floats",)),
    Case("sharper", lambda T, t: T.RandomAdjustSharpness(2.5, p=1.0)),
    Case("smoother", lambda T, t: T.RandomAdjustSharpness(0.0, p=1.0)),
    Case("autocontrast", lambda T, t: T.RandomAutocontrast(p=1.0)),
    Case("equalize", lambda T, t: T.RandomEqualize(p=1.0), BYTES),
    Case("blur", lambda T, t: T.GaussianBlur((5, 3), (0.3, 1.7)), seeds=2),
    Case("normalize", lambda T, t: T.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)), ("floats",)),
    Case("erasing", lambda T, t: T.RandomErasing(p=0.9), TENSORS, seeds=2),
    Case("erasing, random values", lambda T, t: T.RandomErasing(p=1.0, value="random"), ("floats",)),
    Case("erasing, colours", lambda T, t: T.RandomErasing(p=1.0, scale=(0.3, 0.4), value=(1, 2, 3)), TENSORS),
    Case("to bytes", lambda T, t: T.ConvertImageDtype(t.uint8), TENSORS),
    Case("to floats", lambda T, t: T.ConvertImageDtype(t.float64), TENSORS),
    Case("to shorts", lambda T, t: T.ConvertImageDtype(t.int16), TENSORS),
    Case("pil to tensor", lambda T, t: T.PILToTensor(), PICTURES),
    Case("to picture", lambda T, t: T.ToPILImage(), ("bytes", "floats")),
    Case("whitened", lambda T, t: T.LinearTransformation(t.eye(12) * 2, t.arange(12.0)), ("tiny",)),
    Case("auto augment", lambda T, t: T.AutoAugment(), BYTES, seeds=8),
    Case("auto augment cifar", lambda T, t: T.AutoAugment(T.AutoAugmentPolicy.CIFAR10, fill=5), BYTES, seeds=4),
    Case("auto augment svhn", lambda T, t: T.AutoAugment(T.AutoAugmentPolicy.SVHN), BYTES, seeds=4),
    Case("rand augment", lambda T, t: T.RandAugment(), BYTES, seeds=8),
    Case("trivial augment", lambda T, t: T.TrivialAugmentWide(fill=3), BYTES, seeds=8),
    Case("aug mix", lambda T, t: T.AugMix(), BYTES, seeds=4),
    Case("compose", lambda T, t: T.Compose([T.Resize(15), T.RandomCrop(9), T.RandomHorizontalFlip()])),
    Case("random apply", lambda T, t: T.RandomApply([T.Pad(1), T.Resize(7)], p=0.6), seeds=2),
    Case("random order", lambda T, t: T.RandomOrder([T.Pad(1), T.Resize(7), T.CenterCrop(6)]), seeds=2),
    Case("random choice", lambda T, t: T.RandomChoice([T.Pad(1), T.Resize(7), T.CenterCrop(6)], p=[0.2, 0.5, 0.3]), seeds=2),
]
CLASSIC = [
    Case("to tensor", lambda T, t: T.ToTensor(), PICTURES),
    Case("lambda", lambda T, t: T.Lambda(lambda img: img)),
]
