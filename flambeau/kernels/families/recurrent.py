"""Recurrent layers: a whole sequence in one launch, the loop over time inside.

Rows of a batch do not meet in a recurrent layer, so that a chunk is a block of rows which goes through all steps by itself: no thread waits
for another one between steps. The input's product with its weights is taken before, for all steps at once; a step is then

    state     x     weights                         sums                the cell's formula
    rows by         for each block of a register's  rows by gates,      a program made of ``ops/recurrent.py``'s declaration,
    hidden          features: (hidden, gates)       in registers        over sums, cells and the input's products

and backwards the formula of the gradients first, then their product with the weights as they are. What is the product of all steps together
(gradients of input and weights) follows after the loop. The weights are laid out anew once for all steps, as the loop reads them; for a
few products that is not worth it, and rows of the weights are multiplied as they lie. Products for all steps are BLAS's (``gemm.py``), but
for few rows of the input, for which it spends its time on laying the weights out.

Sums over features run in one order for a row, whatever else is in its tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.native import native
from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.expression import Program, lower, trace
from ..compiler.language import ELEMENTS, FLOATS, Builder, Value
from ..compiler.memory import empty
from .copies import contiguous, copy
from .gemm import SMALL, multiply
from .microkernel import lane_sums
from .reduction import reduce
from .tiles import Tiles, transposed

TILE = 8  # rows of a tile at most
COLUMNS = 2  # registers side by side in a tile of the way back
GROUP = 8  # rows of weights that are multiplied as they lie at once: as many addresses as there are registers for them
SOME = 64  # rows of the input: up to here their product with the weights is taken by the same tiles, above by BLAS
FEW = 8  # products with each weight: up to here weights are read as they lie
ROWS = 16  # rows of a block at most: several tiles, so that weights are fetched from far once for all of them
SHARED = 1 << 16  # multiply-adds of a chunk, at least


# -- pieces ---------------------------------------------------------------------------------------------------------------------------
def _tile_rows(target: targets.Target, columns: int) -> int:
    """Rows of a tile: accumulators, one register for each column of weights and one for the state fit the registers."""
    return min(TILE, (target.registers - columns - 1) // columns)


def _together(gates: int) -> int:
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
    some, lanes = _together(gates), k.lanes(element)
    for first in range(0, gates, some):
        part = k.at(weights, length * (first * lanes), element)
        _packed_sums(k, element, height, some, left, pitch, part, length, k.at(to, k.const(first * most * lanes, "i64"), element))


def _sum_at(gates: int, most: int, gate: int, number: Value) -> Value:
    """Which register of the sums is row ``number``'s of a gate."""
    some = _together(gates)
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


def _plain_sums(
    k: Builder, element: str, columns: int, left: Value, weights: Value, first: Value, hidden: Value, length: Value, to: Value
) -> None:
    """Store ``columns`` registers of sums for one row: products with rows ``first`` on of each gate's weights as they lie."""
    lanes = k.lanes(element)
    group = min(lanes, GROUP)
    for c in range(columns):
        values: list[Value] = []
        for start in range(0, lanes, group):
            # lanes beyond the last feature repeat it; their sums are not read
            features = [k.least(first + (start + lane), hidden - 1) for lane in range(group)]
            lines = [k.at(weights, (hidden * c + feature) * length, element) for feature in features]

            def step(i: Value, mask: Value | None, *total: Value, lines: list[Value] = lines) -> list[Value]:
                factor = k.load(left, i, element, lanes, mask)
                return [k.fma(k.load(line, i, element, lanes, mask), factor, sums) for line, sums in zip(lines, total, strict=True)]

            values += k.vector_loop(0, length, lanes, step, carried=[k.const(0, element, lanes)] * group)
        k.store(lane_sums(k, values), to, c * lanes, element)


def _whole_or_masked(k: Builder, first: Value, stop: Value, lanes: int, body: Callable[[Value | None], None]) -> None:
    """``body(None)`` where a whole register's elements lie below ``stop``, else ``body(mask)``."""
    k.when(first + lanes <= stop, lambda: body(None), lambda: body(k.mask_below(first, stop, lanes)))


# -- weights --------------------------------------------------------------------------------------------------------------------------
@kernel
def pack_gates(k: Builder, element: str, gates: int) -> None:
    """Weights ``(gates * hidden, length)`` as (block of a register's features, gates that are multiplied together, length, gate of
    these, feature); a chunk is one block and gate."""
    weight, packed, hidden, length = k.array(), k.array(), k.integer(), k.integer()
    lanes, some = k.lanes(element), _together(gates)

    def chunk(c: Value) -> None:
        block, gate = c // gates, c % gates
        features = [k.least(block * lanes + lane, hidden - 1) for lane in range(lanes)]
        lines = [k.at(weight, (gate * hidden + feature) * length, element) for feature in features]
        target = k.at(packed, (block * (length * gates) + gate // some * length * some + gate % some) * lanes, element)

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
@kernel
def input_products(k: Builder, element: str, gates: int, has_bias: bool) -> None:
    """Products of the input's rows with packed weights; a chunk is a block of rows."""
    x, weight, products, bias = (k.array() for _ in range(4))
    total, hidden, length, rows = (k.integer() for _ in range(4))
    lanes = k.lanes(element)
    most = _tile_rows(k.target, _together(gates))
    sums = k.scratch(most * gates * lanes, element)

    def chunk(c: Value) -> None:
        start = c * rows
        stop = k.least(start + rows, total)

        def block(u: Value) -> None:
            def tile(r: Value, height: Value) -> None:
                source, weights = k.at(x, r * length, element), k.at(weight, u * (length * gates), element)
                _by_height(k, height, most, partial(_gate_sums, k, element, gates, most, source, length, weights, length, sums))

                def put(mask: Value | None) -> None:
                    def row(n: Value) -> None:
                        for g in range(gates):
                            value, at = k.load(sums, _sum_at(gates, most, g, n) * lanes, element, lanes), hidden * g + u
                            value = value + k.load(bias, at, element, lanes, mask) if has_bias else value
                            k.store(value, products, (r + n) * (hidden * gates) + at, element, mask)

                    k.loop(k.const(0, "i64"), height, row)

                _whole_or_masked(k, u, hidden, lanes, put)

            _tiles(k, start, stop, most, tile)

        k.loop(k.const(0, "i64"), hidden, block, step=lanes)

    k.for_chunks(chunk)


class ForwardArguments(Record):
    products: Array  # the input's products, and the gates afterwards
    kept: Array  # all cells, or the state's parts of the last gate
    output: Array
    last: Array  # states: of the last step, and before the first one
    first: Array
    cells: Array  # the same of cells
    first_cells: Array
    weight: Array
    bias: Array  # of the state's product
    table: Array  # see ``_table``
    steps: Integer
    batch: Integer
    hidden: Integer
    rows: Integer  # of a chunk
    parts: Integer  # that features are shared out in, where there is one step


@kernel
def recurrent_forwards(k: Builder, element: str, cell: Any, program: Program, has_bias: bool, packed: bool) -> None:
    """Steps of some rows and features each."""
    k.for_chunks(_Forwards(k, element, cell, program, has_bias, packed).chunk)


class _Forwards:
    """The loops of ``recurrent_forwards``: steps, blocks of a register's features, tiles of rows."""

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has_bias: bool, packed: bool):
        self.k, self.element, self.cell, self.program, self.lanes = k, element, cell, program, k.lanes(element)
        self.gates, self.has_bias, self.packed = cell.gates, has_bias, packed
        self.a = k.arguments(ForwardArguments)
        self.most = _tile_rows(k.target, _together(self.gates)) if packed else 1
        self.sums = k.scratch(self.most * self.gates * self.lanes, element)

    def chunk(self, c: Value) -> None:
        k, a, lanes = self.k, self.a, self.lanes
        part, start = c % a.parts, c // a.parts * a.rows
        limit, blocks = k.least(start + a.rows, a.batch), (a.hidden + (lanes - 1)) // lanes
        left, right = part * blocks // a.parts * lanes, k.least((part + 1) * blocks // a.parts * lanes, a.hidden)
        k.loop(start, limit, lambda r: self.begin((left, right), r))

        def step(t: Value) -> None:
            at, stop = k.load(a.table, t * 4, "i64"), k.least(limit, k.load(a.table, t * 4 + 1, "i64"))
            state = k.select(t.eq(0), a.first, a.last)

            def block(u: Value) -> None:
                _tiles(k, start, stop, self.most, lambda r, height: self.tile(at, state, u, r, height))

            k.loop(left, right, block, step=lanes)
            k.loop(start, stop, lambda r: self.carry(at, (left, right), r))

        k.loop(k.const(0, "i64"), a.steps, step)

    def tile(self, at: Value, state: Value, u: Value, r: Value, height: Value) -> None:
        """Features from ``u`` on of ``height`` rows of the batch, from ``r`` on; row 0 of the step is row ``at`` of all steps'."""
        k, a, element = self.k, self.a, self.element
        source = k.at(state, r * a.hidden, element)
        if self.packed:
            weights = k.at(a.weight, u * (a.hidden * self.gates), element)
            sums_of = partial(_gate_sums, k, element, self.gates, self.most, source, a.hidden, weights, a.hidden, self.sums)
            _by_height(k, height, self.most, sums_of)
        else:
            _plain_sums(k, element, self.gates, source, a.weight, u, a.hidden, a.hidden, self.sums)

        def formulas(mask: Value | None) -> None:
            k.loop(k.const(0, "i64"), height, lambda number: self.formula(at + r + number, r + number, number, u, state, mask))

        _whole_or_masked(k, u, a.hidden, self.lanes, formulas)

    def formula(self, row: Value, place: Value, number: Value, u: Value, state: Value, mask: Value | None) -> None:
        """Of one row of the tile (``place`` among the batch, ``row`` among all steps'), the features from ``u`` on."""
        k, a, element, lanes, gates = self.k, self.a, self.element, self.lanes, self.gates

        def sum_of(g: int) -> Value:
            product = k.load(self.sums, _sum_at(gates, self.most, g, number) * lanes, element, lanes)
            return product + k.load(a.bias, a.hidden * g + u, element, lanes, mask) if self.has_bias else product

        at = row * a.hidden + u
        gate_at = [row * (a.hidden * gates) + (a.hidden * g + u) for g in range(gates)]
        inputs = [k.load(a.products, gate_at[g], element, lanes, mask) for g in range(gates)]
        inputs = [value if self.cell.has_part and g == gates - 1 else value + sum_of(g) for g, value in enumerate(inputs)]
        if self.cell.has_part:
            part = sum_of(gates - 1)
            inputs += [part, k.load(state, place * a.hidden + u, element, lanes, mask)]
        if self.cell.has_cell:
            inputs.append(k.load(a.cells, place * a.hidden + u, element, lanes, mask))
        following, *results = lower(k, self.program, inputs)
        k.store(following, a.output, at, element, mask)
        if self.cell.has_cell:
            cell, *results = results
            k.store(cell, a.cells, place * a.hidden + u, element, mask)
            k.store(cell, a.kept, at, element, mask)
        if self.cell.has_part:
            k.store(part, a.kept, at, element, mask)
        for value, place_of in zip(results, gate_at, strict=False):
            k.store(value, a.products, place_of, element, mask)

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


# -- backwards ------------------------------------------------------------------------------------------------------------------------
class BackwardArguments(Record):
    grad: Array
    products: Array
    kept: Array
    states: Array  # what the formula wants from before the step, cells (LSTM) or states (GRU), and the same before the first step
    first: Array
    output: Array  # the states after each row, before the first step, and before each row
    first_state: Array
    before: Array
    d_last: Array  # gradients of last state and cell
    d_last_cell: Array
    d_products: Array  # gradients: at the gates' sums, at the last gate's part, and of first state and cell
    d_part: Array
    d_state: Array
    d_cell: Array
    weight: Array
    table: Array  # see ``_table``
    steps: Integer
    batch: Integer
    hidden: Integer
    rows: Integer  # of a chunk


@kernel
def recurrent_backwards(k: Builder, element: str, cell: Any, program: Program, has: tuple[bool, ...]) -> None:
    """Steps of some rows each, from the last to the first: gradients at the gates' sums, and of first state and cell.

    ``has`` says which gradients there are: of output, last state and last cell.
    """
    k.for_chunks(_Backwards(k, element, cell, program, has).chunk)


class _Backwards:
    """The loops of ``recurrent_backwards``: steps; for each, rows for the formula, then blocks of features and tiles of rows."""

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has: tuple[bool, ...]):
        self.k, self.element, self.cell, self.program, self.lanes = k, element, cell, program, k.lanes(element)
        self.gates, self.has_grad, self.has_last = cell.gates, has[0], has[1:]
        self.a = k.arguments(BackwardArguments)
        self.wide, self.most = COLUMNS * self.lanes, _tile_rows(k.target, COLUMNS)
        self.sums = k.scratch(self.most * self.wide, element)

    def chunk(self, c: Value) -> None:
        k, a = self.k, self.a
        start = c * a.rows
        limit = k.least(start + a.rows, a.batch)
        k.loop(start, limit, self.begin)

        def step(t: Value) -> None:
            at, size, before_at, before_size = (k.load(a.table, (a.steps - 1 - t) * 4 + n, "i64") for n in range(4))
            stop = k.least(limit, size)
            k.loop(start, stop, lambda r: self.line(at, before_at, before_size, r))

            def block(u: Value) -> None:
                weights, width = k.at(a.weight, u * (a.hidden * self.gates), self.element), k.least(a.hidden - u, self.wide)
                _tiles(k, start, stop, self.most, lambda r, height: self.tile(at, weights, (u, width), r, height))

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
            k.store(k.load(state, u, self.element, self.lanes, mask), a.before, (at + r) * hidden + u, self.element, mask)
            self.formula(at + r, r, before, u, mask)

        k.vector_loop(0, a.hidden, self.lanes, some)

    def formula(self, row: Value, place: Value, before: Value, u: Value, mask: Value | None) -> None:
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

    def tile(self, at: Value, weights: Value, features: tuple[Value, Value], r: Value, height: Value) -> None:
        """The gradients of ``height`` rows' states: of ``width`` features from ``u`` on."""
        k, a, element, (u, width) = self.k, self.a, self.element, features
        source = k.at(a.d_products, (at + r) * (a.hidden * self.gates), element)

        def sums_of(rows: int) -> None:
            _packed_sums(k, element, rows, COLUMNS, source, a.hidden * self.gates, weights, a.hidden * self.gates, self.sums)

        _by_height(k, height, self.most, sums_of)

        def result(number: Value) -> None:
            def some(i: Value, mask: Value | None) -> None:
                value, to = k.load(self.sums, number * self.wide + i, element, self.lanes), (r + number) * a.hidden + u + i
                value = value + k.load(a.d_state, to, element, self.lanes, mask) if self.cell.has_part else value
                k.store(value, a.d_state, to, element, mask)

            k.vector_loop(0, width, self.lanes, some)

        k.loop(k.const(0, "i64"), height, result)


# -- calls ----------------------------------------------------------------------------------------------------------------------------
class _Plan(NamedTuple):
    """Function for arrays of certain sizes: copies the weights to another layout (``size`` elements) if that pays, and does the steps."""

    size: int
    pack: Callable[..., None] | None
    steps: Callable[..., None]


@lru_cache(maxsize=64)
def _table(sizes: tuple[int, ...], reverse: bool) -> np.ndarray:
    """Of each step in the order of computation: where its rows begin and how many there are, and the same of the step before it."""
    counts = np.array(sizes, np.int64)
    steps = np.stack([np.cumsum(counts) - counts, counts], 1)
    if reverse:
        steps = steps[::-1]
    return np.ascontiguousarray(np.concatenate([steps, np.concatenate([np.zeros((1, 2), np.int64), steps[:-1]])], 1))


@lru_cache(maxsize=64)
def _program(formula: Callable[..., Any], count: int, dtype: np.dtype) -> Program:
    return trace(formula, [None] * count, [dtype] * count)


@lru_cache(maxsize=1024)
def _rows_of_block(batch: int, work: int) -> int:
    """Rows of a chunk, by sizes alone: of two or more where there is enough ``work`` in multiply-adds."""
    chunks = 1
    if batch > 1 and work >= 2 * SHARED:
        chunks = 2
        while -(-batch // chunks) > ROWS:
            chunks *= 2
    return -(-batch // chunks)


def _product(a: np.ndarray, b: np.ndarray, least: int) -> np.ndarray:
    result = multiply(a, b, None, least)
    return np.dot(a, b) if result is None else result


def _sum_of_rows(array: np.ndarray) -> np.ndarray:
    total: np.ndarray | None = reduce("sum", array, 0)
    return np.add.reduce(array, axis=0) if total is None else total


def _rows(array: np.ndarray) -> np.ndarray:
    """The elements of all sequences below each other, row-major."""
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]))


def _input_products(gates: int, input: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, least: int) -> np.ndarray:
    x = _rows(input)
    if FEW < len(x) <= SOME:
        return _products_of_some(gates, x, weight, bias)
    products = multiply(x, weight.T, bias, least)
    if products is None:
        products = np.dot(x, weight.T)
        if bias is not None:
            products += bias
    return products


@lru_cache(maxsize=1024)
def _products_plan(gates: int, dtype: np.dtype, has_bias: bool, total: int, hidden: int, length: int) -> _Plan:
    element, lanes = ELEMENTS[dtype], targets.current().width // dtype.itemsize
    blocks, rows = -(-hidden // lanes), _rows_of_block(total, gates * hidden * length * total)
    steps = input_products(element, gates, has_bias).call(-(-total // rows), total, hidden, length, rows)
    return _Plan(blocks * lanes * length * gates, pack_gates(element, gates).call(blocks * gates, hidden, length), steps)


def _products_of_some(gates: int, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    (total, length), columns = x.shape, len(weight)
    plan = _products_plan(gates, x.dtype, bias is not None, total, columns // gates, length)
    packed, weight = empty((plan.size,), x.dtype), np.ascontiguousarray(weight)
    if plan.pack is not None:
        plan.pack(weight, packed)
    products = empty((total, columns), x.dtype)
    plan.steps(x, packed, products, x if bias is None else np.ascontiguousarray(bias))
    return products


def _sizes(input: np.ndarray, sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    return (input.shape[1],) * input.shape[0] if sizes is None else sizes


def _fit(cell: Any, sizes: tuple[int, ...], states: tuple[np.ndarray, ...], input: np.ndarray, weight_ih: Any, weight_hh: Any) -> bool:
    """Whether shapes and dtypes of a layer's operands are those that its kernels take; the reference says what is wrong with others."""
    dtype, hidden = input.dtype, states[0].shape[-1]
    return (
        dtype in FLOATS
        and sum(sizes) * input.shape[-1] == input.size
        and weight_ih.dtype == weight_hh.dtype == dtype
        and weight_ih.shape == (cell.gates * hidden, input.shape[-1])
        and weight_hh.shape == (cell.gates * hidden, hidden)
        and all(state.dtype == dtype and state.shape == (sizes[0], hidden) for state in states)
    )


@lru_cache(maxsize=1024)
def _forwards_plan(cell: Any, dtype: np.dtype, has_bias: bool, batch: int, count: int, total: int, hidden: int) -> _Plan:
    element, gates = ELEMENTS[dtype], cell.gates
    blocks, work = -(-hidden // (targets.current().width // dtype.itemsize)), gates * hidden * hidden * total
    few = total <= FEW
    rows, parts = (batch if few else _rows_of_block(batch, work)), 1
    if few and count == 1:
        parts = max(1, min(blocks, work // SHARED, 16))
    program = _program(cell.forwards, gates + cell.has_cell + 2 * cell.has_part, dtype)
    run = recurrent_forwards(element, cell, program, has_bias, not few)
    steps = run.bind(-(-batch // rows) * parts, steps=count, batch=batch, hidden=hidden, rows=rows, parts=parts)
    size = 0 if few else blocks * (targets.current().width // dtype.itemsize) * hidden * gates
    return _Plan(size, None if few else pack_gates(element, gates).call(blocks * gates, hidden, hidden), steps)


def _forwards(
    cell: Any, input: np.ndarray, states: tuple[np.ndarray, ...], weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, sizes: Any,
    reverse: bool, least: int,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    """Output, last states, gates and what is kept beside them."""
    sizes, dtype, hidden = _sizes(input, sizes), input.dtype, states[0].shape[-1]
    if not _fit(cell, sizes, states, input, weight_ih, weight_hh):
        return None
    for bias in (bias_ih, bias_hh):
        if bias is not None and (bias.dtype != dtype or bias.shape != weight_hh.shape[:1]):
            return None
    products = _input_products(cell.gates, input, weight_ih, bias_ih, least)
    plan = _forwards_plan(cell, dtype, bias_hh is not None, sizes[0], len(sizes), len(products), hidden)
    weight = weight_hh = np.ascontiguousarray(weight_hh)
    if plan.pack is not None:
        plan.pack(weight_hh, weight := empty((plan.size,), dtype))
    output = empty((len(products), hidden), dtype)
    kept = empty(output.shape, dtype) if cell.has_cell or cell.has_part else output
    first, first_cells = np.ascontiguousarray(states[0]), np.ascontiguousarray(states[-1])
    last = empty(first.shape, dtype)
    cells = empty(first.shape, dtype) if cell.has_cell else last
    bias_hh = first if bias_hh is None else np.ascontiguousarray(bias_hh)
    plan.steps(
        products=products, kept=kept, output=output, last=last, first=first, cells=cells, first_cells=first_cells, weight=weight,
        bias=bias_hh, table=_table(sizes, reverse),
    )  # fmt: skip
    output = output.reshape(*input.shape[:-1], hidden)
    if cell.has_cell:
        return output, last, cells, products, kept
    return (output, last, products, kept) if cell.has_part else (output, last)


@native("_lstm_layer")
def lstm_layer(
    input: Any,
    h: Any,
    c: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    weight_hr: Any,
    cell: Any,
    sizes: Any,
    reverse: bool,
    least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:
    if weight_hr is not None:
        return None
    return _forwards(cell, input, (h, c), weight_ih, weight_hh, bias_ih, bias_hh, sizes, reverse, least)


@native("_gru_layer", "_rnn_layer")
def layer(
    input: Any, h: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, cell: Any, sizes: Any, reverse: bool,
    least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    return _forwards(cell, input, (h,), weight_ih, weight_hh, bias_ih, bias_hh, sizes, reverse, least)


@lru_cache(maxsize=1024)
def _backwards_plan(cell: Any, dtype: np.dtype, has: tuple[bool, ...], batch: int, count: int, total: int, hidden: int) -> _Plan:
    element, gates = ELEMENTS[dtype], cell.gates
    wide = COLUMNS * (targets.current().width // dtype.itemsize)
    blocks, length, work = -(-hidden // wide), gates * hidden, gates * hidden * hidden * total
    has_more = cell.has_cell or cell.has_part
    program = _program(cell.backwards, 1 + cell.has_cell + (gates + 2 if has_more else 1), dtype)
    run = recurrent_backwards(element, cell, program, has)
    rows = _rows_of_block(batch, work)
    steps = run.bind(-(-batch // rows), steps=count, batch=batch, hidden=hidden, rows=rows)
    return _Plan(blocks * wide * length, pack_rows(element).call(blocks, hidden, length), steps)


def _backwards(
    cell: Any,
    grads: tuple[np.ndarray | None, ...],
    input: np.ndarray,
    states: tuple[np.ndarray, ...],
    weight_ih: Any,
    weight_hh: Any,
    output: np.ndarray,
    saved: tuple[np.ndarray, ...],
    sizes: Any,
    reverse: bool,
    needs_input: bool,
    least: int,
) -> tuple[np.ndarray, ...] | None:
    """Gradients of input, first states, weights and biases; ``grads`` of output and last states, ``saved`` gates and what is kept."""
    sizes, dtype, hidden = _sizes(input, sizes), input.dtype, states[0].shape[-1]
    if not _fit(cell, sizes, states, input, weight_ih, weight_hh) or any(grad is not None and grad.dtype != dtype for grad in grads):
        return None
    output = _rows(output)
    plan = _backwards_plan(cell, dtype, tuple([grad is not None for grad in grads]), sizes[0], len(sizes), len(output), hidden)
    packed, weight_hh = empty((plan.size,), dtype), np.ascontiguousarray(weight_hh)
    if plan.pack is not None:
        plan.pack(weight_hh, packed)
    first = np.ascontiguousarray(states[0])
    arrived, *of_last = [first if grad is None else np.ascontiguousarray(grad) for grad in grads]
    started = [empty(first.shape, dtype) for _ in of_last]
    d_products, states_before = empty((len(output), len(weight_hh)), dtype), empty(output.shape, dtype)
    d_part = empty(output.shape, dtype) if cell.has_part else d_products
    products, kept = [np.ascontiguousarray(array) for array in saved] if saved else (output, output)
    before, first_before = (kept, np.ascontiguousarray(states[1])) if cell.has_cell else (output, first)
    plan.steps(
        grad=arrived, products=products, kept=kept, states=before, first=first_before, output=output, first_state=first,
        before=states_before, d_last=of_last[0], d_last_cell=of_last[-1], d_products=d_products, d_part=d_part, d_state=started[0],
        d_cell=started[-1], weight=packed, table=_table(sizes, reverse),
    )  # fmt: skip
    d_weight_hh, d_bias_hh = _product(d_products.T, states_before, least), _sum_of_rows(d_products)
    d_bias_ih = contiguous(d_bias_hh)
    if cell.has_part:  # the input's part of the last gate is not multiplied
        copy(d_part, d_products[:, -hidden:])
        copy(_sum_of_rows(d_part), d_bias_ih[-hidden:])
    d_input = _product(d_products, weight_ih, least).reshape(input.shape) if needs_input else empty((0, len(weight_hh)), dtype)
    return d_input, *started, _product(d_products.T, _rows(input), least), d_weight_hh, d_bias_ih, d_bias_hh


@native("_lstm_layer_backward")
def lstm_layer_backward(
    grad_output: Any, grad_h: Any, grad_c: Any, input: Any, h: Any, c: Any, weight_ih: Any, weight_hh: Any, weight_hr: Any, output: Any,
    gates: Any, cells: Any, cell: Any, sizes: Any, reverse: bool, needs_input: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    if weight_hr is not None:
        return None
    grads = (grad_output, grad_h, grad_c)
    results = _backwards(cell, grads, input, (h, c), weight_ih, weight_hh, output, (gates, cells), sizes, reverse, needs_input, least)
    return None if results is None else (*results, np.empty(0, results[-1].dtype))


@native("_gru_layer_backward")
def gru_layer_backward(
    grad_output: Any, grad_h: Any, input: Any, h: Any, weight_ih: Any, weight_hh: Any, output: Any, gates: Any, parts: Any, cell: Any,
    sizes: Any, reverse: bool, needs_input: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    grads = (grad_output, grad_h)
    return _backwards(cell, grads, input, (h,), weight_ih, weight_hh, output, (gates, parts), sizes, reverse, needs_input, least)


@native("_rnn_layer_backward")
def rnn_layer_backward(
    grad_output: Any, grad_h: Any, input: Any, h: Any, weight_ih: Any, weight_hh: Any, output: Any, cell: Any, sizes: Any, reverse: bool,
    needs_input: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    return _backwards(cell, (grad_output, grad_h), input, (h,), weight_ih, weight_hh, output, (), sizes, reverse, needs_input, least)
