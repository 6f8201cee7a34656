"""Warnings that come once in a process, or each time under ``set_warn_always``."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from .settings import settings

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_said: set[str] = set()


def warn_once(key: str, text: str, category: type[Warning] = UserWarning) -> None:
    """A warning for the first call with ``key``, at the line that called into the package, on whatever path."""
    if not settings.warn_always and key in _said:
        return
    _said.add(key)
    level = 1
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<flambeau")):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
