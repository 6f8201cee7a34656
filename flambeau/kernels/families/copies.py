"""Copies between arrays of any strides, transpositions among them, and joining.

Every copy is made of rows and columns of one plane, and of a table of outer dimensions:

      outer dimensions (any number)     plane: the two dimensions that decide the speed
      unit number -> offsets            columns lie next to each other in the target, as a rule
                                        rows: the next dimension, or the one that lies together in the source (``tiles``)

A plane is cut into blocks.  One block of one plane is a unit; a chunk is a run of units of about ``CHUNK`` bytes together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ...core.arrays.native import native
from ...core.layout import channels_last, channels_last_3d, contiguous_format, is_contiguous_as, preserve_format, suggested_format
from ...core.shape import is_dense, restrided
from ..compiler.build import kernel
from ..compiler.language import SIZES, Builder, Value
from ..compiler.memory import SLACK, empty
from .tiles import transposed

CHUNK = 1 << 17  # bytes that one chunk copies
_TILED = 128  # rows and columns of a block that is transposed: both sides of it fit the innermost cache
_ROWS, _COLUMNS, _ROW_BLOCK, _COLUMN_BLOCK, _ROW_BLOCKS, _COLUMN_BLOCKS, _DIMS, _UNITS, _PER = range(9)  # places in a plan's table
# ... of the steps in bytes: rows and columns of the source, of the target; then (size, step, step) per outer dimension
_STEPS, _OUTER = 9, 13
Dim = TypeVar("Dim", bound=tuple[int, ...])


# -- kernels -------------------------------------------------------------------------------------------------------------------
@kernel
def strided_copy(k: Builder, mode: str, element: str) -> None:
    """Copy by a plan. ``mode`` is how a block is copied: see ``_MODES``."""
    source, target, table = k.array(), k.array(), k.array()
    number = {place: k.load(table, place, "i64") for place in range(_OUTER)}
    s_row, s_column, t_row, t_column = (number[_STEPS + i] for i in range(4))
    rows, columns, row_block, column_block = (number[place] for place in (_ROWS, _COLUMNS, _ROW_BLOCK, _COLUMN_BLOCK))
    copy_block = _MODES[mode]

    def unit(u: Value) -> None:
        rest = u // number[_COLUMN_BLOCKS]
        left = (u - rest * number[_COLUMN_BLOCKS]) * column_block
        outer = rest // number[_ROW_BLOCKS]
        top = (rest - outer * number[_ROW_BLOCKS]) * row_block

        def place(d: Value, rest: Value, s: Value, t: Value) -> tuple[Value, ...]:
            size, s_step, t_step = (k.load(table, d * 3 + (_OUTER + i), "i64") for i in range(3))
            above = rest // size
            at = rest - above * size
            return above, s + at * s_step, t + at * t_step

        _, s, t = k.loop(0, number[_DIMS], place, carried=(outer, top * s_row + left * s_column, top * t_row + left * t_column))
        height, width = k.least(row_block, rows - top), k.least(column_block, columns - left)
        copy_block(k, element, k.at(source, s, "u8"), k.at(target, t, "u8"), height, width, (s_row, s_column, t_row, t_column))

    def chunk(c: Value) -> None:
        first = c * number[_PER]
        k.loop(first, k.least(first + number[_PER], number[_UNITS]), unit)

    k.for_chunks(chunk)


def copy_row(k: Builder, element: str, source: Value, target: Value, count: Value) -> None:
    """Copy neighbours to neighbours."""
    _run(k, element, target, count, lambda i, lanes: k.load(source, i, element, lanes))


def _run(k: Builder, element: str, target: Value, count: Value, value: Any) -> None:
    """Write ``value(i, lanes)`` to ``count`` neighbours; where there are many, in aligned vectors. Ends overlap what is next to them."""
    lanes = k.lanes(element)

    def step(i: Value, unroll: int = 1) -> None:
        vectors = [value(i + u * lanes, lanes) for u in range(unroll)]
        for u, vector in enumerate(vectors):
            k.store(vector, target, i + u * lanes, element)

    def vectors(start: Value) -> None:
        wide = count - ((count - start) & (4 * lanes - 1))
        k.loop(start, wide, lambda i: step(i, 4), step=4 * lanes)
        whole = count - ((count - start) & (lanes - 1))
        k.loop(wide, whole, step, step=lanes)
        k.when(whole < count, lambda: step(count - lanes))

    def first_aligned() -> Value:
        step(k.const(0, "i64"))
        address = k.emit(f"ptrtoint ptr {target.text} to i64", "i64")
        return (-address & (k.target.width - 1)) // SIZES[element]

    def many() -> None:
        vectors(k.when(count >= 16 * lanes, first_aligned, lambda: k.const(0, "i64")))

    k.when(count >= lanes, many, lambda: k.loop(0, count, lambda i: k.store(value(i, 1), target, i, element)))


def _each_row(k: Builder, height: Value, s: Value, t: Value, steps: Sequence[Value], copy: Any) -> None:
    k.loop(0, height, lambda r: copy(k.at(s, r * steps[0], "u8"), k.at(t, r * steps[2], "u8")))


def _rows(k: Builder, element: str, s: Value, t: Value, height: Value, width: Value, steps: Sequence[Value]) -> None:
    _each_row(k, height, s, t, steps, lambda s, t: copy_row(k, element, s, t, width))


def _spread(k: Builder, element: str, s: Value, t: Value, height: Value, width: Value, steps: Sequence[Value]) -> None:
    def row(s: Value, t: Value) -> None:
        one = k.load(s, 0, element)
        _run(k, element, t, width, lambda i, lanes: k.splat(one, lanes))

    _each_row(k, height, s, t, steps, row)


def _reversed(k: Builder, element: str, s: Value, t: Value, height: Value, width: Value, steps: Sequence[Value]) -> None:
    def backwards(s: Value, i: Value, lanes: int) -> Value:
        vector = k.load(s, 1 - i - lanes, element, lanes)
        return k.shuffle(vector, range(lanes - 1, -1, -1)) if lanes > 1 else vector

    _each_row(k, height, s, t, steps, lambda s, t: _run(k, element, t, width, lambda i, lanes: backwards(s, i, lanes)))


def _strided(k: Builder, element: str, s: Value, t: Value, height: Value, width: Value, steps: Sequence[Value]) -> None:
    def row(s: Value, t: Value) -> None:
        def some(c: Value, count: int = 1) -> None:
            vectors = [k.load(k.at(s, (c + u) * steps[1], "u8"), 0, element) for u in range(count)]
            for u, vector in enumerate(vectors):
                k.store(vector, k.at(t, (c + u) * steps[3], "u8"), 0, element)

        fours = width - (width & 3)
        k.loop(0, fours, lambda c: some(c, 4), step=4)
        k.loop(fours, width, some)

    _each_row(k, height, s, t, steps, row)


def tile_of(k: Builder, element: str) -> int:
    return min(16, k.target.width // SIZES[element])


def _tiles(k: Builder, element: str, s: Value, t: Value, height: Value, width: Value, steps: Sequence[Value]) -> None:
    """Rows lie together in the source, columns in the target: squares are turned in registers, what remains goes one by one."""
    side = tile_of(k, element)
    tall, wide = height - (height & (side - 1)), width - (width & (side - 1))

    def square(r: Value, c: Value) -> None:
        lines = [k.load(k.at(s, (c + j) * steps[1], "u8"), r, element, side) for j in range(side)]
        for i, line in enumerate(transposed(k, lines)):
            k.store(line, k.at(t, (r + i) * steps[2], "u8"), c, element)

    def single(r: Value, c: Value) -> None:
        k.store(k.load(k.at(s, c * steps[1], "u8"), r, element), k.at(t, r * steps[2], "u8"), c, element)

    k.loop(0, tall, lambda r: k.loop(0, wide, lambda c: square(r, c), step=side), step=side)
    k.loop(0, tall, lambda r: k.loop(wide, width, lambda c: single(r, c)))
    k.loop(tall, height, lambda r: k.loop(0, width, lambda c: single(r, c)))


@kernel
def join(k: Builder, element: str) -> None:
    """Rows of several arrays side by side: unit ``u`` is one part of one row, ``parts`` holds array, length, place per part."""
    target, parts, count, pitch, units, per = k.array(), k.array(), k.integer(), k.integer(), k.integer(), k.integer()

    def unit(u: Value) -> None:
        row = u // count
        header, start, length, own_pitch, place = (k.load(parts, (u - row * count) * 5 + i, "i64") for i in range(5))
        data = k.data_of(header)
        copy_row(k, element, k.at(data, row * own_pitch + start, element), k.at(target, row * pitch + place, element), length)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), unit))


_BLOCK = {"rows": 1 << 14, "spread": 1 << 14, "reversed": 1 << 14, "strided": 1 << 10, "tiles": _TILED}  # columns of a block
_MODES = {"rows": _rows, "spread": _spread, "reversed": _reversed, "strided": _strided, "tiles": _tiles}


# -- plans ---------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=512)
def plan(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], size: int) -> tuple[Any, int, np.ndarray]:
    """Kernel, number of chunks and table to copy elements of ``size`` bytes between arrays of the given steps."""
    dims = sorted([dim for dim in zip(shape, source, target, strict=True) if dim[0] != 1], key=lambda dim: -dim[2])
    if size == 16:
        dims, size = [*dims, (2, 8, 8)], 8
    dims = merged(dims) or [(1, size, size)]
    mode, rows, columns, size = _plane(dims, size)
    dims = [dim for dim in dims if dim is not rows and dim is not columns]
    n, s, t = columns
    if mode == "rows":  # bytes next to bytes: any size of element will do that divides the row
        span = n * size
        size = next(width for width in (8, 4, 2, 1) if span % width == 0)
        columns = (n, s, t) = (span // size, size, size)
    block = min(_BLOCK[mode], n)
    row_block = min(_TILED if mode == "tiles" else max(1, CHUNK // (2 * block * size)), rows[0])
    row_blocks, column_blocks = -(-rows[0] // row_block), -(-n // block)
    units = row_blocks * column_blocks
    for dim in dims:
        units *= dim[0]
    per = max(1, CHUNK // (block * row_block * size))
    table = [rows[0], n, row_block, block, row_blocks, column_blocks, len(dims), units, per, rows[1], s, rows[2], t]
    for dim in reversed(dims):
        table += dim
    return strided_copy(mode, f"u{8 * size}"), -(-units // per), np.array(table, np.int64)


def merged(dims: Sequence[Dim]) -> list[Dim]:
    """Dimensions ``(size, step, ...)`` without those of size 1, neighbours that can be walked in one go as one."""
    found: list[Any] = []
    for n, *steps in dims:
        if found and all(before == n * step for before, step in zip(found[-1][1:], steps, strict=True)):
            found[-1] = (found[-1][0] * n, *steps)
        elif n != 1:
            found.append((n, *steps))
    return found


def _plane(dims: list[tuple[int, int, int]], size: int) -> tuple[str, tuple[int, int, int], tuple[int, int, int], int]:
    """The way to copy, and the dimensions that are rows and columns."""
    inner = dims[-1]
    outer = dims[-2] if len(dims) > 1 else (1, 0, 0)
    if inner[2] != size:
        return "strided", outer, inner, size
    mode = {size: "rows", 0: "spread", -size: "reversed"}.get(inner[1])
    if mode is not None:
        return mode, outer, inner, size
    together = next((dim for dim in dims[:-1] if dim[1] == size), None)
    if together is not None and together[0] >= 8 and inner[0] >= 8:
        return "tiles", together, inner, size
    if inner[0] < 8 and outer[0] > inner[0]:
        return "strided", inner, outer, size  # long loops inside
    return "strided", outer, inner, size


def copy(source: np.ndarray, target: np.ndarray) -> None:
    """``target[...] = source`` for equal shapes and item sizes; the arrays must not overlap.  A source may repeat and run backwards."""
    if not target.size:
        return
    run, chunks, table = plan(target.shape, source.strides, target.strides, target.itemsize)
    run(chunks, id(source), id(target), id(table))


def contiguous(source: np.ndarray) -> np.ndarray:
    """A row-major copy."""
    result = empty(source.shape, source.dtype)
    copy(source, result)
    return result


def able(source: np.ndarray) -> bool:
    """Whether the elements are plain bytes of a size for which there is a kernel."""
    return source.itemsize in (1, 2, 4, 8, 16) and not source.dtype.hasobject


# -- operations ----------------------------------------------------------------------------------------------------------------
def _like(input: np.ndarray, form: Any) -> np.ndarray | None:
    """Memory for a copy of ``input`` in a memory format; None where the reference has to find the strides."""
    if form is contiguous_format:
        return empty(input.shape, input.dtype)
    if input.flags.c_contiguous and form in (None, preserve_format):
        result = empty(input.shape, input.dtype)
        return result if result.strides == input.strides else restrided(result, input.shape, input.strides)
    if form is None or form is preserve_format:
        if not is_dense(input) or 0 in input.shape:
            return None
        order = sorted(range(input.ndim), key=lambda d: -input.strides[d])
        if any(input.strides[a] == input.strides[b] for a, b in pairwise(order)):
            return None  # sizes of 1, whose strides say nothing about the order
    elif {channels_last: 4, channels_last_3d: 5}.get(form) == input.ndim:
        order = [0, *range(2, input.ndim), 1]
    else:
        return None
    result = empty([input.shape[d] for d in order], input.dtype).transpose(np.argsort(order))
    fits = result.strides == input.strides if form in (None, preserve_format) else is_contiguous_as(result, form)
    return result if fits else None


@native("clone")
def clone(input: np.ndarray, memory_format: Any = None) -> np.ndarray | None:
    result = _like(input, memory_format) if able(input) else None
    if result is not None:
        copy(input, result)
    return result


@native("_reshaped_copy")
def reshaped_copy(input: np.ndarray, shape: Any) -> np.ndarray | None:
    return contiguous(input).reshape(shape) if able(input) else None


@native("_contiguous")
def contiguous_copy(source: np.ndarray) -> np.ndarray | None:
    return contiguous(source) if able(source) else None


@native("_copy_into")
def copy_into(target: np.ndarray, source: np.ndarray) -> Any:
    """Write ``source``, broadcast, into ``target``; True where that was done."""
    if not target.flags.writeable:
        return None  # NumPy says so
    if target.dtype != source.dtype or not able(target) or 0 in target.strides or np.may_share_memory(target, source):
        return None
    copy(source if source.shape == target.shape else np.broadcast_to(source, target.shape), target)
    return True


@native("_fill")
def fill(target: np.ndarray, value: Any) -> Any:
    """Write one value to every element of ``target``; True where that was done."""
    if not target.flags.writeable or not able(target) or target.itemsize > 8 or not target.size or 0 in target.strides:
        return None
    one = np.empty((), target.dtype)
    one.fill(value)
    run, chunks, table = plan(target.shape, (0,) * target.ndim, target.strides, target.itemsize)
    run(chunks, id(one), id(target), id(table))
    return True


@native("_zeros")
def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
    """Zeros; None where the system has pages of zeros, which cost nothing until they are used."""
    dtype = np.dtype(dtype)
    if math.prod(shape) * dtype.itemsize > SLACK:
        return None
    result = empty(shape, dtype)
    return None if fill(result, 0) is None else result


@native("_put_parts")
def put_parts(parts: Sequence[np.ndarray], shape: Sequence[int], keys: Sequence[Any]) -> np.ndarray | None:
    """An array of ``shape`` with each part at its basic index; the parts cover it."""
    if math.prod(shape) < 2048 * len(parts):
        return None  # too little for a launch each
    result = empty(tuple(shape), parts[0].dtype)
    for part, key in zip(parts, keys, strict=True):
        target = result[key]
        if part.shape == target.shape and part.dtype is target.dtype and able(target):
            copy(part, target)
        else:
            target[...] = part
    return result


def _joined(arrays: Sequence[np.ndarray], sizes: Sequence[int], dim: int, places: list[Any], result: np.ndarray) -> np.ndarray | None:
    """``result`` with the arrays at ``places``: one after another along ``dim``, each having ``sizes`` entries of it."""
    if result.nbytes < len(arrays) << 14 and len(arrays) > 16:
        return None  # noting them down takes longer than NumPy needs
    entry = math.prod(result.shape[dim + 1 :]) * result.itemsize
    if not all(array.flags.c_contiguous for array in arrays) or entry * result.shape[dim] < 64 * len(arrays):
        if result.size < 2048 * len(arrays):
            return None  # too little for a launch each
        for array, place in zip(arrays, places, strict=True):
            copy(array, result[(slice(None),) * dim + (place,)])
        return result
    unit = math.gcd(8, entry * math.gcd(*sizes))
    which, table = _parts(tuple([size * entry // unit for size in sizes]), CHUNK // unit)
    table, rows = table.copy(), math.prod(result.shape[:dim])
    table[:, 0] = np.array(list(map(id, arrays)))[which]
    count, pitch = len(table), result.shape[dim] * entry // unit
    units = rows * count
    per = max(1, units * CHUNK // max(result.nbytes, 1))
    join(f"u{8 * unit}")(-(-units // per), id(result), id(table), count, pitch, units, per)
    return result


@lru_cache(maxsize=128)
def _parts(lengths: tuple[int, ...], limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The array, and the row of ``join``'s table but for the array's id, of each part; long ones are divided into ``limit`` elements."""
    rows, place, longest = [], 0, max(lengths)
    most = limit if longest > 2 * limit else max(longest, 1)
    for number, length in enumerate(lengths):
        rows += [(number, start, min(most, length - start), length, place + start) for start in range(0, length, most) or (0,)]
        place += length
    table = np.array(rows, np.int64)
    return table[:, 0].copy(), table


@native("cat")
def cat(tensors: Sequence[np.ndarray], dim: int = 0) -> np.ndarray | None:
    first = tensors[0]
    shape, ndim = list(first.shape), first.ndim
    dim += ndim if dim < 0 else 0
    if not -1 < dim < ndim:
        return None
    rest = shape[:dim] + shape[dim + 1 :]
    sizes = [tensor.shape[dim] if tensor.ndim == ndim and tensor.dtype is first.dtype else -1 for tensor in tensors]
    if not able(first) or -1 in sizes or any([*tensor.shape[:dim], *tensor.shape[dim + 1 :]] != rest for tensor in tensors):
        return None
    shape[dim] = sum(sizes)
    result = empty(shape, first.dtype)
    form = {4: channels_last, 5: channels_last_3d}.get(ndim)
    if form is not None and all(suggested_format(tensor) is form for tensor in tensors):
        if not all(is_contiguous_as(tensor, form) for tensor in tensors):
            return None
        result = np.moveaxis(empty([shape[0], *shape[2:], shape[1]], first.dtype), -1, 1)
        tensors = [np.moveaxis(tensor, 1, -1) for tensor in tensors]
        dim = {0: 0, 1: ndim - 1}.get(dim, dim - 1)
        return None if _joined(tensors, sizes, dim, _slices(sizes), np.moveaxis(result, 1, -1)) is None else result
    return _joined(tensors, sizes, dim, _slices(sizes), result)


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


@native("stack")
def stack(tensors: Sequence[np.ndarray], dim: int = 0) -> np.ndarray | None:
    first = tensors[0]
    dim += first.ndim + 1 if dim < 0 else 0
    if (
        not able(first)
        or not 0 <= dim <= first.ndim
        or any(tensor.shape != first.shape or tensor.dtype is not first.dtype for tensor in tensors)
        or suggested_format(first) is not contiguous_format
    ):
        return None
    result = empty((*first.shape[:dim], len(tensors), *first.shape[dim:]), first.dtype)
    return _joined(tensors, [1] * len(tensors), dim, list(range(len(tensors))), result)


@native("_repeat")
def repeat(input: np.ndarray, repeats: Any) -> np.ndarray | None:
    """Each dimension as (times, size), where the source does not move along ``times``."""
    if not able(input) or len(repeats) < input.ndim:
        return None
    sizes = (1,) * (len(repeats) - input.ndim) + input.shape
    result = empty([times * n for times, n in zip(repeats, sizes, strict=True)], input.dtype)
    source = input.reshape([extent for n in sizes for extent in (1, n)]) if input.flags.c_contiguous else None
    if source is None:
        return None
    split = [extent for pair in zip(repeats, sizes, strict=True) for extent in pair]
    copy(np.broadcast_to(source, split), result.reshape(split))
    return result


@native("_flip")
def flip(input: np.ndarray, dims: Any) -> np.ndarray | None:
    result = _like(input, None) if able(input) else None
    if result is not None:
        steps = [slice(None, None, -1 if d in dims else 1) for d in range(input.ndim)]
        copy(input[(*steps, ...)], result)
    return result
