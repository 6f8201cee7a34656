"""Triangles of matrices, row by row, and products of all elements of two vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import at_most, native
from ...core.calls.registry import primitive
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty
from .pointwise import run

_CHUNK = 1 << 17  # bytes that one chunk writes
_BLOCK = 1 << 14  # elements of vectors whose products are added up at once
_WAYS = 8  # registers of sums, as additions take some cycles
_LONG = 1 << 17  # elements: BLAS's one thread is as quick for fewer


@kernel
def triangle(k: Builder, element: str, lower: bool) -> None:
    """Each row copied from the diagonal on, or for ``lower`` up to it; 0 elsewhere. ``first`` is where row 0 of a matrix changes."""
    x, result = k.array(), k.array()
    total, rows, columns, first, per = (k.integer() for _ in range(5))
    lanes = k.lanes(element)

    def row(r: Value) -> None:
        begin = r * columns
        change = begin + k.most(k.least(r % rows + first, columns), 0)

        def copy(i: Value, mask: Value | None) -> None:
            k.store(k.load(x, i, element, lanes, mask), result, i, element, mask)

        def clear(i: Value, mask: Value | None) -> None:
            k.store(k.const(0, element, lanes), result, i, element, mask)

        k.vector_loop(begin, change, lanes, copy if lower else clear)
        k.vector_loop(change, begin + columns, lanes, clear if lower else copy)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, total), row))


def _triangle(lower: bool, input: np.ndarray, diagonal: int = 0) -> np.ndarray | None:
    if input.itemsize not in (1, 2, 4, 8) or input.dtype.hasobject or not input.size or not abs(diagonal) < 1 << 31:
        return None
    source = contiguous(input)
    result = empty(input.shape, input.dtype)
    rows, columns = input.shape[-2:]
    total, per = input.size // columns, max(1, _CHUNK // (columns * input.itemsize))
    copy_triangle = triangle(f"i{8 * input.itemsize}", lower)
    copy_triangle(-(-total // per), id(source), id(result), total, rows, columns, diagonal + lower, per)
    return result


tril = native("tril")(partial(_triangle, True))
triu = native("triu")(partial(_triangle, False))


@native("_unit_lower")
def unit_lower(input: np.ndarray) -> np.ndarray | None:
    result = _triangle(True, input, -1)
    if result is not None:
        rows, columns = input.shape[-2:]
        result.reshape(-1, rows * columns)[:, : columns * min(rows, columns) : columns + 1] = 1
    return result


@native("outer")
def outer(input: np.ndarray, vec2: np.ndarray) -> np.ndarray | None:
    if input.ndim != 1 or vec2.ndim != 1 or input.dtype != vec2.dtype:
        return None
    return run(primitive("mul"), (input[:, None], vec2))


@native("addr")
def addr(input: np.ndarray, vec1: np.ndarray, vec2: np.ndarray, beta: Any, alpha: Any) -> np.ndarray | None:
    if beta != 1 or alpha != 1 or not input.dtype == vec1.dtype == vec2.dtype or input.dtype.kind == "b":
        return None
    return run(primitive("addcmul"), (input, vec1[:, None], vec2, 1))


@kernel
def dots_of_blocks(k: Builder, element: str) -> None:
    """Sums of products of two vectors' elements, block by block, in registers that take turns."""
    a, b, parts = (k.array() for _ in range(3))
    size, lanes = k.integer(), k.lanes(element)

    def chunk(c: Value) -> None:
        start, stop = c * _BLOCK, k.least((c + 1) * _BLOCK, size)

        def some(i: Value, *totals: Value) -> list[Value]:
            places = [i + way * lanes for way in range(_WAYS)]
            return [k.fma(k.load(a, at, element, lanes), k.load(b, at, element, lanes), t) for at, t in zip(places, totals, strict=True)]

        def last(i: Value, mask: Value | None, total: Value) -> Value:
            return k.fma(k.load(a, i, element, lanes, mask), k.load(b, i, element, lanes, mask), total)

        main = stop - (stop - start) % (_WAYS * lanes)
        totals = list(k.loop(start, main, some, step=_WAYS * lanes, carried=[k.const(0, element, lanes)] * _WAYS))
        while len(totals) > 1:
            totals = [x + y for x, y in zip(totals[::2], totals[1::2], strict=True)]
        k.store(k.sum(k.vector_loop(main, stop, lanes, last, carried=totals)), parts, c, element)

    k.for_chunks(chunk)


@native("dot", "vdot")
def dot(input: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """The inner product of two vectors: one of each block of them, added in their order."""
    if input.ndim != 1 or input.shape != other.shape or input.dtype != other.dtype or input.dtype not in FLOATS:
        return None
    if input.size < at_most(_LONG) or not input.flags.c_contiguous or not other.flags.c_contiguous:
        return None
    parts = np.empty(-(-input.size // _BLOCK), input.dtype)
    dots_of_blocks(FLOATS[input.dtype])(parts.size, id(input), id(other), id(parts), input.size)
    return np.asarray(parts.sum(dtype=np.float64), input.dtype)
