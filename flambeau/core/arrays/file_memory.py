"""Files as memory."""

from __future__ import annotations

import os

import numpy as np


def file_bytes(filename: str, shared: bool, nbytes: int) -> np.ndarray:
    """The first bytes of a file, mapped.

    Args:
        filename: the file.
        shared: whether writes reach the file, which is then made or grown where it is too short.
        nbytes: how many.
    Raises:
        RuntimeError: the file cannot be opened, or is too short.
    """
    if nbytes < 0:
        raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>: Cannot allocate memory (12)")
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        descriptor = os.open(filename, flags | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})") from None
    try:
        length = os.fstat(descriptor).st_size
        if length < nbytes:
            if not shared:
                raise RuntimeError(f"file <{filename}> size <{length}> is smaller than the required mapping size <{nbytes}>")
            os.truncate(descriptor, nbytes)
    finally:
        os.close(descriptor)
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.memmap(filename, np.uint8, "r+" if shared else "c", 0, (nbytes,)).view(np.ndarray)


def file_of(array: np.ndarray) -> str | None:
    """The name of the file that writes to an array reach; None where there is none."""
    base = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return str(base.filename) if base.mode == "r+" else None
        base = base.base
    return None
