"""Memory layouts of operands, and memory between forbidden pages."""

from __future__ import annotations

import ctypes
import math
import mmap
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 1 << 19  # elements of memory behind one operand that is cut out of a larger one


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor of some shape lies in memory: a chain of views of a flat base.

    Attributes:
        lead: elements of the base before the tensor's; ``shift``: bytes by which the base is not aligned.
        full: shape of the memory, slowest dimension first; ``cuts``: what is taken of each.
        order: which of these dimensions the tensor's are.
        grown: shape that the tensor is expanded to; ``trims``: what is taken of it.
    """

    lead: int
    shift: int
    full: tuple[int, ...]
    cuts: tuple[slice, ...]
    order: tuple[int, ...]
    grown: tuple[int, ...]
    trims: tuple[slice, ...]

    @property
    def size(self) -> int:
        """Elements of the base."""
        return self.lead + math.prod(self.full)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(range(*trim.indices(n))) for trim, n in zip(self.trims, self.grown, strict=True))

    def of(self, base: Any) -> Any:
        """The tensor over the flat ``base``."""
        if not self.full:
            return base[self.lead]
        tensor = base[self.lead :].view(self.full)
        if any(cut != slice(None) for cut in self.cuts):
            tensor = tensor[self.cuts]
        if self.order != tuple(range(len(self.order))):
            tensor = tensor.permute(self.order)
        if tuple(tensor.shape) != self.grown:
            tensor = tensor.expand(self.grown)
        return tensor[self.trims] if any(trim != slice(None) for trim in self.trims) else tensor

    def __str__(self) -> str:
        def shown(cuts: tuple[slice, ...]) -> str:
            return ", ".join(
                f"{c.start if c.start is not None else ''}:{c.stop if c.stop is not None else ''}:{c.step or ''}" for c in cuts
            )

        trimmed = f"[{shown(self.trims)}]" if any(trim != slice(None) for trim in self.trims) else ""
        off = f"base{f' + {self.shift} bytes' if self.shift else ''}[{self.lead}:]"
        return f"{off}.view{self.full}[{shown(self.cuts)}].permute{self.order}.expand{self.grown}{trimmed}"


def row_major(shape: tuple[int, ...]) -> Layout:
    every = (slice(None),) * len(shape)
    return Layout(0, 0, shape, every, tuple(range(len(shape))), shape, every)


def random_layout(rng: random.Random, shape: tuple[int, ...], repeats: bool = True) -> Layout:
    """A layout of a tensor of ``shape``; without ``repeats`` each element has a place of its own."""
    ndim = len(shape)
    if not ndim or rng.random() < 0.15:
        return row_major(shape)
    expands = rng.choice((0, 0, 0.3, 0.5, 1.0)) if repeats else 0.0
    steps = rng.choice((0, 0, 0.3, 1.0))
    order = list(range(ndim))
    way = rng.randrange(4)
    if way == 1:
        order.reverse()
    elif way == 2:
        rng.shuffle(order)
    elif way == 3 and ndim > 1:
        order[-1], order[-2] = order[-2], order[-1]
    held: list[int] = []
    cut: list[slice] = []
    grown: list[int] = []
    trims: list[slice] = []
    for n in shape:
        have, taken, more, trim = n, slice(None), n, slice(None)
        if rng.random() < expands:
            have = 1
            if rng.random() < 0.3:  # expanded further than needed: a dimension of one element that does not move either
                more, trim = n + 2, slice(1, n + 1)
        if rng.random() < steps:
            first, step = rng.randrange(3), rng.choice((1, 2, 3))
            last = first + (have - 1) * step + 1
            longer = last + rng.randrange(2)
            if math.prod(held) * longer * math.prod(shape[len(held) + 1 :]) <= MOST:
                have, taken = longer, slice(first, last, step)
        held.append(have)
        cut.append(taken)
        grown.append(more)
        trims.append(trim)
    full, cuts = [0] * ndim, [slice(None)] * ndim
    for place, have, taken in zip(order, held, cut, strict=True):
        full[place], cuts[place] = have, taken
    lead, shift = rng.choice((0, 0, 1, 3, 16)), rng.choice((0, 0, 0, 1, 2))
    return Layout(lead, shift, tuple(full), tuple(cuts), tuple(order), tuple(grown), tuple(trims))


class Arena:
    """Memory between two forbidden pages, used again for every program: ``place`` puts bytes against one of them."""

    def __init__(self, size: int = MOST * 64):
        page = mmap.PAGESIZE
        self.size = -(-size // page) * page
        self.memory = mmap.mmap(-1, self.size + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for at in (address, address + page + self.size):
            if protect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, values: np.ndarray, shift: int, at_end: bool) -> np.ndarray:
        """A copy of a flat array that ends before the second page, or begins behind the first, ``shift`` bytes away from it."""
        page = mmap.PAGESIZE
        offset = page + self.size - values.nbytes - shift if at_end else page + shift
        array = np.ndarray(values.shape, values.dtype, self.memory, offset)
        array[...] = values
        return array
