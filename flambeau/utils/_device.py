"""A device for factories as a context, and as a decorator. Source: torch.utils._device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.calls.registry import TABLES, Factory
from ..core.device import device as Device
from ..core.state import thread

__all__ = ["DeviceContext", "device_decorator", "set_device"]


@functools.cache
def _device_constructors() -> set[Callable[..., Any]]:
    """The functions that make tensors where a context says, unless their caller says where."""
    return {
        entry.wrapper
        for entry in list(TABLES["torch"].values())
        if isinstance(entry, Factory) and "device" in entry.option_names and entry.model is None
    }


class DeviceContext:
    """Inside this ``with`` block factories make tensors on a device, as inside ``with torch.device(...)``.

    Source: torch.utils._device.DeviceContext.
    """

    def __init__(self, device: Any) -> None:
        self.device = Device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.device.__exit__(*exc_info)


def device_decorator(device: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """``func`` called inside the context of a device."""

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with DeviceContext(device):
            return func(*args, **kwargs)

    return inside


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: a function called inside the context of a device. Source: torch.utils._device.set_device."""
    return lambda func: device_decorator(device, func)


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return thread.creation_device
    raise AttributeError(f"module 'torch.utils._device' has no attribute '{name}'")
