"""Matrix products out of registers, and the windows of images packed for them: what the convolution kernels are made of.

A *panel* holds what some neighbouring output pixels see of the input: one row for each place in the window and channel, the pixels
side by side, so that a vector register holds one row's values for as many pixels as it has lanes.

    panel           row (tap, channel):   pixel 0, 1, 2, ... width - 1        zeros where a window hangs over the edge

Where a window's places (*taps*) lie is data: a table of offsets ``dy, dx``, so that dilation, padding and the flipped, thinned-out
windows of a gradient all are the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from .language import Builder, Value
from .memory import empty
from .pool import pool
from .target import Target


@dataclass(slots=True)
class Images:
    """What a kernel knows of the images that windows slide over: all are i64 Values, strides in elements.

    Attributes:
        data: pointer to the first element of the channels concerned.
        n, c, y, x: strides.
        height, width: sizes.
        step_y, step_x: strides of the convolution.
        out_height, out_width: how many windows there are.
        taps, count: the table ``(dy, dx, anything)``, and how many rows it has.
        images: how many there are.
        group: pixels are in the order (group of so many images, row, image in the group, column): where images are small, the pixels of a
            panel then have a row in common, and taps that meet no row of the image can be left out.
    """

    data: Value
    n: Value
    c: Value
    y: Value
    x: Value
    height: Value
    width: Value
    step_y: Value
    step_x: Value
    out_height: Value
    out_width: Value
    taps: Value
    count: Value
    images: Value
    group: Value

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


def tile_width(target: Target, rows: int) -> int:
    """How many vectors wide a tile of ``rows`` rows may be, so that accumulators, one row of the panel and a factor fit the registers."""
    return max(1, (target.registers - 2) // (rows + 1))


def runs(k: Builder, first: Value, stop: Value, size: Value, body: Callable[[Value, Value, Value], None]) -> None:
    """Cut pixels ``first`` to ``stop`` at the multiples of ``size``: ``body(which multiple, start, end)``."""

    def one(r: Value) -> None:
        body(r, k.most(first, r * size), k.least(stop, (r + 1) * size))

    k.loop(first // size, (stop + size - 1) // size, one)


def between(k: Builder, low: Value, high: Value, lanes: int) -> Value:
    """Which lanes lie in ``low`` (included) to ``high``."""
    idx = k.indices(lanes, "i32")
    return (idx >= k.splat(k.cast(low, "i32"), lanes)) & (idx < k.splat(k.cast(high, "i32"), lanes))


def pack(
    k: Builder,
    kind: str,
    mode: str,
    im: Images,
    panel: Value,
    width: Value | int,
    first: Value,
    stop: Value,
    c0: Value,
    channels: Value,
    taps: tuple[Value | int, Value],
) -> None:
    """Fill a panel, rows ``width`` apart, with what pixels ``first`` to ``stop`` see of ``channels`` channels from ``c0`` on.

    Rows are in the order (tap, channel); only those of the range ``taps`` are written.  ``mode`` says how the input's elements for
    neighbouring pixels lie: ``"row"`` side by side, ``"pair"`` every second of a row, ``"any"`` apart.
    """
    lanes = k.lanes(kind)

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
            source = k.at(im.data, base + iy * im.y + ix * im.x, kind)
            target = k.at(panel, t * channels * width + place, kind)

            def some(v: Value) -> None:
                left = length - v
                keep = k.mask_below(v, length, lanes)
                if mode == "row":
                    seen = between(k, -(ix + v), k.least(left, limit - v), lanes)

                    def fetch(channel: Value) -> Value:
                        return k.load(channel, v, kind, lanes, seen)

                elif mode == "pair":
                    at = v * 2
                    low, high = -(ix + at), k.least(left * 2, limit - at)
                    opmath = [between(k, low - h * lanes, high - h * lanes, lanes) for h in range(2)]

                    def fetch(channel: Value) -> Value:
                        a, b = (k.load(channel, at + h * lanes, kind, lanes, opmath[h]) for h in range(2))
                        return k.shuffle(a, range(0, 2 * lanes, 2), b)

                else:
                    where = (k.splat(v, lanes) + k.indices(lanes)) * im.step_x
                    seen = keep & (where + ix >= 0) & (where < limit)
                    where = where * im.x

                    def fetch(channel: Value) -> Value:
                        return k.gather(channel, where, kind, seen)

                def step(_: Value, channel: Value, to: Value) -> tuple[Value, Value]:
                    k.blend(fetch(channel), to, v, kind, keep)
                    return k.at(channel, im.c, kind), k.at(to, width, kind)

                def two(c: Value, channel: Value, to: Value) -> tuple[Value, Value]:
                    return step(c, *step(c, channel, to))

                even = channels - (channels & 1)
                reached = k.loop(0, even, two, step=2, carried=[source, target])
                k.loop(even, channels, step, carried=reached)

            k.loop(0, length, some, step=lanes)

        k.loop(*taps, tap)

    runs(k, first, stop, im.out_width, run)


def fill_plane(
    k: Builder,
    kind: str,
    mode: str,
    plane: Value,
    source: Value,
    strides: tuple[Value, Value],
    sizes: tuple[Value, Value],
    place: Any,
    lines: Value | None = None,
) -> None:
    """Copy a plane with zeros around it.

    ``place`` has Values: the first row and column that are seen, ``rows`` and ``pitch`` of the copy, the steps, and how many of the
    planes that the steps make are wanted in each direction.  Those planes are ``lines`` rows apart if not ``rows``.
    """
    lanes = k.lanes(kind)
    (by_y, by_x), (height, width) = strides, sizes
    y0, x0, rows, pitch, step_y, step_x, phases_y, phases_x = place

    lines = rows if lines is None else lines

    def read(line: Value, ix: Value, limit: Value) -> Value:
        return k.load(line, ix, kind, lanes, between(k, -ix, limit - ix, lanes))

    def row_of(iy: Value) -> tuple[Value, Value]:
        """Where a row begins, and how long it is: 0 outside of the image."""
        return k.at(source, iy * by_y, kind), k.select((iy >= 0) & (iy < height), width, 0)

    def pair_of_phases(fy: Value) -> None:
        """With a step of 2: a row's even columns to one plane, its odd ones to the next, if that is wanted."""
        even = k.at(plane, fy * phases_x * lines * pitch, kind)
        odd, two = k.at(even, lines * pitch, kind), phases_x > 1

        def row(j: Value) -> None:
            line, limit = row_of(j * step_y + fy + y0)
            inside = (j < lines) | (phases_x < 2)  # rows behind the first plane would lie in the second one

            def some(v: Value) -> None:
                a, b = (read(line, v * 2 + x0 + h, limit) for h in (0, lanes))
                keep = k.mask_below(v, pitch, lanes)
                for wanted, to, first in ((inside, even, 0), (two, odd, 1)):
                    value = k.shuffle(a, range(first, 2 * lanes, 2), b)
                    k.when(wanted, partial(k.blend, value, to, j * pitch + v, kind, keep))

            k.loop(0, pitch, some, step=lanes)

        k.loop(0, rows, row)

    def phase(f: Value) -> None:
        fy, fx = f // phases_x, f % phases_x
        to = k.at(plane, f * lines * pitch, kind)

        def row(j: Value) -> None:
            line, limit = row_of(j * step_y + fy + y0)

            def some(v: Value) -> None:
                ix = v * step_x + fx + x0
                if mode == "row":
                    value = read(line, ix, limit)
                else:
                    at = k.indices(lanes) * step_x + ix
                    value = k.gather(line, at * by_x, kind, (at >= 0) & (at < limit))
                k.store(value, to, j * pitch + v, kind)  # what it writes beyond the row is written again by the next one

            k.loop(0, pitch, some, step=lanes)

        k.loop(0, rows, row)

    if mode == "pair":
        k.loop(0, phases_y, pair_of_phases)
    else:
        k.loop(0, phases_y * phases_x, phase)


def product(
    k: Builder,
    kind: str,
    rows: int,
    vectors: int,
    factors: Value,
    taps: tuple[Value | int, Value | int],
    line_of: Callable[[Value], Value],
    channels: Value,
    pitch: Value | int,
) -> list[list[Value]]:
    """``factors`` (tap, channel, rows) transposed times lines of pixels, as ``rows`` by ``vectors`` registers.

    The line of a tap's first channel is at ``line_of(tap)``, those of the following ones ``pitch`` apart.
    """
    lanes = k.lanes(kind)
    zero = k.const(0, kind, lanes)

    def tap(t: Value, *total: Value) -> list[Value]:
        lines, mine = line_of(t), k.at(factors, t * channels * rows, kind)

        def channel(c: Value, *total: Value) -> list[Value]:
            line = [k.load(lines, c * pitch + v * lanes, kind, lanes) for v in range(vectors)]
            sums = []
            for r in range(rows):
                factor = k.splat(k.load(mine, c * rows + r, kind), lanes)
                sums += [k.fma(factor, line[v], total[r * vectors + v]) for v in range(vectors)]
            return sums

        return k.loop(0, channels, channel, carried=total)

    total = k.loop(*taps, tap, carried=[zero] * (rows * vectors))
    return [list(total[r * vectors : (r + 1) * vectors]) for r in range(rows)]


def inner_products(k: Builder, kind: str, a: list[Value], b: list[Value], length: Value) -> list[Value]:
    """Sums over ``length`` neighbours of the products of each line of ``a`` with each line of ``b``: registers full of sums.

    The sum of lines i and j is in lane ``i * len(b) + j``, counted on through the registers.  ``length`` is a multiple of the lanes.
    """
    lanes, columns = k.lanes(kind), len(b)

    def step(at: Value, *total: Value) -> list[Value]:
        first = [k.load(line, at, kind, lanes) for line in a]
        sums = list(total)
        for j, line in enumerate(b):
            value = k.load(line, at, kind, lanes)
            for i in range(len(a)):
                sums[i * columns + j] = k.fma(first[i], value, total[i * columns + j])
        return sums

    zero = k.const(0, kind, lanes)
    total = list(k.loop(0, length, step, step=lanes, carried=[zero] * (len(a) * columns)))
    return [lane_sums(k, total[i : i + lanes]) for i in range(0, len(total), lanes)]


def lane_sums(k: Builder, values: list[Value]) -> Value:
    """One register whose lane i is the sum of ``values[i]``'s lanes; at most as many values as lanes, the rest is zero."""
    lanes = values[0].lanes
    values = values + [k.const(0, values[0].kind, lanes)] * (lanes - len(values))
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
    """Scratch memory of ``size`` elements for each thread; ``take`` gives the flags for ``borrow`` and the memory, for one call."""

    __slots__ = ("dtype", "shape")

    def __init__(self, size: int, dtype: np.dtype):
        self.shape, self.dtype = (pool.threads, size), dtype

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(8 * self.shape[0], np.int64), empty(self.shape, self.dtype)


def strides_of(array: np.ndarray) -> list[int]:
    """Strides in elements."""
    size = array.itemsize
    return [stride // size for stride in array.strides]


def copy_line(
    k: Builder,
    kind: str,
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
    lanes = k.lanes(kind)
    if mode == "row":

        def some(i: Value, mask: Value | None = None, lanes: int = lanes) -> None:
            k.store(change(k.load(line, i, kind, lanes, mask), lambda: k.load(at, i, kind, lanes, mask)), at, i, kind, mask)

        if k.target.has_masks:
            k.vector_loop(0, length, lanes, some)
        else:  # see ``Builder.blend``
            main = length & -lanes
            k.loop(0, main, some, step=lanes)
            k.loop(main, length, lambda i: some(i, None, 1))
    elif mode == "pair":  # each register becomes two, in which every second lane is stored; what lies between is nobody's meanwhile
        every_second = k.mask_below(k.const(0, "i64"), k.const(lanes, "i64"), lanes) & (k.indices(lanes, "i32") & 1).eq(0)

        def two(i: Value) -> None:
            value = k.load(line, i, kind, lanes)
            for half in range(2):
                place = i * 2 + half * lanes
                wide = k.shuffle(value, [half * lanes // 2 + lane // 2 for lane in range(lanes)])
                k.blend(change(wide, partial(k.load, at, place, kind, lanes)), at, place, kind, every_second)

        # the last element's neighbour may lie behind the array
        main = k.most(length - 1, 0) // lanes * lanes
        k.loop(0, main, two, step=lanes)
        k.loop(main, length, lambda i: k.store(change(k.load(line, i, kind), lambda: k.load(at, i * 2, kind)), at, i * 2, kind))
    else:
        k.loop(0, length, lambda i: k.store(change(k.load(line, i, kind), lambda: k.load(at, i * step, kind)), at, i * step, kind))


@lru_cache(maxsize=1024)
def plane_layout(taps: bytes, step: tuple[int, int], height: int, width: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Of taps ``(dy, dx, place of the weight)`` seen by ``height`` by ``width`` pixels: the table (offset, place of the weight), and the
    ``place`` of ``fill_plane``."""
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
    return np.ascontiguousarray(table), (int(first[0]), int(first[1]), lines, pitch, sy, sx, phases_y, phases_x)


def mode_of(array: np.ndarray, step: int) -> str:
    """How elements ``step`` columns apart lie in memory: ``"row"`` side by side, ``"pair"`` every second, ``"any"``."""
    stride = array.strides[3] // array.itemsize
    return "row" if stride * step == 1 else "pair" if stride == 1 and step == 2 else "any"


def store_mode(out: np.ndarray) -> str:
    """The same of a result: how its neighbouring pixels lie."""
    return {1: "row", 2: "pair"}.get(out.strides[3] // out.itemsize, "any") if out.shape[3] > 1 else "row"
