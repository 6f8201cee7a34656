"""Words of programs for the compiler: marks on functions, types of values. They have a meaning where nothing is compiled, too."""

from __future__ import annotations

import builtins
import types
import typing
import warnings
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")
# What a compiler finds in ``_torchscript_modifier`` of a function, PyTorch's own words.
EXPORT = "export (compile this function even if nothing calls it)"
IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
UNUSED = "unused (ignored and replaced with raising of an exception)"


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
    return _marked(fn, EXPORT)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function as one that stays Python: a decorator, with or without arguments.

    Args:
        drop: the function; or whether a compiled program would not call it.
        kwargs: ``drop_on_export``, an older name of ``drop``.
    Returns: the function itself, or a decorator.
    Raises:
        RuntimeError: neither a function nor a bool.
        TypeError: another keyword.
    Source: torch.jit.ignore.
    Example:
        >>> @torch.jit.ignore
        ... def double(x):
        ...     return 2 * x
        >>> double(1)
        2
    """
    if callable(drop):
        return _marked(drop, IGNORE)
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    drop = kwargs.pop("drop_on_export", None) or drop
    if kwargs:
        raise TypeError(f"torch.jit.ignore: unexpected keyword argument '{next(iter(kwargs))}'")
    if drop:
        warnings.warn("ignore with drop=True or drop_on_export=True is deprecated: use torch.jit.unused", FutureWarning, stacklevel=2)
    return lambda fn: _marked(fn, UNUSED if drop else IGNORE)


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
                _marked(accessor, UNUSED)
        return fn
    return _marked(fn, UNUSED)


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
