"""From a kernel's Python function to something that can be called."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...core import late
from ...core.arrays.native import NoKernel, NotNow
from ...core.calls.interruption import GENERATED
from . import target as targets
from .arguments import Record, expressions_of, fields_of, slots_of
from .language import Builder
from .machine_code import compiled
from .pool import pool

# Every generator, and what was built of it by specification.
GENERATORS: dict[Callable[..., None], dict[tuple[Any, ...], Kernel | NoKernel]] = {}
BY_ADDRESS: dict[int, Kernel] = {}  # all kernels of this process


class Kernel:
    """A compiled kernel: ``kernel(chunks, *arguments)`` runs it on the pool.

    Arguments are given in the order in which the kernel declared them: ``id(array)``, integers and numbers.  The arrays must stay alive
    and unchanged in shape until the call returns, and nothing checks their sizes: that is the caller's job.

    Attributes:
        address: of the machine function. slots: struct-module letter of each argument, eight bytes each.
        arrays: places of arrays among the arguments; None where the kernel also finds arrays in tables.
    """

    __slots__ = ("address", "arrays", "pack", "slots")

    def __init__(self, address: int, k: Builder):
        self.address, self.slots, self.pack = address, k.slots, struct.Struct("=" + k.slots).pack
        self.arrays = None if k.reads_tables else tuple(k.arrays)

    def __call__(self, chunks: int, *arguments: Any) -> None:
        pool.launch(self.address, self.pack(*arguments), chunks)

    def call(self, chunks: int, *fixed: Any) -> Callable[..., None]:
        """Function that runs the kernel with the same last arguments each time, given the first arrays; arrays in ``fixed`` are kept."""
        return self._bound("", [f"array{i}" for i in range(len(self.slots) - len(fixed))], chunks, fixed)

    def _bound(self, star: str, names: Sequence[str], chunks: int, fixed: Sequence[Any]) -> Callable[..., None]:
        """Function of arrays with these names, the first arguments; the others are packed once. ``direct`` is what it launches."""
        kept = [argument for argument in fixed if argument.__class__ is np.ndarray]
        values = [id(argument) if argument.__class__ is np.ndarray else argument for argument in fixed]
        pack, packed = struct.Struct("=" + self.slots[: len(names)]).pack, struct.pack("=" + self.slots[len(names) :], *values)
        launch = _launcher(star, tuple((name, "array") for name in names))(pool, self.address, pack, packed, chunks)
        launch.kept, launch.direct = kept, (self.address, packed, chunks)
        return launch


class NamedKernel(Kernel):
    """A compiled kernel whose arguments a record declares: ``kernel.launch(chunks, x=array, columns=3)`` runs it on the pool.

    The arrays must stay alive and unchanged in shape until the call returns, and nothing checks their sizes: that is the caller's job.
    """

    __slots__ = ("fields", "launch", "name")

    def __init__(self, address: int, k: Builder, record: type[Record]):
        super().__init__(address, k)
        self.name = k.name
        self.fields = {name: word for name, word in fields_of(record).items() if name not in k.without}
        self.launch = _launcher("chunks, *, ", (*self.fields.items(),))(pool, address, self.pack, b"", 0)

    def bind(self, chunks: int, **values: Any) -> Callable[..., None]:
        """Function of the other arguments, by name, that runs the kernel with these values each time and keeps them.

        Raises:
            TypeError: for names that the record does not have, and where others than arrays, or than the record's first, are missing.
        """
        given = [name for name in self.fields if name not in values]
        unknown = [name for name in values if name not in self.fields]
        missing = [name for name in given if self.fields[name] != "array"]
        if unknown or missing:
            raise TypeError(f"{self.name}: missing: {missing}, unknown: {unknown}")
        if given != list(self.fields)[: len(given)]:
            raise TypeError(f"{self.name}: arrays of each launch are the record's first arguments, but {given} are left")
        slots = [slot for name in self.fields if name in values for slot in slots_of(self.fields[name], values[name])]
        return self._bound("*, ", given, chunks, slots)


@cache
def _launcher(first: str, fields: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    """Makes the function of ``first`` and such arguments that packs them and launches: generated, so that a launch is one call and its
    names cost nothing."""
    names = ", ".join(name for name, _ in fields)
    values = ", ".join(value for name, word in fields for value in expressions_of(word, name))
    scope: dict[str, Any] = {}
    source = (
        f"def make(pool, address, pack, fixed, chunks):\n"
        f"    def launch({first}{names}):\n"
        f"        pool.launch(address, pack({values}) + fixed, chunks)\n"
        f"    return launch\n"
    )
    exec(compile(source, f"{GENERATED}launch>", "exec"), scope)
    return scope["make"]


def source_of(generator: Callable[..., None], specification: tuple[Any, ...], target: targets.Target) -> Builder:
    """The builder after ``generator`` wrote its kernel."""
    k = Builder(generator.__name__, target)
    generator(k, *specification)
    return k


def kernel(generator: Callable[..., None]) -> Callable[..., Any]:
    """Decorator: calling the result with a specification (hashable arguments) gives the Kernel for it, built once.

    Raises:
        NoKernel: when called, where the kernel cannot be had.
    """
    built = GENERATORS[generator] = {}

    def get(*specification: Any) -> Kernel:
        cached = built.get(specification)
        if cached is None:
            cached = late.make(make, specification)
        if isinstance(cached, Kernel):
            return cached
        raise NotNow(generator.__name__) if cached is None else cached

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
        address = compiled(k.text(), k.name, target)
        made = BY_ADDRESS[address] = Kernel(address, k) if k.record is None else NamedKernel(address, k, k.record)
        return made
    except NoKernel as error:
        return NoKernel(*error.args)
