"""Forms of element-wise calls whose operands are broadcast, and of choices between operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.calls.registry import primitive
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise, number_cell
from .interpreter import NDIM
from .records import BOOL, DTYPES

_MOST, _MOST_DIMS = 1 << 13, 16  # elements, since some thirty instructions find where a row begins
_LARGEST = 3e38  # numbers beyond are refused, or not, as float32


class Broadcast(Pointwise):
    """A form over row-major arrays that are broadcast against each other."""

    def meet(self, arrays: list[Value], sizes: list[Value]) -> Value:
        """Find the common shape of arrays, whose elements have these sizes in bytes; the number of elements."""
        self.sizes = self.scratch(_MOST_DIMS, "i64")
        self.walks = [self.scratch(_MOST_DIMS, "i64") for _ in arrays]
        self.rank = self.ndim(arrays[0])
        for array in arrays[1:]:
            self.rank = self.pick(self.ndim(array) > self.rank, self.ndim(array), self.rank)
        self.require(self.rank <= _MOST_DIMS)

        def dimension(i: Value, n: Value, *steps: Value) -> tuple[Value, ...]:
            place, common, own = self.rank - 1 - i, self.i64(1), []
            for array in arrays:
                here = place - (self.rank - self.ndim(array))
                own.append(self.when(here >= 0, lambda a=array, d=here: self.load(self.dims(a), d, "i64"), lambda: self.i64(1)))  # type: ignore[misc]
                common = self.pick(own[-1].ne(1), own[-1], common)
            self.require(common > 0)
            self.store(common, self.sizes, place, "i64")
            for walk, size, step in zip(self.walks, own, steps, strict=True):
                self.require(size.eq(common) | size.eq(1))
                self.store(self.pick(size.eq(1), self.i64(0), step), walk, place, "i64")
            n = n * common
            self.require(n <= _MOST)
            return (n, *(step * size for step, size in zip(steps, own, strict=True)))

        self.elements, *_ = self.loop(0, self.rank, dimension, carried=(self.i64(1), *sizes))
        return self.elements

    def is_long(self) -> Value:
        """Whether no dimension of the common shape is shorter than 2."""

        def step(i: Value, short: Value) -> Value:
            return short | self.cast(self.load(self.sizes, i, "i64") < 2, "i64")

        return self.loop(0, self.rank, step, carried=(self.i64(0),)).eq(0)

    def rows(self, run: Callable[[Value, Value, list[Value], list[Value]], None]) -> None:
        """``run(first, count, offsets, steps)`` of each row: number of its first element, and where it is in each array, in bytes."""
        last = self.rank - 1
        is_number = self.rank.eq(0)
        count = self.when(is_number, lambda: self.i64(1), lambda: self.load(self.sizes, last, "i64"))
        steps = [self.when(is_number, lambda: self.i64(0), lambda w=walk: self.load(w, last, "i64")) for walk in self.walks]  # type: ignore[misc]

        def row(first: Value) -> None:
            def down(i: Value, rest: Value, *offsets: Value) -> tuple[Value, ...]:
                place = last - 1 - i
                size = self.load(self.sizes, place, "i64")
                at, rest = rest % size, rest // size
                return (rest, *(offset + at * self.load(walk, place, "i64") for offset, walk in zip(offsets, self.walks, strict=True)))

            _, *offsets = self.loop(0, last, down, carried=(first // count, *(self.i64(0) for _ in self.walks)))
            run(first, count, offsets, steps)

        self.loop(0, self.elements, row, step=count)


def broadcast(code: Code) -> str:
    """Element-wise operations of two tensors of any shapes."""
    k = Broadcast(code, "broadcast")
    x, bits = k.enter(2)
    y, a = k.argument(1), k.array_of(x)
    k.require(k.is_plain(y))
    b = k.array_of(y)
    k.require(k.same(k.dtype(a), k.dtype(b)))
    _, loop, data, result = k.loop_for(k.dtype(a))
    size, result_size = k.item_size(k.dtype(a)), k.item_size(result)
    n = k.meet([a, b], [size, size])
    k.require(n < k.word(records.LIMIT))
    k.require_usual_strides([x, y], k.is_long())
    r = k.new_array(result, k.rank, k.sizes)
    pa, pb, pr = k.data(a), k.data(b), k.data(r)

    def run(first: Value, count: Value, offsets: list[Value], steps: list[Value]) -> None:
        at = [k.at(pointer, offset, "i8") for pointer, offset in zip((pa, pb), offsets, strict=True)]
        k.run(loop, data, count, [(at[0], steps[0]), (at[1], steps[1]), (k.at(pr, first * result_size, "i8"), result_size)])

    k.rows(run)
    k.answer_new(r, bits)
    return k.finish()


class _Choice(Broadcast):
    """A form whose result has elements of its operands."""

    def operand(self, thing: Value, dtype: Value, place: Value) -> tuple[Value, Value]:
        """Address of the elements of a tensor or of a number, and their array or null."""

        def tensor() -> tuple[Value, Value]:
            array = self.array_of(thing)
            self.require(self.same(self.dtype(array), dtype))
            return self.data(array), array

        return self.when(self.is_plain(thing), tensor, lambda: (self.number_at(thing, place), self.null))

    def number_at(self, thing: Value, place: Value) -> Value:
        """Address of a Python number as an element, which it fits."""

        def fits() -> None:
            value = self.field(thing, 16, "f64")
            self.require((self.abs(value) <= _LARGEST) | (value - value).ne(0))  # the difference of what is not finite is NaN

        self.when(self.is_exactly(thing, float), fits)
        return number_cell(self, thing, place)

    def new_scratch_array(self) -> Value:
        """Memory that looks like the header of an array without dimensions, as far as ``meet`` looks."""
        header = self.scratch(16, "i64")
        self.put(self.i32(0), header, NDIM, "i32")
        return header

    def choose(self, size: Value, condition: Value, a: Value, b: Value, r: Value) -> None:
        """Let elements be those of ``a`` where the condition holds, else of ``b``; the walks are those of the three."""

        def run(first: Value, count: Value, offsets: list[Value], steps: list[Value]) -> None:
            c, one, other = (self.at(pointer, offset, "i8") for pointer, offset in zip((condition, a, b), offsets, strict=True))
            for bytes_, element in ((4, "i32"), (8, "i64")):
                to = self.at(r, first * bytes_, "i8")

                def each(i: Value, element: str = element, to: Value = to) -> None:
                    holds = self.load(self.at(c, i * steps[0], "i8"), 0, "b8")
                    yes, no = (self.load(self.at(p, i * step, "i8"), 0, element) for p, step in ((one, steps[1]), (other, steps[2])))
                    self.store(self.pick(holds, yes, no), to, i, element)

                self.when(size.eq(bytes_), lambda each=each: self.loop(0, count, each))  # type: ignore[misc]

        self.rows(run)


def filled(code: Code) -> str:
    """``masked_fill(x, mask, number)``."""
    k = _Choice(code, "filled")
    x, bits = k.enter(3)
    mask, a = k.argument(1), k.array_of(x)
    k.require(k.is_plain(mask))
    m, place = k.array_of(mask), k.place_of(k.dtype(a), range(BOOL))
    k.require(k.same(k.dtype(m), k.object(DTYPES[BOOL])))
    cell = k.number_at(k.argument(2), place)
    size = k.size_of(k.dtype(a))
    k.meet([m, a], [k.i64(1), size])
    still = k.scratch(_MOST_DIMS, "i64")
    k.loop(0, k.rank, lambda i: k.store(k.i64(0), still, i, "i64"))
    k.walks.insert(1, still)
    r = k.new_array(k.dtype(a), k.rank, k.sizes)
    k.choose(size, k.data(m), cell, k.data(a), k.data(r))
    k.answer_new(r, bits)
    return k.finish()


def chosen(code: Code) -> str:
    """``where(condition, x, other)`` of tensors of one dtype, or of a tensor and a number."""
    k = _Choice(code, "chosen")
    k.require_count(3)
    condition, one, other = (k.argument(place) for place in range(3))
    k.require(k.is_plain(condition) & (k.is_plain(one) | k.is_plain(other)))
    k.require_no_mode()
    bits, c = k.needed(), k.array_of(condition)
    k.require(k.same(k.dtype(c), k.object(DTYPES[BOOL])))
    dtype = k.dtype(k.any_array_of(k.pick(k.is_plain(one), one, other)))
    place, size = k.place_of(dtype, range(BOOL)), k.size_of(dtype)
    cell = k.new_scratch_array()
    operands = [k.operand(thing, dtype, place) for thing in (one, other)]
    k.meet([c, *(k.pick(k.exists(array), array, cell) for _, array in operands)], [k.i64(1), size, size])
    short = ~k.is_long()
    for thing in (condition, one, other):
        k.when(short & k.is_plain(thing), partial(k.require_in_order, thing))
    r = k.new_array(dtype, k.rank, k.sizes)
    k.choose(size, k.data(c), operands[0][0], operands[1][0], k.data(r))
    k.answer_new(r, bits)
    return k.finish()


def of_choices(op: Any) -> records.Record:
    """The record of ``where``."""
    record, select = records.Record(), primitive("_where")
    record.put_history(select, {name: k for k, name in enumerate(select.names)})
    return record


def of_fills(op: Any) -> records.Record:
    """The record of ``masked_fill``."""
    record = records.Record()
    record.put_history(op, {name: k for k, name in enumerate(op.names)})
    return record
