"""``Tensor.shape.__get__`` and the like through ``__torch_function__``: modes and classes that have one are asked about properties too.

Plain tensors must not pay for the question. While a mode is on in some thread, the code of each property's function is exchanged for code
that asks; the property itself stays what it is, so that ``Tensor.shape.__get__`` always compares equal. A class with a
``__torch_function__`` of its own gets properties that ask. What the library itself reads, nobody is asked about.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import Any

from .. import tensor as home
from ..state import thread
from ..tensor import Tensor
from .override import call_override

_PACKAGE = __name__.partition(".")[0]
_on: list[None] = []  # one entry per mode that is on, of all threads
_plain: dict[str, Any] = {}  # functions of the properties as they are
_asking: dict[str, CodeType] = {}
_HIDDEN = frozenset(("creator", "names"))  # not PyTorch's


def _prepare() -> None:
    if _plain:
        return
    home.asked_getter = asked_getter  # type: ignore[attr-defined]
    found = {}
    for name, value in list(vars(Tensor).items()):
        if isinstance(value, property) and name not in _HIDDEN and isinstance(value.fget, FunctionType):
            if value.fget.__code__.co_freevars or value.fget.__globals__ is not vars(home):
                continue
            found[name] = FunctionType(value.fget.__code__, value.fget.__globals__, name, value.fget.__defaults__)
            source = f"def {name}(self):\n    return asked_getter(self, {name!r})"
            _asking[name] = next(part for part in compile(source, __file__, "exec").co_consts if isinstance(part, CodeType))
    _plain.update(found)


def _of_library() -> bool:
    """Whether the library's own code reads the property."""
    return str(sys._getframe(3).f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE


def asked_getter(tensor: Any, name: str) -> Any:
    """A property of a tensor, by the mode or the class that takes it."""
    if thread.function_modes and not _of_library():
        result = call_override(vars(Tensor)[name].__get__, (tensor,), (tensor,), {})
        if result is not NotImplemented:
            return result
    return _plain[name](tensor)


def enter_mode() -> None:
    """A mode is on: properties ask."""
    _prepare()
    _on[:0] = (None,)
    for name, code in _asking.items():
        vars(Tensor)[name].fget.__code__ = code


def leave_mode() -> None:
    """A mode is over: with the last one properties are as they were."""
    del _on[-1]
    if not _on:
        for name, function in _plain.items():
            vars(Tensor)[name].fget.__code__ = function.__code__


def show_getters(cls: type) -> None:
    """Give a class with a ``__torch_function__`` of its own properties that ask it."""
    for name, value in list(vars(Tensor).items()):
        if isinstance(value, property) and name not in _HIDDEN:
            if all(name not in base.__dict__ for base in cls.__mro__[: cls.__mro__.index(Tensor)]):
                setattr(cls, name, _asking_property(name, value))


def _asking_property(name: str, plain: property) -> property:
    def read(self: Any) -> Any:
        if (thread.function_override or thread.function_modes) and str(sys._getframe(1).f_globals.get("__name__")).partition(".")[
            0
        ] != _PACKAGE:
            result = call_override(plain.__get__, (self,), (self,), {})
            if result is not NotImplemented:
                return result
        return plain.__get__(self)

    def write(self: Any, value: Any) -> None:
        if thread.function_override and str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] != _PACKAGE:
            if call_override(plain.__set__, (self,), (self, value), {}) is not NotImplemented:
                return
        plain.__set__(self, value)

    return property(read, write if plain.fset is not None else None, plain.fdel, plain.__doc__)
