"""``torch._guards``: which mode of fake tensors is on. Source: torch._guards."""

from __future__ import annotations

from typing import Any

from ..core.state import thread

__all__ = ["active_fake_mode", "detect_fake_mode"]


def _running() -> list[Any]:
    """The modes of fake tensors of this thread, the innermost first."""
    if not thread.dispatch_modes:
        return []
    from ..aten.fake_tensor import FakeTensorMode

    return [mode for mode in reversed(thread.dispatch_modes) if isinstance(mode, FakeTensorMode)]


def active_fake_mode() -> Any:
    """The innermost mode of fake tensors; None where none is on. Source: torch._guards.active_fake_mode."""
    return next(iter(_running()), None)


def detect_fake_mode(inputs: Any = None) -> Any:
    """The mode that is on, or that tensors among ``inputs`` belong to; None where there is neither.

    Args:
        inputs: a nest of anything.
    Raises:
        AssertionError: there are several.
    Source: torch._guards.detect_fake_mode.
    """
    from ..aten.fake_tensor import FakeTensor
    from ..utils import _pytree as pytree

    found = _running() + [leaf.fake_mode for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, FakeTensor)]
    if any(mode is not found[0] for mode in found):
        raise AssertionError("fake modes of several kinds: the innermost one, and that of an input, are not the same")
    return found[0] if found else None
