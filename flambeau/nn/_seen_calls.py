"""Calls of modules as they are seen by what records a program: ``torch.export`` and ``torch.jit.trace``, in any number of threads."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .module import Module

_here = threading.local()
_lock = threading.Lock()
_plain: list[Any] = []  # ``Module.__call__`` itself, once for each that sees calls


@contextlib.contextmanager
def calls_seen(see: Callable[..., Any]) -> Iterator[None]:
    """Context in which calls of modules in this thread go to a function.

    Args:
        see: called with the module, what calls it (``call(module, *args, **kwargs)``), ``args`` and ``kwargs``; returns the result.
    """
    with _lock:
        plain = _plain[0] if _plain else Module.__call__
        if not _plain:
            Module.__call__ = _seen(plain)  # type: ignore[method-assign]
        _plain.append(plain)
    outer = getattr(_here, "call", None)
    inner = outer or plain
    _here.call = lambda module, *args, **kwargs: see(module, inner, args, kwargs)
    try:
        yield
    finally:
        _here.call = outer
        with _lock:
            if len(_plain) == 1:
                Module.__call__ = plain  # type: ignore[method-assign]
            _plain.pop()


def _seen(plain: Any) -> Callable[..., Any]:
    @functools.wraps(plain)
    def called(module: Module, *args: Any, **kwargs: Any) -> Any:
        return (getattr(_here, "call", None) or plain)(module, *args, **kwargs)

    return called
