"""Apple's GPUs, of which none can be used. Source: torch.mps."""

from __future__ import annotations

from typing import Any

__all__ = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "is_available", "manual_seed", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is such a device: False. Source: torch.mps.is_available."""
    return False


def device_count() -> int:
    """Number of such devices: 0. Source: torch.mps.device_count."""
    return 0


def _missing(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("torch.mps: there is no MPS device; ask torch.backends.mps.is_available() first")


current_allocated_memory = driver_allocated_memory = empty_cache = manual_seed = synchronize = _missing
