"""One pass over a loader: in this process, or with workers."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ....core.exceptions import ExceptionWrapper
from ....core.profiling import profiled
from ....core.state import profiling
from ..sampler import random_seed
from . import progress as progress_of, streams
from .crew import Answer, ProcessCrew, ThreadCrew
from .fetch import make_fetcher
from .pin_memory import accelerator_available, pin_memory
from .progress import Progress
from .worker import Epoch, Job

if TYPE_CHECKING:
    from ..dataloader import DataLoader

_STREAM = 1  # the kind of dataset that is iterated


# What PyTorch's loaders do not have, and so nothing that stands in for one: a class with an ``__init__`` of its own, or another object.
_OURS = {"_is_iter_pipe": False, "_is_pipe": False, "_state_to_resume": None, "deterministic": False, "worker_method": "process"}


def _completed(loader: Any) -> None:
    """Give a loader that was not made by ``DataLoader.__init__`` what a pass looks at."""
    for name, value in _OURS.items():
        if not hasattr(loader, name):
            setattr(loader, name, value)


class _BaseDataLoaderIter:
    """Base class of both kinds of passes: the indices, the seeds, and the number of batches that came so far."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        _completed(loader)
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory and _can_pin(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._deterministic = loader.deterministic
        self._begin(loader, seeded=True)

    def _begin(self, loader: DataLoader[Any], seeded: bool) -> None:
        """Start a pass, or go on in the middle of one whose state the loader was given."""
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._num_yielded = 0
        state: Any = loader._state_to_resume
        self._resumed, loader._state_to_resume = state, None
        resumes = state is not None and "_start" in state
        if state is not None:
            progress_of.put_back_samplers(loader, state["_samplers"])
            seeded = state["_seeded"]
        # In the middle of a pass nothing is drawn from the program's streams: that was done when the pass began.
        with streams.apart(streams.from_plain(state["_start"])) if resumes else nullcontext():
            progress = self._progress = Progress(streams.noted(), progress_of.noted_samplers(loader), seeded)
            # The order of pipes, the same in all workers. PyTorch draws this seed first.
            self._shared_seed = random_seed(loader.generator) if loader._is_iter_pipe else None
            indices: Iterator[Any] = iter(self._index_sampler)
            if seeded:
                # Drawn without workers too, so that their number does not change the random numbers of the program. The sampler
                # above draws its own seed later, with the first index.
                self._base_seed = random_seed(loader.generator)
            if resumes:
                progress.position, progress.ahead = state["_position"], set(state["_ahead"])
                self._num_yielded = progress.yielded = state["_num_yielded"]
            if not self._deterministic:
                progress_of.skip(indices, progress.position)
            if resumes or self._deterministic:
                indices = itertools.chain(list(itertools.islice(indices, 1)), indices)
        if state is not None:
            self._base_seed = state["_base_seed"] if resumes or not seeded else self._base_seed
        if self._deterministic:
            indices = _drawn_apart(indices, self._base_seed)
            progress_of.skip(indices, progress.position)
        progress.base_seed = self._base_seed
        self._sampler_iter = enumerate(indices, progress.position)
        loader._progress = progress

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _next_task(self) -> tuple[int, Any]:
        """The number of the next batch, and its indices; batches that came before their turn are left out."""
        while True:
            number, index = next(self._sampler_iter)
            if number not in self._progress.ahead:
                return number, index

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        try:
            if profiling:
                with profiled(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
                    data = self._next_data()
            else:
                data = self._next_data()
        except StopIteration:
            self._progress.finished = True
            raise
        self._num_yielded += 1
        self._progress.yielded = self._num_yielded
        promised = self._IterableDataset_len_called
        if self._dataset_kind == _STREAM and promised is not None and self._num_yielded > promised:
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {promised}"
                f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
            )
            if self._num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica "
                    "at each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warnings.warn(message, stacklevel=2)
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


def _drawn_apart(indices: Iterator[Any], base_seed: int) -> Iterator[Any]:
    """Indices whose sampler draws from streams of its own: how far it is ahead does not show in the program's."""
    state = None
    while True:
        with streams.apart(state):
            if state is None:
                streams.ProgramStreams().seed_batch(base_seed, streams.OF_SAMPLER)
            index = next(indices, _END)
            state = streams.noted()
        if index is _END:
            return
        yield index


_END = object()


def _can_pin(loader: DataLoader[Any]) -> bool:
    """Whether pinning makes sense; says so when it does not."""
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device; "
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=5,
        )
    if accelerator_available():
        return True
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.", stacklevel=5
    )
    return False


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass that loads in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        state: Any = self._resumed
        if self._shared_seed is not None:
            from ..graph_settings import seed_pipes  # late: few datasets are pipes

            pipe: Any = self._dataset
            seed_pipes(pipe, self._shared_seed)
        fetcher_state = progress_of.fetcher_state(state)
        with self._own_streams(streams.OF_DATASET, state["_start"] if fetcher_state is not None else None):
            self._dataset_fetcher = make_fetcher(self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last)
            if fetcher_state is not None:
                self._dataset_fetcher.load_state(fetcher_state, self._start_streams)
        self._progress.fetcher = self._dataset_fetcher

    @contextmanager
    def _own_streams(self, number: int, start: Any = None) -> Iterator[None]:
        """Context with the streams of one batch where they are the loader's own, or those of the pass that is continued."""
        if not self._deterministic and start is None:
            yield
            return
        with streams.apart(None if start is None else streams.from_plain(start)):
            self._start_streams(number)
            yield

    def _start_streams(self, number: int) -> None:
        if self._deterministic:
            streams.ProgramStreams().seed_batch(self._base_seed, number)

    def _next_data(self) -> Any:
        number, index = self._next_task()
        self._progress.position = number + 1
        if self._deterministic:
            with self._own_streams(number):
                data = self._dataset_fetcher.fetch(index)
        else:
            data = self._dataset_fetcher.fetch(index)
        return pin_memory(data) if self._pin_memory else data


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass with workers, which have ``prefetch_factor`` tasks each.

    Tasks are numbered in order and dealt out in turn. An answer that comes early waits for its turn, unless ``in_order=False``.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._shutdown = True  # until there are workers
        if not loader.prefetch_factor or loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        super().__init__(loader)
        if self._shared_seed is not None and self._resumed is None:
            random_seed(loader.generator)  # PyTorch draws the seed of pipes a second time, of no use
        self._prefetch_factor = loader.prefetch_factor
        self._persistent_workers = loader.persistent_workers
        self._in_order = loader.in_order
        job = Job(
            self._dataset,
            self._dataset_kind,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            self._base_seed,
            loader.worker_init_fn,
            self._num_workers,
            self._deterministic,
            loader._is_pipe,
        )
        threads = loader.worker_method == "thread"
        self._crew: Any = ThreadCrew(job) if threads else ProcessCrew(job, loader.multiprocessing_context)
        self._workers = self._crew.processes
        self._shutdown = False
        self._epoch = 0
        # Not __del__: an exception's traceback may keep the pass alive until the interpreter ends.
        self._finalizer = weakref.finalize(self, self._crew.close)
        self._prime(loader)

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Start another pass with the same workers."""
        for answer in self._early.values():
            answer.discard()
        before = self._progress.workers
        self._begin(loader, seeded=self._deterministic)
        self._progress.workers = {number: progress_of.rested(state) for number, state in before.items()}
        self._epoch += 1
        self._prime(loader)

    def _prime(self, loader: DataLoader[Any]) -> None:
        state = self._resumed
        first = 0
        workers: list[Any] = [None] * self._num_workers
        if state is not None and state["_num_workers"] == self._num_workers:
            first = state.get("_next_worker", 0)
            if not self._deterministic:
                workers = [progress_of.worker_state(worker) for worker in state["_workers"]]
        if self._deterministic and self._dataset_kind == _STREAM:
            workers = [{"start": None, "now": None, "fetcher": progress_of.fetcher_state(state)}]
        self._active = [True] * self._num_workers
        self._load = [0] * self._num_workers  # tasks given and not answered
        self._task_worker: dict[int, int] = {}  # by task, of those that are not given out yet
        self._early: dict[int, Answer] = {}
        self._sent = self._progress.position  # one more than the last task that was given
        self._turn = itertools.cycle([*range(first, self._num_workers), *range(first)])
        self._progress.next_worker = first
        for number in range(self._num_workers):
            self._crew.begin(number, Epoch(self._epoch, self._base_seed, self._shared_seed, workers[number]))
        for _ in range(self._prefetch_factor * self._num_workers):
            self._give_task()

    def _give_task(self) -> None:
        """The next task for the next worker; with ``in_order=False``, for the next one that has not more than its share."""
        if not any(self._active):
            return
        try:
            task, index = self._next_task()
        except StopIteration:
            return
        share = self._prefetch_factor * self._num_workers // sum(self._active)
        for worker in itertools.islice(self._turn, self._num_workers):
            if self._active[worker] and (self._in_order or self._load[worker] < share):
                break
        else:
            worker = min((number for number in range(self._num_workers) if self._active[number]), key=self._load.__getitem__)
        self._crew.give(worker, task, index)
        self._task_worker[task] = worker
        self._load[worker] += 1
        self._sent = task + 1

    def _next_data(self) -> Any:
        if self._shutdown:
            raise StopIteration
        while True:
            wanted = self._next_wanted()
            if wanted is None:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            answer = self._early.pop(wanted, None)
            if answer is None:
                answer = self._receive()
                if answer.ended:
                    self._retire(answer)
                    continue
                if answer.number != wanted and self._in_order:
                    self._early[answer.number] = answer
                    continue
            return self._delivered(answer)

    def _next_wanted(self) -> int | None:
        """The next batch in order, past those that came already or whose worker's stream has ended."""
        progress = self._progress
        while progress.position < self._sent:
            worker = self._task_worker.get(progress.position)
            if worker is not None and (self._active[worker] or progress.position in self._early):
                return progress.position
            self._task_worker.pop(progress.position, None)
            progress.ahead.discard(progress.position)
            progress.position += 1
        return None

    def _receive(self) -> Answer:
        try:
            while True:
                answer = self._crew.receive(self._timeout or None)
                if answer is None:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
                if answer.epoch == self._epoch:
                    self._load[answer.worker] -= 1
                    return answer
                answer.discard()
        except BaseException:
            # A worker is gone or hangs, or a message may be read in part: this crew is of no more use.
            self._shutdown_workers(patience=0.0)
            raise

    def _retire(self, answer: Answer) -> None:
        """A worker's stream has ended."""
        self._active[answer.worker] = False
        answer.discard()
        if not self._persistent_workers:
            self._crew.finish(answer.worker)
        self._give_task()

    def _delivered(self, answer: Answer) -> Any:
        number, worker = answer.number, answer.worker
        del self._task_worker[number]
        if number == self._progress.position:
            self._progress.position += 1
        else:
            self._progress.ahead.add(number)
        self._progress.next_worker = (worker + 1) % self._num_workers
        if answer.state is not None:
            self._progress.workers[worker] = answer.state
        self._give_task()
        data = answer.data()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return pin_memory(data) if self._pin_memory else data

    def _shutdown_workers(self, patience: float | None = None) -> None:
        """End the workers, and wait for them; those that work get ``patience`` seconds to finish."""
        self._shutdown = True
        self._early.clear()
        if self._finalizer.detach() is not None:
            self._crew.close() if patience is None else self._crew.close(patience)
