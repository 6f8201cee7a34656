"""Transforms: the time an image takes, on PIL images and on tensors of bytes, beside torchvision's, and a batch's beside NumPy's."""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import add_arguments
from .measuring import Timed
from .report import write_section
from .vision import models_of

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = 1
HEIGHT, WIDTH = 375, 500  # of a usual photograph of ImageNet
BATCH = 16
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# name, what makes it, and whether it is for pictures of Pillow, tensors of bytes, or both
TRANSFORMS: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    ("ToTensor", lambda T, torch: T.ToTensor(), "picture"),
    ("ConvertImageDtype", lambda T, torch: T.ConvertImageDtype(torch.float32), "tensor"),
    ("Resize(224)", lambda T, torch: T.Resize(224), "both"),
    ("Resize(224), bicubic", lambda T, torch: T.Resize(224, interpolation=T.InterpolationMode.BICUBIC), "both"),
    ("Resize(224), nearest", lambda T, torch: T.Resize(224, interpolation=T.InterpolationMode.NEAREST), "both"),
    ("CenterCrop(224)", lambda T, torch: T.CenterCrop(224), "both"),
    ("RandomResizedCrop(224)", lambda T, torch: T.RandomResizedCrop(224), "both"),
    ("RandomHorizontalFlip", lambda T, torch: T.RandomHorizontalFlip(1.0), "both"),
    ("Pad(8), reflected", lambda T, torch: T.Pad(8, padding_mode="reflect"), "both"),
    ("RandomRotation(30)", lambda T, torch: T.RandomRotation(30), "both"),
    ("RandomAffine", lambda T, torch: T.RandomAffine(20, (0.1, 0.1), interpolation=T.InterpolationMode.BILINEAR), "both"),
    ("RandomPerspective", lambda T, torch: T.RandomPerspective(p=1.0), "both"),
    ("ElasticTransform", lambda T, torch: T.ElasticTransform(), "tensor"),
    ("ColorJitter", lambda T, torch: T.ColorJitter(0.4, 0.4, 0.4, 0.1), "both"),
    ("Grayscale", lambda T, torch: T.Grayscale(), "both"),
    ("RandomAutocontrast", lambda T, torch: T.RandomAutocontrast(1.0), "both"),
    ("RandomEqualize", lambda T, torch: T.RandomEqualize(1.0), "both"),
    ("RandomAdjustSharpness(2)", lambda T, torch: T.RandomAdjustSharpness(2.0, 1.0), "both"),
    ("GaussianBlur(5)", lambda T, torch: T.GaussianBlur(5), "both"),
    ("RandomErasing", lambda T, torch: T.RandomErasing(1.0), "tensor"),
    ("RandAugment", lambda T, torch: T.RandAugment(), "both"),
]
FORMS = {"classic": "transforms", "v2": "transforms.v2"}
KINDS = {"picture": "a PIL image", "tensor": "a tensor of bytes"}


def module_of(torch: ModuleType, form: str) -> Any:
    """``transforms`` of a framework."""
    models_of(torch)  # loads torchvision beside a build without its operations
    return importlib.import_module(f"{'flambeau.vision' if torch.__name__ == 'flambeau' else 'torchvision'}.{form}")


def pictures(count: int) -> list[Any]:
    """Photographs, more or less: smooth, with some noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    shades = [Image.fromarray(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8)).resize((WIDTH, HEIGHT)) for _ in range(count)]
    return [Image.fromarray((np.asarray(shade) * 0.9 + rng.integers(0, 25, (HEIGHT, WIDTH, 3))).astype(np.uint8)) for shade in shades]


def one_image(make: Callable[[Any, Any], Any], form: str, kind: str, torch: ModuleType) -> Timed:
    """A transform of one image. Its values are compared in the tests, and not returned."""
    picture, nothing = pictures(1)[0], torch.zeros(1)
    tensor = module_of(torch, "transforms").functional.pil_to_tensor(picture).contiguous()
    image = picture if kind == "picture" else tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # v2.ToTensor is deprecated
        transform = make(module_of(torch, form), torch)

    def run() -> Any:
        transform(image)
        return nothing

    return run


def batch_by_transforms(torch: ModuleType) -> Timed:
    T, images = module_of(torch, "transforms"), pictures(BATCH)
    prepare = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])
    return lambda: torch.stack([prepare(image) for image in images])


def batch_by_numpy(torch: ModuleType) -> Timed:
    import numpy as np

    images, nothing = pictures(BATCH), torch.zeros(1)
    mean, std = [np.array(values, np.float32)[:, None, None] for values in (MEAN, STD)]

    def run() -> Any:
        np.stack([(np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255 - mean) / std for image in images])
        return nothing

    return run


CASES = [
    Case(name, f"{form}, {words}", partial(one_image, make, module, kind))
    for form, module in FORMS.items()
    for kind, words in KINDS.items()
    for name, make, kinds in TRANSFORMS
    if kinds in (kind, "both")
]
BATCHES = {"ToTensor and Normalize": batch_by_transforms, "the same in NumPy": batch_by_numpy}
CASES += [Case(name, f"a batch of {BATCH} PIL images", build) for name, build in BATCHES.items()]


def main(options: argparse.Namespace) -> int:
    outcomes = comparison.run_cases(__name__, CASES, options)
    text = comparison.summary(outcomes)
    print(text)
    if options.write:
        what = (
            f"Images of {HEIGHT} x {WIDTH}. Pillow works on PIL images in both libraries; classic torchvision resizes tensors of bytes in "
            "floating point. What becomes of single images is compared in the tests. The last line is the same by NumPy, in the process "
            "of each library."
        )
        write_section(options.name, f"{comparison.described(options)} {what}\n\n{text}")
    return int(any(not outcome.seconds for outcome in outcomes))
