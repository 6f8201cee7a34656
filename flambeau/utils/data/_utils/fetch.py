"""Fetchers of samples from the two kinds of datasets."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any


class _BaseDatasetFetcher:
    """Base class of both kinds. With ``auto_collation`` an index is a list of indices, one batch."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The collated sample or samples at an index."""
        raise NotImplementedError

    def state(self) -> Any:
        """State with which :meth:`load_state` goes on from here: the dataset's own state, if it has one."""
        return {"dataset": own_state(self.dataset)}

    def load_state(self, state: Any, before_batch: Callable[[int], None] | None = None) -> None:
        """Go on from where another fetcher was; ``before_batch`` is called with the number of each batch that is taken again."""
        if state["dataset"] is not None:
            self.dataset.load_state_dict(state["dataset"])


def own_state(value: Any) -> Any:
    """Result of an object's ``state_dict``, as it is now; None without such a method."""
    get_state = getattr(value, "state_dict", None)
    return copy.deepcopy(get_state()) if callable(get_state) and hasattr(value, "load_state_dict") else None


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes the next samples, as many as the index has entries."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False
        self._taken, self._per_batch = 0, 1  # samples

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next sample or batch; StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            sample = next(self.dataset_iter)
            self._taken += 1
            return self.collate_fn(sample)
        self._per_batch = len(possibly_batched_index)
        data = []
        for _ in possibly_batched_index:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        self._taken += len(data)
        if not data or (self.drop_last and len(data) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(data)

    def state(self) -> Any:
        """The state of the iterator where it has one, else that of the dataset, and how many samples were taken."""
        iterator_state = own_state(self.dataset_iter)
        dataset_state = None
        if iterator_state is None and self.dataset_iter is not self.dataset:
            dataset_state = own_state(self.dataset)
        counts = {"taken": self._taken, "per_batch": self._per_batch, "ended": self.ended}
        return {"iterator": iterator_state, "dataset": dataset_state, **counts}

    def load_state(self, state: Any, before_batch: Callable[[int], None] | None = None) -> None:
        """Go on from there; without states of their own, the samples that were taken are taken again and dropped."""
        if state["iterator"] is not None:
            self.dataset_iter.load_state_dict(state["iterator"])
        elif state["dataset"] is not None:
            self.dataset.load_state_dict(state["dataset"])
            self.dataset_iter = iter(self.dataset)
        else:
            for number, start in enumerate(range(0, state["taken"], state["per_batch"])):
                if before_batch is not None:
                    before_batch(number)
                for _ in itertools.islice(self.dataset_iter, min(state["per_batch"], state["taken"] - start)):
                    pass
        self._taken, self._per_batch, self.ended = state["taken"], state["per_batch"], state["ended"]


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Looks samples up, a batch at a time where the dataset knows how (``__getitems__``)."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The collated sample or samples at an index."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        get_items = getattr(self.dataset, "__getitems__", None)
        if get_items:
            return self.collate_fn(get_items(possibly_batched_index))
        return self.collate_fn([self.dataset[idx] for idx in possibly_batched_index])


def make_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> _BaseDatasetFetcher:
    """The fetcher for a kind of dataset: 0 looks samples up, 1 iterates."""
    fetcher = _IterableDatasetFetcher if kind else _MapDatasetFetcher
    return fetcher(dataset, auto_collation, collate_fn, drop_last)
