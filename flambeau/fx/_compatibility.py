"""Marks of functions that stay as they are from version to version. Source: torch.fx._compatibility."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["compatibility"]

T = TypeVar("T")
_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[T], T]:
    """Decorator that says whether something stays as it is.

    Args:
        is_backward_compatible: whether it does.
    Returns: the decorator, which gives back what it is put on.
    Source: torch.fx._compatibility.compatibility.
    Example:
        >>> from flambeau.fx._compatibility import compatibility
        >>> @compatibility(is_backward_compatible=True)
        ... def stable():
        ...     return 1
        >>> stable()
        1
    """

    def mark(thing: T) -> T:
        _MARKED_WITH_COMPATIBILITY.setdefault(thing)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(thing)
        return thing

    return mark
