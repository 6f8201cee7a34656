"""Triangles of matrices, row by row, and products of all elements of two vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import at_most, native
from ...core.calls.registry import primitive
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from .pointwise import run
from .sparse import elements_of_product

_CHUNK = 1 << 17  # bytes that one chunk writes
_BLOCK = 1 << 14  # elements of vectors whose products are added up at once
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


@native("dot", "vdot")
def dot(input: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """The inner product of two vectors: one of each block of them, added in their order."""
    if input.ndim != 1 or input.shape != other.shape or input.dtype != other.dtype or input.dtype.kind != "f":
        return None
    if input.size < at_most(_LONG) or not input.flags.c_contiguous or not other.flags.c_contiguous:
        return None
    blocks = -(-input.size // _BLOCK) - 1
    whole = blocks * _BLOCK
    places = np.arange(max(blocks, 1))
    rest = elements_of_product(input[None, whole:], other[None, whole:], places[:1], places[:1])
    if rest is None or not blocks:
        return None if rest is None else rest.reshape(())
    first, second = (vector[:whole].reshape(blocks, _BLOCK) for vector in (input, other))
    parts = elements_of_product(first, second, places, places)
    return None if parts is None else np.asarray(parts.sum(dtype=np.float64) + rest[0], input.dtype)
