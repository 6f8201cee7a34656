"""Forms of calls that put tensors one after another, which nobody records."""

from __future__ import annotations

from typing import Any

from ...core import state
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise
from .records import DTYPES

_MOST, _MOST_DIMS = 64, 3  # of four dimensions there are tensors whose channels come last


class _Join(Pointwise):
    """``f(tensors, dim)`` along the first dimension."""

    def begin(self) -> tuple[Value, Value]:
        """Address of the first of the list's or tuple's tensors, and their number."""
        self.require_count(2)
        given = self.argument(0)
        is_list = self.is_exactly(given, list)
        self.require(is_list | self.is_exactly(given, tuple))
        self.require_no_mode()
        self.require(self.is_empty(state.autocasting))
        needs = self._loop_over(given, is_list, lambda tensor: self.cast(self.requires_grad(tensor), "i64"))
        self.require(~self.recording(needs.ne(0)))
        return self._items(given, is_list)  # again: to ask whether this thread records may have run Python code

    def _items(self, given: Value, is_list: Value) -> tuple[Value, Value]:
        count = self.field(given, 16, "i64")
        self.require((count > 0) & (count <= _MOST))
        inside = self.at(given, self.interpreter.tuple_items, "i8")
        return self.when(is_list, lambda: self.field(given, self.interpreter.list_items), lambda: inside), count

    def _loop_over(self, given: Value, is_list: Value, ask: Any) -> Value:
        items, count = self._items(given, is_list)

        def step(i: Value, found: Value) -> Value:
            tensor = self.load(items, i, "ptr")
            self.require(self.is_plain(tensor))
            return found | ask(tensor)

        return self.loop(0, count, step, carried=(self.i64(0),))

    def same_rows(self, items: Value, count: Value, same_length: bool) -> tuple[Value, Value]:
        """The first tensor's array, and the sum of the lengths; all must have its dtype, and its sizes but for the length."""
        tensor = self.load(items, 0, "ptr")
        self.require(self.is_plain(tensor))
        first = self.array_of(tensor)
        n = self.ndim(first)
        self.require((n > 0) & (n <= _MOST_DIMS) & (self.size(first) < self.word(records.LIMIT)))
        self.require(self.index(self.argument(1), n + int(same_length)).eq(0))

        def step(i: Value, total: Value) -> Value:
            tensor = self.load(items, i, "ptr")
            self.require(self.is_plain(tensor))
            array = self.array_of(tensor)
            self.require(self.same(self.dtype(array), self.dtype(first)) & self.ndim(array).eq(n))

            def compare(d: Value) -> None:
                size = self.load(self.dims(array), d, "i64")
                self.require((size > 0) & (size.eq(self.load(self.dims(first), d, "i64")) | (d < int(not same_length))))

            self.loop(0, n, compare)
            return total + self.load(self.dims(array), 0, "i64")

        return first, self.loop(0, count, step, carried=(self.i64(0),))

    def finish_with(self, items: Value, count: Value, first: Value, ndim: Value, dims: Value) -> str:
        size = self.i64(0)
        for dtype in DTYPES:
            size = self.pick(self.same(self.dtype(first), self.object(dtype)), self.i64(dtype.itemsize), size)
        self.require(size > 0)
        r = self.new_array(self.dtype(first), ndim, dims)

        def copy(i: Value, offset: Value) -> Value:
            array = self.slot(self.load(items, i, "ptr"), Tensor, "_array")
            bytes_ = self.size(array) * size
            self.call_c("memcpy", "ptr", self.at(self.data(r), offset, "i8"), self.data(array), bytes_)
            return offset + bytes_

        self.loop(0, count, copy, carried=(self.i64(0),))
        self.answer_new(r, self.i64(0))
        return self.finish()


def joined(code: Code) -> str:
    """``cat(tensors, dim)`` of row-major tensors along their first dimension."""
    k = _Join(code, "joined")
    items, count = k.begin()
    first, length = k.same_rows(items, count, False)
    dims = k.scratch(_MOST_DIMS, "i64")
    k.loop(1, k.ndim(first), lambda d: k.store(k.load(k.dims(first), d, "i64"), dims, d, "i64"))
    k.store(length, dims, 0, "i64")
    return k.finish_with(items, count, first, k.ndim(first), dims)


def stacked(code: Code) -> str:
    """``stack(tensors, dim)`` of row-major tensors along a new first dimension."""
    k = _Join(code, "stacked")
    items, count = k.begin()
    first, _ = k.same_rows(items, count, True)
    dims = k.scratch(_MOST_DIMS + 1, "i64")
    k.loop(0, k.ndim(first), lambda d: k.store(k.load(k.dims(first), d, "i64"), dims, d + 1, "i64"))
    k.store(count, dims, 0, "i64")
    return k.finish_with(items, count, first, k.ndim(first) + 1, dims)


def of_joins(op: Any) -> records.Record:
    """The record of ``cat`` or ``stack``."""
    record = records.Record()
    record.put_limit(op)
    return record
