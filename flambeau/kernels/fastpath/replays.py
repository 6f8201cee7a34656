"""Calls of compiled programs in machine code: what is looked at, run and left behind, row by row of a table.

A program is no machine code of its own. It has a table of rows of eight words, and one function goes through them:

    row      handler, seven operands: addresses of objects and numbers, or places among the call's values
    values   references that the call holds: arguments, their arrays, results. The first becomes the call's result

A handler is a machine function of (values, row), and says whether to go on. Guards are rows like the rest. A row that declines gives the
call back to Python, which decides anew from the start: so no row declines behind one that has changed something. What no row can say is a
row that calls Python.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Self

import numpy as np

from ...core import state
from ...core.arrays.native import NoKernel
from ...core.calls.machine_calls import DECLINED
from ...core.storage import UntypedStorage
from ...core.tape.node import Node
from ...core.tensor import Parameter, Tensor
from ..compiler.language import Value
from .code import FASTCALL, Code, Definition, kept, loaded
from .forms import Form
from .interpreter import BASE, FLAGS, Unsupported, api, half, interpreter, require, word
from .launches import GROUP, NO_COUNTER, SINGLE, address
from .steps import Step

SIZE = 8  # words of a row
ROWS, ROW_COUNT, VALUE_COUNT = range(3)  # words of a table
RESULT, ARGUMENTS, KEYWORDS, FREE = range(4)  # places among the values: the call's result, what it is given, and the first of others
_FAILED, _GO_ON, _DECLINED = range(3)  # answers of a handler
_DICT_KEYS, _KEYS_SIZES = 32, 8  # offsets: of a dictionary's keys, and of the sizes at their head
MOST = 64  # values that a function of Python's is given
USED = 16  # offset of the number of items, of lists, tuples and dictionaries

HANDLERS: dict[str, Callable[[Handler], None]] = {}


class Handler(Step):
    """``f(values, row)``: a handler of rows being written; it goes on where ``write`` ends."""

    def __init__(self, code: Code, name: str):
        super(Form, self).__init__(code, name, "values", "row")
        self.values, self.words = self.operands

    def address(self, place: int) -> Value:
        """An operand that is an address."""
        return self.word(place, element="ptr")

    def value(self, place: Value) -> Value:
        return self.load(self.values, place, "ptr")

    def keep(self, thing: Value, place: Value) -> None:
        """Hand a reference over to the call."""
        self.store(thing, self.values, place, "ptr")

    def owner(self, place: int) -> Value:
        """The object whose address an operand is, or the value at the place that the next one names, where that is null."""
        return self.when(self.exists(self.address(place)), lambda: self.address(place), lambda: self.value(self.word(place + 1)))

    def power(self) -> Value:
        return self.address(SIZE - 1)

    def answer_of(self, answer: int) -> Value:
        return Value(self, f"inttoptr (i64 {answer} to ptr)", "ptr")

    def asked(self) -> Value:
        """Answer of the function that is the first operand to the call's arguments and keywords (a new reference)."""
        given = (self.value(self.i64(place)) for place in (ARGUMENTS, KEYWORDS))
        answer = self.call_c("PyObject_CallFunctionObjArgs", "ptr", self.address(1), *given, self.null)
        self.check(self.exists(answer))
        return answer

    def require_layout(self, array: Value, dtype: int, ndim: int, sizes: int) -> None:
        """Go on if an array has a dtype, and the sizes and strides that stand at an address, which three operands say."""
        self.require(self.is_exactly(array, np.ndarray) & self.same(self.dtype(array), self.address(dtype)))
        count, expected = self.ndim(array), self.address(sizes)
        self.require(count.eq(self.word(ndim)))
        dims, strides = self.dims(array), self.strides(array)

        def compare(i: Value, differs: Value) -> Value:
            size = self.load(dims, i, "i64") ^ self.load(expected, i, "i64")
            return differs | size | (self.load(strides, i, "i64") ^ self.load(expected, i + count, "i64"))

        self.require(self.loop(0, count, compare, carried=(self.i64(0),)).eq(0))

    def root(self, array: Value) -> Value:
        """The array whose memory an array shows; another owner of memory is Python's business."""

        def inside(array: Value) -> Value:
            base = self.field(array, BASE)
            self.require(~self.exists(base) | self.is_exactly(base, np.ndarray))
            return self.exists(base)

        return self.repeat(inside, lambda array: self.field(array, BASE), (array,))


def handler(write: Callable[[Handler], None]) -> Callable[[Handler], None]:
    HANDLERS[write.__name__] = write
    return write


def _written(name: str, code: Code) -> str:
    k = Handler(code, name)
    HANDLERS[name](k)
    k.give(k.answer_of(_GO_ON))
    return k.finish(lambda: k.answer_of(_DECLINED))


# -- guards -----------------------------------------------------------------------------------------------------------------------------
@handler
def word_is(k: Handler) -> None:
    """The word at an address is the second operand: a slot or a variable still has its object, a list as many items."""
    k.require(k.load(k.address(1), 0, "i64").eq(k.word(2)))


@handler
def word_is_set(k: Handler) -> None:
    k.require(k.load(k.address(1), 0, "i64").ne(0))


@handler
def item_is(k: Handler) -> None:
    """A dictionary has a value for a key (or none, where that is null): at the place among its keys where that was, or anywhere.

    Operands: dictionary, value, key, the keys' address, their sizes, the address of the entry: key, value.
    """
    dictionary, wanted, key, keys = k.address(1), k.address(2), k.address(3), k.address(4)

    def there() -> Value:
        sizes = k.field(keys, _KEYS_SIZES, "i32") & 0xFFFFFF
        return sizes.eq(k.cast(k.word(5), "i32"))

    stays = k.when(k.same(k.field(dictionary, _DICT_KEYS), keys), there, lambda: k.const(False, "b1"))

    def entry() -> Value:
        at = k.address(6)
        return k.same(k.load(at, 0, "ptr"), key) & k.same(k.load(at, 1, "ptr"), wanted)

    found = k.when(stays, entry, lambda: k.const(False, "b1"))
    k.case(found, lambda: k.give(k.answer_of(_GO_ON)))
    value = k.call_c("PyDict_GetItemWithError", "ptr", dictionary, key)
    k.when(k.exists(value), lambda: None, lambda: k.check(~k.exists(k.call_c("PyErr_Occurred", "ptr"))))
    k.require(k.same(value, wanted))


@handler
def records_as(k: Handler) -> None:
    """The thread records calls, does not, or is in inference mode, as an operand says."""
    everywhere = k.is_empty(state.without_grad)
    k.require(k.same(k.when(everywhere, lambda: k.object(True), k.grad_word), k.address(1)))


@handler
def says_true(k: Handler) -> None:
    """A function of Python's returns True."""
    said = k.call_c("PyObject_CallNoArgs", "ptr", k.address(1))
    k.check(k.exists(said))
    k.call_c("Py_DecRef", None, said)  # True does not end
    k.require(k.same(said, k.object(True)))


@handler
def given_so_many(k: Handler) -> None:
    k.require(k.field(k.value(k.i64(ARGUMENTS)), USED, "i64").eq(k.word(1)))
    k.require(k.field(k.value(k.i64(KEYWORDS)), USED, "i64").eq(0))


def _given(k: Handler) -> Value:
    """The argument whose number is the first operand."""
    return k.load(k.at(k.value(k.i64(ARGUMENTS)), k.interpreter.tuple_items, "i8"), k.word(1), "ptr")


@handler
def given_is(k: Handler) -> None:
    k.require(k.same(_given(k), k.address(2)))


@handler
def given_twice(k: Handler) -> None:
    """An argument is a tensor that was given before. Operands: number, place."""
    k.require(k.same(_given(k), k.value(k.word(2))))


@handler
def given_float(k: Handler) -> None:
    """An argument is a float of these bits."""
    thing = _given(k)
    k.require(k.is_exactly(thing, float))
    k.require(k.field(thing, 16, "i64").eq(k.word(2)))


@handler
def given_int(k: Handler) -> None:
    k.require(k.integer_of(_given(k)).eq(k.word(2)))


def _keep_tensor(k: Handler, tensor: Value, place: Value) -> None:
    """Keep a tensor, and behind it its array."""
    k.keep(k.incref(tensor), place)
    k.keep(k.incref(k.slot(tensor, Tensor, "_array")), place + 1)


@handler
def given_tensor(k: Handler) -> None:
    """An argument is a tensor of a layout; it is kept.

    Operands: number, place, mark of what requires grad (plus 1: a Parameter), layout.
    """
    tensor, mark = _given(k), k.word(3)
    is_parameter = (mark & 1).ne(0)
    k.require(k.same(k.type_of(tensor), k.pick(is_parameter, k.object(Parameter), k.object(Tensor))))
    wanted = k.emit(f"inttoptr i64 {(mark & -2).text} to ptr", "ptr")
    k.require(k.same(k.slot(tensor, Tensor, "_requires_grad"), wanted))
    k.require_layout(k.slot(tensor, Tensor, "_array"), 4, 5, 6)
    _keep_tensor(k, tensor, k.word(2))


@handler
def given_tensors(k: Handler) -> None:
    """A function of (arguments, keywords) gives a list of so many tensors, which are kept, or None. Operands: function, place, number."""
    found = k.own(
        k.call_c("PyObject_CallFunctionObjArgs", "ptr", k.address(1), k.value(k.i64(ARGUMENTS)), k.value(k.i64(KEYWORDS)), k.null)
    )
    k.check(k.exists(found))

    def take() -> Value:
        items = k.field(found, k.interpreter.list_items)
        k.loop(0, k.word(3), lambda i: _keep_tensor(k, k.load(items, i, "ptr"), k.word(2) + i * 2))
        return k.const(True, "b1")

    fits = k.when(k.is_exactly(found, list), lambda: k.field(found, USED, "i64").eq(k.word(3)), lambda: k.const(False, "b1"))
    taken = k.when(fits, take, lambda: k.const(False, "b1"))
    k.drop(found)
    k.require(taken)


@handler
def values_given(k: Handler) -> None:
    """A function of (arguments, keywords) gives a list of so many values, which are kept, or None. Operands: function, place, number."""
    found = k.own(
        k.call_c("PyObject_CallFunctionObjArgs", "ptr", k.address(1), k.value(k.i64(ARGUMENTS)), k.value(k.i64(KEYWORDS)), k.null)
    )
    k.check(k.exists(found))
    is_list = k.is_exactly(found, list)

    def take() -> None:
        items = k.field(found, k.interpreter.list_items)
        k.loop(0, k.word(3), lambda i: k.keep(k.incref(k.load(items, i, "ptr")), k.word(2) + i))

    k.when(is_list, take)
    k.drop(found)
    k.require(is_list)


@handler
def apart(k: Handler) -> None:
    """No tensors that were given share memory, with each other or with arrays in a table. Operands: place, number, table, its length."""
    count, table = k.word(2), k.address(3)

    def array(i: Value) -> Value:
        return k.root(k.value(k.word(1) + 1 + i * 2))

    def of_one(i: Value) -> None:
        own = array(i)

        def compare(j: Value, met: Value) -> Value:
            return met | k.same(own, k.load(table, j, "ptr"))

        k.require(~k.loop(0, k.word(4), compare, carried=(k.const(False, "b1"),)))
        k.require(~k.loop(0, i, lambda j, met: met | k.same(own, array(j)), carried=(k.const(False, "b1"),)))

    k.loop(0, count, of_one)


@handler
def has_no_gradient(k: Handler) -> None:
    grad = k.slot(k.owner(1), Tensor, "_grad")
    k.require(~k.exists(grad) | k.same(grad, k.object(None)))


@handler
def has_gradient(k: Handler) -> None:
    """A leaf has a gradient of a layout, whose array is kept. Operands: leaf, or the place of one, place for the array or 0, layout."""
    grad = k.slot(k.owner(1), Tensor, "_grad")
    k.require(k.exists(grad))
    k.require(k.is_exactly(grad, Tensor))
    array = k.slot(grad, Tensor, "_array")
    k.require_layout(array, 4, 5, 6)
    k.when(k.word(3).ne(0), lambda: k.keep(k.incref(array), k.word(3)))


# -- steps of optimizers ----------------------------------------------------------------------------------------------------------------
@handler
def numbers_of_step(k: Handler) -> None:
    """Compute the numbers of an optimizer's step. Operands: group, its options, addresses of its counters, their number; ``pow`` last."""
    group, counters, count = k.address(1), k.address(3), k.word(4)
    rate = k.call_c("PyDict_GetItemWithError", "ptr", k.address(2), k.object("lr"))
    k.require(k.exists(rate))
    k.require(k.is_exactly(rate, float))
    kind = k.word(5)

    def number(i: Value) -> Value:
        at = k.load(counters, i, "ptr")
        return k.when(kind.eq(SINGLE), lambda: k.cast(k.load(at, 0, "f32"), "f64"), lambda: k.load(at, 0, "f64"))

    def counted() -> Value:
        first = number(k.i64(0))
        k.loop(1, count, lambda i: k.require(number(i).eq(first)))
        following = first + 1.0
        return k.pick(kind.eq(SINGLE), k.cast(k.cast(following, "f32"), "f64"), following)

    registers = k.read(group, GROUP, "registers", 0, "ptr")
    following = k.when(kind.eq(NO_COUNTER), lambda: k.const(0.0, "f64"), counted)
    k.store(following, registers, 0, "f64")
    k.store(k.field(rate, 16, "f64"), registers, 1, "f64")
    k.compute(group)


@handler
def counters_written(k: Handler) -> None:
    """Operands: group, nothing, addresses of its counters, their number, their kind."""
    count, is_single = k.load(k.read(k.address(1), GROUP, "registers", 0, "ptr"), 0, "f64"), k.word(5).eq(SINGLE)

    def write(i: Value) -> None:
        at = k.load(k.address(3), i, "ptr")
        k.when(is_single, lambda: k.store(k.cast(count, "f32"), at, 0, "f32"), lambda: k.store(count, at, 0, "f64"))

    k.loop(0, k.word(4), write)


@handler
def time_taken(k: Handler) -> None:
    """Read the clock of writes. Operand: place."""
    k.keep(k.next_of_clock(), k.word(1))


@handler
def storages_changed(k: Handler) -> None:
    """Count a write to each storage of a table. Operands: table, number, place of the time."""
    now = k.value(k.word(3))
    k.loop(0, k.word(2), lambda i: k.note_change(k.load(k.address(1), i, "ptr"), now))


# -- launches ---------------------------------------------------------------------------------------------------------------------------
@handler
def arena_taken(k: Handler) -> None:
    """Take the last arena of a plan's free ones. Operands: list, place."""
    free = k.address(1)
    last = k.field(free, USED, "i64") - 1
    k.require(last >= 0)
    arena = k.own(k.incref(k.load(k.field(free, k.interpreter.list_items), last, "ptr")))
    k.check(k.call_c("PyList_SetSlice", "i32", free, last, last + 1, k.null).eq(0))
    k.keep(k.disown(arena), k.word(2))


@handler
def arena_back(k: Handler) -> None:
    """Put an arena back among the free ones, if there are not many. Operands: list, place, most."""
    free = k.address(1)

    def put() -> None:
        k.check(k.call_c("PyList_Append", "i32", free, k.value(k.word(2))).eq(0))

    k.when(k.field(free, USED, "i64") < k.word(3), put)


@handler
def array_made(k: Handler) -> None:
    """Make a row-major array. Operands: dtype, number of dimensions, sizes, place."""
    k.keep(k.new_array(k.address(1), k.word(2), k.address(3)), k.word(4))


@handler
def value_made(k: Handler) -> None:
    """Keep what a function of Python's gives. Operands: function, place."""
    made = k.call_c("PyObject_CallNoArgs", "ptr", k.address(1))
    k.check(k.exists(made))
    k.keep(made, k.word(2))


@handler
def view_made(k: Handler) -> None:
    """Make an array over another's memory. Operands: layout (three), offset in bytes, place of the other, place."""
    array, dims = k.value(k.word(5)), k.address(3)
    dtype, data, flags = k.incref(k.address(1)), k.at(k.data(array), k.word(4), "i8"), k.field(array, FLAGS, "i32")
    count, steps = k.word(2), k.at(dims, k.word(2), "i64")
    given = (k.object(np.ndarray), dtype, k.cast(count, "i32"), dims, steps, data, flags, k.null)
    made = k.call_c("PyArray_NewFromDescr", "ptr", *given)
    k.check(k.exists(made))
    k.own(made)
    k.check(k.call_c("PyArray_SetBaseObject", "i32", made, k.incref(array)).eq(0))
    k.keep(k.disown(made), k.word(6))


@handler
def value_is(k: Handler) -> None:
    """Keep an object. Operands: object, place."""
    k.keep(k.incref(k.address(1)), k.word(2))


@handler
def value_shared(k: Handler) -> None:
    """Keep a value at another place, too. Operands: place, the other."""
    k.keep(k.incref(k.value(k.word(1))), k.word(2))


@handler
def launched(k: Handler) -> None:
    """Run a plan's list of launches.

    Operands: place of the arena, that of the first array, where the pool's function and record stand, offset of the list's address, how
    many arrays there are, and a function that goes on where a look has stopped the list: of (step, arena, *arrays), True if that could be.
    """
    given = k.scratch(MOST + 2, "ptr")
    block = k.call_c("PyLong_AsLong", "i64", k.load(k.at(k.value(k.word(1)), k.word(4), "i8"), 0, "ptr"))
    pool = k.address(3)
    address = k.emit(f"inttoptr i64 {block.text} to ptr", "ptr")
    arrays = k.at(k.values, k.word(2), "ptr")
    stop = k.call_c(k.load(pool, 0, "ptr"), "i64", k.load(pool, 1, "ptr"), address, arrays)
    k.check(~k.exists(k.call_c("PyErr_Occurred", "ptr")))

    def go_on() -> None:
        number = k.own(k.call_c("PyLong_FromSsize_t", "ptr", stop))
        k.check(k.exists(number))
        k.store(number, given, 0, "ptr")
        k.store(k.value(k.word(1)), given, 1, "ptr")
        k.loop(0, k.word(5), lambda i: k.store(k.load(arrays, i, "ptr"), given, i + 2, "ptr"))
        done = k.call_c("PyObject_Vectorcall", "ptr", k.address(6), given, k.word(5) + 2, k.null)
        k.drop(number)
        k.check(k.exists(done))
        k.call_c("Py_DecRef", None, done)
        k.require(k.same(done, k.object(True)))

    k.when(stop.ne(0), go_on)


# -- what a call leaves behind ----------------------------------------------------------------------------------------------------------
@handler
def tensor_made(k: Handler) -> None:
    """Make a leaf around an array. Operands: place of the array, place, mark."""
    made = k.new_tensor(k.incref(k.value(k.word(1))))
    k.fill(made, Tensor, _node=k.incref(k.object(None)), _requires_grad=k.incref(k.address(3)))
    k.keep(k.disown(made), k.word(2))


@handler
def gradient_put(k: Handler) -> None:
    """Give a leaf a gradient, or none. Operands: leaf, or the place of one, place of the gradient, or 0."""
    leaf, place = k.owner(1), k.word(3)
    grad = k.incref(k.when(place.ne(0), lambda: k.value(place), lambda: k.object(None)))
    before = k.slot(leaf, Tensor, "_grad")
    k.put(grad, leaf, k.interpreter.slot(Tensor, "_grad"))
    k.call_c("Py_DecRef", None, before)  # or null


@handler
def history_put(k: Handler) -> None:
    """Give a tensor a node that keeps nothing. Operands: place of the tensor, class of the node, edges."""
    tensor = k.value(k.word(1))
    node = k.own(k.new(k.address(2), Node))
    array, none = k.slot(tensor, Tensor, "_array"), k.object(None)
    k.fill(node, Node, edges=k.incref(k.address(3)), saved=k.incref(none), attrs=k.incref(none))
    k.finish_node(node, array, k.dtype(array))
    for name, value in (("_node", k.disown(node)), ("_requires_grad", k.incref(k.object(True)))):
        before = k.slot(tensor, Tensor, name)
        k.put(value, tensor, k.interpreter.slot(Tensor, name))
        k.call_c("Py_DecRef", None, before)


@handler
def storage_changed(k: Handler) -> None:
    """Count a write to a tensor, or to its gradient.

    Operands: tensor, or the place of one, whether it is the gradient, function of a tensor.
    """
    owner = k.owner(1)
    tensor = k.when(k.word(3).ne(0), lambda: k.slot(owner, Tensor, "_grad"), lambda: owner)
    storage = k.slot(tensor, Tensor, "_storage")

    def count() -> None:
        now = k.own(k.next_of_clock())
        k.note_change(storage, now)
        k.drop(now)

    def ask() -> None:
        done = k.call_c("PyObject_CallOneArg", "ptr", k.address(4), tensor)
        k.check(k.exists(done))
        k.call_c("Py_DecRef", None, done)

    k.when(k.is_exactly(storage, UntypedStorage), count, ask)


@handler
def called(k: Handler) -> None:
    """Call a function with a value. Operands: function, place."""
    done = k.call_c("PyObject_CallOneArg", "ptr", k.address(1), k.value(k.word(2)))
    k.check(k.exists(done))
    k.call_c("Py_DecRef", None, done)


@handler
def result_is(k: Handler) -> None:
    k.keep(k.incref(k.owner(1)), k.i64(RESULT))


@handler
def result_tuple(k: Handler) -> None:
    """The result is a tuple of values. Operands: table of their places, their number."""
    made = k.call_c("PyTuple_New", "ptr", k.word(2))
    k.check(k.exists(made))
    items = k.at(made, k.interpreter.tuple_items, "i8")
    k.loop(0, k.word(2), lambda i: k.store(k.incref(k.value(k.load(k.address(1), i, "i64"))), items, i, "ptr"))
    k.keep(made, k.i64(RESULT))


@handler
def result_of(k: Handler) -> None:
    """The result is what a function gives for values, at most ``MOST``. Operands: function, table of their places, their number."""
    count, things = k.word(3), k.scratch(MOST, "ptr")
    k.loop(0, count, lambda i: k.store(k.value(k.load(k.address(2), i, "i64")), things, i, "ptr"))
    made = k.call_c("PyObject_Vectorcall", "ptr", k.address(1), things, count, k.null)
    k.check(k.exists(made))
    k.keep(made, k.i64(RESULT))


@handler
def result_asked(k: Handler) -> None:
    """The result is what a function of (tensors, arguments, keywords) gives; one that is no result says that Python has to decide.

    Operands: function, place of the tensors, their number, a table of what is no result, its length.
    """
    count = k.word(3)
    given = k.own(k.call_c("PyList_New", "ptr", count))
    k.check(k.exists(given))
    items = k.field(given, k.interpreter.list_items)
    k.loop(0, count, lambda i: k.store(k.incref(k.value(k.word(2) + i * 2)), items, i, "ptr"))
    arguments, keywords = (k.value(k.i64(place)) for place in (ARGUMENTS, KEYWORDS))
    made = k.call_c("PyObject_CallFunctionObjArgs", "ptr", k.address(1), given, arguments, keywords, k.null)
    k.drop(given)
    k.check(k.exists(made))
    k.keep(made, k.i64(RESULT))
    table = k.address(4)
    is_none = k.loop(0, k.word(5), lambda i, met: met | k.same(made, k.load(table, i, "ptr")), carried=(k.const(False, "b1"),))
    k.require(~is_none)


# -- a call -----------------------------------------------------------------------------------------------------------------------------
def replayed(code: Code) -> str:
    """``f(arguments, keywords)``, a tuple and a dictionary: the program's result, or ``DECLINED``."""
    k = Form(code, "replayed")
    k.require_count(2)
    k.require_no_mode()
    k.require(k.is_empty(state.autocasting) & k.is_empty(state.profiling))
    count = k.word(VALUE_COUNT)
    values = k.emit(f"alloca ptr, i64 {count.text}, align 16", "ptr")
    k.loop(0, count, lambda i: k.store(k.null, values, i, "ptr"))
    for place, argument in ((ARGUMENTS, 0), (KEYWORDS, 1)):
        k.store(k.incref(k.argument(argument)), values, k.i64(place), "ptr")
    rows, last = k.word(ROWS, element="ptr"), k.word(ROW_COUNT)

    def step(i: Value, _: Value) -> tuple[Value, Value]:
        row = k.at(rows, i * SIZE, "i64")
        return i + 1, k.call_c(k.load(row, 0, "ptr"), "i64", values, row)

    _, answer = k.repeat(lambda i, answer: (i < last) & answer.eq(_GO_ON), step, (k.i64(0), k.i64(_GO_ON)))
    result = k.load(values, RESULT, "ptr")
    done = k.when(answer.eq(_GO_ON), lambda: k.incref(result), lambda: k.null)
    k.loop(0, count, lambda i: k.call_c("Py_DecRef", None, k.load(values, i, "ptr")))
    k.case(answer.eq(_GO_ON), lambda: k.give(done))
    k.case(answer.eq(_FAILED), lambda: k.give(k.null))
    k.decline()
    return k.finish(lambda: k.incref(k.object(DECLINED)))


# -- tables -----------------------------------------------------------------------------------------------------------------------------
class _Words(np.ndarray):
    """The words of a table, which machine code has as ``self``, and what they point to."""

    kept: list[Any]


class Table:
    """Rows being put together.

    Args:
        addresses: of the handlers and of ``replayed``, by name.
    Attributes:
        places: how many values there are.
    """

    def __init__(self, addresses: dict[str, int]):
        self._addresses = addresses
        self._rows: list[list[int]] = []
        self._kept: list[Any] = []
        self.places = FREE

    def place(self, count: int = 1) -> int:
        """Places for more values: the first of them."""
        self.places += count
        return self.places - count

    def of(self, thing: Any) -> int:
        """Address of an object, which is kept."""
        self._kept.append(thing)
        return id(thing)

    def numbers(self, values: Sequence[int]) -> int:
        """Address of numbers."""
        self._kept.append(made := np.array(values, np.int64))
        return address(made)

    def put(self, name: str, *operands: int) -> int:
        """Put a row; its number."""
        row = [self._addresses[name], *operands]
        self._rows.append(row + [0] * (SIZE - len(row)))
        return len(self._rows) - 1

    def slot_is(self, owner: Any, kind: type, name: str, value: Any) -> int:
        """A slot of an object has this value."""
        return self.put("word_is", self.of(owner) + interpreter().slot(kind, name), self.of(value))

    def has_so_many(self, things: Any, count: int) -> None:
        """A list or a dictionary has so many items."""
        require(isinstance(things, list | dict), "no container whose number of items is known")
        self.put("word_is", self.of(things) + USED, count)

    def item_is(self, dictionary: dict[Any, Any], key: str, value: Any) -> None:
        """A dictionary has this value for a key, or does not have the key if it has not now."""
        require(isinstance(dictionary, dict), "no dictionary")
        if key not in dictionary:
            self.put("item_is", self.of(dictionary), 0, self.of(key))
            return
        key = next((each for each in dictionary if each.__class__ is str and each == key), key)
        self.put("item_is", self.of(dictionary), self.of(value), self.of(key), *_entry_of(dictionary, key, value))

    def layout(self, dtype: Any, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int, int]:
        """Operands that say how an array lies."""
        return self.of(dtype), len(shape), self.numbers([*shape, *strides])

    def copy(self) -> Self:
        """Another table of the same rows."""
        made = copy.copy(self)
        made._rows, made._kept = list(self._rows), list(self._kept)
        return made

    def take(self, other: Table) -> None:
        """Become another table, a longer copy of this one."""
        self._rows, self._kept, self.places = other._rows, other._kept, other.places

    def function(self) -> tuple[Any, np.ndarray]:
        """The built-in function of (arguments, keywords), and the rows."""
        rows = np.array(self._rows, np.int64)
        words = np.array([address(rows), len(rows), self.places], np.int64).view(_Words)
        words.kept = [*self._kept, rows]
        definition = _definition(self._addresses["replayed"])
        new = api.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        return new(ctypes.addressof(definition), words, None), rows


@cache
def _definition(function: int) -> Definition:
    return Definition(b"replayed", function, FASTCALL, None)


_ENTRIES = 32  # bytes of the head of a dictionary's keys
_STRINGS, _ANY_KEYS = 1, 0  # kinds of keys: entries of key and value, or of hash, key and value


def _entry_of(dictionary: dict[Any, Any], key: str, value: Any) -> tuple[int, int, int]:
    """Address of a dictionary's keys, their sizes, and address of an entry; zeros where it is not found where it is expected."""
    keys = word(id(dictionary) + _DICT_KEYS)
    sizes = half(keys + _KEYS_SIZES) & 0xFFFFFF
    index_bytes, kind = sizes >> 8 & 0xFF, sizes >> 16
    if word(id(dictionary) + _DICT_KEYS + 8) or kind not in (_STRINGS, _ANY_KEYS) or index_bytes > 32:
        return 0, 0, 0
    step, first = (16, 0) if kind == _STRINGS else (24, 8)
    for i, (own, its) in enumerate(dictionary.items()):
        if own is key and its is value:
            at = keys + _ENTRIES + (1 << index_bytes) + i * step + first  # while nothing was removed
            return (keys, sizes, at) if word(at) == id(key) and word(at + 8) == id(value) else (0, 0, 0)
    return 0, 0, 0


def _check_dictionaries() -> None:
    """See that entries lie where they are looked for.

    Raises:
        Unsupported: they do not.
    """
    value = object()
    lists: list[list[Any]] = [["a", "b", "c"], ["a", 1, "c"], [str(i) for i in range(300)]]
    for keys in lists:
        probe: dict[Any, Any] = dict.fromkeys(keys, 0)
        probe[keys[2]] = value
        require(_entry_of(probe, keys[2], value)[0] and word(id(probe) + USED) == len(keys), "dictionaries lie otherwise")


def writers() -> list[Callable[[Code], str]]:
    """Functions that write all of them."""
    return [replayed, *[partial(_written, name) for name in HANDLERS]]


def addresses(compiles: bool = True) -> dict[str, int] | None:
    """Addresses of ``replayed`` and of the handlers, by name; none where there is no machine code here.

    Args:
        compiles: whether to compile what is not on disk; None is the result where it is not there.
    """
    try:
        _check_dictionaries()
        found = loaded("compiled calls", writers()) if compiles else kept("compiled calls")
    except (Unsupported, NoKernel, ImportError, OSError):  # no such interpreter, no compiler, no memory that may be executed
        return {}
    return None if found is None else found[1]
