"""Members of groups and the lost ones among them: what the server of a store knows of processes that watch each other."""

from __future__ import annotations

import json
import time

__all__ = ["Members"]


class Members:
    """Members by group and name: the state that each told last and when; and the lost ones, with the reason.

    A member that beats again has read the report before: so it is known who knows of whom.
    """

    def __init__(self) -> None:
        self._states: dict[str, dict[str, tuple[float, bytes]]] = {}
        self._left: dict[str, dict[str, bytes]] = {}
        self._lost: dict[str, dict[str, str]] = {}
        self._changed: dict[str, float] = {}  # when a member of the group left or was lost
        self._reported: dict[tuple[str, str], float] = {}  # when the last report to a member was made
        self._read: dict[tuple[str, str], float] = {}  # when the last one was made that it has read

    def join(self, group: str, name: str) -> None:
        """A member comes, or comes again."""
        self._left.get(group, {}).pop(name, None)

    def beat(self, group: str, name: str, state: bytes) -> None:
        """A member lives, and tells its state: JSON, which is passed on as it is. One that has said goodbye meanwhile stays away."""
        self._read[group, name] = self._reported.get((group, name), 0.0)
        if name not in self._left.get(group, {}):
            self._states.setdefault(group, {})[name] = (time.monotonic(), state)

    def leave(self, group: str, name: str) -> None:
        """A member goes as it should."""
        _, state = self._states.get(group, {}).pop(name, (0.0, b"{}"))
        self._left.setdefault(group, {})[name] = state
        self._changed[group] = time.monotonic()

    def all_know(self, group: str, when: float) -> bool:
        """Whether all members that are left have read a report that was made after that time."""
        lost = self._lost.get(group, {})
        return all(self._read.get((group, name), 0.0) > when for name in list(self._states.get(group, {})) if name not in lost)

    def connection_ended(self, group: str, name: str) -> bool:
        """A member's connection is gone without a goodbye; whether that is news."""
        return name in self._states.get(group, {}) and self.blame(group, name, "its connection to the store ended")

    def blame(self, group: str, name: str, reason: str) -> bool:
        """A member counts as lost; whether that is news. The first reason stands."""
        lost = self._lost.setdefault(group, {})
        if name in lost:
            return False
        lost[name] = reason
        self._changed[group] = time.monotonic()
        return True

    def has_news(self, group: str, name: str) -> bool:
        """Whether there is something that a member has to know at once: one is lost, or has left since the last report to it."""
        return bool(self._lost.get(group)) or self._reported.get((group, name), 0.0) < self._changed.get(group, 0.0)

    def report(self, group: str, name: str) -> bytes:
        """For a member, JSON: the lost with the reasons, those that left, and of each its state and for how many seconds it was silent."""
        now = self._reported[group, name] = time.monotonic()
        members = {name: {"silent": now - when, "state": json.loads(state)} for name, (when, state) in self._states.get(group, {}).items()}
        left = {name: json.loads(state) for name, state in self._left.get(group, {}).items()}
        return json.dumps({"lost": self._lost.get(group, {}), "left": left, "members": members}).encode()
