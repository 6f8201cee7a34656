"""Steps that all processes take together: what fails in one is an error in all, and no process waits for one that failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from ... import distributed as dist
from .api import CheckpointException


class Steps:
    """Steps of a group of processes; of this one alone without a group.

    Args:
        group: the processes.
        alone: whether to ask nobody.
    """

    def __init__(self, group: Any, alone: bool) -> None:
        self.group, self.alone = group, alone
        self.rank = 0 if alone else dist.get_rank(group)
        self.is_coordinator = self.rank == 0

    def _tried(self, function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        try:
            return function(*args), None
        except (Exception, CheckpointException) as error:
            error.__dict__["_shown"] = traceback.format_exc()
            return None, error

    def reduce_scatter(self, name: str, local: Callable[[], Any], combine: Callable[[list[Any]], list[Any]]) -> Any:
        """Each process's result of ``combine``, which the first process calls with the results of ``local``."""
        value, error = self._tried(local)
        gathered = self._all((value, _sendable(error)))
        failures = {rank: failed for rank, (_, failed) in enumerate(gathered) if failed is not None}
        results: Any = None
        if not failures and self.is_coordinator:
            results, failed = self._tried(combine, [part for part, _ in gathered])
            failures = {0: _sendable(failed)} if failed is not None else {}
        results, failures = self._from_first((results, failures))
        self._raise(name, failures, error)
        return results[self.rank]

    def all_reduce(self, name: str, local: Callable[[], Any], combine: Callable[[list[Any]], Any]) -> Any:
        """The result of ``combine``, which the first process calls with the results of ``local``, on every process."""
        return self.reduce_scatter(name, local, lambda parts: [combine(parts)] * len(parts))

    def broadcast(self, name: str, function: Callable[[], Any]) -> Any:
        """The first process's result, on every process."""
        value, error = self._tried(function) if self.is_coordinator else (None, None)
        value, failures = self._from_first((value, {} if error is None else {0: _sendable(error)}))
        self._raise(name, failures, error)
        return value

    def all_gather(self, name: str, function: Callable[[], Any]) -> list[Any]:
        """All processes' results, on every process."""
        value, error = self._tried(function)
        gathered = self._all((value, _sendable(error)))
        self._raise(name, {rank: failed for rank, (_, failed) in enumerate(gathered) if failed is not None}, error)
        return [part for part, _ in gathered]

    def _all(self, value: Any) -> list[Any]:
        if self.alone:
            return [value]
        gathered: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(gathered, value, group=self.group)
        return gathered

    def _from_first(self, value: Any) -> Any:
        if self.alone:
            return value
        sent = [value]
        dist.broadcast_object_list(sent, group=self.group, group_src=0)
        return sent[0]

    def _raise(self, name: str, failures: dict[int, Any], own: Any) -> None:
        if failures:
            raise CheckpointException(name, failures) from own


def _sendable(error: Any) -> str | None:
    """An exception as other processes get it: its words."""
    return None if error is None else error.__dict__.get("_shown", repr(error))
