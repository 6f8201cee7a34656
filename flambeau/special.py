"""Special functions: the names of ``torch.special``, from the registry of operations."""

from __future__ import annotations

from typing import Any

from .ops import names, resolve


def __getattr__(name: str) -> Any:
    function = globals()[name] = resolve("special", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("special")})
