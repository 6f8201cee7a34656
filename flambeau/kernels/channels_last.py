"""Images whose channels are innermost in memory: turned round for the matrix products, and depthwise convolutions as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from . import target as targets
from .build import kernel
from .language import KINDS, Builder, Value
from .memory import empty
from .microkernel import strides_of

CHUNK = 16384  # elements of a chunk, about


@kernel
def turn(k: Builder, kind: str) -> None:
    """``(n, rows, columns)`` to ``(n, columns, rows)``, in squares of as many elements as a register has; a chunk is a strip of columns."""
    lanes = k.lanes(kind)
    x, out, rows, columns, row_pitch, column_pitch, by_image, to_image = k.array(), k.array(), *(k.integer() for _ in range(6))
    strips = (columns + (lanes - 1)) // lanes

    def chunk(index: Value) -> None:
        n, c = index // strips, (index % strips) * lanes
        source, target = k.at(x, n * by_image + c, kind), k.at(out, n * to_image + c * column_pitch, kind)
        across = k.mask_below(c, columns, lanes)

        def square(r: Value) -> None:
            down = k.mask_below(r, rows, lanes)
            last = rows - 1
            lines = [k.load(source, k.least(r + i, last) * row_pitch, kind, lanes, across) for i in range(lanes)]
            for i, line in enumerate(transposed(k, lines)):
                # lines behind the last column are written to the last one, before it
                lines[i] = line
            for i in reversed(range(lanes)):
                k.when(c + i < columns, partial(k.store, lines[i], target, r + i * column_pitch, kind, down))

        k.loop(0, rows, square, step=lanes)

    k.for_chunks(chunk)


def transposed(k: Builder, lines: list[Value]) -> list[Value]:
    """Rows and columns exchanged: opmath of ever smaller blocks change places."""
    lanes, half = len(lines), len(lines) // 2
    while half:
        low = [i if i & half == 0 else i - half + lanes for i in range(lanes)]
        high = [i + half if i & half == 0 else i + lanes for i in range(lanes)]
        exchanged = list(lines)
        for i in range(lanes):
            if i & half == 0:
                a, b = lines[i], lines[i + half]
                exchanged[i], exchanged[i + half] = k.shuffle(a, low, b), k.shuffle(a, high, b)
        lines, half = exchanged, half // 2
    return lines


@kernel
def each_pixel(k: Builder, kind: str) -> None:
    """Depthwise convolution, channels in the lanes; a chunk is some rows of the result.

    Pixels ``first`` to ``last`` of a row see no columns outside of the image.
    """
    lanes = k.lanes(kind)
    x, out, weight, bias, table, taps = *(k.array() for _ in range(5)), k.integer()
    channels, lines, per_chunk, height, width, out_height, out_width, step_y, step_x = (k.integer() for _ in range(9))
    from_n, from_y, from_x, to_n, to_y, to_x, first, last = (k.integer() for _ in range(8))

    def chunk(index: Value) -> None:
        def line(which: Value) -> None:
            n, oy = which // out_height, which % out_height
            source, target = k.at(x, n * from_n, kind), k.at(out, n * to_n + oy * to_y, kind)

            def block(ox: Value, c: Value, pixels: int, wide: int, mask: Value | None) -> None:
                """``pixels`` pixels by ``wide`` registers; several pixels only where all taps lie within their row."""

                def tap(t: Value, *total: Value) -> list[Value]:
                    iy = oy * step_y + k.load(table, t * 3, "i64")
                    ix = ox * step_x + k.load(table, t * 3 + 1, "i64")
                    seen = (iy >= 0) & (iy < height)
                    if pixels == 1:
                        seen = seen & (ix >= 0) & (ix < width)

                    def add() -> list[Value]:
                        factors = k.at(weight, t * channels + c, kind)
                        factor = [k.load(factors, u * lanes, kind, lanes, mask) for u in range(wide)]
                        sums = []
                        for i in range(pixels):
                            values = k.at(source, iy * from_y + (ix + step_x * i) * from_x + c, kind)
                            for u in range(wide):
                                sums.append(k.fma(k.load(values, u * lanes, kind, lanes, mask), factor[u], total[i * wide + u]))
                        return sums

                    sums = k.when(seen, add, lambda: list(total))
                    return list(sums) if pixels * wide > 1 else [sums]

                start = [k.load(bias, c + u * lanes, kind, lanes, mask) for u in range(wide)] * pixels
                total = k.loop(0, taps, tap, carried=start)
                for i, value in enumerate(total if pixels * wide > 1 else [total]):
                    k.store(value, target, (ox + i // wide) * to_x + c + i % wide * lanes, kind, mask)

            def pixels(count: int) -> Any:
                wide = min(4, (k.target.registers - 2) // (count + 1))

                def run(ox: Value) -> None:
                    main = channels // (wide * lanes) * (wide * lanes)
                    k.loop(0, main, lambda c: block(ox, c, count, wide, None), step=wide * lanes)
                    k.loop(main, channels, lambda c: block(ox, c, count, 1, k.mask_below(c, channels, lanes)), step=lanes)

                return run

            left = k.least(first, out_width)
            middle = left + k.most(last - left, 0) // 4 * 4
            k.loop(0, left, pixels(1))
            k.loop(left, middle, pixels(4), step=4)
            k.loop(middle, out_width, pixels(1))

        k.loop(index * per_chunk, k.least((index + 1) * per_chunk, lines), line)

    k.for_chunks(chunk)


@kernel
def pixel_products(k: Builder, kind: str) -> None:
    """The weight gradient of a depthwise convolution, channels in the lanes; a chunk is a register of channels and a range of images."""
    lanes = k.lanes(kind)
    x, grad, out, table, taps = *(k.array() for _ in range(4)), k.integer()
    channels, images, per_chunk, height, width, out_height, out_width, step_y, step_x = (k.integer() for _ in range(9))
    from_n, from_y, from_x, grad_n, grad_y, grad_x = (k.integer() for _ in range(6))
    groups = (channels + (lanes - 1)) // lanes
    zero = k.const(0, kind, lanes)

    def within(offset: Value, step: Value, size: Value, count: Value) -> tuple[Value, Value]:
        """The first and last (excluded) of ``count`` places ``i`` with ``0 <= i * step + offset < size``."""
        return (k.most(-offset, 0) + step - 1) // step, k.least(count, (k.most(size - offset, 0) + step - 1) // step)

    def chunk(index: Value) -> None:
        c, first = (index % groups) * lanes, (index // groups) * per_chunk
        mask = k.mask_below(c, channels, lanes)

        mine = k.at(out, (index // groups) * taps * channels + c, kind)
        k.loop(0, taps, lambda t: k.store(zero, mine, t * channels, kind, mask))

        def image(n: Value) -> None:
            def line(y: Value) -> None:
                other = k.at(grad, n * grad_n + y * grad_y + c, kind)

                def together(t: Value, count: int) -> None:
                    """Sums of ``count`` taps; for the pixels that all of them see the gradient is read once."""
                    seen: list[Value] = []
                    low: list[Value] = []
                    high: list[Value] = []
                    for i in range(count):
                        iy, dx = y * step_y + k.load(table, (t + i) * 3, "i64"), k.load(table, (t + i) * 3 + 1, "i64")
                        x0, x1 = within(dx, step_x, k.select((iy >= 0) & (iy < height), width, 0), out_width)
                        seen.append(k.at(x, n * from_n + iy * from_y + dx * from_x + c, kind))
                        low, high = [*low, x0], [*high, x1]
                    left, right = reduce(k.most, low), reduce(k.least, high)
                    right = left + k.most(right - left, 0) // 2 * 2

                    def add(which: int, ox: Value, value: Value, total: Value) -> Value:
                        return k.fma(k.load(seen[which], ox * step_x * from_x, kind, lanes, mask), value, total)

                    def at(ox: Value) -> Value:
                        return k.load(other, ox * grad_x, kind, lanes, mask)

                    def two(ox: Value, *total: Value) -> list[Value]:
                        values = [at(ox), at(ox + 1)]
                        return [add(i // 2, ox + i % 2, values[i % 2], s) for i, s in enumerate(total)]

                    total = k.loop(left, right, two, step=2, carried=[zero] * (2 * count))
                    for i in range(count):

                        def one(ox: Value, s: Value, i: int = i) -> Value:
                            return add(i, ox, at(ox), s)

                        start = k.loop(low[i], k.least(high[i], left), one, carried=[k.load(mine, (t + i) * channels, kind, lanes, mask)])
                        rest = k.loop(k.most(low[i], right), high[i], one, carried=[start])
                        k.store(rest + (total[2 * i] + total[2 * i + 1]), mine, (t + i) * channels, kind, mask)

                k.loop(0, taps - taps % 3, lambda t: together(t, 3), step=3)
                k.loop(taps - taps % 3, taps, lambda t: together(t, 1))

            k.loop(0, out_height, line)

        k.loop(first, k.least(first + per_chunk, images), image)

    k.for_chunks(chunk)


# -- calls ----------------------------------------------------------------------------------------------------------------------------
def to_planes(x: np.ndarray) -> np.ndarray:
    """A row-major copy of images whose channels are innermost."""
    n, channels, height, width = x.shape
    result = empty(x.shape, x.dtype)
    _turn(x, result, n, height * width, channels)
    return result


def from_planes(x: np.ndarray, out: np.ndarray) -> None:
    """Copy row-major images to ones whose channels are innermost."""
    n, channels, height, width = x.shape
    _turn(x, out, n, channels, height * width)


def _turn(x: np.ndarray, out: np.ndarray, n: int, rows: int, columns: int) -> None:
    lanes = targets.current().width // x.itemsize
    size = rows * columns
    turn(KINDS[x.dtype])(n * -(-columns // lanes), id(x), id(out), rows, columns, columns, rows, size, size)


def convolution(x: np.ndarray, weight: np.ndarray, taps: np.ndarray, step: tuple[int, int], out: np.ndarray) -> Callable[..., None]:
    """What convolves each channel of ``x`` with its window: a function of (x, weight, out, bias).

    Channels of ``x`` and ``out`` are innermost; ``taps`` has rows ``(dy, dx, place of the weight)``.
    """
    n, channels, height, width = out.shape
    per_chunk = max(1, CHUNK // (channels * width))
    (xn, _, xy, xx), (on, _, oy, ox) = strides_of(x), strides_of(out)
    columns = taps[:, 1].tolist() or [0]
    first, last = max(0, -(min(columns) // step[1])), min(width, (x.shape[3] - 1 - max(columns)) // step[1] + 1)
    call = each_pixel(KINDS[x.dtype]).call(
        -(-n * height // per_chunk), taps, len(taps), channels, n * height, per_chunk,
        *x.shape[2:], height, width, *step, xn, xy, xx, on, oy, ox, first, last,
    )  # fmt: skip
    by = strides_of(weight)
    places = [(i * by[2] + j * by[3]) for i in range(weight.shape[2]) for j in range(weight.shape[3])]
    order = [places.index(place) for place in taps[:, 2].tolist()]

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        by_tap = np.ascontiguousarray(weight.reshape(channels, -1).T[order])
        call(x, out, by_tap, bias)

    return run


def weight_gradient(x: np.ndarray, grad: np.ndarray, taps: np.ndarray, step: tuple[int, int]) -> Callable[..., np.ndarray]:
    """What makes the weight gradient ``(channel, tap)`` of a depthwise convolution: a function of (x, grad)."""
    n, channels, height, width = grad.shape
    dtype = x.dtype
    lanes = targets.current().width // x.itemsize
    groups = -(-channels // lanes)
    per_chunk = -(-n // max(1, min(n, 32 // groups)))
    parts = -(-n // per_chunk)
    shape = (parts, len(taps), channels)
    (xn, _, xy, xx), (gn, _, gy, gx) = strides_of(x), strides_of(grad)
    call = pixel_products(KINDS[dtype]).call(
        parts * groups, taps, len(taps), channels, n, per_chunk,
        *x.shape[2:], height, width, *step, xn, xy, xx, gn, gy, gx,
    )  # fmt: skip

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        sums = empty(shape, dtype)
        call(x, grad, sums)
        return np.ascontiguousarray((sums[0] if parts == 1 else sums.sum(0)).T)

    return run
