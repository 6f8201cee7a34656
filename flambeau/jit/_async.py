"""``torch.jit.fork`` and ``wait``: calls whose results are asked for later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..facades.futures import Future

__all__ = ["fork", "wait"]


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call whose result ``wait`` gives. It is made at once, in this thread: operations use all cores by themselves.

    Args:
        func: a function, a module or a method.
        args, kwargs: what it is called with.
    Returns: a ``torch.futures.Future``.
    Raises:
        Exception: what the call raises is raised by ``wait``.
    Source: torch.jit.fork.
    Example:
        >>> future = torch.jit.fork(lambda x: x + 1, torch.ones(2))
        >>> torch.jit.wait(future)
        tensor([2., 2.])
    """
    future: Future[Any] = Future()
    try:
        result = func(*args, **kwargs)
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    return future


def wait(future: Any) -> Any:
    """The result of a call that ``fork`` made.

    Args:
        future: what ``fork`` returned.
    Returns: the result.
    Source: torch.jit.wait.
    Example:
        >>> torch.jit.wait(torch.jit.fork(max, 1, 2))
        2
    """
    return future.wait()
