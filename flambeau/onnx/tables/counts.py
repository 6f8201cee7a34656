"""Rows of what finds distinct elements, counts them and repeats them: results whose sizes depend on values."""

from __future__ import annotations

from typing import Any

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import row
from .shapes import _END, merged


def _flat(b: Builder, x: Value) -> Value:
    made: Value = b.op("Reshape", x, b.ints([-1]), shape=(None,))
    return made


def _one(b: Builder) -> Value:
    return b.constant(1, dtypes.int64)


def _shown(b: Builder, parts: list[Value]) -> list[Value]:
    for part, result in zip(parts, b.result, strict=True):
        part.dtype, part.shape = result.dtype, tuple(result.shape)
    return parts


# ---- distinct elements
def _distinct(b: Builder, x: Value, axis: int | None, shape: Value | None) -> list[Value]:
    number = dtypes.int64 if x.dtype is dtypes.bool_ else x.dtype
    values, _, inverse, counts = b.op("Unique", b.cast(x, number), axis=axis, sorted=1, count=4, shape=(None,))
    inverse.dtype = counts.dtype = dtypes.int64
    if shape is not None:
        inverse = b.op("Reshape", inverse, shape)
    return _shown(b, [b.cast(values, x.dtype), inverse, counts])


@row("_unique2")
def _unique(b: Builder, x: Value, *options: Any) -> list[Value]:
    return _distinct(b, x, None, b.shape_of(x))


@row("unique_dim")
def _unique_along(b: Builder, x: Value, dim: int, *options: Any) -> list[Value]:
    return _distinct(b, x, dim % x.rank, None)


@row("unique_consecutive")
def _unique_consecutive(b: Builder, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> list[Value]:
    if dim is not None or not x.rank or any(size == 0 for size in x.shape):
        raise SymbolicValueError("unique_consecutive is supported for the flattened elements of a tensor that has some", dim)
    flat = _flat(b, x)
    later, earlier = b.slice(flat, 0, 1, _END), b.slice(flat, 0, 0, -1)
    differs = b.op("Not", b.op("Equal", later, earlier, dtype=dtypes.bool_))
    begins = b.op("Concat", b.constant([True], dtypes.bool_), differs, axis=0)
    values = b.op("Compress", flat, begins, axis=0)
    run = b.op("Sub", b.op("CumSum", b.cast(begins, dtypes.int64), b.constant(0, dtypes.int64)), _one(b))
    starts = _flat(b, b.op("NonZero", begins, dtype=dtypes.int64, shape=(1, None)))
    bounds = b.op("Concat", starts, b.op("Shape", flat, dtype=dtypes.int64, shape=(1,)), axis=0)
    counts = b.op("Sub", b.slice(bounds, 0, 1, _END), starts)
    return _shown(b, [values, b.op("Reshape", run, b.shape_of(x)), counts])


# ---- how many there are
@row("bincount")
def _bincount(b: Builder, x: Value, weights: Value | None = None, minlength: Any = 0) -> Value:
    x = b.cast(x, dtypes.int64)
    least = b.op("Sub", b.sizes([minlength]), b.ints([1]))
    most = b.op("ReduceMax", b.op("Concat", x, least, axis=0, shape=(None,)), b.ints([0]), keepdims=1, shape=(1,))
    zeros = b.expand(b.constant(0, b.dtype), b.op("Add", most, b.ints([1])), b.shape)
    ones = b.expand(b.constant(1, b.dtype), b.shape_of(x), x.shape) if weights is None else b.cast(weights, b.dtype)
    return b.op("ScatterElements", zeros, x, ones, axis=0, reduction="add")


def _bounds(b: Builder, flat: Value) -> list[Value]:
    """The smallest and the largest element, one less and one more where they are equal, and the distance."""
    ends = [b.op(kind, flat, keepdims=0, shape=()) for kind in ("ReduceMin", "ReduceMax")]
    margin = b.cast(b.op("Equal", *ends, dtype=dtypes.bool_), flat.dtype)
    low, high = b.op("Sub", ends[0], margin), b.op("Add", ends[1], margin)
    return [low, high, b.op("Sub", high, low)]


@row("histc")
def _histc(b: Builder, x: Value, bins: int = 100, min: Any = 0, max: Any = 0) -> Value:
    flat = _flat(b, x)
    low, high, width = _bounds(b, flat) if min == max else [b.constant(value, x.dtype) for value in (min, max, max - min)]
    inside = b.op(
        "And",
        b.op("GreaterOrEqual", flat, low, dtype=dtypes.bool_),
        b.op("LessOrEqual", flat, high, dtype=dtypes.bool_),
    )
    kept = b.op("Compress", flat, inside, axis=0, shape=(None,))
    scaled = b.op("Div", b.op("Mul", b.op("Sub", kept, low), b.constant(bins, x.dtype)), width)
    places = b.op("Min", b.cast(b.op("Floor", scaled), dtypes.int64), b.constant(bins - 1, dtypes.int64))
    ones = b.expand(b.constant(1, x.dtype), b.op("Shape", places, dtype=dtypes.int64, shape=(1,)), (None,))
    return b.op("ScatterElements", b.constant([0] * bins, x.dtype), places, ones, axis=0, reduction="add")


# ---- repeated elements
@row("repeat_interleave.self_int")
def _repeat_interleave(b: Builder, x: Value, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Value:
    if dim is None or not x.rank:
        x, dim = _flat(b, x), 0
    axis = dim % x.rank
    wide = b.unsqueeze(x, [axis + 1])
    times: list[Any] = [1] * wide.rank
    times[axis + 1] = repeats
    size = None if isinstance(repeats, Value) else repeats
    tiled = b.op("Tile", wide, b.sizes(times), shape=[*x.shape[: axis + 1], size, *x.shape[axis + 1 :]])
    return merged(b, tiled, axis, axis + 1)


@row("repeat_interleave.Tensor")
def _places_repeated(b: Builder, repeats: Value, *, output_size: Any = None) -> Value:
    """The number of runs that end at a place or before it."""
    counts = b.cast(repeats, dtypes.int64)
    ends = b.op("CumSum", counts, b.constant(0, dtypes.int64))
    total = b.op("ReduceSum", counts, b.ints([0]), keepdims=0, shape=())
    every = b.op("Range", b.constant(0, dtypes.int64), total, _one(b), dtype=dtypes.int64, shape=(None,))
    before = b.op("LessOrEqual", ends, b.unsqueeze(every, [1]), dtype=dtypes.bool_, shape=(None, *ends.shape))
    found = b.op("ReduceSum", b.cast(before, dtypes.int64), b.ints([1]), keepdims=0, shape=(None,))
    return b.cast(found, repeats.dtype)


@row("repeat_interleave.self_Tensor")
def _repeat_interleave_by(b: Builder, x: Value, repeats: Value, dim: int | None = None, *, output_size: Any = None) -> Value:
    if dim is None or not x.rank:
        x, dim = _flat(b, x), 0
    axis = dim % x.rank
    if not repeats.rank or repeats.shape[0] == 1:
        size = b.slice(b.op("Shape", x, dtype=dtypes.int64, shape=(x.rank,)), 0, axis, axis + 1, shape=(1,))
        repeats = b.expand(repeats, size, (x.shape[axis],))
    return b.op("Gather", x, _places_repeated(b, repeats), axis=axis, shape=b.shape)
