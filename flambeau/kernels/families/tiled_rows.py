"""The weight gradients of convolutions of few channels in tile registers.

    sums[(channel, tap), output]  +=  image[channel, pixel + tap]  *  grad[pixel, output]

As in ``tiled_gradients``, but tiles have a row for each pair of channel and tap, so that few channels fill them. As such rows begin
anywhere in a band, those of the next 32 pixels are copied one behind the other while these are multiplied.
"""

from __future__ import annotations

from functools import partial

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from .tile_parts import DEEP, ORDER, SCALE, SIDE, Form, Operand, add_products, load_sums, store_sums
from .tiled_gradients import GradientArguments, GradientTiles
from .tiles import transposed

NARROW, WIDE = (3, 1), (2, 2)  # forms for up to 16 outputs, and for more


class RowArguments(GradientArguments):
    distances: Array  # from a band's beginning to that of each row, in pixels; rows up to a multiple of those of a form
    rows: Integer  # how many


@kernel
def tiles_of_rows(k: Builder, element: str, parts: int, mode: str, grad_mode: str, form: Form) -> None:
    """The weight gradient; a chunk has a range of bands and a group, and sums (strip of outputs, row, output) of its own."""
    k.for_chunks(_RowTiles(k, element, parts, mode, grad_mode, form).chunk)


class _RowTiles(GradientTiles):
    """The loops of ``tiles_of_rows``."""

    record = RowArguments
    a: RowArguments

    def __init__(self, k: Builder, element: str, parts: int, mode: str, grad_mode: str, form: Form):
        super().__init__(k, element, parts, mode, grad_mode)
        self.form, self.down, self.across = form, SIDE * form[0], SIDE * form[1]
        self.copy_size = parts * self.down * DEEP
        self.copies = k.scratch(2 * self.copy_size, "u16")

    def sums_of_group(self) -> Value:
        return (self.a.outputs + (self.across - 1)) // self.across * self.across * self.a.rows

    def strips(self, o0: Value, o1: Value, count: Value, is_more: Value) -> None:
        k, a = self.k, self.a

        def output(o: Value) -> None:
            grads, sums = k.at(self.pixels, o - o0, "u32"), k.at(self.sums, o * a.rows, "f32")
            k.loop(0, a.rows, lambda r: self.some_rows(k.at(sums, r * self.across, "f32"), r, grads, count, is_more), step=self.down)

        k.loop(o0, o1, output, step=self.across)

    def some_rows(self, sums: Value, r: Value, grads: Value, count: Value, is_more: Value) -> None:
        """Add the products of as many rows as the form has, from ``r`` on."""
        k, a = self.k, self.a
        k.when(is_more, lambda: load_sums(self.tiles, sums, self.form), lambda: self.tiles.clear(range(self.form[0] * self.form[1])))
        k.loop(
            0,
            count,
            lambda i: self.band(r, k.at(self.room, i * a.between_bands, "u16"), k.at(grads, i * a.long // 2 * a.output_block, "u32")),
        )
        store_sums(self.tiles, sums, self.form)

    def band(self, r: Value, pixels: Value, grads: Value) -> None:
        """The products of a band."""
        k, a, shares = self.k, self.a, len(ORDER[self.parts])
        starts = [k.at(pixels, k.load(a.distances, r + i, "i64"), "u16") for i in range(self.down)]

        def copy(rows: range, q: Value, target: Value) -> None:
            """Copy 32 pixels, from ``q`` on, of some of the rows."""
            for i in rows:
                for part in range(self.parts):
                    line = k.load(k.at(starts[i], self.by_part * part, "u16"), q, "u16", DEEP)
                    k.store(line, target, (part * self.down + i) * DEEP, "u16")

        def step(q: Value) -> None:
            here, there = (k.at(self.copies, (q // DEEP + other) % 2 * self.copy_size, "u16") for other in range(2))
            first = Operand(here, "u16", self.down * DEEP, SIDE * DEEP, 2 * DEEP)
            second = Operand(k.at(grads, q // 2 * a.output_block, "u32"), "u32", self.by_grad_part, SIDE, a.output_block * 4)
            add_products(self.tiles, self.parts, first, second, lambda i: copy(range(self.down)[i::shares], q + DEEP, there), self.form)

        copy(range(self.down), k.const(0, "i64"), self.copies)
        k.loop(0, a.long, step, step=DEEP)


class JoinRowArguments(Record):
    partial: Array
    out: Array
    groups: Integer
    outputs: Integer  # of a group
    rows: Integer  # with those up to a multiple of the form's
    wanted: Integer  # without them
    ranges: Integer


@kernel
def join_rows(k: Builder, element: str, parts: int, across: int) -> None:
    """The weight gradient (output, row) from the sums of ranges of bands; a chunk is 16 outputs of a group."""
    a, lanes = k.arguments(JoinRowArguments), k.lanes("f32")
    strips, columns = (a.outputs + (across - 1)) // across, (a.outputs + (SIDE - 1)) // SIDE
    by_group = strips * across * a.rows
    apart = a.groups * by_group

    def chunk(index: Value) -> None:
        group, first = index // columns, index % columns * SIDE
        mine = k.at(a.partial, group * by_group + first // across * across * a.rows + first % across, "f32")
        out = k.at(a.out, (group * a.outputs + first) * a.wanted, element)

        def square(row: Value) -> None:
            def add(r: Value, *lines: Value) -> list[Value]:
                places = [r * apart + (row + i) * across for i in range(SIDE)]
                return [line + k.load(mine, place, "f32", lanes) for line, place in zip(lines, places, strict=True)]

            lines = k.loop(0, a.ranges, add, carried=[k.const(0, "f32", lanes)] * SIDE)
            mask = k.mask_below(row, a.wanted, lanes)
            for i, line in enumerate(transposed(k, list(lines))):
                value = line if parts == 1 else line * SCALE**-2
                k.when(a.outputs - first > i, partial(k.store, value, out, row + a.wanted * i, element, mask))

        k.loop(0, a.wanted, square, step=SIDE)

    k.for_chunks(chunk)
