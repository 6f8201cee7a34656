"""A store in a file that all processes reach. Source: torch.distributed.FileStore.

The file is a log: each change is a record behind the others, written under the file's lock. A process reads what was written since it
last looked. A record that its writer did not finish, because it was killed, is cut off by the next one that writes.
"""

from __future__ import annotations

import datetime
import os
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ..errors import DistStoreError
from .base import Store, key_of, pairs_of, seconds_of, value_of
from .table import Table, number

__all__ = ["FileStore"]

T = TypeVar("T")
_RECORD = struct.Struct("<BII")  # whether the key is there, the bytes of the key and of the value
_USERS = "refcount/"
_LONGEST_PAUSE = 0.01  # seconds between two looks


class _Log:
    """The file, and what it said when it was last read."""

    def __init__(self, path: str) -> None:
        self.path, self.owner = path, os.getpid()
        # Readable and writable for this user alone: who writes here takes part in the job.
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        state = os.fstat(self.descriptor)
        if state.st_uid != os.getuid() or state.st_mode & 0o002:
            os.close(self.descriptor)
            raise DistStoreError(f"FileStore: {path} is another user's, or all users may write to it: remove it or take another name")
        self.table, self.read_to, self.lock = Table(), 0, threading.Lock()

    def locked(self, work: Callable[[], T]) -> T:
        import fcntl  # late: not on Windows

        with self.lock:  # the file's lock is the process's: it does not part threads
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            try:
                self.catch_up()
                return work()
            finally:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def catch_up(self) -> None:
        """Read the records that are whole."""
        size = os.fstat(self.descriptor).st_size
        data = os.pread(self.descriptor, size - self.read_to, self.read_to) if size > self.read_to else b""
        at = 0
        while at + _RECORD.size <= len(data):
            there, key_size, value_size = _RECORD.unpack_from(data, at)
            middle = at + _RECORD.size + key_size
            if middle + value_size > len(data):
                break
            key = data[at + _RECORD.size : middle].decode()
            if there:
                self.table.values[key] = data[middle : middle + value_size]
            else:
                self.table.values.pop(key, None)
            at = middle + value_size
        self.read_to += at

    def write(self, key: str, value: bytes | None) -> None:
        name = key.encode()
        record = _RECORD.pack(value is not None, len(name), len(value or b"")) + name + (value or b"")
        os.ftruncate(self.descriptor, self.read_to)
        if os.pwrite(self.descriptor, record, self.read_to) != len(record):
            raise DistStoreError(f"FileStore: no room to write to {self.path}")
        self.catch_up()

    def leave(self) -> None:
        """One user less; the last one removes the file."""
        if os.getpid() != self.owner:  # a child that was forked is no user of its own
            return

        def count() -> None:
            users = number(self.table.values.get(_USERS, b"0")) - 1
            self.write(_USERS, str(users).encode())
            if users == 0:
                with suppress(FileNotFoundError):
                    os.unlink(self.path)

        with suppress(OSError):
            self.locked(count)
        os.close(self.descriptor)


class FileStore(Store):
    """A store in a file, for processes that share a file system with locks.

    The file is readable for its user alone. The last process that uses the store removes it; after one was killed it stays, and the next
    run must take another name or remove it.

    Args:
        file_name: the file's path.
        world_size: the number of processes that will use it; when negative, it is not known.
    Attributes:
        path: the file's path.
    Raises:
        DistStoreError: more processes use the file than ``world_size``, or others may write to it.
    Source: torch.distributed.FileStore.
    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "store")
        >>> first, second = torch.distributed.FileStore(path, 2), torch.distributed.FileStore(path, 2)
        >>> first.set("key", "value")
        >>> second.get("key")
        b'value'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._log, self._world_size = _Log(os.fspath(file_name)), int(world_size)
        self._finalizer = weakref.finalize(self, self._log.leave)
        users = self._change(_USERS, lambda old: str(number(old or b"0") + 1).encode())
        if 0 < self._world_size < number(users):
            self._finalizer()
            raise DistStoreError(
                f"FileStore: {file_name} has {number(users)} users, expected {world_size}; remove one that an earlier run left"
            )

    @property
    def path(self) -> str:
        return self._log.path

    def _change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes:
        """Put what the function makes of the value there; None to leave it as it is."""

        def work() -> bytes:
            old = self._log.table.values.get(name)
            new = change(old)
            if new is not None:
                self._log.write(name, new)
            return old if new is None else new  # type: ignore[return-value]

        return self._log.locked(work)

    def _there(self, keys: Sequence[str]) -> bool:
        return self._log.locked(lambda: self._log.table.has(["/" + key_of(key) for key in keys]))

    def _await(self, keys: Sequence[str], seconds: float) -> bool:
        end, pause = time.monotonic() + seconds, 0.0005
        while not self._there(keys):
            if time.monotonic() > end:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def set(self, key: str, value: str | bytes) -> None:
        data = value_of(value)
        self._change("/" + key_of(key), lambda old: data)

    def get(self, key: str) -> bytes:
        seconds = seconds_of(self._timeout)
        if not self._await([key], seconds):
            raise DistStoreError(f"Timeout waiting for key: {key} after {round(1000 * seconds)} ms")
        return self._log.table.values["/" + key]

    def add(self, key: str, amount: int) -> int:
        return number(self._change("/" + key_of(key), lambda old: str(number(old or b"0") + amount).encode()))

    def append(self, key: str, value: str | bytes) -> None:
        data = value_of(value)
        self._change("/" + key_of(key), lambda old: (old or b"") + data)

    def check(self, keys: Sequence[str]) -> bool:
        return self._there(keys)

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        if not self._await(keys, seconds_of(self._timeout if timeout is None else timeout)):
            raise DistStoreError("Wait timeout")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        expected, desired = value_of(expected_value), value_of(desired_value)

        def change(old: bytes | None) -> bytes | None:
            return desired if (old is None and not expected) or old == expected else None

        found: Any = self._change("/" + key_of(key), change)
        return expected if found is None else found

    def delete_key(self, key: str) -> bool:
        name = "/" + key_of(key)

        def work() -> bool:
            there = name in self._log.table.values
            if there:
                self._log.write(name, None)
            return there

        return self._log.locked(work)

    def num_keys(self) -> int:
        return self._log.locked(lambda: len(self._log.table.values))

    def list_keys(self) -> list[str]:
        return self._log.locked(lambda: [key[1:] for key in self._log.table.values if key.startswith("/")])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        for key, value in pairs_of(keys, values):
            self.set(key, value)

    def clone(self) -> FileStore:
        return FileStore(self.path, -1)
