"""Passes over rows: the frame of softmax, normalization and losses of classes.

A row is the ``n`` elements along one dimension that a result comes from.  An array is seen as ``(outer, n, inner)``.  Where ``inner`` is
1, a row's elements are neighbours, and a register holds several elements of one row.  Elsewhere a kernel goes ``across``: neighbours
belong to different rows, a register holds one element of each of them, and a block of columns is what is walked down.

      inner = 1                            across
      row 0   [0 1 2 3|4 5 6 7| ..  ->     [0 0 0 0|0 0 0 0] 0 0 ..     one block: 4 registers of rows
      row 1   [0 1 2 3|4 5 6 7| ..         [1 1 1 1|1 1 1 1] 1 1 ..
      row 2   [0 1 2 3|4 5 6 7| ..            |  down

A kernel is written once for both: ``rows(k, element, across, body)`` calls ``body(row)``, which makes the row's passes by ``row.total``,
``row.most``, ``row.moments`` (reductions, whose results are one number a row) and ``row.map``.  A row stays in cache from pass to pass.

    @kernel
    def centre(k, element, across):
        x, y = k.array(), k.array()
        def body(row):
            mean = row.total(lambda at: at.load(x)) / row.count
            row.map(lambda at: at.store(at.load(x) - mean, y))
        rows(k, element, across, body)

    run(centre, ELEMENTS[x.dtype], x.shape, dim, x, y)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..compiler import target as targets
from ..compiler.language import ELEMENTS, SIZES, Builder, Value, register_element

View = tuple[int, int, int]

_BLOCK = 4096  # elements of a row that are summed before a sum goes into one of float64: 64 a lane, so that errors do not pile up
_DOWN = 128  # the same across: elements of each row
_WAYS = 2  # registers at a time along a row
_REGISTERS = 4  # of a block of columns
CHUNK = 1 << 17  # bytes


class Place:
    """Position of a pass: elements ``j`` and following of a row, or across, element ``j`` of several rows."""

    __slots__ = ("index", "j", "mask", "row")

    def __init__(self, row: Row, j: Value, mask: Value | None):
        self.row, self.j, self.mask = row, j, mask
        self.index = row.start + (j * row.stride if row.across else j)

    def load(self, pointer: Value, element: str = "") -> Value:
        return self.row.k.load(pointer, self.index, element or self.row.memory, self.row.lanes, self.mask)

    def load_all(self, pointer: Value) -> list[Value]:
        """Elements at this place of each of the rows that are taken together, as a list."""
        k, row = self.row.k, self.row
        return [k.load(pointer, self.index + row.n * i, row.memory, row.lanes, self.mask) for i in range(row.together)]

    def store(self, value: Value, pointer: Value, element: str = "") -> None:
        self.row.k.store(value, pointer, self.index, element or self.row.memory, self.mask)

    def along(self, pointer: Value) -> Value:
        """Elements of an array of length n at this place; across, one number."""
        return self.row.k.load(pointer, self.j, self.row.element, *(() if self.row.across else (self.row.lanes, self.mask)))

    def numbers(self) -> Value:
        """Positions of these elements in the row, as i32; across, one number."""
        k, j = self.row.k, self.row.k.cast(self.j, "i32")
        return j if self.row.across else k.indices(self.row.lanes, "i32") + j

    def put_along(self, value: Value, pointer: Value) -> None:
        """Write what an array of n elements has for this place (not across)."""
        self.row.k.store(value, pointer, self.j, self.row.element, self.mask)


class Row:
    """A row, or across, as many rows as there are ``lanes``.

    Attributes:
        memory, element: types of the elements in memory and in registers.
        n, count: number of elements, as integer and as float of ``element``.
        index: number of the (first) row.
        together: how many rows, this and the next ones, are taken together by what uses ``load_all``.
    """

    def __init__(
        self, k: Builder, element: str, across: bool, start: Value, n: Value, stride: Value, index: Value, mask: Value | None = None
    ):
        self.k, self.memory, self.element, self.across = k, element, register_element(element), across
        self.start, self.n, self.stride, self.index, self.mask = start, n, stride, index, mask
        self.lanes = k.lanes(element) * (_REGISTERS if across and mask is None else 1)
        self.count = k.cast(n, self.element)
        self.together = 1
        # the type in which sums of blocks are added, and how long these are
        self._wide, self._step = (self.element, _DOWN) if across else ("f64", _BLOCK)

    # -- one element a row ----------------------------------------------------------------------------------------------------------
    def take(self, pointer: Value, element: str = "") -> Value:
        """The element for this row of an array with one element for each row; across, one for each of several rows."""
        return self.k.load(pointer, self.index, element or self.element, self.lanes if self.across else 1, self.mask)

    def put(self, value: Value, pointer: Value, element: str = "") -> None:
        self.k.store(value, pointer, self.index, element or self.element, self.mask if self.across else None)

    def pick(self, pointer: Value, j: Value) -> Value:
        """Element ``j`` of the row, each row having its own ``j``."""
        if not self.across:
            return self.k.load(pointer, self.start + j, self.memory)
        return self.k.gather(pointer, self.k.indices(self.lanes) + self.start + j * self.stride, self.memory, self.mask)

    # -- passes -----------------------------------------------------------------------------------------------------------------------
    def map(self, step: Callable[[Place], Any], again: bool = False) -> None:
        """``step(place)`` all along the row; ``again``: twice for an element does no harm, as nothing is read that is written."""
        if self.across:
            self.k.loop(0, self.n, lambda j: step(Place(self, j, self.mask)) and None)
        elif again and not self.k.target.has_masks:
            self._overlapping(lambda j, mask: step(Place(self, j, mask)) and None)
        else:
            self._walk(self.k.const(0, "i64"), self.n, lambda j, mask: step(Place(self, j, mask)) and None)

    def most(self, term: Callable[[Place], Value]) -> Value:
        """The largest of ``term(place)`` along the row, NaN not counting; -infinity where there is none."""
        return self._fold(self.k.const(0, "i64"), self.n, 1, -math.inf, lambda kept, value: self.k.most(value, kept), term)[0]

    def total(self, term: Callable[[Place], Any], count: int = 1) -> Any:
        """The sum of ``term(place)`` along the row; the sums of all ``count`` Values where it returns so many."""
        k, wide = self.k, self._wide

        def block(start: Value, *sums: Value) -> Any:
            parts = self._fold(start, self._end(start), count, 0.0, lambda a, b: a + b, term)
            return tuple(s + k.cast(part, wide) for s, part in zip(sums, parts, strict=True))

        zeros = [k.const(0, wide, self.lanes if self.across else 1)] * count
        sums = k.loop(0, self.n, block, step=self._step, carried=zeros)
        return k.cast(sums, self.element) if count == 1 else tuple(k.cast(s, self.element) for s in sums)

    def moments(self, pointer: Value) -> tuple[Value, Value]:
        """Mean, and sum of squared differences from it: of each block in two passes, joined as in Chan, Golub, LeVeque 1979."""
        k, wide = self.k, self._wide

        def add(a: Value, b: Value) -> Value:
            return a + b

        def block(start: Value, count: Value, mean: Value, squares: Value) -> Any:
            stop = self._end(start)
            here = k.cast(stop - start, wide)
            middle = k.cast(self._fold(start, stop, 1, 0.0, add, lambda at: at.load(pointer))[0], wide) / here
            centre = k.cast(middle, self.element)

            def square(at: Place) -> Value:
                apart = at.load(pointer) - centre
                return apart * apart

            inner = k.cast(self._fold(start, stop, 1, 0.0, add, square)[0], wide)
            both, apart = count + here, middle - mean
            return both, mean + apart * (here / both), squares + inner + apart * apart * (count * here / both)

        zero = k.const(0, wide, self.lanes if self.across else 1)
        _, mean, squares = k.loop(0, self.n, block, step=self._step, carried=[k.const(0, wide), zero, zero])
        return k.cast(mean, self.element), k.cast(squares, self.element)

    def _end(self, start: Value) -> Value:
        return self.k.least(start + self._step, self.n)

    def _fold(
        self, start: Value, stop: Value, count: int, neutral: float, join: Callable[[Value, Value], Value], term: Callable[[Place], Any]
    ) -> Sequence[Value]:
        """All ``term(place)`` from ``start`` to ``stop`` joined, in registers that take turns, then pairwise."""
        k = self.k
        ways = 1 if self.across else _WAYS

        def step(j: Value, mask: Value | None, *kept: Value) -> Any:
            terms = term(Place(self, j, self.mask if self.across else mask))
            terms = terms if isinstance(terms, tuple) else (terms,)
            if mask is not None:
                terms = tuple(k.select(mask, value, neutral) for value in terms)
            return (*kept[count:], *[join(a, b) for a, b in zip(kept, terms, strict=False)])

        first = [k.const(neutral, self.element, self.lanes)] * (count * ways)
        if self.across:
            kept = k.loop(start, stop, lambda j, *values: step(j, None, *values), carried=first)
            return (kept,) if count == 1 else kept
        kept = self._walk(start, stop, step, first)
        return [k.fold(join(a, b), join) for a, b in zip(kept[:count], kept[count:], strict=True)]

    def _walk(self, start: Value, stop: Value, step: Callable[..., Any], carried: Sequence[Value] = ()) -> Any:
        """``step(j, mask, *carried)`` along a row: some registers at a time, then one by one under a mask."""
        k, wide = self.k, _WAYS * self.lanes

        def unrolled(j: Value, *values: Value) -> Any:
            for way in range(_WAYS):
                values = step(j + way * self.lanes, None, *values) or ()
            return values

        end = stop - ((stop - start) & (wide - 1))
        carried = k.loop(start, end, unrolled, step=wide, carried=carried)
        return k.loop(end, stop, lambda j, *v: step(j, k.mask_below(j, stop, self.lanes), *v), step=self.lanes, carried=carried)

    def _overlapping(self, step: Callable[[Value, Value | None], None]) -> None:
        """``step(j, mask)`` along a row, the last registers on top of each other, lest a mask is needed (see ``Builder.blend``)."""
        k, lanes = self.k, self.lanes

        def some(j: Value) -> None:
            j = k.least(j, self.n - _WAYS * lanes)
            for way in range(_WAYS):
                step(j + way * lanes, None)

        def few() -> None:
            k.loop(0, self.n, lambda j: step(j, k.mask_below(j, self.n, lanes)), step=lanes)

        k.when(self.n >= _WAYS * lanes, lambda: k.loop(0, self.n, some, step=_WAYS * lanes) and None, few)


def rows(
    k: Builder,
    element: str,
    across: bool,
    *sweeps: Callable[[Row], Any],
    chunk: Callable[[Value, Value, Value], Any] | None = None,
    together: int = 1,
    numbers: Sequence[Value] = (),
) -> None:
    """``sweep(row)`` for every row, each sweep over all rows of a chunk before the next.

    The kernel's last arguments are those that ``run`` adds, given as ``numbers`` where they have been read.  ``chunk(c, count, n)`` is
    called before chunk c, of ``count`` rows.  With ``together`` (not across) a sweep takes so many rows at a time, as long as there are
    so many.
    """
    n, inner, units, per = numbers or [k.integer() for _ in range(4)]
    lanes = k.lanes(element)
    wide = _REGISTERS * lanes
    blocks = (inner + (wide - 1)) // wide

    def straight(sweep: Callable[[Row], Any], row: Value, count: int = 1) -> None:
        row_block = Row(k, element, False, row * n, n, inner, row)
        row_block.together = count
        sweep(row_block)

    def block(sweep: Callable[[Row], Any], unit: Value) -> None:
        outer, column = unit // blocks, (unit % blocks) * wide

        def columns(column: Value, mask: Value | None) -> None:
            sweep(Row(k, element, True, outer * n * inner + column, n, inner, outer * inner + column, mask))

        def rest() -> None:
            k.loop(column, inner, lambda c: columns(c, k.mask_below(c, inner, lanes)), step=lanes)

        k.when(column + wide <= inner, lambda: columns(column, None), rest)

    def unrolled(c: Value) -> None:
        first, last = c * per, k.least((c + 1) * per, units)
        if chunk is not None:
            chunk(c, last - first, n)
        for sweep in sweeps:
            start = first
            if together > 1:
                start = last - (last - first) % together
                k.loop(first, start, lambda row, sweep=sweep: straight(sweep, row, together), step=together)
            k.loop(start, last, partial(block if across else straight, sweep))

    k.for_chunks(unrolled)


@lru_cache(maxsize=4096)
def rows_per_chunk(element: str, view: View, chunks: int = 0) -> tuple[int, int]:
    """Number of units of work (rows, or across, blocks of columns), and number of them in a chunk of some 128 KB.

    Args:
        chunks: there shall be at most so many chunks, if not 0.
    """
    outer, n, inner = view
    size = SIZES[element]
    if inner > 1:
        wide = _REGISTERS * (targets.current().width // max(size, 4))
        units, cost = outer * -(-inner // wide), n * min(wide, inner) * size
    else:
        units, cost = outer, n * size
    per = max(CHUNK // max(cost, 1), 1)
    return units, max(per, -(-units // chunks)) if chunks else per


def run(kernel: Any, element: str, view: View, *arguments: Any, chunks: int = 0) -> None:
    """Run a kernel made with ``rows`` over arrays seen as ``view``, ``(outer, n, inner)``; ``arguments`` are arrays and numbers."""
    units, per = rows_per_chunk(element, view, chunks)
    given = [id(a) if a.__class__ is np.ndarray else a for a in arguments]
    kernel(-(-units // per), *given, view[1], view[2], units, per)


def view_of(shape: tuple[int, ...], dim: int) -> View:
    """``(outer, n, inner)`` of a contiguous array for the rows along ``dim``."""
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def wide_dtype(element: str) -> type:
    """The dtype of statistics and parameters in kernels of an element type."""
    return np.float64 if element == "f64" else np.float32


NOTHING = np.empty(0, np.float32)  # for an argument that a kernel does not read


def as_parameter(array: np.ndarray | None, element: str) -> np.ndarray:
    """An array as such kernels read it."""
    return NOTHING if array is None else np.ascontiguousarray(array, wide_dtype(element))


def float_element(dtype: np.dtype) -> str | None:
    """The type of floats that kernels can be had for here, else None."""
    element = ELEMENTS.get(dtype)
    if element in ("f32", "f64", "bf16") or (element == "f16" and targets.current().has_halves):
        return element
    return None
