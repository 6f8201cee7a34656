"""Products of matrices, and who computes them: large ones BLAS, whose blocks the pool spreads, others kernels of our own (``products.py``).

The library's own threads are not used: they wait for more work some milliseconds after each product, on the cores that the pool's threads
and the caller compute on. So products of a large matrix with a vector, for which it would wake them, have a kernel here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.settings import settings
from ..compiler import memory
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from . import products, split_products
from .blas import alone, call_gemm, library
from .tile_registers import instructions

SMALL = 1 << 15  # multiply-adds: below this NumPy computes a product in less time than a kernel's start
QUICK = 1 << 18  # the same for one product of two matrices that lie row by row, in which the library is at its best
TURNED = 3 << 16  # elements of a left operand that lies column by column: from here on reading it in place costs more than the copy
IN_PLACE = -1  # in place of such a bound: products of any size, and operands are read as they lie, without packed copies
LARGE = 1 << 25  # from here on the library's copies of both operands pay
NARROW = 48  # rows or columns of the result up to which they do not
DIVIDED = 1 << 19  # multiply-adds: from here on a product is cut into two blocks at least, some 10 us each
BLOCK = 1 << 25  # multiply-adds of a block in larger ones: every block packs one of its operands anew, so there should be few
LENGTH = 256  # rows or columns of a block in larger ones
MOST = 16  # blocks of one product
GROUP = 1 << 20  # multiply-adds of small products that make a chunk together
LONG = 3 << 14  # elements of a matrix that is multiplied by a vector: below this the library does it on one thread, and well
STRIP = 1 << 18  # elements of two chunks of it
TOGETHER = 8  # of its rows
_PLAIN, _TRANSPOSED = 111, 112  # CBLAS's words
Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides
told: list[Callable[..., None]] = []  # of launches of float32 products with a transposed weight; see ``tell``
_Launch = Callable[..., None]  # of operands, the result, and the bias if there is one
_Run = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray | None]


@kernel
def product(k: Builder, element: str, has_bias: bool) -> None:
    """Blocks of ``c = a @ b (+ bias)``; see ``_plan`` for the arguments."""
    a, b, c = k.array(), k.array(), k.array()
    bias = k.array() if has_bias else None
    function = k.pointer()
    m, n, inner = k.integer(), k.integer(), k.integer()
    form_a, form_b, lda, ldb = k.integer(), k.integer(), k.integer(), k.integer()
    step_a, step_b = k.integer(), k.integer()
    heads, outer_a, inner_a, outer_b, inner_b = (k.integer() for _ in range(5))
    parts, rows, columns, units, per_chunk = k.integer(), k.integer(), k.integer(), k.integer(), k.integer()

    def unit(u: Value) -> None:
        batch, part = u // parts, u % parts
        m0, n0 = part * rows, part * columns  # one of the two steps is 0: the other dimension is not cut
        height = k.select(rows.eq(0), m, k.least(rows, m - m0))
        width = k.select(columns.eq(0), n, k.least(columns, n - n0))
        outer, head = batch // heads, batch % heads
        left = k.at(a, outer * outer_a + head * inner_a + m0 * step_a, element)
        right = k.at(b, outer * outer_b + head * inner_b + n0 * step_b, element)
        target = k.at(c, batch * (m * n) + m0 * n + n0, element)
        more = None if bias is None else k.at(bias, n0, element)
        call_gemm(
            k, element, function, (height, width, inner), (form_a, form_b), (lda, ldb), (left, right, target), n, more
        )  # fmt: skip

    k.for_chunks(lambda chunk: k.loop(chunk * per_chunk, k.least((chunk + 1) * per_chunk, units), unit))


@kernel
def rows_times_vector(k: Builder, element: str, has_bias: bool) -> None:
    """``out = matrix @ vector (+ bias)``, rows ``pitch`` elements apart; a chunk is some rows."""
    matrix, vector, out = k.array(), k.array(), k.array()
    bias = k.array() if has_bias else None
    rows, columns, pitch, per_chunk = k.integer(), k.integer(), k.integer(), k.integer()
    lanes = k.lanes(element)

    def some(count: int) -> Callable[[Value], None]:
        def run(row: Value) -> None:
            lines = [k.at(matrix, (row + i) * pitch, element) for i in range(count)]

            def step(i: Value, mask: Value | None, *sums: Value) -> list[Value]:
                value = k.load(vector, i, element, lanes, mask)
                return [k.fma(k.load(line, i, element, lanes, mask), value, s) for line, s in zip(lines, sums, strict=True)]

            sums = k.vector_loop(0, columns, lanes, step, carried=[k.const(0, element, lanes)] * count)
            for i, value in enumerate(sums if count > 1 else [sums]):
                total = k.sum(value)
                k.store(total if bias is None else total + k.load(bias, row + i, element), out, row + i, element)

        return run

    def chunk(c: Value) -> None:
        first, last = c * per_chunk, k.least((c + 1) * per_chunk, rows)
        main = last - (last - first) % TOGETHER
        k.loop(first, main, some(TOGETHER), step=TOGETHER)
        k.loop(main, last, some(1))

    k.for_chunks(chunk)


def strips(rows: Any, columns: Any) -> tuple[Any, Any]:
    """Chunks of a matrix that is multiplied by a vector, and rows of each: two at least, so that each core keeps its half in its cache.

    Sizes are integers, here and in machine code.
    """
    step = (rows * columns // STRIP + 1) * 2 * TOGETHER
    per_chunk = (rows + step - 1) // step * TOGETHER
    return (rows + per_chunk - 1) // per_chunk, per_chunk


def _vector_plan(dtype: np.dtype, turned: bool, a: Layout, b: Layout, shape: tuple[int, ...], has_bias: bool, least: int) -> _Run | None:
    """Function ``run(a, b, bias)`` for ``a @ b (+ bias)`` as an array of ``shape`` where one operand, ``a`` if ``turned``, is a vector.

    ``a`` has two dimensions. None where NumPy is to do it.
    """
    (matrix_shape, strides), (_, across) = ((b[0][::-1], b[1][::-1]), a) if turned else (a, b)
    (rows, columns), (down, along), size = matrix_shape, strides, dtype.itemsize
    apart = across[1 if turned else 0]
    work = rows * columns
    if work < min(LONG, least) or not work or along != size or down % size or (apart != size and columns > 1):
        return None
    chunks, per_chunk = strips(rows, columns)
    launch = rows_times_vector(ELEMENTS[dtype], has_bias).call(chunks, rows, columns, down // size, per_chunk)

    def put(a: np.ndarray, b: np.ndarray, result: np.ndarray, *bias: np.ndarray) -> None:
        launch(b, a, result, *bias)

    return allocating(put if turned else launch, shape, dtype)


def _form(rows: int, columns: int, row_stride: int, column_stride: int) -> tuple[int, int, int, int] | None:
    """CBLAS's word for a matrix with these strides, its leading dimension, and the steps to the next row and column; None: no such word."""
    if column_stride == 1 or columns == 1:
        if row_stride >= columns or rows == 1:
            return _PLAIN, max(row_stride, columns) if rows > 1 else columns, row_stride, column_stride
    if (row_stride == 1 or rows == 1) and (column_stride >= rows or columns == 1):
        return _TRANSPOSED, max(column_stride, rows) if columns > 1 else rows, row_stride, column_stride
    return None


def _matrices(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[tuple[int, int, int, int] | None, int, int]:
    """Layout of one matrix of an array of 2 to 4 dimensions, and the steps to the next in its first and second batch dimension."""
    if any(s % size for s in strides):
        return None, 0, 0
    *batch, row, column = [s // size for s in strides]
    form = _form(shape[-2], shape[-1], row, column)
    return form, (batch[0] if len(batch) > 1 else 0), (batch[-1] if batch else 0)


def _library_plan(dtype: np.dtype, a: Layout, b: Layout, has_bias: bool) -> _Launch | None:
    """Products by the library; None where there is none, or it has no word for how the operands lie."""
    (a_shape, a_strides), (b_shape, b_strides) = a, b
    left, outer_a, inner_a = _matrices(a_shape, a_strides, dtype.itemsize)
    right, outer_b, inner_b = _matrices(b_shape, b_strides, dtype.itemsize)
    (m, inner), n = a_shape[-2:], b_shape[-1]
    if (blas := library()) is None or left is None or right is None or min(m, n, inner) < 2:
        return None
    count, heads = math.prod(a_shape[:-2]), (a_shape[-3] if len(a_shape) > 2 else 1)
    parts, rows, columns, per_chunk = _cut(count, m, n, inner)
    units = count * parts
    call = product(ELEMENTS[dtype], has_bias).call(
        -(-units // per_chunk),
        *(blas.sgemm if dtype.itemsize == 4 else blas.dgemm, m, n, inner),
        *(left[0], right[0], left[1], right[1], left[2], right[3]),
        *(heads, outer_a, inner_a, outer_b, inner_b),
        *(parts, rows, columns, units, per_chunk),
    )
    return partial(alone, call)


def is_split(dtype: np.dtype, sizes: tuple[int, int, int], count: int = 1, finishes: bool = False, precision: str = "") -> bool:
    """Whether ``count`` products are computed by tiles of bfloat16, if the library has words for how matrices lie; see ``pays``.

    Args:
        precision: of float32 products; that of the settings where nothing is said.
    """
    parts = split_products.PARTS[precision or settings.matmul_precision]
    pays = dtype.itemsize == 4 and split_products.pays(*sizes, count, finishes, parts)
    return pays and instructions() == "tiles" and library() is not None


def _split_plan(dtype: np.dtype, a: Layout, b: Layout, has_bias: bool, precision: str = "") -> _Launch | None:
    """Products by tiles of bfloat16; None where they do not pay, the processor has none, or operands lie as the library has no word for."""
    shape, (m, inner), n = a[0], a[0][-2:], b[0][-1]
    blas = library() if is_split(dtype, (m, n, inner), math.prod(shape[:-2]), False, precision) else None
    left, right = ((form and split_products.Layout(*form, *steps)) for form, *steps in (_matrices(*each, 4) for each in (a, b)))
    if blas is None or left is None or right is None:
        return None
    heads = shape[-3] if len(shape) > 2 else 1
    batch = math.prod(shape[:-3]), heads
    parts = split_products.PARTS[precision or settings.matmul_precision]
    return partial(alone, split_products.plan(left, right, (m, n, inner), batch, blas.sgemm, has_bias, parts))


def own_plan(dtype: np.dtype, a: Layout, b: Layout, bias: str) -> _Launch | None:
    """Products without the library; None where an operand's elements lie apart in both rows and columns.

    ``bias`` is that of "columns", of "rows", or empty.
    """
    left, right = (products.layout(*operand, dtype.itemsize) for operand in (a, b))
    if left is None or right is None:
        return None
    *batch, m, inner = a[0]
    sizes, batches = (m, b[0][-1], inner), (batch[0] if len(batch) > 1 else 1, batch[-1] if batch else 1)
    return products.plan(ELEMENTS[dtype], left, right, sizes, batches, bias)


def is_for_library(sizes: tuple[int, int, int], by_rows: bool) -> bool:
    """Whether a product is the library's, if there is one; ``by_rows``: whether its left operand lies row by row."""
    m, n, inner = sizes
    return (m * n * inner > LARGE and min(m, n) > NARROW) or (not by_rows and m * inner >= TURNED)


def _matrix_plan(dtype: np.dtype, a: Layout, b: Layout, has_bias: bool, least: int, precision: str = "") -> _Launch | None:
    """Function ``launch(a, b, result[, bias])`` for equal batches of matrices; None where NumPy is to compute the product."""
    (m, inner), n = a[0][-2:], b[0][-1]
    each = m * n * inner
    work = each * math.prod(a[0][:-2])
    if not work or work < least:
        return None
    size = dtype.itemsize
    if 0 < least and work <= QUICK and len(a[0]) == 2 and a[1][1] == b[1][1] == size:
        return None
    if least != IN_PLACE and (by_tiles := _split_plan(dtype, a, b, has_bias, precision)) is not None:
        return by_tiles
    columns = "columns" if has_bias else ""
    if is_for_library((m, n, inner), a[1][-1] == size):
        by_library = _library_plan(dtype, a, b, has_bias) if m > products.FEW or b[1][-2] != size else None
        return by_library or own_plan(dtype, a, b, columns)
    return own_plan(dtype, a, b, columns)


@lru_cache(maxsize=4096)
def _plan(dtype: np.dtype, a: Layout, b: Layout, bias: tuple[Any, ...] | None, least: int, _precision: str) -> _Run | None:
    """Function ``run(a, b, bias)`` for operands of these shapes and strides; None where NumPy is to do it."""
    (shape, strides), b_shape = a, b[0]
    if ELEMENTS.get(dtype) not in ("f32", "f64") or len(shape) < 2 or len(b_shape) < 2 or shape[-1] != b_shape[-2]:
        return None
    columns, size = b_shape[-1], dtype.itemsize
    if bias is not None and bias != (dtype, (columns,), (size,)):
        return None
    result_shape = (*shape[:-1], columns)
    if len(b_shape) == 2:
        rows = math.prod(shape[:-1])
        if len(shape) > 2:
            if not _is_contiguous(shape, strides, size):
                return partial(_copied_first, least)
            a = (rows, shape[-1]), (shape[-1] * size, size)
        if rows == 1 or (columns == 1 and bias is None):
            return _vector_plan(dtype, rows == 1, a, b, result_shape, bias is not None, least)
    elif len(shape) > 4 or shape[:-2] != b_shape[:-2]:
        return None
    launch = _matrix_plan(dtype, a, b, bias is not None, least)
    if launch is None:
        return None
    if told and least == SMALL and b[1] == (4, 4 * shape[-1]) and _is_contiguous(*a, size) and hasattr(launch, "direct"):
        told[0](a[0][0], shape[-1], columns, bias is not None, launch)
    return allocating(launch, result_shape, dtype)


def tell(note: Callable[..., None]) -> None:
    """Have ``note(rows, inner, columns, has_bias, launch)`` called for each plan of ``linear`` that is made from now on."""
    told[:] = [note]
    _plan.cache_clear()  # those that are known are made again


def launch_of(dtype: np.dtype, a: Layout, b: Layout) -> _Launch | None:
    """Function ``launch(a, b, result)`` for two matrices that lie so; None where NumPy is to compute the product."""
    return _matrix_plan(dtype, a, b, False, SMALL) if ELEMENTS.get(dtype) in ("f32", "f64") else None


def allocating(launch: _Launch, shape: tuple[int, ...], dtype: np.dtype) -> _Run:
    """``launch`` with a new array of this shape for the result, which it returns."""
    make = np.empty if math.prod(shape) * dtype.itemsize < memory.SMALL else empty

    def run(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        result: np.ndarray = make(shape, dtype)
        if bias is None:
            launch(a, b, result)
        else:
            launch(a, b, result, bias)
        return result

    return run


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != size:
            return False
        size *= extent
    return True


def _copied_first(least: int, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None) -> np.ndarray | None:
    """The product of all rows of ``a``, which are copied behind each other: little beside the product."""
    rows = np.ascontiguousarray(a).reshape(-1, a.shape[-1])
    result = multiply(rows, b, bias, least)
    return None if result is None else result.reshape(*a.shape[:-1], b.shape[1])


def multiply(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, least: int = SMALL) -> np.ndarray | None:
    """``a @ b (+ bias)`` for ``(*, m, k)`` and ``(k, n)``, or equal batches of up to 2 dimensions; None where NumPy is to do it.

    Args:
        least: multiply-adds below which it is, or ``IN_PLACE``.
    """
    dtype = a.dtype
    if b.dtype is not dtype:
        return None
    third = None if bias is None else (bias.dtype, bias.shape, bias.strides)
    run = _plan(dtype, (a.shape, a.strides), (b.shape, b.strides), third, least, settings.matmul_precision)
    return None if run is None else run(a, b, bias)


@lru_cache(maxsize=1024)
def _plan_into(dtype: np.dtype, a: Layout, b: Layout, least: int, _precision: str) -> _Launch | None:
    return _matrix_plan(dtype, a, b, False, least) if ELEMENTS.get(dtype) in ("f32", "f64") and a[0][1] == b[0][0] else None


def multiply_into(a: np.ndarray, b: np.ndarray, out: np.ndarray, least: int = SMALL) -> None:
    """``out[...] = a @ b`` for matrices, ``out`` row-major; ``least``: multiply-adds below which NumPy does it."""
    launch = _plan_into(a.dtype, (a.shape, a.strides), (b.shape, b.strides), least, settings.matmul_precision)
    if launch is None:
        np.dot(a, b, out)
    else:
        launch(a, b, out)


def plan_of_matrices(dtype: np.dtype, a: Layout, b: Layout) -> _Launch:
    """Function ``launch(a, b, out)``, ``out`` row-major, for matrices that lie so, at float32's precision whatever is set."""
    launch = _matrix_plan(dtype, a, b, False, SMALL, "highest")
    return np.dot if launch is None else launch


def _cut(count: int, m: int, n: int, inner: int) -> tuple[int, int, int, int]:
    """Parts of each product, their rows or columns (0: not cut), and how many parts make a chunk; by the sizes alone."""
    work = m * n * inner
    if work < DIVIDED:
        return 1, 0, 0, max(1, GROUP // work)
    longer = max(m, n)
    parts = 1 << (min(work // BLOCK, longer // LENGTH, MOST) | 2).bit_length() - 1
    size = -(-longer // parts)
    size = max(32, -(-size // 16) * 16)
    parts = -(-longer // size)
    if parts < 2:
        return 1, 0, 0, 1
    return (parts, size, 0, 1) if m >= n else (parts, 0, size, 1)


@native("matmul", only_launches=True)
def matmul(input: np.ndarray, other: np.ndarray, least: int = SMALL) -> np.ndarray | None:
    result = multiply(input, other, None, least)
    if result is None and least and input.ndim == other.ndim == 2 and input.dtype is other.dtype and input.shape[1] == len(other):
        return input.dot(other)  # what the reference would do, some microseconds later
    return result


@native("mm", only_launches=True)
def mm(input: np.ndarray, mat2: np.ndarray, least: int = SMALL) -> np.ndarray | None:
    return multiply(input, mat2, None, least) if input.ndim == mat2.ndim == 2 and input.shape[1] == len(mat2) else None


@native("bmm", only_launches=True)
def bmm(input: np.ndarray, mat2: np.ndarray, least: int = SMALL) -> np.ndarray | None:
    return multiply(input, mat2, None, least) if input.ndim == mat2.ndim == 3 and input.shape[2] == mat2.shape[1] else None


@native("nn.functional.linear", only_launches=True)
def linear(input: np.ndarray, weight: np.ndarray, bias: Any = None, least: int = SMALL) -> np.ndarray | None:
    if weight.ndim != 2 or input.ndim < 2 or input.shape[-1] != weight.shape[1]:
        return None
    return multiply(input, weight.T, bias, least)


def _added(product: np.ndarray | None, input: np.ndarray, beta: Any, alpha: Any) -> np.ndarray | None:
    """``beta * input + alpha * product``, in the product's memory; what has a factor of 0 is ignored, whatever it holds."""
    if product is not None:
        if alpha == 0:
            product.fill(0)
        elif alpha != 1:
            product *= product.dtype.type(alpha)
        if beta != 0:
            product += input if beta == 1 else input * input.dtype.type(beta)
    return product


@native("addmm")
def addmm(input: np.ndarray, mat1: np.ndarray, mat2: np.ndarray, beta: Any, alpha: Any) -> np.ndarray | None:
    if beta == 1 and alpha == 1 and input.ndim == 1:
        return multiply(mat1, mat2, input)
    return _added(mm(mat1, mat2), input, beta, alpha)


@native("baddbmm")
def baddbmm(input: np.ndarray, batch1: np.ndarray, batch2: np.ndarray, beta: Any, alpha: Any) -> np.ndarray | None:
    return _added(bmm(batch1, batch2), input, beta, alpha)


@native("addbmm")
def addbmm(input: np.ndarray, batch1: np.ndarray, batch2: np.ndarray, beta: Any, alpha: Any) -> np.ndarray | None:
    """One product of the first matrices side by side with the second ones below each other, which adds up in its sums."""
    if batch1.ndim != 3 or batch2.ndim != 3 or (len(batch1), batch1.shape[2]) != batch2.shape[:2]:
        return None
    left = np.ascontiguousarray(batch1.transpose(1, 0, 2)).reshape(batch1.shape[1], -1)
    return _added(mm(left, batch2.reshape(-1, batch2.shape[2])), input, beta, alpha)
