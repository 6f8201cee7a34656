"""Pipes of what a function makes of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe
from ..utils.common import _check_unpickable_fn

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data: Any) -> Any:
    """The sample itself.

    Args:
        data: the sample.
    Returns: the same object.
    Source: torch.utils.data.datapipes.map.callable.default_fn.
    Example:
        >>> default_fn(3)
        3
    """
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """``fn`` of each sample, when it is asked for.

    Args:
        datapipe: the samples.
        fn: a function of a sample.
    Source: torch.utils.data.datapipes.map.Mapper.
    Example:
        >>> torch.utils.data.datapipes.map.SequenceWrapper([1, 2]).map(str)[0]
        '1'
    """

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[[Any], Any] = default_fn) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])
