"""Keys, values and queues in memory: what a store in memory and the server of one over TCP keep."""

from __future__ import annotations

from collections import deque

__all__ = ["Table"]


class Table:
    """Keys with values, and queues. Not safe for threads; its users see to that."""

    __slots__ = ("queues", "values")

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def has(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def add(self, key: str, amount: int) -> int:
        total = number(self.values.get(key, b"0")) + amount
        self.values[key] = str(total).encode()
        return total

    def append(self, key: str, value: bytes) -> None:
        self.values[key] = self.values.get(key, b"") + value

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        found = self.values.get(key)
        if found is None and expected:
            return expected
        if found is None or found == expected:
            self.values[key] = desired
        return self.values[key]

    def delete(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def push(self, key: str, value: bytes) -> None:
        self.queues.setdefault(key, deque()).append(value)

    def pop(self, key: str) -> bytes | None:
        queue = self.queues.get(key)
        if queue is None:
            return None
        value = queue.popleft()
        if not queue:
            del self.queues[key]
        return value

    def length(self, key: str) -> int:
        return len(self.queues.get(key, ()))


def number(value: bytes) -> int:
    """The number that bytes spell; ValueError where they spell none."""
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"store: expected a number to add to, got {value[:40]!r}") from None
