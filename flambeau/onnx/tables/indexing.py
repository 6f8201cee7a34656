"""Rows of what reads and writes elements by index."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS, of_vectors, row
from .shapes import _END, sizes_of


@row("embedding")
def _embedding(b: Builder, weight: Value, indices: Value, *options: Any) -> Value:
    return b.op("Gather", weight, indices, axis=0, shape=b.shape)


@row("index_select")
@of_vectors
def _index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    if not index.rank:
        index = b.unsqueeze(index, [0])
    return b.op("Gather", x, index, axis=dim % x.rank, shape=b.shape)


@row("gather")
def _gather(b: Builder, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if not x.rank:
        return x
    return b.op("GatherElements", x, index, axis=dim % x.rank, shape=b.shape)


@row("take_along_dim")
def _take_along_dim(b: Builder, x: Value, indices: Value, dim: Any = None) -> Value:
    if dim is None:
        flat = [b.op("Reshape", each, b.ints([-1]), shape=(None,)) for each in (x, indices)]
        return b.op("GatherElements", *flat, axis=0, shape=b.shape)
    axis, wide = dim % x.rank, _wider(x, indices)
    if any(size != wide[d] for each in (x, indices) for d, size in enumerate(each.shape) if d != axis):
        kept = (*wide[:axis], 1, *wide[axis + 1 :])
        parts = [b.slice(each, axis, 0, 1, shape=(*each.shape[:axis], 1, *each.shape[axis + 1 :])) for each in (x, indices)]
        total = b.op("Or", *[b.op("Equal", part, part, dtype=dtypes.bool_) for part in parts], shape=kept)
        x, indices = (_widened(b, each, total) for each in (x, indices))
    return b.op("GatherElements", x, indices, axis=axis, shape=b.shape)


def _widened(b: Builder, x: Value, like: Value) -> Value:
    """A tensor broadcast to another one."""
    sizes = b.op("Shape", like, dtype=dtypes.int64, shape=(like.rank,))
    return b.expand(x, sizes, _wider(x, like))


@row("scatter.src", "scatter.value")
@of_vectors
def _scatter(b: Builder, x: Value, dim: int, index: Value, source: Any) -> Value:
    source = source if isinstance(source, Value) else b.expand(b.constant(source, x.dtype), b.shape_of(index), index.shape)
    return b.op("ScatterElements", x, index, _cut(b, source, index), axis=dim % x.rank)


@row("scatter.reduce", "scatter.value_reduce")
@of_vectors
def _scatter_by(b: Builder, x: Value, dim: int, index: Value, source: Any, *, reduce: str) -> Value:
    source = source if isinstance(source, Value) else b.expand(b.constant(source, x.dtype), b.shape_of(index), index.shape)
    word = {"add": "add", "multiply": "mul"}[reduce]
    return b.op("ScatterElements", x, index, _cut(b, source, index), axis=dim % x.rank, reduction=word)


def _cut(b: Builder, source: Value, index: Value) -> Value:
    """The part of a source that an index has places for."""
    if source.shape == index.shape:
        return source
    starts, axes = b.ints([0] * index.rank), b.ints(range(index.rank))
    return b.op("Slice", source, starts, b.shape_of(index), axes, shape=index.shape)


@row("scatter_add")
@of_vectors
def _scatter_add(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return b.op("ScatterElements", x, index, _cut(b, source, index), axis=dim % x.rank, reduction="add")


# Reductions with their words in ONNX, and what does not change their results.
_REDUCTIONS = {"sum": ("add", 0), "prod": ("mul", 1), "amax": ("max", -math.inf), "amin": ("min", math.inf), "mean": ("add", 0)}


def _reduced_into(b: Builder, x: Value, source: Value, reduce: str, include_self: bool, put: Callable[..., Value]) -> Value:
    """``source`` reduced into ``x``, to places where ``put(tensor, values, reduction)`` brings it.

    Without the tensor itself, the places are first set to what changes no result.
    """
    word, neutral = _REDUCTIONS[reduce]
    if abs(neutral) == math.inf and not x.dtype.is_floating_point:
        limits = np.iinfo(x.dtype.numpy)
        neutral = limits.min if neutral < 0 else limits.max
    every = b.expand(b.constant(neutral, x.dtype), b.shape_of(source), source.shape)
    found = put(x if include_self else put(x, every, "none"), source, word)
    if reduce != "mean":
        return found
    ones = [
        b.expand(b.constant(value, x.dtype), b.shape_of(tensor), tensor.shape) for value, tensor in ((int(include_self), x), (1, source))
    ]
    count = b.op("Max", put(ones[0], ones[1], "add"), b.constant(1, x.dtype))
    return b.op("Div", found, count) if x.dtype.is_floating_point else ROWS["floor_divide"](b, found, count)


@row("scatter_reduce")
@of_vectors
def _scatter_reduce(b: Builder, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True) -> Value:
    def put(tensor: Value, values: Value, reduction: str) -> Value:
        made: Value = b.op("ScatterElements", tensor, index, values, axis=dim % x.rank, reduction=reduction)
        return made

    if x.dtype is dtypes.bool_:
        number = dtypes.int32
        return b.cast(_scatter_reduce(b, b.cast(x, number), dim, index, b.cast(source, number), reduce, include_self=include_self), x.dtype)
    return _reduced_into(b, x, _cut(b, source, index), reduce, include_self, put)


@row("index_reduce")
@of_vectors
def _index_reduce(b: Builder, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True) -> Value:
    def put(tensor: Value, values: Value, reduction: str) -> Value:
        return _indexed(b, tensor, dim, index, values, reduction)

    return _reduced_into(b, x, source, reduce, include_self, put)


@row("put")
def _put(b: Builder, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    flat = [b.op("Reshape", each, b.ints([-1]), shape=(None,)) for each in (x, index, source)]
    written = b.op("ScatterElements", *flat, axis=0, reduction="add" if accumulate else "none")
    return b.op("Reshape", written, b.shape_of(x), shape=x.shape)


def _indexed(b: Builder, x: Value, dim: int, index: Value, source: Value, reduction: str) -> Value:
    """Slices of ``source`` go to places along a dimension."""
    axis = dim % x.rank
    order = [axis, *[d for d in range(x.rank) if d != axis]]
    front = b.transpose(x, order)
    if source.rank != x.rank:
        source = b.expand(source, b.sizes([*sizes_of(b, index, [0]), *sizes_of(b, front, range(1, x.rank))]), front.shape)
    updates = b.transpose(source, order)
    done = b.op("ScatterND", front, b.unsqueeze(index, [-1]), updates, reduction=reduction, shape=front.shape)
    back = [0] * x.rank
    for place, d in enumerate(order):
        back[d] = place
    return b.transpose(done, back)


@row("index_add")
@of_vectors
def _index_add(b: Builder, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    if alpha != 1:
        source = b.op("Mul", source, b.as_value(alpha, source.dtype))
    return _indexed(b, x, dim, index, source, "add")


@row("index_copy")
@of_vectors
def _index_copy(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _indexed(b, x, dim, index, source, "none")


@row("index_fill")
@of_vectors
def _index_fill(b: Builder, x: Value, dim: int, index: Value, value: Any) -> Value:
    axis = dim % x.rank
    sizes = [*sizes_of(b, x, range(axis)), *sizes_of(b, index, [0]), *sizes_of(b, x, range(axis + 1, x.rank))]
    shape = [*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]]
    return _indexed(b, x, dim, index, b.expand(b.as_value(value, x.dtype), b.sizes(sizes), shape), "none")


# ---- x[i, j]
def _without_masks(b: Builder, indices: list[Any]) -> list[Any]:
    """Indices in which a mask is the places of its true elements, an index for each of its dimensions."""
    found: list[Any] = []
    for index in indices:
        if index is None or index.dtype is not dtypes.bool_:
            found.append(index)
            continue
        places = b.op("NonZero", index, dtype=dtypes.int64, shape=(index.rank, None))
        found += [b.op("Gather", places, b.constant(d, dtypes.int64), axis=0, shape=(None,)) for d in range(index.rank)]
    return found


@row("index", "_unsafe_index")
def _index(b: Builder, x: Value, indices: list[Any]) -> Value:
    used = [d for d, index in enumerate(indices) if index is not None]
    if any(indices[d].dtype is dtypes.bool_ for d in used):
        if used == [0] and not x.rank:
            made: Value = ROWS["masked_select"](b, x, indices[0])
            return made
        if used == [0]:
            places = b.transpose(b.op("NonZero", indices[0], dtype=dtypes.int64, shape=(indices[0].rank, None)), [1, 0])
            return b.op("GatherND", x, places, shape=b.shape)
        if any(indices[d].dtype is dtypes.bool_ and not indices[d].rank for d in used):
            raise SymbolicValueError("a mask of one truth value beside other indices is not supported", indices)
        return _index(b, x, _without_masks(b, indices))
    if len(used) == 1:
        return b.op("Gather", x, b.cast(indices[used[0]], dtypes.int64), axis=used[0], shape=b.shape)
    rest = [d for d in range(x.rank) if d not in used]
    front = b.transpose(x, [*used, *rest])
    places = _joined(b, [b.cast(indices[d], dtypes.int64) for d in used])
    lead = places.shape[:-1]
    picked = b.op("GatherND", front, places, shape=(*lead, *[x.shape[d] for d in rest]))
    if used == list(range(used[0], used[-1] + 1)) and used[0]:
        count = len(lead)
        order = [*range(count, count + used[0]), *range(count), *range(count + used[0], len(picked.shape))]
        return b.transpose(picked, order)
    return picked


def _joined(b: Builder, indices: list[Value]) -> Value:
    """Indices of several dimensions as the last dimension of one tensor."""
    total = indices[0]
    for index in indices[1:]:
        total = b.op("Add", total, index, shape=_wider(total, index))
    shape = b.op("Shape", total, dtype=dtypes.int64, shape=(total.rank,))
    parts = [b.unsqueeze(b.expand(index, shape, total.shape), [-1]) for index in indices]
    return b.op("Concat", *parts, axis=-1, dtype=dtypes.int64, shape=(*total.shape, len(indices)))


def _wider(a: Value, c: Value) -> tuple[Any, ...]:
    left, right = (1,) * (c.rank - a.rank) + a.shape, (1,) * (a.rank - c.rank) + c.shape
    return tuple([m if n == 1 else n for m, n in zip(left, right, strict=True)])


@row("index_put")
def _index_put(b: Builder, x: Value, indices: list[Any], values: Value, accumulate: bool = False) -> Value:
    used = [d for d, index in enumerate(indices) if index is not None]
    if any(indices[d].dtype is dtypes.bool_ for d in used):
        mask = indices[0]
        if used == [0] and not values.rank and not accumulate:
            mask = b.unsqueeze(mask, list(range(mask.rank, x.rank))) if mask.rank < x.rank else mask
            return b.op("Where", mask, b.cast(values, x.dtype), x, dtype=x.dtype, shape=x.shape)
        if any(indices[d].dtype is dtypes.bool_ and not indices[d].rank for d in used):
            raise SymbolicValueError("writing by a mask of one truth value is supported for one number", indices)
        return _index_put(b, x, _without_masks(b, indices), values, accumulate)
    rest = [d for d in range(x.rank) if d not in used]
    places = _joined(b, [b.cast(indices[d], dtypes.int64) for d in used])
    lead, count = b.op("Shape", places, start=0, end=-1, dtype=dtypes.int64, shape=(places.rank - 1,)), places.rank - 1
    ahead = used[0] if used == list(range(used[0], used[-1] + 1)) else 0  # dimensions before those of the indices
    before, behind = rest[:ahead], rest[ahead:]
    parts = [b.sizes(sizes_of(b, x, before)) if before else None, lead, b.sizes(sizes_of(b, x, behind)) if behind else None]
    known = [part for part in parts if part is not None]
    shape = [*[x.shape[d] for d in before], *places.shape[:-1], *[x.shape[d] for d in behind]]
    sizes = known[0] if len(known) == 1 else b.op("Concat", *known, axis=0, shape=(len(shape),))
    wide = b.expand(b.cast(values, x.dtype), sizes, shape)
    updates = b.transpose(wide, [*range(ahead, ahead + count), *range(ahead), *range(ahead + count, len(shape))])
    order = [*used, *rest]
    front = b.transpose(x, order)
    done = b.op("ScatterND", front, places, updates, reduction="add" if accumulate else None, shape=front.shape)
    return b.transpose(done, [order.index(d) for d in range(x.rank)])


# ---- writing slices, which the removal of writes in place makes
@row("select_scatter")
def _select_scatter(b: Builder, x: Value, source: Value, dim: int, index: int) -> Value:
    part = b.unsqueeze(source, [dim % x.rank])
    end = index + 1 if index != -1 else _END
    return _slice_scatter(b, x, part, dim, index, end, 1)


@row("slice_scatter")
def _slice_scatter(b: Builder, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    axis = dim % x.rank
    count = b.squeeze(b.slice(b.op("Shape", x, dtype=dtypes.int64, shape=(x.rank,)), 0, axis, axis + 1, shape=(1,)), [0])
    every = b.op("Range", b.constant(0, dtypes.int64), count, b.constant(1, dtypes.int64), dtype=dtypes.int64, shape=(x.shape[axis],))
    places = b.slice(every, 0, 0 if start is None else start, _END if end is None else end, step, (source.shape[axis],))
    return _indexed(b, x, axis, places, b.cast(source, x.dtype), "none")


# ---- others
@row("one_hot")
@of_vectors
def _one_hot(b: Builder, x: Value, num_classes: int = -1) -> Value:
    depth = b.ints([num_classes])
    if num_classes < 0:
        depth = b.op(
            "Add", b.op("ReduceMax", b.op("Reshape", x, b.ints([-1]), shape=(None,)), b.ints([0]), keepdims=1, shape=(1,)), b.ints([1])
        )
    return b.op("OneHot", x, depth, b.ints([0, 1]), axis=-1, dtype=dtypes.int64, shape=b.shape)


@row("nonzero", "argwhere")
def _nonzero(b: Builder, x: Value) -> Value:
    if not x.rank:
        rows = _nonzero(b, b.unsqueeze(x, [0]))
        return b.slice(rows, 1, 0, 0, shape=(None, 0))
    return b.transpose(b.op("NonZero", x, dtype=dtypes.int64, shape=(x.rank, None)), [1, 0])


@row("nonzero_static")
def _nonzero_static(b: Builder, x: Value, *, size: Any, fill_value: int = -1) -> Value:
    filler = b.expand(b.constant(fill_value, dtypes.int64), b.sizes([size, x.rank]))
    rows = b.op("Concat", _nonzero(b, x), filler, axis=0, shape=(None, x.rank))
    return b.slice(rows, 0, 0, size, shape=b.shape)


ROWS["item"] = ROWS["_local_scalar_dense"] = lambda b, x: x


@row("masked_select")
def _masked_select(b: Builder, x: Value, mask: Value) -> Value:
    if x.shape != mask.shape:
        total = b.op("Add", b.cast(x, dtypes.float32), b.cast(mask, dtypes.float32), shape=_wider(x, mask))
        sizes = b.op("Shape", total, dtype=dtypes.int64, shape=(total.rank,))
        x, mask = b.expand(x, sizes, total.shape), b.expand(mask, sizes, total.shape)
    flat = [b.op("Reshape", value, b.ints([-1]), shape=(None,)) for value in (x, mask)]
    return b.op("Compress", *flat, axis=0, shape=b.shape)


@row("take")
def _take(b: Builder, x: Value, index: Value) -> Value:
    return b.op("Gather", b.op("Reshape", x, b.ints([-1]), shape=(None,)), index, axis=0, shape=b.shape)
