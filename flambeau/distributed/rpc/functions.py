"""Marks of functions that other processes call. Source: torch.distributed.rpc.functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns a ``Future``, whose value its callers get when it is there; no thread waits for it meanwhile.

    Args:
        fn: the function.
    Returns: a function of the same arguments.
    Source: torch.distributed.rpc.functions.async_execution.
    Example:
        >>> @async_execution
        ... def later():
        ...     future = torch.futures.Future()
        ...     future.set_result(1)
        ...     return future
        >>> later().wait()
        1
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return wrapper
