"""Convolutions in tile registers: division into blocks, and which convolutions are worth it; see ``tiled_windows`` for the products.

Where a number is too large to be split into parts the result is not used, and the convolution is computed once more without tiles.

Costs are estimated in cycles of one core, by measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler.language import ELEMENTS
from ..compiler.memory import empty
from .microkernel import FLAT, Depth, Place, Scratch, images_of, mode_of, plane_layout, planes_of, store_mode, store_strides
from .narrow_products import instructions
from .tile_parts import BLOCK, DEEP, SIDE, Form
from .tiled_gradients import SUMS, join_tiles, tiles_of_gradients
from .tiled_rows import NARROW, WIDE, join_rows, tiles_of_rows
from .tiled_windows import TILE, TileWeight, pack_tiles, tiles_of_windows

ROOM = 1 << 20  # bytes of the bands of a block of pixels; half of the second cache
PIXELS = 1024  # of the bands of a chunk, about
CHUNKS = 8  # that many chunks at least, where there is work enough for them
LANES = 16
STEP = {1: 100, 3: 600}  # cycles of 32 by 32 by 32 products, by parts
ROW_STEP = {1: 150, 3: 500}  # the same where tiles have a row for each channel and tap
ALIGNED_STEP = {1: 90, 3: 480}  # of weight gradients of a single tap, whose tiles begin at lines of the cache
FETCHED = 200  # of the tiles of a step of the weight, for each part
WRITTEN = 350  # of the sums of a block
PACKED = 30  # of 16 pixels of two channels
WEIGHED = 1.5  # of a number of the weight
PLAIN, PLAIN_SUMS = 24, 18  # multiply-adds of float32 in a cycle, without tiles
PLAIN_WEIGHED, PLAIN_JOINED = 4, 3  # cycles of a number of the weight there, and of its gradient
WORTH = 1.0  # tiles must cost less than that much of it
_FLOAT32 = np.dtype(np.float32)
_PARTS = {"f32": 3, "bf16": 1}
OUTPUTS = 32  # whose gradients are packed together
VISITED = 400  # cycles of loading and storing the sums of a block
TURNED = 1.2  # of a number that is packed
JOINED = 1  # of one of a range's sums
STRIDED = 1.35  # cycles for each that is estimated, where every other pixel is read or written
SUMS_TAKE = 1.5  # cycles of a weight gradient for each that is estimated; estimates are right beside each other
SHARERS = 4  # processors that a weight gradient is divided for
Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]
Run = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


def _up(size: int, step: int) -> int:
    return -(-size // step)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A division of the pixels of a convolution into blocks; lengths are in elements.

    Attributes:
        table, place: of a band, see ``plane_layout``.
        tall: rows of an image in a band.
        group: bands of a chunk.
        band: pixels from a band to the next one.
        pixel: pairs from a pixel to the next one.
        cost: of all products and of packing, in cycles.
    """

    table: np.ndarray
    place: Place
    tall: int
    group: int
    band: int
    pixel: int
    cost: float


@dataclass(frozen=True, slots=True)
class _Sizes:
    images: int
    groups: int
    outputs: int  # of a group
    channels: int  # of a group
    height: int
    width: int
    parts: int

    def plain_cost(self, taps: int) -> float:
        """Cycles of a product without tiles."""
        weights = self.weights(taps)
        return weights * self.images * self.height * self.width / PLAIN + weights * PLAIN_WEIGHED

    def plain_sums_cost(self, taps: int) -> float:
        """The same of a weight gradient."""
        weights = self.weights(taps)
        return weights * self.images * self.height * self.width / PLAIN_SUMS + weights * PLAIN_JOINED

    def weights(self, taps: int) -> int:
        return self.groups * self.outputs * self.channels * taps

    @property
    def strips(self) -> int:
        return _up(self.outputs, BLOCK)

    @property
    def steps(self) -> int:
        return _up(self.channels, DEEP)


def _cut(sizes: _Sizes, taps: np.ndarray, step: tuple[int, int]) -> _Cut | None:
    """The cheapest division; None where a row's bands are too large."""
    best = None
    for blocks in range(1, sizes.height + 1):
        tall = _up(sizes.height, blocks)
        if _up(sizes.height, tall) < blocks:
            continue
        cut = _by_rows(sizes, taps, step, tall)
        if cut is not None and (best is None or cut.cost < best.cost):
            best = cut
        if tall * sizes.width < BLOCK:
            break
    return best


def _by_rows(sizes: _Sizes, taps: np.ndarray, step: tuple[int, int], tall: int) -> _Cut | None:
    """The division into bands of so many rows."""
    table, place = plane_layout(taps.tobytes(), step, tall, sizes.width)
    area = place.phases_y * place.phases_x * place.rows * place.pitch
    band, pixel = (
        area + place.pitch + BLOCK,
        (sizes.parts * sizes.steps | 1) * SIDE,
    )  # an odd number of cache lines: pixels lie in all of its sets
    size = band * pixel * 4
    if size > ROOM:
        return None
    bands, line = sizes.images * _up(sizes.height, tall), tall * place.pitch
    group = max(1, min(bands, ROOM // size, _up(PIXELS, line)))
    while group > 1 and sizes.groups * _up(bands, group) * sizes.strips < CHUNKS:
        group -= 1
    chunks = _up(bands, group)
    times = _up(sizes.strips, _strip_block(sizes, chunks))
    steps = sizes.steps * len(taps)
    products = bands * sizes.strips * _up(line, BLOCK) * (steps * STEP[sizes.parts] + WRITTEN)
    fetching = chunks * sizes.strips * steps * FETCHED * sizes.parts
    packing = bands * times * _up(area, LANES) * _up(sizes.channels, 2) * PACKED
    return _Cut(table, place, tall, group, band, pixel, sizes.groups * (products + fetching + packing))


def _strip_block(sizes: _Sizes, chunks: int) -> int:
    """Strips of outputs of a chunk, where there are so many chunks of pixels."""
    return _up(sizes.strips, max(1, CHUNKS // (sizes.groups * chunks)))


def is_last(array: np.ndarray) -> bool:
    """Whether channels of images lie side by side, and pixels do not."""
    return array.ndim == 4 and array.shape[1] > 1 and array.strides[1] == array.itemsize < array.strides[3]


def _mode(array: np.ndarray, step: int, is_whole: bool) -> str:
    """As of ``mode_of``; "last", or "whole" where the bands of planes without gaps are parts of them."""
    if is_last(array):
        return "last"
    return "whole" if is_whole and array.strides[-2:] == (array.shape[-1] * array.itemsize, array.itemsize) else mode_of(array, step)


def _sees_whole_rows(x: np.ndarray, taps: np.ndarray, step: tuple[int, int], place: Place, out: np.ndarray, depth: Depth) -> bool:
    """Whether windows move by one row or pixel, and see nothing outside of the images nor beside their column."""
    inside = taps[:, 0].min() >= 0 and out.shape[-2] + taps[:, 0].max() <= x.shape[-2]
    return depth is FLAT and step == (1, 1) and inside and place.x0 == 0 and place.pitch == out.shape[-1] == x.shape[-1]


def _measure(
    x: np.ndarray, table: np.ndarray, step: tuple[int, int], out: np.ndarray, groups: int, channels: int, depth: Depth = FLAT
) -> tuple[_Sizes, _Cut | None]:
    """The sizes of a product, and how it is divided if tiles pay."""
    parts = _PARTS.get(ELEMENTS.get(x.dtype, ""), 3)
    sizes = _Sizes(len(x) * depth.positions, groups, out.shape[1] // groups, channels, out.shape[-2], out.shape[-1], parts)
    if not _has_tiles(x, table):
        return sizes, None
    cut = _cut(sizes, table, step)
    return sizes, cut if cut is not None and _weighed(sizes, cut, table) <= WORTH * sizes.plain_cost(len(table)) else None


def _has_tiles(x: np.ndarray, table: np.ndarray) -> bool:
    return ELEMENTS.get(x.dtype, "") in _PARTS and len(table) > 0 and instructions() == "tiles"


def _weighed(sizes: _Sizes, cut: _Cut, table: np.ndarray) -> float:
    """A division's cost with that of packing the weight."""
    return cut.cost + sizes.weights(len(table)) * WEIGHED


def least_cost(x: np.ndarray, table: np.ndarray, step: tuple[int, int], out: np.ndarray, groups: int, channels: int) -> float:
    """Cycles of a product, with tiles or without, whichever takes fewer."""
    sizes, cut = _measure(x, table, step, out, groups, channels)
    is_strided = max(step) > 1 or out.strides[3] > out.itemsize
    return sizes.plain_cost(len(table)) if cut is None else _weighed(sizes, cut, table) * (STRIDED if is_strided else 1)


def product(
    x: np.ndarray,
    by_weight: tuple[int, int, int],
    table: np.ndarray,
    step: tuple[int, int],
    out: np.ndarray,
    groups: int,
    channels: int,
    other: Callable[[np.ndarray, np.ndarray], Run],
    depth: Depth = FLAT,
) -> Run | None:
    """Function of (x, weight, out, bias) as ``convolution._product`` makes it; None where there are no tiles, or they do not pay.

    ``other`` makes of ``x`` and ``out`` the function that computes it without tiles.
    """
    sizes, cut = _measure(x, table, step, out, groups, channels, depth)
    if cut is None:
        return None
    launch = _launches(x, by_weight, table, step, out, sizes, cut, depth)
    otherwise: list[Run] = []

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        if launch(x, weight, out, bias):
            return
        if not otherwise:
            otherwise.append(other(x, out))
        otherwise[0](x, weight, out, bias)

    return run


def _launches(
    x: np.ndarray,
    by_weight: tuple[int, int, int],
    table: np.ndarray,
    step: tuple[int, int],
    out: np.ndarray,
    sizes: _Sizes,
    cut: _Cut,
    depth: Depth,
) -> Callable[..., bool]:
    """Function of (x, weight, out, bias) that computes a product and says whether all numbers could be split."""
    element, parts, count, groups = ELEMENTS[x.dtype], sizes.parts, len(table), sizes.groups
    pitch, width = cut.place.pitch, sizes.width
    modes = _mode(x, step[1], _sees_whole_rows(x, table, step, cut.place, out, depth)), "last" if is_last(out) else store_mode(out)
    to = store_strides(out, modes[1])
    is_one_run = pitch == width and to.y == width * to.x
    run_length = cut.tall * pitch if is_one_run else pitch
    blocks = _up(sizes.images * _up(sizes.height, cut.tall), cut.group)
    strip_block = _strip_block(sizes, blocks)
    plane, planes = (_up(cut.band, LANES) | 1) * LANES, cut.group * cut.band * cut.pixel
    is_row = by_weight[2] == count and table[:, 2].tolist() == list(range(count))
    size = sizes.steps * count * parts * 2 * TILE
    is_packed, weights = blocks > 1, planes + (DEEP * plane if modes[0] != "last" else 0)
    scratch = Scratch(weights + (0 if is_packed else size), _FLOAT32)
    layout = TileWeight(
        taps=table, count=count, channels=sizes.channels, outputs=sizes.outputs, by_group=by_weight[0], by_output=by_weight[1],
        by_channel=by_weight[2],
    )  # fmt: skip
    pack = pack_tiles(element, parts, is_row).bind(groups * sizes.strips, layout=layout)
    multiply = tiles_of_windows(element, parts, *modes, "packed" if is_packed else "row" if is_row else "any").bind(
        groups * blocks * _up(sizes.strips, strip_block), table=cut.table, images=images_of(x, step, out.shape[-2:], table, depth=depth),
        place=cut.place, pieces=scratch.pieces, room_size=scratch.size, weights=weights, planes=planes, plane=plane, band=cut.band,
        pixel=cut.pixel, channels=sizes.channels, outputs=sizes.outputs, strip_block=strip_block, group=cut.group, tall=cut.tall,
        run=run_length, wide=run_length if is_one_run else width, to=to, layout=layout,
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> bool:
        factors, flag = weight, np.zeros(1, np.int64)
        if is_packed:
            factors = empty((groups * sizes.strips * size,), np.dtype(np.uint32))
            pack(weight=weight, target=factors, flag=flag)
        flags, room = scratch.take()
        multiply(source=x, out=out, factors=factors, bias=bias, flag=flag, flags=flags, room=room)
        return not flag[0]

    return run


# -- the weight gradient --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Way:
    """A way to have a weight gradient: of blocks of so many channels, of which there are ``blocks``, and so many outputs.

    Attributes:
        products: products of tiles for each 32 pixels, in units of 32 by 32 by 32.
        cycles: of such a unit.
        sums: of all products of a group.
        by_rows: whether tiles have a row for each channel and tap (``tiled_rows``).
    """

    channels: int
    blocks: int
    outputs: int
    products: float
    cycles: int
    sums: int
    by_rows: bool = False


@dataclass(frozen=True, slots=True)
class _SumCut:
    """A division of the pixels and channels of a weight gradient; lengths are in pixels.

    Attributes:
        table, place, tall, cost: as of ``_Cut``.
        way: how tiles are filled.
        long: of a band, up to a multiple of ``DEEP``.
        between: from a channel's band to its next one.
        group: bands that are packed together.
        ranges: of bands, which have sums of their own.
    """

    way: _Way
    table: np.ndarray
    place: Place
    tall: int
    long: int
    between: int
    group: int
    ranges: int
    cost: float

    def elapsed(self, sizes: _Sizes) -> float:
        """Cycles until ``SHARERS`` processors have done it."""
        chunks = self.ranges * sizes.groups * self.way.blocks
        return self.cost * _up(chunks, SHARERS) / chunks


def _ways(sizes: _Sizes, taps: int) -> Iterator[_Way]:
    for parts in range(1, sizes.steps + 1):
        channels, tiles = _up(sizes.steps, parts) * DEEP, sizes.strips * sizes.steps * taps
        cycles = (STEP if taps > 1 else ALIGNED_STEP)[sizes.parts]
        yield _Way(channels, _up(sizes.steps * DEEP, channels), OUTPUTS, tiles, cycles, tiles * SUMS)
    down, across = row_form(sizes)
    rows, columns = _up(sizes.channels * taps, SIDE * down) * down, _up(sizes.outputs, SIDE * across) * across
    tiles = rows * columns
    yield _Way(sizes.channels, 1, SIDE * across, tiles / 4, ROW_STEP[sizes.parts], tiles * SIDE * SIDE, by_rows=True)


def row_form(sizes: _Sizes) -> Form:
    """Tiles of sums of rows."""
    return NARROW if sizes.outputs <= SIDE else WIDE


def _sum_cut(sizes: _Sizes, taps: np.ndarray, step: tuple[int, int]) -> _SumCut | None:
    """The cheapest division; None where a row's bands are too large."""
    cuts = []
    for blocks in range(1, sizes.height + 1):
        tall = _up(sizes.height, blocks)
        if _up(sizes.height, tall) < blocks:
            continue
        for way in _ways(sizes, len(taps)):
            cuts += _sums_by_rows(sizes, taps, step, tall, way)
        if tall * sizes.width < BLOCK:
            break
    return min(cuts, key=lambda cut: cut.elapsed(sizes), default=None)


def _sums_by_rows(sizes: _Sizes, taps: np.ndarray, step: tuple[int, int], tall: int, way: _Way) -> list[_SumCut]:
    """Divisions into bands of so many rows."""
    table, place = plane_layout(taps.tobytes(), step, tall, sizes.width)
    area, line = place.phases_y * place.phases_x * place.rows * place.pitch, tall * place.pitch
    long, between = _up(line, DEEP) * DEEP, _up(area + place.pitch + DEEP, DEEP) * DEEP
    size = 2 * sizes.parts * (way.channels * between + way.outputs * long)
    if size > ROOM:
        return []
    bands = sizes.images * _up(sizes.height, tall)
    most = max(1, min(bands, ROOM // size, _up(PIXELS, line)))
    products = bands * (long // DEEP) * way.products * way.cycles
    outputs = _up(sizes.outputs, way.outputs) * way.outputs
    packing = bands * way.blocks * (way.channels * between + outputs * long) * TURNED
    cuts = []
    for group in sorted({min(most, _up(bands, ranges)) for ranges in range(1, SHARERS + 1)}):
        ranges = max(1, min(_up(bands, group), CHUNKS // (sizes.groups * way.blocks)))
        visits = _up(bands, group) * way.products * (VISITED if way.sums * 4 < ROOM else 4 * VISITED)
        cost = sizes.groups * (products + visits + packing + ranges * way.sums * JOINED)
        cuts.append(_SumCut(way, table, place, tall, long, between, group, ranges, cost))
    return cuts


def _measure_sums(
    x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: tuple[int, int], groups: int, depth: Depth = FLAT
) -> tuple[_Sizes, _SumCut | None]:
    """The sizes of a weight gradient, and how it is divided if tiles pay."""
    parts, channels = _PARTS.get(ELEMENTS.get(x.dtype, ""), 3), x.shape[1] * depth.layers // groups
    sizes = _Sizes(len(x) * depth.positions, groups, grad.shape[1] // groups, channels, grad.shape[-2], grad.shape[-1], parts)
    if not _has_tiles(x, table):
        return sizes, None
    cut = _sum_cut(sizes, table, step)
    return sizes, cut if cut is not None and cut.cost <= WORTH * sizes.plain_sums_cost(len(table)) else None


def least_sums_cost(x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: tuple[int, int], groups: int) -> float:
    """Cycles of a weight gradient, with tiles or without, whichever takes fewer."""
    sizes, cut = _measure_sums(x, grad, table, step, groups)
    return sizes.plain_sums_cost(len(table)) if cut is None else cut.cost * SUMS_TAKE


def weight_gradient(
    x: np.ndarray,
    grad: np.ndarray,
    table: np.ndarray,
    step: tuple[int, int],
    groups: int,
    shape: tuple[int, ...],
    other: Callable[[np.ndarray, np.ndarray], Sums],
    depth: Depth = FLAT,
) -> Sums | None:
    """Function of (x, grad) that computes a weight gradient of ``shape``; None where there are no tiles, or they do not pay.

    ``other`` makes of ``x`` and ``grad`` the function that computes it without tiles.
    """
    sizes, cut = _measure_sums(x, grad, table, step, groups, depth)
    if cut is None:
        return None
    launch = _sum_launches(x, grad, table, step, shape, sizes, cut, depth)
    otherwise: list[Sums] = []

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        result = launch(x, grad)
        if result is not None:
            return result
        if not otherwise:
            otherwise.append(other(x, grad))
        return otherwise[0](x, grad)

    return run


def _sum_launches(
    x: np.ndarray,
    grad: np.ndarray,
    table: np.ndarray,
    step: tuple[int, int],
    shape: tuple[int, ...],
    sizes: _Sizes,
    cut: _SumCut,
    depth: Depth,
) -> Callable[[np.ndarray, np.ndarray], np.ndarray | None]:
    """Function of (x, grad) that computes the weight gradient, or None where a number cannot be split."""
    way, parts, groups, dtype = cut.way, sizes.parts, sizes.groups, x.dtype
    bands = sizes.images * _up(sizes.height, cut.tall)
    split = _up(_up(bands, cut.group), cut.ranges) * cut.group
    ranges = _up(bands, split)
    apart = (_up(cut.group * cut.between, DEEP) | 1) * DEEP
    pixels = _up(parts * way.channels * apart, 2)
    planes = pixels + _up(parts * cut.group * cut.long * way.outputs, 2)
    plane = (_up(cut.between, LANES) | 1) * LANES
    scratch = Scratch(planes + SIDE * plane, _FLOAT32)
    values: dict[str, Any] = {
        "table": cut.table, "images": images_of(x, step, grad.shape[-2:], table, depth=depth), "grads": planes_of(grad),
        "place": cut.place, "pieces": scratch.pieces, "room_size": scratch.size, "pixels": pixels, "planes": planes, "plane": plane,
        "apart": apart, "between_bands": cut.between, "groups": groups, "channels": sizes.channels, "outputs": sizes.outputs,
        "channel_block": way.channels, "output_block": way.outputs, "tall": cut.tall, "long": cut.long, "group": cut.group, "split": split,
    }  # fmt: skip
    sees_whole_rows = _sees_whole_rows(x, table, step, cut.place, grad, depth)
    modes = _mode(x, step[1], sees_whole_rows), _mode(grad, 1, cut.place.pitch == grad.shape[-1])
    kind, chunks = (ELEMENTS[dtype], parts, *modes), ranges * groups * way.blocks
    if way.by_rows:
        form, wanted = row_form(sizes), sizes.channels * len(table)
        rows = _up(wanted, SIDE * form[0]) * SIDE * form[0]
        starts = (np.arange(sizes.channels)[:, None] * apart + cut.table[:, 0]).ravel()
        distances = np.concatenate([starts, np.full(rows - wanted, starts[-1])])  # of rows behind the last one nothing is kept
        multiply = tiles_of_rows(*kind, form).bind(chunks, **values, distances=distances, rows=rows)
        join = join_rows(*kind[:2], SIDE * form[1]).bind(
            groups * _up(sizes.outputs, SIDE), groups=groups, outputs=sizes.outputs, rows=rows, wanted=wanted, ranges=ranges
        )
    else:
        multiply = tiles_of_gradients(*kind).bind(chunks, **values)
        join = join_tiles(*kind[:2]).bind(
            groups * sizes.strips, groups=groups, channels=sizes.channels, outputs=sizes.outputs, taps=len(table), ranges=ranges
        )

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray | None:
        sums, flag, result = empty((ranges * groups * way.sums,), _FLOAT32), np.zeros(1, np.int64), empty(shape, dtype)
        flags, room = scratch.take()
        multiply(source=x, grad=grad, partial=sums, flag=flag, flags=flags, room=room)
        if flag[0]:
            return None
        join(partial=sums, out=result)
        return result

    return run
