"""Products of float32 matrices by the processor's tiles of bfloat16 (AMX): at float32's accuracy, and quicker than float32 itself.

A float32 number is the sum of three bfloat16 numbers, each the nearest to what is left; their products add up in float32:

    x = high + middle + low                 8 + 8 + 8 bits
    a b = low high + middle high            what is left out, middle low + low middle + low low,
        + middle middle + high middle       is below 2**-24 |a b|, in the mean 2**-27
        + high low + high high

    packed     both operands in blocks of ``LINES`` rows of the first, or columns of the second, and ``DEPTH`` numbers of the sums: for
               each of the three parts two tiles, whose rows have a cache line each. Numbers i and i + 16 of a sum make a pair.
    split      packs an operand, whichever way it lies, and notes the largest size that it met
    product    blocks of 32 by 32 sums in four tiles

Operands are scaled by ``2**24`` each and the sums back: then no part of any float32 number is subnormal, which these instructions would
take for zero, and none of the sums but what float32 has no number for. Where a size is ``2**32`` or above, infinite or NaN, the product
is the library's, called from the same kernel: so a product is three launches, whatever its operands hold.

``plan`` gives the launches for matrices of given layouts; ``gemm`` says which products go this way.

Error: at most ``(n / 5 + 20) u |a| @ |b|`` for n terms, ``u = 2**-24``: sixteen products are added in one chain, two such chains to each
other and then to the sum, six times for 32 terms. For normal numbers that is half of the library's error, for sums that few products
outweigh about the same. Products of whole numbers are exact where ``|a| @ |b|`` is below ``0.98 * 2**24``.

Source: Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..compiler.arguments import Address, Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from .blas import call_gemm
from .products import for_units
from .tile_parts import LARGEST, ORDER, SCALE, Operand, add_products, pairs_of, size_of
from .tile_registers import FEATURES, ROW, ROWS, TileRegisters
from .tiles import aligned, below, transposed

LINES = 32  # of a block
DEPTH = 32  # numbers of a sum that a tile has
PARTS = 3
TILE = ROWS * 16  # pairs
BLOCK = PARTS * 2 * TILE
SLAB = 24  # steps of ``DEPTH`` numbers whose sums stay in tiles, at most
SIDE = 4  # blocks of a part down and across: both operands' slabs fit the second cache
FEW = 8  # parts of a product that are cut smaller
LEAST = 1 << 20  # multiply-adds of a part, at least
# Picoseconds of a product's launches, of a block, of a block's step, and of a number to pack, in the second cache and outside of it;
# of a multiply-add elsewhere, in kernels and by the library. The latter's are a twentieth less, lest products change sides for nothing.
STARTED, BLOCK_STORED, BLOCK_MULTIPLIED, PACKED, CLOSE = 5_000_000, 100_000, 142_000, (250, 450), 1 << 18
OTHER, LIBRARY = (10.3, 12.8), 1 << 25
CHUNK = 32  # blocks by steps of a chunk of packing
_NARROW = np.dtype(ml_dtypes.bfloat16)


class Splitting(Record):
    """An operand to pack: ``lines`` are a's rows or b's columns."""

    source: Array
    packed: Array
    inner: Integer
    lines: Integer
    pitch: Integer
    heads: Integer  # the second batch dimension; strides of both follow
    outer_step: Integer
    inner_step: Integer
    blocks: Integer  # of a matrix
    steps: Integer
    units: Integer  # blocks times steps of all matrices
    per_chunk: Integer


class _Splitter:
    """Packs blocks by steps: ``along`` says that the numbers of a line lie side by side, else those of neighbouring lines do.

    ``is_second``: a tile's row has the pair of 16 lines, where it is 16 pairs of one line for the first operand.
    """

    def __init__(self, k: Builder, along: bool, is_second: bool):
        self.k, self.along, self.turns = k, along, along == is_second

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

    def _put(self, first: Value, second: Value, row: Value, largest: Value) -> Value:
        """Store the parts of pairs of numbers as rows of tiles."""
        k = self.k
        for value in (first, second):
            largest = k.most(largest, size_of(k, value))
        for part, pairs in enumerate(pairs_of(k, first, second, PARTS)):
            k.store(pairs, row, part * 2 * TILE, "u32")
        return largest


@kernel
def split(k: Builder, along: bool, is_second: bool) -> None:
    """Pack an operand. A unit is a block by a step; each chunk notes its largest number's bits behind the blocks."""
    o = k.arguments(Splitting)
    packed, splitter = aligned(k, o.packed), _Splitter(k, along, is_second)

    def unit(u: Value, largest: Value) -> Value:
        batch, rest = u // (o.blocks * o.steps), u % (o.blocks * o.steps)
        block, step = (rest // o.steps, rest % o.steps) if along else (rest % o.blocks, rest // o.blocks)
        line, number = block * LINES, step * DEPTH
        start = batch // o.heads * o.outer_step + batch % o.heads * o.inner_step
        at = line * o.pitch + number if along else number * o.pitch + line
        target = k.at(packed, ((batch * o.blocks + block) * o.steps + step) * BLOCK, "i32")
        return splitter.block(k.at(o.source, start + at, "f32"), o.pitch, o.lines - line, o.inner - number, target, largest)

    def chunk(c: Value) -> None:
        last = k.least((c + 1) * o.per_chunk, o.units)
        largest = k.loop(c * o.per_chunk, last, unit, carried=[k.const(0, "u32", 16)])
        k.store(k.fold(largest, k.most), packed, o.units * BLOCK + c, "u32")

    k.for_chunks(chunk)


class Product(Record):
    """``c = a @ b (+ bias)`` for each matrix of a batch; the library takes ``x`` and ``y``, the operands as they are."""

    a: Array
    b: Array
    x: Array
    y: Array
    c: Array
    bias: Array
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
    steps: Integer
    slab: Integer  # steps whose sums stay in tiles
    down: Integer  # blocks of ``a``
    across: Integer  # of ``b``
    notes_a: Integer  # how many sizes were noted
    notes_b: Integer
    height: Integer  # of a part, in blocks
    width: Integer
    parts: Integer  # of a product
    parts_across: Integer  # of them side by side
    matrices: Integer
    units: Integer
    per_chunk: Integer


class _Blocks:
    """Blocks of sums of one product, and the library's way."""

    def __init__(self, k: Builder, o: Product):
        self.k, self.o = k, o
        self.tiles, self.sums = TileRegisters(k), k.scratch(4 * TILE, "f32")
        self.a, self.b = aligned(k, o.a), aligned(k, o.b)
        self.is_large = k.most(self._noted(self.a, o.down, o.notes_a), self._noted(self.b, o.across, o.notes_b)) >= LARGEST

    def _noted(self, packed: Value, blocks: Value, notes: Value) -> Value:
        k = self.k
        place = k.at(packed, self.o.matrices * blocks * self.o.steps * BLOCK, "u32")
        return k.loop(0, notes, lambda at, most: k.most(most, k.load(place, at, "u32")), carried=[k.const(0, "u32")])

    def unit(self, u: Value) -> None:
        k, o = self.k, self.o
        self.batch, part = u // o.parts, u % o.parts
        self.i0, self.j0 = part // o.parts_across * o.height, part % o.parts_across * o.width
        self.i1, self.j1 = k.least(self.i0 + o.height, o.down), k.least(self.j0 + o.width, o.across)
        self.c = k.at(o.c, self.batch * (o.m * o.n), "f32")
        k.when(self.is_large, self._by_library, partial(self.tiles.within, self._by_tiles))

    def _by_library(self) -> None:
        k, o = self.k, self.o
        outer, head = self.batch // o.heads, self.batch % o.heads
        m0, n0 = self.i0 * LINES, self.j0 * LINES
        sizes = k.least(self.i1 * LINES, o.m) - m0, k.least(self.j1 * LINES, o.n) - n0, o.inner
        x = k.at(o.x, outer * o.outer_x + head * o.inner_x + m0 * o.row_x, "f32")
        y = k.at(o.y, outer * o.outer_y + head * o.inner_y + n0 * o.column_y, "f32")
        bias = None if o.bias is None else k.at(o.bias, n0, "f32")
        forms = (o.form_x, o.form_y), (o.pitch_x, o.pitch_y)
        call_gemm(k, "f32", o.function, sizes, *forms, (x, y, k.at(self.c, m0 * o.n + n0, "f32")), o.n, bias)

    def _by_tiles(self) -> None:
        k, o = self.k, self.o
        a, b = ((self.batch * blocks * o.steps) * BLOCK for blocks in (o.down, o.across))
        a, b = k.at(self.a, a, "i32"), k.at(self.b, b, "i32")

        def slab(first: Value) -> None:
            last = k.least(first + o.slab, o.steps)

            def column(j: Value) -> None:
                k.loop(self.i0, self.i1, lambda i: self._block(a, b, i, j, first, last))

            k.loop(self.j0, self.j1, column)

        k.loop(0, o.steps, slab, step=o.slab)

    def _block(self, a: Value, b: Value, i: Value, j: Value, first: Value, last: Value) -> None:
        """32 by 32 sums of products ``first`` to ``last``."""
        k, o, tiles = self.k, self.o, self.tiles
        left, right = k.at(a, i * o.steps * BLOCK, "i32"), k.at(b, j * o.steps * BLOCK, "i32")

        is_end = i + 1 >= self.i1
        following = [
            k.at(a, (k.select(is_end, self.i0, i + 1) * o.steps + first) * BLOCK, "i32"),
            k.at(b, (k.select(is_end, j + 1, j) * o.steps + first) * BLOCK, "i32"),
        ]

        def step(at: Value) -> None:
            sides = [k.at(side, at * BLOCK, "i32") for side in (left, right)]
            ahead = [k.select(at + 1 < last, k.at(side, BLOCK, "i32"), after) for side, after in zip(sides, following, strict=True)]
            lines = [(side, line * 16) for side in ahead for line in range(BLOCK // 16)]

            def fetch(number: int) -> None:
                """A share of the next step's lines, or of the next block's first ones, into the first cache."""
                for side, line in lines[number :: len(ORDER[PARTS])]:
                    k.prefetch(side, line, "i32")

            one, other = (Operand(side, "i32", 2 * TILE, TILE, ROW) for side in sides)
            add_products(tiles, PARTS, one, other, fetch)

        tiles.clear(range(4))
        k.loop(first, last, step)
        for tile in range(4):
            tiles.store(tile, k.at(self.sums, tile * TILE, "f32"))
        self._put(i * LINES, j * LINES, first)

    def _put(self, i: Value, j: Value, first: Value) -> None:
        """Scale the sums back, and add them to the bias or to those of the products before ``first``."""
        k, o = self.k, self.o
        masks = [below(k, o.n - j - 16 * half, 16) for half in range(2)]
        zero = k.const(0, "f32", 16)
        bias = [zero if o.bias is None else k.load(o.bias, j + 16 * half, "f32", 16, masks[half]) for half in range(2)]

        def rows(is_first: bool) -> None:
            def row(r: Value) -> None:
                for half in range(2):
                    value = k.load(self.sums, (r // ROWS * 2 + half) * TILE + r % ROWS * 16, "f32", 16)
                    at = (i + r) * o.n + j + 16 * half
                    before = bias[half] if is_first else k.load(self.c, at, "f32", 16, masks[half])
                    k.store(k.fma(value, SCALE**-2, before), self.c, at, "f32", masks[half])

            k.loop(0, k.least(o.m - i, LINES), row)

        k.when(first.eq(0), partial(rows, True), partial(rows, False))


@kernel
def split_product(k: Builder, has_bias: bool) -> None:
    """Products of packed operands; see ``_Blocks``."""
    k.features = FEATURES
    o = k.arguments(Product, without=() if has_bias else ("bias",))
    for_units(k, o, _Blocks(k, o).unit)


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


def pays(m: int, n: int, inner: int) -> bool:
    """Whether products of these sizes take less time than by other kernels, or by the library; measured on Sapphire Rapids."""
    blocks, work, packed = _up(m, LINES) * _up(n, LINES), m * n * inner, (m + n) * inner
    if min(m, n, inner) < 16:
        return False
    split = STARTED + BLOCK_STORED * blocks + BLOCK_MULTIPLIED * blocks * _up(inner, DEPTH) + PACKED[packed > CLOSE] * packed
    return split < OTHER[work > LIBRARY] * work


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


def plan(a: Layout, b: Layout, sizes: tuple[int, int, int], batch: tuple[int, int], function: int, has_bias: bool) -> Callable[..., None]:
    """Function ``launch(a, b, c[, bias])``: products of matrices of these ``sizes``, so many as both dimensions of ``batch`` say.

    Args:
        sizes: rows of a, columns of b, and the numbers of a sum.
        function: the library's ``sgemm``.
    """
    m, n, inner = sizes
    count, steps = batch[0] * batch[1], _up(inner, DEPTH)
    packings = []
    for operand, lines, is_second in ((a, m, False), (b, n, True)):
        along = (operand.row if is_second else operand.column) == 1
        blocks = _up(lines, LINES)
        units = count * blocks * steps
        numbers = {
            "inner": inner, "lines": lines, "pitch": operand.pitch, "heads": batch[1], "outer_step": operand.outer,
            "inner_step": operand.inner, "blocks": blocks, "steps": steps, "units": units, "per_chunk": CHUNK,
        }  # fmt: skip
        chunks = _up(units, CHUNK)
        packings.append((split(along, is_second).bind(chunks, **numbers), 2 * (units * BLOCK + chunks) + ROW // 2, blocks, chunks))
    (pack_a, size_a, down, notes_a), (pack_b, size_b, across, notes_b) = packings
    height, width = _cut(m, n, inner)
    parts_across = _up(across, width)
    parts = parts_across * _up(down, height)
    per_chunk = max(1, LEAST // (m * n * inner)) if parts == 1 else 1
    launch = split_product(has_bias).bind(
        _up(count * parts, per_chunk), function=function, form_x=a.form, form_y=b.form, pitch_x=a.pitch, pitch_y=b.pitch,
        row_x=a.row, column_y=b.column, heads=batch[1], outer_x=a.outer, inner_x=a.inner, outer_y=b.outer, inner_y=b.inner,
        m=m, n=n, inner=inner, steps=steps, slab=_up(steps, _up(steps, SLAB)), down=down, across=across,
        notes_a=notes_a, notes_b=notes_b, height=height, width=width,
        parts=parts, parts_across=parts_across, matrices=count, units=count * parts, per_chunk=per_chunk,
    )  # fmt: skip

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        left, right = empty((size_a,), _NARROW), empty((size_b,), _NARROW)
        pack_a(source=x, packed=left)
        pack_b(source=y, packed=right)
        if bias:
            launch(a=left, b=right, x=x, y=y, c=c, bias=bias[0])
        else:
            launch(a=left, b=right, x=x, y=y, c=c)

    return run
