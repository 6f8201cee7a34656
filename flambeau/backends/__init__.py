"""Libraries that compute for PyTorch, and their switches. Here NumPy computes: most are absent, and their switches are only kept.

Each back-end is a module whose attributes are checked when they are set; see ``_switches``.
"""

from __future__ import annotations

import importlib
from types import ModuleType

_BACKENDS = ("cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum")


def __getattr__(name: str) -> ModuleType:
    if name in _BACKENDS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*globals(), *_BACKENDS))
