"""Distances between all rows of two matrices: four rows of the first at a time, a register of rows of the second, which is turned."""

from __future__ import annotations

import math

import numpy as np

from ..core.arrays.native import contiguous, native
from .build import kernel
from .language import Builder, Value
from .memory import empty

_ROWS = 4
_KINDS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_CHUNK = 1 << 17  # differences
_NORMS = {1.0: "sum", 2.0: "euclidean", math.inf: "largest"}


@kernel
def all_distances(k: Builder, kind: str, norm: str) -> None:
    """``y[b, i, j]``, the norm of ``x1[b, i] - x2[b, :, j]``; a unit is four ``i``."""
    x1, x2, y = k.array(), k.array(), k.array()
    rows, columns, width, units, per, blocks = (k.integer() for _ in range(6))
    lanes = k.lanes(kind)

    def add(total: Value, apart: Value) -> Value:
        if norm == "euclidean":
            return total + apart * apart
        size = k.abs(apart)
        return total + size if norm == "sum" else k.select(size > total, size, k.select(size.is_nan(), size, total))

    def several(b: Value, first: Value, count: int) -> None:
        other, here = k.at(x2, b * width * columns, kind), b * rows + first

        def some(j: Value, mask: Value | None) -> None:
            def element(e: Value, *totals: Value) -> tuple[Value, ...]:
                value = k.load(other, e * columns + j, kind, lanes, mask)
                return tuple(add(total, k.load(x1, (here + r) * width + e, kind) - value) for r, total in enumerate(totals))

            totals = k.loop(0, width, element, carried=[k.const(0, kind, lanes)] * count)
            for r, total in enumerate(totals if count > 1 else (totals,)):
                k.store(k.sqrt(total) if norm == "euclidean" else total, y, (here + r) * columns + j, kind, mask)

        k.vector_loop(0, columns, lanes, some)

    def unit(u: Value) -> None:
        b = u // blocks
        first = (u - b * blocks) * _ROWS
        k.when(
            first + _ROWS <= rows,
            lambda: several(b, first, _ROWS),
            lambda: k.loop(first, rows, lambda i: several(b, i, 1)),
        )

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


@native("cdist")
def cdist(x1: np.ndarray, x2: np.ndarray, p: float = 2.0, compute_mode: str | None = None) -> np.ndarray | None:
    if x1.dtype not in _KINDS or x1.dtype != x2.dtype or float(p) not in _NORMS or not x1.size or not x2.size:
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
    run = all_distances(_KINDS[x1.dtype], _NORMS[float(p)])
    run(-(-units // per), id(first), id(second), id(result), rows, columns, width, units, per, blocks)
    return result
