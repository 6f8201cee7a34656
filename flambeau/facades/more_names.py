"""Names of ``torch`` that are neither operations nor settings: switches of old spelling, errors, facts of the build, stand-ins.

They are found by ``flambeau.__getattr__`` when first used.
"""

from __future__ import annotations

import os
import time
from types import FunctionType
from typing import Any

from ..autograd.anomaly import set_detect_anomaly
from ..core.arrays.kinds import place_of
from ..core.device import device as Device
from ..core.layout import contiguous_format as legacy_contiguous_format
from ..core.storage import UntypedStorage as StorageBase
from ..jit._state import JITException
from ..ops import resolve

__all__ = ["JITException", "StorageBase", "legacy_contiguous_format"]
has_lapack = has_openmp = has_spectral = True
has_mkl = False
_segment_reduce = resolve("torch", "segment_reduce")


class FatalError(Exception):
    """An error after which the process cannot go on. Source: torch.FatalError."""

    __module__ = "torch"


class Stream:
    """A queue of work of a device. The CPU works at once: its queue is always empty.

    Args:
        device: whose; the CPU when None and there is no accelerator.
        priority: smaller numbers come first.
    Source: torch.Stream.
    """

    __module__ = "torch"

    def __new__(cls, device: Any = None, *, priority: int = 0) -> Any:
        where = place_of("cpu" if device is None else device, "Stream")
        if where.type == "cuda":
            from .. import cuda

            return cuda.Stream(where, priority)
        stream = super().__new__(cls)
        stream.device = where
        return stream

    device: Device
    stream_id = 0

    def query(self) -> bool:
        """Whether all work in it is done: True. Source: torch.Stream.query."""
        return True

    def synchronize(self) -> None:
        """Wait for all work in it: there is none. Source: torch.Stream.synchronize."""

    def record_event(self, event: Any = None) -> Any:
        """Put a mark behind the work in it, and return the mark. Source: torch.Stream.record_event."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Have later work wait for a mark: work before it is done already. Source: torch.Stream.wait_event."""

    def wait_stream(self, stream: Any) -> None:
        """Have later work wait for another queue. Source: torch.Stream.wait_stream."""
        stream.synchronize()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id={self.stream_id}"


class Event:
    """A mark in a queue of work. On the CPU it has happened when it is made.

    Args:
        device: whose; the CPU when None and there is no accelerator.
        enable_timing: note when the mark is passed.
    Source: torch.Event.
    """

    __module__ = "torch"

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        where = place_of("cpu" if device is None else device, "Event")
        if where.type == "cuda":
            from .. import cuda

            return cuda.Event(enable_timing, blocking, interprocess)
        event = super().__new__(cls)
        event.device, event._timed, event._passed = where, enable_timing, None
        return event

    device: Device
    event_id = 0
    _timed: bool
    _passed: float | None

    def record(self, stream: Any = None) -> None:
        """Note the time, where ``enable_timing``. Source: torch.Event.record."""
        self._passed = time.perf_counter()

    def query(self) -> bool:
        """Whether the mark has been passed: True. Source: torch.Event.query."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Have later work wait for the mark. Source: torch.Event.wait."""

    def synchronize(self) -> None:
        """Wait for the mark. Source: torch.Event.synchronize."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between two recorded marks that note the time. Source: torch.Event.elapsed_time."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._passed is None or end_event._passed is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._passed - self._passed) * 1000

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index=-1, event_flag={int(self._timed)}, event_id={self.event_id}"


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection. Source: torch.set_anomaly_enabled."""
    set_detect_anomaly(enabled, check_nan)


def is_vulkan_available() -> bool:
    """Whether there is a back end for Vulkan: False. Source: torch.is_vulkan_available."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Whether PyTorch's C++ has today's ABI, which it always has. Source: torch.compiled_with_cxx11_abi."""
    return True


def init_num_threads() -> None:
    """Prepare threads for operations; they are made when first needed. Source: torch.init_num_threads."""


def thread_safe_generator() -> None:
    """The generator of a thread that loads data: None outside of one. Source: torch.thread_safe_generator."""


def prepare_multiprocessing_environment(path: str) -> None:
    """Prepare the environment of child processes; nothing is to be done. Source: torch.prepare_multiprocessing_environment."""


def get_file_path(*path_components: str) -> str:
    """Path of a file of the package. Source: torch.get_file_path."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), *path_components)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless a number lies in a range, ends included. Source: torch.sym_constrain_range."""
    if min is not None and max is not None and max < min:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={min} max={max}")
    low, high = -(2**63) if min is None else min, 2**63 - 1 if max is None else max
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless a size lies in a range of sizes. Source: torch.sym_constrain_range_for_size."""
    low = 0 if min is None else min
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    if not low <= size <= (2**63 - 1 if max is None else max):
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {2**63 - 1 if max is None else max}].")


def sym_fresh_size(symint: Any) -> int:
    """``symint`` itself, as sizes are plain numbers. Source: torch.sym_fresh_size."""
    return symint


for _value in list(vars().values()):  # pickles name them by the module in which PyTorch's are found
    if isinstance(_value, FunctionType) and _value.__module__ == __name__:
        _value.__module__ = __package__.rpartition(".")[0]
