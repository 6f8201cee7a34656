"""Backward passes of usual graphs: ``autograd.engine`` as one function, from the root to the leaves' ``.grad``.

Waiting nodes lie in a list, the oldest first, each with its gradient behind it; leaves in another, each with its gradient and whether that
is a sum that was made here. A pass begins without any Python. What has no rule in machine code, hooks, or modes that look at calls, ends it
there, with nothing lost: it gives the lists back, and is called again with a function that does such nodes in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...autograd import engine as python
from ...core import state
from ...core.arrays.copies import adding
from ...core.arrays.kinds import host
from ...core.calls.registry import primitive
from ...core.tape.derivatives import release_tensors
from ...core.tape.hooks import hooked_leaves
from ...core.tape.node import Node, Output
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .accumulation import Leaves
from .code import Code
from .reductions import of_sums

# The table of rules, the record of ``_sum_to_size``, and how many elements its own kernel is for.
_RULES, _SUMMED, _UNTIL_ROWS = (records.EXTRA + k for k in range(3))
_MOST_ROWS = 1 << 14  # elements
_MOST_LEAVES = 1 << 13  # which are looked through one by one
TABLE = 1 << 11  # places of rules, a power of two


class RuleTable:
    """Rules by class of node, as machine code looks them up: for each place the class, the function, its record, and what it frees."""

    def __init__(self) -> None:
        self.words = np.zeros((TABLE, 4), np.uint64)
        self._kinds: list[Any] = []  # which must live on: another class could come to lie where one was

    def put(self, kind: Any, address: int, record: records.Record) -> None:
        """The rule of a class of nodes; none if what it frees is something else than tensors."""
        release = kind.release
        if kind.frees and release is not Node.release and release is not release_tensors:
            return
        frees = 0 if not kind.frees else 1 if release is Node.release else 2
        self._kinds.append(kind)
        place = id(kind) >> 4 & (TABLE - 1)
        while self.words[place, 0]:
            place = (place + 1) & (TABLE - 1)
        self.words[place, 1:] = address, id(record.words), frees
        self.words[place, 0] = id(kind)


class _Pass(Leaves):
    """A pass being written."""

    nodes: Value
    leaves: Value
    visit: Value  # the function that does what is unusual, or null
    keeps: Value  # whether the graph stays

    def leave(self, condition: Value, before: Callable[[], None]) -> None:
        """If it holds, give back the nodes and the leaves."""
        self.count += 1
        inside, on = f"leave{self.count}", f"stay{self.count}"
        self.effect(f"br i1 {condition.text}, label %{inside}, label %{on}")
        self.label(inside)
        pair = self.own(self.call_c("PyTuple_New", "ptr", self.i64(2)))
        self.check(self.exists(pair))
        before()
        for place, items in enumerate((self.nodes, self.leaves)):
            self.put(items, pair, self.interpreter.tuple_items + 8 * place)
        self.disown(pair)
        self.effect(f"ret ptr {pair.text}")
        self.label(on)

    # -- beginning ------------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        three, four = (self.same(self.operands[2], self.emit(f"inttoptr i64 {n} to ptr", "ptr")) for n in (3, 4))
        self.require(three | four)
        self.keeps = self.same(self.argument(2), self.object(True))
        self.visit = self.when(four, lambda: self.argument(3), lambda: self.null)

        def given() -> tuple[Value, Value]:
            return self.incref(self.argument(0)), self.incref(self.argument(1))

        self.nodes, self.leaves = map(self.own, self.when(four, given, self._first))

    def _first(self) -> tuple[Value, Value]:
        """The lists, with the root's node and gradient."""
        root, grad, none = self.argument(0), self.argument(1), self.object(None)
        self.require(self.is_exactly(root, Tensor))
        self.require(self.same(self.slot(root, Tensor, "_requires_grad"), self.object(True)))
        for modes in (state.active, state.inferring, state.interposed, state.profiling):
            self.require(self.is_empty(modes))
        self.require(self.call_c("PyDict_Size", "i64", self.object(hooked_leaves.data)).eq(0))  # type: ignore[attr-defined]
        node, a = self.slot(root, Tensor, "_node"), self.any_array_of(root)
        self.require(self.is_node(node))
        self.require(self.same(self.dtype(a), self.slot(node, Node, "dtype")) & self.has_shape(a, self.slot(node, Node, "shape")))
        place = self.loop_for(self.dtype(a), (0, 1))[0]

        def given() -> None:
            self.require(self.is_exactly(grad, Tensor))
            self.require(~self.requires_grad(grad))
            b = self.any_array_of(grad)
            self.require(self.same(self.dtype(a), self.dtype(b)) & self.same_sizes(a, b, self.dims))

        self.when(self.same(grad, none), lambda: self.require(self.size(a).eq(1)), given)

        def one() -> Value:
            r = self.new_array(self.dtype(a), self.ndim(a), self.dims(a))
            at = self.data(r)
            single, double = self.const(1, "f32"), self.const(1, "f64")
            self.when(place.eq(0), lambda: self.store(single, at, 0, "f32"), lambda: self.store(double, at, 0, "f64"))
            return self.disown(self.unrecorded(r))

        self.own(self.incref(node))
        seed = self.own(self.when(self.same(grad, none), one, lambda: self.incref(grad)))
        nodes = self.own(self.call_c("PyList_New", "ptr", self.i64(2)))
        self.check(self.exists(nodes))
        for item, value in enumerate((node, seed)):
            self.store(self.disown(value), self.items_of(nodes), item, "ptr")
        leaves = self.call_c("PyList_New", "ptr", self.i64(0))
        self.check(self.exists(leaves))
        return self.disown(nodes), leaves

    # -- one node ---------------------------------------------------------------------------------------------------------------
    def rule_of(self, kind: Value) -> Value:
        """Address of a class's place in the table of rules, or of an empty one."""
        table = self.field(self.word(_RULES, element="ptr"), 16)
        number = self.emit(f"ptrtoint ptr {kind.text} to i64", "i64")

        def at(place: Value) -> Value:
            return self.at(table, place * 4, "ptr")

        def is_other(place: Value) -> Value:
            found = self.load(at(place), 0, "ptr")
            return self.exists(found) & ~self.same(found, kind)

        place = self.repeat(is_other, lambda place: (place + 1) & (TABLE - 1), ((number >> 4) & (TABLE - 1),))
        return at(place)

    def step(self) -> None:
        """Take the newest node, and send what its rule gives along its edges."""
        self.leave(self.length(self.leaves) > 3 * _MOST_LEAVES, lambda: None)
        size, items = self.length(self.nodes), self.items_of(self.nodes)
        node, grad = (self.own(self.load(items, size - back, "ptr")) for back in (2, 1))
        self.put(size - 2, self.nodes, 16, "i64")  # both references are ours
        entry, none = self.rule_of(self.type_of(node)), self.object(None)
        function = self.load(entry, 1, "ptr")
        given = self.scratch(2, "ptr")
        for place, value in enumerate((node, grad)):
            self.store(value, given, place, "ptr")
        three = self.emit("inttoptr i64 3 to ptr", "ptr")
        is_usual = self.exists(function) & self.same(self.slot(node, Node, "hooks"), none) & self.is_empty(state.active)
        made = self.when(
            is_usual, lambda: self.call_c(function, "ptr", self.load(entry, 2, "ptr"), given, three), lambda: self.incref(none)
        )
        self.check(self.exists(made))

        def done() -> Value:
            self.own(made)
            self._release(node, self.load(entry, 3, "i64"))
            return self.disown(made)

        grads = self.own(self.when(self.same(made, none), lambda: self._visited(node, grad, size), done))
        edges = self.own(self.incref(self.slot(node, Node, "edges")))
        a, b = self.field(edges, 16, "i64"), self.field(grads, 16, "i64")

        def send(i: Value) -> None:
            edge, part = (self.load(self.at(each, self.interpreter.tuple_items, "i8"), i, "ptr") for each in (edges, grads))
            self.when(~self.same(edge, none) & ~self.same(part, none), lambda: self.send(node, edge, part))

        self.loop(0, self.pick(a < b, a, b), send)
        self.drop(edges, grads, grad, node)

    def _visited(self, node: Value, grad: Value, size: Value) -> Value:
        """Python's gradients for a node; if there is no Python yet, or if it makes something unusual, the pass is left."""
        self.decref(self.object(None))
        self.leave(~self.exists(self.visit), lambda: self.put(size, self.nodes, 16, "i64"))
        made = self.call_python(self.visit, node, grad)

        def before() -> None:
            self.decref(made, grad, node)

        self.leave(self.same(made, self.object(None)), before)
        return made

    def _release(self, node: Value, frees: Value) -> None:
        """``node.release()``, as far as it frees something."""
        numbers = [self.object(kind) for kind in (bool, int, float, complex, type(None))]

        def holds_tensors() -> Value:
            saved = self.slot(node, Node, "saved")

            def step(i: Value, found: Value) -> Value:
                kind = self.type_of(self.load(self.at(saved, self.interpreter.tuple_items, "i8"), i, "ptr"))
                is_number = self.const(False, "b1")
                for each in numbers:
                    is_number = is_number | self.same(kind, each)
                return found | self.cast(~is_number, "i64")

            usual = self.is_exactly(saved, tuple)
            count = self.when(usual, lambda: self.field(saved, 16, "i64"), lambda: self.i64(0))
            return self.loop(0, count, step, carried=(self.i64(0),)).ne(0)

        def free() -> None:
            past = self.slot(node, Node, "saved")
            self.fill(node, Node, saved=self.incref(self.object(None)))
            self.decref(past)

        is_wanted = frees.ne(0) & ~self.keeps
        is_wanted = is_wanted & self.when(is_wanted & frees.eq(2), holds_tensors, lambda: self.const(True, "b1"))
        self.when(is_wanted, free)

    # -- along an edge ------------------------------------------------------------------------------------------------------------
    def send(self, node: Value, edge: Value, grad: Value) -> None:
        is_output = self.is_exactly(edge, Output)
        plain = self.is_plain(edge)
        is_leaf = plain | self.when(plain | is_output, lambda: plain, lambda: ~self.is_node(edge))

        def inside() -> None:
            self.when(is_output, lambda: self._to_output(node, edge, grad), lambda: self._to_node(node, edge, grad))

        self.when(is_leaf, lambda: self._to_leaf(node, edge, grad), inside)

    def _fitted(self, fits: Value, same: Value, shape: Callable[[], Value], node: Value, edge: Value, grad: Value) -> Value:
        """The gradient (owned) as the edge wants it.

        Args:
            fits: whether it is so. same: whether it has the dtype. shape: makes a tuple (a new reference).
        """

        def rows() -> Value:
            """The sum of rows."""
            self.require(same & self.exists(self.word(_SUMMED, element="ptr")) & self.is_empty(state.active))
            a = self.any_array_of(grad)
            self.require(self.ndim(a).eq(2) & self.is_row_major(a))
            wanted, given = self.own(shape()), self.scratch(2, "ptr")
            for place, value in enumerate((grad, wanted)):
                self.store(value, given, place, "ptr")
            two = self.emit("inttoptr i64 2 to ptr", "ptr")
            made = self.call_c(Value(self, "@summed", "ptr"), "ptr", self.word(_SUMMED, element="ptr"), given, two)
            self.drop(wanted)
            self.check(self.exists(made))

            def leave() -> None:
                self.decref(made)
                self.decline()

            self.case(self.same(made, self.object(None)), leave)
            return made

        def one_by_one() -> Value:
            """The sum of more rows, or of such that repeat elements, added as NumPy's reduction does: to zeros, one after the other."""
            self.require(same & self.is_empty(state.active))
            a = self.any_array_of(grad)
            self.require(self.ndim(a).eq(2) & (self.size(a) < self.word(_UNTIL_ROWS)))
            m, p = (self.load(self.dims(a), k, "i64") for k in (0, 1))
            across, along = self.steps(a)
            self.require((m > 1) & (p > 1) & (self.is_row_major(a) | across.eq(0) | along.eq(0)) & (across >= 0) & (along >= 0))
            _, loop, data, dtype = self.loop_for(self.dtype(a), (0, 1))
            self.own(self.incref(a))
            wanted = self.own(shape())
            is_row = self.field(wanted, 16, "i64").eq(1) & self.has_size(wanted, p)
            self.drop(wanted)

            def leave() -> None:
                self.decref(a)
                self.decline()

            self.case(~is_row, leave)
            r, size = self.new_array(dtype, self.i64(1), self.at(self.dims(a), 1, "i64")), self.item_size(dtype)
            to = self.data(r)
            self.call_c("memset", "ptr", to, self.const(0, "i32"), p * size)
            self.loop(0, m, lambda i: self.run(loop, data, p, [(to, size), (self.at(self.data(a), i * across, "i8"), along), (to, size)]))
            self.drop(a)
            return self.wrapped(r)

        def other() -> Value:
            return self.attempt(
                rows, lambda: self.attempt(one_by_one, lambda: self.call_python(self.object(python.brought), grad, node, edge))
            )

        return self.own(self.when(fits, lambda: self.incref(grad), other))

    def has_size(self, shape: Value, size: Value) -> Value:
        """Whether the first of a shape's sizes is this one."""

        def compare() -> Value:
            return self.call_c("PyLong_AsLong", "i64", self.field(shape, self.interpreter.tuple_items)).eq(size)

        return self.when(self.field(shape, 16, "i64") > 0, compare, lambda: self.const(False, "b1"))

    def _to_leaf(self, node: Value, edge: Value, grad: Value) -> None:
        a, target = self.slot(grad, Tensor, "_array"), self.slot(edge, Tensor, "_array")
        dense = self.is_exactly(a, np.ndarray) & self.is_exactly(target, np.ndarray)
        same = self.when(dense, lambda: self.same(self.dtype(a), self.dtype(target)), lambda: self.const(False, "b1"))
        fits = self.when(same, lambda: self.same_sizes(a, target, self.dims), lambda: same)
        grad = self._fitted(fits, same, lambda: self.shape(target), node, edge, grad)
        n, items = self.length(self.leaves), self.items_of(self.leaves)
        place = self.repeat(
            lambda i: self.when(i < n, lambda: ~self.same(self.load(items, i, "ptr"), edge), lambda: self.const(False, "b1")),
            lambda i: i + 3,
            (self.i64(0),),
        )

        def first() -> None:
            is_leaf = self.same(self.slot(edge, Tensor, "_node"), self.object(None))

            def moved() -> None:
                self.call_c("PyErr_SetObject", None, self.object(RuntimeError), self.object(python.MOVED))

            self.when(is_leaf, lambda: None, moved)
            self.check(is_leaf)
            for value in (edge, grad, self.object(False)):
                self.check(self.call_c("PyList_Append", "i32", self.leaves, value).eq(0))

        self.when(place >= n, first, lambda: self._to_known_leaf(place, grad))
        self.drop(grad)

    def _to_known_leaf(self, place: Value, grad: Value) -> None:
        """Add to a leaf's gradient: into what is a sum already, as nobody else has it."""
        have, is_sum = (self.load(self.items_of(self.leaves), place + k, "ptr") for k in (1, 2))

        def into() -> None:
            self.require(self.same(is_sum, self.object(True)) & self.is_exactly(have, Tensor) & self.is_empty(state.active))
            a, b = self.any_array_of(have), self.any_array_of(grad)
            n, loop, data, size = self.require_addends(a, b)
            self.run(loop, data, n, [(self.data(a), size), (self.data(b), size), (self.data(a), size)])

        def anew() -> None:
            self.own(self.incref(have))
            made = self.total(have, grad)
            self.drop(have)
            self.replace(self.leaves, place + 1, made)
            mine = self.is_exactly(made, Tensor)
            array = self.when(mine, lambda: self.slot(made, Tensor, "_array"), lambda: self.null)
            mine = mine & ~self.same(array, self.slot(grad, Tensor, "_array"))
            self.replace(self.leaves, place + 2, self.incref(self.pick(mine, self.object(True), self.object(False))))

        self.attempt(into, anew)

    def _place_of(self, node: Value) -> tuple[Value, Value]:
        """The place of a node among those that wait, or the one where it has to be put, and whether it is there."""
        seq, items = self.call_c("PyLong_AsLong", "i64", self.slot(node, Node, "seq")), self.items_of(self.nodes)
        n = self.length(self.nodes) >> 1

        def halve(low: Value, high: Value) -> tuple[Value, Value]:
            middle = (low + high) >> 1
            its = self.call_c("PyLong_AsLong", "i64", self.slot(self.load(items, middle * 2, "ptr"), Node, "seq"))
            is_older = its < seq
            return self.pick(is_older, middle + 1, low), self.pick(is_older, high, middle)

        place, _ = self.repeat(lambda low, high: low < high, halve, (self.i64(0), n))
        is_there = self.when(place < n, lambda: self.same(self.load(items, place * 2, "ptr"), node), lambda: self.const(False, "b1"))
        return place * 2, is_there

    def _insert(self, place: Value, node: Value, grad: Value) -> None:
        for k, value in enumerate((node, grad)):
            self.check(self.call_c("PyList_Insert", "i32", self.nodes, place + k, value).eq(0))

    def _to_node(self, node: Value, edge: Value, grad: Value) -> None:
        a, shape = self.slot(grad, Tensor, "_array"), self.slot(edge, Node, "shape")
        dense = self.is_exactly(a, np.ndarray)
        same = self.when(dense, lambda: self.same(self.dtype(a), self.slot(edge, Node, "dtype")), lambda: dense)
        fits = self.when(same, lambda: self.has_shape(a, shape), lambda: same)
        grad = self._fitted(fits, same, lambda: self.incref(shape), node, edge, grad)
        place, is_there = self._place_of(edge)

        def add() -> None:
            have = self.own(self.incref(self.load(self.items_of(self.nodes), place + 1, "ptr")))
            made = self.total(have, grad)
            self.drop(have)
            self.replace(self.nodes, place + 1, made)

        self.when(is_there, add, lambda: self._insert(place, edge, grad))
        self.drop(grad)

    def _to_output(self, node: Value, edge: Value, grad: Value) -> None:
        """To one output of a node with several, whose gradients are a list."""
        source = self.slot(edge, Output, "node")
        index = self.call_c("PyLong_AsLong", "i64", self.slot(edge, Output, "index"))
        a = self.slot(grad, Tensor, "_array")
        facts = [self.at(self.slot(source, Node, name), self.interpreter.tuple_items, "i8") for name in ("dtype", "shape")]
        dtype, shape = (self.load(items, index, "ptr") for items in facts)
        same = self.when(self.is_exactly(a, np.ndarray), lambda: self.same(self.dtype(a), dtype), lambda: self.const(False, "b1"))
        fits = self.when(same, lambda: self.has_shape(a, shape), lambda: same)
        python_way = partial(self.call_python, self.object(python.brought), grad, node, edge)
        grad = self.own(self.when(fits, lambda: self.incref(grad), python_way))
        place, is_there = self._place_of(source)

        def begin() -> None:
            count = self.field(self.slot(source, Node, "shape"), 16, "i64")
            made = self.own(self.call_c("PyList_New", "ptr", count))
            self.check(self.exists(made))
            none, items = self.object(None), self.items_of(made)
            self.loop(0, count, lambda i: self.store(self.incref(none), items, i, "ptr"))
            self._insert(place, source, made)
            self.drop(made)

        self.when(is_there, lambda: None, begin)
        grads = self.load(self.items_of(self.nodes), place + 1, "ptr")
        have = self.load(self.items_of(grads), index, "ptr")

        def add() -> Value:
            self.own(self.incref(have))
            made = self.total(have, grad)
            self.drop(have)
            return made

        made = self.when(self.same(have, self.object(None)), lambda: self.incref(grad), add)
        self.replace(grads, index, made)
        self.drop(grad)

    # -- end ------------------------------------------------------------------------------------------------------------------------
    def settle(self) -> None:
        """Add to the leaves' gradients, up to one that needs Python."""
        n, yes, no = self.length(self.leaves), self.const(True, "b1"), self.const(False, "b1")

        def each(i: Value) -> Value:
            leaf, grad = (self.load(self.items_of(self.leaves), i + k, "ptr") for k in (0, 1))

            def add() -> Value:
                def usual() -> Value:
                    self.accumulate(leaf, grad)
                    return yes

                return self.attempt(usual, lambda: no)

            is_done = self.when(self.same(self.slot(leaf, Tensor, "_requires_grad"), self.object(True)), add, lambda: yes)

            def before() -> None:
                self.check(self.call_c("PyList_SetSlice", "i32", self.leaves, self.i64(0), i, self.null).eq(0))

            self.leave(~is_done, before)
            return i + 3

        self.repeat(lambda i: i < n, each, (self.i64(0),))


def backward(code: Code) -> str:
    """``f(root, grad, keep)``, or ``f(nodes, leaves, keep, visit)`` to go on: True at the end, the lists where Python has to go on."""
    k = _Pass(code, "backward")
    k.start()
    k.repeat(lambda: k.length(k.nodes) > 0, lambda: k.step(), ())
    k.settle()
    k.drop(k.nodes, k.leaves)
    k.give(k.incref(k.object(True)))
    return k.finish()


def of_passes(table: RuleTable) -> records.Record:
    """The record of the engine, which looks rules up in ``table``.

    Raises:
        Unfit, Unsupported: NumPy's loops lie otherwise.
    """
    record, summed = records.Record(), primitive("_sum_to_size")
    record.put_loops(np.add, records.DTYPES[:2])
    record.put(records.LIMIT, adding.threshold)
    record.kept.append(table)
    record.keep(_RULES, table.words)
    rows = of_sums(summed)
    record.kept.append(rows)
    record.keep(_SUMMED, rows.words)
    choice = host.choice_for(summed)
    record.put(_UNTIL_ROWS, _MOST_ROWS if choice is None else min(_MOST_ROWS, choice.threshold))
    return record
