"""A store whose keys begin with a prefix in another one. Source: torch.distributed.PrefixStore."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from .base import Store, key_of

__all__ = ["PrefixStore"]


class PrefixStore(Store):
    """Another store's keys that begin with ``prefix/``, under what follows it.

    Args:
        prefix: a string.
        store: the other store.
    Attributes:
        underlying_store: the other store.
    Raises:
        TypeError: ``store`` is none.
    Source: torch.distributed.PrefixStore.
    Example:
        >>> whole = torch.distributed.HashStore()
        >>> part = torch.distributed.PrefixStore("first", whole)
        >>> part.set("key", "value")
        >>> whole.get("first/key")
        b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore: expected a Store, got {type(store).__name__}")
        self._prefix, self._store = key_of(prefix) + "/", store

    @property
    def underlying_store(self) -> Store:
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store: Store = self
        while isinstance(store, PrefixStore):
            store = store._store
        return store

    @property
    def timeout(self) -> datetime.timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._store.set_timeout(timeout)

    def _of(self, key: str) -> str:
        return self._prefix + key_of(key)

    def _all(self, keys: Sequence[str]) -> list[str]:
        return [self._of(key) for key in keys]

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._of(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._of(key))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._of(key), amount)

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._of(key), value)

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check(self._all(keys))

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        # programs' own stores may have the form with one argument only
        self._store.wait(self._all(keys)) if timeout is None else self._store.wait(self._all(keys), timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._store.compare_set(self._of(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._of(key))

    def num_keys(self) -> int:
        """The number of keys of the whole underlying store."""
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        return [key.removeprefix(self._prefix) for key in self._store.list_keys() if key.startswith(self._prefix)]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get(self._all(keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._store.multi_set(self._all(keys), values)

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._of(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._of(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._of(key))

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def clone(self) -> PrefixStore:
        return PrefixStore(self._prefix[:-1], self._store.clone())
