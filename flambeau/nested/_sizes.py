"""The size of a ragged dimension: an integer that differs from sequence to sequence, and so has a name instead of a value."""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import ref

from ..core.checks import SymInt

_numbers = count(1)
_of_tensors: dict[int, tuple[ref[Any], NestedInt]] = {}  # by the tensor's id


class NestedInt(SymInt):
    """The lengths of the sequences of a nested tensor as one size, times a number.

    It equals itself and nothing else, so that tensors of the same lengths are known by their shapes. Ragged sizes count as 2 or more in
    comparisons with integers. Prints as ``j1``.

    Attributes:
        number: which lengths. times: the factor.
    """

    number: int
    times: int

    def __new__(cls, number: int, times: int = 1) -> NestedInt:
        made: NestedInt = object.__new__(cls)
        made.number, made.times = number, times
        return made

    def __repr__(self) -> str:
        return f"j{self.number}" if self.times == 1 else f"{self.times}*j{self.number}"

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            return NestedInt(self.number, self.times * other)
        if isinstance(other, NestedInt):
            raise ValueError("a product of two ragged sizes has no value")
        return NotImplemented

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.times) == (other.number, other.times)

    def __hash__(self) -> int:
        return hash((self.number, self.times))

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.times >= other.times
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.times > other.times
        if isinstance(other, int) and other < 2:
            return True
        raise ValueError("gt: relation is indeterminate")

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __int__(self) -> int:
        raise RuntimeError(f"the ragged size {self} has no single value")

    __index__ = __int__

    def __reduce__(self) -> Any:
        return NestedInt, (self.number, self.times)


def ragged_size(lengths: Any) -> NestedInt:
    """The size that belongs to this very tensor of offsets or lengths; the same as long as the tensor lives."""
    key = id(lengths)
    entry = _of_tensors.get(key)
    if entry is None:  # ``setdefault``: threads that ask at once get the same
        entry = _of_tensors.setdefault(key, (ref(lengths, lambda _: _of_tensors.pop(key, None)), NestedInt(next(_numbers))))
    return entry[1]
