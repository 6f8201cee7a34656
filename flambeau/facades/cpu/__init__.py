"""The CPU under the names of an accelerator's module, so that programs can be written for either. Source: torch.cpu."""

from __future__ import annotations

import importlib
from typing import Any

from ...core import late as _late

_late.adopt(__name__)

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "is_available", "is_initialized", "set_device",
    "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The one queue of work of the CPU, in which everything is done at once. Source: torch.cpu.Stream."""

    def __init__(self, priority: int = -1):
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing is ever waited for."""

    def synchronize(self) -> None:
        """Nothing is ever waited for."""

    def record_event(self, event: Any = None) -> Event:
        """The event, which has happened."""
        return Event() if event is None else event

    def wait_event(self, event: Any) -> None:
        """Nothing is ever waited for."""


class Event:
    """A mark in the queue, which has always been reached. Source: torch.cpu.Event."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing is remembered."""

    def synchronize(self) -> None:
        """Nothing is ever waited for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing is ever waited for."""


_default_stream = Stream()


class StreamContext:
    """Context in which ``stream`` is the current one. Source: torch.cpu.StreamContext."""

    def __init__(self, stream: Stream | None):
        self.stream = stream
        self._outer = _default_stream

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self._outer, _current = _current, self.stream

    def __exit__(self, *exc_info: object) -> None:
        global _current
        if self.stream is not None:
            _current = self._outer


_current = _default_stream


def stream(stream: Stream | None) -> StreamContext:
    """Context in which ``stream`` is the current one; None changes nothing. Source: torch.cpu.stream."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The current stream. Source: torch.cpu.current_stream."""
    return _current


def is_available() -> bool:
    """True. Source: torch.cpu.is_available."""
    return True


def is_initialized() -> bool:
    """True. Source: torch.cpu.is_initialized."""
    return True


def device_count() -> int:
    """1: all processors are one device. Source: torch.cpu.device_count."""
    return 1


def current_device() -> str:
    """'cpu'. Source: torch.cpu.current_device."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one CPU device. Source: torch.cpu.set_device."""


def synchronize(device: Any = None) -> None:
    """Nothing: every operation is finished when it returns. Source: torch.cpu.synchronize."""


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(".amp", __name__)
    raise AttributeError(f"module 'torch.cpu' has no attribute '{name}'")
