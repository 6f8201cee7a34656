"""Switches of the whole package: default device, precision of products, determinism.

The mathematics runs at the precision of its dtype and in a fixed order. Switches that trade precision or reproducibility for speed
are therefore remembered and reported, so that programs which set and restore them run, and every setting of them is honoured.
The exception is the precision "medium" of float32 products: large ones are less precise then, where the processor has tiles of bfloat16.
"""

from __future__ import annotations

import warnings
from typing import Any

from .arrays.kinds import place_of
from .device import cpu, device, set_creation_device
from .settings import AcceleratorError, OutOfMemoryError, settings
from .state import thread

__all__ = [
    "AcceleratorError", "OutOfMemoryError", "are_deterministic_algorithms_enabled", "get_default_device", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
    "set_default_device", "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal", "set_warn_always",
    "use_deterministic_algorithms",
]  # fmt: skip

PRECISIONS = ("highest", "high", "medium")
_MODES = ("default", "warn", "error")


# ---- devices


def get_default_device() -> device:
    """The device on which factories such as ``torch.zeros`` make tensors when they are told none.

    Returns: a device.
    Raises:
        AssertionError: it is a CUDA device, of which this machine has none.
    Source: torch.get_default_device.
    Example:
        >>> torch.get_default_device()
        device(type='cpu')
    """
    chosen = cpu if thread.creation_device is None else thread.creation_device
    return place_of(chosen) if chosen.type == "cuda" else chosen


def set_default_device(device: Any) -> None:
    """Choose the device on which this thread's factories make tensors; None is the CPU.

    Args:
        device: a device, its name or an index. One that does not exist is noticed when a tensor is to be made there.
    Source: torch.set_default_device.
    Example:
        >>> torch.set_default_device("meta")
        >>> torch.zeros(2).device
        device(type='meta')
        >>> torch.set_default_device(None)
    """
    set_creation_device(None if device is None else _device(device))


_device = device


# ---- precision


def get_float32_matmul_precision() -> str:
    """Current precision of float32 matrix products, as ``set_float32_matmul_precision`` sets it; 'highest' at first.

    Returns: 'highest', 'high' or 'medium'.
    Source: torch.get_float32_matmul_precision.
    Example:
        >>> torch.get_float32_matmul_precision()
        'highest'
    """
    return settings.matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """Say how precise float32 matrix products have to be at least. Only 'medium' matters, where the processor multiplies tiles of bfloat16
    (AMX) and a product is large enough for them; compiled programs keep the precision that they were compiled with.

    Args:
        precision: 'highest' and 'high' for float32's; 'medium' lets each number be rounded to bfloat16, which has 8 bits, and adds up
            products in float32. Anything else warns and changes nothing.
    Source: torch.set_float32_matmul_precision.
    Example:
        >>> torch.set_float32_matmul_precision("high")
        >>> torch.get_float32_matmul_precision()
        'high'
        >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in PRECISIONS:
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; the precision stays as it is", UserWarning, stacklevel=2)
        return
    settings.matmul_precision = precision


def set_flush_denormal(mode: bool) -> bool:
    """Ask for denormal numbers to be taken as zero, which NumPy cannot do.

    Args:
        mode: True to switch it on.
    Returns:
        Whether the processor was switched: always False, and denormal numbers stay.
    Source: torch.set_flush_denormal.
    Example:
        >>> torch.set_flush_denormal(True)
        False
    """
    return False


# ---- determinism


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for operations that give the same result for the same input, which all operations here do.

    Args:
        mode: True to switch them on.
        warn_only: an operation without such an algorithm shall warn instead of raise; there is none.
    Raises:
        TypeError: not a bool.
    Source: torch.use_deterministic_algorithms.
    Example:
        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled()
        True
        >>> torch.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}")
    settings.deterministic, settings.warn_only = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms are required.

    Returns: a bool; False at first.
    Source: torch.are_deterministic_algorithms_enabled.
    Example:
        >>> torch.are_deterministic_algorithms_enabled()
        False
    """
    return settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they are required with ``warn_only``.

    Returns: a bool; False at first.
    Source: torch.is_deterministic_algorithms_warn_only_enabled.
    Example:
        >>> torch.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """``use_deterministic_algorithms`` by level.

    Args:
        debug_mode: 'default' or 0 (not required), 'warn' or 1, 'error' or 2.
    Raises:
        TypeError: neither int nor str.
        RuntimeError: another level.
    Source: torch.set_deterministic_debug_mode.
    Example:
        >>> torch.set_deterministic_debug_mode("warn")
        >>> torch.get_deterministic_debug_mode()
        1
        >>> torch.set_deterministic_debug_mode("default")
    """
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """The level of ``set_deterministic_debug_mode``.

    Returns: 0 (not required), 1 (warn) or 2 (error).
    Source: torch.get_deterministic_debug_mode.
    Example:
        >>> torch.get_deterministic_debug_mode()
        0
    """
    return 0 if not settings.deterministic else 1 if settings.warn_only else 2


def set_warn_always(mode: bool) -> None:
    """Chooses whether warnings that come once in a process come each time.

    Args:
        mode: True for each time.
    Raises:
        TypeError: not a bool.
    Source: torch.set_warn_always.
    Example:
        >>> torch.set_warn_always(True)
        >>> torch.is_warn_always_enabled()
        True
        >>> torch.set_warn_always(False)
    """
    if not isinstance(mode, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(mode).__name__}")
    settings.warn_always = mode


def is_warn_always_enabled() -> bool:
    """Whether warnings that come once in a process come each time.

    Returns: a bool; False at first.
    Source: torch.is_warn_always_enabled.
    Example:
        >>> torch.is_warn_always_enabled()
        False
    """
    return settings.warn_always
