"""Memory for results: large buffers are used again instead of being given back to the system.

A new buffer costs a page fault for every 4 KB when it is first written, which for a memory-bound operation is more than the operation
itself.  ``empty`` therefore takes large buffers from those that earlier results have left, and notices by a weak reference when an array,
and every view of it, is gone.  All of them begin at a page boundary, so that vector loads never straddle cache lines.

What is kept is bounded: buffers in use and buffers waiting together never exceed what was once in use at the same time by more than half
of it, or ``SLACK``.  ``release`` gives back everything that waits.  NumPy's own allocations are left alone.
"""

from __future__ import annotations

import math
import mmap
import weakref
from typing import Any

import numpy as np

from ...core.native import ResultMemory

SMALL = 512 << 10  # bytes: below this the C library's allocator is quicker and keeps what it has
HUGE = 4 << 20  # bytes: from here on the system is asked for pages of 2 MB, of which the processor can find more at once
SLACK = 64 << 20  # bytes by which buffers of sizes that do not fit again may exceed the peak; half of it at most
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class _Block:
    """One buffer, and the weak reference to the array that uses it."""

    __slots__ = ("memory", "size", "user", "view")

    def __init__(self, size: int):
        self.size = size
        self.memory = ResultMemory(-1, size, flags=_FLAGS)
        if size >= HUGE:
            try:
                self.memory.madvise(mmap.MADV_HUGEPAGE)
            except (AttributeError, OSError):
                pass  # a system without huge pages
        self.view = memoryview(self.memory)
        self.user: Any = None


class _Recycler:
    """Buffers by size class, and how many bytes are in use, wait, and were in use at most."""

    def __init__(self) -> None:
        self.waiting: dict[int, list[_Block]] = {}
        self.lent: set[_Block] = set()
        self.used = self.kept = self.peak = 0

    def take(self, size: int) -> _Block:
        blocks = self.waiting.get(size) or (self.kept and self._larger(size))
        if blocks:
            block = blocks.pop()
            size = block.size
            self.kept -= size
        else:
            if self.kept:
                self._make_room(size)
            block = self._new(size)
        self.lent.add(block)
        self.used += size
        if self.used > self.peak:
            self.peak = self.used
        return block

    def _new(self, size: int) -> _Block:
        """A buffer from the system, if need be after giving back those that wait.

        Raises:
            MemoryError: there is none, as NumPy says it.
        """
        try:
            return _Block(size)
        except OSError:
            self.release()
        try:
            return _Block(size)
        except OSError as error:
            raise MemoryError(f"Unable to allocate {size} bytes for a result") from error

    def lend(self, block: _Block, array: np.ndarray) -> None:
        """Have ``block`` back when ``array`` is gone."""

        def back(_: Any) -> None:
            block.user = None
            self.lent.discard(block)
            self.used -= block.size
            self.kept += block.size
            self.waiting.setdefault(block.size, []).append(block)

        block.user = weakref.ref(array, back)

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
        limit += min(limit // 2, SLACK)
        for each in sorted(self.waiting, reverse=True):
            blocks = self.waiting[each]
            while blocks and self.used + self.kept + size > limit:
                blocks.pop()
                self.kept -= each

    def release(self) -> int:
        """Give back all waiting buffers; how many bytes that were."""
        freed = self.kept
        self.waiting.clear()
        self.kept, self.peak = 0, self.used
        return freed


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
