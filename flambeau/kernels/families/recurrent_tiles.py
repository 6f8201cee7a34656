"""Recurrent layers whose states are multiplied in tile registers, at float32's accuracy (``tile_parts``).

The weights' parts are packed once for all steps, in the order in which tiles of them are loaded. A step splits the states of its rows, 16
at most, and then takes for every 16 features the sums of all gates at once:

    state, part by part              weights, part by part               sums
    3 x (16 rows by 32 numbers)  x   gates x 3 x (32 by 16)          ->  gates x (16 rows by 16)

and so backwards: gradients at the gates' sums times weights, 64 features of the state at once. Rows with numbers that are too large to be
split, infinite or NaN are multiplied in float32, by weights as they lie; all of them where weights have such numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.expression import Program
from ..compiler.language import Builder, Value
from .recurrent_kernels import Backwards, Forwards, plain_sums
from .tile_parts import DEEP, LARGEST, SCALE, SIDE, pairs_of, size_of
from .tile_registers import FEATURES, TileRegisters
from .tiles import aligned, below, transposed

LEAST_ROWS = 4  # of a batch: the weights of fewer are rather read as they are
LEAST_WIDTH = 64  # features
MOST_BYTES = 3 << 19  # of packed weights: more do not stay in the second cache
PARTS = 3
PAIRS = 2  # pairs of tiles side by side that a step computes at once: four gates, or 64 features
CHUNK = 8  # pairs of tiles by steps that are packed together
_GATES = (3, 4)
_TILE = SIDE * SIDE  # pairs of numbers
_STEP = 2 * PARTS * _TILE  # of a pair of tiles
_ORDER = ((2, 0), (0, 0), (1, 0), (1, 1), (0, 1), (0, 2))  # parts of states and of weights: few tiles are loaded twice


# -- weights ----------------------------------------------------------------------------------------------------------------------------
class Packing(Record):
    weight: Array  # (gates * hidden, hidden)
    packed: Array
    hidden: Integer
    gates: Integer
    steps: Integer  # of ``DEEP`` numbers of a sum
    units: Integer  # pairs of tiles, by steps


@kernel
def pack_tiles(k: Builder, forwards: bool) -> None:
    """Pack weights: by groups of features, pairs of tiles, steps and parts; behind them each chunk notes its largest number's size.

    A pair of tiles has the same 16 features of two gates; backwards 32 features, for which the numbers of a sum are those of all gates.
    """
    o = k.arguments(Packing)
    packed = aligned(k, o.packed)

    def read(pair: Value, which: int, s: Value) -> tuple[list[Value], list[Value]]:
        """The first 16 and the second 16 numbers of step ``s``, each for the 16 sums of a tile."""
        if forwards:
            gate, u = pair % PAIRS * 2 + which, pair // PAIRS * SIDE
            lines, inside = k.at(o.weight, (gate * o.hidden + u) * o.hidden, "f32"), k.select(gate < o.gates, o.hidden, 0)
            halves = []
            for half in range(2):
                at = s * DEEP + half * SIDE
                mask = below(k, inside - at, SIDE)
                halves.append(transposed(k, [k.load(lines, o.hidden * line + at, "f32", SIDE, mask) for line in range(SIDE)]))
            return halves[0], halves[1]
        u = (pair * 2 + which) * SIDE
        first, second = (
            [
                k.load(o.weight, row * o.hidden + u, "f32", SIDE, below(k, k.select(row < o.gates * o.hidden, o.hidden - u, 0), SIDE))
                for row in (s * DEEP + (half * SIDE + line) for line in range(SIDE))
            ]
            for half in range(2)
        )
        return first, second

    def unit(n: Value, largest: Value) -> Value:
        target = k.at(packed, n * _STEP, "i32")
        for which in range(2):
            for line, pair in enumerate(zip(*read(n // o.steps, which, n % o.steps), strict=True)):
                largest = _put_parts(k, pair, target, which * _TILE + line * SIDE, 2 * _TILE, largest)
        return largest

    def chunk(c: Value) -> None:
        last = k.least((c + 1) * CHUNK, o.units)
        largest = k.loop(c * CHUNK, last, unit, carried=[k.const(0, "u32", SIDE)])
        k.store(k.fold(largest, k.most), packed, o.units * _STEP + c, "u32")

    k.for_chunks(chunk)


def _put_parts(k: Builder, pair: tuple[Value, Value], target: Value, at: Any, step: int, largest: Value) -> Value:
    """Store the parts of pairs of numbers, ``step`` apart; the new ``largest`` size."""
    for number, part in enumerate(pairs_of(k, *pair, PARTS)):
        k.store(part, target, at + number * step, "u32")
    return k.most(largest, k.most(*[size_of(k, each) for each in pair]))


# -- products ---------------------------------------------------------------------------------------------------------------------------
class _Tiled:
    """Common to both ways: states are split into ``room``, and multiplied by packed weights."""

    def __init__(self, k: Builder, packed: Value, room: Value, length: Value, notes: Value, units: Value):
        """``length``: numbers of a sum; ``units`` that were packed."""
        self.k, self.length, self.steps = k, length, _steps(length)
        self.packed, self.room, self.tiles = aligned(k, packed), aligned(k, room), TileRegisters(k)
        place = k.at(self.packed, units * _STEP, "u32")
        self.of_weights = k.loop(0, notes, lambda at, most: k.most(most, k.load(place, at, "u32")), carried=[k.const(0, "u32")])
        self.scales = k.scratch(SIDE, "f32")  # of rows: 1 of those that are not multiplied by tiles

    def within(self, c: Value, rows: Value, body: Callable[[], None]) -> None:
        """``body()`` of chunk ``c``, with tiles of so many rows, for products take as long as they have rows."""
        self.here = self.k.at(self.room, c * (self.steps * (PARTS * _TILE)), "i32")
        self.tiles.within(body, rows)

    def split(self, source: Value, start: Value, stop: Value) -> None:
        """Split rows ``start`` to ``stop`` of a matrix, which lie one behind the other."""
        k = self.k

        def row(r: Value, most: Value) -> Value:
            line = k.at(source, r * self.length, "f32")

            def some(s: Value, largest: Value) -> Value:
                places = [s * DEEP, s * DEEP + SIDE]
                pair = [k.load(line, at, "f32", SIDE, below(k, self.length - at, SIDE)) for at in places]
                return _put_parts(k, (pair[0], pair[1]), self.here, s * (PARTS * _TILE) + (r - start) * SIDE, _TILE, largest)

            largest = k.loop(0, self.steps, some, carried=[k.const(0, "u32", SIDE)])
            size = k.most(k.fold(largest, k.most), self.of_weights)
            k.store(k.select(size >= LARGEST, k.const(1, "f32"), SCALE**-2), self.scales, r - start, "f32")
            return k.most(size, most)

        self.size = k.loop(start, stop, row, carried=[k.const(0, "u32")])

    def plainly(self, start: Value, stop: Value, row: Callable[[Value], None]) -> None:
        """``row(number)`` for those that are not multiplied by tiles."""
        k = self.k

        def some(number: Value) -> None:
            k.when(k.load(self.scales, number, "f32").eq(1.0), partial(row, number))

        k.when(self.size >= LARGEST, lambda: k.loop(0, stop - start, some))

    def unit(self, group: Value, n: Value, to: Value) -> None:
        """Part ``n`` of a group's sums: a step of the products of a pair of tiles, each of which has two tiles of sums."""
        k, tiles = self.k, self.tiles
        pair, s = n // self.steps, n % self.steps
        left = k.at(self.here, s * (PARTS * _TILE), "i32")
        right = k.at(self.packed, (group * (PAIRS * self.steps) + n) * _STEP, "i32")
        k.when(s.eq(0), lambda: tiles.clear(range(4)))
        held = [-1, -1, -1]
        for number, (part, other) in enumerate(_ORDER):
            if held[2] != other:
                held[2] = other
                for which in range(2):
                    tiles.load(6 + which, k.at(right, (other * 2 + which) * _TILE, "i32"))
            register = int(part > 0)
            if held[register] != part:
                held[register] = part
                tiles.load(4 + register, k.at(left, part * _TILE, "i32"))
            for which in range(2):
                tiles.add_product(2 * which + number % 2, 4 + register, 6 + which)

        def store() -> None:
            for tile in range(4):
                tiles.store(tile, k.at(to, (pair * 4 + tile) * SIDE, "f32"), PAIRS * 4 * SIDE * 4)

        k.when((s + 1).eq(self.steps), store)

    def multiply(self, group: Value, to: Value) -> None:
        """Store a group's sums: for each row the registers of all its tiles."""
        self.k.loop(0, self.steps * PAIRS, lambda n: self.unit(group, n, to))

    def put(self, value: Value, place: Value, at: Value) -> None:
        """Store a register of sums that tiles did not take."""
        for half, each in enumerate((value, self.k.const(0, "f32", SIDE))):
            self.k.store(each, place, at * 2 + half * SIDE, "f32")

    def sums(self, place: Value, at: Value, number: Value) -> Value:
        """A register of sums of a row: at ``at``, were there one tile of each."""
        k = self.k
        both = [k.load(place, at * 2 + half * SIDE, "f32", SIDE) for half in range(2)]
        return (both[0] + both[1]) * k.splat(k.load(self.scales, number, "f32"), SIDE)


def _steps(length: Any) -> Any:
    return (length + (DEEP - 1)) // DEEP


_SUMS = SIDE * PAIRS * 4 * SIDE  # of a group, two tiles for each sum


# -- both ways --------------------------------------------------------------------------------------------------------------------------
class _TiledForwards(Forwards):
    """While tiles take the sums of a group of features, the formulas of the group before are computed, row by row."""

    without: tuple[str, ...] = ()

    def __init__(self, k: Builder, cell: Any, program: Program, has_bias: bool, keeps: bool):
        super().__init__(k, "f32", cell, program, has_bias, True, keeps)
        a = self.a
        units = a.hidden // SIDE * PAIRS * _steps(a.hidden)
        self.tiled = _Tiled(k, a.weight, a.room, a.hidden, a.notes, units)
        self.both, self.line = k.scratch(2 * _SUMS, "f32"), k.scratch(self.gates * SIDE, "f32")

    def height(self) -> int:
        return 1

    def chunk(self, c: Value) -> None:
        self.tiled.within(c, self.a.rows, partial(super().chunk, c))

    def blocks(self, at: Value, state: Value, features: tuple[Value, Value], rows: tuple[Value, Value]) -> None:
        k, tiled, (start, stop) = self.k, self.tiled, rows
        tiled.split(state, start, stop)
        units, groups, none = tiled.steps * PAIRS, self.a.hidden // SIDE, k.const(0, "i64")

        def group(g: Value) -> None:
            self.sums, following = self._sums_of(g), self._sums_of(g + 1)
            tiled.plainly(start, stop, lambda number: self._row(k.at(state, (start + number) * self.a.hidden, "f32"), number, g * SIDE))
            todo = k.select(g + 1 < groups, units, 0)

            def row(r: Value) -> None:
                number, count = r - start, stop - start
                k.loop(number * todo // count, (number + 1) * todo // count, lambda n: tiled.unit(g + 1, n, following))
                self.formula(at + r, r, number, g * SIDE, state, None)

            k.loop(start, stop, row)

        tiled.multiply(none, self._sums_of(none))
        k.loop(none, groups, group)

    def _sums_of(self, group: Value) -> Value:
        return self.k.at(self.both, group % 2 * _SUMS, "f32")

    def _row(self, line: Value, number: Value, u: Value) -> None:
        """The sums of a row by weights as they lie."""
        k, a, gates = self.k, self.a, self.gates
        plain_sums(k, "f32", gates, line, a.plain, u, a.hidden, a.hidden, self.line)
        for g in range(gates):
            self.tiled.put(k.load(self.line, g * SIDE, "f32", SIDE), self.sums, (number * (PAIRS * 2) + g) * SIDE)

    def sum_of(self, g: int, number: Value) -> Value:
        return self.tiled.sums(self.sums, (number * (PAIRS * 2) + g) * SIDE, number)


class _TiledBackwards(Backwards):
    without: tuple[str, ...] = ()

    def __init__(self, k: Builder, cell: Any, program: Program, has: tuple[bool, ...]):
        super().__init__(k, "f32", cell, program, has)
        a, (wide, _) = self.a, self.sizes()
        self.sums = k.scratch(_SUMS, "f32")
        length = a.hidden * self.gates
        self.tiled = _Tiled(k, a.weight, a.room, length, a.notes, (a.hidden + (wide - 1)) // wide * PAIRS * _steps(length))

    def sizes(self) -> tuple[int, int]:
        return PAIRS * 2 * SIDE, SIDE

    def chunk(self, c: Value) -> None:
        self.tiled.within(c, self.a.rows, partial(super().chunk, c))

    def prepare(self, at: Value, start: Value, stop: Value) -> None:
        self.tiled.split(self.k.at(self.a.d_products, at * self.tiled.length, "f32"), start, stop)

    def multiply(self, source: Value, u: Value, height: Value) -> None:
        k, tiled, none = self.k, self.tiled, self.k.const(0, "i64")
        tiled.multiply(u // self.wide, self.sums)
        tiled.plainly(none, height, lambda number: self._row(k.at(source, number * tiled.length, "f32"), number, u))

    def _row(self, line: Value, number: Value, u: Value) -> None:
        """The sums of a row by weights as they lie."""
        k, a, tiles = self.k, self.a, range(PAIRS * 2)
        masks = [below(k, a.hidden - (u + tile * SIDE), SIDE) for tile in tiles]

        def add(i: Value, *sums: Value) -> list[Value]:
            factor, weights = k.splat(k.load(line, i, "f32"), SIDE), k.at(a.plain, i * a.hidden + u, "f32")
            return [k.fma(factor, k.load(weights, tile * SIDE, "f32", SIDE, masks[tile]), sums[tile]) for tile in tiles]

        total = k.loop(k.const(0, "i64"), self.tiled.length, add, carried=[k.const(0, "f32", SIDE) for _ in tiles])
        for tile, value in enumerate(total):
            self.tiled.put(value, self.sums, number * self.wide + tile * SIDE)

    def sum_of(self, number: Value, i: Value) -> Value:
        return self.tiled.sums(self.sums, number * self.wide + i, number)


@kernel
def tiled_forwards(k: Builder, cell: Any, program: Program, has_bias: bool, keeps: bool) -> None:
    """As ``recurrent_forwards``, of float32 and for chunks of 16 rows at most."""
    k.features = FEATURES
    k.for_chunks(_TiledForwards(k, cell, program, has_bias, keeps).chunk)


@kernel
def tiled_backwards(k: Builder, cell: Any, program: Program, has: tuple[bool, ...]) -> None:
    """As ``recurrent_backwards``, of float32 and for chunks of 16 rows at most."""
    k.features = FEATURES
    k.for_chunks(_TiledBackwards(k, cell, program, has).chunk)


# -- plans ------------------------------------------------------------------------------------------------------------------------------
def fits(cell: Any, dtype: np.dtype, batch: int, hidden: int) -> bool:
    """Whether layers of these sizes go this way."""
    return (
        dtype == np.float32
        and cell.gates in _GATES
        and batch >= LEAST_ROWS
        and hidden >= LEAST_WIDTH
        and 2 * PARTS * cell.gates * hidden * hidden <= MOST_BYTES
        and hidden % SIDE == 0
    )


def rows_of_chunk(batch: int, threads: int) -> int:
    """Rows of a chunk: tiles are full, but where threads would have nothing to do. Results are the same whatever rows are together."""
    return min(SIDE, -(-batch // threads))


class Packed(NamedTuple):
    """The weights of all steps.

    Attributes:
        size: numbers of float32 that packed weights take. pack: function ``(weights, packed)``. notes: of sizes.
        room: numbers for the states of so many chunks.
    """

    size: int
    pack: Callable[..., None]
    notes: int
    room: int


def packed_weights(hidden: int, gates: int, forwards: bool, chunks: int) -> Packed:
    """The packing of weights of these sizes."""
    groups, length = (hidden // SIDE, hidden) if forwards else (-(-hidden // (PAIRS * 2 * SIDE)), gates * hidden)
    units = groups * PAIRS * _steps(length)
    notes = -(-units // CHUNK)
    run = pack_tiles(forwards).bind(notes, hidden=hidden, gates=gates, steps=_steps(length), units=units)
    room = chunks * _steps(length) * PARTS * _TILE
    return Packed(units * _STEP + notes + SIDE, lambda weight, packed: run(weight=weight, packed=packed), notes, room + SIDE)
