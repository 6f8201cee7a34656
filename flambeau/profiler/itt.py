"""Marks for Intel's profilers, which need their ITT. Source: torch.profiler.itt."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether marks can be set: never.

    Returns: False.
    Source: torch.profiler.itt.is_available.
    Example:
        >>> torch.profiler.itt.is_available()
        False
    """
    return False


def _missing(*args: Any, **kwargs: Any) -> NoReturn:
    """Mark a place or a range in Intel's profilers: not supported.

    Args:
        *args, **kwargs: what PyTorch takes.
    Raises:
        RuntimeError: always, as in a build of PyTorch without ITT.
    Source: torch.profiler.itt.
    Example:
        >>> torch.profiler.itt.mark("here")
        Traceback (most recent call last):
        RuntimeError: ITT functions not installed. Are you sure you have a ITT build?
    """
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


mark = range = range_pop = range_push = _missing
