"""Whether another thread is in the midst of native code: what a fork waits for, beside imports.

A thread that multiplies matrices may hold locks of the library that does it (OpenBLAS has several), and in a child that is forked meanwhile
nobody opens them again.  No lock of Python's tells: native code runs without any, whoever calls it, be it a kernel, NumPy or SciPy, each
with a library of its own, or a program.  The system does tell.  While the thread that forks keeps the interpreter, no other can begin with
anything native; who is in its midst comes to the end of it, and then sleeps until the interpreter is free:

    who forks   keeps the interpreter .... look ............ look ...... look: nobody has run since the last one .. fork
    a product   native code zzz (waits for the interpreter)
    another     zzz (waits for the library's lock) native code zzz (waits for the interpreter)

So two looks between which no thread has run find none that could open a lock later, but for those who sleep for something outside of this
process.  Where the system has no such list of threads nobody is waited for.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

_BUSY = (b"R", b"D")  # running or about to, and in the midst of something that the system does for it
_FACTS = (b"State:", b"voluntary_ctxt_switches:", b"nonvoluntary_ctxt_switches:")


@cache
def _library() -> Any:
    """The C library, whose functions called from here keep the interpreter; None on a system without a list of threads."""
    if not os.path.exists("/proc/thread-self/status"):
        return None
    import ctypes

    library = ctypes.PyDLL(None)
    library.read.argtypes, library.read.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t), ctypes.c_ssize_t
    return library, ctypes.create_string_buffer(1 << 13)


def _slept(native_id: int) -> tuple[bytes, ...] | None:
    """Number of times that a sleeping thread has run so far, as the system counts; None for a thread that runs."""
    library, buffer = _library()
    descriptor = library.open(b"/proc/self/task/%d/status" % native_id, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor < 0:
        return ()  # it has ended
    count = library.read(descriptor, buffer, len(buffer))
    library.close(descriptor)
    lines = buffer.raw[: max(count, 0)].splitlines()
    state, *switches = [line.split()[1] for line in lines if line.startswith(_FACTS)] or [b""]
    return None if state in _BUSY else tuple(switches)


def others() -> list[int]:
    """The system's numbers of all threads but this one that may run Python."""
    me = threading.get_native_id()
    return [thread.native_id for thread in threading.enumerate() if thread.native_id not in (None, me)]


def at_rest(threads: list[int]) -> bool:
    """Whether none of these threads runs; asked by a thread that keeps the interpreter, and does so all along."""
    if _library() is None:
        return True
    before = []
    for native_id in threads:
        slept = _slept(native_id)
        if slept is None:
            return False
        before.append(slept)
    return [_slept(native_id) for native_id in threads] == before


def pause(microseconds: int) -> None:
    """Let other threads' native code run for a while, and no Python."""
    pair = _library()
    if pair is not None:
        pair[0].usleep(microseconds)
