"""``__torch_function__``: classes and modes that take over calls of functions of tensors.

A type takes part by a class method ``__torch_function__(cls, func, types, args=(), kwargs=None)``; subclasses of ``Tensor`` inherit
one that runs ``func`` and gives tensor results their class.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .aten.overloads import OpOverload, OpOverloadPacket
from .autograd.grad_mode import enable_grad
from .core.calls.function_modes import TorchFunctionMode, pop_mode, push_mode
from .core.calls.override import DisableTorchFunction, DisableTorchFunctionSubclass, call_override, overloaded_args
from .core.calls.registry import TABLES, names, resolve
from .core.state import thread
from .core.tensor import Tensor


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing: it calls the function that it is given.

    Source: torch.overrides.BaseTorchFunctionMode.
    Example:
        >>> class Log(BaseTorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         return print(func.__name__) or func(*args)
        >>> with Log():
        ...     y = torch.ones(2)
        ones
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments goes through ``__torch_function__`` of a type or of an active mode.

    Args:
        relevant_args: arguments whose types may take over.
    Returns: a bool.
    Source: torch.overrides.has_torch_function.
    Example:
        >>> has_torch_function([torch.ones(1), 2])
        False
    """
    if thread.skip_override:
        thread.skip_override = False
        return False
    if thread.function_modes:
        return True
    return thread.function_override and bool(overloaded_args(relevant_args))


def has_torch_function_unary(argument: Any) -> bool:
    """``has_torch_function`` of one argument.

    Args:
        argument: the one argument.
    Returns: a bool.
    Source: torch.overrides.has_torch_function_unary.
    Example:
        >>> has_torch_function_unary(torch.ones(1))
        False
    """
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """``has_torch_function`` of arguments given one by one.

    Args:
        arguments: those whose types may take over.
    Returns: a bool.
    Source: torch.overrides.has_torch_function_variadic.
    Example:
        >>> has_torch_function_variadic(torch.ones(1), 2)
        False
    """
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Let modes and the types of ``relevant_args`` take a call of ``public_api``.

    Args:
        public_api: the function that was called.
        relevant_args: those of its arguments whose types may take over.
        *args, **kwargs: all of its arguments.
    Returns:
        What the first ``__torch_function__`` returned that was not NotImplemented.
    Raises:
        TypeError: no mode and no type takes the call.
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
    Returns: the decorator.
    Source: torch.overrides.wrap_torch_function.
    Example:
        >>> @wrap_torch_function(lambda x: (x,))
        ... def double(x):
        ...     return 2 * x
        >>> double(torch.ones(1))
        tensor([2.])
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
    """Whether ``inp`` is a tensor or its type has ``__torch_function__``.

    Args:
        inp: anything.
    Returns: a bool.
    Source: torch.overrides.is_tensor_like.
    Example:
        >>> is_tensor_like(torch.ones(1)), is_tensor_like(np.ones(1))
        (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


# -- what can be taken over -------------------------------------------------------------------------------------------------------
_NOT_METHODS = frozenset(("__init__", "__new__", "__class__", "__torch_function__", "__dict__", "__weakref__", "__init_subclass__"))


@functools.cache
def _methods() -> dict[Any, str]:
    """Methods of Tensor, and what reads and writes its properties, by name."""
    found: dict[Any, str] = {}
    for name in dir(Tensor):
        if name in _NOT_METHODS or (hasattr(object, name) and getattr(Tensor, name, None) is getattr(object, name)):
            continue
        method = getattr(Tensor, name, None)
        if isinstance(method, property):
            found[method.__get__] = f"{name}.__get__"
            if method.fset is not None:
                found[method.__set__] = f"{name}.__set__"
        elif callable(method) and not isinstance(method, type):
            found.setdefault(method, name)
    return found


@functools.cache
def _functions() -> dict[Any, tuple[str, list[Callable[..., Any]]]]:
    """By namespace: its dotted name, and its functions."""
    root = importlib.import_module(__package__)
    found: dict[Any, tuple[str, list[Callable[..., Any]]]] = {}
    for table in TABLES:
        if table in ("Tensor", "ops.aten"):
            continue
        space = functools.reduce(getattr, table.split("."), root) if table != "torch" else root
        functions = dict.fromkeys([resolve(table, name) for name in names(table) if not name.startswith("_")])
        shown = "torch" if table == "torch" else f"torch.{table}"
        found[space] = (shown, list(functions))
    return found


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Functions that ``__torch_function__`` gets, by namespace: modules, ``torch.Tensor`` and its properties.

    Returns: a dict from modules and classes to lists of functions.
    Source: torch.overrides.get_overridable_functions.
    Example:
        >>> torch.add in torch.overrides.get_overridable_functions()[torch]
        True
    """
    ignored = get_ignored_functions()
    overridable: dict[Any, list[Callable[..., Any]]] = {}
    for space, (_, functions) in _functions().items():
        overridable[space] = [function for function in functions if function not in ignored]
    overridable[Tensor] = [method for method, name in _methods().items() if not name.endswith((".__get__", ".__set__"))]
    for method, name in _methods().items():
        if name.endswith(".__get__"):
            overridable[method.__self__] = [method]
    return overridable


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions that no type can take over, because no argument of theirs is a tensor.

    Returns: a set of functions.
    Source: torch.overrides.get_ignored_functions.
    Example:
        >>> torch.zeros in torch.overrides.get_ignored_functions()
        True
    """
    ignored = set()
    for name in names("torch"):
        entry = TABLES["torch"][name]
        params = getattr(getattr(entry, "entry", entry), "params", ())
        if all(param.kind in ("attr", "rest") or param.name == "out" for param in params):
            ignored.add(entry.wrapper)
    return ignored


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results the ``__torch_function__`` that subclasses inherit leaves as they are.

    Returns: a set of functions.
    Source: torch.overrides.get_default_nowrap_functions.
    Example:
        >>> torch.Tensor.grad.__get__ in get_default_nowrap_functions()
        True
    """
    properties: Any = vars(Tensor)
    return {properties["_base"].__get__, properties["grad"].__get__}


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be taken over, a function with the same arguments that returns -1.

    Returns: a dict from functions to functions.
    Source: torch.overrides.get_testing_overrides.
    Example:
        >>> torch.overrides.get_testing_overrides()[torch.add](torch.ones(1), 2)
        -1
    """
    return {function: _override_of(function) for functions in get_overridable_functions().values() for function in functions}


def _override_of(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # what reads a property
        signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)])

    def override(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    override.__signature__ = signature  # type: ignore[attr-defined]
    return override


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The dotted name under which a function is found, such as ``'torch.add'``; None if it is not one of the library's.

    Args:
        f: any function.
    Returns: a string or None.
    Source: torch.overrides.resolve_name.
    Example:
        >>> resolve_name(torch.add), resolve_name(torch.Tensor.add), resolve_name(print)
        ('torch.add', 'torch.add', None)
    """
    if isinstance(f, (OpOverload, OpOverloadPacket)):
        return str(f)
    name = _methods().get(f)
    for shown, functions in _functions().values():
        if f in functions:
            return f"{shown}.{f.__name__}"
    return None if name is None else f"torch.Tensor.{name}"


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function given to ``__torch_function__`` is a method or property of Tensor, and not in a module's namespace.

    Args:
        func: a function.
    Returns: a bool.
    Source: torch.overrides.is_tensor_method_or_property.
    Example:
        >>> is_tensor_method_or_property(torch.Tensor.backward), is_tensor_method_or_property(torch.add)
        (True, False)
    """
    if getattr(func, "__name__", None) == "__get__":
        return True
    return func in _methods() and (resolve_name(func) or "").startswith("torch.Tensor.")


# -- modes ------------------------------------------------------------------------------------------------------------------------
def _get_current_function_mode() -> Any:
    """The innermost mode; None where there is none."""
    return thread.function_modes[-1] if thread.function_modes else None


def _get_current_function_mode_stack() -> list[Any]:
    """All modes, the innermost last."""
    return list(thread.function_modes)


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] = type) -> list[Any]:
    """Those of some arguments whose types, by ``get_type_fn``, take calls over: one per type, subclasses before their bases."""
    return overloaded_args(relevant_args, get_type_fn)


def _push_mode(mode: TorchFunctionMode) -> None:
    """Put a mode on the stack, as entering it does."""
    push_mode(mode)


def _pop_mode() -> Any:
    """Take the innermost mode off the stack."""
    return pop_mode()


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Context without the innermost mode, which it gives."""
    mode = pop_mode()
    try:
        yield mode
    finally:
        push_mode(mode)


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Context for the body of a ``__torch_dispatch__`` in which calls are recorded and subclasses take them, as outside of it.

    Returns: the context.
    Source: torch.overrides.enable_reentrant_dispatch.
    Example:
        >>> with enable_reentrant_dispatch():
        ...     y = torch.ones(2) + 1
    """
    was = thread.function_override
    thread.function_override = True
    try:
        with enable_grad():
            yield
    finally:
        thread.function_override = was


def redispatch_function(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call ``func`` from a ``__torch_function__`` without asking about this call; what it calls in turn, subclasses are asked about.

    Args:
        func: the function.
        types: those that ``__torch_function__`` was given.
        args, kwargs: of the call.
    Returns: what ``func`` returns.
    Source: torch.overrides.redispatch_function.
    Example:
        >>> redispatch_function(torch.add, (), (torch.ones(1), 2))
        tensor([3.])
    """
    was, thread.skip_override = thread.skip_override, True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        thread.skip_override = was


__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode", "enable_reentrant_dispatch",
    "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip
