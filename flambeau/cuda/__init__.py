"""CUDA devices, of which there are none: queries say so, seeding and statistics do nothing, and whatever needs a device raises.

The behaviour is that of a CPU build of PyTorch, so that programs which choose their device by ``torch.cuda.is_available()`` run.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Literal

from .._settings import AcceleratorError as AcceleratorError
from .._settings import OutOfMemoryError as OutOfMemoryError
from ..core import late as _late
from ..core.device import device as _device
from ..core.legacy import CONSTRUCTORS as _CONSTRUCTORS
from ..core.legacy import STORAGES as _STORAGES
from ..core.legacy import typed_constructor as _typed_constructor
from ..core.tensor import Tensor
from . import nvtx as nvtx

_late.adopt(__name__)

default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False
_NEEDS_CUDA = "Torch not compiled with CUDA enabled"


class CudaError(RuntimeError):
    """An error code of the CUDA runtime. Source: torch.cuda.CudaError."""


class DeferredCudaCallError(Exception):
    """A call put off until CUDA is there went wrong. Source: torch.cuda.DeferredCudaCallError."""


# ---- what there is


def is_available() -> bool:
    """Whether there is a CUDA device: False. Source: torch.cuda.is_available."""
    return False


def is_initialized() -> bool:
    """Whether CUDA was started: False. Source: torch.cuda.is_initialized."""
    return False


def device_count() -> int:
    """Number of CUDA devices: 0. Source: torch.cuda.device_count."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a CUDA device computes with bfloat16: False. Source: torch.cuda.is_bf16_supported."""
    return False


def is_tf32_supported() -> bool:
    """Whether a CUDA device computes with TensorFloat-32: False. Source: torch.cuda.is_tf32_supported."""
    return False


def get_arch_list() -> list[str]:
    """The CUDA architectures that the package was built for: none. Source: torch.cuda.get_arch_list."""
    return []


def get_gencode_flags() -> str:
    """The compiler flags for those architectures: none. Source: torch.cuda.get_gencode_flags."""
    return ""


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured: False. Source: torch.cuda.is_current_stream_capturing."""
    return False


# ---- what needs a device

_NEEDING = {
    "init": "Start CUDA",
    "cudart": "The CUDA runtime",
    "current_device": "Index of the current device",
    "get_device_name": "Name of a device",
    "get_device_capability": "Compute capability of a device",
    "get_device_properties": "Properties of a device",
    "can_device_access_peer": "Whether one device reads another's memory",
    "synchronize": "Wait for all work on a device",
    "current_stream": "The current stream",
    "default_stream": "The default stream",
    "current_blas_handle": "The handle of cuBLAS",
    "get_sync_debug_mode": "Whether synchronising operations warn",
    "set_sync_debug_mode": "Choose whether synchronising operations warn",
    "initial_seed": "Seed of the current device's generator",
    "get_rng_state": "State of a device's generator",
    "mem_get_info": "Free and total memory of a device",
    "memory_summary": "A table of the allocator's statistics",
    "memory_snapshot": "The allocator's state",
    "get_allocator_backend": "Name of the allocator",
    "get_per_process_memory_fraction": "The part of the memory that may be used",
    "set_per_process_memory_fraction": "Limit the part of the memory that may be used",
    "caching_allocator_alloc": "Allocate memory",
    "caching_allocator_delete": "Free memory",
    "utilization": "How busy a device is",
    "memory_usage": "How busy a device's memory is",
    "temperature": "Temperature of a device",
    "power_draw": "Power that a device draws",
    "clock_rate": "Clock rate of a device",
    "make_graphed_callables": "Functions as CUDA graphs",
    "graph_pool_handle": "A pool of memory for CUDA graphs",
}


def _needing(name: str, what: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(_NEEDS_CUDA)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"{what}.\n\nRaises:\n    AssertionError: always, as there is no CUDA device.\nSource: torch.cuda.{name}."
    return function


def _lazy_init() -> None:
    raise AssertionError(_NEEDS_CUDA)


# ---- the current device


def _index(where: Any) -> int:
    """The index that a device, its name or an int stands for; -1 where nothing is to be switched."""
    if where is None:
        return -1
    if isinstance(where, int) and not isinstance(where, bool):
        return where
    target = _device(where)
    if target.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {target}")
    return 0 if target.index is None else target.index


class device:
    """Context in which another CUDA device is the current one; None and negative indices leave it as it is.

    Args:
        device: an index, a device or its name.
    Raises:
        ValueError: a device of another type.
        RuntimeError: on entering with an index, as there is no CUDA device.
    Source: torch.cuda.device.
    """

    def __init__(self, device: Any):
        self.idx = _index(device)

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *exc_info: object) -> Literal[False]:
        return False


class device_of(device):
    """Context in which a tensor's CUDA device is the current one; a tensor on the CPU changes nothing.

    Args:
        obj: a tensor or storage.
    Source: torch.cuda.device_of.
    """

    def __init__(self, obj: Any):
        self.idx = obj.get_device() if obj.is_cuda else -1


def set_device(device: Any) -> None:
    """Make a CUDA device the current one; a negative index changes nothing.

    Raises:
        AssertionError: any other device, as there is none.
    Source: torch.cuda.set_device.
    """
    if _index(device) >= 0:
        raise AssertionError(_NEEDS_CUDA)


# ---- seeding


def manual_seed(seed: int) -> None:
    """Seed the current device's generator, once there is one. Source: torch.cuda.manual_seed."""
    int(seed)  # what is no number is refused


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices. Source: torch.cuda.manual_seed_all."""
    int(seed)


def seed() -> None:
    """Seed the current device's generator from entropy. Source: torch.cuda.seed."""


def seed_all() -> None:
    """Seed the generators of all devices from entropy. Source: torch.cuda.seed_all."""


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices' generators: an empty list. Source: torch.cuda.get_rng_state_all."""
    return []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of a device's generator, once there is one. Source: torch.cuda.set_rng_state."""


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' generators. Source: torch.cuda.set_rng_state_all."""


# ---- memory

_NOTHING_ALLOCATED = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_NOTHING_TO_RESET = ("reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached")
_RENAMED = {"memory_cached": "memory_reserved", "max_memory_cached": "max_memory_reserved"}


def _zero_bytes(name: str) -> Callable[..., int]:
    def function(device: Any = None) -> int:
        if name in _RENAMED:
            warnings.warn(f"torch.cuda.{name} has been renamed to torch.cuda.{_RENAMED[name]}", FutureWarning, stacklevel=2)
        return 0

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"Bytes of a CUDA device's memory: 0.\n\nSource: torch.cuda.{name}."
    return function


def _no_reset(name: str) -> Callable[..., None]:
    def function(device: Any = None) -> None:
        return None

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"Reset statistics that always read 0: nothing happens.\n\nSource: torch.cuda.{name}."
    return function


def empty_cache() -> None:
    """Give unused memory back to the device: nothing happens. Source: torch.cuda.empty_cache."""


def ipc_collect() -> None:
    """Free memory that other processes no longer use.

    Raises:
        AssertionError: always, as there is no CUDA device.
    Source: torch.cuda.ipc_collect.
    """
    _lazy_init()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The allocator's statistics: empty. Source: torch.cuda.memory_stats."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The allocator's statistics as nested dicts: empty. Source: torch.cuda.memory_stats_as_nested_dict."""
    return {}


# ---- streams, events, graphs


class Stream:
    """A queue of work on a CUDA device.

    Raises:
        RuntimeError: always, as there is no CUDA device.
    Source: torch.cuda.Stream.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.cuda.{cls.__name__} requires CUDA support")


class ExternalStream(Stream):
    """A stream made by another library. Source: torch.cuda.ExternalStream."""


class Event(Stream):
    """A mark in a stream that can be waited for and timed. Source: torch.cuda.Event."""


class CUDAGraph(Stream):
    """A recorded graph of work. Source: torch.cuda.CUDAGraph."""


class StreamContext:
    """Context in which a stream is the current one; None changes nothing, and there is no other stream.

    Source: torch.cuda.StreamContext.
    """

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        return None


def stream(stream: Stream | None) -> StreamContext:
    """Context in which ``stream`` is the current one; None changes nothing. Source: torch.cuda.stream."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make ``stream`` the current one; None changes nothing, and there is no other stream. Source: torch.cuda.set_stream."""


class _NoStorageMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return False


def _no_storage(name: str) -> type:
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError(_NEEDS_CUDA)

    return _NoStorageMeta(name, (), {"__new__": make, "__module__": __name__, "__doc__": f"Storage on a CUDA device: {name}."})


_names = globals()
_names.update({name: _needing(name, what) for name, what in _NEEDING.items()})
_names.update({name: _zero_bytes(name) for name in (*_NOTHING_ALLOCATED, *_RENAMED)})
_names.update({name: _no_reset(name) for name in _NOTHING_TO_RESET})
_names.update({name: _typed_constructor(kind.dtype, is_cuda=True) for name, kind in _CONSTRUCTORS.items()})
_names.update({name: _no_storage(name) for name in _STORAGES})
