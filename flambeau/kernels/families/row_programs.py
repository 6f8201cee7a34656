"""Kernels of programs with reductions along rows: what softmax or layer norm is made of, with all that is element by element around it.

A row goes through several passes. In each pass, elements are computed from operands and from what earlier passes kept, and some of them
are summed, or their largest is found. What that gives is a value of the row, which later passes read like any other:

    softmax(x * 0.125)      pass    elements              reduced to
                            0       a = x * 0.125         m = largest of a
                            1       e = exp(a - m)        s = sum of e
                            2       r = e * (1 / s)

Elements that a later pass needs (``a``, ``e``) stay in the cache: in memory of the chunk's own, or where the result lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..compiler.build import kernel
from ..compiler.expression import Program, lower
from ..compiler.language import SIZES, Builder, Value, register_element
from .pointwise import Operand

Place = tuple[str, int]


class Pass(NamedTuple):
    """One pass over a row.

    Attributes:
        before: the program of values of the row that follow from those that are known before the pass; None where there are none.
        known: where its inputs come from: ('operand', number) or ('row', number). Its results are the next values of the row.
        given: values of the row that are results: (their number, number of the result).
        program: of the elements; None where nothing is computed.
        sources: where its inputs come from: as ``known``, ('result', number) or ('kept', number).
        targets: where its results go: ('result', number), ('kept', number), or one of ``_FOLDS`` and 0, which become the next values of the
            row.
    """

    before: Program | None
    known: tuple[Place, ...]
    given: tuple[tuple[int, int], ...]
    program: Program | None
    sources: tuple[Place, ...]
    targets: tuple[Place, ...]

    @property
    def is_heavy(self) -> bool:
        return self.program is not None and self.program.is_heavy

    def elements(self) -> list[str]:
        """The types of what the row is reduced to."""
        if self.program is None:
            return []
        pairs = zip(self.program.results, self.targets, strict=True)
        return [self.program.instructions[number][1] for number, (kind, _) in pairs if kind in _FOLDS]


_FOLDS: dict[str, tuple[float, Callable[[Builder, Value, Value], Value]]] = {
    "sum": (0.0, lambda k, a, b: a + b),
    "most": (-math.inf, lambda k, a, b: k.most(b, a)),  # NaN does not count
    "max": (-math.inf, lambda k, a, b: k.maximum(a, b)),
    "min": (math.inf, lambda k, a, b: k.minimum(a, b)),
}


@kernel
def row_program(
    k: Builder, passes: tuple[Pass, ...], operands: tuple[Operand, ...], results: tuple[Operand, ...], kept: tuple[str, ...], capacity: int
) -> None:
    """Arguments: arrays (operands, then results), geometry, outer dimensions, elements of a row, rows, rows of a chunk.

    The geometry holds for every outer dimension, the last first, its size and the arrays' strides in elements. Operands with step "0" have
    one element for a row. A row has ``capacity`` elements at most; ``kept`` are the elements' types of what passes keep.
    """
    _Rows(k, passes, operands, results, kept, capacity).write()


class _Rows:
    """The writing of ``row_program``."""

    def __init__(
        self, k: Builder, passes: tuple[Pass, ...], operands: tuple[Operand, ...], results: tuple[Operand, ...], kept: Any, capacity: int
    ):
        self.k, self.passes, self.operands, self.results = k, passes, operands, results
        self.arrays = [k.array() for _ in (*operands, *results)]
        self.geometry, self.depth, self.length, self.rows, self.per_chunk = k.array(), *[k.integer() for _ in range(4)]
        self.kept = [(k.scratch(capacity, element), element) for element in kept]
        elements = [element for memory, register, _ in (*operands, *results) for element in (memory, register) if element in SIZES]
        self.lanes = k.target.width // max(SIZES[element] for element in (*elements, *kept))  # a register of the widest

    def write(self) -> None:
        k = self.k
        count = k.load(self.geometry, 0, "i64")
        strides = [k.load(self.geometry, 1 + j, "i64") for j in range(len(self.arrays))]

        def chunk(c: Value) -> None:
            start, stop = c * self.per_chunk, k.least((c + 1) * self.per_chunk, self.rows)

            def block(b: Value) -> None:
                """Rows that differ in the last outer dimension only: their places take no divisions."""
                first, offsets = b * count, self.offsets(b)

                def row(r: Value) -> None:
                    self.row([offset + (r - first) * stride for offset, stride in zip(offsets, strides, strict=True)])

                k.loop(k.most(start, first), k.least(stop, first + count), row)

            k.loop(start // count, (stop - 1) // count + 1, block)

        k.for_chunks(chunk)

    def offsets(self, block: Value) -> list[Value]:
        """The places where the rows of a block begin in each array: they follow from all outer dimensions but the last."""
        k, width, zero = self.k, len(self.arrays), self.k.const(0, "i64")

        def outer(d: Value, rest: Value, *offsets: Value) -> tuple[Value, ...]:
            at = d * (width + 1)
            count = k.load(self.geometry, at, "i64")
            place = rest % count
            strides = [k.load(self.geometry, at + (1 + j), "i64") for j in range(width)]
            return (rest // count, *[offset + place * stride for offset, stride in zip(offsets, strides, strict=True)])

        _, *offsets = k.loop(1, self.depth, outer, carried=(block, *[zero] * width))
        return offsets

    def row(self, base: list[Value]) -> None:
        """All passes over a row that begins at these places of the arrays."""
        k, self.base = self.k, base
        self.fixed = {
            j: k.cast(k.load(self.arrays[j], self.base[j], memory), register)
            for j, (memory, register, step) in enumerate(self.operands)
            if step == "0"
        }
        self.values: list[Value] = []
        for each in self.passes:
            if each.before is not None:
                self.values += lower(k, each.before, [self.fixed[j] if kind == "operand" else self.values[j] for kind, j in each.known])
            for value, result in each.given:
                memory, at = self.results[result][0], len(self.operands) + result
                k.store(k.cast(self.values[value], register_element(memory)), self.arrays[at], self.base[at], memory)
            if each.program is not None:
                self.values += self.folded(each)

    def folded(self, each: Pass) -> list[Value]:
        """A pass over the elements; what it reduces them to."""
        k, zero = self.k, self.k.const(0, "i64")
        folds = [_FOLDS[kind] for kind, _ in each.targets if kind in _FOLDS]
        starts = [(start, element) for (start, _), element in zip(folds, each.elements(), strict=True)]

        def listed(values: Any) -> list[Value]:
            return [] if not folds else [values] if len(folds) == 1 else list(values)

        def step(lanes: int, i: Value, mask: Value | None, *carried: Value) -> list[Value]:
            return self.step(each, i, mask, lanes, carried)

        def whole(i: Value, *carried: Value) -> list[Value]:
            return step(self.lanes, i, None, *carried)

        wide = [k.const(start, element, self.lanes) for start, element in starts]
        if k.target.has_masks:
            ends = listed(k.vector_loop(zero, self.length, self.lanes, lambda *args: step(self.lanes, *args), carried=wide))
            return [self.across(value, combine) for value, (_, combine) in zip(ends, folds, strict=True)]
        end = self.length & -self.lanes
        ends = listed(k.loop(zero, end, whole, step=self.lanes, carried=wide))
        narrow = [self.across(value, combine) for value, (_, combine) in zip(ends, folds, strict=True)]
        return listed(k.loop(end, self.length, lambda i, *carried: step(1, i, None, *carried), carried=narrow))

    def across(self, value: Value, combine: Callable[[Builder, Value, Value], Value]) -> Value:
        """The lanes of a value as one."""
        return self.k.fold(value, lambda a, b: combine(self.k, a, b))

    def step(self, each: Pass, i: Value, mask: Value | None, lanes: int, carried: tuple[Value, ...]) -> list[Value]:
        """Some elements of a pass."""
        k, program = self.k, each.program
        assert program is not None
        reduced = iter(carried)
        following = []
        for value, (kind, number) in zip(
            lower(k, program, [self.read(p, i, mask, lanes) for p in each.sources]), each.targets, strict=True
        ):
            value = k.splat(value, lanes)
            if kind in _FOLDS:
                start, combine = _FOLDS[kind]
                value = value if mask is None else k.select(mask, value, k.const(start, value.element, lanes))
                following.append(combine(k, next(reduced), value))
            elif kind == "kept":
                pointer, memory = self.kept[number]  # whole registers, as they can be read back at once
                k.store(k.cast(value, register_element(memory)), pointer, i, memory)
            else:
                at, memory = len(self.operands) + number, self.results[number][0]
                k.store(k.cast(value, register_element(memory)), self.arrays[at], self.base[at] + i, memory, mask)
        return following

    def read(self, place: Place, i: Value, mask: Value | None, lanes: int) -> Value:
        k, (kind, number) = self.k, place
        if kind == "row":
            return k.splat(self.values[number], lanes)
        if kind == "kept":
            pointer, memory = self.kept[number]
            return k.cast(k.load(pointer, i, memory, lanes), register_element(memory))
        at = number if kind == "operand" else len(self.operands) + number
        memory, register, step = (*self.operands, *self.results)[at]
        if kind == "operand" and step == "0":
            return k.splat(self.fixed[number], lanes)
        return k.cast(k.load(self.arrays[at], self.base[at] + i, memory, lanes, mask), register)
