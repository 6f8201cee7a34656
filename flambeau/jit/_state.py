"""State of scripting and tracing: what this thread does, and the exceptions and warnings of both. Source: torch.jit._state."""

from __future__ import annotations

import os
import threading
from typing import Any

__all__ = ["Error", "ScriptWarning", "TracerWarning", "TracingCheckError", "disable", "enable", "is_scripting", "is_tracing"]


class JITException(Exception):
    """An error inside a compiled program.

    Source: torch.jit.Error.
    Example:
        >>> issubclass(torch.jit.Error, Exception)
        True
    """

    __module__ = "torch.jit"


Error = JITException


class ScriptWarning(Warning):
    """Something about a program that is being compiled.

    Source: torch.jit.ScriptWarning.
    Example:
        >>> issubclass(torch.jit.ScriptWarning, Warning)
        True
    """


class TracerWarning(Warning):
    """A trace may not say what the program does.

    Source: torch.jit.TracerWarning.
    Example:
        >>> issubclass(torch.jit.TracerWarning, Warning)
        True
    """


class TracingCheckError(Exception):
    """A traced program that does not compute what the program does.

    Source: torch.jit.TracingCheckError.
    Example:
        >>> issubclass(torch.jit.TracingCheckError, Exception)
        True
    """


class _Thread(threading.local):
    """State of a thread.

    Attributes:
        scripted: how many scripted functions are running. tracer: the recorder of the trace that is being made.
    """

    scripted = 0
    tracer: Any = None


thread = _Thread()


class _Enabled:
    """Whether ``script`` and ``trace`` do anything: not with ``PYTORCH_JIT=0`` in the environment."""

    def __init__(self) -> None:
        self.off: bool | None = None

    @property
    def enabled(self) -> bool:
        return os.environ.get("PYTORCH_JIT", "1") != "0" if self.off is None else not self.off

    def __bool__(self) -> bool:
        return self.enabled


_enabled = _Enabled()


def enable() -> None:
    """Have ``script`` and ``trace`` do their work again."""
    _enabled.off = False


def disable() -> None:
    """Have ``script`` and ``trace`` give back what they get."""
    _enabled.off = True


def is_scripting() -> bool:
    """Whether a scripted function or module is running.

    Returns: a bool; code under ``if torch.jit.is_scripting()`` is what a compiler sees, too.
    Source: torch.jit.is_scripting.
    Example:
        >>> torch.jit.is_scripting()
        False
    """
    return thread.scripted > 0


def is_tracing() -> bool:
    """Whether operations are being traced.

    Returns: a bool.
    Source: torch.jit.is_tracing.
    Example:
        >>> torch.jit.is_tracing()
        False
    """
    return thread.tracer is not None
