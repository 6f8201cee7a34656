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
    """Mark a hook that is dropped without a warning when its tensor is pickled.

    Source: torch.utils.hooks.unserializable_hook.
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn about each backward hook of a tensor that pickling would lose.

    Source: torch.utils.hooks.warn_if_has_hooks.
    """
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized; mark it with torch.utils.hooks.unserializable_hook if "
                "that is intended",
                stacklevel=2,
            )
