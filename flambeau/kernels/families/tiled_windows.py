"""The matrix products of convolutions in tile registers; see ``tiled_convolution`` for which they are and who calls them.

The weight is the first factor, 32 outputs by 32 channels of a tap for each step. The image is the second: bands of it, packed as they are
with zeros around, so that a tap is one distance for all pixels. Two channels lie side by side, as tiles want them:

    band of channels 0 and 1    pixel 0: c0 c1 | pixel 1: c0 c1 | pixel 2 ...          each as often as numbers have parts
    band of channels 2 and 3    ...

Sums of 32 outputs by 32 pixels are complete when they leave the tiles; those of pixels between rows are left out.
"""

from __future__ import annotations

from functools import partial

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .microkernel import Filling, Images, Place, Strides, between, borrow, copy_line, give_back, runs
from .tile_parts import (
    BLOCK,
    DEEP,
    LARGEST,
    SCALE,
    SIDE,
    TILE,
    Operand,
    add_products,
    note_size,
    pairs_of,
    parts_of,
    row_of,
    size_of,
    store_sums,
)
from .tile_registers import FEATURES, TileRegisters


class TileFactorArguments(Record):
    weight: Array
    target: Array
    flag: Array  # set where a number cannot be split
    taps: Array  # (dy, dx, place of the weight)
    count: Integer  # of taps
    channels: Integer
    outputs: Integer
    by_group: Integer  # strides of the weight, in elements
    by_output: Integer
    by_channel: Integer


@kernel
def pack_tiles(k: Builder, parts: int) -> None:
    """Weights as tiles: (group, strip of 32 outputs, step of 32 channels, tap, part, output, channel); a chunk is a strip of a group."""
    a = k.arguments(TileFactorArguments)
    lanes = k.lanes("f32")
    strips, steps = (a.outputs + (BLOCK - 1)) // BLOCK, (a.channels + (DEEP - 1)) // DEEP
    places = k.indices(lanes) * a.by_channel

    def chunk(index: Value) -> None:
        group, first = index // strips, index % strips * BLOCK
        source, target = k.at(a.weight, group * a.by_group, "f32"), k.at(a.target, index * steps * a.count * (parts * 2 * TILE), "i16")

        def tap(number: Value, largest: Value) -> Value:
            c, t = number // a.count * DEEP, number % a.count
            lines = k.at(source, k.load(a.taps, t * 3 + 2, "i64") + c * a.by_channel, "f32")
            tiles = k.at(target, number * (parts * 2 * TILE), "i16")

            def row(r: Value, largest: Value) -> Value:
                there, line = first + r < a.outputs, k.at(lines, (first + r) * a.by_output, "f32")
                for v in range(DEEP // lanes):
                    mask = k.mask_below(c + v * lanes, k.select(there, a.channels, 0), lanes)
                    value = k.gather(line, places + a.by_channel * (v * lanes), "f32", mask)
                    largest = k.most(largest, size_of(k, value))
                    for part, bits in enumerate(parts_of(k, value, parts)):
                        k.store(row_of(k, bits), tiles, r * DEEP + (part * 2 * TILE + v * lanes), "u16")
                return largest

            return k.loop(0, BLOCK, row, carried=[largest])

        zero = k.const(0, "u32", lanes)
        largest = k.loop(0, steps * a.count, tap, carried=[zero])
        if parts > 1:
            note_size(k, largest, LARGEST, a.flag)

    k.for_chunks(chunk)


class TileArguments(Record):
    source: Array
    out: Array
    factors: Array  # as ``pack_tiles`` writes them
    bias: Array
    flag: Array  # set where a number cannot be split
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each tap the distance of what it sees, and anything
    images: Images
    place: Place  # of a band
    pieces: Integer  # of scratch memory, and their size
    room_size: Integer
    planes: Integer  # elements of a piece before the planes of two channels, and from one of them to the other
    plane: Integer
    apart: Integer  # from a pair of channels' band to the next one's
    channels: Integer  # of a group
    outputs: Integer  # of a group
    strip_block: Integer
    tall: Integer  # rows of an image in a band
    group: Integer  # bands of a chunk
    run: Integer  # pixels of a run of the result, with those between rows
    wide: Integer  # those of them that are wanted
    to: Strides  # of the result


@kernel
def tiles_of_windows(k: Builder, element: str, parts: int, mode: str, store: str) -> None:
    """The convolution: a block of pixels is packed, then multiplied with one strip of 32 outputs after the other.

    ``mode`` and ``store`` are those of the input and the result, see ``mode_of``.
    """
    k.for_chunks(_WindowTiles(k, element, parts, mode, store).chunk)


class _WindowTiles:
    """The loops of ``tiles_of_windows``; a chunk has some rows of some images, and some strips of one group's outputs."""

    def __init__(self, k: Builder, element: str, parts: int, mode: str, store: str):
        self.k, self.element, self.parts, self.store = k, element, parts, store
        k.features = FEATURES
        self.lanes, self.tiles, self.fill = k.lanes("f32"), TileRegisters(k), Filling(k, element, mode)
        self.a = a = k.arguments(TileArguments)
        self.sums = k.scratch(BLOCK * BLOCK, "f32")
        self.steps = (a.channels + (DEEP - 1)) // DEEP
        self.by_part = self.steps * SIDE * a.apart
        self.strips = (a.outputs + (BLOCK - 1)) // BLOCK
        self.row_blocks = (a.images.out_height + (a.tall - 1)) // a.tall

    def chunk(self, index: Value) -> None:
        k, element, a, im = self.k, self.element, self.a, self.a.images
        strip_groups = (self.strips + (a.strip_block - 1)) // a.strip_block
        band_groups = (im.images * self.row_blocks + (a.group - 1)) // a.group
        rest, strip = index // strip_groups, index % strip_groups * a.strip_block
        number, self.first = rest // band_groups, rest % band_groups * a.group
        piece = borrow(k, a.flags, a.pieces)
        self.room = k.at(a.room, piece * a.room_size, "f32")
        count = k.least(a.group, im.images * self.row_blocks - self.first)
        self.data = k.at(a.source, number * a.channels * im.c, element)
        self.bias, self.out = k.at(a.bias, number * a.outputs, "f32"), k.at(a.out, number * a.outputs * a.to.c, element)
        self.factors = k.at(a.factors, number * self.strips * self.steps * im.count * (self.parts * 2 * TILE), "i16")
        k.loop(0, count, self.pack)
        stop = k.least((strip + a.strip_block) * BLOCK, a.outputs)

        def outputs(o: Value) -> None:
            k.loop(0, count, partial(self.strip, o))

        self.tiles.within(lambda: k.loop(strip * BLOCK, stop, outputs, step=BLOCK))
        give_back(k, a.flags, piece)

    def rows_of(self, band: Value) -> tuple[Value, Value, Value]:
        """Image, first row of the result, and number of rows of a band of the chunk."""
        image, y0 = divmod(self.first + band, self.row_blocks)
        return image, y0 * self.a.tall, self.k.least(self.a.tall, self.a.images.out_height - y0 * self.a.tall)

    def place_of(self, band: Value) -> Value:
        return self.k.at(self.room, band * self.by_part * self.parts, "f32")

    # -- the image
    def pack(self, band: Value) -> None:
        """All channels of a band."""
        k, a = self.k, self.a
        image, y0, high = self.rows_of(band)
        planes = [k.at(self.room, a.planes + a.plane * i, "f32") for i in range(2)]
        place = a.place.replace(
            y0=a.place.y0 + y0 * a.images.step_y, rows=k.least(a.place.rows, high + a.place.rows - a.tall)
        )  # fmt: skip
        data, target = k.at(self.data, image * a.images.n, self.element), self.place_of(band)
        length = place.rows * place.pitch
        between_phases = a.place.rows * a.place.pitch

        def pair(number: Value, largest: Value) -> Value:
            for i, plane in enumerate(planes):
                source = k.at(data, (number * 2 + i) * a.images.c, self.element)
                k.when(number * 2 + i < a.channels, partial(self.fill, plane, source, a.images, place, a.place.rows))
            kept = [k.select(number * 2 + i < a.channels, length, 0) for i in range(2)]

            def phase(f: Value, largest: Value) -> Value:
                first = f * between_phases
                to = k.at(target, number * a.apart + first, "f32")

                def register(v: Value, largest: Value) -> Value:
                    masks = [k.mask_below(v, stop, self.lanes) for stop in kept]
                    values = [
                        k.load(k.at(plane, first, self.element), v, self.element, self.lanes, mask)
                        for plane, mask in zip(planes, masks, strict=True)
                    ]
                    for part, bits in enumerate(pairs_of(k, values[0], values[1], self.parts)):
                        k.store(bits, k.at(to, self.by_part * part, "u32"), v, "u32")
                    return k.most(largest, k.most(size_of(k, values[0]), size_of(k, values[1])))

                return k.loop(0, length, register, step=self.lanes, carried=[largest])

            return k.loop(0, place.phases_y * place.phases_x, phase, carried=[largest])

        largest = k.loop(0, self.steps * SIDE, pair, carried=[k.const(0, "u32", self.lanes)])
        if self.parts > 1:
            note_size(k, largest, LARGEST, a.flag)

    # -- the products
    def strip(self, o: Value, band: Value) -> None:
        """32 outputs from ``o`` on of a band."""
        k, a = self.k, self.a
        image, y0, high = self.rows_of(band)
        stop, place = high * a.place.pitch, self.place_of(band)
        out = k.at(self.out, o * a.to.c + image * a.to.n + y0 * a.to.y, self.element)
        factors = k.at(self.factors, o * self.steps * a.images.count * (self.parts * 2 * TILE // BLOCK), "i16")

        def block(p: Value) -> None:
            self.products(factors, k.at(place, p, "f32"))
            self.write(out, o, p, k.least(p + BLOCK, stop))

        k.loop(0, stop, block, step=BLOCK)

    def products(self, factors: Value, seen: Value) -> None:
        """The sums of 32 outputs and 32 pixels from ``seen`` on."""
        k, a, parts, count = self.k, self.a, self.parts, self.a.images.count
        self.tiles.clear(range(4))

        def step(s: Value) -> None:
            channels, weights = k.at(seen, s * SIDE * a.apart, "f32"), k.at(factors, s * count * (parts * 2 * TILE), "i16")

            def tap(t: Value) -> None:
                pixels = k.at(channels, k.load(a.table, t * 2, "i64"), "f32")
                first = Operand(k.at(weights, t * (parts * 2 * TILE), "i16"), "i16", 2 * TILE, TILE, 2 * DEEP)
                add_products(self.tiles, parts, first, Operand(pixels, "f32", self.by_part, SIDE, a.apart * 4))

            k.loop(0, count, tap)

        k.loop(0, self.steps, step)
        store_sums(self.tiles, self.sums)

    # -- the result
    def write(self, out: Value, o: Value, p: Value, stop: Value) -> None:
        """Pixels ``p`` to ``stop`` of the band whose first one belongs to ``out``."""
        k, a, element = self.k, self.a, self.element
        rows = k.least(a.outputs - o, BLOCK)

        def part(run: Value, start: Value, stop: Value) -> None:
            stop = k.least(stop, run * a.run + a.wide)
            if self.store == "row":
                self.write_registers(k.at(out, run * a.to.y + (p - run * a.run), element), (o, rows), (start - p, stop - p))
                return
            place, line = k.at(out, run * a.to.y + (start - run * a.run) * a.to.x, element), k.at(self.sums, start - p, "f32")

            def row(r: Value) -> None:
                bias = k.load(self.bias, o + r, "f32")
                self.write_line(k.at(line, r * BLOCK, "f32"), k.at(place, r * a.to.c, element), stop - start, bias)

            k.loop(0, rows, row)

        runs(k, p, stop, a.run, part)

    def write_registers(self, to: Value, outputs: tuple[Value, Value], seen: tuple[Value, Value]) -> None:
        """Pixels that lie side by side: those of the block of numbers ``seen`` belong at the same number behind ``to``."""
        k, (o, rows) = self.k, outputs
        registers = range(0, BLOCK, self.lanes)
        masks = [between(k, seen[0] - v, seen[1] - v, self.lanes) for v in registers]

        def row(r: Value) -> None:
            bias, line = k.splat(k.load(self.bias, o + r, "f32"), self.lanes), k.at(to, r * self.a.to.c, self.element)
            for v, mask in zip(registers, masks, strict=True):
                k.store(self.finished(k.load(self.sums, r * BLOCK + v, "f32", self.lanes), bias), line, v, self.element, mask)

        k.loop(0, rows, row)

    def finished(self, total: Value, bias: Value) -> Value:
        return total + bias if self.parts == 1 else self.k.fma(total, SCALE**-2, bias)

    def write_line(self, line: Value, to: Value, length: Value, bias: Value) -> None:
        """Pixels that lie apart."""
        k = self.k
        if self.element == "f32":
            copy_line(k, "f32", self.store, line, to, length, self.a.to.x, lambda value, old: self.finished(value, bias))
            return
        k.loop(0, length, lambda i: k.store(self.finished(k.load(line, i, "f32"), bias), to, i * self.a.to.x, self.element))
