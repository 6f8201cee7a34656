"""Linux's ``prctl`` for a process: the signal that its parent's death sends, and its thread's name."""

from __future__ import annotations

import ctypes
import operator
import os
import sys
from typing import Any

_SET_PDEATHSIG, _SET_NAME, _GET_NAME = 1, 15, 16
_LONGEST = 15  # bytes of a thread's name


def _call(option: int, argument: Any) -> None:
    if sys.platform != "linux":
        raise NotImplementedError(f"prctl: expected Linux, got {sys.platform}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0):
        raise RuntimeError(f"prctl: {os.strerror(ctypes.get_errno())}")


def _prctl_pr_set_pdeathsig(number: int) -> None:
    """Have this process get a signal when the thread that started it ends; 0 for none."""
    _call(_SET_PDEATHSIG, ctypes.c_ulong(operator.index(number)))


def _set_thread_name(name: str) -> None:
    """Name the current thread, as debuggers and ``ps`` show it.

    Raises:
        TypeError: no string.
        RuntimeError: more than 15 bytes.
    """
    if not isinstance(name, str):
        raise TypeError(f"_set_thread_name: expected a str, got {type(name).__name__}")
    encoded = name.encode()
    if len(encoded) > _LONGEST:
        raise RuntimeError(f"_set_thread_name: expected at most {_LONGEST} bytes, got {len(encoded)}")
    _call(_SET_NAME, ctypes.c_char_p(encoded))


def _get_thread_name() -> str:
    """The current thread's name."""
    name = ctypes.create_string_buffer(_LONGEST + 1)
    _call(_GET_NAME, name)
    return name.value.decode(errors="replace")
