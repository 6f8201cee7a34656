"""Recurrent layers: a whole sequence in one launch, the loop over time inside.

Rows of a batch do not meet in a recurrent layer, so that a chunk is a block of rows which goes through all steps by itself: no thread waits
for another one between steps. The input's product with its weights is taken before, for all steps at once; a step is then

    state     x     weights                         sums                the cell's formula
    rows by         for each block of a register's  rows by gates,      a program made of ``ops/recurrent.py``'s declaration,
    hidden          features: (hidden, gates)       in registers        over sums, cells and the input's products

and backwards the formula of the gradients first, then their product with the weights as they are. What is the product of all steps together
(gradients of input and weights) follows after the loop. The weights are laid out anew once for all steps, as the loop reads them; for a
few products that is not worth it, and rows of the weights are multiplied as they lie. Products for all steps are those of ``gemm.py``.

Sums over features run in one order for a row, whatever else is in its tile.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.expression import Program, lower
from ..compiler.language import Builder, Value, as_tuple
from .microkernel import lane_sums
from .tiles import Tiles, aligned, transposed

TILE = 8  # rows of a tile at most
LOW = 3  # rows of a tile whose gates are multiplied all at once
COLUMNS = 2  # registers side by side in a tile of the way back
GROUP = 8  # rows of weights that are multiplied as they lie at once: as many addresses as there are registers for them
TILED = ("plain", "room", "notes")  # arguments of kernels with the processor's own tiles


# -- pieces ---------------------------------------------------------------------------------------------------------------------------
def _tile_rows(target: targets.Target, columns: int) -> int:
    """Rows of a tile: accumulators, one register for each column of weights and one for the state fit the registers."""
    return min(TILE, (target.registers - columns - 1) // columns)


def together(gates: int) -> int:
    """Gates that are multiplied at once: with fewer of them a tile has more rows, for each of which weights are fetched once."""
    return 2 if gates % 2 == 0 else gates


def _tiles(k: Builder, first: Value, stop: Value, most: int, body: Callable[[Value, Value], None]) -> None:
    """Cut rows into tiles of equal heights, ``most`` at most: ``body(first row, height)``."""
    count = k.most((stop - first + (most - 1)) // most, 1)
    size = k.most((stop - first + count - 1) // count, 1)
    k.loop(first, stop, lambda r: body(r, k.least(size, stop - r)), step=size)


def _by_height(k: Builder, height: Value, most: int, body: Callable[[int], None]) -> None:
    """``body(rows)``, written once for each number of rows that a tile can have."""
    for rows in range(1, most + 1):
        k.when(height.eq(rows), partial(body, rows))


def _gate_sums(
    k: Builder, element: str, gates: int, most: int, left: Value, pitch: Value, weights: Value, length: Value, to: Value, height: int
) -> None:
    """Store the sums of all gates, for tiles of ``most`` rows at most; ``_sum_at`` says where each of them is."""
    some, lanes = together(gates), k.lanes(element)
    if some < gates and height <= LOW and (height + 1) * gates < k.target.registers:
        _low_sums(k, element, gates, most, left, pitch, weights, length, to, height)
        return
    for first in range(0, gates, some):
        part = k.at(weights, length * (first * lanes), element)
        _packed_sums(k, element, height, some, left, pitch, part, length, k.at(to, k.const(first * most * lanes, "i64"), element))


def _low_sums(
    k: Builder, element: str, gates: int, most: int, left: Value, pitch: Value, weights: Value, length: Value, to: Value, height: int
) -> None:
    """The same for few rows, all gates at once: with half of them each sum would wait for itself."""
    some, lanes = together(gates), k.lanes(element)
    parts = [k.at(weights, length * (first * lanes), element) for first in range(0, gates, some)]

    def add(i: Value, *sums: Value) -> list[Value]:
        line = [k.load(parts[g // some], i * (some * lanes) + g % some * lanes, element, lanes) for g in range(gates)]
        factors = [k.splat(k.load(left, i + pitch * r if r else i, element), lanes) for r in range(height)]
        return [k.fma(factors[n // gates], line[n % gates], value) for n, value in enumerate(sums)]

    start = [k.const(0, element, lanes)] * (height * gates)
    for n, value in enumerate(k.loop(k.const(0, "i64"), length, add, carried=start)):
        k.store(value, to, _sum_at(gates, most, n % gates, k.const(n // gates, "i64")) * lanes, element)


def _sum_at(gates: int, most: int, gate: int, number: Value) -> Value:
    """The register of the sums that is row ``number``'s of a gate."""
    some = together(gates)
    return number * some + (gate // some * some * most + gate % some)


def _packed_sums(
    k: Builder, element: str, height: int, columns: int, left: Value, pitch: Value, weights: Value, length: Value, to: Value
) -> None:
    """Store ``height`` by ``columns`` registers of ``left @ weights``: rows of ``left`` lie ``pitch`` apart, those of weights together."""
    t = Tiles(k, element, columns)

    def factor(r: int, i: Value) -> Value:
        return k.load(left, i + pitch * r if r else i, element)

    for n, value in enumerate(t.product(factor, height, weights, (0, length), t.every, [t.zero] * (height * columns))):
        k.store(value, to, n * t.lanes, element)


def plain_sums(
    k: Builder, element: str, columns: int, left: Value, weights: Value, first: Value, hidden: Value, length: Value, to: Value
) -> None:
    """Store ``columns`` registers of sums for one row: products with rows ``first`` on of each gate's weights as they lie."""
    for c in range(columns):
        k.store(row_sums(k, element, left, weights, hidden * c + first, hidden * (c + 1) - 1, length), to, c * k.lanes(element), element)


def row_sums(k: Builder, element: str, left: Value, weights: Value, first: Value, last: Value, length: Value) -> Value:
    """A register of sums: products of ``left`` with rows ``first`` on of the weights; lanes beyond row ``last`` repeat it."""
    lanes = k.lanes(element)
    group, ways = min(lanes, GROUP), 2 if k.target.registers > 16 else 1
    values: list[Value] = []
    for start in range(0, lanes, group):
        lines = [k.at(weights, k.least(first + (start + lane), last) * length, element) for lane in range(group)]

        def add(i: Value, mask: Value | None, total: Sequence[Value], lines: list[Value] = lines) -> list[Value]:
            factor = k.load(left, i, element, lanes, mask)
            return [k.fma(k.load(line, i, element, lanes, mask), factor, sums) for line, sums in zip(lines, total, strict=True)]

        def several(i: Value, *total: Value, add: Callable[..., list[Value]] = add) -> list[Value]:
            return [value for way in range(ways) for value in add(i + way * lanes, None, total[way * group : (way + 1) * group])]

        main, zeros = length // (ways * lanes) * (ways * lanes), [k.const(0, element, lanes)] * (group * ways)
        total = list(as_tuple(k.loop(k.const(0, "i64"), main, several, step=ways * lanes, carried=zeros)))
        sums = [reduce(operator.add, total[n::group]) for n in range(group)]
        values += as_tuple(k.vector_loop(main, length, lanes, lambda i, mask, *total, add=add: add(i, mask, total), carried=sums))
    return lane_sums(k, values)


def whole_or_masked(k: Builder, first: Value, stop: Value, lanes: int, body: Callable[[Value | None], None]) -> None:
    """``body(None)`` where a whole register's elements lie below ``stop``, else ``body(mask)``."""
    k.when(first + lanes <= stop, lambda: body(None), lambda: body(k.mask_below(first, stop, lanes)))


# -- weights --------------------------------------------------------------------------------------------------------------------------
@kernel
def pack_gates(k: Builder, element: str, gates: int) -> None:
    """Weights ``(gates * hidden, length)`` as (block of a register's features, gates that are multiplied together, length, gate of
    these, feature), from the first line of memory on that begins there; a chunk is one block and gate."""
    weight, packed, hidden, length = k.array(), k.array(), k.integer(), k.integer()
    lanes, some = k.lanes(element), together(gates)

    def chunk(c: Value) -> None:
        block, gate = c // gates, c % gates
        features = [k.least(block * lanes + lane, hidden - 1) for lane in range(lanes)]
        lines = [k.at(weight, (gate * hidden + feature) * length, element) for feature in features]
        target = k.at(aligned(k, packed), (block * (length * gates) + gate // some * length * some + gate % some) * lanes, element)

        def square(i: Value, mask: Value | None) -> None:
            for j, line in enumerate(transposed(k, [k.load(line, i, element, lanes, mask) for line in lines])):
                put = partial(k.store, line, target, (i + j) * (some * lanes), element)
                if mask is None:
                    put()
                else:
                    k.when(i + j < length, put)

        k.vector_loop(0, length, lanes, square)

    k.for_chunks(chunk)


@kernel
def pack_rows(k: Builder, element: str) -> None:
    """Weights ``(length, hidden)`` as (block of ``COLUMNS`` registers of features, length, feature); a chunk is one block."""
    weight, packed, hidden, length = k.array(), k.array(), k.integer(), k.integer()
    lanes = k.lanes(element)
    wide = COLUMNS * lanes

    def chunk(block: Value) -> None:
        def line(i: Value) -> None:
            for c in range(COLUMNS):
                at = block * wide + c * lanes
                value = k.load(weight, i * hidden + at, element, lanes, k.mask_below(at, hidden, lanes))
                k.store(value, packed, (block * length + i) * wide + c * lanes, element)

        k.loop(k.const(0, "i64"), length, line)

    k.for_chunks(chunk)


# -- forwards -------------------------------------------------------------------------------------------------------------------------
class StepArguments(Record):
    products: Array  # the input's
    gates: Array  # may be the same memory
    kept: Array  # all cells, or the state's parts of the last gate
    output: Array
    last: Array  # states: of the last step, and before the first one
    first: Array
    cells: Array  # the same of cells
    first_cells: Array
    weight: Array
    bias: Array  # of the state's product


class ForwardArguments(StepArguments):
    table: Array  # see ``table_of``
    plain: Array  # weights as they lie, and room for what tiles multiply; of ``recurrent_tiles`` alone, as ``notes``
    room: Array
    steps: Integer
    batch: Integer
    hidden: Integer
    rows: Integer  # of a chunk
    parts: Integer  # that features are shared out in, where there is one step
    notes: Integer  # of the sizes of weights


class Step:
    """A step of some rows, whose sums are there: the cell's formula, for a register of features at a time."""

    a: Any  # arguments: a record of these, with others

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has_bias: bool, keeps: bool):
        self.k, self.element, self.cell, self.program, self.lanes = k, element, cell, program, k.lanes(element)
        self.gates, self.has_bias, self.keeps = cell.gates, has_bias, keeps

    def results(
        self, row: Value, u: Value, mask: Value | None, sum_of: Callable[[int], Value], state: Value, cells: tuple[Value, Value]
    ) -> Value:
        """Write what a row (``row`` among all steps') has for the features from ``u`` on; the next state.

        ``sum_of(gate)`` is the state's product, ``state`` the row's state, and ``cells`` its cells before and after the step.
        """
        k, a, element, lanes, gates = self.k, self.a, self.element, self.lanes, self.gates

        def biased(g: int) -> Value:
            product = sum_of(g)
            return product + k.load(a.bias, a.hidden * g + u, element, lanes, mask) if self.has_bias else product

        at = row * a.hidden + u
        gate_at = [row * (a.hidden * gates) + (a.hidden * g + u) for g in range(gates)]
        inputs = [k.load(a.products, place, element, lanes, mask) for place in gate_at]
        inputs = [value if self.cell.has_part and g == gates - 1 else value + biased(g) for g, value in enumerate(inputs)]
        if self.cell.has_part:
            part = biased(gates - 1)
            inputs += [part, k.load(state, u, element, lanes, mask)]
        if self.cell.has_cell:
            inputs.append(k.load(cells[0], u, element, lanes, mask))
        following, *results = lower(k, self.program, inputs)
        k.store(following, a.output, at, element, mask)
        if self.cell.has_cell:
            cell, *results = results
            k.store(cell, cells[1], u, element, mask)
            if self.keeps:
                k.store(cell, a.kept, at, element, mask)
        if self.cell.has_part:
            k.store(part, a.kept, at, element, mask)
        for value, place in zip(results, gate_at, strict=False):
            k.store(value, a.gates, place, element, mask)
        return following


@kernel
def recurrent_forwards(k: Builder, element: str, cell: Any, program: Program, has_bias: bool, packed: bool, keeps: bool) -> None:
    """Steps of some rows and features each; ``keeps``: whether all cells are kept (LSTM)."""
    k.for_chunks(Forwards(k, element, cell, program, has_bias, packed, keeps).chunk)


class Forwards(Step):
    """The loops of ``recurrent_forwards``: steps, blocks of a register's features, tiles of rows."""

    record: type[Record] = ForwardArguments
    without: tuple[str, ...] = TILED

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has_bias: bool, packed: bool, keeps: bool):
        super().__init__(k, element, cell, program, has_bias, keeps)
        self.packed, self.a = packed, k.arguments(self.record, self.without)
        self.most = self.height()
        self.sums = k.scratch(self.most * self.gates * self.lanes, element)

    def height(self) -> int:
        """Rows of a tile at most."""
        return _tile_rows(self.k.target, together(self.gates)) if self.packed else 1

    def chunk(self, c: Value) -> None:
        k, a, lanes = self.k, self.a, self.lanes
        part, start = c % a.parts, c // a.parts * a.rows
        limit, blocks = k.least(start + a.rows, a.batch), (a.hidden + (lanes - 1)) // lanes
        left, right = part * blocks // a.parts * lanes, k.least((part + 1) * blocks // a.parts * lanes, a.hidden)
        k.loop(start, limit, lambda r: self.begin((left, right), r))

        def step(t: Value) -> None:
            at, stop = k.load(a.table, t * 4, "i64"), k.least(limit, k.load(a.table, t * 4 + 1, "i64"))
            state = k.select(t.eq(0), a.first, a.last)
            self.blocks(at, state, (left, right), (start, stop))
            k.loop(start, stop, lambda r: self.carry(at, (left, right), r))

        k.loop(k.const(0, "i64"), a.steps, step)

    def blocks(self, at: Value, state: Value, features: tuple[Value, Value], rows: tuple[Value, Value]) -> None:
        """A step of some features and rows."""

        def block(u: Value) -> None:
            _tiles(self.k, *rows, self.most, lambda r, height: self.tile(at, state, u, r, height))

        self.k.loop(*features, block, step=self.lanes)

    def tile(self, at: Value, state: Value, u: Value, r: Value, height: Value) -> None:
        """Features from ``u`` on of ``height`` rows of the batch, from ``r`` on; row 0 of the step is row ``at`` of all steps'."""
        k, a, element = self.k, self.a, self.element
        source = k.at(state, r * a.hidden, element)
        if self.packed:
            weights = k.at(aligned(k, a.weight), u * (a.hidden * self.gates), element)
            sums_of = partial(_gate_sums, k, element, self.gates, self.most, source, a.hidden, weights, a.hidden, self.sums)
            _by_height(k, height, self.most, sums_of)
        else:
            plain_sums(k, element, self.gates, source, a.weight, u, a.hidden, a.hidden, self.sums)

        def formulas(mask: Value | None) -> None:
            k.loop(k.const(0, "i64"), height, lambda number: self.formula(at + r + number, r + number, number, u, state, mask))

        whole_or_masked(k, u, a.hidden, self.lanes, formulas)

    def sum_of(self, g: int, number: Value) -> Value:
        """The sums of a gate for a row of the tile."""
        return self.k.load(self.sums, _sum_at(self.gates, self.most, g, number) * self.lanes, self.element, self.lanes)

    def formula(self, row: Value, place: Value, number: Value, u: Value, state: Value, mask: Value | None) -> None:
        """Of one row of the tile (``place`` among the batch, ``row`` among all steps'), the features from ``u`` on."""
        k, here = self.k, place * self.a.hidden
        cells = k.at(self.a.cells, here, self.element)
        self.results(row, u, mask, lambda g: self.sum_of(g, number), k.at(state, here, self.element), (cells, cells))

    def begin(self, features: tuple[Value, Value], r: Value) -> None:
        """A row of the first state, and cell, as the last one: rows without a step keep it."""
        k, a, element = self.k, self.a, self.element

        def some(u: Value, mask: Value | None) -> None:
            for first, last in [(a.first, a.last), (a.first_cells, a.cells)] if self.cell.has_cell else [(a.first, a.last)]:
                k.store(k.load(first, r * a.hidden + u, element, self.lanes, mask), last, r * a.hidden + u, element, mask)

        k.vector_loop(*features, self.lanes, some)

    def carry(self, at: Value, features: tuple[Value, Value], r: Value) -> None:
        """A row of the step's output as the state that the next one begins with."""
        k, a, element = self.k, self.a, self.element

        def some(u: Value, mask: Value | None) -> None:
            k.store(k.load(a.output, (at + r) * a.hidden + u, element, self.lanes, mask), a.last, r * a.hidden + u, element, mask)

        k.vector_loop(*features, self.lanes, some)


@kernel
def cells_again(k: Builder, element: str, cell: Any, program: Program) -> None:
    """All cells from the first ones and the gates; a chunk is a block of rows."""
    gates, first, kept, table = (k.array() for _ in range(4))
    steps, batch, hidden, rows = (k.integer() for _ in range(4))
    lanes = k.lanes(element)

    def line(at: Value, before_at: Value, before_size: Value, r: Value) -> None:
        before = k.select(r < before_size, k.at(kept, (before_at + r) * hidden, element), k.at(first, r * hidden, element))
        row, target = k.at(gates, (at + r) * (hidden * cell.gates), element), k.at(kept, (at + r) * hidden, element)

        def some(u: Value, mask: Value | None) -> None:
            inputs = [k.load(row, hidden * g + u, element, lanes, mask) for g in range(cell.gates)]
            (value,) = lower(k, program, [*inputs, k.load(before, u, element, lanes, mask)])
            k.store(value, target, u, element, mask)

        k.vector_loop(0, hidden, lanes, some)

    def chunk(c: Value) -> None:
        start = c * rows
        limit = k.least(start + rows, batch)

        def step(t: Value) -> None:
            at, size, before_at, before_size = (k.load(table, t * 4 + n, "i64") for n in range(4))
            k.loop(start, k.least(limit, size), lambda r: line(at, before_at, before_size, r))

        k.loop(k.const(0, "i64"), steps, step)

    k.for_chunks(chunk)


# -- backwards ------------------------------------------------------------------------------------------------------------------------
class SlopeArguments(Record):
    grad: Array
    products: Array
    kept: Array
    states: Array  # what the formula wants from before the step, cells (LSTM) or states (GRU), and the same before the first step
    first: Array
    output: Array  # the states after each row, which cells and gates tell too (LSTM); before the first step; and before each row
    first_state: Array
    before: Array  # may be the memory of the cells (LSTM)
    d_last: Array  # gradients of last state and cell
    d_last_cell: Array
    d_products: Array  # gradients: at the gates' sums, at the last gate's part, and of first state and cell
    d_part: Array
    d_state: Array
    d_cell: Array
    weight: Array


class BackwardArguments(SlopeArguments):
    table: Array  # see ``table_of``
    plain: Array  # as forwards
    room: Array
    steps: Integer
    batch: Integer
    hidden: Integer
    rows: Integer  # of a chunk
    notes: Integer


@kernel
def recurrent_backwards(k: Builder, element: str, cell: Any, program: Program, has: tuple[bool, ...]) -> None:
    """Steps of some rows each, from the last to the first: gradients at the gates' sums, and of first state and cell.

    ``has`` says which gradients there are: of output, last state and last cell.
    """
    k.for_chunks(Backwards(k, element, cell, program, has).chunk)


class Backwards:
    """The loops of ``recurrent_backwards``: steps; for each, rows for the formula, then blocks of features and tiles of rows."""

    a: Any
    record: type[Record] = BackwardArguments
    without: tuple[str, ...] = TILED

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has: tuple[bool, ...]):
        self.k, self.element, self.cell, self.program, self.lanes = k, element, cell, program, k.lanes(element)
        self.gates, self.has_grad, self.has_last = cell.gates, has[0], has[1:]
        self.a = k.arguments(self.record, self.without)
        self.wide, self.most = self.sizes()
        self.sums = k.scratch(self.most * self.wide, element)

    def sizes(self) -> tuple[int, int]:
        """Columns of a tile, and its rows at most."""
        return COLUMNS * self.lanes, _tile_rows(self.k.target, COLUMNS)

    def chunk(self, c: Value) -> None:
        k, a = self.k, self.a
        start = c * a.rows
        limit = k.least(start + a.rows, a.batch)
        k.loop(start, limit, self.begin)

        def step(t: Value) -> None:
            at, size, before_at, before_size = (k.load(a.table, (a.steps - 1 - t) * 4 + n, "i64") for n in range(4))
            stop = k.least(limit, size)
            if self.cell.has_cell:
                after = k.most((a.steps - t) * 4, 0)
                after_at, after_size = (k.load(a.table, k.select(t > 0, after + n, n), "i64") for n in range(2))
                after_size = k.select(t > 0, after_size, 0)
                k.loop(start, stop, lambda r: self.line_of_cell(at, (before_at, before_size), (after_at, after_size), r))
            else:
                k.loop(start, stop, lambda r: self.line(at, before_at, before_size, r))

            self.prepare(at, start, stop)

            def block(u: Value) -> None:
                _tiles(k, start, stop, self.most, lambda r, height: self.tile(at, (u, k.least(a.hidden - u, self.wide)), r, height))

            k.loop(k.const(0, "i64"), a.hidden, block, step=self.wide)

        k.loop(k.const(0, "i64"), a.steps, step)

    def begin(self, r: Value) -> None:
        """The gradients of a row's last state and cell, or zeros, as those to go on with."""
        k, a, element = self.k, self.a, self.element
        targets = [(a.d_state, a.d_last), (a.d_cell, a.d_last_cell)]

        def some(u: Value, mask: Value | None) -> None:
            at = r * a.hidden + u
            for (target, source), is_given in zip(targets, self.has_last, strict=False):
                value = k.load(source, at, element, self.lanes, mask) if is_given else k.const(0, element, self.lanes)
                k.store(value, target, at, element, mask)

        k.vector_loop(0, a.hidden, self.lanes, some)

    def line(self, at: Value, before_at: Value, before_size: Value, r: Value) -> None:
        """The formula for all features of a row, and the state that it came from."""
        k, a = self.k, self.a
        is_running, hidden = r < before_size, a.hidden
        before = k.select(is_running, k.at(a.states, (before_at + r) * hidden, self.element), k.at(a.first, r * hidden, self.element))
        state = k.select(is_running, k.at(a.output, (before_at + r) * hidden, self.element), k.at(a.first_state, r * hidden, self.element))

        def some(u: Value, mask: Value | None) -> None:
            self.formula(at + r, r, before, u, mask)
            k.store(k.load(state, u, self.element, self.lanes, mask), a.before, (at + r) * hidden + u, self.element, mask)

        k.vector_loop(0, a.hidden, self.lanes, some)

    def line_of_cell(self, at: Value, before: tuple[Value, Value], after: tuple[Value, Value], r: Value) -> None:
        """The formula for all features of a row, and its state where the next step's row begins with it.

        A row's state before may lie over its cell: the step before, whose formula comes later, is the first to write there.
        """
        k, a, element, lanes = self.k, self.a, self.element, self.lanes
        hidden, is_running, goes_on = a.hidden, r < before[1], r < after[1]
        cell = k.select(is_running, k.at(a.states, (before[0] + r) * hidden, element), k.at(a.first, r * hidden, element))

        def some(u: Value, mask: Value | None) -> None:
            (state,) = self.formula(at + r, r, cell, u, mask)
            k.when(goes_on, lambda: k.store(state, a.before, (after[0] + r) * hidden + u, element, mask))

        k.vector_loop(0, hidden, lanes, some)

        def begin(u: Value, mask: Value | None) -> None:
            k.store(k.load(a.first_state, r * hidden + u, element, lanes, mask), a.before, (at + r) * hidden + u, element, mask)

        k.when(~is_running, lambda: k.vector_loop(0, hidden, lanes, begin))

    def formula(self, row: Value, place: Value, before: Value, u: Value, mask: Value | None) -> list[Value]:
        """Write the gradients of some features; what the program gives beside them."""
        k, a, element, gates = self.k, self.a, self.element, self.gates

        def load(array: Value, at: Value) -> Value:
            return k.load(array, at, element, self.lanes, mask)

        at, here = row * a.hidden + u, place * a.hidden + u
        gate_at = [row * (a.hidden * gates) + (a.hidden * g + u) for g in range(gates)]
        arrived = load(a.d_state, here)
        inputs = [arrived + load(a.grad, at) if self.has_grad else arrived]
        if self.cell.has_cell:
            inputs.append(load(a.d_cell, here))
        inputs += [load(a.products, place_of) for place_of in gate_at] if self.cell.has_cell or self.cell.has_part else [load(a.states, at)]
        if self.cell.has_cell or self.cell.has_part:
            inputs += [load(a.kept, at), load(before, u)]
        results = lower(k, self.program, inputs)
        for value, place_of in zip(results, gate_at, strict=False):
            k.store(value, a.d_products, place_of, element, mask)
        if self.cell.has_cell:
            k.store(results[gates], a.d_cell, here, element, mask)
        if self.cell.has_part:
            k.store(results[gates], a.d_part, at, element, mask)
            k.store(results[gates + 1], a.d_state, here, element, mask)
        return results[gates + self.cell.has_cell + 2 * self.cell.has_part :]

    def prepare(self, at: Value, start: Value, stop: Value) -> None:
        """Prepare the gradients of rows of the step from row ``at`` on to be multiplied."""

    def tile(self, at: Value, features: tuple[Value, Value], r: Value, height: Value) -> None:
        """The gradients of ``height`` rows' states: of ``width`` features from ``u`` on."""
        k, a, element, (u, width) = self.k, self.a, self.element, features
        self.multiply(k.at(a.d_products, (at + r) * (a.hidden * self.gates), element), u, height)

        def result(number: Value) -> None:
            def some(i: Value, mask: Value | None) -> None:
                value, to = self.sum_of(number, i), (r + number) * a.hidden + u + i
                value = value + k.load(a.d_state, to, element, self.lanes, mask) if self.cell.has_part else value
                k.store(value, a.d_state, to, element, mask)

            k.vector_loop(0, width, self.lanes, some)

        k.loop(k.const(0, "i64"), height, result)

    def multiply(self, source: Value, u: Value, height: Value) -> None:
        """Store the sums of features from ``u`` on, of ``height`` rows from ``source`` on."""
        k, a, length = self.k, self.a, self.a.hidden * self.gates
        weights = k.at(a.weight, u * length, self.element)

        def sums_of(rows: int) -> None:
            _packed_sums(k, self.element, rows, COLUMNS, source, length, weights, length, self.sums)

        _by_height(k, height, self.most, sums_of)

    def sum_of(self, number: Value, i: Value) -> Value:
        """The sums of a row of the tile, from the ``i``-th of its features on."""
        return self.k.load(self.sums, number * self.wide + i, self.element, self.lanes)
