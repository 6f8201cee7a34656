"""The forms of calls that machine code does: each is one function for all operations of that form, which differ by their records.

A record is what a built-in function gets as ``self``: 64-bit words that say which loop of NumPy's computes, how far small operands go, what
class of node records the call, and what that keeps. So an operation costs no compiling, and both ways call the same loops: results are the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.kinds import host
from ...core.calls.operation import Op
from ...core.tape.derivatives import Item
from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from .code import Code, RecordWriter
from .interpreter import loop_of
from .objects import Function

DTYPES = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)]
_F32, _F64, _I64 = range(3)
_MOST = 4  # things of one kind that a node keeps

# Fields of a record, with their places in words.
FIELDS = {
    "loops": 0,  # of each dtype: the loop (0: none), its data, the dtype of its result
    "limit": 3 * len(DTYPES),  # so many elements are for other kernels
    "autocasting": 13,  # a list that must be empty, 0 without one
    "numbers": 14,  # whether the second operand may be a Python number
    "node": 15,  # the class, 0 where nothing is ever recorded
    "edges": 16,  # their number, then the operand of each
    "saved": 19,  # their number, then of each: what it is, and for the gradients of which operands (bits)
    "attrs": 19 + 1 + 2 * _MOST,  # a tuple for all nodes; where it is 0: their number, and of each: what it is, and an object
    "end": 19 + 1 + 2 * _MOST + 2 + 2 * _MOST,
}  # fmt: skip
_NOTHING, _FIRST, _SECOND, _RESULT, _OBJECT, _SHAPE_OF_FIRST, _SHAPE_OF_SECOND = range(7)


# -- records ------------------------------------------------------------------------------------------------------------------------------
class Unfit(Exception):
    """An operation is not of this form."""


def pointwise_record(op: Op) -> np.ndarray:
    """The record of an element-wise operation of one operand or two.

    Raises:
        Unfit: it is none, or its nodes keep what the form does not know.
    """
    operands = [p.name for p in op.params if p.kind in ("tensor", "number")]
    ufunc: Any = op.ufunc
    if not isinstance(ufunc, np.ufunc) or op.fast is not ufunc or len(operands) != ufunc.nin or not op.elementwise or ufunc.nout != 1:
        raise Unfit(op.name)
    if any(p.kind not in ("tensor", "number", "attr") for p in op.params) or len(operands) > 2:
        raise Unfit(op.name)
    record = RecordWriter(FIELDS)
    found = False
    for k, dtype in enumerate(DTYPES):
        result = _result_of(op, ufunc, dtype)
        loop = None if result is None else loop_of(ufunc, f"{dtype.char * ufunc.nin}->{result.char}")
        if loop is not None:
            found = True
            record.put("loops", loop[0], 3 * k)
            record.put("loops", loop[1], 3 * k + 1)
            record.keep("loops", result, 3 * k + 2)
    if not found:
        raise Unfit(op.name)
    record.put("numbers", any(p.kind == "number" for p in op.params))
    choice = host.choice_for(op)
    record.put("limit", 1 << 15 if choice is None else choice.threshold)
    _put_history(record, op, operands)
    return record.finish()


def _result_of(op: Op, ufunc: np.ufunc, dtype: np.dtype) -> np.dtype | None:
    """The dtype of the results for operands of one dtype, where the Python fast path takes them."""
    if dtype.char == "?" and not op.fast_bool:
        return None
    try:
        *inside, result = ufunc.resolve_dtypes((dtype,) * ufunc.nin + (None,))
    except TypeError:
        return None
    if any(each != dtype for each in inside) or result not in DTYPES:
        return None
    checked = op.promotion in ("default", "int_to_float", "bool_to_long")
    return DTYPES[DTYPES.index(result)] if result == dtype or not checked else None


def _put_history(record: RecordWriter, op: Op, operands: Sequence[str]) -> None:
    if op.rules is None:
        return
    kind = op.node
    record.keep("node", kind)
    record.put("edges", len(kind.inputs))
    for k, name in enumerate(kind.inputs):
        record.put("edges", operands.index(name), 1 + k)
    if len(kind.tensors) > _MOST or len(kind.others) > _MOST:
        raise Unfit(op.name)
    record.put("saved", len(kind.tensors))
    for k, item in enumerate(kind.tensors):
        code = _RESULT if item.source == "result" else 1 + operands.index(op.names[item.position])
        record.put("saved", code, 1 + 2 * k)
        record.put("saved", sum(1 << operands.index(name) for name in item.needed_for if name in operands), 2 + 2 * k)
    _put_attributes(record, op, operands, kind.others)


def _put_attributes(record: RecordWriter, op: Op, operands: Sequence[str], items: Sequence[Item]) -> None:
    found = []
    for item in items:
        name = op.names[item.position]
        if item.source == "shape" and name in operands:
            found.append((_SHAPE_OF_FIRST + operands.index(name), None))
        elif item.source == "attr":
            found.append((_OBJECT, op.params[item.position].default))
        else:
            raise Unfit(op.name)
    if all(code == _OBJECT for code, _ in found):
        record.keep("attrs", tuple(value for _, value in found))
        return
    record.put("attrs", len(found), 1)
    for k, (code, value) in enumerate(found):
        record.put("attrs", code, 2 + 2 * k)
        record.keep("attrs", value, 3 + 2 * k)


# -- machine code -------------------------------------------------------------------------------------------------------------------------
class PointwiseFunction(Function):
    """``f(record, arguments, count)`` of an element-wise operation."""

    def __init__(self, code: Code, name: str, operands: int):
        super().__init__(code, name, "self", "arguments", "count")
        self.result_of_call = operands
        given, arguments, count = self.operands
        self.record = self.field(given, 16)  # an array's data
        self.require(self.same(count, self.emit(f"inttoptr i64 {operands} to ptr", "ptr")))
        self.arguments = [self.load(arguments, i, "ptr") for i in range(operands)]

    def word(self, field: str, offset: Any = 0, element: str = "i64") -> Value:
        return self.load(self.at(self.record, FIELDS[field], "i64"), offset, element)

    def begin(self) -> None:
        """What must hold before anything else."""
        self.require_no_mode()
        casting = self.word("autocasting", element="ptr")
        absent = self.const(True, "b1")
        self.require(self.when(self.exists(casting), lambda: self.field(casting, 16, "i64").eq(0), lambda: absent))

    def array_of(self, tensor: Value) -> Value:
        """The array of a tensor, in the host's memory and row-major (borrowed)."""
        array = self.slot(tensor, Tensor, "_array")
        self.require(self.is_exactly(array, np.ndarray) & self.is_row_major(array))
        return array

    def loop_for(self, dtype: Value, allowed: Sequence[int] = range(len(DTYPES))) -> tuple[Value, Value, Value, Value]:
        """The dtype's place among ``DTYPES``, and of its loop: the address, the data, the dtype of the result."""
        place = self.i64(-1)
        for k in allowed:
            place = self.pick(self.same(dtype, self.object(DTYPES[k])), self.i64(k), place)
        self.require(place >= 0)
        loop, data, result = (self.word("loops", place * 3 + k, "ptr") for k in range(3))
        self.require(self.exists(loop))
        return place, loop, data, result

    def item_size(self, dtype: Value) -> Value:
        """Bytes of an element of one of ``DTYPES``."""
        size = self.i64(8)
        size = self.pick(self.same(dtype, self.object(DTYPES[_F32])), self.i64(4), size)
        return self.pick(self.same(dtype, self.object(DTYPES[3])), self.i64(1), size)

    def require_usual_strides(self, tensors: Sequence[Value], size: Value, no_ones: Value) -> None:
        """Go on if the result's strides are those of its shape: no operand is a view, or no dimension is so short that strides are free."""
        for tensor in tensors:
            self.case_not(no_ones, lambda tensor=tensor: self.require_in_order(tensor))

    def case_not(self, condition: Value, body: Any) -> None:
        """``if not condition: body()``, after which all goes on."""
        self.when(~condition, body)

    def measured(self, array: Value) -> tuple[Value, Value]:
        """The number of elements, and whether no dimension is shorter than 2."""
        dims = self.dims(array)

        def step(i: Value, n: Value, free: Value) -> tuple[Value, Value]:
            size = self.load(dims, i, "i64")
            return n * size, free | self.cast(size < 2, "i64")

        n, free = self.loop(0, self.ndim(array), step, carried=(self.i64(1), self.i64(0)))
        return n, free.eq(0)

    def run(self, loop: Value, data: Value, count: Value, operands: Sequence[tuple[Value, Value]]) -> None:
        """Call a loop of NumPy's: ``operands`` are addresses with steps in bytes, the result last."""
        places, steps, sizes = self.scratch(4, "ptr"), self.scratch(4, "i64"), self.scratch(1, "i64")
        for k, (address, step) in enumerate(operands):
            self.store(address, places, k, "ptr")
            self.store(step, steps, k, "i64")
        self.store(count, sizes, 0, "i64")
        self.call_c(loop, None, places, sizes, steps, data)

    # -- results and history --------------------------------------------------------------------------------------------------
    def answer(self, array: Value, dtype: Value, needs: Sequence[Value]) -> None:
        """Wrap an array, which is handed over, record the call if an operand that requires grad is among ``needs``, and return."""
        made = self.new_tensor(array)
        bits = self.i64(0)
        for k, need in enumerate(needs):
            bits = bits | self.cast(need, "i64") << k

        def record() -> None:
            node = self._node(made, array, dtype, bits)
            self.fill(made, Tensor, _node=node, _requires_grad=self.incref(self.object(True)))

        def leave() -> None:
            self.fill(made, Tensor, _node=self.incref(self.object(None)), _requires_grad=self.incref(self.object(False)))

        self.when(bits.ne(0), record, leave)
        self.give(made)

    def _node(self, made: Value, array: Value, dtype: Value, bits: Value) -> Value:
        node = self.own(self.new(self.word("node", element="ptr")))
        self.fill(node, Node, edges=self._edges(bits))
        self.fill(node, Node, saved=self._items("saved", made, array, bits))
        attrs = self.word("attrs", element="ptr")
        self.fill(
            node, Node, attrs=self.when(self.exists(attrs), lambda: self.incref(attrs), lambda: self._items("attrs", made, array, bits))
        )
        self.finish_node(node, array, dtype)
        return self.disown(node)

    def _edges(self, bits: Value) -> Value:
        count = self.word("edges")
        made = self.own(self.call_c("PyTuple_New", "ptr", count))
        self.check(self.exists(made))
        items = self.at(made, self.interpreter.tuple_items, "i8")
        first, second = self.arguments[0], self.arguments[-1]

        def item(i: Value) -> None:
            operand = self.word("edges", i + 1)
            needed = ((bits >> operand) & 1).ne(0)
            tensor = self.pick(operand.eq(0), first, second)
            self.store(self.when(needed, lambda: self.edge(tensor), lambda: self.incref(self.object(None))), items, i, "ptr")

        self.loop(0, count, item)
        return self.disown(made)

    def _items(self, field: str, made: Value, array: Value, bits: Value) -> Value:
        """The tuple ``saved`` or ``attrs`` of a node (a new reference)."""
        is_saved = field == "saved"
        start = 0 if is_saved else 1
        count = self.word(field, start)
        result = self.own(self.call_c("PyTuple_New", "ptr", count))
        self.check(self.exists(result))
        items = self.at(result, self.interpreter.tuple_items, "i8")

        def item(i: Value) -> None:
            code, more = self.word(field, i * 2 + (start + 1)), self.word(field, i * 2 + (start + 2), "i64" if is_saved else "ptr")
            if is_saved:
                wanted = self.pick((more & bits).eq(0), self.i64(_NOTHING), code)
                self.store(self._saved(wanted, made, array), items, i, "ptr")
            else:
                self.store(self._attribute(code, more), items, i, "ptr")

        self.loop(0, count, item)
        return self.disown(result)

    def _saved(self, code: Value, made: Value, array: Value) -> Value:
        def result() -> Value:
            storage = self.new_storage(made, array)
            triple = self.call_c("PyTuple_New", "ptr", self.i64(3))
            self.check(self.exists(triple))
            for k, thing in enumerate((array, storage, self.object(None))):
                self.put(self.incref(thing), triple, self.interpreter.tuple_items + 8 * k)
            return triple

        def operand() -> Value:
            thing = self.pick(code.eq(_FIRST), self.arguments[0], self.arguments[-1])
            return self.incref(self.pick(code.eq(_NOTHING), self.object(None), thing))

        return self.when(code.eq(_RESULT), result, operand)

    def _attribute(self, code: Value, thing: Value) -> Value:
        def shape() -> Value:
            tensor = self.pick(code.eq(_SHAPE_OF_FIRST), self.arguments[0], self.arguments[-1])
            is_tensor = self.is_plain(tensor)
            empty = self.object(())
            return self.when(is_tensor, lambda: self.shape(self.slot(tensor, Tensor, "_array")), lambda: self.incref(empty))

        return self.when(code.eq(_OBJECT), lambda: self.incref(thing), shape)


def unary(code: Code) -> str:
    """Element-wise operations of one tensor."""
    k = PointwiseFunction(code, "unary", 1)
    (x,) = k.arguments
    k.require(k.is_plain(x))
    k.begin()
    need = k.recording(k.requires_grad(x) & k.word("node").ne(0))
    a = k.array_of(x)
    _, loop, data, result = k.loop_for(k.dtype(a))
    n, no_ones = k.measured(a)
    k.require(n < k.word("limit"))
    k.require_usual_strides([x], n, no_ones)
    r = k.new_array(result, k.ndim(a), k.dims(a))
    k.run(loop, data, n, [(k.data(a), k.item_size(k.dtype(a))), (k.data(r), k.item_size(result))])
    k.answer(r, result, [need])
    k.finish()
    return k.name


def binary(code: Code) -> str:
    """Element-wise operations of two tensors, the second of which may be the end of the first's shape, or of a tensor and a number."""
    k = PointwiseFunction(code, "binary", 2)
    x, y = k.arguments
    k.require(k.is_plain(x))
    k.begin()
    a = k.array_of(x)
    recorded = k.word("node").ne(0)
    n, no_ones = k.measured(a)
    k.require(n < k.word("limit"))

    def tensors() -> None:
        needs = [k.recording(k.requires_grad(each) & recorded) for each in (x, y)]
        b = k.array_of(y)
        k.require(k.same(k.dtype(a), k.dtype(b)))
        _, loop, data, result = k.loop_for(k.dtype(a))
        inner = _common_end(k, a, b)
        k.require_usual_strides([x, y], n, no_ones)
        r = k.new_array(result, k.ndim(a), k.dims(a))
        size, result_size = k.item_size(k.dtype(a)), k.item_size(result)
        pa, pb, pr = k.data(a), k.data(b), k.data(r)

        def all_at_once() -> None:
            step = k.pick(inner.eq(1), k.i64(0), size)
            k.run(loop, data, n, [(pa, size), (pb, step), (pr, result_size)])

        def row(i: Value) -> None:
            k.run(loop, data, inner, [(k.at(pa, i * size, "i8"), size), (pb, size), (k.at(pr, i * result_size, "i8"), result_size)])

        k.when(inner.eq(n) | inner.eq(1), all_at_once, lambda: k.loop(0, n, row, step=inner))
        k.answer(r, result, needs)

    def number() -> None:
        need = k.recording(k.requires_grad(x) & recorded)
        place, loop, data, result = k.loop_for(k.dtype(a), (_F32, _F64, _I64))
        cell = k.scratch(1, "i64")
        _put_number(k, y, place, cell)
        k.require_usual_strides([x], n, no_ones)
        r = k.new_array(result, k.ndim(a), k.dims(a))
        k.run(loop, data, n, [(k.data(a), k.item_size(k.dtype(a))), (cell, k.i64(0)), (k.data(r), k.item_size(result))])
        k.answer(r, result, [need, k.const(False, "b1")])

    k.case(k.is_plain(y), tensors)
    kind = k.type_of(y)
    k.require((k.same(kind, k.object(float)) | k.same(kind, k.object(int))) & k.word("numbers").ne(0))
    number()
    k.finish()
    return k.name


def _common_end(k: PointwiseFunction, a: Value, b: Value) -> Value:
    """The number of elements of ``b``, whose shape must be the end of ``a``'s shape; 1 where it has one element and no more dimensions."""
    ahead = k.ndim(a) - k.ndim(b)
    k.require(ahead >= 0)
    tail, dims = k.at(k.dims(a), ahead, "i64"), k.dims(b)

    def compare(i: Value, n: Value, differs: Value) -> tuple[Value, Value]:
        size = k.load(dims, i, "i64")
        return n * size, differs | (size ^ k.load(tail, i, "i64"))

    n, differs = k.loop(0, k.ndim(b), compare, carried=(k.i64(1), k.i64(0)))
    k.require((differs.eq(0) & (n > 0)) | (n.eq(1) & k.ndim(b).eq(0)))
    return n


_EXACT = float(1 << 53)


def _put_number(k: PointwiseFunction, thing: Value, place: Value, cell: Value) -> None:
    """Write a Python number as an element of the dtype at ``place``; leave those to the Python wrapper that the dtype does not have."""
    is_float = k.is_exactly(thing, float)

    def whole() -> Value:
        value = k.call_c("PyLong_AsDouble", "f64", thing)
        k.when(value.eq(-1.0), lambda: k.call_c("PyErr_Clear", None))  # which may stand for an int beyond float64
        k.require((value < _EXACT) & (value > -_EXACT))
        return value

    value = k.when(is_float, lambda: k.field(thing, 16, "f64"), whole)
    k.require(~(is_float & place.eq(_I64)))
    k.when(
        place.eq(_F32),
        lambda: k.store(k.cast(value, "f32"), cell, 0, "f32"),
        lambda: k.when(place.eq(_F64), lambda: k.store(value, cell, 0, "f64"), lambda: k.store(k.cast(value, "i64"), cell, 0, "i64")),
    )
