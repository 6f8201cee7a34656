"""``torch.nn.attention``: which implementations of attention may be used. Source: torch.nn.attention."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...backends import cuda
from ...core import late as _late
from . import bias as bias
from ._registry import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    register_flash_attention_impl,
    restore_flash_attention_impl,
)

_late.adopt(__name__)

__all__ = [
    "SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "activate_flash_attention_impl", "current_flash_attention_impl", "list_flash_attention_impls",
    "register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """The implementations that PyTorch chooses from; here ``MATH`` is the reference, ``FLASH_ATTENTION`` native kernels if there are any.

    Source: torch.nn.attention.SDPBackend.
    Example:
        >>> nn.attention.SDPBackend.MATH, int(nn.attention.SDPBackend.FLASH_ATTENTION)
        (<SDPBackend.MATH: 0>, 1)
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


# Of each implementation that can be switched, whether it is on, and its switch.
_SWITCHES: dict[SDPBackend, tuple[Any, Any]] = {
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
}


def _cur_sdpa_kernel_backends() -> list[SDPBackend]:
    """The implementations that may be used now."""
    return [backend for backend, (enabled, _) in _SWITCHES.items() if enabled()]


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Let ``scaled_dot_product_attention`` use these implementations only, inside ``with``.

    Args:
        backends: one or several. With neither ``MATH`` nor ``FLASH_ATTENTION`` attention raises RuntimeError.
        set_priority: whether their order is one of preference; ``FLASH_ATTENTION`` goes first here.
    Returns:
        A context manager, which gives None.
    Raises:
        AssertionError: ``backends`` is neither an ``SDPBackend`` nor a list.
    Source: torch.nn.attention.sdpa_kernel.
    Example:
        >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        ...     nn.functional.scaled_dot_product_attention(*torch.zeros(3, 1, 2, 5, 4)).shape
        torch.Size([1, 2, 5, 4])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}")
    wanted = [backends] if isinstance(backends, SDPBackend) else backends
    before = _cur_sdpa_kernel_backends()
    _enable_only(wanted)
    try:
        yield
    finally:
        _enable_only(before)


def _enable_only(backends: list[SDPBackend]) -> None:
    for backend, (_, enable) in _SWITCHES.items():
        enable(backend in backends)


def __getattr__(name: str) -> Any:
    if name in ("flex_attention", "varlen"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
