"""Attention whose scores a program changes, and whose mask is a program too, tile by tile; ``attention_kernels.py`` has the plan.

The programs are what a user's ``score_mod`` and ``mask_mod`` do to one score (``capture/scores.py``). They know the
score, its batch, head, query and key, and may look into other arrays. A table of *states* says of each tile whether nothing of it is
seen, some, or all: 0, 1 and 2. Only in tiles of the second kind the mask runs, and those of the first kind are left out.

      states   1 0 0 0      tile (0, 0): score = q . k * scale -> score_mod -> mask_mod ? score : -inf -> exp
               2 1 0 0      tile (1, 0): the same without mask_mod
               2 2 1 0      tile (0, 1): nothing

Backward, the derivative of ``score_mod`` with respect to the score is a third program, whose value a tile keeps beside its probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.expression import Gather, Program, lower
from ..compiler.language import Builder, Value, as_tuple
from ..mathematics.vectors import exp
from .attention_kernels import TILE, OfOperands, _Backward, _Forward, _matrix, _products
from .microkernel import borrow, give_back
from .tiles import Tiles, aligned, by_rows

_LOWEST = float("-inf")
# Shares below these powers of e would make subnormal products, which take a hundred times as long; biases by distance give many.
_LEAST = {"f32": -80.0, "f64": -700.0}


def _share(k: Builder, distance: Value) -> Value:
    """The exponential, 0 where it is too small to be seen beside others."""
    return k.select(distance < _LEAST[distance.element], 0.0, exp(k, distance))


class Scored(NamedTuple):
    """Specification of a kernel beside element types.

    Attributes:
        score: the program of a score, batch, head, query and key; None where scores stay.
        slope: its derivative with respect to the score.
        mask: the program of batch, head, query and key; None where all is seen.
        captured: element type and number of dimensions of each array that the programs look into.
        has_states: whether there is a table of states.
    """

    score: Program | None
    slope: Program | None
    mask: Program | None
    captured: tuple[tuple[str, int], ...]
    has_states: bool

    @property
    def without(self) -> tuple[str, ...]:
        """Arguments that such a kernel lacks."""
        return (*(() if self.has_states else ("states",)), *(() if self.captured else ("captured",)))


class ScoredArguments(Record):
    query: Array
    key: Array
    value: Array
    out: Array
    states: Array  # of tiles, a byte each
    captured: Array  # of each array that programs look into: its address, sizes, and strides in elements
    log_sums: Array
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each matrix, where it begins in each operand
    pieces: Integer  # of scratch memory, and their size
    size: Integer
    blocks: Integer  # of queries of a matrix
    length: Integer  # queries of a matrix
    keys: Integer
    depth: Integer  # elements of a query, and of a value
    out_depth: Integer
    by_query: Integer  # from row to row
    by_key: Integer
    by_value: Integer
    by_out: Integer
    scale: Number
    heads: Integer
    tiles: Integer  # of keys


class ScoredSlopeArguments(Record):
    grad: Array
    query: Array
    key: Array
    value: Array
    out: Array
    of_query: Array  # the three gradients that are made
    of_key: Array
    of_value: Array
    states: Array
    captured: Array
    log_sums: Array
    flags: Array
    room: Array
    table: Array
    pieces: Integer
    size: Integer
    length: Integer
    keys: Integer
    depth: Integer
    out_depth: Integer
    by: OfOperands  # from row to row
    scale: Number
    heads: Integer
    tiles: Integer  # of keys: their blocks


class _Scores:
    """The programs in a kernel, for one matrix: a batch and a head."""

    def __init__(self, k: Builder, a: Any, scored: Scored, matrix: Value):
        self.k, self.scored, self.batch, self.head = k, scored, matrix // a.heads, matrix % a.heads
        self.arrays: list[tuple[Value, list[Value], list[Value]]] = []
        at = 0
        for _, rank in scored.captured:
            words = [k.load(a.captured, at + i, "i64") for i in range(1 + 2 * rank)]
            pointer = k.emit(f"inttoptr i64 {words[0].text} to ptr", "ptr")
            self.arrays.append((pointer, words[1 : 1 + rank], words[1 + rank :]))
            at += len(words)

    def read(self, gather: Gather, indices: list[Value]) -> Value:
        """An element of a captured array, or one for each lane."""
        k, (pointer, sizes, strides), element = self.k, self.arrays[gather.number], self.scored.captured[gather.number][0]
        place = k.const(0, "i64")
        for index, size, stride in zip(indices, sizes, strides, strict=True):
            index = k.cast(index, "i64")
            if gather.wraps:
                index = k.select(index < 0, index + size, index)
            place = place + index * stride
        return k.gather(pointer, place, element) if place.lanes > 1 else k.load(pointer, place, element)

    def _run(self, program: Program, values: list[Value], lanes: int) -> Value:
        return self.k.splat(lower(self.k, program, values, self.read)[0], lanes)

    def changed(self, score: Value, query: Value, key: Value, is_masked: bool) -> Value:
        """The score that counts: minus infinity where it is not seen."""
        k, lanes, place = self.k, score.lanes, [self.batch, self.head, query, key]
        value = score if self.scored.score is None else self._run(self.scored.score, [score, *place], lanes)
        if not is_masked or self.scored.mask is None:
            return value
        return k.select(self._run(self.scored.mask, place, lanes), value, k.const(_LOWEST, score.element, lanes))

    def slope(self, score: Value, query: Value, key: Value) -> Value:
        assert self.scored.slope is not None  # for the type checker
        return self._run(self.scored.slope, [score, self.batch, self.head, query, key], score.lanes)


def _lanes_from(t: Tiles, first: Value, v: int, count: Value) -> Value:
    """The numbers of a register's columns, those behind the last one its number, so that what they look up is there."""
    k = t.k
    return k.least(k.indices(t.lanes) + k.splat(first + v * t.lanes, t.lanes), k.splat(count - 1, t.lanes))


def _seen(k: Builder, state: Value | None, run: Callable[[bool], Any], otherwise: Callable[[], Any], mask: Program | None) -> Any:
    """``run(whether the mask runs)`` as a tile's state says."""
    if state is None:
        return run(True)
    if mask is None:
        return k.when(state.ne(0), lambda: run(False), otherwise)
    return k.when(state.ne(0), lambda: k.when(state.eq(2), lambda: run(False), lambda: run(True)), otherwise)


# -- forward -----------------------------------------------------------------------------------------------------------------------
@kernel
def attend_scored(k: Builder, element: str, vectors: int, scored: Scored) -> None:
    """A chunk is a block of queries of one matrix."""
    t = Tiles(k, element, vectors)
    a: Any = k.arguments(ScoredArguments, without=scored.without)
    scale = k.cast(a.scale, element)
    arrays = {"query": a.query, "key": a.key, "value": a.value, "out": a.out, **({"states": a.states} if scored.has_states else {})}
    elements = {**dict.fromkeys(arrays, element), "states": "u8"}

    def unit(u: Value) -> None:
        matrix, block = u // a.blocks, u % a.blocks
        first = block * t.width
        count = k.least(a.length - first, t.width)
        here = _matrix(k, arrays, elements, a.table, matrix)
        piece = borrow(k, a.flags, a.pieces)
        forward: Any = _ScoredForward(t, a, scale, k.at(aligned(k, a.room), piece * a.size, element))
        forward.begin(_Scores(k, a, scored, matrix), first)
        t.pack(k.at(here["query"], first * a.by_query, element), a.by_query, (count, a.depth), forward.queries, lambda v: v)
        t.clear(forward.total, a.out_depth)
        state = [k.const(_LOWEST, element, t.lanes)] * vectors + [t.zero] * vectors

        def tile(at: Value, *state: Value) -> Any:
            group = [(k.const(0, "i64"), k.least(a.keys - at, TILE), t.every)]
            rows = k.at(here["key"], at * a.by_key, element), k.at(here["value"], at * a.by_value, element)
            forward.at = at
            known = k.load(here["states"], block * a.tiles + at // TILE, "u8") if scored.has_states else None
            return _seen(k, known, lambda masked: forward.add(*rows, group, state, masked), lambda: state, scored.mask)

        state = list(as_tuple(k.loop(0, a.keys, tile, step=TILE, carried=state)))
        forward.finish(state, here["out"], first, count, matrix)
        give_back(k, a.flags, piece)

    k.for_chunks(unit)


class _ScoredForward(_Forward):
    """A block of queries whose scores are changed; ``mask`` of a tile says whether the mask runs."""

    scores_of: _Scores
    at: Value  # the first key of the tile

    def begin(self, scores_of: _Scores, first: Value) -> None:
        self.scores_of, t = scores_of, self.t
        self.columns = [_lanes_from(t, first, v, self.a.length) for v in t.every]

    def share(self, distance: Value) -> Value:
        return _share(self.k, distance)

    def _scores(
        self, key: Value, lines: tuple[Value, Value], span: range, top: list[Value], mask: Any, on_diagonal: bool
    ) -> tuple[Value, ...]:
        k, t = self.k, self.t
        super()._scores(key, lines, span, [k.const(_LOWEST, t.element, t.lanes) for _ in span], None, False)

        def line(j: Value, *highest: Value) -> list[Value]:
            values = [
                self.scores_of.changed(s, self.columns[v], self.at + j, mask)
                for v, s in zip(span, t.line(self.scores, j, span), strict=True)
            ]
            t.put(values, self.scores, j, span)
            return [k.most(value, old) for value, old in zip(values, highest, strict=True)]

        return as_tuple(k.loop(*lines, line, carried=top))


# -- backward ----------------------------------------------------------------------------------------------------------------------
@kernel
def scored_slopes(k: Builder, element: str, vectors: int, scored: Scored) -> None:
    """A chunk is one matrix: its blocks of keys in turn add to the gradient of all queries."""
    t = Tiles(k, element, vectors)
    a = k.arguments(ScoredSlopeArguments, without=scored.without)
    scale = k.cast(a.scale, element)
    arrays: dict[str, Any] = {name: getattr(a, name) for name in vars(a.by) if name != "mask"}
    arrays |= {"states": a.states} if scored.has_states else {}
    elements = {**dict.fromkeys(arrays, element), "states": "u8"}

    def unit(matrix: Value) -> None:
        piece = borrow(k, a.flags, a.pieces)
        pointers = _matrix(k, arrays, elements, a.table, matrix)
        states = pointers.pop("states", None)
        here = OfOperands(**{"mask": None, **pointers})
        b: Any = _ScoredBackward(t, a, scale, here, k.at(aligned(k, a.room), piece * a.size, element), matrix)
        b.scores_of = _Scores(k, a, scored, matrix)
        b.begin()

        def block(first: Value) -> None:
            count = k.least(a.keys - first, t.width)
            b.take(first, count)
            b.columns = [_lanes_from(t, first, v, a.keys) for v in t.every]

            def tile(at: Value) -> None:
                groups = [(k.const(0, "i64"), k.least(a.length - at, TILE), t.every)]
                known = k.load(states, at // TILE * a.tiles + first // t.width, "u8") if states is not None else None
                _seen(k, known, lambda masked: b.add(at, count, groups, masked), lambda: None, scored.mask)

            k.loop(0, a.length, tile, step=TILE)
            b.give(first, count)

        k.loop(0, a.keys, block, step=t.width)
        give_back(k, a.flags, piece)

    k.for_chunks(unit)


class _ScoredBackward(_Backward):
    """One matrix whose scores are changed; ``mask`` of a tile says whether the mask runs."""

    scores_of: _Scores
    columns: list[Value]

    def __init__(self, t: Tiles, a: Any, scale: Value, here: OfOperands, room: Value, matrix: Value):
        super().__init__(t, a, scale, here, room, matrix)
        lines = (a.length + t.width - 1) // t.width * t.width
        self.factors = t.k.at(self.deltas, lines, t.element)

    def _probabilities(
        self, at: Value, query: Value, lines: tuple[Value, Value], span: range, count: Value, mask: Any, corner: Any, on_diagonal: bool
    ) -> None:
        k, t = self.k, self.t

        def products(i: Value, rows: int) -> None:
            for r, values in enumerate(_products(t, query, self.by.query, i, rows, self.key, self.a.depth, span)):
                t.put([value * self.scale for value in values], self.p, i + r, span)

        by_rows(k, t.rows, *lines, products)

        def line(i: Value) -> None:
            log_sum = k.load(self.log_sums, at + i, t.element)
            for v, score in zip(span, t.line(self.p, i, span), strict=True):
                one = range(v, v + 1)
                changed = self.scores_of.changed(score, at + i, self.columns[v], mask)
                t.put([_share(k, changed - log_sum)], self.p, i, one)
                if self.scores_of.scored.slope is not None:
                    slope = self.scores_of.slope(score, at + i, self.columns[v])
                    t.put([k.select(changed.eq(_LOWEST), 0.0, slope)], self.factors, i, one)

        k.loop(*lines, line)

    def _slopes(self, at: Value, grad: Value, lines: tuple[Value, Value], span: range) -> None:
        super()._slopes(at, grad, lines, span)
        if self.scores_of.scored.slope is None:
            return
        k, t = self.k, self.t

        def line(i: Value) -> None:
            pairs = zip(t.line(self.of_scores, i, span), t.line(self.factors, i, span), strict=True)
            t.put([slope * factor for slope, factor in pairs], self.of_scores, i, span)

        k.loop(*lines, line)


def room_of(depth: int, out_depth: int, length: int, lanes: int, vectors: int) -> tuple[int, int]:
    """Elements of scratch memory that a chunk forward, and one backward, has."""
    width, (wide, wide_out) = lanes * vectors, (-(-d // lanes) * lanes for d in (depth, out_depth))
    forward = (2 * TILE + wide + wide_out) * width
    backward = (3 * TILE + 3 * wide + 2 * wide_out) * width + math.ceil(length / width) * width
    return forward, backward
