"""Records: what the machine code of a form is told of an operation.

A record is what a built-in function gets as ``self``: 64-bit words that say which class of node records the call, what that keeps, and,
where the form computes, which loop of NumPy's does it and how far small operands go.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.kinds import host
from ...core.calls.operation import Op
from ...core.calls.registry import primitive
from ...core.calls.wrapper_source import CHECKED
from ...core.tape.derivatives import Item
from .interpreter import loop_of

DTYPES = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)]
F32, F64, I64, BOOL = range(len(DTYPES))  # their places
ELEMENTS = ("f32", "f64", "i64", "b8")  # as memory holds them
MOST = 8  # things of one kind that a node keeps
# What a node keeps: an argument, the result, an object for all, an argument's shape, an argument's dtype of those above.
NOTHING, ARGUMENT, RESULT, OBJECT, SHAPE, DTYPE = range(6)
PLACE, NEEDED = 8, 32  # bits of a word where the argument's place begins, and the edges for whose gradients it is needed

# Fields, with their places in words.
NODE = 0  # the class; 0 where nothing is ever recorded
EDGES = 1  # their number, then each operand's place among the arguments, then the places of operands that are saved and have no edge
SEEN = EDGES + 1 + MOST  # the number of all these: their marks are looked at
SAVED = SEEN + 1  # their number, then a word for each
ATTRS = SAVED + 1 + MOST  # a tuple for all nodes, or 0; their number, then two words for each: what it is, and an object
SETTLED = ATTRS + 2 + 2 * MOST  # number of the operands whose strides decide about the result's, then each one's place
FLOATS = SETTLED + 1 + MOST  # whether only results of floats are recorded
NUMBERS = FLOATS + 1  # whether the second operand may be a Python number
LIMIT = NUMBERS + 1  # from so many elements on there are other kernels
LOOPS = LIMIT + 1  # of each dtype: the loop (0: none), its data, the dtype of its result
EXTRA = LOOPS + 3 * len(DTYPES)  # what a form needs besides
SIZE = EXTRA + 13  # rules have longer ones


class Unfit(Exception):
    """An operation is not of this form."""


class Record:
    """A record being written, with the objects that it points to."""

    def __init__(self, size: int = SIZE) -> None:
        self.words = np.zeros(size, np.uint64)
        self.kept: list[Any] = []

    def put(self, place: int, value: int) -> None:
        self.words[place] = value

    def keep(self, place: int, thing: Any) -> None:
        self.kept.append(thing)
        self.words[place] = id(thing)

    def put_history(self, op: Op, places: dict[str, int], dtype: Any = None) -> None:
        """Tell what is recorded of a call, whose arguments of these names stand at ``places``; the others have their defaults.

        Args:
            dtype: that of all operands, where a form takes only one; ``DTYPE`` where it takes those of ``DTYPES``.

        Raises:
            Unfit: nodes of the operation keep what no record tells.
        """
        if op.rules is None:
            return
        if op.is_multi_output:
            raise Unfit(op.name)
        self.put_edges(op, places, dtype)
        kind, edges = op.node, list(op.node.inputs)
        self.put(SAVED, len(kind.tensors))
        for k, item in enumerate(kind.tensors):
            code = RESULT if item.source == "result" else ARGUMENT | places[op.names[item.position]] << PLACE
            needed = sum(1 << edges.index(name) for name in item.needed_for if name in edges)
            self.put(SAVED + 1 + k, code | needed << NEEDED)

    def put_edges(self, op: Op, places: dict[str, int], dtype: Any = None) -> None:
        """``put_history`` but for the tensors that are kept."""
        kind = op.node
        if any(op.params[op.names.index(name)].kind == "list" for name in kind.inputs):
            raise Unfit(op.name)
        if max(len(kind.inputs), len(kind.tensors), len(kind.others)) > MOST:
            raise Unfit(op.name)
        self.keep(NODE, kind)
        edges = list(kind.inputs)
        others = [op.names[item.position] for item in kind.tensors if item.source == "operand"]
        seen = list(dict.fromkeys([*edges, *others]))
        if len(seen) > MOST:
            raise Unfit(op.name)
        self.put(EDGES, len(edges))
        self.put(SEEN, len(seen))
        for k, name in enumerate(seen):
            self.put(EDGES + 1 + k, places[name])
        self._put_attributes(op, kind.others, places, dtype)

    def _put_attributes(self, op: Op, items: Sequence[Item], places: dict[str, int], dtype: Any) -> None:
        found: list[tuple[int, Any]] = []
        for item in items:
            name = op.names[item.position]
            param = op.params[item.position]
            if item.source == "shape" and name in places:
                found.append((SHAPE | places[name] << PLACE, None))
            elif item.source == "attr" and name in places:
                found.append((ARGUMENT | places[name] << PLACE, None))
            elif item.source == "attr":
                found.append((OBJECT, param.default))
            elif item.source == "dtype" and dtype is DTYPE and name in places:
                found.append((DTYPE | places[name] << PLACE, None))
            elif item.source == "dtype" and dtype is not None:
                found.append((OBJECT, dtype))
            else:
                raise Unfit(op.name)
        if all(code == OBJECT for code, _ in found):
            self.keep(ATTRS, tuple([value for _, value in found]))
            return
        self.put(ATTRS + 1, len(found))
        for k, (code, value) in enumerate(found):
            self.put(ATTRS + 2 + 2 * k, code)
            self.keep(ATTRS + 3 + 2 * k, value)

    def put_loop(self, place: int, ufunc: np.ufunc, dtype: np.dtype, result: np.dtype | None = None) -> bool:
        """Put a ufunc's loop for operands of one dtype, with its data, at two words; returned is whether it has one."""
        loop = loop_of(ufunc, f"{dtype.char * ufunc.nin}->{(result or dtype).char}")
        if loop is not None:
            self.words[place : place + 2] = loop
        return loop is not None

    def put_loops(self, ufunc: np.ufunc, dtypes: Sequence[np.dtype]) -> None:
        """Put the loops of a ufunc that keeps dtypes.

        Raises:
            Unfit: it has none for one of them.
        """
        for dtype in dtypes:
            place = LOOPS + 3 * DTYPES.index(dtype)
            if not self.put_loop(place, ufunc, dtype):
                raise Unfit(ufunc.__name__)
            self.keep(place + 2, dtype)

    def put_table(self, first: int, ufuncs: Sequence[np.ufunc], dtypes: Sequence[np.dtype] = DTYPES[:2]) -> None:
        """Put the loops of several ufuncs, of each dtype in turn, from a word on.

        Raises:
            Unfit: there is none for one of them.
        """
        for place, dtype in enumerate(dtypes):
            for which, ufunc in enumerate(ufuncs):
                if not self.put_loop(first + 2 * (place * len(ufuncs) + which), ufunc, dtype):
                    raise Unfit(ufunc.__name__)

    def put_limit(self, op: Op, most: int = 1 << 15, work: str | None = None) -> None:
        """Put from how much ``work`` on there are other kernels: an expression, or None for elements of the first operand.

        Raises:
            Unfit: it is not that which decides.
        """
        choice = host.choice_for(op)
        if choice is not None and choice.work != work:
            raise Unfit(op.name)
        self.put(LIMIT, most if choice is None else min(most, choice.threshold))

    def put_settled(self, places: Sequence[int]) -> None:
        self.put(SETTLED, len(places))
        for k, place in enumerate(places):
            self.put(SETTLED + 1 + k, place)


def of_pointwise(op: Any) -> tuple[Record, int]:
    """The record of an element-wise operation that is one ufunc, and the number of its operands.

    Raises:
        Unfit: it is none of this form.
    """
    ufunc = op.ufunc
    operands = [p.name for p in op.params if p.kind != "attr"]
    if not isinstance(ufunc, np.ufunc) or len(operands) != ufunc.nin or ufunc.nin > 2 or ufunc.nout != 1 or not op.elementwise:
        raise Unfit(op.name)
    if "cpu" in op.autocast:  # which is not asked about
        raise Unfit(op.name)
    record, found = Record(), False
    for k, dtype in enumerate(DTYPES):
        result = _result_of(op, ufunc, dtype)
        if result is not None and record.put_loop(LOOPS + 3 * k, ufunc, dtype, result):
            found = True
            record.keep(LOOPS + 3 * k + 2, result)
    if not found:
        raise Unfit(op.name)
    record.put(NUMBERS, any(p.kind == "number" for p in op.params))
    record.put_limit(op)
    record.put_history(op, {name: k for k, name in enumerate(operands)})
    return record, ufunc.nin


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
    return DTYPES[DTYPES.index(result)] if result == dtype or op.promotion not in CHECKED else None


def of_results(op: Op, numbers: frozenset[str], is_checked: bool, is_settled: bool) -> Record:
    """The record of what follows the kernel's call: arguments are its result, and all of the operation's in their order.

    Args:
        numbers: names of operands that are Python numbers.
        is_checked: whether the wrapper has seen that the result has its operands' dtype.
        is_settled: whether operands' strides decide about the result's.
    Raises:
        Unfit: nodes of the operation keep what no record tells.
    """
    if op.is_view and op.rules is None:  # of an operand that requires grad its result is a leaf of its own kind
        raise Unfit(op.name)
    record, places = Record(), {name: 1 + k for k, name in enumerate(op.names)}
    record.put_history(op, places)
    record.put(FLOATS, not is_checked and not op.is_view)
    if is_settled:
        record.put_settled([places[p.name] for p in op.params if p.kind in ("tensor", "number", "optional") and p.name not in numbers])
    return record


def of_views(op: Op) -> Record:
    """The record of whole calls of an operation whose results show its first argument.

    Raises:
        Unfit: nodes of the operation keep what no record tells.
    """
    record = Record()
    record.put_history(op, {name: k for k, name in enumerate(op.names)})
    return record


def of_indexing(op: Op, parted: type, whole: type) -> Record:
    """The record of indexing, of which ``op`` takes single elements of a dimension; two more classes of nodes, of the same attributes."""
    record = of_views(op)
    record.keep(EXTRA, parted)
    record.keep(EXTRA + 1, whole)
    return record


def of_reflected(op: Any) -> Record:
    """The record of an element-wise operation of a number and a tensor, in this order.

    Raises:
        Unfit: it is none of this form.
    """
    record, operands = of_pointwise(op)
    if operands != 2 or op.rules is None:
        raise Unfit(op.name)
    return record


def of_written(op: Any) -> Record:
    """The record of the in-place form of an element-wise operation.

    Raises:
        Unfit: it is none of this form.
    """
    record, operands = of_pointwise(op)
    if operands != 2:
        raise Unfit(op.name)
    return record


def of_relu(op: Any) -> Record:
    """The record of ``relu``, of ``nn.functional`` too: a maximum with zero; the Python wrapper has another loop for more elements."""
    count, op = len(op.names), primitive("relu")
    record = of_views(op)
    record.put(EXTRA, count)
    record.put_loops(np.maximum, DTYPES[:3])
    record.put_limit(op, vars(sys.modules[op.module])["BRANCHLESS"])
    return record


def of_copies(op: Any) -> Record:
    """The record of ``clone``."""
    record = of_views(op)
    record.put_limit(op)
    return record
