"""Factors of products in tile registers: float32 numbers as sums of bfloat16 numbers, which are what tiles multiply.

``split_products`` says how many products of such parts there are and how exact their sum is. Here the parts are made of registers on the
way to whatever place their tiles have. Numbers are scaled by ``SCALE``, so that no part is a subnormal number, and sums are scaled back;
whoever packs numbers keeps the largest of their ``sizes`` in mind, and those of ``LARGEST`` or above are left to other kernels.

bfloat16 numbers have one part, which is not scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..compiler.language import Builder, Value
from .tile_registers import TileRegisters

SIDE = 16  # rows of a tile, and sums in each
DEEP = 32  # numbers of each of a tile's rows that are multiplied
BLOCK = 2 * SIDE  # rows and columns of the sums in four tiles
TILE = SIDE * DEEP  # numbers of a tile
SCALE = 2.0**24
LARGEST = 0x4F800000  # the bits of 2.0**32
INFINITE = 0x7F800000
Form = tuple[int, int]  # tiles of sums, down and across; with those of both factors at most eight
SQUARE = (2, 2)
ORDER = {  # parts of both factors: few tiles are loaded twice
    1: ((0, 0),),
    3: ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)),
}


def parts_of(k: Builder, value: Value, parts: int) -> list[Value]:
    """The bits of the float32 numbers that ``value``'s parts are; those of one part, or of the last, need no rounding."""
    if parts > 1:
        value = value * SCALE
    found = []
    for _ in range(parts - 1):
        part = (k.bits(value, "u32") + 0x8000) & 0xFFFF0000
        found.append(part)
        value = value - k.bits(part, "f32")
    return [*found, k.bits(value, "u32")]


def pairs_of(k: Builder, even: Value, odd: Value, parts: int) -> list[Value]:
    """Of each part 32-bit numbers: the bfloat16 number of ``even``, and in the upper half that of ``odd``."""
    both = zip(parts_of(k, even, parts), parts_of(k, odd, parts), strict=True)
    return [(low >> 16) | high for low, high in both]


def row_of(k: Builder, part: Value) -> Value:
    """The bfloat16 numbers of a part, one behind the other."""
    return k.cast(part >> 16, "u16")


def size_of(k: Builder, value: Value) -> Value:
    """Bits that are the larger, the larger the number's size is; ``INFINITE`` or above where it is not finite."""
    return k.bits(value, "u32") & 0x7FFFFFFF


def note_size(k: Builder, largest: Value, bound: int, flag: Value) -> None:
    """Set the number at ``flag`` where one of the sizes reaches the bound."""
    k.when(k.any(largest >= bound), lambda: k.store(k.const(1, "i64"), flag, 0, "i64"))


@dataclass(frozen=True, slots=True)
class Operand:
    """Tiles of each part of a factor, the first one's at ``start``, counted in elements; rows ``pitch`` bytes apart."""

    start: Value
    element: str
    by_part: Value | int
    by_tile: Value | int
    pitch: Value | int

    def at(self, k: Builder, part: int, tile: int) -> Value:
        at = k.at(self.start, self.by_part * part, self.element) if part else self.start
        return k.at(at, self.by_tile * tile, self.element) if tile else at


def add_products(
    tiles: TileRegisters,
    parts: int,
    first: Operand,
    second: Operand,
    meanwhile: Callable[[int], None] | None = None,
    form: Form = SQUARE,
) -> None:
    """Add the products of the first factor's rows with the second one's columns, 32 and 32 or as ``form`` says, to the sums in tiles 0 on.

    ``meanwhile(i)`` writes what is to be done between them, before the ``i``-th of ``ORDER``.
    """
    held, begin = [-1, -1], (form[0] * form[1], form[0] * (form[1] + 1))
    for i, pair in enumerate(ORDER[parts]):
        if meanwhile is not None:
            meanwhile(i)
        for side, operand in enumerate((first, second)):
            if held[side] != pair[side]:
                held[side] = pair[side]
                for tile in range(form[side]):
                    tiles.load(begin[side] + tile, operand.at(tiles.k, pair[side], tile), operand.pitch)
        for tile in range(begin[0]):
            tiles.add_product(tile, begin[0] + tile // form[1], begin[1] + tile % form[1])


def load_sums(tiles: TileRegisters, pointer: Value, form: Form = SQUARE) -> None:
    """Fill tiles 0 on with sums whose rows lie one behind the other."""
    for tile in range(form[0] * form[1]):
        tiles.load(tile, _sums_at(tiles.k, pointer, tile, form), 4 * SIDE * form[1])


def store_sums(tiles: TileRegisters, pointer: Value, form: Form = SQUARE) -> None:
    for tile in range(form[0] * form[1]):
        tiles.store(tile, _sums_at(tiles.k, pointer, tile, form), 4 * SIDE * form[1])


def _sums_at(k: Builder, pointer: Value, tile: int, form: Form) -> Value:
    down, across = divmod(tile, form[1])
    return k.at(pointer, (down * SIDE * form[1] + across) * SIDE, "f32")
