"""Derivatives of element-wise operations: formulas of NumPy's own loops, block by block, which one function interprets.

A formula is compiled to steps when its operation's record is made: the loop, the places of its operands and of its result. So
another operation costs a line of the table, and its gradients are the bits that the rule in Python gives.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.native import at_most
from ...core.tape.node import Node
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import common_end, number_cell
from .interpreter import ALIGNED, FLAGS
from .rules import Rule

# By key of the operation and name of the operand; the same operators in the same order as the rules have them.
FORMULAS: dict[str, dict[str, str]] = {
    "sub": {"input": "grad", "other": "-grad"},
    "rsub": {"input": "-grad", "other": "grad"},
    "mul": {"input": "grad * other", "other": "grad * input"},
    "div": {"input": "grad / other", "other": "-grad * (input / other / other)"},
    "neg": {"input": "-grad"},
    "exp": {"input": "grad * result"},
    "log": {"input": "grad / input"},
    "sqrt": {"input": "grad / (2 * result)"},
    "square": {"input": "grad * (input * 2)"},
    "pow": {"input": "grad * (input * 2)"},  # if the exponent is 2
    "tanh": {"input": "grad * (1 - result * result)"},
    "sigmoid": {"input": "grad * (1 - result) * result"},
    "relu": {"input": "kept(result, grad)"},
}
_LOOPS = (np.add, np.subtract, np.multiply, np.divide, np.negative)
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _NEGATIVE, _KEPT = range(6)
_OPERATORS: dict[type, int] = {ast.Add: _ADD, ast.Sub: _SUBTRACT, ast.Mult: _MULTIPLY, ast.Div: _DIVIDE}

# Places of operands: the gradient, what is saved, constants, intermediate results, the result; ``_NO`` is none.
_GRAD, _SAVED, _CONSTANT, _BETWEEN, _RESULT, _NO = 0, 1, 5, 7, 10, 11
_MOST_EDGES, _MOST_STEPS, _BLOCK = 2, 4, 1024
_MOST_ROWS = 64  # that are read one by one
_UNTIL_FUSED = 1 << 13  # elements: from there on one kernel does all of a rule
_UNTIL = 500  # elements: to copy more NumPy lets other threads run, which may take operands away
# Fields of the record: of each edge the number of steps with four words each; of each dtype the loops with their data; constants; what is
# expected of an attribute and of a saved number: its place, counted from 1.
_STEPS = records.EXTRA
_OF_EDGE = 1 + 4 * _MOST_STEPS
_TABLE = _STEPS + _MOST_EDGES * _OF_EDGE
_NUMBERS = _TABLE + 2 * 2 * len(_LOOPS)
_PASSED_ALPHA = records.EXTRA  # of what passes gradients on
_ALPHA, _EXPONENT, _SIZE = _NUMBERS + 4, _NUMBERS + 5, _NUMBERS + 6


class _Steps(ast.NodeVisitor):
    """The steps of one formula.

    Args:
        names: places of what is saved, by name. numbers: constants of all formulas of a record.
    """

    def __init__(self, names: dict[str, int], numbers: list[float]):
        self.names, self.numbers = names, numbers
        self.steps: list[tuple[int, int, int, int]] = []
        self._between = _BETWEEN

    def of(self, formula: str) -> list[tuple[int, int, int, int]]:
        self.visit(ast.parse(formula, mode="eval").body)
        if self.steps:
            self.steps[-1] = (*self.steps[-1][:3], _RESULT)
        return self.steps

    def _step(self, loop: int, a: int, b: int) -> int:
        self.steps.append((loop, a, b, self._between))
        self._between += 1
        return self._between - 1

    def visit_Name(self, node: ast.Name) -> int:
        return _GRAD if node.id == "grad" else self.names[node.id]

    def visit_Constant(self, node: ast.Constant) -> int:
        self.numbers.append(float(node.value))  # type: ignore[arg-type]
        return _CONSTANT + len(self.numbers) - 1

    def visit_UnaryOp(self, node: ast.UnaryOp) -> int:
        return self._step(_NEGATIVE, self.visit(node.operand), _NO)

    def visit_BinOp(self, node: ast.BinOp) -> int:
        a = self.visit(node.left)
        return self._step(_OPERATORS[type(node.op)], a, self.visit(node.right))

    def visit_Call(self, node: ast.Call) -> int:
        a, b = map(self.visit, node.args)
        return self._step(_KEPT, a, b)


class ResultRule(Rule):
    """A rule that reads what the node computed."""

    def saved_result(self, node: Value, triple: Value) -> Value:
        """The array (borrowed) of the node's own result, which is kept as a tuple, and which nobody has written to since."""
        self.require(self.field(triple, 16, "i64").eq(3))
        array, storage = (self.field(triple, self.interpreter.tuple_items + 8 * k) for k in (0, 1))
        self.require(self.is_exactly(array, np.ndarray))
        self.require_unwritten(node, storage)
        return array


class _Formula(ResultRule):
    """A rule that interprets its record's steps."""

    def prepare(self) -> None:
        self.addresses, self.distances, self.moves = self.scratch(_NO, "ptr"), self.scratch(_NO, "i64"), self.scratch(_NO, "i64")
        self.cells, self.between = self.scratch(4, "i64"), self.scratch(3 * _BLOCK, "f64")
        self.strided = self.scratch(_NO, "ptr")  # of operands that lie otherwise

    def put_operand(self, place: Value | int, address: Value, step: Value, moves: Value) -> None:
        """Note where an operand lies, the bytes between elements, and whether it goes on from block to block: 2 where by its strides."""
        for table, value, element in ((self.addresses, address, "ptr"), (self.distances, step, "i64"), (self.moves, moves, "i64")):
            self.store(value, table, place, element)

    def put_gradient(self, grad: Value, g: Value, size: Value) -> tuple[Value, Value]:
        """Note the gradient, row-major or all one element; its number of elements, and whether it must be copied, as it repeats some."""
        n, no_short = self.small(g)
        dims, strides = self.dims(g), self.strides(g)

        def look(i: Value, spread: Value, zeros: Value, least: Value, mixed: Value) -> tuple[Value, ...]:
            step = self.load(strides, i, "i64")
            is_zero = step.eq(0)
            zeros = zeros | self.cast(is_zero & (self.load(dims, i, "i64") > 1), "i64")
            mixed = mixed | self.cast(~is_zero & ((step > least) | (step < 0)), "i64")
            return spread | step, zeros, self.pick(is_zero, least, step), mixed

        zero = self.i64(0)
        spread, zeros, _, mixed = self.loop(0, self.ndim(g), look, carried=(zero, zero, self.i64(1 << 62), zero))
        is_one, in_order = spread.eq(0) & self.ndim(g).ne(0), self.is_row_major(g)
        repeats = ~is_one & ~in_order & zeros.ne(0) & mixed.eq(0) & no_short & (n <= _UNTIL)
        self.require((in_order | is_one | repeats) & (n > 0))
        self.when(in_order & ~is_one, lambda: self.require_usual_strides([grad], no_short))
        self.put_operand(_GRAD, self.data(g), self.pick(is_one, self.i64(0), size), self.cast(~is_one, "i64"))
        self.decides = in_order & ~is_one & no_short  # NumPy's results are row-major then, however others lie
        return n, repeats

    def copy_gradient(self, g: Value, repeats: Value) -> Value:
        """The gradient's array (owned), row-major where it repeats elements."""
        made = self.when(repeats, lambda: self.call_c("PyArray_NewCopy", "ptr", g, self.i32(0)), lambda: self.incref(g))
        self.check(self.exists(made))
        self.store(self.data(made), self.addresses, _GRAD, "ptr")
        return self.own(made)

    def put_saved(self, node: Value, g: Value, n: Value, place: Value, size: Value) -> Value:
        """Note what the node saved; the number of elements in a block."""
        count, saved = self.word(records.SAVED), self.slot(node, Node, "saved")
        self.require(self.is_exactly(saved, tuple))
        self.require(self.field(saved, 16, "i64").eq(count))

        def item(i: Value, block: Value) -> Value:
            thing = self.load(self.at(saved, self.interpreter.tuple_items, "i8"), i, "ptr")
            is_number = self.is_exactly(thing, float) | self.is_exactly(thing, int)
            self.require(is_number | (self.word(_EXPONENT).ne(i + 1)))

            def of_number() -> Value:
                cell = number_cell(self, thing, place)
                self.store(self.load(cell, 0, "i64"), self.cells, i, "i64")
                self._expect(i, place)
                self.put_operand(i + _SAVED, self.at(self.cells, i, "i64"), self.i64(0), self.i64(0))
                return block

            def of_array() -> Value:
                b = self.when(self.is_exactly(thing, tuple), lambda: self.saved_result(node, thing), lambda: self._operand(node, thing, g))
                self.require(self.same(self.dtype(b), self.dtype(g)))
                return self.when(self.is_row_major(b), lambda: in_order(b), lambda: self._put_strided(i, b, g, n, block))

            def in_order(b: Value) -> Value:
                inner = common_end(self, g, b)
                is_all, is_one = inner.eq(n), inner.eq(1)
                repeats = ~is_all & ~is_one
                self.require(~repeats | ((inner <= _BLOCK) & (block.eq(0) | block.eq(inner))))
                step = self.pick(is_one & ~is_all, self.i64(0), size)
                self.put_operand(i + _SAVED, self.data(b), step, self.cast(is_all, "i64"))
                return self.pick(repeats, inner, block)

            def given() -> Value:
                return self.when(is_number, of_number, of_array)

            return self.when(self.same(thing, self.object(None)), lambda: block, given)

        return self.loop(0, count, item, carried=(self.i64(0),))

    def _put_strided(self, i: Value, b: Value, g: Value, n: Value, block: Value) -> Value:
        """Note a saved array of the gradient's shape that lies otherwise, to be read row by row; the number of elements in a block."""
        rank, strides = self.ndim(b), self.strides(b)

        def look(d: Value, least: Value, mixed: Value) -> tuple[Value, Value]:
            step = self.load(strides, d, "i64")
            return step, mixed | self.cast((step > least) | (step <= 0), "i64")

        _, mixed = self.loop(0, rank, look, carried=(self.i64(1 << 62), self.i64(0)))
        self.require((mixed.eq(0) | self.decides) & self.same_sizes(b, g, self.dims) & (rank > 0))
        _, no_short = self.measured(b)
        columns = self.load(self.dims(b), rank - 1, "i64")
        self.require(no_short & (columns <= _BLOCK) & (n <= columns * _MOST_ROWS) & (block.eq(0) | block.eq(columns)))
        self.require((self.field(b, FLAGS, "i32") & ALIGNED).ne(0))
        self.put_operand(i + _SAVED, self.data(b), self.load(strides, rank - 1, "i64"), self.i64(2))
        self.store(b, self.strided, i + _SAVED, "ptr")
        return columns

    def _offset(self, operand: Value, i: Value, block: Value, size: Value) -> Value:
        """Bytes from an operand's first element to that of the block which begins at element ``i``."""
        moves = self.load(self.moves, operand, "i64")

        def by_strides() -> Value:
            array = self.load(self.strided, operand, "ptr")
            last = self.ndim(array) - 1

            def down(d: Value, row: Value, offset: Value) -> tuple[Value, Value]:
                place = last - 1 - d
                length = self.load(self.dims(array), place, "i64")
                return row // length, offset + (row % length) * self.load(self.strides(array), place, "i64")

            _, offset = self.loop(0, last, down, carried=(i // block, self.i64(0)))
            return offset

        return self.when(moves.eq(2), by_strides, lambda: i * size * moves)

    def _expect(self, i: Value, place: Value) -> None:
        def two() -> None:
            single, double = self.load(self.cells, i * 2, "f32"), self.load(self.cells, i, "f64")
            self.require((place.eq(0) & single.eq(2)) | (place.eq(1) & double.eq(2)))

        self.when(self.word(_EXPONENT).eq(i + 1), two)

    def _operand(self, node: Value, tensor: Value, g: Value) -> Value:
        b = self.saved_array(node, tensor)
        _, no_short = self.measured(g)
        self.require_usual_strides([tensor], no_short)
        return b

    def put_constants(self, place: Value, size: Value) -> None:
        for k in range(2):
            self.put_operand(_CONSTANT + k, self.at(self.words, place * 2 + (_NUMBERS + k), "i64"), self.i64(0), self.i64(0))
        for k in range(3):
            self.put_operand(_BETWEEN + k, self.at(self.between, k * _BLOCK, "f64"), size, self.i64(0))

    def compute(self, edge: int, g: Value, n: Value, block: Value, place: Value, size: Value) -> Value:
        """A new array with one edge's gradient."""
        r = self.new_array(self.dtype(g), self.ndim(g), self.dims(g))
        self.put_operand(_RESULT, self.data(r), size, self.i64(1))
        places, steps, counts = self.scratch(3, "ptr"), self.scratch(3, "i64"), self.scratch(1, "i64")

        def one_block(i: Value) -> None:
            m = self.least(block, n - i)
            self.store(m, counts, 0, "i64")

            def step(s: Value) -> None:
                at = s * 4 + (_STEPS + edge * _OF_EDGE + 1)
                loop, *operands = (self.word(0, at + k) for k in range(4))
                is_one = operands[1].eq(_NO)
                ordered = (operands[0], self.pick(is_one, operands[2], operands[1]), operands[2])
                for k, operand in enumerate(ordered):
                    begin = self.at(self.load(self.addresses, operand, "ptr"), self._offset(operand, i, block, size), "i8")
                    self.store(begin, places, k, "ptr")
                    self.store(self.load(self.distances, operand, "i64"), steps, k, "i64")

                def call() -> None:
                    address = self.at(self.words, (place * len(_LOOPS) + loop) * 2 + _TABLE, "i64")
                    self.call_c(self.load(address, 0, "ptr"), None, places, counts, steps, self.load(address, 1, "ptr"))

                self.when(loop.eq(_KEPT), lambda: self._keep(places, steps, m, place), call)

            self.loop(0, self.word(_STEPS + edge * _OF_EDGE), step)

        self.loop(0, n, one_block, step=block)
        return r

    def _keep(self, places: Value, steps: Value, m: Value, place: Value) -> None:
        """The second operand where the first is not 0 or below, else 0."""
        x, g, r = (self.load(places, k, "ptr") for k in range(3))
        across, along = (self.load(steps, k, "i64") for k in (0, 1))

        def of(element: str) -> None:
            size, zero = self.i64(4 if element == "f32" else 8), self.const(0, element)
            lanes = self.lanes(element)

            def many(i: Value, mask: Value | None) -> None:
                below = self.load(x, i, element, lanes, mask) <= 0
                self.store(self.select(below, zero, self.load(g, i, element, lanes, mask)), r, i, element, mask)

            def one(i: Value) -> None:
                below = self.load(self.at(x, i * across, "i8"), 0, element) <= 0
                self.store(self.select(below, zero, self.load(self.at(g, i * along, "i8"), 0, element)), r, i, element)

            dense = across.eq(size) & along.eq(size)
            self.when(dense, lambda: self.vector_loop(0, m, lanes, many), lambda: self.loop(0, m, one))

        self.when(place.eq(0), lambda: of("f32"), lambda: of("f64"))


def passed_rule(code: Code) -> str:
    """Gradients of what passes them on as they are."""
    k = Rule(code, "passed_rule")
    node, _ = k.open()
    grad, edges = k.argument(1), k.edges_of(node)
    _require_alpha(k, node, _PASSED_ALPHA)
    count, none = k.field(edges, 16, "i64"), k.object(None)
    made = k.call_c("PyTuple_New", "ptr", count)
    k.check(k.exists(made))
    items, targets = (k.at(each, k.interpreter.tuple_items, "i8") for each in (made, edges))
    k.loop(0, count, lambda i: k.store(k.incref(k.pick(k.same(k.load(targets, i, "ptr"), none), none, grad)), items, i, "ptr"))
    k.give(made)
    return k.finish()


def _require_alpha(k: Rule, node: Value, place: int) -> None:
    """Go on if the attribute ``alpha`` is 1, where there is one: the word at ``place`` says where, counted from 1."""

    def look() -> None:
        attributes = k.slot(node, Node, "attrs")
        k.require(k.same(k.load(k.at(attributes, k.interpreter.tuple_items, "i8"), k.word(place) - 1, "ptr"), k.object(1)))

    k.when(k.word(place).ne(0), look)


def of_passed(op: Any, kind: Any) -> records.Record:
    """The record of an operation whose gradients are that of its result."""
    if kind.tensors or any(item.name not in ("alpha", "memory_format") for item in kind.others):
        raise records.Unfit(op.name)
    record = records.Record()
    record.put(_PASSED_ALPHA, next((k + 1 for k, item in enumerate(kind.others) if item.name == "alpha"), 0))
    return record


def formula(code: Code) -> str:
    """Gradients of an element-wise operation, by its record's formulas."""
    k = _Formula(code, "formula")
    node, g = k.open()
    grad, none = k.argument(1), k.object(None)
    place = k.place_of(k.dtype(g), (0, 1))
    size = k.pick(place.eq(0), k.i64(4), k.i64(8))
    k.prepare()
    n, repeats = k.put_gradient(grad, g, size)
    block = k.put_saved(node, g, n, place, size)
    block = k.pick(block.eq(0), k.i64(_BLOCK), block)
    k.put_constants(place, size)

    _require_alpha(k, node, _ALPHA)
    edges, count = k.edges_of(node), k.word(records.EDGES)
    k.require(k.field(edges, 16, "i64").eq(count))
    wanted, arrays, dense = [], [], k.copy_gradient(g, repeats)

    def target(edge: int) -> Value:
        return k.field(edges, k.interpreter.tuple_items + 8 * edge)

    for edge in range(_MOST_EDGES):
        wanted.append(~k.same(k.when(count > edge, partial(target, edge), lambda: none), none))
        is_new = wanted[-1] & k.word(_STEPS + edge * _OF_EDGE).ne(0)
        arrays.append(k.own(k.when(is_new, partial(k.compute, edge, g, n, block, place, size), lambda: k.null)))
    made = []
    for is_wanted, array in zip(wanted, arrays, strict=True):
        new, same = partial(k.wrapped, k.disown(array)), partial(k.incref, k.pick(is_wanted, grad, none))
        made.append(k.own(k.when(k.exists(array), new, same)))
    k.drop(dense)
    results = k.call_c("PyTuple_New", "ptr", count)
    k.check(k.exists(results))
    k.put(made[0], results, k.interpreter.tuple_items)
    k.when(count > 1, lambda: k.put(made[1], results, k.interpreter.tuple_items + 8), lambda: k.decref(made[1]))
    k.give(results)
    return k.finish()


def of_formulas(op: Any, kind: Any) -> records.Record:
    """The record of an operation with formulas, of nodes of class ``kind``.

    Raises:
        Unfit: these nodes keep something else.
    """
    formulas, record = FORMULAS[op.key], records.Record(_SIZE)
    names = {item.name: _SAVED + k for k, item in enumerate(kind.tensors)}
    attributes = {item.name: k + 1 for k, item in enumerate(kind.others)}
    if len(kind.inputs) > _MOST_EDGES or len(names) > _CONSTANT - _SAVED:
        raise records.Unfit(op.name)
    record.put(records.EDGES, len(kind.inputs))
    record.put(records.SAVED, len(names))
    record.put(records.LIMIT, at_most(_UNTIL_FUSED))
    numbers: list[float] = []
    for edge, name in enumerate(kind.inputs):
        if name not in formulas:
            continue  # an exponent: a tensor's is left to Python
        steps = _Steps(names, numbers).of(formulas[name])
        record.put(_STEPS + edge * _OF_EDGE, len(steps))
        for k, step in enumerate(steps):
            at = _STEPS + edge * _OF_EDGE + 1 + 4 * k
            record.words[at : at + 4] = step
    for place, dtype in enumerate(records.DTYPES[:2]):
        for k, ufunc in enumerate(_LOOPS):
            record.put_loop(_TABLE + 2 * (place * len(_LOOPS) + k), ufunc, dtype)
        for k, value in enumerate(numbers):
            record.words[_NUMBERS + 2 * place + k :].view(dtype)[0] = value
    record.put(_ALPHA, attributes.get("alpha", 0))
    record.put(_EXPONENT, names["exponent"] - _SAVED + 1 if "exponent" in names else 0)
    return record
