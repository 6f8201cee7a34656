"""Forms of derivatives: gradients for the edges of a node, from the gradient of its result, where nobody records them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.calls.registry import primitive
from ...core.state import IGNORING_FP
from ...core.storage import UntypedStorage
from ...core.tape.history import WatchedStorage
from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .interpreter import ALIGNED, C_CONTIGUOUS, F_CONTIGUOUS, FLAGS
from .products import Product, put_products
from .views import MOST_DIMS


class Rule(Product):
    """``f(node, grad)``; None leaves the rule to Python. The engine, which has looked at all else, says so by a count of 3."""

    def open(self) -> tuple[Value, Value]:
        """The node, and the array of the gradient."""
        two, three = (self.same(self.operands[2], self.emit(f"inttoptr i64 {n} to ptr", "ptr")) for n in (2, 3))
        self.require(two | three)
        node, grad = self.argument(0), self.argument(1)
        self.require(self.is_exactly(grad, Tensor))
        self.require(~self.requires_grad(grad))

        def alone() -> None:
            self.require_no_mode()
            self.require_no_inference()
            self.require(~self.recording(self.const(True, "b1")))
            # hooks see gradients before their shape is made right
            self.require(self.same(self.slot(node, Node, "hooks"), self.object(None)))

        self.when(two, alone)
        return node, self.any_array_of(grad)

    def items(self, node: Value, name: str, count: int) -> list[Value]:
        """The items (borrowed) of a node's tuple."""
        items = self.slot(node, Node, name)
        self.require(self.is_exactly(items, tuple))
        self.require(self.field(items, 16, "i64").eq(count))
        return [self.field(items, self.interpreter.tuple_items + 8 * k) for k in range(count)]

    def edges_of(self, node: Value) -> Value:
        """The tuple (borrowed) of a node's edges."""
        edges = self.slot(node, Node, "edges")
        self.require(self.is_exactly(edges, tuple))
        return edges

    def strides_are_zero(self, a: Value) -> Value:
        """Whether all elements of an array of some dimensions are one."""
        strides = self.strides(a)
        every = self.loop(0, self.ndim(a), lambda i, found: found | self.load(strides, i, "i64"), carried=(self.i64(0),))
        return every.eq(0) & (self.ndim(a) > 0)

    def saved_array(self, node: Value, tensor: Value) -> Value:
        """The array of a saved tensor (borrowed) that nobody has written to since."""
        self.require(self.is_plain(tensor))
        storage = self.slot(tensor, Tensor, "_storage")

        self.when(~self.same(storage, self.object(None)), lambda: self.require_unwritten(node, storage))
        return self.any_array_of(tensor)

    def require_unwritten(self, node: Value, storage: Value) -> None:
        """Go on if nobody wrote to a storage since the node was made."""
        self.require(self.is_exactly(storage, UntypedStorage) | self.is_exactly(storage, WatchedStorage))
        changed, made = self.slot(storage, UntypedStorage, "changed"), self.slot(node, Node, "seq")
        self.require(self.call_c("PyLong_AsLong", "i64", changed) <= self.call_c("PyLong_AsLong", "i64", made))

    def has_shape(self, array: Value, shape: Value) -> Value:
        """Whether an array's shape is a tuple of ints."""
        n, dims = self.ndim(array), self.dims(array)
        is_long = n.eq(self.field(shape, 16, "i64"))

        def compare(i: Value, differs: Value) -> Value:
            size = self.call_c("PyLong_AsLong", "i64", self.load(self.at(shape, self.interpreter.tuple_items, "i8"), i, "ptr"))
            return differs | (size ^ self.load(dims, i, "i64"))

        return self.loop(0, self.pick(is_long, n, self.i64(0)), compare, carried=(self.i64(0),)).eq(0) & is_long

    def unrecorded(self, array: Value) -> Value:
        """A tensor (owned) around an array, which is handed over."""
        made = self.new_tensor(array)
        self.fill(made, Tensor, _node=self.incref(self.object(None)), _requires_grad=self.incref(self.object(False)))
        return made

    def wrapped(self, array: Value) -> Value:
        """``unrecorded``, which nobody owns yet."""
        return self.disown(self.unrecorded(array))

    def give_gradients(self, *results: Value) -> None:
        """Return gradients, which are owned."""
        made = self.call_c("PyTuple_New", "ptr", self.i64(len(results)))
        self.check(self.exists(made))
        for place, result in enumerate(results):
            self.put(result, made, self.interpreter.tuple_items + 8 * place)
        self.give(made)


class ProductRule(Rule):
    """A rule of products of matrices, as ``ndarray.dot`` makes them: by the loop that it ends in, or, where BLAS has others, by itself."""

    def require_gradient(self, g: Value) -> tuple[Value, Value]:
        """The sizes of the gradient."""
        self.require(self.ndim(g).eq(2))
        m, p = (self.load(self.dims(g), k, "i64") for k in (0, 1))
        self.require((m > 0) & (p > 0) & (m * p < self.word(records.LIMIT)))
        return m, p

    def require_rows(self, g: Value) -> tuple[Value, Value]:
        """The number of rows of a gradient, and their length; rows in several dimensions lie one after another."""
        self.require((self.ndim(g) > 1) & (self.ndim(g) <= MOST_DIMS))
        p, n = self.load(self.dims(g), self.ndim(g) - 1, "i64"), self.size(g)
        self.require((n > 0) & (n < self.word(records.LIMIT)) & (self.ndim(g).eq(2) | self.is_row_major(g)))
        return n // p, p

    def other_rows(self, node: Value, tensor: Value, g: Value, count: Value) -> Value:
        """The array of a saved tensor that has as many rows as the gradient, in as many dimensions."""
        array = self.saved_array(node, tensor)
        self.require(self.same(self.dtype(array), self.dtype(g)) & self.ndim(array).eq(self.ndim(g)))
        n, size = self.load(self.dims(array), self.ndim(g) - 1, "i64"), self.size(array)
        self.require((n > 0) & (self.ndim(g).eq(2) | self.is_row_major(array)))
        self.require(size.eq(n * count))
        return array

    def shaped(self, array: Value, ndim: Value, dims: Value) -> Value:
        """A view (a new reference) of row-major memory, which keeps the array that is handed over."""
        self.own(array)
        dtype, data, flags = self.incref(self.dtype(array)), self.data(array), self.field(array, FLAGS, "i32")
        r = self.call_c(
            "PyArray_NewFromDescr", "ptr", self.object(np.ndarray), dtype, self.cast(ndim, "i32"), dims, self.null, data, flags, self.null
        )
        self.check(self.exists(r))
        self.own(r)
        self.check(self.call_c("PyArray_SetBaseObject", "i32", r, self.disown(array)).eq(0))
        return self.disown(r)

    def rows_of(self, array: Value, count: Value) -> Value:
        """The array's rows as a matrix (a new reference)."""
        sizes, rank = self.scratch(2, "i64"), self.ndim(array)
        self.store(count, sizes, 0, "i64")
        self.store(self.load(self.dims(array), rank - 1, "i64"), sizes, 1, "i64")
        whole = self.incref(array)
        return self.when(rank.eq(2), lambda: whole, lambda: self.shaped(whole, self.i64(2), sizes))

    def other(self, node: Value, tensor: Value, dtype: Value, size: Value, place: int) -> Value:
        """The array of a saved matrix that has this size at a place."""
        array = self.saved_array(node, tensor)
        self.require(self.same(self.dtype(array), dtype) & self.ndim(array).eq(2))
        sizes = [self.load(self.dims(array), k, "i64") for k in (0, 1)]
        self.require(sizes[place].eq(size) & (sizes[1 - place] > 0))
        return array

    def is_usual(self, array: Value) -> Value:
        """Whether it is a dense matrix of at least two rows and columns."""
        flags, sizes = self.field(array, FLAGS, "i32"), [self.load(self.dims(array), k, "i64") for k in (0, 1)]
        is_dense = (flags & ALIGNED).ne(0) & (flags & (C_CONTIGUOUS | F_CONTIGUOUS)).ne(0)
        return is_dense & (sizes[0] > 1) & (sizes[1] > 1)

    def product(
        self, dtype: Value, loop: Value, data: Value, a: Value, b: Value, turned: tuple[bool, bool], like: Value | None = None
    ) -> Value:
        """A tensor with the product of two matrices, either of them ``turned`` first; its rows in dimensions ``like`` those of an array."""
        sizes, operands = [], []
        for array, is_turned in ((a, turned[0]), (b, turned[1])):
            both, steps = [self.load(self.dims(array), k, "i64") for k in (0, 1)], self.steps(array)
            sizes.append(both[::-1] if is_turned else both)
            operands.append((self.data(array), *(steps[::-1] if is_turned else steps)))
        (m, n), (_, p) = sizes

        def by_loop() -> Value:
            r = self.matrix(dtype, m, p)
            self.multiply(loop, data, (m, n, p), [*operands, (self.data(r), *self.steps(r))])
            return r

        def by_dot() -> Value:
            given = []
            for array, is_turned in ((a, turned[0]), (b, turned[1])):
                view = self.call_c("PyArray_Transpose", "ptr", array, self.null) if is_turned else self.incref(array)
                self.check(self.exists(view))
                given.append(self.own(view))
            # A context of this call's own, since none can be entered twice: NumPy warns of nothing in it.
            quiet = self.call_c("PyContext_Copy", "ptr", self.object(IGNORING_FP))
            self.check(self.exists(quiet))
            self.own(quiet)
            self.check(self.call_c("PyContext_Enter", "i32", quiet).eq(0))
            r = self.call_c("PyArray_MatrixProduct2", "ptr", *given, self.null)
            self.call_c("PyContext_Exit", "i32", quiet)
            self.check(self.exists(r))
            self.drop(*given, quiet)
            return r

        r = self.when(self.is_usual(a) & self.is_usual(b), by_loop, by_dot)
        if like is None:
            return self.wrapped(r)
        rank, dims = self.ndim(like), self.scratch(MOST_DIMS, "i64")
        self.loop(0, rank, lambda d: self.store(self.load(self.dims(like), d, "i64"), dims, d, "i64"))
        self.store(self.load(self.dims(r), 1, "i64"), dims, rank - 1, "i64")
        return self.wrapped(self.when(rank.eq(2), lambda: r, lambda: self.shaped(r, rank, dims)))


def linear_rule(code: Code) -> str:
    """Gradients of ``linear`` of rows; that of the bias is left to the engine to add up."""
    k = ProductRule(code, "linear_rule")
    node, g = k.open()
    edges, saved = k.items(node, "edges", 3), k.items(node, "saved", 2)
    none, grad = k.object(None), k.argument(1)
    wanted = [~k.same(edge, none) for edge in edges]
    m, p = k.require_rows(g)
    _, loop, data, dtype = k.loop_for(k.dtype(g), (0, 1))
    weight = k.when(wanted[0], lambda: k.other(node, saved[0], dtype, p, 0), lambda: g)
    x = k.when(wanted[1], lambda: k.other_rows(node, saved[1], g, m), lambda: g)
    for array in (weight, x, g):  # an allocation may run Python code, which may give their tensors other memory
        k.own(k.incref(array))
    rows, others = k.own(k.rows_of(g, m)), k.own(k.rows_of(x, m))
    makers = (
        partial(k.product, dtype, loop, data, rows, weight, (False, False), g),
        partial(k.product, dtype, loop, data, rows, others, (True, False)),
    )
    results = [k.own(k.when(is_wanted, make, lambda: k.incref(none))) for make, is_wanted in zip(makers, wanted, strict=False)]
    k.drop(weight, x, g, rows, others)
    k.give_gradients(*results, k.own(k.incref(k.pick(wanted[2], grad, none))))
    return k.finish()


def product_rule(code: Code) -> str:
    """Gradients of the product of two matrices."""
    k = ProductRule(code, "product_rule")
    node, g = k.open()
    edges, saved, none = k.items(node, "edges", 2), k.items(node, "saved", 2), k.object(None)
    wanted = [~k.same(edge, none) for edge in edges]
    m, p = k.require_gradient(g)
    _, loop, data, dtype = k.loop_for(k.dtype(g), (0, 1))
    b = k.when(wanted[0], lambda: k.other(node, saved[0], dtype, p, 1), lambda: g)
    a = k.when(wanted[1], lambda: k.other(node, saved[1], dtype, m, 0), lambda: g)
    k.require(~wanted[1] | (k.size(a) < k.word(records.LIMIT)))
    for array in (b, a, g):
        k.own(k.incref(array))
    makers = (
        partial(k.product, dtype, loop, data, g, b, (False, True)),
        partial(k.product, dtype, loop, data, a, g, (True, False)),
    )
    results = [k.own(k.when(is_wanted, make, lambda: k.incref(none))) for make, is_wanted in zip(makers, wanted, strict=True)]
    k.drop(b, a, g)
    k.give_gradients(*results)
    return k.finish()


def of_product_rules(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of a product, which multiplies as ``mm`` does.

    Raises:
        Unfit: the loops are others than those of the rules in Python, or nodes keep something else.
    """
    if len(kind.tensors) != 2:
        raise records.Unfit(op.name)
    record = records.Record()
    put_products(record, primitive("mm"))
    return record
