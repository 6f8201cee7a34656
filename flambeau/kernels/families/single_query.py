"""Attention of one query a matrix, as models ask for that write word after word beside a cache of keys and values.

With queries in the lanes of registers all lanes but one would be idle. So lanes are keys for the scores, whose products run along the
query, and elements of a value for the output; a tile of scores stays on the stack between the two:

      key j      [ k00 k01 .. ]                                 share of key j  x  [ v0 v1 v2 .. ]  =  [ o0 o1 o2 .. ]
      key j + 1  [ k10 k11 .. ]  x  query  =  [ s0 s1 .. ]      share of key j + 1 x ..                +
      ..                                                        ..

A chunk is some matrices. All sums run in one order, whatever the number of threads.
"""

from __future__ import annotations

import math
from functools import partial

from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value, as_tuple, register_element
from ..mathematics.vectors import exp, log
from .microkernel import lane_sums
from .tiles import below, register_of

DEEPEST = 1024  # elements of a value, whose sums stay on the stack
TILE = 256  # keys whose scores do
GROUP = 8  # keys that are multiplied at once: as many addresses as there are registers for them
_LOWEST = float("-inf")


class Steps(Record):
    """From one matrix to the next of each operand, along one leading dimension, in elements."""

    query: Integer
    key: Integer
    value: Integer
    out: Integer
    mask: Integer


class SingleArguments(Record):
    query: Array
    key: Array
    value: Array
    out: Array
    log_sums: Array
    mask: Array  # another one of these where there is none
    matrices: Integer  # in three leading dimensions
    middle: Integer
    inner: Integer
    by_outer: Steps
    by_middle: Steps
    by_inner: Steps
    per_chunk: Integer
    keys: Integer
    depth: Integer  # elements of a query, and of a value
    out_depth: Integer
    by_key: Integer  # from row to row
    by_value: Integer
    scale: Number


@kernel
def attend_single(k: Builder, element: str, mask: str) -> None:
    """``mask``: the type of a mask's elements, empty where there is none."""
    single = _Single(k, element, mask)
    a = single.a

    def chunk(c: Value) -> None:
        k.loop(c * a.per_chunk, k.least((c + 1) * a.per_chunk, a.matrices), single.matrix)

    k.for_chunks(chunk)


class _Single:
    """The loops of ``attend_single``: matrices, tiles of keys, and for each the scores, their exponentials, and the sums of values."""

    def __init__(self, k: Builder, element: str, mask: str):
        self.k, self.memory, self.element, self.mask, self.lanes = k, element, register_element(element), mask, k.lanes(element)
        self.a = k.arguments(SingleArguments)
        self.scale = k.cast(self.a.scale, self.element)
        self.scores = k.scratch(TILE, self.element)
        self.total = k.scratch(DEEPEST + self.lanes, self.element)
        self.zero, self.lowest = (k.const(value, self.element, self.lanes) for value in (0, _LOWEST))

    def matrix(self, number: Value) -> None:
        k, a = self.k, self.a
        rest, inner = divmod(number, a.inner)
        outer, middle = divmod(rest, a.middle)

        def place(name: str, element: str) -> Value:
            steps = [getattr(by, name) for by in (a.by_outer, a.by_middle, a.by_inner)]
            return k.at(getattr(a, name), outer * steps[0] + middle * steps[1] + inner * steps[2], element)

        query, key, value, out = (place(name, self.memory) for name in ("query", "key", "value", "out"))
        mask = place("mask", self.mask) if self.mask else None
        k.loop(0, a.out_depth, lambda e: k.store(self.zero, self.total, e, self.element), step=self.lanes)

        def tile(at: Value, top: Value, sums: Value) -> tuple[Value, Value]:
            height = k.least(a.keys - at, TILE)
            corner = None if mask is None else k.at(mask, at, self.mask)
            best = self._scores(query, k.at(key, at * a.by_key, self.memory), corner, height)
            highest = k.splat(k.most(k.fold(best, k.most), k.extract(top, 0)), self.lanes)
            # a query that has seen nothing has no maximum; exp(-inf - 0) is the 0 that it needs
            base = k.select(highest.eq(_LOWEST), 0.0, highest)
            shrink = exp(k, top - base)
            sums = self._powers(base, sums * shrink, height)
            self._add_values(k.at(value, at * a.by_value, self.memory), shrink, height)
            return highest, sums

        top, sums = as_tuple(k.loop(0, a.keys, tile, step=TILE, carried=[self.lowest, self.zero]))
        self._finish(top, k.splat(k.sum(sums), self.lanes), out, number)

    def _scores(self, query: Value, key: Value, corner: Value | None, height: Value) -> Value:
        """Write the scores of a tile, minus infinity behind its end; in each lane the largest."""
        k, lanes = self.k, self.lanes

        def some(j: Value, best: Value) -> Value:
            value, inside = self._products(query, key, j, height) * self.scale, below(k, height - j, lanes)
            if corner is not None:
                other = False if self.mask == "b8" else _LOWEST
                bias = register_of(self.mask, self.element, k, k.load(corner, j, self.mask, lanes, inside, other))
                value = k.select(bias.eq(_LOWEST), bias, value + bias)  # whatever the score
            value = k.select(inside, value, self.lowest)
            k.store(value, self.scores, j, self.element)
            return k.most(value, best)

        return k.loop(0, height, some, step=lanes, carried=[self.lowest])

    def _products(self, query: Value, key: Value, j: Value, height: Value) -> Value:
        """Products of the query with as many keys as there are lanes; the last key again where there are fewer."""
        k, lanes, values = self.k, self.lanes, []
        group = min(lanes, GROUP)
        for first in range(0, lanes, group):
            numbers = [k.least(j + (first + lane), height - 1) for lane in range(group)]
            lines = [k.at(key, number * self.a.by_key, self.memory) for number in numbers]

            def step(d: Value, mask: Value | None, *total: Value, lines: list[Value] = lines) -> list[Value]:
                factor = k.load(query, d, self.memory, lanes, mask)
                return [k.fma(k.load(line, d, self.memory, lanes, mask), factor, sums) for line, sums in zip(lines, total, strict=True)]

            values += k.vector_loop(0, self.a.depth, lanes, step, carried=[self.zero] * group)
        return lane_sums(k, values)

    def _powers(self, base: Value, sums: Value, height: Value) -> Value:
        """Put the exponentials in the scores' place, and add them to ``sums``."""
        k = self.k

        def some(j: Value, total: Value) -> Value:
            power = exp(k, k.load(self.scores, j, self.element, self.lanes) - base)
            k.store(power, self.scores, j, self.element)
            return total + power

        return k.loop(0, height, some, step=self.lanes, carried=[sums])

    def _add_values(self, value: Value, shrink: Value, height: Value) -> None:
        """Add the tile's values, each times its exponential, to the sums so far times ``shrink``."""
        k, depth, done = self.k, self.a.out_depth, self.k.const(0, "i64")
        for vectors in (4, 2, 1):
            wide = vectors * self.lanes
            stop = depth if vectors == 1 else done + (depth - done) // wide * wide
            k.loop(done, stop, partial(self._columns, value, shrink, height, vectors), step=wide)
            done = stop

    def _columns(self, value: Value, shrink: Value, height: Value, vectors: int, e: Value) -> None:
        k, lanes, ways = self.k, self.lanes, 8 // vectors if vectors > 1 else 4
        mask = below(k, self.a.out_depth - e, lanes) if vectors == 1 else None
        places = range(0, vectors * lanes, lanes)

        def add(count: int, j: Value, *total: Value) -> list[Value]:
            sums = list(total)
            for way in range(count):
                line, share = k.at(value, (j + way) * self.a.by_value + e, self.memory), k.load(self.scores, j + way, self.element)
                for v, place in enumerate(places):
                    at = way * vectors + v
                    sums[at] = k.fma(k.splat(share, lanes), k.load(line, place, self.memory, lanes, mask), sums[at])
            return sums

        start = [k.load(self.total, e + place, self.element, lanes) * shrink for place in places]
        main = height // ways * ways
        carried = [*start, *[self.zero] * (vectors * (ways - 1))]
        carried = list(as_tuple(k.loop(0, main, partial(add, ways), step=ways, carried=carried)))
        sums = carried[:vectors]
        for way in range(1, ways):
            sums = [one + other for one, other in zip(sums, carried[way * vectors :], strict=False)]
        for total, place in zip(as_tuple(k.loop(main, height, partial(add, 1), carried=sums)), places, strict=True):
            k.store(total, self.total, e + place, self.element)

    def _finish(self, top: Value, sums: Value, out: Value, number: Value) -> None:
        """Write the output, divided by the sum, and the sum's logarithm: infinity of a query that has seen nothing."""
        k, nothing = self.k, sums.eq(0.0)
        divisor = k.select(nothing, 1.0, sums)
        result = k.select(nothing, k.const(math.inf, self.element, self.lanes), top + log(k, sums))
        k.store(k.extract(result, 0), self.a.log_sums, number, self.element)

        def divided(e: Value, mask: Value | None) -> None:
            k.store(k.load(self.total, e, self.element, self.lanes) / divisor, out, e, self.memory, mask)

        k.vector_loop(0, self.a.out_depth, self.lanes, divided)
