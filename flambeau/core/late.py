"""Things made at their first use: all of an operation beyond its table row.

A first use may happen in two threads at once, be interrupted at any bytecode by what a signal handler raises (Ctrl-C), be entered a
second time by a handler that computes something itself, and a process may be forked in its midst.  Three rules keep that harmless:

    publish whole   A thing is made locally and shown by one assignment, after everything that it depends on. An interrupt leaves it
                    unmade; threads that make it at once make it twice, and all get what was shown first (``made_once``).
    one at a time   What should not be made twice (modules of the back end, kernels, the pool) is made within ``make``, under one lock.
                    A handler that comes in its midst is told so, gets None and takes the reference kernel. ``alone`` is the same for
                    what a handler can do in between.
    not in a fork   A fork waits until no other thread is in ``make``, imports something of ours, or runs native code (a product, say):
                    the child would find locks that are never opened again. Other locks that may be held then are made anew in the child.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from . import native_threads

PATIENCE = 20.0  # seconds that a fork waits for other threads at most
HELD = 0.1  # seconds for which a fork may keep the interpreter, so that nothing begins between the last look and the fork; more if need be
_ROOT = __name__.partition(".")[0]
_LIBRARIES = frozenset((_ROOT, "numpy", "scipy", "ml_dtypes", "llvmlite"))  # what this package imports late


class made_once:
    """An attribute that is made by ``make(instance)`` when it is first read, and kept in the instance's ``__dict__``."""

    def __init__(self, make: Callable[[Any], Any]):
        self.make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.make(instance))


class _Own(threading.local):
    making = False


_own = _Own()
_lock = threading.RLock()


def make(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, which one thread at a time may do; None while this thread is in the midst of another call."""
    if _own.making:
        return None
    try:
        _own.making = True
        with _lock:
            result = function(*arguments)  # stored inside, so that an exception right after the call lets go of the lock
        return result
    finally:
        _own.making = False


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, which one thread at a time may do; a handler that comes in its midst does its own in between."""
    with _lock:
        result = function(*arguments)
    return result


def is_whole(module: Any) -> bool:
    """Whether a module is not in the midst of its own import."""
    return not getattr(module.__spec__, "_initializing", False)


def adopt(package: str) -> None:
    """Give a package the submodules that an interrupted import of it left loaded, as the import system does only when it loads them."""
    for name, module in list(sys.modules.items()):
        parent, _, child = name.rpartition(".")
        if parent == package:
            vars(sys.modules[package]).setdefault(child, module)


def submodule(package: str, name: str, names: Collection[str]) -> Any:
    """Implement the ``__getattr__`` of a package whose submodules ``names`` are imported at their first use.

    Raises:
        AttributeError: another name, or one that this installation lacks.
    """
    if name in names:
        full_name = f"{package}.{name}"
        try:
            return importlib.import_module(full_name)
        except ModuleNotFoundError as error:
            if error.name != full_name:
                raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def from_above(name: str) -> Any:
    """A module of a higher layer, such as 'func._dual', which a function of a lower one hands its work to. Not for use at import."""
    return importlib.import_module(f"{_ROOT}.{name}")


# -- forks ------------------------------------------------------------------------------------------------------------------------
# By thread, one entry per fork in progress: the locks that it got, and the usual switch interval.
_forking: dict[int, list[tuple[list[Any], float]]] = {}
held_in_forks: list[Callable[[], list[Any]]] = []  # functions that name locks around what a child must not find half done


def _imports(frame: FrameType | None) -> bool:
    """Whether a thread's stack is in the midst of an import of ours, or of an import that our code started."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            asked_by = frame.f_back.f_globals.get("__name__") if frame.f_back is not None else None
            if any(str(name).partition(".")[0] in _LIBRARIES for name in (frame.f_locals.get("name"), asked_by)):
                return True
        frame = frame.f_back
    return False


def _before_fork() -> None:
    """Wait for other threads, and keep the interpreter from them until the fork is done."""
    me = threading.get_ident()
    # A fork in the midst of this thread's own import must not wait for threads that wait for that import.
    end = time.monotonic() + (1.0 if _imports(sys._getframe()) else PATIENCE)
    locks = [lock for name in held_in_forks for lock in name()]  # first: who has one of them may want to make something
    locked = [lock for lock in (*locks, _lock) if lock.acquire(timeout=max(end - time.monotonic(), 0.0))]
    _forking.setdefault(me, []).append((locked, sys.getswitchinterval()))
    if len(sys._current_frames()) == 1:
        return
    held = HELD
    while time.monotonic() < end:
        sys.setswitchinterval(held)
        time.sleep(0.0001)  # gives the interpreter away; having it afresh, this thread may keep it for the switch interval
        threads = native_threads.others()
        last = time.monotonic() + held / 2
        while not any(_imports(frame) for thread, frame in sys._current_frames().items() if thread != me):
            resting = native_threads.at_rest(threads)
            if time.monotonic() > last:
                held *= 2  # for what takes longer in native code
                break
            if resting:
                return
            native_threads.pause(100)
        else:
            time.sleep(0.001)


def _after_fork() -> None:
    mine = _forking.get(threading.get_ident())
    if mine:
        locked, interval = mine.pop()
        sys.setswitchinterval(interval)
        for lock in locked:
            lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _after_fork()
    _forking.clear()
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
