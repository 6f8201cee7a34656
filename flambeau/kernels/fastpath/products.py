"""Forms of small products: NumPy's matrix loop, which calls BLAS as ``ndarray.dot`` does."""

from __future__ import annotations

import sys
from functools import cache, partial
from typing import Any

import numpy as np

from ...core import state
from ...core.settings import settings
from ..compiler.language import SIZES, Value
from ..compiler.memory import SMALL
from . import records
from .code import Code
from .forms import Pointwise
from .interpreter import ALIGNED, C_CONTIGUOUS, F_CONTIGUOUS, FLAGS
from .kept_launches import Entries, Looking
from .launching import address_of, put_pool
from .records import DTYPES, F32, F64

_FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
_MOST_DIMS = 16  # of what is summed
_THIRTY_TWO = 0x42000000  # the bits of 32 as a float32
SECOND = records.EXTRA  # of each dtype the loop that adds a bias or divides a sum, with its data
# Of ``linear``: from how large a weight on another kernel multiplies one row, the pool, and that kernel without a bias and with one.
_ROW, _POOL, _ROWS = records.EXTRA + 4, records.EXTRA + 5, records.EXTRA + 6
_TABLE = records.EXTRA + 8  # and launches by sizes
_RANKS = records.EXTRA + 4  # of products: 1 for matrices, 2 for stacks of them
# Of products of row-major float32 matrices, the second one transposed.
_KNOWN = Entries(("rows", "inner", "columns", "has_bias", "precision"))


class Product(Pointwise):
    """A form over matrices."""

    def begin(self, count: int | Value) -> tuple[Value, Value]:
        """The first argument's array, and the bits of the edges to record."""
        x, bits = self.enter(count)
        self.require(self.is_empty(state.autocasting))
        return self.any_array_of(x), bits

    def require_matrix(self, array: Value) -> tuple[Value, Value]:
        """The sizes of what must be a dense matrix of at least two rows and columns: for others BLAS has other functions."""
        self.require(self.ndim(array).eq(2))
        flags = self.field(array, FLAGS, "i32")
        self.require((flags & ALIGNED).ne(0) & (flags & (C_CONTIGUOUS | F_CONTIGUOUS)).ne(0))
        rows, columns = (self.load(self.dims(array), k, "i64") for k in (0, 1))
        self.require((rows > 1) & (columns > 1))
        return rows, columns

    def multiply(self, loop: Value, data: Value, sizes: Any, operands: Any) -> None:
        """Call the matrix loop: ``operands`` are addresses with two steps in bytes each."""
        places, dims, steps = self.scratch(3, "ptr"), self.scratch(4, "i64"), self.scratch(9, "i64")
        self.store(self.i64(1), dims, 0, "i64")
        for k, size in enumerate(sizes):
            self.store(size, dims, 1 + k, "i64")
        for k, (address, *both) in enumerate(operands):
            self.store(address, places, k, "ptr")
            self.store(self.i64(0), steps, k, "i64")
            for place, step in enumerate(both):
                self.store(step, steps, 3 + 2 * k + place, "i64")
        self.call_c(loop, None, places, dims, steps, data)

    def is_moderate(self, data: Value, count: Value) -> Value:
        """Whether all float32 numbers are below 32, so that sums of their exponentials are far from infinity."""

        def high(i: Value, most: Value) -> Value:
            size = self.load(data, i, "i32") & 0x7FFFFFFF
            return self.pick(size > most, size, most)

        return self.loop(0, count, high, carried=(self.const(0, "i32"),)) < _THIRTY_TWO

    def steps(self, array: Value) -> tuple[Value, Value]:
        strides = self.strides(array)
        return self.load(strides, 0, "i64"), self.load(strides, 1, "i64")

    def matrix(self, dtype: Value, rows: Value, columns: Value) -> Value:
        """A new matrix."""
        dims = self.scratch(2, "i64")
        self.store(rows, dims, 0, "i64")
        self.store(columns, dims, 1, "i64")
        return self.new_array(dtype, self.i64(2), dims)

    def second(self, place: Value, k: int) -> Value:
        return self.word(SECOND + k, place * 2, "ptr")

    def require_stack(self, array: Value) -> None:
        """Go on if it is as many dense matrices one after another, each row-major or transposed, of at least two rows and columns."""
        self.require(self.ndim(array).eq(3) & (self.field(array, FLAGS, "i32") & ALIGNED).ne(0))
        size = self.item_size(self.dtype(array))
        _, rows, columns = (self.load(self.dims(array), k, "i64") for k in range(3))
        apart, down, along = (self.load(self.strides(array), k, "i64") for k in range(3))
        in_rows = down.eq(columns * size) & along.eq(size)
        in_columns = along.eq(rows * size) & down.eq(size)
        self.require((rows > 1) & (columns > 1) & apart.eq(rows * columns * size) & (in_rows | in_columns))


def _stacked_product(k: Product, a: Value, b: Value, bits: Value) -> None:
    """Answer with the products of two stacks of matrices."""
    k.require_stack(a)
    k.require_stack(b)
    (count, m, n), (others, inner, p) = ([k.load(k.dims(t), d, "i64") for d in range(3)] for t in (a, b))
    k.require((count > 0) & count.eq(others) & n.eq(inner) & (count * m * n < k.word(records.LIMIT)))
    _, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64))
    dims, sizes, steps, places = k.scratch(3, "i64"), k.scratch(4, "i64"), k.scratch(9, "i64"), k.scratch(3, "ptr")
    for place, size in enumerate((count, m, p)):
        k.store(size, dims, place, "i64")
    r = k.new_array(dtype, k.i64(3), dims)
    for place, size in enumerate((count, m, n, p)):
        k.store(size, sizes, place, "i64")
    for place, array in enumerate((a, b, r)):
        k.store(k.data(array), places, place, "ptr")
        for at, d in ((place, 0), (3 + 2 * place, 1), (4 + 2 * place, 2)):
            k.store(k.load(k.strides(array), d, "i64"), steps, at, "i64")
    k.call_c(loop, None, places, sizes, steps, data)
    k.answer_new(r, bits)


def product(code: Code) -> str:
    """The product of two small matrices, or of as many in two stacks."""
    k = Product(code, "product")
    a, bits = k.begin(2)
    y = k.argument(1)
    k.require(k.is_plain(y))
    b = k.any_array_of(y)
    k.require(k.same(k.dtype(a), k.dtype(b)))
    ranks = k.word(_RANKS)
    k.case(k.ndim(a).eq(3) & (ranks & 2).ne(0), lambda: _stacked_product(k, a, b, bits))
    k.require((ranks & 1).ne(0))
    m, n = k.require_matrix(a)
    inner, p = k.require_matrix(b)
    k.require(n.eq(inner) & (m * n < k.word(records.LIMIT)))
    _, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64))
    r = k.matrix(dtype, m, p)
    k.multiply(loop, data, (m, n, p), [(k.data(t), *k.steps(t)) for t in (a, b, r)])
    k.answer_new(r, bits)
    return k.finish()


def _rows_of(k: Product, a: Value, n: Value) -> tuple[Value, Value, tuple[Value, Value]]:
    """Rank of what must be rows of ``n`` elements each; the number of rows, and both steps."""
    rank, total = k.ndim(a), k.size(a)
    k.require((rank > 0) & (rank <= _MOST_DIMS) & (total > 0))
    k.require(k.load(k.dims(a), rank - 1, "i64").eq(n))
    m = total // n

    def matrix() -> tuple[Value, Value]:
        k.require_matrix(a)
        return k.steps(a)

    def others() -> tuple[Value, Value]:
        k.require(k.is_row_major(a))
        size = k.item_size(k.dtype(a))
        return n * size, size

    return rank, m, k.when(rank.eq(2) & (m > 1), matrix, others)


class _Linear(Product, Looking):
    """A form of ``linear``."""

    def large_row(self, x: Value, weight: Value, bias: Value, rank: Value, bits: Value) -> None:
        """Answer with the product of a large float32 matrix and one row, plus a bias (an array or null), by the kernel for that."""
        from ..families.gemm import strips

        direct, element = self.require_launches(_POOL), self.object(DTYPES[F32])
        self.require(self.same(self.dtype(weight), element) & self.is_row_major(weight) & self.is_row_major(x))
        p, n = (self.load(self.dims(weight), d, "i64") for d in (0, 1))
        self.require((rank > 1) & (rank <= _MOST_DIMS) & self.load(self.dims(x), rank - 1, "i64").eq(n) & (p < SMALL // SIZES["f32"]))
        plain, with_bias = (self.word(_ROWS + k, element="ptr") for k in (0, 1))
        self.require(self.exists(plain) & self.exists(with_bias))
        chunks, per_chunk = strips(p, n)
        r = self.own(self.new_array(element, rank, self.result_dims(x, rank, p)))
        numbers = [p, n, n, per_chunk]

        def added() -> None:
            self.launch(direct, with_bias, [weight, x, r, bias, *numbers], chunks)

        self.when(self.exists(bias), added, lambda: self.launch(direct, plain, [weight, x, r, *numbers], chunks))
        self.answer_new(self.disown(r), bits)

    def many_rows(self, x: Value, weight: Value, bias: Value, rank: Value, bits: Value) -> None:
        """Answer with a product of float32 matrices, plus a bias (an array or null), by the launch that is known for it."""
        direct, element = self.require_launches(_POOL), self.object(DTYPES[F32])
        self.require(self.same(self.dtype(weight), element) & self.is_row_major(weight) & self.is_row_major(x))
        p, n = (self.load(self.dims(weight), d, "i64") for d in (0, 1))
        self.require((rank > 1) & (rank <= _MOST_DIMS) & self.load(self.dims(x), rank - 1, "i64").eq(n))
        rows, has_bias = self.size(x) // n, self.exists(bias)
        self.require((rows < SMALL // SIZES["f32"]) & (p < SMALL // SIZES["f32"]))
        self.require(rows * p < SMALL // SIZES["f32"])
        asked = (rows, n, p, self.cast(has_bias, "i64"), self.precision())
        entry = self.require_entry(_KNOWN, self.word(_TABLE, element="ptr"), asked)
        r = self.own(self.new_array(element, rank, self.result_dims(x, rank, p)))
        arrays = [x, weight, r]
        self.when(has_bias, *[partial(self.launch_entry, _KNOWN, direct, entry, each) for each in ([*arrays, bias], arrays)])
        self.answer_new(self.disown(r), bits)

    def result_dims(self, x: Value, rank: Value, p: Value) -> Value:
        """Sizes of the result of rows of ``x`` with ``p`` others."""
        dims = self.scratch(_MOST_DIMS, "i64")
        self.loop(0, rank - 1, lambda d: self.store(self.load(self.dims(x), d, "i64"), dims, d, "i64"))
        self.store(p, dims, rank - 1, "i64")
        return dims


def linear(code: Code) -> str:
    """``linear(x, weight, bias)`` of few rows ``x``; the bias, a row, may be None."""
    k = _Linear(code, "linear")
    a, bits = k.begin(3)
    weight, bias = k.argument(1), k.argument(2)
    k.require(k.is_plain(weight))
    w, has_bias = k.any_array_of(weight), ~k.same(bias, k.object(None))
    k.require(k.same(k.dtype(a), k.dtype(w)))
    p, n = k.require_matrix(w)

    def row() -> Value:
        k.require(k.is_plain(bias))
        b = k.array_of(bias)
        k.require(k.same(k.dtype(a), k.dtype(b)) & k.ndim(b).eq(1))
        k.require(k.load(k.dims(b), 0, "i64").eq(p))
        return b

    added = k.when(has_bias, row, lambda: k.null)
    k.case(k.size(a).eq(n) & (n * p >= k.word(_ROW)), lambda: k.large_row(a, w, added, k.ndim(a), bits))
    k.case(k.size(a) * p >= k.word(records.LIMIT), lambda: k.many_rows(a, w, added, k.ndim(a), bits))
    rank, m, (down, along) = _rows_of(k, a, n)
    place, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64))
    r, size, (across, inside) = k.new_array(dtype, rank, k.result_dims(a, rank, p)), k.item_size(dtype), k.steps(w)
    step = p * size
    k.multiply(loop, data, (m, n, p), [(k.data(a), down, along), (k.data(w), inside, across), (k.data(r), step, size)])

    def add() -> None:
        add, its = k.second(place, 0), k.second(place, 1)

        def to_row(i: Value) -> None:
            at = k.at(k.data(r), i * step, "i8")
            k.run(add, its, p, [(at, size), (k.data(added), size), (at, size)])

        k.loop(0, m, to_row)

    k.when(has_bias, add)
    k.answer_new(r, bits)
    return k.finish()


@cache
def loops_are_dots() -> bool:
    """Whether NumPy's matrix loop gives the bits of ``ndarray.dot``, which the Python wrappers call: BLAS does both, if it was built so."""
    for dtype in _FLOATS:
        for m, n, p in ((2, 3, 4), (5, 16, 3), (8, 33, 17), (31, 7, 9)):
            # numbers of all digits, without ``numpy.random``, which takes longer to import than all of this
            a, b = (np.sin(np.arange(1.0, 1.0 + rows * columns)).astype(dtype).reshape(rows, columns) for rows, columns in ((m, n), (n, p)))
            pairs = [(a[:1], b), (a[0], b), (a[:1], np.asfortranarray(b)), (a[0], np.asfortranarray(b))]
            pairs += [
                (a, b),
                (a, np.asfortranarray(b)),
                (np.asfortranarray(a), b),
                (a, a.T),
                (a, np.ones(n, dtype)),
                (np.ones(n, dtype), b),
            ]
            if any(x.dot(y).tobytes() != np.matmul(x, y).tobytes() for x, y in pairs):
                return False
    return True


def put_products(record: records.Record, op: Any, work: str | None = None) -> None:
    """Tell how an operation multiplies matrices, and up to how much ``work`` (``Record.put_limit``).

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    if not loops_are_dots():
        raise records.Unfit(op.name)
    record.put_loops(np.matmul, _FLOATS)
    record.put_limit(op, work=work)


def of_products(op: Any, work: str | None = None) -> records.Record:
    """The record of an operation that multiplies matrices, its bias added.

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    record = records.of_views(op)
    put_products(record, op, work)
    for k, dtype in enumerate(_FLOATS):
        record.put_loop(SECOND + 2 * k, np.add, dtype)
    return record


def _note(rows: int, inner: int, columns: int, has_bias: bool, launch: Any) -> None:
    precision = vars(settings).get("matmul_precision")
    _KNOWN.note((rows, inner, columns, has_bias, 0 if precision is None else id(precision)), 3 + has_bias, launch, kept=precision)


def of_linear(op: Any) -> records.Record:
    """The record of ``linear``.

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    from ..families import gemm

    record = of_products(op, work="input.size * weight.shape[0]")
    least: int = vars(sys.modules[op.module])["_row_product"].part.threshold
    record.put(_ROW, max(least, min(gemm.LONG, gemm.SMALL)))
    put_pool(record, _POOL)
    for place, has_bias in enumerate((False, True)):
        record.put(_ROWS + place, address_of(gemm.rows_times_vector, "f32", has_bias))
    record.put(_TABLE, _KNOWN.address)
    gemm.tell(_note)
    return record


def of_matrices(op: Any) -> records.Record:
    """The record of a product of matrices one by one, in stacks, or of both.

    Raises:
        Unfit: the loops are others than those of the Python wrapper.
    """
    record = of_products(op)
    record.put(_RANKS, {"mm": 1, "bmm": 2, "matmul": 3}[op.key])
    return record
