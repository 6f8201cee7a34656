"""The matrix products of convolutions; see ``convolution`` for which they are and who calls them.

A kernel is an object whose methods are its loops, the outermost first.  Images are packed in one of two ways, which are its subclasses:

    bands    some rows of an image, packed as they are with zeros around: a tap is one distance for all pixels, and pixels between the end
             of a row and the beginning of the next are computed in vain
    panels   any pixels; for each tap and channel a row of what they see (``microkernel``)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .microkernel import (
    Filling,
    Images,
    Lines,
    Packing,
    Place,
    Strides,
    borrow,
    copy_line,
    give_back,
    inner_products,
    product,
    runs,
    tile_width,
    whole_plane,
)

PIXELS = 192  # of a block of panels: with 576 rows 432 KB


# -- forward and input gradient -----------------------------------------------------------------------------------------------------
class FactorArguments(Record):
    weight: Array
    target: Array
    taps: Array  # (dy, dx, place of the weight)
    count: Integer  # of taps
    channels: Integer
    block: Integer  # of channels
    outputs: Integer
    by_group: Integer  # strides of the weight, in elements
    by_output: Integer
    by_channel: Integer


@kernel
def pack_weight(k: Builder, element: str, rows: int) -> None:
    """Weights as factors: (group, block of channels, strip of ``rows`` outputs, tap, channel, output); a chunk is a strip of a group."""
    a = k.arguments(FactorArguments)
    strips = (a.outputs + (rows - 1)) // rows

    def chunk(index: Value) -> None:
        group, strip = index // strips, index % strips
        first = strip * rows
        source = k.at(a.weight, group * a.by_group, element)
        # behind the last output comes the last one again: what is made with it is not stored
        lines = [k.at(source, k.least(first + r, a.outputs - 1) * a.by_output, element) for r in range(rows)]
        base = group * strips * rows * a.channels * a.count

        def block(c0: Value) -> None:
            n = k.least(a.block, a.channels - c0)
            to = k.at(a.target, base + c0 * a.count * strips * rows + first * n * a.count, element)
            k.loop(0, a.count, partial(_pack_tap, k, element, a, lines, to, (c0, n)))

        k.loop(0, a.channels, block, step=a.block)

    k.for_chunks(chunk)


def _pack_tap(k: Builder, element: str, a: FactorArguments, lines: list[Value], to: Value, channels: tuple[Value, Value], t: Value) -> None:
    (c0, n), rows = channels, len(lines)
    offset = k.load(a.taps, t * 3 + 2, "i64")

    def one(c: Value) -> None:
        for r in range(rows):
            k.store(k.load(lines[r], offset + (c0 + c) * a.by_channel, element), to, (t * n + c) * rows + r, element)

    k.loop(0, n, one)


class WindowArguments(Record):
    source: Array
    out: Array
    factors: Array  # as ``pack_weight`` writes them
    bias: Array
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # of a band: for each tap the distance of what it sees, and anything
    images: Images
    place: Place  # of a band
    pieces: Integer  # of scratch memory, and their size
    room_size: Integer
    apart: Integer  # from a channel's band to the next one's
    channels: Integer  # of a group
    block: Integer  # of channels
    outputs: Integer  # of a group
    pixels: Integer  # of an image for bands, of all for panels
    pixel_block: Integer
    strip_block: Integer
    line: Integer  # pixels that lie side by side in the result; for bands with those between rows
    to: Strides  # of the result


@kernel
def windows_times_weight(k: Builder, element: str, mode: str, store: str, rows: int, band: bool) -> None:
    """The convolution: a block of pixels is packed, then multiplied with one strip of ``rows`` outputs after the other.

    ``mode`` and ``store`` are those of the input and the result, see ``mode_of``.
    """
    (_BandProducts if band else _PanelProducts)(k, element, mode, store, rows).run()


@dataclass(frozen=True, slots=True)
class _Pixels:
    """Pixels that one chunk of ``windows_times_weight`` computes: ``first`` to ``stop`` of one group's outputs.

    Attributes:
        image: which image they are of, for bands.
        channel: the group's first one.
        data, factors, bias, out: of the group.
        packed: the thread's scratch memory.
    """

    image: Value
    channel: Value
    first: Value
    stop: Value
    data: Value
    factors: Value
    bias: Value
    out: Value
    packed: Value


@dataclass(frozen=True, slots=True)
class _Strip:
    """``channels`` channels from ``c0`` on of some pixels, and the outputs from ``first`` on that they are multiplied for."""

    pixels: _Pixels
    c0: Value
    channels: Value
    first: Value
    factors: Value


class _Products:
    """The loops of ``windows_times_weight``.

    Attributes:
        width: pixels of a tile, at most, in ``vectors`` registers.
        tile: memory for a tile that is not stored from registers.
    """

    def __init__(self, k: Builder, element: str, mode: str, store: str, rows: int):
        self.k, self.element, self.mode, self.store, self.rows = k, element, mode, store, rows
        self.lanes, self.vectors = k.lanes(element), tile_width(k.target, rows)
        self.width = self.vectors * self.lanes
        self.a = a = k.arguments(WindowArguments)
        self.tile, self.seen = k.scratch(rows * self.width, element), k.scratch(2 * PIXELS, "i64")
        self.strips = (a.outputs + (rows - 1)) // rows
        self.strip_groups = (self.strips + a.strip_block - 1) // a.strip_block
        self.pixel_blocks = (a.pixels + a.pixel_block - 1) // a.pixel_block

    # what bands and panels differ in
    def pixel_groups(self) -> Value:
        """Number of blocks of pixels in all."""
        raise NotImplementedError

    def run_length(self) -> Value:
        """Pixels of a run of the result that are wanted."""
        raise NotImplementedError

    def pack(self, pixels: _Pixels, c0: Value, channels: Value) -> None:
        raise NotImplementedError

    def lines(self, strip: _Strip, p: Value) -> Lines:
        """The operands of the tile that begins at pixel ``p``."""
        raise NotImplementedError

    def image_and_row(self, pixels: _Pixels, run: Value) -> tuple[Value, Value]:
        """Image and row of a run of the result."""
        raise NotImplementedError

    def clear(self, to: Value, count: Value, start: Value | int = 0) -> None:
        """Zeros where the last tile's registers end: of what may lie there, subnormal numbers would take a hundred cycles each."""
        k = self.k
        k.loop(start, count, lambda v: k.store(k.const(0, self.element, self.lanes), to, v, self.element), step=self.lanes)

    # the loops
    def run(self) -> None:
        pixel_groups = self.pixel_groups()
        self.k.for_chunks(lambda index: self.chunk(index, pixel_groups))

    def chunk(self, index: Value, pixel_groups: Value) -> None:
        k, element, a, im = self.k, self.element, self.a, self.a.images
        piece = borrow(k, a.flags, a.pieces)
        packed = k.at(a.room, piece * a.room_size, element)
        strip0, rest = (index % self.strip_groups) * a.strip_block, index // self.strip_groups
        which, group = rest % pixel_groups, rest // pixel_groups
        image, first = which // self.pixel_blocks, (which % self.pixel_blocks) * a.pixel_block
        stop = k.least(first + a.pixel_block, a.pixels)
        data = k.at(a.source, group * a.channels * im.c, element)
        factors = k.at(a.factors, group * self.strips * self.rows * a.channels * im.count, element)
        bias, out = k.at(a.bias, group * a.outputs, element), k.at(a.out, group * a.outputs * a.to.c, element)
        pixels = _Pixels(image, group * a.channels, first, stop, data, factors, bias, out, packed)
        k.loop(0, a.channels, lambda c0: self.block(pixels, strip0, c0), step=a.block)
        give_back(k, a.flags, piece)

    def block(self, pixels: _Pixels, strip0: Value, c0: Value) -> None:
        """A block of channels from ``c0`` on, multiplied with strips of the factors from ``strip0`` on."""
        k, a, rows = self.k, self.a, self.rows
        channels, count = k.least(a.block, a.channels - c0), a.images.count
        self.pack(pixels, c0, channels)

        def strip(o: Value) -> None:
            factors = k.at(pixels.factors, c0 * count * self.strips * rows + o * channels * count, self.element)
            part = _Strip(pixels, c0, channels, o, factors)
            k.loop(pixels.first, pixels.stop, lambda p: self.one_tile(part, p), step=self.width)

        k.loop(strip0 * rows, k.least((strip0 + a.strip_block) * rows, a.outputs), strip, step=rows)

    def one_tile(self, strip: _Strip, p: Value) -> None:
        k = self.k
        stop = k.least(p + self.width, strip.pixels.stop)
        is_stored = by_width(k, stop - p, self.lanes, self.vectors, lambda v: self.multiply(strip, p, stop, v))
        k.when(is_stored, lambda: None, lambda: self.write(strip, p, stop))

    def multiply(self, strip: _Strip, p: Value, stop: Value, vectors: int) -> Value:
        """Compute a tile of so many registers, and store it if they are whole; whether it is stored, else it is in ``tile``."""
        k, element, lanes, line = self.k, self.element, self.lanes, self.a.line
        total = product(k, element, self.rows, vectors, self.lines(strip, p))
        is_whole = k.const(False, "b1")
        if self.store == "row":  # registers of one run of the result are stored as they are
            is_whole = (stop - p).eq(vectors * lanes) & (p % line + vectors * lanes <= self.run_length())

        def put_aside() -> None:
            for r in range(self.rows):
                for j in range(vectors):
                    k.store(total[r][j], self.tile, r * self.width + j * lanes, element)

        k.when(is_whole, lambda: self.write_whole(strip, p, total), put_aside)
        return is_whole

    # -- the result: a tile is added to the bias, or where this is not the first block of channels to what is there
    def place_of(self, strip: _Strip, run: Value, start: Value) -> Value:
        """Pointer to the result for pixel ``start`` of run number ``run``, for the strip's first output."""
        to = self.a.to
        n, y = self.image_and_row(strip.pixels, run)
        return self.k.at(strip.pixels.out, to.image(n) + y * to.y + (start - run * self.a.line) * to.x + strip.first * to.c, self.element)

    def write_whole(self, strip: _Strip, p: Value, total: list[list[Value]]) -> None:
        """From registers."""
        k, element, lanes = self.k, self.element, self.lanes
        left, place = k.least(self.a.outputs - strip.first, self.rows), self.place_of(strip, p // self.a.line, p)

        def row(r: int) -> None:
            first = k.splat(k.load(strip.pixels.bias, strip.first + r, element), lanes)
            to = k.at(place, r * self.a.to.c, element)
            for j, value in enumerate(total[r]):
                old = k.load(to, j * lanes, element, lanes)
                k.store(value + k.select(strip.c0.eq(0), first, old), to, j * lanes, element)

        for r in range(self.rows):
            k.when(left > r, partial(row, r))

    def write(self, strip: _Strip, p: Value, stop: Value) -> None:
        """From memory."""
        k, element, to = self.k, self.element, self.a.to
        left = k.least(self.a.outputs - strip.first, self.rows)

        def part(run: Value, start: Value, end: Value) -> None:
            end = self.end_of(run, start, end)
            place = self.place_of(strip, run, start)
            values, length = k.at(self.tile, start - p, element), end - start

            def row(r: Value) -> None:
                first = k.load(strip.pixels.bias, strip.first + r, element)
                add = partial(self.added, strip, first)
                copy_line(k, element, self.store, k.at(values, r * self.width, element), k.at(place, r * to.c, element), length, to.x, add)

            k.loop(0, left, row)

        runs(k, p, stop, self.a.line, part)

    def added(self, strip: _Strip, bias: Value, value: Value, old: Callable[[], Value]) -> Value:
        return value + self.k.select(strip.c0.eq(0), bias, old())

    def end_of(self, run: Value, start: Value, end: Value) -> Value:
        """End (excluded) of the pixels ``start`` to ``end`` of a run that are wanted."""
        return end


class _BandProducts(_Products):
    """Blocks of pixels are rows of an image, packed as they are with zeros around."""

    def pixel_groups(self) -> Value:
        return self.a.images.images * self.pixel_blocks

    def run_length(self) -> Value:
        return self.a.images.out_width

    def pack(self, pixels: _Pixels, c0: Value, channels: Value) -> None:
        k, element, a, im, place = self.k, self.element, self.a, self.a.images, self.a.place
        fill = Filling(k, element, self.mode)

        def channel(c: Value) -> None:
            row = pixels.first // a.line
            held = place.replace(
                y0=place.y0 + row * im.step_y,
                rows=k.least(
                    place.rows, (pixels.stop - pixels.first + (a.line - 1)) // a.line + place.rows - a.pixel_block // a.line
                ),
            )  # fmt: skip
            plane = k.at(pixels.packed, c * a.apart, element)
            start, height = im.plane(k, pixels.image, pixels.channel + c0 + c)
            fill(plane, k.at(a.source, start, element), im.replace(height=height), held, place.rows)
            last = (place.phases_y * place.phases_x - 1) * place.rows + held.rows
            self.clear(k.at(plane, last * place.pitch, element), self.width + place.pitch - im.out_width)

        k.loop(0, channels, channel)

    def lines(self, strip: _Strip, p: Value) -> Lines:
        k, pixels = self.k, strip.pixels

        def of(t: Value) -> Value:
            return k.at(pixels.packed, p - pixels.first + k.load(self.a.table, t * 2, "i64"), self.element)

        return Lines(factors=strip.factors, taps=(0, self.a.images.count), of=of, channels=strip.channels, pitch=self.a.apart)

    def image_and_row(self, pixels: _Pixels, run: Value) -> tuple[Value, Value]:
        return pixels.image, run

    def end_of(self, run: Value, start: Value, end: Value) -> Value:
        return self.k.most(start, self.k.least(end, run * self.a.line + self.a.images.out_width))


class _PanelProducts(_Products):
    """Blocks of pixels are packed as panels, one for each tile; ``seen`` has the range of taps that meet a row of the image."""

    def pixel_groups(self) -> Value:
        return self.pixel_blocks

    def run_length(self) -> Value:
        return self.a.line

    def pack(self, pixels: _Pixels, c0: Value, channels: Value) -> None:
        k, im = self.k, self.a.images
        fill = Packing(k, self.element, self.mode, im)

        def panel(p: Value) -> None:
            stop = k.least(p + self.width, pixels.stop)
            low, high = im.taps_seen(k, p, stop)
            number = (p - pixels.first) // self.width
            k.store(low, self.seen, number * 2, "i64")
            k.store(high, self.seen, number * 2 + 1, "i64")
            to = k.at(pixels.packed, (p - pixels.first) * channels * im.count, self.element)
            end = (stop - p) // self.lanes * self.lanes
            rows = k.select(end < self.width, high * channels, 0)
            k.loop(low * channels, rows, lambda r: self.clear(k.at(to, r * self.width, self.element), k.const(self.width, "i64"), end))
            fill(pixels.data, to, self.width, (p, stop), (c0, channels), (low, high))

        k.loop(pixels.first, pixels.stop, panel, step=self.width)

    def lines(self, strip: _Strip, p: Value) -> Lines:
        k, element, pixels, channels = self.k, self.element, strip.pixels, strip.channels
        number = (p - pixels.first) // self.width
        low, high = (k.load(self.seen, number * 2 + i, "i64") for i in range(2))
        count = (high - low) * channels
        factors = k.at(strip.factors, low * channels * self.rows, element)
        start = (p - pixels.first) * channels * self.a.images.count + low * channels * self.width
        panel = k.at(pixels.packed, start, element)
        return Lines(factors=factors, taps=(0, 1), of=lambda t: panel, channels=count, pitch=self.width)

    def image_and_row(self, pixels: _Pixels, run: Value) -> tuple[Value, Value]:
        im = self.a.images
        return im.place(self.k, run * (self.a.line // im.out_width))


def by_width(k: Builder, length: Value, lanes: int, vectors: int, body: Callable[[int], Value]) -> Value:
    """Result of ``body(v)`` for a number of registers, up to ``vectors``, that holds ``length`` elements."""

    def choose(choices: list[int]) -> Any:
        if len(choices) == 1:
            return body(choices[0])
        return k.when(length > choices[1] * lanes, lambda: body(choices[0]), lambda: choose(choices[1:]))

    return choose(sorted({vectors, (vectors + 1) // 2, 1}, reverse=True))


# -- weight gradient ------------------------------------------------------------------------------------------------------------------
def sums_tile(target: targets.Target) -> tuple[int, int]:
    return (4, 6) if target.registers >= 32 else (3, 4)


def further_rows(line: Any, lanes: int) -> Any:
    """Rows of a band that are filled behind those that windows see: one begins up to ``line`` - 1 elements into a row, and ends up to
    ``lanes`` - 1 behind the last."""
    return (2 * line + (lanes - 3)) // line


class SumArguments(Record):
    source: Array
    grad: Array
    partial: Array  # for each range of pixels its sums
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # of a band: for each tap the distance of what it sees, and anything
    images: Images
    grads: Images
    place: Place  # of a band
    pieces: Integer  # of scratch memory, and their size
    room_size: Integer
    room_panel: Integer  # elements of a piece for packed images; the gradient's lines lie behind them
    between_channels: Integer  # from a channel's band to the next one's
    channels: Integer  # of a group
    block: Integer  # of channels
    outputs: Integer  # of a group
    output_block: Integer
    pixels: Integer  # of all images; bands are counted in blocks of them
    pixel_block: Integer  # rows of an image for bands
    split: Integer  # pixels of a range
    apart: Integer  # from a range's sums to the next one's


@kernel
def windows_times_grad(k: Builder, element: str, mode: str, grad_mode: str, band: bool) -> None:
    """The weight gradient: sums over pixels, tiles of outputs times (tap, channel), each tile whole registers in ``partial``.

    A chunk is a range of pixels, a block of channels and a group; each range of pixels has sums of its own.  Of bands the gradient has
    zeros between its rows.
    """
    k.for_chunks((_BandSums if band else _PanelSums)(k, element, mode, grad_mode).chunk)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums that one chunk of ``windows_times_grad`` computes.

    Attributes:
        data, grad, channel: of the group, and its first channel.
        c0, channels: the first channel, and how many.
        depth: how many (tap, channel) there are.
        start: first pixel, or block of them.
        sums: where the tiles go.
        panel, lines: the thread's scratch memory, for images and for the gradient.
    """

    data: Value
    grad: Value
    channel: Value
    c0: Value
    channels: Value
    depth: Value
    start: Value
    sums: Value
    panel: Value
    lines: Value


@dataclass(frozen=True, slots=True)
class _PackedPixels:
    """Some packed pixels, from ``first`` on: ``length`` elements of each line, a multiple of the lanes.

    ``windows`` is the line of a (tap, channel); ``pack_grads`` writes the gradient's lines, for so many outputs from one on.
    """

    first: Value
    length: Value
    windows: Callable[[Value], Value]
    pack_grads: Callable[[Value, Value], None]


class _SumsOfProducts:
    """The loops of ``windows_times_grad``; ``pitch`` is from line to line."""

    def __init__(self, k: Builder, element: str, mode: str, grad_mode: str):
        self.k, self.element, self.mode, self.grad_mode = k, element, mode, grad_mode
        self.lanes = k.lanes(element)
        self.rows, self.columns = sums_tile(k.target)
        self.size = -(-self.rows * self.columns // self.lanes) * self.lanes  # of a tile
        self.a = a = k.arguments(SumArguments)
        self.blocks = (a.channels + a.block - 1) // a.block
        self.output_tiles = (a.outputs + (self.rows - 1)) // self.rows
        self.tiles = (a.block * a.images.count + (self.columns - 1)) // self.columns
        self.splits = (a.pixels + a.split - 1) // a.split
        # not a power of two, or all rows would lie in the same sets of the cache
        self.pitch = self.block_length() // self.lanes * self.lanes + 2 * self.lanes
        self.zero = k.const(0, element, self.lanes)

    # what bands and panels differ in
    def block_length(self) -> Value:
        """Elements of a line of a block of pixels."""
        raise NotImplementedError

    def blocks_of(self, part: _Sums, end: Value) -> None:
        """Pack each block of pixels of the range, and sum up its products."""
        raise NotImplementedError

    # the loops
    def chunk(self, index: Value) -> None:
        k, element, a = self.k, self.element, self.a
        piece = borrow(k, a.flags, a.pieces)
        panel = k.at(a.room, piece * a.room_size, element)
        lines = k.at(panel, a.room_panel, element)
        number, c0, rest = index % self.splits, ((index // self.splits) % self.blocks) * a.block, index // self.splits
        group = rest // self.blocks
        data = k.at(a.source, group * a.channels * a.images.c, element)
        grad = k.at(a.grad, group * a.outputs * a.grads.c, element)
        channels = k.least(a.block, a.channels - c0)
        depth = channels * a.images.count
        start, end = number * a.split, k.least((number + 1) * a.split, a.pixels)
        sums = k.at(a.partial, number * a.apart + rest * self.output_tiles * self.tiles * self.size, element)
        self.blocks_of(_Sums(data, grad, group * a.channels, c0, channels, depth, start, sums, panel, lines), end)
        give_back(k, a.flags, piece)

    def products(self, part: _Sums, pixels: _PackedPixels) -> None:
        """Add the products of packed pixels, a block of outputs after the other."""
        k, a = self.k, self.a

        def outputs(o0: Value) -> None:
            o1 = k.least(o0 + a.output_block, a.outputs)
            self.clear_ends(part.lines, o1 - o0, pixels.length)
            self.clear_behind(part.lines, o1 - o0, self.rows, pixels.length)
            pixels.pack_grads(o0, o1 - o0)
            k.loop(0, (part.depth + (self.columns - 1)) // self.columns, lambda j: self.tiles_of(part, pixels, (o0, o1), j))

        k.loop(0, a.outputs, outputs, step=a.output_block)

    def tiles_of(self, part: _Sums, pixels: _PackedPixels, outputs: tuple[Value, Value], j: Value) -> None:
        """The tiles in column ``j`` of the outputs."""
        k, element, lanes = self.k, self.element, self.lanes
        o0, o1 = outputs
        seen = [pixels.windows(j * self.columns + i) for i in range(self.columns)]

        def tile(o: Value) -> None:
            grads = [k.at(part.lines, (o - o0 + i) * self.pitch, element) for i in range(self.rows)]
            sums = inner_products(k, element, grads, seen, pixels.length)
            at = k.at(part.sums, (o // self.rows * self.tiles + j) * self.size, element)
            for i, value in enumerate(sums):
                old = k.when(pixels.first.eq(part.start), lambda: self.zero, partial(k.load, at, i * lanes, element, lanes))
                k.store(old + value, at, i * lanes, element)

        k.loop(o0, o1, tile, step=self.rows)

    def clear_ends(self, lines: Value, count: Value, length: Value) -> None:
        """Zeros in the last register of each line: what lies behind its end must not count."""
        k, lanes = self.k, self.lanes
        k.loop(0, count, lambda r: k.store(self.zero, lines, r * self.pitch + (length - lanes), self.element))

    def clear_behind(self, lines: Value, count: Value, multiple: int, length: Value) -> None:
        """Zeros in the lines behind ``count``, up to a multiple: subnormal numbers there would take a hundred cycles each."""
        k = self.k

        def line(r: Value) -> None:
            k.loop(0, length, lambda v: k.store(self.zero, lines, r * self.pitch + v, self.element), step=self.lanes)

        k.loop(count, (count + (multiple - 1)) // multiple * multiple, line)

    def rounded(self, length: Value) -> Value:
        return (length + (self.lanes - 1)) // self.lanes * self.lanes


class _PanelSums(_SumsOfProducts):
    """Blocks of pixels are packed as one panel."""

    def block_length(self) -> Value:
        return self.a.pixel_block

    def blocks_of(self, part: _Sums, end: Value) -> None:
        k, im, gr, pitch = self.k, self.a.images, self.a.grads, self.pitch
        pack = Packing(k, self.element, self.mode, im)
        pack_grad = Packing(k, self.element, self.grad_mode, gr)

        def block(p: Value) -> None:
            stop = k.least(p + self.a.pixel_block, end)
            length = self.rounded(stop - p)
            self.clear_ends(part.panel, part.depth, length)
            self.clear_behind(part.panel, part.depth, self.columns, length)
            pack(part.data, part.panel, pitch, (p, stop), (part.c0, part.channels), (0, im.count))

            def windows(number: Value) -> Value:
                return k.at(part.panel, number * pitch, self.element)

            def grads(o0: Value, count: Value) -> None:
                pack_grad(part.grad, part.lines, pitch, (p, stop), (o0, count), (0, gr.count))

            self.products(part, _PackedPixels(p, length, windows, grads))

        k.loop(part.start, end, block, step=self.a.pixel_block)


class _BandSums(_SumsOfProducts):
    """Blocks of pixels are some rows of an image, packed as they are."""

    def block_length(self) -> Value:
        return self.a.pixel_block * self.a.place.pitch

    def blocks_of(self, part: _Sums, end: Value) -> None:
        k, im, tall, line = self.k, self.a.images, self.a.pixel_block, self.a.place.pitch

        def block(p: Value) -> None:
            per_image = (im.out_height + (tall - 1)) // tall
            image, y0 = p // per_image, (p % per_image) * tall
            high = k.least(tall, im.out_height - y0)
            length = self.rounded(high * line)
            self.pack(part, image, y0, high)
            windows, grads = partial(self.windows, part), partial(self.pack_grads, part, (image, y0, high))
            self.products(part, _PackedPixels(p, length, windows, grads))

        k.loop(part.start, end, block)

    def pack(self, part: _Sums, image: Value, y0: Value, high: Value) -> None:
        """The images' rows that ``high`` rows of windows from ``y0`` on see."""
        k, im, place = self.k, self.a.images, self.a.place
        fill = Filling(k, self.element, self.mode)
        # further rows, because what is multiplied by the zeros between and behind rows must be numbers, too
        held = place.replace(
            y0=place.y0 + y0 * im.step_y,
            rows=high + (place.rows - self.a.pixel_block) + further_rows(place.pitch, self.lanes),
        )

        def channel(c: Value) -> None:
            start, height = im.plane(k, image, part.channel + part.c0 + c)
            data, to = k.at(self.a.source, start, self.element), k.at(part.panel, c * self.a.between_channels, self.element)
            fill(to, data, im.replace(height=height), held, place.rows)

        k.loop(0, part.channels, channel)

    def windows(self, part: _Sums, number: Value) -> Value:
        k, channels = self.k, part.channels
        number = k.least(number, part.depth - 1)
        distance = number % channels * self.a.between_channels + k.load(self.a.table, number // channels * 2, "i64")
        return k.at(part.panel, distance, self.element)

    def pack_grads(self, part: _Sums, rows: tuple[Value, Value, Value], o0: Value, count: Value) -> None:
        k, gr = self.k, self.a.grads
        image, y0, high = rows
        fill = Filling(k, self.element, self.grad_mode)

        def output(o: Value) -> None:
            data = k.at(part.grad, gr.image(image) + (o0 + o) * gr.c + y0 * gr.y, self.element)
            plane = k.at(part.lines, o * self.pitch, self.element)
            fill(plane, data, gr.replace(height=high), whole_plane(k, high, self.a.place.pitch))

        k.loop(0, count, output)


class JoinArguments(Record):
    partial: Array
    out: Array
    count: Integer  # of taps
    channels: Integer
    block: Integer  # of channels
    outputs: Integer
    splits: Integer  # ranges of pixels
    apart: Integer  # from a range's sums to the next one's


@kernel
def join_partial(k: Builder, element: str) -> None:
    """The weight gradient from the partial sums: (output, channel, tap); a chunk is a tile of outputs of a block of channels of a group."""
    lanes = k.lanes(element)
    rows, columns = sums_tile(k.target)
    size = -(-rows * columns // lanes) * lanes
    a = k.arguments(JoinArguments)
    blocks = (a.channels + a.block - 1) // a.block
    output_tiles = (a.outputs + (rows - 1)) // rows
    tiles = (a.block * a.count + (columns - 1)) // columns

    def chunk(index: Value) -> None:
        tile, rest = index % output_tiles, index // output_tiles
        group, c0 = rest // blocks, (rest % blocks) * a.block
        some = k.least(a.block, a.channels - c0)
        mine, left = k.at(a.partial, index * tiles * size, element), k.least(a.outputs - tile * rows, rows)
        k.when(a.splits > 1, lambda: _add_splits(k, element, a, mine, tiles * size))
        first = k.at(a.out, ((group * a.outputs + tile * rows) * a.channels + c0) * a.count, element)

        def channel(c: Value) -> None:
            to = k.at(first, c * a.count, element)

            def tap(t: Value) -> None:
                place = t * some + c
                at = k.at(mine, (place // columns) * size + place % columns, element)
                _store_outputs(k, element, a, at, k.at(to, t, element), left)

            k.loop(0, a.count, tap)

        k.loop(0, some, channel)

    k.for_chunks(chunk)


def _add_splits(k: Builder, element: str, a: JoinArguments, sums: Value, size: Value) -> None:
    """Sums of the first range plus those of the others."""
    lanes = k.lanes(element)

    def register(i: Value) -> None:
        def split(number: Value, total: Value) -> Value:
            return total + k.load(sums, number * a.apart + i, element, lanes)

        k.store(k.loop(0, a.splits, split, carried=[k.const(0, element, lanes)]), sums, i, element)

    k.loop(0, size, register, step=lanes)


def _store_outputs(k: Builder, element: str, a: JoinArguments, sums: Value, to: Value, left: Value) -> None:
    """One (channel, tap) of a tile's outputs, of which ``left`` are there."""
    rows, columns = sums_tile(k.target)

    def output(r: Value | int) -> None:
        k.store(k.load(sums, r * columns, element), to, r * a.channels * a.count, element)

    def all_outputs() -> None:
        for r in range(rows):
            output(r)

    k.when(left.eq(rows), all_outputs, lambda: k.loop(0, left, output))


@kernel
def channel_sums(k: Builder, element: str) -> None:
    """Sums of planes of neighbouring elements, one for each image and channel, over the images; a chunk is a channel."""
    lanes = k.lanes(element)
    x, out, images, channels, size = k.array(), k.array(), k.integer(), k.integer(), k.integer()
    zero = k.const(0, element, lanes)

    def chunk(c: Value) -> None:
        def image(n: Value, total: Value) -> Value:
            return total + _sum_of_plane(k, element, k.at(x, (n * channels + c) * size, element), size)

        k.store(k.sum(k.loop(0, images, image, carried=[zero])), out, c, element)

    k.for_chunks(chunk)


@kernel
def channel_sums_of_pixels(k: Builder, element: str) -> None:
    """The same where channels lie side by side; a chunk is a register of channels."""
    lanes = k.lanes(element)
    x, out, images, channels, size = k.array(), k.array(), k.integer(), k.integer(), k.integer()
    zero = k.const(0, element, lanes)

    def chunk(index: Value) -> None:
        c = index * lanes
        mask = k.mask_below(c, channels, lanes)

        def image(n: Value, total: Value) -> Value:
            data, main = k.at(x, n * size * channels + c, element), size & -4

            def four(p: Value, *sums: Value) -> list[Value]:
                return [s + k.load(data, (p + u) * channels, element, lanes, mask) for u, s in enumerate(sums)]

            sums = k.loop(0, main, four, step=4, carried=[zero] * 4)
            rest = k.loop(main, size, lambda p, s: s + k.load(data, p * channels, element, lanes, mask), carried=[zero])
            return total + (((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest)

        k.store(k.loop(0, images, image, carried=[zero]), out, c, element, mask)

    k.for_chunks(chunk)


def _sum_of_plane(k: Builder, element: str, plane: Value, size: Value) -> Value:
    """A register of sums, of four that are added to in turn."""
    lanes = k.lanes(element)
    zero = k.const(0, element, lanes)
    main = size - size % (4 * lanes)

    def four(i: Value, *sums: Value) -> list[Value]:
        return [s + k.load(plane, i + u * lanes, element, lanes) for u, s in enumerate(sums)]

    sums = k.loop(0, main, four, step=4 * lanes, carried=[zero] * 4)
    rest = k.vector_loop(main, size, lanes, lambda i, mask, s: s + k.load(plane, i, element, lanes, mask), carried=[zero])
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest
