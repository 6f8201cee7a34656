"""The matrix products of convolutions; see ``convolution`` for which they are and who calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import target as targets
from .build import kernel
from .language import Builder, Value
from .microkernel import Images, borrow, copy_line, fill_plane, give_back, inner_products, pack, product, runs, tile_width

PIXELS = 192  # of a block of panels: with 576 rows 432 KB


# -- forward and input gradient -----------------------------------------------------------------------------------------------------
@kernel
def pack_weight(k: Builder, kind: str, rows: int) -> None:
    """Weights as factors: (group, block of channels, strip of ``rows`` outputs, tap, channel, output); a chunk is a strip of a group."""
    weight, target, taps = k.array(), k.array(), k.array()
    count, channels, block, outputs = k.integer(), k.integer(), k.integer(), k.integer()
    by_group, by_output, by_channel = k.integer(), k.integer(), k.integer()
    strips = (outputs + (rows - 1)) // rows

    def chunk(index: Value) -> None:
        group, strip = index // strips, index % strips
        first = strip * rows
        source = k.at(weight, group * by_group, kind)
        # behind the last output comes the last one again: what is made with it is not stored
        lines = [k.at(source, k.least(first + r, outputs - 1) * by_output, kind) for r in range(rows)]
        base = group * strips * rows * channels * count

        def some(c0: Value) -> None:
            n = k.least(block, channels - c0)
            to = k.at(target, base + c0 * count * strips * rows + first * n * count, kind)

            def tap(t: Value) -> None:
                offset = k.load(taps, t * 3 + 2, "i64")

                def one(c: Value) -> None:
                    for r in range(rows):
                        k.store(k.load(lines[r], offset + (c0 + c) * by_channel, kind), to, (t * n + c) * rows + r, kind)

                k.loop(0, n, one)

            k.loop(0, count, tap)

        k.loop(0, channels, some, step=block)

    k.for_chunks(chunk)


def images_of(k: Builder, data: Value) -> Images:
    """The 14 arguments that describe images, in the order of the fields."""
    arguments = [k.array() if i == 10 else k.integer() for i in range(14)]
    return Images(data, *arguments)


@kernel
def windows_times_weight(k: Builder, kind: str, mode: str, store: str, rows: int, band: bool) -> None:
    """The convolution: a block of pixels is packed, then multiplied with one strip of ``rows`` outputs after the other.

    ``mode`` and ``store`` are those of the input and the result, see ``mode_of``.  ``band``: a block is some rows of an image, packed as
    they are with zeros around; otherwise it is any pixels, packed as panels.
    """
    lanes, vectors = k.lanes(kind), tile_width(k.target, rows)
    width = vectors * lanes
    source, out, factors, bias, flags, room, table = (k.array() for _ in range(7))
    im = images_of(k, source)
    place = [k.integer() for _ in range(8)]
    pieces, room_size, apart = (k.integer() for _ in range(3))
    channels, block, outputs, pixels, pixel_block, strip_block, line = (k.integer() for _ in range(7))
    to_n, to_c, to_y, to_x = (k.integer() for _ in range(4))
    tile, seen = k.scratch(rows * width, kind), k.scratch(2 * PIXELS, "i64")
    run_length, no = im.out_width if band else line, k.const(False, "b1")
    strips = (outputs + (rows - 1)) // rows
    strip_groups = (strips + strip_block - 1) // strip_block
    image_blocks = (pixels + pixel_block - 1) // pixel_block
    pixel_groups = im.images * image_blocks if band else image_blocks

    def chunk(index: Value) -> None:
        piece = borrow(k, flags, pieces)
        panels = k.at(room, piece * room_size, kind)
        strip0, rest = (index % strip_groups) * strip_block, index // strip_groups
        which, group = rest % pixel_groups, rest // pixel_groups
        image, p0 = which // image_blocks, (which % image_blocks) * pixel_block
        p1 = k.least(p0 + pixel_block, pixels)
        im.data = k.at(source, group * channels * im.c, kind)
        mine = k.at(factors, group * strips * rows * channels * im.count, kind)
        plus, target = k.at(bias, group * outputs, kind), k.at(out, group * outputs * to_c, kind)

        def deep(c0: Value) -> None:
            some = k.least(block, channels - c0)

            def fill_band(c: Value) -> None:
                first = p0 // line  # row
                held = (
                    place[0] + first * im.step_y,
                    place[1],
                    k.least(place[2], (p1 - p0 + (line - 1)) // line + place[2] - pixel_block // line),
                )
                plane = k.at(panels, c * apart, kind)
                data = k.at(im.data, image * im.n + (c0 + c) * im.c, kind)
                fill_plane(k, kind, mode, plane, data, (im.y, im.x), (im.height, im.width), (*held, *place[3:]), place[2])

            def fill(p: Value) -> None:
                stop = k.least(p + width, p1)
                low, high = im.taps_seen(k, p, stop)
                number = (p - p0) // width
                k.store(low, seen, number * 2, "i64")
                k.store(high, seen, number * 2 + 1, "i64")
                pack(k, kind, mode, im, k.at(panels, (p - p0) * some * im.count, kind), width, p, stop, c0, some, (low, high))

            def strip(o: Value) -> None:
                strip_factors = k.at(mine, c0 * im.count * strips * rows + o * some * im.count, kind)

                def one(p: Value) -> None:
                    stop = k.least(p + width, p1)

                    def narrow(v: int) -> Value:
                        if band:
                            taps: tuple[int, Value | int] = (0, im.count)
                            pitch: Value | int = apart
                            count, first = some, strip_factors

                            def line_of(t: Value) -> Value:
                                return k.at(panels, p - p0 + k.load(table, t * 2, "i64"), kind)

                        else:
                            number = (p - p0) // width
                            low, high = (k.load(seen, number * 2 + i, "i64") for i in range(2))
                            taps, count, pitch = (0, 1), (high - low) * some, width
                            first = k.at(strip_factors, low * some * rows, kind)
                            panel = k.at(panels, (p - p0) * some * im.count + low * some * width, kind)

                            def line_of(t: Value) -> Value:
                                return panel

                        total = product(k, kind, rows, v, first, taps, line_of, count, pitch)
                        # whole registers of one run of the result are stored as they are
                        is_whole = (stop - p).eq(v * lanes) & (p % line + v * lanes <= run_length) if store == "row" else no

                        def put_aside() -> None:
                            for r in range(rows):
                                for j in range(v):
                                    k.store(total[r][j], tile, r * width + j * lanes, kind)

                        k.when(is_whole, lambda: write_whole(o, p, c0, total), put_aside)
                        return is_whole

                    k.when(by_width(k, stop - p, lanes, vectors, narrow), lambda: None, lambda: write(o, p, stop, c0))

                k.loop(p0, p1, one, step=width)

            if band:
                k.loop(0, some, fill_band)
            else:
                k.loop(p0, p1, fill, step=width)
            k.loop(strip0 * rows, k.least((strip0 + strip_block) * rows, outputs), strip, step=rows)

        def place_of(o: Value, which: Value, start: Value) -> Value:
            """Where output ``o`` of pixel ``start``, which lies in run number ``which``, goes."""
            n, y = (image, which) if band else im.place(k, which * (line // im.out_width))
            return k.at(target, n * to_n + y * to_y + (start - which * line) * to_x + o * to_c, kind)

        def write_whole(o: Value, p: Value, c0: Value, total: list[list[Value]]) -> None:
            """As ``write``, from registers."""
            left, place = k.least(outputs - o, rows), place_of(o, p // line, p)
            for r, values in enumerate(total):

                def row(r: int = r, values: list[Value] = values) -> None:
                    first, to = k.splat(k.load(plus, o + r, kind), lanes), k.at(place, r * to_c, kind)
                    for j, value in enumerate(values):
                        old = k.load(to, j * lanes, kind, lanes)
                        k.store(value + k.select(c0.eq(0), first, old), to, j * lanes, kind)

                k.when(left > r, row)

        def write(o: Value, p: Value, stop: Value, c0: Value) -> None:
            """Add the tile to the bias, or where this is not the first block of channels to what is there."""
            left = k.least(outputs - o, rows)

            def part(which: Value, start: Value, end: Value) -> None:
                if band:
                    end = k.most(start, k.least(end, which * line + im.out_width))
                place = place_of(o, which, start)
                values, length = k.at(tile, start - p, kind), end - start

                def row(r: Value) -> None:
                    first = k.load(plus, o + r, kind)

                    def add(value: Value, old: Any) -> Value:
                        return value + k.select(c0.eq(0), first, old())

                    copy_line(k, kind, store, k.at(values, r * width, kind), k.at(place, r * to_c, kind), length, to_x, add)

                k.loop(0, left, row)

            runs(k, p, stop, line, part)

        k.loop(0, channels, deep, step=block)
        give_back(k, flags, piece)

    k.for_chunks(chunk)


def by_width(k: Builder, length: Value, lanes: int, vectors: int, body: Callable[[int], Value]) -> Value:
    """What ``body(v)`` returns for a number of registers, up to ``vectors``, that holds ``length`` elements."""

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


@kernel
def windows_times_grad(k: Builder, kind: str, mode: str, grad_mode: str, band: bool) -> None:
    """The weight gradient: sums over pixels, tiles of outputs times (tap, channel), each tile whole registers in ``partial``.

    A chunk is a range of pixels, a block of channels and a group; each range of pixels has a ``partial`` of its own.  With ``band`` pixels
    are counted in blocks of some rows of an image, which are packed as they are; the gradient has zeros there between its rows.
    """
    lanes = k.lanes(kind)
    rows, columns = sums_tile(k.target)
    registers = -(-rows * columns // lanes)
    source, grad, partial, flags, room, table = (k.array() for _ in range(6))
    im, gr = images_of(k, source), images_of(k, grad)
    place = [k.integer() for _ in range(8)]
    pieces, room_size, room_panel, between_channels = (k.integer() for _ in range(4))
    channels, block, outputs, output_block, pixels, pixel_block, split, apart = (k.integer() for _ in range(8))
    blocks = (channels + block - 1) // block
    output_tiles = (outputs + (rows - 1)) // rows
    tiles = (block * im.count + (columns - 1)) // columns
    splits = (pixels + split - 1) // split
    line, tall, one = place[3], pixel_block, k.const(1, "i64")
    # not a power of two, or all rows would lie in the same sets of the cache
    pitch = (pixel_block * line if band else pixel_block) // lanes * lanes + 2 * lanes
    zero = k.const(0, kind, lanes)

    def chunk(index: Value) -> None:
        piece = borrow(k, flags, pieces)
        panel = k.at(room, piece * room_size, kind)
        lines = k.at(panel, room_panel, kind)
        number, c0, rest = index % splits, ((index // splits) % blocks) * block, index // splits
        group = rest // blocks
        im.data, gr.data = k.at(source, group * channels * im.c, kind), k.at(grad, group * outputs * gr.c, kind)
        some = k.least(block, channels - c0)
        depth = some * im.count
        start, end = number * split, k.least((number + 1) * split, pixels)
        mine = k.at(partial, number * apart + rest * output_tiles * tiles * (registers * lanes), kind)

        def clear(lines: Value, count: Value, length: Value) -> None:
            """Zeros in the last register of each line: what lies behind its end must not count."""
            k.loop(0, count, lambda r: k.store(zero, lines, r * pitch + (length - lanes), kind))

        def panels(p: Value) -> None:
            stop = k.least(p + pixel_block, end)
            length = ((stop - p) + (lanes - 1)) // lanes * lanes
            clear(panel, depth, length)
            pack(k, kind, mode, im, panel, pitch, p, stop, c0, some, (0, im.count))

            def windows(number: Value) -> Value:
                return k.at(panel, number * pitch, kind)

            def grads(o0: Value, count: Value) -> None:
                pack(k, kind, grad_mode, gr, lines, pitch, p, stop, o0, count, (0, gr.count))

            products(p, length, windows, grads)

        def bands(p: Value) -> None:
            per_image = (im.out_height + (tall - 1)) // tall
            image, y0 = p // per_image, (p % per_image) * tall
            high = k.least(tall, im.out_height - y0)
            length = (high * line + (lanes - 1)) // lanes * lanes
            # further rows, because what is multiplied by the zeros between and behind rows must be numbers, too
            held = (place[0] + y0 * im.step_y, place[1], high + (place[2] - tall) + further_rows(line, lanes))

            def fill(c: Value) -> None:
                data = k.at(im.data, image * im.n + (c0 + c) * im.c, kind)
                plane = k.at(panel, c * between_channels, kind)
                fill_plane(k, kind, mode, plane, data, (im.y, im.x), (im.height, im.width), (*held, *place[3:]), place[2])

            k.loop(0, some, fill)

            def windows(number: Value) -> Value:
                number = k.least(number, depth - 1)
                return k.at(panel, number % some * between_channels + k.load(table, number // some * 2, "i64"), kind)

            def grads(o0: Value, count: Value) -> None:
                def output(o: Value) -> None:
                    data = k.at(gr.data, image * gr.n + (o0 + o) * gr.c + y0 * gr.y, kind)
                    whole = (y0 - y0, y0 - y0, high, line, one, one, one, one)
                    fill_plane(k, kind, grad_mode, k.at(lines, o * pitch, kind), data, (gr.y, gr.x), (high, gr.width), whole)

                k.loop(0, count, output)

            products(p, length, windows, grads)

        def products(p: Value, length: Value, windows: Any, grads: Any) -> None:
            def output(o0: Value) -> None:
                o1 = k.least(o0 + output_block, outputs)
                clear(lines, o1 - o0, length)
                grads(o0, o1 - o0)

                def column(j: Value) -> None:
                    seen = [windows(j * columns + i) for i in range(columns)]

                    def row(o: Value) -> None:
                        sums = inner_products(k, kind, [k.at(lines, (o - o0 + i) * pitch, kind) for i in range(rows)], seen, length)
                        at = k.at(mine, (o // rows * tiles + j) * (registers * lanes), kind)
                        for i, value in enumerate(sums):
                            old = k.when(p.eq(start), lambda: zero, functools.partial(k.load, at, i * lanes, kind, lanes))
                            k.store(old + value, at, i * lanes, kind)

                    k.loop(o0, o1, row, step=rows)

                k.loop(0, (depth + (columns - 1)) // columns, column)

            k.loop(0, outputs, output, step=output_block)

        if band:
            k.loop(start, end, bands)
        else:
            k.loop(start, end, panels, step=pixel_block)
        give_back(k, flags, piece)

    k.for_chunks(chunk)


@kernel
def join_partial(k: Builder, kind: str) -> None:
    """The weight gradient from the partial sums: (output, channel, tap); a chunk is a tile of outputs of a block of channels of a group."""
    lanes = k.lanes(kind)
    rows, columns = sums_tile(k.target)
    size = -(-rows * columns // lanes) * lanes
    partial, out = k.array(), k.array()
    count, channels, block, outputs, splits, apart = (k.integer() for _ in range(6))
    blocks = (channels + block - 1) // block
    output_tiles = (outputs + (rows - 1)) // rows
    tiles = (block * count + (columns - 1)) // columns

    def chunk(index: Value) -> None:
        tile, rest = index % output_tiles, index // output_tiles
        group, c0 = rest // blocks, (rest % blocks) * block
        some = k.least(block, channels - c0)
        mine, left = k.at(partial, index * tiles * size, kind), k.least(outputs - tile * rows, rows)

        def join(i: Value) -> None:
            def split(number: Value, total: Value) -> Value:
                return total + k.load(mine, number * apart + i, kind, lanes)

            k.store(k.loop(0, splits, split, carried=[k.const(0, kind, lanes)]), mine, i, kind)

        k.when(splits > 1, lambda: k.loop(0, tiles * size, join, step=lanes))
        first = k.at(out, ((group * outputs + tile * rows) * channels + c0) * count, kind)

        def channel(c: Value) -> None:
            to = k.at(first, c * count, kind)

            def tap(t: Value) -> None:
                place = t * some + c
                at = (place // columns) * size + place % columns

                def output(r: Value | int) -> None:
                    k.store(k.load(mine, at + r * columns, kind), to, t + r * channels * count, kind)

                def all_outputs() -> None:
                    for r in range(rows):
                        output(r)

                k.when(left.eq(rows), all_outputs, lambda: k.loop(0, left, output))

            k.loop(0, count, tap)

        k.loop(0, some, channel)

    k.for_chunks(chunk)


@kernel
def channel_sums(k: Builder, kind: str) -> None:
    """Sums of planes of ``size`` neighbouring elements, one for each image and channel, over the images; a chunk is a channel."""
    lanes = k.lanes(kind)
    x, out = k.array(), k.array()
    images, size, by_image, by_channel = (k.integer() for _ in range(4))
    zero = k.const(0, kind, lanes)

    def chunk(c: Value) -> None:
        def image(n: Value, *total: Value) -> tuple[Value, ...]:
            plane = k.at(x, n * by_image + c * by_channel, kind)
            block = k.loop(
                0,
                size - size % (4 * lanes),
                lambda i, *sums: [s + k.load(plane, i + u * lanes, kind, lanes) for u, s in enumerate(sums)],
                step=4 * lanes,
                carried=[zero] * 4,
            )
            rest = k.vector_loop(
                size - size % (4 * lanes), size, lanes, lambda i, mask, s: s + k.load(plane, i, kind, lanes, mask), carried=[zero]
            )
            return total[0] + (((block[0] + block[1]) + (block[2] + block[3])) + rest)

        k.store(k.sum(k.loop(0, images, image, carried=[zero])), out, c, kind)

    k.for_chunks(chunk)
