"""The weight gradients of convolutions in tile registers: sums over pixels, 32 channels by 32 outputs of a tap at a time.

    sums[channel, output]  +=  image[channel, pixel + tap]  *  grad[pixel, output]

The image is the first factor: bands of it as in ``tiled_windows``, but each channel's pixels one behind the other, so that a tap is a
distance. The gradient is the second: of each two neighbouring pixels all outputs, zeros for pixels between rows.
"""

from __future__ import annotations

from functools import partial

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .microkernel import Filling, Images, Place, Planes, borrow, give_back, whole_plane
from .tile_parts import (
    BLOCK,
    DEEP,
    INFINITE,
    LARGEST,
    SCALE,
    SIDE,
    Operand,
    add_products,
    load_sums,
    note_size,
    pairs_of,
    parts_of,
    row_of,
    size_of,
    store_sums,
)
from .tile_registers import FEATURES, TileRegisters
from .tiles import transposed

SUMS = BLOCK * BLOCK


class GradientArguments(Record):
    source: Array
    grad: Array
    partial: Array  # (range of bands, group, strip of outputs, strip of channels, tap, channel, output)
    flag: Array  # set where a number cannot be split
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each tap the distance of what it sees, and anything
    images: Images
    grads: Planes
    place: Place  # of a band
    pieces: Integer  # of scratch memory, and their size
    room_size: Integer
    pixels: Integer  # elements of a piece before the gradient's pixels, and before planes of float32
    planes: Integer
    plane: Integer  # from plane to plane
    apart: Integer  # from a channel to the next one, and from its band to the next one, in numbers of 16 bits
    between_bands: Integer
    groups: Integer
    channels: Integer  # of a group
    outputs: Integer
    channel_block: Integer
    output_block: Integer
    tall: Integer  # rows of an image in a band
    long: Integer  # pixels of a band, with those between rows, up to a multiple of 32
    group: Integer  # bands that are packed together
    split: Integer  # bands of a range


@kernel
def tiles_of_gradients(k: Builder, element: str, parts: int, mode: str, grad_mode: str) -> None:
    """The weight gradient; a chunk has a range of bands, a block of channels and a group, and sums of its own.

    ``mode`` and ``grad_mode`` are those of the images and the gradient, see ``mode_of``, or "last" where channels are innermost, or "whole"
    where bands are parts of planes as they lie.
    """
    k.for_chunks(GradientTiles(k, element, parts, mode, grad_mode).chunk)


class GradientTiles:
    """The loops of ``tiles_of_gradients``."""

    record: type[GradientArguments] = GradientArguments

    def __init__(self, k: Builder, element: str, parts: int, mode: str, grad_mode: str):
        self.k, self.element, self.parts, self.mode, self.grad_mode = k, element, parts, mode, grad_mode
        k.features = FEATURES
        self.lanes, self.tiles = k.lanes("f32"), TileRegisters(k)
        self.fill, self.fill_grad = Filling(k, element, mode), Filling(k, element, grad_mode)
        self.a = a = k.arguments(self.record)
        self.row_blocks = (a.images.out_height + (a.tall - 1)) // a.tall
        self.bands = a.images.images * self.row_blocks
        self.channel_strips, self.output_strips = ((size + (BLOCK - 1)) // BLOCK for size in (a.channels, a.outputs))
        self.by_part = a.channel_block * a.apart
        self.by_grad_part = a.group * a.long // 2 * a.output_block

    def chunk(self, index: Value) -> None:
        k, a = self.k, self.a
        ranges, blocks = (self.bands + (a.split - 1)) // a.split, (a.channels + (a.channel_block - 1)) // a.channel_block
        number, rest = index % ranges, index // ranges
        self.c0, group = rest % blocks * a.channel_block, rest // blocks
        self.c1 = k.least(self.c0 + a.channel_block, a.channels)
        piece = borrow(k, a.flags, a.pieces)
        self.room = k.at(a.room, piece * a.room_size, "f32")
        self.pixels, self.planes = k.at(self.room, a.pixels, "f32"), k.at(self.room, a.planes, "f32")
        self.channel = group * a.channels  # the group's first one
        self.grad = k.at(a.grad, group * a.outputs * a.grads.c, self.element)
        self.sums = k.at(a.partial, (number * a.groups + group) * self.sums_of_group(), "f32")
        first, last = number * a.split, k.least((number + 1) * a.split, self.bands)

        def some(b: Value) -> None:
            count = k.least(a.group, last - b)
            k.loop(0, count, partial(self.pack_lines if self.mode == "last" else self.pack, b))
            k.loop(0, a.outputs, partial(self.outputs, b, count, b > first), step=a.output_block)

        k.loop(first, last, some, step=a.group)
        give_back(k, a.flags, piece)

    def sums_of_group(self) -> Value:
        return self.output_strips * self.channel_strips * self.a.images.count * SUMS

    def rows_of(self, band: Value) -> tuple[Value, Value, Value]:
        """Image, first row of the gradient, and number of rows of a band."""
        image, y0 = divmod(band, self.row_blocks)
        return image, y0 * self.a.tall, self.k.least(self.a.tall, self.a.images.out_height - y0 * self.a.tall)

    def noted(self, largest: Value) -> None:
        note_size(self.k, largest, LARGEST if self.parts > 1 else INFINITE, self.a.flag)  # zeros times what is infinite are none

    # -- the image
    def pack(self, first: Value, number: Value) -> None:
        """All channels of the block of a band: rows of pixels, and zeros behind them."""
        k, a, element = self.k, self.a, self.element
        image, y0, _ = self.rows_of(first + number)
        place = a.place.replace(y0=a.place.y0 + y0 * a.images.step_y)
        length, is_whole = self.area(place), self.mode == "whole"
        if is_whole:
            length = k.least(length, (a.images.height - place.y0) * place.pitch)

        def channel(c: Value, largest: Value) -> Value:
            def filled() -> None:
                start, height = a.images.plane(k, image, self.channel + self.c0 + c)
                self.fill(self.planes, k.at(a.source, start, element), a.images.replace(height=height), place)

            is_there = self.c0 + c < self.c1
            if is_whole:
                start, _ = a.images.plane(k, image, self.channel + self.c0 + c)
                source = k.at(a.source, start + place.y0 * a.images.y, element)
            else:
                k.when(is_there, filled)
                source = self.planes
            to = k.at(self.room, c * a.apart + number * a.between_bands, "u16")

            def register(v: Value, largest: Value) -> Value:
                mask = k.mask_below(v, k.select(is_there, length, 0), self.lanes)
                return self.put(k.load(source, v, element, self.lanes, mask), to, v, largest)

            return k.loop(0, a.between_bands, register, step=self.lanes, carried=[largest])

        self.noted(k.loop(0, a.channel_block, channel, carried=[k.const(0, "u32", self.lanes)]))

    def area(self, place: Place) -> Value:
        """Pixels of a channel's band, with the zeros around."""
        return place.phases_y * place.phases_x * place.rows * place.pitch

    def put(self, value: Value, to: Value, at: Value, largest: Value) -> Value:
        """Write the parts of pixels of a channel."""
        k = self.k
        for part, bits in enumerate(parts_of(k, value, self.parts)):
            k.store(row_of(k, bits), k.at(to, self.by_part * part, "u16"), at, "u16")
        return k.most(largest, size_of(k, value))

    def pack_lines(self, first: Value, number: Value) -> None:
        """The same of channels that lie side by side: squares of 16 pixels by 16 channels are turned."""
        k, a, im = self.k, self.a, self.a.images
        image, y0, _ = self.rows_of(first + number)
        place = a.place.replace(y0=a.place.y0 + y0 * im.step_y)
        data = k.at(a.source, im.image(image) + self.channel + self.c0, self.element)
        to = k.at(self.room, number * a.between_bands, "u16")

        def row(j: Value, largest: Value) -> Value:
            f, line = j // place.rows, j % place.rows
            iy = line * place.step_y + f // place.phases_x + place.y0
            width = k.select((iy >= 0) & (iy < im.height), im.width, 0)
            x0, source = f % place.phases_x + place.x0, k.at(data, iy * im.y, self.element)

            def pixels(v: Value, largest: Value) -> Value:
                columns = [(v + i) * place.step_x + x0 for i in range(SIDE)]
                seen = [(ix >= 0) & (ix < width) & (v + i < place.pitch) for i, ix in enumerate(columns)]
                stops = [k.select(each, self.c1 - self.c0, 0) for each in seen]

                def square(c: Value, largest: Value) -> Value:
                    lines = [
                        k.load(k.at(source, ix * im.x, self.element), c, self.element, self.lanes, k.mask_below(c, stop, self.lanes))
                        for ix, stop in zip(columns, stops, strict=True)
                    ]
                    for i, value in enumerate(transposed(k, lines)):
                        put = partial(self.put, value, k.at(to, (c + i) * a.apart, "u16"), j * place.pitch + v, largest)
                        largest = k.when(c + i < a.channel_block, put, partial(lambda same: same, largest))
                    return largest

                return k.loop(0, a.channel_block, square, step=SIDE, carried=[largest])

            return k.loop(0, place.pitch, pixels, step=SIDE, carried=[largest])

        rows = place.phases_y * place.phases_x * place.rows
        self.noted(k.loop(0, rows, row, carried=[k.const(0, "u32", self.lanes)]))

        def clear(c: Value) -> None:
            zeros, behind = k.const(0, "u16", self.lanes), k.at(to, c * a.apart, "u16")

            def register(v: Value, mask: Value | None) -> None:
                for part in range(self.parts):
                    k.store(zeros, k.at(behind, self.by_part * part, "u16"), v, "u16", mask)

            k.vector_loop(self.area(place), a.between_bands, self.lanes, register)

        k.loop(0, a.channel_block, clear)

    # -- the gradient
    def outputs(self, first: Value, count: Value, is_more: Value, o0: Value) -> None:
        """A block of outputs of some bands; sums are added where there are more before them."""
        k, a = self.k, self.a
        o1 = k.least(o0 + a.output_block, a.outputs)
        k.loop(0, count, lambda number: k.loop(0, a.output_block, partial(self.pack_grads, first, number, o0), step=SIDE))

        self.tiles.within(lambda: self.strips(o0, o1, count, is_more))

    def strips(self, o0: Value, o1: Value, count: Value, is_more: Value) -> None:
        """All products with the outputs of a block."""
        k = self.k

        def output(o: Value) -> None:
            k.loop(self.c0, self.c1, lambda c: self.products(o, c, k.at(self.pixels, o - o0, "u32"), count, is_more), step=BLOCK)

        k.loop(o0, o1, output, step=BLOCK)

    def pack_grads(self, first: Value, number: Value, o0: Value, o: Value) -> None:
        """Outputs ``o`` to ``o + 16`` of the block, of a band: pairs of pixels, zeros for outputs and pixels that are none."""
        k, a = self.k, self.a
        image, y0, high = self.rows_of(first + number)
        data = k.at(self.grad, a.grads.image(image) + y0 * a.grads.y, self.element)
        to = k.at(self.pixels, number * (a.long // 2) * a.output_block + o, "u32")
        (self.pairs_of_lines if self.grad_mode == "last" else self.pairs_of_planes)(data, to, o0 + o, high)

    def put_pair(self, even: Value, odd: Value, to: Value, pair: Value, largest: Value) -> Value:
        """Write what 16 outputs have of a pair of pixels."""
        k, a = self.k, self.a
        at = k.at(to, pair * a.output_block, "u32")
        for part, bits in enumerate(pairs_of(k, even, odd, self.parts)):
            k.store(bits, at, self.by_grad_part * part, "u32")
        return k.most(largest, k.most(size_of(k, even), size_of(k, odd)))

    def pairs_of_planes(self, data: Value, to: Value, o: Value, high: Value) -> None:
        """16 outputs of which each is a plane of ``high`` rows: squares of 16 pixels are turned."""
        k, a, element = self.k, self.a, self.element
        plane, length = whole_plane(k, a.tall, a.place.pitch), a.tall * a.place.pitch

        def line(i: Value) -> None:
            rows = k.select(o + i < a.outputs, high, 0)
            self.fill_grad(
                k.at(self.planes, i * a.plane, "f32"), k.at(data, (o + i) * a.grads.c, element), a.grads.replace(height=rows), plane
            )

        if self.grad_mode != "whole":
            k.loop(0, SIDE, line)
            lines = [k.at(self.planes, a.plane * i, "f32") for i in range(SIDE)]
            kept = [length] * SIDE
        else:
            lines = [k.at(data, (o + i) * a.grads.c, element) for i in range(SIDE)]
            kept = [k.select(o + i < a.outputs, high * a.place.pitch, 0) for i in range(SIDE)]

        def square(q: Value, largest: Value) -> Value:
            masks = [k.mask_below(q, end, self.lanes) for end in kept]
            pixels = transposed(k, [k.load(source, q, element, self.lanes, mask) for source, mask in zip(lines, masks, strict=True)])
            for i in range(0, SIDE, 2):
                largest = self.put_pair(pixels[i], pixels[i + 1], to, q // 2 + i // 2, largest)
            return largest

        self.noted(k.loop(0, a.long, square, step=self.lanes, carried=[k.const(0, "u32", self.lanes)]))

    def pairs_of_lines(self, data: Value, to: Value, o: Value, high: Value) -> None:
        """16 outputs that lie side by side."""
        k, a, pitch = self.k, self.a, self.a.place.pitch
        source, mask = k.at(data, o, self.element), k.mask_below(o, a.outputs, self.lanes)

        def pixel(q: Value) -> Value:
            y, x = q // pitch, q % pitch
            seen = k.splat((y < high) & (x < a.grads.width), self.lanes)
            return k.load(source, y * a.grads.y + x * a.grads.x, self.element, self.lanes, mask & seen)

        def pair(q: Value, largest: Value) -> Value:
            return self.put_pair(pixel(q), pixel(q + 1), to, q // 2, largest)

        self.noted(k.loop(0, a.long, pair, step=2, carried=[k.const(0, "u32", self.lanes)]))

    # -- the products
    def products(self, o: Value, c: Value, pixels: Value, count: Value, is_more: Value) -> None:
        """Add the products of 32 channels and 32 outputs."""
        k, a, taps = self.k, self.a, self.a.images.count
        channels = k.at(self.room, (c - self.c0) * a.apart, "u16")
        sums = k.at(self.sums, (o // BLOCK * self.channel_strips + c // BLOCK) * taps * SUMS, "f32")
        k.loop(0, taps, lambda t: self.tap(k.at(sums, t * SUMS, "f32"), (channels, pixels), t, count, is_more))

    def tap(self, sums: Value, sides: tuple[Value, Value], t: Value, count: Value, is_more: Value) -> None:
        k, a, tiles = self.k, self.a, self.tiles
        channels, grads = k.at(sides[0], k.load(a.table, t * 2, "i64"), "u16"), sides[1]
        k.when(is_more, lambda: load_sums(tiles, sums), lambda: tiles.clear(range(4)))

        def step(i: Value, q: Value) -> None:
            first = Operand(k.at(channels, i * a.between_bands + q, "u16"), "u16", self.by_part, a.apart * SIDE, a.apart * 2)
            place = k.at(grads, (i * a.long + q) // 2 * a.output_block, "u32")
            add_products(tiles, self.parts, first, Operand(place, "u32", self.by_grad_part, SIDE, a.output_block * 4))

        k.loop(0, count, lambda i: k.loop(0, a.long, partial(step, i), step=DEEP))
        store_sums(tiles, sums)


class JoinArguments(Record):
    partial: Array
    out: Array
    groups: Integer
    channels: Integer  # of a group
    outputs: Integer
    taps: Integer
    ranges: Integer


@kernel
def join_tiles(k: Builder, element: str, parts: int) -> None:
    """The weight gradient (output, channel, tap) from the sums of ranges of bands; a chunk is a strip of outputs of a group."""
    a = k.arguments(JoinArguments)
    lanes = k.lanes("f32")
    output_strips, channel_strips = ((size + (BLOCK - 1)) // BLOCK for size in (a.outputs, a.channels))
    by_strip = channel_strips * a.taps * SUMS
    apart, total = a.groups * output_strips * by_strip, a.channels * a.taps

    def chunk(index: Value) -> None:
        group, strip = index // output_strips, index % output_strips
        out = k.at(a.out, (group * a.outputs + strip * BLOCK) * total, element)
        for first in range(0, BLOCK, lanes):
            mine = k.at(a.partial, index * by_strip + first, "f32")
            rows = a.outputs - strip * BLOCK - first
            square = partial(_join_square, k, element, a, (mine, apart), parts, k.at(out, total * first, element), rows)
            k.loop(0, k.select(rows > 0, total, 0), square, step=lanes)

    k.for_chunks(chunk)


def _join_square(
    k: Builder, element: str, a: JoinArguments, sums: tuple[Value, Value], parts: int, out: Value, rows: Value, number: Value
) -> None:
    """As many neighbours (channel, tap) as a register has lanes, from ``number`` on, of as many outputs."""
    lanes, total, (mine, apart) = k.lanes("f32"), a.channels * a.taps, sums
    places = []
    for i in range(lanes):
        c, t = divmod(k.least(number + i, total - 1), a.taps)
        places.append((c // BLOCK * a.taps + t) * SUMS + c % BLOCK * BLOCK)

    def add(r: Value, *lines: Value) -> list[Value]:
        return [line + k.load(mine, r * apart + place, "f32", lanes) for line, place in zip(lines, places, strict=True)]

    lines = k.loop(0, a.ranges, add, carried=[k.const(0, "f32", lanes)] * lanes)
    mask = k.mask_below(number, total, lanes)
    for i, row in enumerate(transposed(k, list(lines))):
        value = row if parts == 1 else row * SCALE**-2
        k.when(rows > i, partial(k.store, value, out, number + total * i, element, mask))
