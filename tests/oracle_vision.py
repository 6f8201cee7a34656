"""The oracle of ``flambeau.vision``: real torchvision beside the CPU build of PyTorch, without its compiled operations."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest


@cache
def torchvision() -> ModuleType:
    """Real torchvision; skips the test where it or PyTorch is not installed.

    Its compiled operations are missing beside this build; the package loads once the schemas that it registers fakes for exist.
    """
    real = pytest.importorskip("torch")
    if not hasattr(real.ops.torchvision, "nms"):  # this file may be there under two names
        library = real.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        real.ops.torchvision.kept = library  # its definitions end with it
    return pytest.importorskip("torchvision")
