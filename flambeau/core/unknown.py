"""Base classes of numbers that are not known yet: sizes of tensors while a program is traced, and lengths of ragged dimensions."""

from __future__ import annotations

from typing import Any

__all__ = ["SymBool", "SymFloat", "SymInt"]


class SymInt:
    """An integer that is not known yet: a size of a tensor that is traced with symbolic sizes, which makes them. Source: torch.SymInt."""


class SymFloat:
    """A number computed of sizes that are not known yet. Source: torch.SymFloat."""


class SymBool:
    """A comparison of numbers that are not known yet; its truth is asked when it is used as a condition. Source: torch.SymBool."""

    def __sym_not__(self) -> Any:
        raise NotImplementedError
