"""Telling a kernel's errors from exceptions that merely arrived while a kernel ran.

After a kernel's error a fast path takes the slow path, which does the work or explains why it cannot be done.  But a signal
handler (a timeout, say) may raise at any bytecode, and so may another thread by ``PyThreadState_SetAsyncExc``.  Such an exception is not
about the operands: it must reach the caller, and what was already written must not be written a second time.

A kernel's error has one of a few builtin types and was raised in NumPy, SciPy, Python's own library or this package, so that every
frame of its traceback below the fast path's own belongs to one of them.  A handler's frame is foreign.

NumPy's functions that are also methods of arrays (``np.take``, ``np.argsort``, ...) make a second attempt after a TypeError, whoever raised
it; this package calls the methods.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np


class NoArray(TypeError):
    """A native kernel was given something else than an array of NumPy's own class, and did nothing."""


_KERNEL_ERRORS = (
    NoArray,
    TypeError,
    ValueError,
    IndexError,
    RuntimeError,
    NotImplementedError,
    OverflowError,
    ZeroDivisionError,
    struct.error,
    FloatingPointError,
)
GENERATED = "<flambeau: "  # how the file names of generated functions begin
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = os.path.join(os.path.dirname(_NUMPY.rstrip(os.sep)), "scipy") + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_OURS = (_PACKAGE, _NUMPY, _SCIPY, GENERATED, "<frozen ")


def trust(*beginnings: str) -> None:
    """Count source files whose names begin so, those of a library that runs kernels, as this package's."""
    global _OURS
    _OURS = (*_OURS, *beginnings)


def is_ours(file: str) -> bool:
    """Whether a source file belongs to this package or to what computes for it."""
    return file.startswith(_OURS) or (file.startswith(_STDLIB) and "-packages" not in file[len(_STDLIB) :])


def source_files(*functions: Any) -> tuple[str, ...]:
    """The source files of functions that are declared outside of this package."""
    files = {getattr(getattr(function, "__code__", None), "co_filename", None) for function in functions}
    return tuple(sorted(file for file in files if file is not None and not is_ours(file)))


def _is_foreign(error: BaseException, files: tuple[str, ...]) -> bool:
    """Whether a frame below the one that caught ``error`` belongs to neither this package nor ``files``."""
    traceback = error.__traceback__
    while traceback is not None and (traceback := traceback.tb_next) is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_ours(name) and name not in files:
            return True
    return False


def is_interruption(error: BaseException, *files: str) -> bool:
    """Whether ``error``, caught around a kernel, is none of the kernel's errors.

    Args:
        files: source files, beside those of this package, of what was called.
    """
    kind = error.__class__
    return (kind not in _KERNEL_ERRORS and not (kind.__module__ or "").startswith("numpy")) or _is_foreign(error, files)


def pass_on(error: BaseException, *files: str) -> None:
    """Raise ``error`` again if it came from outside of what was called; for handlers of certain types of exceptions."""
    if _is_foreign(error, files):
        raise error


def is_busy(error: RuntimeError) -> bool:
    """Whether ``error`` says that a context, entered around a kernel, was in use already: nothing has run."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None and str(error).startswith("cannot enter context")
