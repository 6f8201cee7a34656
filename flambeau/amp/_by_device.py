"""The older spellings ``torch.cuda.amp`` and ``torch.cpu.amp``, which warn: made from ``torch.amp`` for one device type."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.dtype import dtype as DType
from . import autocast_mode, grad_scaler

__all__ = ["classes", "warn"]


def warn(old: str, new: str) -> None:
    warnings.warn(f"`torch.{old}(args...)` is deprecated. Please use `torch.amp.{new}` instead.", FutureWarning, stacklevel=3)


def classes(device: str, fast_dtype: DType) -> tuple[type[Any], type[Any]]:
    """``autocast`` and ``GradScaler`` of a device type."""

    class autocast(autocast_mode.autocast):
        __doc__ = f"""``torch.amp.autocast('{device}', ...)``; warns.

        Args:
            enabled: whether anything is cast.
            dtype: the lower-precision dtype.
            cache_enabled: whether a parameter is cast once for a whole block.
        Raises:
            RuntimeError: a dtype that the device does not autocast to.
        Source: torch.{device}.amp.autocast.
        Example:
            >>> import warnings
            >>> with warnings.catch_warnings(action="ignore"), torch.{device}.amp.autocast(enabled=False):
            ...     assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        """

        def __init__(self, enabled: bool = True, dtype: DType = fast_dtype, cache_enabled: bool = True):
            warn(f"{device}.amp.autocast", f"autocast('{device}', args...)")
            super().__init__(device, dtype, enabled, cache_enabled)

    class GradScaler(grad_scaler.GradScaler):
        __doc__ = f"""``torch.amp.GradScaler('{device}', ...)``; warns.

        Args:
            init_scale: the first factor.
            growth_factor: of the factor, after ``growth_interval`` steps without infinite gradients.
            backoff_factor: of the factor, after a step with infinite gradients.
            growth_interval: a number of steps.
            enabled: whether anything is scaled.
        Raises:
            AssertionError: factors that do not grow or shrink.
        Source: torch.{device}.amp.GradScaler.
        Example:
            >>> import warnings
            >>> with warnings.catch_warnings(action="ignore"):
            ...     scaler = torch.{device}.amp.GradScaler(enabled=False)
            >>> scaler.scale(torch.ones(1))
            tensor([1.])
        """

        def __init__(
            self,
            init_scale: float = 65536.0,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ):
            warn(f"{device}.amp.GradScaler", f"GradScaler('{device}', args...)")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for cls in (autocast, GradScaler):
        cls.__module__, cls.__qualname__ = f"torch.{device}.amp", cls.__name__
    return autocast, GradScaler
