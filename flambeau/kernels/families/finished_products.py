"""Products of matrices whose sums go on to an element-wise program instead of to memory.

    a @ b  ->  sums of a panel's columns, on the stack  ->  program, with other operands  ->  results

So a product needs no memory of its own, and a result may lie over an operand of the program that lies as it does: the gradient of a layer's
input over the activation whose mask it is multiplied by. Sums are added in the order of ``products``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..compiler.arguments import fields_of
from ..compiler.build import Kernel, kernel
from ..compiler.expression import Program, lower
from ..compiler.language import Builder, Value, register_element
from .pointwise import steps
from .products import HEIGHT, Matrix, Operands, Product, Straight, for_units, is_straight, product_of

# How an operand of the program steps through the result's rows and columns: "each" element has its own, each "column" or "row", or "all"
# have one.
WAYS = {(True, True): "each", (False, True): "column", (True, False): "row", (False, False): "all"}


class Operand(NamedTuple):
    """An operand of a program: its element type in memory, the one that is computed with, and how it steps."""

    memory: str
    register: str
    way: str


class _Finished(Straight):
    """Panels from left to right, all products of each; then the program over its sums."""

    def __init__(self, k: Builder, form: tuple[bool, bool], element: str, o: Operands, finish: _Finish):
        super().__init__(k, element, *form, "", o)
        self.sums = k.scratch(HEIGHT * self.tiles.width, element)
        self.finish = finish

    def blocks(self, p: Product) -> None:
        k = self.k

        def column(j: Value) -> None:
            k.loop(0, p.inner, lambda first: self.column(first, k.least(first + p.depth, p.inner), j), step=p.depth)
            k.loop(self.part.m0, self.part.m1, lambda i: self._row(i, j))

        k.loop(self.part.n0, self.part.n1, column, step=self.tiles.width)

    def place(self, i: Value, j: Value) -> tuple[Value, Any]:
        return self.k.at(self.sums, (i - self.part.m0) * self.tiles.width, self.element), self.tiles.width

    def _row(self, i: Value, j: Value) -> None:
        k, p, sums = self.k, self.o.product, self.place(i, j)[0]

        def step(at: Value, mask: Value | None, lanes: int) -> None:
            self.finish.run(k.load(sums, at, self.element, lanes, mask), (i, j + at, i * p.n + j + at), mask)

        steps(k, k.const(0, "i64"), k.least(self.part.n1 - j, self.tiles.width), self.tiles.lanes, step)


class _Finish:
    """The program, with where its other operands and its results lie."""

    def __init__(self, k: Builder, program: Program, operands: tuple[Operand, ...], results: tuple[str, ...]):
        self.k, self.program, self.operands, self.results = k, program, operands, results
        self.sources, self.targets = [k.array() for _ in operands], [k.array() for _ in results]

    def run(self, sums: Value, place: tuple[Value, Value, Value], mask: Value | None) -> None:
        """Of some sums of a row: ``place`` says which row, from which column on, and where that is in a result."""
        k, lanes, (i, j, at) = self.k, sums.lanes, place
        values = [sums]
        for source, (memory, register, way) in zip(self.sources, self.operands, strict=True):
            if way in ("each", "column"):
                values.append(k.cast(k.load(source, at if way == "each" else j, memory, lanes, mask), register))
            else:
                values.append(k.splat(k.cast(k.load(source, i if way == "row" else 0, memory), register), lanes))
        for value, target, memory in zip(lower(k, self.program, values), self.targets, self.results, strict=True):
            k.store(k.cast(k.splat(value, lanes), register_element(memory)), target, at, memory, mask)


@kernel
def finished_product(
    k: Builder, form: tuple[bool, bool], element: str, program: Program, operands: tuple[Operand, ...], results: tuple[str, ...]
) -> None:
    """Arguments: both factors, the program's other operands (its first input are the sums), the results, and the ``Product``."""
    a, b = k.array(), k.array()
    finish = _Finish(k, program, operands, results)
    product = Product(**{name: k.integer() for name in fields_of(Product)})
    o = Operands(a=a, b=b, c=finish.targets[0], bias=None, product=product)
    for_units(k, product, _Finished(k, form, element, o, finish).unit)


def plan(
    element: str,
    a: Matrix,
    b: Matrix,
    sizes: tuple[int, int, int],
    program: Program,
    operands: tuple[Operand, ...],
    results: tuple[str, ...],
) -> tuple[Kernel, int, tuple[int, ...]] | None:  # fmt: skip
    """Kernel, number of chunks and the arguments behind the arrays; None for factors that are better multiplied in another form."""
    if not is_straight(a, b, sizes):
        return None
    product, chunks = product_of("straight", a, b, sizes, (1, 1))
    made = finished_product((a.by_rows, b.by_rows), element, program, operands, results)
    return made, chunks, tuple([getattr(product, name) for name in fields_of(Product)])
