"""Depthwise convolutions: every channel with windows of its own.

There is no matrix product in them.  Each plane is copied into scratch memory with its zeros around it, its rows ``pitch`` apart, so that
a tap is one distance for all of a plane's pixels:

    out[q] = sum over taps   weight[tap] * plane[q + offset[tap]]         q = row * pitch + column

Pixels are computed straight on, also those between the end of a row and the next, which are left out when rows are copied to the result.
With a stride the plane is split into those that every ``step``-th row and column make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from .microkernel import (
    Filling,
    Place,
    Planes,
    Scratch,
    borrow,
    copy_line,
    give_back,
    mode_of,
    plane_layout,
    planes_of,
    store_mode,
    whole_plane,
)

BAND = 1024  # pixels computed before they are copied to the result
OUTPUTS = 8  # of a chunk of the weight gradient, at most
PLANES = 4096  # pixels of the planes of a chunk, at least


def _zeros_behind(k: Builder, element: str, plane: Value, place: Place) -> None:
    """The last pixels see what lies behind the plane."""
    lanes = k.lanes(element)
    end = k.at(plane, place.phases_y * place.phases_x * place.rows * place.pitch, element)
    k.loop(0, place.pitch + 4 * lanes, lambda v: k.store(k.const(0, element, lanes), end, v, element), step=lanes)


# -- forward and input gradient -----------------------------------------------------------------------------------------------------
class PlaneArguments(Record):
    x: Array
    out: Array
    weight: Array
    bias: Array
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each tap the distance of what it sees, and of its weight
    pieces: Integer  # of scratch memory, and their size
    room_size: Integer
    buffer: Integer  # elements of a piece for a plane; results lie behind it
    planes: Integer
    per_chunk: Integer
    channels: Integer
    times: Integer  # outputs of a channel
    taps: Integer
    source: Planes
    place: Place
    result: Planes
    by_weight: Integer  # from an output's weight to the next one's
    band: Integer  # rows computed before they are copied to the result


@kernel
def each_plane(k: Builder, element: str, mode: str, store: str) -> None:
    """The convolution of ``times`` windows with each plane; a chunk is some planes."""
    a = k.arguments(PlaneArguments)
    fill = Filling(k, element, mode)

    def chunk(index: Value) -> None:
        piece = borrow(k, a.flags, a.pieces)
        plane = k.at(a.room, piece * a.room_size, element)
        results = k.at(plane, a.buffer, element)

        def one(which: Value) -> None:
            n, c = which // a.channels, which % a.channels
            source = k.at(a.x, n * a.source.n + c * a.source.c, element)
            fill(plane, source, a.source, a.place)
            _zeros_behind(k, element, plane, a.place)
            k.loop(0, a.times, lambda m: _output(k, element, store, a, (plane, results), n, c * a.times + m))

        k.loop(index * a.per_chunk, k.least((index + 1) * a.per_chunk, a.planes), one)
        give_back(k, a.flags, piece)

    k.for_chunks(chunk)


def _output(k: Builder, element: str, store: str, a: PlaneArguments, memory: tuple[Value, Value], n: Value, o: Value) -> None:
    """Output ``o`` of image ``n``, from a plane and by way of ``results``."""
    plane, results = memory
    pitch, lanes = a.place.pitch, k.lanes(element)
    factors, bias = k.at(a.weight, o * a.by_weight, element), k.load(a.bias, o, element)
    target = k.at(a.out, n * a.result.n + o * a.result.c, element)

    def rows(y: Value) -> None:
        last = k.least(y + a.band, a.result.height)
        q0 = y * pitch
        length = (last - y) * pitch
        main = length // (8 * lanes) * (8 * lanes)
        for start, end, wide in ((0, main, 8), (main, length, 2)):
            pixels = partial(_weighted_sums, k, element, a, (plane, factors, bias, results), q0, wide)
            k.loop(start, end, pixels, step=wide * lanes)

        def copy(r: Value) -> None:
            to = k.at(target, (y + r) * a.result.y, element)
            line = k.at(results, r * pitch, element)
            copy_line(k, element, store, line, to, a.result.width, a.result.x, lambda value, old: value)

        k.loop(0, last - y, copy)

    k.loop(0, a.result.height, rows, step=a.band)


def _weighted_sums(
    k: Builder, element: str, a: PlaneArguments, memory: tuple[Value, Value, Value, Value], q0: Value, wide: int, q: Value
) -> None:
    """``wide`` registers of results, from pixel ``q`` of those that begin with ``q0``."""
    plane, factors, bias, results = memory
    lanes = k.lanes(element)
    seen = k.at(plane, q0 + q, element)

    def tap(t: Value, *total: Value) -> list[Value]:
        from_here = k.at(seen, k.load(a.table, t * 2, "i64"), element)
        factor = k.splat(k.load(factors, k.load(a.table, t * 2 + 1, "i64"), element), lanes)
        return [k.fma(factor, k.load(from_here, u * lanes, element, lanes), s) for u, s in enumerate(total)]

    for u, value in enumerate(k.loop(0, a.taps, tap, carried=[k.splat(bias, lanes)] * wide)):
        k.store(value, results, q + u * lanes, element)


# -- weight gradient ------------------------------------------------------------------------------------------------------------------
class PlaneProductArguments(Record):
    x: Array
    grad: Array
    out: Array
    flags: Array  # of the pieces of scratch memory, see ``borrow``
    room: Array  # the scratch memory
    table: Array  # for each tap the distance of what it sees, and of its weight
    pieces: Integer  # of scratch memory, and their size
    room_size: Integer
    buffer: Integer  # elements of a piece before the gradient's plane, and before the sums
    second: Integer
    images: Integer
    per_chunk: Integer
    outputs: Integer
    block: Integer  # of outputs
    times: Integer  # outputs of a channel
    taps: Integer
    source: Planes
    place: Place
    grads: Planes


@kernel
def plane_products(k: Builder, element: str, mode: str, grad_mode: str) -> None:
    """The weight gradient: for each tap the sum of a plane times a plane of the gradient.

    A chunk is ``block`` outputs and a range of images; planes are taken in the order in which they lie in memory.
    """
    k.for_chunks(_PlaneProducts(k, element, mode, grad_mode).chunk)


@dataclass(frozen=True, slots=True)
class _Memory:
    """A thread's scratch memory: a plane, one of the gradient, and for each output and tap a register of sums."""

    plane: Value
    grad: Value
    sums: Value


class _PlaneProducts:
    """The loops of ``plane_products``."""

    def __init__(self, k: Builder, element: str, mode: str, grad_mode: str):
        self.k, self.element, self.lanes = k, element, k.lanes(element)
        self.a = a = k.arguments(PlaneProductArguments)
        self.fill, self.fill_grad = Filling(k, element, mode), Filling(k, element, grad_mode)
        self.zero = k.const(0, element, self.lanes)
        self.blocks = (a.outputs + a.block - 1) // a.block

    def chunk(self, index: Value) -> None:
        k, element, lanes, a = self.k, self.element, self.lanes, self.a
        piece = borrow(k, a.flags, a.pieces)
        plane = k.at(a.room, piece * a.room_size, element)
        memory = _Memory(plane, k.at(plane, a.buffer, element), k.at(plane, a.second, element))
        number, o0 = index // self.blocks, (index % self.blocks) * a.block
        count, first = k.least(a.block, a.outputs - o0), number * a.per_chunk
        k.loop(0, count * a.taps, lambda t: k.store(self.zero, memory.sums, t * lanes, element))

        def image(n: Value) -> None:
            k.loop(0, count, lambda i: self.plane(memory, n, o0 + i, k.at(memory.sums, i * a.taps * lanes, element)))

        k.loop(first, k.least(first + a.per_chunk, a.images), image)
        target = k.at(a.out, (number * a.outputs + o0) * a.taps, element)
        k.loop(0, count * a.taps, lambda t: k.store(k.sum(k.load(memory.sums, t * lanes, element, lanes)), target, t, element))
        give_back(k, a.flags, piece)

    def plane(self, memory: _Memory, n: Value, o: Value, sums: Value) -> None:
        """Add the products of output ``o`` of image ``n``."""
        k, element, a = self.k, self.element, self.a
        whole = whole_plane(k, a.grads.height, a.place.pitch)
        self.fill(memory.plane, k.at(a.x, n * a.source.n + (o // a.times) * a.source.c, element), a.source, a.place)
        _zeros_behind(k, element, memory.plane, a.place)
        self.fill_grad(memory.grad, k.at(a.grad, n * a.grads.n + o * a.grads.c, element), a.grads, whole)
        _zeros_behind(k, element, memory.grad, whole)
        size = a.grads.height * a.place.pitch

        def part(q0: Value) -> None:
            pixels = (q0, k.least(q0 + BAND, size))
            together = a.taps - a.taps % 3
            k.loop(0, together, lambda t: self.taps(memory, pixels, sums, 3, t), step=3)
            k.loop(together, a.taps, lambda t: self.taps(memory, pixels, sums, 1, t))

        k.loop(0, size, part, step=BAND)

    def taps(self, memory: _Memory, pixels: tuple[Value, Value], sums: Value, count: int, t: Value) -> None:
        """Sums of ``count`` taps at once, for which the gradient is read once."""
        k, element, lanes = self.k, self.element, self.lanes
        seen = [k.at(memory.plane, k.load(self.a.table, (t + i) * 2, "i64"), element) for i in range(count)]

        def step(q: Value, *total: Value) -> list[Value]:
            sums = list(total)
            for u in range(4):
                value = k.load(memory.grad, q + u * lanes, element, lanes)
                for i in range(count):
                    sums[i * 4 + u] = k.fma(k.load(seen[i], q + u * lanes, element, lanes), value, total[i * 4 + u])
            return sums

        partial_sums = k.loop(*pixels, step, step=4 * lanes, carried=[self.zero] * (4 * count))
        for i in range(count):
            whole = (partial_sums[4 * i] + partial_sums[4 * i + 1]) + (partial_sums[4 * i + 2] + partial_sums[4 * i + 3])
            k.store(k.load(sums, (t + i) * lanes, element, lanes) + whole, sums, (t + i) * lanes, element)


# -- calls ----------------------------------------------------------------------------------------------------------------------------
def convolution(x: np.ndarray, by_weight: int, taps: np.ndarray, step: tuple[int, int], out: np.ndarray) -> Callable[..., None]:
    """Function of (x, weight, out, bias) that convolves each channel of ``x`` with ``out.shape[1] // x.shape[1]`` windows.

    ``taps`` has rows ``(dy, dx, place of the weight)``.
    """
    n, channels = x.shape[:2]
    height, width = out.shape[2:]
    lanes = targets.current().width // x.itemsize
    table, place = plane_layout(taps.tobytes(), step, height, width)
    pitch = place.pitch
    band = max(1, BAND // pitch)
    buffer = place.phases_y * place.phases_x * place.rows * pitch + pitch + 8 * lanes
    scratch = Scratch(buffer + min(band, height) * pitch + 8 * lanes, x.dtype)
    planes = n * channels
    per_chunk = max(1, min(PLANES // (place.rows * pitch), planes // 16))
    convolve = each_plane(ELEMENTS[x.dtype], mode_of(x, step[1]), store_mode(out)).bind(
        -(-planes // per_chunk), table=table, pieces=scratch.pieces, room_size=scratch.size, buffer=buffer, planes=planes,
        per_chunk=per_chunk, channels=channels, times=out.shape[1] // channels, taps=len(table), source=planes_of(x), place=place,
        result=planes_of(out), by_weight=by_weight, band=band,
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        flags, room = scratch.take()
        convolve(x=x, out=out, weight=weight, bias=bias, flags=flags, room=room)

    return run


def weight_gradient(x: np.ndarray, grad: np.ndarray, taps: np.ndarray, step: tuple[int, int]) -> Callable[..., np.ndarray]:
    """Function of (x, grad) that computes the weight gradient ``(output, tap)``."""
    n, outputs, height, width = grad.shape
    dtype = x.dtype
    lanes = targets.current().width // x.itemsize
    table, place = plane_layout(taps.tobytes(), step, height, width)
    buffer = place.phases_y * place.phases_x * place.rows * place.pitch + place.pitch + 8 * lanes
    second = buffer + (height + 1) * place.pitch + 8 * lanes
    block = max(1, min(OUTPUTS, outputs // 16))
    scratch = Scratch(second + block * len(table) * lanes, dtype)
    parts = max(1, min(n, 32 // outputs))
    per_chunk = -(-n // parts)
    parts = -(-n // per_chunk)
    shape = (parts, outputs, len(table))
    multiply = plane_products(ELEMENTS[dtype], mode_of(x, step[1]), mode_of(grad, 1)).bind(
        parts * -(-outputs // block), table=table, pieces=scratch.pieces, room_size=scratch.size, buffer=buffer, second=second, images=n,
        per_chunk=per_chunk, outputs=outputs, block=block, times=outputs // x.shape[1], taps=len(table), source=planes_of(x), place=place,
        grads=planes_of(grad),
    )  # fmt: skip

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        sums = empty(shape, dtype)
        flags, room = scratch.take()
        multiply(x=x, grad=grad, out=sums, flags=flags, room=room)
        return sums[0] if parts == 1 else sums.sum(0)

    return run
