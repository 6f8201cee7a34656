"""Discrete Fourier transforms: the functions of ``torch.fft``, from the registry of operations."""

from __future__ import annotations

from typing import Any

from .ops import names, resolve


def __getattr__(name: str) -> Any:
    function = globals()[name] = resolve("fft", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("fft")})
