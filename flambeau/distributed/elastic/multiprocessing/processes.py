"""Worker processes of one attempt: starting, waiting, ending. Source: torch.distributed.elastic.multiprocessing."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from .errors import ProcessFailure, record
from .logs import LogsDest, LogsSpecs, Tail, consoles

__all__ = ["MultiprocessContext", "PContext", "RunProcsResult", "SignalException", "SubprocessContext", "start_processes"]

_SHUTDOWN = 30  # seconds between the first signal and SIGKILL
_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class SignalException(Exception):
    """A signal came to the launcher.

    Args:
        msg: what happened.
        sigval: the signal.
    Source: torch.distributed.elastic.multiprocessing.SignalException.
    Example:
        >>> SignalException("ended", signal.SIGTERM).sigval.name
        'SIGTERM'
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


@dataclass
class RunProcsResult:
    """The end of workers, by local rank: what functions returned, failures, files.

    Args:
        return_values: what functions returned, where all ended well.
        failures: of those that did not.
        stdouts, stderrs: paths of files with their output.
    Source: torch.distributed.elastic.multiprocessing.RunProcsResult.
    Example:
        >>> RunProcsResult(return_values={0: 1}).is_failed()
        False
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        return bool(self.failures)


def _die_with_parent() -> None:
    """Runs in the child between fork and exec: one call, no import."""
    if _libc is not None:
        _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class _Program:
    """A program as a worker."""

    def __init__(self, command: list[str], env: dict[str, str], out: str, err: str) -> None:
        with ExitStack() as files:
            streams = [files.enter_context(open(path, "w")) if path else None for path in (out, err)]
            # A session of its own: signals reach what the worker starts, too, and the terminal's come once, from the launcher.
            self._process = subprocess.Popen(
                command, env=env, stdout=streams[0], stderr=streams[1], start_new_session=True, preexec_fn=_die_with_parent
            )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def result(self) -> Any:
        return None


def _function(function: Callable[..., Any], args: tuple[Any, ...], env: dict[str, str], out: str, err: str, results: Any) -> None:
    """Run a function in a worker process."""
    os.setsid()
    _die_with_parent()
    os.environ.update(env)
    for path, descriptor in ((out, 1), (err, 2)):
        if path:
            with open(path, "w") as file:
                os.dup2(file.fileno(), descriptor)
    results.put(record(function)(*args))


class _Function:
    """A function in a process of its own as a worker."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], env: dict[str, str], out: str, err: str, start_method: str
    ) -> None:
        from ....multiprocessing.context import of_method  # late: programs need no multiprocessing

        context = of_method(start_method)
        self._results = context.SimpleQueue()
        self._process = context.Process(target=_function, args=(function, args, env, out, err, self._results))
        self._process.start()
        self.pid = self._process.pid
        self._value: Any = None

    def poll(self) -> int | None:
        if not self._results.empty():  # a large result: the process cannot end before it is read
            self._value = self._results.get()
        return self._process.exitcode

    def result(self) -> Any:
        if not self._results.empty():
            self._value = self._results.get()
        return self._value


class PContext:
    """Workers that were started together.

    Args:
        name: of what they run.
        entrypoint: a program's path, or a function.
        args, envs: by local rank.
        logs_specs: chooses files for their streams.
        log_line_prefixes: what stands before lines that are shown on the console and filed, by local rank.
        start_method: for functions: "spawn", "fork" or "forkserver".
    Raises:
        RuntimeError: arguments and environments of different ranks.
    Source: torch.distributed.elastic.multiprocessing.PContext.
    Example:
        >>> from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs
        >>> logs = DefaultLogsSpecs()
        >>> context = PContext("quiet", "/bin/true", {0: ()}, {0: {}}, logs)
        >>> context.start()
        >>> context.wait().is_failed()
        False
        >>> logs.remove()
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        start_method: str = "spawn",
    ) -> None:
        if set(args) != set(envs):
            raise RuntimeError(f"start_processes: arguments of ranks {sorted(args)}, but environments of ranks {sorted(envs)}")
        self.name, self.entrypoint, self.args, self.envs, self.nprocs = name, entrypoint, args, envs, len(args)
        self._files: LogsDest = logs_specs.reify(envs)
        self._prefixes, self._start_method = log_line_prefixes or {}, start_method
        self._workers: dict[int, Any] = {}
        self._tails: list[Tail] = []
        self._done: dict[int, int] = {}

    def start(self) -> None:
        """Start the workers, and what shows their output."""
        for rank in range(self.nprocs):
            out, err = self._files.stdouts[rank], self._files.stderrs[rank]
            env = {**self.envs[rank], "TORCHELASTIC_ERROR_FILE": self._files.error_files[rank]}
            if isinstance(self.entrypoint, str):
                command = [self.entrypoint, *(str(each) for each in self.args[rank])]
                self._workers[rank] = _Program(command, {**os.environ, **env}, out, err)
            else:
                self._workers[rank] = _Function(self.entrypoint, self.args[rank], env, out, err, self._start_method)
        console = consoles()
        for paths, stream in ((self._files.tee_stdouts, console[0]), (self._files.tee_stderrs, console[1])):
            for rank, path in paths.items():
                open(path, "a").close()
                self._tails.append(Tail(path, self._prefixes.get(rank, f"[{self.name}{rank}]:"), stream))
                self._tails[-1].start()

    def pids(self) -> dict[int, int]:
        """Process ids by local rank."""
        return {rank: worker.pid for rank, worker in self._workers.items()}

    def kill(self, local_rank: int) -> None:
        """End one worker by SIGKILL."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._workers[local_rank].pid, signal.SIGKILL)

    def poll(self) -> RunProcsResult | None:
        """Their results: None while none failed and one still runs."""
        failures = {}
        for rank, worker in self._workers.items():
            code = worker.poll()
            if code is not None:
                self._done[rank] = code
            if code:
                failures[rank] = ProcessFailure(rank, worker.pid, code, self._files.error_files[rank])
        if not failures and len(self._done) < self.nprocs:
            return None
        values = {} if failures else {rank: worker.result() for rank, worker in self._workers.items()}
        return RunProcsResult(values, failures, self._files.stdouts, self._files.stderrs)

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all have ended, or one has failed; the others are ended then.

        Args:
            timeout: seconds: without limit when negative; 0 looks once.
            period: seconds between two looks.
        Returns: how they ended; None when the time was over.
        """
        end = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while True:
            result = self.poll()
            if result is not None:
                self.close()
                return result
            if time.monotonic() >= end:
                return None
            time.sleep(min(period, 0.1))

    def _signal(self, number: int) -> None:
        for rank, worker in self._workers.items():
            if rank not in self._done:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, number)

    def _running(self) -> list[int]:
        for rank, worker in self._workers.items():
            code = worker.poll()
            if code is not None:
                self._done[rank] = code
        return [rank for rank in self._workers if rank not in self._done]

    def close(self, death_sig: signal.Signals | None = None, timeout: float = _SHUTDOWN) -> None:
        """End those that still run.

        Args:
            death_sig: the first signal; SIGTERM when None.
            timeout: seconds until SIGKILL.
        """
        if self._running():
            self._signal(death_sig or signal.SIGTERM)
            self._signal(signal.SIGCONT)  # one that is stopped would take the other signal never
            end = time.monotonic() + timeout
            while self._running() and time.monotonic() < end:
                time.sleep(0.02)
            self._signal(signal.SIGKILL)
            while self._running():
                time.sleep(0.01)
        for worker in self._workers.values():  # what they started and left behind
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)
        for tail in self._tails:
            tail.end()
        self._tails = []


class SubprocessContext(PContext):
    """Programs as workers.

    Args:
        name, entrypoint, args, envs, logs_specs, log_line_prefixes, start_method: see ``PContext``.
    Raises:
        RuntimeError: arguments and environments of different ranks.
    Source: torch.distributed.elastic.multiprocessing.SubprocessContext.
    Example:
        >>> issubclass(SubprocessContext, PContext)
        True
    """


class MultiprocessContext(PContext):
    """Functions as workers.

    Args:
        name, entrypoint, args, envs, logs_specs, log_line_prefixes, start_method: see ``PContext``.
    Raises:
        RuntimeError: arguments and environments of different ranks.
    Source: torch.distributed.elastic.multiprocessing.MultiprocessContext.
    Example:
        >>> issubclass(MultiprocessContext, PContext)
        True
    """


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    duplicate_stdout_filters: list[str] | None = None,
    duplicate_stderr_filters: list[str] | None = None,
) -> PContext:
    """Start workers: copies of a program, or processes that run a function.

    Args:
        name: of what they run.
        entrypoint: a program's path, or a function.
        args, envs: by local rank.
        logs_specs: chooses files for their streams.
        log_line_prefixes: what stands before lines on the console that are filed, too, by local rank.
        start_method: for functions.
        numa_options, duplicate_stdout_filters, duplicate_stderr_filters: not supported.
    Returns: a context, whose ``wait`` says how they ended.
    Raises:
        NotImplementedError: an option that is not supported.
    Source: torch.distributed.elastic.multiprocessing.start_processes.
    Example:
        >>> from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
        >>> logs = DefaultLogsSpecs(redirects=Std.OUT)
        >>> context = start_processes("hello", "/bin/echo", {0: ("hello",)}, {0: {}}, logs)
        >>> result = context.wait()
        >>> open(result.stdouts[0]).read()
        'hello\\n'
        >>> logs.remove()
    """
    given = {
        "numa_options": numa_options,
        "duplicate_stdout_filters": duplicate_stdout_filters,
        "duplicate_stderr_filters": duplicate_stderr_filters,
    }
    for option, value in given.items():
        if value:
            raise NotImplementedError(f"start_processes: {option} is not supported")
    kind = SubprocessContext if isinstance(entrypoint, str) else MultiprocessContext
    context = kind(name, entrypoint, args, envs, logs_specs, log_line_prefixes, start_method)
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context
