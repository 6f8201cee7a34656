"""Numbers that follow a rule, and complex numbers made of their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.native import native
from ..compiler import target as targets
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from ..mathematics import vectors

_SPAN = 1 << 14  # elements of a chunk


@kernel
def progression(k: Builder, element: str, out: str, from_both_ends: bool) -> None:
    """``first + step * i``, computed in ``element``; with ``from_both_ends`` the upper half as ``last - step * (count - 1 - i)``."""
    result, count, first, step, last = k.array(), k.integer(), k.number(element), k.number(element), k.number(element)
    lanes = k.lanes(element)

    def some(i: Value, mask: Value | None) -> None:
        place = k.splat(k.cast(i, "i32"), lanes) + k.indices(lanes, "i32")
        if from_both_ends:
            back = k.splat(k.cast(count - 1, "i32"), lanes) - place
            value = k.fma(k.cast(place, element), step, first)
            value = k.select(place < k.cast(count // 2, "i32"), value, k.fma(k.cast(back, element), -step, last))
        else:
            value = k.cast(place, element) * step + first
        k.store(k.cast(value, out), result, i, out, mask)

    k.for_chunks(lambda c: k.vector_loop(c * _SPAN, k.least((c + 1) * _SPAN, count), lanes, some))


@native("_progression")
def evenly_spaced(dtype: np.dtype, count: int, first: float, step: float, last: float | None) -> np.ndarray | None:
    """Computed in float64 and rounded once; where there is a ``last`` it is counted back from."""
    out = ELEMENTS.get(dtype)
    if out not in ("f32", "f64") or not 0 < count < 1 << 31:
        return None
    if last is not None and not targets.current().has_fma:  # each number is rounded once
        return None
    result = empty((count,), dtype)
    run = progression("f64", out, last is not None)
    run(-(-count // _SPAN), id(result), count, float(first), float(step), 0.0 if last is None else float(last))
    return result


@kernel
def list_triangle(k: Builder, element: str) -> None:
    """Row and column of the places ``starts[i]``, ... of each row ``i``, which stand from ``ends[i]`` to ``ends[i + 1]`` in the list."""
    result, starts, ends, total, rows, per = k.array(), k.array(), k.array(), k.integer(), k.integer(), k.integer()
    lanes = k.lanes(element)

    def row(i: Value) -> None:
        begin, shift = k.load(ends, i, "i64"), k.load(starts, i, "i64") - k.load(ends, i, "i64")
        number = k.splat(k.cast(i, element), lanes)

        def some(j: Value, mask: Value | None) -> None:
            k.store(number, result, j, element, mask)
            k.store(k.splat(k.cast(j + shift, element), lanes) + k.indices(lanes, element), result, total + j, element, mask)

        k.vector_loop(begin, k.load(ends, i + 1, "i64"), lanes, some)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, rows), row))


@native("_triangle_places")
def triangle_places(result: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Any:
    """Fill ``result``, ``(2, ends[-1])``; True where that was done."""
    rows, total = starts.size, result.shape[1]
    if not total:
        return None
    per = max(1, rows * _SPAN // total)
    list_triangle(ELEMENTS[result.dtype])(-(-rows // per), id(result), id(starts), id(ends), total, rows, per)
    return True


@kernel
def join_parts(k: Builder, element: str, is_polar: bool) -> None:
    """Two arrays interleaved: real and imaginary parts, or those of a modulus and an angle."""
    first, second, result, count = k.array(), k.array(), k.array(), k.integer()
    lanes = k.lanes(element)
    both = [lane for i in range(lanes) for lane in (i, lanes + i)]

    def some(i: Value, mask: Value | None) -> None:
        real, imag = k.load(first, i, element, lanes, mask), k.load(second, i, element, lanes, mask)
        if is_polar:
            real, imag = real * vectors.cos(k, imag), real * vectors.sin(k, imag)
        for half in range(2):
            part = slice(half * lanes, (half + 1) * lanes)
            kept = None if mask is None else k.shuffle(mask, [lane % lanes for lane in both[part]])
            k.store(k.shuffle(real, both[part], imag), result, i * 2 + half * lanes, element, kept)

    k.for_chunks(lambda c: k.vector_loop(c * _SPAN, k.least((c + 1) * _SPAN, count), lanes, some))


@native("_joined_parts")
def joined_parts(first: np.ndarray, second: np.ndarray, is_polar: bool) -> np.ndarray | None:
    """The complex array of two real ones that lie in row-major order."""
    if first.__class__ is not np.ndarray or second.__class__ is not np.ndarray:  # symbols of which an expression is made
        return None
    element = ELEMENTS.get(first.dtype)
    if element not in ("f32", "f64") or first.dtype != second.dtype or first.shape != second.shape or not first.size:
        return None
    if not first.flags.c_contiguous or not second.flags.c_contiguous:
        return None
    result = empty(first.shape, np.dtype(np.complex64 if element == "f32" else np.complex128))
    join_parts(element, is_polar)(-(-first.size // _SPAN), id(first), id(second), id(result), first.size)
    return result
