"""Transforms: the time an image takes, on PIL images and on tensors of bytes, beside torchvision's, and a batch's beside NumPy's."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .measuring import Timed, best, settle
from .report import machine, table, write_section

THREADS = 1
HEIGHT, WIDTH = 375, 500  # of a usual photograph of ImageNet
BATCH = 16
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# name, what makes it, and whether it is for pictures of Pillow, tensors of bytes, or both
CASES: list[tuple[str, Callable[[Any, Any], Any], str]] = [
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
BATCHES = ["ToTensor and Normalize", "the same in NumPy"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes for each library")
    parser.add_argument("--quick", action="store_true", help="one process for each, and short readings")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def libraries(package: str) -> tuple[Any, Any]:
    """The library and its package of images."""
    torch = importlib.import_module(package)
    if package == "torch":  # torchvision loads beside a build without its operations once their schemas exist
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.keeps_torchvision = library
    return torch, importlib.import_module("torchvision" if package == "torch" else "flambeau.vision")


def pictures(count: int) -> list[Any]:
    """Photographs, more or less: smooth, with some noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    shades = [Image.fromarray(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8)).resize((WIDTH, HEIGHT)) for _ in range(count)]
    return [Image.fromarray((np.asarray(shade) * 0.9 + rng.integers(0, 25, (HEIGHT, WIDTH, 3))).astype(np.uint8)) for shade in shades]


def batches(torch: Any, T: Any, images: list[Any]) -> list[Timed]:
    """A batch of tensors made of pictures, by transforms and by NumPy."""
    import numpy as np

    prepare = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])
    mean, std = [np.array(values, np.float32)[:, None, None] for values in (MEAN, STD)]

    def by_transforms() -> Any:
        return torch.stack([prepare(image) for image in images])

    def by_numpy() -> Any:
        return np.stack([(np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255 - mean) / std for image in images])

    return [by_transforms, by_numpy]


def timed_cases(package: str, form: str) -> dict[str, Timed]:
    """What one library is timed at, by case and kind of image."""
    torch, vision = libraries(package)
    T = importlib.import_module(f"{vision.__name__}.{form}")
    classic = importlib.import_module(f"{vision.__name__}.transforms")
    images = pictures(BATCH)
    inputs = {"picture": images[0], "tensor": classic.functional.pil_to_tensor(images[0]).contiguous()}
    timed: dict[str, Timed] = {}
    for name, make, kinds in CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transform = make(T, torch)
        for kind in ("picture", "tensor"):
            if kinds in (kind, "both"):
                timed[f"{name}|{kind}"] = lambda transform=transform, kind=kind: transform(inputs[kind])  # type: ignore[misc]
    for name, function in zip(BATCHES, batches(torch, classic, images)):
        timed[f"{name}|batch"] = function
    return timed


def measured(package: str, threads: int, form: str, seconds: float) -> dict[str, float]:
    """Milliseconds by case, in this process."""
    torch, _ = libraries(package) if package == "flambeau" else (importlib.import_module(package), None)
    torch.set_num_threads(threads)
    timed = timed_cases(package, form)
    settle()
    result = {}
    for name, function in timed.items():
        torch.manual_seed(0)
        result[name] = 1e3 * best([function], 3, seconds)[0]
    return result


def in_a_process(package: str, threads: int, form: str, seconds: float) -> dict[str, float]:
    program = (
        f"import json; from benchmarks.transforms import measured; print(json.dumps(measured({package!r}, {threads}, {form!r}, {seconds})))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(fewest: dict[str, dict[str, float]], kind: str) -> list[list[str]]:
    """A line for each case of a kind of image; times and the ratio."""
    ours, theirs = fewest["flambeau"], fewest.get("torch", {})
    rows = []
    for key, value in ours.items():
        name, of = key.split("|")
        if of == kind:
            other = theirs.get(key)
            rows.append([name, f"{value:.3f}", *(["-", "-"] if other is None else [f"{other:.3f}", f"{value / other:.2f}"])])
    return rows


def main(options: argparse.Namespace) -> int:
    seconds = 0.02 if options.quick else 0.1
    rounds = 1 if options.quick else options.rounds
    packages = [name for name in ("flambeau", "torch") if importlib.util.find_spec(name)]
    parts = []
    for form, title in (("transforms", "classic"), ("transforms.v2", "v2")):
        runs: dict[str, list[dict[str, float]]] = {package: [] for package in packages}
        for _ in range(rounds):
            for package in packages:
                runs[package].append(in_a_process(package, options.threads, form, seconds))
        fewest = {package: {key: min(run[key] for run in several) for key in several[0]} for package, several in runs.items()}
        for kind, words in (("picture", "a PIL image"), ("tensor", "a tensor of bytes"), ("batch", f"a batch of {BATCH}")):
            if kind == "batch" and form != "transforms":
                continue
            parts.append(table([f"{title}, {words}", "flambeau, ms", "torchvision, ms", "ratio"], rows_of(fewest, kind)))
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        described = (
            f"`python -m benchmarks transforms`; {machine()}; {options.threads} thread(s); images of {HEIGHT} x {WIDTH}; the least of "
            f"{rounds} fresh processes each, in turn. Pillow works on PIL images in both libraries. Classic torchvision resizes tensors of "
            "bytes in floating point."
        )
        write_section("transforms", f"{described}\n\n{text}")
    return 0
