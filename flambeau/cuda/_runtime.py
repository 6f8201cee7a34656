"""Helpers of the modules of ``torch.cuda``: whether there are devices, and which one an argument names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.device import device as Device

if TYPE_CHECKING:
    from ..core.arrays.cuda import Cuda


def usable() -> Cuda | None:
    """The kind of CUDA's arrays; None without CuPy or without a device. CuPy is imported by the first call."""
    from ..core.arrays import cuda

    return cuda.cuda


def required() -> Cuda:
    """The kind of CUDA's arrays.

    Raises:
        AssertionError: there is no device.
    """
    from ..core.arrays import cuda

    return cuda.require()


def index_of(where: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that a device, its name or an int stands for; that of the current device where none is named.

    Args:
        optional: whether ``where`` may be None or a device without an index.
        allow_cpu: whether it may be the CPU, whose index is -1.
    Raises:
        ValueError: a device of another type, or no index.
    """
    if isinstance(where, int) and not isinstance(where, bool):
        return where
    found = None if where is None else Device(where)
    if found is not None:
        if allow_cpu and found.type == "cpu":
            return -1
        if found.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {found}")
        if found.index is not None:
            return found.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{found}")
    return required().current()


def device_at(where: Any) -> Device:
    """The device that an argument of a query names; the current one for None."""
    kind = required()
    return kind.devices[kind.checked(index_of(where, optional=True))]


def without_cuda(value: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what a function returns on a machine without a device."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return value() if usable() is None else function(*args, **kwargs)

        call.__name__ = call.__qualname__ = function.__name__
        call.__module__, call.__doc__, call.__annotations__ = function.__module__, function.__doc__, function.__annotations__
        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call

    return decorate
