"""Images whose channels are innermost in memory: turned round for the matrix products, and depthwise convolutions as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value, as_tuple
from ..compiler.memory import empty
from .microkernel import Images, Strides, images_of, strides_of, strides_of_images
from .tiles import transposed

CHUNK = 16384  # elements of a chunk, about


@kernel
def turn(k: Builder, element: str) -> None:
    """``(n, rows, columns)`` to ``(n, columns, rows)``, in squares of as many elements as a register has; a chunk is a strip of columns."""
    x, out, rows, columns = k.array(), k.array(), k.integer(), k.integer()
    lanes = k.lanes(element)
    strips, size = (columns + (lanes - 1)) // lanes, rows * columns

    def chunk(index: Value) -> None:
        n, c = index // strips, (index % strips) * lanes
        source, target = k.at(x, n * size + c, element), k.at(out, n * size + c * rows, element)
        across = k.mask_below(c, columns, lanes)

        def square(r: Value) -> None:
            down = k.mask_below(r, rows, lanes)
            last = rows - 1
            lines = transposed(k, [k.load(source, k.least(r + i, last) * columns, element, lanes, across) for i in range(lanes)])
            for i in reversed(range(lanes)):
                k.when(c + i < columns, partial(k.store, lines[i], target, r + i * rows, element, down))

        k.loop(0, rows, square, step=lanes)

    k.for_chunks(chunk)


# -- forward and input gradient -----------------------------------------------------------------------------------------------------
class PixelArguments(Record):
    x: Array
    out: Array
    weight: Array  # (tap, channel)
    bias: Array
    images: Images
    result: Strides
    channels: Integer
    lines: Integer  # rows of all results
    per_chunk: Integer
    first: Integer  # pixels of a row from ``first`` to ``last`` see no columns outside of the image
    last: Integer


@kernel
def each_pixel(k: Builder, element: str) -> None:
    """Depthwise convolution, channels in the lanes; a chunk is some rows of the result."""
    a = k.arguments(PixelArguments)

    def line(which: Value) -> None:
        n, oy = which // a.images.out_height, which % a.images.out_height
        row = _Row(k, element, a, oy, k.at(a.x, n * a.images.n, element), k.at(a.out, n * a.result.n + oy * a.result.y, element))
        left = k.least(a.first, a.images.out_width)
        middle = left + k.most(a.last - left, 0) // 4 * 4
        k.loop(0, left, partial(row.pixels, 1))
        k.loop(left, middle, partial(row.pixels, 4), step=4)
        k.loop(middle, a.images.out_width, partial(row.pixels, 1))

    k.for_chunks(lambda index: k.loop(index * a.per_chunk, k.least((index + 1) * a.per_chunk, a.lines), line))


@dataclass(frozen=True, slots=True)
class _Row:
    """Row ``oy`` of a result: the image at ``source``, and the row's place."""

    k: Builder
    element: str
    a: PixelArguments
    oy: Value
    source: Value
    target: Value

    def pixels(self, count: int, ox: Value) -> None:
        """All channels of ``count`` pixels from ``ox`` on; of several only where all taps lie within their row."""
        k, channels, lanes = self.k, self.a.channels, self.k.lanes(self.element)
        wide = min(4, (k.target.registers - 2) // (count + 1))
        main = channels // (wide * lanes) * (wide * lanes)
        k.loop(0, main, lambda c: self.block((ox, c), count, wide, None), step=wide * lanes)
        k.loop(main, channels, lambda c: self.block((ox, c), count, 1, k.mask_below(c, channels, lanes)), step=lanes)

    def block(self, first: tuple[Value, Value], pixels: int, wide: int, mask: Value | None) -> None:
        """``pixels`` pixels by ``wide`` registers of channels, from ``first`` on."""
        k, element, a, lanes = self.k, self.element, self.a, self.k.lanes(self.element)
        ox, c = first

        def tap(t: Value, *total: Value) -> Any:
            iy = self.oy * a.images.step_y + k.load(a.images.taps, t * 3, "i64")
            ix = ox * a.images.step_x + k.load(a.images.taps, t * 3 + 1, "i64")
            seen = (iy >= 0) & (iy < a.images.height)
            if pixels == 1:
                seen = seen & (ix >= 0) & (ix < a.images.width)
            return k.when(seen, lambda: self.added(t, (iy, ix, c), total, wide, mask), lambda: total)

        start = [k.load(a.bias, c + u * lanes, element, lanes, mask) for u in range(wide)] * pixels
        for i, value in enumerate(as_tuple(k.loop(0, a.images.count, tap, carried=start))):
            k.store(value, self.target, (ox + i // wide) * a.result.x + c + i % wide * lanes, element, mask)

    def added(self, t: Value, seen: tuple[Value, Value, Value], total: tuple[Value, ...], wide: int, mask: Value | None) -> list[Value]:
        """``total`` and what a tap sees, times its factors."""
        k, element, a, lanes = self.k, self.element, self.a, self.k.lanes(self.element)
        iy, ix, c = seen
        factors = k.at(a.weight, t * a.channels + c, element)
        factor = [k.load(factors, u * lanes, element, lanes, mask) for u in range(wide)]
        sums = []
        for i in range(len(total) // wide):
            values = k.at(self.source, iy * a.images.y + (ix + a.images.step_x * i) * a.images.x + c, element)
            for u in range(wide):
                sums.append(k.fma(k.load(values, u * lanes, element, lanes, mask), factor[u], total[i * wide + u]))
        return sums


# -- weight gradient ------------------------------------------------------------------------------------------------------------------
class PixelProductArguments(Record):
    x: Array
    grad: Array
    out: Array  # (range of images, tap, channel)
    images: Images
    grads: Strides
    channels: Integer
    per_chunk: Integer


@kernel
def pixel_products(k: Builder, element: str) -> None:
    """The weight gradient of a depthwise convolution, channels in the lanes; a chunk is a register of channels and a range of images."""
    lanes = k.lanes(element)
    a = k.arguments(PixelProductArguments)
    groups = (a.channels + (lanes - 1)) // lanes

    def chunk(index: Value) -> None:
        c, first = (index % groups) * lanes, (index // groups) * a.per_chunk
        mask = k.mask_below(c, a.channels, lanes)
        mine = k.at(a.out, (index // groups) * a.images.count * a.channels + c, element)
        k.loop(0, a.images.count, lambda t: k.store(k.const(0, element, lanes), mine, t * a.channels, element, mask))

        def image(n: Value) -> None:
            def line(y: Value) -> None:
                grad = k.at(a.grad, n * a.grads.n + y * a.grads.y + c, element)
                row = _RowProducts(k, element, a, mask, (n, y, c), grad, mine)
                k.loop(0, a.images.count - a.images.count % 3, partial(row.taps, 3), step=3)
                k.loop(a.images.count - a.images.count % 3, a.images.count, partial(row.taps, 1))

            k.loop(0, a.images.out_height, line)

        k.loop(first, k.least(first + a.per_chunk, a.images.images), image)

    k.for_chunks(chunk)


@dataclass(frozen=True, slots=True)
class _RowProducts:
    """A register of channels of one row of the gradient, times what taps see of the image, added to ``sums``.

    ``place`` is the image's number, the row, and the first of the channels; ``mask`` are those that are there.
    """

    k: Builder
    element: str
    a: PixelProductArguments
    mask: Value
    place: tuple[Value, Value, Value]
    grad: Value
    sums: Value

    def taps(self, count: int, t: Value) -> None:
        """Sums of ``count`` taps; for the pixels that all of them see the gradient is read once."""
        k, element, lanes, channels = self.k, self.element, self.k.lanes(self.element), self.a.channels
        seen, low, high = zip(*[self.seen(t, i) for i in range(count)], strict=True)
        left, right = reduce(k.most, low), reduce(k.least, high)
        right = left + k.most(right - left, 0) // 2 * 2

        def two(ox: Value, *total: Value) -> list[Value]:
            values = [self.load(self.grad, ox * self.a.grads.x), self.load(self.grad, (ox + 1) * self.a.grads.x)]
            return [self.added(seen[i // 2], ox + i % 2, values[i % 2], s) for i, s in enumerate(total)]

        total = k.loop(left, right, two, step=2, carried=[k.const(0, element, lanes)] * (2 * count))
        for i in range(count):
            one = partial(self.one, seen[i])
            start = k.loop(low[i], k.least(high[i], left), one, carried=[self.load(self.sums, (t + i) * channels)])
            rest = k.loop(k.most(low[i], right), high[i], one, carried=[start])
            k.store(rest + (total[2 * i] + total[2 * i + 1]), self.sums, (t + i) * channels, element, self.mask)

    def seen(self, t: Value, i: int) -> tuple[Value, Value, Value]:
        """Pointer to what tap ``t + i`` reads for the row's first output, and the range of outputs that see it within the image."""
        k, a, (n, y, c) = self.k, self.a, self.place
        iy, dx = y * a.images.step_y + k.load(a.images.taps, (t + i) * 3, "i64"), k.load(a.images.taps, (t + i) * 3 + 1, "i64")
        low, high = _within(k, dx, a.images.step_x, k.select((iy >= 0) & (iy < a.images.height), a.images.width, 0), a.images.out_width)
        return k.at(a.x, n * a.images.n + iy * a.images.y + dx * a.images.x + c, self.element), low, high

    def one(self, seen: Value, ox: Value, total: Value) -> Value:
        return self.added(seen, ox, self.load(self.grad, ox * self.a.grads.x), total)

    def added(self, seen: Value, ox: Value, value: Value, total: Value) -> Value:
        return self.k.fma(self.load(seen, ox * self.a.images.step_x * self.a.images.x), value, total)

    def load(self, pointer: Value, index: Value) -> Value:
        return self.k.load(pointer, index, self.element, self.k.lanes(self.element), self.mask)


def _within(k: Builder, offset: Value, step: Value, size: Value, count: Value) -> tuple[Value, Value]:
    """The first and last (excluded) of ``count`` places ``i`` with ``0 <= i * step + offset < size``."""
    return (k.most(-offset, 0) + step - 1) // step, k.least(count, (k.most(size - offset, 0) + step - 1) // step)


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
    lanes = targets.current().width // max(x.itemsize, 4)  # narrower numbers are float32 in registers
    turn(ELEMENTS[x.dtype])(n * -(-columns // lanes), id(x), id(out), rows, columns)


def convolution(x: np.ndarray, weight: np.ndarray, taps: np.ndarray, step: tuple[int, int], out: np.ndarray) -> Callable[..., None]:
    """Function of (x, weight, out, bias) that convolves each channel of ``x`` with its window.

    Channels of ``x`` and ``out`` are innermost; ``taps`` has rows ``(dy, dx, place of the weight)``.
    """
    n, channels, height, width = out.shape
    per_chunk = max(1, CHUNK // (channels * width))
    columns = taps[:, 1].tolist() or [0]
    first, last = max(0, -(min(columns) // step[1])), min(width, (x.shape[3] - 1 - max(columns)) // step[1] + 1)
    convolve = each_pixel(ELEMENTS[x.dtype]).bind(
        -(-n * height // per_chunk), images=images_of(x, step, (height, width), taps), result=strides_of_images(out), channels=channels,
        lines=n * height, per_chunk=per_chunk, first=first, last=last,
    )  # fmt: skip
    by = strides_of(weight)
    places = [(i * by[2] + j * by[3]) for i in range(weight.shape[2]) for j in range(weight.shape[3])]
    order = [places.index(place) for place in taps[:, 2].tolist()]

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        by_tap = np.ascontiguousarray(weight.reshape(channels, -1).T[order])
        convolve(x=x, out=out, weight=by_tap, bias=bias)

    return run


def weight_gradient(x: np.ndarray, grad: np.ndarray, taps: np.ndarray, step: tuple[int, int]) -> Callable[..., np.ndarray]:
    """Function of (x, grad) that computes the weight gradient ``(channel, tap)`` of a depthwise convolution."""
    n, channels, height, width = grad.shape
    dtype = x.dtype
    lanes = targets.current().width // x.itemsize
    groups = -(-channels // lanes)
    per_chunk = -(-n // max(1, min(n, 32 // groups)))
    parts = -(-n // per_chunk)
    shape = (parts, len(taps), channels)
    multiply = pixel_products(ELEMENTS[dtype]).bind(
        parts * groups, images=images_of(x, step, (height, width), taps), grads=strides_of_images(grad), channels=channels,
        per_chunk=per_chunk,
    )  # fmt: skip

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        sums = empty(shape, dtype)
        multiply(x=x, grad=grad, out=sums)
        return np.ascontiguousarray((sums[0] if parts == 1 else sums.sum(0)).T)

    return run
