"""Watching the other ranks of a job: one that dies, stops or does not come ends the others with a message, where MPI alone
would wait for ever.

Each rank has a thread with a connection of its own to the server of the job's store. On it the rank says about twice a second that it
lives and what it is doing; the answer comes when the interval is over, or at once when a rank was lost:

    rank 0          server           rank 1
      | beat ------->  |  <------- beat |          beat: host, process, collective
      |                |                x          the connection ends without a goodbye
      | <--- lost: 1   |                           at once, not at the next beat

Lost is a rank whose connection ended without a goodbye, whose process is stopped or gone (ranks of the same machine see that, in
``/proc``), that was silent for ``FLAMBEAU_HEARTBEAT_TIMEOUT`` seconds (60), or that is not in a collective which others have waited for
longer than its timeout. The server keeps the first reason, so that all ranks tell the same story.

A rank that ends as it should says goodbye, also where its program does not leave the group, and is not lost. The others go on, until one
of them waits for it in a collective. When the goodbye is rank 0's and the server was in its process, the others are told before it ends
and watch the clock alone.

In a rank that learns of it the collective that it waits in, or the next one, raises ``DistBackendError``. The process has a few seconds
for its own end then. One that cannot end, because a thread is inside of a blocking call of MPI's, is ended with the message.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .errors import DistBackendError, DistNetworkError
from .stores import PrefixStore, Store, TCPStore
from .stores.tcp import exchange
from .stores.wire import Request

__all__ = ["Watcher", "current", "machine", "start", "stop", "stopped"]

_BEAT = 0.5  # seconds between two beats of up to 64 ranks; more ranks beat as often together
_QUIET = 2.0  # seconds of silence after which it is looked at whether a process is stopped
_GRACE = 5.0  # seconds for a process to end by itself
_READING = 0.3  # seconds in which the others have read what the server told them
_SERVER_KEY = "flambeau/watcher"


def machine() -> str:
    """A name that is the same for all processes whose ``/proc`` is this one, and for no others."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def stopped(pid: int) -> str:
    """The reason why a process of this machine does nothing: stopped, or gone; empty for one that may be at work."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            letter = file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return f"its process {pid} is gone"
    except OSError:
        return ""
    return {"T": f"its process {pid} is stopped", "t": f"its process {pid} is held by a debugger", "Z": f"its process {pid} has ended"}.get(
        letter, ""
    )


def _leave(message: str) -> None:
    """End this process, from another thread than the one that waits."""
    from .elastic.multiprocessing.errors import ErrorHandler  # late: needed once, at the end

    with suppress(OSError):
        ErrorHandler().record_exception(DistBackendError(message))
    os.write(2, f"{message}\n".encode())
    _exit_as_follower()


def _exit_as_follower() -> None:
    """End this process with the status that tells the launcher that another one was the cause. MPI's own end could wait for ever."""
    from .elastic.multiprocessing.errors import OTHER_LOST  # late: needed once, at the end

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(OTHER_LOST)


@dataclass(frozen=True, slots=True)
class _Doing:
    """A collective in which a thread is, on the clock."""

    collective: str
    number: int
    since: float
    until: float
    ranks: Collection[int] | None

    def has(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks


class Watcher:
    """Watches the other ranks of this one's job, from a thread.

    Args:
        store: the job's; where no server has it, rank 0 opens one on this machine.
        rank, size: of this process and of all.
        group: a name that no other group of the job has.
        leave: ends this process with a message.
        noun: what those are that watch each other, for messages.
    Attributes:
        error: what happened to another rank; empty while nothing did.
    """

    def __init__(
        self, store: Store, rank: int, size: int, group: str = "world", leave: Callable[[str], None] = _leave, noun: str = "rank"
    ) -> None:
        self.rank, self.size, self.group, self.error = rank, size, group, ""
        self._leave, self._host, self._noun = leave, socket.gethostname(), noun
        self._me = {"host": self._host, "machine": machine(), "pid": os.getpid()}
        self._patience = float(os.environ.get("FLAMBEAU_HEARTBEAT_TIMEOUT", "60"))
        self._beat = _BEAT * max(1.0, size / 64)
        self._doing: dict[int, _Doing] = {}  # by thread
        self._members: dict[str, dict[str, Any]] = {}
        self._left: dict[str, dict[str, Any]] = {}
        self._closed, self._store = threading.Event(), self._served(store)
        self._lost_at: float | None = None
        self._sock = self._connect()
        # A beat before anything else: from here on the server notices that this rank ends.
        self._report = self._ask(0.0)
        self._thread = threading.Thread(target=self._run, daemon=True, name="watcher")
        self._thread.start()
        self._register()

    def _register(self) -> None:
        """Say goodbye at the end of the process, unless an exception ends it."""
        atexit.register(self._at_exit)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:  # a child of multiprocessing ends without ``atexit``
            util.Finalize(self, self._at_exit, exitpriority=0)

    def _at_exit(self) -> None:
        if self._me["pid"] != os.getpid():  # a child that was forked
            return
        error = sys.exception() or getattr(sys, "last_value", None)
        if self.error and error is not None:
            _exit_as_follower()
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()

    def enter(self, collective: str, number: int = 0, timeout: float = 1e9, ranks: Collection[int] | None = None) -> None:
        """Say that this thread waits in a collective from now on.

        Args:
            collective: its name.
            number: how many the group has done before, by which others see who is behind.
            timeout: seconds after which a rank counts as lost that is not in it.
            ranks: those that take part; all when None.
        Raises:
            DistBackendError: a rank is lost, so that this collective would never end.
        """
        if self.error:
            raise DistBackendError(self.error)
        now = time.monotonic()
        self._doing[threading.get_ident()] = _Doing(collective, number, now, now + timeout, ranks)

    def leave(self) -> None:
        """Say that this thread has left the collective."""
        self._doing.pop(threading.get_ident(), None)

    def close(self) -> None:
        """Stop to watch, and say goodbye: ending is no loss from now on."""
        if not self._closed.is_set():
            self._closed.set()
            atexit.unregister(self._at_exit)
            with suppress(DistNetworkError, OSError):
                # On another connection: the thread waits for an answer on its own.
                self._store._client.ask(Request.LEAVE, [self.group.encode(), str(self.rank).encode()])
            now = time.monotonic()
            if self._store._service is not None:  # the server ends with this process: all must know that this is no loss
                members = self._store._service.server.members
                while not members.all_know(self.group, now) and time.monotonic() < now + 2 * self._beat + 1:
                    time.sleep(0.005)
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._thread.join(_GRACE)
            self._sock.close()

    def others(self, ranks: Collection[int]) -> str:
        """Words on what other ranks do, as far as they told."""
        told = []
        for rank in sorted(ranks):
            state = self._members.get(str(rank))
            if state is not None and rank != self.rank:
                its = f"in {state['doing']} (number {state['number']})" if state.get("doing") else "in no collective"
                told.append(f"rank {rank} on {state['host']} is {its}")
        return "; ".join(told)

    # -- the server
    def _served(self, store: Store) -> TCPStore:
        """A store whose server watches: the job's own, or one that rank 0 opens for this."""
        inner = store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store
        if isinstance(inner, TCPStore):
            return inner.clone()
        if self.rank == 0:
            served = TCPStore("127.0.0.1", 0, None, True)
            store.set(_SERVER_KEY, f"127.0.0.1:{served.port}")
            return served
        host, _, port = store.get(_SERVER_KEY).decode().rpartition(":")
        return TCPStore(host, int(port))  # of another machine, where the store is a file that several share: start() does without

    def _connect(self) -> socket.socket:
        return self._store._client.connect(30.0)

    def _ask(self, seconds: float) -> dict[str, Any]:
        """One beat, and what the server knows."""
        state = dict(self._me)
        doing = list(self._doing.values())
        if doing:
            last = max(doing, key=lambda each: each.since)
            state |= {"doing": last.collective, "number": last.number}
        fields = [self.group.encode(), str(self.rank).encode(), json.dumps(state).encode(), repr(seconds).encode()]
        status, reply = exchange(self._sock, Request.WATCH, fields, seconds, f"({self._store.host}, {self._store.port})")
        if status:
            raise DistNetworkError(" ".join(each.decode() for each in reply))
        return json.loads(reply[0])

    # -- the thread
    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._look(self._ask(0.05 if self.error else self._beat))
            except DistNetworkError as error:
                if "0" in self._left:
                    self._run_alone()
                elif not self._closed.is_set():
                    self._end(f"{self._noun} {self.rank} on {self._host}: the store of this job is gone{self._where()}: {error}")
                return
            if self.error:
                self._wait_for_the_end()

    def _run_alone(self) -> None:
        """Watch the clock, when rank 0 has left and the server with it."""
        while not self._closed.wait(self._beat):
            waited_for = self._gone()
            if waited_for:
                self._end(self._message(waited_for))

    def _gone(self) -> dict[str, str]:
        """Ranks that have left, and that this one has waited for in a collective: with the reason."""
        since = time.monotonic() - _QUIET
        waiting = [each for each in list(self._doing.values()) if each.since < since]
        return {
            name: f"it left before {each.collective} (number {each.number})"
            for each in waiting
            for name in self._left
            if each.has(int(name))
        }

    def _look(self, report: dict[str, Any]) -> None:
        """Read the server's report: who is lost, who is silent, who is late."""
        self._members.update({name: each["state"] for name, each in report["members"].items()})
        lost, self._left = report["lost"], report["left"]
        if lost and not self.error:
            self.error = self._message(lost)
            self._lost_at = time.monotonic()
            return
        for name, member in report["members"].items():
            state, silent = member["state"], member["silent"]
            reason = ""
            if int(name) != self.rank and silent > max(_QUIET, 4 * self._beat) and state["machine"] == self._me["machine"]:
                reason = stopped(state["pid"])
            if silent > self._patience:
                reason = reason or f"it was silent for {silent:.0f} s"
            if reason:
                self._blame(name, reason)
        for name, reason in self._gone().items():
            self._blame(name, reason)
        self._look_at_the_clock()

    def _look_at_the_clock(self) -> None:
        """Blame who is behind, when a collective here takes longer than it may."""
        for each in [each for each in list(self._doing.values()) if time.monotonic() > each.until + _QUIET]:
            behind = [name for name, state in self._members.items() if each.has(int(name)) and state.get("number", -1) < each.number]
            reason = f"it did not come to {each.collective} (number {each.number}) within {each.until - each.since:.0f} s"
            for name in behind:
                self._blame(name, reason)
            if not behind:
                self._blame(str(self.rank), f"{each.collective} (number {each.number}) did not end within {each.until - each.since:.0f} s")

    def _blame(self, name: str, reason: str) -> None:
        self._store._client.ask(Request.BLAME, [self.group.encode(), name.encode(), reason.encode()])

    def _where(self) -> str:
        doing = max(list(self._doing.values()), key=lambda each: each.since, default=None)
        return "" if doing is None else f" in {doing.collective} (number {doing.number})"

    def _message(self, lost: dict[str, str]) -> str:
        told = []
        for name, reason in sorted(lost.items(), key=lambda each: int(each[0])):
            state = self._left.get(name) or self._members.get(name, {})
            its = f", which was in {state['doing']} (number {state['number']})" if state.get("doing") else ""
            told.append(f"{self._noun} {name} on {state.get('host', 'an unknown host')} is lost{its}: {reason}")
        return f"{self._noun} {self.rank} on {self._host}{self._where()}: {'; '.join(told)}. This job has ended."

    def _wait_for_the_end(self) -> None:
        """Give the program a while for its own end."""
        if self._lost_at is not None and time.monotonic() - self._lost_at > _GRACE:
            self._end(self.error)
        time.sleep(0.05)

    def _end(self, message: str) -> None:
        self.error = message
        if self._store._service is not None:  # the others read the reason before the connections to this process break
            time.sleep(_READING)
        self._leave(message)


_current: Watcher | None = None


def start(store: Store, rank: int, size: int, group: str) -> None:
    """Watch the other ranks of this job from here on, if there are any."""
    global _current
    stop()
    if size > 1:
        try:
            _current = Watcher(store, rank, size, group)
        except DistNetworkError as error:
            warnings.warn(f"ranks do not watch each other, and one that is lost is noticed by timeouts alone: {error}", stacklevel=4)


def stop() -> None:
    """Watch no longer, and say goodbye."""
    global _current
    if current() is not None and _current is not None:
        _current.close()
    _current = None


def current() -> Watcher | None:
    """This process's watcher; a child that was forked has none."""
    return _current if _current is not None and _current._me["pid"] == os.getpid() else None
