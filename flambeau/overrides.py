"""``__torch_function__``: classes and modes that take over calls of functions of tensors.

A type takes part by a class method ``__torch_function__(cls, func, types, args=(), kwargs=None)``; subclasses of ``Tensor`` inherit
one that runs ``func`` and gives tensor results their class.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from .core.calls.override import DisableTorchFunction, DisableTorchFunctionSubclass, TorchFunctionMode, call_override, overloaded_args
from .core.calls.registry import TABLES, names, resolve
from .core.state import thread
from .core.tensor import Tensor


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing: it calls the function it is asked about. Source: torch.overrides.BaseTorchFunctionMode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments goes through ``__torch_function__`` of a type or of an active mode.

    Source: torch.overrides.has_torch_function.
    """
    if thread.function_modes:
        return True
    return thread.function_override and bool(overloaded_args(relevant_args))


def has_torch_function_unary(argument: Any) -> bool:
    """``has_torch_function`` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """``has_torch_function`` of arguments given one by one."""
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Let modes and the types of ``relevant_args`` answer a call of ``public_api``.

    Args:
        public_api: the function that was called.
        relevant_args: those of its arguments whose types may take over.
        *args, **kwargs: all of its arguments.
    Returns:
        What the first ``__torch_function__`` returned that was not NotImplemented.
    Raises:
        TypeError: nobody takes the call.
    Example:
        >>> import flambeau as torch
        >>> from flambeau.overrides import handle_torch_function, has_torch_function
        >>> def double(x):
        ...     if has_torch_function((x,)):
        ...         return handle_torch_function(double, (x,), x)
        ...     return x * 2
        >>> double(torch.ones(2))
        tensor([2., 2.])

    Source: torch.overrides.handle_torch_function.
    """
    relevant_args = tuple(relevant_args)
    result = call_override(public_api, relevant_args, args, kwargs)
    if result is NotImplemented:
        name = f"{public_api.__module__}.{public_api.__name__}"
        types = [type(arg) for arg in overloaded_args(relevant_args)]
        raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {types}")
    return result


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that makes a function overridable.

    Args:
        dispatcher: takes the function's arguments, returns those whose types may take over.
    Source: torch.overrides.wrap_torch_function.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor or its type has ``__torch_function__``. Source: torch.overrides.is_tensor_like."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def _namespaces() -> dict[str, Any]:
    """Dotted names of the namespaces with operations: {'torch.nn.functional': its table's name}."""
    return {"torch" if name == "torch" else f"torch.{name}": name for name in TABLES}


@functools.cache
def _methods() -> dict[Any, str]:
    method_names: dict[Any, str] = {}
    for name in dir(Tensor):
        if name in ("__init__", "__new__", "__class__", "__torch_function__", "__dict__", "__weakref__"):
            continue
        method = getattr(Tensor, name, None)
        if callable(method):
            method_names.setdefault(method, name)
    return method_names


@functools.cache
def get_overridable_functions() -> dict[str, list[Callable[..., Any]]]:
    """Functions that ``__torch_function__`` is asked about, by namespace.

    Source: torch.overrides.get_overridable_functions.
    """
    ignored = get_ignored_functions()
    overridable = {}
    for shown, table in _namespaces().items():
        if table != "Tensor":
            functions = [resolve(table, name) for name in names(table) if not name.startswith("_")]
            overridable[shown] = [function for function in functions if function not in ignored]
    overridable["torch.Tensor"] = list(_methods())
    return overridable


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions that no type can take over, because no argument of theirs is a tensor.

    Source: torch.overrides.get_ignored_functions.
    """
    ignored = set()
    for name in names("torch"):
        entry = TABLES["torch"][name]
        params = getattr(getattr(entry, "entry", entry), "params", ())
        if all(param.kind in ("attr", "rest") or param.name == "out" for param in params):
            ignored.add(entry.wrapper)
    return ignored


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The dotted name under which a function is found, such as ``'torch.add'``; None if it is not one of the library's.

    Source: torch.overrides.resolve_name.
    """
    owner = getattr(f, "__self__", None)
    if getattr(f, "__name__", "") in ("__get__", "__set__") and isinstance(owner, property):
        for name in dir(Tensor):
            if getattr(Tensor, name, None) is owner:
                return f"torch.Tensor.{name}.{f.__name__}"
    for namespace, functions in get_overridable_functions().items():
        if f in functions:
            return f"{namespace}.{_methods()[f] if namespace == 'torch.Tensor' else f.__name__}"
    return None


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function given to ``__torch_function__`` is a method or property of Tensor, and not in a module's namespace.

    Source: torch.overrides.is_tensor_method_or_property.
    """
    if getattr(func, "__name__", None) == "__get__":
        return True
    return func in _methods() and (resolve_name(func) or "").startswith("torch.Tensor.")


__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
