"""Pipes of batches."""

from __future__ import annotations

from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, MapDataPipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[Any]):
    """Samples in lists of ``batch_size``.

    Args:
        datapipe: the samples, with indices from 0.
        batch_size: length of the lists.
        drop_last: leave out a last one that would be shorter.
        wrapper_class: what the lists are.
    Raises:
        AssertionError: ``batch_size`` below 1.
    Source: torch.utils.data.datapipes.map.Batcher.
    Example:
        >>> torch.utils.data.datapipes.map.SequenceWrapper(range(5)).batch(2)[1]
        [2, 3]
    """

    def __init__(self, datapipe: MapDataPipe[Any], batch_size: int, drop_last: bool = False, wrapper_class: type[Any] = DataChunk) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> Any:
        start, count = index * self.batch_size, len(self.datapipe)
        end = min(start + self.batch_size, count)
        if start >= end or (self.drop_last and end - start < self.batch_size):
            raise IndexError(f"Index {index} is out of bound.")
        return self.wrapper_class([self.datapipe[i] for i in range(start, end)])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
