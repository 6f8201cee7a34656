"""The matrix products of convolutions in tile registers; see ``tiled_convolution`` for which they are and who calls them.

The image is the first factor: bands of it, packed with zeros around, so that a tap is one distance for all pixels. All that a pixel has
lies side by side, in lines of 32 channels that the weight's tiles, the second factor, are multiplied with in one step:

    pixel 0     channels 0 to 31: first parts | second parts | third parts | channels 32 to 63: ...
    pixel 1     ...

Channels i and i + 16 of a line make a pair. Sums of 32 pixels by 32 outputs are complete when they leave the tiles; those of pixels between
rows are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .microkernel import Filling, Images, Place, Strides, between, borrow, copy_line, give_back, runs
from .tile_parts import BLOCK, DEEP, LARGEST, SCALE, SIDE, Operand, add_products, note_size, pairs_of, size_of, store_sums
from .tile_registers import FEATURES, TileRegisters
from .tiles import transposed

TILE = SIDE * SIDE  # pairs of a tile


class TileWeight(Record):
    """Layout of a weight."""

    taps: Array  # (dy, dx, place of the weight)
    count: Integer  # of taps
    channels: Integer
    outputs: Integer
    by_group: Integer  # strides, in elements
    by_output: Integer
    by_channel: Integer


class TileFactorArguments(Record):
    weight: Array
    target: Array
    flag: Array  # set where a number cannot be split
    layout: TileWeight


@kernel
def pack_tiles(k: Builder, element: str, parts: int, is_row: bool) -> None:
    """Weights as tiles: (group, strip of 32 outputs, step of 32 channels, tap, part, 16 outputs, pair, output); a chunk is a strip."""
    a = k.arguments(TileFactorArguments)
    packing = _Packing(k, element, parts, is_row, a.layout)
    strips = (a.layout.outputs + (BLOCK - 1)) // BLOCK

    def chunk(index: Value) -> None:
        source = k.at(a.weight, index // strips * a.layout.by_group, element)
        packing.strip(source, index % strips * BLOCK, k.at(a.target, index * packing.size, "u32"), a.flag)

    k.for_chunks(chunk)


class _Packing:
    """Packs strips of outputs; ``is_row`` says that all channels and taps of an output lie side by side, in this order."""

    def __init__(self, k: Builder, element: str, parts: int, is_row: bool, layout: TileWeight):
        self.k, self.element, self.parts, self.is_row, self.layout = k, element, parts, is_row, layout
        self.lanes, self.steps = k.lanes("f32"), (layout.channels + (DEEP - 1)) // DEEP
        self.size = self.steps * layout.count * (parts * 2 * TILE)

    def strip(self, source: Value, first: Value, target: Value, flag: Value) -> None:
        """The tiles of outputs from ``first`` on, of a group whose weight is at ``source``."""
        k = self.k
        step = partial(self.rows if self.is_row else self.any, source, first, target)
        largest = k.loop(0, self.steps, step, carried=[k.const(0, "u32", self.lanes)])
        if self.parts > 1:
            note_size(k, largest, LARGEST, flag)

    def put(self, values: list[Value], target: Value, place: tuple[Value, Value, Value, int], largest: Value) -> Value:
        """Store what 16 outputs have of a pair of channels; ``place``: the step, the tap, the number of the pair, and which half."""
        k, (s, t, r, half) = self.k, place
        tiles = k.at(target, (s * self.layout.count + t) * (self.parts * 2 * TILE), "u32")
        for part, bits in enumerate(pairs_of(k, values[0], values[1], self.parts)):
            k.store(bits, tiles, r * SIDE + (part * 2 + half) * TILE, "u32")
        return k.most(largest, k.most(size_of(k, values[0]), size_of(k, values[1])))

    def rows(self, source: Value, first: Value, target: Value, s: Value, largest: Value) -> Value:
        """A step: squares of 16 outputs by 16 numbers, channels and taps, are turned."""
        k, w, lanes = self.k, self.layout, self.lanes

        def square(j: Value, r: Value, t: Value, *largest: Value) -> list[Value]:
            starts = [(s * DEEP + channel) * w.count + j * lanes for channel in (0, SIDE)]
            masks = [k.mask_below(start, w.channels * w.count, lanes) for start in starts]
            biggest = largest[0]
            for half in range(2):
                turned = []
                for start, mask in zip(starts, masks, strict=True):
                    lines = []
                    for i in range(SIDE):
                        output = first + (half * SIDE + i)
                        inside = mask & k.splat(output < w.outputs, lanes)
                        lines.append(k.load(source, output * w.by_output + start, self.element, lanes, inside))
                    turned.append(transposed(k, lines))
                at = r, t
                for values in zip(*turned, strict=True):
                    biggest = self.put(list(values), target, (s, at[1], at[0], half), biggest)
                    last = (at[1] + 1).eq(w.count)
                    at = k.select(last, at[0] + 1, at[0]), k.select(last, 0, at[1] + 1)
            return [*at, biggest]

        zero = k.const(0, "i64")
        return k.loop(0, w.count, square, carried=[zero, zero, largest])[2]

    def any(self, source: Value, first: Value, target: Value, s: Value, largest: Value) -> Value:
        """A step, one number after the other."""
        k, w, lanes = self.k, self.layout, self.lanes
        numbers = [k.indices(lanes) + (first + half * SIDE) for half in range(2)]
        masks = [each < w.outputs for each in numbers]
        places = [k.least(each, w.outputs - 1) * w.by_output for each in numbers]

        def tap(t: Value, largest: Value) -> Value:
            lines = k.at(source, k.load(w.taps, t * 3 + 2, "i64"), self.element)

            def pair(r: Value, largest: Value) -> Value:
                for half, mask in enumerate(masks):
                    values = []
                    for channel in (s * DEEP + r, s * DEEP + r + SIDE):
                        line = k.at(lines, k.least(channel, w.channels - 1) * w.by_channel, self.element)
                        values.append(k.select(mask & (channel < w.channels), k.gather(line, places[half], self.element), 0))
                    largest = self.put(values, target, (s, t, r, half), largest)
                return largest

            return k.loop(0, SIDE, pair, carried=[largest])

        return k.loop(0, w.count, tap, carried=[largest])


class TileArguments(Record):
    source: Array
    out: Array
    factors: Array  # as ``pack_tiles`` writes them, or the weight
    bias: Array
    flag: Array  # set where a number cannot be split
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each tap the distance of what it sees, and anything
    images: Images
    place: Place  # of a band
    pieces: Integer  # of scratch memory, and their size in numbers of 32 bits
    room_size: Integer
    weights: Integer  # what of a piece lies before packed weights
    planes: Integer  # what of a piece lies before the planes of 32 channels, and from one of them to the next
    plane: Integer
    band: Integer  # pixels from a band to the next one
    pixel: Integer  # pairs from a pixel to the next one
    channels: Integer  # of a group
    outputs: Integer  # of a group
    strip_block: Integer
    tall: Integer  # rows of an image in a band
    group: Integer  # bands of a chunk
    run: Integer  # pixels of a run of the result, with those between rows
    wide: Integer  # those of them that are wanted
    to: Strides  # of the result
    layout: TileWeight


@kernel
def tiles_of_windows(k: Builder, element: str, parts: int, mode: str, store: str, weight: str) -> None:
    """The convolution: bands are packed, then multiplied with one strip of 32 outputs after the other.

    ``mode`` and ``store`` are those of the input and the result, see ``mode_of``, or "last" where channels are innermost, the
    input's "whole" where bands are parts of its planes as they lie.  ``weight`` is
    "packed", or where each strip is used once, "row" or "any", by which it is packed before its use (``_Packing``).
    """
    k.for_chunks(_WindowTiles(k, element, parts, mode, store, weight).chunk)


class _WindowTiles:
    """The loops of ``tiles_of_windows``; a chunk has some rows of some images, and some strips of one group's outputs."""

    def __init__(self, k: Builder, element: str, parts: int, mode: str, store: str, weight: str):
        self.k, self.element, self.parts, self.mode, self.store, self.weight = k, element, parts, mode, store, weight
        k.features = FEATURES
        self.lanes, self.tiles = k.lanes("f32"), TileRegisters(k)
        self.a = a = k.arguments(TileArguments)
        self.packing = _Packing(k, element, parts, weight == "row", a.layout)
        self.sums, self.turned = (k.scratch(BLOCK * BLOCK, "f32") for _ in range(2))
        self.steps = (a.channels + (DEEP - 1)) // DEEP
        self.strips = (a.outputs + (BLOCK - 1)) // BLOCK
        self.row_blocks = (a.images.out_height + (a.tall - 1)) // a.tall

    def chunk(self, index: Value) -> None:
        k, element, a, im = self.k, self.element, self.a, self.a.images
        strip_groups = (self.strips + (a.strip_block - 1)) // a.strip_block
        band_groups = (im.images * self.row_blocks + (a.group - 1)) // a.group
        rest, strip = index // strip_groups, index % strip_groups * a.strip_block
        number, self.first = rest // band_groups, rest % band_groups * a.group
        piece = borrow(k, a.flags, a.pieces)
        self.room = k.at(a.room, piece * a.room_size, "u32")
        self.planes = k.at(self.room, a.planes, "u32")
        count = k.least(a.group, im.images * self.row_blocks - self.first)
        self.channel = number * a.channels  # the group's first one
        self.bias, self.out = k.at(a.bias, number * a.outputs, "f32"), k.at(a.out, number * a.outputs * a.to.c, element)
        if self.weight == "packed":
            self.factors = k.at(a.factors, number * self.strips * self.packing.size, "u32")
        else:
            self.factors = k.at(self.room, a.weights, "u32")
        source = k.at(a.factors, number * a.layout.by_group, element)
        k.loop(0, count, self.pack)
        stop = k.least((strip + a.strip_block) * BLOCK, a.outputs)

        def outputs(o: Value) -> None:
            if self.weight != "packed":
                self.packing.strip(source, o, self.factors, a.flag)
            k.loop(0, count, partial(self.strip, o))

        self.tiles.within(lambda: k.loop(strip * BLOCK, stop, outputs, step=BLOCK))
        give_back(k, a.flags, piece)

    def rows_of(self, band: Value) -> tuple[Value, Value, Value]:
        """Image, first row of the result, and number of rows of a band of the chunk."""
        image, y0 = divmod(self.first + band, self.row_blocks)
        return image, y0 * self.a.tall, self.k.least(self.a.tall, self.a.images.out_height - y0 * self.a.tall)

    def place_of(self, band: Value) -> Value:
        return self.k.at(self.room, band * self.a.band * self.a.pixel, "u32")

    # -- the image
    def pack(self, band: Value) -> None:
        """All channels of a band."""
        k, a = self.k, self.a
        image, y0, high = self.rows_of(band)
        place = a.place.replace(
            y0=a.place.y0 + y0 * a.images.step_y, rows=k.least(a.place.rows, high + a.place.rows - a.tall)
        )  # fmt: skip
        target = self.place_of(band)
        zero = k.const(0, "u32", self.lanes)
        if self.mode == "last":
            data = k.at(a.source, a.images.image(image) + self.channel * a.images.c, self.element)
            largest = k.loop(0, place.phases_y * place.phases_x, partial(self.phase_of_lines, data, target, place), carried=[zero])
        else:
            largest = k.loop(0, self.steps, partial(self.step_of_planes, image, target, place), carried=[zero])
        if self.parts > 1:
            note_size(k, largest, LARGEST, a.flag)

    def put(self, values: tuple[Value, Value], pixel: Value, s: Value, largest: Value) -> Value:
        """Write what a pixel has of 32 channels."""
        k = self.k
        for part, bits in enumerate(pairs_of(k, values[0], values[1], self.parts)):
            k.store(bits, pixel, s * (self.parts * SIDE) + part * SIDE, "u32")
        return k.most(largest, k.most(size_of(k, values[0]), size_of(k, values[1])))

    def step_of_planes(self, image: Value, target: Value, place: Place, s: Value, largest: Value) -> Value:
        """32 channels of which each is a plane, from planes with zeros around; where there are none, from the image."""
        k, a, element = self.k, self.a, self.element
        length, between_phases = place.rows * place.pitch, a.place.rows * a.place.pitch
        if self.mode == "whole":
            start, _ = a.images.plane(k, image, self.channel + s * DEEP)
            whole = k.at(a.source, start + place.y0 * a.images.y, element)
        else:
            self.fill_planes(image, place, s)
        kept = [k.select(s * DEEP + i < a.channels, length, 0) for i in range(DEEP)]

        def phase(f: Value, largest: Value) -> Value:
            planes = k.at(self.planes, f * between_phases, element)

            def line(i: int) -> Value:
                return k.at(whole, a.images.c * i, element) if self.mode == "whole" else k.at(planes, a.plane * i, "u32")

            def square(v: Value, largest: Value) -> Value:
                halves = []
                for half in range(0, DEEP, SIDE):
                    lines = []
                    for i in range(half, half + SIDE):
                        mask = k.mask_below(v, kept[i], self.lanes)
                        lines.append(k.load(line(i), v, element, self.lanes, mask))
                    halves.append(transposed(k, lines))
                for i, values in enumerate(zip(*halves, strict=True)):
                    largest = self.put(values, k.at(target, (f * between_phases + v + i) * a.pixel, "u32"), s, largest)
                return largest

            return k.loop(0, length, square, step=self.lanes, carried=[largest])

        return k.loop(0, place.phases_y * place.phases_x, phase, carried=[largest])

    def fill_planes(self, image: Value, place: Place, s: Value) -> None:
        """The planes of a step's channels, with zeros around."""
        k, a, fill = self.k, self.a, Filling(self.k, self.element, self.mode)

        def plane(i: Value) -> None:
            start, height = a.images.plane(k, image, self.channel + (s * DEEP + i))
            to, source = k.at(self.planes, i * a.plane, "u32"), a.images.replace(height=height)
            fill(to, k.at(a.source, start, self.element), source, place, a.place.rows)

        k.loop(0, k.least(DEEP, a.channels - s * DEEP), plane)

    def phase_of_lines(self, data: Value, target: Value, place: Place, f: Value, largest: Value) -> Value:
        """All channels, which lie side by side, of a band's phase."""
        k, a, im = self.k, self.a, self.a.images
        fy, fx = f // place.phases_x, f % place.phases_x

        def row(j: Value, largest: Value) -> Value:
            iy = j * place.step_y + fy + place.y0
            line, width = k.at(data, iy * im.y, self.element), k.select((iy >= 0) & (iy < im.height), im.width, 0)

            def pixel(v: Value, largest: Value) -> Value:
                ix = v * place.step_x + fx + place.x0
                stop = k.select((ix >= 0) & (ix < width), a.channels, 0)
                to = k.at(target, ((f * a.place.rows + j) * place.pitch + v) * a.pixel, "u32")
                source = k.at(line, ix * im.x, self.element)

                def step(s: Value, largest: Value) -> Value:
                    def half(c: Value) -> Value:
                        return k.load(source, c, self.element, self.lanes, k.mask_below(c, stop, self.lanes))

                    return self.put((half(s * DEEP), half(s * DEEP + SIDE)), to, s, largest)

                return k.loop(0, self.steps, step, carried=[largest])

            return k.loop(0, place.pitch, pixel, carried=[largest])

        return k.loop(0, place.rows, row, carried=[largest])

    # -- the products
    def strip(self, o: Value, band: Value) -> None:
        """32 outputs from ``o`` on of a band."""
        k, a = self.k, self.a
        image, y0, high = self.rows_of(band)
        stop, place = high * a.place.pitch, self.place_of(band)
        out = k.at(self.out, o * a.to.c + a.to.image(image) + y0 * a.to.y, self.element)
        factors = self.factors if self.weight != "packed" else k.at(self.factors, o // BLOCK * self.packing.size, "u32")

        def block(p: Value) -> None:
            self.products(k.at(place, p * a.pixel, "u32"), factors)
            self.write(out, o, p, k.least(p + BLOCK, stop))

        k.loop(0, stop, block, step=BLOCK)

    def products(self, seen: Value, factors: Value) -> None:
        """The sums of 32 pixels from ``seen`` on and 32 outputs."""
        k, a, parts, count = self.k, self.a, self.parts, self.a.images.count
        self.tiles.clear(range(4))

        def step(s: Value) -> None:
            channels, weights = k.at(seen, s * (parts * SIDE), "u32"), k.at(factors, s * count * (parts * 2 * TILE), "u32")

            def tap(t: Value) -> None:
                pixels = k.at(channels, k.load(a.table, t * 2, "i64") * a.pixel, "u32")
                second = Operand(k.at(weights, t * (parts * 2 * TILE), "u32"), "u32", 2 * TILE, TILE, 4 * SIDE)
                add_products(self.tiles, parts, Operand(pixels, "u32", SIDE, a.pixel * SIDE, a.pixel * 4), second)

            k.loop(0, count, tap)

        k.loop(0, self.steps, step)
        store_sums(self.tiles, self.sums)

    # -- the result
    def write(self, out: Value, o: Value, p: Value, stop: Value) -> None:
        """Pixels ``p`` to ``stop`` of the band whose first one belongs to ``out``."""
        k, a, element = self.k, self.a, self.element
        rows, bias = k.least(a.outputs - o, BLOCK), k.at(self.bias, o, "f32")
        if self.store == "last":
            write: Any = partial(self.write_pixels, rows, bias)
        else:
            self.turn()
            write = partial(self.write_registers if self.store == "row" else self.write_lines, rows, bias)

        def part(run: Value, start: Value, end: Value) -> None:
            end = k.least(end, run * a.run + a.wide)
            write(k.at(out, run * a.to.y + (p - run * a.run) * a.to.x, element), start - p, end - p)

        runs(k, p, stop, a.run, part)

    def turn(self) -> None:
        """The sums with all pixels of an output side by side."""
        k, lanes = self.k, self.lanes
        for v in range(0, BLOCK, lanes):
            for r in range(0, BLOCK, lanes):
                lines = [k.load(self.sums, (r + i) * BLOCK + v, "f32", lanes) for i in range(lanes)]
                for i, line in enumerate(transposed(k, lines)):
                    k.store(line, self.turned, (v + i) * BLOCK + r, "f32")

    def finished(self, total: Value, bias: Value) -> Value:
        return total + bias if self.parts == 1 else self.k.fma(total, SCALE**-2, bias)

    def write_pixels(self, rows: Value, bias: Value, to: Value, start: Value, stop: Value) -> None:
        """Outputs that lie side by side: pixel ``i`` of the block belongs to ``to`` and ``i`` pixels."""
        k = self.k
        registers = range(0, BLOCK, self.lanes)
        masks = [k.mask_below(k.const(v, "i64"), rows, self.lanes) for v in registers]
        biases = [k.load(bias, v, "f32", self.lanes, mask) for v, mask in zip(registers, masks, strict=True)]

        def pixel(i: Value) -> None:
            for v, mask, each in zip(registers, masks, biases, strict=True):
                total = self.finished(k.load(self.sums, i * BLOCK + v, "f32", self.lanes), each)
                k.store(total, to, i * self.a.to.x + v, self.element, mask)

        k.loop(start, stop, pixel)

    def write_registers(self, rows: Value, bias: Value, to: Value, start: Value, stop: Value) -> None:
        """Pixels that lie side by side."""
        k = self.k
        registers = range(0, BLOCK, self.lanes)
        masks = [between(k, start - v, stop - v, self.lanes) for v in registers]

        def row(r: Value) -> None:
            first, line = k.splat(k.load(bias, r, "f32"), self.lanes), k.at(to, r * self.a.to.c, self.element)
            for v, mask in zip(registers, masks, strict=True):
                total = self.finished(k.load(self.turned, r * BLOCK + v, "f32", self.lanes), first)
                k.store(total, line, v, self.element, mask)

        k.loop(0, rows, row)

    def write_lines(self, rows: Value, bias: Value, to: Value, start: Value, stop: Value) -> None:
        """Pixels that lie apart."""
        k, a = self.k, self.a

        def row(r: Value) -> None:
            first, line = k.load(bias, r, "f32"), k.at(self.turned, r * BLOCK + start, "f32")
            place = k.at(to, r * a.to.c + start * a.to.x, self.element)
            if self.element == "f32":
                copy_line(k, "f32", self.store, line, place, stop - start, a.to.x, lambda value, old: self.finished(value, first))
                return
            each = partial(k.load, line, element="f32")
            k.loop(0, stop - start, lambda i: k.store(self.finished(each(i), first), place, i * a.to.x, self.element))

        k.loop(0, rows, row)
