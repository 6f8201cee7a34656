"""``torch.futures``: results that arrive later, with callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that is not there yet.

    Args:
        devices: whose streams ``wait`` would wait for; nothing of it on the CPU.
    Example:
        >>> import flambeau as torch
        >>> future = torch.futures.Future()
        >>> doubled = future.then(lambda done: 2 * done.value())
        >>> future.set_result(3)
        >>> doubled.wait()
        6

    Source: torch.futures.Future.
    """

    def __init__(self, *, devices: list[Any] | None = None):
        self._devices = list(devices or ())
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: Any = None
        self._callbacks: list[Callable[[Any], None]] = []
        self._before_wait: Callable[[], None] | None = None  # what the result may need of the thread that waits for it

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done

    def wait(self) -> T:
        """The result, once it is there.

        Raises:
            Exception: what was given to ``set_exception``, or what a callback of ``then`` raised.
        """
        if self._before_wait is not None:
            self._before_wait()
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The result, which must be there.

        Raises:
            RuntimeError: it is not.
        """
        if not self._done:
            raise RuntimeError("Future::value() called before completion")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of ``callback(self)``, which is called once this one is done."""
        following: Future[S] = Future(devices=self._devices)
        following._before_wait = self._before_wait

        def run(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                following._finish(None, RuntimeError(f"{type(error).__name__}: {error}"))
            else:
                following._finish(result, None)

        self.add_done_callback(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Have ``callback(self)`` called once this future is done: at once when it is."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: T) -> None:
        """Give the result.

        Raises:
            RuntimeError: there is one already.
        """
        self._finish(result, None)

    def set_exception(self, result: Any) -> None:
        """Give an error in place of a result.

        Raises:
            AssertionError: no exception.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, result: Any, error: Any) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once."
                )
            self._value, self._error, self._done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list itself, done when each of them is.

    Args:
        futures: the futures.
    Returns: a ``Future``.
    Source: torch.futures.collect_all.
    Example:
        >>> first, second = Future(), Future()
        >>> both = collect_all([first, second])
        >>> first.set_result(1), second.set_result(2)
        (None, None)
        >>> [future.value() for future in both.wait()]
        [1, 2]
    """
    every: Future[list[Future[Any]]] = Future()
    waiting = len(futures)
    lock = threading.Lock()

    def count(done: Future[Any]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            last = waiting == 0
        if last:
            every.set_result(futures)

    if not futures:
        every.set_result(futures)
    for future in futures:
        future.add_done_callback(count)
    return every


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all, once they are there.

    Args:
        futures: the futures.
    Returns: a list of results.
    Source: torch.futures.wait_all.
    Example:
        >>> done = Future()
        >>> done.set_result("ready")
        >>> wait_all([done, done])
        ['ready', 'ready']
    """
    return [future.wait() for future in collect_all(futures).wait()]
