"""Arrays between pages that must not be touched: an access out of bounds ends the process, and with it the test."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_PROT_NONE = 0


def guarded(array: np.ndarray, end: bool = True) -> np.ndarray:
    """A row-major copy of ``array`` whose memory ends directly before (``end``), or begins directly behind, a forbidden page.

    The copy is aligned to its element size only. Its memory is never given back.
    """
    size = max(array.nbytes, 1)
    pages = -(-size // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _forbid(start)
    _forbid(start + (pages + 1) * mmap.PAGESIZE)
    _kept.append(memory)
    offset = mmap.PAGESIZE + (pages * mmap.PAGESIZE - array.nbytes if end else 0)
    result = np.ndarray(array.shape, array.dtype, memory, offset)
    result[...] = array
    return result


_kept: list[Any] = []


def _forbid(address: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect")
