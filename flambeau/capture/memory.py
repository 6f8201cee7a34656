"""The memory that an array shows, and arrays over parts of other arrays' memory."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["address", "root_of", "view_of"]


def address(array: np.ndarray) -> int:
    """Of the first element."""
    return int(array.__array_interface__["data"][0])


def root_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory ``array`` shows, perhaps in part; itself where it has memory of its own."""
    while True:
        base: Any = array.base
        if base.__class__ is not np.ndarray:
            base = getattr(base, "base", None)  # ``as_strided`` puts an object of its own between
            if base.__class__ is not np.ndarray:
                return array
        array = base


class _Part:
    """Memory at some address, kept by its owner."""

    def __init__(self, interface: dict[str, Any], owner: np.ndarray):
        self.__array_interface__, self.base = interface, owner


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
