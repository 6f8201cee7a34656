"""Memory in which workers hand over batches: files without a name, cut into ranges that are used again.

    worker: Arena                                   parent: Mappings
    a range for each large array of a batch  -->    the array, over the same pages (the file's descriptor comes along once)
    ranges that are free again               <--    noted when the last array that shows the range is gone

A file made by ``memfd_create`` has no entry in /dev/shm: it goes with the last process that has it, however that one ends. Ranges are
used again since touching a page for the first time costs more than copying it.
"""

from __future__ import annotations

import bisect
import itertools
import mmap
import os
import threading
import weakref
from collections import deque
from typing import TypeAlias

import numpy as np

from ....core.arrays.shared_memory import unnamed_file

Range: TypeAlias = tuple[int, int, int]  # number of the file, offset and size in bytes

SMALLEST = 16 * 1024  # what is smaller travels in the message itself
_FILE_BYTES = 1 << 30  # of address space: pages are taken when a range is first used
_SPARE_BYTES = 256 << 20  # free memory that is kept besides as much again as is in use


class _Ranges:
    """Disjoint ranges of one file, in order; neighbours are joined."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sizes: list[int] = []

    def add(self, start: int, size: int) -> None:
        at = bisect.bisect(self._starts, start)
        if at < len(self._starts) and start + size == self._starts[at]:
            size += self._sizes[at]
            del self._starts[at], self._sizes[at]
        if at and self._starts[at - 1] + self._sizes[at - 1] == start:
            self._sizes[at - 1] += size
        else:
            self._starts.insert(at, start)
            self._sizes.insert(at, size)

    def take(self, size: int) -> int | None:
        """The start of ``size`` bytes that are in here no more: those at the beginning of the tightest range."""
        fitting = [(self._sizes[at], at) for at in range(len(self._sizes)) if self._sizes[at] >= size]
        if not fitting:
            return None
        _, at = min(fitting)
        start = self._starts[at]
        if self._sizes[at] == size:
            del self._starts[at], self._sizes[at]
        else:
            self._starts[at] += size
            self._sizes[at] -= size
        return start


class _File:
    """One file: its mapping, the ranges that are free with their pages, and those without."""

    def __init__(self, at_least: int) -> None:
        self.descriptor = unnamed_file()
        try:
            self.size = self._sized(at_least)
            self.memory = mmap.mmap(self.descriptor, self.size)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.free, self.holes = _Ranges(), _Ranges()
        self.holes.add(0, self.size)
        self.address = np.frombuffer(self.memory, np.uint8, 1).ctypes.data

    def _sized(self, at_least: int) -> int:
        for size in sorted({at_least, max(at_least, _FILE_BYTES)}, reverse=True):
            try:
                os.ftruncate(self.descriptor, size)
            except OSError:
                if size == at_least:
                    raise
            else:
                return size
        raise AssertionError

    def fill(self, start: int, size: int) -> None:
        """Take the pages of a hole now: an error here, rather than SIGBUS in the middle of a copy."""
        try:
            os.posix_fallocate(self.descriptor, start, size)
        except BaseException:
            self.holes.add(start, size)
            raise


class Arena:
    """A worker's memory for batches."""

    def __init__(self) -> None:
        self._files: list[_File] = []
        self._sizes: dict[tuple[int, int], int] = {}  # of the ranges in use
        self._leases: dict[tuple[int, int], weakref.ref[np.ndarray]] = {}  # ranges that an array of this process shows
        self._dropped: deque[tuple[int, int]] = deque()  # by finalizers, which run anywhere and so only take notes
        self._lock = threading.Lock()
        self._in_use = self._spare = 0
        self._announced = 0  # how many files the parent knows

    def files_to_announce(self) -> list[tuple[int, int]]:
        """Descriptor and size of each file that the parent does not know."""
        files = [(file.descriptor, file.size) for file in self._files[self._announced :]]
        self._announced = len(self._files)
        return files

    def take(self, nbytes: int) -> Range:
        """A range of at least ``nbytes`` bytes for the parent.

        Raises:
            RuntimeError: there is no memory left.
        """
        size = max(1, -(-nbytes // mmap.PAGESIZE)) * mmap.PAGESIZE
        with self._lock:
            while self._dropped:
                key = self._dropped.popleft()
                if self._leases.pop(key, None) is not None:
                    self._give_back(key)
            try:
                number, start = self._range(size)
            except (OSError, MemoryError) as error:
                raise RuntimeError(
                    f"DataLoader worker: no shared memory for {nbytes} bytes of a batch ({error}), beside {self._in_use} bytes in use; "
                    "keep fewer batches, lower prefetch_factor or num_workers, or raise the limit of memory or file size"
                ) from error
            self._sizes[number, start] = size
            self._in_use += size
        return number, start, nbytes

    def _range(self, size: int) -> tuple[int, int]:
        for number, file in enumerate(self._files):
            start = file.free.take(size)
            if start is not None:
                self._spare -= size
                return number, start
        for number, file in enumerate(self._files):
            start = file.holes.take(size)
            if start is not None:
                file.fill(start, size)
                return number, start
        file = _File(size)
        start = file.holes.take(size)
        assert start is not None
        try:
            file.fill(start, size)
        except BaseException:
            file.memory.close()
            os.close(file.descriptor)
            raise
        self._files.append(file)
        return len(self._files) - 1, start

    def _give_back(self, key: tuple[int, int]) -> None:
        size, (number, start) = self._sizes.pop(key), key
        self._in_use -= size
        file = self._files[number]
        if self._spare + size > self._in_use + _SPARE_BYTES and hasattr(mmap, "MADV_REMOVE"):
            file.memory.madvise(mmap.MADV_REMOVE, start, size)
            file.holes.add(start, size)
        else:
            file.free.add(start, size)
            self._spare += size

    def release(self, ranges: list[tuple[int, int]]) -> None:
        """The parent has no more use for these ranges."""
        with self._lock:
            for key in ranges:
                self._give_back(key)

    def bytes_of(self, at: Range) -> np.ndarray:
        """The memory of a range."""
        number, start, nbytes = at
        return np.ndarray((nbytes,), np.uint8, self._files[number].memory, start)

    def lease(self, nbytes: int) -> np.ndarray:
        """Memory in which this process makes a part of a batch; it is free again when no array shows it, unless it was sent."""
        number, start, _ = at = self.take(nbytes)
        memory = self.bytes_of(at)
        self._leases[number, start] = weakref.ref(memory)
        weakref.finalize(memory, self._dropped.append, (number, start)).atexit = False
        return memory

    def leased_at(self, address: int, nbytes: int) -> tuple[Range, weakref.ref[np.ndarray]] | None:
        """The lease that begins at an address, where it has at least ``nbytes`` bytes."""
        for number, file in enumerate(self._files):
            start = address - file.address
            if 0 <= start < file.size:
                lease = self._leases.get((number, start))
                return None if lease is None or self._sizes[number, start] < nbytes else ((number, start, nbytes), lease)
        return None

    def give_away(self, at: Range) -> None:
        """A lease has become the parent's."""
        with self._lock:
            self._leases.pop(at[:2], None)


class Mappings:
    """The parent's side of one worker's memory."""

    def __init__(self) -> None:
        self._memory: list[mmap.mmap] = []
        self._freed: deque[tuple[int, int]] = deque()

    def add(self, descriptor: int, size: int) -> None:
        """Map a file, and close its descriptor."""
        try:
            self._memory.append(mmap.mmap(descriptor, size))
        finally:
            os.close(descriptor)

    def array(self, at: Range) -> np.ndarray:
        """The bytes of a range. It is the base of every view of it, so when it goes nobody shows the range."""
        number, start, nbytes = at
        memory = np.ndarray((nbytes,), np.uint8, self._memory[number], start)
        weakref.finalize(memory, self._freed.append, (number, start)).atexit = False
        return memory

    def discard(self, ranges: list[Range]) -> None:
        """Ranges that nothing is going to read."""
        self._freed.extend(at[:2] for at in ranges)

    def freed(self) -> list[tuple[int, int]]:
        """The ranges that have become free since the last call."""
        return [self._freed.popleft() for _ in itertools.repeat(None, len(self._freed))]


current: Arena | None = None  # of a worker process
