"""Recurrent layers of one sequence: a row at each step, so that the weights are read once for each of its products.

They are read as they lie, or for many steps as ``pack_gates`` lays them out: then lanes of sums need not be added up.

A step is shared out by features: each part has some registers of them, multiplies the state with their rows of all gates, and goes on to
the cell's formula. Threads meet at the end of a step (``meeting.py``), as the next one needs the state of all features:

    state  x  weights                     sums                              the cell's formula
              gate 0, features of part 0  [ one for each of a register's ]  over sums, the input's products and the cell:
              gate 1, ..                  [ features, of each gate       ]  these features of the next state
"""

from __future__ import annotations

from typing import Any

from ..compiler.arguments import Array, Integer
from ..compiler.build import kernel
from ..compiler.expression import Program
from ..compiler.language import Builder, Value
from .meeting import Meeting
from .recurrent_kernels import Step, StepArguments, row_sums, together, whole_or_masked
from .tiles import aligned

TOGETHER = 16  # registers of features whose sums are there before their formulas
CHAINS = 8  # sums at least that do not wait for each other


class SequenceArguments(StepArguments):
    words: Array  # see ``Meeting``, for specifications with one
    steps: Integer
    hidden: Integer
    reverse: Integer  # 1 where the last row comes first
    parts: Integer
    pitch: Integer  # words of a part


@kernel
def sequence_forwards(
    k: Builder, element: str, cell: Any, program: Program, has_bias: bool, keeps: bool, meets: bool, packed: bool
) -> None:
    """All steps; ``keeps``: whether all cells are kept (LSTM), ``meets``: whether several threads share them, ``packed``: the weights."""
    k.for_chunks(_Sequence(k, element, cell, program, has_bias, keeps, meets, packed).chunk)


class _Sequence(Step):
    """The loops of ``sequence_forwards``: steps, parts, blocks of a register's features."""

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has_bias: bool, keeps: bool, meets: bool, packed: bool):
        super().__init__(k, element, cell, program, has_bias, keeps)
        self.packed, self.side = packed, -(-CHAINS // self.gates)
        self.a = k.arguments(SequenceArguments)
        self.meeting = Meeting(k, self.a.words, self.a.parts, self.a.pitch) if meets else None
        self.sums = k.scratch(TOGETHER * self.gates * self.lanes, element)

    def chunk(self, c: Value) -> None:
        k, a, lanes = self.k, self.a, self.lanes
        blocks = (a.hidden + (lanes - 1)) // lanes

        def step(t: Value) -> None:
            row = k.select(a.reverse.ne(0), a.steps - 1 - t, t)
            before = k.select(a.reverse.ne(0), row + 1, row - 1)
            state = k.select(t.eq(0), a.first, k.at(a.output, before * a.hidden, self.element))
            cells = k.select(t.eq(0), a.first_cells, a.cells)

            def part(p: Value) -> None:
                stop = (p + 1) * blocks // a.parts

                def some(first: Value) -> None:
                    self.blocks(t, row, (state, cells), first, k.least(first + TOGETHER, stop))

                k.loop(p * blocks // a.parts, stop, some, step=TOGETHER)

            if self.meeting is None:
                part(k.const(0, "i64"))
            else:
                self.meeting.step(t, c, part)

        k.loop(k.const(0, "i64"), a.steps, step)

    def blocks(self, t: Value, row: Value, before: tuple[Value, Value], first: Value, last: Value) -> None:
        """Some registers of features: first all sums, which wait for memory, then the formulas, which wait for each other's results.

        Every other step goes through the weights backwards, as what was read last is still in the first cache.
        """
        k, a, lanes, gates = self.k, self.a, self.lanes, self.gates
        count, is_odd = (last - first) * gates, (t & 1).ne(0)

        def sums(i: Value) -> None:
            place = k.select(is_odd, count - 1 - i, i)
            block, gate = divmod(place, gates)
            start, end = gate * a.hidden + (first + block) * lanes, (gate + 1) * a.hidden - 1
            k.store(row_sums(k, self.element, before[0], a.weight, start, end, a.hidden), self.sums, place * lanes, self.element)

        def formula(block: Value) -> None:
            u, sums = block * lanes, k.at(self.sums, (block - first) * (gates * lanes), self.element)
            whole_or_masked(k, u, a.hidden, lanes, lambda mask: self.formula(t, row, before, u, sums, mask))

        if self.packed:
            groups = (last - first + (self.side - 1)) // self.side

            def some(i: Value) -> None:
                group = k.select(is_odd, groups - 1 - i, i)
                self.packed_sums(before[0], first, [k.least(group * self.side + n, last - first - 1) for n in range(self.side)])

            k.loop(k.const(0, "i64"), groups, some)
        else:
            k.loop(k.const(0, "i64"), count, sums)
        k.loop(first, last, formula)

    def packed_sums(self, state: Value, first: Value, blocks: list[Value]) -> None:
        """Sums of all gates for some registers of features, of which the last may come again."""
        k, a, element, lanes, gates, some = self.k, self.a, self.element, self.lanes, self.gates, together(self.gates)
        weights = aligned(k, a.weight)
        streams = [
            k.at(weights, ((first + block) * gates + gate) * a.hidden * lanes, element)
            for block in blocks
            for gate in range(0, gates, some)
        ]

        def add(i: Value, *total: Value) -> list[Value]:
            factor, lines = k.splat(k.load(state, i, element), lanes), [k.at(stream, i * (some * lanes), element) for stream in streams]
            return [k.fma(k.load(lines[n // some], n % some * lanes, element, lanes), factor, sums) for n, sums in enumerate(total)]

        total = k.loop(k.const(0, "i64"), a.hidden, add, carried=[k.const(0, element, lanes)] * (gates * len(blocks)))
        for n, sums in enumerate(total):
            k.store(sums, self.sums, (blocks[n // gates] * gates + n % gates) * lanes, element)

    def formula(self, t: Value, row: Value, before: tuple[Value, Value], u: Value, sums: Value, mask: Value | None) -> None:
        k, a, element, lanes, (state, cells) = self.k, self.a, self.element, self.lanes, before
        following = self.results(row, u, mask, lambda g: k.load(sums, g * lanes, element, lanes), state, (cells, a.cells))
        k.when(t.eq(a.steps - 1), lambda: k.store(following, a.last, u, element, mask))
