"""Trials: each in a child of its own, forked from an interpreter that is warm but has not yet used what is to be tried."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

# What is not ours to mend: an import of NumPy, say, cannot be taken up again where it was interrupted.
LIBRARIES = ("numpy", "numpy.random", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.linalg", "ml_dtypes", "ctypes.util")
LIMIT = 60.0  # seconds that a trial may take, on a machine that does other things too


def warm(*modules: str) -> None:
    """Import what trials start with."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (*LIBRARIES, *modules):
        importlib.import_module(name)


def in_child(trial: Callable[..., Any], *arguments: Any, limit: float = LIMIT) -> Any:
    """What ``trial(*arguments)`` returns (as JSON has it), from a forked child.

    Raises:
        AssertionError: the trial failed, died or did not end; the message has its traceback.
    """
    ours, theirs = os.pipe()
    with tempfile.TemporaryFile("w+") as log:
        child = os.fork()
        if not child:
            os.close(ours)
            _run(trial, arguments, theirs, log)
        os.close(theirs)
        text = None
        try:
            text = _read(ours, time.monotonic() + limit)
        finally:
            os.close(ours)
            if text is None:
                os.kill(child, signal.SIGABRT)  # faulthandler writes where it hangs
            _, status = os.waitpid(child, 0)
            try:
                os.killpg(child, signal.SIGKILL)  # what it forked itself
            except ProcessLookupError:
                pass
        log.seek(0)
        said = log.read()
        if text is None:
            raise AssertionError(f"did not end within {limit} s\n{said}")
        if not text:
            raise AssertionError(f"died with status {status}\n{said}")
    report = json.loads(text)
    if "failure" in report:
        raise AssertionError(report["failure"] + said)
    return report["result"]


def _read(pipe: int, end: float) -> str | None:
    """What comes from a pipe until it is closed; None if it is not in time."""
    parts = []
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        part = os.read(pipe, 1 << 16)
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def _run(trial: Callable[..., Any], arguments: tuple[Any, ...], pipe: int, log: Any) -> None:
    """The child: never returns."""
    status = 1
    try:
        os.setsid()
        faulthandler.enable(log)
        os.dup2(log.fileno(), 2)
        try:
            report = {"result": trial(*arguments)}
        except BaseException:
            report = {"failure": traceback.format_exc()}
        sys.settrace(None)
        sys.setprofile(None)
        with os.fdopen(pipe, "w") as file:
            file.write(json.dumps(report))
        status = 0
    finally:
        os._exit(status)
