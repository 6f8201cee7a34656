"""Elements at several index arrays, one for each of the leading dimensions; entries of a dimension that are put at indices.

Several index arrays become one of places in row-major order. For what is put, a table says of each entry of the result where it comes
from, so that each is written once, and of indices that repeat the last one counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ...core.calls.casting import cast_array, checked_number
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from .copies import able, copy_row
from .embedding import rows_at

_SPAN = 1 << 14  # elements of a chunk
_MOST = 4  # index arrays
_SHORT = 64  # bytes: rows below this are put one by one
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


# -- putting ------------------------------------------------------------------------------------------------------------------------------
@kernel
def merge_rows(k: Builder, element: str) -> None:
    """``result[o, i] = source[o, origins[i]]``, rows of ``width`` elements; ``input[o, i]`` where that is -1.

    Rows of the source lie ``pitch`` elements apart, and ``outer`` ones for the next ``o``.
    """
    input, source, origins, result = (k.array() for _ in range(4))
    size, width, pitch, outer, units, per = (k.integer() for _ in range(6))

    def row(u: Value) -> None:
        o = u // size
        origin, to = k.load(origins, u - o * size, "i64"), u * width
        place = o * outer + origin * pitch
        data = k.select(origin < 0, k.at(input, to, element), k.at(source, place, element))
        copy_row(k, element, data, k.at(result, to, element), width)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), row))


def _merged(input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, is_one: bool) -> np.ndarray | None:
    """``input`` with the entries of ``source``, or its only one, at indices that have been looked at; None where rows are short."""
    if input.__class__ is not np.ndarray or not input.flags.c_contiguous or not able(input) or not input.size or not index.size:
        return None
    size, width, unit = input.shape[dim], math.prod(input.shape[dim + 1 :]), min(input.itemsize, 8)
    if width * input.itemsize < _SHORT:
        return None
    origins = np.full(size, -1)
    origins[index.reshape(-1)] = 0 if is_one else np.arange(index.size)
    width = width * input.itemsize // unit
    result, units, per = empty(input.shape, input.dtype), math.prod(input.shape[: dim + 1]), max(1, _SPAN // width)
    pitch, outer = (0, 0) if is_one else (width, width * index.size)
    arrays = input, source, origins, result
    merge_rows(f"u{8 * unit}")(-(-units // per), *map(id, arrays), size, width, pitch, outer, units, per)
    return result


@native("index_copy")
def index_copy(input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray | None:
    if not input.ndim or source.__class__ is not np.ndarray or source.dtype != input.dtype:
        return None
    if source.shape != (*input.shape[:dim], index.size, *input.shape[dim + 1 :]):
        return None
    return _merged(input, dim, index, contiguous(source), False)


@native("index_fill")
def index_fill(input: np.ndarray, dim: int, index: np.ndarray, value: Any) -> np.ndarray | None:
    if not input.ndim:
        return None
    dtype = dtypes.of_array(input)
    row = np.empty(math.prod(input.shape[dim + 1 :]), input.dtype)
    row[...] = cast_array(value, dtype) if isinstance(value, np.ndarray) else checked_number(value, dtype)
    return _merged(input, dim, index, row, True)
