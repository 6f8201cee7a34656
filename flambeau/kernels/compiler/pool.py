"""The fork-join pool: native threads that run chunks of a kernel without Python.

Workers are plain pthreads inside one machine function.  They never touch the interpreter, so they need no GIL, show up in no list of
Python threads and cannot delay its exit.  A launch hands out the chunks of one job:

      caller                          ticket = | epoch : 32 | back : 16 | front : 16 |           worker (any number of them)
      ------                                                                                    ------
      epoch += 1, "nothing left"   -->  no thread takes anything while the job is written
      write function, arguments, n
      epoch += 1, front = back = 0 -->  chunks are there; wake sleepers, if there are any
      take chunks from the front   <->  compare-and-swap of the whole ticket: the chunk is ours   read the job, take chunks from the back
      wait until n chunks are done <--  done += 1                                                 (every other worker), run them,
                                                                                                  done += 1; none left: spin a while,
                                                                                                  then sleep on the epoch

A chunk can only be taken under the epoch whose job was read, so a worker that comes late finds nothing and harms nothing, and the caller
waits for chunks, never for workers: where a worker sleeps or is descheduled, the caller does its chunks itself.  Which thread runs a
chunk does not matter to the result, because chunks are cut by size alone.  It matters to the time: as one works from the front and
the other from the back, each core meets the same part of an array again in the next operation, and finds it in its own caches.  Of a
part that is larger than its cache a core would find nothing there, were it to begin at the same end again.  So every other job goes the
other way, from the middle to the ends, and what the job before has read and written last comes first:

      chunks          0  1  2  3 | 4  5  6  7
      one job         1> 2> 3> 4> <4 <3 <2 <1      the caller from the front, a worker from the back
      the next one   <4 <3 <2 <1   1> 2> 3> 4>     each behind its end goes on at the far end of the other's half

A job that a thread does alone goes upwards and downwards in turn.

A second caller (another Python thread, while a job runs) runs all its chunks itself.  After a fork the child starts with no workers.

Kernels look at the class of each array (``language``) and do nothing where one is none; the launch then raises NoArray. So it is called
with the GIL, which it gives to others while chunks run.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from string import Template
from threading import get_ident

import numpy as np

from ...core import late
from ...core.arrays.threads import Threads
from ...core.calls.interruption import NoArray
from ..data import text_beside
from . import image, target as targets
from .machine_code import compiled

# Looks at the ticket, some 20 to 40 ns each. A worker goes on looking for a millisecond or two after a job before it sleeps: longer than
# Python takes from one operation to the next, so that in a training step workers stay awake, and the system keeps them on cores of their
# own (one that is woken is often put on the caller's core, where it waits for its turn). The caller gives way much sooner.
SPIN = 50000
PATIENCE = 4000
_UNITS = 32767  # units of a job at most, so that both counts fit 16 bits; more chunks than that are taken in groups

# Places in the shared record (see pool.ll), in 8-byte words: the number of threads, and addresses in this process.
LIMIT, _PYTHON = 32, 56
_REFUSED = "a native kernel was given something else than a numpy.ndarray"

# By processor: the instruction of system calls and its registers, the numbers of futex and sched_yield, and how a thread pauses.
_PROCESSORS = {
    "x86_64": ("syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}", 202, 24, "@llvm.x86.sse2.pause()", ""),
    "aarch64": ("svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},{x4},{x5},~{memory}", 98, 124, "@llvm.aarch64.hint(i32 1)", "i32"),
}


def instructions(target: targets.Target) -> tuple[str, str, str]:
    """For a loop that waits: the declaration and the call of a pause, and the call that lets the processor's other threads run."""
    _, _, _, sched_yield, pause, operand = _processor(target)
    return f"declare void {pause.partition('(')[0]}({operand})", f"call void {pause}", _syscall(target, sched_yield)


def _processor(target: targets.Target) -> tuple[str, str, int, int, str, str]:
    return _PROCESSORS[target.triple.split("-")[0]]


def _syscall(target: targets.Target, number: int, a: str = "0", b: str = "0", c: str = "0") -> str:
    instruction, registers = _processor(target)[:2]
    return f'call i64 asm sideeffect "{instruction}", "{registers}"(i64 {number}, i64 {a}, i64 {b}, i64 {c}, i64 0, i64 0, i64 0)'


def source(target: targets.Target) -> tuple[str, str, str]:
    """The IR of ``launch(record, function, arguments, chunks)``, of ``worker(record)``, which never returns, and of
    ``replay(record, block, arrays)``, a list of launches."""
    futex = _processor(target)[2]
    declaration, pause, give_way = instructions(target)
    values = {
        "declaration": declaration,
        "pause": pause,
        "wait": _syscall(target, futex, "%epoch_number", "128", "%seen_epoch"),
        "wake": _syscall(target, futex, "%epoch_number", "129", "%more"),
        "give_way": give_way,
        "spin": SPIN,
        "patience": PATIENCE,
        "most_units": _UNITS,
        "class": targets.CLASS,
        "data": targets.ARRAY_DATA,
    }
    ir = Template(text_beside(__file__, "pool.ll"))
    launch, worker, replay = (ir.substitute(values, entry=entry) for entry in ("launch", "worker", "replay"))
    return launch, worker, replay


class Pool:
    """The workers of this process, started when first needed.

    ``launch(function, arguments, chunks)`` runs machine function ``function`` for chunks 0 to ``chunks`` and returns when all are done.
    ``replay(block, arrays)`` runs a list of launches, see pool.ll: ``block`` is an address, ``arrays`` has packed ids; where a flag stops
    it, the result is the number of the step to go on with, else 0.

    Attributes:
        direct: the launch's address and its first argument, for machine code; zeros while Python has to see launches.
        lists: the same of ``replay``, once it has been used.
    """

    def __init__(self) -> None:
        self.direct, self.lists = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 2)()
        self._forget()
        self.threads = Threads.count
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """As in a new process: after a fork there are no workers."""
        self.crew: Crew | None = None
        self.direct[:] = self.lists[:] = [0, 0]
        self.launch: Callable[[int, bytes, int], None] = self._start
        self.replay: Callable[[int, bytes | None], int] = self._first_replay

    def set_threads(self, count: int) -> None:
        """Set the number of threads that run a kernel, the caller's included."""
        self.threads = count
        if self.crew is not None:
            late.make(self.crew.grow, count)

    def _start(self, function: int, arguments: bytes, chunks: int) -> None:
        """A launch while there are no workers: starts them, and from then on launches go to machine code directly."""
        if late.make(self._started) is None:  # a signal handler's launch in the midst of that: it runs its chunks itself
            words = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
            if ctypes.CFUNCTYPE(ctypes.c_int64, *words)(function)(arguments, 0, chunks, id(np.ndarray)):
                raise NoArray(_REFUSED)
        else:
            self.launch(function, arguments, chunks)

    def _first_replay(self, block: int, arrays: bytes | None) -> int:
        crew = self.crew or late.make(self._started)
        replay = None if crew is None else late.make(crew.replaying)
        if replay is None:
            raise RuntimeError("replay: a signal handler cannot run a list of launches while its thread starts the pool")
        self.replay = replay
        self.lists[:] = [crew.lists, crew.record]
        result: int = replay(block, arrays)
        return result

    @contextmanager
    def watched(self, seen: Callable[[int, bytes, int], None]) -> Iterator[None]:
        """Within the block ``seen(function, arguments, chunks)`` is called before each launch of this thread. One thread at a time."""
        launch, thread = (self.crew or self._started()).launch, get_ident()

        def watching(function: int, arguments: bytes, chunks: int) -> None:
            if get_ident() == thread:
                seen(function, arguments, chunks)
            launch(function, arguments, chunks)

        direct = list[ctypes.c_uint64 | int](self.direct)
        self.direct[:] = [0, 0]
        self.launch = watching
        try:
            yield
        finally:
            self.launch = launch
            self.direct[:] = direct

    def start(self) -> None:
        """Start the workers, which the first launch would do.

        Raises:
            NoKernel: there is no compiler.
        """
        late.make(self._started)

    def _started(self) -> Crew:
        """The workers; where an earlier start was interrupted, it goes on from where that was."""
        crew = self.crew
        if crew is None:
            crew = self.crew = Crew()
        crew.grow(self.threads)
        self.launch = crew.launch
        self.direct[:] = [crew.address or 0, crew.record]
        return crew


class Crew:
    """Workers and the record that they share with who launches."""

    def __init__(self) -> None:
        target = targets.current()
        launch, worker, self._replay = source(target)
        self.address, self.worker = compiled(launch, "launch", target), compiled(worker, "worker", target)
        self.count = self.lists = 0
        self.record = image.pages(mmap.PAGESIZE)
        python = ctypes.pythonapi
        functions = (python.PyEval_SaveThread, python.PyEval_RestoreThread, python.PyErr_SetObject)
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        ctypes.memmove(self.record + 8 * _PYTHON, struct.pack("=6q", id(np.ndarray), *addresses, id(NoArray), id(_REFUSED)), 48)
        native = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)(self.address)
        self.launch = partial(native, self.record)

    def replaying(self) -> Callable[[int, bytes | None], int]:
        """The function that runs lists of launches, which most processes do not need."""
        self.lists = address = compiled(self._replay, "replay", targets.current())
        return partial(ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p)(address), self.record)

    def grow(self, threads: int) -> bool:
        """Let ``threads`` threads run a kernel. Whoever is there does the work, also where this is interrupted."""
        ctypes.c_int64.from_address(self.record + 8 * LIMIT).value = threads
        while self.count < threads - 1:
            if not _start_thread(self.worker, self.record):
                break  # a limit on threads
            self.count += 1
        return True


def _start_thread(function: int, record: int) -> bool:
    """Start a pthread in the worker's function, if the system allows one more. It blocks all signals: they are for Python's threads."""
    import signal

    libc = ctypes.CDLL(None)
    identity = ctypes.c_ulong()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        error = libc.pthread_create(ctypes.byref(identity), None, ctypes.c_void_p(function), ctypes.c_void_p(record))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if error:
        return False
    libc.pthread_detach(identity)
    return True


pool = Pool()
