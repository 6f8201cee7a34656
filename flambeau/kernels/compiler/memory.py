"""Memory for results: large buffers are used again instead of being given back to the system.

A new buffer costs a page fault for every 4 KB when it is first written, which for a memory-bound operation is more than the operation
itself.  ``empty`` therefore takes large buffers from those that earlier results have left, and notices by a weak reference when an array,
and every view of it, is gone.  All of them begin at a page boundary, so that vector loads never straddle cache lines.

What is kept is bounded: buffers in use and buffers waiting together never exceed what was once in use at the same time by more than half
of it, ``LEAST`` and at most ``SLACK``.  ``release`` gives back everything that waits.  NumPy's own allocations are left alone.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from ...core.calls.interruption import pass_on
from ...core.storage import ResultMemory

SMALL = 512 << 10  # bytes: below this the C library's allocator is quicker and keeps what it has
HUGE = 4 << 20  # bytes: from here on pages of 2 MB are requested, of which the processor can find more at once
SLACK = 64 << 20  # bytes by which buffers of sizes that do not fit again may exceed the peak; half of it at most
LEAST = 16 << 20  # bytes by which they always may: one image through a model needs few buffers at a time, and of many sizes
KEPT = 4 << 20  # bytes: blocks up to here, and twice as much at the end of its memory, the C library is made to keep
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class _Block:
    """One buffer; while it waits, the one of its size that waits below it."""

    __slots__ = ("below", "memory", "size", "view")

    def __init__(self, size: int):
        self.size = size
        self.below: _Block | None = None
        self.memory = ResultMemory(-1, size, flags=_FLAGS)
        if size >= HUGE:
            try:
                self.memory.madvise(mmap.MADV_HUGEPAGE)
            except (AttributeError, OSError) as error:  # a system without huge pages
                pass_on(error)
        self.view = memoryview(self.memory)


class _Use(weakref.ref):
    """The weak reference to the array that uses a block."""

    __slots__ = ("block", "key")
    block: _Block
    key: int


class _Recycler:
    """Buffers by size class, and how many bytes are in use, wait, and were in use at most.

    An array's end is only noted, by C code (``deque.append``): a Python function called there would swallow what a signal handler raises in
    it.  ``collect`` looks at the notes.

    One thread at a time keeps the books, under a lock.  Between taking the lock and giving it back there is no call, no loop, and no new
    container, which are the places where signal handlers and finalisers of the same thread run (``tests/kernels/test_memory.py`` reads the
    bytecode).  So none of them finds the books half kept, an exception of theirs leaves them balanced, and nothing of theirs waits for
    another thread that waits for this lock.  What a thread has taken from the books belongs to it alone.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, _Block] = {}  # by size, the uppermost of those that wait
        self.lent: dict[int, _Use] = {}
        self.used = self.kept = self.peak = 0
        self._ended: deque[_Use] = deque()
        self.unlock()

    def unlock(self) -> None:
        """As in a new process: after a fork there is no thread that could have the lock."""
        self._lock = threading.RLock()

    def collect(self) -> None:
        """Take back the buffers of arrays that are gone."""
        ended, lent, waiting = self._ended, self.lent, self.waiting
        while ended:
            with self._lock:
                if ended:  # another thread may have been quicker
                    use = ended[0]
                    block = use.block
                    size = block.size
                    del ended[0]
                    del lent[use.key]
                    self.used -= size
                    self.kept += size
                    block.below = waiting[size] if size in waiting else None
                    waiting[size] = block

    def take(self, size: int) -> _Block:
        if self._ended:
            self.collect()
        block = self._taken(size) if self.kept else None
        if block is None and self.kept:
            block = self._larger(size)
            if block is None:
                self._make_room(size)
        return self._new(size) if block is None else block

    def _taken(self, size: int) -> _Block | None:
        """A waiting buffer of a size class, which leaves the books; None if there is none."""
        waiting = self.waiting
        with self._lock:
            if size in waiting:
                block = waiting[size]
                below = block.below
                block.below = None
                if below is None:
                    del waiting[size]
                else:
                    waiting[size] = below
                self.kept -= size
                return block
        return None

    def _new(self, size: int) -> _Block:
        """A buffer from the system, if need be after giving back those that wait.

        Raises:
            MemoryError: there is none, as NumPy says it.
        """
        try:
            return _Block(size)
        except OSError as error:
            pass_on(error)
            self.release()
        try:
            return _Block(size)
        except OSError as error:
            pass_on(error)
            raise MemoryError(f"Unable to allocate {size} bytes for a result") from error

    def lend(self, block: _Block, array: np.ndarray) -> None:
        """Have ``block`` back when ``array`` is gone."""
        use = _Use(array, self._ended.append)
        key = id(use)
        use.block, use.key = block, key
        lent = self.lent
        with self._lock:
            lent[key] = use
            self.used += block.size
            if self.used > self.peak:
                self.peak = self.used

    def _larger(self, size: int) -> _Block | None:
        """A waiting buffer of a class above ``size``, by a quarter at most."""
        for _ in range(2):
            size = size_class(size + 1)
            block = self._taken(size)
            if block is not None:
                return block
        return None

    def _make_room(self, size: int) -> None:
        """Give waiting buffers back until a new one of ``size`` bytes keeps all of them within the bound."""
        limit = max(self.peak, self.used + size)
        limit += min(max(limit // 2, LEAST), SLACK)
        for block_size in sorted(self.waiting, reverse=True):
            while self.used + self.kept + size > limit and self._taken(block_size):
                pass

    def release(self) -> int:
        """Give back all waiting buffers; how many bytes that were."""
        self.collect()
        freed = 0
        for size in sorted(self.waiting):
            while self._taken(size):
                freed += size
        with self._lock:
            self.peak = self.used
        return freed


def _keep_small() -> None:
    """Let the C library keep small buffers, which glibc at first gives back to the system at every chance, to ask for them again.

    A freed block that had pages of its own raises its thresholds for all later ones (mallopt(3), M_MMAP_THRESHOLD); this one is never
    written to. A training step of a small GPT met 2,000 page faults without.
    """
    np.empty(KEPT, np.uint8)


_keep_small()
_recycler = _Recycler()
release = _recycler.release
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_recycler.unlock)


def size_class(size: int) -> int:
    """``size`` rounded up, by an eighth at most, so that buffers fit again; a multiple of the page size."""
    step = max(mmap.PAGESIZE, 1 << max(size.bit_length() - 4, 0))
    return -(-size // step) * step


def empty(shape: Any, dtype: Any) -> np.ndarray:
    """An array of a shape (a tuple) and dtype with arbitrary contents, row-major.

    Raises:
        MemoryError: there is not enough.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    block = _recycler.take(size_class(size))
    # its base is a memoryview, not an array, so that views of it keep the array itself alive, which is what the weak reference watches
    array = np.ndarray(shape, dtype, block.view)
    _recycler.lend(block, array)
    return array
