"""Convolutions of few pixels: what they see is copied, and weights are read once, as they lie.

    weight    rows (output) of channels and taps, side by side in memory
    columns   (three pixels, register, pixel): what a pixel sees of channels and taps, in the same order

Registers run along both; a tile is the sums of eight outputs and three pixels, whose lanes are added up at the end. A block of the weight's
rows stays in the first cache until all pixels have met it. With nine pixels its way from memory takes as long as all arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value, as_tuple
from ..compiler.memory import empty
from .columns import LANES, PLACES, Run, Windows, padded
from .microkernel import lane_sums, strides_of
from .tiles import aligned

COLUMNS = 3  # pixels of a tile
GROUPS = 16  # tiles of pixels that meet a block of the weight, and then the next one
DEPTH = 24  # registers of a row of a block
WORTH = 1.0  # their cost counts that much
WORK = 1 << 19  # multiply-adds of a chunk, at least
# cycles of a multiply-add, of a number of the weight at least, of one of the columns and of the result, and of two launches
MULTIPLIED, READ, GATHERED, FINISHED, STARTED = 1 / 19, 0.8, 0.8, 6, 5_000


def rows_of(target: targets.Target) -> int:
    """Outputs of a tile."""
    return 8 if target.registers > 16 else 4


class SeenArguments(Record):
    source: Array
    target: Array
    places: Array  # for each pixel, and a register's channels and taps, the place in the images; negative outside of them
    taps: Integer
    inner: Integer  # channels and taps
    by_channels: Integer  # from a register's channels to the next ones, in elements
    pixels: Integer  # up to whole tiles


@kernel
def seen_of(k: Builder, element: str) -> None:
    """Columns of images; a chunk is as many channels as a register has lanes."""
    a = k.arguments(SeenArguments)
    lanes = k.lanes(element)
    registers = (a.inner + (lanes - 1)) // lanes

    def chunk(c: Value) -> None:
        source, first = k.at(a.source, c * a.by_channels, element), c * a.taps
        count = k.least(a.taps, registers - first)

        def pixel(p: Value) -> None:
            target = k.at(aligned(k, a.target), (p // COLUMNS * registers + first) * (COLUMNS * lanes) + p % COLUMNS * lanes, element)

            def register(t: Value) -> None:
                place = k.load(a.places, (p * a.taps + t) * lanes, "i32", lanes)
                inside = (place >= 0) & k.mask_below((first + t) * lanes, a.inner, lanes)
                k.store(k.gather(source, place, element, inside), target, t * (COLUMNS * lanes), element)

            k.loop(0, count, register)

        k.loop(0, a.pixels, pixel)

    k.for_chunks(chunk)


class FewArguments(Record):
    weight: Array
    columns: Array  # as ``seen_of`` writes them
    out: Array
    bias: Array
    outputs: Integer
    inner: Integer
    pixels: Integer
    area: Integer  # of an image
    by_image: Integer
    by_output: Integer
    per_chunk: Integer  # strips of outputs


@kernel
def few_pixels(k: Builder, element: str) -> None:
    """The convolution; a chunk is some outputs."""
    k.for_chunks(_Products(k, element).chunk)


class _Products:
    """The loops of ``few_pixels``: strips of outputs, pixels, blocks of channels and taps, tiles."""

    def __init__(self, k: Builder, element: str):
        self.k, self.element, self.lanes, self.rows = k, element, k.lanes(element), rows_of(k.target)
        self.a = k.arguments(FewArguments)
        self.columns = aligned(k, self.a.columns)
        self.size = self.rows * COLUMNS
        self.sums = k.scratch(GROUPS * self.size * self.lanes, element)
        self.totals = k.scratch(-(-self.size // self.lanes) * self.lanes, element)

    def chunk(self, c: Value) -> None:
        k, a = self.k, self.a
        strips = (a.outputs + (self.rows - 1)) // self.rows
        k.loop(c * a.per_chunk, k.least((c + 1) * a.per_chunk, strips), self.strip)

    def strip(self, s: Value) -> None:
        k, a, element = self.k, self.a, self.element
        self.first = s * self.rows
        # behind the last output comes the last one again: what is made with it is not stored
        self.lines = [k.at(a.weight, k.least(self.first + r, a.outputs - 1) * a.inner, element) for r in range(self.rows)]
        self.registers = (a.inner + (self.lanes - 1)) // self.lanes
        groups = (a.pixels + (COLUMNS - 1)) // COLUMNS
        k.loop(0, groups, lambda g: self.groups(g, k.least(groups - g, GROUPS)), step=GROUPS)

    def groups(self, first: Value, count: Value) -> None:
        """Some tiles of pixels."""
        k, a, lanes, depth = self.k, self.a, self.lanes, DEPTH * self.lanes
        whole, zero = a.inner // lanes * lanes, k.const(0, self.element, lanes)
        k.loop(0, count * self.size, lambda i: k.store(zero, self.sums, i * lanes, self.element))

        def block(start: Value) -> None:
            stop = k.least(start + depth, whole)
            k.loop(0, count, lambda g: self.tile(first, g, (start, stop)))

        k.loop(0, whole, block, step=depth)
        rest = k.mask_below(whole, a.inner, lanes)
        k.when(whole < a.inner, lambda: k.loop(0, count, lambda g: self.tile(first, g, (whole, whole + lanes), rest)))
        k.loop(0, count, lambda g: self.finish(first, g))

    def tile(self, first: Value, g: Value, span: tuple[Value, Value], mask: Value | None = None) -> None:
        """Add the products of a ``span`` of channels and taps to a tile's sums."""
        k, element, lanes = self.k, self.element, self.lanes
        sums = k.at(self.sums, g * (self.size * lanes), element)
        seen = k.at(self.columns, (first + g) * self.registers * (COLUMNS * lanes), element)

        def step(i: Value, *total: Value) -> list[Value]:
            values = [k.load(seen, i * COLUMNS + j * lanes, element, lanes) for j in range(COLUMNS)]
            result = []
            for r, line in enumerate(self.lines):
                factor = k.load(line, i, element, lanes, mask)
                result += [k.fma(factor, value, total[r * COLUMNS + j]) for j, value in enumerate(values)]
            return result

        before = [k.load(sums, i * lanes, element, lanes) for i in range(self.size)]
        for i, value in enumerate(as_tuple(k.loop(*span, step, step=lanes, carried=before))):
            k.store(value, sums, i * lanes, element)

    def finish(self, first: Value, g: Value) -> None:
        """Store a tile's results."""
        k, a, element, lanes = self.k, self.a, self.element, self.lanes
        sums = k.at(self.sums, g * (self.size * lanes), element)
        for i in range(0, self.size, lanes):
            values = [k.load(sums, (i + j) * lanes, element, lanes) for j in range(min(lanes, self.size - i))]
            k.store(lane_sums(k, values), self.totals, i, element)
        start = (first + g) * COLUMNS

        def pixel(p: Value) -> None:
            image, place = divmod(p, a.area)
            out, total = k.at(a.out, image * a.by_image + place, element), k.at(self.totals, p - start, element)

            def row(r: Value) -> None:
                o = self.first + r
                k.store(k.load(total, r * COLUMNS, element) + k.load(a.bias, o, element), out, o * a.by_output, element)

            k.loop(0, k.least(self.rows, a.outputs - self.first), row)

        k.loop(start, k.least(start + COLUMNS, a.pixels), pixel)


def cost(windows: Windows) -> float:
    """Cycles, as of ``tiled_convolution``; infinite where the table of places would be too large."""
    weights, pixels = windows.outputs * windows.rows, -(-windows.pixels // COLUMNS) * COLUMNS
    if pixels * len(windows.table) * LANES > PLACES:
        return math.inf
    beside = GATHERED * windows.rows * pixels + FINISHED * windows.outputs * pixels + STARTED
    return weights * max(MULTIPLIED * pixels, READ) + beside


def product(x: np.ndarray, windows: Windows) -> Run:
    """Function of (x, weight, out, bias), all of them row-major but ``x``."""
    element, dtype, lanes = ELEMENTS[x.dtype], x.dtype, targets.current().width // x.itemsize
    taps, inner, area, rows = len(windows.table), windows.rows, windows.out[0] * windows.out[1], rows_of(targets.current())
    seen, pixels = windows.places(x), -(-windows.pixels // COLUMNS) * COLUMNS
    places = seen.T[:, None] + np.arange(lanes)[:, None] * strides_of(x)[1]  # (pixel, channel, tap)
    places = np.where(seen.T[:, None] < 0, -1, places).reshape(windows.pixels, -1)
    copy = seen_of(element).bind(
        -(-windows.channels // lanes), places=padded(places, (pixels, taps * lanes)), taps=taps, inner=inner,
        by_channels=lanes * strides_of(x)[1], pixels=pixels,
    )  # fmt: skip
    strips, size = -(-windows.outputs // rows), pixels * -(-inner // lanes) * lanes
    per_chunk = -(-WORK // (rows * inner * pixels))
    multiply = few_pixels(element).bind(
        -(-strips // per_chunk), outputs=windows.outputs, inner=inner, pixels=windows.pixels, area=area,
        by_image=windows.outputs * area, by_output=area, per_chunk=per_chunk,
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        columns = empty((size + 64 // dtype.itemsize,), dtype)
        copy(source=x, target=columns)
        multiply(weight=weight, columns=columns, out=out, bias=bias)

    return run
