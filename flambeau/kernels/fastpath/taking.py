"""Forms of calls that copy elements at the places that another tensor tells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import SIZED, Pointwise, number_cell
from .records import BOOL, DTYPES, I64
from .views import MOST_DIMS

_MOST = 1 << 12


# -- rows -------------------------------------------------------------------------------------------------------------------------------
_TABLE, _INDICES, _COUNT, _WRAPS = (
    records.EXTRA + k for k in range(4)
)  # places of both, number of arguments, and whether -1 is the last row


def _where(k: Pointwise, table: Value, mask: Value) -> None:
    """Answer with the parts of ``table`` at the places where ``mask`` holds, whose dimensions are its first ones."""
    n, m, size = k.ndim(table), k.ndim(mask), k.size_of(k.dtype(table))
    k.require((m > 0) & (m <= n) & (n < MOST_DIMS) & k.measured(table)[1])  # else sizes of 1 may have any strides
    k.loop(0, m, lambda d: k.require(k.load(k.dims(table), d, "i64").eq(k.load(k.dims(mask), d, "i64"))))
    cells, holds = k.size(mask), k.data(mask)
    k.require((cells > 0) & (cells <= _MOST))
    count = k.loop(0, cells, lambda i, found: found + k.cast(k.load(holds, i, "b8"), "i64"), carried=(k.i64(0),))
    bytes_ = k.size(table) // cells * size
    k.require((count > 0) & (count * bytes_ < 1 << 16))
    dims = k.scratch(MOST_DIMS, "i64")
    k.store(count, dims, 0, "i64")
    k.loop(m, n, lambda d: k.store(k.load(k.dims(table), d, "i64"), dims, d - m + 1, "i64"))
    r = k.new_array(k.dtype(table), n - m + 1, dims)
    source, target = k.data(table), k.data(r)

    def copy(i: Value, done: Value) -> Value:
        truth = k.load(holds, i, "b8")

        def part() -> None:
            k.call_c("memcpy", "ptr", k.at(target, done * bytes_, "i8"), k.at(source, i * bytes_, "i8"), bytes_)

        k.when(truth, part)
        return done + k.cast(truth, "i64")

    k.loop(0, cells, copy, carried=(k.i64(0),))
    k.answer_new(r, k.i64(0))


def rows(code: Code) -> str:
    """Rows of a row-major tensor at the places that another one has, of ``embedding`` and of ``x[indices]``, or where ``x[mask]`` holds."""
    k = Pointwise(code, "rows")
    k.require_count(k.word(_COUNT))
    x, y = k.argument(k.word(_TABLE)), k.argument(k.word(_INDICES))
    k.require(k.is_plain(x) & k.is_plain(y))
    k.require_no_mode()
    bits = k.needed()
    k.require(k.word(records.NODE).ne(0) | ~k.recording(k.requires_grad(x, may_be_inference=True)))
    table, places = k.array_of(x), k.array_of(y)
    wraps = k.word(_WRAPS).ne(0)
    k.case(wraps & k.same(k.dtype(places), k.object(DTYPES[BOOL])), lambda: _where(k, table, places))
    k.require(k.same(k.dtype(places), k.object(DTYPES[I64])))
    size, n, count = k.size_of(k.dtype(table)), k.ndim(table), k.size(places)
    k.require((n > 0) & (k.ndim(places) > 0) & (count > 0) & (n + k.ndim(places) <= MOST_DIMS))
    is_usual = k.measured(table)[1] & k.measured(places)[1]
    k.require(is_usual | (k.owns_its_memory(table) & k.owns_its_memory(places)))  # else sizes of 1 may have any strides
    length, bytes_ = k.load(k.dims(table), 0, "i64"), k.size(table) * size
    k.require(bytes_ > 0)
    bytes_ = bytes_ // length
    k.require(count * bytes_ < 1 << 16)

    def is_place(i: Value, fits: Value) -> Value:
        place = k.load(k.data(places), i, "i64")
        return fits & k.cast((place < length) & ((place >= 0) | (wraps & (place >= -length))), "i64")

    k.require(k.loop(0, count, is_place, carried=(k.i64(1),)).ne(0))
    dims = k.scratch(MOST_DIMS, "i64")
    m = k.ndim(places)
    k.loop(0, m, lambda d: k.store(k.load(k.dims(places), d, "i64"), dims, d, "i64"))
    k.loop(1, n, lambda d: k.store(k.load(k.dims(table), d, "i64"), dims, m + d - 1, "i64"))
    r = k.new_array(k.dtype(table), m + n - 1, dims)
    source, target = k.data(table), k.data(r)

    def copy(i: Value) -> None:
        place = k.load(k.data(places), i, "i64")
        place = k.pick(place < 0, place + length, place)
        k.call_c("memcpy", "ptr", k.at(target, i * bytes_, "i8"), k.at(source, place * bytes_, "i8"), bytes_)

    k.loop(0, count, copy)
    k.answer_new(r, bits)
    return k.finish()


def of_embedding(op: Any) -> records.Record:
    """The record of ``embedding``."""
    record = records.of_views(op)
    return _of_rows(record, op.names.index("weight"), op.names.index("indices"), len(op.names), False)


def of_taking(op: Any) -> records.Record:
    """The record of ``x[indices]``."""
    return _of_rows(records.Record(), 0, 1, 2, True)


def _of_rows(record: records.Record, table: int, indices: int, count: int, wraps: bool) -> records.Record:
    for place, value in ((_TABLE, table), (_INDICES, indices), (_COUNT, count), (_WRAPS, wraps)):
        record.put(place, int(value))
    return record


# -- elements -----------------------------------------------------------------------------------------------------------------------------
class _Elements(Pointwise):
    """A form over elements whose places along a dimension are told by as many indices."""

    def read(self, x: Value, dim: Value, y: Value) -> Value:
        """Look at the array whose elements are meant, at the dimension and at the indices, none of which is out of range; the array."""
        self.require(self.is_plain(y))
        a, self.places = self.array_of(x), self.array_of(y)
        self.require(self.same(self.dtype(self.places), self.object(DTYPES[I64])))
        n, self.total = self.ndim(a), self.size(self.places)
        self.require((n > 0) & (n < MOST_DIMS) & self.ndim(self.places).eq(n) & (self.total > 0) & (self.total <= _MOST))
        self.dim, self.last, self.steps = self.index(dim, n), n - 1, self.scratch(MOST_DIMS, "i64")
        dims, length, indices = self.dims(self.places), self.load(self.dims(a), self.dim, "i64"), self.data(self.places)

        def fits(d: Value) -> None:
            inside, is_it = self.load(dims, d, "i64") <= self.load(self.dims(a), d, "i64"), d.eq(self.dim)
            self.require(inside | is_it)
            self.store(self.pick(is_it, self.i64(0), self.load(self.strides(a), d, "i64")), self.steps, d, "i64")

        self.loop(0, n, fits)

        def is_place(i: Value, every: Value) -> Value:
            place = self.load(indices, i, "i64")
            return every & self.cast((place >= 0) & (place < length), "i64")

        self.require(self.loop(0, self.total, is_place, carried=(self.i64(1),)).ne(0))
        return a

    def each(self, a: Value, visit: Callable[[Value, Value], None]) -> None:
        """``visit(i, address)`` of each index, and of the element that it means."""
        dims, indices = self.dims(self.places), self.data(self.places)
        columns, along = self.load(dims, self.last, "i64"), self.load(self.steps, self.last, "i64")
        across = self.load(self.strides(a), self.dim, "i64")

        def row(first: Value) -> None:
            def down(i: Value, rest: Value, offset: Value) -> tuple[Value, Value]:
                d = self.last - 1 - i
                size = self.load(dims, d, "i64")
                return rest // size, offset + (rest % size) * self.load(self.steps, d, "i64")

            _, begin = self.loop(0, self.last, down, carried=(first // columns, self.i64(0)))

            def one(j: Value) -> None:
                i = first + j
                visit(i, self.at(self.data(a), begin + j * along + self.load(indices, i, "i64") * across, "i8"))

            self.loop(0, columns, one)

        self.loop(0, self.total, row, step=columns)

    def writer(self, target: Value, thing: Value) -> Callable[[], None]:
        """A function that writes a number, or a tensor's elements, to the places in ``target``."""
        place = self.place_of(self.dtype(target), range(BOOL))
        is_tensor = self.is_plain(thing)

        def tensor() -> Value:
            b = self.array_of(thing)
            self.require(~self.requires_grad(thing, may_be_inference=True))
            self.require(self.same(self.dtype(b), self.dtype(target)) & self.ndim(b).eq(self.ndim(self.places)))
            dims, others = self.dims(b), self.dims(self.places)
            self.loop(0, self.ndim(b), lambda d: self.require(self.load(dims, d, "i64").eq(self.load(others, d, "i64"))))
            return self.data(b)

        source = self.when(is_tensor, tensor, lambda: number_cell(self, thing, place))
        size, step = self.size_of(self.dtype(target)), self.cast(is_tensor, "i64")

        def write() -> None:
            for bytes_, element in SIZED[:2]:

                def one(i: Value, at: Value, element: str = element) -> None:
                    self.store(self.load(source, i * step, element), at, 0, element)

                self.when(size.eq(bytes_), partial(self.each, target, one))

        return write


def gathered(code: Code) -> str:
    """``gather(x, dim, index, sparse_grad)``."""
    k = _Elements(code, "gathered")
    x, bits = k.enter(4)
    k.require(k.same(k.argument(3), k.object(False)))
    a = k.read(x, k.argument(1), k.argument(2))
    size = k.size_of(k.dtype(a))
    k.keep_number(1, k.dim, 4)
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(k.places))
    for bytes_, element in SIZED:

        def copy(i: Value, at: Value, element: str = element) -> None:
            k.store(k.load(at, 0, element), k.data(r), i, element)

        k.when(size.eq(bytes_), partial(k.each, a, copy))
    k.answer_new(r, bits)
    return k.finish()


def scattered_there(code: Code) -> str:
    """``_scatter_(x, dim, index, src)`` of a number or a tensor of the index's shape, which nobody records."""
    k = _Elements(code, "scattered_there")
    x, bits = k.enter(4)
    k.require(bits.eq(0))
    thing = k.argument(3)
    k.require_fitting(thing)
    _, storage = k.require_writable(x)
    a = k.read(x, k.argument(1), k.argument(2))
    write = k.writer(a, thing)
    for tensor in (k.argument(2), thing):

        def is_apart(tensor: Value = tensor) -> None:
            others = k.slot(tensor, Tensor, "_storage")
            k.require(k.same(others, k.object(None)) | ~k.same(others, storage))

        k.when(k.is_plain(tensor), is_apart)
    kept = k.when(k.is_plain(thing), lambda: k.slot(thing, Tensor, "_array"), lambda: a)
    k.write_to(x, storage, (a, k.places, kept), write)
    k.give(k.incref(x))
    return k.finish()


def of_scatters(op: Any) -> records.Record:
    """The record of writes at places, which say nothing but that operands may require grad."""
    record = records.Record()
    record.put_edges(op, {name: k for k, name in enumerate(op.names)})
    return record
