"""The Python objects that a program reaches: what it may depend on, and what it may change, beside its arguments and the tensors' values.

While a program is recorded, ``Surroundings`` notes every function that runs (``sys.setprofile`` shows them) with the globals and closures
that its code names, and walks from there, and from the arguments, through modules, containers and attributes. Afterwards it answers two
questions. Did the program change any of that? Then replaying it would lose the change. And is everything as it was? That is what the guard
of a recording asks before each replay.

    globals and closures that code names       looked at before each call
    attributes of objects, elements            the same, where code has their names and keys among its names and constants
    all elements                               the same, of lists, of short dictionaries and those of plain values; of objects' attributes
                                               where code computes names of some
    modules: attributes, members, hooks        looked at when ``core.state.changes`` has counted on, which is one comparison
    lists and dictionaries that are given      by the guard of the arguments; whether they change is seen here
    functions, methods                         by identity and defaults
    Python's and the library's modules         not
"""

from __future__ import annotations

import array
import contextvars
import functools
import gc
import operator
import os
import random
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..capture.recorder import objects_of
from ..core.dtype import dtype
from ..core.random.generator import Generator
from ..core.tensor import Tensor
from ..nn import Module
from ..optim import Optimizer

__all__ = ["PLAIN", "Place", "Surroundings"]

_PACKAGE = __name__.partition(".")[0]
PLAIN: Any = (bool, int, float, complex, str, bytes, type(None), dtype, range, slice, type(...))
_OPAQUE = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, np.dtype, np.generic, Generator)
_LARGE = 1 << 14  # bytes of an array of NumPy's, whose contents are compared before each call
_NAMESPACES = frozenset(("types", "argparse"))  # modules of Python's whose objects are a program's, as far as it has any
_VALUES = (*PLAIN, Tensor)
_MOST = 20_000  # objects: beyond that a program is not watched, and so not compiled
_DEEPEST = 8
_COMPREHENSIONS = frozenset(("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"))  # parts of functions that have been seen
_FEW = 16  # functions of equal code that are all watched, whichever of them runs
_NOTHING = object()
_SHORT = 64  # elements of a dict or set that are all compared before each call, whatever they are
_COMPUTED = frozenset(("getattr", "vars", "__dict__", "attrgetter"))  # by which code reads attributes whose names it does not have

# Functions of Python's that do not give the same twice, or that do something outside of the program.
_OF_MODULES = frozenset("time posix nt _socket select _io io _random random _datetime datetime secrets _warnings".split())
_BUILTINS = frozenset(("print", "input", "open", "breakpoint"))
_PURE = frozenset(("fspath", "getpid", "perf_counter_ns", "StringIO", "write", "getvalue"))


_LIBRARIES = frozenset((_PACKAGE, "numpy", "scipy", "ml_dtypes", "_frozen_importlib", "_frozen_importlib_external"))


_ACTING = [[name] for name in "serialization utils hub vision distributed multiprocessing profiler onnx".split()]  # on the world
_RECORDING = f"{__package__}.programs"
_IMPORTING = frozenset(("importlib", "zipimport", "warnings", "linecache"))


def _is_of_library(name: str | None) -> bool:
    """Whether a module is the library's, or Python's own. None is generated code's."""
    if name is None:
        return True
    root = name.partition(".")[0]
    return root in _LIBRARIES or root in sys.stdlib_module_names


def _is_of_package(value: Any) -> bool:
    """Whether an object is of a class of the library's own, not of Python's."""
    return type(value).__module__.partition(".")[0] in _LIBRARIES


def _names_of(code: types.CodeType) -> set[Any]:
    """Names and constants that code mentions, its inner functions' too."""
    names: set[Any] = {*code.co_names, *[each for each in code.co_consts if isinstance(each, str | int)]}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            names |= _names_of(each)
    return names


def _imported(names: set[Any], package: str | None) -> list[types.ModuleType]:
    """Modules that code may import by itself, among the names that it mentions."""
    whole = [name for name in names if isinstance(name, str)]
    found = [sys.modules.get(each) for name in whole for each in ([name, f"{package}.{name}"] if package else [name])]
    return [module for module in found if module is not None]


def _is_of_program(frame: Any) -> bool:
    """Whether the program calls, if need be by way of Python's own modules; imports do not count."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        root = _PACKAGE if name is None else name.partition(".")[0]
        if root == _PACKAGE and name is not None and name.split(".")[1:2] in _ACTING:
            return True
        if root in _LIBRARIES or root in _IMPORTING:
            return False
        if root not in sys.stdlib_module_names:
            return True
        frame = frame.f_back
    return False


def _is_importing(frame: Any) -> bool:
    """Whether an import inside of the program runs ``frame``: import hooks are no part of it."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name in ("importlib._bootstrap", "_frozen_importlib"):
            return True
        if name == _RECORDING:
            return False
        frame = frame.f_back
    return False


def _is_collecting(frame: Any) -> bool:
    """Whether the collector of circles runs ``frame``, for somebody who wants to be told of it: it may come at any moment."""
    codes = [getattr(each, "__code__", None) for each in gc.callbacks]
    while codes and frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


class Place:
    """Something that holds values, with what they were.

    Attributes:
        owner: a name for messages.
        read: gives the values in a list. saved: what it gave at first.
        always: whether the guard reads it before each call: True, False (when modules may have changed) or None (never).
        text: an expression over ``it`` that gives the only value, and ``it``; the guard has it in place of ``read``.
    """

    __slots__ = ("always", "it", "owner", "read", "saved", "text")

    def __init__(self, owner: str, read: Callable[[], list[Any]], always: bool | None, text: str = "", it: Any = None):
        self.owner, self.read, self.always, self.text, self.it = owner, read, always, text, it
        self.saved = read()

    def is_same(self) -> bool:
        """Whether all values are what they were: the same objects, or equal plain ones."""
        try:
            now = self.read()
        except (KeyError, ValueError, AttributeError, RuntimeError):
            return False
        return len(now) == len(self.saved) and (all(map(operator.is_, now, self.saved)) or all(map(_same, now, self.saved)))


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, PLAIN):
        return (bool(a == b) and (bool(a) or repr(a) == repr(b))) or a != a  # 0.0 and -0.0 are two numbers
    return a.__class__ is tuple and len(a) == len(b) and all(map(_same, a, b))


def _of_frame(functions: Sequence[types.FunctionType], values: dict[str, Any]) -> list[types.FunctionType]:
    """Those of equal functions whose variables of other functions hold what a frame has in them: it is a call of one of them."""

    def contents(function: types.FunctionType) -> Iterator[Any]:
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # nothing yet
                yield _NOTHING

    held = [values.get(name, _NOTHING) for name in functions[0].__code__.co_freevars]
    return [function for function in functions if all(map(operator.is_, contents(function), held))]


def _is_compared(values: Collection[Any]) -> bool:
    """Whether all elements of a dict or set are compared before each call: no large registry of objects, which others may add to."""
    return len(values) <= _SHORT or all(isinstance(each, _VALUES) for each in values)


class Surroundings:
    """The surroundings of one run of ``function``.

    Args:
        older: ids of the tensors that are there before; None for any.
        closures: functions with variables of other functions that are there before; None where they are to be found.
    Attributes:
        tensors: tensors found, by id. modules: modules found, by id.
        places: what is watched. reason: why the program cannot be watched, or was seen to do what cannot be replayed; None otherwise.
    """

    def __init__(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        older: Container[int] | None = None,
        closures: Iterable[types.FunctionType] | None = None,
    ):
        self._older = older
        self._closures: dict[types.CodeType, list[types.FunctionType]] = {}
        if closures is None:
            closures = [each for each in objects_of({types.FunctionType}) if each.__closure__ is not None]
        for each in closures:
            self._closures.setdefault(each.__code__, []).append(each)
        self.tensors: dict[int, Tensor] = {}
        self.modules: dict[int, Module] = {}
        self.places: list[Place] = []
        self.reason: str | None = None
        self._codes: dict[tuple[int, int], Any] = {}  # code of the program by its id and that of its globals: equal code may have others
        self._passed: dict[tuple[int, int], Any] = {}  # code that has been seen running and is of no interest
        self._names: set[Any] = set()
        self._keep: dict[int, Any] = {}
        self._scopes: set[tuple[types.ModuleType, frozenset[Any]]] = set()
        self._globals: set[tuple[int, str]] = set()
        self._streams: list[Any] = []
        self._random = self._random_state()
        self._pending: list[tuple[Any, int, str]] = []
        self._objects: list[tuple[Any, str, bool]] = []  # attributes by name, a label, and whether code may compute the names
        self._new: dict[int, Any] = {}  # objects that the program made
        self._given = False  # whether tensors that are found are an argument's, and no tensors of the program
        self.visit(function)
        for value in (*args, *kwargs.values()):
            self._argument(value)

    # -- while it runs ----------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Surroundings:
        self._profile: Any = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def let_go(self) -> None:
        """Keep no functions but those that are watched."""
        self._closures = {}

    def __exit__(self, *exc_info: object) -> None:
        if hasattr(self._profile, "enable"):  # a profiler in C, which ``sys.setprofile`` does not take
            sys.setprofile(None)
            self._profile.enable()
        else:
            sys.setprofile(self._profile)

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            key = id(code), id(frame.f_globals)
            if key in self._passed:
                return
            if code.co_name == "__init__" and code.co_varnames:
                made = frame.f_locals.get(code.co_varnames[0])
                self._new[id(made)] = made
            elif key in self._codes or _is_of_library(frame.f_globals.get("__name__")):
                self._passed[key] = code, frame.f_globals
                return
            if key not in self._codes and not _is_of_library(frame.f_globals.get("__name__")):
                self._enter(frame, code)
        elif event == "c_call" and self.reason is None:
            module, name = getattr(arg, "__module__", None), getattr(arg, "__name__", "")
            owner = getattr(arg, "__self__", None)
            if owner is not None and not isinstance(owner, types.ModuleType):
                module = type(owner).__module__ if not isinstance(owner, type) else owner.__module__
            impure = module in _OF_MODULES or (module == "builtins" and name in _BUILTINS and owner is not None)
            if impure and name not in _PURE and _is_of_program(frame) and not _is_importing(frame) and not _is_collecting(frame):
                self.reason = f"{module}.{name}() is called, which does not give the same twice or acts on the world"

    def _enter(self, frame: Any, code: types.CodeType) -> None:
        """A function of the program begins for the first time."""
        if _is_importing(frame) or _is_collecting(frame):
            return
        self._codes[id(code), id(frame.f_globals)] = code, frame.f_globals
        functions = self._closures.get(code, [])
        for function in functions if len(functions) <= _FEW else _of_frame(functions, frame.f_locals):
            self._closure(function)
        if code.co_freevars and not functions and code.co_name not in _COMPREHENSIONS:
            self._inner(code, frame.f_locals)
        self._code(code, frame.f_globals, frame.f_locals.get("self"))
        self._walk()

    # -- walking ----------------------------------------------------------------------------------------------------------------
    def visit(self, value: Any, name: str = "an argument") -> None:
        """Walk from ``value`` on."""
        self._pending.append((value, 0, name))
        self._walk()

    def _argument(self, value: Any) -> None:
        """Walk from an argument on: ``Arguments`` looks at structures before a call, and here is seen whether a run changes them."""
        kind = type(value)
        if kind in (list, tuple, dict) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            if id(value) in self._keep:
                return
            self._keep[id(value)] = value
            if kind is dict:
                self.places.append(Place("an argument (a dict)", lambda: [*value, *value.values()], None))
            elif kind is list:
                self.places.append(Place("an argument (a list)", lambda: list(value), None))
            for each in value.values() if kind is dict else value:
                self._argument(each)
        elif not isinstance(value, Tensor):
            self._given = not isinstance(value, Module | Optimizer)  # another call has another object with other tensors
            self.visit(value)
            self._given = False

    def _walk(self) -> None:
        while self._pending:
            each, depth, name = self._pending.pop()
            self._one(each, depth, name)

    def _one(self, value: Any, depth: int, name: str) -> None:
        if isinstance(value, PLAIN) or isinstance(value, _OPAQUE) or id(value) in self._keep or id(value) in self._new:
            return
        if len(self._keep) > _MOST or depth > _DEEPEST or (self._given and isinstance(value, Tensor)):
            return
        self._keep[id(value)] = value
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, np.ndarray):
            self._array(value, name)
        elif isinstance(value, bytearray | array.array):
            self._place(f"{name} (a {type(value).__name__})", lambda: [bytes(value)])
        elif isinstance(value, Tensor):
            if not self._is_made(value):
                self.tensors[id(value)] = value
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._more((value.__self__, value.__func__), depth, name)
        elif isinstance(value, functools.partial):
            self._more((value.func, *value.args, *value.keywords.values()), depth, name)
        elif isinstance(value, Module):
            self._module(value, depth)
        elif isinstance(value, Optimizer):
            self._optimizer(value, depth)
        elif isinstance(value, list | deque | tuple | set | frozenset):
            if not isinstance(value, tuple | frozenset):
                self._place(f"{name} (a {type(value).__name__})", lambda: list(value), not isinstance(value, set) or _is_compared(value))
            self._more(value, depth, name)
        elif isinstance(value, dict):
            is_compared = _is_compared(value.values())
            self._place(f"{name} (a dict)", lambda: [*value, *value.values()], is_compared)
            if not is_compared:
                self._objects.append((value, f"{name} (a dict)", False))
            self._more(value.values(), depth, name)
        elif isinstance(value, contextvars.ContextVar):
            self._place(f"{name} (a context variable)", lambda: [value.get(None)])
            self._more((value.get(None),), depth, name)
        elif isinstance(value, threading.local) and not _is_of_package(value):
            self._place(f"{name} (variables of a thread)", lambda: [*vars(value), *vars(value).values()])
            self._more(vars(value).values(), depth, name)
        else:
            self._object(value, depth, name)

    def _is_made(self, value: Any) -> bool:
        """Whether a value is a tensor that the program made, which an inner function of this run has as a variable."""
        return self._older is not None and isinstance(value, Tensor) and id(value) not in self._older

    def _class(self, cls: type) -> None:
        """Attributes of a class of the program's."""
        if _is_of_library(cls.__module__):
            return
        getattr(cls, "_backward_cls", None)  # of a ``Function`` is made when it is first asked for, which would look like a change
        members = vars(cls)
        kinds = (*PLAIN, Tensor, list, dict, tuple, set)
        named = {name: value for name, value in members.items() if isinstance(value, kinds) and name[:2] != "__"}
        label = f"attributes of class {cls.__name__}"
        self._place(label, lambda: [len(members)], text="len({it})", it=members)  # one more may hide a base class's
        for value in members.values():
            self._defaults(value.__func__ if isinstance(value, staticmethod | classmethod) else value)
        self._objects.append((members, label, False))
        if named:
            self._place(label, lambda: [members.get(name) for name in named], False)
            self._more(named.values(), 0, label)
        self._more(cls.__bases__, 0, cls.__name__)

    def _array(self, values: np.ndarray, name: str) -> None:
        if values.nbytes > _LARGE:
            self._refuse(f"it may read a large array of NumPy's: {name}")
        else:
            self._place(f"{name} (an array)", lambda: [values.tobytes()])

    def _refuse(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason

    def _more(self, values: Any, depth: int, name: str) -> None:
        self._pending += [(each, depth + 1, name) for each in values]

    def _place(self, owner: str, read: Callable[[], list[Any]], always: bool = True, text: str = "", it: Any = None) -> None:
        self.places.append(Place(owner, read, always, text, it))

    def _object(self, value: Any, depth: int, name: str) -> None:
        if type(value).__module__.startswith("numpy.random"):
            self._streams.append((value, self._state_of(value)))
        if hasattr(type(value), "__next__"):
            self._refuse(f"it may advance an iterator from outside: {name}")
        self._pending.append((type(value), 0, type(value).__name__))
        slots = [slot for base in type(value).__mro__ if not _is_of_library(base.__module__) for slot in _slots_of(base)]
        if slots:
            self._place(f"attributes of a {type(value).__name__}", lambda: [getattr(value, slot, None) for slot in slots])
            self._more([getattr(value, slot, None) for slot in slots], depth, name)
        members = getattr(value, "__dict__", None)
        if type(members) is not dict:
            return
        label = f"attributes of a {type(value).__name__}"
        # what objects of a library count is no value that code reads; of Python's own it is where code has the name, as in a namespace
        self.places.append(Place(label, lambda: [*members, *members.values()], None if _is_of_library(type(value).__module__) else False))
        if not _is_of_package(value):
            self._objects.append((members, label, not _is_of_library(type(value).__module__) or type(value).__module__ in _NAMESPACES))
            self._place(label, lambda: [len(members)], text="len({it})", it=members)  # one more may hide the class's
        self._more(members.values(), depth, name)

    def _module(self, module: Module, depth: int) -> None:
        self.modules[id(module)] = module
        self._pending.append((type(module), 0, type(module).__name__))
        members = module.__dict__
        for name in ("_parameters", "_buffers", "_modules"):
            self._more(members.get(name, {}).values(), depth - 1, f"module {type(module).__name__}")
        for name, value in members.items():
            if name not in _REGISTRIES:
                self._pending.append((value, depth + 1, f"{type(module).__name__}.{name}"))
        self._place(f"attributes of module {type(module).__name__}", functools.partial(_read_module, module), False)

    def _optimizer(self, optimizer: Optimizer, depth: int) -> None:
        groups = optimizer.param_groups
        for group in groups:
            self._more(group["params"], depth, "parameters of an optimizer")
        self._place("groups of an optimizer", lambda: [len(optimizer.param_groups)], text="len({it}.param_groups)", it=optimizer)
        for group in groups:
            count = functools.partial(_read_count, group)
            self._place("parameters of an optimizer", count, text='len({it}["params"])', it=group)
        self._place("options of an optimizer", lambda: [v for g in groups for k, v in g.items() if k != "params"], False)

    def _function(self, function: types.FunctionType) -> None:
        if _is_of_library(function.__globals__.get("__name__")):
            return
        self._closure(function)
        self._defaults(function)
        key = id(function.__code__), id(function.__globals__)
        if key not in self._codes:
            self._codes[key] = function.__code__, function.__globals__
            self._code(function.__code__, function.__globals__, None)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._more((wrapped,), 0, function.__name__)

    def _defaults(self, function: Any) -> None:
        """Defaults of a function's parameters."""
        if not isinstance(function, types.FunctionType):
            return
        label = f"defaults of {function.__name__}()"
        if function.__defaults__:
            self._place(label, lambda: [function.__defaults__], text="{it}.__defaults__", it=function)
            self._more(function.__defaults__, 0, label)
        if function.__kwdefaults__:
            self._place(label, lambda: [function.__kwdefaults__], text="{it}.__kwdefaults__", it=function)
            self._more((function.__kwdefaults__,), 0, label)

    def _closure(self, function: types.FunctionType) -> None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name == "__class__" or id(cell) in self._keep:
                continue
            self._keep[id(cell)] = cell
            try:
                content = cell.cell_contents
            except ValueError:  # a variable that has no value yet
                continue
            if self._is_made(content):
                continue
            self._place(f"variable {name}", functools.partial(_read_cell, cell), text="{it}.cell_contents", it=cell)
            if isinstance(content, types.ModuleType):
                self._python_module(content, _names_of(function.__code__))
            self._pending.append((content, 1, f"variable {name}"))

    def _inner(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """The variables of other functions that a function has which the run made: they are new, or were seen where they are from."""
        for name in code.co_freevars:
            content = scope.get(name)
            if name != "__class__" and not self._is_made(content):
                if isinstance(content, types.ModuleType):
                    self._python_module(content, _names_of(code))
                self._pending.append((content, 1, f"variable {name}"))

    def _code(self, code: types.CodeType, scope: dict[str, Any], owner: Any) -> None:
        """Globals that code names."""
        names = _names_of(code)
        self._names |= names
        for module in _imported(names - scope.keys(), scope.get("__package__")):
            self._python_module(module, names)
        self._named(scope, names, "global ")
        if owner is not None and not isinstance(owner, Tensor):
            self._pending.append((owner, 1, f"a {type(owner).__name__}"))

    def _named(self, scope: dict[str, Any], names: set[Any], label: str) -> None:
        """Look at a module's values that code names."""
        for name in sorted(name for name in names if isinstance(name, str) and name in scope):
            value = scope[name]
            if isinstance(value, types.ModuleType):
                self._python_module(value, names)
            elif not isinstance(value, types.BuiltinFunctionType) and (id(scope), name) not in self._globals:
                self._globals.add((id(scope), name))
                self._place(f"{label}{name}", functools.partial(_read_item, scope, name), text=f"{{it}}[{name!r}]", it=scope)
                self._pending.append((value, 1, f"{label}{name}"))

    def _python_module(self, module: types.ModuleType, names: set[Any]) -> None:
        """Look at values of a program's own module, and of modules in it, that code names."""
        root = module.__name__.partition(".")[0]
        if root == "os" and names & {"environ", "getenv"} and id(os.environ) not in self._keep:
            self._keep[id(os.environ)] = os.environ
            self._place("the environment", lambda: [str(os.environ._data)])  # type: ignore[attr-defined]
        if root in (_PACKAGE, "torch", "numpy") or root in sys.stdlib_module_names:
            return
        key = module, frozenset(names)
        if key not in self._scopes:
            self._scopes.add(key)
            self._named(vars(module), names, f"{module.__name__}.")

    def kept(self, value: Any) -> bool:
        """Whether an object was there before, and is none that a call gives anew."""
        return id(value) in self._keep and not isinstance(value, Tensor)

    # -- afterwards -------------------------------------------------------------------------------------------------------------
    @staticmethod
    def _state_of(stream: Any) -> str:
        generator = getattr(stream, "bit_generator", None)
        return repr(generator.state if generator is not None else stream.get_state())

    @staticmethod
    def _random_state() -> tuple[Any, ...]:
        state = np.random.get_state(legacy=False)["state"]
        return random.getstate(), state["pos"], state["key"].tobytes()

    def changed(self) -> str | None:
        """Why a run cannot be replayed: something that it changed, or did; None where there is nothing."""
        if self.reason is not None:
            return self.reason
        if len(self._keep) > _MOST:
            return f"it reaches more than {_MOST} Python objects, too many to watch"
        for place in self.places:
            if not place.is_same():
                return f"it changes Python state, which a replay would not: {place.owner}"
        if self._random_state() != self._random:
            return "it draws from Python's or NumPy's random numbers"
        if any(self._state_of(stream) != state for stream, state in self._streams):
            return "it draws from NumPy's random numbers"
        return None

    def watched(self) -> tuple[list[Place], list[Place]]:
        """Places to look at before each call, and those to look at when modules or tensors may have changed."""
        always = [place for place in self.places if place.always]
        is_computed = not self._names.isdisjoint(_COMPUTED)
        for members, label, may_be_computed in self._objects:
            for name in members:
                if name in self._names or (is_computed and may_be_computed):
                    always.append(Place(label, functools.partial(_read_item, members, name), True, f"{{it}}[{name!r}]", members))
        return always, [place for place in self.places if place.always is False]


_REGISTRIES = frozenset(name for name in vars(Module()) if name.startswith("_"))


def _read_module(module: Module) -> list[Any]:
    members = module.__dict__
    found: list[Any] = [len(members)]
    for name, value in members.items():
        if name in _REGISTRIES:
            found += [*value, *value.values()] if isinstance(value, dict) else [value]
        else:
            found.append(value)
    return found


def _slots_of(cls: type) -> list[str]:
    slots = vars(cls).get("__slots__", ())
    return [slot for slot in ((slots,) if isinstance(slots, str) else slots) if slot not in ("__dict__", "__weakref__")]


def _read_count(group: dict[str, Any]) -> list[Any]:
    return [len(group["params"])]


def _read_cell(cell: Any) -> list[Any]:
    return [cell.cell_contents]


def _read_item(scope: dict[str, Any], name: str) -> list[Any]:
    return [scope[name]]
