"""Warnings that come once in a process, or each time where ``set_warn_always`` asks for that."""

from __future__ import annotations

import warnings

from .settings import settings

_said: set[str] = set()


def warn_once(key: str, text: str, stacklevel: int) -> None:
    """A ``UserWarning`` for the first call with ``key``; ``stacklevel`` as for ``warnings.warn``, counted from the caller."""
    if settings.warn_always or key not in _said:
        _said.add(key)
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
