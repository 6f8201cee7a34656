"""Launches by sizes: what Python has found out about products of matrices, where machine code looks it up.

An entry has the place that its sizes lead to, and is overwritten by others that lead there: then Python launches again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.settings import settings
from ..compiler.language import Value
from .launching import Launching

_SLOTS = 256
# Words of an entry: what it is for; the kernel; where its last arguments are packed, how many there are, and the number of chunks.
_ASKED = ("rows", "inner", "columns", "has_bias", "precision")
_WORDS = (*_ASKED, "kernel", "packed", "count", "chunks")
_MOST = 64  # arguments
_table = np.zeros((_SLOTS, len(_WORDS)), np.uint64)
_kept: list[Any] = [None] * _SLOTS


def _slot(rows: Any, inner: Any, columns: Any) -> Any:
    """The place of an entry; sizes are integers, here and in machine code."""
    return (rows * 89 + inner * 31 + columns) & (_SLOTS - 1)


def note(rows: int, inner: int, columns: int, has_bias: bool, launch: Any) -> None:
    """Let machine code do this launch for products of row-major float32 matrices of these sizes, the second one transposed."""
    address, packed, chunks = launch.direct
    arguments, precision, place = np.frombuffer(packed, np.uint64), vars(settings).get("matmul_precision"), _slot(rows, inner, columns)
    if arguments.size + 4 <= _MOST:
        about = 0 if precision is None else id(precision)
        _table[place] = (rows, inner, columns, has_bias, about, address, arguments.ctypes.data, arguments.size, chunks)
        _kept[place] = arguments, precision, launch  # now what was there before may go


def address() -> int:
    """Address of the entries."""
    return int(_table.ctypes.data)


class Looking(Launching):
    """A form that looks launches up."""

    def require_entry(self, table: Value, rows: Value, inner: Value, columns: Value, has_bias: Value) -> Value:
        """The entry for these sizes; go on if there is one."""
        entry = self.at(table, _slot(rows, inner, columns) * len(_WORDS), "i64")
        precision = self.call_c("PyDict_GetItemWithError", "ptr", self.object(vars(settings)), self.object("matmul_precision"))
        asked = (rows, inner, columns, self.cast(has_bias, "i64"))
        for place, value in enumerate(asked):
            self.require(self.load(entry, place, "i64").eq(value))
        self.require(self.same(self.load(entry, len(asked), "ptr"), precision))
        return entry

    def launch_entry(self, direct: tuple[Value, Value], entry: Value, arrays: list[Value]) -> None:
        """Do a launch, with these arrays as its first arguments."""
        kernel, packed = (self.load(entry, _WORDS.index(name), "ptr") for name in ("kernel", "packed"))
        count, chunks = (self.load(entry, _WORDS.index(name), "i64") for name in ("count", "chunks"))
        block = self.scratch(_MOST, "i64")
        for place, array in enumerate(arrays):
            self.store(array, block, place, "ptr")
        rest = self.at(block, len(arrays), "i64")
        self.loop(0, count, lambda i: self.store(self.load(packed, i, "i64"), rest, i, "i64"))
        self.launch_block(direct, kernel, block, chunks)
