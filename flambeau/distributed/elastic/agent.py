"""The launcher's work on one node: start the workers, see that they live, start all again when one failed.

attempt:  meet the other launchers -> start workers -> poll -------------------> all ended well: wait for the other nodes' workers, done
                 ^                                       | one failed here,
                 |                                       | on another node, or a launcher is lost
                 +-- while restarts are left <- end mine +
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ..errors import DistError
from ..stores import HashStore, secret as auth
from ..watching import Watcher, stopped
from .multiprocessing.errors import OTHER_LOST, ChildFailedError, ProcessFailure
from .multiprocessing.logs import DefaultLogsSpecs, LogsSpecs
from .multiprocessing.processes import PContext, RunProcsResult, SignalException, start_processes
from .nodes import Nodes, Round, TooLate

__all__ = ["Agent", "Work"]

_STOPPED = 5.0  # seconds for which a worker may be stopped: its fellows notice it before, if they can
_LAST_WORDS = 0.5  # seconds for workers to say whom they lost, and for launchers
_GOODBYES = 5.0  # seconds for the other launchers to learn how it ended
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """The work of each worker, and its treatment by the launcher."""

    name: str
    entrypoint: Callable[..., Any] | str
    args: tuple[Any, ...]
    workers: int
    role: str
    max_restarts: int
    interval: float
    start_method: str
    logs: LogsSpecs
    signals: tuple[str, ...]
    shutdown: float


class _Failed(Exception):
    """An attempt failed: with what happened to this node's workers, or what another node told."""

    def __init__(self, reason: str, failures: dict[int, ProcessFailure], counts: bool = True) -> None:
        super().__init__(reason)
        self.failures, self.counts = failures, counts


class Agent:
    """Runs a job's workers on this node.

    Args:
        work: what they do.
        nodes: this node among all.
    """

    def __init__(self, work: Work, nodes: Nodes) -> None:
        self.work, self.nodes = work, nodes
        self._context: PContext | None = None
        self._meeting: Round | None = None
        self._stopped: dict[int, float] = {}  # workers that do nothing, and since when
        self._lost = ""

    def run(self) -> dict[int, Any]:
        """Run until all workers of all nodes have ended well.

        Returns: what functions returned, by global rank.
        Raises:
            ChildFailedError: a worker of this node failed, and no restart is left.
            RuntimeError: one of another node did, or its launcher is lost.
            SignalException: a signal came; the workers have got it, too.
        """
        with self._signals():
            try:
                return self._run()
            finally:
                self._wait_for_the_others()

    def _run(self) -> dict[int, Any]:
        number, left = self.nodes.current(), self.work.max_restarts
        while True:
            try:
                return self._attempt(number)
            except TooLate:
                number = max(number + 1, self.nodes.current())
            except _Failed as error:
                left -= error.counts
                if left < 0:
                    raise self._last_words(error) from None
                _log.warning("%s; starting all workers again (attempt %d, restarts left: %d)", error, number + 1, left)
                number += 1
            except SignalException as error:
                self._close(error.sigval)
                raise
            except BaseException:
                self._close()
                raise

    def _last_words(self, error: _Failed) -> Exception:
        if error.failures:
            return ChildFailedError(self.work.name, error.failures)
        return RuntimeError(str(error))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Have signals raise here; what did before does again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            _log.warning("signals cannot be handled in another thread than the main one")
            yield
            return

        def handle(number: int, frame: Any) -> None:
            raise SignalException(f"Process {os.getpid()} got signal: {number}", signal.Signals(number))

        before = {}
        for name in self.work.signals:
            try:
                number = signal.Signals[name]
                before[number] = signal.signal(number, handle)
            except (KeyError, OSError) as error:
                _log.warning("%s cannot be passed on to the workers: %r", name, error)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _close(self, death_sig: signal.Signals | None = None) -> None:
        if self._context is not None:
            self._context.close(death_sig, self.work.shutdown)

    def _attempt(self, number: int) -> dict[int, Any]:
        meeting = self.nodes.meet(number)
        watcher = None
        if len(meeting.nodes) > 1 and not isinstance(self.nodes.store, HashStore):
            self._lost = ""
            group = f"launchers/{self.nodes.settings.run_id}/{number}"
            watcher = Watcher(self.nodes.store, meeting.group_rank, len(meeting.nodes), group, self._note_loss, "launcher")
        try:
            self._context = self._start(meeting)
            result = self._monitor(meeting)
        except _Failed as error:
            if not self._lost:  # the launchers watch each other: they know
                self._tell(meeting, error)
            if error.failures:
                self._hear_the_others(set(error.failures), meeting.first_rank)
            self._close()
            raise
        finally:
            self._meeting = meeting
            if not self.nodes.serves:
                with suppress(DistError):
                    meeting.store.add("gone", 1)
            if watcher is not None:
                watcher.close()
        return {meeting.first_rank + rank: value for rank, value in result.return_values.items()}

    def _tell(self, meeting: Round, error: _Failed) -> None:
        """Tell the launchers of other nodes, which take what is told first: so the node of the cause does at once, and others after it."""
        if len(meeting.nodes) > 1 and error.failures and all(each.exitcode == OTHER_LOST for each in error.failures.values()):
            time.sleep(_LAST_WORDS)
        told = {"node": meeting.group_rank, "host": self.nodes.me["host"], "reason": str(error)}
        try:
            meeting.store.compare_set("ended", "", json.dumps(told))
        except DistError as gone:  # the first node is lost, and the store with it
            _log.warning("%s", gone)

    def _hear_the_others(self, ended: set[int], first_rank: int) -> None:
        """Give workers that are left a moment to say whom they lost, before they are ended."""
        assert self._context is not None
        end = time.monotonic() + _LAST_WORDS
        while time.monotonic() < end:
            if all(first_rank + rank in ended or stopped(pid) for rank, pid in self._context.pids().items()):
                return
            time.sleep(0.02)

    def _wait_for_the_others(self) -> None:
        """Let the others read how it ended, where the launchers' store is served."""
        meeting, end = self._meeting, time.monotonic() + _GOODBYES
        if meeting is None or not self.nodes.serves:
            return
        while meeting.store.add("gone", 0) < len(meeting.nodes) - 1 and not self._lost and time.monotonic() < end:
            time.sleep(0.02)

    def _note_loss(self, message: str) -> None:
        self._lost = message

    def _start(self, meeting: Round) -> PContext:
        work = self.work
        envs = {rank: self._environment(meeting, rank) for rank in range(work.workers)}
        prefixes = {rank: f"[{work.role}{meeting.first_rank + rank}]:" for rank in envs}
        args = {rank: self._arguments(rank) for rank in envs}
        return start_processes(work.name, work.entrypoint, args, envs, work.logs, prefixes, work.start_method)

    def _arguments(self, local_rank: int) -> tuple[Any, ...]:
        """A worker's arguments; a place for the local rank, if they have one, is filled."""
        return tuple(f"--local-rank={local_rank}" if each is LOCAL_RANK else each for each in self.work.args)

    def _environment(self, meeting: Round, local_rank: int) -> dict[str, str]:
        role_rank, role_size = meeting.role_place(local_rank)
        host, port = meeting.master
        values = {
            "LOCAL_RANK": local_rank,
            "RANK": meeting.first_rank + local_rank,
            "GROUP_RANK": meeting.group_rank,
            "ROLE_RANK": role_rank,
            "ROLE_NAME": self.work.role,
            "LOCAL_WORLD_SIZE": self.work.workers,
            "WORLD_SIZE": meeting.world_size,
            "GROUP_WORLD_SIZE": len(meeting.nodes),
            "ROLE_WORLD_SIZE": role_size,
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
            "TORCHELASTIC_RESTART_COUNT": meeting.number,
            "TORCHELASTIC_MAX_RESTARTS": self.work.max_restarts,
            "TORCHELASTIC_RUN_ID": self.nodes.settings.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": True,
            "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(self.work.signals),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
            "FLAMBEAU_LAUNCHER": 1,
            auth.VARIABLE: meeting.secret,
        }
        if "OMP_NUM_THREADS" in os.environ:
            values["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
        return {name: str(value) for name, value in values.items()}

    def _monitor(self, meeting: Round) -> RunProcsResult:
        """Poll the workers until all of all nodes have ended well."""
        assert self._context is not None
        several, done, counted, looks = not self.nodes.single, None, False, 0
        while True:
            done = done or self._context.poll()
            if done is not None and done.is_failed():
                failures = {meeting.first_rank + rank: failure for rank, failure in done.failures.items()}
                first = ChildFailedError(self.work.name, failures).get_first_failure()
                raise _Failed(f"rank {first[0]} ended with exit status {first[1].exitcode}", failures)
            if done is not None and not several:
                self._context.close()
                return done
            if several and looks % 5 == 0:
                if done is not None and not counted:
                    meeting.store.add("done", 1)
                    counted = True
                if self._others(meeting) and done is not None:
                    self._context.close()
                    return done
            looks += 1
            self._end_stopped()
            time.sleep(self.work.interval)

    def _end_stopped(self) -> None:
        """End workers that have been stopped for a while: the others would wait for them."""
        assert self._context is not None
        now = time.monotonic()
        states = {rank: stopped(pid) for rank, pid in self._context.pids().items()}
        self._stopped = {rank: self._stopped.get(rank, now) for rank, why in states.items() if "is stopped" in why}
        for rank, since in self._stopped.items():
            if now - since > _STOPPED:
                _log.warning("worker %d: %s; it is killed", rank, states[rank])
                self._context.kill(rank)

    def _others(self, meeting: Round) -> bool:
        """Whether the workers of all nodes have ended well; raises when something else happened to those of another node."""
        if self._lost:
            raise _Failed(self._lost, {})
        if meeting.store.check(["ended"]):
            told = json.loads(meeting.store.get("ended"))
            raise _Failed(f"node {told['node']} ({told['host']}): {told['reason']}", {})
        if self.nodes.settings.max_nodes > len(meeting.nodes) and meeting.store.check(["more"]):
            self.nodes.expected = min(len(meeting.nodes) + 1, self.nodes.settings.max_nodes)
            meeting.store.set("next", "1")
            raise _Failed("another node came", {}, counts=False)
        return meeting.store.add("done", 0) == len(meeting.nodes)

    def clean(self) -> None:
        """Remove what nobody asked for."""
        if isinstance(self.work.logs, DefaultLogsSpecs):
            self.work.logs.remove()


LOCAL_RANK = object()  # stands among arguments where the old launcher's ``--local-rank`` goes
