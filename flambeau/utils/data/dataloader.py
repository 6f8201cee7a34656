"""The loader: batches of a dataset, in an order that a sampler gives."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ...core.random.generator import Generator
from ._utils.collate import default_collate, default_convert
from ._utils.fetch import _BaseDatasetFetcher, _IterableDatasetFetcher, _MapDatasetFetcher
from ._utils.pin_memory import accelerator_available, pin_memory
from ._utils.worker import get_worker_info
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, random_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)

# What may not change after construction, since the samplers were made from it.
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _DatasetKind:
    """The two kinds of datasets, and how samples are taken out of them."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> _BaseDatasetFetcher:
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


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
        num_workers: number of processes that load; 0 loads in this one. Others are not implemented.
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
    Raises:
        ValueError: options that exclude one another, or a negative one.
        NotImplementedError: ``num_workers`` above 0, when iterated.
    Source: torch.utils.data.DataLoader.
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
    ) -> None:
        _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order

        is_stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if is_stream else _DatasetKind.Map
        if is_stream:
            _check_stream_options(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

        if sampler is None:
            sampler = _default_sampler(dataset, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self.check_worker_number_rationality()
        self._is_initialized = True

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in _FIXED and self.__dict__.get("_is_initialized", False):
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started; None for the default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._multiprocessing_context = None if context is None else _checked_context(context, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What the samples of one step are chosen by: lists of indices when batches are made, else single indices."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers > 0:
            # The one place where worker processes are missing.
            raise NotImplementedError(
                f"DataLoader: loading in worker processes is not implemented, got num_workers={self.num_workers}; use num_workers=0"
            )
        return _SingleProcessDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        return self._get_iterator()

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
        if not self.num_workers:
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
            f"This DataLoader will create {self.num_workers} worker processes in total. {limit} "
            "More workers than processors make loading slower, or freeze it: lower num_workers if that happens.",
            stacklevel=3,
        )


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
            "prefetch_factor option could only be specified in multiprocessing. "
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream_options(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """A stream comes in its own order."""
    if shuffle not in (False, None):
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified batch_sampler option, but got batch_sampler={batch_sampler}"
        )


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


class _BaseDataLoaderIter:
    """One pass over a loader: what it was told, the indices, and how many batches came so far."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory and _can_pin(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        # Drawn without workers too, so that their number does not change the random numbers of the program. The sampler above
        # draws its own seed later, with the first index.
        self._base_seed = random_seed(loader.generator)
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if self._dataset_kind == _DatasetKind.Iterable and promised is not None and self._num_yielded > promised:
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {promised}"
                f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. ",
                stacklevel=2,
            )
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


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
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self) -> Any:
        data = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(data) if self._pin_memory else data
