"""A step of an optimizer as one call of machine code: what ``optim`` does with arrays, where nothing but the gradients is new.

Whoever steps keeps a *launch* (``launches.Launch``): a table of all objects that the step goes by. They are compared by identity: the
options of groups, the parameters, their states and the arrays of all these; of the options only the learning rate may be another number.
Then the rule's kernel is called for each group. Whatever differs is left to Python, which makes another launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import CDLL, c_double, c_void_p, cast
from functools import cache
from typing import Any

import numpy as np

from ...core import state
from ...core.storage import UntypedStorage
from ...core.tensor import Parameter, Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Form
from .interpreter import require
from .launches import ADD, ANY, GROUP, HEAD, ITEM, MULTIPLY, NO_COUNTER, POWER, ROW, SINGLE, SUBTRACT, Fields


class Step(Form):
    """``f(launch, state, groups)``; None leaves the step to Python."""

    def read(self, table: Value, fields: Fields, name: str, row: Any = 0, element: str = "i64") -> Value:
        """A word of a row of a table."""
        row = row if isinstance(row, Value) else self.i64(row)
        return self.load(self.at(table, row * fields.size + fields.place(name), "i64"), 0, element)

    def require_items(self, dictionary: Value, count: Value, items: Value, other: Value | None = None) -> None:
        """Go on if a dictionary has these items and no others, in their order; the value that may be any is stored in ``other``."""
        self.require(self.call_c("PyDict_Size", "i64", dictionary).eq(count))
        place, key, value = self.scratch(1, "i64"), self.scratch(1, "ptr"), self.scratch(1, "ptr")
        self.store(self.i64(0), place, 0, "i64")

        def item(i: Value) -> None:
            self.require(self.call_c("PyDict_Next", "i32", dictionary, place, key, value).ne(0))
            self.require(self.same(self.load(key, 0, "ptr"), self.read(items, ITEM, "key", i, "ptr")))
            found, wanted = self.load(value, 0, "ptr"), self.read(items, ITEM, "value", i, "ptr")
            if other is None:
                self.require(self.same(found, wanted))
            else:
                is_any = self.read(items, ITEM, "array", i).eq(ANY)
                self.require(is_any | self.same(found, wanted))
                self.when(is_any, lambda: self.store(found, other, 0, "ptr"))
            if other is None:
                array = self.read(items, ITEM, "array", i, "ptr")
                self.when(self.exists(array), lambda: self._require_array(found, array))

        self.loop(0, count, item)

    def _require_array(self, tensor: Value, array: Value) -> None:
        """Go on if a tensor has the array that it had, and a storage."""
        self.require(self.same(self.slot(tensor, Tensor, "_array"), array))
        self.require(self.is_exactly(self.slot(tensor, Tensor, "_storage"), UntypedStorage))

    def require_gradient(self, param: Value, array: Value) -> Value:
        """The array of a parameter's gradient, laid out as the parameter."""
        grad = self.slot(param, Tensor, "_grad")
        self.require(self.exists(grad))
        self.require(self.is_plain(grad))
        found = self.any_array_of(grad)
        self.require(self.same(self.dtype(found), self.dtype(array)) & self.ndim(found).eq(self.ndim(array)))

        def dim(d: Value) -> None:
            size = self.load(self.dims(array), d, "i64")
            is_alike = self.load(self.strides(found), d, "i64").eq(self.load(self.strides(array), d, "i64"))
            self.require(size.eq(self.load(self.dims(found), d, "i64")) & (is_alike | size.eq(1)))

        self.loop(0, self.ndim(array), dim)
        self.require(~self.same(self.slot(grad, Tensor, "_storage"), self.slot(param, Tensor, "_storage")))
        return found

    # -- numbers ------------------------------------------------------------------------------------------------------------
    def counter(self, group: Value, row: Value) -> Value:
        """The number of steps that a parameter has made."""
        data = self.data(self.read(row, ROW, "counter", 0, "ptr"))
        is_single = self.read(group, GROUP, "counters").eq(SINGLE)
        return self.when(is_single, lambda: self.cast(self.load(data, 0, "f32"), "f64"), lambda: self.load(data, 0, "f64"))

    def rounded(self, group: Value, count: Value) -> Value:
        """A count as counters have it."""
        is_single = self.read(group, GROUP, "counters").eq(SINGLE)
        return self.pick(is_single, self.cast(self.cast(count, "f32"), "f64"), count)

    def compute(self, group: Value) -> None:
        """Compute the rule's numbers from those in the first registers; what Python would refuse or do otherwise is left to it."""
        registers, program = self.read(group, GROUP, "registers", 0, "ptr"), self.read(group, GROUP, "program", 0, "ptr")
        begin = self.read(group, GROUP, "begin")

        def step(i: Value) -> None:
            kind, *places = (self.load(program, i * 3 + k, "i64") for k in range(3))
            a, b = (self.load(registers, place, "f64") for place in places)

            def power() -> Value:
                self.require((a >= 0.0) & (a < math.inf) & (b > 0.0) & (b < math.inf))
                result = self.call_c(self.power(), "f64", a, b)
                self.require(result < math.inf)
                return result

            def quotient() -> Value:
                self.require(b.ne(0.0))
                return a / b

            def other() -> Value:
                return self.when(kind.eq(MULTIPLY), lambda: a * b, lambda: self.when(kind.eq(POWER), power, quotient))

            result = self.when(kind.eq(ADD), lambda: a + b, lambda: self.when(kind.eq(SUBTRACT), lambda: a - b, other))
            self.store(result, registers, begin + i, "f64")

        self.loop(0, self.read(group, GROUP, "steps"), step)
        numbers, places = self.read(group, GROUP, "numbers", 0, "ptr"), self.read(group, GROUP, "places", 0, "ptr")

        def number(i: Value) -> None:
            self.store(self.load(registers, self.load(places, i, "i64"), "f64"), numbers, i, "f64")

        self.loop(0, self.read(group, GROUP, "number_count"), number)

    def power(self) -> Value:
        """Address of ``pow``."""
        return self.word(records.EXTRA, element="ptr")

    # -- writing ------------------------------------------------------------------------------------------------------------
    def note_write(self, tensor: Value, now: Value) -> None:
        """Count a write to a tensor, as ``optim._arrays.note_writes`` does."""
        self.note_change(self.slot(tensor, Tensor, "_storage"), now)

    def note_change(self, storage: Value, now: Value) -> None:
        """Count a write to a storage."""
        version = self.call_c("PyLong_AsLong", "i64", self.slot(storage, UntypedStorage, "version"))
        following = self.call_c("PyLong_FromSsize_t", "ptr", version + 1)
        self.check(self.exists(following))
        for name, value in (("version", following), ("changed", self.incref(now))):
            place = self.interpreter.slot(UntypedStorage, name)
            past = self.field(storage, place)
            self.put(value, storage, place)
            self.call_c("Py_DecRef", None, past)


def step(code: Code) -> str:
    """A step of all groups of an optimizer."""
    k = Step(code, "step")
    k.require_count(3)
    launch = k.data(k.argument(0))
    k.require_no_mode()
    k.require_no_inference()
    k.require(k.is_empty(state.profiling))
    states, groups = k.argument(1), k.argument(2)
    k.require(k.same(states, k.read(launch, HEAD, "state", 0, "ptr")) & k.same(groups, k.read(launch, HEAD, "groups", 0, "ptr")))
    k.require_items(states, k.read(launch, HEAD, "state_count"), k.read(launch, HEAD, "state_items", 0, "ptr"))
    count, table = k.read(launch, HEAD, "group_count"), k.read(launch, HEAD, "group_table", 0, "ptr")
    k.require(k.field(groups, 16, "i64").eq(count))
    given = k.field(groups, k.interpreter.list_items)

    def look(g: Value) -> None:
        group = k.at(table, g * GROUP.size, "i64")
        _look(k, group, k.load(given, g, "ptr"))

    k.loop(0, count, look)
    now = k.own(k.next_of_clock())
    k.loop(0, count, lambda g: _note(k, k.at(table, g * GROUP.size, "i64"), now))
    k.loop(0, count, lambda g: _run(k, k.at(table, g * GROUP.size, "i64")))
    k.call_c("Py_DecRef", None, k.disown(now))
    k.store(k.read(launch, HEAD, "taken") + 1, k.at(launch, HEAD.place("taken"), "i64"), 0, "i64")
    k.give(k.incref(k.object(True)))
    return k.finish()


def _look(k: Step, group: Value, given: Value) -> None:
    """Go on if a group is what it was, and each gradient can be taken; then compute the numbers of the step."""
    k.require(k.same(given, k.read(group, GROUP, "options", 0, "ptr")))
    lr = k.scratch(1, "ptr")
    k.store(k.object(None), lr, 0, "ptr")
    k.require_items(given, k.read(group, GROUP, "option_count"), k.read(group, GROUP, "option_items", 0, "ptr"), lr)
    rate = k.load(lr, 0, "ptr")
    k.require(k.is_exactly(rate, float))
    params, rows = k.read(group, GROUP, "params", 0, "ptr"), k.read(group, GROUP, "rows", 0, "ptr")
    row_count, kind = k.read(group, GROUP, "row_count"), k.read(group, GROUP, "counters")
    k.require(k.field(params, 16, "i64").eq(row_count))
    listed, gradients = k.field(params, k.interpreter.list_items), k.read(group, GROUP, "gradients", 0, "ptr")

    def row(r: Value, place: Value, before: Value) -> tuple[Value, Value]:
        own = k.at(rows, r * ROW.size, "i64")
        param, array = k.read(own, ROW, "param", 0, "ptr"), k.read(own, ROW, "array", 0, "ptr")
        k.require(k.same(k.load(listed, r, "ptr"), param))

        def absent() -> tuple[Value, Value]:
            grad = k.slot(param, Tensor, "_grad")
            k.require(~k.exists(grad) | k.same(grad, k.object(None)))
            return place, before

        def present() -> tuple[Value, Value]:
            k._require_array(param, array)
            k.store(k.require_gradient(param, array), gradients, place, "ptr")
            owned = k.read(own, ROW, "state", 0, "ptr")
            k.when(k.exists(owned), lambda: k.require_items(owned, k.read(own, ROW, "item_count"), k.read(own, ROW, "items", 0, "ptr")))
            value = k.when(kind.eq(NO_COUNTER), lambda: k.const(0.0, "f64"), lambda: k.counter(group, own))
            k.require(place.eq(0) | value.eq(before))
            return place + 1, value

        return k.when(k.exists(array), present, absent)

    _, before = k.loop(0, row_count, row, carried=(k.i64(0), k.const(0.0, "f64")))
    registers = k.read(group, GROUP, "registers", 0, "ptr")
    k.store(k.rounded(group, before + 1.0), registers, 0, "f64")
    k.store(k.field(rate, 16, "f64"), registers, 1, "f64")
    k.compute(group)


def _note(k: Step, group: Value, now: Value) -> None:
    """Count a write to all parameters of a group that have a gradient, and to their states."""
    rows = k.read(group, GROUP, "rows", 0, "ptr")

    def row(r: Value) -> None:
        own = k.at(rows, r * ROW.size, "i64")

        def present() -> None:
            k.note_write(k.read(own, ROW, "param", 0, "ptr"), now)
            items = k.read(own, ROW, "items", 0, "ptr")

            def item(i: Value) -> None:
                has_array = k.read(items, ITEM, "array", i).ne(0)
                k.when(has_array, lambda: k.note_write(k.read(items, ITEM, "value", i, "ptr"), now))

            k.loop(0, k.read(own, ROW, "item_count"), item)

        k.when(k.read(own, ROW, "array").ne(0), present)

    k.loop(0, k.read(group, GROUP, "row_count"), row)


def _run(k: Step, group: Value) -> None:
    """Count a step of a group's parameters, and update them."""
    rows, kind = k.read(group, GROUP, "rows", 0, "ptr"), k.read(group, GROUP, "counters")
    count = k.load(k.read(group, GROUP, "registers", 0, "ptr"), 0, "f64")

    def row(r: Value) -> None:
        def counted() -> None:
            data = k.data(k.read(rows, ROW, "counter", r, "ptr"))
            k.when(kind.eq(SINGLE), lambda: k.store(k.cast(count, "f32"), data, 0, "f32"), lambda: k.store(count, data, 0, "f64"))

        k.when(k.read(rows, ROW, "counter", r).ne(0), counted)

    k.loop(0, k.read(group, GROUP, "row_count"), row)
    kernel, arguments = k.read(group, GROUP, "kernel", 0, "ptr"), k.read(group, GROUP, "arguments", 0, "ptr")
    k.call_c(kernel, "i64", arguments, k.i64(0), k.read(group, GROUP, "chunks"), k.object(np.ndarray))


def forget(code: Code) -> str:
    """``f(groups)``: take the gradients off all parameters. It may leave the rest to Python after some."""
    k = Form(code, "forget")
    k.require_count(1)
    groups = k.argument(0)
    k.require(k.is_exactly(groups, list))

    yes, no = k.const(True, "b1"), k.const(False, "b1")

    def each(things: Value, body: Callable[[Value], Value]) -> Value:
        """Whether ``body`` did all of a list's items; what it calls may change the list."""
        k.incref(things)

        def step(i: Value, _: Value) -> tuple[Value, Value]:
            return i + 1, body(k.load(k.field(things, k.interpreter.list_items), i, "ptr"))

        _, done = k.repeat(lambda i, done: done & (i < k.field(things, 16, "i64")), step, (k.i64(0), yes))
        k.call_c("Py_DecRef", None, things)
        return done

    def clear(param: Value) -> Value:
        def drop() -> Value:
            grad = k.slot(param, Tensor, "_grad")
            k.put(k.null, param, k.interpreter.slot(Tensor, "_grad"))
            k.call_c("Py_DecRef", None, grad)  # or null
            return yes

        return k.when(k.is_exactly(param, Parameter), drop, lambda: no)

    def group(options: Value) -> Value:
        def of_params() -> Value:
            params = k.call_c("PyDict_GetItemWithError", "ptr", options, k.object("params"))
            is_list = k.when(k.exists(params), lambda: k.is_exactly(params, list), lambda: no)
            return k.when(is_list, lambda: each(params, clear), lambda: no)

        return k.when(k.is_exactly(options, dict), of_params, lambda: no)

    k.require(each(groups, group))
    k.give(k.incref(k.object(True)))
    return k.finish()


@cache
def power_address() -> int:
    """Address of C's ``pow``, with which ``**`` of floats computes.

    Raises:
        Unsupported: it does so with another one.
    """
    function: Any = CDLL(None).pow
    function.restype, function.argtypes = c_double, (c_double, c_double)
    places = np.arange(1.0, 201.0)  # numbers of all digits, without ``numpy.random``, which takes long to import
    bases, exponents = np.sin(places) ** 2, np.cos(places) ** 2 * 10.0 ** (places % 4)
    for a, b in zip(bases.tolist(), exponents.tolist(), strict=True):
        require(function(a, b) == a**b, "powers of floats are computed otherwise")
    return cast(function, c_void_p).value or 0


def of_steps() -> records.Record:
    """The record of steps."""
    record = records.Record()
    record.put(records.EXTRA, power_address())
    return record
