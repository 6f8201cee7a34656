"""Elements at several index arrays, one for each of the leading dimensions: the arrays become one of places in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from .embedding import rows_at

_SPAN = 1 << 14  # elements of a chunk
_MOST = 4  # index arrays
_INT64 = np.dtype(np.int64)


@kernel
def places_in_order(k: Builder, count: int) -> None:
    """``result = ((first * sizes[1]) + second) * sizes[2] + ...``; -1 where an index is out of range. Negative ones count from the end."""
    indices, result, sizes, n = [k.array() for _ in range(count)], k.array(), k.array(), k.integer()
    lanes = k.lanes("i64")
    limits = [k.splat(k.load(sizes, dim, "i64"), lanes) for dim in range(count)]

    def some(i: Value, mask: Value | None) -> None:
        place, is_inside = k.const(0, "i64", lanes), k.const(True, "b1", lanes)
        for array, limit in zip(indices, limits, strict=True):
            index = k.load(array, i, "i64", lanes, mask)
            index = index + k.select(index < 0, limit, 0)
            is_inside = is_inside & (index >= 0) & (index < limit)
            place = place * limit + index
        k.store(k.select(is_inside, place, -1), result, i, "i64", mask)

    k.for_chunks(lambda c: k.vector_loop(c * _SPAN, k.least((c + 1) * _SPAN, n), lanes, some))


def flat_places(shape: Sequence[int], indices: Sequence[Any]) -> np.ndarray | None:
    """Places, in row-major order, in an array of that shape; None for indices that are no int64 arrays of one shape."""
    first = indices[0]
    if not 1 < len(indices) <= _MOST or any(array is None or array.__class__ is not np.ndarray for array in indices):
        return None
    if any(array.dtype != _INT64 or array.shape != first.shape or not array.flags.c_contiguous for array in indices) or not first.size:
        return None
    result, sizes = empty(first.shape, _INT64), np.array(shape[: len(indices)], np.int64)
    places_in_order(len(indices))(-(-first.size // _SPAN), *map(id, indices), id(result), id(sizes), first.size)
    return result


def elements_at(input: np.ndarray, indices: Sequence[Any]) -> np.ndarray | None:
    """A row-major copy of the elements, or rows, at index arrays of the leading dimensions; None where the reference has to look."""
    places = flat_places(input.shape, indices) if input.flags.c_contiguous and 0 not in input.shape else None
    if places is None:
        return None
    rest = input.shape[len(indices) :]
    return rows_at(input.reshape(-1, *rest), places, 0, (*places.shape, *rest))


@native("_index")
def index(input: np.ndarray, indices: Sequence[Any]) -> np.ndarray | None:
    """Indices of one dimension, or of all leading ones."""
    dim = len(indices) - 1
    if any(entry is not None for entry in indices[:dim]):
        result = elements_at(input, indices)
        is_plain = result is not None and (result.ndim < 2 or not (1 in result.shape or 1 in input.shape))
        return result if is_plain else None  # else the reference finds strides
    at = indices[dim]
    return rows_at(input, at, dim, (*input.shape[:dim], *at.shape, *input.shape[dim + 1 :]), wrap=True)


@native("take")
def take(input: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    if not input.flags.c_contiguous or not input.size:
        return None
    return rows_at(input.reshape(-1), index, 0, index.shape, wrap=True)
