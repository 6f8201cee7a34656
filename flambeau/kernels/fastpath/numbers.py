"""Forms of calls between Python's numbers and tensors: a tensor's only element, and tensors of sizes, of numbers and of lists of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core import state
from ...core.dtype import BY_NUM
from ...core.shape import Size
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise
from .interpreter import ALIGNED, FLAGS
from .records import BOOL, DTYPES, ELEMENTS, F32, F64, I64

_ITEM, _FLOAT, _INT, _TRUTH = range(4)  # what is asked of an element, in ``records.EXTRA``
_ZEROS, _ONES, _ANYTHING, _GIVEN = range(4)  # what elements of a new tensor are, in ``records.EXTRA``
_MOST, _MOST_DIMS = 1 << 12, 32
_WHOLE, _EXACT = 2.0**63, 1 << 53


# -- a tensor's number ------------------------------------------------------------------------------------------------------------------
def number(code: Code) -> str:
    """``item(x)`` of one element, and ``float``, ``int`` and ``bool`` of it."""
    k = Pointwise(code, "number")
    k.require_count(1)
    x = k.argument(0)
    k.require(k.is_plain(x) & k.is_empty(state.interposed) & k.is_empty(state.profiling))
    a = k.any_array_of(x)
    k.require(k.size(a).eq(1) & (k.field(a, FLAGS, "i32") & ALIGNED).ne(0))
    asked, at, dtype = k.word(records.EXTRA), k.data(a), k.dtype(a)

    def of(value: Value, own: int) -> None:
        """Answer what is asked of a value, whose ``item`` is as ``own`` would be."""
        asked_now = k.pick(asked.eq(_ITEM), k.i64(own), asked)
        k.case(asked_now.eq(_FLOAT), lambda: k.give(k.call_c("PyFloat_FromDouble", "ptr", k.cast(value, "f64"))))
        truth = k.cast(value, "b1")
        k.case(asked_now.eq(_TRUTH), lambda: k.give(k.incref(k.pick(truth, k.object(True), k.object(False)))))
        if value.is_float:
            k.require((value > -_WHOLE) & (value < _WHOLE))
        k.give(k.call_c("PyLong_FromLongLong", "ptr", k.cast(value, "i64")))

    def answer(place: int, own: int) -> None:
        of(k.load(at, 0, ELEMENTS[place]), own)

    for place, own in ((F32, _FLOAT), (F64, _FLOAT), (I64, _INT), (BOOL, _TRUTH)):
        k.case(k.same(dtype, k.object(DTYPES[place])), partial(answer, place, own))
    k.decline()
    return k.finish()


_ASKED = {"item": _ITEM, "__float__": _FLOAT, "__int__": _INT, "__bool__": _TRUTH}


def of_numbers(name: str) -> records.Record:
    """The record of ``number`` for a method."""
    record = records.Record()
    record.put(records.EXTRA, _ASKED[name])
    return record


# -- tensors of sizes -------------------------------------------------------------------------------------------------------------------
class Creation(Pointwise):
    """A form that makes a tensor of Python objects."""

    def give_integer(self, value: Value) -> None:
        """Return an int."""
        self.give(self.call_c("PyLong_FromSsize_t", "ptr", value))

    def dtype_at(self, dtype: Value) -> Value:
        """Place among ``DTYPES`` of a dtype of tensors."""
        place = self.i64(-1)
        for k, each in enumerate(DTYPES):
            place = self.pick(self.same(dtype, self.object(BY_NUM[each.num])), self.i64(k), place)
        self.require(place >= 0)
        return place

    def array_dtype(self, place: Value) -> Value:
        dtype = self.object(DTYPES[0])
        for k, each in enumerate(DTYPES[1:], 1):
            dtype = self.pick(place.eq(k), self.object(each), dtype)
        return dtype

    def sizes(self, given: Value) -> tuple[Value, Value, Value]:
        """Number and address of the sizes that a factory was ``given``, one by one or as one sequence, and their product."""
        first, count = self.sequence(given)
        self.require(count > 0)
        is_whole = self.is_exactly(self.load(first, 0, "ptr"), int)

        def inner() -> tuple[Value, Value]:
            self.require(count.eq(1))
            return self.sequence(self.load(first, 0, "ptr"))

        first, count = self.when(is_whole, lambda: (first, count), inner)
        return self.shape_of(first, count)

    def shape_of(self, first: Value, count: Value) -> tuple[Value, Value, Value]:
        self.require(count < _MOST_DIMS)
        dims = self.scratch(_MOST_DIMS, "i64")

        def step(i: Value, n: Value) -> Value:
            size = self.integer_of(self.load(first, i, "ptr"))
            self.require((size >= 0) & (size <= _MOST))
            self.store(size, dims, i, "i64")
            n = n * size
            self.require(n <= _MOST)
            return n

        return count, dims, self.loop(0, count, step, carried=(self.i64(1),))

    def fill_with(self, array: Value, n: Value, place: Value, cell: Value) -> None:
        """Let all elements be the one at ``cell``."""
        at = self.data(array)
        for k, element in enumerate(("f32", "f64", "i64", "i8")):

            def fill(element: str = element) -> None:
                value = self.load(cell, 0, element)
                self.loop(0, n, lambda i: self.store(value, at, i, element))

            self.when(place.eq(k), fill)


def made(code: Code) -> str:
    """``zeros(*sizes)``, ``ones``, ``empty``, and ``full(size, value)``: of sizes, a dtype or None, the default dtype, and a value."""
    k = Creation(code, "made")
    k.require_count(4)
    k.require_no_mode()
    filled, dtype, value = k.word(records.EXTRA), k.argument(1), k.argument(3)
    is_given = filled.eq(_GIVEN)
    ndim, dims, n = k.when(is_given, lambda: k.shape_of(*k.sequence(k.argument(0))), lambda: k.sizes(k.argument(0)))
    cell, is_float = k.scratch(1, "i64"), k.is_exactly(value, float)
    none = k.same(dtype, k.object(None))

    def inferred() -> Value:
        whole = k.pick(k.is_exactly(value, int), k.i64(I64), k.i64(BOOL))
        return k.when(is_given & ~is_float, lambda: whole, lambda: k.dtype_at(k.argument(2)))

    place = k.when(none, inferred, lambda: k.dtype_at(dtype))

    def write(number: Value) -> None:
        def write_as(element: str) -> None:
            k.store(k.cast(number, element), cell, 0, element)

        for at, element in enumerate(("f32", "f64", "i64")):
            k.when(place.eq(at), partial(write_as, element))
        k.when(place.eq(BOOL), lambda: k.store(k.cast(number, "b1"), cell, 0, "b8"))

    def given() -> None:
        def whole() -> Value:
            is_true = k.same(value, k.object(True))
            is_truth = is_true | k.same(value, k.object(False))
            number = k.when(is_truth, lambda: k.cast(is_true, "i64"), lambda: k.integer_of(value))
            k.require((number < 1 << 24) & (number > -(1 << 24)))  # floats have them all
            return k.cast(number, "f64")

        def real() -> Value:
            number = k.field(value, 16, "f64")
            k.require((place < I64) & ((k.abs(number) <= 3e38) | (number - number).ne(0)))  # others are fitted, or refused
            return number

        write(k.when(is_float, real, whole))

    def constant() -> None:
        write(k.pick(filled.eq(_ONES), k.const(1.0, "f64"), k.const(0.0, "f64")))

    k.when(is_given, given, constant)
    r = k.new_array(k.array_dtype(place), ndim, dims)
    k.when(filled.ne(_ANYTHING), lambda: k.fill_with(r, n, place, cell))
    k.answer_new(r, k.i64(0))
    return k.finish()


def of_made(filled: int) -> Callable[[Any], records.Record]:
    """The record of a factory of sizes."""

    def make(op: Any) -> records.Record:
        record = records.Record()
        record.put(records.EXTRA, filled)
        return record

    return make


FACTORIES = {"zeros": _ZEROS, "ones": _ONES, "empty": _ANYTHING, "full": _GIVEN}


def alike(code: Code) -> str:
    """``zeros_like(x)`` and the like."""
    k = Creation(code, "alike")
    k.require_count(1)
    x = k.argument(0)
    k.require(k.is_plain(x))
    k.require_no_mode()
    a = k.array_of(x)
    place, filled = k.place_of(k.dtype(a)), k.word(records.EXTRA)
    n, no_short = k.measured(a)
    k.require((n > 0) & (n <= _MOST))
    k.require_usual_strides([x], no_short)
    k.require(no_short | k.owns_its_memory(a))
    cell = k.scratch(1, "i64")
    k.store(k.i64(0), cell, 0, "i64")

    def one() -> None:
        k.when(place.eq(F32), lambda: k.store(k.const(1, "f32"), cell, 0, "f32"))
        k.when(place.eq(F64), lambda: k.store(k.const(1, "f64"), cell, 0, "f64"))
        k.when(place > F64, lambda: k.store(k.i64(1), cell, 0, "i64"))  # a bool is its first byte

    k.when(filled.eq(_ONES), one)
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(a))
    k.when(filled.ne(_ANYTHING), lambda: k.fill_with(r, n, place, cell))
    k.answer_new(r, k.i64(0))
    return k.finish()


class _Range(Creation):
    """Numbers that are a step apart."""

    def bounds(self, given: Value) -> tuple[list[Value], Value]:
        """Addresses of the start, the end and the step, as int objects or floats, and whether all are ints."""
        first, count = self.sequence(given)
        self.require((count > 0) & (count <= 3))
        alone = count.eq(1)
        start = self.when(alone, lambda: self.object(0), lambda: self.load(first, 0, "ptr"))
        end = self.load(first, self.cast(~alone, "i64"), "ptr")
        step = self.when(count.eq(3), lambda: self.load(first, 2, "ptr"), lambda: self.object(1))
        whole = self.const(True, "b1")
        for each in (start, end, step):
            is_whole = self.is_exactly(each, int)
            self.require(is_whole | self.is_exactly(each, float))
            whole = whole & is_whole
        return [start, end, step], whole

    def put_whole(self, bounds: list[Value], numbers: Value) -> Value:
        """Write start and step down; how many whole numbers there are."""
        start, end, step = (self.integer_of(each) for each in bounds)
        for each in (start, end, step):
            self.require((each < _EXACT) & (each > -_EXACT))
        self.require(step.ne(0))
        forth, size = self.pick(step > 0, end - start, start - end), self.pick(step > 0, step, -step)
        self.require(forth >= 0)
        self.store(start, numbers, 0, "i64")
        self.store(step, numbers, 1, "i64")
        return (forth + size - 1) // size

    def put_real(self, bounds: list[Value], numbers: Value) -> Value:
        """The same of numbers one of which is a float."""

        def value(thing: Value) -> Value:
            def whole() -> Value:
                number = self.integer_of(thing)
                self.require((number < _EXACT) & (number > -_EXACT))
                return self.cast(number, "f64")

            return self.when(self.is_exactly(thing, float), lambda: self.field(thing, 16, "f64"), whole)

        start, end, step = (value(each) for each in bounds)
        many = (end - start) / step
        self.require((many >= 0) & (many <= _MOST) & step.ne(0))
        self.store(start, numbers, 0, "f64")
        self.store(step, numbers, 1, "f64")
        below = self.cast(many, "i64")
        return below + self.cast(self.cast(below, "f64") < many, "i64")


def counting(code: Code) -> str:
    """``arange(*bounds)`` with a dtype or None, and the default dtype."""
    k = _Range(code, "counting")
    k.require_count(3)
    k.require_no_mode()
    bounds, whole = k.bounds(k.argument(0))
    dtype, numbers, n = k.argument(1), k.scratch(2, "i64"), k.scratch(1, "i64")
    count = k.when(whole, lambda: k.put_whole(bounds, numbers), lambda: k.put_real(bounds, numbers))
    k.require(count <= _MOST)
    k.store(count, n, 0, "i64")
    inferred = k.when(whole, lambda: k.i64(I64), lambda: k.dtype_at(k.argument(2)))
    place = k.when(k.same(dtype, k.object(None)), lambda: inferred, lambda: k.dtype_at(dtype))
    k.require((place < I64) | (whole & place.eq(I64)))
    r = k.new_array(k.array_dtype(place), k.i64(1), n)
    at = k.data(r)

    def real(i: Value, element: str) -> None:
        start, step = (
            k.when(whole, lambda d=d: k.cast(k.load(numbers, d, "i64"), "f64"), lambda d=d: k.load(numbers, d, "f64"))  # type: ignore[misc]
            for d in (0, 1)
        )
        k.store(k.cast(k.cast(i, "f64") * step + start, element), at, i, element)

    for position in (F32, F64):
        element = ELEMENTS[position]
        k.when(place.eq(position), partial(k.loop, 0, count, partial(real, element=element)))
    first, step = (k.load(numbers, d, "i64") for d in (0, 1))
    k.when(place.eq(I64), lambda: k.loop(0, count, lambda i: k.store(first + i * step, at, i, "i64")))
    k.answer_new(r, k.i64(0))
    return k.finish()


# -- tensors of lists -------------------------------------------------------------------------------------------------------------------
class _Listed(Creation):
    """Numbers of one class: in a list, in lists of one length, or one alone."""

    def class_of(self, thing: Value, default: Value) -> Value:
        """Place of the dtype that a number has in a tensor."""
        is_whole, is_truth = self.is_exactly(thing, int), self.is_exactly(thing, bool)
        self.require(is_whole | is_truth | self.is_exactly(thing, float))
        return self.pick(is_whole, self.i64(I64), self.pick(is_truth, self.i64(BOOL), default))

    def put_number(self, thing: Value, place: Value, values: Value, i: Value) -> None:
        """Convert a number that must be of the class of ``place``; floats are float64 yet."""

        def whole() -> None:
            self.store(self.integer_of(thing), values, i, "i64")

        def truth() -> None:
            self.require(self.is_exactly(thing, bool))
            self.store(self.cast(self.same(thing, self.object(True)), "i64"), values, i, "i64")

        def real() -> None:
            self.require(self.is_exactly(thing, float))
            self.store(self.field(thing, 16, "f64"), values, i, "f64")

        self.when(place.eq(I64), whole, lambda: self.when(place.eq(BOOL), truth, real))


_FEW = 256


def listed(code: Code) -> str:
    """``tensor(data)`` of a number, a list of them, or a list of lists; with a dtype or None, and the default dtype."""
    k = _Listed(code, "listed")
    k.require_count(3)
    k.require_no_mode()
    data, dtype, default = k.argument(0), k.argument(1), k.dtype_at(k.argument(2))
    k.require(default <= F64)
    values, dims = k.scratch(_FEW, "i64"), k.scratch(2, "i64")
    alone = k.is_exactly(data, float) | k.is_exactly(data, int) | k.is_exactly(data, bool)

    def one() -> tuple[Value, Value, Value]:
        place = k.class_of(data, default)
        k.put_number(data, place, values, k.i64(0))
        return place, k.i64(1), k.i64(0)

    def row(items: Value, count: Value, place: Value, begin: Value) -> None:
        k.require(begin + count <= _FEW)
        k.loop(0, count, lambda i: k.put_number(k.load(items, i, "ptr"), place, values, begin + i))

    def several() -> tuple[Value, Value, Value]:
        items, count = k.sequence(data)
        k.require((count > 0) & (count <= _FEW))
        k.store(count, dims, 0, "i64")
        inside = k.load(items, 0, "ptr")
        is_row = k.is_exactly(inside, list) | k.is_exactly(inside, tuple)

        def vector() -> tuple[Value, Value, Value]:
            place = k.class_of(inside, default)
            row(items, count, place, k.i64(0))
            return place, count, k.i64(1)

        def matrix() -> tuple[Value, Value, Value]:
            first, length = k.sequence(inside)
            k.require((length > 0) & (length <= _FEW))
            k.store(length, dims, 1, "i64")
            place = k.class_of(k.load(first, 0, "ptr"), default)

            def each(i: Value) -> None:
                these, many = k.sequence(k.load(items, i, "ptr"))
                k.require(many.eq(length))
                row(these, many, place, i * length)

            k.loop(0, count, each)
            return place, count * length, k.i64(2)

        return k.when(is_row, matrix, vector)

    have, n, ndim = k.when(alone, one, several)
    place = k.when(k.same(dtype, k.object(None)), lambda: have, lambda: k.dtype_at(dtype))
    k.require(place.eq(have) | ((have <= I64) & (place < I64)))
    r = k.new_array(k.array_dtype(place), ndim, dims)
    at = k.data(r)
    for position in (F32, F64):
        element = ELEMENTS[position]

        def real(i: Value, element: str = element) -> None:
            k.store(k.cast(k.load(values, i, "f64"), element), at, i, element)

        def whole(i: Value, element: str = element) -> None:
            k.store(k.cast(k.load(values, i, "i64"), element), at, i, element)

        for is_it, convert in ((have < I64, real), (have.eq(I64), whole)):
            k.when(place.eq(position) & is_it, partial(k.loop, 0, n, convert))
    k.when(place.eq(I64), lambda: k.loop(0, n, lambda i: k.store(k.load(values, i, "i64"), at, i, "i64")))
    k.when(place.eq(BOOL), lambda: k.loop(0, n, lambda i: k.store(k.cast(k.load(values, i, "i64"), "i8"), at, i, "i8")))
    k.answer_new(r, k.i64(0))
    return k.finish()


def of_nothing(_: Any) -> records.Record:
    """The record of a form that needs none."""
    return records.Record()


# -- facts ------------------------------------------------------------------------------------------------------------------------------
def sizes(code: Code) -> str:
    """``x.size(dim)``, and ``x.shape`` where the dimension is None."""
    k = Creation(code, "sizes")
    k.require_count(2)
    x, dim = k.argument(0), k.argument(1)
    k.require(k.is_plain(x))
    a = k.any_array_of(x)
    k.case(k.same(dim, k.object(None)), lambda: k.give(k.shape(a, Size)))
    k.give_integer(k.load(k.dims(a), k.index(dim, k.ndim(a)), "i64"))
    return k.finish()


def address(code: Code) -> str:
    """``x.data_ptr()``."""
    k = Creation(code, "address")
    k.require_count(1)
    x = k.argument(0)
    k.require(k.is_plain(x))
    a = k.any_array_of(x)
    k.require(k.size(a) > 0)
    k.give(k.call_c("PyLong_FromVoidPtr", "ptr", k.data(a)))
    return k.finish()


def steps(code: Code) -> str:
    """``x.stride()``."""
    k = Creation(code, "steps")
    k.require_count(1)
    x = k.argument(0)
    k.require(k.is_plain(x))
    a, numbers = k.any_array_of(x), k.scratch(_MOST_DIMS, "i64")
    n, size = k.ndim(a), k.size_of(k.dtype(a))
    k.require((n < _MOST_DIMS) & (k.size(a) > 0))

    def put(d: Value) -> None:
        step = k.load(k.strides(a), d, "i64")
        k.require((step >= 0) & (step % size).eq(0))
        k.store(step // size, numbers, d, "i64")

    k.loop(0, n, put)
    k.give(k.tuple_of(numbers, n))
    return k.finish()


def alike_values(code: Code) -> str:
    """``equal(x, other)`` of row-major memory."""
    k = Creation(code, "alike_values")
    k.require_count(2)
    x, y = k.argument(0), k.argument(1)
    k.require(k.is_plain(x) & k.is_plain(y))
    k.require_no_mode()
    a, b = k.array_of(x), k.array_of(y)
    n, place = k.size(a), k.place_of(k.dtype(a))
    k.require(k.same(k.dtype(a), k.dtype(b)) & (n < 1 << 14) & k.ndim(a).eq(k.ndim(b)))
    k.loop(0, k.ndim(a), lambda d: k.require(k.load(k.dims(a), d, "i64").eq(k.load(k.dims(b), d, "i64"))))
    for at, element in enumerate(ELEMENTS):

        def compare(element: str = element) -> None:
            register = "i8" if element == "b8" else element

            def differs(i: Value, found: Value) -> Value:
                return found | k.cast(k.load(k.data(a), i, register).ne(k.load(k.data(b), i, register)), "i64")

            same = k.loop(0, n, differs, carried=(k.i64(0),)).eq(0)
            k.give(k.incref(k.pick(same, k.object(True), k.object(False))))

        k.case(place.eq(at), compare)
    k.decline()
    return k.finish()


def gradient(code: Code) -> str:
    """``x.grad``: the tensor, or False of a leaf that has none."""
    k = Creation(code, "gradient")
    k.require_count(1)
    x = k.argument(0)
    k.require(k.is_plain(x))
    found, none = k.slot(x, Tensor, "_grad"), k.object(None)
    k.case(k.exists(found) & ~k.same(found, none), lambda: k.give(k.incref(found)))
    k.require(k.same(k.slot(x, Tensor, "_node"), none))
    k.give(k.incref(k.object(False)))
    return k.finish()
