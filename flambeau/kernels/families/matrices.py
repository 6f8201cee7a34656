"""Triangles of matrices, row by row, products of all elements of two vectors, and vector products of triples."""

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


# -- triples ------------------------------------------------------------------------------------------------------------------------------
def _apart(k: Builder, registers: list[Value], place: int) -> Value:
    """Of triples that lie side by side in three registers, the elements at one place."""
    lanes = registers[0].lanes
    wanted = [3 * i + place for i in range(lanes)]
    low = k.shuffle(registers[0], [at if at < 2 * lanes else 0 for at in wanted], registers[1])
    return k.shuffle(low, [i if at < 2 * lanes else at - lanes for i, at in enumerate(wanted)], registers[2])


def _side_by_side(k: Builder, parts: list[Value], register: int) -> Value:
    """One of the three registers in which triples lie side by side."""
    lanes = parts[0].lanes
    wanted = [divmod(at, 3) for at in range(register * lanes, (register + 1) * lanes)]
    low = k.shuffle(parts[0], [i + lanes * (place == 1) if place < 2 else 0 for i, place in wanted], parts[1])
    return k.shuffle(low, [lanes + i if place == 2 else at for at, (i, place) in enumerate(wanted)], parts[2])


def _vector_product(a: list[Value], b: list[Value]) -> list[Value]:
    return [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]


@kernel
def cross_triples(k: Builder, element: str) -> None:
    """``result = x`` cross ``y`` of triples that lie side by side."""
    x, y, result, count, span = k.array(), k.array(), k.array(), k.integer(), k.integer()
    lanes = k.lanes(element)

    def some(i: Value) -> None:
        a, b = ([k.load(array, i * 3 + r * lanes, element, lanes) for r in range(3)] for array in (x, y))
        product = _vector_product(*[[_apart(k, registers, place) for place in range(3)] for registers in (a, b)])
        for register in range(3):
            k.store(_side_by_side(k, product, register), result, i * 3 + register * lanes, element)

    def one(i: Value) -> None:
        a, b = ([k.load(array, i * 3 + place, element) for place in range(3)] for array in (x, y))
        for place, value in enumerate(_vector_product(a, b)):
            k.store(value, result, i * 3 + place, element)

    def chunk(c: Value) -> None:
        start, stop = c * span, k.least((c + 1) * span, count)
        whole = stop - (stop - start) % lanes
        k.loop(start, whole, some, step=lanes)
        k.loop(whole, stop, one)

    k.for_chunks(chunk)


@native("linalg.cross")
def cross(input: np.ndarray, other: np.ndarray, dim: int = -1) -> np.ndarray | None:
    """Triples along the last dimension; along others, or broadcast, the reference's."""
    element = FLOATS.get(input.dtype)
    if element is None or other.dtype != input.dtype or input.shape != other.shape or dim not in (-1, input.ndim - 1) or not input.size:
        return None
    x, y, count = contiguous(input), contiguous(other), input.size // 3
    result, span = empty(input.shape, input.dtype), _BLOCK // 2
    cross_triples(element)(-(-count // span), id(x), id(y), id(result), count, span)
    return result
