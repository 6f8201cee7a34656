"""Streams of anything that can be iterated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..datapipe import IterDataPipe
from ..utils.common import copied, length_of

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """The samples of an iterable.

    Args:
        iterable: what is iterated.
        deepcopy: iterate over a copy, so that what one pass does to the samples does not show in the next; where it can be copied.
    Source: torch.utils.data.datapipes.iter.IterableWrapper.
    Example:
        >>> list(IterableWrapperIterDataPipe([1, 2]))
        [1, 2]
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copied(self.iterable, "iterable") if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return length_of(self, self.iterable)
