"""A loader's workers: the loop that fetches batches, and what a worker is told about itself."""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....core.exceptions import ExceptionWrapper
from ....core.random.generator import Generator
from . import messages, shared_memory, streams
from .fetch import _BaseDatasetFetcher, make_fetcher
from .streams import numpy_seed as _generate_state


@dataclass(frozen=True, slots=True)
class _RNG:
    """Random numbers of a worker that is a thread, where the program's own streams belong to all threads.

    Attributes:
        random_generator: seeded as Python's ``random`` is in a worker process.
        torch_generator: seeded as the default generator is there.
        numpy_generator: seeded as ``numpy.random`` is there.
    """

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: Any = None


@dataclass(frozen=True)
class WorkerInfo:
    """The number, seed and dataset of a loader's worker.

    Attributes:
        id: number of the worker, from 0.
        num_workers: how many there are.
        seed: of this worker's random numbers.
        dataset: this worker's copy of the dataset; with threads, the dataset.
        rng: generators of this thread's own; None in a process, where the global ones are.
        worker_method: ``'multiprocessing'`` or ``'thread'``.
    Source: torch.utils.data._utils.worker.WorkerInfo.
    Example:
        >>> class Shard(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         info = get_worker_info()
        ...         return iter(range(info.id, 6, info.num_workers))
        >>> [int(x) for x in torch.utils.data.DataLoader(Shard(), num_workers=2, worker_method="thread")]
        [0, 1, 2, 3, 4, 5]
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: _RNG | None = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


class _OfThread(threading.local):
    info: WorkerInfo | None = None


_thread = _OfThread()


def get_worker_info() -> WorkerInfo | None:
    """The calling worker's number, seed and dataset.

    Returns: a ``WorkerInfo`` in a worker of a loader; None elsewhere.
    Source: torch.utils.data.get_worker_info.
    Example:
        >>> get_worker_info() is None
        True
    """
    return _thread.info or _worker_info


@dataclass
class Job:
    """Description of the work for workers, sent when they start."""

    dataset: Any
    dataset_kind: int
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    worker_init_fn: Callable[[int], None] | None
    num_workers: int
    deterministic: bool
    shards: bool  # whether workers divide what a pipe gives

    def fetcher(self) -> _BaseDatasetFetcher:
        """Fetcher of samples from the dataset, from its beginning."""
        return make_fetcher(self.dataset_kind, self.dataset, self.auto_collation, self.collate_fn, self.drop_last)


@dataclass
class Epoch:
    """Message of a loader to its workers at the beginning of each pass."""

    number: int
    base_seed: int
    shared_seed: int | None = None  # of the order of pipes, the same for all workers
    state: dict[str, Any] | None = None  # of the worker, to go on from


class TaskLoop:
    """A worker's tasks, one after the other: what processes and threads have in common.

    Args:
        job: of all workers.
        worker: number of this one.
        own_streams: the random numbers that its datasets draw.
    """

    def __init__(self, job: Job, worker: int, own_streams: streams.OwnStreams) -> None:
        self.job, self.worker, self.streams = job, worker, own_streams
        self.ended = False
        self.epoch = self._base_seed = 0
        self._where = f"in DataLoader worker {'process' if isinstance(own_streams, streams.ProgramStreams) else 'thread'} {worker}"
        self._failure: ExceptionWrapper | None = None
        self._fetcher: _BaseDatasetFetcher | None = None
        self._start: Any = None
        self._last_state = b""

    def error(self) -> ExceptionWrapper:
        """The exception that is being handled, to be sent."""
        return ExceptionWrapper(where=self._where)

    def initialize(self) -> None:
        """The program's own initialisation; what it raises is told with the first task."""
        try:
            if self.job.shards:
                from ..graph_settings import apply_sharding

                apply_sharding(self.job.dataset, self.job.num_workers, self.worker)
            if self.job.worker_init_fn is not None:
                self.job.worker_init_fn(self.worker)
        except Exception:
            self._failure = self.error()

    def begin(self, epoch: Epoch) -> None:
        """Start a pass over the dataset."""
        self.epoch, self.ended, self._last_state, self._base_seed = epoch.number, False, b"", epoch.base_seed
        try:
            if epoch.shared_seed is not None:
                from ..graph_settings import seed_pipes  # late: few datasets are pipes

                seed_pipes(self.job.dataset, epoch.shared_seed)
            state = epoch.state
            if state is not None and state["start"] is not None:
                self.streams.put_back(state["start"])
            # A stream may draw when it starts, which its continuation must draw again.
            self._start = self.streams.noted() if self.job.dataset_kind and not self.job.deterministic else None
            self._start_streams(streams.OF_DATASET)
            self._fetcher = self.job.fetcher()
            if state is not None and state["fetcher"] is not None:
                self._fetcher.load_state(state["fetcher"], self._start_streams)
            if state is not None and state["now"] is not None:
                self.streams.put_back(state["now"])
        except Exception:
            self._failure = self._failure or self.error()
            self._fetcher = None

    def _start_streams(self, number: int) -> None:
        """Start the streams of one batch, if each has streams of its own."""
        if self.job.deterministic:
            self.streams.seed_batch(self._base_seed, number)

    def perform(self, number: int, index: Any) -> list[Any] | None:
        """One task: a list with the data or the error, or with None when the stream ends; None when it had ended before."""
        if self.ended:
            return None
        if self._failure is not None:
            box = [self._failure]
            if self._fetcher is not None:
                self._failure = None
            return box
        assert self._fetcher is not None
        self._start_streams(number)
        try:
            return [self._fetcher.fetch(index)]
        except Exception as error:
            if isinstance(error, StopIteration) and self.job.dataset_kind:
                self.ended = True
                return [None]
            return [self.error()]

    def state(self) -> bytes | None:
        """State on which the next batch depends, pickled; None if it is the same as after the last task."""
        if self._fetcher is None:
            return None
        now = None if self.job.deterministic else self.streams.noted()
        state = pickle.dumps({"start": self._start, "now": now, "fetcher": self._fetcher.state()}, 5)
        if state == self._last_state:
            return None
        self._last_state = state
        return state


def enter_thread(job: Job, number: int) -> WorkerInfo:
    """Make the calling thread a worker; what :func:`get_worker_info` gives in it."""
    seed = job.base_seed + number
    numpy_generator = np.random.RandomState(_generate_state(job.base_seed, number))
    rng = _RNG(random.Random(seed), Generator().manual_seed(seed), numpy_generator)
    _thread.info = info = WorkerInfo(number, job.num_workers, seed, job.dataset, rng, "thread")
    return info


# -- processes ------------------------------------------------------------------------------------------------------------
ends_of_parent: set[socket.socket] = set()  # which a forked child inherits, and must not keep open


def _die_with(parent: int) -> None:
    """End this process when the parent does, whatever it is doing then."""

    def watch() -> None:
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while not poll.poll():
                pass
        finally:
            os._exit(1)

    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    except (AttributeError, OSError):
        return  # not Linux: noticed when the socket ends
    threading.Thread(target=watch, name="flambeau-parent-watch", daemon=True).start()


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = sock.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


LENGTH = struct.Struct("!Q")


def process_main(job: Job, number: int, sock: socket.socket, parent: int) -> None:
    """The main function of a worker process."""
    global _worker_info
    for other in list(ends_of_parent):  # the end of a loader that is inherited takes its own away
        other.close()
    ends_of_parent.clear()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent tells its workers
    _die_with(parent)
    from ....ops import set_num_threads  # late: it starts nothing, and only workers need it

    set_num_threads(1)
    streams.seed_worker(job.base_seed, number)
    _worker_info = WorkerInfo(number, job.num_workers, job.base_seed + number, job.dataset)
    arena = shared_memory.current = shared_memory.Arena()
    loop = TaskLoop(job, number, streams.ProgramStreams())
    loop.initialize()
    try:
        while True:
            (length,) = LENGTH.unpack(_read_exactly(sock, LENGTH.size))
            message = pickle.loads(_read_exactly(sock, length))
            if isinstance(message, Epoch):
                loop.begin(message)
                continue
            task, index, freed = message
            arena.release(freed)
            box = loop.perform(task, index)
            if box is not None:
                _answer(sock, arena, loop, task, box)
    except (EOFError, ConnectionError):
        return


def _answer(sock: socket.socket, arena: shared_memory.Arena, loop: TaskLoop, task: int, box: list[Any]) -> None:
    ended, state = loop.ended, None
    error = box[0] if isinstance(box[0], ExceptionWrapper) else None
    try:
        state = loop.state()
        body, ranges = messages.pack(box, arena)
    except Exception:  # a batch that cannot be pickled, or no memory for it
        error = error or loop.error()
        try:
            body, ranges = messages.pack([error], arena)
        except Exception:
            body, ranges = messages.pack([_portable(error)], arena)
    files = arena.files_to_announce()
    reply = (loop.epoch, task, ended, body, ranges, state)
    messages.send(sock, (reply, [size for _, size in files]), [descriptor for descriptor, _ in files])


def _portable(error: ExceptionWrapper) -> ExceptionWrapper:
    """The same text with a type that every process knows."""
    error.exc_msg = f"{error.exc_type.__qualname__} cannot be pickled. {error.exc_msg}"
    error.exc_type = RuntimeError
    return error
