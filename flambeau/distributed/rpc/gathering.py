"""Exchange among workers: each asks one of them, whose answer comes when all have asked."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import defaultdict
from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary

from ...facades.futures import Future
from .agent import Agent, agent
from .functions import async_execution

__all__: list[str] = []


class _Calls:
    """Of one agent: how many it began, by the names that take part, and what was told in those that it gathers, by names and number."""

    def __init__(self) -> None:
        self.counts: defaultdict[frozenset[str], itertools.count[int]] = defaultdict(itertools.count)
        self.gathered: dict[tuple[frozenset[str], int], tuple[dict[str, Any], list[Future[Any]]]] = {}


_lock = threading.Lock()
_calls: WeakKeyDictionary[Agent, _Calls] = WeakKeyDictionary()


@async_execution
def _join(names: frozenset[str], number: int, name: str, value: Any) -> Future[Any]:
    """Runs in the worker that gathers: a future of what all have told in their call of this number."""
    future = Future[Any]()
    with _lock:
        gathered = _calls.setdefault(agent(), _Calls()).gathered
        values, waiting = gathered.setdefault((names, number), ({}, []))
        values[name] = value
        waiting.append(future)
        if whole := len(values) == len(names):
            del gathered[names, number]
    if whole:
        for each in waiting:
            each.set_result(values)
    return future


def _give_up(names: frozenset[str], number: int, name: str) -> None:
    """Runs in the worker that gathers, when one no longer waits: nor do the others."""
    with _lock:
        _, waiting = _calls.setdefault(agent(), _Calls()).gathered.pop((names, number), ({}, []))
    for each in waiting:
        each.set_exception(RuntimeError(f"rpc: {name} waited in vain for all of {sorted(names)}"))


def all_gather(obj: Any, worker_names: Collection[str] | None = None, timeout: float = -1.0) -> dict[str, Any]:
    """Each worker's own object, by the workers' names; returns when all have called this.

    Args:
        obj: this worker's; anything that can be pickled.
        worker_names: those that take part; all when None.
        timeout: seconds; 0 for no limit, the agent's when negative.
    Raises:
        RuntimeError: this worker does not take part, or the time was over, here or in another one.
    Source: torch.distributed.rpc.api._all_gather.
    """
    here = agent()
    names = frozenset(here.workers if worker_names is None else worker_names)
    if here.me.name not in names:
        raise RuntimeError(f"{here.me.name} is not contained by {sorted(names)}: expected this worker among those that gather")
    with _lock:
        number = next(_calls.setdefault(here, _Calls()).counts[names])
    gathering = min(names)
    try:
        return here.call(gathering, _join, (names, number, here.me.name, obj), None, timeout).wait()
    except RuntimeError:
        here.call(gathering, _give_up, (names, number, here.me.name), None, timeout)
        raise


def barrier(worker_names: Collection[str]) -> None:
    """Wait until these workers have called this; an error is logged. Source: torch.distributed.rpc.api._barrier."""
    try:
        all_gather(None, set(worker_names))
    except RuntimeError:
        logging.getLogger(__name__).exception("rpc: not all of %s came to the barrier", sorted(worker_names))
