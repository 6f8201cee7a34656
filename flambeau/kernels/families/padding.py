"""Padding by copies of an array's own elements, and its adjoint: row by row, the ends of each by a table of places.

Up to three dimensions are padded; an array is seen as ``(outer, depth, height, width)``.  Tables say which element stands at each place:

      padded row   [ p p | middle ............ | p p ]     p: looked up; the middle is copied as it is

The adjoint goes over the rows of the smaller array, with the padded rows that each was copied to noted one behind the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ...core.arrays.padding import places_of, sides_of
from ...core.layout import is_channels_last
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from .copies import copy_row

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

        k.loop(0, left, single)
        copy_row(k, element, k.at(source, first, element), k.at(target, left, element), middle)
        k.loop(left + middle, out_width, single)

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

                def single(j: Value) -> None:
                    place = k.load(at_w, j, "i64")
                    k.store(k.load(target, place, element) + k.load(source, j, element), target, place, element)

                k.vector_loop(0, middle, lanes, add)
                k.loop(0, left, single)
                k.loop(left + middle, out_width, single)

            k.loop(*rows, row)

        k.loop(*noted(ends_d, above - outer * depth), plane)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


def _rows_of(sizes: Sequence[int], pad: Any, mode: str) -> tuple[list[int], list[np.ndarray], list[int]]:
    """The padding of the last dimensions, whose ``sizes`` are those without padding, as the kernel takes it: for three dimensions.

    Returns:
        The three sizes, the places of the elements along each, and of a row's middle, which is copied as it is, where it begins in the
        row, where in the padded row, and its length.
    """
    before, after = sides_of(pad, len(sizes))
    more = 3 - len(before)
    held = [1] * more + list(sizes[len(sizes) - len(before) :])
    amounts = [(0, 0)] * more + list(zip(before, after, strict=True))
    tables = [np.ascontiguousarray(places_of(size, *both, mode)) for size, both in zip(held, amounts, strict=True)]
    low, high = amounts[2]
    first, last = max(-low, 0), held[2] - max(-high, 0)
    return held, tables, [min(first, last), max(low, 0), max(last - first, 0)]


def extended(input: np.ndarray, held: Sequence[int], tables: Sequence[np.ndarray], row: Sequence[int]) -> np.ndarray | None:
    """``input``, row-major, as ``(outer, *held)``, with the elements whose places the three ``tables`` hold.

    Args:
        row: where the middle of a row begins, there and in the result, and how long it is.
    """
    element = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}.get(input.itemsize)
    if element is None or input.dtype.hasobject or not input.size:
        return None
    depth, height, width = sizes = [table.size for table in tables]
    outer = input.size // math.prod(held)
    result = empty((outer, depth, height, width), input.dtype)
    if result.size:
        units, per = outer * depth * height, max(_CHUNK // width, 1)
        source = contiguous(input)
        extend_rows(element)(-(-units // per), id(source), id(result), *map(id, tables), *held, *sizes, *row, units, per)
    return result


def folded_back(grad: np.ndarray, held: Sequence[int], tables: Sequence[np.ndarray], row: Sequence[int]) -> np.ndarray | None:
    """The adjoint of ``extended``: ``(outer, *held)``."""
    element = ELEMENTS.get(grad.dtype)
    if element not in ("f32", "f64") or not grad.size or not math.prod(held):
        return None
    sizes = [table.size for table in tables]
    outer = grad.size // math.prod(sizes)
    noted = []
    for size, table in zip(held[:2], tables[:2], strict=True):
        noted += [np.searchsorted(np.sort(table), np.arange(size + 1)), table.argsort(kind="stable")]
    result = empty((outer, *held), grad.dtype)
    units, per = outer * held[0] * held[1], max(_CHUNK // held[2], 1)
    source = contiguous(grad)
    arrays = [source, result, *noted, tables[2]]
    fold_rows(element)(-(-units // per), *map(id, arrays), *held, *sizes, *row, units, per)
    return result


@native("nn.functional._pad_by_copy")
def pad_by_copy(input: np.ndarray, pad: Sequence[int], mode: str) -> np.ndarray | None:
    before, after = sides_of(pad, input.ndim)
    if not any(pad) or len(before) > 3 or is_channels_last(input):
        return None
    made, lead = extended(input, *_rows_of(input.shape, pad, mode)), input.ndim - len(before)
    spatial = [n + low + high for n, low, high in zip(input.shape[lead:], before, after, strict=True)]
    return None if made is None else made.reshape(*input.shape[:lead], *spatial)


@native("nn.functional._pad_by_copy_backward")
def pad_by_copy_backward(grad_output: np.ndarray, pad: Sequence[int], mode: str) -> np.ndarray | None:
    before, after = sides_of(pad, grad_output.ndim)
    if not any(pad) or len(before) > 3:
        return None
    lead = grad_output.ndim - len(before)
    held = [n - low - high for n, low, high in zip(grad_output.shape[lead:], before, after, strict=True)]
    made = folded_back(grad_output, *_rows_of(held, pad, mode))
    return None if made is None else made.reshape(*grad_output.shape[:lead], *held)
