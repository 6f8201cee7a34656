"""Single steps of recurrent layers over a batch: the state's product is that of other matrices, and what is left is the cell's formula.

Nothing is laid out anew then, which only many steps with the same weights pay for.
"""

from __future__ import annotations

from typing import Any

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.expression import Program
from ..compiler.language import Builder, Value
from .recurrent_kernels import Step


class SingleArguments(Record):
    products: Array  # the input's, and the state's, with their biases
    sums: Array
    gates: Array  # may be the memory of the input's products
    kept: Array
    output: Array
    last: Array
    first: Array
    cells: Array
    first_cells: Array
    batch: Integer
    hidden: Integer
    rows: Integer  # of a chunk


@kernel
def step_forwards(k: Builder, element: str, cell: Any, program: Program, keeps: bool) -> None:
    """One step of some rows each; ``keeps``: whether cells are kept (LSTM)."""
    k.for_chunks(_SingleStep(k, element, cell, program, keeps).chunk)


class _SingleStep(Step):
    def __init__(self, k: Builder, element: str, cell: Any, program: Program, keeps: bool):
        super().__init__(k, element, cell, program, False, keeps)
        self.a = k.arguments(SingleArguments)

    def chunk(self, c: Value) -> None:
        self.k.loop(c * self.a.rows, self.k.least((c + 1) * self.a.rows, self.a.batch), self.row)

    def row(self, row: Value) -> None:
        k, a, element, lanes = self.k, self.a, self.element, self.lanes
        sums, at = k.at(a.sums, row * (a.hidden * self.gates), element), row * a.hidden
        state, last, *cells = (k.at(array, at, element) for array in (a.first, a.last, a.first_cells, a.cells))

        def some(u: Value, mask: Value | None) -> None:
            def sum_of(gate: int) -> Value:
                return k.load(sums, a.hidden * gate + u, element, lanes, mask)

            k.store(self.results(row, u, mask, sum_of, state, (cells[0], cells[1])), last, u, element, mask)

        k.vector_loop(0, a.hidden, lanes, some)
