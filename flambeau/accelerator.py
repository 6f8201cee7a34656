"""The accelerator of this machine, whatever its type: CUDA, or a device made elsewhere (``privateuse1``). Source: torch.accelerator.

What is asked is asked of the accelerator's module, ``torch.cuda`` or the one that ``torch._register_device_module`` was given; of a
private device without a module it is known that it is there, once, and current.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from .core import dtype as _dtypes
from .core.arrays.kinds import BY_DEVICE
from .core.device import cpu as _cpu, device as _device

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index",
    "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip

_NONE = "Cannot access accelerator device when none is available."


# ---- what there is


def current_accelerator(check_available: bool = False) -> _device | None:
    """The accelerator's device type, as a device without an index; None without an accelerator.

    Args:
        check_available: whether to test that it can be used, too.
    Returns: a device or None.
    Source: torch.accelerator.current_accelerator.
    Example:
        >>> found = torch.accelerator.current_accelerator()
        >>> found is None or found.index is None
        True
    """
    if "privateuseone" in BY_DEVICE:
        found = _device("privateuseone")
    else:
        from . import cuda

        if not cuda.is_available():
            return None
        found = _device("cuda")
    return found if not check_available or is_available() else None


def is_available() -> bool:
    """Whether there is an accelerator that can be used.

    Returns: a bool.
    Source: torch.accelerator.is_available.
    Example:
        >>> torch.accelerator.is_available() == (torch.accelerator.device_count() > 0)
        True
    """
    return _asked("is_available", bool(current_accelerator()))


def device_count() -> int:
    """Number of the accelerator's devices; 0 without an accelerator.

    Returns: an int.
    Source: torch.accelerator.device_count.
    Example:
        >>> torch.accelerator.device_count() >= 0
        True
    """
    return _asked("device_count", int(current_accelerator() is not None))


# ---- modules of devices

_WITH_MODULE = ("cpu", "cuda", "mps")
_device_modules: dict[str, Any] = {}


def get_device_module(device: Any = None) -> Any:
    """The module of a device type: ``torch.cuda`` for ``'cuda'``.

    Args:
        device: a device or its name; the accelerator, or the CPU without one, when None.
    Returns: a module.
    Raises:
        RuntimeError: there is no such module.
    Source: torch.get_device_module.
    Example:
        >>> torch.get_device_module("cuda").__name__.split(".")[-1]
        'cuda'
    """
    if device is None:
        accelerator = current_accelerator()
        device = _cpu if accelerator is None or device_module(accelerator.type) is None else accelerator
    kind = _device(device).type
    module = device_module(kind)
    if module is None:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return module


def device_module(kind: str) -> Any:
    """The module of a device type; None if it has none."""
    if kind in _device_modules:
        return _device_modules[kind]
    return getattr(sys.modules[__package__], kind) if kind in _WITH_MODULE else None


def _register_device_module(device_type: str, module: Any) -> None:
    """Make ``module`` what ``torch.<device_type>`` and ``torch.get_device_module`` give for a device made elsewhere.

    Raises:
        RuntimeError: no such device type, or it has a module.
    Source: torch._register_device_module.
    """
    package = sys.modules[__package__]
    kind = _device(device_type).type
    if hasattr(package, kind):
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered with '{getattr(package, kind)}'")
    _device_modules[kind] = module
    setattr(package, kind, module)
    sys.modules[f"{__package__}.{kind}"] = module


# ---- what its module answers


def _asked(name: str, otherwise: Any) -> Any:
    """Result of a query of the accelerator's module; ``otherwise`` if there is no module."""
    found = current_accelerator()
    module = None if found is None else device_module(found.type)
    return otherwise if module is None else getattr(module, name)()


def _module() -> Any:
    """The accelerator's module; None for a private device without one.

    Raises:
        RuntimeError: there is no accelerator.
    """
    found = current_accelerator()
    if found is None:
        raise RuntimeError(_NONE)
    return device_module(found.type)


def _function(name: str) -> Callable[..., Any]:
    """A function of the accelerator's module.

    Raises:
        RuntimeError: there is no accelerator.
        NotImplementedError: the module does not have it.
    """
    function = getattr(_module(), name, None)
    if function is None:
        raise NotImplementedError(f"torch.accelerator: the module of device type '{current_accelerator()}' has no {name}")
    return function


def _index(where: Any, optional: bool = False) -> int:
    """The index that an argument names; the current device's where it names none.

    Raises:
        RuntimeError: there is no accelerator, or it is of another type.
        ValueError: no index.
    """
    if isinstance(where, int) and not isinstance(where, bool):
        return where
    found = None if where is None else _device(where)
    accelerator = current_accelerator()
    if found is not None and (accelerator is None or found.type != accelerator.type):
        raise RuntimeError(
            "Accelerator expected" if accelerator is None else f"{found.type} doesn't match the current accelerator {accelerator}."
        )
    if found is not None and found.index is not None:
        return found.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{found}")
    return current_device_index()


# ---- the current device


def current_device_index() -> int:
    """Index of the thread's current device.

    Returns: an int.
    Raises:
        RuntimeError: there is no accelerator.
    Source: torch.accelerator.current_device_index.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     assert torch.accelerator.current_device_index() >= 0
    """
    module = _module()
    return 0 if module is None else module.current_device()


def set_device_index(device: Any, /) -> None:
    """Make a device the thread's current one; a negative index changes nothing.

    Args:
        device: an index or a device.
    Source: torch.accelerator.set_device_index.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.set_device_index(0)
    """
    index = _index(device)
    if index >= 0:
        _exchange(index)


def _exchange(index: int) -> None:
    module = _module()
    if module is not None:
        module.set_device(index)
    elif index:
        raise RuntimeError(f"invalid device ordinal: there is one {current_accelerator()} device, got index {index}")


class device_index:
    """Context in which another device of the accelerator is the current one; None changes nothing.

    Args:
        device: the index.
    Source: torch.accelerator.device_index.
    Example:
        >>> with torch.accelerator.device_index(None):
        ...     x = torch.ones(1)
    """

    def __init__(self, device: int | None, /):
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = current_device_index()
            _exchange(self.idx)

    def __exit__(self, *exc_info: object) -> None:
        if self.idx is not None:
            _exchange(self.prev_idx)


def _deprecated(old: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        warnings.warn(f"Use `{function.__name__}` instead.", FutureWarning, stacklevel=2)
        return function(*args)

    call.__name__ = call.__qualname__ = old
    call.__module__ = __name__
    call.__doc__ = f"""Deprecated: use ``torch.accelerator.{function.__name__}``.

    Args:
        args: those of that function.
    Returns: what that function returns.
    Source: torch.accelerator.{old}.
    Example:
        >>> torch.accelerator.{old}.__name__
        '{old}'
    """
    return call


current_device_idx = _deprecated("current_device_idx", current_device_index)
set_device_idx = _deprecated("set_device_idx", set_device_index)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """Capabilities of a device.

    Args:
        device: which; the current one for None.
    Returns:
        ``supported_dtypes``: dtypes whose tensors it can hold.
    Source: torch.accelerator.get_device_capability.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    """
    _module()
    _index(device, optional=True)
    held = {d for d in _dtypes.ALL.values() if d.numpy is not None and not d.name.startswith("float8")}
    return {"supported_dtypes": held}


# ---- streams


def current_stream(device: Any = None, /) -> Any:
    """The stream that work on a device goes to.

    Args:
        device: an index or a device; the current one when None.
    Returns: a stream.
    Source: torch.accelerator.current_stream.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     stream = torch.accelerator.current_stream()
    """
    return _function("current_stream")(_index(device, optional=True))


def set_stream(stream: Any) -> None:
    """Make a stream the current one, and its device the current device.

    Args:
        stream: the stream.
    Raises:
        TypeError: no stream.
    Source: torch.accelerator.set_stream.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.set_stream(torch.accelerator.current_stream())
    """
    if not hasattr(stream, "device") or not hasattr(stream, "wait_stream"):
        raise TypeError(f"_accelerator_setStream(): expected a torch.Stream, got {type(stream).__name__}")
    _function("set_stream")(stream)


def synchronize(device: Any = None, /) -> None:
    """Wait for all work on a device.

    Args:
        device: an index or a device; the current one when None.
    Source: torch.accelerator.synchronize.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.synchronize()
    """
    index = _index(device, optional=True)
    module = _module()
    if module is not None:
        module.synchronize(index)


# ---- memory


def empty_cache() -> None:
    """Give memory that no tensor has back to the devices.

    Source: torch.accelerator.empty_cache.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.empty_cache()
    """
    _function("empty_cache")()


def empty_host_cache() -> None:
    """Give page-locked memory that no tensor has back to the host.

    Source: torch.accelerator.empty_host_cache.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.empty_host_cache()
    """
    _function("empty_host_cache")()


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """The allocator's statistics; see ``torch.cuda.memory_stats``.

    Args:
        device_index: which device; the current one when None.
    Returns: a dict from names to numbers.
    Source: torch.accelerator.memory_stats.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     statistics = torch.accelerator.memory_stats()
    """
    return _function("memory_stats")(_index(device_index, optional=True))


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes of a device's memory that tensors have.

    Args:
        device_index: which device; the current one when None.
    Returns: an int.
    Source: torch.accelerator.memory_allocated.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     assert torch.accelerator.memory_allocated() >= 0
    """
    return _function("memory_allocated")(_index(device_index, optional=True))


def max_memory_allocated(device_index: Any = None, /) -> int:
    """Most bytes that tensors had since the last reset.

    Args:
        device_index: which device; the current one when None.
    Returns: an int.
    Source: torch.accelerator.max_memory_allocated.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     assert torch.accelerator.max_memory_allocated() >= 0
    """
    return _function("max_memory_allocated")(_index(device_index, optional=True))


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes that were taken from a device.

    Args:
        device_index: which device; the current one when None.
    Returns: an int.
    Source: torch.accelerator.memory_reserved.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     assert torch.accelerator.memory_reserved() >= 0
    """
    return _function("memory_reserved")(_index(device_index, optional=True))


def max_memory_reserved(device_index: Any = None, /) -> int:
    """Most bytes that were taken from a device since the last reset.

    Args:
        device_index: which device; the current one when None.
    Returns: an int.
    Source: torch.accelerator.max_memory_reserved.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     assert torch.accelerator.max_memory_reserved() >= 0
    """
    return _function("max_memory_reserved")(_index(device_index, optional=True))


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Let the peaks start again from what is in use.

    Args:
        device_index: which device; the current one when None.
    Source: torch.accelerator.reset_peak_memory_stats.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.reset_peak_memory_stats()
    """
    _function("reset_peak_memory_stats")(_index(device_index, optional=True))


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Let the counts start again from 0.

    Args:
        device_index: which device; the current one when None.
    Source: torch.accelerator.reset_accumulated_memory_stats.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     torch.accelerator.reset_accumulated_memory_stats()
    """
    _function("reset_accumulated_memory_stats")(_index(device_index, optional=True))


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Free and total bytes of a device's memory.

    Args:
        device_index: which device; the current one when None.
    Returns: a pair of ints.
    Source: torch.accelerator.get_memory_info.
    Example:
        >>> if torch.accelerator.current_accelerator() == torch.device("cuda"):
        ...     free, total = torch.accelerator.get_memory_info()
    """
    return _function("mem_get_info")(_index(device_index, optional=True))


class Graph:
    """A recorded graph of work.

    Raises:
        RuntimeError: there is no accelerator.
        NotImplementedError: there is one; graphs are not supported.
    Source: torch.accelerator.Graph.
    Example:
        >>> try:
        ...     torch.accelerator.Graph()
        ... except (RuntimeError, NotImplementedError):
        ...     print("no graph")
        no graph
    """

    def __new__(cls, keep_graph: bool = False, *, pool: Any = None, capture_error_mode: str = "default") -> Graph:
        _module()
        raise NotImplementedError("torch.accelerator.Graph: graphs are not supported")
