"""Sums of gradients, and adding to the ``.grad`` of leaves, in machine code."""

from __future__ import annotations

from ...autograd import engine as python
from ...core import state
from ...core.storage import ResultMemory, UntypedStorage
from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .interpreter import BASE, FLAGS, WRITEABLE, lookup
from .rules import Rule

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # attributes of leaves
_UNTIL = 500  # elements: to copy more NumPy lets other threads run


class _Lists(Rule):
    """Lists, and the arithmetic of gradients."""

    def length(self, items: Value) -> Value:
        return self.field(items, 16, "i64")

    def items_of(self, items: Value) -> Value:
        """Address of a list's items, until it changes."""
        return self.field(items, self.interpreter.list_items)

    def replace(self, items: Value, place: Value, value: Value) -> None:
        """Put a reference, which is handed over, into a list in place of what is there."""
        at = self.at(self.items_of(items), place, "ptr")
        past = self.load(at, 0, "ptr")
        self.store(value, at, 0, "ptr")
        self.decref(past)

    def is_node(self, thing: Value) -> Value:
        return self.call_c("PyType_IsSubtype", "i32", self.type_of(thing), self.object(Node)).ne(0)

    def call_python(self, function: Value, *arguments: Value) -> Value:
        """The result of a Python function (a new reference)."""
        given = self.scratch(len(arguments), "ptr")
        for place, argument in enumerate(arguments):
            self.store(argument, given, place, "ptr")
        made = self.call_c("PyObject_Vectorcall", "ptr", function, given, self.i64(len(arguments)), self.null)
        self.check(self.exists(made))
        return made

    def require_addends(self, a: Value, b: Value) -> tuple[Value, Value, Value, Value]:
        """Of two row-major arrays of one shape and dtype the number of elements, the loop that adds them, its data, an element's size."""
        self.require(self.is_row_major(b))
        return self.require_alike(a, b)

    def require_alike(self, a: Value, b: Value) -> tuple[Value, Value, Value, Value]:
        """``require_addends``, of which the second may lie otherwise."""
        self.require(self.same(self.dtype(a), self.dtype(b)) & self.is_row_major(a))
        self.require(self.same_sizes(a, b, self.dims))
        n = self.size(a)
        self.require(n < self.word(records.LIMIT))
        _, loop, data, _ = self.loop_for(self.dtype(a), (0, 1))
        return n, loop, data, self.item_size(self.dtype(a))

    def total(self, have: Value, more: Value) -> Value:
        """The sum of two gradients (a new reference)."""

        def quick() -> Value:
            self.require(self.is_exactly(have, Tensor) & self.is_empty(state.active))
            a, b = self.any_array_of(have), self.any_array_of(more)
            n, loop, data, size = self.require_addends(a, b)
            r = self.new_array(self.dtype(a), self.ndim(a), self.dims(a))
            self.run(loop, data, n, [(self.data(each), size) for each in (a, b, r)])
            return self.disown(self.unrecorded(r))

        return self.attempt(quick, lambda: self.call_python(self.object(python.added), have, more))


class Leaves(_Lists):
    """Adding to the ``.grad`` of leaves."""

    def require_no_hooks(self, leaf: Value) -> None:
        cell = self.scratch(1, "ptr")
        for name in _HOOKS:
            found = self.call_c(lookup(), "i32", leaf, self.object(name), cell)
            self.check(found >= 0)

            def leave() -> None:
                self.decref(self.load(cell, 0, "ptr"))
                self.decline()

            self.case(found.ne(0), leave)

    def accumulate(self, leaf: Value, grad: Value) -> None:
        """As ``autograd.engine.accumulate``, where nobody else adds."""
        self.require(self.is_plain(leaf) & self.is_exactly(grad, Tensor) & self.is_empty(state.active) & self.is_empty(python.adding))
        self.require(~self.requires_grad(grad))
        self.require_no_hooks(leaf)
        a, target = self.any_array_of(grad), self.any_array_of(leaf)
        self.require(self.same(self.dtype(a), self.dtype(target)) & self.same_sizes(a, target, self.dims))
        have = self.slot(leaf, Tensor, "_grad")
        self.when(self.is_none(have), lambda: self._take(leaf, target, grad, a), lambda: self._add(have, grad, a))

    def is_none(self, thing: Value) -> Value:
        return ~self.exists(thing) | self.same(thing, self.object(None))

    def _take(self, leaf: Value, target: Value, grad: Value, a: Value) -> None:
        """A first gradient: the array that came if nobody else has it, else a copy that lies in memory as the leaf does."""
        base = self.field(a, BASE)
        owns = self.when(self.exists(base), lambda: self.is_exactly(base, ResultMemory), lambda: self.const(True, "b1"))
        lies_well = self.same_sizes(a, target, self.strides)
        is_ours = owns & lies_well & self.same(self.slot(grad, Tensor, "_storage"), self.object(None))
        is_ours = is_ours & self.is_alone(grad) & self.is_alone(a)
        made = self.when(is_ours, lambda: self.incref(grad), lambda: self._copied(target, a, lies_well))

        def too_late() -> None:
            self.decref(made)
            self.decline()

        have = self.slot(leaf, Tensor, "_grad")  # once more: to make a copy may have run Python code
        self.case(~self.is_none(have) | ~self.is_empty(python.adding), too_late)
        self.put(made, leaf, self.interpreter.slot(Tensor, "_grad"))
        self.decref_any(have)

    def decref_any(self, thing: Value) -> None:
        self.when(self.exists(thing), lambda: self.decref(thing))

    def is_alone(self, thing: Value) -> Value:
        """Whether there is one reference to an object."""
        return self.field(thing, 0, "i32" if self.interpreter.immortal else "i64").eq(1)

    def _copied(self, target: Value, a: Value, lies_well: Value) -> Value:
        """A tensor around a copy of ``a`` with the strides of ``target``, which must be those of its shape."""
        n, no_short = self.measured(target)
        dims, strides, rank = self.dims(target), self.strides(target), self.ndim(target)
        place = self.loop_for(self.dtype(a), (0, 1))[0]
        size = self.pick(place.eq(0), self.i64(4), self.i64(8))

        def compare(i: Value, step: Value, differs: Value) -> tuple[Value, Value]:
            d = rank - 1 - i
            return step * self.load(dims, d, "i64"), differs | (step ^ self.load(strides, d, "i64"))

        _, differs = self.loop(0, rank, compare, carried=(size, self.i64(0)))
        self.require(differs.eq(0) & (lies_well | no_short) & (n > 0) & self.is_row_major(target))
        self.own(self.incref(a))
        r = self.own(self.new_array(self.dtype(a), rank, dims))

        def copy() -> None:
            self.call_c("memcpy", "ptr", self.data(r), self.data(a), n * size)

        def spread() -> None:
            self.check(self.call_c("PyArray_CopyInto", "i32", r, a).eq(0))

        self.when(self.is_row_major(a), copy, spread)
        self.drop(a)
        return self.disown(self.unrecorded(self.disown(r)))

    def _add(self, have: Value, grad: Value, b: Value) -> None:
        """Add to a gradient in place."""
        none = self.object(None)
        self.require(self.is_exactly(have, Tensor))
        self.require(~self.requires_grad(have))
        a = self.any_array_of(have)
        n, loop, data, size = self.require_alike(a, b)
        in_order = self.is_row_major(b)
        self.require((self.field(a, FLAGS, "i32") & WRITEABLE).ne(0) & (in_order | (n <= _UNTIL)))
        one, other, bytes_ = self.data(a), self.data(b), n * size
        apart = (self.at(one, bytes_, "i8") <= other) | (self.at(other, bytes_, "i8") <= one)
        self.require(apart | self.same(one, other) | ~in_order)
        storage = self.slot(have, Tensor, "_storage")
        self.require(self.same(storage, none) | self.is_exactly(storage, UntypedStorage))
        for value in (have, a, b):
            self.own(self.incref(value))
        more = self.when(in_order, lambda: self.incref(b), lambda: self.call_c("PyArray_NewCopy", "ptr", b, self.i32(0)))
        self.check(self.exists(more))
        self.own(more)
        storage = self.when(self.same(storage, none), lambda: self.new_storage(have, a), lambda: storage)
        self.own(self.incref(storage))

        def too_late() -> None:
            self.decref(*reversed(self.owned[-5:]))
            self.decline()

        self.case(~self.is_empty(python.adding), too_late)  # a new storage may have run Python code
        self.write(storage, lambda: self.run(loop, data, n, [(self.data(a), size), (self.data(more), size), (self.data(a), size)]))
        self.drop(have, a, b, more, storage)
