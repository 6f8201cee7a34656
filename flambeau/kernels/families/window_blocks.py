"""Divisions of convolutions into blocks: which pixels and channels are packed at once for the products of ``windows``.

Constants are of one core's caches; costs are counted in multiplications.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..compiler import target as targets
from ..compiler.language import ELEMENTS
from ..compiler.memory import empty
from .microkernel import (
    FLAT,
    Depth,
    Place,
    Scratch,
    images_of,
    mode_of,
    plane_layout,
    store_mode,
    store_strides,
    strides_of,
    tile_width,
)  # fmt: skip
from .windows import PIXELS, further_rows, join_partial, pack_weight, sums_tile, windows_times_grad, windows_times_weight

DEPTH = 576  # rows of a panel: a strip of factors (18 KB) stays in the first-level cache
BAND = 1024  # pixels of a band, at least
SUM_DEPTH, SUM_PIXELS = 144, 512  # the same of the weight gradient, whose panels are read once for each few outputs
ROOM = 1 << 20  # bytes of a band, at most: rows of very wide images are packed as panels
CHUNKS = 8  # that many chunks at least, where there is work enough for them
Pair = tuple[int, int]  # of the rows and of the columns
Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]


def table_of(taps: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(taps, np.int64).reshape(-1, 3)


class LeftToOthersError(Exception):
    """There is no kernel for these numbers or sizes."""


@lru_cache(maxsize=1024)
def window_table(size: Pair, padding: Pair, dilation: Pair, by: Pair) -> np.ndarray:
    """Taps of a window: where each lies, and where its weight; ``by`` are the weight's strides."""
    (py, px), (ey, ex) = padding, dilation
    return table_of([(y * ey - py, x * ex - px, y * by[0] + x * by[1]) for y in range(size[0]) for x in range(size[1])])


_CENTRE = table_of([(0, 0, 0)])
_NOWHERE = Place(y0=0, x0=0, rows=0, pitch=0, step_y=0, step_x=0, phases_y=0, phases_x=0)  # of panels, which have no use for it


def _band_costs(line: int, width: int, outputs: int, count: int) -> float:
    """Cost of a pixel, in units of its multiplications, if rows are packed as they are: pixels between rows are computed, too."""
    return line / width * (1 + 8 / (outputs * count))


def _panel_costs(x: np.ndarray, width: int, outputs: int) -> float:
    """The same if panels are packed: some 6 cycles a register, where a multiplication takes one.

    More if the planes lie multiples of 4 KB apart, so that all of them compete for the same few lines of the first-level cache.
    """
    return 1 + (18 if x.strides[1] % 4096 == 0 else 6) * max(1, 16 / width) / outputs


def _even(total: int, most: int) -> int:
    """The size of equal parts of ``total``, none larger than ``most``."""
    return -(-total // -(-total // max(1, min(most, total))))


def _spread_over_sets(elements: int) -> int:
    """As many elements or some more, so that lines of different channels lie in different sets of the cache."""
    return (-(-elements // 16) | 1) * 16


# -- products: forward, and the input gradient ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Cut:
    """Division of the pixels of a product into blocks; lengths are in elements.

    Attributes:
        place, table: of a band, and of the distances in it; ``_NOWHERE`` for panels.
        size: of the packed block.
        pixels, pixel_block: as the kernel counts them.
        blocks: how many there are.
        line: pixels that lie side by side in the result.
        apart: from a channel's band to the next one's.
        group: images whose pixels are taken row by row.
    """

    place: Place
    table: np.ndarray
    size: int
    pixels: int
    pixel_block: int
    blocks: int
    line: int
    apart: int = 0
    group: int = 1


@dataclass(frozen=True, slots=True)
class _Product:
    """``out[n, g o, y, x] = bias + sum of x[n, g c, y step + dy, x step + dx] * weight[...]`` for one table of taps.

    Attributes:
        block: channels that are packed at once.
        panel: pixels of a tile.
        depth: of windows of volumes, which are packed as bands only.
    """

    x: np.ndarray
    out: np.ndarray
    table: np.ndarray
    step: Pair
    groups: int
    block: int
    panel: int
    depth: Depth

    def cut(self) -> _Cut:
        return self._bands() or self._panels()

    @property
    def images(self) -> int:
        return len(self.out) * self.depth.positions

    def _group(self) -> int:
        """Images whose pixels are taken row by row, where windows overhang the image above or below."""
        height, width = self.out.shape[-2:]
        overhangs = any(dy < 0 or (height - 1) * self.step[0] + dy >= self.x.shape[-2] for dy in self.table[:, 0].tolist())
        return min(self.images, -(-self.panel // width)) if overhangs else 1

    def _bands(self) -> _Cut | None:
        """Blocks of rows of an image; None where panels cost less, or a row is too wide."""
        n, outputs, (height, width), count = self.images, self.out.shape[1], self.out.shape[-2:], len(self.table)
        if not count:
            return None
        line = plane_layout(self.table.tobytes(), self.step, height, width)[1].pitch
        outputs //= self.groups
        rows_seen = 1 - (self._group() > 1) * min(0.3, 0.7 / height)  # panels of a few rows leave out taps that meet no row
        quantum = -(-height * line // self.panel) * self.panel / (height * line)
        if _band_costs(line, width, outputs, count) * quantum >= _panel_costs(self.x, width, outputs) * rows_seen:
            return None
        tall = _even(height, -(-BAND // line))
        while tall > 8 and n * self.groups * -(-height // tall) < CHUNKS:
            tall = -(-tall // 2)
        table, place = plane_layout(self.table.tobytes(), self.step, tall, width)
        apart = _spread_over_sets(place.phases_y * place.phases_x * place.rows * line)
        size = self.block * apart + self.panel + line + targets.current().width // self.x.itemsize
        if size * self.x.itemsize > ROOM:
            return None
        return _Cut(place, table, size, height * line, tall * line, n * -(-height // tall), line, apart)

    def _panels(self) -> _Cut:
        """Blocks of any pixels.

        Raises:
            LeftToOthersError: of volumes.
        """
        if self.depth is not FLAT:
            raise LeftToOthersError
        (n, _, height, width), group, panel = self.out.shape, self._group(), self.panel
        pixels = n * height * width
        pixel_block = min(PIXELS // panel * panel or panel, -(-pixels // panel) * panel)
        while pixel_block > panel and self.groups * -(-pixels // pixel_block) < CHUNKS:
            pixel_block -= panel
        size = pixel_block * self.block * len(self.table) + targets.current().width // self.x.itemsize
        is_one_line = store_mode(self.out) == "row" and group == 1 and (strides_of(self.out)[2] == width or height == 1)
        line = height * width if is_one_line else width
        return _Cut(_NOWHERE, _CENTRE, size, pixels, pixel_block, -(-pixels // pixel_block), line, group=group)


def _rows(outputs: int, registers: int) -> int:
    """Outputs of a strip: as many as registers hold, fewer where there are fewer."""
    return 4 if outputs <= 4 else 6 if outputs <= 6 or registers < 32 else 8


def product(
    x: np.ndarray,
    by_weight: tuple[int, int, int],
    table: np.ndarray,
    step: Pair,
    out: np.ndarray,
    groups: int,
    channels: int,
    depth: Depth = FLAT,
) -> Callable[..., None]:
    """Function of (x, weight, out, bias) that computes a ``_Product``.

    ``by_weight`` are the weight's strides from group to group, output to output and channel to channel.
    """
    element, dtype, count = ELEMENTS[x.dtype], x.dtype, len(table)
    outputs, target = out.shape[1] // groups, targets.current()
    rows = _rows(outputs, target.registers)
    strips, block = -(-outputs // rows), _even(channels, DEPTH // max(1, count))
    panel = tile_width(target, rows) * (target.width // x.itemsize)
    cut = _Product(x, out, table, step, groups, block, panel, depth).cut()
    strip_block = max(1, -(-strips // max(1, CHUNKS // (groups * cut.blocks))))
    factors_shape, scratch = (groups * strips * rows * channels * count,), Scratch(cut.size, dtype)
    pack = pack_weight(element, rows).bind(
        groups * strips, taps=table, count=count, channels=channels, block=block, outputs=outputs,
        by_group=by_weight[0], by_output=by_weight[1], by_channel=by_weight[2],
    )  # fmt: skip
    mode = store_mode(out)
    multiply = windows_times_weight(element, mode_of(x, step[1]), mode, rows, cut.place is not _NOWHERE).bind(
        groups * cut.blocks * -(-strips // strip_block), table=cut.table, place=cut.place,
        images=images_of(x, step, out.shape[-2:], table, cut.group, depth), pieces=scratch.pieces, room_size=scratch.size, apart=cut.apart,
        channels=channels, block=block, outputs=outputs, pixels=cut.pixels, pixel_block=cut.pixel_block, strip_block=strip_block,
        line=cut.line, to=store_strides(out, mode),
    )  # fmt: skip

    def run(x: np.ndarray, weight: np.ndarray, out: np.ndarray, bias: np.ndarray) -> None:
        factors = empty(factors_shape, dtype)
        pack(weight=weight, target=factors)
        flags, room = scratch.take()
        multiply(source=x, out=out, factors=factors, bias=bias, flags=flags, room=room)

    return run


# -- sums of products: the weight gradient ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _SumCut:
    """Division of the pixels of a weight gradient into blocks; lengths are in elements.

    Attributes:
        place, table: of a band, and of the distances in it; ``_NOWHERE`` for panels.
        block: channels that are packed at once.
        pixels, pixel_block: as the kernel counts them; ``unit``: of what a range of pixels is a multiple.
        pitch: from a packed line to the next one.
        room: of the packed images.
        apart: from a channel's band to the next one's.
    """

    place: Place
    table: np.ndarray
    block: int
    pixels: int
    pixel_block: int
    unit: int
    pitch: int
    room: int
    apart: int = 0


def _pitch(length: int, lanes: int) -> int:
    """From a line of packed pixels to the next one; as in ``windows_times_grad``."""
    return length // lanes * lanes + 2 * lanes


def _sum_bands(x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: Pair, groups: int, depth: Depth) -> _SumCut | None:
    """Blocks of rows of an image; None where panels cost less, or a row is too wide."""
    n, outputs, (height, width), count = len(grad) * depth.positions, grad.shape[1], grad.shape[-2:], len(table)
    outputs, lanes = outputs // groups, targets.current().width // x.itemsize
    line = plane_layout(table.tobytes(), step, height, width)[1].pitch
    if _band_costs(line, width, outputs, count) >= _panel_costs(x, width, outputs):
        return None
    block, tall = _even(x.shape[1] * depth.layers // groups, 2 * SUM_DEPTH // count), min(height, -(-SUM_PIXELS // line))
    offsets, place = plane_layout(table.tobytes(), step, tall, width)
    apart = _spread_over_sets((place.phases_y * place.phases_x * place.rows + further_rows(line, lanes)) * line)
    room = block * apart + line + lanes
    if room * x.itemsize > ROOM:
        return None
    return _SumCut(place, offsets, block, n * -(-height // tall), tall, 1, _pitch(tall * line, lanes), room, apart)


def _sum_panels(x: np.ndarray, grad: np.ndarray, count: int, groups: int, depth: Depth) -> _SumCut:
    """Blocks of any pixels.

    Raises:
        LeftToOthersError: of volumes.
    """
    if depth is not FLAT:
        raise LeftToOthersError
    lanes, columns = targets.current().width // x.itemsize, sums_tile(targets.current())[1]
    block, pixels = _even(x.shape[1] // groups, SUM_DEPTH // count), grad.size // grad.shape[1]
    unit = -(-_even(pixels, SUM_PIXELS) // lanes) * lanes
    pitch = _pitch(unit, lanes)
    return _SumCut(_NOWHERE, _CENTRE, block, pixels, unit, unit, pitch, -(-block * count // columns) * columns * pitch)


def sums(x: np.ndarray, grad: np.ndarray, table: np.ndarray, step: Pair, groups: int, shape: tuple[int, ...], depth: Depth = FLAT) -> Sums:
    """Function of (x, grad) that computes a weight gradient of ``shape``."""
    element, dtype, count = ELEMENTS[x.dtype], x.dtype, len(table)
    channels, outputs = x.shape[1] * depth.layers // groups, grad.shape[1] // groups
    target = targets.current()
    lanes, (rows, columns) = target.width // dtype.itemsize, sums_tile(target)
    cut = _sum_bands(x, grad, table, step, groups, depth) or _sum_panels(x, grad, count, groups, depth)
    blocks, units = groups * -(-channels // cut.block), -(-cut.pixels // cut.unit)
    split = -(-units // max(1, min(units, CHUNKS // blocks))) * cut.unit
    splits, output_tiles = -(-cut.pixels // split), -(-outputs // rows)
    output_block = min(16, output_tiles) * rows
    apart = blocks * output_tiles * -(-cut.block * count // columns) * (-(-rows * columns // lanes) * lanes)
    scratch = Scratch(cut.room + output_block * cut.pitch, dtype)
    out, planes = grad.shape[-2:], Depth(depth.positions)
    multiply = windows_times_grad(element, mode_of(x, step[1]), mode_of(grad, 1), cut.place is not _NOWHERE).bind(
        splits * blocks, table=cut.table, images=images_of(x, step, out, table, depth=depth),
        grads=images_of(grad, (1, 1), out, _CENTRE, depth=planes),
        place=cut.place, pieces=scratch.pieces, room_size=scratch.size, room_panel=cut.room, between_channels=cut.apart,
        channels=channels, block=cut.block, outputs=outputs, output_block=output_block, pixels=cut.pixels, pixel_block=cut.pixel_block,
        split=split, apart=apart,
    )  # fmt: skip
    join = join_partial(element).bind(
        blocks * output_tiles, count=count, channels=channels, block=cut.block, outputs=outputs, splits=splits, apart=apart
    )

    def run(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        partial, result = empty((splits * apart,), dtype), empty(shape, dtype)
        flags, room = scratch.take()
        multiply(source=x, grad=grad, partial=partial, flags=flags, room=room)
        join(partial=partial, out=result)
        return result

    return run
