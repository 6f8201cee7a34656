"""The forms of calls that machine code does: each is one function for all operations of that form, which differ by their records.

So an operation costs no compiling. What computes is what the Python wrappers call, NumPy's own loops among it: results are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core import state
from ...core.dtype import BY_NUM
from ...core.shape import Size
from ...core.storage import UntypedStorage
from ...core.tape.node import INHERITED, Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .interpreter import DATA, FLAGS, WRITEABLE
from .objects import Function
from .records import BOOL, DTYPES, F32, F64, I64

SIZED = ((4, "i32"), (8, "i64"), (1, "i8"))  # bytes of elements, and as what they are copied
_LARGEST = 3e38
_UNUSUAL_BIT = 2 * records.MOST  # beyond those of operands


class Form(Function):
    """``f(record, arguments, count)`` of a form."""

    def __init__(self, code: Code, name: str):
        super().__init__(code, name, "self", "given", "count")
        record, self.given, _ = self.operands  # an array of words, the arguments, their number
        self.words = self.field(record, DATA)

    def word(self, place: int, offset: Any = 0, element: str = "i64") -> Value:
        return self.load(self.at(self.words, place, "i64"), offset, element)

    def argument(self, place: Any) -> Value:
        return self.load(self.given, place, "ptr")

    def require_count(self, count: int | Value) -> None:
        text = count.text if isinstance(count, Value) else count
        self.require(self.same(self.operands[2], self.emit(f"inttoptr i64 {text} to ptr", "ptr")))

    # -- before -------------------------------------------------------------------------------------------------------------
    def enter(self, count: int | Value, place: int = 0) -> tuple[Value, Value]:
        """The tensor at a place among so many arguments, and the bits of ``needed``; no mode is on."""
        self.require_count(count)
        x = self.argument(place)
        self.require(self.is_plain(x))
        self.require_no_mode()
        return x, self.needed()

    def needed(self) -> Value:
        """Bits of the edges to operands that require grad, if the call is to be recorded. Nothing may have been allocated yet."""

        def step(i: Value, bits: Value) -> Value:
            operand = self.argument(self.word(records.EDGES, i + 1))

            def ask() -> Value:
                mark = self.slot(operand, Tensor, "_requires_grad")
                needs, inherits, infers = (self.same(mark, self.object(each)) for each in (True, INHERITED, state.INFERENCE))
                self.require(needs | inherits | infers | self.same(mark, self.object(False)))
                return (self.cast(needs | inherits, "i64") << i) | (self.cast(inherits | infers, "i64") << _UNUSUAL_BIT)

            return bits | self.when(self.is_plain(operand), ask, lambda: self.i64(0))

        found = self.loop(0, self.word(records.SEEN), step, carried=(self.i64(0),))
        bits = found & ((self.i64(1) << self.word(records.EDGES)) - 1)
        recorded = self.recording(bits.ne(0))
        # tensors of inference mode must not be saved, and the edges of views that were made without grad mode are the wrapper's
        self.require(~recorded | (found < 1 << _UNUSUAL_BIT))
        return self.pick(recorded, bits, self.i64(0))

    def any_array_of(self, tensor: Value) -> Value:
        """The array of a tensor, in the host's memory (borrowed)."""
        array = self.slot(tensor, Tensor, "_array")
        self.require(self.is_exactly(array, np.ndarray))
        return array

    def array_of(self, tensor: Value) -> Value:
        """The array of a tensor, in the host's memory and row-major (borrowed)."""
        array = self.any_array_of(tensor)
        self.require(self.is_row_major(array))
        return array

    def small(self, array: Value) -> tuple[Value, Value]:
        """``measured``, of few elements."""
        n, no_short = self.measured(array)
        self.require(n < self.word(records.LIMIT))
        return n, no_short

    def measured(self, array: Value) -> tuple[Value, Value]:
        """The number of elements, and whether no dimension is shorter than 2."""
        dims = self.dims(array)

        def step(i: Value, n: Value, short: Value) -> tuple[Value, Value]:
            size = self.load(dims, i, "i64")
            return n * size, short | self.cast(size < 2, "i64")

        n, short = self.loop(0, self.ndim(array), step, carried=(self.i64(1), self.i64(0)))
        return n, short.eq(0)

    def integer_of(self, thing: Value) -> Value:
        """The value of what must be exactly an int, and of 64 bits."""
        self.require(self.is_exactly(thing, int))
        overflow = self.scratch(1, "i32")
        value = self.call_c("PyLong_AsLongAndOverflow", "i64", thing, overflow)
        self.require(self.load(overflow, 0, "i32").eq(0))
        return value

    def index(self, thing: Value, size: Value) -> Value:
        """A place among ``size``, counted from the front; one out of range is the Python wrapper's."""
        value = self.integer_of(thing)
        self.require((value < size) & (value >= -size))
        return self.pick(value < 0, value + size, value)

    def keep_number(self, place: int, value: Value, count: int, wanted: Value | None = None) -> Value:
        """Let nodes keep a number (owned) in the place of one of ``count`` arguments, where that is ``wanted``."""
        number = self.own(self.call_c("PyLong_FromSsize_t", "ptr", value))
        self.check(self.exists(number))
        given = self.scratch(count, "ptr")
        for k in range(count):
            thing = self.argument(k)
            kept = number if wanted is None else self.pick(wanted, number, thing)
            self.store(kept if k == place else thing, given, k, "ptr")
        self.given = given
        return number

    def sequence(self, thing: Value) -> tuple[Value, Value]:
        """Address of the first item of what must be a list or a tuple, and their number."""
        is_list = self.is_exactly(thing, list)
        self.require(is_list | self.is_exactly(thing, tuple) | self.is_exactly(thing, Size))
        inside = self.at(thing, self.interpreter.tuple_items, "i8")
        return self.when(is_list, lambda: self.field(thing, self.interpreter.list_items), lambda: inside), self.field(thing, 16, "i64")

    # -- after --------------------------------------------------------------------------------------------------------------
    def answer(self, made: Value, array: Value, bits: Value, is_inference: Value | None = None) -> None:
        """Record the call of which a tensor (owned) is the result, if there are bits, and return it.

        Args:
            is_inference: whether the tensor is one of inference mode, if that does not follow from the thread's mode.
        """

        def record() -> None:
            node = self._node(made, array, bits)
            self.fill(made, Tensor, _node=node, _requires_grad=self.incref(self.object(True)))

        self.when(bits.ne(0), record, lambda: self.fill_unrecorded(made, self.infers() if is_inference is None else is_inference))
        self.disown(made)
        for value in self.owned:
            self.call_c("Py_DecRef", None, value)
        self.give(made)

    def fill_unrecorded(self, made: Value, is_inference: Value) -> None:
        """Fill the history of a tensor that is not recorded."""
        self.fill(made, Tensor, _node=self.incref(self.object(None)), _requires_grad=self.inference_mark(is_inference))

    def answer_new(self, array: Value, bits: Value) -> None:
        """Return a tensor around a new array, recorded."""
        self.answer(self.new_tensor(array), array, bits)

    def storage_to_write(self, x: Value) -> Value:
        """The storage, or None, of a tensor whose writes are nobody else's business."""
        storage = self.slot(x, Tensor, "_storage")
        self.require(self.same(storage, self.object(None)) | self.is_exactly(storage, UntypedStorage))  # others tell restricted views
        return storage

    def require_may_be_written(self, x: Value) -> None:
        """Go on unless ``x`` was made in inference mode, which this thread is not in."""
        self.require(self.when(self.is_inference(x), self.infers, lambda: self.const(True, "b1")))

    def require_writable(self, x: Value) -> tuple[Value, Value]:
        """The row-major array of ``x``, which this call may write to without a record, and its storage or None."""
        self.require(~self.recording(self.requires_grad(x, may_be_inference=True)))
        self.require_may_be_written(x)
        a = self.array_of(x)
        self.require((self.field(a, FLAGS, "i32") & WRITEABLE).ne(0))
        return a, self.storage_to_write(x)

    def require_fitting(self, thing: Value) -> None:
        """Go on unless it is a float that float32 may not have: such numbers are refused, or not."""

        def fits() -> None:
            value = self.field(thing, 16, "f64")
            self.require((self.abs(value) <= _LARGEST) | (value - value).ne(0))  # the difference of what is not finite is NaN

        self.when(self.is_exactly(thing, float), fits)

    def write_to(self, x: Value, storage: Value, arrays: Sequence[Value], compute: Callable[[], None]) -> None:
        """Write to the memory of ``x``, whose storage may be None yet; the arrays are kept until that is done."""
        none = self.object(None)
        kept = [self.own(self.incref(array)) for array in arrays]
        storage = self.when(self.same(storage, none), lambda: self.new_storage(x, self.slot(x, Tensor, "_array")), lambda: storage)
        kept.append(self.own(self.incref(storage)))
        self.write(storage, compute)
        self.drop(*kept)

    def node_class(self) -> Value:
        return self.word(records.NODE, element="ptr")

    def _node(self, made: Value, array: Value, bits: Value) -> Value:
        node = self.own(self.new(self.node_class(), Node))
        self.fill(node, Node, edges=self._edges(bits))
        self.fill(node, Node, saved=self._saved(made, array, bits))
        shared = self.word(records.ATTRS, element="ptr")
        self.fill(node, Node, attrs=self.when(self.exists(shared), lambda: self.incref(shared), self._attributes))
        self.finish_node(node, array, self.dtype(array))
        return self.disown(node)

    def _tuple(self, count: Value, item: Callable[[Value], Value]) -> Value:
        """A tuple of what ``item`` gives for each place (new references)."""
        made = self.own(self.call_c("PyTuple_New", "ptr", count))
        self.check(self.exists(made))
        items = self.at(made, self.interpreter.tuple_items, "i8")
        self.loop(0, count, lambda i: self.store(item(i), items, i, "ptr"))
        return self.disown(made)

    def _edges(self, bits: Value) -> Value:
        def edge(i: Value) -> Value:
            tensor = self.argument(self.word(records.EDGES, i + 1))
            none = self.object(None)
            return self.when(((bits >> i) & 1).ne(0), lambda: self.edge(tensor), lambda: self.incref(none))

        return self._tuple(self.word(records.EDGES), edge)

    def _saved(self, made: Value, array: Value, bits: Value) -> Value:
        def item(i: Value) -> Value:
            word = self.word(records.SAVED, i + 1)
            is_needed = ((word >> records.NEEDED) & bits).ne(0)
            code, none = word & 0xFF, self.object(None)

            def result() -> Value:
                storage = self.new_storage(made, array)
                triple = self.call_c("PyTuple_New", "ptr", self.i64(3))
                self.check(self.exists(triple))
                for k, thing in enumerate((array, storage, none)):
                    self.put(self.incref(thing), triple, self.interpreter.tuple_items + 8 * k)
                return triple

            def argument() -> Value:
                return self.incref(self.pick(is_needed, self.argument((word >> records.PLACE) & 0xFF), none))

            return self.when(code.eq(records.RESULT) & is_needed, result, argument)

        return self._tuple(self.word(records.SAVED), item)

    def _attributes(self) -> Value:
        def item(i: Value) -> Value:
            word, thing = self.word(records.ATTRS + 2, i * 2), self.word(records.ATTRS + 3, i * 2, "ptr")
            code, place = word & 0xFF, (word >> records.PLACE) & 0xFF

            def shape() -> Value:
                tensor = self.argument(place)
                empty = self.object(())
                return self.when(self.is_plain(tensor), lambda: self.shape(self.slot(tensor, Tensor, "_array")), lambda: self.incref(empty))

            def other() -> Value:
                is_object = code.eq(records.OBJECT)
                return self.when(is_object, lambda: self.incref(thing), lambda: self.when(code.eq(records.DTYPE), dtype, argument))

            def argument() -> Value:
                return self.incref(self.argument(place))

            def dtype() -> Value:
                have, found = self.dtype(self.slot(self.argument(place), Tensor, "_array")), self.object(None)
                for each in DTYPES:
                    found = self.pick(self.same(have, self.object(each)), self.object(BY_NUM[each.num]), found)
                return self.incref(found)

            return self.when(code.eq(records.SHAPE), shape, other)

        return self._tuple(self.word(records.ATTRS + 1), item)


# -- element-wise operations --------------------------------------------------------------------------------------------------------------
class Pointwise(Form):
    """A form that calls a loop of NumPy's."""

    def place_of(self, dtype: Value, allowed: Sequence[int] = range(len(DTYPES))) -> Value:
        """The dtype's place among ``DTYPES``, which must be one of those allowed."""
        place = self.i64(-1)
        for k in allowed:
            place = self.pick(self.same(dtype, self.object(DTYPES[k])), self.i64(k), place)
        self.require(place >= 0)
        return place

    def loop_for(self, dtype: Value, allowed: Sequence[int] = range(len(DTYPES))) -> tuple[Value, Value, Value, Value]:
        """The dtype's place among ``DTYPES``, and of its loop: the address, the data, the dtype of the result."""
        place = self.place_of(dtype, allowed)
        loop, data, result = (self.word(records.LOOPS, place * 3 + k, "ptr") for k in range(3))
        self.require(self.exists(loop))
        return place, loop, data, result

    def loop_in(self, first: int, count: int, which: int, place: Value) -> tuple[Value, Value]:
        """A loop, with its data, of a table of ``count`` ufuncs for each dtype that begins at a word; see ``Record.put_table``."""
        at = place * (2 * count) + (first + 2 * which)
        return self.word(0, at, "ptr"), self.word(1, at, "ptr")

    def size_of(self, dtype: Value) -> Value:
        """Bytes of an element of what must be one of ``DTYPES``."""
        size = self.i64(0)
        for each in DTYPES:
            size = self.pick(self.same(dtype, self.object(each)), self.i64(each.itemsize), size)
        self.require(size > 0)
        return size

    def item_size(self, dtype: Value) -> Value:
        """The same of what is known to be one of ``DTYPES``."""
        size = self.pick(self.same(dtype, self.object(DTYPES[F32])), self.i64(4), self.i64(8))
        return self.pick(self.same(dtype, self.object(DTYPES[BOOL])), self.i64(1), size)

    def require_usual_strides(self, tensors: Sequence[Value], no_short: Value) -> None:
        """Go on if the strides of a row-major result are PyTorch's: no dimension is so short that its stride is free, or those of all
        operands are as if it were not."""
        for tensor in tensors:
            self.when(~no_short, partial(self._require_usual_strides, tensor))

    def _require_usual_strides(self, tensor: Value) -> None:
        array = self.slot(tensor, Tensor, "_array")
        self.require(self.when(self.is_in_order(tensor), lambda: self.const(True, "b1"), lambda: self._has_usual_strides(array)))

    def _has_usual_strides(self, array: Value) -> Value:
        """Whether an array of one of ``DTYPES`` has the strides of row-major memory, for dimensions of one element too; else False."""
        ndim, dims, strides = self.ndim(array), self.dims(array), self.strides(array)

        def compare(i: Value, step: Value, differs: Value) -> tuple[Value, Value]:
            dim = ndim - 1 - i
            return step * self.load(dims, dim, "i64"), differs | (self.load(strides, dim, "i64") ^ step)

        first = self.item_size(self.dtype(array)), self.i64(0)
        return self.loop(0, ndim, compare, carried=first)[1].eq(0)

    def copy_elements(self, a: Value, target: Value, size: Value) -> None:
        """Copy elements of ``size`` bytes, at least one, of an array with dimensions and any strides behind one another."""
        last = self.ndim(a) - 1
        dims, strides = self.dims(a), self.strides(a)
        columns, along = self.load(dims, last, "i64"), self.load(strides, last, "i64")

        def row(first: Value) -> None:
            def down(i: Value, rest: Value, offset: Value) -> tuple[Value, Value]:
                length = self.load(dims, last - 1 - i, "i64")
                return rest // length, offset + (rest % length) * self.load(strides, last - 1 - i, "i64")

            _, offset = self.loop(0, last, down, carried=(first // columns, self.i64(0)))
            source = self.at(self.data(a), offset, "i8")
            for bytes_, element in SIZED:

                def copy(i: Value, element: str = element) -> None:
                    self.store(self.load(self.at(source, i * along, "i8"), 0, element), target, first + i, element)

                self.when(size.eq(bytes_), partial(self.loop, 0, columns, copy))

        self.loop(0, self.size(a), row, step=columns)

    def run(self, loop: Value, data: Value, count: Value, operands: Sequence[tuple[Value, Value]]) -> None:
        """Call a loop: ``operands`` are addresses with steps in bytes, the result last."""
        places, steps, sizes = self.scratch(3, "ptr"), self.scratch(3, "i64"), self.scratch(1, "i64")
        for k, (address, step) in enumerate(operands):
            self.store(address, places, k, "ptr")
            self.store(step, steps, k, "i64")
        self.store(count, sizes, 0, "i64")
        self.call_c(loop, None, places, sizes, steps, data)


def common_end(k: Form, a: Value, b: Value) -> Value:
    """The number of elements of ``b``, whose shape must be the end of ``a``'s shape."""
    ahead = k.ndim(a) - k.ndim(b)
    k.require(ahead >= 0)
    tail, dims = k.at(k.dims(a), ahead, "i64"), k.dims(b)

    def compare(i: Value, n: Value, differs: Value) -> tuple[Value, Value]:
        size = k.load(dims, i, "i64")
        return n * size, differs | (size ^ k.load(tail, i, "i64"))

    n, differs = k.loop(0, k.ndim(b), compare, carried=(k.i64(1), k.i64(0)))
    k.require(differs.eq(0) & (n > 0))
    return n


_EXACT = 1 << 53


def number_cell(k: Form, thing: Value, place: Value) -> Value:
    """Address of a Python number as an element of the dtype at ``place``; those that the dtype does not have are the Python wrapper's."""
    is_float = k.is_exactly(thing, float)

    def whole() -> Value:
        value = k.integer_of(thing)
        k.require((value < _EXACT) & (value > -_EXACT))
        return k.cast(value, "f64")

    value = k.when(is_float, lambda: k.field(thing, 16, "f64"), whole)
    k.require(~(is_float & place.eq(I64)))
    cell = k.scratch(1, "i64")

    def wide() -> None:
        k.when(place.eq(F64), lambda: k.store(value, cell, 0, "f64"), lambda: k.store(k.cast(value, "i64"), cell, 0, "i64"))

    k.when(place.eq(F32), lambda: k.store(k.cast(value, "f32"), cell, 0, "f32"), wide)
    return cell


# -- results of other kernels -------------------------------------------------------------------------------------------------------------
def _may_be_recorded(k: Form, array: Value, bits: Value) -> None:
    """Leave results that are no floats to the Python wrapper, where only those of floats are recorded."""
    dtype = k.dtype(array)
    is_float = k.same(dtype, k.object(DTYPES[F32])) | k.same(dtype, k.object(DTYPES[F64]))
    k.require(bits.eq(0) | k.word(records.FLOATS).eq(0) | is_float)


def result(code: Code) -> str:
    """A kernel's result as a tensor, recorded: of its array and the operation's arguments."""
    k = Form(code, "result")
    bits = k.needed()
    r = k.argument(0)
    k.require(k.is_exactly(r, np.ndarray))
    _may_be_recorded(k, r, bits)
    none = k.object(None)

    def settled(i: Value) -> None:
        operand = k.argument(k.word(records.SETTLED, i + 1))
        k.when(~k.same(operand, none), lambda: k.require_in_order(operand))

    k.loop(0, k.word(records.SETTLED), settled)
    k.answer_new(k.incref(r), bits)
    return k.finish()


def above(code: Code) -> str:
    """A ufunc of the number zero and one tensor; ``inplace`` may be the second argument."""
    k = Pointwise(code, "above")
    count = k.word(records.EXTRA)
    x, bits = k.enter(count)
    k.when(count.eq(2), lambda: k.require(k.same(k.argument(1), k.object(False))))
    a = k.array_of(x)
    _, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64, I64))
    n, no_short = k.small(a)
    k.require_usual_strides([x], no_short)
    zero = k.scratch(1, "i64")
    k.store(k.i64(0), zero, 0, "i64")  # of any dtype
    r, size = k.new_array(dtype, k.ndim(a), k.dims(a)), k.item_size(dtype)
    k.run(loop, data, n, [(zero, k.i64(0)), (k.data(a), size), (k.data(r), size)])
    k.answer_new(r, bits)
    return k.finish()


def reflected(code: Code) -> str:
    """Element-wise operations of a number and a tensor, in this order."""
    k = Pointwise(code, "reflected")
    x, bits = k.enter(2, 1)
    a = k.array_of(x)
    place, loop, data, result = k.loop_for(k.dtype(a), (F32, F64, I64))
    n, no_short = k.small(a)
    cell = number_cell(k, k.argument(0), place)
    k.require_usual_strides([x], no_short)
    r = k.new_array(result, k.ndim(a), k.dims(a))
    k.run(loop, data, n, [(cell, k.i64(0)), (k.data(a), k.item_size(k.dtype(a))), (k.data(r), k.item_size(result))])
    k.answer_new(r, bits)
    return k.finish()


def copied(code: Code) -> str:
    """``clone(x, memory_format)`` of row-major memory."""
    k = Pointwise(code, "copied")
    x, bits = k.enter(2)
    k.require(k.same(k.argument(1), k.object(None)))
    a = k.array_of(x)
    size = k.size_of(k.dtype(a))
    n, no_short = k.small(a)
    k.require(n > 0)
    k.require_usual_strides([x], no_short)
    k.require(no_short | k.owns_its_memory(a))
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(a))
    k.call_c("memcpy", "ptr", k.data(r), k.data(a), n * size)
    k.answer_new(r, bits)
    return k.finish()


def written(code: Code) -> str:
    """An element-wise operation of two tensors, or a tensor and a number, written into the first, which nobody records."""
    k = Pointwise(code, "written")
    x, bits = k.enter(2)
    k.require(bits.eq(0))
    y, (a, storage) = k.argument(1), k.require_writable(x)
    n, _ = k.small(a)
    place, loop, data, dtype = k.loop_for(k.dtype(a), (F32, F64, I64))
    k.require(k.same(dtype, k.dtype(a)))
    size, none = k.item_size(dtype), k.object(None)

    def tensor() -> tuple[Value, Value, Value]:
        b = k.array_of(y)
        k.require(k.same(dtype, k.dtype(b)))
        others = k.same(storage, none) | ~k.same(storage, k.slot(y, Tensor, "_storage"))
        k.require(others | k.same(x, y))
        inner = common_end(k, a, b)
        k.require(inner.eq(n) | inner.eq(1))
        return b, k.data(b), k.pick(inner.eq(1) & n.ne(1), k.i64(0), size)

    def number() -> tuple[Value, Value, Value]:
        k.require(k.word(records.NUMBERS).ne(0))
        return a, number_cell(k, y, place), k.i64(0)

    b, address, step = k.when(k.is_plain(y), tensor, number)
    k.write_to(x, storage, (a, b), lambda: k.run(loop, data, n, [(k.data(a), size), (address, step), (k.data(a), size)]))
    k.give(k.incref(x))
    return k.finish()
