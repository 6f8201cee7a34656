"""The memory that an array shows, and arrays over memory of other arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "address_of", "aligned", "array_at", "extent", "root_of", "view_of"]

ALIGNMENT = 64  # bytes: a cache line, and the widest register


def address_of(array: np.ndarray) -> int:
    """Of the first element."""
    return int(array.__array_interface__["data"][0])


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Bytes from an array's first element to the end of its last."""
    if 0 in shape:
        return 0
    return sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + itemsize


def root_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory ``array`` shows, perhaps in part; itself where it has memory of its own."""
    while True:
        base: Any = array.base
        if base.__class__ is not np.ndarray:
            base = getattr(base, "base", None)  # ``as_strided`` puts an object of its own between
            if base.__class__ is not np.ndarray:
                return array
        array = base


def aligned(size: int) -> np.ndarray:
    """Bytes that begin at a multiple of ``ALIGNMENT``."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    start = -address_of(block) % ALIGNMENT
    return block[start : start + size]


class _Interface:
    """Description of memory that NumPy makes an array of, which keeps ``owner`` alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: Any):
        self.__array_interface__, self.owner = interface, owner


def array_at(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, owner: Any) -> np.ndarray:
    """An array of memory that belongs to ``owner``; ``strides`` in bytes."""
    interface = {"data": (address, False), "shape": shape, "strides": strides, "typestr": dtype.str, "version": 3}
    if dtype.isbuiltin == 1:
        return np.asarray(_Interface(interface, owner))
    interface["typestr"] = f"|V{dtype.itemsize}"  # a dtype that NumPy has no letters for, such as bfloat16
    return np.asarray(_Interface(interface, owner)).view(dtype)


class _Part(_Interface):
    """The same of a part of ``owner``'s memory: ``root_of`` goes on to it."""

    __slots__ = ()

    @property
    def base(self) -> Any:
        return self.owner


def view_of(array: np.ndarray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The memory of ``array``, from ``offset`` bytes behind its first element on; it may go beyond what ``array`` itself shows."""
    if array.flags.c_contiguous and offset >= 0:
        try:
            return np.ndarray(shape, dtype, array, offset, strides)
        except (TypeError, ValueError):  # beyond the array, or read-only
            pass
    interface = dict(array.__array_interface__)
    place, read_only = interface["data"]
    item = np.dtype(f"V{dtype.itemsize}") if dtype.hasobject or dtype.isbuiltin == 2 else dtype  # of what NumPy cannot write as text
    interface.update(data=(place + offset, read_only), shape=shape, strides=strides, typestr=item.str, descr=item.descr)
    made = np.asarray(_Part(interface, array))
    return made if made.dtype == dtype else made.view(dtype)
