"""Starting processes that run one function, and learning how they ended. Source: torch.multiprocessing.spawn."""

from __future__ import annotations

import logging
import multiprocessing.connection
import os
import secrets
import signal
import sys
import tempfile
import time
import traceback
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ._prctl import _prctl_pr_set_pdeathsig
from .context import of_method

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes",
]  # fmt: skip

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
_GRACE = 30.0  # seconds between SIGTERM and SIGKILL, unless ``join`` is told otherwise
_log = logging.getLogger(__name__)


class ProcessException(Exception):
    """A process did not end well.

    Args:
        msg: what happened.
        error_index: the process's index.
        pid: its process id.
    Attributes:
        error_index, error_pid, pid: as given.
    Source: torch.multiprocessing.spawn.ProcessException.
    Example:
        >>> error = ProcessException("ended", error_index=1, pid=4711)
        >>> error.error_index, error.error_pid
        (1, 4711)
    """

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    @property
    def error_pid(self) -> int:
        return self.pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """An exception left a process's function; the message has its traceback.

    Source: torch.multiprocessing.ProcessRaisedException.
    Example:
        >>> try:
        ...     start_processes(divmod, (0,), start_method="fork")
        ... except ProcessRaisedException as error:
        ...     print(error.error_index, str(error).splitlines()[-1].partition(":")[0])
        0 ZeroDivisionError
    """

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process was ended by a signal, or ended itself with a status.

    Args:
        exit_code: its status; the signal's number, negative, where one ended it.
        signal_name: the signal's name.
    Source: torch.multiprocessing.ProcessExitedException.
    Example:
        >>> try:
        ...     start_processes(os._exit, start_method="fork", nprocs=2)
        ... except ProcessExitedException as error:
        ...     print(error.error_index, error.exit_code)
        1 1
    """

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _wrap(fn: Any, i: int, args: Any, error_file: str) -> None:
    """Run the function in a process; what it raises is written down for the parent."""
    parent = multiprocessing.parent_process()
    if sys.platform == "linux":
        # Ends with its parent, also where Ctrl-C is ignored, as it is in what a shell runs in the background.
        _prctl_pr_set_pdeathsig(signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT)
    try:
        if parent is not None and not parent.is_alive():
            raise KeyboardInterrupt
        fn(i, *args)
    except KeyboardInterrupt:
        # The parent got it too, and tells of it. One that is gone would never take what waits to be sent to it.
        if parent is not None and not parent.is_alive():
            os._exit(1)
    except Exception:
        # Readable for the user alone, and never a file that somebody else has put there.
        with os.fdopen(os.open(error_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


def _remove(paths: list[str], owner: int) -> None:
    """Remove files, in the process that named them: what it forks has its finalizers too."""
    if os.getpid() == owner:
        for path in paths:
            with suppress(OSError):
                os.unlink(path)


class ProcessContext:
    """Processes that were started together.

    Args:
        processes: the processes.
        error_files: for each the name of the file that gets the traceback of what it raises.
    Attributes:
        processes, error_files: as given.
        sentinels: index of each process that has not been joined, by its sentinel.
    Source: torch.multiprocessing.ProcessContext.
    Example:
        >>> context = start_processes(abs, nprocs=2, join=False, start_method="fork")
        >>> while not context.join():
        ...     pass
        >>> [process.exitcode for process in context.processes]
        [0, 0]
    """

    def __init__(self, processes: list[Any], error_files: list[str]):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}
        weakref.finalize(self, _remove, list(error_files), os.getpid())

    def pids(self) -> list[int]:
        """Process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends; whether all have ended well. When one did not, the others are ended.

        Args:
            timeout: seconds to wait at most; without limit when None.
            grace_period: seconds for the others to end after SIGTERM, before SIGKILL; 30 when None.
        Raises:
            ProcessRaisedException: an exception left the function in a process.
            ProcessExitedException: a process ended otherwise than by returning.
        Source: torch.multiprocessing.ProcessContext.join.
        """
        ended = multiprocessing.connection.wait(self.sentinels.keys(), timeout) if self.sentinels else []
        failed = None
        for sentinel in ended:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if failed is None and self.processes[index].exitcode != 0:
                failed = index
        if failed is None:
            return not self.sentinels
        self._end(_GRACE if grace_period is None else grace_period)
        raise self._report(failed)

    def _end(self, grace_period: float) -> None:
        """End the processes that still run."""
        for process in self.processes:
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        end = time.monotonic() + grace_period
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                _log.warning("Unable to shutdown process %s via SIGTERM, forcefully exiting via SIGKILL", process.pid)
                process.kill()
        for process in self.processes:
            process.join()

    def _report(self, index: int) -> ProcessException:
        """Error for a process that failed: its signal, its exit code or its exception."""
        process = self.processes[index]
        try:
            with open(self.error_files[index], encoding="utf-8") as file:
                trace = file.read()
        except FileNotFoundError:
            trace = ""
        if trace:
            message = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code >= 0:
            return ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(f"process {index} terminated with signal {name}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The old name of ``ProcessContext``.

    Args:
        processes, error_files: as there.
    Source: torch.multiprocessing.SpawnContext.
    Example:
        >>> SpawnContext([], []).pids()
        []
    """

    def __init__(self, processes: list[Any], error_files: list[str]):
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """Start processes that run ``fn(i, *args)`` for ``i`` from 0 to ``nprocs``.

    Args:
        fn: the function; for "spawn" and "forkserver" one of a module.
        join: wait for all of them, and raise when one does not end well.
        daemon: whether they are ended with this process.
        start_method: "fork", "spawn" or "forkserver". With the last, TORCH_MP_PARALLEL_START=1 starts them at once.
    Returns:
        None where ``join``, else a ``ProcessContext``.
    Raises:
        ProcessException: see ``ProcessContext.join``.
        ValueError: there is no such start method.
    Source: torch.multiprocessing.start_processes.
    Example:
        >>> start_processes(abs, nprocs=2, start_method="fork")
    """
    context = of_method(start_method)
    token = os.path.join(tempfile.gettempdir(), f"flambeau-error-{secrets.token_hex(8)}")
    error_files = [f"{token}-{index}" for index in range(nprocs)]
    processes = [context.Process(target=_wrap, args=(fn, i, args, file), daemon=daemon) for i, file in enumerate(error_files)]
    if start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START, "0") == "1" and nprocs > 0:
        with ThreadPoolExecutor(max_workers=nprocs) as executor:
            list(executor.map(lambda process: process.start(), processes))
    else:
        for process in processes:
            process.start()
    started = ProcessContext(processes, error_files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """Start fresh interpreters that run ``fn(i, *args)`` for ``i`` from 0 to ``nprocs``.

    When one does not end well, the others are ended, and what happened is raised here, with the traceback there.

    Args:
        fn: a function of a module; the program that calls this guards itself by ``if __name__ == "__main__"``.
        join: wait for all of them.
        daemon: whether they are ended with this process.
        start_method: "spawn"; for others call ``start_processes``.
    Returns:
        None where ``join``, else a ``ProcessContext``.
    Raises:
        ProcessException: see ``ProcessContext.join``.
    Source: torch.multiprocessing.spawn.
    Example:
        >>> spawn(abs)
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
