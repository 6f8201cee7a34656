"""``torch.jit``: programs without Python. Scripting compiles them from their source, tracing from what they call; archives keep them.

    script, trace   -> a ScriptFunction or ScriptModule, whose code is TorchScript (a Unit of definitions)
    save, load      -> an archive with that code, which PyTorch and libtorch run too

Names are imported when they are first used.
"""

from __future__ import annotations

import builtins
import functools
import importlib
from collections.abc import Callable
from typing import Any, Final

from ..core import late as _late
from ._marks import (  # noqa: F401 - PyTorch's own code reads those with an underscore
    Attribute,
    _overload,
    _overload_method,
    _unwrap_optional,
    annotate,
    export,
    ignore,
    isinstance,
    unused,
)
from ._state import Error, ScriptWarning, TracerWarning, TracingCheckError, is_scripting, is_tracing

_late.adopt(__name__)

_HOMES = {
    name: module
    for module, names in {
        "_script": "CompilationUnit RecursiveScriptClass RecursiveScriptModule ScriptFunction ScriptModule interface script script_method",
        "_trace": "TopLevelTracedModule TracedModule trace trace_module",
        "_serialization": "load save",
        "_freeze": "freeze optimize_for_inference run_frozen_optimizations",
        "_async": "fork wait",
        "_fuser": "enable_onednn_fusion last_executed_optimized_graph onednn_fusion_enabled optimized_execution set_fusion_strategy fuser "
        "strict_fusion",
        "_modules": "ConstMap",
    }.items()
    for name in names.split()
}
_SUBMODULES = frozenset(
    "_async _freeze _fuser _modules _pickle _recursive _script _serialization _state _trace _unit annotations frontend".split()
)

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "RecursiveScriptClass", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "ScriptWarning", "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "annotate", "enable_onednn_fusion",
    "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "last_executed_optimized_graph", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "set_module", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return globals().setdefault(name, getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name))
    if name in ("_fork", "_wait"):
        return getattr(importlib.import_module("._async", __name__), name[1:])
    if name == "Future":
        return importlib.import_module("..facades.futures", __name__).Future
    return _late.submodule(__name__, name, _SUBMODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is compiled when it is called in a trace, so that its control flow stays.

    Args:
        fn: the function.
    Returns: a function that calls it, or in a trace the compiled one.
    Source: torch.jit.script_if_tracing.
    Example:
        >>> torch.jit.script_if_tracing(abs)(-1)
        1
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        return __getattr__("script")(fn)(*args, **kwargs)

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
