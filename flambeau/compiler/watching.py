"""Sizes that notice when a program takes a plain number from them.

A symbolic size is an ``int``, which C code reads without asking: ``table[n]`` of a list, ``range(n)``, ``word * n``. While a program is
recorded once more it gets sizes that are none, but say that they are: what needs a plain number of them has to call ``__index__``. Where
the program does so, rather than the library, that is a guard. Operations are shown plain sizes.
"""

from __future__ import annotations

import dis
import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from ..capture.recorder import Recorder
from ..core.shape import Size
from ..core.symbolic import Relation, SymbolicInt
from ..core.tensor import Tensor
from ..fx.experimental.symbolic_shapes import ShapeEnv
from .worlds import SeenSize, asking_code, asking_module, may_choose, recorder_with_sizes

__all__ = ["Watched", "recorder_with_watched_sizes"]


class Watched:
    """A size, or an integer that was computed of sizes.

    Args:
        size: the symbolic integer.
    """

    __slots__ = ("size",)

    def __init__(self, size: SeenSize):
        self.size = size

    @property
    def __class__(self) -> type:
        """That of numbers, so that ``isinstance`` knows it."""
        return int

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("a size is an integer")

    def __index__(self) -> int:
        number = int.__int__(self.size)
        if asking_module() == "program":
            ShapeEnv.decide(self.size.env, Relation("==", self.size.expr, number))
        return number

    def __int__(self) -> int:
        return self._number(sys._getframe(1).f_code)

    def __float__(self) -> float:
        return float(self._number(sys._getframe(1).f_code))

    def _number(self, code: CodeType) -> int:
        """The plain number for code that asks for it outright: a guard where it may choose by it."""
        number = int.__int__(self.size)
        if asking_module() == "program" and (may_choose(self.size.expr, code) or indexes(code)):
            ShapeEnv.decide(self.size.env, Relation("==", self.size.expr, number))
        return number

    def __hash__(self) -> int:
        number = int.__int__(self.size)
        if asking_module() == "program":
            ShapeEnv.decide(self.size.env, Relation("==", self.size.expr, number))
        return hash(number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.size, name)


def watched(made: Any) -> Any:
    """A result of arithmetic, or a tuple of sizes, with symbolic integers watched."""
    if type(made) is SeenSize:
        return Watched(made)
    if type(made) in (tuple, Size):
        return tuple.__new__(type(made), [watched(each) for each in made])
    return made


def plain(value: Any) -> Any:
    """An argument as operations get it."""
    kind = type(value)
    if kind is Watched:
        return value.size
    if kind is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if kind in (tuple, list, Size) and any(type(each) in _HOLDING for each in value):
        items = [plain(each) for each in value]
        return tuple.__new__(kind, items) if kind is not list else items
    return value


_HOLDING = (Watched, slice, tuple, list, Size)


def plain_all(values: Sequence[Any]) -> tuple[Any, ...]:
    """The same of a call's arguments."""
    return tuple([plain(value) for value in values])


def _passing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that does what the symbolic integer's does."""

    def method(self: Watched, *others: Any) -> Any:
        if any(not isinstance(other, (int, float)) for other in others if other is not None):
            return NotImplemented
        return watched(function(self.size, *map(plain, others)))

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Watched, other: Any) -> Any:
        return watched(function(plain(other), self.size)) if isinstance(other, (int, float)) else NotImplemented

    return method


_TWO = "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()
for _name in _TWO:
    _function = getattr(operator, f"{_name}_", None) or getattr(operator, _name)
    setattr(Watched, f"__{_name}__", _passing(_function))
    setattr(Watched, f"__r{_name}__", _reflected(_function))
_ONE: dict[str, Callable[..., Any]] = {
    "divmod": divmod, "neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert, "round": round,
    "str": str, "repr": repr, "bool": bool, **dict.fromkeys(("trunc", "floor", "ceil"), operator.pos),
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip
_METHODS = {name: _passing(function) for name, function in _ONE.items()}
_METHODS |= {"rdivmod": _reflected(divmod), "format": lambda self, spec: format(self.size, spec)}
for _name, _function in _METHODS.items():
    setattr(Watched, f"__{_name}__", _function)


@lru_cache(maxsize=1024)
def indexes(code: CodeType) -> bool:
    """Whether code takes elements or parts by what is no constant: Python makes a plain number of what ``len`` gives."""
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL")]
    return any(
        (each.opname in ("BINARY_SUBSCR", "BINARY_SLICE") or (each.opname == "BINARY_OP" and each.argrepr == "[]"))
        and not before.opname.startswith(("LOAD_CONST", "LOAD_SMALL"))
        for before, each in itertools.pairwise(steps)
    )


class recorder_with_watched_sizes(recorder_with_sizes):
    """``recorder_with_sizes`` whose sizes notice what takes plain numbers from them, where the program itself asks for them."""

    def prepare(self, recorder: Recorder) -> None:
        """Have a recorder answer."""
        super().prepare(recorder)
        asked, recorder.plain_arguments = recorder.sizes, plain_all

        def shown(tensor: Tensor, name: str, args: tuple[Any, ...]) -> Any:
            made, code = asked(tensor, name, args), asking_code(sys._getframe(1), False)
            if code is None:
                return made
            if name == "__len__" and indexes(code) and isinstance(size := asked(tensor, "size", (0,)), SymbolicInt):
                ShapeEnv.decide(self.env, Relation("==", size.expr, int.__int__(size)))
            return watched(made)

        recorder.sizes = shown
