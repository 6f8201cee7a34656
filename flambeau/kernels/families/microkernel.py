"""Matrix products out of registers, and the windows of images packed for them: what the convolution kernels are made of.

A *panel* holds what some neighbouring output pixels see of the input: one row for each place in the window and channel, the pixels
side by side, so that a vector register holds one row's values for as many pixels as it has lanes.

    panel           row (tap, channel):   pixel 0, 1, 2, ... width - 1        zeros where a window hangs over the edge

Where a window's places (*taps*) lie is data: a table of offsets ``dy, dx``, so that dilation, padding and the flipped, thinned-out
windows of a gradient all are the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from ..compiler.pool import pool
from ..compiler.target import Target
from .tiles import Tiles


class Strides(Record):
    """From one image, channel, row and pixel to the next, in elements. Planes of a volume count as images."""

    n: Integer  # from volume to volume
    z: Integer
    planes: Integer  # of a volume; 1 where there are none
    c: Integer
    y: Integer
    x: Integer

    def image(self, number: Value) -> Value:
        """Beginning of an image."""
        volume, plane = divmod(number, self.planes)
        return volume * self.n + plane * self.z


class Planes(Strides):
    """Images of so many rows and columns."""

    height: Integer
    width: Integer


class Images(Planes):
    """Images that windows slide over."""

    step_y: Integer  # strides of the convolution
    step_x: Integer
    out_height: Integer  # how many windows there are
    out_width: Integer
    taps: Array  # the table (dy, dx, anything)
    count: Integer  # of the table's rows
    images: Integer  # how many there are
    # Of a volume, which planes windows see are channels: layer ``number % layers`` of channel ``number // layers``.
    depth: Integer
    layers: Integer
    step_z: Integer
    dilation_z: Integer
    first_z: Integer
    # Pixels are in the order (group of so many images, row, image in the group, column): where images are small, the pixels of a panel
    # then have a row in common, and taps that meet no row of the image can be left out.
    group: Integer

    def plane(self, k: Builder, image: Value, channel: Value) -> tuple[Value, Value]:
        """Beginning of a channel of what an image's windows see, and its rows: 0 outside of the volume."""
        (volume, position), (channel, layer) = divmod(image, self.planes), divmod(channel, self.layers)
        z = position * self.step_z + layer * self.dilation_z + self.first_z
        inside = (z >= 0) & (z < self.depth)
        return volume * self.n + channel * self.c + k.select(inside, z, 0) * self.z, k.select(inside, self.height, 0)

    def place(self, k: Builder, line: Value) -> tuple[Value, Value]:
        """Image and row of windows of the ``line``-th line of pixels."""
        first, size, rest = self._group(k, line)
        return first + rest % size, rest // size

    def _group(self, k: Builder, line: Value) -> tuple[Value, Value, Value]:
        """A line's group: its first image, how many it has, and which line of the group that is."""
        lines = self.group * self.out_height
        which = line // lines
        first = which * self.group
        return first, k.least(self.group, self.images - first), line - which * lines

    def taps_seen(self, k: Builder, first: Value, stop: Value) -> tuple[Value, Value]:
        """The first and last (excluded) tap that meets a row of the image for any of the pixels ``first`` to ``stop``."""
        (low, size0, rest0), (high, size1, rest1) = (self._group(k, p // self.out_width) for p in (first, stop - 1))
        whole = low.ne(high)
        y0 = k.select(whole, 0, rest0 // size0) * self.step_y
        y1 = k.select(whole, self.out_height - 1, rest1 // size1) * self.step_y

        def tap(t: Value, start: Value, end: Value) -> tuple[Value, Value]:
            dy = k.load(self.taps, t * 3, "i64")
            seen = (y1 + dy >= 0) & (y0 + dy < self.height)
            return k.select(seen, k.least(start, t), start), k.select(seen, t + 1, end)

        return k.loop(0, self.count, tap, carried=[self.count, k.const(0, "i64")])


Range = tuple[Value, Value]


def tile_width(target: Target, rows: int) -> int:
    """Width in vectors up to which the accumulators of a tile of ``rows`` rows, one row of the panel and a factor fit the registers."""
    return max(1, (target.registers - 2) // (rows + 1))


def runs(k: Builder, first: Value, stop: Value, size: Value, body: Callable[[Value, Value, Value], None]) -> None:
    """Cut pixels ``first`` to ``stop`` at the multiples of ``size``: ``body(which multiple, start, end)``."""

    def one(r: Value) -> None:
        body(r, k.most(first, r * size), k.least(stop, (r + 1) * size))

    k.loop(first // size, (stop + size - 1) // size, one)


def between(k: Builder, low: Value, high: Value, lanes: int) -> Value:
    """Mask of the lanes from ``low`` (included) to ``high``."""
    idx = k.indices(lanes, "i32")
    return (idx >= k.splat(k.cast(low, "i32"), lanes)) & (idx < k.splat(k.cast(high, "i32"), lanes))


class Packing:
    """Fills panels with what pixels see of images.

    ``mode`` says how the images' elements for neighbouring pixels lie: ``"row"`` side by side, ``"pair"`` every second of a row, ``"any"``
    apart.
    """

    def __init__(self, k: Builder, element: str, mode: str, im: Images):
        self.k, self.element, self.mode, self.im = k, element, mode, im
        self.lanes = k.lanes(element)

    def __call__(self, data: Value, panel: Value, width: Any, pixels: Range, channels: Range, taps: tuple[Any, Value]) -> None:
        """Fill a panel, rows ``width`` apart, with what ``pixels`` see of the images at ``data``.

        ``pixels`` are given by the first and the last (excluded), ``channels`` by the first and how many.  Rows are in the order (tap,
        channel); only those of the range ``taps`` are written.
        """
        k, element, im = self.k, self.element, self.im
        (first, stop), (c0, count) = pixels, channels

        def run(line: Value, start: Value, end: Value) -> None:
            n, oy = im.place(k, line)
            ox = start - line * im.out_width
            place, length = start - first, end - start
            y0, x0 = oy * im.step_y, ox * im.step_x
            base = n * im.n + c0 * im.c

            def tap(t: Value) -> None:
                iy = y0 + k.load(im.taps, t * 3, "i64")
                ix = x0 + k.load(im.taps, t * 3 + 1, "i64")
                inside = (iy >= 0) & (iy < im.height)
                limit = k.select(inside, im.width - ix, 0)
                source = k.at(data, base + iy * im.y + ix * im.x, element)
                self._rows(source, k.at(panel, t * count * width + place, element), count, width, (ix, limit, length))

            k.loop(*taps, tap)

        runs(k, first, stop, im.out_width, run)

    def _rows(self, source: Value, target: Value, channels: Value, width: Any, columns: tuple[Value, Value, Value]) -> None:
        """A row for each channel of what one tap sees in ``columns``: see ``_fetch``."""
        k = self.k

        def register(v: Value) -> None:
            fetch, keep = self._fetch(v, *columns)

            def one(_: Value, channel: Value, to: Value) -> tuple[Value, Value]:
                k.blend(fetch(channel), to, v, self.element, keep)
                return k.at(channel, self.im.c, self.element), k.at(to, width, self.element)

            def two(c: Value, channel: Value, to: Value) -> tuple[Value, Value]:
                return one(c, *one(c, channel, to))

            even = channels - (channels & 1)
            reached = k.loop(0, even, two, step=2, carried=[source, target])
            k.loop(even, channels, one, carried=reached)

        k.loop(0, columns[2], register, step=self.lanes)

    def _fetch(self, v: Value, ix: Value, limit: Value, length: Value) -> tuple[Callable[[Value], Value], Value]:
        """Function that reads register ``v`` of a row of ``length`` pixels, and the mask of its lanes within them.

        The row begins at column ``ix`` of the image, of which ``limit`` columns are left.
        """
        k, element, lanes = self.k, self.element, self.lanes
        left = length - v
        keep = k.mask_below(v, length, lanes)
        if self.mode == "row":
            seen = between(k, -(ix + v), k.least(left, limit - v), lanes)
            return lambda channel: k.load(channel, v, element, lanes, seen), keep
        if self.mode == "pair":
            at = v * 2
            low, high = -(ix + at), k.least(left * 2, limit - at)
            halves = [between(k, low - h * lanes, high - h * lanes, lanes) for h in range(2)]

            def every_second(channel: Value) -> Value:
                a, b = (k.load(channel, at + h * lanes, element, lanes, halves[h]) for h in range(2))
                return k.shuffle(a, range(0, 2 * lanes, 2), b)

            return every_second, keep
        where = (k.splat(v, lanes) + k.indices(lanes)) * self.im.step_x
        seen = keep & (where + ix >= 0) & (where < limit)
        where = where * self.im.x
        return lambda channel: k.gather(channel, where, element, seen), keep


class Place(Record):
    """Offset and strides of a copy of a plane with zeros around it; see ``plane_layout``.

    With steps there are several such copies, *phases*: each has every ``step_y``-th row and every ``step_x``-th column, from one of the
    first on.
    """

    y0: Integer  # the first row and column of the image, which may be negative
    x0: Integer
    rows: Integer
    pitch: Integer  # from row to row
    step_y: Integer
    step_x: Integer
    phases_y: Integer
    phases_x: Integer


def whole_plane(k: Builder, rows: Value, pitch: Value) -> Place:
    """The place of a copy without zeros around it."""
    zero, one = k.const(0, "i64"), k.const(1, "i64")
    return Place(y0=zero, x0=zero, rows=rows, pitch=pitch, step_y=one, step_x=one, phases_y=one, phases_x=one)


class Filling:
    """Copies planes with zeros around them; ``mode`` is that of ``Packing``."""

    def __init__(self, k: Builder, element: str, mode: str):
        self.k, self.element, self.mode = k, element, mode
        self.lanes = k.lanes(element)

    def __call__(self, plane: Value, data: Value, source: Planes, place: Place, lines: Value | None = None) -> None:
        """Copy the plane at ``data``, one of ``source``; the phases lie ``lines`` rows apart if not ``place.rows``."""
        lines = place.rows if lines is None else lines
        if self.mode == "pair":
            self.k.loop(0, place.phases_y, partial(self._two_phases, plane, data, source, place, lines))
        else:
            self.k.loop(0, place.phases_y * place.phases_x, partial(self._phase, plane, data, source, place, lines))

    def _phase(self, plane: Value, data: Value, source: Planes, place: Place, lines: Value, f: Value) -> None:
        k, element, lanes = self.k, self.element, self.lanes
        fy, fx = f // place.phases_x, f % place.phases_x
        to = k.at(plane, f * lines * place.pitch, element)

        def row(j: Value) -> None:
            line, limit = self._row(data, source, j * place.step_y + fy + place.y0)

            def register(v: Value) -> None:
                ix = v * place.step_x + fx + place.x0
                if self.mode == "row":
                    value = self._read(line, ix, limit)
                else:
                    at = k.indices(lanes) * place.step_x + ix
                    value = k.gather(line, at * source.x, element, (at >= 0) & (at < limit))
                k.store(value, to, j * place.pitch + v, element)  # what it writes beyond the row is written again by the next one

            k.loop(0, place.pitch, register, step=lanes)

        k.loop(0, place.rows, row)

    def _two_phases(self, plane: Value, data: Value, source: Planes, place: Place, lines: Value, fy: Value) -> None:
        """With a step of 2: a row's even columns to one phase, its odd ones to the next, if that is wanted."""
        k, element, lanes = self.k, self.element, self.lanes
        even = k.at(plane, fy * place.phases_x * lines * place.pitch, element)
        odd, two = k.at(even, lines * place.pitch, element), place.phases_x > 1

        def row(j: Value) -> None:
            line, limit = self._row(data, source, j * place.step_y + fy + place.y0)
            inside = (j < lines) | (place.phases_x < 2)  # rows behind the first phase would lie in the second one

            def register(v: Value) -> None:
                a, b = (self._read(line, v * 2 + place.x0 + h, limit) for h in (0, lanes))
                keep = k.mask_below(v, place.pitch, lanes)
                for wanted, to, first in ((inside, even, 0), (two, odd, 1)):
                    value = k.shuffle(a, range(first, 2 * lanes, 2), b)
                    k.when(wanted, partial(k.blend, value, to, j * place.pitch + v, element, keep))

            k.loop(0, place.pitch, register, step=lanes)

        k.loop(0, place.rows, row)

    def _row(self, data: Value, source: Planes, iy: Value) -> tuple[Value, Value]:
        """Pointer to the beginning of a row, and its length: 0 outside of the image."""
        k = self.k
        return k.at(data, iy * source.y, self.element), k.select((iy >= 0) & (iy < source.height), source.width, 0)

    def _read(self, line: Value, ix: Value, limit: Value) -> Value:
        return self.k.load(line, ix, self.element, self.lanes, between(self.k, -ix, limit - ix, self.lanes))


@dataclass(frozen=True, slots=True)
class Lines:
    """The two operands of ``product``.

    Attributes:
        factors: (tap, channel, row).
        taps: the first tap and the last (excluded).
        of: where the line of pixels is that a tap sees of its first channel.
        channels, pitch: how many there are, and from one's line to the next one's.
    """

    factors: Value
    taps: tuple[Value | int, Value | int]
    of: Callable[[Value], Value]
    channels: Value
    pitch: Value | int


def product(k: Builder, element: str, rows: int, vectors: int, lines: Lines) -> list[list[Value]]:
    """The factors, transposed, times the lines of pixels, as ``rows`` by ``vectors`` registers."""
    tiles = Tiles(k, element, vectors)

    def tap(t: Value, *total: Value) -> tuple[Value, ...]:
        seen, mine = lines.of(t), k.at(lines.factors, t * lines.channels * rows, element)
        each = (0, lines.channels)
        return tiles.product(lambda r, c: k.load(mine, c * rows + r, element), rows, seen, each, tiles.every, total, lines.pitch)

    total = k.loop(*lines.taps, tap, carried=[tiles.zero] * (rows * vectors))
    return [list(total[r * vectors : (r + 1) * vectors]) for r in range(rows)]


def inner_products(k: Builder, element: str, a: list[Value], b: list[Value], length: Value) -> list[Value]:
    """Sums over ``length`` neighbours of the products of each line of ``a`` with each line of ``b``: registers full of sums.

    The sum of lines i and j is in lane ``i * len(b) + j``, counted on through the registers.  ``length`` is a multiple of the lanes.
    """
    lanes, columns = k.lanes(element), len(b)

    def step(at: Value, *total: Value) -> list[Value]:
        first = [k.load(line, at, element, lanes) for line in a]
        sums = list(total)
        for j, line in enumerate(b):
            value = k.load(line, at, element, lanes)
            for i in range(len(a)):
                sums[i * columns + j] = k.fma(first[i], value, total[i * columns + j])
        return sums

    zero = k.const(0, element, lanes)
    total = list(k.loop(0, length, step, step=lanes, carried=[zero] * (len(a) * columns)))
    return [lane_sums(k, total[i : i + lanes]) for i in range(0, len(total), lanes)]


def lane_sums(k: Builder, values: list[Value]) -> Value:
    """One register whose lane i is the sum of ``values[i]``'s lanes; at most as many values as lanes, the rest is zero."""
    lanes = values[0].lanes
    values = values + [k.const(0, values[0].element, lanes)] * (lanes - len(values))
    half = lanes // 2
    while half:
        # each register holds, for several values, ``2 * half`` partial sums of each; two registers become one with ``half`` of each
        low = [i for i in range(2 * lanes) if i % (2 * half) < half]
        high = [i for i in range(2 * lanes) if i % (2 * half) >= half]
        values = [k.shuffle(a, low, b) + k.shuffle(a, high, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        half //= 2
    return values[0]


def borrow(k: Builder, flags: Value, count: Value) -> Value:
    """The number of a piece of scratch memory that is this thread's until ``give_back``.

    ``flags`` is an array of ``count`` pieces' states, 8 words apart, zero where free; there are as many as threads.
    """
    k.count += 1
    n, before = k.count, k.block
    k.effect(f"br label %look{n}")
    k.label(f"look{n}")
    k.effect(f"%piece{n} = phi i64 [0, %{before}], [%next{n}, %look{n}]")
    piece = Value(k, f"%piece{n}", "i64")
    at = k.at(flags, piece * 8, "i64")
    got = k.emit(f"cmpxchg ptr {at.text}, i64 0, i64 1 acquire monotonic", "i64")
    free = k.emit(f"extractvalue {{ i64, i1 }} {got.text}, 1", "b1")
    following = (piece + 1) % count
    k.effect(f"%next{n} = add i64 {following.text}, 0")
    k.effect(f"br i1 {free.text}, label %mine{n}, label %look{n}")
    k.label(f"mine{n}")
    return piece


def give_back(k: Builder, flags: Value, piece: Value) -> None:
    at = k.at(flags, piece * 8, "i64")
    k.effect(f"store atomic i64 0, ptr {at.text} release, align 8")


class Scratch:
    """A piece of ``size`` elements of scratch memory for each thread; ``take`` gives the flags for ``borrow`` and the memory."""

    __slots__ = ("dtype", "pieces", "size")

    def __init__(self, size: int, dtype: np.dtype):
        self.pieces, self.size, self.dtype = pool.threads, size, dtype

    @property
    def flags(self) -> int:
        """So many words."""
        return 8 * self.pieces

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.flags, np.int64), empty((self.pieces, self.size), self.dtype)


def strides_of(array: np.ndarray) -> list[int]:
    """Strides in elements."""
    size = array.itemsize
    return [stride // size for stride in array.strides]


def strides_of_images(images: np.ndarray) -> Strides:
    n, c, *z, y, x = strides_of(images)
    return Strides(n=n, z=z[0] if z else 0, planes=images.shape[2] if z else 1, c=c, y=y, x=x)


def planes_of(images: np.ndarray) -> Planes:
    return Planes(**vars(strides_of_images(images)), height=images.shape[-2], width=images.shape[-1])


@dataclass(frozen=True, slots=True)
class Depth:
    """The third dimension of windows: how many positions there are of it in a volume, and which planes it has there, of each channel.

    Attributes:
        first: plane that the first position begins with; negative where it overhangs.
    """

    positions: int = 1
    layers: int = 1
    step: int = 1
    dilation: int = 1
    first: int = 0


FLAT = Depth()  # of images


def images_of(
    array: np.ndarray, step: tuple[int, int], out: Sequence[int], table: np.ndarray, group: int = 1, depth: Depth = FLAT
) -> Images:
    """Images, or planes of volumes, and windows of them, of which there are ``out`` in a column and in a row."""
    planes = planes_of(array).replace(planes=depth.positions)
    return Images(
        **vars(planes), step_y=step[0], step_x=step[1], out_height=out[0], out_width=out[1], taps=table, count=len(table),
        images=len(array) * depth.positions, depth=array.shape[2] if array.ndim == 5 else 1, layers=depth.layers, step_z=depth.step,
        dilation_z=depth.dilation, first_z=depth.first, group=group,
    )  # fmt: skip


def copy_line(
    k: Builder,
    element: str,
    mode: str,
    line: Value,
    at: Value,
    length: Value,
    step: Value,
    change: Callable[[Value, Callable[[], Value]], Value],
) -> None:
    """Store ``change(value, old)`` of a line's values at elements ``step`` apart; ``old()`` reads what is there.

    ``mode``: ``"row"`` where ``step`` is 1, ``"pair"`` where it is 2, else ``"any"``.
    """
    lanes = k.lanes(element)
    if mode == "row":

        def some(i: Value, mask: Value | None = None, lanes: int = lanes) -> None:
            k.store(change(k.load(line, i, element, lanes, mask), lambda: k.load(at, i, element, lanes, mask)), at, i, element, mask)

        if k.target.has_masks:
            k.vector_loop(0, length, lanes, some)
        else:  # see ``Builder.blend``
            main = length & -lanes
            k.loop(0, main, some, step=lanes)
            k.loop(main, length, lambda i: some(i, None, 1))
    elif mode == "pair":  # each register becomes two, in which every second lane is stored; what lies between is nobody's meanwhile
        every_second = k.mask_below(k.const(0, "i64"), k.const(lanes, "i64"), lanes) & (k.indices(lanes, "i32") & 1).eq(0)

        def two(i: Value) -> None:
            value = k.load(line, i, element, lanes)
            for half in range(2):
                place = i * 2 + half * lanes
                wide = k.shuffle(value, [half * lanes // 2 + lane // 2 for lane in range(lanes)])
                k.blend(change(wide, partial(k.load, at, place, element, lanes)), at, place, element, every_second)

        # the last element's neighbour may lie behind the array
        main = k.most(length - 1, 0) // lanes * lanes
        k.loop(0, main, two, step=lanes)
        k.loop(main, length, lambda i: k.store(change(k.load(line, i, element), lambda: k.load(at, i * 2, element)), at, i * 2, element))
    else:
        k.loop(0, length, lambda i: k.store(change(k.load(line, i, element), lambda: k.load(at, i * step, element)), at, i * step, element))


@lru_cache(maxsize=1024)
def plane_layout(taps: bytes, step: tuple[int, int], height: int, width: int) -> tuple[np.ndarray, Place]:
    """Of taps ``(dy, dx, place of the weight)`` seen by ``height`` by ``width`` pixels: the table (offset, place of the weight), and the
    place of planes with zeros around them."""
    rows = np.frombuffer(taps, np.int64).reshape(-1, 3)
    sy, sx = step
    first, last = rows[:, :2].min(0), rows[:, :2].max(0)
    reach = last - first
    pitch = width + int(reach[1]) // sx
    lines = height + int(reach[0]) // sy
    phases_y, phases_x = min(sy, int(reach[0]) + 1), min(sx, int(reach[1]) + 1)
    dy, dx = (rows[:, :2] - first).T
    phase = dy % sy * phases_x + dx % sx
    table = np.stack([(phase * lines + dy // sy) * pitch + dx // sx, rows[:, 2]], 1)
    place = Place(
        y0=int(first[0]), x0=int(first[1]), rows=lines, pitch=pitch, step_y=sy, step_x=sx, phases_y=phases_y, phases_x=phases_x
    )  # fmt: skip
    return np.ascontiguousarray(table), place


def mode_of(array: np.ndarray, step: int) -> str:
    """Name of the distance in memory of elements ``step`` columns apart: ``"row"`` side by side, ``"pair"`` every second, ``"any"``."""
    stride = array.strides[-1] // array.itemsize
    return "row" if stride * step == 1 else "pair" if stride == 1 and step == 2 else "any"


def store_mode(out: np.ndarray) -> str:
    """The same of a result: how its neighbouring pixels lie."""
    return {1: "row", 2: "pair"}.get(out.strides[-1] // out.itemsize, "any") if out.shape[-1] > 1 else "row"


def store_strides(out: np.ndarray, mode: str) -> Strides:
    """The strides of a result by its mode: neighbours are side by side in a "row", also where rows of one pixel say otherwise."""
    to = strides_of_images(out)
    return to.replace(x=1) if mode == "row" else to
