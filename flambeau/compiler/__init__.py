"""``torch.compiler``: what programs say about compiling. Everything runs as it is written, so most of it asks for nothing.

``torch.compile`` itself (``eager``) wraps what it is given as PyTorch's ``backend="eager"`` does.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from ..core import late as _late
from ..facades import unsupported
from ..nn import Module
from .eager import OptimizedModule, compile as compile

_late.adopt(__name__)

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling",
    "is_exporting", "list_backends", "reset", "set_stance",
]  # fmt: skip

_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile")


def is_compiling() -> bool:
    """Whether the program is being compiled or exported.

    Returns: False.
    Source: torch.compiler.is_compiling.
    Example:
        >>> torch.compiler.is_compiling()
        False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether the program is being traced by the compiler.

    Returns: False.
    Source: torch.compiler.is_dynamo_compiling.
    Example:
        >>> torch.compiler.is_dynamo_compiling()
        False
    """
    return False


def is_exporting() -> bool:
    """Whether the program is being exported.

    Returns: False.
    Source: torch.compiler.is_exporting.
    Example:
        >>> torch.compiler.is_exporting()
        False
    """
    return False


def reset() -> None:
    """Forget what was compiled, which is nothing.

    Source: torch.compiler.reset.
    Example:
        >>> torch.compiler.reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Say that a new step of captured work begins; nothing is captured.

    Source: torch.compiler.cudagraph_mark_step_begin.
    Example:
        >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: tuple[str, ...] | None = ("debug", "experimental")) -> list[str]:
    """Names that ``torch.compile(backend=...)`` takes beside 'eager', which is a debugging one: none.

    Args:
        exclude_tags: kinds of back ends to leave out.
    Returns: a list of strings.
    Source: torch.compiler.list_backends.
    Example:
        >>> torch.compiler.list_backends(), torch.compiler.list_backends(None)
        ([], ['eager'])
    """
    return [] if exclude_tags and "debug" in exclude_tags else ["eager"]


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep the compiler away from a function; also a decorator with arguments.

    Args:
        fn: a function, a class or a module.
        recursive: away from what it calls, too.
        reason: to be shown in logs, of which there are none.
    Returns:
        The class itself; around a module, unless ``recursive`` is False, an ``OptimizedModule``; a function otherwise.
    Raises:
        AssertionError: ``fn`` cannot be called.
    Source: torch.compiler.disable.
    Example:
        >>> torch.compiler.disable(abs)(-1)
        1
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, type):
        return fn
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if isinstance(fn, Module) and recursive:
        return OptimizedModule(fn)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._torchdynamo_disable = True  # type: ignore[attr-defined]
    return wrapper


def allow_in_graph(fn: Any) -> Any:
    """Have the compiler call functions without looking inside.

    Args:
        fn: a function, or several in a list.
    Returns: ``fn`` itself.
    Raises:
        AssertionError: what cannot be called.
    Source: torch.compiler.allow_in_graph.
    Example:
        >>> torch.compiler.allow_in_graph(abs) is abs
        True
    """
    for function in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(function):
            raise AssertionError("allow_in_graph expects a callable")
    return list(fn) if isinstance(fn, (list, tuple)) else fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that a function always returns the same.

    Args:
        fn: the function.
    Returns: ``fn`` itself.
    Source: torch.compiler.assume_constant_result.
    Example:
        >>> @torch.compiler.assume_constant_result
        ... def four():
        ...     return 4
        >>> four()
        4
    """
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


class set_stance(contextlib.ContextDecorator):
    """Set how eagerly to compile from here on; also a context manager and a decorator. Everything runs as it is in every stance.

    Args:
        stance: 'default', 'force_eager', 'eager_on_recompile', 'fail_on_recompile', 'eager_then_compile' or 'aot_eager_then_compile'.
        skip_guard_eval_unsafe, force_backend: further choices of a compiler.
    Raises:
        RuntimeError: another word.
    Source: torch.compiler.set_stance.
    Example:
        >>> with torch.compiler.set_stance("force_eager"):
        ...     y = torch.ones(2) + 1
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if stance != "default" and force_backend is not None:
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance = stance

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        return None


globals().update(
    unsupported.names(
        "compiler",
        "get_default_backend keep_portable_guards_unsafe keep_tensor_guards_unsafe load_cache_artifacts load_compiled_function "
        "nested_compile_region save_cache_artifacts set_default_backend set_enable_guard_collectives skip_all_guards_unsafe "
        "skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe "
        "substitute_in_graph wrap_numpy",
        "CacheInfo NestedCompileRegionOptions",
    )
)
