"""A stand-in for CuPy on machines without a GPU: ``install()`` puts it where ``import cupy`` finds it.

Its arrays are ``flambeau.testing.device_array``'s, each on one of several devices.  It is as strict as CuPy 14.2, whose names, arguments
and ufuncs' types stand in ``cupy_names.txt`` (made by ``list_cupy.py`` from CuPy itself):

- a function takes the arguments that CuPy's takes, a ufunc the types, and there is nothing that CuPy has not;
- work on an array whose device is not the thread's current one is an error, as without peer access;
- memory comes from a pool through the allocator that was set, and is limited;
- work is queued on the current stream and done when somebody waits for it.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import re
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

from flambeau.testing.device_array import DeviceArray, Module, call, call_ufunc, view_at as host_view_at

NAMES = Path(__file__).with_name("cupy_names.txt")
DEVICES = 3
TOTAL_MEMORY = 1 << 30  # of each device, in bytes
ROUND = 512  # blocks of the pool are multiples of it


def _read_names() -> tuple[dict[str, list[str] | None], dict[str, list[str]]]:
    """CuPy's names with their parameters (None for what is not called), and its ufuncs with their types."""
    names: dict[str, list[str] | None] = {}
    ufuncs = {}
    for line in NAMES.read_text().splitlines():
        if ": " in line:
            name, _, loops = line.partition(": ")
            names[name], ufuncs[name] = None, loops.split()
        else:
            name, bracket, rest = line.partition("(")
            names[name] = [part for part in rest[:-1].split(", ") if part] if bracket else None
    return names, ufuncs


CUPY, UFUNCS = _read_names()


def check_arguments(name: str, args: Any, kwargs: Any) -> None:
    """Raise TypeError where CuPy's function takes no such arguments."""
    params = CUPY[name]
    if params is None or any(param.startswith("**") for param in params):
        return
    allowed = [param for param in params if not param.startswith("*")]
    keyword_only = params[params.index("*") + 1 :] if "*" in params else []
    if not any(param.startswith("*") and param != "*" for param in params) and len(args) > len(allowed) - len(keyword_only):
        raise TypeError(f"{name}() takes {len(allowed) - len(keyword_only)} positional arguments but {len(args)} were given")
    for given in kwargs:
        if given not in allowed:
            raise TypeError(f"{name}() got an unexpected keyword argument '{given}'")


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _type_of(char: str) -> np.dtype:
    return _BFLOAT16 if char == "E" else np.dtype(char)


def check_types(name: str, inputs: Any) -> None:
    """Raise TypeError where CuPy's ufunc has no loop for such operands."""
    kinds = [value.dtype if hasattr(value, "dtype") else None for value in inputs]
    for loop in UFUNCS[name]:
        taken = loop.partition("->")[0]
        if len(taken) == len(kinds) and all(
            kind is None or kind == _type_of(char) or (kind != _BFLOAT16 and char != "E" and np.can_cast(kind, _type_of(char)))
            for kind, char in zip(kinds, taken, strict=True)
        ):
            return
    raise TypeError(f"Wrong type ({kinds}) of arguments for cupy_{name}")


# -- devices, streams, memory -------------------------------------------------------------------------------------------------------


class CUDARuntimeError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    def __init__(self, size: int, total: int, limit: int = 0):
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")


class _Thread(threading.local):
    device = 0

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


thread = _Thread()


class Device:
    def __init__(self, device: Any = None):
        self.id = thread.device if device is None else device if isinstance(device, int) else device.id
        self._outer: list[int] = []

    def use(self) -> None:
        runtime.setDevice(self.id)

    def __enter__(self) -> Device:
        self._outer.append(thread.device)
        runtime.setDevice(self.id)
        return self

    def __exit__(self, *exc_info: object) -> None:
        runtime.setDevice(self._outer.pop())

    def synchronize(self) -> None:
        for stream in Stream.all:
            if stream.device_id in (-1, self.id):
                stream.finished = stream.queued

    @property
    def mem_info(self) -> tuple[int, int]:
        return runtime.memGetInfo()


class Stream:
    all: weakref.WeakSet[Stream] = weakref.WeakSet()
    null: Stream
    _handles = itertools.count(0x1000, 16)

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None):
        self.ptr = 0 if null else next(self._handles)
        self.device_id = -1 if null else thread.device
        self.priority, self.is_non_blocking = priority or 0, non_blocking
        self.queued = self.finished = 0
        Stream.all.add(self)

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        stream = cls()
        _, stream.ptr = obj.__cuda_stream__()
        return stream

    @property
    def done(self) -> bool:
        return self.queued == self.finished

    def use(self) -> Stream:
        if self.device_id not in (-1, thread.device):
            raise RuntimeError(f"stream was created on device {self.device_id}, the current one is {thread.device}")
        thread.streams[thread.device] = self
        return self

    def synchronize(self) -> None:
        self.finished = self.queued

    def record(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        self.queued += 1

    def is_capturing(self) -> bool:
        return False


Stream.null = Stream(null=True)
_clock = itertools.count()


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
        self.ptr, self._device = id(self), thread.device
        self._timed = not disable_timing
        self._stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        stream = get_current_stream() if stream is None else stream
        if self._device != thread.device or stream.device_id not in (-1, thread.device):
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        stream.queued += 1
        self._stream, self._mark, self._time = stream, stream.queued, next(_clock)

    @property
    def done(self) -> bool:
        return self._stream is None or self._stream.finished >= self._mark

    def synchronize(self) -> None:
        if self._stream is not None:
            self._stream.finished = max(self._stream.finished, self._mark)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    if not (start_event._timed and end_event._timed):
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return (end_event._time - start_event._time) * 0.001


def get_current_stream(device_id: int = -1) -> Stream:
    return thread.streams.get(thread.device if device_id < 0 else device_id, Stream.null)


class Block:
    """Memory of a device; it goes back to the pool when nobody has it."""

    _addresses = itertools.count(1 << 20, 1 << 20)

    def __init__(self, pool: MemoryPool, device_id: int, size: int):
        self.ptr, self.device_id, self.size = next(self._addresses), device_id, size
        pool.used[device_id] += size
        self._gone = weakref.finalize(self, pool._freed, device_id, size)
        self._gone.atexit = False


class MemoryPool:
    def __init__(self, allocator: Any = None):
        self.used = [0] * DEVICES
        self.total = [0] * DEVICES
        self.limit = [0] * DEVICES

    def _freed(self, device_id: int, size: int) -> None:
        self.used[device_id] -= size

    def malloc(self, size: int) -> MemoryPointer:
        device, size = thread.device, -(-size // ROUND) * ROUND
        needed = max(self.used[device] + size, self.total[device])
        if needed > (self.limit[device] or TOTAL_MEMORY):
            raise OutOfMemoryError(size, self.total[device])
        block = Block(self, device, size)
        self.total[device] = needed
        return MemoryPointer(block, 0)

    def free_all_blocks(self, stream: Any = None) -> None:
        self.total[thread.device] = self.used[thread.device]

    def used_bytes(self) -> int:
        return self.used[thread.device]

    def free_bytes(self) -> int:
        return self.total[thread.device] - self.used[thread.device]

    def total_bytes(self) -> int:
        return self.total[thread.device]

    def get_limit(self) -> int:
        return self.limit[thread.device]

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self.limit[thread.device] = int(fraction * TOTAL_MEMORY) if fraction is not None else size or 0


class PinnedMemoryPool:
    def free_all_blocks(self) -> None:
        pass


class MemoryPointer:
    """Where on a device something lies.

    Attributes:
        array: NumPy's array that stands for the memory, where there is one.
    """

    def __init__(self, mem: Any, offset: int, array: Any = None, start: int = 0):
        self.mem, self._offset, self.array, self._start = mem, offset, array, start

    @property
    def ptr(self) -> int:
        return self.mem.ptr + self._offset

    @property
    def device_id(self) -> int:
        return self.mem.device_id

    @property
    def device(self) -> Device:
        return Device(self.mem.device_id)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self._offset + offset, self.array, self._start + offset)


_pool, _pinned_pool = MemoryPool(), PinnedMemoryPool()
_allocator: list[Any] = [_pool.malloc]


def set_allocator(allocator: Any = None) -> None:
    _allocator[0] = allocator


def get_allocator() -> Any:
    return _allocator[0]


def alloc(size: int) -> MemoryPointer:
    return _allocator[0](size)


class PinnedMemoryPointer(bytearray):
    """Page-locked memory of the host; ``cupy``'s has the buffer protocol, too."""

    all: weakref.WeakSet[PinnedMemoryPointer] = weakref.WeakSet()
    __hash__ = object.__hash__

    def spans(self, address: int) -> bool:
        start = ctypes.addressof(ctypes.c_char.from_buffer(self))
        return start <= address < start + len(self)


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    pointer = PinnedMemoryPointer(size)
    PinnedMemoryPointer.all.add(pointer)
    return pointer


_PROCESS = os.getpid()  # whose devices they are: not its children's


class runtime:
    CUDARuntimeError = CUDARuntimeError
    memoryTypeUnregistered, memoryTypeHost, memoryTypeDevice, memoryTypeManaged = range(4)

    @staticmethod
    def getDeviceCount() -> int:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        count = DEVICES if visible is None else len([part for part in visible.split(",") if part])
        if not count:
            raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return min(count, DEVICES)

    @staticmethod
    def getDevice() -> int:
        if os.getpid() != _PROCESS:
            raise CUDARuntimeError("cudaErrorInitializationError: initialization error")
        return thread.device

    @staticmethod
    def setDevice(device: int) -> None:
        if not 0 <= device < runtime.getDeviceCount():
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        thread.device = device

    @staticmethod
    def deviceSynchronize() -> None:
        Device().synchronize()

    @staticmethod
    def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
        return int(device != peerDevice)

    @staticmethod
    def memGetInfo() -> tuple[int, int]:
        return TOTAL_MEMORY - _pool.total_bytes(), TOTAL_MEMORY

    @staticmethod
    def getDeviceProperties(device: int) -> dict[str, Any]:
        said: dict[str, Any] = dict.fromkeys(
            (
                "integrated isMultiGpuBoard maxThreadsPerMultiProcessor regsPerMultiprocessor sharedMemPerBlock sharedMemPerBlockOptin "
                "sharedMemPerMultiprocessor l2CacheSize memoryBusWidth pciBusID pciDeviceID pciDomainID"
            ).split(),
            0,
        )
        said.update(name=b"Stand-in %d" % device, major=8, minor=6, totalGlobalMem=TOTAL_MEMORY, multiProcessorCount=4, warpSize=32)
        return said

    @staticmethod
    def pointerGetAttributes(ptr: int) -> Any:
        pinned = any(pointer.spans(ptr) for pointer in list(PinnedMemoryPointer.all))
        return types.SimpleNamespace(
            device=thread.device,
            devicePointer=ptr,
            hostPointer=ptr,
            type=runtime.memoryTypeHost if pinned else runtime.memoryTypeUnregistered,
        )


# -- arrays ---------------------------------------------------------------------------------------------------------------------------


class ndarray(DeviceArray):
    __slots__ = ("_memory", "_start")

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> Any:
        if memptr is None:
            return cls._placed(np.empty(shape, dtype, order))
        array = object.__new__(cls)
        array._host = host_view_at(types.SimpleNamespace(_host=memptr.array), shape, np.dtype(dtype), memptr._start, strides)
        array._memory, array._start = memptr, 0
        return array

    @classmethod
    def _placed(cls, host: np.ndarray, viewed: Any = None) -> Any:
        if host.dtype.name.startswith("float8"):
            raise ValueError(f"Unsupported dtype {host.dtype}")
        array = object.__new__(cls)
        array._host = host
        if viewed is None:
            array._memory = alloc(host.nbytes)
            get_current_stream().queued += 1
        else:
            array._memory = viewed._memory
        return array

    def _used(self) -> np.ndarray:
        if self._memory.device_id != thread.device:
            raise ValueError(
                f"The device where the array resides ({self._memory.device_id}) is different from the current device ({thread.device}). "
                "Peer access is unavailable between these devices."
            )
        get_current_stream().queued += 1
        return self._host

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or ufunc.__name__ not in CUPY:
            return NotImplemented
        if len(kwargs.get("out", (None,))) != 1:
            raise ValueError("The 'out' parameter must have exactly one array value")
        if ufunc.__name__ in UFUNCS and kwargs.get("dtype") is None:
            check_types(ufunc.__name__, inputs)
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module = function.__module__.partition(".")[2]
        path = f"{module}.{function.__name__}" if module else function.__name__
        if path not in CUPY:
            return NotImplemented
        check_arguments(path, args, kwargs)
        return super().__array_function__(function, types, args, kwargs)

    @classmethod
    def _take(cls, value: Any) -> Any:
        if type(value).__module__ == "ml_dtypes" and isinstance(value, np.generic):
            raise TypeError(f"Unsupported type {type(value)}")
        return super()._take(value)

    @classmethod
    def _take_index(cls, key: Any) -> Any:
        parts = key if key.__class__ is tuple else (key,)
        if sum(isinstance(part, (cls, np.ndarray)) and part.dtype == bool for part in parts) > 1:
            raise ValueError("an index of more than one boolean array is not supported")
        return super()._take_index(key)

    @property
    def data(self) -> Any:
        """The block's address moved by where NumPy's array begins in its own memory."""
        owner = self._host
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        offset = self._host.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        return MemoryPointer(self._memory.mem, offset, self._host)

    @property
    def device(self) -> Any:
        return Device(self._memory.device_id)

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        get_current_stream(self._memory.device_id).synchronize()
        copied = np.array(super().get(), order="F" if order == "F" or (order == "A" and self.flags.f_contiguous) else "C")
        if out is None:
            return copied
        out[...] = copied
        return out

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        get_current_stream(self._memory.device_id).queued += 1
        self._host[...] = arr

    def copy(self, order: str = "C") -> Any:
        return self._placed(self._host.copy(order))  # also of an array on another device


def _strict_method(name: str, plain: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_arguments(f"ndarray.{name}", args, kwargs)
        return plain(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in dir(DeviceArray):
    if _name.startswith("_") or not callable(getattr(DeviceArray, _name)) or _name in ndarray.__dict__:
        continue
    if f"ndarray.{_name}" in CUPY:
        setattr(ndarray, _name, _strict_method(_name, getattr(DeviceArray, _name)))
    else:
        raise AttributeError(f"CuPy's arrays have no {_name}")


class StrictUfunc:
    def __init__(self, ufunc: Any, name: str):
        self._ufunc, self._name, self.__name__ = ufunc, name, f"cupy_{name}"
        self.nin, self.nout = ufunc.nin, ufunc.nout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for given in kwargs:
            if given not in ("out", "dtype", "casting"):
                raise TypeError(f"Wrong arguments {kwargs}")
        if len(args) > self.nin:
            args, kwargs["out"] = args[: self.nin], tuple(args[self.nin :])
        if kwargs.get("dtype") is None:
            check_types(self._name, args)
        return call_ufunc(ndarray, self._ufunc, "__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("reduce", "accumulate", "at", "outer", "reduceat"):
            return lambda *args, **kwargs: call_ufunc(ndarray, self._ufunc, name, args, kwargs)
        raise AttributeError(name)


class StrictModule(Module):
    """NumPy's functions over this module's arrays, those that CuPy has, with the arguments that CuPy's take."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self.__name__}.{name}".partition(".")[2]
        plain = getattr(self._module, name)
        if type(plain) is type(np):
            if not any(known.startswith(f"{path}.") for known in CUPY):
                raise AttributeError(f"module 'cupy' has no attribute '{path}'")
            found: Any = StrictModule(ndarray, plain, f"{self.__name__}.{name}")
        elif path not in CUPY:
            raise AttributeError(f"module 'cupy' has no attribute '{path}'")
        elif path in UFUNCS:
            found = StrictUfunc(plain, path) if isinstance(plain, np.ufunc) else _strict(path, lambda *a, **k: call(ndarray, plain, a, k))
        elif CUPY[path] is None:
            found = plain
        else:
            found = _strict(path, lambda *args, **kwargs: call(ndarray, plain, args, kwargs))
        self.__dict__[name] = found
        return found


def _strict(path: str, function: Any) -> Any:
    def call_checked(*args: Any, **kwargs: Any) -> Any:
        check_arguments(path, args, kwargs)
        return function(*args, **kwargs)

    call_checked.__name__ = path
    return call_checked


def install() -> Any:
    """Make this the module that ``import cupy`` gives; with FLAMBEAU_TEST_CUPY=real CuPy itself stays it (``with_cupy``)."""
    if os.environ.get("FLAMBEAU_TEST_CUPY") == "real":
        return importlib.import_module("cupy")
    module = sys.modules["cupy"] = make_module()
    for name in ("cupyx", "cupyx.scipy"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["cupyx.scipy.special"] = StrictModule(ndarray, scipy.special, "cupyx.scipy.special")  # type: ignore[assignment]
    return module


def make_module() -> Any:
    """What the module ``cupy`` is."""
    module: Any = StrictModule(ndarray)
    module.__version__, module.__file__ = "14.2.0", __file__
    module.get_default_memory_pool = lambda: _pool
    module.get_default_pinned_memory_pool = lambda: _pinned_pool
    module.cuda = types.SimpleNamespace(
        Device=Device,
        Event=Event,
        Stream=Stream,
        MemoryPool=MemoryPool,
        PinnedMemoryPool=PinnedMemoryPool,
        MemoryPointer=MemoryPointer,
        alloc=alloc,
        alloc_pinned_memory=alloc_pinned_memory,
        get_allocator=get_allocator,
        get_cublas_handle=lambda: 0x5000 + thread.device,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        is_available=lambda: True,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=runtime,
        set_allocator=set_allocator,
    )
    return module


def public_names(module: Any) -> list[str]:
    """What the stand-in offers, as ``cupy_names.txt`` names it; NumPy's functions are taken from there in the first place."""
    found = []
    for name, value in vars(module.cuda).items():
        found.append(f"cuda.{name}")
        if isinstance(value, (type, types.SimpleNamespace)):
            inner = vars(value) if isinstance(value, types.SimpleNamespace) else dir(value)
            found += [f"cuda.{name}.{part}" for part in inner if not re.match("_|used$|total$|limit$|all$|from_buffer", part)]
    return found
