"""Queues of work on a device, and marks in them. Source: torch.cuda.streams."""

from __future__ import annotations

from typing import Any, Self

from ..core.device import device as Device
from ._runtime import device_at, required, usable

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


class Stream:
    """A queue of work on a CUDA device; work of one queue is done in order, work of several at the same time.

    Args:
        device: where; the current device for None.
        priority: lower numbers first.
    Attributes:
        device: where its work is done.
        cuda_stream: CUDA's handle. stream_id: a number of its own on its device.
    Raises:
        RuntimeError: there is no CUDA device.
    Source: torch.cuda.Stream.
    Example:
        >>> if torch.cuda.is_available():
        ...     side = torch.cuda.Stream()
        ...     with torch.cuda.stream(side):
        ...         x = torch.ones(3, device="cuda") * 2
        ...     torch.cuda.current_stream().wait_stream(side)
    """

    device: Device
    _cupy: Any

    def __new__(cls, device: Any = None, priority: int = 0) -> Self:
        kind = _required_by(cls)
        where = device_at(device)
        with kind.on(where):
            return cls._around(kind.cupy.cuda.Stream(non_blocking=True, priority=priority), where)

    @classmethod
    def _around(cls, stream: Any, where: Device) -> Self:
        """The stream that CuPy's ``stream`` is."""
        self = object.__new__(cls)
        self._cupy, self.device = stream, where
        return self

    @property
    def cuda_stream(self) -> int:
        return self._cupy.ptr

    stream_id = cuda_stream

    @property
    def device_index(self) -> int:
        return self.device.index or 0

    @property
    def priority(self) -> int:
        return self._cupy.priority

    def query(self) -> bool:
        """Whether all work in it is done. Source: torch.cuda.Stream.query."""
        with required().on(self.device):
            return self._cupy.done

    def synchronize(self) -> None:
        """Wait for all work in it. Source: torch.cuda.Stream.synchronize."""
        with required().on(self.device):
            self._cupy.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark behind the work that is in it, and return the mark. Source: torch.cuda.Stream.record_event."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Have all work that comes later wait for a mark. Source: torch.cuda.Stream.wait_event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Have all work that comes later wait for the work that is in another stream. Source: torch.cuda.Stream.wait_stream."""
        self.wait_event(stream.record_event())

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which libraries take each other's streams: its version, and the handle."""
        return 0, self.cuda_stream

    def __enter__(self) -> Stream:
        self._contexts = [*getattr(self, "_contexts", ()), StreamContext(self)]
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._contexts.pop().__exit__(*exc_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class _Handle:
    """A stream's handle that another library gave, as CuPy takes it."""

    def __init__(self, pointer: int):
        self.pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


class ExternalStream(Stream):
    """A stream made by another library, which has to keep it alive.

    Args:
        stream_ptr: CUDA's handle.
        device: where it is; the current device for None.
    Raises:
        RuntimeError: there is no CUDA device.
    Source: torch.cuda.ExternalStream.
    Example:
        >>> if torch.cuda.is_available():
        ...     theirs = torch.cuda.current_stream().cuda_stream  # a handle, as a library gives it
        ...     assert torch.cuda.ExternalStream(theirs).query() in (False, True)
    """

    def __new__(cls, stream_ptr: int, device: Any = None) -> Self:
        kind = _required_by(cls)
        where = device_at(device)
        with kind.on(where):
            return cls._around(kind.cupy.cuda.Stream.from_external(_Handle(stream_ptr)), where)


class Event:
    """A mark in a stream that can be waited for and timed.

    Args:
        enable_timing: whether it records the time at which it is reached.
        blocking: whether the thread that waits for it sleeps.
        interprocess: whether other processes may wait for it.
        external: whether it stands for itself when a graph is captured.
    Raises:
        RuntimeError: there is no CUDA device.
        NotImplementedError: ``interprocess`` or ``external``.
    Source: torch.cuda.Event.
    Example:
        >>> if torch.cuda.is_available():
        ...     start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        ...     start.record(), end.record()
        ...     end.synchronize()
        ...     assert start.elapsed_time(end) >= 0
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False):
        _required_by(type(self))
        if interprocess or external:
            raise NotImplementedError("torch.cuda.Event: events of other processes and of captured graphs are not supported")
        self.enable_timing, self.blocking = enable_timing, blocking
        self.device: Device | None = None
        self._cupy: Any = None

    @property
    def cuda_event(self) -> int:
        """CUDA's handle; 0 before it is recorded."""
        return 0 if self._cupy is None else self._cupy.ptr

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind the work of a stream; of the current one for None. Source: torch.cuda.Event.record."""
        kind = required()
        stream = current_stream() if stream is None else stream
        if self.device is not None and self.device != stream.device:
            raise RuntimeError(f"Event device {self.device.index} does not match recording stream's device {stream.device.index}.")
        with kind.on(stream.device):
            if self._cupy is None:  # made by the first record, as then its device is known
                self._cupy = kind.cupy.cuda.Event(block=self.blocking, disable_timing=not self.enable_timing)
                self.device = stream.device
            self._cupy.record(stream._cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Have a stream's later work wait for the mark; that of the current one for None. Source: torch.cuda.Event.wait."""
        if self._cupy is None:
            return
        stream = current_stream() if stream is None else stream
        with required().on(stream.device):
            stream._cupy.wait_event(self._cupy)

    def query(self) -> bool:
        """Whether the mark was passed; True before it is recorded. Source: torch.cuda.Event.query."""
        return self._cupy is None or self._cupy.done

    def synchronize(self) -> None:
        """Wait until the mark is passed. Source: torch.cuda.Event.synchronize."""
        if self._cupy is not None:
            self._cupy.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between this mark and another.

        Raises:
            ValueError: one of them does not keep time, or is not recorded.
            RuntimeError: one of them is not passed.
        Source: torch.cuda.Event.elapsed_time.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._cupy is None or end_event._cupy is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return required().cupy.cuda.get_elapsed_time(self._cupy, end_event._cupy)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self._cupy is not None else "<torch.cuda.Event uninitialized>"


def _required_by(cls: type) -> Any:
    if usable() is None:
        raise RuntimeError(f"torch.cuda.{cls.__name__} requires CUDA support")
    return required()


def current_stream(device: Any = None) -> Stream:
    """The stream that work on a device goes to; on the current device for None.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        A new object for it, equal to others for it.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.current_stream.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.current_stream().synchronize()
    """
    where = device_at(device)
    return Stream._around(required().cupy.cuda.get_current_stream(where.index), where)


def default_stream(device: Any = None) -> Stream:
    """The default stream of a device, which is current until another is set.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        A new object for it, equal to others for it.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.default_stream.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.default_stream().query() in (False, True)
    """
    return Stream._around(required().cupy.cuda.Stream.null, device_at(device))


def set_stream(stream: Stream | None) -> None:
    """Make ``stream`` the current one, and its device the current device; None changes nothing.

    Args:
        stream: the stream, or None.
    Source: torch.cuda.set_stream.
    Example:
        >>> torch.cuda.set_stream(None)
    """
    if stream is None:
        return
    kind = required()
    kind.runtime.setDevice(kind.checked(stream.device_index))
    stream._cupy.use()


class StreamContext:
    """Context in which a stream is the current one, and its device the current device; None changes nothing.

    Args:
        stream: the stream, or None.
    Source: torch.cuda.StreamContext.
    Example:
        >>> with torch.cuda.StreamContext(None):
        ...     pass
    """

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._outer, self._replaced = current_stream(), current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *exc_info: object) -> None:
        if self.stream is not None:
            set_stream(self._replaced)
            set_stream(self._outer)


def stream(stream: Stream | None) -> StreamContext:
    """Context in which ``stream`` is the current one; None changes nothing.

    Args:
        stream: the stream, or None.
    Returns:
        The context, which also works as a decorator's body: ``with torch.cuda.stream(s): ...``.
    Source: torch.cuda.stream.
    Example:
        >>> with torch.cuda.stream(None):
        ...     x = torch.ones(3)
    """
    return StreamContext(stream)
