"""NVIDIA GPUs: the kind of array that CuPy makes, the devices, their generators and their memory.  Imported at the first use of CUDA.

CuPy starts its work on the thread's current device and current stream; PyTorch does it where the operands lie.  As long as one device is
in use, and it is device 0, both are the same.  From the first use of another one on, every call goes the slow path, which makes its
operands' device the current one (``state.crowded``), since the fast path's ufuncs would run on whichever is current.

Memory comes from CuPy's pool through ``_allocate``, the one place that counts peaks and turns CuPy's error into PyTorch's.

Tests run it on a stand-in for CuPy (``tests/devices/fake_cupy.py``), and on CuPy itself where there is a GPU (``with_cupy.py``).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ..calls.interruption import trust
from ..device import device
from ..random.generator import default_generator, followers
from ..settings import AcceleratorError, OutOfMemoryError
from ..state import crowded, expect_several_devices
from .cuda_memory import DeviceMemory, shown
from .device_numpy import Namespace
from .kinds import Kind, copying, register

NOT_THERE = "Torch not compiled with CUDA enabled"
_INVALID = "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
_FORKED = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"


def _installed() -> Any:
    """The module ``cupy``, if it is installed and finds a device; else None."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return None
    try:
        module = importlib.import_module("cupy")
        return module if module.cuda.runtime.getDeviceCount() > 0 else None
    except (ImportError, OSError, RuntimeError, AttributeError):  # a driver or an installation that cannot be used
        return None


def _dense_order(array: Any) -> tuple[int, ...]:
    """The dimensions from the widest stride to the narrowest; transposed so, a dense array is contiguous."""
    strides = array.strides
    return tuple(sorted(range(array.ndim), key=lambda dim: (-strides[dim], dim)))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(dim) for dim in range(len(order)))


class Cuda(Kind):
    """CuPy's arrays.

    Args:
        cupy: the module.
    Attributes:
        devices: the visible ones. generators: their default generators. memory: their statistics.
        in_flight: host memory and blocks of the device that work on a stream still needs, with the event behind that work.
    """

    name = "cuda"

    def __init__(self, cupy: Any):
        super().__init__()
        self.cupy, self.array_class, self.xp = cupy, cupy.ndarray, Namespace(cupy)
        self.runtime = cupy.cuda.runtime
        self.devices = tuple(device("cuda", index) for index in range(self.runtime.getDeviceCount()))
        self.generators = tuple(default_generator.for_device(where) for where in self.devices)
        self.memory = tuple(DeviceMemory() for _ in self.devices)
        self.in_flight: list[tuple[Any, Any]] = []
        self.is_forked = False
        self._allocate_block = cupy.cuda.get_allocator()
        cupy.cuda.set_allocator(self._allocate)

    @cached_property
    def special(self) -> Any:
        """Imported late: most programs need no special function."""
        return Namespace(importlib.import_module("cupyx.scipy.special"), importlib.import_module("scipy.special"), self.cupy)

    # -- arrays -------------------------------------------------------------------------------------------------------------------------
    def device_of(self, array: Any) -> device:
        return self.devices[array.data.device_id]

    def address(self, array: Any) -> int:
        return array.data.ptr

    def to_host(self, array: Any) -> np.ndarray:
        if array.flags.c_contiguous:
            return array.get()
        order = _dense_order(array)
        with self.on(self.device_of(array)):
            return array.transpose(order).get().transpose(_inverse(order))

    def from_host(self, array: np.ndarray, where: device) -> Any:
        self.check_dtype(array.dtype)
        is_plain = array.flags.c_contiguous
        order = () if is_plain else _dense_order(array)
        values = array if is_plain else np.ascontiguousarray(array.transpose(order))
        with self.on(where):
            copied = self.cupy.empty(values.shape, values.dtype)
            if values.size:
                copied.set(values)
                if self.is_pinned(values):  # from there the copy goes on while the host continues
                    self._settle(values)
            return copied if is_plain else copied.transpose(_inverse(order))

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
        return self.cupy.ndarray(tuple(shape), kind, base.data + offset, tuple(strides))

    def across(self, array: Any, where: device) -> Any:
        with self.on(where):
            return array.copy(order="K")

    def make(self, where: device, function: Any, *args: Any) -> Any:
        for value in args:
            if isinstance(value, np.dtype):
                self.check_dtype(value)
        with self.on(where):
            return super().make(where, function, *args)

    def check_dtype(self, dtype: np.dtype) -> None:
        if dtype.name.startswith("float8"):
            raise NotImplementedError(f"tensors of {dtype.name} on a CUDA device are not supported: CuPy has no such element type")

    # -- devices ------------------------------------------------------------------------------------------------------------------------
    def on(self, where: device) -> AbstractContextManager[Any]:
        return self.cupy.cuda.Device(where.index)

    def current(self) -> int:
        """Index of the thread's current device."""
        if self.is_forked:
            raise RuntimeError(_FORKED)
        return self.runtime.getDevice()

    def placed(self, where: device) -> device:
        return self.devices[self.checked(self.current() if where.index is None else where.index)]

    def checked(self, index: int) -> int:
        """The index of a device that is there and is now in use.

        Raises:
            AcceleratorError: there is none.
            RuntimeError: this process was forked from one that used CUDA.
        """
        if self.is_forked:
            raise RuntimeError(_FORKED)
        if not 0 <= index < len(self.devices):
            raise AcceleratorError(_INVALID)
        if index and not crowded:
            expect_several_devices()
        return index

    # -- memory -------------------------------------------------------------------------------------------------------------------------
    def _allocate(self, size: int) -> Any:
        """A block of the current device's memory, for CuPy.

        Raises:
            OutOfMemoryError: there is no such block.
        """
        index = self.current()
        known, pool = self.memory[index], self.cupy.get_default_memory_pool()
        if self.in_flight:
            self.collect()
        known.allocations += 1
        try:
            block = self._allocate_block(size)
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            known.failures += 1
            free, total = self.runtime.memGetInfo()
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {shown(size)}. GPU {index} has a total capacity of {shown(total)} of which "
                f"{shown(free)} is free. Of the allocated memory {shown(pool.used_bytes())} is allocated by PyTorch, and "
                f"{shown(pool.free_bytes())} is reserved by PyTorch but unallocated."
            ) from error
        known.peak = max(known.peak, pool.used_bytes())
        known.reserved_peak = max(known.reserved_peak, pool.total_bytes())
        return block

    def keep_until_done(self, kept: Any, stream: Any) -> None:
        """Keep memory alive until the work that was queued on a stream so far is done."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        self.in_flight.append((event, kept))

    def collect(self) -> None:
        """Let go of memory whose work is done."""
        self.in_flight = [(event, kept) for event, kept in self.in_flight if not event.done]

    def hold_for(self, storage: Any, stream: Any) -> None:
        """Keep a storage's block, once the storage is gone, until the work queued on ``stream`` by then is done."""
        weakref.finalize(storage, self.keep_until_done, storage._array.data.mem, stream).atexit = False

    def pinned_like(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array in page-locked memory of the host, with its strides."""
        extent = array.itemsize + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) if array.size else 0
        memory = self.cupy.cuda.alloc_pinned_memory(max(extent, array.itemsize))
        copied = np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
        copied[...] = array
        return copied

    def is_pinned(self, array: np.ndarray) -> bool:
        """Whether an array of the host lies in page-locked memory."""
        address = array.__array_interface__["data"][0]
        return self.runtime.pointerGetAttributes(address).type == self.runtime.memoryTypeHost

    def _settle(self, values: np.ndarray) -> None:
        """Wait for a copy from pinned memory, or keep the memory where the caller need not wait."""
        stream = self.cupy.cuda.get_current_stream()
        if copying.non_blocking:
            self.keep_until_done(values, stream)
        else:
            stream.synchronize()

    # -- random numbers -----------------------------------------------------------------------------------------------------------------
    @contextmanager
    def drawing(self, where: device) -> Iterator[None]:
        with default_generator.exchanged(self.generators[where.index or 0]):
            yield


_found = _installed()
cuda: Cuda | None = None if _found is None else Cuda(_found)  # None on a machine without a usable device


def require() -> Cuda:
    """The kind of CUDA's arrays.

    Raises:
        AssertionError: there is no device.
    """
    if cuda is None:
        raise AssertionError(NOT_THERE)
    if cuda.is_forked:
        raise RuntimeError(_FORKED)
    return cuda


if cuda is not None:
    # its compiled modules name their sources by paths relative to its root
    trust(_found.__file__.removesuffix("__init__.py"), "cupy/", "cupy_backends/")
    register(cuda)
    followers.extend(cuda.generators)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: setattr(cuda, "is_forked", True))
