"""Images whose channels are innermost in memory: turned round for the matrix products, and depthwise convolutions as they are."""

from __future__ import annotations

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
                k.when(c + i < columns, lambda i=i: k.store(lines[i], target, r + i * column_pitch, kind, down))

        k.loop(0, rows, square, step=lanes)

    k.for_chunks(chunk)


def transposed(k: Builder, lines: list[Value]) -> list[Value]:
    """Rows and columns exchanged: halves of ever smaller blocks change places."""
    lanes, half = len(lines), len(lines) // 2
    while half:
        low = [i if i & half == 0 else i - half + lanes for i in range(lanes)]
        high = [i + half if i & half == 0 else i + lanes for i in range(lanes)]
        made = list(lines)
        for i in range(lanes):
            if i & half == 0:
                a, b = lines[i], lines[i + half]
                made[i], made[i + half] = k.shuffle(a, low, b), k.shuffle(a, high, b)
        lines, half = made, half // 2
    return lines


@kernel
def each_pixel(k: Builder, kind: str) -> None:
    """Depthwise convolution, channels in the lanes; a chunk is some rows of the result."""
    lanes = k.lanes(kind)
    x, out, weight, bias, table, taps = *(k.array() for _ in range(5)), k.integer()
    channels, lines, per_chunk, height, width, out_height, out_width, step_y, step_x = (k.integer() for _ in range(9))
    from_n, from_y, from_x, to_n, to_y, to_x = (k.integer() for _ in range(6))

    def chunk(index: Value) -> None:
        def line(which: Value) -> None:
            n, oy = which // out_height, which % out_height
            source, target = k.at(x, n * from_n, kind), k.at(out, n * to_n + oy * to_y, kind)

            def pixel(ox: Value) -> None:
                def several(wide: int, mask: Value | None) -> object:
                    def channel(c: Value) -> None:
                        def tap(t: Value, *total: Value) -> list[Value]:
                            iy = oy * step_y + k.load(table, t * 3, "i64")
                            ix = ox * step_x + k.load(table, t * 3 + 1, "i64")
                            seen = (iy >= 0) & (iy < height) & (ix >= 0) & (ix < width)

                            def add() -> list[Value]:
                                values = k.at(source, iy * from_y + ix * from_x + c, kind)
                                factors = k.at(weight, t * channels + c, kind)
                                return [
                                    k.fma(k.load(values, u * lanes, kind, lanes, mask), k.load(factors, u * lanes, kind, lanes, mask), s)
                                    for u, s in enumerate(total)
                                ]

                            made = k.when(seen, add, lambda: list(total))
                            return list(made) if wide > 1 else [made]

                        start = [k.load(bias, c + u * lanes, kind, lanes, mask) for u in range(wide)]
                        total = k.loop(0, taps, tap, carried=start)
                        for u, value in enumerate(total if wide > 1 else [total]):
                            k.store(value, target, ox * to_x + c + u * lanes, kind, mask)

                    return channel

                main = channels // (8 * lanes) * (8 * lanes)
                k.loop(0, main, several(8, None), step=8 * lanes)
                k.loop(main, channels // (2 * lanes) * (2 * lanes), several(2, None), step=2 * lanes)
                main = channels // (2 * lanes) * (2 * lanes)
                k.loop(main, channels, lambda c: several(1, k.mask_below(c, channels, lanes))(c), step=lanes)

            k.loop(0, out_width, pixel)

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

        def tap(t: Value) -> None:
            dy, dx = k.load(table, t * 3, "i64"), k.load(table, t * 3 + 1, "i64")
            (y0, y1), (x0, x1) = within(dy, step_y, height, out_height), within(dx, step_x, width, out_width)

            def image(n: Value, *total: Value) -> list[Value]:
                def line(y: Value, *total: Value) -> list[Value]:
                    seen = k.at(x, n * from_n + (y * step_y + dy) * from_y + dx * from_x + c, kind)
                    other = k.at(grad, n * grad_n + y * grad_y + c, kind)

                    def pixel(i: Value, total: Value) -> Value:
                        a, b = k.load(seen, i * step_x * from_x, kind, lanes, mask), k.load(other, i * grad_x, kind, lanes, mask)
                        return k.fma(a, b, total)

                    main = x0 + k.most(x1 - x0, 0) // 4 * 4
                    total = k.loop(x0, main, lambda i, *s: [pixel(i + u, v) for u, v in enumerate(s)], step=4, carried=total)
                    return [k.loop(main, x1, pixel, carried=[total[0]]), *total[1:]]

                return k.loop(y0, y1, line, carried=total)

            total = k.loop(first, k.least(first + per_chunk, images), image, carried=[zero] * 4)
            whole = (total[0] + total[1]) + (total[2] + total[3])
            k.store(whole, out, ((index // groups) * taps + t) * channels + c, kind, mask)

        k.loop(0, taps, tap)

    k.for_chunks(chunk)


# -- calls ----------------------------------------------------------------------------------------------------------------------------
def to_planes(x: np.ndarray) -> np.ndarray:
    """A row-major copy of images whose channels are innermost."""
    n, channels, height, width = x.shape
    made = empty(x.shape, x.dtype)
    _turn(x, made, n, height * width, channels)
    return made


def from_planes(x: np.ndarray, out: np.ndarray) -> None:
    """Copy row-major images to ones whose channels are innermost."""
    n, channels, height, width = x.shape
    _turn(x, out, n, channels, height * width)


def _turn(x: np.ndarray, out: np.ndarray, n: int, rows: int, columns: int) -> None:
    lanes = targets.current().width // x.itemsize
    size = rows * columns
    turn(KINDS[x.dtype])(n * -(-columns // lanes), id(x), id(out), rows, columns, columns, rows, size, size)


def convolve(x: np.ndarray, weight: np.ndarray, taps: np.ndarray, step: tuple[int, int], out: np.ndarray, bias: np.ndarray) -> None:
    """Each channel of ``x`` with its window; ``weight`` is ``(tap, channel)``, the channels of ``x`` and ``out`` are innermost."""
    n, channels, height, width = out.shape
    per_chunk = max(1, CHUNK // (channels * width))
    (xn, _, xy, xx), (on, _, oy, ox) = strides_of(x), strides_of(out)
    each_pixel(KINDS[x.dtype])(
        -(-n * height // per_chunk), id(x), id(out), id(weight), id(bias), id(taps), len(taps), channels, n * height, per_chunk,
        *x.shape[2:], height, width, *step, xn, xy, xx, on, oy, ox,
    )  # fmt: skip


def correlate_pair(x: np.ndarray, grad: np.ndarray, taps: np.ndarray, step: tuple[int, int]) -> np.ndarray:
    """The weight gradient ``(channel, tap)`` of a depthwise convolution."""
    n, channels, height, width = grad.shape
    lanes = targets.current().width // x.itemsize
    groups = -(-channels // lanes)
    per_chunk = -(-n // max(1, min(n, 32 // groups)))
    parts = -(-n // per_chunk)
    made = empty((parts, len(taps), channels), x.dtype)
    (xn, _, xy, xx), (gn, _, gy, gx) = strides_of(x), strides_of(grad)
    pixel_products(KINDS[x.dtype])(
        parts * groups, id(x), id(grad), id(made), id(taps), len(taps), channels, n, per_chunk,
        *x.shape[2:], height, width, *step, xn, xy, xx, gn, gy, gx,
    )  # fmt: skip
    return np.ascontiguousarray((made[0] if parts == 1 else made.sum(0)).T)
