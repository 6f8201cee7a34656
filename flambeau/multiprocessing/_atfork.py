"""First steps of a child after a fork. Source: torch.multiprocessing._atfork."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["register_after_fork"]


def register_after_fork(func: Callable[[], Any]) -> None:
    """Have every child that is forked from now on call ``func()``; nothing where there is no fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=func)
