"""Rows and elements taken at indices, and added at indices.

Every index is checked where it is read.  A kernel that meets one out of range reads and writes nothing there and leaves a mark; the
operation then declines, and the reference kernel says what is wrong.

Adding is done in the order of the indices, whatever the number of threads: each chunk owns the places that it adds to.  For rows, the
indices are first sorted into buckets, one for each range of rows, keeping their order:

      indices 7 0 5 2 7   ->   rows 0-3: positions 1, 3     rows 4-7: positions 0, 2, 4
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays.copies import zeros
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, FLOATS, Builder, Value
from ..compiler.memory import empty
from .copies import able, contiguous, copy_row
from .tiles import by_rows

CHUNK = 1 << 17  # bytes
_SPAN = 1 << 14  # indices that one chunk looks at
_BUCKETS = 256
_COLUMNS = 512  # columns of a row that one chunk adds to
_INDEX_ELEMENTS = {np.dtype(np.int64): "i64", np.dtype(np.int32): "i32"}


# -- kernels -------------------------------------------------------------------------------------------------------------------
def _place(
    k: Builder, indices: Value, at: Value, element: str, size: Value, wrap: Value | None, lanes: int = 1, mask: Value | None = None
) -> tuple[Value, Value]:
    """An index, counted from the front, and whether it is in range; ``wrap`` is what is added to negative ones."""
    place = k.cast(k.load(indices, at, element, lanes, mask), "i64")
    if wrap is not None:
        place = place + k.select(place < 0, wrap, 0)
    return place, Value(k, place.text, "u64", lanes) < Value(k, size.text, "u64")


def _mark(k: Builder, bad: Value, wrong: Value) -> None:
    k.when(wrong, lambda: k.store(k.const(1, "i64"), bad, 0, "i64"))


@kernel
def take_rows(k: Builder, index_element: str, element: str) -> None:
    """``result[o, i, :] = source[o, indices[i], :]``; a chunk has ``block`` neighbouring ``i``."""
    source, indices, result, bad = k.array(), k.array(), k.array(), k.array()
    size, wrap, count, width, blocks, block = (k.integer() for _ in range(6))

    def chunk(u: Value) -> None:
        outer = u // blocks
        first = (u - outer * blocks) * block

        def row(i: Value, wrong: Value) -> Value:
            place, good = _place(k, indices, i, index_element, size, wrap)
            from_, to = (outer * size + place) * width, (outer * count + i) * width
            k.when(good, lambda: copy_row(k, element, k.at(source, from_, element), k.at(result, to, element), width))
            return wrong | ~good

        _mark(k, bad, k.loop(first, k.least(first + block, count), row, carried=(k.const(False, "b1"),)))

    k.for_chunks(chunk)


@kernel
def take_elements(k: Builder, index_element: str, element: str, along: bool) -> None:
    """``result[a, b, c] = source[a, indices[a, b, c], c]``, or if ``along`` ``source[a, indices[a, b, c]]``.

    An entry of ``source`` has ``s_at`` elements, those of an ``a`` lie ``s_a`` apart, and the indices' steps are ``i_a`` and ``i_b``.
    """
    source, indices, result, bad = k.array(), k.array(), k.array(), k.array()
    b_size, c_size, blocks, block, size, wrap, units, per = (k.integer() for _ in range(8))
    s_a, s_at, i_a, i_b = (k.integer() for _ in range(4))
    lanes = k.lanes("i64")

    def unit(u: Value, wrong: Value) -> Value:
        row = u // blocks
        first = (u - row * blocks) * block
        a, b = divmod(row, b_size)
        from_, at = k.at(source, a * s_a, element), k.at(indices, a * i_a + b * i_b, index_element)
        to = k.at(result, row * c_size, element)

        def some(c: Value, mask: Value | None, wrong: Value) -> Value:
            place, good = _place(k, at, c, index_element, size, wrap, lanes, mask)
            offsets = k.select(good, place, 0)
            if not along:
                offsets = offsets * s_at + (k.splat(c, lanes) + k.indices(lanes))
            k.store(k.gather(from_, offsets, element, mask), to, c, element, mask)
            return wrong | ~good

        return k.vector_loop(first, k.least(first + block, c_size), lanes, some, carried=(wrong,))

    fine = k.const(False, "b1", lanes)
    k.for_chunks(lambda c: _mark(k, bad, k.any(k.loop(c * per, k.least((c + 1) * per, units), unit, carried=(fine,)))))


_COMBINED = ("f32", "f64", "i32", "i64")
_COMBINE: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "sum": lambda k, a, b: a + b,
    "prod": lambda k, a, b: a * b,
    "amax": lambda k, a, b: k.maximum(a, b),
    "amin": lambda k, a, b: k.minimum(a, b),
}


@kernel
def add_elements(k: Builder, index_element: str, element: str, along: bool, reduce: str = "sum") -> None:
    """Add ``source[a, b, c]`` at its index: to ``result[a, index, c]``, or if ``along`` to ``result[a, index]``; or combine it otherwise.

    A chunk owns some ``a``, and unless ``along`` a block of the columns ``c``.  Where an index is wrong, the sums are too.
    """
    source, indices, result, bad = k.array(), k.array(), k.array(), k.array()
    b_size, c_size, blocks, block, size, units, per = (k.integer() for _ in range(7))

    def unit(u: Value, wrong: Value) -> Value:
        a = u // blocks
        first = (u - a * blocks) * block
        to = k.at(result, a * size if along else a * size * c_size, element)

        def line(b: Value, wrong: Value) -> Value:
            row = (a * b_size + b) * c_size
            index_row, source_row = k.at(indices, row, index_element), k.at(source, row, element)

            def one(c: Value, wrong: Value) -> Value:
                place, good = _place(k, index_row, c, index_element, size, None)
                place = k.select(good, place, 0)
                at = place if along else place * c_size + c
                k.store(_COMBINE[reduce](k, k.load(to, at, element), k.load(source_row, c, element)), to, at, element)
                return wrong | ~good

            return k.loop(first, k.least(first + block, c_size), one, carried=(wrong,))

        return k.loop(0, b_size, line, carried=(wrong,))

    fine = k.const(False, "b1")
    k.for_chunks(lambda c: _mark(k, bad, k.loop(c * per, k.least((c + 1) * per, units), unit, carried=(fine,))))


@kernel
def combine_rows(k: Builder, index_element: str, element: str, is_narrow: bool, reduce: str) -> None:
    """``result[a, indices[b], c]`` combined with ``source[a, b, c]``, in the order of ``b``.

    A chunk owns some ``a``, or of one ``a`` a block of the columns ``c``; ``is_narrow`` where there is one column.
    """
    source, indices, result, bad = k.array(), k.array(), k.array(), k.array()
    count, width, blocks, block, size, wrap, units, per = (k.integer() for _ in range(8))
    lanes = k.lanes(element)

    def unit(u: Value, wrong: Value) -> Value:
        a = u // blocks
        first = (u - a * blocks) * block
        stop = k.least(first + block, width)

        def entry(b: Value, wrong: Value) -> Value:
            place, good = _place(k, indices, b, index_element, size, wrap)
            to = (a * size + k.select(good, place, 0)) * width
            from_ = (a * count + b) * width

            def some(c: Value, mask: Value | None) -> None:
                old, new = k.load(result, to + c, element, lanes, mask), k.load(source, from_ + c, element, lanes, mask)
                k.store(_COMBINE[reduce](k, old, new), result, to + c, element, mask)

            k.vector_loop(first, stop, lanes, some)
            return wrong | ~good

        return k.loop(0, count, entry, carried=(wrong,))

    def lines(a: Value, many: int, wrong: Value) -> Value:
        """So many ``a`` at once, for each of which an index means the same."""

        def entry(b: Value, wrong: Value) -> Value:
            place, good = _place(k, indices, b, index_element, size, wrap)
            place = k.select(good, place, 0)
            for line in range(many):
                to = (a + line) * size + place
                old, new = k.load(result, to, element), k.load(source, (a + line) * count + b, element)
                k.store(_COMBINE[reduce](k, old, new), result, to, element)
            return wrong | ~good

        return k.loop(0, count, entry, carried=(wrong,))

    def chunk(c: Value) -> None:
        start, stop, fine = c * per, k.least((c + 1) * per, units), k.const(False, "b1")
        wrong = by_rows(k, 4, start, stop, lines, (fine,))[0] if is_narrow else k.loop(start, stop, unit, carried=(fine,))
        _mark(k, bad, wrong)

    k.for_chunks(chunk)


@kernel
def sort_into_buckets(k: Builder, index_element: str) -> None:
    """Positions of the indices, bucket by bucket: those of bucket ``b`` end at ``ends[b]`` in ``order``. One chunk."""
    indices, order, ends, bad = k.array(), k.array(), k.array(), k.array()
    count, size, wrap, skipped, shift, buckets = (k.integer() for _ in range(6))

    def for_indices(visit: Any) -> None:
        def step(i: Value) -> None:
            at, good = _place(k, indices, i, index_element, size, wrap)
            _mark(k, bad, ~good)
            k.when(good & at.ne(skipped), lambda: visit(i, k.emit(f"lshr i64 {at.text}, {shift.text}", "i64")))

        k.loop(0, count, step)

    def chunk(_: Value) -> None:
        k.loop(0, buckets, lambda b: k.store(k.const(0, "i64"), ends, b, "i64"))
        for_indices(lambda i, b: k.store(k.load(ends, b, "i64") + 1, ends, b, "i64"))

        def start(b: Value, total: Value) -> Value:
            here = k.load(ends, b, "i64")
            k.store(total, ends, b, "i64")
            return total + here

        k.loop(0, buckets, start, carried=(k.const(0, "i64"),))

        def put(i: Value, b: Value) -> None:
            at = k.load(ends, b, "i64")
            k.store(i, order, at, "i64")
            k.store(at + 1, ends, b, "i64")

        for_indices(put)

    k.for_chunks(chunk)


@kernel
def add_rows(k: Builder, index_element: str, element: str, zeroed: bool) -> None:
    """``result[indices[i], :] += source[i, :] * factor`` for sorted ``i``; a chunk owns some columns of one bucket's rows."""
    source, indices, result, order, ends = k.array(), k.array(), k.array(), k.array(), k.array()
    size, width, wrap, shift, column_blocks, factor = *(k.integer() for _ in range(5)), k.number(element)
    lanes = k.lanes(element)

    def chunk(u: Value) -> None:
        bucket = u // column_blocks
        left = (u - bucket * column_blocks) * _COLUMNS
        right = k.least(left + _COLUMNS, width)
        if zeroed:
            top = k.emit(f"shl i64 {bucket.text}, {shift.text}", "i64")
            bottom = k.least(top + k.emit(f"shl i64 1, {shift.text}", "i64"), size)
            none = k.const(0, element, lanes)

            def clear(row: Value) -> None:
                k.vector_loop(left, right, lanes, lambda c, mask: k.store(none, result, row * width + c, element, mask))

            k.loop(top, bottom, clear)
        first = k.when(bucket > 0, lambda: k.load(ends, bucket - 1, "i64"), lambda: k.const(0, "i64"))

        def add(p: Value) -> None:
            i = k.load(order, p, "i64")
            row = k.cast(k.load(indices, i, index_element), "i64")
            row = row + k.select(row < 0, wrap, 0)

            def step(c: Value, mask: Value | None) -> None:
                at = row * width + c
                old = k.load(result, at, element, lanes, mask)
                k.store(k.fma(k.load(source, i * width + c, element, lanes, mask), k.splat(factor, lanes), old), result, at, element, mask)

            k.vector_loop(left, right, lanes, step)

        k.loop(first, k.load(ends, bucket, "i64"), add)

    k.for_chunks(chunk)


@kernel
def extremes(k: Builder, element: str) -> None:
    """Least and greatest element of each chunk of ``_SPAN``."""
    indices, results, count = k.array(), k.array(), k.integer()
    lanes = k.lanes(element)

    def chunk(c: Value) -> None:
        start = c * _SPAN
        some = k.splat(k.load(indices, start, element), lanes)

        def step(i: Value, mask: Value | None, low: Value, high: Value) -> tuple[Value, Value]:
            here = k.load(indices, i, element, lanes, mask)
            here = here if mask is None else k.select(mask, here, some)
            return k.least(low, here), k.most(high, here)

        low, high = k.vector_loop(start, k.least(start + _SPAN, count), lanes, step, carried=(some, some), unroll=2)
        k.store(k.cast(k.fold(low, k.least), "i64"), results, c * 2, "i64")
        k.store(k.cast(k.fold(high, k.most), "i64"), results, c * 2 + 1, "i64")

    k.for_chunks(chunk)


# -- taking --------------------------------------------------------------------------------------------------------------------
def rows_at(source: np.ndarray, indices: np.ndarray, dim: int, shape: tuple[int, ...], wrap: bool = False) -> np.ndarray | None:
    """``source`` at ``indices`` along ``dim``, as a new array of ``shape``; negative indices count from the end if ``wrap``."""
    index_element = _INDEX_ELEMENTS.get(indices.dtype)
    if index_element is None or not able(source) or not source.flags.c_contiguous or not indices.size or not source.size:
        return None
    indices = indices if indices.flags.c_contiguous else contiguous(indices)
    size, outer = source.shape[dim], math.prod(source.shape[:dim])
    length = math.prod(source.shape[dim + 1 :]) * source.itemsize
    result, bad = empty(shape, source.dtype), np.zeros(1, np.int64)
    turn = size if wrap else 0
    if length == source.itemsize and length < 16:
        _take_elements(source, indices, result, bad, (outer, 1, indices.size), (size, 1, 0, 0), size, turn, along=True)
    else:
        unit = math.gcd(length, 8)
        block = max(1, CHUNK // length)
        blocks = -(-indices.size // block)
        run = take_rows(index_element, f"u{8 * unit}")
        run(outer * blocks, *map(id, (source, indices, result, bad)), size, turn, indices.size, length // unit, blocks, block)
    return None if bad[0] else result


def _take_elements(
    source: np.ndarray,
    indices: np.ndarray,
    result: np.ndarray,
    bad: np.ndarray,
    sizes: Any,
    steps: Any,
    size: int,
    wrap: int = 0,
    *,
    along: bool,
) -> None:
    a, b, c = sizes
    block = min(c, CHUNK // 8)
    blocks = -(-c // block)
    units, per = a * b * blocks, max(1, CHUNK // (8 * block))
    run = take_elements(_INDEX_ELEMENTS[indices.dtype], f"u{8 * source.itemsize}", along)
    run(-(-units // per), *map(id, (source, indices, result, bad)), b, c, blocks, block, size, wrap, units, per, *steps)


@native("_limits")
def limits(indices: np.ndarray) -> tuple[int, int] | None:
    element = _INDEX_ELEMENTS.get(indices.dtype)
    if element is None or not indices.flags.c_contiguous or not indices.size:
        return None
    chunks = -(-indices.size // _SPAN)
    bounds = np.empty((chunks, 2), np.int64)
    extremes(element)(chunks, id(indices), id(bounds), indices.size)
    return int(bounds[:, 0].min()), int(bounds[:, 1].max())


@native("embedding")
def embedding(
    weight: np.ndarray, indices: np.ndarray, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> np.ndarray | None:
    if weight.ndim != 2:
        return None
    return rows_at(weight, indices, 0, (*indices.shape, weight.shape[1]))


@native("index_select")
def index_select(input: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray | None:
    if not input.ndim:
        return None
    return rows_at(input, index, dim, (*input.shape[:dim], index.size, *input.shape[dim + 1 :]))


def _planes(source: np.ndarray, dim: int, index: np.ndarray) -> tuple[Any, ...] | None:
    """``index`` as (outer, along ``dim``, inner) contiguous dimensions, where ``source`` has the same outer and inner ones."""
    if not source.ndim or index.ndim != source.ndim or not index.size or index.dtype not in _INDEX_ELEMENTS:
        return None
    outer, inner = index.shape[:dim], index.shape[dim + 1 :]
    if source.shape[:dim] != outer or source.shape[dim + 1 :] != inner:
        return None
    return math.prod(outer), index.shape[dim], math.prod(inner)


@native("gather")
def gather(input: np.ndarray, dim: int, index: np.ndarray, sparse_grad: bool = False) -> np.ndarray | None:
    planes = _planes(input, dim, index)
    if planes is None or not able(input) or input.itemsize == 16 or not input.shape[dim]:
        return None
    outer, n, inner = planes
    size = input.shape[dim]
    source = input if input.flags.c_contiguous else contiguous(input)
    index = index if index.flags.c_contiguous else contiguous(index)
    result, bad = empty(index.shape, input.dtype), np.zeros(1, np.int64)
    if inner == 1:
        _take_elements(source, index, result, bad, (outer, 1, n), (size, 1, n, 0), size, along=True)
    else:
        _take_elements(source, index, result, bad, (outer, n, inner), (size * inner, inner, n * inner, inner), size, along=False)
    return None if bad[0] else result


# -- adding --------------------------------------------------------------------------------------------------------------------
def add_rows_at(
    grad: np.ndarray, indices: np.ndarray, result: np.ndarray, zeroed: bool, skipped: int = -1, wrap: bool = False, factor: float = 1
) -> np.ndarray | None:
    """``result``, whose rows are ``result[i]``, with the rows of ``grad`` added at ``indices`` (filled with 0 first if ``zeroed``)."""
    element, index_element = FLOATS.get(grad.dtype), _INDEX_ELEMENTS.get(indices.dtype)
    rows = result.shape[0]
    if element is None or index_element is None or not result.size or not indices.size:
        return None
    grad = grad if grad.flags.c_contiguous else contiguous(grad)
    indices = indices if indices.flags.c_contiguous else contiguous(indices)
    width = result.size // rows
    wanted = min(_BUCKETS, max(1, (result.nbytes + grad.nbytes) // CHUNK))
    shift = max(0, math.ceil(math.log2(rows / wanted)))
    buckets = -(-rows // (1 << shift))
    order, ends, bad = empty((indices.size,), np.int64), np.empty(buckets, np.int64), np.zeros(1, np.int64)
    turn = rows if wrap else 0
    sort_into_buckets(index_element)(1, *map(id, (indices, order, ends, bad)), indices.size, rows, turn, skipped, shift, buckets)
    if bad[0]:
        return None
    blocks = -(-width // _COLUMNS)
    run = add_rows(index_element, element, zeroed)
    run(buckets * blocks, *map(id, (grad, indices, result, order, ends)), rows, width, turn, shift, blocks, factor)
    return result


@native("_embedding_backward")
def embedding_backward(
    grad_output: np.ndarray, indices: np.ndarray, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> np.ndarray | None:
    if scale_grad_by_freq:
        return None
    return add_rows_at(grad_output, indices, empty((rows, grad_output.shape[-1]), grad_output.dtype), True, padding_idx)


@native("_index_backward")
def index_backward(input: np.ndarray, shape: Sequence[int], indices: Any) -> np.ndarray | None:
    dim = len(indices) - 1
    if any(entry is not None for entry in indices[:dim]) or indices[dim] is None:
        return None
    if dim:
        return combined_rows(zeros(shape, input.dtype), dim, indices[dim], input, "sum") if indices[dim].ndim == 1 else None
    return add_rows_at(input, indices[0], empty(shape, input.dtype), True, wrap=True)


@native("_index_add")
def index_add(input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: Any = 1) -> np.ndarray | None:
    if not input.ndim or input.dtype not in FLOATS:
        return None
    if dim:
        return combined_rows(contiguous(input), dim, index, source if alpha == 1 else source * input.dtype.type(alpha), "sum", wrap=False)
    if source.shape[1:] != input.shape[1:]:
        return None
    return add_rows_at(source, index, contiguous(input), False, factor=float(alpha))


def combined_rows(result: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, wrap: bool = True) -> np.ndarray | None:
    """``result``, row-major, whose entries at the positions ``index`` of ``dim`` are combined with those of ``source``."""
    element, index_element = ELEMENTS.get(result.dtype), _INDEX_ELEMENTS.get(index.dtype)
    if element not in _COMBINED or index_element is None or source.dtype != result.dtype or not result.size or not index.size:
        return None
    if source.shape != (*result.shape[:dim], index.size, *result.shape[dim + 1 :]):
        return None
    source = source if source.flags.c_contiguous else contiguous(source)
    index = index if index.flags.c_contiguous else contiguous(index)
    outer, width, bad = math.prod(result.shape[:dim]), math.prod(result.shape[dim + 1 :]), np.zeros(1, np.int64)
    block = min(width, _COLUMNS if outer >= 16 else 64)
    blocks = -(-width // block)
    units, per = outer * blocks, max(1, CHUNK // (8 * index.size * block))
    size = result.shape[dim]
    run = combine_rows(index_element, element, width == 1, reduce)
    arrays = source, index, result, bad
    run(-(-units // per), *map(id, arrays), index.size, width, blocks, block, size, size if wrap else 0, units, per)
    return None if bad[0] else result


@native("_index_reduce")
def index_reduce(input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, include_self: bool) -> np.ndarray | None:
    if not input.ndim or index.ndim != 1 or (reduce == "mean" and input.dtype.kind != "f"):
        return None
    if not input.size or not index.size or input.dtype.kind not in "fi" or index.min() < 0 or index.max() >= input.shape[dim]:
        return None
    result = contiguous(input)
    if not include_self:
        result[(slice(None),) * dim + (index,)] = _identity(reduce, input.dtype)
    if combined_rows(result, dim, index, source, "sum" if reduce == "mean" else reduce) is None:
        return None
    if reduce != "mean":
        return result
    counts = np.bincount(index, minlength=input.shape[dim]) + int(include_self)
    result /= np.maximum(counts, 1).astype(input.dtype).reshape(-1, *(1,) * (input.ndim - 1 - dim))
    return result


def _identity(reduce: str, dtype: np.dtype) -> Any:
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce]


@native("scatter_add")
def scatter_add(input: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray | None:
    return _combined(input, dim, index, src, "sum")


@native("_scatter_reduce")
def scatter_reduce(input: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, include_self: bool) -> np.ndarray | None:
    word = "sum" if reduce == "mean" else reduce
    start = input
    if not include_self:
        if input.dtype.kind not in "fi":
            return None
        start = np.full(input.shape, _identity(word, input.dtype), input.dtype)
    result = _combined(start, dim, index, src, word)
    if result is None or (include_self and reduce != "mean"):
        return result
    counts = _combined(np.full(input.shape, int(include_self), np.int64), dim, index, np.ones(src.shape, np.int64), "sum")
    if counts is None:
        return None
    if reduce == "mean":
        divisors = np.maximum(counts, 1)
        if result.dtype.kind == "i":
            result = (result // divisors).astype(result.dtype)  # int64 between: counts may be beyond a narrow dtype
        else:
            result = result / divisors.astype(result.dtype)
    return result if include_self else np.where(counts == 0, input, result)


@native("_scattered_sums")
def scattered_sums(src: np.ndarray, dim: int, index: np.ndarray, shape: Sequence[int]) -> np.ndarray | None:
    if not len(shape) or ELEMENTS.get(src.dtype) not in ("f32", "f64"):
        return None
    result = zeros(shape, src.dtype)
    return _combined(result, dim % len(shape), index, src, "sum", is_new=True)


def _combined(input: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, is_new: bool = False) -> np.ndarray | None:
    """A copy of ``input`` in which each element of ``src`` is combined with what stands at its index along ``dim``; itself if it is new."""
    planes = _planes(input, dim, index)
    element = ELEMENTS.get(input.dtype)
    if planes is None or not input.shape[dim] or src.shape != index.shape or element not in _COMBINED:
        return None
    outer, n, inner = planes
    size = input.shape[dim]
    result, bad = input if is_new else contiguous(input), np.zeros(1, np.int64)
    src = src if src.flags.c_contiguous else contiguous(src)
    index = index if index.flags.c_contiguous else contiguous(index)
    block = n if inner == 1 else min(inner, 64 if outer < 16 else 1024)
    sizes = (1, n, 1, n) if inner == 1 else (n, inner, -(-inner // block), block)
    units, per = outer * sizes[2], max(1, CHUNK // (16 * sizes[0] * block))
    run = add_elements(_INDEX_ELEMENTS[index.dtype], element, inner == 1, reduce)
    run(-(-units // per), *map(id, (src, index, result, bad)), *sizes, size, units, per)
    return None if bad[0] else result
