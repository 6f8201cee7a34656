"""Memory that processes share: pages behind a descriptor, without a name.

    process A                      kernel                       process B
    array -> SharedMemory -> descriptor -> pages <- descriptor <- SharedMemory <- array

A descriptor goes to another process over a socket, or by a fork. No file system has an entry of the pages: they go when the last process
that has them goes, however that happens. A process maps the same pages once, however often it gets them.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

SEGMENT = 1 << 22  # bytes that small storages have in common where descriptors are spared
_STEP = 1 << 24  # bytes allocated in one call: a signal makes the kernel begin anew, which may never end for gigabytes
_ALIGNMENT = 64  # a cache line


def _system_calls() -> tuple[Any, Any]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc.mmap, libc.munmap


class _Process:
    """Shared memory of this process.

    Attributes:
        memories: those it has, by their identity.
        storages: those over them, by the memory's identity, the first byte and the number of bytes.
        segment, used: where it takes small pieces from, and how many bytes of that are taken.
        spares_descriptors: whether small storages are pieces of segments, so that many of them need few descriptors.
        when_made: called before each new memory; lets pickles between processes carry memory instead of copies.
    """

    def __init__(self) -> None:
        self.spares_descriptors = False
        self.when_made: Callable[[], Any] = int
        self.memories: WeakValueDictionary[tuple[int, int], SharedMemory] = WeakValueDictionary()
        self.storages: WeakValueDictionary[tuple[tuple[int, int], int, int], Any] = WeakValueDictionary()
        self.after_fork()

    def after_fork(self) -> None:
        """Begin with an open lock and a segment of its own: parent and child would take the same pieces."""
        self.lock = threading.RLock()
        self.segment: SharedMemory | None = None
        self.used = 0


class _Pages:
    """Descriptor and mapping of a memory, given back to the system with it.

    Not by the memory itself: while an object's own ``__del__`` runs, a weak reference still gives it to other threads, and the call that
    unmaps lets them run. They would have a memory without pages.
    """

    __slots__ = ("address", "descriptor", "nbytes")
    _mmap: Any = None
    _munmap: Any = None

    def __init__(self, descriptor: int):
        self.address, self.descriptor, self.nbytes = 0, descriptor, 0

    def map_first(self, nbytes: int) -> None:
        """Map the first ``nbytes`` bytes."""
        if _Pages._mmap is None:
            _Pages._mmap, _Pages._munmap = map(staticmethod, _system_calls())
        address = self._mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.descriptor, 0)
        if address == ctypes.c_void_p(-1).value:
            raise _refused(nbytes, OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
        self.address, self.nbytes = address, nbytes

    def __del__(self, close: Any = os.close) -> None:
        if self.address:
            self._munmap(self.address, self.nbytes)
        close(self.descriptor)


class SharedMemory:
    """Pages that other processes may have too, mapped for as long as this object lives. Arrays over them keep it alive.

    ``mmap.mmap`` would hold a second descriptor of its own for each.

    Args:
        descriptor: of the pages; closed with this object.
    Attributes:
        address: of the first byte.
        descriptor: as given.
        nbytes: size of the pages together.
        identity: device and inode of the pages, equal in all processes.
    Raises:
        RuntimeError: the system refuses.
    """

    __slots__ = ("__weakref__", "_pages", "address", "descriptor", "identity", "nbytes")

    def __init__(self, descriptor: int):
        self._pages = pages = _Pages(descriptor)
        status = os.fstat(descriptor)
        self.identity = (status.st_dev, status.st_ino)
        pages.map_first(status.st_size)
        self.descriptor, self.address, self.nbytes = descriptor, pages.address, pages.nbytes

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    @staticmethod
    def make(nbytes: int) -> SharedMemory:
        """New pages, all zero and all allocated.

        Raises:
            RuntimeError: there is no room for them, or no descriptor.
            NotImplementedError: the system has no such memory.
        """
        process.when_made()
        size = max(-(-nbytes // mmap.PAGESIZE), 1) * mmap.PAGESIZE
        try:
            descriptor = unnamed_file()
        except OSError as error:
            raise _refused(nbytes, error) from None
        try:
            _allocate(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise _refused(nbytes, error) from None
        except BaseException:
            os.close(descriptor)
            raise
        with process.lock:
            return SharedMemory._remembered(descriptor)

    @staticmethod
    def attach(descriptor: int) -> SharedMemory:
        """The pages behind a descriptor that came from another process; what this process has of them already, if it has them.

        Args:
            descriptor: belongs to the result from here on, or is closed.
        """
        with process.lock:
            status = os.fstat(descriptor)
            known = process.memories.get((status.st_dev, status.st_ino))
            if known is None:
                return SharedMemory._remembered(descriptor)
        os.close(descriptor)
        return known

    @staticmethod
    def _remembered(descriptor: int) -> SharedMemory:
        memory = SharedMemory(descriptor)
        process.memories[memory.identity] = memory
        return memory

    def bytes_at(self, offset: int, nbytes: int) -> np.ndarray:
        """``nbytes`` bytes from ``offset`` on, as an array.

        Raises:
            RuntimeError: they lie outside.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise RuntimeError(f"shared memory: expected a part of {self.nbytes} bytes, got bytes {offset} to {offset + nbytes}")
        return np.asarray(self)[offset : offset + nbytes]


process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process.after_fork)


def unnamed_file() -> int:
    """A descriptor of a new file in memory that has no name. Descriptors are not inherited by programs that are started."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tensor", os.MFD_CLOEXEC)
    try:
        import _posixshmem  # type: ignore[import-not-found]
    except ImportError:
        raise NotImplementedError(
            f"share_memory_: expected a system with unnamed shared memory (memfd_create or shm_open), got {sys.platform}"
        ) from None
    # macOS: a name for the moment between two calls.
    name = f"/flambeau-{os.getpid()}-{os.urandom(6).hex()}"
    descriptor = _posixshmem.shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
    _posixshmem.shm_unlink(name)
    return descriptor


def _allocate(descriptor: int, size: int) -> None:
    """Give a file its size, and where the system can, its pages: without room this is an error now, not a signal at the first write."""
    if not hasattr(os, "posix_fallocate"):
        os.ftruncate(descriptor, size)
        return
    for start in range(0, size, _STEP):
        os.posix_fallocate(descriptor, start, min(_STEP, size - start))


def _refused(nbytes: int, error: OSError) -> RuntimeError:
    hint = " (raise the limit with `ulimit -n`, or set the sharing strategy 'file_system')" if error.errno == errno.EMFILE else ""
    return RuntimeError(f"unable to allocate shared memory(shm) of {nbytes} bytes: {error.strerror} ({error.errno}){hint}")


def shared_bytes(nbytes: int) -> np.ndarray:
    """New shared memory of ``nbytes`` zeros as an array; its pages go with the last array over them, or over others of a segment.

    Raises:
        RuntimeError: there is no room for them, or no descriptor.
    """
    if not process.spares_descriptors or nbytes > SEGMENT // 4:
        return SharedMemory.make(nbytes).bytes_at(0, nbytes)
    with process.lock:
        if process.segment is None or process.used + nbytes > SEGMENT:
            process.segment, process.used = SharedMemory.make(SEGMENT), 0
        piece = process.segment.bytes_at(process.used, nbytes)
        process.used += max(-(-nbytes // _ALIGNMENT), 1) * _ALIGNMENT
        return piece


def memory_of(array: Any) -> SharedMemory | None:
    """The shared memory in which an array lies; None where it lies in none."""
    while array.__class__ is np.ndarray:
        array = array.base
    return array if array.__class__ is SharedMemory else None
