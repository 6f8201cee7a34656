"""Namespaces behind ``torch.ops``: ``aten`` and those that programs define, with operations that its package does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _none(name: str) -> Any:
    raise AttributeError(f"torch.ops has no attribute '{name}'")


find: Callable[[str], Any] = _none  # set from above, by the package itself
