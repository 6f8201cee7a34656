"""Memory of a graph's values: who needs which of it for how long, and one arena in which blocks are used again.

    step       0    1    2    3    4
    a        [=========]                 a and c are never alive together, so that c
    b             [==============]       begins where a did; b lies beside both
    c                       [====]

Blocks are placed from the largest to the smallest, each at the lowest address that no block has which is alive at the same time.

A result may be written over an operand that nobody needs any more, where the kernel reads each element before it writes there: then both
are one block for as long as either is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .memory import ALIGNMENT


class Memory:
    """A piece of memory that steps read and write.

    Attributes:
        kind: 'arena': a block of the arena, of ``size`` bytes, for steps ``first`` to ``last``, at ``offset``; 'flag': zeros behind the
            blocks, which launches may set; 'table': the addresses of the headers of ``entries``, memory and offset; 'held': the memory
            of ``array``; 'given': that of array number ``index`` of a call, an input or what a call makes anew for an output.
        over: of a block of the arena the one that it is written over; None where it has bytes of its own.
    """

    __slots__ = ("array", "entries", "first", "index", "kind", "last", "offset", "over", "size")

    def __init__(self, kind: str, size: int = 0, array: np.ndarray | None = None, index: int = -1):
        self.kind, self.size, self.array, self.index = kind, size, array, index
        self.first = self.last = self.offset = -1
        self.entries: list[tuple[Memory, int]] = []
        self.over: Memory | None = None

    def use(self, step: int) -> None:
        """Note that a step reads or writes it."""
        if self.first < 0:
            self.first = step
        self.last = max(self.last, step)

    def __repr__(self) -> str:
        return f"<{self.kind} memory: {self.size} bytes, steps {self.first} to {self.last}>"


def rounded(size: int) -> int:
    return max(-(-size // ALIGNMENT), 1) * ALIGNMENT


def write_over(pairs: Iterable[tuple[Memory, Memory]]) -> None:
    """Have blocks written over others where that is possible.

    Args:
        pairs: blocks, and those of operands over which the step that makes them could write them; in the order of the steps.
    """
    for result, operand in pairs:
        below = operand
        while below.over is not None:
            below = below.over
        fits = result.kind == below.kind == "arena" and result.over is None and rounded(result.size) == rounded(below.size)
        if fits and result.first == below.last and below.first < result.first:
            result.over, below.last = below, result.last


def place(blocks: Iterable[Memory]) -> int:
    """Give each block of an arena its offset; bytes that the arena needs."""
    blocks = list(blocks)
    total = _placed([block for block in blocks if block.over is None])
    for block in blocks:
        below = block
        while below.over is not None:
            below = below.over
        block.offset = below.offset
    return total


def _placed(blocks: Iterable[Memory]) -> int:
    total = 0
    placed: list[tuple[int, int, int, int]] = []  # first step, last step, offset, end; by offset
    for block in sorted(blocks, key=lambda block: (-block.size, block.first)):
        size, first, last = rounded(block.size), block.first, block.last
        at = number = 0
        for i, (other_first, other_last, offset, end) in enumerate(placed):
            if other_first <= last and first <= other_last:
                if offset - at >= size:
                    break
                if end > at:
                    at, number = end, i + 1
        block.offset = at
        total = max(total, at + size)
        while number < len(placed) and placed[number][2] <= at:
            number += 1
        placed.insert(number, (first, last, at, at + size))
    return total
