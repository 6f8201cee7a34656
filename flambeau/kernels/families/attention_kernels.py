"""Attention and its gradients in tiles: no matrix of scores is in memory, only tiles of some 64 by 64.

Forward, a chunk is a block of queries, one in each lane; scores stand with the keys downwards, so that maxima and sums of a query are
lane by lane, and a factor for its row (when a later tile has a larger maximum) is one register for all:

      queries (packed: depth x block)        scores                        output (value depth x block)
      key j   [ k0 k1 k2 .. ]  x  panel  =   [ s0 s1 s2 .. ] -> exp  ->    sum of value[j, e] * p[j, query], e downwards

Backward, a chunk is one matrix, whose blocks of keys are taken in turn, one key in each lane; a tile of probabilities is made again from
the logarithms of sums that the forward pass left:

      p = exp(query . key - log_sum)        of_scores = p * (grad . value - sum(grad * output))
      of_value += grad * p      of_key += query * of_scores      of_query += of_scores * key

Keys and values, or queries and gradients, are read where they lie, whatever the distance of their rows. With ``is_causal``, tiles above
the diagonal are left out; on the diagonal, registers. Tiles that are masked entirely are left out too. Dao et al. 2022 have the plan.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value, as_tuple
from ..mathematics.vectors import exp, log
from .microkernel import borrow, give_back
from .tiles import Tiles, aligned, below, by_rows, register_of, rows_at_once

TILE = 64  # keys of a tile in the forward pass, queries of one in the backward pass
_LOWEST = float("-inf")
_Group = tuple[Value, Value, range]  # lines from, to, and which registers of them are looked at


class Mask(NamedTuple):
    """Properties of a mask that a kernel depends on: its element type in memory, and whether all queries share one line of it."""

    element: str
    is_shared: bool


def _matrix(k: Builder, arrays: dict[str, Value], elements: dict[str, str], table: Value, matrix: Value) -> dict[str, Value]:
    """Pointers to one matrix of each operand, whose offsets are in the table."""
    count = len(arrays)
    return {name: k.at(array, k.load(table, matrix * count + i, "i64"), elements[name]) for i, (name, array) in enumerate(arrays.items())}


def _groups(k: Builder, t: Tiles, count: Value, is_key: bool) -> list[_Group]:
    """Lines of a tile on the diagonal, by the registers in which there is anything to see; ``is_key``: lines are keys."""
    ends = [k.least(k.const(g * t.lanes, "i64"), count) for g in range(t.vectors + 1)]
    return [(ends[g], ends[g + 1], range(g, t.vectors) if is_key else range(g + 1)) for g in range(t.vectors)]


def _lines_of(k: Builder, lane: Value, line: Value, is_key: bool) -> Value:
    """On the diagonal, which lanes of the register that it crosses are seen."""
    line = k.splat(k.cast(line, "i32"), lane.lanes)
    return lane >= line if is_key else lane <= line


def _any_of(k: Builder, masks: Sequence[Value]) -> Value:
    return k.any(reduce(operator.or_, masks))


def _products(t: Tiles, factor: Value, by: Value, i: Value, rows: int, panel: Value, depth: Value, span: range) -> list[list[Value]]:
    """Of each of ``rows`` rows of a factor, ``by`` elements apart, its products with the panel's columns."""
    k = t.k
    lines = [k.at(factor, (i + r) * by, t.element) for r in range(rows)]
    sums = t.product(lambda r, d: k.load(lines[r], d, t.element), rows, panel, (0, depth), span, [t.zero] * (rows * len(span)))
    return [list(sums[r * len(span) : (r + 1) * len(span)]) for r in range(rows)]


def _add_products(
    t: Tiles, factor: Value, by: Value, panel: Value, total: Value, depth: Value, groups: list[_Group], shrink: list[Value] | None = None
) -> None:
    """Add to each line of ``total``, multiplied by ``shrink``, a column of the factor times the panel's lines."""
    k = t.k

    def some(e: Value, rows: int) -> None:
        sums = [value for r in range(rows) for value in t.line(total, e + r, t.every)]
        if shrink is not None:
            sums = [value * share for value, share in zip(sums, shrink * rows, strict=True)]
        here = k.at(factor, e, t.element)
        for start, stop, span in groups:
            places = [r * t.vectors + v for r in range(rows) for v in span]
            later = t.product(
                lambda r, i: k.load(here, i * by + r, t.element), rows, panel, (start, stop), span, [sums[place] for place in places]
            )
            for place, value in zip(places, later, strict=True):
                sums[place] = value
        for r in range(rows):
            t.put(sums[r * t.vectors : (r + 1) * t.vectors], total, e + r, t.every)

    by_rows(k, t.rows, k.const(0, "i64"), depth, some)


# -- forward -----------------------------------------------------------------------------------------------------------------------
class AttentionArguments(Record):
    query: Array
    key: Array
    value: Array
    out: Array
    mask: Array  # for specifications with one
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
    by_mask: Integer
    scale: Number


@kernel
def attend(k: Builder, element: str, vectors: int, is_causal: bool, mask: Mask | None) -> None:
    """A chunk is a block of queries of one matrix."""
    t = Tiles(k, element, vectors)
    a = k.arguments(AttentionArguments, without=() if mask else ("mask",))
    scale = k.cast(a.scale, element)
    arrays = {"query": a.query, "key": a.key, "value": a.value, "out": a.out, **({"mask": a.mask} if mask else {})}
    elements = {**dict.fromkeys(arrays, element), "mask": mask.element if mask else ""}

    def unit(u: Value) -> None:
        matrix, first = u // a.blocks, u % a.blocks * t.width
        count = k.least(a.length - first, t.width)
        here = _matrix(k, arrays, elements, a.table, matrix)
        piece = borrow(k, a.flags, a.pieces)
        forward = _Forward(t, a, scale, k.at(aligned(k, a.room), piece * a.size, element))
        t.pack(k.at(here["query"], first * a.by_query, element), a.by_query, (count, a.depth), forward.queries, lambda v: v)
        t.clear(forward.total, a.out_depth)
        state = [k.const(_LOWEST, element, t.lanes)] * vectors + [t.zero] * vectors

        def rows(at: Value) -> tuple[Value, Value]:
            return k.at(here["key"], at * a.by_key, element), k.at(here["value"], at * a.by_value, element)

        def tile(at: Value, *state: Value) -> Any:
            height = k.least(stop - at, TILE)
            group, operands = (k.const(0, "i64"), height, t.every), rows(at)
            if mask is None:
                return forward.add(*operands, [group], state)
            corner = k.at(here["mask"], at if mask.is_shared else first * a.by_mask + at, mask.element)
            seen = forward.add_mask(corner, mask, count, height)
            return k.when(seen, lambda: forward.add(*operands, [group], state, mask), lambda: state)

        stop = k.least(first, a.keys) if is_causal else a.keys
        state = list(as_tuple(k.loop(0, stop, tile, step=TILE, carried=state)))
        if is_causal:
            operands = rows(first)
            seen = k.most(k.least(a.keys - first, t.width), 0)
            state = forward.add(*operands, _groups(k, t, seen, True), state, on_diagonal=True)
        forward.finish(state, here["out"], first, count, matrix)
        give_back(k, a.flags, piece)

    k.for_chunks(unit)


class _Forward:
    """A block of queries: its panels in scratch memory, and what is done with a tile of keys."""

    def __init__(self, t: Tiles, a: AttentionArguments, scale: Value, room: Value):
        k = self.k = t.k
        self.t, self.a, self.scale, self.scores = t, a, scale, room
        self.bias = k.at(room, TILE * t.width, t.element)
        self.queries = k.at(self.bias, TILE * t.width, t.element)
        self.total = k.at(self.queries, (a.depth + t.lanes - 1) // t.lanes * t.lanes * t.width, t.element)

    def add_mask(self, corner: Value, mask: Mask, count: Value, height: Value) -> Value:
        """Put a tile of the mask beside the scores; whether it lets anything through."""
        k, t = self.k, self.t
        other = False if mask.element == "b8" else _LOWEST
        lowest = k.const(_LOWEST, t.element, t.lanes)

        def change(value: Value) -> Value:
            return register_of(mask.element, t.element, k, value)

        if mask.is_shared:

            def some(c: Value, seen: Value) -> Value:
                value = change(k.load(corner, c, mask.element, t.lanes, below(k, height - c, t.lanes), other))
                k.store(value, self.bias, c, t.element)
                return seen | value.ne(lowest)

            return k.any(k.loop(0, height, some, step=t.lanes, carried=[k.const(False, "b1", t.lanes)]))
        t.pack(corner, self.a.by_mask, (count, height), self.bias, change, mask.element, other)

        def look(j: Value, *seen: Value) -> list[Value]:
            return [before | value.ne(lowest) for before, value in zip(seen, t.line(self.bias, j, t.every), strict=True)]

        seen = as_tuple(k.loop(0, height, look, carried=[k.const(False, "b1", t.lanes)] * t.vectors))
        return _any_of(k, seen)

    def add(
        self, key: Value, value: Value, groups: list[_Group], state: Any, mask: Mask | None = None, *, on_diagonal: bool = False
    ) -> list[Value]:
        """Maxima, sums and the output after a tile of keys."""
        k, t = self.k, self.t
        before, sums = list(state[: t.vectors]), list(state[t.vectors :])
        top = list(before)
        for start, stop, span in groups:
            later = self._scores(key, (start, stop), span, [top[v] for v in span], mask, on_diagonal)
            for v, value_of in zip(span, later, strict=True):
                top[v] = value_of
        # a query that has seen nothing has no maximum; exp(-inf - 0) is the 0 that it needs
        base = [k.select(value_of.eq(_LOWEST), 0.0, value_of) for value_of in top]
        shrink = [exp(k, old - new) for old, new in zip(before, base, strict=True)]
        sums = [total * factor for total, factor in zip(sums, shrink, strict=True)]
        for start, stop, span in groups:

            def power(j: Value, *totals: Value, span: range = span) -> list[Value]:
                values = [self.share(s - base[v]) for v, s in zip(span, t.line(self.scores, j, span), strict=True)]
                t.put(values, self.scores, j, span)
                return [total + value_of for total, value_of in zip(totals, values, strict=True)]

            later = as_tuple(k.loop(start, stop, power, carried=[sums[v] for v in span]))
            for v, value_of in zip(span, later, strict=True):
                sums[v] = value_of
        _add_products(t, value, self.a.by_value, self.scores, self.total, self.a.out_depth, groups, shrink)
        return [*top, *sums]

    def share(self, distance: Value) -> Value:
        """The exponential of how far a score is below the maximum."""
        return exp(self.k, distance)

    def _scores(
        self, key: Value, lines: tuple[Value, Value], span: range, top: list[Value], mask: Mask | None, on_diagonal: bool
    ) -> tuple[Value, ...]:
        k, t = self.k, self.t
        lowest = k.const(_LOWEST, t.element, t.lanes)

        def some(j: Value, rows: int, *top: Value) -> list[Value]:
            highest = list(top)
            for r, products in enumerate(_products(t, key, self.a.by_key, j, rows, self.queries, self.a.depth, span)):
                values = [value * self.scale for value in products]
                if on_diagonal:
                    seen = _lines_of(k, k.indices(t.lanes, "i32"), j + r - lines[0], True)
                    values[0] = k.select(seen, values[0], lowest)
                if mask is not None:
                    values = [self._masked(value, j + r, v, mask) for v, value in zip(span, values, strict=True)]
                t.put(values, self.scores, j + r, span)
                highest = [k.most(value, old) for value, old in zip(values, highest, strict=True)]
            return highest

        return by_rows(k, t.rows, *lines, some, top)

    def _masked(self, score: Value, j: Value, v: int, mask: Mask) -> Value:
        """Minus infinity where the mask is, whatever the score."""
        k, t = self.k, self.t
        if mask.is_shared:
            bias = k.splat(k.load(self.bias, j, t.element), t.lanes)
        else:
            bias = t.line(self.bias, j, range(v, v + 1))[0]
        return k.select(bias.eq(_LOWEST), bias, score + bias)

    def finish(self, state: Any, out: Value, first: Value, count: Value, matrix: Value) -> None:
        """Write the block's output, divided by the sums, and their logarithms: infinity of a query that has seen nothing."""
        k, t, start = self.k, self.t, matrix * self.a.length
        divisors = []
        for v, (top, total) in enumerate(zip(state[: t.vectors], state[t.vectors :], strict=True)):
            nothing = total.eq(0.0)
            divisors.append(k.select(nothing, 1.0, total))
            result = k.select(nothing, k.const(math.inf, t.element, t.lanes), top + log(k, total))
            k.store(result, self.a.log_sums, start + first + v * t.lanes, t.element, below(k, count - v * t.lanes, t.lanes))
        t.put(divisors, self.scores, 0, t.every)
        t.put([1.0 / divisor for divisor in divisors], self.scores, 1, t.every)

        def divided(value: Value, column: Value) -> Value:
            """A quotient by multiplications, corrected once; infinities stay."""
            divisor, inverse = (k.load(self.scores, column + line * t.width, t.element, t.lanes) for line in range(2))
            quotient = value * inverse
            rest = k.fma(-quotient, divisor, value)
            return k.select(rest.is_nan(), quotient, k.fma(rest, inverse, quotient))

        t.unpack(self.total, k.at(out, first * self.a.by_out, t.element), self.a.by_out, (count, self.a.out_depth), divided)


# -- backward ----------------------------------------------------------------------------------------------------------------------
class OfOperands(Record):
    """Something of each operand of the backward pass."""

    grad: Integer
    query: Integer
    key: Integer
    value: Integer
    out: Integer
    of_query: Integer
    of_key: Integer
    of_value: Integer
    mask: Integer


class SlopeArguments(Record):
    grad: Array
    query: Array
    key: Array
    value: Array
    out: Array
    of_query: Array  # the three gradients that are made
    of_key: Array
    of_value: Array
    mask: Array  # for specifications with one
    log_sums: Array
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each matrix, where it begins in each operand
    pieces: Integer  # of scratch memory, and their size
    size: Integer
    length: Integer  # queries of a matrix
    keys: Integer
    depth: Integer  # elements of a query, and of a value
    out_depth: Integer
    by: OfOperands  # from row to row
    scale: Number


@kernel
def attention_slopes(k: Builder, element: str, vectors: int, is_causal: bool, mask: Mask | None) -> None:
    """A chunk is one matrix: its blocks of keys in turn add to the gradient of all queries."""
    t = Tiles(k, element, vectors)
    a = k.arguments(SlopeArguments, without=() if mask else ("mask",))
    scale = k.cast(a.scale, element)
    arrays = {name: getattr(a, name) for name in vars(a.by) if mask or name != "mask"}
    elements = {**dict.fromkeys(arrays, element), "mask": mask.element if mask else ""}

    def unit(matrix: Value) -> None:
        piece = borrow(k, a.flags, a.pieces)
        here = OfOperands(**{"mask": None, **_matrix(k, arrays, elements, a.table, matrix)})
        b = _Backward(t, a, scale, here, k.at(aligned(k, a.room), piece * a.size, element), matrix)
        b.begin()

        def block(first: Value) -> None:
            count = k.least(a.keys - first, t.width)
            b.take(first, count)

            def tile(at: Value) -> None:
                groups = [(k.const(0, "i64"), k.least(a.length - at, TILE), t.every)]
                if mask is None:
                    b.add(at, count, groups)
                    return
                corner = k.at(here.mask, first if mask.is_shared else at * a.by.mask + first, mask.element)
                k.when(b.is_seen(corner, mask, groups[0][1], count), lambda: b.add(at, count, groups, mask, corner))

            if is_causal:
                rows = k.most(k.least(a.length - first, t.width), 0)
                b.add(first, count, _groups(k, t, rows, False), on_diagonal=True)
            k.loop(first + t.width if is_causal else 0, a.length, tile, step=TILE)
            b.give(first, count)

        k.loop(0, a.keys, block, step=t.width)
        give_back(k, a.flags, piece)

    k.for_chunks(unit)


class _Backward:
    """One matrix: the panels of a block of keys, and what is done with a tile of queries."""

    def __init__(self, t: Tiles, a: SlopeArguments, scale: Value, here: OfOperands, room: Value, matrix: Value):
        k = self.k = t.k
        self.t, self.a, self.by, self.scale, self.here = t, a, a.by, scale, here
        self.pitch, wide_out = ((size + t.lanes - 1) // t.lanes * t.lanes for size in (a.depth, a.out_depth))
        places = []
        for lines in (k.const(TILE, "i64"), k.const(TILE, "i64"), self.pitch, wide_out, self.pitch, wide_out, self.pitch):
            places.append(room)
            room = k.at(room, lines * t.width, t.element)
        self.p, self.of_scores, self.key, self.value, self.of_key, self.of_value, self.key_rows = places
        self.deltas, self.log_sums = room, k.at(a.log_sums, matrix * a.length, t.element)

    def begin(self) -> None:
        """No gradient of the queries yet; of each row, the sum of the output times its gradient."""
        k, t = self.k, self.t
        k.loop(0, self.a.length, lambda i: k.vector_loop(0, self.a.depth, t.lanes, partial(self._clear, i)))

        def block(first: Value) -> None:
            limits = k.least(self.a.length - first, t.width), self.a.out_depth
            for rows, by, panel in ((self.here.grad, self.by.grad, self.value), (self.here.out, self.by.out, self.of_value)):
                t.pack(k.at(rows, first * by, t.element), by, limits, panel, lambda v: v)

            def add(e: Value, *total: Value) -> list[Value]:
                # in the order in which products of gradients and values are summed: where these are equal, differences are 0
                slopes, outputs = (t.line(panel, e, t.every) for panel in (self.value, self.of_value))
                return [k.fma(a, b, c) for a, b, c in zip(slopes, outputs, total, strict=True)]

            total = as_tuple(k.loop(0, self.a.out_depth, add, carried=[t.zero] * t.vectors))
            t.put(total, k.at(self.deltas, first, t.element), 0, t.every)

        k.loop(0, self.a.length, block, step=t.width)

    def _clear(self, i: Value, d: Value, mask: Value | None) -> None:
        self.k.store(self.t.zero, self.here.of_query, i * self.by.of_query + d, self.t.element, mask)

    def take(self, first: Value, count: Value) -> None:
        """Pack a block of keys and values; rows of keys are multiplied by the scale, for the queries' gradient."""
        k, t = self.k, self.t
        key, value = k.at(self.here.key, first * self.by.key, t.element), k.at(self.here.value, first * self.by.value, t.element)
        t.pack(key, self.by.key, (count, self.a.depth), self.key, lambda v: v)
        t.pack(value, self.by.value, (count, self.a.out_depth), self.value, lambda v: v)
        t.clear(self.of_key, self.a.depth)
        t.clear(self.of_value, self.a.out_depth)

        def row(j: Value) -> None:
            def some(d: Value) -> None:
                values = k.load(key, j * self.by.key + d, t.element, t.lanes, below(k, self.a.depth - d, t.lanes))
                k.store(values * self.scale, self.key_rows, j * self.pitch + d, t.element)

            k.loop(0, self.a.depth, some, step=t.lanes)

        k.loop(0, count, row)

    def give(self, first: Value, count: Value) -> None:
        """Write the gradients of a block of keys and values."""
        k, t = self.k, self.t
        of_key = k.at(self.here.of_key, first * self.by.of_key, t.element)
        of_value = k.at(self.here.of_value, first * self.by.of_value, t.element)
        t.unpack(self.of_key, of_key, self.by.of_key, (count, self.a.depth), lambda v, _: v * self.scale)
        t.unpack(self.of_value, of_value, self.by.of_value, (count, self.a.out_depth), lambda v, _: v)

    def is_seen(self, corner: Value, mask: Mask, height: Value, count: Value) -> Value:
        """Whether a tile of the mask lets anything through."""
        k, t = self.k, self.t

        def line(i: Value, *seen: Value) -> list[Value]:
            biases = [self._bias(corner, mask, i, v, count) for v in t.every]
            return [before | bias.ne(_LOWEST) for before, bias in zip(seen, biases, strict=True)]

        lines = k.least(height, 1) if mask.is_shared else height
        seen = as_tuple(k.loop(0, lines, line, carried=[k.const(False, "b1", t.lanes)] * t.vectors))
        return _any_of(k, seen)

    def _bias(self, corner: Value, mask: Mask, i: Value, v: int, count: Value) -> Value:
        k, t = self.k, self.t
        at = k.const(v * t.lanes, "i64") if mask.is_shared else i * self.by.mask + v * t.lanes
        other = False if mask.element == "b8" else _LOWEST
        value = k.load(corner, at, mask.element, t.lanes, below(k, count - v * t.lanes, t.lanes), other)
        return register_of(mask.element, t.element, k, value)

    def add(
        self, at: Value, count: Value, groups: list[_Group], mask: Mask | None = None, corner: Any = None, *, on_diagonal: bool = False
    ) -> None:
        """Add the contributions of a tile of queries to the gradients."""
        k, t = self.k, self.t
        grad, query = k.at(self.here.grad, at * self.by.grad, t.element), k.at(self.here.query, at * self.by.query, t.element)
        for start, stop, span in groups:
            self._probabilities(at, query, (start, stop), span, count, mask, corner, on_diagonal)
            self._slopes(at, grad, (start, stop), span)
        lines = (groups[0][0], groups[-1][1])
        _add_products(t, grad, self.by.grad, self.p, self.of_value, self.a.out_depth, groups)
        _add_products(t, query, self.by.query, self.of_scores, self.of_key, self.a.depth, groups)
        self._to_queries(at, lines, lambda last: k.least(count, (last // t.lanes + 1) * t.lanes) if on_diagonal else count)

    def _probabilities(
        self, at: Value, query: Value, lines: tuple[Value, Value], span: range, count: Value, mask: Any, corner: Any, on_diagonal: bool
    ) -> None:
        k, t = self.k, self.t
        lane, lowest = k.indices(t.lanes, "i32"), k.const(_LOWEST, t.element, t.lanes)

        def some(i: Value, rows: int) -> None:
            for r, products in enumerate(_products(t, query, self.by.query, i, rows, self.key, self.a.depth, span)):
                line = i + r
                scores = [value * self.scale for value in products]  # bit by bit the forward pass's: their sums of exponentials fit
                if on_diagonal:
                    scores[-1] = k.select(_lines_of(k, lane, line - lines[0], False), scores[-1], lowest)
                if mask is not None:
                    biases = [self._bias(corner, mask, line, v, count) for v in span]
                    scores = [k.select(bias.eq(_LOWEST), bias, s + bias) for s, bias in zip(scores, biases, strict=True)]
                log_sum = k.load(self.log_sums, at + line, t.element)
                t.put([exp(k, s - log_sum) for s in scores], self.p, line, span)

        by_rows(k, t.rows, *lines, some)

    def _slopes(self, at: Value, grad: Value, lines: tuple[Value, Value], span: range) -> None:
        """Gradients of the scores."""
        k, t = self.k, self.t

        def some(i: Value, rows: int) -> None:
            for r, of_p in enumerate(_products(t, grad, self.by.grad, i, rows, self.value, self.a.out_depth, span)):
                delta = k.load(self.deltas, at + i + r, t.element)
                p = t.line(self.p, i + r, span)
                slopes = [a * (b - delta) for a, b in zip(p, of_p, strict=True)]
                t.put([*slopes, *[t.zero] * (t.vectors - len(span))], self.of_scores, i + r, t.every)

        by_rows(k, t.rows, *lines, some)

    def _to_queries(self, at: Value, lines: tuple[Value, Value], seen: Callable[[Value], Value]) -> None:
        """Add to the gradient of the queries, whose elements are neighbours: four, two and one registers at a time, and what is left.

        ``seen``: how many keys the last of some queries, and those before it, look at.
        """
        k, t = self.k, self.t
        by, of_query = self.by.of_query, self.here.of_query
        done = k.const(0, "i64")
        for vectors in (4, 2, 1, 0):
            wide = max(vectors, 1) * t.lanes
            end = done + (self.a.depth - done) // wide * wide if vectors else self.a.depth

            def columns(d: Value, vectors: int = vectors) -> None:
                span, part = range(max(vectors, 1)), None if vectors else below(k, self.a.depth - d, t.lanes)

                def some(i: Value, rows: int) -> None:
                    places = [((at + i + r) * by + d + v * t.lanes) for r in range(rows) for v in span]
                    sums = t.product(
                        lambda r, j: k.load(self.of_scores, (i + r) * t.width + j, t.element),
                        *(rows, k.at(self.key_rows, d, t.element), (0, seen(i + (rows - 1))), span),
                        [k.load(of_query, place, t.element, t.lanes, part) for place in places],
                        self.pitch,
                    )
                    for place, value in zip(places, sums, strict=True):
                        k.store(value, of_query, place, t.element, part)

                by_rows(k, rows_at_once(k, len(span)), *lines, some)

            k.loop(done, end, columns, step=wide)
            done = end
