"""Weights of bytes written as the panels that ``integer_products`` reads, from either order in memory, and the sums of their columns."""

from __future__ import annotations

import numpy as np

from ...core.arrays.native import native
from ...core.arrays.panels import COLUMNS, DEPTH, TOGETHER, shape_of
from ..compiler import target as targets
from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from .products import for_units, launch_units
from .tiles import Tiles, below

LINE = COLUMNS * TOGETHER  # bytes
PACKED = 1 << 16  # bytes of a chunk


class Packing(Record):
    """Weights ``(n, inner)`` and their panels."""

    source: Array
    panels: Array
    inner: Integer
    n: Integer
    pitch: Integer  # bytes from row to row of ``(n, inner)``, or of ``(inner, n)``
    depth: Integer  # bytes of a column in a panel
    units: Integer
    per_chunk: Integer


@kernel
def pack_rows(k: Builder) -> None:
    """Write the panels of weights that lie row by row: four neighbours are a number of 32 bits. A unit is a panel."""
    o = k.arguments(Packing)
    tiles = Tiles(k, "f32", COLUMNS // k.lanes("f32"))

    def unit(u: Value) -> None:
        i = u * COLUMNS
        panel, source = k.at(o.panels, u * (o.depth * COLUMNS), "i8"), k.at(o.source, i * o.pitch, "i8")
        count = k.most(k.least(o.n - i, COLUMNS), 0)
        tiles.pack_whole(source, o.pitch // TOGETHER, (count, o.inner // TOGETHER), panel, o.depth // TOGETHER)

    for_units(k, o, unit)


@kernel
def pack_columns(k: Builder) -> None:
    """Write the panels of weights that lie column by column, as ``(inner, n)``. A unit is ``DEPTH`` rows of these."""
    o = k.arguments(Packing)

    def unit(u: Value) -> None:
        source, target = k.at(o.source, u * DEPTH * o.pitch, "i8"), k.at(o.panels, u * (DEPTH * COLUMNS), "i8")

        def panel(p: Value) -> None:
            mask, place = below(k, k.most(o.n - p * COLUMNS, 0), COLUMNS), k.at(target, p * (o.depth * COLUMNS), "i8")

            def line(at: Value) -> None:
                masks = [mask & k.splat(u * DEPTH + at * TOGETHER + row < o.inner, COLUMNS) for row in range(TOGETHER)]
                rows = [
                    k.load(source, (at * TOGETHER + row) * o.pitch + p * COLUMNS, "i8", COLUMNS, inside) for row, inside in enumerate(masks)
                ]
                pairs = [_woven(k, rows[0], rows[1]), _woven(k, rows[2], rows[3])]
                words = _woven(k, *(k.bits_as(pair, "i16", COLUMNS) for pair in pairs))
                k.store(words, place, at * (LINE // 2), "i16")

            k.loop(0, DEPTH // TOGETHER, line)

        k.loop(0, (o.n + 2 * COLUMNS - 1) // (2 * COLUMNS) * 2, panel)

    for_units(k, o, unit)


def _woven(k: Builder, a: Value, b: Value) -> Value:
    """Lanes of two values in turns."""
    return k.shuffle(a, [lane // 2 + lane % 2 * a.lanes for lane in range(2 * a.lanes)], b)


class Adding(Record):
    """Panels, and the sums of their columns."""

    panels: Array
    sums: Array
    lines: Integer
    units: Integer
    per_chunk: Integer


@kernel
def column_sums(k: Builder, features: str) -> None:
    """The sums of a panel's columns: products with ones."""
    k.features = features
    o = k.arguments(Adding)
    lanes = k.lanes("i32")
    ones = k.const(0x01010101, "i32", lanes)

    def part(panel: Value, u: Value, v: int) -> None:
        def line(at: Value, total: Value) -> Value:
            return k.dot(total, ones, k.load(panel, at * COLUMNS + v * lanes, "i32", lanes))

        k.store(k.loop(0, o.lines, line, carried=[k.const(0, "i32", lanes)]), o.sums, u * COLUMNS + v * lanes, "i32")

    def unit(u: Value) -> None:
        panel = k.at(o.panels, u * (o.lines * LINE), "i8")
        for v in range(COLUMNS // lanes):
            part(panel, u, v)

    for_units(k, o, unit)


@native("_pack_panels")
def pack_panels(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    if weight.dtype != np.int8 or not weight.size:
        return None
    (n, inner), (across, along) = weight.shape, weight.strides
    shape = shape_of(n, inner)
    by_columns = across == 1 and along >= n
    if not by_columns and (along != 1 or across < inner or inner % TOGETHER or across % TOGETHER):
        padded = np.zeros((n, -(-inner // TOGETHER) * TOGETHER), np.int8)
        padded[:, :inner] = weight
        weight, inner, across = padded, padded.shape[1], padded.shape[1]
    data, depth = empty(shape, np.int8), shape[1] * TOGETHER
    arrays = {"source": weight, "panels": data}
    run, units, pitch = (pack_columns(), depth // DEPTH, along) if by_columns else (pack_rows(), shape[0], across)
    launch_units(run, units, (data.size, PACKED), arrays, inner=inner, n=n, pitch=pitch, depth=depth)
    return data, summed(data)


def summed(panels: np.ndarray) -> np.ndarray:
    """The sums of all columns."""
    sums = np.empty(panels.shape[0] * COLUMNS, np.int32)
    run = column_sums(targets.dot_features())
    launch_units(run, panels.shape[0], (panels.size, PACKED), {"panels": panels, "sums": sums}, lines=panels.shape[1])
    return sums
