"""Datasets, models, transforms and utilities for images: ``torchvision``'s names.

Nothing here is imported with ``import flambeau``, and each subpackage comes in when it is first asked for. Images are read and
written by Pillow (``pip install flambeau[vision]``).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.28.0"
_SUBMODULES = ("datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
