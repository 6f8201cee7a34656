"""Linear algebra: the functions of ``torch.linalg`` that exist, from the registry of operations."""

from __future__ import annotations

from typing import Any

from .ops import names, resolve
from .ops.linalg.matrix_checks import LinAlgError


def __getattr__(name: str) -> Any:
    function = globals()[name] = resolve("linalg", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("linalg")})


__all__ = ["LinAlgError"]
