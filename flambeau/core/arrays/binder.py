"""Kernels for another array module, from the same source: see ``Binder``."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import late

_PACKAGE = __package__.partition(".")[0]
# What deals with tensors, or with arrays of every kind, is the same for all.
_SHARED = frozenset(
    f"{_PACKAGE}.core.{name}"
    for name in "arrays.copies arrays.kinds arrays.native calls.dispatch calls.interruption calls.override calls.registry device late "
    "protocols.methods protocols.printing protocols.rebuild random.generator state storage tape.history tape.hooks tape.node "
    "tape.saved tensor".split()
)


_NUMPY_FUNCTION = type(np.concatenate)


class Binder:
    """Copies of the package's functions in which ``np`` is another module.

    A copy shares the code object of the original; its globals are a copy of the module's in which NumPy, its ufuncs, and the package's
    functions and modules are exchanged for their counterparts, through closures, defaults, partials and caches.  What this asks of
    kernels: no ``global`` statements, and no state in modules but in objects, which are shared.

    Copies name each other, so that some are shown before they are whole. One thread at a time makes them, and they are found by others
    when all that were begun are finished: an interrupt leaves none of them.
    """

    def __init__(self, kind: Any):
        self.kind = kind
        self.made: dict[int, tuple[Any, Any]] = {}  # by id of the original, which is kept alive: a function, class, table or globals

    def function(self, function: Any) -> Any:
        """The copy of a function; whatever is no function of the package stays."""
        if type(function) is not types.FunctionType:
            return self.value(function)
        entry = self.made.get(id(function))
        return late.alone(self._completed, _Copies.function, function) if entry is None else entry[1]

    def value(self, value: Any) -> Any:
        """The value, in the copies, of a global, a default or a closed-over variable."""
        entry = self.made.get(id(value))
        return late.alone(self._completed, _Copies.value, value) if entry is None else entry[1]

    def _completed(self, copy: Callable[[_Copies, Any], Any], value: Any) -> Any:
        while True:
            known, copies = len(self.made), _Copies(self)
            found = copy(copies, value)
            if len(self.made) == known:  # else a handler has made some in between
                self.made.update(copies.made)
                return found


class _Copies:
    """Copies in the making, on top of those that a binder has."""

    def __init__(self, binder: Binder):
        self.binder, self.kind = binder, binder.kind
        self.made: dict[int, tuple[Any, Any]] = {}

    def _entry(self, value: Any) -> tuple[Any, Any] | None:
        return self.made.get(id(value)) or self.binder.made.get(id(value))

    def function(self, function: Any) -> Any:
        if function.__module__ in self.kind.hosted:
            return self._remembered(function, self.kind.on_host)
        if hasattr(function, "part"):  # those of shared modules too: they make and fill memory of the kind's
            return self._copied(function.part.reference)
        if function.__module__ in _SHARED or function.__module__ == type(self.kind).__module__:
            return function
        return self._copied(function)

    def _copied(self, function: Any) -> Any:
        entry = self._entry(function)
        if entry is not None:
            return entry[1]
        cells = function.__closure__
        own = None if cells is None else tuple([types.CellType() for _ in cells])
        copied = types.FunctionType(function.__code__, self._scope(function.__globals__), function.__name__, function.__defaults__, own)
        if id(function) in self.made:  # copying the globals needed it
            return self.made[id(function)][1]
        self.made[id(function)] = (function, copied)
        copied.__kwdefaults__, copied.__module__, copied.__doc__ = function.__kwdefaults__, function.__module__, function.__doc__
        for cell, old in zip(own or (), cells or (), strict=True):
            cell.cell_contents = self.value(old.cell_contents)
        return copied

    def value(self, value: Any) -> Any:
        kind = type(value)
        if value is np:
            return self.kind.xp
        if kind is types.FunctionType:
            is_kernel = value.__module__.startswith(_PACKAGE) and not hasattr(value, "kernel")  # generated wrappers serve every kind
            return self.function(value) if is_kernel else self._of_numpy(value)
        if kind is functools.partial:
            return self._remembered(value, self._partial)
        if kind is types.ModuleType and value.__name__.startswith(_PACKAGE):
            return _BoundModule(self.binder, value)
        if kind is type and value.__module__.startswith(f"{_PACKAGE}.ops"):
            return self._class(value)
        if kind is np.ndarray:  # a table of a module, or a number
            return self._remembered(value, self.kind.xp.asarray) if value.ndim else value[()]
        if kind is dict and value and all(type(item) is np.ufunc for item in value.values()):
            return {name: self._of_numpy(item) for name, item in value.items()}
        if kind is np.ufunc or kind is types.BuiltinFunctionType or kind is _NUMPY_FUNCTION:
            return self._of_numpy(value)
        if kind is functools._lru_cache_wrapper:
            return self._remembered(value, lambda cached: functools.cache(self.value(cached.__wrapped__)))
        return value

    def _of_numpy(self, value: Any) -> Any:
        """The counterpart of one of NumPy's functions; any other stays."""
        name = getattr(value, "__name__", "")
        return getattr(self.kind.xp, name) if getattr(np, name, None) is value else value

    def _remembered(self, value: Any, make: Callable[[Any], Any]) -> Any:
        entry = self._entry(value)
        if entry is None:
            entry = self.made[id(value)] = (value, make(value))
        return entry[1]

    def _partial(self, value: functools.partial[Any]) -> functools.partial[Any]:
        bound = {name: self.value(argument) for name, argument in value.keywords.items()}
        return functools.partial(self.value(value.func), *map(self.value, value.args), **bound)

    def _class(self, kind: type) -> type:
        """A helper class whose methods are parts of kernels."""
        entry = self._entry(kind)
        if entry is None:
            left_out = ("__dict__", "__weakref__", *kind.__dict__.get("__slots__", ()))
            body = {name: value for name, value in kind.__dict__.items() if name not in left_out}
            entry = self.made[id(kind)] = (kind, type(kind.__name__, kind.__bases__, body))
            for name, value in body.items():
                if type(value) is types.FunctionType:
                    setattr(entry[1], name, self.function(value))
        return entry[1]

    def _scope(self, scope: dict[str, Any]) -> dict[str, Any]:
        """The copy of a module's globals; known before it is filled, since modules name each other."""
        entry = self._entry(scope)
        if entry is None:
            imported = functools.partial(_import, self.binder)
            copy: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": imported}}
            entry = self.made[id(scope)] = (scope, copy)
            for name, value in list(scope.items()):
                if name != "__builtins__":
                    copy[name] = self.value(value)
        return entry[1]


def _import(binder: Binder, *args: Any) -> Any:
    """Imports inside kernels find copies too; ``from scipy import special`` the kind's own."""
    if args[0] == "scipy" and binder.kind.special is not None and len(args) > 3 and args[3] == ("special",):
        return binder.kind
    module = __import__(*args)
    names_given = len(args) > 3 and args[3]
    return _BoundModule(binder, module) if names_given and module.__name__.startswith(_PACKAGE) else module


class _BoundModule:
    """A module of the package, as the copies see it."""

    def __init__(self, binder: Binder, module: Any):
        self._binder, self._module = binder, module

    def __getattr__(self, name: str) -> Any:
        return self._binder.value(getattr(self._module, name))
