"""Convolutions of images and their gradients, as matrix products whose one factor is packed from the images on the way.

    forward            out[pixel, output]   = sum over (tap, channel)   input[pixel + tap, channel] * weight[output, channel, tap]
    input gradient     the same, with the output's gradient as input and the window turned round; for a stride of s each s-th row and
                       column of the result is a convolution of its own, with those taps that meet it
    weight gradient    weight[output, (tap, channel)] = sum over pixels  grad[pixel, output] * input[pixel + tap, channel]

Nothing of the size of all windows is ever written: a block of pixels is packed into scratch memory that stays in the second-level cache.
Blocks depend on sizes alone, so that the same bits come out for any number of threads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...core.native import native
from . import channels_last, depthwise
from . import target as targets
from .build import kernel
from .language import KINDS, Builder, Value
from .memory import empty
from .microkernel import (
    Images,
    borrow,
    copy_line,
    fill_plane,
    give_back,
    inner_products,
    mode_of,
    pack,
    plane_layout,
    product,
    runs,
    scratch_memory,
    store_mode,
    strides_of,
    tile_width,
)
from .pool import pool

DEPTH = 576  # rows of a panel: a strip of factors (16 KB) stays in the first-level cache
PIXELS = 192  # pixels of a block: with DEPTH rows 432 KB
BAND = 640  # pixels of a band, at least
SUM_DEPTH, SUM_PIXELS = 144, 512  # the same of the weight gradient, whose panels are read once for each few outputs
CHUNKS = 16  # that many chunks at least, where there is work enough for them


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
    """The 14 arguments that describe images, in the order of the fields; ``_Windows.numbers`` passes them."""
    numbers = [k.integer() for _ in range(10)]
    taps, count, inner, by_row = k.array(), k.integer(), k.integer(), k.integer()
    return Images(data, *numbers, taps, count, inner, by_row)


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
    strips = (outputs + (rows - 1)) // rows
    strip_groups = (strips + strip_block - 1) // strip_block
    image_blocks = (pixels + pixel_block - 1) // pixel_block
    pixel_groups = im.inner * image_blocks if band else image_blocks  # of bands, inner is the number of images

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

                    def narrow(v: int) -> None:
                        if band:
                            taps, count, pitch, first = (0, im.count), some, apart, strip_factors

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
                        for r in range(rows):
                            for j in range(v):
                                k.store(total[r][j], tile, r * width + j * lanes, kind)

                    by_width(k, stop - p, lanes, vectors, narrow)
                    write(o, p, stop, c0)

                k.loop(p0, p1, one, step=width)

            if band:
                k.loop(0, some, fill_band)
            else:
                k.loop(p0, p1, fill, step=width)
            k.loop(strip0 * rows, k.least((strip0 + strip_block) * rows, outputs), strip, step=rows)

        def write(o: Value, p: Value, stop: Value, c0: Value) -> None:
            """Add the tile to the bias, or where this is not the first block of channels to what is there."""
            left = k.least(outputs - o, rows)

            def part(which: Value, start: Value, end: Value) -> None:
                if band:
                    n, y, end = image, which, k.most(start, k.least(end, which * line + im.out_width))
                else:
                    n, y = im.place(k, which * (line // im.out_width))
                place = k.at(target, n * to_n + y * to_y + (start - which * line) * to_x + o * to_c, kind)
                values, length = k.at(tile, start - p, kind), end - start

                def row(r: Value) -> None:
                    at, tile_row = k.at(place, r * to_c, kind), k.at(values, r * width, kind)
                    first = k.load(plus, o + r, kind)
                    k.when(
                        c0.eq(0),
                        lambda: copy_line(k, kind, store, tile_row, at, length, to_x, lambda value, old: value + first),
                        lambda: copy_line(k, kind, store, tile_row, at, length, to_x, lambda value, old: value + old()),
                    )

                k.loop(0, left, row)

            runs(k, p, stop, line, part)

        k.loop(0, channels, deep, step=block)
        give_back(k, flags, piece)

    k.for_chunks(chunk)


def by_width(k: Builder, length: Value, lanes: int, vectors: int, body: Any) -> None:
    """``body(v)`` for a number of registers, up to ``vectors``, that holds ``length`` elements."""

    def choose(choices: list[int]) -> None:
        if len(choices) == 1:
            body(choices[0])
        else:
            k.when(length > choices[1] * lanes, lambda: body(choices[0]), lambda: choose(choices[1:]))

    choose(sorted({vectors, (vectors + 1) // 2, 1}, reverse=True))


# -- weight gradient ------------------------------------------------------------------------------------------------------------------
def _sums_tile(target: targets.Target) -> tuple[int, int]:
    return (4, 6) if target.registers >= 32 else (3, 4)


@kernel
def windows_times_grad(k: Builder, kind: str, mode: str, grad_mode: str) -> None:
    """The weight gradient: sums over pixels, tiles of outputs times (tap, channel), each tile whole registers in ``partial``.

    A chunk is a range of pixels, a block of channels and a group; each range of pixels has a ``partial`` of its own.
    """
    lanes = k.lanes(kind)
    rows, columns = _sums_tile(k.target)
    registers = -(-rows * columns // lanes)
    source, grad, partial, flags, room = (k.array() for _ in range(5))
    im, gr = images_of(k, source), images_of(k, grad)
    pieces, room_size, room_panel = (k.integer() for _ in range(3))
    channels, block, outputs, output_block, pixels, pixel_block, split, apart = (k.integer() for _ in range(8))
    blocks = (channels + block - 1) // block
    output_tiles = (outputs + (rows - 1)) // rows
    tiles = (block * im.count + (columns - 1)) // columns
    splits = (pixels + split - 1) // split
    pitch = pixel_block + lanes  # not a power of two, or all rows would lie in the same sets of the cache
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

        def pixel(p: Value) -> None:
            stop = k.least(p + pixel_block, end)
            length = ((stop - p) + (lanes - 1)) // lanes * lanes

            def clear(rows_of: Value, count: Value) -> None:
                k.loop(0, count, lambda r: k.store(zero, rows_of, r * pitch + (length - lanes), kind))

            clear(panel, depth)
            pack(k, kind, mode, im, panel, pitch, p, stop, c0, some, (0, im.count))

            def output(o0: Value) -> None:
                o1 = k.least(o0 + output_block, outputs)
                clear(lines, o1 - o0)
                pack(k, kind, grad_mode, gr, lines, pitch, p, stop, o0, o1 - o0, (0, gr.count))

                def column(j: Value) -> None:
                    def row(o: Value) -> None:
                        factors, windows = k.at(lines, (o - o0) * pitch, kind), k.at(panel, j * columns * pitch, kind)
                        made = inner_products(k, kind, rows, columns, factors, pitch, windows, pitch, length)
                        at = k.at(mine, (o // rows * tiles + j) * (registers * lanes), kind)
                        for i, value in enumerate(made):
                            old = k.when(p.eq(start), lambda: zero, lambda i=i: k.load(at, i * lanes, kind, lanes))
                            k.store(old + value, at, i * lanes, kind)

                    k.loop(o0, o1, row, step=rows)

                k.loop(0, (depth + (columns - 1)) // columns, column)

            k.loop(0, outputs, output, step=output_block)

        k.loop(start, end, pixel, step=pixel_block)
        give_back(k, flags, piece)

    k.for_chunks(chunk)


@kernel
def join_partial(k: Builder, kind: str) -> None:
    """The weight gradient from the partial sums: (output, channel, tap); a chunk is a tile of outputs of a block of channels of a group."""
    lanes = k.lanes(kind)
    rows, columns = _sums_tile(k.target)
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
        mine = k.at(partial, index * tiles * size, kind)

        def tap(t: Value) -> None:
            def channel(c: Value) -> None:
                place = t * some + c
                at = (place // columns) * size + place % columns

                def output(r: Value) -> None:
                    def split(s: Value, total: Value) -> Value:
                        return total + k.load(mine, s * apart + at + r * columns, kind)

                    total = k.loop(0, splits, split, carried=[k.const(0, kind)])
                    k.store(total, out, ((group * outputs + tile * rows + r) * channels + c0 + c) * count + t, kind)

                k.loop(0, k.least(outputs - tile * rows, rows), output)

            k.loop(0, some, channel)

        k.loop(0, count, tap)

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


# -- calls ----------------------------------------------------------------------------------------------------------------------------
def _table(taps: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(taps, np.int64).reshape(-1, 3)


_CENTRE = _table([(0, 0, 0)])


def _described(array: np.ndarray, step: tuple[int, int], out: tuple[int, int], table: np.ndarray, by_row: bool) -> tuple[Any, ...]:
    """The arguments that ``images_of`` takes."""
    n, _, height, width = array.shape
    inner = n if by_row else out[0]
    return (*strides_of(array), height, width, *step, *out, id(table), len(table), inner, int(by_row))


def _even(total: int, most: int) -> int:
    """The size of equal parts of ``total``, none larger than ``most``."""
    return -(-total // -(-total // max(1, min(most, total))))


def _rows(outputs: int, registers: int) -> int:
    """Outputs of a strip: as many as registers hold, fewer where there are fewer."""
    return 4 if outputs <= 4 else 6 if outputs <= 6 or registers < 32 else 8


def _convolve(
    x: np.ndarray,
    weight: np.ndarray,
    weight_strides: tuple[int, int, int],
    table: np.ndarray,
    step: tuple[int, int],
    out: np.ndarray,
    bias: np.ndarray,
    groups: int,
    channels: int,
) -> None:
    """``out[n, g o, y, x] = bias + sum of x[n, g c, y step + dy, x step + dx] * weight[...]`` for one table of taps."""
    kind, count = KINDS[x.dtype], len(table)
    n, outputs, height, width = out.shape
    outputs //= groups
    target = targets.current()
    rows = _rows(outputs, target.registers)
    strips = -(-outputs // rows)
    panel = tile_width(target, rows) * (target.width // x.itemsize)
    block = _even(channels, DEPTH // max(1, count))
    factors = empty((groups * strips * rows * channels * count,), x.dtype)
    pack_weight(kind, rows)(groups * strips, id(weight), id(factors), id(table), count, channels, block, outputs, *weight_strides)
    to = strides_of(out)
    store = store_mode(out)
    overhangs = any(dy < 0 or (height - 1) * step[0] + dy >= x.shape[2] for dy in table[:, 0].tolist())
    by_row = n > 1 and width < panel and overhangs
    offsets, place = plane_layout(table.tobytes(), step, height, width) if count else (_CENTRE, (0,) * 8)
    line, pitch, band = place[3], 0, count > 0
    if band:
        # what is computed for each wanted pixel against what packing panels costs in units of that: 6 cycles a register
        wide = -(-height * line // panel) * panel / (height * width) * (1 + 8 / (outputs * count))
        band = wide < (1 + 6 * max(1, 16 / width) / outputs) * (1 - by_row * min(0.3, 0.7 / height))
    if band:
        tall = min(height, max(1, -(-BAND // line)))
        while tall > 8 and n * groups * -(-height // tall) < CHUNKS:
            tall = -(-tall // 2)
        offsets, place = plane_layout(table.tobytes(), step, tall, width)
        pixels, pixel_block, blocks = height * line, tall * line, n * -(-height // tall)
        pitch = (-(-place[6] * place[7] * place[2] * line // 16) | 1) * 16  # lines of different channels in different sets of the cache
        size = block * pitch + panel + line
        by_row, line_length = False, line
    else:
        pixels = n * height * width
        pixel_block = min(PIXELS // panel * panel or panel, -(-pixels // panel) * panel)
        while pixel_block > panel and groups * -(-pixels // pixel_block) < CHUNKS:
            pixel_block -= panel
        blocks = -(-pixels // pixel_block)
        size = pixel_block * block * count
        line_length = height * width if store == "row" and not by_row and (to[2] == width or height == 1) else width
    strip_block = max(1, -(-strips // max(1, CHUNKS // (groups * blocks))))
    flags, room = scratch_memory(size, x.dtype)
    description = _described(x, step, (height, width), table, by_row)
    if band:
        description = (*description[:-2], n, 0)
    windows_times_weight(kind, mode_of(x, step[1]), store, rows, band)(
        groups * blocks * -(-strips // strip_block), id(x), id(out), id(factors), id(bias), id(flags), id(room), id(offsets), *description,
        *place, pool.threads, room.shape[1], pitch, channels, block, outputs, pixels, pixel_block, strip_block, line_length, *to,
    )  # fmt: skip


def _planar(array: np.ndarray) -> np.ndarray:
    """Images of one dimension as images of two, one row high."""
    return array if array.ndim == 4 else array[:, :, None]


def _flat(values: Any, fill: int) -> tuple[int, int]:
    return (values[0], values[1]) if len(values) == 2 else (fill, values[0])


def _planes(array: np.ndarray) -> np.ndarray:
    """``array``, or a copy where neighbours in a row are not neighbours in memory."""
    if array.flags.c_contiguous or array.strides[3] == array.itemsize:
        return array
    return channels_last.to_planes(array) if _is_last(array) else np.ascontiguousarray(array)


def _is_last(array: np.ndarray) -> bool:
    """Whether channels are innermost, without gaps."""
    _, channels, height, width = array.shape
    size = array.itemsize
    return array.strides == (channels * height * width * size, size, channels * width * size, channels * size)


def _in_layout(planes: np.ndarray, last: bool, rank: int) -> np.ndarray:
    """The result as PyTorch lays it out."""
    if rank == 3:
        return planes[:, :, 0]
    if not last:
        return planes
    out = _empty_last(planes.shape, planes.dtype)
    channels_last.from_planes(planes, out)
    return out


def _empty_last(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def _unfit(*arrays: np.ndarray) -> bool:
    first = arrays[0]
    return first.ndim not in (3, 4) or first.dtype not in _DTYPES or any(a.size == 0 or a.dtype != first.dtype for a in arrays)


_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@native("_correlate")
def correlate(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray | None:
    """The convolution; geometry has been checked."""
    if _unfit(x, weight):
        return None
    rank = x.ndim
    x, weight = _planar(x), _planar(weight)
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    height, width = (x.shape[2] + 2 * py - ey * (kh - 1) - 1) // sy + 1, (x.shape[3] + 2 * px - ex * (kw - 1) - 1) // sx + 1
    by = strides_of(weight)
    table = _window_table(kh, kw, py, px, ey, ex, by[2], by[3])
    shape = (x.shape[0], outputs, height, width)
    bias = np.zeros(outputs, x.dtype) if bias is None else np.ascontiguousarray(bias)
    if channels == 1 and groups == outputs and last and _is_last(x):
        out = _empty_last(shape, x.dtype)
        channels_last.convolve(x, _tap_major(weight, table), table, (sy, sx), out, bias)
        return out
    x, out = _planes(x), empty(shape, x.dtype)
    if channels == 1 and groups >= outputs // groups:
        depthwise.convolve(x, weight, by[0], table, (sy, sx), out, bias)
    else:
        _convolve(x, weight, (outputs // groups * by[0], by[0], by[1]), table, (sy, sx), out, bias, groups, channels)
    return _in_layout(out, last, rank)


@native("_spread")
def spread(
    grad: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    spatial: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    last: bool,
) -> np.ndarray | None:
    """The gradient with respect to the input, which is the transposed convolution."""
    if _unfit(grad, weight):
        return None
    rank = grad.ndim
    grad, weight = _planar(grad), _planar(weight)
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    outputs, channels, kh, kw = weight.shape
    by = strides_of(weight)
    shape = (grad.shape[0], channels * groups, *_flat(spatial, 1))
    bias = np.zeros(channels * groups, grad.dtype) if bias is None else np.ascontiguousarray(bias)
    each, innermost = outputs == groups and channels == 1, False
    if each and last and _is_last(grad):
        out, innermost = _empty_last(shape, grad.dtype), True
    else:
        grad, out = _planes(grad), empty(shape, grad.dtype)
    for ry in range(min(sy, out.shape[2])):
        for rx in range(min(sx, out.shape[3])):
            table = _turned_table(kh, kw, ry + py, rx + px, ey, ex, sy, sx, by[2], by[3])
            part = out[:, :, ry::sy, rx::sx]
            if innermost:
                channels_last.convolve(grad, _tap_major(weight, table), table, (1, 1), part, bias)
                continue
            if each and len(table):
                depthwise.convolve(grad, weight, by[0], table, (1, 1), part, bias)
                continue
            _convolve(grad, weight, (outputs // groups * by[0], by[1], by[0]), table, (1, 1), part, bias, groups, outputs // groups)
    return out if innermost else _in_layout(out, last, rank)


def _tap_major(weight: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Depthwise weights as ``(tap, channel)`` in the order of a table of taps."""
    by = strides_of(weight)
    places = [(y * by[2] + x * by[3]) for y in range(weight.shape[2]) for x in range(weight.shape[3])]
    order = [places.index(place) for place in table[:, 2].tolist()]
    return np.ascontiguousarray(weight.reshape(len(weight), -1).T[order])


@lru_cache(maxsize=1024)
def _window_table(kh: int, kw: int, py: int, px: int, ey: int, ex: int, by_y: int, by_x: int) -> np.ndarray:
    """Taps of a window: where each lies, and where its weight."""
    return _table([(y * ey - py, x * ex - px, y * by_y + x * by_x) for y in range(kh) for x in range(kw)])


@lru_cache(maxsize=1024)
def _turned_table(kh: int, kw: int, py: int, px: int, ey: int, ex: int, sy: int, sx: int, by_y: int, by_x: int) -> np.ndarray:
    """Taps through which one of the result's pixels was seen; of every ``sy``-th row and ``sx``-th column only."""
    return _table(
        [
            ((py - y * ey) // sy, (px - x * ex) // sx, y * by_y + x * by_x)
            for y in reversed(range(kh))
            if (py - y * ey) % sy == 0
            for x in reversed(range(kw))
            if (px - x * ex) % sx == 0
        ]
    )


@native("_correlate_pair")
def correlate_pair(
    x: np.ndarray, grad: np.ndarray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray | None:
    """The gradient with respect to the weight."""
    if _unfit(x, grad):
        return None
    rank = x.ndim
    x, grad = _planar(x), _planar(grad)
    (sy, sx), (py, px), (ey, ex) = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    kh, kw = _flat(kernel_size, 1)
    kind, dtype = KINDS[x.dtype], x.dtype
    n, outputs, height, width = grad.shape
    channels, outputs = x.shape[1] // groups, outputs // groups
    table = _window_table(kh, kw, py, px, ey, ex, 0, 0)
    count, pixels = kh * kw, n * height * width
    if channels == 1 and outputs == 1 and rank == 4 and groups > 1 and _is_last(x) and _is_last(grad):
        return channels_last.correlate_pair(x, grad, table, (sy, sx)).reshape(groups, 1, kh, kw)
    x, grad = _planes(x), _planes(grad)
    if channels == 1 and groups >= outputs:
        made = depthwise.correlate_pair(x, grad, table, (sy, sx))
        return made.reshape(groups * outputs, 1, *kernel_size)
    target = targets.current()
    lanes = target.width // dtype.itemsize
    rows, columns = _sums_tile(target)
    size = -(-rows * columns // lanes) * lanes
    block = _even(channels, SUM_DEPTH // count)
    blocks = groups * -(-channels // block)
    pixel_block = -(-_even(pixels, SUM_PIXELS) // lanes) * lanes
    parts = max(1, min(-(-pixels // pixel_block), CHUNKS // blocks))
    split = -(-pixels // pixel_block // parts) * pixel_block
    splits = -(-pixels // split)
    output_tiles, tiles = -(-outputs // rows), -(-block * count // columns)
    output_block = min(16, output_tiles) * rows
    apart = blocks * output_tiles * tiles * size
    pitch = pixel_block + lanes
    room_panel = tiles * columns * pitch
    partial = empty((splits * apart,), dtype)
    flags, room = scratch_memory(room_panel + output_block * pitch, dtype)
    windows_times_grad(kind, mode_of(x, sx), mode_of(grad, 1))(
        splits * blocks, id(x), id(grad), id(partial), id(flags), id(room), *_described(x, (sy, sx), (height, width), table, False),
        *_described(grad, (1, 1), (height, width), _CENTRE, False), pool.threads, room.shape[1], room_panel,
        channels, block, outputs, output_block, pixels, pixel_block, split, apart,
    )  # fmt: skip
    made = empty((groups * outputs, channels, kh, kw), dtype)
    join_partial(kind)(blocks * output_tiles, id(partial), id(made), count, channels, block, outputs, splits, apart)
    return made if rank == 4 else made[:, :, 0]


@native("_channel_sums")
def sums_of_channels(x: np.ndarray) -> np.ndarray | None:
    if not x.flags.c_contiguous or x.dtype not in _DTYPES or x.size == 0:
        return None
    out = empty((x.shape[1],), x.dtype)
    size = x[0, 0].size
    channel_sums(KINDS[x.dtype])(x.shape[1], id(x), id(out), x.shape[0], size, x.shape[1] * size, size)
    return out
