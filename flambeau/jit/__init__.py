"""``torch.jit``: what programs say about scripting where nothing is scripted. Compiling and tracing are not supported yet."""

from __future__ import annotations

import builtins
import os
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from ..core import late as _late
from ..facades import unsupported
from ..nn import Module

_late.adopt(__name__)

__all__ = [
    "Attribute", "Error", "Final", "ScriptWarning", "TracerWarning", "annotate", "export", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "script", "script_if_tracing", "set_module", "unused",
]  # fmt: skip

_T = TypeVar("_T")
_told = False  # whether the user knows that nothing is compiled

# What a compiler finds in ``_torchscript_modifier`` of a function, PyTorch's own words.
_EXPORT = "export (compile this function even if nothing calls it)"
_IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
_UNUSED = "unused (ignored and replaced with raising of an exception)"


class Error(Exception):
    """An error inside a compiled program. Source: torch.jit.Error."""


class ScriptWarning(Warning):
    """Something about a program that is being compiled. Source: torch.jit.ScriptWarning."""


class TracerWarning(Warning):
    """A trace may not say what the program does. Source: torch.jit.TracerWarning."""


class Attribute(NamedTuple):
    """A value with a type for the compiler; the value counts where nothing is compiled. Source: torch.jit.Attribute."""

    value: Any
    type: Any


def is_scripting() -> bool:
    """Whether the compiler reads this: False. Source: torch.jit.is_scripting."""
    return False


def is_tracing() -> bool:
    """Whether operations are being traced: False. Source: torch.jit.is_tracing."""
    return False


def annotate(the_type: Any, the_value: _T) -> _T:
    """``the_value``; the type is for a compiler. Source: torch.jit.annotate."""
    return the_value


_CONTAINERS = (
    ((dict, typing.Dict), "without contained types. Please add contained type, e.g. {}[int, int]"),  # noqa: UP006
    (
        (list, typing.List, tuple, typing.Tuple, typing.Optional),  # noqa: UP006
        "without a contained type. Please add a contained type, e.g. {}[int]",
    ),
)


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` has a type that may have parameters: ``list[int]``, ``dict[str, Tensor]``, ``Optional[...]``, tuples of types.

    Source: torch.jit.isinstance.
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, option) for option in target_type)
    origin, parameters = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        if target_type is Any:
            return True
        for kinds, advice in _CONTAINERS:
            if target_type in kinds:
                name = getattr(target_type, "_name", None) or target_type.__name__
                raise RuntimeError(f"Attempted to use {name} {advice.format(name)}")
        return builtins.isinstance(obj, target_type)
    if origin is typing.Union or origin is types.UnionType:
        return any(isinstance(obj, option) for option in parameters)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is list:
        return all(isinstance(item, parameters[0]) for item in obj)
    if origin is dict:
        return all(isinstance(key, parameters[0]) and isinstance(value, parameters[1]) for key, value in obj.items())
    if origin is tuple:
        if len(parameters) == 2 and parameters[1] is Ellipsis:
            return all(isinstance(item, parameters[0]) for item in obj)
        return len(obj) == len(parameters) and all(isinstance(item, kind) for item, kind in zip(obj, parameters, strict=True))
    return True


def _marked(fn: Any, modifier: str) -> Any:
    fn._torchscript_modifier = modifier
    return fn


def export(fn: _T) -> _T:
    """Mark a method to be compiled too; nothing here. Source: torch.jit.export."""
    return _marked(fn, _EXPORT)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function as one that stays Python: a decorator, with or without arguments. Source: torch.jit.ignore."""
    if callable(drop):
        return _marked(drop, _IGNORE)
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return lambda fn: _marked(fn, _UNUSED if drop else _IGNORE)


def unused(fn: Any) -> Any:
    """Mark a function as one that a compiled program would not call. Source: torch.jit.unused."""
    if builtins.isinstance(fn, property):
        for accessor in (fn.fget, fn.fset):
            if accessor is not None:
                _marked(accessor, _UNUSED)
        return fn
    return _marked(fn, _UNUSED)


def _overload(func: _T) -> _T:
    """One signature of a function that a compiler would choose among; the last definition runs. Source: torch.jit._overload."""
    return func


def _overload_method(func: _T) -> _T:
    """One signature of a method that a compiler would choose among; the last definition runs. Source: torch.jit._overload_method."""
    return func


def _unwrap_optional(x: Any) -> Any:
    """``x``, which must not be None. Source: torch.jit._unwrap_optional."""
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


_isinstance = isinstance


def interface(obj: _T) -> _T:
    """Mark a class as an interface for the compiler. Source: torch.jit.interface."""
    if not builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """A function or a class as it is: nothing is compiled, and the first call says so.

    Where the environment has ``PYTORCH_JIT=0``, that holds for modules too, and nothing is said: PyTorch's own switch.

    Raises:
        NotImplementedError: a module, of which programs want the compiled form itself.
    Source: torch.jit.script.
    """
    global _told
    if os.environ.get("PYTORCH_JIT", "1") == "0":
        return obj
    if builtins.isinstance(obj, Module) or not callable(obj):
        raise NotImplementedError(
            f"torch.jit.script of {type(obj).__name__} is not supported yet; with PYTORCH_JIT=0 in the "
            "environment it gives back what it got"
        )
    if not _told:
        _told = True
        warnings.warn("torch.jit.script: nothing is compiled, functions run as they are written", UserWarning, stacklevel=2)
    return obj


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn``, which would be compiled in a trace. Source: torch.jit.script_if_tracing."""
    import functools

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def set_module(obj: Any, mod: str) -> None:
    """Say in which module ``obj`` is shown. Source: torch.jit.set_module."""
    if not builtins.isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


globals().update(
    unsupported.names(
        "jit",
        "enable_onednn_fusion fork freeze last_executed_optimized_graph load onednn_fusion_enabled optimize_for_inference "
        "optimized_execution run_frozen_optimizations save script_method set_fusion_strategy trace trace_module wait",
        "CompilationUnit Future RecursiveScriptClass RecursiveScriptModule ScriptFunction ScriptModule TopLevelTracedModule TracedModule "
        "TracingCheckError strict_fusion",
    )
)
