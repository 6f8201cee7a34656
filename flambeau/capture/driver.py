"""Running a plan: arenas, tables of launches, and the function that a call goes through.

A plan says which launches there are and which memory each of them names. An *arena* is a copy of all that a call in flight changes:

    block      the values, at the offsets that ``planning`` gave
    headers    for each place in memory what a kernel reads of a NumPy array: its class, and the address of its data
    words      the packed arguments of all launches, which point at headers
    tables     for each segment (launches without Python between them) the rows that ``Pool.replay`` walks

Arenas are made when there is no free one, so that any number of calls may be in flight; what a call returns lies outside of them.
"""

from __future__ import annotations

import ctypes
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays.threads import Threads
from ..core.shape import contiguous_strides
from ..core.state import run_ignoring_fp
from ..kernels.compiler import memory
from ..kernels.compiler.build import GENERATORS
from ..kernels.compiler.pool import pool
from ..kernels.families import gemm, split_products
from ..kernels.families.blas import alone, library
from .memory import address_of, aligned, array_at, extent
from .planning import Memory

_HEADER = 4  # words of a header: the second is the class, the third the address of the data, as in an object of NumPy's on any Python
_CLASS, _DATA = 1, 2
_SHORT = 1 << 16  # bytes of operands and results
KEPT = 4  # free arenas that a plan keeps


class Launch(NamedTuple):
    """A launch of a plan: a machine function, its packed arguments, where in them which memory goes (at which byte), chunks."""

    address: int
    words: bytes
    headers: tuple[tuple[int, Memory, int], ...]
    chunks: int
    node: Any = None


class Step(NamedTuple):
    """A step that Python does: ``function(arrays of args)`` gives arrays for ``outs``, which are copied there, or None.

    Attributes:
        args, outs: indices of the plan's places, or lists of them, or attributes.
        flags: places of flags; where there are any, the function is called only if one is set.
        computes: whether it runs NumPy, which may warn.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    outs: tuple[Any, ...]
    node: Any = None
    flags: tuple[Any, ...] = ()
    computes: bool = True


class Place(NamedTuple):
    """An array of a plan: memory, the offset in it, and how it lies."""

    memory: Memory
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


def uses_blas(launch: Launch) -> bool:
    """Whether a launch may call the library of products, whose own threads must not run beside the pool's."""
    return _is_of(launch, gemm.product) or _is_split(launch)


def _is_split(launch: Launch) -> bool:
    """Whether it computes products in parts, and those of numbers that have none by the library."""
    return any(_is_of(launch, made) for made in (split_products.split_product, split_products.split_whole, split_products.split_panels))


def _is_of(launch: Launch, kernel: Any) -> bool:
    return any(getattr(built, "address", 0) == launch.address for built in GENERATORS[kernel.generator].values())


def _wakes_threads(launch: Launch) -> bool:
    """Whether it calls that library for a product that the library would share out among its threads."""
    if not _is_of(launch, gemm.product):
        return _is_split(launch)
    _, m, n, inner, *_ = np.frombuffer(launch.words, np.int64)[len(launch.headers) :].tolist()  # behind arrays and the function
    return bool(m * n * inner > gemm.SMALL)


def _bytes_of(node: Any) -> int:
    """Bytes of a node's operands and results."""
    return sum(value.size * value.dtype.itemsize for value in (*node.inputs(), *node.outs))


def replay_alone(block: int, arrays: bytes | None) -> None:
    """Run a list of launches while the library of products uses no threads of its own."""
    alone(pool.replay, block, arrays)


def is_alone() -> bool:
    """Whether that library has one thread anyway."""
    blas = library()
    return Threads.count == 1 and (blas is None or blas.threads() == 1)


class Segment:
    """Launches of a plan that follow each other, with looks at flags between them, as tables without addresses of an arena.

    Attributes:
        is_short: whether it takes so little time that the interpreter is kept meanwhile.
        looks: (step, memory of the flags) of looks. again: by the number of the step behind a look, Python's step for where a flag is set.
    """

    def __init__(self, rows: Sequence[Launch | Step], places_of: Sequence[Place], header_of: dict[tuple[Memory, int], int]):
        words: list[np.ndarray] = [np.zeros(0, np.int64)]
        steps: list[tuple[int, int, int]] = []
        places: list[tuple[int, int]] = []
        self.looks: list[tuple[int, Memory]] = []
        self.again: dict[int, Step] = {}
        at = 0
        for launch in rows:
            if isinstance(launch, Step):
                for flag in launch.flags:
                    place = places_of[flag.number]
                    self.looks.append((len(steps), place.memory))
                    steps.append((0, 0, place.shape[0]))
                    self.again[len(steps)] = launch
                continue
            own = np.frombuffer(launch.words, np.int64)
            for word, where, offset in launch.headers:
                for entry in where.entries:
                    header_of.setdefault(entry, len(header_of))
                header = header_of.setdefault((where, offset), len(header_of))
                places.append((at + word, header))
            words.append(own)
            steps.append((launch.address, at, launch.chunks))
            at += len(own)
        self.words = np.concatenate(words)
        self.steps = np.array(steps, np.int64).reshape(-1, 3)
        self.places = np.array(places, np.int64).reshape(-1, 2)
        self.launches = tuple([row for row in rows if isinstance(row, Launch)])
        self.wakes_threads = any(map(_wakes_threads, self.launches))
        nodes = dict.fromkeys([launch.node for launch in self.launches])
        self.is_short = None not in nodes and sum(map(_bytes_of, nodes)) <= _SHORT


class Arena:
    """Memory and tables of one call in flight; see the module's text.

    Attributes:
        blocks: addresses of the tables of each segment; ``first`` is that of the first.
        arrays: those of the plan's places that lie in the arena or in held memory.
    """

    __slots__ = ("_kept", "arrays", "block", "blocks", "data", "first", "starts", "tables", "values")

    def __init__(self, plan: Plan):
        size = plan.arena_bytes + plan.flag_bytes
        self.block = memory.empty((size,), np.uint8) if size >= memory.SMALL else aligned(size)
        self.block[plan.arena_bytes :] = 0
        self.data, self.values = address_of(self.block), self.block[: plan.arena_bytes]
        headers = np.zeros((max(len(plan.header_of), 1), _HEADER), np.int64)
        headers[:, _CLASS] = id(np.ndarray)
        base, step = address_of(headers), 8 * _HEADER
        binds = []
        self._kept: list[Any] = [headers]
        for (where, offset), number in plan.header_of.items():
            if where.kind == "table":
                table = np.array([base + step * plan.header_of[entry] for entry in where.entries], np.int64)
                headers[number, _DATA] = address_of(table)
                self._kept.append(table)
            elif where.kind == "given":
                binds.append((base + step * number + 8 * _DATA, where.index, offset))
            else:
                headers[number, _DATA] = self.address(where) + offset
        self.blocks = []
        self.starts: list[np.ndarray] = []  # the step with which each segment begins
        self.tables = []
        for i, segment in enumerate(plan.segments):
            words, steps = segment.words.copy(), segment.steps.copy()
            words[segment.places[:, 0]] = base + step * segment.places[:, 1]
            steps[:, 1] = address_of(words) + 8 * steps[:, 1]
            for row, where in segment.looks:
                steps[row, 1] = self.address(where)
            bound = np.array(binds if i == 0 else [], np.int64).reshape(-1, 3)
            block = np.array([len(bound), address_of(bound), len(steps), address_of(steps), 0, segment.is_short], np.int64)
            self._kept += [words, bound]
            self.starts.append(block[4:5])
            self.tables.append(steps)
            self.blocks.append(address_of(block))
        self.first = self.blocks[0]
        self.arrays = [None if place.memory.kind == "given" else self.array_of(place) for place in plan.places]

    def address(self, where: Memory) -> int:
        return address_of(where.array) if where.array is not None else self.data + where.offset

    def array_of(self, place: Place) -> np.ndarray:
        where = place.memory
        if where.array is not None and not place.offset and place[2:4] == (where.array.shape, where.array.strides):
            return where.array
        owner = self.block if where.array is None else where.array
        return array_at(self.address(where) + place.offset, place.shape, place.strides, place.dtype, owner)

    def poison(self) -> None:
        """Fill the arena with NaN, so that nothing of an earlier call is left (for tests)."""
        self.values.fill(0xFF)


plans: weakref.WeakSet[Plan] = weakref.WeakSet()  # all that there are


class Plan:
    """Launches and Python's steps of a graph, and where all values lie.

    Attributes:
        steps: in order. arena_bytes, flag_bytes: of an arena's values, and of the flags behind them.
        given: how many arrays a call gets. fresh: layouts of those that it makes anew, which follow them.
        outputs: the places of the results.
        updates: steps of optimizers, whose numbers are written before anything runs.
        again: what a call does where the plan no longer fits an optimizer.
        marks: of a plan that runs each launch by itself, the moments after the steps of its last call.
    """

    def __init__(
        self,
        steps: Sequence[Any],
        places: list[Place],
        sizes: tuple[int, int],
        given: int,
        fresh: list[Place],
        outputs: list[int],
        updates: Sequence[Any],
        again: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
        separately: bool = False,
    ):
        self.steps, self.places, self.given, self.fresh, self.outputs = steps, places, given, fresh, outputs
        self.arena_bytes, self.flag_bytes = sizes
        self.updates, self.again = updates, again
        self.marks: list[float] = []
        self.separately = separately
        self.header_of: dict[tuple[Memory, int], int] = {}
        self.segments: list[Segment] = []
        self.order: list[int | Step] = []  # numbers of segments, and steps between them
        pending: list[Launch | Step] = []
        for step in [*steps, None]:
            joins = isinstance(step, Launch) or (isinstance(step, Step) and bool(step.flags) and not separately)
            if joins and not (separately and pending):
                pending.append(step)
                continue
            if pending or not self.segments:
                self.order.append(len(self.segments))
                self.segments.append(Segment(pending, self.places, self.header_of))
                pending = []
            if step.__class__ is Launch:
                pending.append(step)
            elif step is not None:
                self.order.append(step)
        self.free: list[Arena] = []
        plans.add(self)
        self.run: Callable[[Sequence[np.ndarray]], list[np.ndarray]] = self._generated()

    def separate(self) -> Plan:
        """The same plan with each launch by itself, to take times."""
        sizes = self.arena_bytes, self.flag_bytes
        return Plan(self.steps, self.places, sizes, self.given, self.fresh, self.outputs, self.updates, self.again, separately=True)

    def arena(self) -> Arena:
        """A free arena, or a new one; whoever has it puts it into ``free`` afterwards."""
        try:
            return self.free.pop()
        except IndexError:
            return Arena(self)

    # -- the function of a call ---------------------------------------------------------------------------------------------------------
    def _generated(self) -> Any:
        """``run``, written out for this plan: a call of a small graph is a few microseconds."""
        scope, (inputs, fresh) = self._scope(), self._variables()
        given = [*inputs, *fresh]
        lines = [f"{', '.join(inputs)}, = arrays"] if inputs else []
        lines += ["arena = free.pop() if free else plan.arena()", "arrays_of, blocks = arena.arrays, arena.blocks"]
        for i, update in enumerate(self.updates):
            scope[f"prepare{i}"] = update.prepare
            lines.insert(0, f"if not prepare{i}(): return plan.again(arrays)")
        for name, place in zip(fresh, self.fresh, strict=True):
            scope[f"new_{name}"] = maker_of(place)
            lines.append(f"{name} = new_{name}()")
        lines += self._replaying()
        if self.separately:
            lines += ["plan.marks.clear()", "mark(clock())"]
        ids = _ids(given)
        for number, step in enumerate(self.order):
            if isinstance(step, int):
                lines += self._lines_of_segment(step, ids if step == 0 else "None", given, scope)
            else:
                lines += self._lines_of_step(number, step, given, scope)
            if self.separately:
                lines.append("mark(clock())")
        results = [self._name(index, given, scope) for index in self.outputs]
        lines += [f"if len(free) < {KEPT}: free.append(arena)", f"return [{', '.join(results)}]"]
        exec(compile("def run(arrays):\n    " + "\n    ".join(lines), "<flambeau: plan>", "exec"), scope)
        run = scope["run"]
        computes = any(isinstance(step, Step) and step.computes for step in self.order)
        return (lambda arrays: run_ignoring_fp(run, arrays)) if computes else run

    def _scope(self) -> dict[str, Any]:
        # a reference to the plan itself would keep its arenas until the collector of circles comes by
        scope: dict[str, Any] = {"plan": weakref.proxy(self), "pool": pool, "copyto": np.copyto, "viewed": viewed, "free": self.free}
        scope.update(replay_alone=replay_alone, is_alone=is_alone, mark=self.marks.append, clock=time.perf_counter)
        return {**scope, "pack": struct.Struct(f"={self.given + len(self.fresh)}q").pack}

    def _variables(self) -> tuple[list[str], list[str]]:
        """Names of the arrays that a call gets, and of those that it makes anew."""
        return [f"x{i}" for i in range(self.given)], [f"y{i}" for i in range(len(self.fresh))]

    def _replaying(self) -> list[str]:
        wakes_threads = any(segment.wakes_threads for segment in self.segments)
        return ["replay = pool.replay", *(["products = replay if is_alone() else replay_alone"] if wakes_threads else [])]

    def resuming(self) -> Callable[[int, Arena, Sequence[np.ndarray]], None]:
        """Function (step, arena, arrays given and made anew) that goes on where a look stopped the launches of a plan of one segment."""
        scope, (inputs, fresh) = self._scope(), self._variables()
        given = [*inputs, *fresh]
        _, *lines = self._lines_of_segment(0, _ids(given), given, scope)
        before = [f"{', '.join(given)}, = arrays"] if given else []
        before += ["arrays_of, blocks = arena.arrays, arena.blocks", *self._replaying()]
        text = "def resume(stop, arena, arrays):\n    " + "\n    ".join([*before, *lines])
        exec(compile(text, "<flambeau: plan>", "exec"), scope)
        made: Callable[[int, Arena, Sequence[np.ndarray]], None] = scope["resume"]
        return made

    def _lines_of_segment(self, number: int, ids: str, given: list[str], scope: dict[str, Any]) -> list[str]:
        segment = self.segments[number]
        call = f"{'products' if segment.wakes_threads else 'replay'}(blocks[{number}], {ids})"
        if not segment.again:
            return [call]
        lines = [f"stop = {call}", "while stop:"]
        for behind, step in segment.again.items():
            lines.append(f"    if stop == {behind}:")
            lines += ["        " + line for line in self._lines_of_step(f"{number}_{behind}", step, given, scope)]
        return [*lines, f"    starts = arena.starts[{number}]", "    starts[0] = stop", f"    stop = {call}", "    starts[0] = 0"]

    def _lines_of_step(self, number: int | str, step: Step, given: list[str], scope: dict[str, Any]) -> list[str]:
        scope[f"f{number}"] = step.function

        def written(arg: Any, key: str) -> str:
            if arg.__class__ is Reference:
                return self._name(arg.number, given, scope)
            if arg.__class__ is list or arg.__class__ is tuple:
                parts = [written(each, f"{key}_{i}") for i, each in enumerate(arg)]
                return f"[{', '.join(parts)}]" if arg.__class__ is list else f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
            scope[key] = arg
            return key

        call = f"f{number}({', '.join(written(arg, f'a{number}_{i}') for i, arg in enumerate(step.args))})"
        outs = [self._name(reference.number, given, scope) for reference in step.outs]
        lines = [f"made = {call}", *[f"copyto({out}, made[{i}], 'unsafe')" for i, out in enumerate(outs)]] if outs else [call]
        if not step.flags:
            return lines
        places = [(flag.number, i) for flag in step.flags for i in range(self.places[flag.number].shape[0])]
        return [f"if {' or '.join(f'arrays_of[{number}][{i}]' for number, i in places)}:", *["    " + line for line in lines]]

    def _name(self, index: int, given: list[str], scope: dict[str, Any]) -> str:
        """An expression for a place's array."""
        place = self.places[index]
        where = place.memory
        if where.kind != "given":
            return f"arrays_of[{index}]"
        name = given[where.index]
        if where.index >= self.given and place == self.fresh[where.index - self.given]:
            return name
        scope[f"place{index}"] = place
        return f"viewed({name}, place{index})"


def _ids(given: list[str]) -> str:
    """An expression for the packed ids of arrays."""
    return f"pack({', '.join(f'id({name})' for name in given)})"


class Reference(NamedTuple):
    """Stands for the array of one of the plan's places among arguments."""

    number: int


def viewed(array: np.ndarray, place: Place) -> np.ndarray:
    """The array of a place in the memory of ``array``, from its first element on."""
    if not place.offset and array.shape == place.shape and array.strides == place.strides and array.dtype == place.dtype:
        return array
    return array_at(address_of(array) + place.offset, place.shape, place.strides, place.dtype, array)


def address_of_lists() -> int:
    """Address of two words: the pool's function for lists of launches, and its first argument; zeros while there are none."""
    return ctypes.addressof(pool.lists)


def is_new_and_plain(place: Place) -> bool:
    """Whether ``maker_of`` makes a row-major array, and takes no memory that was used before."""
    dense = [step * place.dtype.itemsize for step in contiguous_strides(place.shape)]
    return list(place.strides) == dense and extent(place.shape, place.strides, place.dtype.itemsize) < memory.SMALL


def maker_of(place: Place) -> Callable[[], np.ndarray]:
    """Function that makes a new array of a place's layout."""
    shape, strides, dtype = place.shape, place.strides, place.dtype
    order = sorted(range(len(shape)), key=lambda i: (-strides[i], i))
    in_memory, back = tuple([shape[i] for i in order]), tuple([order.index(i) for i in range(len(order))])
    dense = [step * dtype.itemsize for step in contiguous_strides(in_memory)]
    if [dense[i] for i in back] != list(strides):
        size = max(extent(shape, strides, dtype.itemsize), 1)
        return lambda: np.ndarray(shape, dtype, memory.empty((size,), np.uint8), 0, strides)
    new = np.empty if extent(shape, strides, dtype.itemsize) < memory.SMALL else memory.empty
    return partial(new, shape, dtype) if order == sorted(order) else lambda: new(in_memory, dtype).transpose(back)
