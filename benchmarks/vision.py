"""Models for images beside torchvision's under real PyTorch: training steps, and inference of one image."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed
from .models import training_step
from .report import write_section

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
ASKED = 1.0
MODELS = {"ResNet-18": "resnet18", "MobileNet v3 small": "mobilenet_v3_small"}


def models_of(torch: ModuleType) -> Any:
    """``vision.models`` of a framework; real torchvision loads without its compiled operations once their schemas are there."""
    if torch.__name__ == "flambeau":
        return importlib.import_module("flambeau.vision.models")
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.ops.torchvision.kept = library  # its definitions end with it
    return importlib.import_module("torchvision.models")


def training(name: str, torch: ModuleType) -> Timed:
    """Eight images of 128 by 128, SGD with momentum."""
    source = Source(torch)
    model = source.fill(models_of(torch).get_model(name, num_classes=100))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    return training_step(torch, model, optimizer, source.normal(8, 3, 128, 128), source.integers(100, 8))


def inference(name: str, torch: ModuleType) -> Timed:
    """One image of 224 by 224, without gradients."""
    source = Source(torch)
    model = source.fill(models_of(torch).get_model(name)).eval()
    image = source.normal(1, 3, 224, 224)

    def classify() -> Any:
        with torch.no_grad():
            return model(image)

    return classify


KINDS: dict[str, Callable[[str, ModuleType], Timed]] = {"training step": training, "inference, one image": inference}
CASES = [Case(model, group, partial(build, name)) for group, build in KINDS.items() for model, name in MODELS.items()]


def main(options: argparse.Namespace) -> int:
    outcomes = comparison.run_cases(__name__, CASES, options)
    text = comparison.summary(outcomes)
    print(text)
    if options.write:
        what = f"Training: {training.__doc__} Inference: {inference.__doc__}"
        write_section(options.name, f"{comparison.described(options)} {what} Asked: at most {ASKED} for each.\n\n{text}")
    return int(any(not outcome.seconds for outcome in outcomes))
