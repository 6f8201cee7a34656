"""Implementations of attention that programs register under a name, and the one that is active. Source: torch.nn.attention."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

__all__ = [
    "activate_flash_attention_impl", "current_flash_attention_impl", "list_flash_attention_impls", "register_flash_attention_impl",
    "restore_flash_attention_impl",
]  # fmt: skip


def _not_here() -> Any:
    """The implementations that PyTorch knows are packages of kernels for GPUs."""
    raise ModuleNotFoundError("No module named 'flash_attn'", name="flash_attn")


_registered: dict[str, Callable[[], Any] | None] = {"FA3": _not_here, "FA4": _not_here}
_active: list[tuple[str, Any]] = []  # the active one and what its function returned


def register_flash_attention_impl(impl: str, *, register_fn: Callable[[], Any]) -> None:
    """Give an implementation a name.

    Args:
        impl: the name.
        register_fn: puts its kernels in place; returns an object whose ``remove()`` takes them away, or None.
    Source: torch.nn.attention.register_flash_attention_impl.
    Example:
        >>> nn.attention.register_flash_attention_impl("mine", register_fn=lambda: None)
        >>> "mine" in nn.attention.list_flash_attention_impls()
        True
    """
    _registered[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Put the kernels of an implementation in place; those of another one are taken away.

    Args:
        impl: a registered name.
    Raises:
        ValueError: it is not registered. ModuleNotFoundError: "FA3" and "FA4", which are packages for GPUs.
    Source: torch.nn.attention.activate_flash_attention_impl.
    Example:
        >>> nn.attention.activate_flash_attention_impl("nobody's")
        Traceback (most recent call last):
        ValueError: Unknown flash attention impl 'nobody's'...
    """
    register = _registered.get(impl)
    if register is None:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}")
    _deactivate()
    _active.append((impl, register()))


def _deactivate() -> None:
    while _active:
        _, handle = _active.pop()
        if handle is not None:
            handle.remove()


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Take the active implementation's kernels away.

    Args:
        _raise_warn: whether to log that there are none.
    Source: torch.nn.attention.restore_flash_attention_impl.
    Example:
        >>> nn.attention.restore_flash_attention_impl(_raise_warn=False)
    """
    if not _active and _raise_warn:
        logging.getLogger(__name__).warning("no implementation of attention is active")
    _deactivate()


def list_flash_attention_impls() -> list[str]:
    """Names of the registered implementations, in alphabetical order.

    Returns: a list of strings.
    Source: torch.nn.attention.list_flash_attention_impls.
    Example:
        >>> nn.attention.list_flash_attention_impls()[:2]
        ['FA3', 'FA4']
    """
    return sorted(_registered)


def current_flash_attention_impl() -> str | None:
    """The active implementation's name.

    Returns: a string; None where none is active.
    Source: torch.nn.attention.current_flash_attention_impl.
    Example:
        >>> nn.attention.current_flash_attention_impl() is None
        True
    """
    return _active[-1][0] if _active else None
