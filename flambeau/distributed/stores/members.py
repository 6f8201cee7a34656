"""Members of groups and the lost ones among them: what the server of a store knows of processes that watch each other."""

from __future__ import annotations

import json
import time

__all__ = ["Members"]


class Members:
    """Members by group and name: the state that each told last and when; and the lost ones, with the reason."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, tuple[float, bytes]]] = {}
        self._left: dict[str, dict[str, bytes]] = {}
        self._lost: dict[str, dict[str, str]] = {}

    def join(self, group: str, name: str) -> None:
        """A member comes, or comes again."""
        self._left.get(group, {}).pop(name, None)

    def beat(self, group: str, name: str, state: bytes) -> None:
        """A member lives, and tells its state: JSON, which is passed on as it is. One that has said goodbye meanwhile stays away."""
        if name not in self._left.get(group, {}):
            self._states.setdefault(group, {})[name] = (time.monotonic(), state)

    def leave(self, group: str, name: str) -> None:
        """A member goes as it should."""
        _, state = self._states.get(group, {}).pop(name, (0.0, b"{}"))
        self._left.setdefault(group, {})[name] = state

    def told_since(self, group: str, when: float) -> bool:
        """Whether all members that are left have been told what happened until then."""
        lost = self._lost.get(group, {})
        return all(beat > when for name, (beat, _) in list(self._states.get(group, {}).items()) if name not in lost)

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
        """JSON: the lost with the reasons, those that left, and of each member its state and for how many seconds it was silent."""
        now = time.monotonic()
        members = {name: {"silent": now - when, "state": json.loads(state)} for name, (when, state) in self._states.get(group, {}).items()}
        left = {name: json.loads(state) for name, state in self._left.get(group, {}).items()}
        return json.dumps({"lost": self._lost.get(group, {}), "left": left, "members": members}).encode()
