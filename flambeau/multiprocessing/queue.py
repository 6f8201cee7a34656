"""Queues whose messages carry memory. Source: torch.multiprocessing.queue."""

from __future__ import annotations

import multiprocessing.queues
from typing import Any

from .connection import CARRIES_MEMORY, Parcel, Pipe

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


def _exchange_pipe(queue: Any) -> None:
    """Give a new queue ends of ours."""
    if CARRIES_MEMORY:
        queue._reader.close()
        queue._writer.close()
        queue._reader, queue._writer = Pipe(duplex=False)


def _packed(obj: Any) -> Any:
    """Object to put into a queue for ``obj``. None, which ends a pool's work, stays itself: pools put it when modules are gone, too."""
    return Parcel(obj) if CARRIES_MEMORY and obj is not None else obj


class Queue(multiprocessing.queues.Queue):
    """A queue between processes. What is put is pickled at once: an error is the caller's, and later changes of a list do not arrive.

    Args:
        maxsize: how many objects it holds at most; the system's limit when 0.
        ctx: the context of a start method.
    Source: multiprocessing.Queue.
    Example:
        >>> queue = torch.multiprocessing.Queue()
        >>> queue.put(torch.ones(2))
        >>> queue.get()
        tensor([1., 1.])
    """

    def __init__(self, maxsize: int = 0, *, ctx: Any):
        super().__init__(maxsize, ctx=ctx)
        _exchange_pipe(self)
        self._reset()  # type: ignore[attr-defined]

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an object into the queue; the memory of its tensors goes along.

        Raises:
            queue.Full: there is no room, at once or within ``timeout`` seconds.
            ValueError: the queue is closed.
        """
        super().put(_packed(obj), block, timeout)


class JoinableQueue(Queue, multiprocessing.queues.JoinableQueue):
    """A queue that counts what was put until ``task_done`` is called for it.

    Args:
        maxsize, ctx: as for ``Queue``.
    Source: multiprocessing.JoinableQueue.
    Example:
        >>> queue = torch.multiprocessing.JoinableQueue()
        >>> queue.put("task")
        >>> queue.get()
        'task'
        >>> queue.task_done(), queue.join()
        (None, None)
    """


class SimpleQueue(multiprocessing.queues.SimpleQueue):
    """A queue without a thread: ``put`` waits while the pipe is full.

    Args:
        ctx: the context of a start method.
    Source: multiprocessing.SimpleQueue.
    Example:
        >>> queue = torch.multiprocessing.SimpleQueue()
        >>> queue.put(torch.ones(2))
        >>> queue.get()
        tensor([1., 1.])
    """

    def __init__(self, *, ctx: Any):
        super().__init__(ctx=ctx)
        _exchange_pipe(self)
        self._poll = self._reader.poll  # type: ignore[attr-defined]

    def put(self, obj: Any) -> None:
        """Put an object into the queue; the memory of its tensors goes along."""
        super().put(_packed(obj))
