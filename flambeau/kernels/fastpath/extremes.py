"""Forms of calls that find the largest or smallest element: of all, or along a dimension, with its place. NaN counts as both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.calls.registry import primitive
from ...core.calls.return_types import named_result
from ...core.tape.node import Node, Output
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .along import Along
from .code import Code
from .objects import ALLOCATE
from .records import DTYPES, F32, F64, I64

NUMBERS = (("f32", F32), ("f64", F64), ("i64", I64))
_LARGEST, _CLASS = records.EXTRA, records.EXTRA + 1  # whether it is the largest, and the class of a named result
MOST = 256


class Extreme(Along):
    """A form over the numbers of row-major memory."""

    def begin(self, count: int) -> tuple[Value, Value]:
        """The first argument's array, and the bits of the edges to record."""
        x, bits = self.enter(count)
        a = self.array_of(x)
        self.place = self.place_of(self.dtype(a), [k for _, k in NUMBERS])
        self.elements = self.size(a)
        self.require((self.elements > 0) & (self.elements < self.word(records.LIMIT)))
        return a, bits

    def find(self, a: Value, element: str, begin: Value, length: Value, step: Value) -> tuple[Value, Value]:
        """The extreme of so many numbers, and its place: the first of equal ones, or the first NaN."""
        data, largest = self.data(a), self.word(_LARGEST).ne(0)
        first = self.load(data, begin, element)

        def compare(i: Value, best: Value, at: Value) -> tuple[Value, Value]:
            value = self.load(data, begin + i * step, element)
            better = self.pick(largest, value > best, value < best)
            if value.is_float:
                better = (better | value.is_nan()) & ~best.is_nan()
            return self.pick(better, value, best), self.pick(better, i, at)

        best, at = self.loop(1, length, compare, carried=(first, self.i64(0)))
        return best, at

    def each(self, a: Value, take: Callable[[str, Value, Value, Value], None]) -> None:
        """``take(element, number, value, place)`` of each extreme along the dimension."""
        for element, k in NUMBERS:

            def all_of(element: str = element) -> None:
                def one(number: Value) -> None:
                    begin = (number // self.inner) * (self.length * self.inner) + number % self.inner
                    take(element, number, *self.find(a, element, begin, self.length, self.inner))

                self.loop(0, self.outer * self.inner, one)

            self.when(self.place.eq(k), all_of)


def position(code: Code) -> str:
    """``argmax(x, dim, keepdim)``."""
    k = Extreme(code, "position")
    a, _ = k.begin(3)
    dim, keepdim = k.argument(1), k.flag(k.argument(2))
    int64 = k.object(DTYPES[I64])

    def of_all() -> None:
        k.require(~keepdim)
        r = k.new_array(int64, k.i64(0), k.null)
        for element, place in NUMBERS:

            def find(element: str = element) -> None:
                k.store(k.find(a, element, k.i64(0), k.elements, k.i64(1))[1], k.data(r), 0, "i64")

            k.when(k.place.eq(place), find)
        k.answer_new(r, k.i64(0))

    k.case(k.same(dim, k.object(None)), of_all)
    k.require(k.ndim(a) > 0)
    k.along(a, k.index(dim, k.ndim(a)), keepdim)
    r = k.new_array(int64, k.remaining, k.left)
    at = k.data(r)
    k.each(a, lambda _, number, value, place: k.store(place, at, number, "i64"))
    k.answer_new(r, k.i64(0))
    return k.finish()


def extreme_of_all(code: Code) -> str:
    """``max(x)``."""
    k = Extreme(code, "extreme_of_all")
    a, bits = k.begin(1)
    r = k.new_array(k.dtype(a), k.i64(0), k.null)
    for element, place in NUMBERS:

        def find(element: str = element) -> None:
            k.store(k.find(a, element, k.i64(0), k.elements, k.i64(1))[0], k.data(r), 0, element)

        k.when(k.place.eq(place), find)
    k.answer_new(r, bits)
    return k.finish()


class Named(Extreme):
    """A form whose result is a named tuple of tensors."""

    kept_dim: Value

    def answer_named(self, arrays: list[Value], bits: Value) -> None:
        """Return a tuple of tensors around new arrays, recorded; those of integers are nobody's business."""
        for array in arrays[1:]:
            self.own(array)
        made = [self.new_tensor(arrays[0])]
        for array in arrays[1:]:
            self.disown(array)
            made.append(self.new_tensor(array))
        none, inferred = self.object(None), self.infers()

        def dtype(array: Value) -> Value:
            return self.incref(self.dtype(array))

        def record() -> None:
            node = self.own(self.new(self.node_class(), Node))
            self.fill(node, Node, edges=self._edges(bits))
            self.fill(node, Node, saved=self._saved_of(made, arrays, bits))
            self.fill(node, Node, attrs=self._attributes())
            self.fill(node, Node, shape=self.tuple_in_turn([partial(self.shape, array) for array in arrays]))
            self.fill(node, Node, dtype=self.tuple_in_turn([partial(dtype, array) for array in arrays]))
            self.fill(node, Node, hooks=self.incref(none), seq=self.next_of_clock())
            output = self.own(self.new(self.object(Output)))
            self.fill(output, Output, node=self.incref(node), index=self.incref(self.object(0)))
            self.fill(made[0], Tensor, _node=self.disown(output), _requires_grad=self.incref(self.object(True)))
            self.call_c("Py_DecRef", None, self.disown(node))

        self.when(bits.ne(0), record, lambda: self.fill_unrecorded(made[0], inferred))
        for tensor in made[1:]:
            self.fill_unrecorded(tensor, inferred)
        kind = self.word(_CLASS, element="ptr")
        allocate = self.slot_function(tuple, ALLOCATE)
        named = self.call_c(allocate, "ptr", kind, self.i64(len(made)))
        self.check(self.exists(named))
        for place, tensor in enumerate(made):
            self.put(self.disown(tensor), named, self.interpreter.tuple_items + 8 * place)
        self.call_c("Py_DecRef", None, self.disown(self.kept_dim))
        self.give(named)

    def keep_dim(self, dim: Value, is_counted: Value, place: int, count: int) -> None:
        """Let nodes keep the dimension as it was given, or counted from the front, as the Python wrapper does."""
        self.kept_dim = self.keep_number(place, dim, count, is_counted)

    def tuple_in_turn(self, items: list[Callable[[], Value]]) -> Value:
        """A tuple of what ``items`` make, which may fail."""
        made = self.own(self.call_c("PyTuple_New", "ptr", self.i64(len(items))))
        self.check(self.exists(made))
        for place, item in enumerate(items):
            self.put(item(), made, self.interpreter.tuple_items + 8 * place)
        return self.disown(made)

    def _saved_of(self, made: list[Value], arrays: list[Value], bits: Value) -> Value:
        """The places, which are all that nodes of such operations keep: the second result."""
        number = self.object(1)

        def triple() -> Value:
            storage = self.new_storage(made[1], arrays[1])
            return self.tuple(lambda: self.incref(arrays[1]), lambda: self.incref(storage), lambda: self.incref(number))

        return self.tuple_in_turn([triple])


def extreme_along(code: Code) -> str:
    """``max(x, dim, keepdim, other)`` with ``dim`` an int and no ``other``."""
    k = Named(code, "extreme_along")
    a, bits = k.begin(4)
    k.require(k.same(k.argument(3), k.object(None)) & (k.ndim(a) > 0))
    keepdim = k.flag(k.argument(2))
    dim = k.index(k.argument(1), k.ndim(a))
    k.along(a, dim, keepdim)
    exact = keepdim | dim.eq(k.ndim(a) - 1) | k.ndim(a).ne(2)  # else the Python wrapper's zeros may have the other sign
    for element, place in NUMBERS[:2]:

        def signed(element: str = element) -> None:
            def one(number: Value) -> None:
                value, _ = k.find(a, element, number, k.length, k.inner)
                k.require(value.ne(0) & ~value.is_nan())

            k.loop(0, k.inner, one)

        k.when(~exact & k.place.eq(place), signed)
    k.keep_dim(dim, keepdim | k.ndim(a).ne(2), 1, 4)
    values = k.own(k.new_array(k.dtype(a), k.remaining, k.left))
    places = k.new_array(k.object(DTYPES[I64]), k.remaining, k.left)
    k.disown(values)

    def take(element: str, number: Value, value: Value, place: Value) -> None:
        k.store(value, k.data(values), number, element)
        k.store(place, k.data(places), number, "i64")

    k.each(a, take)
    k.answer_named([values, places], bits)
    return k.finish()


def of_positions(op: Any) -> records.Record:
    """The record of ``argmax`` or ``argmin``."""
    return _of(op, op.name == "argmax")


def of_extremes(op: Any) -> records.Record:
    """The record of ``max`` or ``min`` of all elements."""
    record = _of(op, op.name == "_max_of_all")
    record.put_history(op, {name: k for k, name in enumerate(op.names)})
    return record


def of_extremes_along(op: Any) -> records.Record:
    """The record of ``max`` or ``min`` along a dimension.

    Raises:
        Unfit: nodes keep something else than the places.
    """
    along = primitive(f"_{op.name}_along")
    record = _of(along, op.name == "max")
    put_named(record, along)
    return record


def put_named(record: records.Record, op: Any) -> None:
    """Tell what is recorded of an operation whose second result are places, and the class of its results.

    Raises:
        Unfit: nodes keep something else than the places.
    """
    if [(item.source, item.position) for item in op.node.tensors] != [("result", 1)]:
        raise records.Unfit(op.name)
    record.put_edges(op, {name: k for k, name in enumerate(op.names)})
    record.keep(_CLASS, named_result(op.result_name, op.returns or ()))


def _of(op: Any, is_largest: bool) -> records.Record:
    record = records.Record()
    record.put(_LARGEST, int(is_largest))
    record.put_limit(op, MOST + 1)
    return record
