"""Products of float32 matrices by the processor's tiles of bfloat16 (AMX): at float32's accuracy, and quicker than float32 itself.

A float32 number is the sum of three bfloat16 numbers, each the nearest to what is left; their products add up in float32:

    x = high + middle + low                 8 + 8 + 8 bits
    a b = low high + middle high            what is left out, middle low + low middle + low low,
        + middle middle + high middle       is below 2**-24 |a b|, in the mean 2**-27
        + high low + high high

    packed     both operands in blocks of ``LINES`` rows of the first, or columns of the second, and ``DEPTH`` numbers of the sums: for
               each of the three parts two tiles, whose rows have a cache line each. Numbers i and i + 16 of a sum make a pair.
    split      packs an operand, whichever way it lies, and notes the largest size that it met
    product    blocks of 32 by 32 sums in four tiles, parts of a few blocks down and across
    whole      both, for batches and small matrices: each part packs its own operands, into memory that stays in the second cache
    panels     the smaller operand is packed before; a part has some blocks of the other's, which it packs itself, and all of the first's

Packed operands have 6 bytes a number. Where the smaller one is larger than ``SHARED``, both are packed before; where they are larger than
``ROOM``, some matrices of a batch, or some slabs of the sums, are packed and multiplied before others.

Operands are scaled by ``2**24`` each and the sums back: then no part of any float32 number is subnormal, which these instructions would
take for zero, and none of the sums but what float32 has no number for. Where a size is ``2**32`` or above, infinite or NaN, the product
is the library's, called from the same kernel: so a product is the same launches whatever its operands hold.

Where ``torch.set_float32_matmul_precision`` asks for no more than "medium", numbers have one part, with an error of ``2**-8`` of each
product.

``plan`` gives the launches for matrices of given layouts, ``pays`` says for which sizes they are worth it; callers with arrays call
``gemm.multiply`` or ``multiply_into``, which ask both. The order of additions follows from the sizes alone, not from threads.

Error: at most ``(n / 5 + 20) u |a| @ |b|`` for n terms, ``u = 2**-24``: sixteen products are added in one chain, two such chains to each
other and then to the sum, six times for 32 terms. For normal numbers that is half of the library's error, for sums that few products
outweigh about the same. Products of whole numbers are exact where ``|a| @ |b|`` is below ``0.98 * 2**24``.

Source: Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..compiler.arguments import Address, Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from ..compiler.pool import pool
from .blas import call_gemm
from .microkernel import borrow, give_back
from .products import for_units
from .tile_parts import LARGEST, ORDER, SCALE, Operand, add_products, pairs_of, size_of
from .tile_registers import FEATURES, ROW, ROWS, TileRegisters
from .tiles import aligned, below, transposed

LINES = 32  # of a block
DEPTH = 32  # numbers of a sum that a tile has
PARTS = {"highest": 3, "high": 3, "medium": 1}  # of a number, by the precision that float32 products are to have
TILE = ROWS * 16  # pairs
PART = 2 * TILE  # of a block, for a step
SLAB = 24  # steps of ``DEPTH`` numbers whose sums stay in tiles, at most
SIDE = 4  # blocks of a part down and across: both operands' slabs fit the second cache
FIT = 170  # blocks times steps, 6 KB each, that are packed and multiplied before others: they stay in the second cache
ALONE = 1 << 24  # multiply-adds of a product that is cut into halves at most
FEW = 8  # parts of a product that are cut smaller
LEAST = 1 << 20  # multiply-adds of a part, at least
# Picoseconds of a product's launches and of a number to pack, where each part packs its own, else into the second cache or outside of it;
# of a block and of its steps; of an operation on a result; of a multiply-add elsewhere, in kernels or by the library, less what these gain
# more by a second thread: most beside a product that is cut into halves.
STARTED, PACKED, CLOSE = (1_500_000, 5_000_000, 5_000_000), (200, 250, 450), 1 << 18
BLOCK_STORED, BLOCK_MULTIPLIED, FINISHED = 100_000, 142_000, 250
OTHER_OF_HALVES, OTHER, OTHER_BY_LIBRARY, LIBRARY = 8.5, 9.5, 12.8, 1 << 25
CHUNK = 32  # blocks by steps of a chunk of packing
ROOM = 1 << 25  # bytes of packed operands, unless one slab of one product has more
SHARED = 1 << 23  # bytes of a packed operand that all panels read
_NARROW = np.dtype(ml_dtypes.bfloat16)


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


class _Blocks:
    """Blocks of sums of one product, and the library's way; see ``Packed``, ``Whole`` and ``Panels`` for ``o``."""

    def __init__(self, k: Builder, o: Any, parts: int):
        self.k, self.o, self.p, self.parts, self.size = k, o, o.product, parts, parts * PART
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
        operands = k.at(self.x, m0 * p.row_x, "f32"), k.at(self.y, n0 * p.column_y, "f32"), k.at(self.c, m0 * p.n + n0, "f32")
        bias = None if o.bias is None else k.at(o.bias, n0, "f32")
        call_gemm(k, "f32", p.function, sizes, (p.form_x, p.form_y), (p.pitch_x, p.pitch_y), operands, p.n, bias)

    def slabs(self, body: Callable[..., Any], carried: tuple[Value, ...] = ()) -> Any:
        """``body(first, count, *carried)`` for so many steps at a time."""
        k, p = self.k, self.p
        return k.loop(0, p.steps, lambda first, *v: body(first, k.least(p.slab, p.steps - first), *v), step=p.slab, carried=carried)

    def slab(self, sides: tuple[Value, Value], pitches: tuple[Value, Value], first: Value, count: Value, inside: int = 0) -> None:
        """Blocks of sums over ``count`` steps, ``first`` on.

        Args:
            sides, pitches: packed operands, and how many steps apart their blocks begin.
            inside: the one to go through for each block of the other.
        """
        k, ends = self.k, ((self.i0, self.i1), (self.j0, self.j1))

        def line(outer: Value) -> None:
            def one(inner: Value) -> None:
                is_end, begin = inner + 1 >= ends[inside][1], ends[inside][0]
                after = k.select(is_end, begin, inner + 1), k.select(is_end, outer + 1, outer)
                here, following = ((pair[inside], pair[1 - inside]) for pair in ((inner, outer), after))
                self._block(sides, pitches, here, following, first, count)

            k.loop(*ends[inside], one)

        k.loop(*ends[1 - inside], line)

    def _block(
        self,
        sides: tuple[Value, Value],
        pitches: tuple[Value, Value],
        place: tuple[Value, Value],
        after: tuple[Value, Value],
        first: Value,
        count: Value,
    ) -> None:
        """The block at a place, and meanwhile the first lines of the one after it."""
        k, tiles, (i, j) = self.k, self.tiles, place
        starts, following = (
            [k.at(side, block * pitch * self.size, "i32") for side, block, pitch in zip(sides, blocks, pitches, strict=True)]
            for blocks in (place, after)
        )

        def step(at: Value) -> None:
            sides = [k.at(side, at * self.size, "i32") for side in starts]
            ahead = [k.select(at + 1 < count, k.at(side, self.size, "i32"), after) for side, after in zip(sides, following, strict=True)]
            lines = [(side, line * 16) for side in ahead for line in range(self.size // 16)]

            def fetch(number: int) -> None:
                """A share of the next step's lines, or of the next block's first ones, into the first cache."""
                for side, line in lines[number :: len(ORDER[self.parts])]:
                    k.prefetch(side, line, "i32")

            one, other = (Operand(side, "i32", PART, TILE, ROW) for side in sides)
            add_products(tiles, self.parts, one, other, fetch)

        tiles.clear(range(4))
        k.loop(0, count, step)
        for tile in range(4):
            tiles.store(tile, k.at(self.sums, tile * TILE, "f32"))
        k.when((self.p.before + first).eq(0), *[partial(self._put, i * LINES, j * LINES, is_first) for is_first in (True, False)])

    def _put(self, i: Value, j: Value, is_first: bool) -> None:
        """Scale the sums back, and add them to the bias or to those of earlier slabs."""
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
            blocks.slab((a, b), (p.steps, p.steps), first, count)

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
            blocks.slab((a, b), (count, count), first, count)
            return largest

        largest = blocks.tiles.within(lambda: blocks.slabs(slab, (k.const(0, "u32", 16),)))
        k.when(k.fold(largest, k.most) >= LARGEST, blocks.by_library)

    for_units(k, p, unit)
    give_back(k, o.flags, piece)


@kernel
def split_panels(k: Builder, own: int, along: bool, has_bias: bool, parts: int) -> None:
    """Products with a packed operand, a part each: it packs a slab of its blocks of operand ``own``, which lies ``along``, at a time."""
    k.features = FEATURES
    o = k.arguments(Panels, without=() if has_bias else ("bias",))
    blocks, p, splitter = _Blocks(k, o, parts), o.product, _Splitter(k, along, own == 1, parts)
    packed, piece = aligned(k, o.packed), borrow(k, o.flags, o.pieces)
    target = k.at(aligned(k, o.scratch), piece * o.size, "i32")
    is_large = _noted(k, packed, o.size_packed, o.notes) >= LARGEST

    def unit(u: Value) -> None:
        blocks.part(u)
        first, last, step, lines, pitch, each, source = (
            (blocks.i0, blocks.i1, p.row_x, p.m, p.pitch_x, p.across, blocks.x),
            (blocks.j0, blocks.j1, p.column_y, p.n, p.pitch_y, p.down, blocks.y),
        )[own]
        source, lines = k.at(source, first * LINES * step, "f32"), lines - first * LINES
        other = k.at(packed, blocks.number * each * p.steps * blocks.size, "i32")

        def slab(start: Value, count: Value, largest: Value) -> Value:
            largest = splitter.blocks(source, pitch, (lines, p.inner), (last - first, start, count), target, largest)
            mine = k.at(target, (0 - first) * count * blocks.size, "i32"), count  # places of blocks count from those of the whole product
            sides = mine, (k.at(other, start * blocks.size, "i32"), p.steps)
            (a, b), pitches = zip(*(sides if own == 0 else reversed(sides)), strict=True)
            blocks.slab((a, b), pitches, start, count, own)
            return largest

        def by_tiles() -> None:
            largest = blocks.tiles.within(lambda: blocks.slabs(slab, (k.const(0, "u32", 16),)))
            k.when(k.fold(largest, k.most) >= LARGEST, blocks.by_library)

        k.when(is_large, blocks.by_library, by_tiles)

    for_units(k, p, unit)
    give_back(k, o.flags, piece)


# -- plans -----------------------------------------------------------------------------------------------------------------------------
class Layout(NamedTuple):
    """Layout of an operand's matrices: CBLAS's word, its leading dimension, steps to the next row and column, and in the batch."""

    form: int
    pitch: int
    row: int
    column: int
    outer: int
    inner: int


def _up(size: int, step: int) -> int:
    return -(-size // step)


def _slab(inner: int) -> int:
    """Steps of a slab; all have about as many."""
    steps = _up(inner, DEPTH)
    return _up(steps, _up(steps, SLAB))


def _is_whole(m: int, n: int, inner: int, count: int) -> bool:
    """Whether each of ``count`` products is one part, which packs its operands itself."""
    return (_up(m, LINES) + _up(n, LINES)) * _slab(inner) <= FIT and (count > 1 or m * n * inner <= ALONE)


def _own(m: int, n: int, inner: int, count: int) -> int | None:
    """The operand whose blocks panels have, the larger one; None where the other one is too large to be read by all of them."""
    shared = count * min(_up(m, LINES), _up(n, LINES)) * _up(inner, DEPTH) * 2 * 3 * TILE * 4
    return None if shared > min(SHARED, ROOM) else int(n > m)


def pays(m: int, n: int, inner: int, count: int = 1, finishes: bool = False, parts: int = 3) -> bool:
    """Whether products of these sizes take less time than by other kernels, or by the library; measured on Sapphire Rapids.

    Args:
        finishes: whether the other kernels do more with the results before these are in memory.
    """
    blocks, work, packed = _up(m, LINES) * _up(n, LINES), m * n * inner, (m + n) * inner
    if min(m, n, inner) < 16:
        return False
    other = OTHER_BY_LIBRARY if work > LIBRARY else OTHER_OF_HALVES if count == 1 and _is_whole(m, n, inner, 1) else OTHER
    by_place = 0 if _is_whole(m, n, inner, count) else 1 if packed <= CLOSE or _own(m, n, inner, count) is not None else 2
    finished = FINISHED * m * n if finishes else 0
    multiplied = BLOCK_STORED * blocks + BLOCK_MULTIPLIED * blocks * _up(inner, DEPTH) * len(ORDER[parts]) // len(ORDER[3])
    return STARTED[by_place] // count + multiplied + finished + PACKED[by_place] * packed < other * work


def _halves(m: int, n: int, inner: int, count: int) -> tuple[int, int]:
    """Blocks of a part, down and across, of products whose parts pack their operands themselves; by the sizes alone."""
    height, width = _up(m, LINES), _up(n, LINES)
    pieces = 1 if count > 1 or m * n * inner < LEAST else 2
    return (height, _up(width, pieces)) if width >= height else (_up(height, pieces), width)


def _cut(m: int, n: int, inner: int) -> tuple[int, int]:
    """Blocks of a part, down and across; by the sizes alone."""
    down, across = _up(m, LINES), _up(n, LINES)
    height, width = min(down, SIDE), min(across, SIDE)
    while _up(down, height) * _up(across, width) < FEW and height * width > max(2 * LEAST // (LINES * LINES * inner), 1):
        if height > width:
            height = _up(height, 2)
        else:
            width = _up(width, 2)
    return height, width


def _panel(lines: int, inner: int) -> int:
    """Blocks of a panel: their parts fit the second cache, and so many are there that threads have as many each."""
    blocks = _up(lines, LINES)
    size = min(max(min(_up(blocks, 2), SIDE), _up(blocks, FEW)), FIT // _slab(inner))
    count = _up(blocks, size)
    return _up(blocks, count + count % 2) if count > 1 else size


def plan(
    a: Layout, b: Layout, sizes: tuple[int, int, int], batch: tuple[int, int], function: int, has_bias: bool, parts: int = 3
) -> Callable[..., None]:
    """Function ``launch(a, b, c[, bias])``: products of matrices of these ``sizes``, so many as both dimensions of ``batch`` say.

    Args:
        sizes: rows of a, columns of b, and the numbers of a sum.
        function: the library's ``sgemm``.
        parts: of each number, see ``PARTS``.
    """
    m, n, inner = sizes
    steps, down, across = (_up(size, step) for size, step in ((inner, DEPTH), (m, LINES), (n, LINES)))
    is_whole, own = _is_whole(*sizes, batch[0] * batch[1]), _own(*sizes, batch[0] * batch[1])
    if is_whole:
        height, width = _halves(m, n, inner, batch[0] * batch[1])
    elif own is None:
        height, width = _cut(m, n, inner)
    else:
        height, width = (_panel(m, inner), across) if own == 0 else (down, _panel(n, inner))
    parts_across = _up(across, width)
    count = parts_across * _up(down, height)
    units = batch[0] * batch[1] * count
    product = Product(
        function=function, form_x=a.form, form_y=b.form, pitch_x=a.pitch, pitch_y=b.pitch, row_x=a.row, column_y=b.column,
        heads=batch[1], outer_x=a.outer, inner_x=a.inner, outer_y=b.outer, inner_y=b.inner,
        m=m, n=n, inner=inner, before=0, steps=steps, slab=_slab(inner), down=down, across=across, height=height, width=width,
        parts=count, parts_across=parts_across, batch=0, units=units, per_chunk=max(1, LEAST // (m * n * inner)) if count == 1 else 1,
    )  # fmt: skip
    along = a.column == 1, b.row == 1
    if is_whole or own is None:
        return (_whole if is_whole else _packed)(along, product, has_bias, parts)
    return _panels(own, along, product, has_bias, parts)


def _packed(along: tuple[bool, bool], p: Product, has_bias: bool, parts: int) -> Callable[..., None]:
    """Launches that pack the operands, or parts of them, and multiply these."""
    count, step = p.units // p.parts, (p.down + p.across) * parts * PART * 4
    steps = min(p.steps, max(ROOM // step // p.slab, 1) * p.slab)
    matrices = min(count, max(ROOM // (step * steps), 1))
    sizes = [blocks * matrices * steps * parts * PART for blocks in (p.down, p.across)]
    launches, most = [], [0, 0]  # notes
    for batch in range(0, count, matrices):
        number, notes = min(matrices, count - batch), [0, 0]
        for before in range(0, p.steps, steps):
            some = p.replace(before=before, steps=min(steps, p.steps - before), batch=batch, units=number * p.parts)
            packings = []
            for is_second, size in enumerate(sizes):
                pack, chunks = _packing(some, number, along[is_second], bool(is_second), parts, size + notes[is_second])
                packings.append(pack)
                notes[is_second] += chunks
            multiply = split_product(has_bias, parts).bind(
                _up(some.units, p.per_chunk), product=some, size_a=sizes[0], size_b=sizes[1], notes_a=notes[0], notes_b=notes[1],
                is_last=before + some.steps == p.steps,
            )  # fmt: skip
            launches.append((*packings, multiply))
        most = [max(pair) for pair in zip(most, notes, strict=True)]
    bytes_a, bytes_b = (4 * (size + number) + ROW for size, number in zip(sizes, most, strict=True))

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        left, right = empty((bytes_a // 2,), _NARROW), empty((bytes_b // 2,), _NARROW)
        for pack_a, pack_b, multiply in launches:
            pack_a(source=x, packed=left)
            pack_b(source=y, packed=right)
            if bias:
                multiply(a=left, b=right, x=x, y=y, c=c, bias=bias[0])
            else:
                multiply(a=left, b=right, x=x, y=y, c=c)

    return run


def _panels(own: int, along: tuple[bool, bool], p: Product, has_bias: bool, parts: int) -> Callable[..., None]:
    """A launch that packs the smaller operand, and one for panels of the other."""
    count, other = p.units // p.parts, 1 - own
    packed, size = (count * (p.down, p.across)[other] * p.steps * parts * PART, (p.height, p.width)[own] * p.slab * parts * PART)
    pack, notes = _packing(p, count, along[other], bool(other), parts, packed)
    chunks, bound, bytes_packed = _up(p.units, p.per_chunk), split_panels(own, along[own], has_bias, parts), 4 * (packed + notes) + ROW

    @lru_cache
    def launching(pieces: int) -> Callable[..., None]:
        launch: Callable[..., None] = bound.bind(chunks, product=p, size_packed=packed, notes=notes, pieces=pieces, size=size)
        return launch

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        pieces = min(pool.threads, chunks)
        shared, scratch = empty((bytes_packed // 2,), _NARROW), empty((pieces * 2 * size + ROW // 2,), _NARROW)
        flags = np.zeros(8 * pieces, np.int64)
        pack(source=(x, y)[other], packed=shared)
        if bias:
            launching(pieces)(packed=shared, x=x, y=y, c=c, bias=bias[0], scratch=scratch, flags=flags)
        else:
            launching(pieces)(packed=shared, x=x, y=y, c=c, scratch=scratch, flags=flags)

    return run


def _packing(p: Product, count: int, along: bool, is_second: bool, parts: int, notes: int) -> tuple[Callable[..., None], int]:
    """The launch that packs ``p``'s steps of so many matrices, and its chunks; their notes go to ``notes``."""
    lines, blocks, pitch = (p.n, p.across, p.pitch_y) if is_second else (p.m, p.down, p.pitch_x)
    outer, inner = (p.outer_y, p.inner_y) if is_second else (p.outer_x, p.inner_x)
    first, units = p.before * DEPTH, count * blocks * p.steps
    numbers = {
        "inner": p.inner - first, "lines": lines, "pitch": pitch, "start": first if along else first * pitch, "batch": p.batch,
        "heads": p.heads, "outer_step": outer, "inner_step": inner, "blocks": blocks, "steps": p.steps, "notes": notes, "units": units,
        "per_chunk": CHUNK,
    }  # fmt: skip
    chunks = _up(units, CHUNK)
    return split(along, is_second, parts).bind(chunks, **numbers), chunks


def _whole(along: tuple[bool, bool], p: Product, has_bias: bool, parts: int) -> Callable[..., None]:
    """One launch for all."""
    size, chunks = (p.height + p.width) * p.slab * parts * PART, _up(p.units, p.per_chunk)
    bound = split_whole(along, has_bias, parts)

    @lru_cache
    def launching(pieces: int) -> Callable[..., None]:
        launch: Callable[..., None] = bound.bind(chunks, product=p, pieces=pieces, size=size)
        return launch

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        pieces = min(pool.threads, chunks)
        scratch, flags = empty((pieces * 2 * size + ROW // 2,), _NARROW), np.zeros(8 * pieces, np.int64)
        if bias:
            launching(pieces)(x=x, y=y, c=c, bias=bias[0], scratch=scratch, flags=flags)
        else:
            launching(pieces)(x=x, y=y, c=c, scratch=scratch, flags=flags)

    return run
