"""Products of float32 matrices by the processor's tiles of bfloat16 (AMX): at float32's accuracy, and quicker than float32 itself.

A float32 number is the sum of three bfloat16 numbers, each the nearest to what is left; their products add up in float32:

    x = high + middle + low                 8 + 8 + 8 bits
    a b = low high + middle high            what is left out, middle low + low middle + low low,
        + middle middle + high middle       is below 2**-24 |a b|, in the mean 2**-27
        + high low + high high

    packed     both operands in blocks of ``LINES`` rows of the first, or columns of the second, and ``DEPTH`` numbers of the sums: for
               each of the three parts two tiles, whose rows have a cache line each. Numbers i and i + 16 of a sum make a pair.
    split      packs an operand, whichever way it lies, and notes the largest size that it met
    product    blocks of 32 by 32 sums in four tiles, parts of a few blocks down and across
    whole      both, for batches and small matrices: each part packs its own operands, into memory that stays in the second cache
    panels     the smaller operand is packed before; a part has some blocks of the other's, each of which it packs beside the products of
               the one before it, or a slab of all of them beside the slab before it; and all of the first's

Packed operands have 6 bytes a number. Where a slab of the smaller one does not fit the second cache, both are packed before; where they are
larger than ``ROOM``, some matrices of a batch, or some slabs of the sums, are packed and multiplied before others. The kernels are in
``split_kernels``.

Operands are scaled by ``2**24`` each and the sums back: then no part of any float32 number is subnormal, which these instructions would
take for zero, and none of the sums but what float32 has no number for. Where a size is ``2**32`` or above, infinite or NaN, the product
is the library's, called from the same kernel: so a product is the same launches whatever its operands hold.

Where ``torch.set_float32_matmul_precision`` asks for no more than "medium", numbers have one part, with an error of ``2**-8`` of each
product.

``plan`` gives the launches for matrices of given layouts, ``pays`` says for which sizes they are worth it; callers with arrays call
``gemm.multiply`` or ``multiply_into``, which ask both. The order of additions follows from the sizes alone, not from threads.

Error: at most ``(n / 5 + 20) u |a| @ |b|`` for n terms, ``u = 2**-24``: sixteen products are added in one chain, two such chains to each
other and then to the sum, six times for 32 terms. For normal numbers that is half of the library's error, for sums that few products
outweigh about the same. Products of whole numbers are exact where ``|a| @ |b|`` is below ``0.98 * 2**24``.

Source: Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import ml_dtypes
import numpy as np

from ..compiler.memory import empty
from ..compiler.pool import pool
from .split_kernels import DEPTH, LINES, PART, SHARES, Product, split, split_panels, split_product, split_whole
from .tile_parts import ORDER
from .tile_registers import ROW

PARTS = {"highest": 3, "high": 3, "medium": 1}  # of a number, by the precision that float32 products are to have
SLAB = 24  # steps of ``DEPTH`` numbers whose sums stay in tiles, at most
SHORT = 4  # the same where the next slab of a panel is packed meanwhile
SIDE = 4  # blocks of a part down and across: both operands' slabs fit the second cache
FIT = 170  # blocks times steps, 6 KB each, that are packed and multiplied before others: they stay in the second cache
ALONE = 1 << 24  # multiply-adds of a product that is cut into halves at most
FEW = 8  # parts of a product that are cut smaller
LEAST = 1 << 20  # multiply-adds of a part, at least
# Picoseconds of a product's launches and of a number to pack, where each part packs its own, else into the second cache or outside of it;
# of a block and of its steps; of an operation on a result; of a multiply-add elsewhere, in kernels or by the library, less what these gain
# more by a second thread: most beside a product that is cut into halves.
STARTED, PACKED, CLOSE = (1_500_000, 5_000_000, 5_000_000), (200, 250, 450), 1 << 18
BLOCK_STORED, BLOCK_MULTIPLIED, FINISHED = 100_000, 142_000, 250
OTHER_OF_HALVES, OTHER, OTHER_BY_LIBRARY, LIBRARY = 8.5, 9.5, 12.8, 1 << 25
CHUNK = 32  # blocks by steps of a chunk of packing
ROOM = 1 << 25  # bytes of packed operands, unless one slab of one product has more
NARROWEST = 2  # blocks of the smaller operand of panels: beside fewer products, packing is what takes the time
SHARED = 256  # blocks times steps of a slab that all blocks of a panel meet
_NARROW = np.dtype(ml_dtypes.bfloat16)


class Layout(NamedTuple):
    """Layout of an operand's matrices: CBLAS's word, its leading dimension, steps to the next row and column, and in the batch."""

    form: int
    pitch: int
    row: int
    column: int
    outer: int
    inner: int


def _up(size: int, step: int) -> int:
    return -(-size // step)


def _slab(inner: int, most: int = SLAB) -> int:
    """Steps of a slab; all have about as many."""
    steps = _up(inner, DEPTH)
    return _up(steps, _up(steps, most))


def _is_whole(m: int, n: int, inner: int, count: int) -> bool:
    """Whether each of ``count`` products is one part, which packs its operands itself."""
    return (_up(m, LINES) + _up(n, LINES)) * _slab(inner) <= FIT and (count > 1 or m * n * inner <= ALONE)


def _own(m: int, n: int, inner: int, count: int) -> int | None:
    """The operand whose blocks panels have, the larger one; None where the other one has too many blocks for that, or too few."""
    blocks = min(_up(m, LINES), _up(n, LINES))
    fits = blocks * _slab(inner) <= SHARED and count * blocks * _up(inner, DEPTH) * 3 * PART * 4 <= ROOM
    return int(n > m) if fits and blocks >= NARROWEST else None


def pays(m: int, n: int, inner: int, count: int = 1, finishes: bool = False, parts: int = 3) -> bool:
    """Whether products of these sizes take less time than by other kernels, or by the library; measured on Sapphire Rapids.

    Args:
        finishes: whether the other kernels do more with the results before these are in memory.
    """
    own, other = picoseconds(m, n, inner, count, parts)
    return min(m, n, inner) >= 16 and own + (FINISHED * m * n if finishes else 0) < other


def picoseconds(m: int, n: int, inner: int, count: int = 1, parts: int = 3) -> tuple[float, float]:
    """Time of one of ``count`` products on one core, and its time by other kernels, or by the library."""
    blocks, work, packed = _up(m, LINES) * _up(n, LINES), m * n * inner, (m + n) * inner
    other = OTHER_BY_LIBRARY if work > LIBRARY else OTHER_OF_HALVES if count == 1 and _is_whole(m, n, inner, 1) else OTHER
    by_place = 0 if _is_whole(m, n, inner, count) else 1 if packed <= CLOSE or _own(m, n, inner, count) is not None else 2
    multiplied = BLOCK_STORED * blocks + BLOCK_MULTIPLIED * blocks * _up(inner, DEPTH) * len(ORDER[parts]) // len(ORDER[3])
    return STARTED[by_place] // count + multiplied + PACKED[by_place] * packed, other * work


def _halves(m: int, n: int, inner: int, count: int) -> tuple[int, int]:
    """Blocks of a part, down and across, of products whose parts pack their operands themselves; by the sizes alone."""
    height, width = _up(m, LINES), _up(n, LINES)
    pieces = 1 if count > 1 or m * n * inner < LEAST else 2
    return (height, _up(width, pieces)) if width >= height else (_up(height, pieces), width)


def _cut(m: int, n: int, inner: int) -> tuple[int, int]:
    """Blocks of a part, down and across; by the sizes alone."""
    down, across = _up(m, LINES), _up(n, LINES)
    height, width = min(down, SIDE), min(across, SIDE)
    while _up(down, height) * _up(across, width) < FEW and height * width > max(2 * LEAST // (LINES * LINES * inner), 1):
        if height > width:
            height = _up(height, 2)
        else:
            width = _up(width, 2)
    return height, width


def _is_by_columns(a: Layout, b: Layout, sizes: tuple[int, int, int], count: int, has_bias: bool) -> bool:
    """Whether both factors are exchanged, and the result lies column by column, so that the larger one's numbers need not be turned.

    So it is with the gradients of weights, over many rows: what is not turned is packed beside products.
    """
    is_long = _up(sizes[2], DEPTH) > SLAB and not _is_whole(*sizes, count)
    return is_long and not has_bias and a.column != 1 and b.row != 1 and _own(*sizes, count) == 0


def _panel(lines: int, slab: int, is_ahead: bool) -> int:
    """Blocks of a panel, whose slab fits the second cache: so many that the busier one of two threads has few.

    ``is_ahead``: the next slab is packed meanwhile, out of rows that are the quicker to read the longer they are.
    """
    blocks = _up(lines, LINES)
    pieces = 2 if is_ahead else max(min(blocks // SIDE, FEW), 2)
    most = max(min(FIT // (2 * slab if is_ahead else slab), _up(blocks, pieces)), 1)

    def longest(size: int) -> int:
        pairs, rest = divmod(blocks, 2 * size)
        return pairs * size + min(rest, size)

    return min(range(max(most // 2, 1), most + 1), key=lambda size: (longest(size), -size))


def plan(
    a: Layout, b: Layout, sizes: tuple[int, int, int], batch: tuple[int, int], function: int, has_bias: bool, parts: int = 3
) -> Callable[..., None]:
    """Function ``launch(a, b, c[, bias])``: products of matrices of these ``sizes``, so many as both dimensions of ``batch`` say.

    Args:
        sizes: rows of a, columns of b, and the numbers of a sum.
        function: the library's ``sgemm``.
        parts: of each number, see ``PARTS``.
    """
    by_columns = _is_by_columns(a, b, sizes, batch[0] * batch[1], has_bias)
    if by_columns:
        a, b = b._replace(row=b.column, column=b.row), a._replace(row=a.column, column=a.row)
        sizes = sizes[1], sizes[0], sizes[2]
    m, n, inner = sizes
    steps, down, across = (_up(size, step) for size, step in ((inner, DEPTH), (m, LINES), (n, LINES)))
    is_whole, own = _is_whole(*sizes, batch[0] * batch[1]), _own(*sizes, batch[0] * batch[1])
    is_ahead = not is_whole and own == 1 and b.row != 1 and steps > SLAB
    slab = _slab(inner, SHORT if is_ahead else SLAB)
    if is_whole:
        height, width = _halves(m, n, inner, batch[0] * batch[1])
    elif own is None:
        height, width = _cut(m, n, inner)
    else:
        panel = _panel((m, n)[own], slab, is_ahead)
        height, width = (panel, across) if own == 0 else (down, panel)
    parts_across = _up(across, width)
    count = parts_across * _up(down, height)
    units = batch[0] * batch[1] * count
    product = Product(
        function=function, form_x=a.form, form_y=b.form, pitch_x=a.pitch, pitch_y=b.pitch, row_x=a.row, column_y=b.column,
        heads=batch[1], outer_x=a.outer, inner_x=a.inner, outer_y=b.outer, inner_y=b.inner,
        m=m, n=n, inner=inner, before=0, steps=steps, slab=slab, down=down, across=across, height=height, width=width,
        parts=count, parts_across=parts_across, batch=0, units=units, per_chunk=max(1, LEAST // (m * n * inner)) if count == 1 else 1,
    )  # fmt: skip
    along = a.column == 1, b.row == 1
    if is_whole or own is None:
        return (_whole if is_whole else _packed)(along, product, has_bias, parts)
    launch = _panels(own, along, product, has_bias, parts, is_ahead, by_columns)
    return (lambda a, b, c: launch(b, a, c)) if by_columns else launch


def _packed(along: tuple[bool, bool], p: Product, has_bias: bool, parts: int) -> Callable[..., None]:
    """Launches that pack the operands, or parts of them, and multiply these."""
    count, step = p.units // p.parts, (p.down + p.across) * parts * PART * 4
    steps = min(p.steps, max(ROOM // step // p.slab, 1) * p.slab)
    matrices = min(count, max(ROOM // (step * steps), 1))
    sizes = [blocks * matrices * steps * parts * PART for blocks in (p.down, p.across)]
    launches, most = [], [0, 0]  # notes
    for batch in range(0, count, matrices):
        number, notes = min(matrices, count - batch), [0, 0]
        for before in range(0, p.steps, steps):
            some = p.replace(before=before, steps=min(steps, p.steps - before), batch=batch, units=number * p.parts)
            packings = []
            for is_second, size in enumerate(sizes):
                pack, chunks = _packing(some, number, along[is_second], bool(is_second), parts, size + notes[is_second])
                packings.append(pack)
                notes[is_second] += chunks
            multiply = split_product(has_bias, parts).bind(
                _up(some.units, p.per_chunk), product=some, size_a=sizes[0], size_b=sizes[1], notes_a=notes[0], notes_b=notes[1],
                is_last=before + some.steps == p.steps,
            )  # fmt: skip
            launches.append((*packings, multiply))
        most = [max(pair) for pair in zip(most, notes, strict=True)]
    bytes_a, bytes_b = (4 * (size + number) + ROW for size, number in zip(sizes, most, strict=True))

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        left, right = empty((bytes_a // 2,), _NARROW), empty((bytes_b // 2,), _NARROW)
        for pack_a, pack_b, multiply in launches:
            pack_a(source=x, packed=left)
            pack_b(source=y, packed=right)
            if bias:
                multiply(a=left, b=right, x=x, y=y, c=c, bias=bias[0])
            else:
                multiply(a=left, b=right, x=x, y=y, c=c)

    return run


def _panels(
    own: int, along: tuple[bool, bool], p: Product, has_bias: bool, parts: int, is_ahead: bool, by_columns: bool
) -> Callable[..., None]:
    """A launch that packs the smaller operand, and one for panels of the other."""
    count, other = p.units // p.parts, 1 - own
    packed = count * (p.down, p.across)[other] * p.steps * parts * PART
    blocks = (p.height, p.width)[own]
    size = (2 * blocks if is_ahead else max(blocks, 2)) * p.slab * parts * PART
    if is_ahead:
        size += blocks * (p.down, p.across)[other] * 2 * PART  # sums
    pack, notes = _packing(p, count, along[other], bool(other), parts, packed)
    shares = SHARES if (p.down, p.across)[other] >= SHARES else NARROWEST
    chunks, bytes_packed = _up(p.units, p.per_chunk), 4 * (packed + notes) + ROW
    bound = split_panels(own, along[own], has_bias, parts, shares, by_columns)

    @lru_cache
    def launching(pieces: int) -> Callable[..., None]:
        launch: Callable[..., None] = bound.bind(chunks, product=p, size_packed=packed, notes=notes, pieces=pieces, size=size)
        return launch

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        pieces = min(pool.threads, chunks)
        shared, scratch = empty((bytes_packed // 2,), _NARROW), empty((pieces * 2 * size + ROW // 2,), _NARROW)
        flags = np.zeros(8 * pieces, np.int64)
        pack(source=(x, y)[other], packed=shared)
        if bias:
            launching(pieces)(packed=shared, x=x, y=y, c=c, bias=bias[0], scratch=scratch, flags=flags)
        else:
            launching(pieces)(packed=shared, x=x, y=y, c=c, scratch=scratch, flags=flags)

    return run


def _packing(p: Product, count: int, along: bool, is_second: bool, parts: int, notes: int) -> tuple[Callable[..., None], int]:
    """The launch that packs ``p``'s steps of so many matrices, and its chunks; their notes go to ``notes``."""
    lines, blocks, pitch = (p.n, p.across, p.pitch_y) if is_second else (p.m, p.down, p.pitch_x)
    outer, inner = (p.outer_y, p.inner_y) if is_second else (p.outer_x, p.inner_x)
    first, units = p.before * DEPTH, count * blocks * p.steps
    numbers = {
        "inner": p.inner - first, "lines": lines, "pitch": pitch, "start": first if along else first * pitch, "batch": p.batch,
        "heads": p.heads, "outer_step": outer, "inner_step": inner, "blocks": blocks, "steps": p.steps, "notes": notes, "units": units,
        "per_chunk": CHUNK,
    }  # fmt: skip
    chunks = _up(units, CHUNK)
    return split(along, is_second, parts).bind(chunks, **numbers), chunks


def _whole(along: tuple[bool, bool], p: Product, has_bias: bool, parts: int) -> Callable[..., None]:
    """One launch for all."""
    size, chunks = (p.height + p.width) * p.slab * parts * PART, _up(p.units, p.per_chunk)
    bound = split_whole(along, has_bias, parts)

    @lru_cache
    def launching(pieces: int) -> Callable[..., None]:
        launch: Callable[..., None] = bound.bind(chunks, product=p, pieces=pieces, size=size)
        return launch

    def run(x: np.ndarray, y: np.ndarray, c: np.ndarray, *bias: np.ndarray) -> None:
        pieces = min(pool.threads, chunks)
        scratch, flags = empty((pieces * 2 * size + ROW // 2,), _NARROW), np.zeros(8 * pieces, np.int64)
        if bias:
            launching(pieces)(x=x, y=y, c=c, bias=bias[0], scratch=scratch, flags=flags)
        else:
            launching(pieces)(x=x, y=y, c=c, scratch=scratch, flags=flags)

    return run
