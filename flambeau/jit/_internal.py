"""Names of the compiler that packages import from ``torch._jit_internal``. Source: torch._jit_internal."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035 - programs import them from here

from ..facades.futures import Future
from ._marks import EXPORT, IGNORE, UNUSED, _overload, _overload_method, export, ignore, isinstance as _isinstance, unused  # noqa: F401
from ._state import is_scripting

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4", "BroadcastingList5", "BroadcastingList6", "Dict",
    "Final", "FunctionModifiers", "Future", "List", "Optional", "Tuple", "Union", "boolean_dispatch", "copy_torchscript_modifier", "export",
    "get_torchscript_modifier", "ignore", "is_ignored_fn", "is_scripting", "module_has_exports", "should_drop", "unused",
]  # fmt: skip


class FunctionModifiers:
    """Marks of functions, as texts. Source: torch._jit_internal.FunctionModifiers."""

    UNUSED, IGNORE, EXPORT = UNUSED, IGNORE, EXPORT
    DEFAULT = "default (compile if called from a exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


class _Broadcast:
    """The type of a list for which one item may stand."""

    def __init__(self, item: Any) -> None:
        self._broadcast_of = getattr(item, "__name__", str(item))


class BroadcastingListCls:
    """``BroadcastingList2[int]``: a list of two integers, or one for both. Source: torch._jit_internal.BroadcastingListCls."""

    def __getitem__(self, types: Any) -> Any:
        return _Broadcast(types)


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one of two, by the value of an argument. Source: torch._jit_internal.boolean_dispatch."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return (if_true if asked else if_false)(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ if if_false.__doc__ is None else if_false.__doc__
    fn.__module__, fn.__name__ = module_name, func_name
    return fn


def get_torchscript_modifier(fn: Any) -> str | None:
    """The mark of a function; None of what is no function. Source: torch._jit_internal.get_torchscript_modifier."""
    if not callable(fn):
        return None
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT)


def copy_torchscript_modifier(orig: Any, new: Any) -> None:
    """Give a function the mark of another. Source: torch._jit_internal.copy_torchscript_modifier."""
    modifier = get_torchscript_modifier(orig)
    if modifier is not None:
        new._torchscript_modifier = modifier


def is_ignored_fn(fn: Any) -> bool:
    """Whether a function stays Python. Source: torch._jit_internal.is_ignored_fn."""
    return get_torchscript_modifier(fn) in (UNUSED, IGNORE, FunctionModifiers._DROP)


def should_drop(fn: Any) -> bool:
    """Whether a compiled program does not call a function. Source: torch._jit_internal.should_drop."""
    return get_torchscript_modifier(fn) in (UNUSED, FunctionModifiers._DROP)


def module_has_exports(mod: Any) -> bool:
    """Whether a method of a module is marked to be compiled. Source: torch._jit_internal.module_has_exports."""
    return any(
        get_torchscript_modifier(inspect.getattr_static(mod, name, None)) == EXPORT for name in dir(mod) if not name.startswith("__")
    )


def _copy_to_script_wrapper(fn: Any) -> Any:
    """Mark a method that compiled modules take over as it is. Source: torch._jit_internal._copy_to_script_wrapper."""
    fn._torchscript_modifier = FunctionModifiers.COPY_TO_SCRIPT_WRAPPER
    return fn


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """Name of a function or class in an archive. Source: torch._jit_internal._qualified_name."""
    from ._program import qualified_name

    return qualified_name(obj)
