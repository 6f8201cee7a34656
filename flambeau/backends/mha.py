"""The fast path of multi-head attention and transformer layers in evaluation. Source: torch.backends.mha."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """Whether the fast path may be taken; the result is the same.

    Returns: a bool.
    Source: torch.backends.mha.get_fastpath_enabled.
    Example:
        >>> torch.backends.mha.get_fastpath_enabled()
        True
    """
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Allow the fast path or not.

    Args:
        value: whether it may be taken.
    Source: torch.backends.mha.set_fastpath_enabled.
    Example:
        >>> torch.backends.mha.set_fastpath_enabled(True)
    """
    global _enabled
    _enabled = bool(value)
