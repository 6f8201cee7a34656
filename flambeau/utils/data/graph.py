"""Graph of the pipes that a pipe is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

DataPipe: TypeAlias = IterDataPipe[Any] | MapDataPipe[Any]
DataPipeGraph: TypeAlias = dict[int, tuple[DataPipe, "DataPipeGraph"]]


def _sources(value: Any, depth: int = 4) -> Iterator[DataPipe]:
    """The pipes in the attributes of a pipe, and in containers there."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _sources(item, depth - 1)
    elif depth and isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _sources(item, depth - 1)


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """A pipe with its sources, and theirs.

    Args:
        datapipe: the last pipe.
    Returns:
        ``{id: (pipe, sources)}``, where ``sources`` has the same form.
    Source: torch.utils.data.graph.traverse_dps.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper("ab").map(str)
        >>> [type(last).__name__ for last, sources in traverse_dps(pipe).values()]
        ['MapperIterDataPipe']
    """
    return _graph(datapipe, set())


def _graph(datapipe: DataPipe, seen: set[int]) -> DataPipeGraph:
    if id(datapipe) in seen:
        return {}
    sources: DataPipeGraph = {}
    seen = seen | {id(datapipe)}
    for value in vars(datapipe).values():
        for source in _sources(value):
            sources |= _graph(source, seen)
    return {id(datapipe): (datapipe, sources)}


def traverse(datapipe: DataPipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """The former name of :func:`traverse_dps`.

    Args:
        datapipe: the last pipe.
        only_datapipe: not False.
    Returns: as there.
    Raises:
        NotImplementedError: ``only_datapipe=False``, which would look for pipes in all that would be pickled.
    Source: torch.utils.data.graph.traverse.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper("ab")
        >>> traverse(pipe) == traverse_dps(pipe)
        True
    """
    if only_datapipe is False:
        raise NotImplementedError("traverse: pipes are looked for in attributes and containers only, as with only_datapipe=True")
    return traverse_dps(datapipe)
