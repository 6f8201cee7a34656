"""Forms of calls that write into a tensor at places, which nobody records."""

from __future__ import annotations

from ...core import state
from ...core.tensor import Tensor
from ..compiler.language import Value
from .code import Code
from .forms import SIZED, Pointwise, number_cell
from .indices import Indexed
from .interpreter import FLAGS, WRITEABLE
from .records import BOOL, DTYPES, F32, F64

_LARGEST = 65504.0  # no floating dtype overflows
_MOST = 1 << 15


class _Put(Indexed, Pointwise):
    """``x[key] = value``."""

    def number_at(self, value: Value, place: Value) -> Value:
        """Address of a Python number as an element."""
        cell = number_cell(self, value, place)
        self.require(place < BOOL)
        for at, element in ((F32, "f32"), (F64, "f64")):

            def fits(element: str = element) -> None:
                size = self.abs(self.load(cell, 0, element))
                self.require(size <= _LARGEST)

            self.when(place.eq(at), fits)
        return cell

    def tensor_at(self, x: Value, a: Value, value: Value, ndim: Value) -> tuple[Value, Value, Value]:
        """The array of the values, whose shape must be the end of the part's, or which is one; their number, and the step from one to the
        next, in elements."""
        self.require(~self.requires_grad(value, may_be_inference=True))
        b, storage = self.array_of(value), self.slot(x, Tensor, "_storage")
        self.require(self.same(self.dtype(a), self.dtype(b)))
        self.require(self.same(storage, self.object(None)) | ~self.same(storage, self.slot(value, Tensor, "_storage")))
        n, ahead = self.size(b), ndim - self.ndim(b)
        self.require((ahead >= 0) & (n > 0))
        tail, dims = self.at(self.new_dims, ahead, "i64"), self.dims(b)

        def compare(i: Value, differs: Value) -> Value:
            return differs | (self.load(dims, i, "i64") ^ self.load(tail, i, "i64"))

        self.require(n.eq(1) | self.loop(0, self.ndim(b), compare, carried=(self.i64(0),)).eq(0))
        return b, n, self.cast(n.ne(1), "i64")

    def write_part(self, ndim: Value, target: Value, source: Value, count: Value, step: Value, size: Value) -> None:
        """Write the values, of ``size`` bytes each, into the part."""
        is_number = ndim.eq(0)
        inner = self.when(is_number, lambda: self.i64(1), lambda: self.load(self.new_dims, ndim - 1, "i64"))
        along = self.when(is_number, lambda: size, lambda: self.load(self.new_strides, ndim - 1, "i64"))
        rows = self.loop(0, ndim - 1, lambda d, n: n * self.load(self.new_dims, d, "i64"), carried=(self.i64(1),))

        def row(r: Value) -> None:
            def down(d: Value, rest: Value, offset: Value) -> tuple[Value, Value]:
                place = ndim - 2 - d
                length = self.load(self.new_dims, place, "i64")
                return rest // length, offset + (rest % length) * self.load(self.new_strides, place, "i64")

            _, offset = self.loop(0, ndim - 1, down, carried=(r, self.i64(0)))
            to, begin = self.at(target, offset, "i8"), ((r * inner) % count) * step
            for bytes_, element in SIZED:

                def copy(element: str = element, bytes_: int = bytes_) -> None:
                    def one(j: Value) -> None:
                        self.store(self.load(source, begin + j * step, element), self.at(to, j * along, "i8"), 0, element)

                    self.loop(0, inner, one)

                self.when(size.eq(bytes_), copy)

        self.loop(0, rows, row)


def _put_where(k: _Put, x: Value, mask: Value, value: Value) -> None:
    """``x[mask] = number``, the mask's dimensions being the first of ``x``."""
    a, storage = k.require_writable(x)
    m, place = k.array_of(mask), k.place_of(k.dtype(a), range(BOOL))
    k.require(k.same(k.dtype(m), k.object(DTYPES[BOOL])) & (k.ndim(m) > 0) & (k.ndim(m) <= k.ndim(a)))
    k.loop(0, k.ndim(m), lambda d: k.require(k.load(k.dims(m), d, "i64").eq(k.load(k.dims(a), d, "i64"))))
    cells, n, size = k.size(m), k.size(a), k.item_size(k.dtype(a))
    k.require((n > 0) & (n < _MOST))
    cell, inner = k.number_at(value, place), n // cells

    def write() -> None:
        for bytes_, element in SIZED[:2]:

            def fill(element: str = element) -> None:
                number = k.load(cell, 0, element)

                def part(i: Value) -> None:
                    k.loop(i * inner, (i + 1) * inner, lambda j: k.store(number, k.data(a), j, element))

                k.loop(0, cells, lambda i: k.when(k.load(k.data(m), i, "b8"), lambda: part(i)))

            k.when(size.eq(bytes_), fill)

    k.write_to(x, storage, (a, m), write)
    k.give(k.incref(k.object(True)))


def put(code: Code) -> str:
    """``x[key] = value`` for an int, a slice without step, or a tuple of these, and a number or a row-major tensor; a mask and a number."""
    k = _Put(code, "put")
    k.require_count(3)
    x, value = k.argument(0), k.argument(2)
    k.require(k.is_plain(x) & k.is_empty(state.interposed))
    k.require_no_mode()
    key = k.argument(1)
    k.case(k.is_plain(key), lambda: _put_where(k, x, key, value))
    k.require(~k.recording(k.requires_grad(x, may_be_inference=True)))
    k.require_may_be_written(x)
    a, storage = k.any_array_of(x), k.storage_to_write(x)
    k.require((k.field(a, FLAGS, "i32") & WRITEABLE).ne(0) & (k.is_row_major(a) | k.owns_its_memory(a)))
    k.make_room(a)
    ndim, offset, *_ = k.read_key(a, key)
    place, size = k.place_of(k.dtype(a)), k.size_of(k.dtype(a))
    n = k.loop(0, ndim, lambda d, n: n * k.load(k.new_dims, d, "i64"), carried=(k.i64(1),))
    k.require(n < _MOST)

    def tensor() -> tuple[Value, Value, Value, Value]:
        b, count, step = k.tensor_at(x, a, value, ndim)
        return b, k.data(b), count, step

    def number() -> tuple[Value, Value, Value, Value]:
        return a, k.number_at(value, place), k.i64(1), k.i64(0)

    b, source, count, step = k.when(k.is_plain(value), tensor, number)
    k.write_to(x, storage, (a, b), lambda: k.write_part(ndim, k.at(k.data(a), offset, "i8"), source, count, step, size))
    k.give(k.incref(k.object(True)))
    return k.finish()


# -- of all elements ----------------------------------------------------------------------------------------------------------------------
def overwritten(code: Code) -> str:
    """``fill_(x, number)``, and ``zero_(x)`` with the number 0."""
    k = _Put(code, "overwritten")
    x, _ = k.enter(2)
    a, storage = k.require_writable(x)
    place, size, n = k.place_of(k.dtype(a)), k.size_of(k.dtype(a)), k.size(a)
    k.require(n < _MOST)
    is_zero = k.same(k.argument(1), k.object(0))
    zero = k.scratch(1, "i64")
    k.store(k.i64(0), zero, 0, "i64")
    cell = k.when(is_zero, lambda: zero, lambda: k.number_at(k.argument(1), place))

    def write() -> None:
        for bytes_, element in SIZED:

            def fill(element: str = element) -> None:
                number = k.load(cell, 0, element)
                k.loop(0, n, lambda i: k.store(number, k.data(a), i, element))

            k.when(size.eq(bytes_), fill)

    k.write_to(x, storage, (a,), write)
    k.give(k.incref(x))
    return k.finish()


def copied_into(code: Code) -> str:
    """``copy_(x, other)`` of a tensor of the same dtype and shape."""
    k = _Put(code, "copied_into")
    x, _ = k.enter(2)
    y = k.argument(1)
    k.require(k.is_plain(y))
    k.require(~k.requires_grad(y, may_be_inference=True))
    a, storage = k.require_writable(x)
    b, size, n = k.array_of(y), k.size_of(k.dtype(a)), k.size(a)
    k.require(k.same(k.dtype(a), k.dtype(b)) & k.ndim(a).eq(k.ndim(b)) & (n > 0) & (n < _MOST))
    k.loop(0, k.ndim(a), lambda d: k.require(k.load(k.dims(a), d, "i64").eq(k.load(k.dims(b), d, "i64"))))
    others = k.slot(y, Tensor, "_storage")
    k.require(k.same(others, k.object(None)) | ~k.same(others, storage))
    k.write_to(x, storage, (a, b), lambda: k.call_c("memcpy", "ptr", k.data(a), k.data(b), n * size))
    k.give(k.incref(x))
    return k.finish()
