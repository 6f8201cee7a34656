"""From a kernel's Python function to something that can be called."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import late
from ..core.arrays.native import NoKernel, NotNow
from . import target as targets
from .language import Builder
from .machine_code import compiled
from .pool import pool

# Every generator, and what was built of it by specification.
GENERATORS: dict[Callable[..., None], dict[tuple[Any, ...], Kernel | NoKernel]] = {}


class Kernel:
    """A compiled kernel: ``kernel(chunks, *arguments)`` runs it on the pool.

    Arguments are given in the order in which the kernel asked for them: ``id(array)``, integers and numbers.  The arrays must stay alive
    and unchanged in shape until the call returns, and nothing checks their sizes: that is the caller's job.
    """

    __slots__ = ("address", "pack", "slots")

    def __init__(self, address: int, slots: str):
        self.address, self.slots, self.pack = address, slots, struct.Struct("=" + slots).pack

    def __call__(self, chunks: int, *arguments: Any) -> None:
        pool.launch(self.address, self.pack(*arguments), chunks)

    def call(self, chunks: int, *fixed: Any) -> Call:
        """What runs the kernel again and again with the same last arguments, given first arrays only; arrays in ``fixed`` are kept."""
        return Call(self, chunks, fixed)


class Call:
    """A kernel with its number of chunks and all arguments but the first arrays, packed once: ``call(*arrays)`` runs it."""

    __slots__ = ("address", "chunks", "fixed", "head", "kept")

    def __init__(self, kernel: Kernel, chunks: int, fixed: tuple[Any, ...]):
        self.address, self.chunks = kernel.address, chunks
        first = len(kernel.slots) - len(fixed)
        self.kept = [argument for argument in fixed if argument.__class__ is np.ndarray]
        values = [id(argument) if argument.__class__ is np.ndarray else argument for argument in fixed]
        self.head, self.fixed = struct.Struct("=" + kernel.slots[:first]).pack, struct.pack("=" + kernel.slots[first:], *values)

    def __call__(self, *arrays: np.ndarray) -> None:
        pool.launch(self.address, self.head(*map(id, arrays)) + self.fixed, self.chunks)


def source_of(generator: Callable[..., None], specification: tuple[Any, ...], target: targets.Target) -> Builder:
    """The builder after ``generator`` wrote its kernel."""
    k = Builder(generator.__name__, target)
    generator(k, *specification)
    return k


def kernel(generator: Callable[..., None]) -> Callable[..., Kernel]:
    """Decorator: calling the result with a specification (hashable arguments) gives the Kernel for it, built once.

    Raises:
        NoKernel: when called, where the kernel cannot be had.
    """
    built = GENERATORS[generator] = {}

    def get(*specification: Any) -> Kernel:
        cached = built.get(specification)
        if cached is None:
            cached = late.make(make, specification)
        if cached.__class__ is Kernel:
            return cached
        raise NotNow(generator.__name__) if cached is None else cached  # type: ignore[misc]

    def make(specification: tuple[Any, ...]) -> Kernel | NoKernel:
        cached = built.get(specification)
        if cached is None:  # no other thread was quicker
            cached = built[specification] = _build(generator, specification)
        return cached

    get.generator = generator  # type: ignore[attr-defined]
    get.__doc__, get.__name__ = generator.__doc__, generator.__name__
    return get


def _build(generator: Callable[..., None], specification: tuple[Any, ...]) -> Kernel | NoKernel:
    try:
        target = targets.current()
        k = source_of(generator, specification, target)
        return Kernel(compiled(k.text(), k.name, target), k.slots)
    except NoKernel as error:
        return NoKernel(*error.args)
