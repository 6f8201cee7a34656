"""Products of bytes with exact sums in int32, and what is made of the sums: numbers, or bytes again.

    tiles    AMX: 16 by 16 sums take the products of 64 bytes each from two tiles of registers
    words    a register of sums takes four products a lane (``Builder.dot``: one instruction with VNNI, two pairs of products elsewhere)

Both want the second operand, the weights, in panels of ``WIDTH`` columns whose lines have four neighbours of the sums side by side:

    w (k, n)       panel, line 0: w00 w10 w20 w30 | w01 w11 w21 w31 | ...
    w00 w01 ..            line 1: w40 w50 w60 w70 | ...
    w10 w11 ..     zeros behind the last column and the last line, up to a multiple of ``BLOCK`` columns and ``DEPTH`` lines' bytes

So a line is a register of 16 columns, and 16 lines are a tile; one row and a thousand read the same panels. The first operand has no sign.
One that has is brought to 0 to 255 by adding 128, which is a zero point. Sums wrap at 2**32 as those of other integers, and never saturate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.arrays.panels import Finishing, PackedLinear, Panels
from ...core.quantizer import chosen_parameters
from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value, as_tuple
from ..compiler.memory import empty
from .products import by_powers, for_units, launch_units
from .tile_registers import INTEGER_FEATURES, ROW, ROWS, TileRegisters, has_integers
from .tiles import below

WIDTH, TOGETHER = 16, 4  # columns of a panel, and bytes of a column side by side
LINE = WIDTH * TOGETHER
DEPTH = 64  # bytes of a sum that a tile's row has
BLOCK = 2 * WIDTH  # columns that are summed at once in tiles
HEIGHT = 2 * ROWS  # rows, likewise
FEW = 6  # rows up to which words are as quick as tiles: both wait for memory
TALL = 256  # rows of a part at most
DEEP = 1024  # bytes of a sum for which a block of panels stays in the first cache
PART = 1 << 22  # multiply-adds of a part
MOST = 64  # parts
ABREAST = 4  # rows of weights that are multiplied at once as they lie
CHUNK = 1 << 15  # numbers of a chunk, where they are made bytes


class Product(Record):
    """A product ``sums = (a - zero) @ w``, of which ``Finish`` makes results."""

    a: Array
    c: Array
    levels: Array  # int32: the zero points of ``a`` and of the result, and the least byte of the result
    panels: Array
    columns: Array  # sums of the columns of ``w``, int32
    scale: Array
    bias: Array
    step: Array  # of the bias, where results are bytes: a number
    points: Array  # zero points of the columns of ``w``, int32
    row_sums: Array  # of ``a`` less its zero point, int32
    m: Integer
    n: Integer
    rows: Integer  # that ``a`` has in memory
    pitch: Integer  # bytes from row to row of ``a``
    depth: Integer  # bytes of a panel's column
    inner: Integer  # of them those that are not all zeros, up to a multiple of four
    height: Integer  # of a part
    width: Integer  # of a part, in columns
    parts_across: Integer
    units: Integer
    per_chunk: Integer


class Finish:
    """From registers of sums to results: ``kind`` is what they are in memory.

    i32    the sums
    f32    ``sums * scale + bias``, rounded once
    u8, i8 ``rint((sums + bias * step) * scale) + out_zero`` between ``least`` and the type's greatest; ``sums + ...`` rounded once

    Scales are of columns. Numbers that are negative become zeros with ``relu``; of bytes ``least`` says it.
    """

    def __init__(self, k: Builder, o: Product, kind: str, relu: bool):
        self.k, self.o, self.kind, self.relu = k, o, kind, relu
        self.zero, self.out_zero, self.least = (k.load(o.levels, at, "i32") for at in range(3))
        self.single = None if k.target.has_masks else k.scratch(WIDTH, kind)

    def put(self, sums: Value, i: Value, j: Value) -> None:
        """Store the sums of row ``i`` from column ``j`` on."""
        k, o, lanes = self.k, self.o, sums.lanes
        sums = sums - k.load(o.columns, j, "i32", lanes) * self.zero
        if o.points is not None:
            sums = sums - k.load(o.points, j, "i32", lanes) * k.load(o.row_sums, i, "i32")
        value = sums if self.kind == "i32" else self._scaled(sums, j)
        self._store(value, i * o.n + j, o.n - j)

    def _scaled(self, sums: Value, j: Value) -> Value:
        k, o, lanes = self.k, self.o, sums.lanes
        value, scale = k.cast(sums, "f32"), k.load(o.scale, j, "f32", lanes)
        bias = None if o.bias is None else k.load(o.bias, j, "f32", lanes)
        if self.kind == "f32":
            value = value * scale if bias is None else rounded_once(k, value, scale, bias)
            return k.most(k.const(0, "f32", lanes), value) if self.relu else value  # NaN stays
        if bias is not None:
            value = rounded_once(k, bias, k.splat(k.load(o.step, 0, "f32"), lanes), value)
        rounded = k.rint(value * scale)
        # 2**24: far beyond all bytes, and below it float32 has every integer
        rounded = k.most(k.least(rounded, k.const(2.0**24, "f32", lanes)), k.const(-(2.0**24), "f32", lanes))
        whole = k.cast(rounded, "i32") + self.out_zero
        whole = k.least(k.most(whole, self.least), 255 if self.kind == "u8" else 127)
        return k.cast(whole, self.kind)

    def _store(self, value: Value, at: Value, count: Value) -> None:
        """Store so many lanes at most; one by one where the processor has no masks for them."""
        k, c, kind, single = self.k, self.o.c, self.kind, self.single
        if single is None:
            k.store(value, c, at, kind, below(k, count, value.lanes))
            return

        def one_by_one() -> None:
            k.store(value, single, 0, kind)
            k.loop(0, count, lambda lane: k.store(k.load(single, lane, kind), c, at + lane, kind))

        k.when(count >= value.lanes, lambda: k.store(value, c, at, kind), one_by_one)


def rounded_once(k: Builder, value: Value, scale: Value, more: Value) -> Value:
    """``value * scale + more`` of float32, by way of float64 where no instruction rounds once."""
    if k.target.has_fma:
        return k.fma(value, scale, more)
    wide = [k.cast(part, "f64") for part in (value, scale, more)]
    return k.cast(wide[0] * wide[1] + wide[2], "f32")


class _Sums:
    """Blocks of sums of one part of a product."""

    columns = BLOCK

    def __init__(self, k: Builder, o: Product, finish: Finish):
        self.k, self.o, self.finish = k, o, finish

    def unit(self, u: Value) -> None:
        k, o = self.k, self.o
        i0, j0 = u // o.parts_across * o.height, u % o.parts_across * o.width
        i1, j1 = k.least(i0 + o.height, o.m), k.least(j0 + o.width, o.n)
        k.loop(j0, j1, lambda j: self.rows(j, i0, i1), step=self.columns)

    def rows(self, j: Value, start: Value, stop: Value) -> None:
        raise NotImplementedError


class _Tiled(_Sums):
    """Tiles of sums, two of columns and ``tall`` of rows. The last rows are computed with those before them, if need be once more."""

    def __init__(self, k: Builder, o: Product, finish: Finish, tall: int):
        super().__init__(k, o, finish)
        self.tall, self.height = tall, tall * ROWS
        self.room, self.tiles = k.scratch((TALL if tall == 2 else ROWS) * BLOCK, "i32"), TileRegisters(k)

    def unit(self, u: Value) -> None:
        self.tiles.within(partial(super().unit, u))

    def rows(self, j: Value, start: Value, stop: Value) -> None:
        k, depth = self.k, self.o.depth

        def part(begin: Value) -> None:
            end = k.least(begin + DEEP, depth)
            k.loop(start, stop, lambda i: self._block(j, i, k.at(self.room, (i - start) * BLOCK, "i32"), begin, end), step=self.height)

        k.loop(0, depth, part, step=DEEP)

    def _block(self, j: Value, i: Value, room: Value, begin: Value, end: Value) -> None:
        """Add products ``begin`` to ``end`` to the sums in ``room``, which are complete and finished where these are the last."""
        k, o, tiles = self.k, self.o, self.tiles
        first = k.least(i, o.rows - self.height)
        lines = [k.at(o.a, (first + half * ROWS) * o.pitch, "u8") for half in range(self.tall)]
        panels = [k.at(o.panels, (j + half * WIDTH) * o.depth, "i8") for half in range(2)]
        places = [k.at(room, tile // 2 * ROWS * BLOCK + tile % 2 * WIDTH, "i32") for tile in range(2 * self.tall)]

        def each(act: Callable[[int, Value, int], None]) -> None:
            for tile, place in enumerate(places):
                act(tile, place, 4 * BLOCK)

        def step(at: Value) -> None:
            for half in range(self.tall):
                tiles.load(4 + half, k.at(lines[half], at, "u8"), o.pitch)
            for half in range(2):
                tiles.load(6 + half, k.at(panels[half], at * WIDTH, "i8"), ROW)
            for tile in range(len(places)):
                tiles.add_product(tile, 4 + tile // 2, 6 + tile % 2, "tdpbusd")

        k.when(begin > 0, partial(each, tiles.load), partial(tiles.clear, range(len(places))))
        k.loop(begin, end, step, step=DEPTH)
        each(tiles.store)

        def row(r: Value) -> None:
            for half in range(2):
                at = j + half * WIDTH
                sums = k.load(room, r * BLOCK + half * WIDTH, "i32", WIDTH)
                k.when(at < o.n, partial(self.finish.put, sums, first + r, at))

        k.when(end >= o.depth, lambda: k.loop(0, k.least(o.m - first, self.height), row))


class _Words(_Sums):
    """Sums in registers: two of columns, and a few rows, each of which adds four bytes at a time, spread over a register."""

    def __init__(self, k: Builder, o: Product, finish: Finish):
        super().__init__(k, o, finish)
        self.lanes = k.lanes("i32")
        self.columns = 2 * self.lanes

    def rows(self, j: Value, start: Value, stop: Value) -> None:
        most = 12 if self.k.target.registers > 16 else 4
        by_powers(self.k, most, start, stop, partial(self._block, j))

    def _block(self, j: Value, i: Value, rows: int) -> None:
        k, o, lanes = self.k, self.o, self.lanes
        together = max(1, 4 // rows)  # sums of their own: a product waits for the one before it
        lines = [k.at(o.a, (i + row) * o.pitch, "u8") for row in range(rows)]
        places = [j + v * lanes for v in range(2)]
        panels = [k.at(o.panels, at // WIDTH * (o.depth * WIDTH) + at % WIDTH * TOGETHER, "i8") for at in places]
        zeros = [k.const(0, "i32", lanes)] * (2 * rows)

        def add(at: Value, total: Sequence[Value]) -> list[Value]:
            line = [k.load(panel, at * (WIDTH // TOGETHER), "i32", lanes) for panel in panels]
            sums = []
            for row in range(rows):
                factor = k.splat(k.load(k.at(lines[row], at, "u8"), 0, "i32"), lanes)
                sums += [k.dot(total[2 * row + v], factor, line[v]) for v in range(2)]
            return sums

        def some(at: Value, *total: Value) -> list[Value]:
            size = len(zeros)
            parts = [add(at + u * TOGETHER, total[u * size : (u + 1) * size]) for u in range(together)]
            return [value for part in parts for value in part]

        main = o.inner - o.inner % (TOGETHER * together)
        total = as_tuple(k.loop(0, main, some, step=TOGETHER * together, carried=zeros * together))
        whole = [sum(total[at + len(zeros) :: len(zeros)], total[at]) for at in range(len(zeros))]
        if together > 1:
            whole = list(as_tuple(k.loop(main, o.inner, lambda at, *sums: add(at, sums), step=TOGETHER, carried=whole)))
        for place, value in enumerate(whole):
            at = places[place % 2]
            k.when(at < o.n, partial(self.finish.put, value, i + place // 2, at))


@kernel
def integer_product(k: Builder, form: str, features: str, kind: str, relu: bool, has_points: bool, has_bias: bool) -> None:
    """A product by 'tiles', 'tile' (of 16 rows) or 'words', finished as ``Finish`` says."""
    k.features = features
    absent = {"points": has_points, "row_sums": has_points, "bias": has_bias, "scale": kind != "i32"}
    absent["step"] = has_bias and kind != "f32"
    o = k.arguments(Product, without=[name for name, there in absent.items() if not there])
    finish = Finish(k, o, kind, relu)
    sums = _Words(k, o, finish) if form == "words" else _Tiled(k, o, finish, 2 if form == "tiles" else 1)
    for_units(k, o, sums.unit)


# -- from numbers to bytes -------------------------------------------------------------------------------------------------------------
class Range(Record):
    """Least and greatest of neighbouring numbers, by chunks."""

    x: Array
    found: Array
    size: Integer


@kernel
def number_range(k: Builder) -> None:
    """The least and the greatest number of each chunk; NaN is none."""
    o = k.arguments(Range)
    lanes = k.lanes("f32")
    start = [k.const(float("inf"), "f32", lanes), k.const(float("-inf"), "f32", lanes)]

    def chunk(c: Value) -> None:
        def step(i: Value, mask: Any, low: Value, high: Value) -> tuple[Value, Value]:
            above, under = (k.load(o.x, i, "f32", lanes, mask, other=float(sign + "inf")) for sign in ("", "-"))
            return k.least(above, low), k.most(under, high)

        low, high = k.vector_loop(c * CHUNK, k.least((c + 1) * CHUNK, o.size), lanes, step, carried=start, unroll=4)
        k.store(k.fold(low, k.least), o.found, 2 * c, "f32")
        k.store(k.fold(high, k.most), o.found, 2 * c + 1, "f32")

    k.for_chunks(chunk)


class Rounding(Record):
    """Rows of numbers, and rows of bytes that stand for them."""

    x: Array
    bytes: Array
    scale: Number
    zero: Number
    columns: Integer
    pitch: Integer  # of the bytes
    units: Integer
    per_chunk: Integer


@kernel
def rounded_rows(k: Builder) -> None:
    """``rint(x * scale + zero)`` between 0 and 255, where product and sum are rounded once."""
    o = k.arguments(Rounding)
    lanes = k.lanes("f32")
    scale, zero = (k.splat(k.cast(number, "f32"), lanes) for number in (o.scale, o.zero))

    def row(r: Value) -> None:
        source, target = k.at(o.x, r * o.columns, "f32"), k.at(o.bytes, r * o.pitch, "u8")

        def step(i: Value, mask: Any) -> None:
            value = k.rint(rounded_once(k, k.load(source, i, "f32", lanes, mask), scale, zero))
            value = k.most(k.least(value, k.const(255, "f32", lanes)), k.const(0, "f32", lanes))
            k.store(k.cast(k.cast(value, "i32"), "u8"), target, i, "u8", mask)

        k.vector_loop(0, o.columns, lanes, step, unroll=4)

    for_units(k, o, row)


# -- a few rows with rows of weights as they lie ------------------------------------------------------------------------------------------
class Dots(Record):
    """``c = (a - zero) @ w.T`` for ``(m, inner)`` and ``(n, inner)``."""

    a: Array
    w: Array
    c: Array
    m: Integer
    n: Integer
    inner: Integer
    pitch: Integer  # bytes from row to row of ``w``
    zero: Integer
    units: Integer
    per_chunk: Integer


class _Dots:
    """Sums along rows of both operands, a register for each pair of rows, which is added up at the end."""

    def __init__(self, k: Builder, o: Dots):
        self.k, self.o, self.lanes, self.bytes = k, o, k.lanes("i32"), k.lanes("i8")

    def unit(self, u: Value) -> None:
        k, o, j = self.k, self.o, u * ABREAST
        k.when(o.n - j >= ABREAST, partial(self._rows, j, ABREAST), lambda: k.loop(j, o.n, lambda each: self._rows(each, 1)))

    def _rows(self, j: Value, count: int) -> None:
        """The products of all rows of ``a`` with so many rows of weights."""
        k, o = self.k, self.o
        weights = [k.at(o.w, (j + row) * o.pitch, "i8") for row in range(count)]
        ones, zeros = k.const(0x01010101, "i32", self.lanes), [k.const(0, "i32", self.lanes)] * count

        def add(i: Value) -> None:
            line = k.at(o.a, i * o.inner, "u8")

            def step(at: Value, mask: Any, *total: Value) -> list[Value]:
                left, values = k.load(line, at, "u8", self.bytes, mask), [k.load(row, at, "i8", self.bytes, mask) for row in weights]
                products = [k.dot(before, left, value) for before, value in zip(total[:count], values, strict=True)]
                return products + [k.dot(before, ones, value) for before, value in zip(total[count:], values, strict=True)]

            total = k.vector_loop(0, o.inner, self.bytes, step, carried=zeros * 2)
            for row, (products, sums) in enumerate(zip(total[:count], total[count:], strict=True)):
                k.store(k.sum(products - sums * k.cast(o.zero, "i32")), o.c, i * o.n + j + row, "i32")

        k.loop(0, o.m, add)


@kernel
def byte_dots(k: Builder, features: str) -> None:
    """A few rows with rows of weights; a unit is ``ABREAST`` of these."""
    k.features = features
    o = k.arguments(Dots)
    for_units(k, o, _Dots(k, o).unit)


# -- plans -----------------------------------------------------------------------------------------------------------------------------
def up(size: int, step: int) -> int:
    return -(-size // step) * step


def form_of(m: int) -> str:
    """The instructions that compute a product of ``m`` rows."""
    if m <= FEW or not has_integers():
        return "words"
    return "tile" if m <= ROWS else "tiles"


def room(m: int, inner: int) -> tuple[int, int]:
    """Rows and bytes of a row that bytes need to be read as a first operand."""
    rows = {"words": m, "tile": max(m, ROWS), "tiles": max(m, HEIGHT)}[form_of(m)]
    depth = up(inner, DEPTH)
    return rows, depth if depth % DEEP or m <= HEIGHT else depth + DEPTH  # rows multiples of 1 KB apart share few places of the first cache


@lru_cache(maxsize=4096)
def _plan(
    m: int, n: int, inner: int, memory: tuple[int, int], kind: str, relu: bool, has_points: bool, has_bias: bool
) -> Callable[..., None]:
    """Function of a launch's arrays for a product of these sizes; ``memory`` is the first operand's shape."""
    form, across = form_of(m), up(n, BLOCK)
    height = {"words": 48, "tile": ROWS, "tiles": HEIGHT}[form]
    parts = min(max(max(m, ROWS) * n * inner // PART, 1), MOST)
    tall = min(up(m, height), TALL)
    parts_across = min(max(-(-parts * tall // m), 1), across // BLOCK)
    tall = min(tall, up(-(-m * parts_across // parts), height))
    width = up(-(-across // parts_across), BLOCK)
    parts_across = -(-across // width)
    units = parts_across * -(-m // tall)
    features = targets.dot_features() if form == "words" else INTEGER_FEATURES
    sizes = {"m": m, "n": n, "rows": memory[0], "pitch": memory[1], "depth": up(inner, DEPTH), "inner": up(inner, TOGETHER)}
    cuts = {"height": tall, "width": width, "parts_across": parts_across, "units": units, "per_chunk": 1}
    return integer_product(form, features, kind, relu, has_points, has_bias).bind(units, **sizes, **cuts)


_KINDS = {np.dtype(np.int32): "i32", np.dtype(np.float32): "f32", np.dtype(np.uint8): "u8", np.dtype(np.int8): "i8"}


def multiply(a: np.ndarray, weights: Panels, result: np.ndarray, zero: int, finish: Finishing | None = None) -> None:
    """Write what is made of ``(a - zero) @ weights`` to ``result``.

    Args:
        a: ``(rows, pitch)`` bytes without a sign, of which ``room`` says how many; those behind the ends may be any.
        result: ``(m, n)`` int32, float32, uint8 or int8.
    """
    m, kind = len(result), _KINDS[result.dtype]
    levels = np.array([zero, 0, 0] if finish is None else [zero, finish.zero, finish.least], np.int32)
    arrays = {"a": a, "c": result, "levels": levels, "panels": weights.data, "columns": weights.columns}
    if finish is not None:
        arrays["scale"] = finish.scale
        if finish.bias is not None:
            arrays["bias"] = finish.bias
            if kind != "f32":
                arrays["step"] = np.array([finish.step], np.float32)
    if weights.points is not None:
        sums = a[:m, : weights.inner].sum(1, dtype=np.int64) - zero * weights.inner
        arrays |= {"points": weights.points, "row_sums": sums.astype(np.int32)}
    relu = finish is not None and finish.relu and kind == "f32"
    run = _plan(m, weights.n, weights.inner, a.shape, kind, relu, "points" in arrays, "bias" in arrays)
    run(**arrays)


@native("_int_mm")
def int_mm(input: np.ndarray, mat2: np.ndarray) -> np.ndarray | None:
    (m, inner), n = input.shape, mat2.shape[1]
    if not m * n * inner:
        return None
    zero = 128 if input.dtype == np.int8 else 0
    if m <= FEW and mat2.strides[0] == 1 and mat2.strides[1] >= inner:
        rows = np.bitwise_xor(input.view(np.uint8), np.uint8(zero))
        result = empty((m, n), np.int32)
        arrays, sizes = {"a": np.ascontiguousarray(rows), "w": mat2, "c": result}, {"pitch": mat2.strides[1], "zero": zero}
        run, units = byte_dots(targets.dot_features()), -(-n // ABREAST)
        launch_units(run, units, (n * inner, CHUNK), arrays, m=m, n=n, inner=inner, **sizes)
        return result
    weights = Panels(mat2.T)
    rows, pitch = room(m, inner)
    if zero or (rows, pitch) != (m, inner) or not input.flags.c_contiguous:
        padded = empty((rows, pitch), np.uint8)
        np.bitwise_xor(input.view(np.uint8), np.uint8(zero), out=padded[:m, :inner])
        input = padded
    result = empty((m, n), np.int32)
    multiply(input, weights, result, zero)
    return result


# -- quantized layers --------------------------------------------------------------------------------------------------------------------
def extremes(x: np.ndarray) -> tuple[float, float]:
    """The least and the greatest of contiguous float32 numbers, without NaN."""
    chunks = -(-x.size // CHUNK)
    found = np.empty((chunks, 2), np.float32)
    number_range()(chunks, id(x), id(found), x.size)
    low, high = found[0].tolist() if chunks == 1 else (found[:, 0].min().item(), found[:, 1].max().item())
    return low, high


def rounded(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """Contiguous rows of float32 numbers as the bytes that a product reads."""
    m, inner = x.shape
    made = empty(room(m, inner), np.uint8)
    per_chunk = max(1, CHUNK // inner)
    inverse = float(np.float32(1) / np.float32(scale))
    rounded_rows()(-(-m // per_chunk), id(x), id(made), inverse, float(zero), inner, made.shape[1], m, per_chunk)
    return made


@native("_quantized_linear_dynamic")
def quantized_linear_dynamic(input: np.ndarray, packed: PackedLinear, reduce_range: bool, relu: bool) -> np.ndarray | None:
    if not input.size * packed.panels.n or input.dtype != np.float32:
        return None
    rows = np.ascontiguousarray(input).reshape(-1, packed.panels.inner)
    low, high = extremes(rows)
    if not low <= high:
        return None  # the reference says so
    scale, zero = chosen_parameters(low, high, 0, 127 if reduce_range else 255)
    result = empty((len(rows), packed.panels.n), np.float32)
    multiply(rounded(rows, scale, zero), packed.panels, result, zero, packed.numbers(scale, relu))
    return result.reshape(*input.shape[:-1], packed.panels.n)


@native("_quantized_linear")
def quantized_linear(
    input: np.ndarray, packed: PackedLinear, scale: float, zero: int, out_scale: float, out_zero: int, relu: bool
) -> np.ndarray | None:
    panels = packed.panels
    if not input.size * panels.n:
        return None
    rows = np.ascontiguousarray(input).reshape(-1, panels.inner)
    (m, inner), wanted = rows.shape, room(*rows.shape)
    if wanted != rows.shape:
        padded = empty(wanted, np.uint8)
        padded[:m, :inner] = rows
        rows = padded
    result = empty((m, panels.n), np.uint8)
    multiply(rows, panels, result, zero, packed.bytes(scale, out_scale, out_zero, relu))
    return result.reshape(*input.shape[:-1], panels.n)
