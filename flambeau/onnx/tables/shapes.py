"""Rows of operations that only bring elements to other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.checks import SymInt
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS, row

_END = 2**63 - 1


@row("view.default", "reshape", "_unsafe_view", "view_copy.default", "_reshape_alias")
def _view(b: Builder, x: Value, sizes: Any, *rest: Any) -> Value:
    return b.reshape(x, sizes)


@row("view_as", "reshape_as")
def _view_as(b: Builder, x: Value, other: Value) -> Value:
    return b.op("Reshape", x, b.shape_of(other), shape=b.shape)


def merged(b: Builder, x: Value, first: int, last: int) -> Value:
    """Dimensions ``first`` to ``last`` as one."""
    sizes: list[Any] = [*[0] * first, -1]  # 0: as in the input
    if any(isinstance(size, SymInt) for size in x.shape[last + 1 :]):
        return b.op("Reshape", x, b.sizes([*sizes, *sizes_of(b, x, range(last + 1, x.rank))]), shape=b.shape)
    return b.op("Reshape", x, b.ints([*sizes, *x.shape[last + 1 :]]), shape=b.shape)


def sizes_of(b: Builder, x: Value, dims: Any) -> list[Any]:
    """Sizes of some dimensions, as values where they are symbolic."""
    return [
        b.squeeze(b.op("Shape", x, start=d, end=d + 1, dtype=dtypes.int64, shape=(1,)), [0]) if x.size(d) is None else x.shape[d]
        for d in dims
    ]


@row("flatten")
def _flatten(b: Builder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    if not x.rank:
        return b.op("Reshape", x, b.ints([1]), shape=(1,))
    first, last = start_dim % x.rank, end_dim % x.rank
    return x if first == last else merged(b, x, first, last)


@row("unflatten")
def _unflatten(b: Builder, x: Value, dim: int, sizes: Any) -> Value:
    axis = dim % x.rank
    if any(isinstance(size, Value) for size in sizes) or any(isinstance(size, SymInt) for size in x.shape[axis + 1 :]):
        return b.reshape(x, [*sizes_of(b, x, range(axis)), *sizes, *sizes_of(b, x, range(axis + 1, x.rank))])
    return b.op("Reshape", x, b.ints([*[0] * axis, *sizes, *x.shape[axis + 1 :]]), shape=b.shape)


@row("permute", "permute_copy")
def _permute(b: Builder, x: Value, dims: Any) -> Value:
    return b.transpose(x, [d % x.rank for d in dims])


@row("transpose", "transpose_copy", "swapaxes", "swapdims")
def _transpose(b: Builder, x: Value, a: int, c: int) -> Value:
    if not x.rank:
        return x
    order = list(range(x.rank))
    order[a % x.rank], order[c % x.rank] = c % x.rank, a % x.rank
    return b.transpose(x, order)


@row("t", "numpy_T", "t_copy")
def _t(b: Builder, x: Value) -> Value:
    return b.transpose(x, range(x.rank)[::-1])


ROWS["mT"] = lambda b, x: _transpose(b, x, -1, -2)


@row("movedim")
def _movedim(b: Builder, x: Value, source: Any, destination: Any) -> Value:
    sources, places = b.axes(source, x.rank), b.axes(destination, x.rank)
    order = [d for d in range(x.rank) if d not in sources]
    for place, d in sorted(zip(places, sources, strict=True)):
        order.insert(place, d)
    return b.transpose(x, order)


@row("squeeze", "squeeze_copy")
def _squeeze(b: Builder, x: Value, dim: Any = None) -> Value:
    if isinstance(dim, (tuple, list)) and not dim:
        return x
    return b.squeeze(x, [d for d in b.axes(dim, x.rank) if x.rank and x.size(d) == 1])


@row("unsqueeze", "unsqueeze_copy")
def _unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    return b.unsqueeze(x, [dim])


@row("expand", "expand_copy", "broadcast_to")
def _expand(b: Builder, x: Value, sizes: Any, *, implicit: bool = False) -> Value:
    return b.expand(x, b.sizes([1 if not isinstance(size, Value) and size == -1 else size for size in sizes]))


@row("expand_as")
def _expand_as(b: Builder, x: Value, other: Value) -> Value:
    return b.expand(x, b.shape_of(other))


@row("broadcast_tensors")
def _broadcast_tensors(b: Builder, tensors: list[Value]) -> list[Value]:
    total = tensors[0]
    for tensor in tensors[1:]:  # a sum has the common shape
        total = b.op("Add", b.cast(total, dtypes.float32), b.cast(tensor, dtypes.float32), shape=b.shape)
    shape = b.op("Shape", total, dtype=dtypes.int64, shape=(len(b.shape),))
    return [b.expand(tensor, shape) for tensor in tensors]


@row("repeat", "tile")
def _repeat(b: Builder, x: Value, repeats: Any) -> Value:
    extra = len(repeats) - x.rank
    x = b.unsqueeze(x, list(range(extra))) if extra > 0 else x
    return b.op("Tile", x, b.sizes([*[1] * -min(extra, 0), *repeats]), shape=b.shape)


# ---- parts
@row("slice", "slice_copy")
def _slice(b: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    whole = (start is None or start == 0) if not isinstance(start, Value) else False
    if whole and step == 1 and (end is None or (not isinstance(end, Value) and end >= _END)):
        return x
    return b.slice(x, dim % x.rank, 0 if start is None else start, _END if end is None else end, step, b.shape)


@row("narrow", "narrow_copy")
def _narrow(b: Builder, x: Value, dim: int, start: Any, length: Any) -> Value:
    first = start if isinstance(start, Value) else start % (x.size(dim) or 1) if start < 0 else start
    end = b.op("Add", b.as_value(first, dtypes.int64), b.as_value(length, dtypes.int64), shape=())
    end = first + length if not isinstance(first, Value) and not isinstance(length, Value) else end
    return b.slice(x, dim % x.rank, first, end, 1, b.shape)


@row("select", "select_copy")
def _select(b: Builder, x: Value, dim: int, index: Any) -> Value:
    return b.op("Gather", x, b.as_value(index, dtypes.int64), axis=dim % x.rank, shape=b.shape)


def _parts(b: Builder, x: Value, dim: int, shapes: list[Any]) -> list[Value]:
    axis = dim % x.rank
    if len(shapes) == 1:
        return [x]
    if any(isinstance(shape[axis], SymInt) for shape in shapes):
        found: list[Value] = b.op("Split", x, axis=axis, num_outputs=len(shapes), count=len(shapes))
    else:
        found = b.op("Split", x, b.ints([shape[axis] for shape in shapes]), axis=axis, count=len(shapes))
    for value, shape in zip(found, shapes, strict=True):
        value.shape = tuple(shape)
    return found


@row("split", "split_copy", "split_with_sizes", "split_with_sizes_copy", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split")
def _split(b: Builder, x: Value, sizes: Any, dim: int = 0) -> list[Value]:
    return _parts(b, x, dim, [part.shape for part in b.result])


@row("unbind", "unbind_copy")
def _unbind(b: Builder, x: Value, dim: int = 0) -> list[Value]:
    axis = dim % x.rank
    shapes = [(*part.shape[:axis], 1, *part.shape[axis:]) for part in b.result]
    return [b.squeeze(part, [axis]) for part in _parts(b, x, dim, shapes)]


# ---- joining
@row("cat", "concat", "concatenate")
def _cat(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    parts = [b.cast(tensor, b.dtype) for tensor in tensors if tensor.shape != (0,) or b.shape == (0,)]
    return b.op("Concat", *parts, axis=dim % len(b.shape), shape=b.shape)


@row("stack")
def _stack(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    axis = dim % len(b.shape)
    return b.op("Concat", *[b.unsqueeze(b.cast(tensor, b.dtype), [axis]) for tensor in tensors], axis=axis, shape=b.shape)


@row("hstack", "vstack")
def _hstack(b: Builder, tensors: list[Value]) -> Value:
    axis = 0 if b.name == "vstack" or len(b.shape) == 1 else 1
    if b.name == "vstack":
        tensors = [b.unsqueeze(tensor, [0]) if tensor.rank == 1 else tensor for tensor in tensors]
    return b.op("Concat", *[b.cast(tensor, b.dtype) for tensor in tensors], axis=axis, shape=b.shape)


# ---- other orders
@row("flip")
def _flip(b: Builder, x: Value, dims: Any) -> Value:
    axes = b.axes(dims, x.rank) if dims else []
    if not axes:
        return x
    ones, ends = [-1] * len(axes), [-_END] * len(axes)
    return b.op("Slice", x, b.ints(ones), b.ints(ends), b.ints(axes), b.ints(ones))


@row("roll")
def _roll(b: Builder, x: Value, shifts: Any, dims: Any = ()) -> Value:
    if not dims:
        flat = b.op("Reshape", x, b.ints([-1]), shape=(None,))
        return b.op("Reshape", _roll(b, flat, shifts, [0]), b.shape_of(x), shape=x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        parts = [b.slice(x, dim % x.rank, -shift, _END), b.slice(x, dim % x.rank, 0, -shift)]
        x = x if not shift else b.op("Concat", *parts, axis=dim % x.rank, shape=x.shape)
    return x


def _triangle(upper: int) -> Any:
    def translate(b: Builder, x: Value, diagonal: int = 0) -> Value:
        plain = x.dtype in (dtypes.bool_,)
        y = b.op("Trilu", b.cast(x, dtypes.int32) if plain else x, b.constant(diagonal, dtypes.int64), upper=upper)
        return b.cast(y, x.dtype)

    return translate


ROWS["triu"], ROWS["tril"] = _triangle(1), _triangle(0)


@row("pixel_shuffle")
def _pixel_shuffle(b: Builder, x: Value, factor: int) -> Value:
    if x.rank != 4:
        raise SymbolicValueError("pixel_shuffle is supported for batches of images", x)
    if not x.dtype.is_floating_point:  # which onnxruntime has no kernel for
        return b.cast(_pixel_shuffle(b, b.cast(x, dtypes.float64), factor), x.dtype)
    return b.op("DepthToSpace", x, blocksize=factor, mode="CRD", shape=b.shape)


@row("pixel_unshuffle")
def _pixel_unshuffle(b: Builder, x: Value, factor: int) -> Value:
    n, c, h, w = x.shape
    if any(isinstance(size, SymInt) for size in (c, h, w)):
        raise SymbolicValueError("pixel_unshuffle of symbolic sizes is not supported", x)
    wide = b.op(
        "Reshape", x, b.ints([0, c, h // factor, factor, w // factor, factor]), shape=(n, c, h // factor, factor, w // factor, factor)
    )
    return b.op("Reshape", b.transpose(wide, [0, 1, 3, 5, 2, 4]), b.ints([0, c * factor * factor, h // factor, w // factor]), shape=b.shape)


@row("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(b: Builder, x: Value, groups: int) -> Value:
    c = x.shape[1]
    wide = b.op("Reshape", x, b.ints([0, groups, c // groups, -1]), shape=(x.shape[0], groups, c // groups, None))
    return b.op(
        "Reshape",
        b.transpose(wide, [0, 2, 1, 3]),
        b.sizes([-1 if x.size(0) is None else x.shape[0], *sizes_of(b, x, range(1, x.rank))]),
        shape=b.shape,
    )


@row(
    "pad",
    "constant_pad_nd",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
    "reflection_pad3d",
    "replication_pad3d",
)
def _pad(b: Builder, x: Value, pad: Any, mode: Any = "constant", value: Any = None) -> Value:
    if b.name == "constant_pad_nd":
        mode, value = "constant", 0 if mode == "constant" else mode
    elif b.name != "pad":
        mode = b.name.partition("_")[0]
        mode = {"reflection": "reflect", "replication": "replicate"}[mode]
    word = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    if word == "wrap" and b.opset < 19:
        return _circular(b, x, pad)
    count = len(pad) // 2
    if word == "edge" and all(not isinstance(amount, Value) for amount in pad) and min(pad, default=0) < 0:
        return _clamped(b, x, pad)
    axes = [x.rank - 1 - k for k in range(count)]
    amounts = b.sizes([*[pad[2 * k] for k in range(count)], *[pad[2 * k + 1] for k in range(count)]])
    filler = b.as_value(0 if value is None else value, x.dtype) if word == "constant" else None
    as_float = x.dtype is dtypes.bool_
    y = b.op("Pad", b.cast(x, dtypes.int32) if as_float else x, amounts, b.cast(filler, dtypes.int32) if as_float and filler else filler,
             b.ints(axes), mode=word, shape=b.shape)  # fmt: skip
    return b.cast(y, x.dtype)


def _clamped(b: Builder, x: Value, pad: Any) -> Value:
    """Replicated edges where a side loses elements, by places: onnxruntime takes no dimension that loses all of them."""
    for k in range(len(pad) // 2):
        axis, (before, after) = x.rank - 1 - k, pad[2 * k : 2 * k + 2]
        size = x.size(axis)
        if size is None:
            raise SymbolicValueError("padding of symbolic sizes by less than nothing is not supported", pad)
        places = np.clip(np.arange(before + size + after) - before, 0, size - 1)
        x = b.op("Gather", x, b.constant(places, dtypes.int64), axis=axis, shape=(*x.shape[:axis], len(places), *x.shape[axis + 1 :]))
    return x


def _circular(b: Builder, x: Value, pad: Any) -> Value:
    """Circular padding by joining parts, which operator set 18 has no word for."""
    if any(isinstance(amount, Value) or amount < 0 for amount in pad):
        raise SymbolicValueError("circular padding by sizes, or by less than nothing, needs operator set 19", pad)
    for k in range(len(pad) // 2):
        axis, (before, after) = x.rank - 1 - k, pad[2 * k : 2 * k + 2]
        parts = [b.slice(x, axis, -before, _END)] if before else []
        parts += [x, b.slice(x, axis, 0, after)] if after else [x]
        x = b.op("Concat", *parts, axis=axis, shape=(*x.shape[:axis], b.shape[axis], *x.shape[axis + 1 :]))
    return x


@row("meshgrid")
def _meshgrid(b: Builder, tensors: list[Value], *, indexing: str = "ij") -> list[Value]:
    tensors = [tensor if tensor.rank else b.unsqueeze(tensor, [0]) for tensor in tensors]
    places = list(range(len(tensors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    sizes = b.sizes([size for place in places for size in sizes_of(b, tensors[place], [0])])
    return [b.expand(b.unsqueeze(tensor, [d for d in places if d != place]), sizes) for tensor, place in zip(tensors, places, strict=True)]


@row("unfold", "unfold_copy")
def _unfold(b: Builder, x: Value, dim: int, size: int, step: int) -> Value:
    if not x.rank:
        return b.unsqueeze(x, [0])
    axis = dim % x.rank
    length = x.size(axis)
    if length is None:
        raise SymbolicValueError("unfold of a symbolic size is not supported", x)
    count = (length - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    wide = b.op("Gather", x, b.constant(places, dtypes.int64), axis=axis, shape=(*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
    return b.transpose(wide, [d for d in range(x.rank + 1) if d != axis + 1] + [axis + 1])


@row("diagonal")
def _diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rows, columns = (x.size(d % x.rank) for d in (dim1, dim2))
    if rows is None or columns is None:
        raise SymbolicValueError("diagonal of symbolic sizes is not supported", x)
    others = [d for d in range(x.rank) if d not in (dim1 % x.rank, dim2 % x.rank)]
    moved = b.transpose(x, [dim1 % x.rank, dim2 % x.rank, *others])
    places = np.argwhere(np.eye(rows, columns, offset, dtype=bool))
    picked = b.op("GatherND", moved, b.constant(places, dtypes.int64), shape=(len(places), *[x.shape[d] for d in others]))
    return b.transpose(picked, [*range(1, len(others) + 1), 0])
