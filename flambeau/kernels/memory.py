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
import weakref
from collections import defaultdict, deque
from typing import Any

import numpy as np

from ..core.arrays.native import ResultMemory
from ..core.calls.interruption import pass_on

SMALL = 512 << 10  # bytes: below this the C library's allocator is quicker and keeps what it has
HUGE = 4 << 20  # bytes: from here on the system is asked for pages of 2 MB, of which the processor can find more at once
SLACK = 64 << 20  # bytes by which buffers of sizes that do not fit again may exceed the peak; half of it at most
LEAST = 8 << 20  # bytes by which they always may: one image through a model needs few buffers at a time, and of many sizes
KEPT = 4 << 20  # bytes: blocks up to here, and twice as much at the end of its memory, the C library is made to keep
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class _Block:
    """One buffer."""

    __slots__ = ("memory", "size", "view")

    def __init__(self, size: int):
        self.size = size
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
    it.  ``collect`` looks at the notes.  Where books are kept there is no call between the first and the last entry, so that neither
    another thread nor a signal handler comes in between.
    """

    def __init__(self) -> None:
        self.waiting: defaultdict[int, list[_Block]] = defaultdict(list)
        self.lent: dict[int, _Use] = {}
        self.used = self.kept = self.peak = 0
        self._ended: deque[_Use] = deque()

    def collect(self) -> None:
        """Take back the buffers of arrays that are gone."""
        ended = self._ended
        while ended:
            use = ended[0]
            block = use.block
            del ended[0]
            del self.lent[use.key]
            self.used -= block.size
            self.kept += block.size
            self.waiting[block.size] += (block,)

    def take(self, size: int) -> _Block:
        self.collect()
        blocks = self.waiting.get(size) or (self.kept and self._larger(size))
        if blocks:
            block = blocks[-1]
            del blocks[-1]
            self.kept -= block.size
            return block
        if self.kept:
            self._make_room(size)
        return self._new(size)

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
        self.lent[key] = use
        self.used += block.size
        if self.used > self.peak:
            self.peak = self.used

    def _larger(self, size: int) -> list[_Block] | None:
        """Waiting buffers of a class above ``size``, by a quarter at most."""
        for _ in range(2):
            size = size_class(size + 1)
            blocks = self.waiting.get(size)
            if blocks:
                return blocks
        return None

    def _make_room(self, size: int) -> None:
        """Give waiting buffers back until a new one of ``size`` bytes keeps all of them within the bound."""
        limit = max(self.peak, self.used + size)
        limit += min(max(limit // 2, LEAST), SLACK)
        for block_size in sorted(self.waiting, reverse=True):
            blocks = self.waiting[block_size]
            while blocks and self.used + self.kept + size > limit:
                self.kept -= block_size
                del blocks[-1]

    def release(self) -> int:
        """Give back all waiting buffers; how many bytes that were."""
        self.collect()
        none: defaultdict[int, list[_Block]] = defaultdict(list)
        freed, self.waiting, self.kept, self.peak = self.kept, none, 0, self.used
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
