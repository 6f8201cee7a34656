"""Forms of calls that put tensors one after another."""

from __future__ import annotations

from typing import Any

from ...core import state
from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise

_MOST, _MOST_DIMS = 64, 3  # of four dimensions there are tensors whose channels come last


class _Join(Pointwise):
    """``f(tensors, dim)``."""

    def begin(self) -> tuple[Value, Value, Value]:
        """Address of the first of the list's or tuple's tensors, their number, and whether the call is to be recorded."""
        self.require_count(2)
        given = self.argument(0)
        self.is_list = self.is_exactly(given, list)
        self.require(self.is_list | self.is_exactly(given, tuple))
        self.require_no_mode()
        self.require(self.is_empty(state.autocasting))
        items, count = self._items(given)

        def step(i: Value, found: Value) -> Value:
            tensor = self.load(items, i, "ptr")
            self.require(self.is_plain(tensor))
            return found | self.cast(self.requires_grad(tensor, may_be_inference=True), "i64")

        recorded = self.recording(self.loop(0, count, step, carried=(self.i64(0),)).ne(0))
        return *self._items(given), recorded  # again: to ask whether this thread records may have run Python code

    def _items(self, given: Value) -> tuple[Value, Value]:
        count = self.field(given, 16, "i64")
        self.require((count > 0) & (count <= _MOST))
        inside = self.at(given, self.interpreter.tuple_items, "i8")
        return self.when(self.is_list, lambda: self.field(given, self.interpreter.list_items), lambda: inside), count

    def array_at(self, items: Value, i: Value | int) -> Value:
        tensor = self.load(items, i, "ptr")
        self.require(self.is_plain(tensor))
        return self.array_of(tensor)

    def same_but(self, items: Value, count: Value, dim: Value) -> tuple[Value, Value]:
        """The first tensor's array, and the sum of the lengths along ``dim``; all must have its dtype, and its other sizes."""
        first = self.array_at(items, 0)
        n = self.ndim(first)

        def step(i: Value, total: Value) -> Value:
            array = self.array_at(items, i)
            self.require(self.same(self.dtype(array), self.dtype(first)) & self.ndim(array).eq(n))

            def compare(d: Value) -> None:
                size = self.load(self.dims(array), d, "i64")
                self.require((size > 0) & (size.eq(self.load(self.dims(first), d, "i64")) | d.eq(dim)))

            self.loop(0, n, compare)
            return total + self.when(dim >= 0, lambda: self.load(self.dims(array), dim, "i64"), lambda: self.i64(1))

        return first, self.loop(0, count, step, carried=(self.i64(0),))

    def join(self, items: Value, count: Value, recorded: Value, dim: Value, ndim: Value, dims: Value) -> str:
        """Copy, for each place in front of ``dim``, what lies there of each tensor; ``dims`` are the result's."""
        first = self.array_at(items, 0)
        size = self.size_of(self.dtype(first))
        self.require(self.size(first) < self.word(records.LIMIT))
        r = self.new_array(self.dtype(first), ndim, dims)
        rows = self.loop(0, dim, lambda d, n: n * self.load(dims, d, "i64"), carried=(self.i64(1),))

        def row(place: Value, to: Value) -> Value:
            def copy(i: Value, to: Value) -> Value:
                array = self.slot(self.load(items, i, "ptr"), Tensor, "_array")
                bytes_ = (self.size(array) // rows) * size
                self.call_c("memcpy", "ptr", to, self.at(self.data(array), place * bytes_, "i8"), bytes_)
                return self.at(to, bytes_, "i8")

            return self.loop(0, count, copy, carried=(to,))

        self.loop(0, rows, row, carried=(self.data(r),))
        made = self.new_tensor(r)

        def record() -> None:
            node = self._recorded(r)
            self.fill(made, Tensor, _node=node, _requires_grad=self.incref(self.object(True)))

        self.when(recorded, record, lambda: self.fill_unrecorded(made, self.infers()))
        self.give(self.disown(made))
        return self.finish()

    def _recorded(self, array: Value) -> Value:
        """The node of the call: its edges lead to the list's tensors as they are now, and it keeps ``dim``, or also the shapes."""
        node = self.own(self.new(self.node_class(), Node))
        given = self.argument(0)

        def each(item: Any) -> Any:
            """A tuple of what ``item`` makes of each tensor of the list, which may be another one after each."""
            count = self.field(given, 16, "i64")

            def of(i: Value) -> Value:
                items, now = self.when(
                    self.is_list,
                    lambda: (self.field(given, self.interpreter.list_items), self.field(given, 16, "i64")),
                    lambda: (self.at(given, self.interpreter.tuple_items, "i8"), count),
                )
                return self.when(i < now, lambda: item(self.load(items, i, "ptr")), lambda: self.incref(self.object(None)))

            return self._tuple(count, of)

        def edge(tensor: Value) -> Value:
            yes, none = self.object(True), self.object(None)
            plain = self.is_plain(tensor)
            needs = self.when(plain, lambda: self.same(self.slot(tensor, Tensor, "_requires_grad"), yes), lambda: self.const(False, "b1"))
            return self.when(needs, lambda: self.edge(tensor), lambda: self.incref(none))

        def shape(tensor: Value) -> Value:
            plain, empty = self.is_plain(tensor), self.object(())
            return self.when(plain, lambda: self.shape(self.slot(tensor, Tensor, "_array")), lambda: self.incref(empty))

        self.fill(node, Node, edges=each(edge))
        self.fill(node, Node, saved=self.incref(self.object(())))
        dim = self.argument(1)

        def both() -> Value:
            shapes = self.own(each(shape))
            made = self.tuple(lambda: self.incref(dim), lambda: self.incref(shapes))
            self.call_c("Py_DecRef", None, self.disown(shapes))
            return made

        keeps_shapes = self.word(records.EXTRA).ne(0)
        self.fill(node, Node, attrs=self.when(keeps_shapes, both, lambda: self.tuple(lambda: self.incref(dim))))
        self.finish_node(node, array, self.dtype(array))
        return self.disown(node)


def joined(code: Code) -> str:
    """``cat(tensors, dim)`` of row-major tensors."""
    k = _Join(code, "joined")
    items, count, recorded = k.begin()
    ndim = k.ndim(k.array_at(items, 0))
    k.require((ndim > 0) & (ndim <= _MOST_DIMS))
    dim = k.index(k.argument(1), ndim)
    first, length = k.same_but(items, count, dim)
    dims = k.scratch(_MOST_DIMS, "i64")
    k.loop(0, ndim, lambda d: k.store(k.load(k.dims(first), d, "i64"), dims, d, "i64"))
    k.store(length, dims, dim, "i64")
    return k.join(items, count, recorded, dim, ndim, dims)


def stacked(code: Code) -> str:
    """``stack(tensors, dim)`` of row-major tensors."""
    k = _Join(code, "stacked")
    items, count, recorded = k.begin()
    ndim = k.ndim(k.array_at(items, 0))
    k.require(ndim <= _MOST_DIMS)
    dim = k.index(k.argument(1), ndim + 1)
    first, _ = k.same_but(items, count, k.i64(-1))
    dims = k.scratch(_MOST_DIMS + 1, "i64")

    def put(d: Value) -> None:
        k.store(k.load(k.dims(first), d, "i64"), dims, d + k.cast(d >= dim, "i64"), "i64")

    k.loop(0, ndim, put)
    k.store(count, dims, dim, "i64")
    return k.join(items, count, recorded, dim, ndim + 1, dims)


def of_joins(op: Any) -> records.Record:
    """The record of ``cat`` or ``stack``.

    Raises:
        Unfit: nodes keep something else than the dimension and perhaps the shapes.
    """
    record, kind = records.Record(), op.node
    kept = [(item.source, op.names[item.position or 0]) for item in kind.others]
    if kind.tensors or kept not in ([("attr", "dim")], [("attr", "dim"), ("shape", "tensors")]):
        raise records.Unfit(op.name)
    record.keep(records.NODE, kind)
    record.put(records.EXTRA, len(kept) - 1)
    record.put_limit(op)
    return record
