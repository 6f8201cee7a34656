"""A program's calls as a table of rows for machine code (``kernels/fastpath/replays``).

All guards become rows. Where a plan is one list of launches, so do the launches, the numbers of optimizers' steps, and what a call leaves
behind; otherwise the last row calls ``Program.run``. Whatever the rows do not let through goes to Python, which knows of more than they do:
values that are equal and not the same, options that were changed, plans that have to be made anew.
"""

from __future__ import annotations

import ast
import gc
import struct
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..capture.driver import KEPT, Arena, Plan, Step, address_of_lists, is_alone, is_new_and_plain, maker_of
from ..capture.graph import before_writes
from ..capture.lowering import Lowered
from ..core import dtype as dtypes
from ..core.arrays.native import switch
from ..core.arrays.threads import Threads
from ..core.calls.interruption import pass_on
from ..core.calls.machine_calls import CHOSEN
from ..core.settings import settings
from ..core.state import INFERENCE, changes
from ..core.tensor import Parameter, Tensor, note_order, storage_of
from ..kernels.fastpath import launches, replays
from ..kernels.fastpath.interpreter import Unsupported, interpreter, require, word
from ..kernels.fastpath.steps import power_address
from ..optim import optimizer as hooks
from .programs import AS_WRITTEN, MISSED, REFUSED
from .results import FreedBackward

__all__ = ["Direct", "made"]

SOON, LATER = 32, 500  # replays after which a table is made, and machine code is compiled for it
_addresses: list[dict[str, int]] = []  # once they are known; empty where there is no machine code


class _Unfit(Exception):
    """Something has no row."""


def _found(compiles: bool) -> dict[str, int] | None:
    """Addresses of the handlers; None where there are none, or not without compiling them."""
    if not _addresses:
        found = replays.addresses(compiles)
        if found is None:
            return None
        _addresses.append(found)
    return _addresses[0] or None


class Direct:
    """The table of a program.

    Attributes:
        call: function (args, kwargs) -> the program's result, or ``DECLINED``.
        plan: the plan that its launches are of, or None.
    """

    def __init__(self, program: Any, addresses: dict[str, int]):
        self._table = table = _Rows(addresses)
        self.plan: Plan | None = None
        self._changes = _guards(table, program)
        try:
            rows = table.copy()
            self.plan = _launched(rows, program)
            self._table = table = rows
        except (_Unfit, Unsupported):
            _asked(table, program)
        self.call, self._rows = table.function()

    def unchanged(self, count: int) -> None:
        """From now on the count of changes is this one."""
        self._rows[self._changes, 2] = id(count)


def made(program: Any, replays_done: int) -> Direct | None:
    """The table of a program that has been replayed so often; None where it is too soon, or there cannot be one."""
    is_chosen = CHOSEN == "machine"
    if CHOSEN == "python" or (not is_chosen and (replays_done < SOON or not switch.on)):
        return None
    addresses = _found(is_chosen or replays_done >= LATER)
    try:
        return None if addresses is None else Direct(program, addresses)
    except (_Unfit, Unsupported):
        return None


class _Rows(replays.Table):
    """Rows of one program.

    Attributes:
        given: place of the first tensor among the arguments; each has one more for its array.
        gradients: places of the arrays of gradients, by the leaves' ids.
    """

    given = 0
    gradients: dict[int, int]

    def tensor(self, tensor: Any) -> tuple[int, int]:
        """Operands of a tensor: of one that is held, or of an argument by its number."""
        return (0, self.given + 2 * tensor) if tensor.__class__ is int else (self.of(tensor), 0)


# -- guards -----------------------------------------------------------------------------------------------------------------------------
def _guards(table: _Rows, program: Any) -> int:
    """All that has to be as it was; the number of the row for the count of changes."""
    table.put("records_as", table.of(program.grad))
    table.item_is(vars(dtypes), "_default", program.default_dtype)
    if settings.matmul_precision != program.precision:
        raise _Unfit
    table.item_is(vars(settings), "matmul_precision", vars(settings).get("matmul_precision"))
    _arguments(table, program)
    row = table.slot_is(changes, type(changes), "count", program._changes)
    _places(table, program._always)
    table.gradients = {}
    for leaf, form in program._leaves:
        if form is None:
            table.put("has_no_gradient", *table.tensor(leaf))
        else:
            shape, strides, dtype = form
            place = table.place()
            table.put("has_gradient", *table.tensor(leaf), place, *table.layout(dtype, shape, strides))
            table.gradients[id(leaf)] = place
    if program._alone is not None and program.arguments.count:
        alone = sorted(program._alone)
        table.put("apart", table.given, program.arguments.count, table.numbers(alone), len(alone))
    return row


def _arguments(table: _Rows, program: Any) -> None:
    arguments = program.arguments
    table.given = table.place(2 * arguments.count)
    if arguments.plain is None or program.check is not arguments.check:
        table.put("given_tensors", table.of(program.check), table.given, arguments.count)
        return
    table.put("given_so_many", len(arguments.plain))
    number = 0
    for i, (what, *more) in enumerate(arguments.plain):
        if what == "tensor":
            kind, mark, dtype, shape, strides = more
            if kind not in (Tensor, Parameter):
                raise _Unfit
            table.put(
                "given_tensor", i, table.given + 2 * number, table.of(mark) | (kind is Parameter), *table.layout(dtype, shape, strides)
            )
            number += 1
        elif what == "twice":
            table.put("given_twice", i, table.given + 2 * more[0])
        elif what == "float":
            table.put("given_float", i, struct.unpack("=q", struct.pack("=d", more[0]))[0])
        elif what == "int":
            table.put("given_int", i, more[0])
        else:
            table.put("given_is", i, table.of(more[0]))


_OFFSETS: dict[str, int] = {}  # in functions, of their defaults


def _offset_of_defaults(name: str) -> int:
    """Offset of the defaults in a function.

    Raises:
        Unsupported: it is not found.
    """
    if name not in _OFFSETS:

        def probe(x: object = object(), *, y: object = object()) -> None: ...

        wanted = id(getattr(probe, name))
        found = [place for place in range(16, type(probe).__basicsize__, 8) if word(id(probe) + place) == wanted]
        require(len(found) == 1, "functions lie otherwise")
        _OFFSETS[name] = found[0]
    return _OFFSETS[name]


def _places(table: _Rows, places: Sequence[Any]) -> None:
    """Rows of all that ``Program._look`` looks at."""
    slow = []
    for place in places:
        try:
            if not place.text or not _place(table, place.text, place.it, place.saved[0]):
                slow.append(place)
        except (KeyError, Unsupported):
            slow.append(place)
    if slow:
        table.put("says_true", table.of(lambda: all(place.is_same() for place in slow)))


def _place(table: _Rows, text: str, it: Any, value: Any) -> bool:
    """A row for a place, by its text; False where there is none."""
    if text == "{it}.cell_contents":
        table.put("word_is", table.of(it) + 16, table.of(value))
    elif text in ("{it}.__defaults__", "{it}.__kwdefaults__"):
        table.put("word_is", table.of(it) + _offset_of_defaults(text[5:]), table.of(value))
    elif text.startswith("{it}["):
        table.item_is(_dictionary(it), ast.literal_eval(text[5:-1]), value)
    elif text == "len({it})":
        table.has_so_many(_dictionary(it), value)
    elif text == "len({it}.param_groups)":
        table.item_is(vars(it), "param_groups", it.param_groups)
        table.has_so_many(it.param_groups, value)
    elif text == 'len({it}["params"])':
        table.item_is(it, "params", it["params"])
        table.has_so_many(it["params"], value)
    else:
        return False
    return True


def _dictionary(it: Any) -> Any:
    """The dictionary itself, which a class shows only through a proxy."""
    return gc.get_referents(it)[0] if isinstance(it, types.MappingProxyType) else it


# -- a call that Python does ------------------------------------------------------------------------------------------------------------
def _asked(table: _Rows, program: Any) -> None:
    """The program's own ``run`` does the rest."""
    none = [AS_WRITTEN, MISSED, REFUSED]
    wanted = table.numbers([table.of(each) for each in none])
    table.put("result_asked", table.of(program.run), table.given, program.arguments.count, wanted, len(none))


# -- a call that is one list of launches ------------------------------------------------------------------------------------------------
def _plan_of(program: Any) -> Plan:
    """The plan of a program, if it is launches alone.

    Raises:
        _Unfit: it is not.
    """
    root = getattr(program, "root", None)
    if root is None or root.look is not None or not isinstance(root.run, Lowered) or root.run.plan is None:
        raise _Unfit
    plan = root.run.plan
    notes = [update.note for update in plan.updates]
    first, *others = plan.order
    is_list = first == 0 and all(step.__class__ is Step and step.function in notes for step in others)
    if not is_list or (plan.segments[0].wakes_threads and not is_alone()):
        raise _Unfit
    return plan


def _resuming(program: Any, plan: Plan) -> Callable[..., bool] | None:
    """Function that goes on where a look stops the list of launches; see ``Program._raising`` for calls that raise.

    Raises:
        _Unfit: each call has to save what it may change.
    """
    if not plan.segments[0].again:
        return None
    refusals, path = program.root.refusals, program.root.path
    is_undone = refusals.are_there and refusals.undo is None
    if refusals.are_there and not is_undone and refusals.come_after(path.gradients):
        raise _Unfit
    if plan.given + len(plan.fresh) > replays.MOST:
        raise _Unfit
    resume, gone = plan.resuming(), path.gone if refusals.are_there else []

    def again(stop: int, arena: Arena, *arrays: np.ndarray) -> bool:
        try:
            resume(stop, arena, arrays)
        except Exception as error:
            if is_undone:  # the program runs once more, as it is written
                pass_on(error)
                return False
            for leaf in gone:
                leaf._grad = None
            raise
        return True

    return again


def _launched(table: _Rows, program: Any) -> Plan:
    """Launches, and what a call leaves behind.

    Raises:
        _Unfit: there is more to it.
    """
    plan, path = _plan_of(program), program.root.path
    if plan.segments[0].wakes_threads:
        table.item_is(_dictionary(vars(Threads)), "count", Threads.count)
    again = _resuming(program, plan)
    numbers = _numbers(table, program)
    steps = [_UpdateRows(table, update) for update in plan.updates]
    inputs = [_input(table, program, value, numbers) for value in program.root.inputs]
    first, arena = table.place(plan.given + len(plan.fresh)), table.place()
    for i, place in enumerate(inputs):
        table.put("value_shared", place, first + i)
    table.put("word_is_set", address_of_lists())
    table.put("arena_taken", table.of(plan.free), arena)
    for leaf in path.dropped:
        table.put("gradient_put", *table.tensor(leaf), 0)
    for i, new in enumerate(plan.fresh):
        _fresh(table, new, first + plan.given + i)
    arrays_and_more = plan.given + len(plan.fresh), 0 if again is None else table.of(again)
    table.put("launched", arena, first, address_of_lists(), interpreter().slot(Arena, "first"), *arrays_and_more)
    table.put("arena_back", table.of(plan.free), arena, KEPT)
    for each in steps:
        each.note()
    made = {
        value: _output(table, plan, plan.places[index], first)
        for value, index in zip(program.root.outputs_ready, plan.outputs, strict=True)
    }
    have = dict(zip(program.root.inputs, inputs, strict=True))
    arrays = []
    for value in path.outputs:
        value = before_writes(value)
        arrays.append(made[value] if value in made else _input(table, program, value, numbers, have))
    _end(table, program, arrays)
    return plan


def _numbers(table: _Rows, program: Any) -> dict[Any, int]:
    """Places of arrays that are made of numbers among the arguments, by value."""
    reader = getattr(program, "numbers", None)
    if reader is None:
        return {}
    places = {value: table.place() for value in program.values}
    first = next(iter(places.values()), 0)
    table.put("values_given", table.of(reader), first, len(places))
    return places


def _input(table: _Rows, program: Any, value: Any, numbers: dict[Any, int], have: dict[Any, int] | None = None) -> int:
    """The place of an array that a call begins with."""
    if have is not None and value in have:
        return have[value]
    if value in numbers:
        return numbers[value]
    for i, other in enumerate(program._inputs):
        if other is value:
            return table.given + 2 * i + 1
    leaf = program._gradients.get(value)
    key = next((each for each, _ in program._leaves if each is leaf), None) if leaf is not None else None
    if key is None or id(key) not in table.gradients:
        raise _Unfit
    return table.gradients[id(key)]


def _fresh(table: _Rows, place: Any, at: int) -> None:
    """A new array of a layout."""
    if is_new_and_plain(place):
        table.put("array_made", table.of(place.dtype), len(place.shape), table.numbers(place.shape), at)
    else:
        table.put("value_made", table.of(maker_of(place)), at)


def _output(table: _Rows, plan: Plan, place: Any, first: int) -> int:
    """The place of an output of a plan, which may show a part of an array."""
    which, at = place.memory.index, table.place()
    if place.memory.array is not None:
        arena = plan.arena()
        table.put("value_is", table.of(arena.array_of(place)), at)
        plan.free.append(arena)
        return at
    if place.memory.kind != "given":
        raise _Unfit
    if which >= plan.given and place == plan.fresh[which - plan.given]:
        return first + which
    table.put("view_made", *table.layout(place.dtype, place.shape, place.strides), place.offset, first + which, at)
    return at


# -- what a call leaves behind ----------------------------------------------------------------------------------------------------------
def _end(table: _Rows, program: Any, arrays: list[int]) -> None:
    """Rows of all that ``Path.end`` does."""
    path = program.root.path
    if path.backward is None and path.steps is not None:
        rows = table.copy()
        try:
            _Ending(rows, program, arrays).put()
        except _Unfit:
            pass
        else:
            table.take(rows)
            return
    count, given = len(arrays), program.arguments.count
    places = [*arrays, *[table.given + 2 * i for i in range(given)], replays.ARGUMENTS, replays.KEYWORDS]
    if len(places) > replays.MOST:
        raise _Unfit

    def end(*things: Any) -> Any:
        return path.end(list(things[:count]), things[count:-2], things[-2], things[-1])

    table.put("result_of", table.of(end), table.numbers(places), len(places))


class _Ending:
    """Rows of what ``Ending.finish`` does."""

    def __init__(self, table: _Rows, program: Any, arrays: list[int]):
        self.table, self.program, self.path, self.arrays = table, program, program.root.path, arrays
        self.places: dict[str, int] = {}
        self.requires = {name for what, name, *_ in self.path.steps if what == "requires"}
        self.plain = INFERENCE if program.grad is INFERENCE else False

    def put(self) -> None:
        for what, *more in self.path.steps:
            getattr(self, f"_{what}")(*more)
        self._result(self.path.text, self.path.scope)

    def _tensor(self, name: str, number: int) -> None:
        place = self.places[name] = self.table.place()
        mark = True if name in self.requires else self.plain
        self.table.put("tensor_made", self.arrays[number], place, self.table.of(mark))

    def _requires(self, name: str) -> None:
        """The tensor was made so."""

    def _order(self, name: str) -> None:
        self.table.put("called", self.table.of(note_order), self.places[name])

    def _freed(self, name: str) -> None:
        arguments = self.program.arguments.plain
        if arguments is None or any(what == "tensor" and more[1] not in (False, INFERENCE) for what, *more in arguments):
            raise _Unfit  # edges to arguments
        edges = self.path.scope["leaves"]
        self.table.put("history_put", self.places[name], self.table.of(FreedBackward), self.table.of(edges))

    def _gradient(self, leaf: Any, name: str | None) -> None:
        self.table.put("gradient_put", *self.table.tensor(leaf), 0 if name is None else self.places[name])

    def _written(self, tensor: Any, is_gradient: bool) -> None:
        self.table.put("storage_changed", *self.table.tensor(tensor), is_gradient, self.table.of(_note_write))

    def _names_of_tuple(self, text: str) -> list[str]:
        """The names of which an expression is a tuple; none where it is anything else."""
        body = ast.parse(text, mode="eval").body
        names = [each.id if isinstance(each, ast.Name) else "" for each in body.elts] if isinstance(body, ast.Tuple) else []
        return names if all(name in self.places for name in names) else []

    def _result(self, text: str, scope: dict[str, Any]) -> None:
        table = self.table
        if text in self.places:
            table.put("result_is", 0, self.places[text])
        elif text in scope:
            table.put("result_is", table.of(scope[text]))
        elif names := self._names_of_tuple(text):
            table.put("result_tuple", table.numbers([self.places[name] for name in names]), len(names))
        else:
            used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            names = [name for name in self.places if name in used]
            if not used <= {*names, *scope} or len(names) > replays.MOST:
                raise _Unfit
            made = eval(f"lambda {', '.join(names)}: {text}", scope)
            table.put("result_of", table.of(made), table.numbers([self.places[name] for name in names]), len(names))


def _note_write(tensor: Tensor) -> None:
    storage_of(tensor)._bump()


# -- steps of optimizers ----------------------------------------------------------------------------------------------------------------
class _UpdateRows:
    """Rows of ``updates.Update``: what it goes by, the numbers of the step; and ``note``, behind the launches, what the step leaves.

    Raises:
        _Unfit: its numbers are computed otherwise.
    """

    def __init__(self, table: _Rows, update: Any):
        self.table, self.update = table, update
        optimizer, group = update.optimizer, update.group
        if not update.is_plain or len(update.columns) > 1 or group.get("lr").__class__ is not float or group.__class__ is not dict:
            raise _Unfit
        self._same_objects(optimizer, group)
        program = launches.Program()
        counted = [program.count] if update.columns else []
        try:
            form, numbers = optimizer._formed({**group, "lr": program.lr}, counted)
        except launches.Undecided:
            raise _Unfit from None
        if form is not update.form:
            raise _Unfit
        update.share()
        registers, steps, places, begin = program.words(numbers)
        for each in (registers, steps, places, update.values):
            table.of(each)
        words = dict.fromkeys(launches.GROUP.names, 0)
        words.update(
            registers=launches.address(registers), program=launches.address(steps), begin=begin, steps=len(steps),
            places=launches.address(places), numbers=launches.address(update.values), number_count=len(numbers),
        )  # fmt: skip
        self._group = table.of(made := launches.GROUP.table([words])) and launches.address(made)
        self._counters()
        table.put("numbers_of_step", self._group, table.of(group), self.counters, self.count, self.kind, 0, power_address())

    def _counters(self) -> None:
        """Addresses of the counters, their number and kind."""
        column = self.update.columns[0] if self.update.columns else []
        dtypes_of = {counter.dtype for counter in column}
        if len(dtypes_of) > 1:
            raise _Unfit
        self.kind = launches.NO_COUNTER if not column else launches.SINGLE if column[0].dtype == np.float32 else launches.DOUBLE
        self.table.of(column)
        self.counters, self.count = self.table.numbers([launches.address(counter) for counter in column]), len(column)

    def _same_objects(self, optimizer: Any, group: dict[str, Any]) -> None:
        table, members = self.table, vars(optimizer)
        table.item_is(members, "state", optimizer.state)
        table.item_is(members, "param_groups", optimizer.param_groups)
        table.item_is(group, "params", group["params"])
        table.has_so_many(group["params"], len(group["params"]))
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            table.item_is(members, name, members[name])
            table.has_so_many(members[name], 0)
        for name in ("_global_step_pre_hooks", "_global_step_post_hooks"):
            table.item_is(vars(hooks), name, vars(hooks)[name])
            table.has_so_many(vars(hooks)[name], 0)
        for name in self.update.options:
            if name != "lr":
                table.item_is(group, name, group[name])
        for plan in self.update.plans:
            table.slot_is(plan.param, Tensor, "_array", plan.array)
            state = optimizer.state.get(plan.param)
            for name, tensor, array in plan.watched:
                table.item_is(state, name, tensor)
                table.slot_is(tensor, Tensor, "_array", array)

    def note(self) -> None:
        """Count the step, and the writes."""
        table, update = self.table, self.update
        if self.count:
            table.put("counters_written", self._group, 0, self.counters, self.count, self.kind)
        time = table.place()
        table.put("time_taken", time)
        storages = table.numbers([table.of(storage) for storage in update.storages])
        table.put("storages_changed", storages, len(update.storages), time)
        if "step" in vars(update.optimizer):
            members = vars(update.optimizer)
            table.put("says_true", table.of(lambda: members.__setitem__("_opt_called", True) is None))
