"""The kernels of ``split_products``: packing, and blocks of 32 by 32 sums in tiles.

A panel's blocks are packed while others are multiplied, as the processor does both at once:

    block i of the panel    times the first blocks of the other operand, while block i + 1 is packed    times the others
    packed    | a buffer                        | the other one

A step of a block takes 24 products of tiles, 16 cycles each; a ``SHARES``-th of the next block's step is packed in between. That is for
numbers of a line that lie side by side and are not turned. Those of neighbouring lines are read row by row as they lie, or memory takes
longer than all else: a slab of some steps of all blocks is packed beside the products of the slab before it. Where numbers have to be
turned, all blocks of a slab are packed first, and multiplied then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..compiler.arguments import Address, Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .blas import call_gemm
from .microkernel import borrow, give_back
from .products import for_units
from .tile_parts import LARGEST, ORDER, SCALE, Operand, add_products, load_sums, pairs_of, size_of, store_sums
from .tile_registers import FEATURES, ROW, ROWS, TileRegisters
from .tiles import aligned, below, transposed

LINES = 32  # of a block
DEPTH = 32  # numbers of a sum that a tile has
TILE = ROWS * 16  # pairs
PART = 2 * TILE  # of a block, for a step
SHARES = 4  # of a block's packing for a step, at most
HELD = 6  # slabs whose sums are added up before they get into the result, where the next slab is packed meanwhile
AHEAD = 2  # steps whose rows are fetched before they are packed


class Splitting(Record):
    """An operand to pack: ``lines`` are a's rows or b's columns."""

    source: Array
    packed: Array
    inner: Integer
    lines: Integer
    pitch: Integer
    start: Integer  # number of each matrix to begin with
    batch: Integer  # and the first matrix
    heads: Integer  # the second batch dimension; strides of both follow
    outer_step: Integer
    inner_step: Integer
    blocks: Integer  # of a matrix
    steps: Integer
    notes: Integer  # where the largest numbers of chunks go
    units: Integer  # blocks times steps of all matrices
    per_chunk: Integer


class _Splitter:
    """Packs blocks by steps: ``along`` says that the numbers of a line lie side by side, else those of neighbouring lines do.

    ``is_second``: a tile's row has the pair of 16 lines, where it is 16 pairs of one line for the first operand.
    """

    def __init__(self, k: Builder, along: bool, is_second: bool, parts: int):
        self.k, self.along, self.turns, self.parts = k, along, along == is_second, parts

    def block(self, source: Value, pitch: Value, lines: Value, inner: Value, target: Value, largest: Value) -> Value:
        """Pack the block at ``source``, of which there are so many ``lines`` and ``inner`` numbers; the new ``largest``."""
        k = self.k
        masks = [below(k, (inner if self.along else lines) - 16 * half, 16) for half in range(2)]

        def read(half: int, at: Any, place: int) -> Value:
            """16 neighbours: in a line from number 16 ``place`` on, or of lines from 16 ``half`` on, ``at`` counts the others."""
            if self.along:
                line = at + 16 * half
                return k.load(source, line * pitch + 16 * place, "f32", 16, masks[place] & k.splat(line < lines, 16))
            number = at + 16 * place
            return k.load(source, number * pitch + 16 * half, "f32", 16, masks[half] & k.splat(number < inner, 16))

        def straight(at: Value, largest: Value) -> Value:
            for half in range(2):
                largest = self._put(read(half, at, 0), read(half, at, 1), k.at(target, at * 16 + half * TILE, "i32"), largest)
            return largest

        if not self.turns:
            return k.loop(0, 16, straight, carried=[largest])
        for half in range(2):
            first, second = (transposed(k, [read(half, k.const(at, "i64"), place) for at in range(16)]) for place in range(2))
            for row in range(16):
                largest = self._put(first[row], second[row], k.at(target, row * 16 + half * TILE, "i32"), largest)
        return largest

    def share(
        self, source: Value, pitch: Value, lines: Value, inner: Value, target: Value, number: Value, shares: int
    ) -> list[Callable[..., Value]]:
        """Share ``number`` of what ``block`` does with numbers that are not turned: functions of ``largest`` that return the new one."""
        k, rows = self.k, LINES // shares
        masks = [below(k, (inner if self.along else lines) - 16 * half, 16) for half in range(2)]

        def of_line(at: int, largest: Value) -> Value:
            line = number * rows + at
            pair = [k.load(source, line * pitch + 16 * i, "f32", 16, masks[i] & k.splat(line < lines, 16)) for i in range(2)]
            return self._put(pair[0], pair[1], k.at(target, line * 16, "i32"), largest)

        def of_neighbours(at: int, largest: Value) -> Value:
            row, half = number * (rows // 2) + at // 2, at % 2
            numbers = [row + 16 * place for place in range(2)]
            pair = [k.load(source, i * pitch + 16 * half, "f32", 16, masks[half] & k.splat(i < inner, 16)) for i in numbers]
            for i in numbers:
                k.prefetch(source, (i + AHEAD * DEPTH) * pitch + 16 * half, "f32")
            return self._put(pair[0], pair[1], k.at(target, row * 16 + half * TILE, "i32"), largest)

        return [partial(of_line if self.along else of_neighbours, at) for at in range(rows)]

    def blocks(
        self, source: Value, pitch: Value, sizes: tuple[Value, Value], span: tuple[Value, ...], target: Value, largest: Value
    ) -> Any:
        """Pack blocks behind each other: ``span`` is their number, the first step and how many; ``sizes`` are all lines and numbers."""
        k, (lines, inner), (number, first, count) = self.k, sizes, span

        def one(block: Value, step: Value, largest: Value) -> Value:
            line, at = block * LINES, (first + step) * DEPTH
            place = k.at(source, line * pitch + at if self.along else at * pitch + line, "f32")
            return self.block(
                place, pitch, lines - line, inner - at, k.at(target, (block * count + step) * (self.parts * PART), "i32"), largest
            )

        if self.along:
            return k.loop(0, number, lambda b, v: k.loop(0, count, partial(one, b), carried=[v]), carried=[largest])
        return k.loop(0, count, lambda s, v: k.loop(0, number, lambda b, v: one(b, s, v), carried=[v]), carried=[largest])

    def _put(self, first: Value, second: Value, row: Value, largest: Value) -> Value:
        """Store the parts of pairs of numbers as rows of tiles."""
        k = self.k
        for value in (first, second):
            largest = k.most(largest, size_of(k, value))
        for part, pairs in enumerate(pairs_of(k, first, second, min(self.parts + 1, 3))[: self.parts]):
            k.store(pairs, row, part * PART, "u32")
        return largest


@kernel
def split(k: Builder, along: bool, is_second: bool, parts: int) -> None:
    """Pack an operand, or a part of it. A unit is a block by a step; each chunk notes its largest number's bits behind the blocks."""
    o = k.arguments(Splitting)
    packed, splitter = aligned(k, o.packed), _Splitter(k, along, is_second, parts)

    def unit(u: Value, largest: Value) -> Value:
        batch, rest = u // (o.blocks * o.steps), u % (o.blocks * o.steps)
        block, step = (rest // o.steps, rest % o.steps) if along else (rest % o.blocks, rest // o.blocks)
        line, number = block * LINES, step * DEPTH
        matrix = o.batch + batch
        start = o.start + matrix // o.heads * o.outer_step + matrix % o.heads * o.inner_step
        at = line * o.pitch + number if along else number * o.pitch + line
        target = k.at(packed, ((batch * o.blocks + block) * o.steps + step) * (parts * PART), "i32")
        return splitter.block(k.at(o.source, start + at, "f32"), o.pitch, o.lines - line, o.inner - number, target, largest)

    def chunk(c: Value) -> None:
        last = k.least((c + 1) * o.per_chunk, o.units)
        largest = k.loop(c * o.per_chunk, last, unit, carried=[k.const(0, "u32", 16)])
        k.store(k.fold(largest, k.most), packed, o.notes + c, "u32")

    k.for_chunks(chunk)


class Product(Record):
    """``c = x @ y (+ bias)`` for each matrix of a batch, and the library's words for how ``x`` and ``y`` lie."""

    function: Address
    form_x: Integer
    form_y: Integer
    pitch_x: Integer
    pitch_y: Integer
    row_x: Integer  # step to the next row
    column_y: Integer  # to the next column
    heads: Integer
    outer_x: Integer
    inner_x: Integer
    outer_y: Integer
    inner_y: Integer
    m: Integer
    n: Integer
    inner: Integer
    before: Integer  # steps whose sums are in ``c``
    steps: Integer  # after them
    slab: Integer  # steps whose sums stay in tiles
    down: Integer  # blocks of rows
    across: Integer
    height: Integer  # of a part, in blocks
    width: Integer
    parts: Integer  # of a product
    parts_across: Integer  # of them side by side
    batch: Integer  # product to begin with
    units: Integer
    per_chunk: Integer


class Packed(Record):
    """A product, or some steps of it, with operands that are packed."""

    a: Array
    b: Array
    x: Array
    y: Array
    c: Array
    bias: Array
    product: Product
    size_a: Integer  # behind which the noted sizes are, and how many
    size_b: Integer
    notes_a: Integer
    notes_b: Integer
    is_last: Integer  # whether no more steps follow


class Whole(Record):
    """Small products, whose operands are packed into a piece of scratch memory, see ``borrow``."""

    x: Array
    y: Array
    c: Array
    bias: Array
    scratch: Array
    flags: Array
    product: Product
    pieces: Integer
    size: Integer  # of a piece


class Panels(Record):
    """A product of an operand that is packed and one whose parts are packed into a piece of scratch memory each."""

    packed: Array
    x: Array
    y: Array
    c: Array
    bias: Array
    scratch: Array
    flags: Array
    product: Product
    size_packed: Integer  # behind which the noted sizes are, and how many
    notes: Integer
    pieces: Integer
    size: Integer  # of a piece


class Held(NamedTuple):
    """Memory where a block's sums are kept from slab to slab, and whether the slab is the first and the last one that adds to them.

    ``is_first``: whether none are in the result.
    """

    sums: Value
    begins: Value
    ends: Value
    is_first: Value


class _Blocks:
    """Blocks of sums of one product, and the library's way; see ``Packed``, ``Whole`` and ``Panels`` for ``o``."""

    def __init__(self, k: Builder, o: Any, parts: int, by_columns: bool = False):
        self.k, self.o, self.p, self.parts, self.size, self.by_columns = k, o, o.product, parts, parts * PART, by_columns
        self.tiles, self.sums = TileRegisters(k), k.scratch(4 * TILE, "f32")

    def part(self, u: Value) -> None:
        """Look at the part of a product that unit ``u`` is."""
        k, o, p = self.k, self.o, self.p
        self.number, part = u // p.parts, u % p.parts
        batch = p.batch + self.number
        outer, head = batch // p.heads, batch % p.heads
        self.x = k.at(o.x, outer * p.outer_x + head * p.inner_x, "f32")
        self.y = k.at(o.y, outer * p.outer_y + head * p.inner_y, "f32")
        self.c = k.at(o.c, batch * (p.m * p.n), "f32")
        self.i0, self.j0 = part // p.parts_across * p.height, part % p.parts_across * p.width
        self.i1, self.j1 = k.least(self.i0 + p.height, p.down), k.least(self.j0 + p.width, p.across)

    def by_library(self) -> None:
        k, o, p = self.k, self.o, self.p
        m0, n0 = self.i0 * LINES, self.j0 * LINES
        sizes = k.least(self.i1 * LINES, p.m) - m0, k.least(self.j1 * LINES, p.n) - n0, p.inner
        left, right = k.at(self.x, m0 * p.row_x, "f32"), k.at(self.y, n0 * p.column_y, "f32")
        if self.by_columns:
            forms, pitches, operands = (p.form_y, p.form_x), (p.pitch_y, p.pitch_x), (right, left, k.at(self.c, n0 * p.m + m0, "f32"))
            call_gemm(k, "f32", p.function, (sizes[1], sizes[0], p.inner), forms, pitches, operands, p.m, None)
            return
        operands = left, right, k.at(self.c, m0 * p.n + n0, "f32")
        bias = None if o.bias is None else k.at(o.bias, n0, "f32")
        call_gemm(k, "f32", p.function, sizes, (p.form_x, p.form_y), (p.pitch_x, p.pitch_y), operands, p.n, bias)

    def slabs(self, body: Callable[..., Any], carried: tuple[Value, ...] = ()) -> Any:
        """``body(first, count, *carried)`` for so many steps at a time."""
        k, p = self.k, self.p
        return k.loop(0, p.steps, lambda first, *v: body(first, k.least(p.slab, p.steps - first), *v), step=p.slab, carried=carried)

    def slab(self, a: Value, b: Value, pitch: Value, first: Value, count: Value) -> None:
        """Blocks of sums over ``count`` steps, ``first`` on; packed blocks begin ``pitch`` steps apart."""
        k = self.k

        def places(i: Value, j: Value) -> list[Value]:
            return [k.at(side, block * pitch * self.size, "i32") for side, block in ((a, i), (b, j))]

        def one(i: Value, j: Value) -> None:
            is_end = i + 1 >= self.i1
            following = places(k.select(is_end, self.i0, i + 1), k.select(is_end, j + 1, j))
            self.block(places(i, j), following, (i, j), first, count)

        k.loop(self.j0, self.j1, lambda j: k.loop(self.i0, self.i1, lambda i: one(i, j)))

    def block(
        self,
        starts: list[Value],
        following: list[Value],
        place: tuple[Value, Value],
        first: Value,
        count: Value,
        share: Callable[[Value], list[Callable[..., Value]]] | None = None,
        largest: Value | None = None,
        *,
        held: Held | None = None,
    ) -> Any:
        """The block of sums at a place, and meanwhile the first lines of the one after it.

        Args:
            starts, following: where the packed blocks begin, and those of the block after it.
            share: the pieces of what else is done at a step, from a ``largest`` to a new one, which is the result.
            held: where sums are kept from slab to slab, if they are.
        """
        k, tiles = self.k, self.tiles

        def step(at: Value, *carried: Value) -> Any:
            sides = [k.at(side, at * self.size, "i32") for side in starts]
            ahead = [k.select(at + 1 < count, k.at(side, self.size, "i32"), after) for side, after in zip(sides, following, strict=True)]
            lines = [(side, line * 16) for side in ahead for line in range(self.size // 16)]
            pieces, turns, state = [] if share is None else share(at), len(ORDER[self.parts]), list(carried)

            def meanwhile(number: int) -> None:
                """A share of the next step's lines, or of the next block's first ones, into the first cache, and of the pieces."""
                for side, line in lines[number::turns]:
                    k.prefetch(side, line, "i32")
                for piece in pieces[number * len(pieces) // turns : (number + 1) * len(pieces) // turns]:
                    state[0] = piece(state[0])

            one, other = (Operand(side, "i32", PART, TILE, ROW) for side in sides)
            add_products(tiles, self.parts, one, other, meanwhile)
            return tuple(state)

        def clear() -> None:
            tiles.clear(range(4))

        def finish(begins: Value) -> None:
            for tile in range(4):
                tiles.store(tile, k.at(self.sums, tile * TILE, "f32"))
            i, j = (each * LINES for each in place)
            k.when(begins, *[partial(self._put, i, j, is_first) for is_first in (True, False)])

        if held is None:
            clear()
        else:
            k.when(held.begins, clear, lambda: load_sums(tiles, held.sums))
        result = k.loop(0, count, step, carried=() if largest is None else (largest,))
        if held is None:
            finish((self.p.before + first).eq(0))
        else:
            k.when(held.ends, lambda: finish(held.is_first), lambda: store_sums(tiles, held.sums))
        return result

    def _put(self, i: Value, j: Value, is_first: bool) -> None:
        """Scale the sums back, and add them to the bias or to those of earlier slabs."""
        if self.by_columns:
            self.k.loop(0, 4, partial(self._put_tile, i, j, is_first))
            return
        k, p, bias = self.k, self.p, self.o.bias
        masks = [below(k, p.n - j - 16 * half, 16) for half in range(2)]
        zero = k.const(0, "f32", 16)
        biases = [zero if bias is None else k.load(bias, j + 16 * half, "f32", 16, masks[half]) for half in range(2)]

        def row(r: Value) -> None:
            for half in range(2):
                value = k.load(self.sums, (r // ROWS * 2 + half) * TILE + r % ROWS * 16, "f32", 16)
                at = (i + r) * p.n + j + 16 * half
                before = biases[half] if is_first else k.load(self.c, at, "f32", 16, masks[half])
                k.store(k.fma(value, SCALE**-2, before), self.c, at, "f32", masks[half])

        k.loop(0, k.least(p.m - i, LINES), row)

    def _put_tile(self, i: Value, j: Value, is_first: bool, tile: Value) -> None:
        """The same for a tile of a result that lies column by column."""
        k, p = self.k, self.p
        i, j = i + tile // 2 * ROWS, j + tile % 2 * ROWS
        mask = below(k, p.m - i, 16)
        columns = transposed(k, [k.load(self.sums, tile * TILE + line * 16, "f32", 16) for line in range(ROWS)])
        for number, value in enumerate(columns):
            at, inside = (j + number) * p.m + i, mask & k.splat(j + number < p.n, 16)
            before = k.const(0, "f32", 16) if is_first else k.load(self.c, at, "f32", 16, inside)
            k.store(k.fma(value, SCALE**-2, before), self.c, at, "f32", inside)


def _noted(k: Builder, packed: Value, size: Value, notes: Value) -> Value:
    """The bits of the largest number of a packed operand."""
    return k.loop(0, notes, lambda at, most: k.most(most, k.load(packed, size + at, "u32")), carried=[k.const(0, "u32")])


@kernel
def split_product(k: Builder, has_bias: bool, parts: int) -> None:
    """Products of packed operands. The library's are whole, after the last steps."""
    k.features = FEATURES
    o = k.arguments(Packed, without=() if has_bias else ("bias",))
    blocks, p, a, b = _Blocks(k, o, parts), o.product, aligned(k, o.a), aligned(k, o.b)

    is_large = k.most(_noted(k, a, o.size_a, o.notes_a), _noted(k, b, o.size_b, o.notes_b)) >= LARGEST

    def by_tiles() -> None:
        left, right = (k.at(side, blocks.number * each * p.steps * blocks.size, "i32") for side, each in ((a, p.down), (b, p.across)))

        def slab(first: Value, count: Value) -> None:
            a, b = (k.at(side, first * blocks.size, "i32") for side in (left, right))
            blocks.slab(a, b, p.steps, first, count)

        blocks.slabs(slab)

    def unit(u: Value) -> None:
        blocks.part(u)
        k.when(is_large, lambda: k.when(o.is_last.ne(0), blocks.by_library), partial(blocks.tiles.within, by_tiles))

    for_units(k, p, unit)


@kernel
def split_whole(k: Builder, along: tuple[bool, bool], has_bias: bool, parts: int) -> None:
    """Products of a part each, a slab of whose operands is packed and multiplied before the next one."""
    k.features = FEATURES
    o = k.arguments(Whole, without=() if has_bias else ("bias",))
    blocks, p = _Blocks(k, o, parts), o.product
    splitters = [_Splitter(k, each, is_second, parts) for each, is_second in zip(along, (False, True), strict=True)]
    piece = borrow(k, o.flags, o.pieces)
    left = k.at(aligned(k, o.scratch), piece * o.size, "i32")
    right = k.at(left, p.height * p.slab * blocks.size, "i32")

    def unit(u: Value) -> None:
        blocks.part(u)
        i0, j0 = blocks.i0, blocks.j0
        operands = (
            (k.at(blocks.x, i0 * LINES * p.row_x, "f32"), p.pitch_x, p.m - i0 * LINES, blocks.i1 - i0, left),
            (k.at(blocks.y, j0 * LINES * p.column_y, "f32"), p.pitch_y, p.n - j0 * LINES, blocks.j1 - j0, right),
        )

        def slab(first: Value, count: Value, largest: Value) -> Value:
            for splitter, (source, pitch, lines, number, target) in zip(splitters, operands, strict=True):
                largest = splitter.blocks(source, pitch, (lines, p.inner), (number, first, count), target, largest)
            # places of blocks count from those of the whole product
            a, b = (k.at(side, (0 - begin) * count * blocks.size, "i32") for side, begin in ((left, i0), (right, j0)))
            blocks.slab(a, b, count, first, count)
            return largest

        largest = blocks.tiles.within(lambda: blocks.slabs(slab, (k.const(0, "u32", 16),)))
        k.when(k.fold(largest, k.most) >= LARGEST, blocks.by_library)

    for_units(k, p, unit)
    give_back(k, o.flags, piece)


class _Panel:
    """Blocks of a part's operand ``own``, in two buffers by turns.

    Numbers of a line side by side: a block is packed beside the products of the one before it. Numbers of neighbouring lines side by side:
    a slab of all blocks is, row by row as they lie, beside those of the slab before it. Where they are turned, slabs are packed first.
    """

    def __init__(self, blocks: _Blocks, own: int, along: bool, shares: int, packed: Value, buffers: Value):
        k, p = blocks.k, blocks.p
        self.k, self.p, self.products, self.own, self.shares = k, p, blocks, own, shares
        self.splitter = _Splitter(k, along, own == 1, blocks.parts)
        self.packed, self.buffers = packed, buffers
        self.steps = k.least(p.slab, p.steps)  # of a block in a buffer

    def unit(self) -> None:
        """All sums of the part that ``blocks`` look at, or the library's."""
        k, p, products = self.k, self.p, self.products
        spans = (products.i0, products.i1), (products.j0, products.j1)
        (self.first, self.last), (self.begin, self.end) = spans[self.own], spans[1 - self.own]
        self.source, self.lines, self.pitch, each = (
            (products.x, p.m, p.pitch_x, p.across),
            (products.y, p.n, p.pitch_y, p.down),
        )[self.own]
        self.other = k.at(self.packed, products.number * each * p.steps * products.size, "i32")
        none, largest, slab = k.const(0, "i64"), k.const(0, "u32", 16), self._packed_before
        if not self.splitter.turns and self.splitter.along:
            slab = self._block_by_block
            largest = k.loop(0, self.steps, lambda at, v: self.splitter.block(*self._step(self.first, at, at), v), carried=[largest])
        elif not self.splitter.turns:
            slab = self._slab_by_slab
            largest = self._packed(none, self.steps, largest)
        largest = products.slabs(slab, (largest,))
        k.when(k.fold(largest, k.most) >= LARGEST, products.by_library)

    def _step(self, block: Value, number: Value, at: Value) -> tuple[Value, Value, Value, Value, Value]:
        """For the splitter: step ``number`` of a block, which is step ``at`` of the buffers."""
        k, line, first = self.k, block * LINES, number * DEPTH
        start = line * self.pitch + first if self.splitter.along else first * self.pitch + line
        target = k.at(self.buffers, at * self.products.size, "i32")
        return k.at(self.source, start, "f32"), self.pitch, self.lines - line, self.p.inner - first, target

    def _packed(self, start: Value, count: Value, largest: Value) -> Value:
        """Pack a slab of all blocks into the first buffer."""
        k, blocks = self.k, self.last - self.first
        source = k.at(self.source, self.first * LINES * (self.pitch if self.splitter.along else 1), "f32")
        sizes = self.lines - self.first * LINES, self.p.inner
        packed: Value = self.splitter.blocks(source, self.pitch, sizes, (blocks, start, count), self.buffers, largest)
        return packed

    def _packed_before(self, start: Value, count: Value, largest: Value) -> Value:
        largest = self._packed(start, count, largest)
        self.k.loop(self.begin, self.end, partial(self._line, start, count, count, self.buffers, None, None))
        return largest

    def _line(
        self,
        start: Value,
        count: Value,
        pitch: Value,
        buffer: Value,
        share: Callable[..., Any] | None,
        held: Held | None,
        other: Value,
        *largest: Value,
    ) -> Any:
        """The sums of all blocks and one of the other operand; blocks begin ``pitch`` steps apart."""
        k = self.k

        def one(own: Value, *largest: Value) -> Any:
            is_last = own + 1 >= self.last
            mine, after = (k.at(buffer, (each - self.first) * pitch * self.products.size, "i32") for each in (own, own + 1))
            ahead = [k.select(is_last, buffer, after), self._there(start, k.select(is_last, other + 1, other))]
            pack, kept = share and partial(share, own, other), held
            if kept is not None:
                number = (other - self.begin) * (self.last - self.first) + (own - self.first)
                kept = kept._replace(sums=k.at(kept.sums, number * (4 * TILE), "f32"))
            return self._block([mine, self._there(start, other)], ahead, (own, other), start, count, pack, *largest, held=kept)

        return k.loop(self.first, self.last, one, carried=largest)

    def _slab_by_slab(self, start: Value, count: Value, largest: Value) -> Value:
        """The sums of a slab, while the next one is packed: first some rows of all blocks, then the rows behind them."""
        k, p, blocks = self.k, self.p, self.last - self.first
        number, following = start // p.slab, start + p.slab
        mine, after = (blocks * self.steps * each for each in (number & 1, 1 - (number & 1)))
        turn = number % HELD
        held = Held(
            sums=k.at(self.buffers, 2 * blocks * self.steps * self.products.size, "i32"),
            begins=turn.eq(0),
            ends=turn.eq(HELD - 1) | (following >= p.steps),
            is_first=number < HELD,
        )

        def share(own: Value, other: Value, at: Value) -> list[Callable[..., Value]]:
            turn = ((other - self.begin) * blocks + (own - self.first)) * count + at
            step, rest = turn // (blocks * self.shares), turn % (blocks * self.shares)
            part, block = rest // blocks, rest % blocks
            return self.splitter.share(
                *self._step(self.first + block, following + step, after + block * self.steps + step), part, self.shares
            )

        line = partial(self._line, start, count, self.steps, k.at(self.buffers, mine * self.products.size, "i32"))
        some = k.select(following < p.steps, self.begin + self.shares, self.begin)
        largest = k.loop(self.begin, some, partial(line, share, held), carried=[largest])
        k.loop(some, self.end, partial(line, None, held))
        return largest

    def _block_by_block(self, start: Value, count: Value, largest: Value) -> Value:
        return self.k.loop(self.first, self.last, partial(self._beside, start, count), carried=[largest])

    def _beside(self, start: Value, count: Value, own: Value, largest: Value) -> Value:
        """The sums of a block, while the next one is packed, or the next slab's first one."""
        k, p, size = self.k, self.p, self.products.size
        number, is_end = start // p.slab * (self.last - self.first) + own - self.first, own + 1 >= self.last
        buffer = number & 1
        mine, after = (k.at(self.buffers, p.slab * each * size, "i32") for each in (buffer, 1 - buffer))
        following, following_start = k.select(is_end, self.first, own + 1), k.select(is_end, start + p.slab, start)

        def one(share: Any, other: Value, *largest: Value) -> Any:
            is_last = other + 1 >= self.end
            ahead = [k.select(is_last, after, mine), self._there(start, k.select(is_last, self.begin, other + 1))]
            pack = share and (lambda at: share(at, other - self.begin))
            return self._block([mine, self._there(start, other)], ahead, (own, other), start, count, pack, *largest)

        def share(at: Value, part: Value) -> list[Callable[..., Value]]:
            return self.splitter.share(*self._step(following, following_start + at, p.slab * (1 - buffer) + at), part, self.shares)

        some = self.begin + self.shares
        largest = k.loop(self.begin, some, partial(one, share), carried=[largest])
        k.loop(some, self.end, partial(one, None))
        return largest

    def _there(self, start: Value, other: Value) -> Value:
        """The place of a block of the other operand."""
        return self.k.at(self.other, (other * self.p.steps + start) * self.products.size, "i32")

    def _block(self, starts: list[Value], ahead: list[Value], place: tuple[Value, Value], *others: Any, held: Held | None = None) -> Any:
        """``_Blocks.block`` for what belongs to the own operand and to the other one."""
        if self.own:
            starts, ahead, place = starts[::-1], ahead[::-1], (place[1], place[0])
        return self.products.block(starts, ahead, place, *others, held=held)


@kernel
def split_panels(k: Builder, own: int, along: bool, has_bias: bool, parts: int, shares: int, by_columns: bool) -> None:
    """Products with a packed operand, a part each, that packs its blocks of operand ``own``, which lies ``along``.

    Args:
        shares: those that a block is packed in, one beside each of the first products with a block of the other operand.
        by_columns: whether the result lies column by column.
    """
    k.features = FEATURES
    o = k.arguments(Panels, without=() if has_bias else ("bias",))
    blocks, packed, piece = _Blocks(k, o, parts, by_columns), aligned(k, o.packed), borrow(k, o.flags, o.pieces)
    panel = _Panel(blocks, own, along, shares, packed, k.at(aligned(k, o.scratch), piece * o.size, "i32"))
    is_large = _noted(k, packed, o.size_packed, o.notes) >= LARGEST

    def unit(u: Value) -> None:
        blocks.part(u)
        k.when(is_large, blocks.by_library, partial(blocks.tiles.within, panel.unit))

    for_units(k, o.product, unit)
    give_back(k, o.flags, piece)
