"""Memory of tensors, storages and nodes that ended, for the next ones.

A small call makes two or three objects of a few classes, and most of them end soon. CPython keeps such memory of its own tuples and floats,
and none of classes with slots: it allocates, clears and links each object anew, and at its end goes through lists of its class's slots. So
these classes get another function for ``tp_dealloc`` (``endings.py``), which gives back what an object holds and puts its memory into a
pool, where machine code that makes the next one looks first.

Whatever is unusual ends as ever, by the function of a *twin*, a class of the same layout that has kept it: objects with a dictionary of
their own, and those of subclasses.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.storage import UntypedStorage
from ...core.tape.node import Node
from ...core.tensor import Tensor
from .interpreter import api, function_address, interpreter, require, word

MOST = 64  # objects in a pool
DEEPEST = 50  # objects that end within each other
HEAD, COUNT, END = range(3)  # words of a pool: its first object, their number, the address of the function for ``tp_dealloc``
DEPTH, WAITING = range(2)  # of objects that are ending: how many are within each other, and the first of those that wait for others
DEALLOC, FREE, FINALIZE = 48, 320, 392  # offsets of these in classes
_NUMBERS = {DEALLOC: 52, FREE: 74, FINALIZE: 80}  # CPython's numbers of them
_FLAGS = 1 << 14 | 1 << 4 | 1 << 3 | 1 << 2  # of objects that are collected, and of what lies in front of them


class TensorTwin:
    __slots__ = Tensor.__slots__


class StorageTwin:
    __slots__ = UntypedStorage.__slots__


class NodeTwin:
    __slots__ = Node.__slots__


@dataclass(frozen=True, slots=True)
class Layout:
    """Slots and offsets of the objects of one pool.

    Attributes:
        place: the pool's place in ``POOLS``.
        owner: the class that defines the slots. twin: a class that nobody uses, of the same slots.
    """

    place: int
    owner: type
    twin: type

    @property
    def slots(self) -> list[str]:
        return [name for name in self.owner.__dict__["__slots__"] if not name.startswith("__")]

    @property
    def link(self) -> int:
        """Offset where an object in the pool has the address of the next."""
        return interpreter().slot(self.owner, self.slots[0])

    @property
    def dictionary(self) -> tuple[int, ...]:
        """Offsets of words that are zero while an object has no dictionary."""
        if "__dict__" not in self.owner.__dict__["__slots__"]:
            return ()
        return (-24,) if interpreter().immortal else (-24, -32)


_PAIRS: tuple[tuple[type, type], ...] = ((Tensor, TensorTwin), (UntypedStorage, StorageTwin), (Node, NodeTwin))
LAYOUTS = {owner: Layout(place, owner, twin) for place, (owner, twin) in enumerate(_PAIRS)}
SHAPES = np.zeros((64, 8), np.uint64)  # shapes that nodes kept: the tuple, how many sizes it has, and these
POOLS = np.zeros((len(LAYOUTS), 3), np.uint64)
ENDING = np.zeros((64, 2), np.uint64)  # of threads, by the address of their state: a thread may stop in the midst for long


def _function_in(kind: type, offset: int) -> int:
    api.PyType_GetSlot.restype, api.PyType_GetSlot.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    return api.PyType_GetSlot(kind, _NUMBERS[offset]) or 0


def _check_classes() -> None:
    """See that classes lie as the offsets say, and dictionaries where they are looked for."""

    class Probe:
        __slots__ = ("__dict__", "__weakref__", "value")

        def __del__(self) -> None: ...

    for offset in _NUMBERS:
        require(_function_in(Probe, offset) == word(id(Probe) + offset) != 0, "classes lie otherwise")
    for write in (lambda probe: setattr(probe, "name", 1), lambda probe: setattr(probe, "__dict__", {})):
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)(api.PyType_GetSlot(Probe, 47))
        probe, places = make(Probe, 0), LAYOUTS[Tensor].dictionary
        require(not any(word(id(probe) + place) for place in places), "dictionaries lie elsewhere")
        write(probe)
        require(any(word(id(probe) + place) for place in places), "dictionaries lie elsewhere")


def _is_like(kind: Any, twin: Any) -> bool:
    """Whether objects of a class, which has the twin's slots, are as large as the twin's, and end in the same way."""
    facts = ("__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__")
    same = all(getattr(kind, fact) == getattr(twin, fact) for fact in facts) and not (kind.__flags__ ^ twin.__flags__) & _FLAGS
    return same and all(word(id(kind) + place) == word(id(twin) + place) for place in _NUMBERS)


def adopt(kind: Any) -> None:
    """Have objects of a class end by the function of its pool, if there is one for its layout."""
    layout = next((each for owner, each in LAYOUTS.items() if isinstance(kind, type) and issubclass(kind, owner)), None)
    if layout is not None and POOLS[layout.place, END] and _is_like(kind, layout.twin):
        ctypes.c_uint64.from_address(id(kind) + DEALLOC).value = int(POOLS[layout.place, END])


def take_over(addresses: dict[type, int]) -> None:
    """Give classes their functions for the end of their objects, once a process.

    Raises:
        Unsupported: classes lie otherwise here.
    """
    if POOLS[:, END].any():  # as it is when machine code is loaded once more
        return
    _check_classes()
    for owner, address in addresses.items():
        layout, free = LAYOUTS[owner], function_address("PyObject_GC_Del")
        require(word(id(layout.twin) + FREE) == free and not word(id(layout.twin) + FINALIZE), "classes end otherwise")
        same = all(interpreter().slot(owner, name) == interpreter().slot(layout.twin, name) for name in layout.slots)
        require(same, "classes of the same slots lie otherwise")
        POOLS[layout.place, END] = address
        adopt(owner)
