"""Resampling along one dimension after another, and its adjoint: an element of the result is a weighted sum of a few others.

An array is seen as ``(outer, size, inner)`` and becomes ``(outer, count, inner)``.  Element ``j`` along the dimension is made of
``numbers[j]`` elements, whose places and weights stand in column ``j`` of two tables.  The adjoint is the same with the tables turned
around: which elements of the result an element counts in, and for how much.

      inner = 1     a register holds neighbours of the result, whose elements are gathered
      elsewhere     a register holds neighbours along ``inner``, which all have the same places and weights

Bytes are resampled as Pillow does it: weights are whole numbers, and each dimension's result is rounded to bytes, rows first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ...core.layout import channels_last, channels_last_3d, is_contiguous_as
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty

_SPAN = 4096  # elements of the result in a chunk
_FEW = 8  # along ``inner``: fewer are gathered

Table = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # numbers (count), places and weights (taps, count)


@kernel
def resample_axis(k: Builder, element: str, weighted: bool, across: bool) -> None:
    """One dimension; a unit is a block of the result along it, or across, all of ``inner`` for one element."""
    x, y, numbers, places = k.array(), k.array(), k.array(), k.array()
    weights = k.array() if weighted else None
    size, count, inner, most, units, per, blocks = (k.integer() for _ in range(7))
    lanes = k.lanes(element)
    zero = k.const(0, element, lanes)

    def block(u: Value) -> None:
        row = u // blocks
        first = (u - row * blocks) * _SPAN
        source = k.at(x, row * size, element)

        def some(j: Value, mask: Value | None) -> None:
            number = k.load(numbers, j, "i32", lanes, mask)

            def tap(t: Value, total: Value, at: Value) -> tuple[Value, Value]:
                place = k.cast(k.load(places, at, "i32", lanes, mask), "i64")
                is_there = number > k.splat(k.cast(t, "i32"), lanes)
                value = k.gather(source, place, element, is_there if mask is None else is_there & mask)
                if weights is not None:
                    value = value * k.load(weights, at, element, lanes, mask)
                return total + value, at + count

            total, _ = k.loop(0, most, tap, carried=(zero, j))
            k.store(total, y, row * count + j, element, mask)

        k.vector_loop(first, k.least(first + _SPAN, count), lanes, some)

    def plane(u: Value) -> None:
        outer, j = divmod(u, count)
        source, target = k.at(x, outer * size * inner, element), k.at(y, u * inner, element)
        number = k.cast(k.load(numbers, j, "i32"), "i64")

        def some(i: Value, mask: Value | None) -> None:
            def tap(t: Value, total: Value, at: Value) -> tuple[Value, Value]:
                value = k.load(source, k.cast(k.load(places, at, "i32"), "i64") * inner + i, element, lanes, mask)
                return total + (value if weights is None else value * k.load(weights, at, element)), at + count

            total, _ = k.loop(0, number, tap, carried=(zero, j))
            k.store(total, target, i, element, mask)

        k.vector_loop(0, inner, lanes, some)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), plane if across else block))


def _along(input: np.ndarray, axis: int, table: Table) -> np.ndarray:
    numbers, places, weights = table
    shape = input.shape
    outer, size, inner, count = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]), len(numbers)
    result = empty((*shape[:axis], count, *shape[axis + 1 :]), input.dtype)
    weights = None if weights is None else np.ascontiguousarray(weights, input.dtype)
    blocks = -(-count // _SPAN) if inner == 1 else 1
    units = outer * (blocks if inner == 1 else count)
    per = max(_SPAN // (count if inner == 1 else inner), 1)
    arrays = [input, result, numbers.astype(np.int32), np.ascontiguousarray(places, np.int32)]
    if weights is not None:
        arrays.append(weights)
    run = resample_axis(FLOATS[input.dtype], weights is not None, inner != 1)
    run(-(-units // per), *map(id, arrays), size, count, inner, len(places), units, per, blocks)
    return result


def _forward(places: np.ndarray, weights: np.ndarray | None, size: int) -> Table:
    """The tables of a plan, ``(count, taps)``, with one column an element of the result."""
    return np.full(len(places), places.shape[1]), places.T, None if weights is None else weights.T


def _adjoint(places: np.ndarray, weights: np.ndarray | None, size: int) -> Table:
    """The same with a column for each of ``size`` elements of the input."""
    flat = places.reshape(-1)
    order = flat.argsort(kind="stable")
    numbers = np.bincount(flat, minlength=size)
    begins = np.cumsum(numbers) - numbers
    column = flat[order]
    line = np.arange(len(order)) - begins[column]
    back = np.zeros((int(numbers.max()), size), np.int64)
    back[line, column] = order // places.shape[1]
    if weights is None:
        return numbers, back, None
    shares = np.zeros(back.shape, weights.dtype)
    shares[line, column] = weights.reshape(-1)[order]
    return numbers, back, shares


def _each_axis(input: np.ndarray, plan: Any, sizes: Any, table: Any) -> np.ndarray | None:
    if input.dtype not in FLOATS or not input.size or all(axis_plan is None for axis_plan in plan):
        return None
    if not input.flags.c_contiguous and input.ndim > 3 and is_contiguous_as(input, channels_last if input.ndim == 4 else channels_last_3d):
        return None
    result, first = contiguous(input), input.ndim - len(plan)
    for axis, (axis_plan, size) in enumerate(zip(plan, sizes, strict=True), first):
        if axis_plan is not None:
            result = _along(result, axis, table(*axis_plan, size))
    return result


@kernel
def resample_bytes_axis(k: Builder, across: bool, step: int) -> None:
    """One dimension of bytes; units as in ``resample_axis``, weights in units of ``2**-bits``.

    Along the dimension taps are ``step`` bytes apart, and taken out of words of four bytes: as many from each as lie in it.
    """
    x, y, begins, weights = k.array(), k.array(), k.array(), k.array()
    size, count, inner, taps, bits, total, units, per, blocks = (k.integer() for _ in range(9))
    lanes = k.lanes("i32")
    shift = k.splat(k.cast(bits, "i32"), lanes)
    half = k.splat(k.const(1, "i32"), lanes) << (shift - 1)

    def store(value: Value, target: Value, i: Value, mask: Value | None) -> None:
        k.store(k.cast(k.least(k.most(value >> shift, 0), 255), "u8"), target, i, "u8", mask)

    def block(u: Value) -> None:
        row = u // blocks
        first = (u - row * blocks) * _SPAN
        begin = row * size
        source = k.at(x, begin, "u8")
        last = k.splat(k.cast(k.least(total - 4 - begin, 2**31 - 1), "i32"), lanes)  # the last word of the array

        def some(j: Value, mask: Value | None) -> None:
            place = k.load(begins, j, "i32", lanes, mask)

            def tap(t: Value, value: Value) -> Value:
                there = place + k.splat(k.cast(t * step, "i32"), lanes)
                at = k.least(there, last)
                word = k.gather(source, k.cast(at, "i64"), "i32", mask, "u8") >> (k.least(there - at, 3) << 3)
                for more in range(_in_a_word(step)):
                    byte = (word >> 8 * more * step) & 255
                    value = value + byte * k.load(weights, (t + more) * count + j, "i32", lanes, mask)
                return value

            store(k.loop(0, taps, tap, step=_in_a_word(step), carried=(half,)), y, row * count + j, mask)

        k.vector_loop(first, k.least(first + _SPAN, count), lanes, some)

    def plane(u: Value) -> None:
        outer, j = divmod(u, count)
        source, target = k.at(x, outer * size * inner, "u8"), k.at(y, u * inner, "u8")
        place = k.cast(k.load(begins, j, "i32"), "i64")

        def some(i: Value, mask: Value | None) -> None:
            def tap(t: Value, value: Value) -> Value:
                byte = k.cast(k.load(source, k.least(place + t, size - 1) * inner + i, "u8", lanes, mask), "i32")
                return value + byte * k.splat(k.load(weights, t * count + j, "i32"), lanes)

            store(k.loop(0, taps, tap, carried=(half,)), target, i, mask)

        k.vector_loop(0, inner, lanes, some)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), plane if across else block))


def _in_a_word(step: int) -> int:
    """Number of bytes, ``step`` apart, that lie in a word of four."""
    return 1 + 3 // step


def _bytes_along(input: np.ndarray, axis: int, places: np.ndarray, weights: np.ndarray, bits: int) -> np.ndarray:
    shape = input.shape
    outer, size, inner, (count, taps) = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]), places.shape
    result = empty((*shape[:axis], count, *shape[axis + 1 :]), input.dtype)
    begins, step = places[:, 0], 1
    if 1 < inner < _FEW:  # pixels with their channels: as many neighbours more
        begins = (begins[:, None] * inner + np.arange(inner)).reshape(-1)
        weights = weights.repeat(inner, 0)
        size, count, inner, step = size * inner, count * inner, 1, inner
    shares = np.zeros((taps if inner > 1 else -(-taps // _in_a_word(step)) * _in_a_word(step), count), np.int32)
    shares[:taps] = weights.T
    blocks = -(-count // _SPAN) if inner == 1 else 1
    units = outer * (blocks if inner == 1 else count)
    per = max(_SPAN // (count if inner == 1 else inner), 1)
    run = resample_bytes_axis(inner != 1, step)
    begins = begins.astype(np.int32)
    run(-(-units // per), *map(id, (input, result, begins, shares)), size, count, inner, len(shares), bits, input.size, units, per, blocks)
    return result


def _bytes(input: np.ndarray, plan: Any) -> np.ndarray | None:
    """Images of bytes ``(N, C, H, W)`` in either layout."""
    if input.size < 4 or any(axis_plan is not None and len(axis_plan) != 3 for axis_plan in plan):
        return None
    last = not input.flags.c_contiguous and is_contiguous_as(input, channels_last)
    result, width = (input.transpose(0, 2, 3, 1), 2) if last else (contiguous(input), 3)
    for axis, axis_plan in ((width, plan[1]), (width - 1, plan[0])):  # rows first
        if axis_plan is not None:
            result = _bytes_along(result, axis, *axis_plan)
    return result.transpose(0, 3, 1, 2) if last else result


@native("nn.functional._resample")
def resample(input: np.ndarray, plan: Any) -> np.ndarray | None:
    if input.dtype == np.uint8:
        return _bytes(input, plan) if input.ndim == 4 else None
    return _each_axis(input, plan, input.shape[-len(plan) :], _forward)


@native("nn.functional._resample_backward")
def resample_backward(grad_output: np.ndarray, plan: Any, spatial: Any) -> np.ndarray | None:
    return _each_axis(grad_output, plan, spatial, _adjoint)
