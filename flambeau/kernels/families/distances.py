"""Distances between all rows of two matrices: four rows of the first at a time, a register of rows of the second, which is turned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty

_ROWS = 4

_CHUNK = 1 << 17  # differences
_NORMS = {1.0: "sum", 2.0: "euclidean", math.inf: "largest"}


def _norms(k: Builder, element: str, norm: str, x1: Value, first: Value, count: int, x2: Value, columns: Value, width: Value) -> Any:
    """A function of ``j`` and a mask: norms of ``x1[first + r] - x2[:, j]`` for ``count`` rows r, for a register of j."""

    def add(total: Value, apart: Value) -> Value:
        if norm == "euclidean":
            return total + apart * apart
        size = k.abs(apart)
        return total + size if norm == "sum" else k.select(size > total, size, k.select(size.is_nan(), size, total))

    def norms(j: Value, mask: Value | None) -> tuple[Value, ...]:
        lanes = k.lanes(element)

        def one(e: Value, *totals: Value) -> tuple[Value, ...]:
            value = k.load(x2, e * columns + j, element, lanes, mask)
            return tuple(add(total, k.load(x1, (first + r) * width + e, element) - value) for r, total in enumerate(totals))

        totals = k.loop(0, width, one, carried=[k.const(0, element, lanes)] * count)
        return tuple(k.sqrt(total) if norm == "euclidean" else total for total in (totals if count > 1 else (totals,)))

    return norms


@kernel
def all_distances(k: Builder, element: str, norm: str) -> None:
    """``y[b, i, j]``, the norm of ``x1[b, i] - x2[b, :, j]``; a unit is four ``i``."""
    x1, x2, y = k.array(), k.array(), k.array()
    rows, columns, width, units, per, blocks = (k.integer() for _ in range(6))

    def several(b: Value, first: Value, count: int) -> None:
        here = b * rows + first
        norms = _norms(k, element, norm, x1, here, count, k.at(x2, b * width * columns, element), columns, width)

        def some(j: Value, mask: Value | None) -> None:
            for r, distance in enumerate(norms(j, mask)):
                k.store(distance, y, (here + r) * columns + j, element, mask)

        k.vector_loop(0, columns, k.lanes(element), some)

    def unit(u: Value) -> None:
        b = u // blocks
        first = (u - b * blocks) * _ROWS
        k.when(first + _ROWS <= rows, lambda: several(b, first, _ROWS), lambda: k.loop(first, rows, lambda i: several(b, i, 1)))

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


@kernel
def distances_of_pairs(k: Builder, element: str, norm: str) -> None:
    """The norms of ``x[i] - turned[:, j]`` for ``i < j``, row by row without gaps; a chunk is every ``chunks``-th four ``i``.

    Four rows share the columns behind the last of them; the up to three columns before those are each row's own.
    """
    x, turned, y = k.array(), k.array(), k.array()
    rows, width, units, chunks = (k.integer() for _ in range(4))

    def several(first: Value, count: int, begin: Value, end: Value) -> None:
        norms = _norms(k, element, norm, x, first, count, turned, rows, width)

        def some(j: Value, mask: Value | None) -> None:
            for r, distance in enumerate(norms(j, mask)):
                i = first + r
                k.store(distance, y, i * (rows + rows - i - 3) // 2 + j - 1, element, mask)

        k.vector_loop(begin, end, k.lanes(element), some)

    def unit(u: Value) -> None:
        first, end = u * _ROWS, k.least((u + 1) * _ROWS, rows)
        k.loop(first, end, lambda i: several(i, 1, i + 1, end))
        k.when(end < rows, lambda: several(first, _ROWS, end, rows))

    k.for_chunks(lambda c: k.loop(0, (units - c + chunks - 1) // chunks, lambda turn: unit(c + turn * chunks)))


@native("cdist")
def cdist(x1: np.ndarray, x2: np.ndarray, p: float = 2.0, compute_mode: str | None = None) -> np.ndarray | None:
    if x1.dtype not in FLOATS or x1.dtype != x2.dtype or float(p) not in _NORMS or not x1.size or not x2.size:
        return None
    lead = x1.shape[:-2]
    if lead != x2.shape[:-2]:
        return None
    (rows, width), columns = x1.shape[-2:], x2.shape[-2]
    result = empty((*lead, rows, columns), x1.dtype)
    first, second = contiguous(x1), contiguous(x2.swapaxes(-1, -2))
    blocks = -(-rows // _ROWS)
    units = math.prod(lead) * blocks
    per = max(_CHUNK // (_ROWS * columns * width), 1)
    run = all_distances(FLOATS[x1.dtype], _NORMS[float(p)])
    run(-(-units // per), id(first), id(second), id(result), rows, columns, width, units, per, blocks)
    return result


@native("_pdist")
def pdist(input: np.ndarray, p: float = 2.0) -> np.ndarray | None:
    if input.dtype not in FLOATS or float(p) not in _NORMS or not input.size:
        return None
    rows, width = input.shape
    result = empty((rows * (rows - 1) // 2,), input.dtype)
    points, turned = contiguous(input), contiguous(input.T)
    units = -(-rows // _ROWS)
    chunks = max(1, min(units, rows * rows // 2 * width // _CHUNK))
    distances_of_pairs(FLOATS[input.dtype], _NORMS[float(p)])(chunks, id(points), id(turned), id(result), rows, width, units, chunks)
    return result
