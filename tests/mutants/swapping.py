"""A change takes effect in a running process: functions that were compiled from the changed text get the other code."""

from __future__ import annotations

import builtins
import gc
import importlib
import pkgutil
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from .changes import PACKAGE, Site


class Unchanged(Exception):
    """The change is none: it compiles to the same code, or to code that the functions cannot take."""


def import_everything() -> None:
    """What is imported later would be imported as it stands on disk."""
    import flambeau

    for module in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
        if not module.name.endswith(("__main__", ".aliased")) and ".shim" not in module.name:  # which would make `torch` mean flambeau
            importlib.import_module(module.name)


def _place(code: CodeType) -> tuple[Any, ...]:
    return code.co_filename, code.co_qualname, code.co_firstlineno, tuple(code.co_positions())


def _pairs(code: CodeType, changed: CodeType) -> dict[tuple[Any, ...], CodeType]:
    """Functions' code that differs, by its place in the file; both trees have the same shape."""
    found = {}
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    others = [const for const in changed.co_consts if isinstance(const, CodeType)]
    if len(inner) == len(others):
        for one, other in zip(inner, others, strict=True):
            found |= _pairs(one, other)
            if one != other:
                found[_place(one)] = other
    return found


def apply(site: Site) -> int:
    """How many functions have the change now; none is an ``Unchanged``."""
    text, changed = site.source()
    name = str(PACKAGE / site.path)
    try:
        swaps = _pairs(compile(text, name, "exec", dont_inherit=True), compile(changed, name, "exec", dont_inherit=True))
    except SyntaxError as error:
        raise Unchanged(str(error)) from error
    count = 0
    gc.unfreeze()
    functions = [thing for thing in gc.get_objects() if type(thing) is FunctionType]  # isinstance would ask the classes of strangers
    for function in [function for function in functions if function.__code__.co_filename == name]:
        other = swaps.get(_place(function.__code__))
        if other is not None:
            try:
                function.__code__ = other
            except ValueError as error:  # other free variables
                raise Unchanged(str(error)) from error
            count += 1
    if not count:
        raise Unchanged("no function has this code")
    return count


class Rounding:
    """``__rounded__`` of changed functions: float64 to float32 and back.  It counts what it was given, and what it made another of."""

    def __init__(self) -> None:
        self.given = self.altered = 0
        builtins.__rounded__ = self  # type: ignore[attr-defined]

    def __call__(self, value: Any) -> Any:
        from flambeau import Tensor

        if type(value) in (tuple, list):
            return type(value)([self(item) for item in value])
        self.given += 1
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.char in "dD":
            narrow = value.astype(np.float32 if value.dtype.char == "d" else np.complex64).astype(value.dtype)
            self.altered += not np.array_equal(narrow, value, equal_nan=True)
            return narrow
        if isinstance(value, Tensor) and str(value.dtype) in ("torch.float64", "torch.complex128"):
            narrow = value.to(_narrow(value)).to(value.dtype)
            self.altered += type(value._array) is not np.ndarray or not np.array_equal(narrow._array, value._array, equal_nan=True)
            return narrow
        return value


def _narrow(value: Any) -> Any:
    import flambeau

    return flambeau.complex64 if value.is_complex() else flambeau.float32
