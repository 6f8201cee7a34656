"""Products of sparse matrices, given by rows, and dense ones, and elements of dense products at given places.

A row of the result is added up in registers, four vectors of its columns at a time, in the order of the row's entries; so the result does
not depend on the number of threads, which share the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty

_CHUNK = 1 << 15  # multiplications that one chunk does, at least
_TILE = 4  # vectors of a row that are added up at once


@kernel
def rows_times_dense(k: Builder, element: str) -> None:
    """``result[r, :] = sum of values[p] * dense[columns[p], :]`` over ``p`` from ``starts[r]`` to ``starts[r + 1]``."""
    starts, columns, values, dense, result = (k.array() for _ in range(5))
    rows, width, per = (k.integer() for _ in range(3))
    lanes = k.lanes(element)
    zero = k.const(0, element, lanes)

    def row(r: Value) -> None:
        first, last = k.load(starts, r, "i64"), k.load(starts, r + 1, "i64")

        def tile(c: Value, count: int, mask: Value | None) -> None:
            def entry(p: Value, *totals: Value) -> tuple[Value, ...]:
                factor = k.splat(k.load(values, p, element), lanes)
                line = k.at(dense, k.load(columns, p, "i64") * width + c, element)
                return tuple([k.fma(factor, k.load(line, i * lanes, element, lanes, mask), total) for i, total in enumerate(totals)])

            found = k.loop(first, last, entry, carried=(zero,) * count)
            for i, total in enumerate(found if count > 1 else (found,)):
                k.store(total, result, r * width + c + i * lanes, element, mask)

        tiles = width // (_TILE * lanes)
        k.loop(0, tiles, lambda t: tile(t * (_TILE * lanes), _TILE, None))
        k.vector_loop(tiles * (_TILE * lanes), width, lanes, lambda c, mask: tile(c, 1, mask))

    k.for_chunks(lambda chunk: k.loop(chunk * per, k.least((chunk + 1) * per, rows), row))


@native("_csr_times_dense")
def csr_times_dense(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray | None:
    element = ELEMENTS.get(dense.dtype)
    if dense.ndim != 2 or element not in ("f32", "f64") or values.dtype != dense.dtype or not dense.size or not dense.flags.c_contiguous:
        return None
    starts, columns = (np.ascontiguousarray(part, np.int64) for part in (starts, columns))
    values = np.ascontiguousarray(values)
    rows, width = starts.size - 1, dense.shape[1]
    made = empty((rows, width), dense.dtype)
    per = max(1, rows * _CHUNK // max(values.size * width, 1))
    rows_times_dense(element)(-(-rows // per), id(starts), id(columns), id(values), id(dense), id(made), rows, width, per)
    return made


@native("_bag_sums")
def sums_of_bags(weight: np.ndarray, indices: np.ndarray, bounds: np.ndarray, bags: Any, scale_grad_by_freq: bool) -> np.ndarray | None:
    """Sums of rows of ``weight``: the product with a matrix of ones, whose rows are the bags."""
    return csr_times_dense(bounds, indices, np.ones(indices.size, weight.dtype), contiguous(weight))


@kernel
def dots_at_places(k: Builder, element: str) -> None:
    """``result[p]`` is the inner product of row ``rows[p]`` of ``a`` and row ``columns[p]`` of ``b``."""
    a, b, rows, columns, result = (k.array() for _ in range(5))
    count, width, per = (k.integer() for _ in range(3))
    lanes = k.lanes(element)
    wide = _TILE * lanes
    zero = k.const(0, element, lanes)

    def entry(p: Value) -> None:
        left = k.at(a, k.load(rows, p, "i64") * width, element)
        right = k.at(b, k.load(columns, p, "i64") * width, element)

        def add(i: Value, mask: Value | None, total: Value) -> Value:
            return k.fma(k.load(left, i, element, lanes, mask), k.load(right, i, element, lanes, mask), total)

        def tile(i: Value, *totals: Value) -> tuple[Value, ...]:
            return tuple([add(i + t * lanes, None, total) for t, total in enumerate(totals)])

        whole = width - width % wide
        totals = k.loop(0, whole, tile, step=wide, carried=(zero,) * _TILE)
        rest = k.vector_loop(whole, width, lanes, add, carried=(zero,))
        k.store(k.sum(((totals[0] + totals[1]) + (totals[2] + totals[3])) + rest), result, p, element)

    k.for_chunks(lambda chunk: k.loop(chunk * per, k.least((chunk + 1) * per, count), entry))


@native("_dots_at_places")
def elements_of_product(a: np.ndarray, b: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """The elements of ``a @ b.T`` at ``(rows, columns)``."""
    element = ELEMENTS.get(a.dtype)
    if element not in ("f32", "f64") or b.dtype != a.dtype or not rows.size:
        return None
    width = a.shape[1]
    places = [np.ascontiguousarray(part, np.int64) for part in (rows, columns)]
    made = empty((rows.size,), a.dtype)
    per = max(1, _CHUNK // max(width, 1))
    arrays = contiguous(a), contiguous(b), *places, made
    dots_at_places(element)(-(-rows.size // per), *map(id, arrays), rows.size, width, per)
    return made
