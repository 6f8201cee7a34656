"""Pipes made of several."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _check(datapipes: tuple[Any, ...]) -> None:
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if not all(isinstance(pipe, Sized) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `Sized`")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """Several pipes, one behind the other.

    Args:
        datapipes: the pipes, with indices from 0.
    Source: torch.utils.data.datapipes.map.Concater.
    Example:
        >>> one, two = (torch.utils.data.datapipes.map.SequenceWrapper(word) for word in ("ab", "c"))
        >>> one.concat(two)[2]
        'c'
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        _check(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        offset = 0
        for pipe in self.datapipes:
            if index - offset < len(pipe):
                return pipe[index - offset]
            offset += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple[Any, ...]]):
    """Tuples of one sample of each pipe.

    Args:
        datapipes: the pipes.
    Source: torch.utils.data.datapipes.map.Zipper.
    Example:
        >>> one, two = (torch.utils.data.datapipes.map.SequenceWrapper(word) for word in ("ab", "cd"))
        >>> one.zip(two)[1]
        ('b', 'd')
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        _check(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        samples = []
        for pipe in self.datapipes:
            try:
                samples.append(pipe[index])
            except IndexError as error:
                raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes {pipe}.") from error
        return tuple(samples)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)
