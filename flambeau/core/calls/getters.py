"""``Tensor.shape.__get__``, ``Tensor.size`` and the like through ``__torch_function__`` of modes and classes.

Plain tensors must not pay for the test. While a mode is on in some thread, the code of each property's function is exchanged for code that
calls the modes, and so is that of methods which are no operations. The property itself stays what it is, so that ``Tensor.shape.__get__``
always compares equal. A class with a ``__torch_function__`` of its own gets properties and methods that call it. The library's own reads
are not shown to either.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType, FunctionType
from typing import Any

from .. import late
from ..state import modes, thread
from ..tensor import Tensor
from .override import call_override

_PACKAGE = __name__.partition(".")[0]
_LAYERS = (f"{_PACKAGE}.nn.", f"{_PACKAGE}.vision.", f"{_PACKAGE}.ops.")
_on: list[None] = []  # one entry per mode that is on, of all threads
_below: list[None] = []  # one entry per mode below the tape that is on, of all threads
_recording: list[None] = []  # one entry per program that is recorded, of all threads
_sizing: list[None] = []  # one entry per program that is recorded with symbolic sizes, of all threads
_functions: dict[str, FunctionType] = {}  # of properties and methods, whose code is exchanged
_asking: dict[str, CodeType] = {}  # the code that calls modes
_plain: dict[str, FunctionType] = {}  # the functions as they are
_HIDDEN = frozenset(("creator", "names"))  # not PyTorch's
_METHODS = """
__array__ __bool__ __complex__ __contains__ __deepcopy__ __float__ __format__ __index__ __int__ __len__ __repr__ backward bfloat16 bool
byte cdouble cfloat chalf char data_ptr detach dim double element_size flip float get_device half int is_complex is_conj is_contiguous
is_floating_point is_inference is_neg is_pinned is_shared is_signed item long ndimension nelement numel numpy register_hook repeat
register_post_accumulate_grad_hook requires_grad_ resize_ retain_grad share_memory_ short size storage storage_offset stride tile to tolist
uniform_ random_ untyped_storage
""".split()  # that do not call modes by themselves, or under the name of a primitive


_SHOWING = frozenset(
    "__array__ __bool__ __complex__ __contains__ __deepcopy__ __float__ __format__ __index__ __int__ __repr__ data_ptr item numpy "
    "share_memory_ storage tolist untyped_storage".split()
)  # of these, those that show values or memory to Python


_SIZES = frozenset(("shape", "size", "numel", "nelement", "__len__"))


def _prepare() -> None:
    if _plain:
        return
    functions: dict[str, Any] = {}
    for name, value in list(vars(Tensor).items()):
        if isinstance(value, property) and name not in _HIDDEN and isinstance(value.fget, FunctionType):
            if not value.fget.__code__.co_freevars:
                functions[name] = value.fget
    questions = dict.fromkeys(functions, "(self):\n    return asked_getter(self, {0!r})")
    questions |= dict.fromkeys(_METHODS, "(*args, **kwargs):\n    return asked_method({0!r}, args, kwargs)")
    functions |= {name: getattr(Tensor, name) for name in _METHODS}
    plain, asking = {}, {}
    for name, function in functions.items():
        copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
        copy.__kwdefaults__ = function.__kwdefaults__
        compiled = compile(f"def {name}" + questions[name].format(name), __file__, "exec")
        code = next(part for part in compiled.co_consts if isinstance(part, CodeType))
        plain[name], asking[name] = copy, code.replace(co_freevars=function.__code__.co_freevars)
        function.__globals__.update(asked_getter=asked_getter, asked_method=asked_method)
    _functions.update(functions)
    _asking.update(asking)
    _plain.update(plain)


def _of_library() -> bool:
    """Whether the library's own code reads the property. That of layers, models and divided operations is shown to a mode that asks."""
    name = str(sys._getframe(3).f_globals.get("__name__", ""))
    if name.partition(".")[0] != _PACKAGE:
        return False
    return not (name.startswith(_LAYERS) and thread.function_modes and getattr(thread.function_modes[-1], "sees_layers", False))


def _below_layers() -> bool:
    """Whether the library's own code asks, but for that of layers and operations, which choose by sizes as programs do."""
    name = str(sys._getframe(3).f_globals.get("__name__", ""))
    return name.partition(".")[0] == _PACKAGE and not name.startswith(_LAYERS)


def asked_getter(tensor: Any, name: str) -> Any:
    """A property of a tensor, by the mode or the class that takes it."""
    if name == "shape" and thread.recorder is not None and thread.recorder.sizes is not None and not _below_layers():
        return thread.recorder.sizes(tensor, name, ())
    if thread.function_modes and not _of_library():
        result = call_override(vars(Tensor)[name].__get__, (tensor,), (tensor,), {})
        if result is not NotImplemented:
            return result
    return _plain[name](tensor)


def asked_method(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Result of a tensor's method from the mode or the class that overrides it."""
    if thread.recorder is not None and name in _SHOWING:
        return thread.recorder.asked(name, _plain[name], args, kwargs)
    if name in _SIZES and thread.recorder is not None and thread.recorder.sizes is not None and not _below_layers():
        return thread.recorder.sizes(args[0], name, (*args[1:], *kwargs.values()))
    if (thread.function_modes or (thread.dispatch_modes and name == "detach")) and args and not _of_library():
        if thread.function_modes:
            result = call_override(_functions[name], (args[0],), args, kwargs)
            if result is not NotImplemented:
                return result
        if thread.dispatch_modes and name == "detach":
            return modes.below.detached(args[0])
    return _plain[name](*args, **kwargs)


def enter_mode() -> None:
    """A mode is on: properties and methods call it."""
    late.alone(_count, _on, 1)


def leave_mode() -> None:
    """A mode is over: with the last one properties and methods are as they were."""
    late.alone(_count, _on, -1)


def enter_below() -> None:
    """A mode below the tape is on: it is shown ``detach``, which records nothing and so is no operation."""
    late.alone(_count, _below, 1)


def leave_below() -> None:
    """A mode below the tape is over."""
    late.alone(_count, _below, -1)


def enter_recording() -> None:
    """A program is recorded: the recorder is shown what shows values to Python."""
    late.alone(_count, _recording, 1)


def leave_recording() -> None:
    """A recording is over."""
    late.alone(_count, _recording, -1)


def enter_sizing() -> None:
    """A program is recorded with symbolic sizes: the recorder is asked for sizes."""
    late.alone(_count, _sizing, 1)


def leave_sizing() -> None:
    """A recording with symbolic sizes is over."""
    late.alone(_count, _sizing, -1)


def _count(modes_on: list[None], more: int) -> None:
    _prepare()
    if more > 0:
        modes_on.append(None)
    else:
        del modes_on[-1:]
    for name, function in _functions.items():
        asks = _on or (_below and name == "detach") or (_recording and name in _SHOWING) or (_sizing and name in _SIZES)
        code = _asking[name] if asks else _plain[name].__code__
        if function.__code__ is not code:
            function.__code__ = code


def show_getters(cls: type) -> None:
    """Give a class with a ``__torch_function__`` of its own properties and methods that call it."""
    own = {name for base in cls.__mro__[: cls.__mro__.index(Tensor)] for name in base.__dict__}
    for name, value in list(vars(Tensor).items()):
        if isinstance(value, property) and name not in _HIDDEN and name not in own:
            setattr(cls, name, _asking_property(name, value))
    for name in _METHODS:
        if name not in own:
            setattr(cls, name, _asking_method(name))


def _from_outside() -> bool:
    """Whether code of a program calls the caller, rather than the library."""
    return str(sys._getframe(2).f_globals.get("__name__")).partition(".")[0] != _PACKAGE


def _asking_method(name: str) -> Any:
    @functools.wraps(getattr(Tensor, name))
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (thread.function_override or thread.function_modes) and _from_outside():
            result = call_override(getattr(Tensor, name), (self,), (self, *args), kwargs)
            if result is not NotImplemented:
                return result
        return getattr(Tensor, name)(self, *args, **kwargs)

    return method


def _asking_property(name: str, plain: property) -> property:
    def read(self: Any) -> Any:
        if (thread.function_override or thread.function_modes) and _from_outside():
            result = call_override(plain.__get__, (self,), (self,), {})
            if result is not NotImplemented:
                return result
        return plain.__get__(self)

    def write(self: Any, value: Any) -> None:
        if thread.function_override and _from_outside():
            if call_override(plain.__set__, (self,), (self, value), {}) is not NotImplemented:
                return
        plain.__set__(self, value)

    return property(read, write if plain.fset is not None else None, plain.fdel, plain.__doc__)
