"""Launches by sizes and layouts: what Python has found out about calls, where machine code looks it up.

An entry has the place that its words lead to, and is overwritten by others that lead there: then Python launches again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ...core.settings import settings
from ..compiler.language import Value
from .launching import Launching

_SLOTS = 256
_LAUNCH = ("kernel", "packed", "count", "chunks")  # the kernel; its last arguments, packed; how many these are; the number of chunks
_MOST = 64  # arguments


class Entries:
    """Launches by the words that they are ``asked`` by. What a form has to know of one besides are ``more`` words."""

    def __init__(self, asked: Sequence[str], more: Sequence[str] = ()):
        self.asked, self.words = len(asked), (*asked, *_LAUNCH, *more)
        self._table = np.zeros((_SLOTS, len(self.words)), np.uint64)
        self._kept: list[Any] = [None] * _SLOTS

    @property
    def address(self) -> int:
        return int(self._table.ctypes.data)

    def start(self, asked: Sequence[Any]) -> Any:
        """The place of an entry's first word; words are integers, here and in machine code."""
        mixed = reduce(lambda so_far, word: so_far * 31 + word, asked)
        return ((mixed ^ mixed >> 8) & (_SLOTS - 1)) * len(self.words)

    def note(self, asked: Sequence[int], arrays: int, launch: Any, more: Sequence[int] = (), kept: Any = None) -> None:
        """Let machine code do this launch, whose first arguments are so many ``arrays``."""
        address, packed, chunks = launch.direct
        arguments = np.frombuffer(packed, np.uint64)
        if arguments.size + arrays <= _MOST:
            place = self.start(asked) // len(self.words)
            words = (*asked, address, arguments.ctypes.data, arguments.size, chunks, *more)
            self._table[place] = np.array([word & (1 << 64) - 1 for word in words], np.uint64)
            self._kept[place] = arguments, launch, kept  # now what was there before may go


class Looking(Launching):
    """A form that looks launches up."""

    def precision(self) -> Value:
        """The word for the precision of products that is set, an address or 0."""
        word = self.call_c("PyDict_GetItemWithError", "ptr", self.object(vars(settings)), self.object("matmul_precision"))
        return self.emit(f"ptrtoint ptr {word.text} to i64", "i64")

    def require_entry(self, entries: Entries, table: Value, asked: Sequence[Value]) -> Value:
        """The entry for these words; go on if there is one."""
        entry = self.at(table, entries.start(asked), "i64")
        for place, value in enumerate(asked):
            self.require(self.load(entry, place, "i64").eq(value))
        return entry

    def noted(self, entries: Entries, entry: Value, name: str, element: str = "i64") -> Value:
        """A word of an entry."""
        return self.load(entry, entries.words.index(name), element)

    def launch_entry(self, entries: Entries, direct: tuple[Value, Value], entry: Value, arrays: list[Value]) -> None:
        """Do a launch, with these arrays as its first arguments."""
        kernel, packed = (self.noted(entries, entry, name, "ptr") for name in ("kernel", "packed"))
        count, chunks = (self.noted(entries, entry, name) for name in ("count", "chunks"))
        block = self.scratch(_MOST, "i64")
        for place, array in enumerate(arrays):
            self.store(array, block, place, "ptr")
        rest = self.at(block, len(arrays), "i64")
        self.loop(0, count, lambda i: self.store(self.load(packed, i, "i64"), rest, i, "i64"))
        self.launch_block(direct, kernel, block, chunks)
