"""Streams of batches and groups, and of what is in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import _check_unpickable_fn, length_of

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[Any]):
    """Samples in lists of ``batch_size``.

    Args:
        datapipe: the samples.
        batch_size: length of the lists.
        drop_last: leave out a last one that would be shorter.
        wrapper_class: what the lists are.
    Raises:
        AssertionError: ``batch_size`` below 1.
    Source: torch.utils.data.datapipes.iter.Batcher.
    Example:
        >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(5)).batch(2, drop_last=True))
        [[0, 1], [2, 3]]
    """

    def __init__(self, datapipe: IterDataPipe[Any], batch_size: int, drop_last: bool = False, wrapper_class: type[Any] = DataChunk) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = length_of(self, self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The elements of batches, or of batches of batches.

    Args:
        datapipe: lists.
        unbatch_level: how many levels are taken apart; all for -1.
    Source: torch.utils.data.datapipes.iter.UnBatcher.
    Example:
        >>> list(torch.utils.data.datapipes.iter.IterableWrapper([[1, 2], [3]]).unbatch())
        [1, 2, 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element: Any, level: int) -> Iterator[Any]:
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        is_list = isinstance(element, (list, DataChunk))
        if level == 0 or (level == -1 and not is_list):
            yield element
        elif not is_list:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for item in element:
                yield from self._dive(item, level if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Samples of one key in lists.

    Args:
        datapipe: the samples.
        group_key_fn: the key of a sample.
        keep_key: give pairs of key and list.
        buffer_size: how many samples are kept; when it is full, the largest group goes.
        group_size: a group goes when it has so many.
        guaranteed_group_size: a group that goes because of the buffer has at least so many; ``group_size`` when None.
        drop_remaining: then drop smaller ones, instead of raising an error.
    Raises:
        AssertionError: sizes that do not fit one another.
    Source: torch.utils.data.datapipes.iter.Grouper.
    Example:
        >>> words = torch.utils.data.datapipes.iter.IterableWrapper(["a", "bb", "c", "dd"])
        >>> list(words.groupby(len))
        [['a', 'c'], ['bb', 'dd']]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = None
        if group_size is not None and buffer_size is not None:
            if not 0 < group_size <= buffer_size:
                raise AssertionError("group_size must be > 0 and <= buffer_size")
            self.guaranteed_group_size = group_size
        if guaranteed_group_size is not None:
            if group_size is None or not 0 < guaranteed_group_size <= group_size:
                raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
            self.guaranteed_group_size = guaranteed_group_size
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        kept = 0
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            groups[key].append(sample)
            kept += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                kept -= self.group_size
                yield self._given(key, groups.pop(key))
            if kept == self.max_buffer_size:
                largest = max(groups, key=lambda key: len(groups[key]))
                group = groups.pop(largest)
                kept -= len(group)
                if self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size:
                    yield self._given(largest, group)
                elif not self.drop_remaining:
                    raise RuntimeError("Failed to group items", str(group))
        for key in tuple(groups):
            yield self._given(key, groups.pop(key))

    def _given(self, key: Any, group: list[Any]) -> Any:
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk
