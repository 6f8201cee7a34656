"""Products of matrices out of registers, without BLAS: small and middling ones, whose operands fit the caches.

A BLAS library copies both operands to where it wants them before it computes, which pays for large matrices only.  Here one operand is
read in place, one number at a time, and only the other is copied, into panels (``tiles.py``):

    c = a @ b                 panels of b's columns, from its rows (copied as they are, or read in place) or from its columns (transposed)
    c.T = b.T @ a.T           where b lies column by column, as the weight of a linear layer does, and has more columns than a has rows:
                              panels of a's rows, transposed; so are the results on their way to memory
    c[i, j] = a[i] . b.T[j]   where there are few such rows: registers run along both, and their lanes are added at the end

Sums over more than ``DEPTH`` products are cut into blocks, so that a panel stays in the first cache; each block adds to what is in ``c``.

Source: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication", for panels and blocks.
Error: at most ``n u / (1 - n u) |a| @ |b|`` for n terms, which are added in one order for each form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..compiler.arguments import Array, Integer, Record, slots_of
from ..compiler.build import kernel
from ..compiler.language import Builder, Value, as_tuple
from .microkernel import lane_sums
from .tiles import Tiles, below

DEPTH = 256  # products whose sum stays in registers: panels of 32 KB at most
SPAN = 256  # columns of the result that are computed turned around at a time
VECTORS = 2  # registers of a panel's line


class Product(Record):
    """``c = a @ b`` for each of a batch of matrices; the result is row-major."""

    m: Integer
    n: Integer
    inner: Integer
    pitch_a: Integer  # from row to row, or where the matrix lies column by column, from column to column
    pitch_b: Integer
    heads: Integer  # the second batch dimension; strides of both follow
    outer_a: Integer
    inner_a: Integer
    outer_b: Integer
    inner_b: Integer
    depth: Integer  # of a block of the sums
    height: Integer  # of a part: rows and columns of the result
    width: Integer
    parts: Integer  # of a product
    across: Integer  # of them side by side
    units: Integer  # parts of all products
    per_chunk: Integer
    copied: Integer  # whether b's rows are copied into panels


@dataclass(frozen=True, slots=True)
class _Block:
    """Products ``first`` to ``last`` of each sum, for ``count`` columns from ``j`` on, whose panel has lines ``pitch`` apart.

    Attributes:
        following: where the lines of the next panel are, ``pitch_following`` apart, if fetching them pays; else the present panel.
    """

    first: Value
    last: Value
    panel: Value
    pitch: Any
    j: Value
    count: Value
    following: Value
    pitch_following: Any


class Operands(Record):
    a: Array
    b: Array
    c: Array
    bias: Array
    product: Product


def by_powers(k: Builder, rows: int, start: Value, stop: Value, body: Callable[[Value, int], None]) -> None:
    """``body(first, count)`` for ``rows`` rows at a time, then for 4 and for single ones."""
    main = start + (stop - start) // rows * rows
    k.loop(start, main, lambda i: body(i, rows), step=rows)
    rest = stop - main
    k.when(rest >= 4, partial(body, main, 4))
    k.loop(k.select(rest >= 4, main + 4, main), stop, lambda i: body(i, 1))


def _together(tiles: Tiles, rows: int, span: range) -> int:
    """Lines that a step takes: two in the tiles that most of the work is done in."""
    return 2 if rows == tiles.rows and span == tiles.every else 1


class _Parts:
    """The part of a product that a chunk's unit is: where its operands begin, and which rows and columns it has."""

    def __init__(self, k: Builder, element: str, o: Operands, u: Value):
        p = o.product
        batch, part = u // p.parts, u % p.parts
        outer, head = batch // p.heads, batch % p.heads
        self.m0, self.n0 = part // p.across * p.height, part % p.across * p.width
        self.m1, self.n1 = k.least(self.m0 + p.height, p.m), k.least(self.n0 + p.width, p.n)
        self.a = k.at(o.a, outer * p.outer_a + head * p.inner_a, element)
        self.b = k.at(o.b, outer * p.outer_b + head * p.inner_b, element)
        self.c = k.at(o.c, batch * (p.m * p.n), element)


class Straight:
    """``c = a @ b (+ bias)``: panels of ``b``, and factors read in place out of ``a``.

    ``rows_a`` and ``rows_b`` say whether the operands lie row by row, else they lie column by column; ``bias`` has a number for each of
    the result's "columns" or "rows", or is empty.
    """

    def __init__(self, k: Builder, element: str, rows_a: bool, rows_b: bool, bias: str, o: Operands):
        self.k, self.element, self.rows_a, self.rows_b, self.bias, self.o = k, element, rows_a, rows_b, bias, o
        self.tiles = Tiles(k, element, VECTORS)
        self.panel = k.scratch(DEPTH * self.tiles.width, element)

    def unit(self, u: Value) -> None:
        self.part = _Parts(self.k, self.element, self.o, u)
        self.blocks(self.o.product)

    def blocks(self, p: Product) -> None:
        """All panels, a block of the sums after the other."""
        k = self.k

        def block(first: Value) -> None:
            last = k.least(first + p.depth, p.inner)
            k.loop(self.part.n0, self.part.n1, partial(self.column, first, last), step=self.tiles.width)

        k.loop(0, p.inner, block, step=p.depth)

    def place(self, i: Value, j: Value) -> tuple[Value, Any]:
        """The place of the sums of row ``i`` from column ``j`` on, and the step to the next row."""
        return self.k.at(self.part.c, i * self.o.product.n + j, self.element), self.o.product.n

    def column(self, first: Value, last: Value, j: Value) -> None:
        """All rows of a panel's columns, products ``first`` to ``last``."""
        k, p, width = self.k, self.o.product, self.tiles.width
        count = k.least(self.part.n1 - j, width)
        if self.rows_b:
            place = k.at(self.part.b, first * p.pitch_b + j, self.element)
            in_place = count.eq(width) & p.copied.eq(0)
            k.when(in_place, lambda: None, partial(self._copy, place, last - first, count))
            panel = k.select(in_place, place, self.panel)
            pitch = k.select(in_place, p.pitch_b, width)
            is_next = (j + width < self.part.n1) & (p.copied.ne(0) | (p.pitch_b < APART))
            following = k.select(is_next, k.at(place, width, self.element), panel)
            pitch_following = k.select(is_next, p.pitch_b, pitch)
        else:
            place = k.at(self.part.b, j * p.pitch_b + first, self.element)
            self.tiles.pack(place, p.pitch_b, (count, last - first), self.panel, lambda value: value)
            panel, pitch = following, pitch_following = self.panel, k.const(width, "i64")
        block = _Block(first, last, panel, pitch, j, count, following, pitch_following)
        k.when(count > self.tiles.lanes, partial(self._rows, block, self.tiles.every), partial(self._rows, block, range(1)))

    def _copy(self, place: Value, lines: Value, count: Value) -> None:
        """A panel of rows that are not read in place, zeros behind their end."""
        k, lanes = self.k, self.tiles.lanes
        masks = [below(k, count - v * lanes, lanes) for v in self.tiles.every]

        def line(at: Value) -> None:
            row = k.at(place, at * self.o.product.pitch_b, self.element)
            self.tiles.put(
                [k.load(row, v * lanes, self.element, lanes, masks[v]) for v in self.tiles.every], self.panel, at, self.tiles.every
            )

        k.loop(0, lines, line)

    def _rows(self, block: _Block, span: range) -> None:
        by_powers(self.k, self.tiles.rows, self.part.m0, self.part.m1, partial(self._tile, block, span))

    def _tile(self, block: _Block, span: range, i: Value, rows: int) -> None:
        k, p, lanes = self.k, self.o.product, self.tiles.lanes
        whole = span == self.tiles.every and not k.target.has_masks
        masks = [below(k, block.count - v * lanes, lanes) for v in span]
        target, step = self.place(i, block.j)
        places = [(row, v) for row in range(rows) for v in span]

        def earlier() -> list[Value]:
            return [k.load(target, step * row + v * lanes, self.element, lanes, masks[v]) for row, v in places]

        def fresh() -> list[Value]:
            if self.bias != "rows":
                return [self.tiles.zero] * len(places)
            return [k.splat(k.load(self.o.bias, i + row, self.element), lanes) for row, _ in places]

        start = as_tuple(k.when(block.first > 0, earlier, fresh))
        factor, lines = self._factor(i, block.first, rows), (0, block.last - block.first)
        together = _together(self.tiles, rows, span)
        meanwhile = self._fetch(block, i) if self.rows_b and together > 1 else None
        total = self.tiles.product(factor, rows, block.panel, lines, span, start, block.pitch, together, meanwhile)
        if self.bias == "columns":
            final = k.splat(block.last >= p.inner, lanes)
            bias = [k.load(self.o.bias, block.j + v * lanes, self.element, lanes, masks[v] & final) for v in span]
            total = tuple(value + bias[v] for value, (_, v) in zip(total, places, strict=True))

        def store(masked: bool) -> None:
            for value, (row, v) in zip(total, places, strict=True):
                k.store(value, target, step * row + v * lanes, self.element, masks[v] if masked else None)

        if whole:  # AVX2's masked stores are slow
            k.when(block.count.eq(self.tiles.width), partial(store, False), partial(store, True))
        else:
            store(True)

    def _fetch(self, block: _Block, i: Value) -> Callable[[Value], None]:
        """Function that fetches a line of the next panel, beside the first rows' products; beside others one that is there."""
        k, is_first = self.k, i.eq(self.part.m0)
        lines = k.opaque(k.select(is_first, block.following, block.panel))
        pitch = k.select(is_first, block.pitch_following, block.pitch)

        def fetch(at: Value) -> None:
            for v in self.tiles.every:
                k.prefetch(lines, at * pitch + v * self.tiles.lanes, self.element)

        return fetch

    def _factor(self, i: Value, first: Value, rows: int) -> Callable[[int, Value], Value]:
        """Function that reads a row's number for a line; each row has a pointer of its own, so that reading takes no arithmetic."""
        k, a, pitch = self.k, self.part.a, self.o.product.pitch_a
        if self.rows_a:
            lines = [k.opaque(k.at(a, (i + row) * pitch + first, self.element)) for row in range(rows)]
            return lambda row, at: k.load(lines[row], at, self.element)
        line = k.at(a, first * pitch + i, self.element)
        return lambda row, at: k.load(k.at(line, at * pitch, self.element), row, self.element)


class _Turned:
    """``c.T = b.T @ a.T``, ``b`` column by column and ``a`` row by row: panels of ``a``'s rows, and factors read in place out of ``b``."""

    def __init__(self, k: Builder, element: str, o: Operands):
        self.k, self.element, self.o = k, element, o
        self.tiles = Tiles(k, element, VECTORS)
        self.panel = k.scratch(DEPTH * self.tiles.width, element)
        self.results = k.scratch(SPAN * self.tiles.width, element)

    def unit(self, u: Value) -> None:
        self.part = _Parts(self.k, self.element, self.o, u)
        self.k.loop(self.part.m0, self.part.m1, self._column, step=self.tiles.width)

    def _column(self, i: Value) -> None:
        """The results for a panel of rows from ``i`` on."""
        k, p = self.k, self.o.product
        count = k.least(self.part.m1 - i, self.tiles.width)

        def block(first: Value) -> None:
            last = k.least(first + p.depth, p.inner)
            rows = k.at(self.part.a, i * p.pitch_a + first, self.element)
            self.tiles.pack(rows, p.pitch_a, (count, last - first), self.panel, lambda value: value)
            every = partial(self._rows, first, last)
            k.when(count > self.tiles.lanes, partial(every, self.tiles.every), partial(every, range(1)))

        k.loop(0, p.inner, block, step=p.depth)
        target = k.at(self.part.c, i * p.n + self.part.n0, self.element)
        self.tiles.unpack(self.results, target, p.n, (count, self.part.n1 - self.part.n0), lambda value, _: value)

    def _rows(self, first: Value, last: Value, span: range) -> None:
        by_powers(self.k, self.tiles.rows, self.part.n0, self.part.n1, partial(self._tile, first, last, span))

    def _tile(self, first: Value, last: Value, span: range, j: Value, rows: int) -> None:
        k, p, lanes = self.k, self.o.product, self.tiles.lanes
        at = j - self.part.n0
        lines = [k.opaque(k.at(self.part.b, (j + row) * p.pitch_b + first, self.element)) for row in range(rows)]

        def fresh() -> list[Value]:
            if self.o.bias is None:
                return [self.tiles.zero] * (rows * len(span))
            return [k.splat(k.load(self.o.bias, j + row, self.element), lanes) for row in range(rows) for _ in span]

        def earlier() -> list[Value]:
            return [value for row in range(rows) for value in self.tiles.line(self.results, at + row, span)]

        start = as_tuple(k.when(first.eq(0), fresh, earlier))
        factor, together = (lambda row, at: k.load(lines[row], at, self.element)), _together(self.tiles, rows, span)
        total = self.tiles.product(factor, rows, self.panel, (0, last - first), span, start, together=together)
        for row in range(rows):
            self.tiles.put(total[row * len(span) : (row + 1) * len(span)], self.results, at + row, span)


class _Few:
    """Inner products of a few rows of ``a`` with rows of ``b.T``: a tile of both, whose sums fill one register.

    Where fewer rows are left than a tile has, it computes the last one several times and stores it once.
    """

    rows = 4

    def __init__(self, k: Builder, element: str, o: Operands):
        self.k, self.element, self.o, self.lanes = k, element, o, k.lanes(element)
        self.columns = max(self.lanes // self.rows, 1)

    def unit(self, u: Value) -> None:
        part = self.part = _Parts(self.k, self.element, self.o, u)
        k = self.k

        def column(j: Value) -> None:
            k.loop(part.m0, part.m1, lambda i: self._tile(i, j), step=self.rows)

        k.loop(part.n0, part.n1, column, step=self.columns)

    def _tile(self, i: Value, j: Value) -> None:
        k, p, lanes = self.k, self.o.product, self.lanes
        a = [k.at(self.part.a, k.least(i + row, self.part.m1 - 1) * p.pitch_a, self.element) for row in range(self.rows)]
        b = [k.at(self.part.b, k.least(j + column, self.part.n1 - 1) * p.pitch_b, self.element) for column in range(self.columns)]

        def step(at: Value, mask: Value | None, *total: Value) -> list[Value]:
            lines = [k.load(line, at, self.element, lanes, mask) for line in a]
            sums = list(total)
            for column, line in enumerate(b):
                value = k.load(line, at, self.element, lanes, mask)
                for row, other in enumerate(lines):
                    place = row * self.columns + column
                    sums[place] = k.fma(other, value, total[place])
            return sums

        zero = k.const(0, self.element, lanes)
        total = list(k.vector_loop(0, p.inner, lanes, step, carried=[zero] * (self.rows * self.columns)))
        groups = [total[at : at + lanes] for at in range(0, len(total), lanes)]
        self._store(i, j, [lane_sums(k, group) for group in groups])

    def _store(self, i: Value, j: Value, sums: list[Value]) -> None:
        """A tile's sums, side by side in as many registers as they fill: the columns of its first row, of the second, ..."""
        k, part, columns = self.k, self.part, self.columns
        inside = below(k, part.n1 - j, columns) if columns > 1 else None
        bias = None if self.o.bias is None else k.load(self.o.bias, j, self.element, columns, inside)
        for row in range(self.rows):
            first, group = row * columns % self.lanes, sums[row * columns // self.lanes]
            value = k.extract(group, first) if columns == 1 else k.shuffle(group, range(first, first + columns))
            value = value if bias is None else value + bias
            at = (i + row) * self.o.product.n + j
            k.when(i + row < part.m1, partial(k.store, value, part.c, at, self.element, inside))


def _declared(k: Builder, bias: str) -> Operands:
    return k.arguments(Operands, without=() if bias else ("bias",))


def for_units(k: Builder, p: Any, unit: Callable[[Value], None]) -> None:
    """``unit(number)`` for each of a chunk's units, of which a record of products says how many there are."""
    k.for_chunks(lambda chunk: k.loop(chunk * p.per_chunk, k.least((chunk + 1) * p.per_chunk, p.units), unit))


def launch_units(kernel: Any, units: int, amounts: tuple[int, int], arrays: dict[str, Any], **numbers: int) -> None:
    """Launch a kernel made by ``for_units``: of ``amounts``, an amount of work in all and a chunk's, the chunks follow."""
    total, of_chunk = amounts
    per_chunk = max(1, of_chunk * units // total)
    kernel.launch(-(-units // per_chunk), **arrays, **numbers, units=units, per_chunk=per_chunk)


@kernel
def straight(k: Builder, rows_a: bool, rows_b: bool, element: str, bias: str) -> None:
    """See ``Straight``."""
    o = _declared(k, bias)
    for_units(k, o.product, Straight(k, element, rows_a, rows_b, bias, o).unit)


@kernel
def turned(k: Builder, element: str, bias: str) -> None:
    """See ``_Turned``; a bias is of columns."""
    o = _declared(k, bias)
    for_units(k, o.product, _Turned(k, element, o).unit)


@kernel
def few(k: Builder, element: str, bias: str) -> None:
    """See ``_Few``; a bias is of columns."""
    o = _declared(k, bias)
    for_units(k, o.product, _Few(k, element, o).unit)


# -- plans -----------------------------------------------------------------------------------------------------------------------------
DIVIDED = 1 << 19  # multiply-adds: from here on a product is cut into two parts at least, some 5 us each
PART = 1 << 20  # of a part of larger ones
MOST = 64  # parts
GROUP = 1 << 19  # of small products that make a chunk together
FEW = 16  # rows
STRIDED = 24  # rows from which on rows of ``b`` are copied into panels
# The same where ``b`` has elements so many that they come from beyond the second cache, and rows so far apart that a panel's lines go to a
# few places of the first.
LONG_STRIDED, FAR, APART = 9, 1 << 19, 1 << 10
NEAR = 1 << 13  # elements of ``b`` that stay in the first cache as they are
HEIGHT = 256  # rows of a part: so many of ``a``, ``DEPTH`` deep, fit the second cache
_PANEL = 32  # columns: a multiple of every panel's width


class Matrix(NamedTuple):
    """Layout of the matrices of a batch, in elements; ``pitch`` is that of rows if ``by_rows``, else of columns."""

    by_rows: bool
    pitch: int
    outer: int
    inner: int


def layout(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> Matrix | None:
    """The layout of an array of 2 to 4 dimensions; None where neither rows nor columns have their elements side by side."""
    if any(stride % size for stride in strides):
        return None
    *batch, row, column = [stride // size for stride in strides]
    outer, inner = (batch[0] if len(batch) > 1 else 0), (batch[-1] if batch else 0)
    if column == 1 or shape[-1] == 1:
        return Matrix(True, row, outer, inner)
    return Matrix(False, column, outer, inner) if row == 1 or shape[-2] == 1 else None


def _multiples(size: int, parts: int, step: int) -> int:
    """A multiple of ``step`` of which about ``parts`` cover ``size``."""
    return -(-size // (parts * step)) * step


def _cut(form: str, m: int, n: int, inner: int) -> tuple[int, int]:
    """Rows and columns of a part; by the sizes alone."""
    work = m * n * inner
    parts = 1 if work < DIVIDED else min(max(-(-work // (2 * PART)), 1) * 2, MOST)  # an even number, as two threads share them
    if form == "turned":
        width = min(_multiples(n, min(parts, max(n // 64, 1)), 16), SPAN)
    else:
        width = _multiples(n, min(parts, max(n // _PANEL, 1)), _PANEL)
    left = max(parts // -(-n // width), -(-m // HEIGHT))
    return _multiples(m, min(left, max(m // _PANEL, 1)), _PANEL), width


def is_straight(a: Matrix, b: Matrix, sizes: tuple[int, int, int]) -> bool:
    """Whether products with such operands are computed as they stand."""
    return not (a.by_rows and not b.by_rows and sizes[0] < max(sizes[1], FEW + 1))


def product_of(form: str, a: Matrix, b: Matrix, sizes: tuple[int, int, int], batch: tuple[int, int]) -> tuple[Product, int]:
    """The arguments of a form's kernels that are not arrays, and the number of chunks."""
    m, n, inner = sizes
    height, width = _cut(form, m, n, inner)
    across = -(-n // width)
    parts = across * -(-m // height)
    units = batch[0] * batch[1] * parts
    per_chunk = max(1, GROUP // (m * n * inner)) if parts == 1 else 1
    strided = LONG_STRIDED if n * inner >= FAR and b.pitch >= APART else STRIDED
    product = Product(
        m=m, n=n, inner=inner, pitch_a=a.pitch, pitch_b=b.pitch, heads=batch[1],
        outer_a=a.outer, inner_a=a.inner, outer_b=b.outer, inner_b=b.inner,
        depth=-(-inner // -(-inner // DEPTH)), height=height, width=width, parts=parts, across=across,
        units=units, per_chunk=per_chunk, copied=int(m >= strided and inner * b.pitch > NEAR),
    )  # fmt: skip
    return product, -(-units // per_chunk)


def plan(element: str, a: Matrix, b: Matrix, sizes: tuple[int, int, int], batch: tuple[int, int], bias: str) -> Callable[..., None]:
    """Function ``launch(a, b, c[, bias])``: products of matrices of these ``sizes``, so many as both dimensions of ``batch`` say.

    A ``bias`` of "rows" goes with operands that both lie row by row.
    """
    form = "straight" if is_straight(a, b, sizes) else "few" if sizes[0] <= FEW else "turned"
    by_form: dict[str, Callable[..., Any]] = {"few": few, "turned": turned, "straight": partial(straight, a.by_rows, b.by_rows)}
    product, chunks = product_of(form, a, b, sizes, batch)
    launch: Callable[..., None] = by_form[form](element, bias).call(chunks, *slots_of(Product, product))
    return launch
