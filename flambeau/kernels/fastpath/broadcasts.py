"""Forms of element-wise calls whose operands are broadcast, and of choices between operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core import dtype as dtypes
from ...core.calls.operation import BOOL as BOOLEAN, DEFAULT, INT_TO_FLOAT
from ...core.calls.registry import primitive
from ...core.dtype import BY_NUM
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import number_cell
from .interpreter import NDIM
from .numbers import Creation
from .records import BOOL, DTYPES, ELEMENTS, F32, F64, I64

_MOST, _MOST_DIMS = 1 << 13, 16  # elements, since some thirty instructions find where a row begins
_FEW = 256  # elements that get another dtype
_MIXED = records.EXTRA  # how operands of different dtypes are promoted, or 0 where they are not
_AS_THEY_ARE, _TO_FLOAT = 1, 2


class Broadcast(Creation):
    """A form over row-major arrays that are broadcast against each other."""

    def meet(self, arrays: list[Value], sizes: list[Value]) -> Value:
        """Find the common shape of arrays, whose elements have these sizes in bytes; the number of elements."""
        self.common = self.scratch(_MOST_DIMS, "i64")
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
            self.store(common, self.common, place, "i64")
            for walk, size, step in zip(self.walks, own, steps, strict=True):
                self.require(size.eq(common) | size.eq(1))
                self.store(self.pick(size.eq(1), self.i64(0), step), walk, place, "i64")
            n = n * common
            self.require(n <= _MOST)
            return (n, *(step * size for step, size in zip(steps, own, strict=True)))

        self.elements, *_ = self.loop(0, self.rank, dimension, carried=(self.i64(1), *sizes))
        return self.elements

    def new_scratch_array(self) -> Value:
        """Memory that looks like the header of an array without dimensions, as far as ``meet`` looks."""
        header = self.scratch(16, "i64")
        self.put(self.i32(0), header, NDIM, "i32")
        return header

    def is_long(self) -> Value:
        """Whether no dimension of the common shape is shorter than 2."""

        def step(i: Value, short: Value) -> Value:
            return short | self.cast(self.load(self.common, i, "i64") < 2, "i64")

        return self.loop(0, self.rank, step, carried=(self.i64(0),)).eq(0)

    def rows(self, run: Callable[[Value, Value, list[Value], list[Value]], None]) -> None:
        """``run(first, count, offsets, steps)`` of each row: number of its first element, and where it is in each array, in bytes."""
        last = self.rank - 1
        is_number = self.rank.eq(0)
        count = self.when(is_number, lambda: self.i64(1), lambda: self.load(self.common, last, "i64"))
        steps = [self.when(is_number, lambda: self.i64(0), lambda w=walk: self.load(w, last, "i64")) for walk in self.walks]  # type: ignore[misc]

        def row(first: Value) -> None:
            def down(i: Value, rest: Value, *offsets: Value) -> tuple[Value, ...]:
                place = last - 1 - i
                size = self.load(self.common, place, "i64")
                at, rest = rest % size, rest // size
                return (rest, *(offset + at * self.load(walk, place, "i64") for offset, walk in zip(offsets, self.walks, strict=True)))

            _, *offsets = self.loop(0, last, down, carried=(first // count, *(self.i64(0) for _ in self.walks)))
            run(first, count, offsets, steps)

        self.loop(0, self.elements, row, step=count)


class _Promoted(Broadcast):
    """A form whose operands are brought to their common dtype."""

    def common_place(self, a: Value, y: Value) -> tuple[Value, Value, Value]:
        """Places of the dtype of an array, of ``y``, a tensor or a number, and of the one that PyTorch promotes them to."""
        have = self.place_of(self.dtype(a))

        def of_tensor() -> tuple[Value, Value]:
            b = self.array_of(y)
            other, (one, two) = self.place_of(self.dtype(b)), (self.ndim(t).eq(0) for t in (a, b))
            larger = self.pick(have > other, have, other)
            floats = self.pick(one.eq(two), larger, self.pick(one, other, have))  # a tensor without dimensions yields
            both = (have < I64) & (other < I64)
            return other, self.pick(both, floats, self.pick(have < other, have, other))

        def of_number() -> tuple[Value, Value]:
            is_float = self.is_exactly(y, float)
            self.require(self.word(records.NUMBERS).ne(0) & (is_float | self.is_exactly(y, int)))
            other = self.when(is_float & (have >= I64), self.default_place, lambda: self.pick(have.eq(BOOL), self.i64(I64), have))
            return other, other

        other, common = self.when(self.is_plain(y), of_tensor, of_number)
        divides = self.word(_MIXED).eq(_TO_FLOAT)
        is_whole, takes_truths = (common >= I64) & divides, divides | self.word(records.LOOPS + 3 * BOOL).ne(0)
        self.require(takes_truths | (have.ne(BOOL) & other.ne(BOOL)))
        return have, other, self.when(is_whole, self.default_place, lambda: common)

    def default_place(self) -> Value:
        """The place of the default dtype."""
        default = self.call_c("PyDict_GetItem", "ptr", self.object(vars(dtypes)), self.object("_default"))
        single, double = (self.same(default, self.object(BY_NUM[DTYPES[k].num])) for k in (F32, F64))
        self.require(single | double)
        return self.pick(single, self.i64(F32), self.i64(F64))

    def as_common(self, array: Value, have: Value, common: Value) -> Value:
        """Address of an array's elements in the common dtype."""

        def cast() -> Value:
            n, room = self.size(array), self.scratch(_FEW, "i64")
            self.require(n <= _FEW)
            for source, target in ((F32, F64), (F64, F32), (I64, F32), (I64, F64), (BOOL, F32), (BOOL, F64), (BOOL, I64)):
                one, other = ELEMENTS[source], ELEMENTS[target]

                def convert(i: Value, one: str = one, other: str = other) -> None:
                    self.store(self.cast(self.load(self.data(array), i, one), other), room, i, other)

                self.when(have.eq(source) & common.eq(target), partial(self.loop, 0, n, convert))
            return room

        return self.when(have.eq(common), lambda: self.data(array), cast)


def broadcast(code: Code) -> str:
    """Element-wise operations of two tensors of any shapes, or of a tensor and a number; dtypes may differ where there are few elements."""
    k = _Promoted(code, "broadcast")
    x, bits = k.enter(2)
    y, a, is_tensor = k.argument(1), k.array_of(x), k.is_plain(k.argument(1))
    have, other, common = k.common_place(a, y)
    k.require((is_tensor & have.eq(other) & have.eq(common)) | k.word(_MIXED).ne(0))
    loop, data, result = (k.word(records.LOOPS, common * 3 + place, "ptr") for place in range(3))
    k.require(k.exists(loop))
    pa = k.as_common(a, have, common)

    def tensor() -> tuple[Value, Value]:
        b = k.array_of(y)
        return b, k.as_common(b, other, common)

    b, pb = k.when(is_tensor, tensor, lambda: (k.new_scratch_array(), number_cell(k, y, common)))
    size, result_size = k.item_size(k.array_dtype(common)), k.item_size(result)
    n = k.meet([a, b], [size, size])
    k.require(n < k.word(records.LIMIT))
    short = ~k.is_long()
    k.when(short, lambda: k.require_in_order(x))
    k.when(short & is_tensor, lambda: k.require_in_order(y))
    r = k.new_array(result, k.rank, k.common)
    pr = k.data(r)

    def run(first: Value, count: Value, offsets: list[Value], steps: list[Value]) -> None:
        at = [k.at(pointer, offset, "i8") for pointer, offset in zip((pa, pb), offsets, strict=True)]
        k.run(loop, data, count, [(at[0], steps[0]), (at[1], steps[1]), (k.at(pr, first * result_size, "i8"), result_size)])

    k.rows(run)
    k.answer_new(r, bits)
    return k.finish()


def of_broadcasts(op: Any) -> records.Record:
    """The record of an element-wise operation of two operands, whose dtypes may differ where they are promoted.

    Raises:
        Unfit: it is none of this form.
    """
    record, operands = records.of_pointwise(op)
    if operands != 2:
        raise records.Unfit(op.name)
    record.put(_MIXED, {DEFAULT: _AS_THEY_ARE, BOOLEAN: _AS_THEY_ARE, INT_TO_FLOAT: _TO_FLOAT}.get(op.promotion, 0))
    return record


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
        self.require_fitting(thing)
        return number_cell(self, thing, place)

    def still(self) -> Value:
        """The walk over one number."""
        steps = self.scratch(_MOST_DIMS, "i64")
        self.loop(0, self.rank, lambda i: self.store(self.i64(0), steps, i, "i64"))
        return steps

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
    k.walks.insert(1, k.still())
    r = k.new_array(k.dtype(a), k.rank, k.common)
    k.choose(size, k.data(m), cell, k.data(a), k.data(r))
    k.answer_new(r, bits)
    return k.finish()


def filled_there(code: Code) -> str:
    """``masked_fill_(x, mask, number)``, which nobody records."""
    k = _Choice(code, "filled_there")
    x, bits = k.enter(3)
    mask = k.argument(1)
    k.require(k.is_plain(mask) & bits.eq(0))
    a, storage = k.require_writable(x)
    m, place = k.array_of(mask), k.place_of(k.dtype(a), range(BOOL))
    k.require(k.same(k.dtype(m), k.object(DTYPES[BOOL])))
    cell, size = k.number_at(k.argument(2), place), k.size_of(k.dtype(a))
    k.require(k.ndim(m) <= k.ndim(a))
    k.require(k.meet([m, a], [k.i64(1), size]).eq(k.size(a)))
    k.walks.insert(1, k.still())
    k.write_to(x, storage, (a, m), lambda: k.choose(size, k.data(m), cell, k.data(a), k.data(a)))
    k.give(k.incref(x))
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
    r = k.new_array(dtype, k.rank, k.common)
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
