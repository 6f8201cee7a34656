"""Streams of some samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _check_unpickable_fn, validate_input_col
from .callable import applied

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The samples for which ``filter_fn`` is True.

    Args:
        datapipe: the samples.
        filter_fn: a function of a sample, or of its columns, that gives a bool.
        input_col: index or key of what ``filter_fn`` gets; several in a list. The whole sample when None.
    Source: torch.utils.data.datapipes.iter.Filter.
    Example:
        >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(5)).filter(lambda number: number > 2))
        [3, 4]
    """

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        _check_unpickable_fn(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            verdict = applied(self.filter_fn, data, self.input_col)
            if not isinstance(verdict, bool):
                raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(verdict))
            if verdict:
                yield data
