"""Storages that a pickle mentions, found without making or calling anything.

Files from before PyTorch 1.6 hold the storages' bytes behind the object, and how many bytes belong to which storage stands in the
object alone. So its pickle is looked through first, the storages are read, and then the object is made: what looks at values meanwhile
(scales, indices, states of generators, a program's own ``__setstate__``) finds them.
"""

from __future__ import annotations

import pickle
import pickletools
from typing import IO, Any, cast

from ..core.protocols.rebuild import shown
from .names import DATA, OWN_DATA, STORAGE_DTYPES, StorageType
from .weights_only import current_name

_OTHER = object()  # stands for whatever a persistent id is not made of
_MARK = object()
_OWN_STORAGE_TYPE = f"{StorageType.__module__}.{StorageType.__qualname__}"
_CODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_KEPT = frozenset("GLOBAL STACK_GLOBAL REDUCE NONE MARK TUPLE TUPLE1 TUPLE3 MEMOIZE PUT GET DUP BINPERSID STOP".split())


def _counts(opcode: Any) -> tuple[int, int, int] | None:
    """Bytes of an instruction's argument, what it takes and what it leaves, where nothing of it can be in a persistent id."""
    argument = opcode.arg
    if opcode.name in _KEPT or opcode.name.endswith(("PUT", "GET")) or pickletools.markobject in opcode.stack_before:
        return None
    if argument is not None and (argument.n < 0 or opcode.stack_after):
        return None
    return (0 if argument is None else argument.n), len(opcode.stack_before), len(opcode.stack_after)


_COUNTS = {code: counts for code, opcode in _CODES.items() if (counts := _counts(opcode)) is not None}


class _Bounded:
    """A file of which no more is asked for than it has, whatever a damaged pickle says."""

    def __init__(self, file: IO[bytes], end: int) -> None:
        self._file, self._end = file, end
        self.readline = file.readline

    def read(self, count: int) -> bytes:
        if count > self._end - self._file.tell():
            raise EOFError("Ran out of input: the pickle ends in the middle")
        return self._file.read(count)


def storage_ids(file: IO[bytes], end: int) -> list[tuple[Any, ...]]:
    """The persistent ids of the next pickle that are tuples of plain values, in the order of their mention.

    Args:
        file: positioned at the pickle, and left behind it.
        end: where it ends.
    Raises:
        pickle.UnpicklingError: the pickle is damaged.
        EOFError: it ends too early.
    """
    machine, read = _Machine(), file.read
    stack, bounded = machine.stack, cast("IO[bytes]", _Bounded(file, end))
    try:
        while (code := read(1)) != pickle.STOP:
            counts = _COUNTS.get(code)
            if counts is None:
                if not code:
                    raise EOFError("Ran out of input: the pickle ends in the middle")
                opcode = _CODES[code]
                machine.run(opcode, None if opcode.arg is None else opcode.arg.reader(bounded))
                continue
            length, taken, left = counts
            if length:
                bounded.read(length)
            if taken:
                if len(stack) < taken:
                    raise ValueError("it takes an item from an empty stack")
                del stack[-taken:]
            if left:
                stack += [_OTHER] * left
    except (ValueError, LookupError, TypeError) as error:
        raise pickle.UnpicklingError(f"pickle damaged: {error!s:.200}") from None
    return machine.ids


class _Machine:
    """The stack and the memo of a pickle, with what persistent ids are made of in them, and ``_OTHER`` in place of all else."""

    def __init__(self) -> None:
        self.ids: list[tuple[Any, ...]] = []
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, opcode: Any, argument: Any) -> None:
        """One instruction."""
        stack, name = self.stack, opcode.name
        if name == "TUPLE1":  # the arguments of a type of storages, where it is spelled as a call
            stack[-1] = (stack[-1],) if type(stack[-1]) is str else _OTHER
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "GLOBAL":
            stack.append(_named(*argument.split(" ", 1)))
        else:
            taken = self._taken(opcode.stack_before)
            stack += [_made(name, argument, taken) for _ in opcode.stack_after]
            if name == "BINPERSID" and type(taken[0]) is tuple:
                self.ids.append(taken[0])

    def _taken(self, wanted: list[Any]) -> list[Any]:
        """Values that an instruction takes from the stack, without marks."""
        taken = []
        if pickletools.markobject in wanted:
            while (item := self.stack.pop()) is not _MARK:
                taken.append(item)
            wanted = wanted[: wanted.index(pickletools.markobject)]
        return [*[self.stack.pop() for _ in wanted][::-1], *taken[::-1]]


def _made(name: str, argument: Any, taken: list[Any]) -> Any:
    """Value on the stack for an instruction's result."""
    if name in ("TUPLE", "TUPLE3"):
        # An id has six items, one of them a tuple of three. Larger and deeper ones would only take time to be taken apart.
        are_plain = len(taken) <= 8 and not any(type(item) is tuple and any(type(inner) is tuple for inner in item) for item in taken)
        return tuple(taken) if are_plain else _OTHER
    if name == "STACK_GLOBAL":
        return _named(*taken)
    if name == "REDUCE" and taken[0] is StorageType and type(taken[1]) is tuple:
        return StorageType(*taken[1]) if taken[1][0] in STORAGE_DTYPES else _OTHER
    if name == "NONE":
        return None
    return argument if type(argument) in (str, bytes, int) and not taken else _OTHER


def _named(module: Any, name: Any) -> Any:
    """The type of storages of this name; files that another pickle module wrote have our own."""
    if type(module) is not str or type(name) is not str:
        raise ValueError(f"expected a name, got {shown(name)}")
    full = ".".join(current_name(module, name))
    return StorageType if full == _OWN_STORAGE_TYPE else DATA.get(full, OWN_DATA.get(full, _OTHER))
