"""Rows of what orders, finds and accumulates elements along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ..builder import Builder, Value
from . import of_reduced_vectors, of_vectors, row
from .elementwise import promoted
from .shapes import sizes_of


# ---- the k-th of the elements
def _without(x: Value, axis: int) -> tuple[Any, ...]:
    return tuple([size for d, size in enumerate(x.shape) if d != axis])


def _length(b: Builder, x: Value, axis: int) -> Value:
    """The size of a dimension, 1-d."""
    if x.size(axis) is not None:
        return b.ints([x.shape[axis]])
    made: Value = b.op("Shape", x, start=axis, end=axis + 1, dtype=dtypes.int64, shape=(1,))
    return made


def _smallest(b: Builder, x: Value, axis: int, count: Value) -> list[Value]:
    """The ``count`` smallest elements in order, and where they are."""
    shape = [*x.shape[:axis], None, *x.shape[axis + 1 :]]
    found: list[Value] = b.op("TopK", x, count, axis=axis, largest=0, sorted=1, count=2, shape=shape)
    found[1].dtype = dtypes.int64
    return found


def _last(b: Builder, x: Value, axis: int, keepdim: bool) -> Value:
    place = b.constant([-1] if keepdim else -1, dtypes.int64)
    made: Value = b.op("Gather", x, place, axis=axis, shape=[*x.shape[:axis], *([1] if keepdim else []), *x.shape[axis + 1 :]])
    return made


def _or_nan(b: Builder, x: Value, axis: int, keepdim: bool, parts: list[Value]) -> list[Value]:
    """The first NaN in place of what was found, where there is one."""
    if not x.dtype.is_floating_point:
        return parts
    is_nan = b.op("IsNaN", x, dtype=dtypes.bool_)
    flags = b.cast(is_nan, dtypes.int32)
    options = {"keepdims": int(keepdim), "shape": parts[0].shape}
    found = b.cast(b.op("ReduceMax", flags, b.ints([axis]), **options), dtypes.bool_)
    place = b.op("ArgMax", flags, axis=axis, dtype=dtypes.int64, **options)
    value = b.op("Where", found, b.constant(math.nan, x.dtype), parts[0], dtype=x.dtype)
    return [value, b.op("Where", found, place, parts[1], dtype=dtypes.int64)]


@row("kthvalue")
@of_reduced_vectors
def _kthvalue(b: Builder, x: Value, k: Any, dim: int = -1, keepdim: bool = False) -> list[Value]:
    axis = dim % x.rank
    values, places = _smallest(b, b.cast(x, dtypes.int32) if x.dtype is dtypes.bool_ else x, axis, b.sizes([k]))
    return [_last(b, part, axis, keepdim) for part in (b.cast(values, x.dtype), places)]


@row("median.dim")
@of_reduced_vectors
def _median_along(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    axis = dim % x.rank
    one, two = b.ints([1]), b.ints([2])
    count = b.op("Div", b.op("Add", _length(b, x, axis), one), two)
    parts = _smallest(b, x, axis, count)
    return _or_nan(b, x, axis, keepdim, [_last(b, part, axis, keepdim) for part in parts])


@row("median.default")
def _median(b: Builder, x: Value) -> Value:
    return _median_along(b, b.op("Reshape", x, b.ints([-1]), shape=(None,)), 0)[0]


def _median_of_numbers(b: Builder, x: Value, axis: int, keepdim: bool) -> list[Value]:
    """NaN is put behind all numbers, and the middle is that of the numbers in front of it."""
    is_nan = b.op("IsNaN", x, dtype=dtypes.bool_)
    filled = b.op("Where", is_nan, b.constant(math.inf, x.dtype), x, dtype=x.dtype)
    parts = _smallest(b, filled, axis, _length(b, x, axis))
    kept = [*x.shape[:axis], 1, *x.shape[axis + 1 :]]
    count = b.op("ReduceSum", b.cast(b.op("Not", is_nan), dtypes.int64), b.ints([axis]), keepdims=1, shape=kept)
    none = b.op("Equal", count, b.constant(0, dtypes.int64), dtype=dtypes.bool_)
    less = b.op("Max", b.op("Sub", count, b.constant(1, dtypes.int64)), b.constant(0, dtypes.int64))
    middle = b.op("Div", less, b.constant(2, dtypes.int64))
    value, place = (b.op("GatherElements", part, middle, axis=axis, shape=kept) for part in parts)
    value = b.op("Where", none, b.constant(math.nan, x.dtype), value, dtype=x.dtype)
    return [value, place] if keepdim else [b.squeeze(value, [axis]), b.squeeze(place, [axis])]


@row("nanmedian.dim")
@of_reduced_vectors
def _nanmedian_along(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    if not x.dtype.is_floating_point:
        made: list[Value] = _median_along(b, x, dim, keepdim)
        return made
    return _median_of_numbers(b, x, dim % x.rank, keepdim)


@row("nanmedian.default")
def _nanmedian(b: Builder, x: Value) -> Value:
    made: Value = _nanmedian_along(b, b.op("Reshape", x, b.ints([-1]), shape=(None,)), 0)[0]
    return made


# ---- places in sorted rows
def _place(b: Builder, values: Value, row: Value, right: bool, out_int32: bool) -> Value:
    """The number of elements of a row before a value: those that are not behind it, so that NaN is behind all."""
    kind = "Greater" if right else "GreaterOrEqual"
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    before = b.op("Not", b.op(kind, row, b.unsqueeze(values, [-1]), dtype=dtypes.bool_, shape=(*values.shape, None)))
    made: Value = b.op("ReduceSum", b.cast(before, dtype), b.ints([-1]), keepdims=0, shape=values.shape)
    return made


@row("bucketize")
def _bucketize(b: Builder, values: Any, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    values, boundaries = promoted(b, values, boundaries)
    return _place(b, values, boundaries, right, out_int32)


@row("searchsorted")
def _searchsorted(
    b: Builder,
    sequence: Value,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    if sorter is not None:
        sequence = b.op("GatherElements", sequence, sorter, axis=sequence.rank - 1)
    values, sequence = promoted(b, values, sequence)
    if sequence.rank > 1:
        sequence = b.unsqueeze(sequence, [-2])
    return _place(b, values, sequence, right or side == "right", out_int32)


# ---- accumulated step by step
def _scanned(b: Builder, x: Value, axis: int, start: list[Value], step: Callable[..., list[Value]], dtypes_: list[Any]) -> list[Value]:
    """A ``Scan`` along a dimension whose results at each step are its states."""

    def body(*values: Value) -> list[Value]:
        made = step(*values)
        return [*made, *made]

    parts: list[Value] = b.scan(body, start, x, axis)[len(start) :]
    for part, dtype in zip(parts, dtypes_, strict=True):
        part.dtype, part.shape = dtype, x.shape
    return parts


def _first(b: Builder, x: Value, axis: int, value: Any, dtype: Any) -> Value:
    """A number in the shape of a part of ``x``."""
    sizes = b.sizes(sizes_of(b, x, [d for d in range(x.rank) if d != axis]))
    return b.expand(b.constant(value, dtype), sizes, _without(x, axis))


@row("cumprod")
@of_vectors
def _cumprod(b: Builder, x: Value, dim: int, *, dtype: Any = None) -> Value:
    x, axis = b.cast(x, b.dtype), dim % x.rank
    return _scanned(b, x, axis, [_first(b, x, axis, 1, x.dtype)], lambda product, part: [b.op("Mul", product, part)], [x.dtype])[0]


@row("logcumsumexp")
@of_vectors
def _logcumsumexp(b: Builder, x: Value, dim: int) -> Value:
    """The logarithm of a sum so far, by the larger of its two parts."""
    axis = dim % x.rank

    def step(total: Value, part: Value) -> list[Value]:
        most = b.op("Max", total, part)
        apart = b.op("Neg", b.op("Abs", b.op("Sub", total, part)))
        rest = b.op("Log", b.op("Add", b.op("Exp", apart), b.constant(1, x.dtype)))
        equal = b.op("Equal", total, part, dtype=dtypes.bool_)  # infinities, too: their difference is NaN
        rest = b.op("Where", equal, b.constant(math.log(2), x.dtype), rest, dtype=x.dtype)
        return [b.op("Add", most, rest)]

    return _scanned(b, x, axis, [_first(b, x, axis, -math.inf, x.dtype)], step, [x.dtype])[0]


def _extreme_so_far(b: Builder, x: Value, axis: int, kind: str) -> list[Value]:
    """The largest or smallest element so far, and where it is: the last of equal ones, and NaN from the first one on."""
    if x.dtype is dtypes.bool_:
        values, places = _extreme_so_far(b, b.cast(x, dtypes.int32), axis, kind)
        return [b.cast(values, x.dtype), places]
    is_float = x.dtype.is_floating_point
    limits = np.iinfo(x.dtype.numpy) if not is_float else None
    low, high = (-math.inf, math.inf) if limits is None else (limits.min, limits.max)
    least = low if kind == "Greater" else high

    def step(found: Value, place: Value, here: Value, part: Value) -> list[Value]:
        after = b.op(f"{kind}OrEqual", part, found, dtype=dtypes.bool_)
        after = b.op("Or", after, b.op("IsNaN", part, dtype=dtypes.bool_)) if is_float else after
        value = b.op("Where", after, part, found, dtype=x.dtype)
        last = b.op("Where", after, here, place, dtype=dtypes.int64)
        return [value, last, b.op("Add", here, b.constant(1, dtypes.int64))]

    start = [_first(b, x, axis, least, x.dtype), *[_first(b, x, axis, 0, dtypes.int64) for _ in range(2)]]
    return _scanned(b, x, axis, start, step, [x.dtype, dtypes.int64, dtypes.int64])[:2]


@row("cummax")
@of_vectors
def _cummax(b: Builder, x: Value, dim: int) -> list[Value]:
    return _extreme_so_far(b, x, dim % x.rank, "Greater")


@row("cummin")
@of_vectors
def _cummin(b: Builder, x: Value, dim: int) -> list[Value]:
    return _extreme_so_far(b, x, dim % x.rank, "Less")
