"""Files in which a worker process tells its error, named by ``TORCHELASTIC_ERROR_FILE``. Source: torch.distributed.elastic."""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import signal
import socket
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....core.replacing import replace_file

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_NOT_AVAILABLE = "<N/A>"
OTHER_LOST = 75  # exit status of a worker that ended because another one was lost


class ProcessFailure:
    """The failure of one worker, as its file tells it.

    Args:
        local_rank: its number on this machine.
        pid: the process.
        exitcode: its exit status; of one that a signal ended, minus the signal.
        error_file: the file's path; ``<N/A>`` as an attribute where there is none.
    Attributes:
        message, timestamp: the error and its time, in seconds since 1970.
    Source: torch.distributed.elastic.multiprocessing.errors.ProcessFailure.
    Example:
        >>> ProcessFailure(0, 100, -9, "").message
        'Signal 9 (SIGKILL) received by PID 100'
    """

    def __init__(self, local_rank: int, pid: int, exitcode: int, error_file: str) -> None:
        self.local_rank, self.pid, self.exitcode, self.error_file = local_rank, pid, exitcode, error_file
        self.error_file_data: Any = {}
        self.timestamp = int(time.time())
        self.message: Any = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        told = _read(error_file) if error_file else None
        if told is not None:
            self.error_file_data, self.message = told, told["message"]
            info = self.message.get("extraInfo", {}) if isinstance(self.message, dict) else told
            self.timestamp = int(info.get("timestamp", self.timestamp))
            return
        self.error_file = _NOT_AVAILABLE
        if exitcode < 0:
            self.message = f"Signal {-exitcode} ({self.signal_name()}) received by PID {pid}"

    def signal_name(self) -> str:
        """The name of the signal that ended it; ``<N/A>`` where none did, or one without a name."""
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return _NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """The time as ``2026-01-31_12:00:00``."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


def _read(path: str) -> dict[str, Any] | None:
    """An error as it was told; None where nothing was, or something else: a program may write the file, and be killed meanwhile."""
    try:
        told = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and isinstance(told.get("message"), str | dict) else None


def _write(told: dict[str, Any]) -> None:
    """Write an error, whole, into the file that ``TORCHELASTIC_ERROR_FILE`` names, if it names one."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    try:
        replace_file(path, lambda file: file.write(json.dumps(told).encode()))
    except OSError as error:  # the error that is told is the one to be raised
        warnings.warn(f"Unable to write error to file {path}. {type(error).__name__}: {error}", stacklevel=2)


class ChildFailedError(Exception):
    """Workers failed.

    Args:
        name: of what they ran.
        failures: by global rank.
    Raises:
        AssertionError: there are none.
    Source: torch.distributed.elastic.multiprocessing.errors.ChildFailedError.
    Example:
        >>> ChildFailedError("train.py", {1: ProcessFailure(1, 100, 1, "")}).get_first_failure()[0]
        1
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError("failures is empty")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank and the failure of the worker that failed first, and not because another one did."""
        rank = min(self.failures, key=lambda each: (self.failures[each].exitcode == OTHER_LOST, self.failures[each].timestamp))
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """A table of the failures, with the first one at the end."""
        root, _ = self.get_first_failure()
        told = {rank: _told(i, rank, failure) for i, (rank, failure) in enumerate(self.failures.items())}
        title = f"{self.name} FAILED"
        width = min(60, max(len(line) for text in (title, *told.values()) for line in text.split("\n")))
        others = [text for rank, text in told.items() if rank != root] or ["  <NO_OTHER_FAILURES>"]
        border, section = boarder_delim * width, section_delim * width
        lines = ["", border, title, section, "Failures:", *others, section, "Root Cause (first observed failure):", told[root], border]
        return "\n".join(lines)


def _told(number: int, rank: int, failure: ProcessFailure) -> str:
    """The table's lines on one failure."""
    message: Any = failure.message
    if isinstance(message, dict):
        message = message.get("extraInfo", {}).get("py_callstack", message.get("message", _NOT_AVAILABLE)).replace("\n", "\n  ")
    name = failure.signal_name()
    rows = {
        "time": failure.timestamp_isoformat(),
        "host": socket.getfqdn(),
        "rank": f"{rank} (local_rank: {failure.local_rank})",
        "exitcode": f"{failure.exitcode} (pid: {failure.pid}) {'' if name == _NOT_AVAILABLE else f' ({name})'}",
        "error_file": failure.error_file,
        "traceback": message,
    }
    return "\n".join([f"[{number}]:", *(f"  {key:<10}: {value}" for key, value in rows.items())])


class ErrorHandler:
    """Writes a worker's error into its file.

    Source: torch.distributed.elastic.multiprocessing.errors.ErrorHandler.
    Example:
        >>> ErrorHandler().record_exception(ValueError("told to nobody"))
    """

    def initialize(self) -> None:
        """Have crashes of native code print where the program was."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # standard error may be no file
            warnings.warn(f"Unable to enable fault handler. {type(error).__name__}: {error}", stacklevel=2)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception into the file that ``TORCHELASTIC_ERROR_FILE`` names; nothing where it names none."""
        info = {"py_callstack": "".join(traceback.format_exception(e)), "timestamp": str(int(time.time()))}
        _write({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": info}})

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy the file of the worker that failed first to this process's own."""
        told = json.loads(Path(rootcause_error_file).read_text())
        if error_code and isinstance(told.get("message"), dict):
            told["message"]["errorCode"] = error_code
        _write(told)


def get_error_handler() -> ErrorHandler:
    """A handler as ``record`` uses it.

    Returns: a new handler.
    Source: torch.distributed.elastic.multiprocessing.errors.get_error_handler.
    Example:
        >>> type(get_error_handler()).__name__
        'ErrorHandler'
    """
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """A function, mostly a worker's whole program, whose error is written into the process's file and raised.

    Args:
        fn: the function.
        error_handler: writes; a new ``ErrorHandler`` when None.
    Returns: a function of the same arguments; its result is None where the program exits with status 0.
    Source: torch.distributed.elastic.multiprocessing.errors.record.
    Example:
        >>> record(lambda x: x + 1)(2)
        3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NOT_AVAILABLE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
