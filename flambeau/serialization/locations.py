"""Locations of storages: tags in files, and the device of a storage with such a tag when it is loaded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.arrays.kinds import kind_at, place_of
from ..core.device import device
from ..core.storage import UntypedStorage

Tagger = Callable[[Any], "str | None"]
Deserializer = Callable[[Any, str], Any]

_packages: list[tuple[int, Tagger, Deserializer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Register a further location of storages for ``save`` and ``load``.

    Args:
        priority: lower ones are tried first; the CPU has 10.
        tagger: maps a storage to its tag in the file, and storages at other locations to None.
        deserializer: maps a storage in host memory and a tag to the storage at its location, and other tags to None.
    Source: torch.serialization.register_package.
    Example:
        >>> def restore(storage, tag):
        ...     return storage if tag == "shelf" else None
        >>> torch.serialization.register_package(50, lambda storage: None, restore)
        >>> torch.serialization.default_restore_location(torch.ones(1).untyped_storage(), "shelf").nbytes()
        4
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """The tag that a storage gets in a file.

    Args:
        storage: a typed or untyped storage.
    Returns: a string.
    Raises:
        RuntimeError: no registered package has a tag for the storage.
    Source: torch.serialization.location_tag.
    Example:
        >>> location_tag(torch.ones(1).untyped_storage())
        'cpu'
    """
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag:
            return tag
    raise RuntimeError(f"don't know how to determine data location of {_type_name(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage in the place that a tag names.

    Args:
        storage: in host memory.
        location: the tag.
    Returns: the storage.
    Raises:
        RuntimeError: the device is not there, or the tag is unknown.
    Source: torch.serialization.default_restore_location.
    Example:
        >>> storage = torch.ones(1).untyped_storage()
        >>> default_restore_location(storage, "cpu") is storage
        True
    """
    for _, _, deserializer in _packages:
        placed = deserializer(storage, location)
        if placed is not None:
            return placed
    raise RuntimeError(f"don't know how to restore data location of {_type_name(storage)} (tagged with {location})")


def _type_name(storage: Any) -> str:
    return "torch.storage.UntypedStorage" if isinstance(storage, UntypedStorage) else type(storage).__qualname__


def restorer(map_location: Any) -> Deserializer:
    """Function for each storage of a file, from ``load``'s argument.

    Raises:
        TypeError: ``map_location`` is none of a device, a string, a dict and a callable.
    """
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, (str, bytes, device)):
        fixed = map_location.decode("ascii") if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, fixed)
    if not callable(map_location):
        raise TypeError(f"load: expected map_location to be a device, a string, a dict or a callable, got {type(map_location).__name__}")

    def ask(storage: Any, location: str) -> Any:
        placed = map_location(storage, location)
        return default_restore_location(storage, location) if placed is None else placed

    return ask


def _cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _to_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _meta_tag(storage: Any) -> str | None:
    return "meta" if storage.device.type == "meta" else None


def _to_meta(storage: Any, location: str) -> Any:
    return UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def _device_tag(storage: Any) -> str | None:
    """A device that is neither the CPU's nor a shape's tags its storages with its name."""
    where = storage.device
    return str(where) if where.type not in ("cpu", "meta") else None


def _to_present(storage: Any, location: str) -> Any:
    """Devices that are there."""
    try:
        where = device(location)
    except RuntimeError:  # a tag of somebody else's
        return None
    if where.type == "meta" or kind_at(where) is None:
        return None
    if where.type == "cuda" and where.index is not None:
        from ..cuda import device_count

        if where.index >= device_count():
            raise _no_such_device(where.index, device_count())
    return storage._to(place_of(where, "load"))


def _no_tag(storage: Any) -> None:
    return None


def _to_missing(kind: str, storage: Any, location: str) -> Any:
    """Devices that this machine does not have."""
    if location.partition(":")[0] == kind or (location.startswith(kind) and location[len(kind) :].isdigit()):
        raise _missing(kind)


def _missing(kind: str) -> RuntimeError:
    return RuntimeError(
        f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is False. If you are running on a "
        "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    )


def validate_cuda_device(location: Any) -> int:
    """The index of the CUDA device that a tag names.

    Args:
        location: the tag, such as ``'cuda:0'``.
    Returns: an int.
    Raises:
        RuntimeError: the device is not there.
    Source: torch.serialization.validate_cuda_device.
    Example:
        >>> try:
        ...     validate_cuda_device("cuda:99")
        ... except RuntimeError:
        ...     print("not there")
        not there
    """
    from ..cuda import device_count

    where = device(location)
    index = 0 if where.index is None else where.index
    if not device_count():
        raise _missing("cuda")
    if index >= device_count():
        raise _no_such_device(index, device_count())
    return index


def validate_hpu_device(location: Any) -> int:
    """PyTorch's check of a Gaudi device, of which there are none here.

    Args:
        location: the tag.
    Returns: nothing: it always raises.
    Raises:
        RuntimeError: always.
    Source: torch.serialization.validate_hpu_device.
    Example:
        >>> try:
        ...     validate_hpu_device("hpu:0")
        ... except RuntimeError:
        ...     print("not there")
        not there
    """
    raise RuntimeError(
        "The HPU device module is not registered. If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU."
    )


def _no_such_device(index: int, count: int) -> RuntimeError:
    return RuntimeError(
        f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {count}. Please use torch.load with "
        "map_location to map your storages to an existing device."
    )


register_package(10, _cpu_tag, _to_cpu)
register_package(15, _device_tag, _to_present)
register_package(22, _meta_tag, _to_meta)
for _priority, _kind in ((20, "cuda"), (21, "mps"), (24, "hpu"), (25, "xpu"), (26, "mtia")):
    register_package(_priority, _no_tag, functools.partial(_to_missing, _kind))
