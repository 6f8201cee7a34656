"""The base of all stores. Source: torch.distributed.Store."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from ..errors import DistStoreError

__all__ = ["DEFAULT_TIMEOUT", "Store", "key_of", "seconds_of", "value_of"]

DEFAULT_TIMEOUT = datetime.timedelta(seconds=300)


def key_of(key: Any) -> str:
    """A key that is a string; TypeError otherwise."""
    if not isinstance(key, str):
        raise TypeError(f"store: expected a str for the key, got {type(key).__name__}")
    return key


def value_of(value: Any) -> bytes:
    """A value's bytes; those of a string in UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"store: expected str or bytes for the value, got {type(value).__name__}")
    return value


def seconds_of(timeout: Any) -> float:
    """Seconds of a ``timedelta``; TypeError for anything else."""
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"store: expected a datetime.timedelta for the timeout, got {type(timeout).__name__}")
    return timeout.total_seconds()


class Store:
    """Keys and values that several processes share; base of all stores, and of those that programs write.

    Values are bytes; strings are encoded in UTF-8. A subclass must have ``set``, ``get``, ``add``, ``check``, ``wait``, ``compare_set``,
    ``delete_key`` and ``num_keys``; the others are made of these.

    Attributes:
        timeout: how long ``get`` and ``wait`` wait for keys, a ``timedelta``.
    Source: torch.distributed.Store.
    Example:
        >>> store = torch.distributed.HashStore()
        >>> store.set("first", "1")
        >>> store.get("first")
        b'1'
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    @property
    def timeout(self) -> datetime.timedelta:
        return self._timeout

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Wait that long for keys from now on.

        Args:
            timeout: a ``timedelta``.
        """
        seconds_of(timeout)
        self._timeout = timeout

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__}.{name} is not supported")

    def set(self, key: str, value: str | bytes) -> None:
        """Put a value under a key, in place of what stands there."""
        raise self._missing("set")

    def get(self, key: str) -> bytes:
        """The value under a key, for which it waits.

        Raises:
            DistStoreError: nothing was there within the timeout.
        """
        raise self._missing("get")

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, 0 where there is none; the sum.

        Raises:
            ValueError: what stands there is no number.
        """
        raise self._missing("add")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of these keys are there."""
        raise self._missing("check")

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Wait until all of these keys are there.

        Args:
            keys: the keys.
            timeout: for how long; the store's when None.
        Raises:
            DistStoreError: they were not within the timeout.
        """
        raise self._missing("wait")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Put ``desired_value`` under the key if ``expected_value`` is there, or if it is empty and nothing is there; what is there then.

        Where nothing is there and ``expected_value`` is not empty, nothing is put and ``expected_value`` is returned.
        """
        raise self._missing("compare_set")

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        raise self._missing("delete_key")

    def num_keys(self) -> int:
        """The number of keys, with those by which the store counts its users."""
        raise self._missing("num_keys")

    def list_keys(self) -> list[str]:
        """All keys."""
        raise self._missing("list_keys")

    def append(self, key: str, value: str | bytes) -> None:
        """Put bytes behind those that stand under a key."""
        key, value = key_of(key), value_of(value)
        while True:
            before = self.get(key) if self.check([key]) else b""
            if self.compare_set(key, before, before + value) == before + value:
                return

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values under several keys, for which it waits."""
        self.wait(keys)
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Put values under several keys.

        Raises:
            DistStoreError: not as many values as keys.
        """
        for key, value in pairs_of(keys, values):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue. Queues have names of their own, apart from the keys."""
        raise self._missing("queue_push")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue.

        Args:
            key: the queue's name.
            block: wait for one.
        Raises:
            QueueEmptyError: there is none, and ``block`` is False.
            DistStoreError: there was none within the timeout.
        """
        raise self._missing("queue_pop")

    def queue_len(self, key: str) -> int:
        """The number of values in a queue."""
        raise self._missing("queue_len")

    def barrier(self, key: str, world_size: int, timeout: datetime.timedelta | None = None) -> None:
        """Wait until so many have called this with the same key.

        Args:
            key: a name that is used once.
            world_size: how many.
            timeout: for how long; the store's when None.
        Raises:
            DistStoreError: they did not come in time.
        """
        if self.add(f"{key}/count", 1) == world_size:
            self.set(f"{key}/go", "1")
        self.wait([f"{key}/go"]) if timeout is None else self.wait([f"{key}/go"], timeout)

    def has_extended_api(self) -> bool:
        """Whether ``append``, ``multi_get`` and ``multi_set`` are one step each, and there are queues."""
        return False

    def clone(self) -> Store:
        """Another object for the same keys."""
        raise self._missing("clone")


def pairs_of(keys: Sequence[str], values: Sequence[str | bytes]) -> list[tuple[str, bytes]]:
    """Keys with their values; an error unless there are as many."""
    if len(keys) != len(values):
        raise DistStoreError("multiSet keys and values vectors must be of same size")
    return [(key_of(key), value_of(value)) for key, value in zip(keys, values)]
