"""The kernels of reductions: one generator for rows, one for columns, and one that joins pieces; see ``reduction`` for the layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..compiler.build import kernel
from ..compiler.language import Builder, Value, as_tuple
from .reduction_rules import RULES, Rule, State, Sweep

_ACCUMULATORS = 4  # registers that take turns: an addition takes 3 or 4 cycles
COLUMNS = 512  # at most in a chunk
_ROWS = 8  # taken at a time: rows a power of two apart compete for the same 8 places of the first cache


# -- what both layouts share ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Extent:
    """Division into pieces: ``steps1`` of the ``n1`` and ``steps2`` of the ``n2`` elements each; ``along`` pieces lie along r1."""

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


def _lanes(k: Builder, sweep: Sweep, element: str) -> int:
    """Lanes of all values of a sweep."""
    return min(k.lanes(value_element) for value_element in (element, *(sweep.elements or ("f64",))) if value_element != "b1")


def _constants(k: Builder, elements: Sequence[str], values: Sequence[float], lanes: int) -> State:
    return tuple(k.const(value, element, lanes) for element, value in zip(elements, values, strict=True))


def _cast(k: Builder, state: State, elements: Sequence[str]) -> State:
    return tuple(k.cast(v, element) for v, element in zip(state, elements, strict=True))


def _masked(k: Builder, mask: Value | None, new: State, old: State) -> State:
    return new if mask is None else tuple(k.select(mask, a, b) for a, b in zip(new, old, strict=True))


def memory_element(element: str) -> str:
    return "b8" if element == "b1" else element


def _put(k: Builder, state: State, arrays: list[Value], elements: Sequence[str], at: Value, mask: Value | None = None) -> None:
    for value, pointer, element in zip(state, arrays, elements, strict=True):
        k.store(k.cast(value, {"b8": "b1", "f16": "f32", "bf16": "f32"}.get(element, element)), pointer, at, element, mask)


def _result_elements(rule: Rule, outs: tuple[str, ...], whole: bool) -> tuple[str, ...]:
    return outs if whole else tuple(map(memory_element, rule.state))


def _piece_state(k: Builder, rule: Rule, run: Callable[[Sweep], State], count: Value, parameter: Value) -> State:
    """Run the sweeps of a rule over a piece of rows."""
    if rule.guess is not None:
        guess = run(rule.guess)
        totals = as_tuple(k.when(rule.trust(k, guess), lambda: guess[: len(rule.sweep.elements)], lambda: run(rule.sweep)))  # type: ignore[misc]
    else:
        totals = run(rule.sweep)
    if rule.second is None:
        return totals
    return rule.piece(k, totals, run(rule.second(rule.centre(k, totals, count, parameter))), count)  # type: ignore[misc]


# -- rows ------------------------------------------------------------------------------------------------------------------------------
def _row_sweep(k: Builder, sweep: Sweep, element: str, row: Callable[[Value], Value], bounds: Sequence[Value]) -> State:
    """A sweep over rows ``row(r2)`` between bounds: one lane."""
    if not sweep.elements:
        return ()
    lanes = _lanes(k, sweep, element)
    width, count = len(sweep.elements), _ACCUMULATORS
    first2, last2, first1, last1 = bounds
    start = _constants(k, sweep.elements, sweep.start, lanes) * count

    def run(begin: Value, end: Value, pointer: Value, accumulators: State) -> State:
        def step(i: Value, mask: Value | None, *values: Value) -> State:
            state, rest = values[:width], values[width:]
            x = k.load(pointer, i, element, lanes, mask)
            new = sweep.step(k, state, x, lambda index: k.cast(i, index) + k.indices(lanes, index))
            return (*rest, *_masked(k, mask, new, state))  # accumulators take turns

        return as_tuple(k.vector_loop(begin, end, lanes, step, carried=accumulators, unroll=count))

    def together(state: State) -> State:
        parts = [state[i * width : (i + 1) * width] for i in range(count)]
        while len(parts) > 1:
            parts = [sweep.merge(k, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    if not sweep.block:
        return _folded(k, sweep, together(as_tuple(k.loop(first2, last2, lambda r2, *v: run(first1, last1, row(r2), v), carried=start))))
    size = sweep.block * lanes * count

    def one_row(r2: Value, *totals: Value) -> State:
        pointer = row(r2)

        def block(i: Value, *before: Value) -> State:
            return sweep.merge(k, before, _cast(k, together(run(i, k.least(i + size, last1), pointer, start)), sweep.totals))

        return as_tuple(k.loop(first1, last1, block, step=size, carried=totals))

    return _folded(k, sweep, as_tuple(k.loop(first2, last2, one_row, carried=_constants(k, sweep.totals, sweep.start, lanes))))


def _folded(k: Builder, sweep: Sweep, state: State) -> State:
    """All lanes merged into one."""
    if sweep.fold is not None:
        return sweep.fold(k, state)
    while state[0].lanes > 1:
        low, high = zip(*map(k.halves, state), strict=True)
        state = sweep.merge(k, low, high)
    return state


@kernel
def reduce_rows(k: Builder, name: str, element: str, outs: tuple[str, ...], whole: bool) -> None:
    """Units are rows if ``whole``, else pieces of rows; ``group`` of them make a chunk."""
    rule = RULES[name](element)
    elements = _result_elements(rule, outs, whole)
    x, results = k.array(), [k.array() for _ in elements]
    units, group, pieces, no1, so2, so1, sr2 = (k.integer() for _ in range(7))
    extent, parameter = _extent(k), k.number("f64")

    def unit(u: Value) -> None:
        o, bounds = u, (k.const(0, "i64"), extent.n2, k.const(0, "i64"), extent.n1)
        if not whole:
            o, bounds = u // pieces, extent.piece(k, u % pieces)
        base = k.at(x, (o // no1) * so2 + (o % no1) * so1, "i8")
        count = extent.count(k, bounds)
        run = lambda sweep: _row_sweep(k, sweep, element, lambda r2: k.at(base, r2 * sr2, "i8"), bounds)  # noqa: E731
        state = _piece_state(k, rule, run, count, parameter)
        _put(k, rule.finish(k, state, count, parameter) if whole else state, results, elements, u)

    k.for_chunks(lambda c: k.loop(c * group, k.least((c + 1) * group, units), unit))


# -- columns ---------------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Block:
    """Columns ``first`` to ``stop`` of one unit, and the totals of each of them in scratch memory.

    A sweep takes a few rows at a time over all columns, registers holding the accumulators of some: rows are then read along, as the
    processor fetches them ahead, and not down, which would be one distant line after the other.
    """

    k: Builder
    element: str
    lanes: int
    place: Callable[[Value, Value, Value], Value]
    bounds: Sequence[Value]
    first: Value
    stop: Value
    apart: Value | None

    def each(self, body: Callable[[Value, list[Any]], None], registers: int = 0) -> None:
        """``body(j, masks)`` for all columns: ``j`` is the first of as many registers as there are masks."""
        k, lanes = self.k, self.lanes
        wide = lanes * (registers or (4 if k.target.registers >= 32 else 2))
        end = self.first + (self.stop - self.first) // wide * wide
        k.loop(self.first, end, lambda j: body(j, [None] * (wide // lanes)), step=wide)
        k.loop(end, self.stop, lambda j: body(j, [k.mask_below(j, self.stop, lanes)]), step=lanes)

    def get(self, pointer: Value, i: int, mask: Value | None) -> Value:
        if self.apart is None:
            return self.k.load(pointer, i, self.element, self.lanes, mask)
        return self.k.gather(pointer, (self.k.indices(self.lanes) + i) * self.apart, self.element, mask)

    def totals(self, scratch: Sequence[tuple[Value, str]], j: Value) -> State:
        return tuple(self.k.load(p, j - self.first, element, self.lanes) for p, element in scratch)

    def keep(self, state: State, scratch: Sequence[tuple[Value, str]], j: Value) -> None:
        for value, (pointer, element) in zip(state, scratch, strict=True):
            self.k.store(value, pointer, j - self.first, element)

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
                sweeps, width = [sweep_at(at) for at in places], len(model.elements)

                def step(r: Value, *values: Value) -> State:
                    pointer = self.place(r2, r, j)
                    new: list[Value] = []
                    for i, (sweep, mask) in enumerate(zip(sweeps, masks, strict=True)):
                        x = self.get(pointer, i * lanes, mask)
                        new += sweep.step(k, values[i * width : (i + 1) * width], x, lambda index: k.splat(k.cast(r, index), lanes))
                    return tuple(new)

                before = [self.totals(scratch, at) for at in places]
                straight = model.elements == model.totals
                carried = sum(before, ()) if straight else _constants(k, model.elements, model.start, lanes) * len(masks)
                final = as_tuple(k.loop(r1, end, step, carried=carried))
                for i, (sweep, at) in enumerate(zip(sweeps, places, strict=True)):
                    state = final[i * width : (i + 1) * width]
                    self.keep(state if straight else sweep.merge(k, before[i], _cast(k, state, model.totals)), scratch, at)

            self.each(columns)

        k.loop(first2, last2, lambda r2: k.loop(first1, last1, lambda r1: some_rows(r2, r1), step=_ROWS))


@kernel
def reduce_columns(k: Builder, name: str, element: str, outs: tuple[str, ...], whole: bool, spread: bool) -> None:
    """Units are blocks of ``across`` of the ``columns`` of one kept index and piece; ``group`` of them make a chunk.

    Columns are neighbours, or if ``spread``, ``apart`` elements from each other.
    """
    rule = RULES[name](element)
    elements = _result_elements(rule, outs, whole)
    x, results = k.array(), [k.array() for _ in elements]
    units, group, pieces, no1, so2, so1, sr2, sr1, columns, across, blocks, apart = (k.integer() for _ in range(12))
    extent, parameter = _extent(k), k.number("f64")
    lanes = _lanes(k, rule.sweep, element)
    then = rule.second(()) if rule.second is not None else rule.sweep
    memory = [(k.scratch(COLUMNS, total_element), total_element) for total_element in map(memory_element, rule.sweep.totals + then.totals)]
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
            return k.at(k.at(base, r2 * sr2 + r1 * sr1, "i8"), j * apart if spread else j, element)

        block = _Block(k, element, lanes, place, bounds, first, k.least(first + across, columns), apart if spread else None)
        if rule.sweep.elements:
            block.sweep(lambda j: rule.sweep, rule.sweep, totals)
        if rule.second is not None:
            second, centre = rule.second, rule.centre
            if centre is None:
                raise TypeError(f"{k.name}: a rule with a second sweep needs a centre")
            block.sweep(lambda j: second(centre(k, block.totals(totals, j), count, parameter)), then, others)

        def put(j: Value, masks: list[Any]) -> None:
            state = block.totals(totals, j)
            if rule.piece is not None:
                state = rule.piece(k, state, block.totals(others, j), count)
            if whole:
                state = rule.finish(k, state, count, parameter)
            _put(k, state, results, elements, piece * columns + j, masks[0])

        block.each(put, 1)

    k.for_chunks(lambda c: k.loop(c * group, k.least((c + 1) * group, units), unit))


# -- pieces ----------------------------------------------------------------------------------------------------------------------------
@kernel
def join_pieces(k: Builder, name: str, element: str, outs: tuple[str, ...], wide: bool) -> None:
    """Results from the states ``[kept, pieces, columns]``, in order of pieces; one column if not ``wide``. A chunk is a kept index."""
    rule = RULES[name](element)
    elements = tuple(map(memory_element, rule.state))
    states, results = [k.array() for _ in elements], [k.array() for _ in outs]
    pieces, columns = k.integer(), k.integer()
    extent, parameter = _extent(k), k.number("f64")
    lanes = min(k.lanes(state_element) for state_element in rule.state) if wide else 1

    def kept(o: Value) -> None:
        def some(j: Value, mask: Value | None) -> None:
            def get(s: Value) -> State:
                at = (o * pieces + s) * columns + j
                return tuple(k.load(p, at, state_element, lanes, mask) for p, state_element in zip(states, elements, strict=True))

            def join(s: Value, count: Value, *state: Value) -> State:
                more = extent.count(k, extent.piece(k, s))
                return (count + more, *rule.join(k, state, get(s), count, more))

            zero = k.const(0, "i64")
            start = (extent.count(k, extent.piece(k, zero)), *get(zero))
            count, *state = k.loop(1, pieces, join, carried=start)
            _put(k, rule.finish(k, tuple(state), count, parameter), results, outs, o * columns + j, mask)

        k.vector_loop(0, columns, lanes, some)

    k.for_chunks(kept)
