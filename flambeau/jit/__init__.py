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
    """An error inside a compiled program.

    Source: torch.jit.Error.
    Example:
        >>> issubclass(torch.jit.Error, Exception)
        True
    """


class ScriptWarning(Warning):
    """Something about a program that is being compiled.

    Source: torch.jit.ScriptWarning.
    Example:
        >>> issubclass(torch.jit.ScriptWarning, Warning)
        True
    """


class TracerWarning(Warning):
    """A trace may not say what the program does.

    Source: torch.jit.TracerWarning.
    Example:
        >>> issubclass(torch.jit.TracerWarning, Warning)
        True
    """


class Attribute(NamedTuple):
    """A value with a type for the compiler; the value counts where nothing is compiled.

    Attributes:
        value, type: as given.
    Source: torch.jit.Attribute.
    Example:
        >>> torch.jit.Attribute(0.5, float).value
        0.5
    """

    value: Any
    type: Any


def is_scripting() -> bool:
    """Whether the compiler reads this.

    Returns: False.
    Source: torch.jit.is_scripting.
    Example:
        >>> torch.jit.is_scripting()
        False
    """
    return False


def is_tracing() -> bool:
    """Whether operations are being traced.

    Returns: False.
    Source: torch.jit.is_tracing.
    Example:
        >>> torch.jit.is_tracing()
        False
    """
    return False


def annotate(the_type: Any, the_value: _T) -> _T:
    """A value whose type a compiler shall know.

    Args:
        the_type: the type.
        the_value: the value.
    Returns: ``the_value`` itself.
    Source: torch.jit.annotate.
    Example:
        >>> torch.jit.annotate(list[int], [])
        []
    """
    return the_value


_CONTAINERS = (
    ((dict, typing.Dict), "without contained types. Please add contained type, e.g. {}[int, int]"),  # noqa: UP006
    (
        (list, typing.List, tuple, typing.Tuple, typing.Optional),  # noqa: UP006
        "without a contained type. Please add a contained type, e.g. {}[int]",
    ),
)


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object has a type that may have parameters.

    Args:
        obj: the object.
        target_type: a type such as ``list[int]``, ``dict[str, Tensor]``, ``Optional[...]``, or a tuple of types.
    Returns: a bool.
    Raises:
        RuntimeError: a container's type without the types of what it holds.
    Source: torch.jit.isinstance.
    Example:
        >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance([1, "a"], list[int])
        (True, False)
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
    """Mark a method to be compiled, too.

    Args:
        fn: the method.
    Returns: ``fn`` itself.
    Source: torch.jit.export.
    Example:
        >>> @torch.jit.export
        ... def double(x):
        ...     return 2 * x
        >>> double(1)
        2
    """
    return _marked(fn, _EXPORT)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function as one that stays Python: a decorator, with or without arguments.

    Args:
        drop: the function; or whether a compiled program would not call it.
    Returns: the function itself, or a decorator.
    Raises:
        RuntimeError: neither a function nor a bool.
    Source: torch.jit.ignore.
    Example:
        >>> @torch.jit.ignore
        ... def double(x):
        ...     return 2 * x
        >>> double(1)
        2
    """
    if callable(drop):
        return _marked(drop, _IGNORE)
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return lambda fn: _marked(fn, _UNUSED if drop else _IGNORE)


def unused(fn: Any) -> Any:
    """Mark a function as one that a compiled program would not call.

    Args:
        fn: the function, or a property.
    Returns: ``fn`` itself.
    Source: torch.jit.unused.
    Example:
        >>> @torch.jit.unused
        ... def double(x):
        ...     return 2 * x
        >>> double(1)
        2
    """
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
    """Mark a class as an interface for the compiler.

    Args:
        obj: the class.
    Returns: ``obj`` itself.
    Raises:
        RuntimeError: no class.
    Source: torch.jit.interface.
    Example:
        >>> @torch.jit.interface
        ... class Scaled:
        ...     def forward(self, x): ...
    """
    if not builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """A function or a class as it is: nothing is compiled, and the first call says so.

    Where the environment has ``PYTORCH_JIT=0``, that holds for modules too, and nothing is said: PyTorch's own switch.

    Args:
        obj: the function or class.
        args, kwargs: how it would be compiled.
    Returns: ``obj`` itself.
    Raises:
        NotImplementedError: a module, of which programs want the compiled form itself.
    Source: torch.jit.script.
    Example:
        >>> @torch.jit.script
        ... def double(x):
        ...     return 2 * x
        >>> double(1)
        2
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
    """A function that would be compiled in a trace.

    Args:
        fn: the function.
    Returns: a function that calls it.
    Source: torch.jit.script_if_tracing.
    Example:
        >>> torch.jit.script_if_tracing(abs)(-1)
        1
    """
    import functools

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def set_module(obj: Any, mod: str) -> None:
    """Say in which module a function or class is shown.

    Args:
        obj: the function or class.
        mod: the module's name.
    Raises:
        TypeError: no name.
    Source: torch.jit.set_module.
    Example:
        >>> def double(x): ...
        >>> torch.jit.set_module(double, "pages")
        >>> double.__module__
        'pages'
    """
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
