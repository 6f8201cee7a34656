"""The oracle of ``flambeau.vision``: real torchvision beside the CPU build of PyTorch, without its compiled operations."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

from oracle import pytorch


@cache
def torchvision() -> ModuleType:
    """Real torchvision; skips the test where it or PyTorch is not installed.

    Its compiled operations are missing beside this build; the package loads once the schemas that it registers fakes for exist.
    """
    real = pytorch()
    if not hasattr(real.ops.torchvision, "nms"):  # this file may be there under two names
        library = real.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        real.ops.torchvision.kept = library  # its definitions end with it
    return pytorch("torchvision")


@cache
def detecting_torchvision() -> ModuleType:
    """Real torchvision whose detectors run: it is lent ``nms``, which plain loops check, and runs its own ``roi_align`` in Python."""
    real = pytorch()
    package = torchvision()

    from flambeau import from_numpy
    from flambeau.vision.ops import nms

    def lent(boxes: Any, scores: Any, threshold: float) -> Any:
        return real.from_numpy(nms(from_numpy(boxes.detach().numpy()), from_numpy(scores.detach().numpy()), threshold).numpy())

    library = real.library.Library("torchvision", "IMPL")
    library.impl("nms", lent, "CPU")
    real.ops.torchvision.lent = library
    sys.modules["torchvision.ops.boxes"]._assert_has_ops = lambda: None  # type: ignore[attr-defined]
    align: Any = sys.modules["torchvision.ops.roi_align"]
    align._roi_align = align._roi_align.__wrapped__  # not compiled
    return package
