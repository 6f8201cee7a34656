"""Handles of hooks, and what pickling does about hooks. Source: torch.utils.hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from ..core.tape.hooks import RemovableHandle
from ..core.tensor import Tensor

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

_Hook = TypeVar("_Hook", bound=Callable[..., object])


def unserializable_hook(f: _Hook) -> _Hook:
    """Marks a hook that is dropped without a warning when its tensor is pickled.

    Args:
        f: the hook.
    Returns: the same function.
    Source: torch.utils.hooks.unserializable_hook.
    Example:
        >>> hook = unserializable_hook(lambda grad: 2 * grad)
        >>> hook(1.5)
        3.0
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warns about each backward hook of a tensor that pickling would lose.

    Args:
        tensor: of any shape.
    Source: torch.utils.hooks.warn_if_has_hooks.
    Example:
        >>> warn_if_has_hooks(torch.ones(1))
    """
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized; mark it with torch.utils.hooks.unserializable_hook if "
                "that is intended",
                stacklevel=2,
            )
