"""Products of bfloat16 matrices by the processor's own instructions for them, which add in float32: several times a float32 product's pace.

    tiles      AMX: 16 by 16 sums take the products of 32 numbers each from two tiles of registers
    pairs      AVX-512 BF16: 16 sums take the products of two numbers each

Both want the second operand in panels of ``WIDTH`` columns whose lines have two neighbours of the sums side by side:

    b              panel, line 0: b00 b10 | b01 b11 | b02 b12 | ...
    b00 b01 ..            line 1: b20 b30 | b21 b31 | b22 b32 | ...
    b10 b11 ..     zeros behind the last column and the last line, up to a multiple of ``DEPTH`` numbers

The first operand is read in place where its rows lie one number after the other, else from a copy. These instructions take subnormal
numbers for zeros. On other processors such products are computed in float32 (``gemm``).

Error: of ``n`` products at most ``n u |a| @ |b|`` with ``u = 2**-24``, and the rounding of the result to bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.shape import contiguous_strides
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from . import copies
from .products import by_powers, for_units
from .tile_registers import FEATURES, TileRegisters, instructions
from .tiles import Tiles, below

WIDTH = 32  # columns of a panel
DEPTH = 32  # numbers that a tile's row has of a sum
HEIGHT = 32  # rows that are summed at once in tiles; in pairs 12
TALL = 256  # rows of a part at most: so many of the first operand stay in the second cache
CLOSE = 1024  # bytes: rows such multiples of them apart share few places of the first cache
DEEP = 512  # numbers of a sum that a panel in the first cache has
SMALL = 1 << 15  # multiply-adds: below this a product in float32 is as quick
PART = 1 << 22  # multiply-adds of a part of a large product
MOST = 64  # parts
PACKED = 1 << 15  # numbers of a chunk of panels


class Packing(Record):
    """Panels of the second operand."""

    source: Array
    panels: Array
    inner: Integer
    n: Integer
    pitch: Integer  # from row to row, or where the matrix lies column by column, from column to column
    step: Integer  # from matrix to matrix
    depth: Integer  # ``inner``, rounded up
    across: Integer  # panels of a matrix
    units: Integer
    per_chunk: Integer


@kernel
def pack_columns(k: Builder) -> None:
    """Write the panels of matrices that lie column by column: two neighbours of a sum are one number of 32 bits. A unit is a panel."""
    o = k.arguments(Packing)
    tiles = Tiles(k, "f32", WIDTH // k.lanes("f32"))

    def unit(u: Value) -> None:
        batch, j = u // o.across, u % o.across * WIDTH
        panel, source = k.at(o.panels, u * (o.depth * WIDTH), "i16"), k.at(o.source, batch * o.step + j * o.pitch, "i16")
        tiles.pack_whole(source, o.pitch // 2, (k.least(o.n - j, WIDTH), o.inner // 2), panel, o.depth // 2)

    for_units(k, o, unit)


@kernel
def pack_rows(k: Builder) -> None:
    """Write the panels of matrices that lie row by row. A unit is ``DEPTH`` rows, so that memory is read as it lies."""
    o = k.arguments(Packing)
    blocks = o.depth // DEPTH

    def unit(u: Value) -> None:
        batch, row0 = u // blocks, u % blocks * DEPTH
        source = k.at(o.source, batch * o.step + row0 * o.pitch, "i16")
        panels = k.at(o.panels, batch * (o.across * o.depth * WIDTH) + row0 * WIDTH, "i16")

        def panel(p: Value) -> None:
            j = p * WIDTH
            mask, target = below(k, o.n - j, WIDTH), k.at(panels, p * (o.depth * WIDTH), "i16")

            def line(at: Value) -> None:
                places = [at * 2, at * 2 + 1]
                masks = [mask & k.splat(row0 + place < o.inner, WIDTH) for place in places]
                rows = [k.load(source, place * o.pitch + j, "i16", WIDTH, inside) for place, inside in zip(places, masks, strict=True)]
                both = k.shuffle(rows[0], [lane // 2 + lane % 2 * WIDTH for lane in range(2 * WIDTH)], rows[1])
                k.store(both, target, at * (2 * WIDTH), "i16")

            k.loop(0, DEPTH // 2, line)

        k.loop(0, o.across, panel)

    for_units(k, o, unit)


class Product(Record):
    """``c = a @ b (+ bias)`` for each matrix of a batch; see ``narrow_product``."""

    a: Array
    panels: Array
    c: Array
    bias: Array
    m: Integer
    n: Integer
    rows: Integer  # of ``a``: ``m``, or more where it was copied
    pitch: Integer  # from row to row of ``a``
    step: Integer  # from matrix to matrix
    inner: Integer
    depth: Integer  # ``inner``, rounded up
    across: Integer  # panels of a matrix
    height: Integer  # of a part
    width: Integer  # of a part, in panels
    parts: Integer  # of a product
    parts_across: Integer  # of them side by side
    units: Integer
    per_chunk: Integer


class _Sums:
    """Blocks of sums, with the first operand and the panels of one product."""

    def __init__(self, k: Builder, o: Product):
        self.k, self.o, self.lanes = k, o, k.lanes("f32")

    def unit(self, u: Value) -> None:
        k, o = self.k, self.o
        batch, part = u // o.parts, u % o.parts
        self.a = k.at(o.a, batch * o.step, "i16")
        self.c = k.at(o.c, batch * (o.m * o.n), "i16")
        panels = k.at(o.panels, batch * (o.across * o.depth * WIDTH), "i16")
        m0, p0 = part // o.parts_across * o.height, part % o.parts_across * o.width

        def panel(p: Value) -> None:
            self.rows(k.at(panels, p * (o.depth * WIDTH), "i16"), p * WIDTH, m0, k.least(m0 + o.height, o.m))

        k.loop(p0, k.least(p0 + o.width, o.across), panel)

    def rows(self, panel: Value, j: Value, start: Value, stop: Value) -> None:
        raise NotImplementedError

    def put(self, sums: Sequence[Value], i: Value, j: Value) -> None:
        """Store a row of sums from column ``j`` on."""
        k, o = self.k, self.o
        for v, value in enumerate(sums):
            at = j + v * self.lanes
            inside = below(k, o.n - at, self.lanes)
            total = value if o.bias is None else value + k.load(o.bias, at, "bf16", self.lanes, inside)
            k.store(total, self.c, i * o.n + at, "bf16", inside)


class _Tiled(_Sums):
    """Four tiles of sums, of 32 rows and a panel's columns. The last rows are computed with those before them, if need be once more."""

    def __init__(self, k: Builder, o: Product):
        super().__init__(k, o)
        self.sums, self.tiles = k.scratch(TALL * WIDTH, "f32"), TileRegisters(k)

    def unit(self, u: Value) -> None:
        self.tiles.within(partial(super().unit, u))

    def rows(self, panel: Value, j: Value, start: Value, stop: Value) -> None:
        k, depth = self.k, self.o.depth

        def part(begin: Value) -> None:
            end = k.least(begin + DEEP, depth)
            k.loop(start, stop, lambda i: self._block(panel, j, i, k.at(self.sums, (i - start) * WIDTH, "f32"), begin, end), step=HEIGHT)

        k.loop(0, depth, part, step=DEEP)

    def _block(self, panel: Value, j: Value, i: Value, sums: Value, begin: Value, end: Value) -> None:
        """Add products ``begin`` to ``end`` to ``sums``, which are complete and go to the result where these are the last."""
        k, o, tiles = self.k, self.o, self.tiles
        first = k.least(i, o.rows - HEIGHT)
        upper = k.at(self.a, first * o.pitch, "i16")
        halves = [upper, k.at(upper, o.pitch * 16, "i16")]
        pitch = o.pitch * 2
        places = [k.at(sums, tile // 2 * 16 * WIDTH + tile % 2 * 16, "f32") for tile in range(4)]

        def each(act: Callable[[int, Value, int], None]) -> None:
            for tile, place in enumerate(places):
                act(tile, place, 4 * WIDTH)

        def step(at: Value) -> None:
            line = k.at(panel, at * WIDTH, "i16")
            for half in range(2):
                tiles.load(4 + half, k.at(halves[half], at, "i16"), pitch)
                tiles.load(6 + half, k.at(line, half * WIDTH, "i16"), 4 * WIDTH)
            for tile in range(4):
                tiles.add_product(tile, 4 + tile // 2, 6 + tile % 2)

        k.when(begin > 0, partial(each, tiles.load), partial(tiles.clear, range(4)))
        k.loop(begin, end, step, step=DEPTH)
        each(tiles.store)

        def row(r: Value) -> None:
            self.put([k.load(sums, r * WIDTH + v * self.lanes, "f32", self.lanes) for v in range(2)], first + r, j)

        k.when(end >= o.depth, lambda: k.loop(0, k.least(o.m - first, HEIGHT), row))


class _Paired(_Sums):
    """Sums in registers: a line of a panel has two registers of them, and each of a few rows adds its pair of numbers, spread over one."""

    def rows(self, panel: Value, j: Value, start: Value, stop: Value) -> None:
        by_powers(self.k, 12, start, stop, partial(self._block, panel, j))

    def _block(self, panel: Value, j: Value, i: Value, rows: int) -> None:
        k, o, lanes = self.k, self.o, self.lanes
        lines = [k.at(self.a, (i + row) * o.pitch, "i16") for row in range(rows)]
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        k.declared[name] = f"declare <16 x float> @{name}(<16 x float>, <32 x bfloat>, <32 x bfloat>)"

        def pairs(value: Value) -> str:
            return k.emit(f"bitcast {value.type} {value.text} to <32 x bfloat>", "i16", 32).text

        def step(at: Value, *total: Value) -> list[Value]:
            line = [pairs(k.load(panel, at * WIDTH + v * lanes, "i32", lanes)) for v in range(2)]
            sums = []
            for row in range(rows):
                factor = pairs(k.splat(k.load(lines[row], at, "i32"), lanes))
                for v in range(2):
                    before = total[row * 2 + v]
                    passed = f"<16 x float> {before.text}, <32 x bfloat> {factor}, <32 x bfloat> {line[v]}"
                    sums.append(k.emit(f"call <16 x float> @{name}({passed})", "f32", lanes))
            return sums

        zero = k.const(0, "f32", lanes)
        total = k.loop(0, (o.inner + 1) // 2, step, carried=[zero] * (2 * rows))
        for row in range(rows):
            self.put(total[2 * row : 2 * row + 2], i + row, j)


@kernel
def narrow_product(k: Builder, form: str, has_bias: bool) -> None:
    """Products of rows of ``a`` with packed panels, by 'tiles' or 'pairs'."""
    k.features = FEATURES if form == "tiles" else "+avx512bf16"
    o = k.arguments(Product, without=() if has_bias else ("bias",))
    for_units(k, o, (_Tiled if form == "tiles" else _Paired)(k, o).unit)


# -- plans -----------------------------------------------------------------------------------------------------------------------------
_Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides
_Run = Callable[[np.ndarray, np.ndarray, "np.ndarray | None", np.ndarray], None]


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _batch_step(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Bytes from matrix to matrix, where all lie equally far apart; None where they do not."""
    step, extent = 0, 1
    for size, stride in zip(reversed(shape[:-2]), reversed(strides[:-2]), strict=True):
        if size == 1:
            continue
        if extent > 1 and stride != step * extent:
            return None
        step = step if extent > 1 else stride
        extent *= size
    return step


def _packing(b: _Layout, count: int, depth: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """Function ``(b, panels)`` that fills panels; by way of a copy where the matrices lie neither row by row nor column by column."""
    shape, strides = b
    inner, n = shape[-2:]
    step = _batch_step(shape, strides)
    if step is not None and (strides[-1] == 2 or n == 1):
        by_rows, pitch = True, strides[-2]
    elif step is not None and strides[-2] == 2 and not (inner % 2 or strides[-1] % 4 or step % 4):
        by_rows, pitch = False, strides[-1]
    else:
        of_copy = _packing((shape, tuple(2 * each for each in contiguous_strides(shape))), count, depth)
        return lambda source, panels: of_copy(copies.contiguous(source), panels)
    across = _up(n, WIDTH) // WIDTH
    units = count * (depth // DEPTH if by_rows else across)
    per_chunk = max(1, PACKED * units // (count * depth * across * WIDTH))
    sizes = {"inner": inner, "n": n, "pitch": pitch // 2, "step": step // 2, "depth": depth, "across": across}
    bound = (pack_rows if by_rows else pack_columns)().bind(-(-units // per_chunk), **sizes, units=units, per_chunk=per_chunk)
    return lambda source, panels: bound(source=source, panels=panels)


def _cut(m: int, n: int, inner: int) -> tuple[int, int]:
    """Rows of a part, and its panels; by the sizes alone."""
    parts = min(max(m * n * inner // PART, 1), MOST)
    panels = _up(n, WIDTH) // WIDTH
    height = min(_up(m, HEIGHT), TALL)
    across = min(max(-(-parts * height // m), 1), panels)
    height = min(height, _up(-(-m * across // parts), HEIGHT))
    return height, -(-panels // across)


@lru_cache(maxsize=4096)
def _plan(a: _Layout, b: _Layout, has_bias: bool) -> _Run | None:
    """Function ``run(a, b, bias, c)`` for operands of these shapes and strides; None where they are to be computed in float32."""
    form = instructions()
    (shape, strides), (m, inner), n = a, a[0][-2:], b[0][-1]
    count = math.prod(shape[:-2])
    if not form or m < 2:
        return None
    depth = _up(inner, DEPTH)
    packing = _packing(b, count, depth)
    step = _batch_step(shape, strides)
    whole = m >= HEIGHT and depth == inner if form == "tiles" else inner % 2 == 0
    in_place = whole and step is not None and strides[-1] == 2 and (strides[-2] % CLOSE or m <= HEIGHT)
    rows, padded_depth = (m, 0) if in_place else (max(m, HEIGHT), depth if 2 * depth % CLOSE else depth + DEPTH)
    pitch, step = (strides[-2], step) if in_place else (2 * padded_depth, 2 * rows * padded_depth)
    height, width = _cut(m, n, inner)
    across = _up(n, WIDTH) // WIDTH
    parts_across = -(-across // width)
    parts = parts_across * -(-m // height)
    per_chunk = max(1, PART // (m * n * inner)) if parts == 1 else 1
    sizes = {"m": m, "n": n, "rows": rows, "pitch": pitch // 2, "step": step // 2, "inner": inner, "depth": depth}  # type: ignore[operator]
    cuts = {"across": across, "height": height, "width": width, "parts": parts, "parts_across": parts_across}
    launch = narrow_product(form, has_bias).bind(-(-count * parts // per_chunk), **sizes, **cuts, units=count * parts, per_chunk=per_chunk)

    def run(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None, c: np.ndarray) -> None:
        panels = empty((count * across * depth * WIDTH,), x.dtype)
        packing(y, panels)
        if not in_place:
            # not of integers, which whoever tries launches in other memory fills with zeros as those that are wanted here
            padded = empty((*shape[:-2], rows, padded_depth), x.dtype)
            padded[..., m:, :] = 0
            padded[..., :m, inner:] = 0
            copies.copy(x, padded[..., :m, :inner])
            x = padded
        if bias is None:
            launch(a=x, panels=panels, c=c)
        else:
            launch(a=x, panels=panels, c=c, bias=bias)

    return run


def multiply(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, least: int = SMALL) -> np.ndarray | None:
    """``a @ b (+ bias)`` of bfloat16, in bfloat16, for ``(*, m, k)`` and ``(k, n)`` or equal batches; None where float32 is to do it.

    Args:
        least: multiply-adds below which it is.
    """
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2] or not a.size * b.shape[-1] >= max(least, 1):
        return None
    shape = (*a.shape[:-1], b.shape[-1])
    if b.ndim == 2 and a.ndim > 2:
        a = (a if a.flags.c_contiguous else copies.contiguous(a)).reshape(-1, a.shape[-1])
    elif a.shape[:-2] != b.shape[:-2]:
        return None
    if bias is not None and (bias.shape != shape[-1:] or bias.strides != (2,)):
        return None
    run = _plan((a.shape, a.strides), (b.shape, b.strides), bias is not None)
    if run is None:
        return None
    result = empty(shape, a.dtype)
    run(a, b, bias, result)
    return result


@native("bfloat16:matmul")
def matmul(input: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    return multiply(input, other)


@native("bfloat16:mm")
def mm(input: np.ndarray, mat2: np.ndarray) -> np.ndarray | None:
    return multiply(input, mat2)


@native("bfloat16:bmm")
def bmm(input: np.ndarray, mat2: np.ndarray) -> np.ndarray | None:
    return multiply(input, mat2)


@native("bfloat16:addmm")
def addmm(input: np.ndarray, mat1: np.ndarray, mat2: np.ndarray, beta: Any, alpha: Any) -> np.ndarray | None:
    return multiply(mat1, mat2, input) if beta == 1 and alpha == 1 and input.ndim == 1 else None


@native("bfloat16:nn.functional.linear")
def linear(input: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray | None:
    return multiply(input, weight.T, bias) if weight.ndim == 2 else None
