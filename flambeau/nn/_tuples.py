"""Sizes given as one number or as one number per dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def repeated(value: Any, count: int) -> tuple[Any, ...]:
    """``value`` once for each of ``count`` dimensions; an iterable is taken to have them already."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count
