"""A store in this process's memory. Source: torch.distributed.HashStore."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import DistStoreError, QueueEmptyError
from .base import Store, key_of, pairs_of, seconds_of, value_of
from .table import Table

__all__ = ["HashStore"]

T = TypeVar("T")


class HashStore(Store):
    """A store of one process, for its threads and for groups of one.

    Source: torch.distributed.HashStore.
    Example:
        >>> store = torch.distributed.HashStore()
        >>> store.add("count", 2), store.add("count", 3)
        (2, 5)
        >>> store.compare_set("leader", "", "rank 1")
        b'rank 1'
        >>> store.check(["leader", "nobody"])
        False
    """

    def __init__(self) -> None:
        super().__init__()
        self._table, self._changed = Table(), threading.Condition()

    def _change(self, change: Callable[[], T]) -> T:
        with self._changed:
            result = change()
            self._changed.notify_all()
            return result

    def _await(self, there: Callable[[], bool], timeout: datetime.timedelta | None) -> None:
        if not self._changed.wait_for(there, seconds_of(self._timeout if timeout is None else timeout)):
            raise DistStoreError("Wait timeout")

    def set(self, key: str, value: str | bytes) -> None:
        key, data = key_of(key), value_of(value)
        self._change(lambda: self._table.values.update({key: data}))

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def add(self, key: str, amount: int) -> int:
        return self._change(lambda: self._table.add(key_of(key), amount))

    def append(self, key: str, value: str | bytes) -> None:
        self._change(lambda: self._table.append(key_of(key), value_of(value)))

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return self._table.has([key_of(key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        names = [key_of(key) for key in keys]
        with self._changed:
            self._await(lambda: self._table.has(names), timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        expected, desired = value_of(expected_value), value_of(desired_value)
        return self._change(lambda: self._table.compare_set(key_of(key), expected, desired))

    def delete_key(self, key: str) -> bool:
        return self._change(lambda: self._table.delete(key_of(key)))

    def num_keys(self) -> int:
        return len(self._table.values)

    def list_keys(self) -> list[str]:
        with self._changed:
            return list(self._table.values)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        names = [key_of(key) for key in keys]
        with self._changed:
            self._await(lambda: self._table.has(names), None)
            return [self._table.values[key] for key in names]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        pairs = pairs_of(keys, values)
        self._change(lambda: self._table.values.update(pairs))

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._change(lambda: self._table.push(key_of(key), value_of(value)))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        with self._changed:
            if block:
                self._await(lambda: self._table.length(key_of(key)) > 0, None)
            value = self._table.pop(key_of(key))
        if value is None:
            raise QueueEmptyError("queue is empty")
        return value

    def queue_len(self, key: str) -> int:
        with self._changed:
            return self._table.length(key_of(key))

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> HashStore:
        return self
