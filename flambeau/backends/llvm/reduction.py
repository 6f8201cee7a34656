"""Reductions over any dimensions: one generator for each of two layouts, and one for joining pieces; the rules are in ``reduction_rules``.

Every input is seen as kept dimensions (o2, o1) and reduced ones (r2, r1), each with a stride in bytes, and possibly columns:

      rows                                   columns
      out[o] from x[o, r2, r1],              out[o, j] from x[o, r2, r1, j],
      neighbours along r1                    neighbours along j
      a register holds 16 elements of        a register holds one element of each of 16 columns
      the row; lanes are folded at last

What is reduced to one result is cut into pieces of ``r2`` and ``r1`` by its length alone, so that the same bits come out for any number of
threads.  A chunk of work is a group of short rows, or one piece of a long one, whose state goes to scratch memory for ``join_pieces``.
Layouts that do not fit are copied to rows first.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.native import native
from . import target as targets
from .build import Kernel, kernel
from .language import KINDS, Builder, Value
from .memory import empty
from .pool import pool
from .reduction_rules import RULES, Rule, State, Sweep

_ACCUMULATORS = 4  # registers that take turns: an addition takes 3 or 4 cycles
_PIECE = 1 << 16  # elements: 256 KB of float32, which stay in the second cache from sweep to sweep
_COLUMNS = 512  # at most in a chunk
_SHORT = 16  # rows of fewer elements are taken side by side, one register for an element of each
_ROWS = 8  # taken at a time: rows a power of two apart compete for the same 8 places of the first cache


# -- what both layouts share ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Extent:
    """How pieces are cut: ``steps1`` of the ``n1`` and ``steps2`` of the ``n2`` elements each; ``along`` pieces lie along r1."""

    n2: Value
    n1: Value
    steps2: Value
    steps1: Value
    along: Value

    def piece(self, k: Builder, s: Value) -> tuple[Value, Value, Value, Value]:
        """Bounds of piece ``s`` along r2 and r1."""
        q, t = s // self.along, s % self.along
        first2, first1 = q * self.steps2, t * self.steps1
        return first2, k.least(first2 + self.steps2, self.n2), first1, k.least(first1 + self.steps1, self.n1)

    def count(self, k: Builder, bounds: tuple[Value, Value, Value, Value] | None = None) -> Value:
        """Number of elements between bounds, or in all, as float64."""
        if bounds is None:
            return k.cast(self.n2 * self.n1, "f64")
        return k.cast((bounds[1] - bounds[0]) * (bounds[3] - bounds[2]), "f64")


def _extent(k: Builder) -> _Extent:
    return _Extent(*(k.integer() for _ in range(5)))


def _lanes(k: Builder, sweep: Sweep, kind: str) -> int:
    """Lanes of all values of a sweep."""
    return min(k.lanes(each) for each in (kind, *(sweep.kinds or ("f64",))) if each != "b1")


def _constants(k: Builder, kinds: Sequence[str], values: Sequence[float], lanes: int) -> State:
    return tuple(k.const(value, kind, lanes) for kind, value in zip(kinds, values, strict=True))


def _cast(k: Builder, state: State, kinds: Sequence[str]) -> State:
    return tuple(k.cast(v, kind) for v, kind in zip(state, kinds, strict=True))


def _masked(k: Builder, mask: Value | None, new: State, old: State) -> State:
    return new if mask is None else tuple(k.select(mask, a, b) for a, b in zip(new, old, strict=True))


def _values(found: Any) -> State:
    return found if isinstance(found, tuple) else () if found is None else (found,)


def _memory_kind(kind: str) -> str:
    return "b8" if kind == "b1" else kind


def _put(k: Builder, state: State, arrays: list[Value], kinds: Sequence[str], at: Value, mask: Value | None = None) -> None:
    for value, pointer, kind in zip(state, arrays, kinds, strict=True):
        k.store(k.cast(value, {"b8": "b1", "f16": "f32", "bf16": "f32"}.get(kind, kind)), pointer, at, kind, mask)


def _result_kinds(rule: Rule, outs: tuple[str, ...], whole: bool) -> tuple[str, ...]:
    return outs if whole else tuple(map(_memory_kind, rule.state))


def _piece_state(k: Builder, rule: Rule, run: Callable[[Sweep], State], count: Value, parameter: Value) -> State:
    """Run the sweeps of a rule over a piece of rows."""
    if rule.guess is not None:
        guess = run(rule.guess)
        totals = _values(k.when(rule.trust(k, guess), lambda: guess, lambda: run(rule.sweep)))  # type: ignore[misc]
    else:
        totals = run(rule.sweep)
    if rule.second is None:
        return totals
    return rule.piece(k, totals, run(rule.second(rule.centre(k, totals, count, parameter))), count)  # type: ignore[misc]


# -- rows ------------------------------------------------------------------------------------------------------------------------------
def _row_sweep(k: Builder, sweep: Sweep, kind: str, row: Callable[[Value], Value], bounds: Sequence[Value]) -> State:
    """A sweep over rows ``row(r2)`` between bounds: one lane."""
    if not sweep.kinds:
        return ()
    lanes = _lanes(k, sweep, kind)
    width, count = len(sweep.kinds), _ACCUMULATORS if len(sweep.kinds) == 1 else 2
    first2, last2, first1, last1 = bounds
    start = _constants(k, sweep.kinds, sweep.start, lanes) * count

    def run(begin: Value, end: Value, pointer: Value, accumulators: State) -> State:
        def step(i: Value, mask: Value | None, *values: Value) -> State:
            state, rest = values[:width], values[width:]
            x = k.load(pointer, i, kind, lanes, mask)
            new = sweep.step(k, state, x, lambda index: k.cast(i, index) + k.indices(lanes, index))
            return (*rest, *_masked(k, mask, new, state))  # accumulators take turns

        return _values(k.vector_loop(begin, end, lanes, step, carried=accumulators, unroll=count))

    def together(made: State) -> State:
        parts = [made[i * width : (i + 1) * width] for i in range(count)]
        while len(parts) > 1:
            parts = [sweep.merge(k, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    if not sweep.block:
        return _folded(k, sweep, together(_values(k.loop(first2, last2, lambda r2, *v: run(first1, last1, row(r2), v), carried=start))))
    size = sweep.block * lanes * count

    def one_row(r2: Value, *totals: Value) -> State:
        pointer = row(r2)

        def block(i: Value, *before: Value) -> State:
            return sweep.merge(k, before, _cast(k, together(run(i, k.least(i + size, last1), pointer, start)), sweep.totals))

        return _values(k.loop(first1, last1, block, step=size, carried=totals))

    return _folded(k, sweep, _values(k.loop(first2, last2, one_row, carried=_constants(k, sweep.totals, sweep.start, lanes))))


def _folded(k: Builder, sweep: Sweep, state: State) -> State:
    """All lanes merged into one."""
    if sweep.fold is not None:
        return sweep.fold(k, state)
    while state[0].lanes > 1:
        low, high = zip(*map(k.halves, state), strict=True)
        state = sweep.merge(k, low, high)
    return state


@kernel
def reduce_rows(k: Builder, name: str, kind: str, outs: tuple[str, ...], whole: bool) -> None:
    """Units are rows if ``whole``, else pieces of rows; ``group`` of them make a chunk."""
    rule = RULES[name](kind)
    kinds = _result_kinds(rule, outs, whole)
    x, results = k.array(), [k.array() for _ in kinds]
    units, group, pieces, no1, so2, so1, sr2 = (k.integer() for _ in range(7))
    extent, parameter = _extent(k), k.number("f64")

    def unit(u: Value) -> None:
        o, bounds = u, (k.const(0, "i64"), extent.n2, k.const(0, "i64"), extent.n1)
        if not whole:
            o, bounds = u // pieces, extent.piece(k, u % pieces)
        base = k.at(x, (o // no1) * so2 + (o % no1) * so1, "i8")
        count = extent.count(k, bounds)
        run = lambda sweep: _row_sweep(k, sweep, kind, lambda r2: k.at(base, r2 * sr2, "i8"), bounds)  # noqa: E731
        state = _piece_state(k, rule, run, count, parameter)
        _put(k, rule.finish(k, state, count, parameter) if whole else state, results, kinds, u)

    k.for_chunks(lambda c: k.loop(c * group, k.least((c + 1) * group, units), unit))


# -- columns ---------------------------------------------------------------------------------------------------------------------------
class _Block:
    """Columns ``first`` to ``stop`` of one unit, and the totals of each of them in scratch memory.

    A sweep takes a few rows at a time over all columns, registers holding the accumulators of some: rows are then read along, as the
    processor fetches them ahead, and not down, which would be one distant line after the other.
    """

    def __init__(
        self,
        k: Builder,
        kind: str,
        lanes: int,
        place: Callable[[Value, Value, Value], Value],
        bounds: Sequence[Value],
        first: Value,
        stop: Value,
        apart: Value | None,
    ):
        self.k, self.kind, self.lanes, self.place, self.bounds = k, kind, lanes, place, bounds
        self.first, self.stop, self.apart = first, stop, apart

    def each(self, body: Callable[[Value, list[Any]], None], registers: int = 0) -> None:
        """``body(j, masks)`` for all columns: ``j`` is the first of as many registers as there are masks."""
        k, lanes = self.k, self.lanes
        wide = lanes * (registers or (4 if k.target.registers >= 32 else 2))
        end = self.first + (self.stop - self.first) // wide * wide
        k.loop(self.first, end, lambda j: body(j, [None] * (wide // lanes)), step=wide)
        k.loop(end, self.stop, lambda j: body(j, [k.mask_below(j, self.stop, lanes)]), step=lanes)

    def get(self, pointer: Value, i: int, mask: Value | None) -> Value:
        if self.apart is None:
            return self.k.load(pointer, i, self.kind, self.lanes, mask)
        return self.k.gather(pointer, (self.k.indices(self.lanes) + i) * self.apart, self.kind, mask)

    def totals(self, scratch: Sequence[tuple[Value, str]], j: Value) -> State:
        return tuple(self.k.load(p, j - self.first, kind, self.lanes) for p, kind in scratch)

    def keep(self, state: State, scratch: Sequence[tuple[Value, str]], j: Value) -> None:
        for value, (pointer, kind) in zip(state, scratch, strict=True):
            self.k.store(value, pointer, j - self.first, kind)

    def sweep(self, sweep_at: Callable[[Value], Sweep], model: Sweep, scratch: Sequence[tuple[Value, str]]) -> None:
        """Run the sweep ``sweep_at(j)``, which is like ``model``, and leave its totals in ``scratch``."""
        k, lanes = self.k, self.lanes
        first2, last2, first1, last1 = self.bounds
        start = _constants(k, model.totals, model.start, lanes)
        k.loop(self.first, self.stop, lambda j: self.keep(start, scratch, j), step=lanes)

        def some_rows(r2: Value, r1: Value) -> None:
            end = k.least(r1 + _ROWS, last1)

            def columns(j: Value, masks: list[Any]) -> None:
                places = [j + i * lanes for i in range(len(masks))]
                sweeps, width = [sweep_at(at) for at in places], len(model.kinds)

                def step(r: Value, *values: Value) -> State:
                    pointer, new = self.place(r2, r, j), []
                    for i, (each, mask) in enumerate(zip(sweeps, masks, strict=True)):
                        x = self.get(pointer, i * lanes, mask)
                        new += each.step(k, values[i * width : (i + 1) * width], x, lambda index: k.splat(k.cast(r, index), lanes))
                    return tuple(new)

                before = [self.totals(scratch, at) for at in places]
                straight = model.kinds == model.totals
                carried = sum(before, ()) if straight else _constants(k, model.kinds, model.start, lanes) * len(masks)
                made = _values(k.loop(r1, end, step, carried=carried))
                for i, (each, at) in enumerate(zip(sweeps, places, strict=True)):
                    state = made[i * width : (i + 1) * width]
                    self.keep(state if straight else each.merge(k, before[i], _cast(k, state, model.totals)), scratch, at)

            self.each(columns)

        k.loop(first2, last2, lambda r2: k.loop(first1, last1, lambda r1: some_rows(r2, r1), step=_ROWS))


@kernel
def reduce_columns(k: Builder, name: str, kind: str, outs: tuple[str, ...], whole: bool, spread: bool) -> None:
    """Units are blocks of ``across`` of the ``columns`` of one kept index and piece; ``group`` of them make a chunk.

    Columns are neighbours, or if ``spread``, ``apart`` elements from each other.
    """
    rule = RULES[name](kind)
    kinds = _result_kinds(rule, outs, whole)
    x, results = k.array(), [k.array() for _ in kinds]
    units, group, pieces, no1, so2, so1, sr2, sr1, columns, across, blocks, apart = (k.integer() for _ in range(12))
    extent, parameter = _extent(k), k.number("f64")
    lanes = _lanes(k, rule.sweep, kind)
    then = rule.second(()) if rule.second is not None else rule.sweep
    memory = [(k.scratch(_COLUMNS, each), each) for each in map(_memory_kind, rule.sweep.totals + then.totals)]
    totals, others = memory[: len(rule.sweep.totals)], memory[len(rule.sweep.totals) :]

    def unit(u: Value) -> None:
        piece, first = u // blocks, (u % blocks) * across
        bounds = (k.const(0, "i64"), extent.n2, k.const(0, "i64"), extent.n1)
        o = piece
        if not whole:
            o, bounds = piece // pieces, extent.piece(k, piece % pieces)
        base = k.at(x, (o // no1) * so2 + (o % no1) * so1, "i8")
        count = extent.count(k, bounds)

        def place(r2: Value, r1: Value, j: Value) -> Value:
            return k.at(k.at(base, r2 * sr2 + r1 * sr1, "i8"), j * apart if spread else j, kind)

        block = _Block(k, kind, lanes, place, bounds, first, k.least(first + across, columns), apart if spread else None)
        if rule.sweep.kinds:
            block.sweep(lambda j: rule.sweep, rule.sweep, totals)
        if rule.second is not None:
            second, centre = rule.second, rule.centre
            block.sweep(lambda j: second(centre(k, block.totals(totals, j), count, parameter)), then, others)

        def put(j: Value, masks: list[Any]) -> None:
            state = block.totals(totals, j)
            if rule.piece is not None:
                state = rule.piece(k, state, block.totals(others, j), count)
            if whole:
                state = rule.finish(k, state, count, parameter)
            _put(k, state, results, kinds, piece * columns + j, masks[0])

        block.each(put, 1)

    k.for_chunks(lambda c: k.loop(c * group, k.least((c + 1) * group, units), unit))


# -- pieces ----------------------------------------------------------------------------------------------------------------------------
@kernel
def join_pieces(k: Builder, name: str, kind: str, outs: tuple[str, ...], wide: bool) -> None:
    """Results from the states ``[kept, pieces, columns]``, in order of pieces; one column if not ``wide``. A chunk is a kept index."""
    rule = RULES[name](kind)
    kinds = tuple(map(_memory_kind, rule.state))
    states, results = [k.array() for _ in kinds], [k.array() for _ in outs]
    pieces, columns = k.integer(), k.integer()
    extent, parameter = _extent(k), k.number("f64")
    lanes = min(k.lanes(each) for each in rule.state) if wide else 1

    def kept(o: Value) -> None:
        def some(j: Value, mask: Value | None) -> None:
            def get(s: Value) -> State:
                at = (o * pieces + s) * columns + j
                return tuple(k.load(p, at, each, lanes, mask) for p, each in zip(states, kinds, strict=True))

            def join(s: Value, count: Value, *state: Value) -> State:
                more = extent.count(k, extent.piece(k, s))
                return (count + more, *rule.join(k, state, get(s), count, more))

            zero = k.const(0, "i64")
            start = (extent.count(k, extent.piece(k, zero)), *get(zero))
            count, *state = k.loop(1, pieces, join, carried=start)
            _put(k, rule.finish(k, tuple(state), count, parameter), results, outs, o * columns + j, mask)

        k.vector_loop(0, columns, lanes, some)

    k.for_chunks(kept)


# -- plans -----------------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Plan:
    """How one kind of call is done: everything that does not depend on the data.

    Attributes:
        copy: order of dimensions to copy the input in first, if its layout does not fit.
        shape, outs: of the results; new: what makes arrays for them.
        first: the run over the input.
        last: what joins pieces, if there are any; scratch, kinds: shape and dtypes of their states.
    """

    copy: tuple[int, ...] | None
    shape: tuple[int, ...]
    outs: tuple[np.dtype, ...]
    new: Callable[..., np.ndarray]
    first: Callable[..., None]
    last: Callable[..., None] | None = None
    scratch: tuple[int, ...] = ()
    kinds: tuple[np.dtype, ...] = ()


_plans: dict[Any, _Plan | None] = {}
_DTYPES = {kind: dtype for dtype, kind in KINDS.items()}


def _bound(made: Kernel, chunks: int, arrays: int, *rest: Any) -> Callable[..., None]:
    """A kernel with its number of chunks and all arguments but the first ``arrays``, which are ``id``s."""
    address, pack = made.address, struct.Struct("=" + "q" * arrays).pack
    tail = made.pack(*[0] * arrays, *rest)[8 * arrays :]
    return lambda *ids: pool.launch(address, pack(*ids) + tail, chunks)


def _joined(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Dimensions (size, stride), neighbours merged that are one run in memory."""
    made: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 1:
            continue
        if made and made[-1][1] == size * stride:
            made[-1] = (made[-1][0] * size, stride)
        else:
            made.append((size, stride))
    return made


def _two(dims: list[tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Exactly two dimensions."""
    padded = [(1, 0)] * (2 - len(dims)) + dims
    return padded[0], padded[1]


def _cut(n2: int, n1: int, room: int) -> tuple[int, int, int, int]:
    """(pieces, steps along r2, along r1, pieces along r1) for at most about ``room`` elements a piece."""
    room = max(room, n2 * n1 >> 10)  # few enough pieces to join them one after the other
    if n2 * n1 <= room + room // 2:
        return 1, n2, n1, 1
    if n1 <= room:
        steps = max(1, room // n1)
        return -(-n2 // steps), steps, n1, 1
    steps = -(-n1 // -(-n1 // room))
    steps = min(n1, -(-steps // 64) * 64)
    along = -(-n1 // steps)
    return n2 * along, 1, steps, along


@dataclass(frozen=True, slots=True)
class _Layout:
    """Kept and reduced dimensions as (size, stride in bytes); columns and how many elements apart, 0 for rows."""

    kept: list[tuple[int, int]]
    reduced: list[tuple[int, int]]
    columns: int
    apart: int


def _layout(a: np.ndarray, dims: tuple[int, ...], ordered: bool) -> _Layout | None:
    """How to see an array; None if it fits neither layout."""
    size = a.itemsize
    kept = _joined([(a.shape[d], a.strides[d]) for d in range(a.ndim) if d not in dims])
    reduced = [(a.shape[d], a.strides[d]) for d in range(a.ndim) if d in dims]
    reduced = _joined(reduced if ordered else sorted(reduced, key=lambda each: -each[1])) or [(1, size)]
    if len(reduced) > (1 if ordered else 2):
        return None
    long = reduced[-1][0] > _SHORT or (len(reduced) == 1 and not _can_spread(kept, size))
    if reduced[-1][1] == size and len(kept) <= 2 and long:
        return _Layout(kept, reduced, 1, 0)
    if kept and len(kept) <= 3 and (kept[-1][1] == size or _can_spread(kept, size)):
        columns, apart = kept[-1]
        return _Layout(kept[:-1], reduced, columns, apart // size)
    return None


def _can_spread(kept: list[tuple[int, int]], size: int) -> bool:
    """Whether the last kept dimension makes columns that are not neighbours: enough for a register, apart by whole elements."""
    return bool(kept) and kept[-1][0] >= 16 and kept[-1][1] % size == 0


def _make_plan(name: str, a: np.ndarray, dims: tuple[int, ...], keepdim: bool, outs: tuple[str, ...], parameter: float) -> _Plan:
    kind, size = KINDS[a.dtype], a.itemsize
    rule = RULES[name](kind)
    shape = tuple(1 if d in dims else n for d, n in enumerate(a.shape) if keepdim or d not in dims)
    copy, found = None, _layout(a, dims, name in _ORDERED)
    if found is None:
        copy = tuple(d for d in range(a.ndim) if d not in dims) + tuple(d for d in range(a.ndim) if d in dims)
        n = math.prod(a.shape[d] for d in dims)
        found = _Layout(_joined([(a.size // n, n * size)]), [(n, size)], 1, 0)
    rows, columns = not found.apart, found.columns
    (no2, so2), (no1, so1) = _two(found.kept)
    (n2, sr2), (n1, sr1) = _two(found.reduced)
    across = min(columns, _COLUMNS)
    blocks = -(-columns // across)
    room = _PIECE // rule.weight
    pieces, *steps = _cut(n2, n1, max(1, room // across))
    units = no2 * no1 * pieces * blocks
    new = np.empty if math.prod(shape) < 1024 else empty  # numpy's own is quicker, memory's spares page faults
    group = max(1, room // (steps[0] * steps[1] * across)) if pieces == 1 else 1
    integers = (units, group, pieces, no1, so2, so1, sr2)
    extent = (n2, n1, *steps)
    made = tuple(_DTYPES[each] for each in outs)
    states = tuple(_DTYPES[_memory_kind(each)] for each in rule.state)
    arrays = 1 + len(outs if pieces == 1 else states)
    if rows:
        first = _bound(reduce_rows(name, kind, outs, pieces == 1), -(-units // group), arrays, *integers, *extent, parameter)
    else:
        across_them = (sr1, columns, across, blocks, found.apart)
        first = _bound(
            reduce_columns(name, kind, outs, pieces == 1, found.apart != 1),
            -(-units // group),
            arrays,
            *integers,
            *across_them,
            *extent,
            parameter,
        )
    if pieces == 1:
        return _Plan(copy, shape, made, new, first)
    last = _bound(join_pieces(name, kind, outs, not rows), no2 * no1, len(states) + len(outs), pieces, columns, *extent, parameter)
    return _Plan(copy, shape, made, new, first, last, (no2 * no1, pieces, columns), states)


def _plan_for(name: str, a: np.ndarray, dims: Any, keepdim: bool, dtype: Any, parameter: float) -> _Plan | None:
    """The plan of a call whose arguments are as the user gave them; None for what the reference must do or explain."""
    kind, ndim = KINDS.get(a.dtype, ""), a.ndim
    if kind == "f16" and not targets.current().has_halves:
        return None
    if kind not in _TAKES.get(name, _NUMBERS) or not a.size or keepdim.__class__ is not bool:
        return None
    if dtype is not None and dtype.numpy != a.dtype:
        return None
    if dims is None or dims == ():
        wrapped = tuple(range(ndim))
    else:
        listed = dims if dims.__class__ is tuple else (dims,)
        if not all(d.__class__ is int and -ndim <= d < ndim for d in listed):
            return None
        wrapped = tuple(sorted(d % ndim for d in listed))
    if len(set(wrapped)) < len(wrapped):
        return None
    if name in _ORDERED and (math.prod(a.shape[d] for d in wrapped) >= 1 << 31 or (len(wrapped) > 1 and not a.flags.c_contiguous)):
        return None
    outs = _GIVES.get(name, lambda kind: (kind,))(kind)
    if name in _TO_LONG and kind not in _FLOATS and dtype is None:
        outs = ("i64",)
    return _make_plan(name, a, wrapped, keepdim, outs, parameter)


def reduce(name: str, a: np.ndarray, dims: Any, keepdim: bool = False, dtype: Any = None, parameter: float = 0.0) -> Any:
    """The results of rule ``name`` over ``dims`` (a tuple where there are several); None if it is not for these operands."""
    key = (name, a.dtype, a.shape, a.strides, dims.__class__, dims, keepdim, dtype, parameter)
    try:
        plan = _plans[key]
    except KeyError:
        if len(_plans) > 4096:
            _plans.clear()
        plan = _plans[key] = _plan_for(name, a, dims, keepdim, dtype, parameter)
    except TypeError:  # a list of dimensions
        return reduce(name, a, tuple(dims), keepdim, dtype, parameter) if dims.__class__ is list else None
    if plan is None:
        return None
    if plan.copy is not None:
        a = np.ascontiguousarray(a.transpose(plan.copy))
    if len(plan.outs) == 1:
        found = result = plan.new(plan.shape, plan.outs[0])
        if plan.last is None:
            plan.first(id(a), id(result))
            return result
        ids = (id(result),)
    else:
        found = tuple([plan.new(plan.shape, each) for each in plan.outs])
        ids = tuple([id(each) for each in found])
    if plan.last is None:
        plan.first(id(a), *ids)
    else:
        states = [empty(plan.scratch, each) for each in plan.kinds]
        state_ids = [id(each) for each in states]
        plan.first(id(a), *state_ids)
        plan.last(*state_ids, *ids)
    return found


# -- operations --------------------------------------------------------------------------------------------------------------------------
_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_NUMBERS = _FLOATS | {"i8", "i16", "i32", "i64", "u8", "b8"}
_ORDERED = frozenset({"argmax", "argmin", "max", "min"})  # which of the elements comes first matters
_TO_LONG = frozenset({"sum", "nansum", "prod"})  # of integers

# Kinds that a rule takes, and those of its results; where a rule is not named, all kinds and the input's.
_TAKES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mean", "var", "std", "norm 0", "norm 1", "norm 2", "norm inf", "norm -inf"), _FLOATS),
    **dict.fromkeys(("argmax", "argmin", "max", "min", "aminmax"), _NUMBERS - {"b8"}),
    "norm p": _FLOATS - {"f64"},  # exp(p * log(x)) in float64 is exact enough for narrower kinds
    "logsumexp": frozenset({"f32", "f64"}),
}
_GIVES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "aminmax": lambda kind: (kind, kind),
    "max": lambda kind: (kind, "i64"),
    "min": lambda kind: (kind, "i64"),
    **dict.fromkeys(("argmax", "argmin", "count"), lambda kind: ("i64",)),
    **dict.fromkeys(("any", "all"), lambda kind: ("u8" if kind == "u8" else "b8",)),
}


def _register() -> None:
    """One native kernel for each operation that is ``rule(input, dim, keepdim)`` or nearly so."""

    def summing(rule: str) -> Any:
        return lambda input, dim=None, keepdim=False, dtype=None: reduce(rule, input, dim, keepdim, dtype)

    def spread(rule: str) -> Any:
        return lambda input, dim, correction, keepdim: reduce(rule, input, dim, keepdim, None, float(correction))

    def plain(rule: str) -> Any:
        return lambda input, dim=None, keepdim=False: reduce(rule, input, dim, keepdim)

    def truth(rule: str) -> Any:  # no dimensions are none here, not all
        return lambda input, dim=None, keepdim=False: None if dim == () or dim == [] else reduce(rule, input, dim, keepdim)

    for make, names in (
        (summing, {"sum": "sum", "nansum": "nansum", "prod": "prod", "mean": "mean"}),
        (spread, {"_var": "var", "_std": "std"}),
        (plain, {"amax": "amax", "amin": "amin", "_max_of_all": "amax", "_min_of_all": "amin", "aminmax": "aminmax"}),
        (plain, {"argmax": "argmax", "argmin": "argmin", "_max_along": "max", "_min_along": "min"}),
        (plain, {"count_nonzero": "count", "logsumexp": "logsumexp"}),
        (truth, {"any": "any", "all": "all"}),
    ):
        for operation, rule in names.items():
            native(operation)(make(rule))


_register()
_NORMS = {0.0: "norm 0", 1.0: "norm 1", 2.0: "norm 2", math.inf: "norm inf", -math.inf: "norm -inf"}


@native("linalg.vector_norm")
def vector_norm(x: np.ndarray, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if (ord.__class__ is not float and ord.__class__ is not int) or ord != ord:
        return None
    return reduce(_NORMS.get(ord, "norm p"), x, dim, keepdim, dtype, float(ord))
