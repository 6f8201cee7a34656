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
the other from the back, each core meets the same part of an array again in the next operation, and finds it in its own caches.

A second caller (another Python thread, while a job runs) runs all its chunks itself.  After a fork the child starts with no workers.

Kernels look at the class of each array (``language``) and do nothing where one is none; the launch then raises NoArray. So it is called
with the GIL, which it gives to others while chunks run.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from functools import partial

import numpy as np

from ...core import late
from ...core.arrays.threads import Threads
from ...core.calls.interruption import NoArray
from . import image, target as targets
from .machine_code import compiled

# Looks at the ticket, some 20 to 40 ns each. A worker goes on looking for a millisecond or two after a job before it sleeps: longer than
# Python takes from one operation to the next, so that in a training step workers stay awake, and the system keeps them on cores of their
# own (one that is woken is often put on the caller's core, where it waits for its turn). The caller gives way much sooner.
SPIN = 50000
PATIENCE = 4000
_UNITS = 32767  # units of a job at most, so that both counts fit 16 bits; more chunks than that are taken in groups

# Offsets in the shared record, in 8-byte words; what different threads write lies in different cache lines.
_TICKET, _DONE, _JOB, _SLEEPERS, _LIMIT, _BUSY, _COUNT, _PYTHON = 0, 8, 16, 24, 32, 40, 48, 56
# From ``_PYTHON`` on, addresses in this process: the class of arrays, the functions by which a launch lets other Python threads run and
# raises, and what it raises.
_CLASS, _RELEASE, _ACQUIRE, _RAISE, _ERROR, _WORDS = range(_PYTHON, _PYTHON + 6)
_REFUSED = "a native kernel was given something else than a numpy.ndarray"

_SYSCALL = {
    "x86_64": ("syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}", 202, 24),
    "aarch64": ("svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},{x4},{x5},~{memory}", 98, 124),
}
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def source(target: targets.Target) -> tuple[str, str]:
    """The IR of ``launch(record, function, arguments, chunks)`` and of ``worker(record)``, which never returns."""
    processor = target.triple.split("-")[0]
    instruction, registers, futex, sched_yield = _SYSCALL[processor]
    declaration, pause = _PAUSE[processor]

    def syscall(number: int, a: str = "0", b: str = "0", c: str = "0") -> str:
        return f'call i64 asm sideeffect "{instruction}", "{registers}"(i64 {number}, i64 {a}, i64 {b}, i64 {c}, i64 0, i64 0, i64 0)'

    take = f"""
{declaration}

; Take units of the present job while there are any, from its front (step 1) or its back (step 65536); the ticket that had none left.
define internal i64 @take(ptr %record, i64 %step) noinline nounwind {{
entry:
  %done_at = getelementptr i64, ptr %record, i64 {_DONE}
  %job = getelementptr i64, ptr %record, i64 {_JOB}
  %arguments_at = getelementptr i64, ptr %job, i64 1
  %units_at = getelementptr i64, ptr %job, i64 2
  %group_at = getelementptr i64, ptr %job, i64 3
  %chunks_at = getelementptr i64, ptr %job, i64 4
  %class_at = getelementptr i64, ptr %record, i64 {_CLASS}
  %array_class = load ptr, ptr %class_at, align 8
  %is_back = icmp ne i64 %step, 1
  br label %look
look:
  %ticket = load atomic i64, ptr %record seq_cst, align 8
  %function = load atomic ptr, ptr %job acquire, align 8
  %arguments = load atomic ptr, ptr %arguments_at acquire, align 8
  %units = load atomic i64, ptr %units_at acquire, align 8
  %group = load atomic i64, ptr %group_at acquire, align 8
  %chunks = load atomic i64, ptr %chunks_at acquire, align 8
  %front = and i64 %ticket, 65535
  %ticket_up = lshr i64 %ticket, 16
  %back = and i64 %ticket_up, 65535
  %gone = add i64 %front, %back
  %some = icmp ult i64 %gone, %units
  br i1 %some, label %try, label %none
try:
  %from_back0 = sub i64 %units, %back
  %from_back = sub i64 %from_back0, 1
  %unit = select i1 %is_back, i64 %from_back, i64 %front
  %following = add i64 %ticket, %step
  %swap = cmpxchg ptr %record, i64 %ticket, i64 %following seq_cst seq_cst
  %taken = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %taken, label %run, label %look
run:
  %first = mul i64 %unit, %group
  %end = add i64 %first, %group
  %short = icmp ult i64 %chunks, %end
  %last = select i1 %short, i64 %chunks, i64 %end
  %status = call i64 %function(ptr %arguments, i64 %first, i64 %last, ptr %array_class)
  %is_refused = icmp ne i64 %status, 0
  br i1 %is_refused, label %refused, label %ran
refused:
  %refused_at = getelementptr i64, ptr %job, i64 5
  store atomic i64 1, ptr %refused_at monotonic, align 8
  br label %ran
ran:
  %d = atomicrmw add ptr %done_at, i64 1 acq_rel
  br label %look
none:
  ret i64 %ticket
}}

"""
    worker = f"""
define ptr @worker(ptr %record) nounwind {{
entry:
  %limit_at = getelementptr i64, ptr %record, i64 {_LIMIT}
  %sleepers_at = getelementptr i64, ptr %record, i64 {_SLEEPERS}
  %count_at = getelementptr i64, ptr %record, i64 {_COUNT}
  %epoch_at = getelementptr i32, ptr %record, i64 1
  %epoch_number = ptrtoint ptr %epoch_at to i64
  %number = atomicrmw add ptr %count_at, i64 1 seq_cst
  %mine = add i64 %number, 1
  %odd = and i64 %mine, 1
  %is_odd = icmp eq i64 %odd, 1
  %step = select i1 %is_odd, i64 65536, i64 1
  br label %again
again:
  %limit = load atomic i64, ptr %limit_at monotonic, align 8
  %wanted = icmp ult i64 %mine, %limit
  br i1 %wanted, label %take, label %skip
take:
  %t = call i64 @take(ptr %record, i64 %step)
  br label %wait
skip:
  %u = load atomic i64, ptr %record seq_cst, align 8
  br label %wait
wait:
  %seen = phi i64 [%t, %take], [%u, %skip]
  %seen_epoch = lshr i64 %seen, 32
  br label %spin
spin:
  %i = phi i64 [0, %wait], [%i1, %still]
  %now = load atomic i64, ptr %record monotonic, align 8
  %now_epoch = lshr i64 %now, 32
  %new = icmp ne i64 %now_epoch, %seen_epoch
  br i1 %new, label %again, label %still
still:
  {pause}
  %i1 = add i64 %i, 1
  %long = icmp ugt i64 %i1, {SPIN}
  br i1 %long, label %sleep, label %spin
sleep:
  %s0 = atomicrmw add ptr %sleepers_at, i64 1 seq_cst
  %w = {syscall(futex, "%epoch_number", "128", "%seen_epoch")}
  %s1 = atomicrmw sub ptr %sleepers_at, i64 1 seq_cst
  br label %again
}}

"""
    launch = f"""
define internal i64 @chunks(ptr %record, ptr %function, ptr %arguments, i64 %chunks) noinline nounwind {{
entry:
  %limit_at = getelementptr i64, ptr %record, i64 {_LIMIT}
  %limit = load atomic i64, ptr %limit_at monotonic, align 8
  %one_thread = icmp ult i64 %limit, 2
  %one_chunk = icmp ult i64 %chunks, 2
  %alone = or i1 %one_thread, %one_chunk
  br i1 %alone, label %serial, label %ask
ask:
  %busy_at = getelementptr i64, ptr %record, i64 {_BUSY}
  %swap = cmpxchg ptr %busy_at, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %mine, label %launch, label %serial
serial:
  %class_at = getelementptr i64, ptr %record, i64 {_CLASS}
  %array_class = load ptr, ptr %class_at, align 8
  %status = call i64 %function(ptr %arguments, i64 0, i64 %chunks, ptr %array_class)
  ret i64 %status
launch:
  %old = load atomic i64, ptr %record monotonic, align 8
  %epoch = lshr i64 %old, 32
  %writing = add i64 %epoch, 1
  %writing_up = shl i64 %writing, 32
  %closed = or i64 %writing_up, 4294967295
  store atomic i64 %closed, ptr %record seq_cst, align 8
  %job = getelementptr i64, ptr %record, i64 {_JOB}
  %arguments_at = getelementptr i64, ptr %job, i64 1
  %units_at = getelementptr i64, ptr %job, i64 2
  %group_at = getelementptr i64, ptr %job, i64 3
  %chunks_at = getelementptr i64, ptr %job, i64 4
  %done_at = getelementptr i64, ptr %record, i64 {_DONE}
  %groups = udiv i64 %chunks, {_UNITS}
  %group = add i64 %groups, 1
  %rounded = add i64 %chunks, %groups
  %units = udiv i64 %rounded, %group
; release: who sees a part of the new job also sees that the old one is closed
  store atomic ptr %function, ptr %job release, align 8
  store atomic ptr %arguments, ptr %arguments_at release, align 8
  store atomic i64 %units, ptr %units_at release, align 8
  store atomic i64 %group, ptr %group_at release, align 8
  store atomic i64 %chunks, ptr %chunks_at release, align 8
  store atomic i64 0, ptr %done_at monotonic, align 8
  %refused_at = getelementptr i64, ptr %job, i64 5
  store atomic i64 0, ptr %refused_at monotonic, align 8
  %open_epoch = add i64 %epoch, 2
  %open = shl i64 %open_epoch, 32
  store atomic i64 %open, ptr %record seq_cst, align 8
  %sleepers_at = getelementptr i64, ptr %record, i64 {_SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepers_at seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %epoch_at = getelementptr i32, ptr %record, i64 1
  %epoch_number = ptrtoint ptr %epoch_at to i64
  %more = sub i64 %units, 1
  %w = {syscall(futex, "%epoch_number", "129", "%more")}
  br label %help
help:
  %t = call i64 @take(ptr %record, i64 1)
  br label %join
join:
  %i = phi i64 [0, %help], [%i1, %patient], [%i1, %rest]
  %done = load atomic i64, ptr %done_at acquire, align 8
  %all = icmp eq i64 %done, %units
  br i1 %all, label %finish, label %pause
pause:
  {pause}
  %i1 = add i64 %i, 1
  %impatient = icmp ugt i64 %i1, {PATIENCE}
  br i1 %impatient, label %rest, label %patient
patient:
  br label %join
rest:
  %y = {syscall(sched_yield)}
  br label %join
finish:
  %refused = load atomic i64, ptr %refused_at monotonic, align 8
  store atomic i64 0, ptr %busy_at release, align 8
  ret i64 %refused
}}

define void @launch(ptr %record, ptr %function, ptr %arguments, i64 %chunks) nounwind {{
entry:
  %release_at = getelementptr i64, ptr %record, i64 {_RELEASE}
  %release = load ptr, ptr %release_at, align 8
  %thread = call ptr %release()
  %refused = call i64 @chunks(ptr %record, ptr %function, ptr %arguments, i64 %chunks)
  %acquire_at = getelementptr i64, ptr %record, i64 {_ACQUIRE}
  %acquire = load ptr, ptr %acquire_at, align 8
  call void %acquire(ptr %thread)
  %is_refused = icmp ne i64 %refused, 0
  br i1 %is_refused, label %raise, label %end
raise:
  %raise_at = getelementptr i64, ptr %record, i64 {_RAISE}
  %raise_error = load ptr, ptr %raise_at, align 8
  %error_at = getelementptr i64, ptr %record, i64 {_ERROR}
  %error = load ptr, ptr %error_at, align 8
  %words_at = getelementptr i64, ptr %record, i64 {_WORDS}
  %words = load ptr, ptr %words_at, align 8
  call void %raise_error(ptr %error, ptr %words)
  br label %end
end:
  ret void
}}
"""
    return take + launch, take + worker


class Pool:
    """The workers of this process, started when first needed.

    ``launch(function, arguments, chunks)`` runs machine function ``function`` for chunks 0 to ``chunks`` and returns when all are done.
    """

    def __init__(self) -> None:
        self._forget()
        self.threads = Threads.count
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """As in a new process: after a fork there are no workers."""
        self.crew: Crew | None = None
        self.launch: Callable[[int, bytes, int], None] = self._start

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

    def _started(self) -> Crew:
        """The workers; where an earlier start was interrupted, it goes on from where that was."""
        crew = self.crew
        if crew is None:
            crew = self.crew = Crew()
        crew.grow(self.threads)
        self.launch = crew.launch
        return crew


class Crew:
    """Workers and the record that they share with who launches."""

    def __init__(self) -> None:
        target = targets.current()
        launch, worker = source(target)
        address, self.worker = compiled(launch, "launch", target), compiled(worker, "worker", target)
        self.count = 0
        self.record = image.pages(mmap.PAGESIZE)
        python = ctypes.pythonapi
        functions = (python.PyEval_SaveThread, python.PyEval_RestoreThread, python.PyErr_SetObject)
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        ctypes.memmove(self.record + 8 * _PYTHON, struct.pack("=6q", id(np.ndarray), *addresses, id(NoArray), id(_REFUSED)), 48)
        native = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)(address)
        self.launch = partial(native, self.record)

    def grow(self, threads: int) -> bool:
        """Let ``threads`` threads run a kernel. Whoever is there does the work, also where this is interrupted."""
        ctypes.c_int64.from_address(self.record + 8 * _LIMIT).value = threads
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
