"""Work of several threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["in_threads", "switched_often"]


def in_threads(count: int, function: Callable[[int], Any]) -> None:
    """Run ``function(number)`` in ``count`` threads, and fail if it raises in any."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            function(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@contextmanager
def switched_often(seconds: float = 1e-6) -> Iterator[None]:
    """Let the interpreter switch threads after so short a time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
