"""How samples are taken out of the two kinds of datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _BaseDatasetFetcher:
    """What both kinds share. With ``auto_collation`` an index is a list of indices, one batch."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The collated sample or samples at an index."""
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes the next samples, as many as the index has entries."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next sample or batch; StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data = []
        for _ in possibly_batched_index:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(data)


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
