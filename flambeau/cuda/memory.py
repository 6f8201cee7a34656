"""The memory of CUDA devices, which CuPy's pool allocates. Source: torch.cuda.memory.

Unlike PyTorch's allocator, CuPy's pool keeps no statistics by size of block and by cause. ``memory_stats`` returns those that it has.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..core.arrays.cuda_memory import DeviceMemory, shown
from ._runtime import device_at, required, without_cuda

__all__ = [
    "empty_cache", "empty_host_cache", "get_allocator_backend", "get_per_process_memory_fraction", "ipc_collect", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "reset_max_memory_cached", "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def _pooled(where: Any, function: Callable[[Any, DeviceMemory], Any]) -> Any:
    """``function(pool, memory)`` with CuPy's pool and the ``DeviceMemory`` of a device, which is current meanwhile."""
    kind, place = required(), device_at(where)
    with kind.on(place):
        return function(kind.cupy.get_default_memory_pool(), kind.memory[place.index or 0])


def _peaks(pool: Any, known: DeviceMemory) -> None:
    known.peak, known.reserved_peak = pool.used_bytes(), pool.total_bytes()


@without_cuda(int)
def memory_allocated(device: Any = None) -> int:
    """Bytes of a device's memory that tensors have; 0 without a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        The number of bytes; 0 without a device.
    Source: torch.cuda.memory_allocated.
    Example:
        >>> before = torch.cuda.memory_allocated()
        >>> before == 0 or torch.cuda.is_available()
        True
    """
    return _pooled(device, lambda pool, known: pool.used_bytes())


@without_cuda(int)
def max_memory_allocated(device: Any = None) -> int:
    """Most bytes that tensors had since the last reset; 0 without a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        The number of bytes; 0 without a device.
    Source: torch.cuda.max_memory_allocated.
    Example:
        >>> torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
        True
    """
    return _pooled(device, lambda pool, known: max(known.peak, pool.used_bytes()))


@without_cuda(int)
def memory_reserved(device: Any = None) -> int:
    """Bytes that were taken from the device, unused ones included; 0 without a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        The number of bytes; 0 without a device.
    Source: torch.cuda.memory_reserved.
    Example:
        >>> torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
        True
    """
    return _pooled(device, lambda pool, known: pool.total_bytes())


@without_cuda(int)
def max_memory_reserved(device: Any = None) -> int:
    """Most bytes that were taken from the device since the last reset; 0 without one.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        The number of bytes; 0 without a device.
    Source: torch.cuda.max_memory_reserved.
    Example:
        >>> torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved()
        True
    """
    return _pooled(device, lambda pool, known: max(known.reserved_peak, pool.total_bytes()))


def _renamed(old: str, function: Callable[..., int]) -> Callable[..., int]:
    def call(device: Any = None) -> int:
        warnings.warn(f"torch.cuda.{old} has been renamed to torch.cuda.{function.__name__}", FutureWarning, stacklevel=2)
        return function(device)

    call.__name__ = call.__qualname__ = old
    call.__module__ = __name__
    call.__doc__ = (
        f"Deprecated: use ``torch.cuda.{function.__name__}``.\n\n"
        "Args:\n    device: a device, its name or its index; the current device for None.\n"
        "Returns:\n    The number of bytes; 0 without a device.\n"
        f"Source: torch.cuda.{old}.\n"
        "Example:\n    >>> import warnings\n    >>> with warnings.catch_warnings(action='ignore'):\n"
        f"    ...     assert torch.cuda.{old}() == torch.cuda.{function.__name__}()"
    )
    return call


memory_cached = _renamed("memory_cached", memory_reserved)
max_memory_cached = _renamed("max_memory_cached", max_memory_reserved)


@without_cuda(lambda: None)
def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start again from what is in use.

    Args:
        device: a device, its name or its index; the current device for None.
    Source: torch.cuda.reset_peak_memory_stats.
    Example:
        >>> torch.cuda.reset_peak_memory_stats()
        >>> torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
        True
    """
    _pooled(device, _peaks)


@without_cuda(lambda: None)
def reset_max_memory_allocated(device: Any = None) -> None:
    """Deprecated: resets all peaks, as ``reset_peak_memory_stats``.

    Args:
        device: a device, its name or its index; the current device for None.
    Source: torch.cuda.reset_max_memory_allocated.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.reset_max_memory_allocated()  # warns
    """
    _resets_all("reset_max_memory_allocated")
    _pooled(device, _peaks)


@without_cuda(lambda: None)
def reset_max_memory_cached(device: Any = None) -> None:
    """Deprecated: resets all peaks, as ``reset_peak_memory_stats``.

    Args:
        device: a device, its name or its index; the current device for None.
    Source: torch.cuda.reset_max_memory_cached.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.reset_max_memory_cached()  # warns
    """
    _resets_all("reset_max_memory_cached")
    _pooled(device, _peaks)


def _resets_all(name: str) -> None:
    warnings.warn(
        f"torch.cuda.{name} now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=4,
    )


@without_cuda(lambda: None)
def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the counts of blocks and failures start again from 0.

    Args:
        device: a device, its name or its index; the current device for None.
    Source: torch.cuda.reset_accumulated_memory_stats.
    Example:
        >>> torch.cuda.reset_accumulated_memory_stats()
        >>> torch.cuda.memory_stats().get("num_ooms", 0)
        0
    """

    def reset(pool: Any, known: DeviceMemory) -> None:
        known.allocations = known.failures = 0

    _pooled(device, reset)


@without_cuda(OrderedDict)
def memory_stats(device: Any = None) -> dict[str, Any]:
    """The allocator's statistics, sorted by name; empty without a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        ``allocated_bytes.all.current`` and ``.peak``, the same of ``active_bytes`` and ``reserved_bytes``, ``allocation.all.allocated``
        (blocks requested) and ``num_ooms``. CuPy's pool has no further statistics.
    Source: torch.cuda.memory_stats.
    Example:
        >>> torch.cuda.memory_stats().get("reserved_bytes.all.current", 0) >= 0
        True
    """

    def collect(pool: Any, known: DeviceMemory) -> dict[str, int]:
        used, taken = pool.used_bytes(), pool.total_bytes()
        peak, taken_peak = max(known.peak, used), max(known.reserved_peak, taken)
        return {
            "active_bytes.all.current": used,
            "active_bytes.all.peak": peak,
            "allocated_bytes.all.current": used,
            "allocated_bytes.all.peak": peak,
            "allocation.all.allocated": known.allocations,
            "num_ooms": known.failures,
            "reserved_bytes.all.current": taken,
            "reserved_bytes.all.peak": taken_peak,
        }

    return OrderedDict(sorted(_pooled(device, collect).items()))


@without_cuda(dict)
def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """``memory_stats`` as nested dicts; empty without a device.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        ``memory_stats``' entries, a dict for each part of their names between points.
    Source: torch.cuda.memory_stats_as_nested_dict.
    Example:
        >>> isinstance(torch.cuda.memory_stats_as_nested_dict(), dict)
        True
    """
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *outer, last = name.split(".")
        place = nested
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of the allocator's statistics.

    Args:
        device: whose; the current one for None.
        abbreviated: leave out the counts.
    Returns:
        The table's lines.
    Source: torch.cuda.memory_summary.
    Example:
        >>> if torch.cuda.is_available():
        ...     print(torch.cuda.memory_summary(abbreviated=True))
    """
    where, stats = device_at(device), memory_stats(device)
    rows = [
        (title, shown(stats[f"{key}.current"]), shown(stats[f"{key}.peak"]))
        for title, key in (("Allocated memory", "allocated_bytes.all"), ("GPU reserved memory", "reserved_bytes.all"))
    ]
    lines = [f"CUDA memory of device {where.index}", f"{'':24}{'current':>14}{'peak':>14}"]
    lines += [f"{title:24}{current:>14}{peak:>14}" for title, current, peak in rows]
    if not abbreviated:
        lines += [f"{'Blocks asked for':24}{stats['allocation.all.allocated']:>14}", f"{'Out of memory':24}{stats['num_ooms']:>14}"]
    return "\n".join(lines) + "\n"


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device's memory.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        Both numbers, as the CUDA runtime has them: memory of other programs is not free.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.mem_get_info.
    Example:
        >>> if torch.cuda.is_available():
        ...     free, total = torch.cuda.mem_get_info()
        ...     assert 0 <= free <= total
    """
    kind, where = required(), device_at(device)
    with kind.on(where):
        free, total = kind.runtime.memGetInfo()
    return free, total


@without_cuda(lambda: None)
def empty_cache() -> None:
    """Give memory that no tensor has back to the devices; nothing happens without one.

    Source: torch.cuda.empty_cache.
    Example:
        >>> torch.cuda.empty_cache()
    """
    kind = required()
    kind.collect()
    for where in kind.devices:
        with kind.on(where):
            kind.cupy.get_default_memory_pool().free_all_blocks()
    kind.cupy.get_default_pinned_memory_pool().free_all_blocks()


def empty_host_cache() -> None:
    """Give page-locked memory that no tensor has back to the host.

    Source: torch.accelerator.memory.empty_host_cache.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.memory.empty_host_cache()
    """
    kind = required()
    kind.collect()
    kind.cupy.get_default_pinned_memory_pool().free_all_blocks()


def ipc_collect() -> None:
    """Free memory that other processes no longer use: none is shared with them.

    Source: torch.cuda.ipc_collect.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.ipc_collect()
    """
    required().collect()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the process take no more than a part of a device's memory.

    Args:
        fraction: from 0 to 1, of the whole memory.
        device: which; the current one for None.
    Raises:
        TypeError: not a float. ValueError: out of range.
    Source: torch.cuda.set_per_process_memory_fraction.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.set_per_process_memory_fraction(0.5)
    """
    required()
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _, total = mem_get_info(device)
    limit = int(fraction * total)
    _pooled(device, lambda pool, known: pool.set_limit(size=max(limit, 1)))  # to CuPy, 0 is no limit


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a device's memory that may be taken; 1.0 without a limit.

    Args:
        device: a device, its name or its index; the current device for None.
    Returns:
        A number from 0 to 1.
    Source: torch.cuda.get_per_process_memory_fraction.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert 0 < torch.cuda.get_per_process_memory_fraction() <= 1
    """
    _, total = mem_get_info(device)
    limit = _pooled(device, lambda pool, known: pool.get_limit())
    return limit / total if limit else 1.0


def get_allocator_backend() -> str:
    """Name of the allocator: ``'cupy'``.

    Returns:
        The name; PyTorch's is ``'native'``.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.get_allocator_backend.
    Example:
        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.get_allocator_backend() == "cupy"
    """
    required()
    return "cupy"
