"""Streams of what a function makes of samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from ..._utils.collate import default_collate
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _check_unpickable_fn, length_of, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


def applied(fn: Callable[..., Any], data: Any, input_col: Any) -> Any:
    """A function of a sample, or of some of its columns."""
    if input_col is None:
        return fn(data)
    if isinstance(input_col, (list, tuple)):
        return fn(*(data[column] for column in input_col))
    return fn(data[input_col])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """``fn`` of each sample.

    Args:
        datapipe: the samples.
        fn: a function of a sample, or of its columns.
        input_col: index or key of what ``fn`` gets; several in a list. The whole sample when None.
        output_col: where the result goes: -1 behind the others, None in place of the (first) input, whose others are taken out.
    Raises:
        ValueError: ``output_col`` without ``input_col``, more than one, or an ``fn`` with another number of arguments.
    Source: torch.utils.data.datapipes.iter.Mapper.
    Example:
        >>> source = torch.utils.data.datapipes.iter.IterableWrapper([(1, 2), (3, 4)])
        >>> list(source.map(str, input_col=0))
        [('1', 2), ('3', 4)]
    """

    def __init__(self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        _check_unpickable_fn(fn)
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data: Any) -> Any:
        result = applied(self.fn, data, self.input_col)
        if self.input_col is None:
            return result
        changed = list(data) if isinstance(data, tuple) else copy.copy(data)
        if self.output_col is not None:
            if self.output_col == -1:
                changed.append(result)
            else:
                changed[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            changed[self.input_col[0]] = result
            for column in sorted(self.input_col[1:], reverse=True):
                del changed[column]
        else:
            changed[self.input_col] = result
        return tuple(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches joined as the loader does.

    Args:
        datapipe: lists of samples.
        conversion: the function that joins them.
        collate_fn: the same.
    Raises:
        NotImplementedError: a dictionary of conversions, which is for data frames.
    Source: torch.utils.data.datapipes.iter.Collator.
    Example:
        >>> source = torch.utils.data.datapipes.iter.IterableWrapper([1, 2, 3])
        >>> list(source.batch(2).collate())
        [tensor([1, 2]), tensor([3])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        function = conversion if collate_fn is None else collate_fn
        if not callable(function):
            raise NotImplementedError("Collator: conversions of the columns of data frames are not implemented; pass a function")
        super().__init__(datapipe, fn=function)
