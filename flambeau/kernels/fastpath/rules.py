"""Forms of derivatives: gradients for the edges of a node, from the gradient of its result, where nobody records them."""

from __future__ import annotations

from typing import Any

from ...core.calls.registry import primitive
from ...core.storage import UntypedStorage
from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from . import records
from .code import Code
from .products import Product, of_products


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

    def saved_array(self, node: Value, tensor: Value) -> Value:
        """The array of a saved tensor (borrowed) that nobody has written to since."""
        self.require(self.is_plain(tensor))
        storage = self.slot(tensor, Tensor, "_storage")

        def is_old() -> Value:
            self.require(self.is_exactly(storage, UntypedStorage))
            changed, made = self.slot(storage, UntypedStorage, "changed"), self.slot(node, Node, "seq")
            return self.call_c("PyLong_AsLong", "i64", changed) <= self.call_c("PyLong_AsLong", "i64", made)

        self.require(self.when(self.same(storage, self.object(None)), lambda: self.const(True, "b1"), is_old))
        return self.any_array_of(tensor)

    def unrecorded(self, array: Value) -> Value:
        """A tensor (owned) around an array, which is handed over."""
        made = self.new_tensor(array)
        self.fill(made, Tensor, _node=self.incref(self.object(None)), _requires_grad=self.incref(self.object(False)))
        return made

    def give_gradients(self, *results: Value) -> None:
        """Return gradients, which are owned."""
        made = self.call_c("PyTuple_New", "ptr", self.i64(len(results)))
        self.check(self.exists(made))
        for place, result in enumerate(results):
            self.put(result, made, self.interpreter.tuple_items + 8 * place)
        self.give(made)


def linear_rule(code: Code) -> str:
    """Gradients of ``linear`` of matrices; that of the bias is left to the engine to add up."""
    k = Rule(code, "linear_rule")
    node, g = k.open()
    edges, saved = k.items(node, "edges", 3), k.items(node, "saved", 2)
    none = k.object(None)
    wanted = [~k.same(edge, none) for edge in edges]
    m, p = k.require_matrix(g)
    k.require(m * p < k.word(records.LIMIT))
    _, loop, data, dtype = k.loop_for(k.dtype(g), (0, 1))

    def other(tensor: Value, rows: Value) -> Value:
        array = k.saved_array(node, tensor)
        k.require(k.same(k.dtype(array), dtype))
        n, _ = k.require_matrix(array)
        k.require(n.eq(rows))
        return array

    weight = k.when(wanted[0], lambda: other(saved[0], p), lambda: g)
    x = k.when(wanted[1], lambda: other(saved[1], m), lambda: g)
    (across, along), grad = k.steps(g), k.argument(1)

    def of_input() -> Value:
        n = k.load(k.dims(weight), 1, "i64")
        r = k.matrix(dtype, m, n)
        k.multiply(loop, data, (m, p, n), [(k.data(g), across, along), (k.data(weight), *k.steps(weight)), (k.data(r), *k.steps(r))])
        return k.disown(k.unrecorded(r))

    def of_weight() -> Value:
        n = k.load(k.dims(x), 1, "i64")
        r = k.matrix(dtype, p, n)
        k.multiply(loop, data, (p, m, n), [(k.data(g), along, across), (k.data(x), *k.steps(x)), (k.data(r), *k.steps(r))])
        return k.disown(k.unrecorded(r))

    for array in (weight, x, g):  # an allocation may run Python code, which may give their tensors other memory
        k.own(k.incref(array))
    makers = (of_input, of_weight)
    results = [k.own(k.when(is_wanted, make, lambda: k.incref(none))) for make, is_wanted in zip(makers, wanted, strict=False)]
    k.drop(weight, x, g)
    k.give_gradients(*results, k.own(k.incref(k.pick(wanted[2], grad, none))))
    return k.finish()


def of_linear_rule(op: Any, kind: Any) -> records.Record:
    """The record of the derivative of ``linear``, which multiplies as ``mm`` does.

    Raises:
        Unfit: the loops are others than those of the rules in Python.
    """
    record = of_products(primitive("mm"))
    record.put(records.NODE, 0)
    return record
