"""Launches of steps of optimizers: all that a step goes by, as tables of words for machine code (``steps``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

NO_COUNTER, SINGLE, DOUBLE = range(3)  # counters of steps: none, of float32, of float64
ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER = range(5)
_OPERATIONS = {np.add: ADD, np.subtract: SUBTRACT, np.multiply: MULTIPLY, np.divide: DIVIDE, np.power: POWER}
ANY = -1  # in an item's place for an array: any value will do


class Fields:
    """Names of the words of a table's row."""

    def __init__(self, names: str):
        self.names = names.split()
        self.size = len(self.names)

    def place(self, name: str) -> int:
        return self.names.index(name)

    def table(self, rows: Sequence[dict[str, int]]) -> np.ndarray:
        return np.array([[row[name] for name in self.names] for row in rows], np.int64).reshape(-1, self.size)


HEAD = Fields("state state_count state_items groups group_count group_table taken")
GROUP = Fields(
    "options option_count option_items params row_count rows counters registers program begin steps places numbers number_count "
    "gradients kernel arguments chunks"
)
ROW = Fields("param array counter state item_count items")  # array: 0 where there is no gradient; state: 0 without one
ITEM = Fields("key value array")  # of a dictionary; the array of a tensor that a step writes to


class Undecided(Exception):
    """A rule asks for the value of a number that changes from step to step."""


class Symbol(NDArrayOperatorsMixin):
    """A number that changes from step to step; arithmetic with it becomes a program."""

    def __init__(self, program: Program, place: tuple[str, int]):
        self.program, self.place = program, place

    def __array_ufunc__(self, function: Any, method: str, *operands: Any) -> Symbol:
        return self.program.applied(function, operands)

    def __bool__(self) -> bool:
        raise Undecided

    __float__ = __int__ = __bool__


class Program:
    """Arithmetic over numbers in registers: the count, the learning rate, constants, and then each step's result.

    Attributes:
        count, lr: the numbers that are known when a step is made.
    """

    def __init__(self) -> None:
        self.count, self.lr = Symbol(self, ("given", 0)), Symbol(self, ("given", 1))
        self.constants: list[float] = []
        self.steps: list[tuple[int, Any, Any]] = []

    def applied(self, function: Any, operands: tuple[Any, ...]) -> Symbol:
        if function is np.negative:
            function, operands = np.multiply, (-1.0, *operands)
        if function not in _OPERATIONS or len(operands) != 2:
            raise Undecided
        a, b = map(self.placed, operands)
        self.steps.append((_OPERATIONS[function], a, b))
        return Symbol(self, ("result", len(self.steps) - 1))

    def placed(self, value: Any) -> tuple[str, int]:
        """The place of a number; a constant gets one."""
        if isinstance(value, Symbol):
            return value.place
        if not isinstance(value, int | float) or float(value) != value:
            raise Undecided
        self.constants.append(float(value))
        return "constant", len(self.constants) - 1

    def words(self, numbers: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Registers, steps, the places of ``numbers``, and the place of the first result."""
        wanted = [self.placed(number) for number in numbers]
        begins = {"given": 0, "constant": 2, "result": 2 + len(self.constants)}

        def register(place: tuple[str, int]) -> int:
            return begins[place[0]] + place[1]

        registers = np.zeros(begins["result"] + len(self.steps))
        registers[2 : begins["result"]] = self.constants
        steps = np.array([[kind, register(a), register(b)] for kind, a, b in self.steps], np.int64).reshape(-1, 3)
        return registers, steps, np.array([register(place) for place in wanted], np.int64), begins["result"]


class Launch:
    """All objects that the steps of an optimizer go by; good while they are the same.

    Args:
        optimizer: its ``state`` and its ``param_groups`` are compared.
        groups: the groups' words.
    Attributes:
        words: what machine code is given.
    """

    __slots__ = ("groups", "kept", "words")

    def __init__(self, optimizer: Any, groups: list[Group]):
        self.groups, self.kept = groups, [optimizer.state, optimizer.param_groups]
        items, count = dictionary_items(optimizer.state, {}, self.kept)
        table = GROUP.table([group.words for group in groups])
        self.kept += [items, table]
        head = {
            "state": id(optimizer.state), "state_count": count, "state_items": address(items),
            "groups": id(optimizer.param_groups), "group_count": len(groups), "group_table": address(table), "taken": 0,
        }  # fmt: skip
        self.words = HEAD.table([head])

    @property
    def taken(self) -> int:
        """The number of steps that it has made."""
        return int(self.words[0, HEAD.place("taken")])


class Group:
    """The words of a group of parameters.

    Args:
        options: the group.
        rows: of each parameter its array, its state, the arrays of that by name, and the counter of its steps; None without a gradient.
        program, numbers: what computes the rule's numbers, and these.
        kernel, arguments, chunks: the rule's kernel, what it is given but for gradients and numbers, and how many chunks there are.
    """

    __slots__ = ("kept", "words")

    def __init__(
        self, options: dict[str, Any], rows: list[Any], program: Program, numbers: Sequence[Any], kernel: Any, table: Any
    ):  # fmt: skip
        self.kept: list[Any] = [options, rows, kernel, table]
        items, count = dictionary_items(options, {"lr": ANY}, self.kept)
        registers, steps, places, begin = program.words(numbers)
        params, written = options["params"], [self._row(*each) for each in zip(options["params"], rows, strict=True)]
        row_table, values = ROW.table(written), np.zeros(len(numbers))
        gradients = np.zeros(sum(row is not None for row in rows), np.int64)
        packed = kernel.pack(id(table.chunks), id(table.tensors), id(gradients), id(values), table.chunk_size, 0)
        arguments = np.frombuffer(packed, np.int64).copy()
        dtypes = {row.counter.dtype for row in rows if row is not None and row.counter is not None}
        counters = NO_COUNTER if not dtypes else SINGLE if dtypes == {np.dtype(np.float32)} else DOUBLE
        self.kept += [params, tuple(params), items, registers, steps, places, row_table, values, gradients, arguments]
        self.words = {
            "options": id(options), "option_count": count, "option_items": address(items), "params": id(params), "row_count": len(rows),
            "rows": address(row_table), "counters": counters, "registers": address(registers), "program": address(steps), "begin": begin,
            "steps": len(steps), "places": address(places), "numbers": address(values), "number_count": len(numbers),
            "gradients": address(gradients), "kernel": kernel.address, "arguments": address(arguments), "chunks": len(table.chunks),
        }  # fmt: skip

    def _row(self, param: Any, row: Any) -> dict[str, int]:
        if row is None:
            return {"param": id(param), "array": 0, "counter": 0, "state": 0, "item_count": 0, "items": 0}
        items, count = dictionary_items(row.state, row.arrays, self.kept)
        self.kept.append(items)
        state, counter = 0 if not count else id(row.state), 0 if row.counter is None else id(row.counter)
        return {
            "param": id(param),
            "array": id(row.array),
            "counter": counter,
            "state": state,
            "item_count": count,
            "items": address(items),
        }


class Row(NamedTuple):
    """A parameter with a gradient: its array, its state, the arrays of the entries that a step writes to, and the counter among them."""

    array: np.ndarray
    state: dict[str, Any]
    arrays: dict[str, Any]
    counter: np.ndarray | None


def address(table: np.ndarray) -> int:
    return table.__array_interface__["data"][0]


def dictionary_items(dictionary: dict[Any, Any], arrays: dict[str, Any], kept: list[Any]) -> tuple[np.ndarray, int]:
    """The items of a dictionary as a table, and their number; ``arrays`` by key, or ANY."""
    rows = []
    for key, value in dictionary.items():
        array = arrays.get(key) if isinstance(key, str) else None
        rows.append({"key": id(key), "value": id(value), "array": 0 if array is None else ANY if array is ANY else id(array)})
        kept += [key, value, array]
    return ITEM.table(rows), len(rows)
