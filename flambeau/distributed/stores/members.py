"""Members of groups and the lost ones among them: what the server of a store knows of processes that watch each other."""

from __future__ import annotations

import json
import time

__all__ = ["Members"]


class Members:
    """Members by group and name: the state that each told last and when; and the lost ones, with the reason."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, tuple[float, bytes]]] = {}
        self._lost: dict[str, dict[str, str]] = {}

    def beat(self, group: str, name: str, state: bytes) -> None:
        """A member lives, and tells its state: JSON, which is passed on as it is."""
        self._states.setdefault(group, {})[name] = (time.monotonic(), state)

    def leave(self, group: str, name: str) -> None:
        """A member goes as it should."""
        members = self._states.get(group, {})
        members.pop(name, None)
        if not members:
            self._states.pop(group, None)

    def connection_ended(self, group: str, name: str) -> bool:
        """A member's connection is gone without a goodbye; whether that is news."""
        return name in self._states.get(group, {}) and self.blame(group, name, "its connection to the store ended")

    def blame(self, group: str, name: str, reason: str) -> bool:
        """A member counts as lost; whether that is news. The first reason stands."""
        lost = self._lost.setdefault(group, {})
        if name in lost:
            return False
        lost[name] = reason
        return True

    def lost(self, group: str) -> bool:
        return bool(self._lost.get(group))

    def report(self, group: str) -> bytes:
        """JSON: the lost ones with their reasons, and of each member its state and for how many seconds it has been silent."""
        now = time.monotonic()
        members = {name: {"silent": now - when, "state": json.loads(state)} for name, (when, state) in self._states.get(group, {}).items()}
        return json.dumps({"lost": self._lost.get(group, {}), "members": members}).encode()
