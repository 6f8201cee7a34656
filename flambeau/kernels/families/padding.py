"""Padding by copies of an array's own elements, and its adjoint: row by row, the ends of each by a table of places.

Up to three dimensions are padded; an array is seen as ``(outer, depth, height, width)``.  Tables say which plane and which row stand at
each place, and which elements stand at both ends of a row:

      padded row   [ p p | middle ............ | p p ]     p: looked up; the middle is copied as it is

The adjoint goes over the rows of the smaller array, with the padded rows that each was copied to noted one behind the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.copies import contiguous, fill as fill_array
from ...core.arrays.native import native
from ...core.arrays.padding import places_of, sides_of
from ...core.calls.casting import checked_number
from ...core.layout import is_channels_last
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from .copies import able, copy, copy_row

_CHUNK = 1 << 15  # elements


@kernel
def extend_rows(k: Builder, element: str) -> None:
    """A unit is a row of the result."""
    x, y, at_d, at_h, at_w = (k.array() for _ in range(5))
    depth, height, width, out_depth, out_height, out_width = (k.integer() for _ in range(6))
    first, left, middle, units, per = (k.integer() for _ in range(5))

    def unit(u: Value) -> None:
        above = u // out_height
        outer = above // out_depth
        plane = outer * depth + k.load(at_d, above - outer * out_depth, "i64")
        source = k.at(x, (plane * height + k.load(at_h, u - above * out_height, "i64")) * width, element)
        target = k.at(y, u * out_width, element)

        def single(j: Value) -> None:
            k.store(k.load(source, k.load(at_w, j, "i64"), element), target, j, element)

        def at_end(j: Value) -> None:
            k.store(k.load(source, k.load(at_w, j - middle, "i64"), element), target, j, element)

        k.loop(0, left, single)
        copy_row(k, element, k.at(source, first, element), k.at(target, left, element), middle)
        k.loop(left + middle, out_width, at_end)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


@kernel
def fold_rows(k: Builder, element: str) -> None:
    """The adjoint; a unit is a row of the result. ``ends_d[i]`` is the end of what ``from_d`` notes for plane ``i``."""
    x, y, ends_d, from_d, ends_h, from_h, at_w = (k.array() for _ in range(7))
    depth, height, width, out_depth, out_height, out_width = (k.integer() for _ in range(6))
    first, left, middle, units, per = (k.integer() for _ in range(5))
    lanes = k.lanes(element)

    def noted(ends: Value, i: Value) -> tuple[Value, Value]:
        return k.load(ends, i, "i64"), k.load(ends, i + 1, "i64")

    def unit(u: Value) -> None:
        above = u // height
        outer = above // depth
        target = k.at(y, u * width, element)
        k.vector_loop(0, width, lanes, lambda j, mask: k.store(k.const(0, element, lanes), target, j, element, mask))
        rows = noted(ends_h, u - above * height)

        def plane(a: Value) -> None:
            lines = k.at(x, (outer * out_depth + k.load(from_d, a, "i64")) * out_height * out_width, element)

            def row(b: Value) -> None:
                source = k.at(lines, k.load(from_h, b, "i64") * out_width, element)

                def add(j: Value, mask: Value | None) -> None:
                    value = k.load(source, left + j, element, lanes, mask)
                    k.store(k.load(target, first + j, element, lanes, mask) + value, target, first + j, element, mask)

                def single(n: Value, j: Value) -> None:
                    place = k.load(at_w, n, "i64")
                    k.store(k.load(target, place, element) + k.load(source, j, element), target, place, element)

                k.vector_loop(0, middle, lanes, add)
                k.loop(0, left, lambda j: single(j, j))
                k.loop(left + middle, out_width, lambda j: single(j - middle, j))

            k.loop(*rows, row)

        k.loop(*noted(ends_d, above - outer * depth), plane)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


class _Rows(NamedTuple):
    """The padding of the last dimensions, as the kernels take it: for three dimensions."""

    held: list[int]  # sizes without padding
    sizes: list[int]  # and with it
    tables: list[np.ndarray]  # places of the elements along each; along rows, of those at both ends
    middle: list[int]  # of a row, which is copied as it is: where it begins in the row, where in the padded row, its length


@lru_cache(maxsize=256)
def _rows_of(sizes: tuple[int, ...], pad: tuple[int, ...], mode: str) -> _Rows:
    """The padding of arrays of ``sizes``."""
    before, after = sides_of(pad, len(sizes))
    more = 3 - len(before)
    held = [1] * more + list(sizes[len(sizes) - len(before) :])
    amounts = [(0, 0)] * more + list(zip(before, after, strict=True))
    low, high = amounts[2]
    first, last = max(-low, 0), held[2] - max(-high, 0)
    left, right = np.arange(-low, min(first, last)), np.arange(max(first, last), held[2] + high)
    tables = [np.ascontiguousarray(places_of(size, *both, mode)) for size, both in zip(held[:2], amounts[:2], strict=True)]
    tables.append(np.ascontiguousarray(places_of(held[2], low, high, mode, np.concatenate((left, right)))))
    padded = [size + sum(both) for size, both in zip(held, amounts, strict=True)]
    return _Rows(held, padded, tables, [min(first, last), left.size, max(last - first, 0)])


def _extended(input: np.ndarray, rows: _Rows) -> np.ndarray | None:
    """``input``, row-major, as ``(outer, *held)``, with the elements whose places the three tables hold."""
    element = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}.get(input.itemsize)
    if element is None or input.dtype.hasobject or not input.size:
        return None
    depth, height, width = rows.sizes
    outer = input.size // math.prod(rows.held)
    result = empty((outer, depth, height, width), input.dtype)
    if result.size:
        units, per = outer * depth * height, max(_CHUNK // width, 1)
        source = contiguous(input)
        arrays, numbers = [source, result, *rows.tables], [*rows.held, *rows.sizes, *rows.middle]
        extend_rows(element)(-(-units // per), *map(id, arrays), *numbers, units, per)
    return result


def _folded_back(grad: np.ndarray, rows: _Rows) -> np.ndarray | None:
    """The adjoint of ``_extended``: ``(outer, *held)``."""
    element, held = ELEMENTS.get(grad.dtype), rows.held
    if element not in ("f32", "f64") or not grad.size or not math.prod(held):
        return None
    outer = grad.size // math.prod(rows.sizes)
    noted = []
    for size, table in zip(held[:2], rows.tables[:2], strict=True):
        noted += [np.searchsorted(np.sort(table), np.arange(size + 1)), table.argsort(kind="stable")]
    result = empty((outer, *held), grad.dtype)
    units, per = outer * held[0] * held[1], max(_CHUNK // held[2], 1)
    source = contiguous(grad)
    arrays = [source, result, *noted, rows.tables[2]]
    fold_rows(element)(-(-units // per), *map(id, arrays), *held, *rows.sizes, *rows.middle, units, per)
    return result


@native("nn.functional._pad_by_copy")
def pad_by_copy(input: np.ndarray, pad: Sequence[int], mode: str) -> np.ndarray | None:
    before, after = sides_of(pad, input.ndim)
    if not any(pad) or len(before) > 3 or is_channels_last(input):
        return None
    made, lead = _extended(input, _rows_of(input.shape, tuple(pad), mode)), input.ndim - len(before)
    spatial = [n + low + high for n, low, high in zip(input.shape[lead:], before, after, strict=True)]
    return None if made is None else made.reshape(*input.shape[:lead], *spatial)


@native("nn.functional._pad_by_copy_backward")
def pad_by_copy_backward(grad_output: np.ndarray, pad: Sequence[int], mode: str) -> np.ndarray | None:
    before, after = sides_of(pad, grad_output.ndim)
    if not any(pad) or len(before) > 3:
        return None
    lead = grad_output.ndim - len(before)
    held = [n - low - high for n, low, high in zip(grad_output.shape[lead:], before, after, strict=True)]
    made = _folded_back(grad_output, _rows_of(tuple(held), tuple(pad), mode))
    return None if made is None else made.reshape(*grad_output.shape[:lead], *held)


@native("constant_pad_nd")
def constant_pad_nd(input: np.ndarray, pad: Sequence[int], value: Any = 0) -> np.ndarray | None:
    """The padding is written by itself: what is copied is written once."""
    before, after = sides_of(pad, input.ndim)
    if not able(input) or not input.flags.c_contiguous or min(pad, default=0) < 0 or not any(pad) or is_channels_last(input):
        return None
    lead, value = input.ndim - len(before), checked_number(value, dtypes.of_array(input))
    sizes = list(zip(input.shape[lead:], before, after, strict=True))
    result = empty((*input.shape[:lead], *[low + size + high for size, low, high in sizes]), input.dtype)
    inside = tuple([slice(low, low + size) for size, low, _ in sizes])
    for k, (size, low, high) in enumerate(sizes):
        for side, many in ((slice(None, low), low), (slice(low + size, None), high)):
            if many:
                fill_array(result[(..., *inside[:k], side, *[slice(None)] * (len(sizes) - 1 - k))], value)
    copy(input, result[(..., *inside)])
    return result
