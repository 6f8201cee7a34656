"""The loader: batches of a dataset, in an order that a sampler gives."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ...core.random.generator import Generator
from ._utils import progress as progress_of
from ._utils.collate import default_collate, default_convert
from ._utils.fetch import _BaseDatasetFetcher, make_fetcher
from ._utils.iterators import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from ._utils.worker import get_worker_info
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list[_T]], Any]
_worker_init_fn_t = Callable[[int], None]

# What may not change after construction, since the samplers were made from it.
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _DatasetKind:
    """The two kinds of datasets, and how samples are taken out of them.

    Source: torch.utils.data._DatasetKind.
    Example:
        >>> torch.utils.data._DatasetKind.Iterable
        1
    """

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> _BaseDatasetFetcher:
        return make_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """None for ever: a stream has no indices, and ends by itself."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches.

    Args:
        dataset: a :class:`Dataset` (anything with ``__getitem__`` and ``__len__``) or an :class:`IterableDataset`.
        batch_size: samples in a batch; None gives the samples as they are.
        shuffle: a new random order in each iteration.
        sampler: the order of the indices, instead of ``shuffle``.
        batch_sampler: lists of indices, instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: number of processes that load; 0 loads in this one.
        collate_fn: joins a list of samples into a batch; :func:`default_collate` (:func:`default_convert` without batches) when None.
        pin_memory: copy tensors to page-locked memory, where there is an accelerator.
        drop_last: leave out a last batch that would be smaller.
        timeout: for a batch from the workers, in seconds; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: how workers are started: a context or the name of one.
        generator: random numbers for the order and the seeds of workers.
        prefetch_factor: batches that each worker loads in advance; 2 when None.
        persistent_workers: keep the workers after an iteration.
        pin_memory_device: deprecated; the current accelerator is used.
        in_order: give the batches in order even when another worker was faster.
        worker_method: ``'process'``, or ``'thread'``: workers share the dataset and copy nothing, but share the program's random numbers,
            too; those of their own are in ``get_worker_info().rng``. Not in PyTorch, as the following.
        deterministic: batches, and the random numbers drawn for each, do not depend on the number of workers or on the program.
    Raises:
        ValueError: options that exclude one another, or a negative one.
        RuntimeError: while iterating, a worker has ended, or gave nothing for ``timeout`` seconds.
    Note: large arrays of a batch lie in memory that the worker uses again once no tensor shows it any more. An exception in a worker is
        raised here with the worker's traceback.
    Source: torch.utils.data.DataLoader.
    Example:
        >>> data = torch.utils.data.TensorDataset(torch.arange(5), torch.arange(5) ** 2)
        >>> for number, square in DataLoader(data, batch_size=2):
        ...     print(number.tolist(), square.tolist())
        [0, 1] [0, 1]
        [2, 3] [4, 9]
        [4] [16]
    """

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_method: str = "process",
        deterministic: bool = False,
    ) -> None:
        _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_own_options(dataset, num_workers, worker_method, multiprocessing_context, deterministic)
        self._is_iter_pipe = isinstance(dataset, IterDataPipe)
        self._is_pipe = isinstance(dataset, (IterDataPipe, MapDataPipe))
        self.dataset = _shuffled_pipe(dataset, shuffle) if self._is_iter_pipe and shuffle is not None else dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.in_order, self.worker_method, self.deterministic = in_order, worker_method, deterministic

        is_stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if is_stream else _DatasetKind.Map
        if is_stream:
            _check_stream_options(None if self._is_iter_pipe else shuffle, sampler, batch_sampler)
        _check_batching_options(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.batch_size, self.drop_last = (batch_size, drop_last) if batch_sampler is None else (None, False)
        self.sampler = _default_sampler(dataset, bool(shuffle), generator) if sampler is None else sampler
        self.batch_sampler = batch_sampler
        if self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, drop_last)
        self.generator = generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator: _MultiProcessingDataLoaderIter | None = None  # with workers that outlive a pass
        self._progress: progress_of.Progress | None = None  # of the last pass
        self._state_to_resume: dict[str, Any] | None = None
        self.check_worker_number_rationality()
        self._is_initialized = True

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in _FIXED and self.__dict__.get("_is_initialized", False):
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    @property
    def multiprocessing_context(self) -> Any:
        """The way workers are started; None for the default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._multiprocessing_context = None if context is None else _checked_context(context, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """Sampler of the indices of one step: lists of indices when batches are made, else single indices."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None or self._iterator._shutdown:
            self._iterator = self._get_iterator()  # type: ignore[assignment]
        else:
            self._iterator._reset(self)
        return self._iterator  # type: ignore[return-value]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_iterator": None, "_progress": None}

    def state_dict(self) -> dict[str, Any]:
        """Position of the last iteration over this loader.

        Returns:
            A dictionary of tensors, numbers, strings and containers of them, and of what ``state_dict`` of the dataset and the samplers
            gives where they have one. The program's own random state (``torch.get_rng_state()``) is not in it.
        Source: torchdata.stateful_dataloader.StatefulDataLoader.state_dict.
        Example:
            >>> loader = DataLoader(range(6), batch_size=2)
            >>> first = next(iter(loader))
            >>> later = DataLoader(range(6), batch_size=2)
            >>> later.load_state_dict(loader.state_dict())
            >>> [batch.tolist() for batch in later]
            [[2, 3], [4, 5]]
        """
        if self._state_to_resume is not None:
            return dict(self._state_to_resume)
        return progress_of.state_dict(self, self._progress)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next iteration go on where another loader was, over the same dataset and with equal options.

        What a stream gave already is taken from it again and dropped, unless it (or its iterator) has ``state_dict`` and
        ``load_state_dict``.

        Args:
            state_dict: of a loader with as many workers; of any number when both are ``deterministic``.
        Raises:
            TypeError: no dictionary.
            ValueError: a state of something else, or of a loader with other workers.
        Source: torchdata.stateful_dataloader.StatefulDataLoader.load_state_dict.
        Example:
            >>> loader = DataLoader(range(4))
            >>> iterator = iter(loader)
            >>> first = next(iterator), next(iterator)
            >>> loader.load_state_dict(loader.state_dict())
            >>> list(loader)
            [tensor([2]), tensor([3])]
        """
        progress_of.check_state(self, state_dict)
        if self._iterator is not None:
            self._iterator._shutdown_workers()
        self._state_to_resume = dict(state_dict)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # The stream may give more or less than it says: the iterator compares, and warns.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn when there are more workers than processors that this process may use."""
        if not self.num_workers or self.worker_method == "thread":
            return
        if hasattr(os, "sched_getaffinity"):
            available: int | None = len(os.sched_getaffinity(0))
            note = ""
        else:
            available = os.cpu_count()
            note = " (`cpuset` is not taken into account)"
        if available is not None and self.num_workers <= available:
            return
        limit = (
            f"Our suggested max number of worker in current system is {available}{note}, which is smaller than what this "
            "DataLoader is going to create."
            if available is not None
            else "DataLoader is not able to compute a suggested max number of worker in current system."
        )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {limit} Please be aware that excessive worker "
            "creation might get DataLoader running slow or even freeze, lower the worker number to avoid potential slowness/freeze if "
            "necessary.",
            stacklevel=3,
        )


def _shuffled_pipe(dataset: Any, shuffle: bool) -> Any:
    from .graph_settings import apply_shuffle_settings  # late: few datasets are pipes

    return apply_shuffle_settings(dataset, shuffle)


def _default_sampler(dataset: Any, shuffle: bool, generator: Generator | None) -> Sampler[Any]:
    if isinstance(dataset, IterableDataset):
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_worker_options(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_own_options(dataset: Any, num_workers: int, method: str, context: Any, deterministic: bool) -> None:
    if method not in ("process", "thread"):
        raise ValueError(f"worker_method option should be 'process' or 'thread', but got worker_method={method!r}")
    if method == "thread" and context is not None:
        raise ValueError("multiprocessing_context option is of no use with worker_method='thread'")
    if deterministic and num_workers > 1 and isinstance(dataset, IterableDataset):
        raise ValueError(
            f"deterministic=True option: an IterableDataset is divided among workers by itself, so that their number matters: expected "
            f"num_workers 0 or 1, but got num_workers={num_workers}"
        )


def _check_stream_options(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """A stream comes in its own order."""
    shuffle = None if shuffle in (False, None) else shuffle
    for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")


def _check_batching_options(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    """Of the options that say the same in several ways one may be given."""
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def _checked_context(context: Any, num_workers: int) -> Any:
    """A multiprocessing context, from one or from its name."""
    import multiprocessing  # late: most programs load in one process

    if num_workers == 0:
        raise ValueError(
            f"multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers={num_workers}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context
