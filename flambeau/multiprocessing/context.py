"""Contexts: ``multiprocessing``'s own, with queues and pipes that carry memory."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
from typing import Any

from . import connection, queue

__all__: list[str] = []


class _CarryingMemory:
    """Parts of a context that differ from the standard one."""

    def get_context(self, method: str | None = None) -> Any:
        """The context of a start method; the one that is set when None. Source: multiprocessing.get_context."""
        return self if method is None else of_method(method)

    def __reduce__(self) -> tuple[Any, ...]:
        return of_method, (self.get_context().get_start_method(),)

    def Pipe(self, duplex: bool = True) -> tuple[Any, Any]:
        """Two connected ends; messages carry memory. Source: multiprocessing.Pipe."""
        return connection.Pipe(duplex)

    def Queue(self, maxsize: int = 0) -> queue.Queue:
        """A queue between processes; messages carry memory. Source: multiprocessing.Queue."""
        return queue.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> queue.JoinableQueue:
        """A queue that counts tasks; messages carry memory. Source: multiprocessing.JoinableQueue."""
        return queue.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self) -> queue.SimpleQueue:
        """A queue without a thread; messages carry memory. Source: multiprocessing.SimpleQueue."""
        return queue.SimpleQueue(ctx=self.get_context())


def of_method(method: str | None = None) -> Any:
    """The context of a start method; of the one that is set, which is thereby fixed, when None.

    Raises:
        ValueError: there is no such method on this system.
    """
    standard: Any = multiprocessing.get_context(method)
    method = standard.get_start_method()
    if method not in _CONTEXTS:
        kind = type(standard)
        _CONTEXTS[method] = type(kind.__name__, (_CarryingMemory, kind), {"__module__": __name__})()
    return _CONTEXTS[method]


_CONTEXTS: dict[str, Any] = {}


class DefaultContext(_CarryingMemory, multiprocessing.context.BaseContext):
    """The context of the start method that is set; the standard module and this one have it in common."""

    def get_context(self, method: str | None = None) -> Any:
        """The context of a start method; the one that is set, which is thereby fixed, when None. Source: multiprocessing.get_context."""
        return of_method(method)


default = DefaultContext()
