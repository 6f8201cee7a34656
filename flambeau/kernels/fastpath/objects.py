"""The kernel language with CPython's objects: what fast paths in machine code are written in.

Rules that keep a function right:

1. ``require`` comes before the first allocation. What it refuses is done by the Python wrapper, from the start.
2. A pointer read from a slot is borrowed: it is good until the next call that may run Python code. An allocation of a tensor, a tuple or a
   node may (the garbage collector starts there), one of an array or a number does not.
3. ``check`` follows every call that may fail; it gives back what ``own`` was told of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import state
from ...core.storage import UntypedStorage
from ...core.tape.node import Node
from ...core.tensor import Parameter, Tensor
from ..compiler.language import Builder, Value, as_tuple
from .code import Code
from .interpreter import ALIGNED, BASE, C_CONTIGUOUS, DATA, DESCR, DIMS, FLAGS, NDIM, STRIDES, require
from .pools import COUNT, DEALLOC, END, HEAD, LAYOUTS, POOLS, SHAPES, Layout

ALLOCATE, _ITERATE = 47, 63  # CPython's numbers of tp_alloc and tp_iternext


GOLDEN = -0x61C8864680B583EB  # the golden ratio in 64 bits: products of numbers that differ little lie far apart
MOST_KNOWN = SHAPES.shape[1] - 2  # dimensions of shapes that are kept


class Function(Builder):
    """A function of Python objects being written."""

    def __init__(self, code: Code, name: str, *operands: str):
        super().__init__(name, code.target)
        self.code, self.interpreter, self.declared = code, code.interpreter, code.declared
        self.operands = [Value(self, f"%{operand}", "ptr") for operand in operands]
        self.owned: list[Value] = []
        self.aside = "decline"  # where ``require`` leaves to
        self._cold: list[str] = []

    # -- control ------------------------------------------------------------------------------------------------------------
    def _branch(self, condition: Value, aside: str) -> str:
        """Go on if it holds, to ``aside`` otherwise, which is rare."""
        self.count += 1
        on = f"on{self.count}"
        self.effect(f"br i1 {condition.text}, label %{on}, label %{aside}, !prof !1")
        self.label(on)
        return on

    def require(self, condition: Value) -> None:
        """Go on if it holds, else leave the call to the Python wrapper; inside of ``attempt``, to what comes instead."""
        self._branch(condition, self.aside)

    def attempt(self, body: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Values of ``body``, or of ``otherwise`` from its first ``require`` on that does not hold, by when it must own nothing."""
        self.count += 1
        n = self.count
        before, self.aside = self.aside, f"instead{n}"
        done = as_tuple(body())
        self.aside, done_block = before, self.block
        self.effect(f"br label %joint{n}")
        self.label(f"instead{n}")
        instead = as_tuple(otherwise())
        instead_block = self.block
        self.effect(f"br label %joint{n}")
        self.label(f"joint{n}")
        pairs = zip(done, instead, strict=True)
        results = [self.emit(f"phi {a.type} [{a.text}, %{done_block}], [{b.text}, %{instead_block}]", a.element) for a, b in pairs]
        return results[0] if len(results) == 1 else tuple(results)

    def case(self, condition: Value, body: Callable[[], None]) -> None:
        """``if condition: body()``, where the body ends with ``give``."""
        self.count += 1
        inside, on = f"case{self.count}", f"past{self.count}"
        self.effect(f"br i1 {condition.text}, label %{inside}, label %{on}")
        self.label(inside)
        body()
        self.label(on)

    def own(self, value: Value) -> Value:
        """A reference to give back if something fails later."""
        self.owned.append(value)
        return value

    def disown(self, value: Value) -> Value:
        """The reference was handed over."""
        self.owned.remove(value)
        return value

    def check(self, condition: Value) -> None:
        """Unless it holds give back what is owned and return NULL: the exception is set."""
        self.count += 1
        failed = f"failed{self.count}"
        block = self.block
        before, self.lines = self.lines, [f"{failed}:"]
        for value in reversed(self.owned):
            self.call_c("Py_DecRef", None, value)
        self.effect("ret ptr null")
        self._cold += self.lines
        self.lines, self.block = before, block
        self._branch(condition, failed)

    def give(self, value: Value) -> None:
        """Return a result."""
        self.owned.clear()
        self.effect(f"ret ptr {value.text}")

    def decline(self) -> None:
        """Leave the call to the Python wrapper, or what comes instead."""
        self.effect(f"br label %{self.aside}")

    def decref(self, *values: Value) -> None:
        for value in values:
            self.call_c("Py_DecRef", None, value)

    def drop(self, *values: Value) -> None:
        """Give back what is owned."""
        self.decref(*[self.disown(value) for value in values])

    def finish(self, otherwise: Callable[[], Value] | None = None) -> str:
        """Put the function into the module, under the name returned. It answers None for a call that it leaves to the Python wrapper, or
        what ``otherwise`` gives."""
        parameters = ", ".join(f"ptr {operand.text}" for operand in self.operands)
        self.label("decline")
        self.give(self.incref(self.object(None)) if otherwise is None else otherwise())
        lines = "\n".join([*self.scratches, *self.lines, *self._cold])
        self.code.functions[self.name] = f'define ptr @{self.name}({parameters}) nounwind "no-builtins" {{\nentry:\n{lines}\n}}'
        return self.name

    # -- values ---------------------------------------------------------------------------------------------------------------
    def _entry(self, place: int) -> Value:
        return self.emit(f"load ptr, ptr getelementptr ([0 x ptr], ptr @table, i64 0, i64 {place}), align 8, !invariant.load !0", "ptr")

    def object(self, thing: Any) -> Value:
        """A Python object that lives as long as the process (borrowed)."""
        return self._entry(self.code.object(thing))

    @property
    def null(self) -> Value:
        return Value(self, "null", "ptr")

    def call_c(self, name: str | Value, result: str | None, *arguments: Value) -> Any:
        """Call a function of the C interfaces, by name, or one at an address."""
        function = self._entry(self.code.function(name)) if isinstance(name, str) else name
        passed = ", ".join(f"{value.type} {value.text}" for value in arguments)
        text = f"call {'void' if result is None else Value(self, '', result).type} {function.text}({passed})"
        return self.effect(text) if result is None else self.emit(text, result)

    def i64(self, value: int) -> Value:
        return self.const(value, "i64")

    def i32(self, value: int) -> Value:
        return self.const(value, "i32")

    def same(self, a: Value, b: Value) -> Value:
        return self.emit(f"icmp eq ptr {a.text}, {b.text}", "b1")

    def exists(self, a: Value) -> Value:
        return self.emit(f"icmp ne ptr {a.text}, null", "b1")

    def pick(self, condition: Value, a: Value, b: Value) -> Value:
        return self.emit(f"select i1 {condition.text}, {a.type} {a.text}, {b.type} {b.text}", a.element)

    # -- objects --------------------------------------------------------------------------------------------------------------
    def field(self, thing: Value, offset: int, element: str = "ptr") -> Value:
        return self.load(self.at(thing, offset, "i8"), 0, element)

    def put(self, value: Value, thing: Value, offset: int, element: str = "ptr") -> None:
        self.store(value, self.at(thing, offset, "i8"), 0, element)

    def type_of(self, thing: Value) -> Value:
        return self.field(thing, 8)

    def is_exactly(self, thing: Value, kind: type) -> Value:
        return self.same(self.type_of(thing), self.object(kind))

    def incref(self, thing: Value) -> Value:
        """One more reference, as the interpreter's own macro counts it."""
        if not self.interpreter.immortal:
            self.put(self.field(thing, 0, "i64") + 1, thing, 0, "i64")
            return thing
        count = self.field(thing, 0, "i32")  # negative where the object is immortal, and stays so
        self.put(count + self.cast(count >= 0, "i32"), thing, 0, "i32")
        return thing

    def slot(self, thing: Value, owner: type, name: str) -> Value:
        """The object in a slot (borrowed), or null."""
        return self.field(thing, self.interpreter.slot(owner, name))

    def fill(self, thing: Value, owner: type, **values: Value) -> None:
        """Put references, which are handed over, into slots that are empty."""
        for name, value in values.items():
            self.put(value, thing, self.interpreter.slot(owner, name))

    def let_go(self, thing: Value) -> None:
        """One reference less, as the interpreter's own macro counts it."""
        count = self.field(thing, 0, "i64")

        def less() -> None:
            self.put(count - 1, thing, 0, "i64")
            self.when(count.eq(1), lambda: self.call_c("_Py_Dealloc", None, thing))

        if self.interpreter.immortal:
            self.when(self.cast(count, "i32") >= 0, less)
        else:
            less()

    def pool_of(self, layout: Layout) -> Value:
        """Address of a pool's words."""
        return self.at(self.field(self.object(POOLS), DATA), layout.place * POOLS.shape[1], "i64")

    def new(self, kind: Value, like: type | None = None) -> Value:
        """An instance of a class with slots, all of them empty, tracked by the garbage collector.

        Args:
            like: a class that has a pool of memory, of which this one is, or perhaps a subclass.
        """

        def allocate() -> Value:
            function = self._entry(self.code.slot_function(Tensor, ALLOCATE, "allocate"))  # every such class has this one
            made = self.call_c(function, "ptr", kind, self.i64(0))
            self.check(self.exists(made))
            return made

        if like is None:
            return allocate()
        pool, link = self.pool_of(LAYOUTS[like]), LAYOUTS[like].link
        first = self.load(pool, HEAD, "ptr")

        def again() -> Value:
            self.store(self.field(first, link), pool, HEAD, "ptr")
            self.store(self.load(pool, COUNT, "i64") - 1, pool, COUNT, "i64")
            self.put(self.null, first, link)
            self.put(self.i64(1), first, 0, "i64")
            self.put(self.incref(kind), first, 8)
            self.call_c("PyObject_GC_Track", None, first)
            return first

        ends_there = self.field(kind, DEALLOC, "i64").eq(self.load(pool, END, "i64"))  # so that it is as large
        return self.when(self.exists(first) & ends_there, again, allocate)

    def dealloc_of(self, kind: type) -> Value:
        """Address of the function by which objects of a class end."""
        return self._entry(self.code.slot_function(kind, 52, "dealloc"))

    def slot_function(self, kind: type, number: int) -> Value:
        """Address of the function that fills a slot of a type."""
        return self._entry(self.code.slot_function(kind, number, str(number)))

    def tuple(self, *items: Callable[[], Value]) -> Value:
        """A tuple of what ``items`` give, references each, asked for after the allocation."""
        made = self.call_c("PyTuple_New", "ptr", self.i64(len(items)))
        self.check(self.exists(made))
        for k, item in enumerate(items):
            self.put(item(), made, self.interpreter.tuple_items + 8 * k)
        return made

    def is_empty(self, items: list[Any]) -> Value:
        """Whether a list of the process is empty."""
        return self.field(self.object(items), 16, "i64").eq(0)

    # -- arrays ---------------------------------------------------------------------------------------------------------------
    def ndim(self, array: Value) -> Value:
        return self.cast(self.field(array, NDIM, "i32"), "i64")

    def dims(self, array: Value) -> Value:
        return self.field(array, DIMS)

    def strides(self, array: Value) -> Value:
        return self.field(array, STRIDES)

    def data(self, array: Value) -> Value:
        return self.field(array, DATA)

    def dtype(self, array: Value) -> Value:
        return self.field(array, DESCR)

    def is_row_major(self, array: Value) -> Value:
        return (self.field(array, FLAGS, "i32") & (C_CONTIGUOUS | ALIGNED)).eq(C_CONTIGUOUS | ALIGNED)

    def owns_its_memory(self, array: Value) -> Value:
        return ~self.exists(self.field(array, BASE))

    def size(self, array: Value) -> Value:
        dims = self.dims(array)
        return self.loop(0, self.ndim(array), lambda i, n: n * self.load(dims, i, "i64"), carried=(self.i64(1),))

    def same_sizes(self, a: Value, b: Value, of: Callable[[Value], Value]) -> Value:
        """Whether two arrays have the same dims, or strides."""
        n, one, other = self.ndim(a), of(a), of(b)
        is_long = n.eq(self.ndim(b))

        def compare(i: Value, differs: Value) -> Value:
            return differs | (self.load(one, i, "i64") ^ self.load(other, i, "i64"))

        return self.loop(0, self.pick(is_long, n, self.i64(0)), compare, carried=(self.i64(0),)).eq(0) & is_long

    def shape(self, array: Value, kind: type | None = None) -> Value:
        """The shape as a tuple of ints (a new reference), or as a kind of tuple."""
        if kind is not None:
            return self._sizes(array, kind)
        if "known_shape" not in self.code.functions:
            _known_shape(self.code)
        rank = self.ndim(array)

        def known() -> Value:
            count = self.emit(f"inttoptr i64 {rank.text} to ptr", "ptr")
            return self.call_c(Value(self, "@known_shape", "ptr"), "ptr", self.dims(array), count)

        made = self.when(rank <= MOST_KNOWN, known, lambda: self._sizes(array))
        self.check(self.exists(made))
        return made

    def _sizes(self, array: Value, kind: type | None = None) -> Value:
        self.own(self.incref(array))
        made = self.tuple_of(self.dims(array), self.ndim(array), kind)
        self.call_c("Py_DecRef", None, self.disown(array))
        return made

    def tuple_of(self, numbers: Value, count: Value, kind: type | None = None) -> Value:
        """Numbers in memory as a tuple of ints (a new reference), or as a kind of tuple."""
        if kind is None:
            made = self.own(self.call_c("PyTuple_New", "ptr", count))
        else:
            made = self.own(self.call_c(self.slot_function(tuple, ALLOCATE), "ptr", self.object(kind), count))
        self.check(self.exists(made))
        items = self.at(made, self.interpreter.tuple_items, "i8")

        def item(i: Value) -> None:
            number = self.call_c("PyLong_FromSsize_t", "ptr", self.load(numbers, i, "i64"))
            self.check(self.exists(number))
            self.store(number, items, i, "ptr")

        self.loop(0, count, item)
        return self.disown(made)

    def new_array(self, dtype: Value, ndim: Value, dims: Value) -> Value:
        """A new array, row-major, its values undefined. It runs no Python code."""
        self.incref(dtype)  # handed over
        made = self.call_c(
            "PyArray_NewFromDescr", "ptr", self.object(np.ndarray), dtype, self.cast(ndim, "i32"), dims, self.null, self.null, self.i32(0),
            self.null,
        )  # fmt: skip
        self.check(self.exists(made))
        return made

    # -- tensors --------------------------------------------------------------------------------------------------------------
    def is_plain(self, thing: Value) -> Value:
        """Whether it is exactly a Tensor or a Parameter."""
        kind = self.type_of(thing)
        return self.same(kind, self.object(Tensor)) | self.same(kind, self.object(Parameter))

    def require_no_mode(self) -> None:
        self.require(self.is_empty(state.active))

    def require_no_inference(self) -> None:
        """Go on if no thread is in inference mode."""
        self.require(self.is_empty(state.inferring))

    def requires_grad(self, tensor: Value, may_be_inference: bool = False) -> Value:
        """Whether it requires grad; marks that say neither are the Python wrapper's, and that of inference mode, which says no, may be."""
        mark = self.slot(tensor, Tensor, "_requires_grad")
        yes = self.same(mark, self.object(True))
        known = yes | self.same(mark, self.object(False))
        self.require(known | self.is_inference(tensor) if may_be_inference else known)
        return yes

    def is_inference(self, tensor: Value) -> Value:
        """Whether a tensor was made in inference mode."""
        return self.same(self.slot(tensor, Tensor, "_requires_grad"), self.object(state.INFERENCE))

    def grad_word(self) -> Value:
        """The word by which this thread records or does not (to be compared, not kept). To ask may run Python code."""
        answer = self.call_c("PyObject_GetAttr", "ptr", self.object(state.thread), self.object("grad"))
        self.check(self.exists(answer))
        self.call_c("Py_DecRef", None, answer)
        return answer

    def infers(self) -> Value:
        """Whether this thread is in inference mode. Where any is, it is asked, which may run Python code."""

        def ask() -> Value:
            return self.same(self.grad_word(), self.object(state.INFERENCE))

        return self.when(self.is_empty(state.inferring), lambda: self.const(False, "b1"), ask)

    def inference_mark(self, wanted: Value) -> Value:
        """The mark (a new reference) of a tensor that is not recorded: of inference mode, or none."""
        return self.incref(self.pick(wanted, self.object(state.INFERENCE), self.object(False)))

    def recording(self, wanted: Value) -> Value:
        """``wanted``, if this thread records. Where another does not, the thread is asked, which may run Python code."""

        def ask() -> Value:
            return self.same(self.grad_word(), self.object(True))

        all_record = self.is_empty(state.without_grad)
        return self.when(wanted & ~all_record, ask, lambda: wanted)

    def require_in_order(self, tensor: Value) -> None:
        self.require(self.is_in_order(tensor))

    def is_in_order(self, tensor: Value) -> Value:
        """Whether its array cannot have strides that are not those of its shape: no view, and not known to lie otherwise."""
        storage = self.slot(tensor, Tensor, "_storage")
        none = self.object(None)

        def ask() -> Value:
            uneven = self.slot(storage, UntypedStorage, "uneven")
            return self.same(self.slot(tensor, Tensor, "_view_of"), none) & self.same(uneven, self.object(False))

        return self.when(self.same(storage, none), lambda: self.const(True, "b1"), ask)

    def new_tensor(self, array: Value) -> Value:
        """A Tensor around an array, which is handed over; its history is still empty."""
        self.own(array)
        made = self.new(self.object(Tensor), Tensor)
        self.disown(array)
        none = self.object(None)
        self.fill(made, Tensor, _array=array, _storage=self.incref(none), _view_of=self.incref(none))
        return self.own(made)

    def edge(self, tensor: Value) -> Value:
        """The edge that a node keeps to an input that requires grad (a new reference)."""
        node = self.slot(tensor, Tensor, "_node")
        return self.incref(self.pick(self.same(node, self.object(None)), tensor, node))

    def new_storage(self, tensor: Value, array: Value) -> Value:
        """``tensor.new_storage`` of a tensor that has none (borrowed: the tensor has it)."""
        made = self.new(self.object(UntypedStorage), UntypedStorage)
        none, zero = self.object(None), self.object(0)
        values = {"_array": array, "_aliases": self.object(()), "_bytes": none, "_room": self.object(32), "version": zero, "changed": zero}
        values["uneven"] = self.object(False)
        require({*values, "__weakref__"} == set(UntypedStorage.__slots__), "a storage has other slots")
        self.fill(made, UntypedStorage, **{name: self.incref(value) for name, value in values.items()})
        self.put(made, tensor, self.interpreter.slot(Tensor, "_storage"))
        if not self.interpreter.immortal:
            self.put(self.field(none, 0, "i64") - 1, none, 0, "i64")  # which the slot held; never the last
        return made

    def next_of_clock(self) -> Value:
        iterate = self._entry(self.code.slot_function(type(state.clock), _ITERATE, "next"))
        reading = self.call_c(iterate, "ptr", self.object(state.clock))
        self.check(self.exists(reading))
        return reading

    def write(self, storage: Value, compute: Callable[[], None]) -> None:
        """Write to a storage's memory, and count that."""
        before = self.call_c("PyLong_AsLong", "i64", self.slot(storage, UntypedStorage, "version"))
        version = self.own(self.call_c("PyLong_FromSsize_t", "ptr", before + 1))
        self.check(self.exists(version))
        changed = self.next_of_clock()
        compute()
        for name, value in (("version", self.disown(version)), ("changed", changed)):
            at = self.interpreter.slot(UntypedStorage, name)
            past = self.field(storage, at)
            self.put(value, storage, at)
            self.decref(past)

    def finish_node(self, node: Value, array: Value, dtype: Value) -> None:
        """Fill what every node has: shape and dtype of its result, no hooks, the time."""
        self.fill(node, Node, shape=self.shape(array))
        self.fill(node, Node, dtype=self.incref(dtype), hooks=self.incref(self.object(None)))
        self.fill(node, Node, seq=self.next_of_clock())


def _known_shape(code: Code) -> None:
    """``f(sizes, count)`` of at most ``MOST_KNOWN`` sizes: a tuple of them (a new reference), that of the last time if it is known."""
    k = Function(code, "known_shape", "sizes", "count")
    sizes, count = k.operands[0], k.emit("ptrtoint ptr %count to i64", "i64")
    copied = k.scratch(MOST_KNOWN, "i64")  # an allocation may run Python code, which may change the array

    def step(i: Value, mixed: Value) -> Value:
        size = k.load(sizes, i, "i64")
        k.store(size, copied, i, "i64")
        return (mixed + size) * GOLDEN

    mixed = k.loop(0, count, step, carried=(count,))
    place = k.at(k.field(k.object(SHAPES), DATA), ((mixed >> 32) & (SHAPES.shape[0] - 1)) * SHAPES.shape[1], "i64")
    known, its_sizes = k.load(place, 0, "ptr"), k.at(place, 2, "i64")

    def compare(i: Value, found: Value) -> Value:
        return found | (k.load(its_sizes, i, "i64") ^ k.load(copied, i, "i64"))

    differs = k.loop(0, count, compare, carried=(k.load(place, 1, "i64") ^ count,))
    k.case(k.exists(known) & differs.eq(0), lambda: k.give(k.incref(known)))
    made, before = k.tuple_of(copied, count), k.load(place, 0, "ptr")
    k.store(k.incref(made), place, 0, "ptr")
    k.store(count, place, 1, "i64")
    k.loop(0, count, lambda i: k.store(k.load(copied, i, "i64"), its_sizes, i, "i64"))
    k.when(k.exists(before), lambda: k.let_go(before))
    k.give(made)
    k.finish()
