"""Pipes in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._shuffling import Shuffling
from ..datapipe import MapDataPipe

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(Shuffling):
    """The samples of a pipe with an index, in random order: a stream.

    Args:
        datapipe: the samples.
        indices: of the samples; from 0 on when None.
    Source: torch.utils.data.datapipes.map.Shuffler.
    Example:
        >>> sorted(torch.utils.data.datapipes.map.SequenceWrapper("abc").shuffle())
        ['a', 'b', 'c']
    """

    def __init__(self, datapipe: MapDataPipe[Any], *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._shuffled_indices: list[Any] = self.indices

    def reset(self) -> None:
        """Choose the order of the next iteration."""
        super().reset()
        if self._enabled:
            self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
