"""Libraries that compute for PyTorch, and their switches. Here NumPy computes: most are absent, and their switches are only kept.

Each back-end is a module whose attributes are checked when they are set; see ``_switches``.
"""

from __future__ import annotations

from typing import Any

from ..core import late as _late

_BACKENDS = ("cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum")


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, _BACKENDS)


def __dir__() -> list[str]:
    return sorted((*globals(), *_BACKENDS))
