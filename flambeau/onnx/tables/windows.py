"""Rows of windows of images: columns of them, places in them, and bags of embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.checks import SymInt
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import row
from .layers import _batched, _listed
from .shapes import sizes_of


def _pads(padding: list[int]) -> list[int]:
    return [*padding, *padding]


# ---- columns
@row("im2col")
def _im2col(b: Builder, x: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    kernel, dilations, pads, strides = (_listed(each, 2) for each in (kernel_size, dilation, padding, stride))
    if any(isinstance(size, SymInt) for size in x.shape[-3:]):
        raise SymbolicValueError("unfold of images of symbolic sizes is not supported", x)

    def run(images: Value) -> Value:
        n, channels, height, width = images.shape
        counts = [
            (size + 2 * pad - d * (k - 1) - 1) // step + 1
            for size, pad, d, k, step in zip((height, width), pads, dilations, kernel, strides, strict=True)
        ]
        if any(pads):
            filler = b.constant(0, images.dtype)
            wide = (n, channels, height + 2 * pads[0], width + 2 * pads[1])
            images = b.op("Pad", images, b.ints(_pads(pads)), filler, b.ints([2, 3]), shape=wide)
        for axis, k, d, count, step in zip((2, 4), kernel, dilations, counts, strides, strict=True):
            places = np.arange(k)[:, None] * d + np.arange(count) * step
            shape = (*images.shape[:axis], k, count, *images.shape[axis + 1 :])
            images = b.op("Gather", images, b.constant(places, dtypes.int64), axis=axis, shape=shape)
        columns = b.transpose(images, [0, 1, 2, 4, 3, 5])
        sizes = (channels * kernel[0] * kernel[1], counts[0] * counts[1])
        made: Value = b.op("Reshape", columns, b.ints([0, *sizes]), shape=(n, *sizes))
        return made

    return _batched(b, x, 2, run)


@row("col2im")
def _col2im(b: Builder, x: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    kernel, dilations, pads, strides = (_listed(each, 2) for each in (kernel_size, dilation, padding, stride))

    def run(columns: Value) -> Value:
        options: dict[str, Any] = {"dilations": dilations, "pads": _pads(pads), "strides": strides}
        shape = b.shape if len(b.shape) == 4 else (1, *b.shape)
        made: Value = b.op("Col2Im", columns, b.sizes(list(output_size)), b.ints(kernel), shape=shape, **options)
        return made

    return run(x) if x.rank == 3 else b.squeeze(run(b.unsqueeze(x, [0])), [0])


# ---- the way back from the largest
@row("max_unpool2d", "max_unpool3d")
def _max_unpool(b: Builder, x: Value, indices: Value, output_size: Any, *rest: Any) -> Value:
    rank = int(b.name[-2])
    lead = sizes_of(b, x, range(x.rank - rank))
    if any(isinstance(size, (Value, SymInt)) for size in (*output_size, *x.shape[-rank:])):
        raise SymbolicValueError("max_unpool of symbolic sizes is not supported", output_size)
    whole, part = math.prod(output_size), math.prod(x.shape[-rank:])
    flat = [b.op("Reshape", each, b.sizes([*lead, part]), shape=(*x.shape[:-rank], part)) for each in (x, indices)]
    zeros = b.expand(b.constant(0, x.dtype), b.sizes([*lead, whole]), (*x.shape[:-rank], whole))
    filled = b.op("ScatterElements", zeros, flat[1], flat[0], axis=x.rank - rank)
    return b.op("Reshape", filled, b.sizes([*lead, *output_size]), shape=b.shape)


# ---- bags
def _bag_of_each(b: Builder, count: Value, offsets: Value) -> Value:
    """The number of the bag that each of ``count`` indices is in."""
    zero, one = b.constant(0, dtypes.int64), b.constant(1, dtypes.int64)
    places = b.op("Range", zero, count, one, dtype=dtypes.int64, shape=(None,))
    begun = b.op("LessOrEqual", offsets, b.unsqueeze(places, [-1]), dtype=dtypes.bool_, shape=(None, offsets.shape[0]))
    total = b.op("ReduceSum", b.cast(begun, dtypes.int64), b.ints([-1]), keepdims=0, shape=(None,))
    made: Value = b.op("Sub", total, one)
    return made


@row("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[Value]:
    if any(b.uses_part(part) for part in (1, 2, 3)):
        raise SymbolicValueError("only the bags of embedding_bag are supported, not what it counts", b.name)
    indices, offsets = b.cast(indices, dtypes.int64), b.cast(offsets, dtypes.int64)
    if include_last_offset:
        offsets = b.slice(offsets, 0, 0, -1, shape=(None,))
    size = b.op("Shape", indices, dtype=dtypes.int64, shape=(1,))
    bag = b.unsqueeze(_bag_of_each(b, b.squeeze(size, [0]), offsets), [-1])
    rows = b.op("Gather", weight, indices, axis=0, shape=(indices.shape[0], weight.shape[1]))
    counted = b.expand(b.constant(1, weight.dtype), size, indices.shape)
    filler = b.constant(-math.inf if mode == 2 else 0, weight.dtype)
    if padding_idx is not None and padding_idx >= 0:
        is_padding = b.op("Equal", indices, b.constant(padding_idx, dtypes.int64), dtype=dtypes.bool_)
        counted = b.op("Where", is_padding, b.constant(0, weight.dtype), counted, dtype=weight.dtype)
        rows = b.op("Where", b.unsqueeze(is_padding, [-1]), filler, rows, dtype=weight.dtype, shape=rows.shape)
    if per_sample_weights is not None:
        rows = b.op("Mul", rows, b.unsqueeze(per_sample_weights, [-1]))
    bags = b.op("Shape", offsets, dtype=dtypes.int64, shape=(1,))
    start = b.expand(filler, b.sizes([bags, weight.shape[1]]), b.shape)
    found = b.op("ScatterND", start, bag, rows, reduction="max" if mode == 2 else "add")
    if mode:
        none = b.expand(b.constant(0, weight.dtype), bags, b.shape[:1])
        found = _of_counts(b, found, b.unsqueeze(b.op("ScatterND", none, bag, counted, reduction="add"), [-1]), mode)
    return [found] * 4


def _of_counts(b: Builder, found: Value, count: Value, mode: int) -> Value:
    """Means of sums; 0 for the largest elements of nothing."""
    if mode == 1:
        made: Value = b.op("Div", found, b.op("Max", count, b.constant(1, found.dtype)))
        return made
    zero = b.constant(0, found.dtype)
    some = b.op("Greater", count, zero, dtype=dtypes.bool_)
    made = b.op("Where", some, found, zero, dtype=found.dtype, shape=found.shape)
    return made


# ---- masks
@row("masked_scatter")
def _masked_scatter(b: Builder, x: Value, mask: Value, source: Value) -> Value:
    """The true places in order, and as many elements of the source."""
    if not x.rank:
        first = b.op("Gather", b.op("Reshape", b.cast(source, x.dtype), b.ints([-1]), shape=(None,)), b.constant(0, dtypes.int64), shape=())
        return b.op("Where", mask, first, x, dtype=x.dtype, shape=())
    if mask.shape != x.shape:
        sizes = b.shape_of_both(b.cast(x, dtypes.float32), b.cast(mask, dtypes.float32))
        x, mask = (each if each.shape == b.shape else b.expand(each, sizes) for each in (x, mask))
    places = b.transpose(b.op("NonZero", mask, dtype=dtypes.int64, shape=(x.rank, None)), [1, 0])
    flat = b.op("Reshape", b.cast(source, x.dtype), b.ints([-1]), shape=(None,))
    count = b.op("Shape", places, start=0, end=1, dtype=dtypes.int64, shape=(1,))
    taken = b.op("Slice", flat, b.ints([0]), count, b.ints([0]), shape=(None,))
    return b.op("ScatterND", x, places, taken)
