"""Convolutions of small images as single products of matrices, whose one factor is the weight as it lies.

    columns[(channel, tap), pixel]     what the pixels of all images see; zeros outside of the images
    grads[output, pixel]               the gradient, all of whose pixels of an output lie side by side

    forward            weight @ columns
    input gradient     weight.T @ grads, whose rows belong to channels and taps: a pixel's gradient is the sum over the windows that saw it
    weight gradient    grads @ columns.T

Other kernels pack bands of rows and a copy of the weight for each call. Bands of images of 3 by 3 or 6 by 6 pixels are mostly what lies
around them, and a copy of a large weight takes as long as its products with so few pixels; here nothing of its size is written.

Costs are estimated as in ``tiled_convolution``, in its cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from .gemm import Layout, is_split, plan_of_matrices
from .microkernel import strides_of
from .split_products import picoseconds

LANES = 16  # numbers of a line of the cache
CYCLE = 240  # picoseconds
SPLIT = 1.2, 1.4  # times what a product of bfloat16 parts takes elsewhere: with columns up to this size, and with larger ones
OUTSIDE = 1 << 20  # numbers of columns
GATHERED = 0.8  # cycles of a number of the columns, and of one that is added to a pixel's gradient
MOVED = 1.0  # cycles of a number of a result that is moved to its image
PLAIN = 13  # picoseconds of a multiply-add of float32, at least: one factor is large, and from outside of the caches
READ = 1.2  # cycles of a number of the weight, at least
STARTED = 15_000  # of three launches
WORTH = 1.0  # columns must cost less than that much of another way
CHUNK = 1 << 14  # numbers that are gathered at a time
MOST = 1 << 22  # numbers of the columns
PLACES = 1 << 14  # of a table of them: it is kept for each shape
_FLOAT32, _PLACES = np.dtype(np.float32), np.dtype(np.int32)
Run = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]


class ColumnArguments(Record):
    source: Array
    target: Array
    places: Array  # for each tap and pixel the place in a channel's planes, in elements; negative outside of them
    taps: Integer
    pitch: Integer  # from row to row of the columns, and of ``places``: a multiple of a register's lanes
    channels: Integer
    by_channel: Integer
    per_chunk: Integer


@kernel
def columns_of(k: Builder, element: str) -> None:
    """Columns of images; a chunk is some channels."""
    a = k.arguments(ColumnArguments)
    lanes = k.lanes(element)

    def channel(c: Value) -> None:
        planes = k.at(a.source, c * a.by_channel, element)

        def tap(t: Value) -> None:
            row, places = k.at(a.target, (c * a.taps + t) * a.pitch, element), k.at(a.places, t * a.pitch, "i32")

            def register(p: Value) -> None:
                place = k.load(places, p, "i32", lanes)
                k.store(k.gather(planes, place, element, place >= 0), row, p, element)

            k.loop(0, a.pitch, register, step=lanes)

        k.loop(0, a.taps, tap)

    k.for_chunks(lambda chunk: k.loop(chunk * a.per_chunk, k.least((chunk + 1) * a.per_chunk, a.channels), channel))


class ImageArguments(Record):
    source: Array  # (channel, tap), pixel of all images
    target: Array  # images, row-major
    bias: Array
    places: Array  # for each tap and pixel of a channel the window of the image that saw it so; negative where there is none
    taps: Integer
    pixels: Integer  # of all images
    seen: Integer  # windows of an image
    area: Integer  # pixels of a channel
    pitch: Integer  # from row to row of ``places``
    images: Integer
    channels: Integer
    per_chunk: Integer


@kernel
def images_of_columns(k: Builder, element: str) -> None:
    """Sums of what belongs to each pixel of images, and its channel's bias; a chunk is some channels."""
    a = k.arguments(ImageArguments)
    lanes = k.lanes(element)

    def channel(c: Value) -> None:
        first = k.splat(k.load(a.bias, c, element), lanes)

        def image(n: Value) -> None:
            source = k.at(a.source, c * a.taps * a.pixels + n * a.seen, element)
            target = k.at(a.target, (n * a.channels + c) * a.area, element)

            def register(p: Value, mask: Value | None) -> None:
                def tap(t: Value, total: Value) -> Value:
                    place = k.load(a.places, t * a.pitch + p, "i32", lanes)
                    return total + k.gather(k.at(source, t * a.pixels, element), place, element, place >= 0)

                k.store(k.loop(0, a.taps, tap, carried=[first]), target, p, element, mask)

            k.vector_loop(0, a.area, lanes, register)

        k.loop(0, a.images, image)

    k.for_chunks(lambda chunk: k.loop(chunk * a.per_chunk, k.least((chunk + 1) * a.per_chunk, a.channels), channel))


@kernel
def images_of_rows(k: Builder, element: str) -> None:
    """``images_of_columns`` where each pixel is one number, which lies where the images want it."""
    a = k.arguments(ImageArguments, without=("places",))
    lanes = k.lanes(element)

    def channel(c: Value) -> None:
        first = k.splat(k.load(a.bias, c, element), lanes)

        def image(n: Value) -> None:
            source = k.at(a.source, c * a.pixels + n * a.seen, element)
            target = k.at(a.target, (n * a.channels + c) * a.area, element)

            def register(p: Value, mask: Value | None) -> None:
                k.store(k.load(source, p, element, lanes, mask) + first, target, p, element, mask)

            k.vector_loop(0, a.area, lanes, register)

        k.loop(0, a.images, image)

    k.for_chunks(lambda chunk: k.loop(chunk * a.per_chunk, k.least((chunk + 1) * a.per_chunk, a.channels), channel))


def _up(size: int, step: int) -> int:
    return -(-size // step)


def _pitch(pixels: int) -> int:
    """From row to row: whole lines, an odd number of them, so that rows lie in all sets of the cache."""
    return (_up(pixels, LANES) | 1) * LANES


def padded(places: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Places with nothing below and behind them."""
    table = np.full(shape, -1, _PLACES)
    table[: places.shape[0], : places.shape[1]] = places
    return table


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of images, all of whose channels they see.

    Attributes:
        table: taps, as of ``window_blocks.window_table``.
        out: windows of an image, in a column and in a row.
    """

    images: int
    channels: int
    outputs: int
    table: np.ndarray
    step: tuple[int, int]
    out: tuple[int, int]

    @property
    def pixels(self) -> int:
        return self.images * self.out[0] * self.out[1]

    @property
    def rows(self) -> int:
        """Of the columns."""
        return self.channels * len(self.table)

    def seen(self, height: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column of what each tap of each window of an image sees, as ``(taps, *out)``, and whether the image has it."""
        y = np.arange(self.out[0])[:, None] * self.step[0] + self.table[:, 0, None, None]
        x = np.arange(self.out[1]) * self.step[1] + self.table[:, 1, None, None]
        return y, x, (y >= 0) & (y < height) & (x >= 0) & (x < width)

    def places(self, x: np.ndarray) -> np.ndarray:
        """Places of what each tap of each window sees of a channel of images like ``x``, as ``(taps, pixels)``; -1 outside of them."""
        by = strides_of(x)
        row, column, inside = self.seen(*x.shape[-2:])
        images = np.arange(self.images)[:, None, None] * by[0]
        found = np.where(inside, row * by[2] + column * by[3], 0)[:, None] + images
        return np.where(inside[:, None], found, -1).reshape(len(self.table), self.pixels)

    def _cost(self, m: int, n: int, inner: int) -> float:
        """Cycles of a product of these sizes, and of what is written beside it."""
        split, other = picoseconds(m, n, inner)
        if is_split(_FLOAT32, (m, n, inner), precision="highest"):
            product = SPLIT[self.rows * self.pixels > OUTSIDE] * split
        else:
            product = max(other, PLAIN * m * n * inner)
        beside = GATHERED * self.rows * self.pixels + MOVED * self.outputs * self.pixels
        return max(product / CYCLE, READ * self.outputs * self.rows) + beside + STARTED

    @property
    def forward_cost(self) -> float:
        return self._cost(self.outputs, self._whole, self.rows)

    @property
    def input_cost(self) -> float:
        return self._cost(self.rows, self._whole, self.outputs)

    @property
    def weight_cost(self) -> float:
        return self._cost(self.outputs, self.rows, self._whole)

    @property
    def _whole(self) -> int:
        """Pixels in whole registers."""
        return _up(self.pixels, LANES) * LANES


def windows_of(
    images: np.ndarray, weight: tuple[int, ...], table: np.ndarray, step: tuple[int, int], out: tuple[int, int]
) -> Windows | None:
    """Windows of as many images of one group, of the shape of a weight; None where they are not float32, or too large."""
    windows = Windows(len(images), weight[1], weight[0], table, step, out)
    is_small = 0 < windows.rows * windows.pixels <= MOST and len(table) * _pitch(windows.pixels) <= PLACES
    return windows if images.dtype == _FLOAT32 and is_small and has_places(images) else None


def has_places(images: np.ndarray) -> bool:
    """Whether 32 bits tell the place of each element."""
    return sum([(size - 1) * stride for size, stride in zip(images.shape, strides_of(images), strict=True)]) < 1 << 31


def _rows_of(rows: int, columns: int, pitch: int = 0) -> Layout:
    """A matrix of float32 whose rows lie ``pitch`` apart, or without gaps."""
    return (rows, columns), (4 * (pitch or columns), 4)


def _turned(layout: Layout) -> Layout:
    return layout[0][::-1], layout[1][::-1]


def _columns(x: np.ndarray, windows: Windows) -> tuple[Callable[[np.ndarray], np.ndarray], Layout]:
    """Function of images like ``x`` that makes their columns, and how these lie."""
    by, places = strides_of(x), windows.places(x)
    pitch, taps = _pitch(windows.pixels), len(windows.table)
    per_chunk = max(1, CHUNK // (taps * pitch))
    launch = columns_of(ELEMENTS[x.dtype]).bind(
        _up(windows.channels, per_chunk), places=padded(places, (taps, pitch)), taps=taps, pitch=pitch, channels=windows.channels,
        by_channel=by[1], per_chunk=per_chunk,
    )  # fmt: skip
    shape = (windows.rows, pitch)

    def run(x: np.ndarray) -> np.ndarray:
        target = empty(shape, x.dtype)
        launch(source=x, target=target)
        return target[:, : windows.pixels]

    return run, _rows_of(windows.rows, windows.pixels, pitch)


@lru_cache(maxsize=256)
def _windows_of_grads(images: int, outputs: int, out: tuple[int, int]) -> Windows:
    """Windows of one place on a gradient: its columns are the gradient with all pixels of an output side by side."""
    return Windows(images, outputs, 0, np.zeros((1, 3), np.int64), (1, 1), out)


def _grads(grad: np.ndarray, windows: Windows) -> tuple[Callable[[np.ndarray], np.ndarray], Layout]:
    if windows.images == 1 and grad.flags.c_contiguous:
        shape = windows.outputs, windows.pixels
        return lambda grad: grad.reshape(shape), _rows_of(*shape)
    return _columns(grad, _windows_of_grads(windows.images, windows.outputs, windows.out))


def product(x: np.ndarray, windows: Windows) -> Run:
    """Function of (x, weight, out, bias), all of them row-major but ``x``."""
    (columns, layout), sizes, area = _columns(x, windows), (windows.outputs, windows.pixels), windows.out[0] * windows.out[1]
    multiply = plan_of_matrices(x.dtype, _rows_of(windows.outputs, windows.rows), layout)
    per_chunk = max(1, CHUNK // windows.pixels)
    put = images_of_rows(ELEMENTS[x.dtype]).bind(
        _up(windows.outputs, per_chunk), taps=1, pixels=windows.pixels, seen=area, area=area, pitch=0, images=windows.images,
        channels=windows.outputs, per_chunk=per_chunk,
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        rows = empty(sizes, x.dtype)
        multiply(weight.reshape(windows.outputs, -1), columns(x), rows)
        put(source=rows, target=out, bias=bias)

    return run


def input_gradient(grad: np.ndarray, windows: Windows, plane: tuple[int, int]) -> Run:
    """Function of (grad, weight, out, bias) for images of ``plane`` rows and columns, all of them row-major but ``grad``."""
    (grads, layout), taps = _grads(grad, windows), len(windows.table)
    multiply = plan_of_matrices(grad.dtype, _turned(_rows_of(windows.outputs, windows.rows)), layout)
    area, seen = plane[0] * plane[1], windows.out[0] * windows.out[1]
    y, x, inside = windows.seen(*plane)
    places = np.full((taps, area), -1, _PLACES)
    taps_of, where = np.broadcast_to(np.arange(taps)[:, None, None], inside.shape), np.broadcast_to(y * plane[1] + x, inside.shape)
    windows_of = np.broadcast_to(np.arange(seen).reshape(windows.out), inside.shape)
    places[taps_of[inside], where[inside]] = windows_of[inside]
    pitch, sizes = _up(area, LANES) * LANES, (windows.rows, windows.pixels)
    per_chunk = max(1, CHUNK // (taps * area * windows.images))
    put = images_of_columns(ELEMENTS[grad.dtype]).bind(
        _up(windows.channels, per_chunk), places=padded(places, (taps, pitch)), taps=taps, pixels=windows.pixels, seen=seen, area=area,
        pitch=pitch, images=windows.images, channels=windows.channels, per_chunk=per_chunk,
    )  # fmt: skip

    def run(grad: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        rows = empty(sizes, grad.dtype)
        multiply(weight.reshape(windows.outputs, -1).T, grads(grad), rows)
        put(source=rows, target=out, bias=bias)

    return run


def weight_gradient(x: np.ndarray, grad: np.ndarray, windows: Windows, shape: tuple[int, ...]) -> Sums:
    """Function of (x, grad) that computes a weight gradient of ``shape``."""
    (columns, layout), (grads, layout_of_grads) = _columns(x, windows), _grads(grad, windows)
    multiply = plan_of_matrices(x.dtype, layout_of_grads, _turned(layout))

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        result = empty(shape, x.dtype)
        multiply(grads(grad), columns(x).T, result.reshape(windows.outputs, -1))
        return result

    return run
