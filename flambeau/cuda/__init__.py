"""CUDA devices, through CuPy. Source: torch.cuda.

Without CuPy or without a device the behaviour is that of a CPU build of PyTorch: queries return False or 0, seeding and statistics do
nothing, and everything that needs a device raises. So programs that choose their device by ``torch.cuda.is_available()`` run. The first
call that needs a device imports CuPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field as _field, fields as _fields
from typing import Any, Literal

from ..core import late as _late
from ..core.protocols.legacy import CONSTRUCTORS as _CONSTRUCTORS, STORAGES as _STORAGES, typed_constructor as _typed_constructor
from ..core.switches import AcceleratorError as AcceleratorError, OutOfMemoryError as OutOfMemoryError
from . import memory as memory, nvtx as nvtx, random as random, streams as streams
from ._runtime import (
    device_at as _device_at,
    index_of as _index_of,
    required as _required,
    usable as _usable,
    without_cuda as _without_cuda,
)
from .memory import *  # noqa: F403 - every file lists its public names itself
from .random import *  # noqa: F403
from .streams import *  # noqa: F403

_late.adopt(__name__)

has_half = True
has_magma = False


class CudaError(RuntimeError):
    """An error code of the CUDA runtime.

    Source: torch.cuda.CudaError.
    Example:
        >>> issubclass(torch.cuda.CudaError, RuntimeError)
        True
    """


class DeferredCudaCallError(Exception):
    """A call that was deferred until CUDA is initialized failed.

    Source: torch.cuda.DeferredCudaCallError.
    Example:
        >>> issubclass(torch.cuda.DeferredCudaCallError, Exception)
        True
    """


# ---- what there is


def is_available() -> bool:
    """Whether there is a CUDA device, and CuPy to use it.

    Returns:
        True where tensors can be made on ``'cuda'``.
    Source: torch.cuda.is_available.
    Example:
        >>> device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        >>> torch.ones(2, device=device).sum().item()
        2.0
    """
    return _usable() is not None


def is_initialized() -> bool:
    """Whether CUDA was started, which the first use does.

    Returns:
        False before the first use of a device.
    Source: torch.cuda.is_initialized.
    Example:
        >>> torch.cuda.is_initialized() in (False, True)
        True
    """
    from sys import modules

    found = modules.get("flambeau.core.arrays.cuda")
    return found is not None and found.cuda is not None


@_without_cuda(int)
def device_count() -> int:
    """Number of CUDA devices that may be used; ``CUDA_VISIBLE_DEVICES`` chooses.

    Returns:
        The number; 0 without CUDA.
    Source: torch.cuda.device_count.
    Example:
        >>> (torch.cuda.device_count() > 0) == torch.cuda.is_available()
        True
    """
    return len(_required().devices)


@_without_cuda(bool)
def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes with bfloat16.

    Args:
        including_emulation: count devices before compute capability 8.0, which compute it in software.
    Returns:
        False without a device.
    Source: torch.cuda.is_bf16_supported.
    Example:
        >>> dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    """
    return including_emulation or get_device_capability()[0] >= 8


@_without_cuda(bool)
def is_tf32_supported() -> bool:
    """Whether the current device computes with TensorFloat-32.

    Returns:
        False without a device, and for compute capabilities before 8.0.
    Source: torch.cuda.is_tf32_supported.
    Example:
        >>> torch.cuda.is_tf32_supported() <= torch.cuda.is_available()
        True
    """
    return get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The CUDA architectures that the package was built for: none, CuPy compiles where it runs.

    Returns:
        An empty list.
    Source: torch.cuda.get_arch_list.
    Example:
        >>> torch.cuda.get_arch_list()
        []
    """
    return []


def get_gencode_flags() -> str:
    """The compiler flags for those architectures: none.

    Returns:
        An empty string.
    Source: torch.cuda.get_gencode_flags.
    Example:
        >>> torch.cuda.get_gencode_flags()
        ''
    """
    return ""


@_without_cuda(bool)
def is_current_stream_capturing() -> bool:
    """Whether a graph of the current stream's work is being captured.

    Returns:
        False without a device.
    Source: torch.cuda.is_current_stream_capturing.
    Example:
        >>> torch.cuda.is_current_stream_capturing()
        False
    """
    return _required().cupy.cuda.get_current_stream().is_capturing()


def init() -> None:
    """Start CUDA, which the first use does anyway.

    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.init.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.init()
    """
    _required()


_lazy_init = init


# ---- the current device


def current_device() -> int:
    """Index of the thread's current device, where new CUDA tensors are made.

    Returns:
        The index.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.current_device.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.current_device() < torch.cuda.device_count()
    """
    return _required().current()


def set_device(device: Any) -> None:
    """Make a CUDA device the thread's current one; a negative index changes nothing.

    Args:
        device: a device, its name or its index.
    Raises:
        AssertionError: there is no device.
        AcceleratorError: there is no such device.
    Source: torch.cuda.set_device.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.set_device(0)
    """
    index = _index_of(device, optional=True) if _usable() is not None else _named_index(device)
    if index >= 0:
        kind = _required()
        kind.runtime.setDevice(kind.checked(index))


def _named_index(where: Any) -> int:
    """The index that an argument names where there is no current device; 0 for a device without one, -1 for None."""
    from ..core.device import device as Device

    if where is None:
        return -1
    return 0 if not isinstance(where, int) and Device(where) == Device("cuda") else _index_of(where)


class device:
    """Context in which another CUDA device is the current one; None and negative indices leave it as it is.

    Args:
        device: an index, a device or its name.
    Raises:
        ValueError: a device of another type.
        RuntimeError: on entering with an index, where there is no CUDA device.
    Source: torch.cuda.device.
    Example:
        >>> if torch.cuda.is_available():
        ...     with torch.cuda.device(0):
        ...         assert torch.ones(2, device="cuda").get_device() == 0
    """

    def __init__(self, device: Any):
        if device is None:
            self.idx = -1
        else:
            self.idx = _index_of(device, optional=True) if _usable() is not None else _named_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            kind = _usable()
            if kind is None:
                raise RuntimeError("PyTorch was compiled without CUDA support")
            self.prev_idx = kind.current()
            kind.runtime.setDevice(kind.checked(self.idx))

    def __exit__(self, *exc_info: object) -> Literal[False]:
        if self.prev_idx >= 0:
            _required().runtime.setDevice(self.prev_idx)
        return False


class device_of(device):
    """Context in which a tensor's CUDA device is the current one; a tensor on the CPU changes nothing.

    Args:
        obj: a tensor or storage.
    Source: torch.cuda.device_of.
    Example:
        >>> with torch.cuda.device_of(torch.ones(2)):
        ...     pass
    """

    def __init__(self, obj: Any):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def synchronize(device: Any = None) -> None:
    """Wait for all work on a device; on the current one for None.

    Args:
        device: a device, its name or its index; the current device for None.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.synchronize.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.synchronize()
    """
    kind, where = _required(), _device_at(device)
    with kind.on(where):
        kind.runtime.deviceSynchronize()
    kind.collect()


# ---- what devices are


def _said(key: str) -> Any:
    """A field of the properties, by the runtime's name of it."""
    return _field(metadata={"key": key})


@dataclass(frozen=True, slots=True)
class _CudaDeviceProperties:
    """Properties of a device as the CUDA runtime reports them; sizes in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int = _said("totalGlobalMem")
    multi_processor_count: int = _said("multiProcessorCount")
    is_integrated: int = _said("integrated")
    is_multi_gpu_board: int = _said("isMultiGpuBoard")
    max_threads_per_multi_processor: int = _said("maxThreadsPerMultiProcessor")
    warp_size: int = _said("warpSize")
    regs_per_multiprocessor: int = _said("regsPerMultiprocessor")
    shared_memory_per_block: int = _said("sharedMemPerBlock")
    shared_memory_per_block_optin: int = _said("sharedMemPerBlockOptin")
    shared_memory_per_multiprocessor: int = _said("sharedMemPerMultiprocessor")
    L2_cache_size: int = _said("l2CacheSize")
    memory_bus_width: int = _said("memoryBusWidth")
    pci_bus_id: int = _said("pciBusID")
    pci_device_id: int = _said("pciDeviceID")
    pci_domain_id: int = _said("pciDomainID")


def get_device_properties(device: Any = None) -> _CudaDeviceProperties:
    """Properties of a device as the CUDA runtime reports them.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        An object with ``name``, ``major``, ``minor``, ``total_memory`` (bytes), ``multi_processor_count`` and more as attributes.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.get_device_properties.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.get_device_properties(0).total_memory > 0
    """
    where = _device_at(device)
    said = _required().runtime.getDeviceProperties(where.index)
    rest = {part.name: said[part.metadata["key"]] for part in _fields(_CudaDeviceProperties) if part.metadata}
    return _CudaDeviceProperties(name=said["name"].decode(), major=said["major"], minor=said["minor"], **rest)


def get_device_name(device: Any = None) -> str:
    """Name of a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        The name, as ``'NVIDIA H100'``.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.get_device_name.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.get_device_name() == torch.cuda.get_device_properties().name
    """
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Compute capability of a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        Its major and minor number.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.get_device_capability.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.get_device_capability() >= (3, 0)
    """
    said = get_device_properties(device)
    return said.major, said.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one device reads another's memory.

    Args:
        device: the device that reads.
        peer_device: the device whose memory is read.
    Returns:
        False for a device and itself.
    Raises:
        AssertionError: there is no such device.
    Source: torch.cuda.can_device_access_peer.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     assert torch.cuda.can_device_access_peer(0, 1) in (False, True)
    """
    kind = _required()
    index, peer = _index_of(device, optional=True), _index_of(peer_device, optional=True)
    if not 0 <= index < len(kind.devices):
        raise AssertionError("Invalid device id")
    if not 0 <= peer < len(kind.devices):
        raise AssertionError("Invalid peer device id")
    return bool(kind.runtime.deviceCanAccessPeer(index, peer))


def current_blas_handle() -> int:
    """The handle of cuBLAS that products on the current device use.

    Returns:
        The handle's address.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.current_blas_handle.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.current_blas_handle() != 0
    """
    return _required().cupy.cuda.get_cublas_handle()


_blocks: dict[int, Any] = {}  # what ``caching_allocator_alloc`` gave, by address


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocate bytes of a device's memory, to be given back by ``caching_allocator_delete``.

    Args:
        size: in bytes.
        device: where; the current one for None.
        stream: whose work will use them; the current one for None.
    Returns:
        The address.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.caching_allocator_alloc.
    Example:
        >>> if torch.cuda.is_available():
        ...     address = torch.cuda.caching_allocator_alloc(512)
        ...     torch.cuda.caching_allocator_delete(address)
    """
    kind, where = _required(), _device_at(device)
    with kind.on(where):
        if stream is None:
            block = kind.cupy.cuda.alloc(size)
        else:
            with streams.StreamContext(stream if isinstance(stream, Stream) else ExternalStream(stream, where)):  # noqa: F405
                block = kind.cupy.cuda.alloc(size)
    _blocks[block.ptr] = block
    return block.ptr


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back what ``caching_allocator_alloc`` gave.

    Args:
        mem_ptr: the address.
    Raises:
        AssertionError: there is no device.
        KeyError: no such block was given.
    Source: torch.cuda.caching_allocator_delete.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(512))
    """
    _required()
    del _blocks[mem_ptr]


# ---- what CuPy cannot do

_NOT_SUPPORTED = {
    "cudart": "The CUDA runtime",
    "get_sync_debug_mode": "Whether synchronising operations warn",
    "set_sync_debug_mode": "Choose whether synchronising operations warn",
    "memory_snapshot": "The allocator's state",
    "utilization": "How busy a device is",
    "memory_usage": "How busy a device's memory is",
    "temperature": "Temperature of a device",
    "power_draw": "Power that a device draws",
    "clock_rate": "Clock rate of a device",
    "make_graphed_callables": "Functions as CUDA graphs",
    "graph_pool_handle": "A pool of memory for CUDA graphs",
}


def _not_supported(name: str, what: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        _required()
        raise NotImplementedError(f"torch.cuda.{name} is not supported")

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = (
        f"{what}: not supported.\n\n"
        "Args:\n    *args, **kwargs: what PyTorch takes.\n"
        "Returns:\n    Nothing: it always raises.\n"
        "Raises:\n    AssertionError: there is no CUDA device.\n    NotImplementedError: there is one.\n"
        f"Source: torch.cuda.{name}.\n"
        "Example:\n    >>> import contextlib\n    >>> with contextlib.suppress(AssertionError, NotImplementedError):\n"
        f"    ...     torch.cuda.{name}()"
    )
    return function


class CUDAGraph:
    """A recorded graph of work.

    Args:
        keep_graph: whether the captured graph can be changed afterwards.
    Raises:
        RuntimeError: there is no CUDA device.
        NotImplementedError: there is one; graphs are not supported.
    Source: torch.cuda.CUDAGraph.
    Example:
        >>> if not torch.cuda.is_available():
        ...     try:
        ...         torch.cuda.CUDAGraph()
        ...     except RuntimeError as error:
        ...         assert "requires CUDA" in str(error)
    """

    def __new__(cls, keep_graph: bool = False) -> CUDAGraph:
        if _usable() is None:
            raise RuntimeError("torch.cuda.CUDAGraph requires CUDA support")
        raise NotImplementedError("torch.cuda.CUDAGraph: graphs are not supported")


# ---- old constructors


class _StorageMeta(type):
    kind: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kind) and instance.is_cuda


def _storage_class(name: str, kind: Any) -> type:
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        _required()
        return kind(*args, **{"device": "cuda", **kwargs})

    body = {"__new__": make, "kind": kind, "__module__": __name__}
    body["__doc__"] = (
        f"{kind.__doc__.partition('.')[0]} on a CUDA device.\n\n"
        "Args:\n    *args: a number of elements, or a sequence of values.\n"
        "Raises:\n    AssertionError: there is no CUDA device.\n"
        f"Source: torch.cuda.{name}.\n"
        f"Example:\n    >>> if torch.cuda.is_available():\n    ...     assert torch.cuda.{name}(3).size() == 3"
    )
    return _StorageMeta(name, (), body)


class graph:
    """Recording of a graph of work within a block: not supported.

    Args:
        *args, **kwargs: what PyTorch takes.
    Raises:
        NotImplementedError: always.
    Source: torch.cuda.graph.
    Example:
        >>> torch.cuda.graph(None)
        Traceback (most recent call last):
        NotImplementedError: torch.cuda.graph: graphs are not supported
    """

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("torch.cuda.graph: graphs are not supported")


_names = globals()
_names.update({name: _not_supported(name, what) for name, what in _NOT_SUPPORTED.items()})
_names.update({name: _typed_constructor(kind.dtype, is_cuda=True) for name, kind in _CONSTRUCTORS.items()})
_names.update({name: _storage_class(name, kind) for name, kind in _STORAGES.items()})


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        kind = _usable()
        return () if kind is None else kind.generators
    if name in ("amp", "comm"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")
