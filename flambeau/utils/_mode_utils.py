"""Helpers around modes. Source: torch.utils._mode_utils."""

from __future__ import annotations

from typing import Any

from ._python_dispatch import _disable_current_modes

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Any) -> bool:
    """Whether all of some modes are the same one."""
    return all(mode is modes[0] for mode in modes[1:])


def no_dispatch() -> Any:
    """Context without any mode that has ``__torch_dispatch__``."""
    return _disable_current_modes()
