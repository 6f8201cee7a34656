"""Memory of a graph's values: who needs which of it for how long, and one arena in which blocks are used again.

    step       0    1    2    3    4
    a        [=========]                 a and c are never alive together, so that c
    b             [==============]       begins where a did; b lies beside both
    c                       [====]

Blocks are placed one after the other, each at the lowest address that no block has which is alive at the same time; in several orders, such
as from the largest to the smallest, of which the best counts.

A result may be written over an operand that nobody needs any more, where the kernel reads each element before it writes there: then both
are one block for as long as either is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from .memory import ALIGNMENT

GROWTH = 1.05  # of the memory that is needed anyway, for kernels that are quicker with memory of their own
Owner = TypeVar("Owner")


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


def crowding(blocks: Iterable[Memory], scratch: dict[Memory, Owner]) -> frozenset[Owner]:
    """The owners of scratch memory that makes a step need more than is needed anyway.

    Args:
        blocks: of an arena. scratch: those of them that could be done without, and whose they are.
    """
    alive = [block for block in blocks if block.first >= 0 and block.over is None]
    needed, anyway = _profile(alive), _profile([block for block in alive if block not in scratch])
    limit = GROWTH * max(anyway, default=0)
    mine = [block for block in alive if block in scratch]
    return frozenset([scratch[block] for block in mine if max(needed[block.first : block.last + 1]) > limit])


def _profile(blocks: Sequence[Memory]) -> list[int]:
    """Bytes that are needed at each step."""
    changes = [0] * (max([block.last for block in blocks], default=-1) + 2)
    for block in blocks:
        changes[block.first] += rounded(block.size)
        changes[block.last + 1] -= rounded(block.size)
    return list(accumulate(changes))


_ORDERS: tuple[Callable[[Memory], Any], ...] = (
    lambda block: (-block.size, block.first),
    lambda block: (block.first - block.last, -block.size),
    lambda block: (-block.size * (block.last - block.first + 1), block.first),
    lambda block: (-block.size.bit_length(), block.first - block.last),
    lambda block: (block.first, -block.last, -block.size),
)  # of the blocks, from the most to the least important; the one of which the arena is smallest counts

_GOOD = 1.01  # times what is needed at least: no further order is tried


def _placed(blocks: list[Memory]) -> int:
    least, best = max(_profile(blocks)), None
    for order in _ORDERS:
        total, offsets = _in_order(sorted(blocks, key=order))
        if best is None or total < best[0]:
            best = total, offsets
        if total <= least * _GOOD:
            break
    assert best is not None
    for block, offset in best[1].items():
        block.offset = offset
    return best[0]


def _in_order(blocks: Iterable[Memory]) -> tuple[int, dict[Memory, int]]:
    """Bytes and offsets if each block, one after the other, gets the lowest address that is free while it is alive."""
    total, offsets = 0, {}
    placed: list[tuple[int, int, int, int]] = []  # first step, last step, offset, end; by offset
    for block in blocks:
        size, first, last = rounded(block.size), block.first, block.last
        at = number = 0
        for i, (other_first, other_last, offset, end) in enumerate(placed):
            if other_first <= last and first <= other_last:
                if offset - at >= size:
                    break
                if end > at:
                    at, number = end, i + 1
        offsets[block] = at
        total = max(total, at + size)
        while number < len(placed) and placed[number][2] <= at:
            number += 1
        placed.insert(number, (first, last, at, at + size))
    return total, offsets
