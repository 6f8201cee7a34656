"""Elements that a mask chooses: each chunk counts its own, and then takes them, or their places, one after the other.

    mask     0 1 1 0 0 1 .. | 1 0 0 0 1 1 .. | ..        counts   3 | 3 | ..
                 |               |                       starts   0 | 3 | 6 ..
    result   [ 1 2 5       |  0 4 5        | ..

A register of the mask becomes a word, whose lowest bit that is set is the next one: masks with few bits cost little beside their reading.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, REGISTER, Builder, Value, intrinsic_suffix
from ..compiler.memory import empty
from .copies import able, contiguous

_SPAN = 1 << 15  # elements of a chunk
_NO_REGISTERS = frozenset((None, *REGISTER))  # element types that are not compared as they lie in memory


# -- kernels ------------------------------------------------------------------------------------------------------------------------------
def _word(k: Builder, mask: Value, at: Value, lanes: int) -> Value:
    """So many of a mask's elements as the bits of an i64."""
    truth = k.load(mask, at, "b8", lanes)
    if lanes == 1:
        return k.cast(truth, "i64")
    bits = k.emit(f"bitcast {truth.type} {truth.text} to i{lanes}", f"i{lanes}")
    return k.cast(k.cast(bits, f"u{lanes}"), "i64")


def _words(k: Builder, mask: Value, start: Value, stop: Value, carried: Value, body: Callable[[Value, Value, int, Value], Value]) -> Value:
    """``carried = body(place, word, bits, carried)`` for the words from ``start`` to ``stop``; behind the whole ones, of one bit each."""
    lanes = min(k.target.width, 64)
    end = start + ((stop - start) & -lanes)
    result: Value = k.loop(start, end, lambda i, value: body(i, _word(k, mask, i, lanes), lanes, value), step=lanes, carried=[carried])
    result = k.loop(end, stop, lambda i, value: body(i, _word(k, mask, i, 1), 1, value), carried=[result])
    return result


def _bit_function(k: Builder, name: str, word: Value, more: str = "") -> Value:
    return k.call(f"llvm.{name}.{intrinsic_suffix('i64', 1)}", "i64", 1, word, more=more)


@kernel
def count_chosen(k: Builder) -> None:
    """``counts[chunk]``: how many of its ``span`` elements hold."""
    mask, counts, n, span = k.array(), k.array(), k.integer(), k.integer()

    def chunk(c: Value) -> None:
        start, stop = c * span, k.least((c + 1) * span, n)
        total = _words(k, mask, start, stop, k.const(0, "i64"), lambda _, word, __, total: total + _bit_function(k, "ctpop", word))
        k.store(total, counts, c, "i64")

    k.for_chunks(chunk)


@kernel
def take_chosen(k: Builder, element: str, what: str) -> None:
    """Go through the rows of a mask and a list of what it chooses, which has ``count`` entries and begins at ``starts[chunk]`` for a chunk.

    ``what`` is "elements" of ``x``, which become the list ``y``; "list" ``x``, which become elements of ``y``; "places", which become the
    list ``y``, or "rows": the rows' numbers, and behind all of them the places in these.
    """
    mask, starts, x, y = (k.array() for _ in range(4))
    n, rows, width, per, count = (k.integer() for _ in range(5))

    def chunk(c: Value) -> None:
        def row(r: Value, at: Value) -> Value:
            begin = r * width

            def take(place: Value, at: Value) -> None:
                if what == "elements":
                    k.store(k.load(x, place, element), y, at, element)
                elif what == "list":
                    k.store(k.load(x, at, element), y, place, element)
                elif what == "places":
                    k.store(place, y, at, element)
                else:
                    k.store(r, y, at, element)
                    k.store(place - begin, y, at + count, element)

            def words(place: Value, word: Value, _: int, at: Value) -> Value:
                def step(word: Value, at: Value) -> tuple[Value, Value]:
                    take(place + _bit_function(k, "cttz", word, "i1 true"), at)
                    return word & (word - 1), at + 1

                _, at = k.repeat(lambda word, _: word.ne(0), step, (word, at))
                return at

            return _words(k, mask, begin, k.least(begin + width, n), at, words)

        k.loop(c * per, k.least((c + 1) * per, rows), row, carried=[k.load(starts, c, "i64")])

    k.for_chunks(chunk)


@kernel
def mark_changes(k: Builder, element: str) -> None:
    """``mask[i]``: whether ``x[i]`` is the first element, or another one than the element before."""
    x, mask, n = k.array(), k.array(), k.integer()
    lanes = 2 * k.lanes(element)

    def some(i: Value, inside: Value | None) -> None:
        here, before = (k.load(x, at, element, lanes, inside) for at in (i, i - 1))
        k.store(here.ne(before), mask, i, "b8", inside)

    k.when(k.first.eq(0), lambda: k.store(k.const(True, "b1"), mask, 0, "b8"))
    k.for_chunks(lambda c: k.vector_loop(k.most(c * _SPAN, 1), k.least((c + 1) * _SPAN, n), lanes, some))


@kernel
def number_runs(k: Builder) -> None:
    """``result[i]``: how many elements of the mask hold before and at ``i``, less one; ``starts[chunk]`` is how many do before a chunk."""
    mask, starts, result, n = k.array(), k.array(), k.array(), k.integer()

    def one(i: Value, word: Value, number: Value) -> Value:
        number = number + (word & 1)
        k.store(number, result, i, "i64")
        return number

    def words(place: Value, word: Value, bits: int, number: Value) -> Value:
        if bits == 1:
            return one(place, word, number)

        def same() -> Value:
            lanes = k.lanes("i64")
            for at in range(0, bits, lanes):
                k.store(k.splat(number, lanes), result, place + at, "i64")
            return number

        some: Value = k.when(
            word.eq(0), same, lambda: k.loop(0, bits, lambda j, number: one(place + j, word >> j, number), carried=[number])
        )
        return some

    def chunk(c: Value) -> None:
        _words(k, mask, c * _SPAN, k.least((c + 1) * _SPAN, n), k.load(starts, c, "i64") - 1, words)

    k.for_chunks(chunk)


# -- operations ---------------------------------------------------------------------------------------------------------------------------
class _Chosen:
    """A mask in chunks of whole rows, and where each chunk's elements begin in the list of what it chooses.

    Attributes:
        count: how many elements it chooses.
    """

    def __init__(self, mask: np.ndarray, width: int = _SPAN):
        self.mask, self.width = mask, width
        self.rows, self.per = -(-mask.size // width), max(1, _SPAN // width)
        self.chunks = -(-self.rows // self.per)
        counts = np.empty(self.chunks, np.int64)
        count_chosen()(self.chunks, id(mask), id(counts), mask.size, self.per * width)
        ends = counts.cumsum()
        self.starts, self.count = ends - counts, int(ends[-1])

    def take(self, what: str, x: np.ndarray, y: np.ndarray) -> None:
        run = take_chosen(f"u{8 * x.itemsize}" if what in ("elements", "list") else "i64", what)
        run(self.chunks, *map(id, (self.mask, self.starts, x, y)), self.mask.size, self.rows, self.width, self.per, self.count)


def _is_mask_of(mask: np.ndarray, array: np.ndarray) -> bool:
    is_plain = mask.__class__ is np.ndarray and mask.dtype == np.bool_ and mask.flags.c_contiguous and mask.size > 0
    return is_plain and array.__class__ is np.ndarray and mask.shape == array.shape and array.itemsize <= 8 and able(array)


@native("masked_select")
def masked_select(input: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    if not _is_mask_of(mask, input) or not input.flags.c_contiguous:
        return None
    chosen = _Chosen(mask)
    result = empty((chosen.count,), input.dtype)
    chosen.take("elements", input, result)
    return result


@native("masked_scatter")
def masked_scatter(input: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray | None:
    if not _is_mask_of(mask, input) or source.__class__ is not np.ndarray or source.dtype != input.dtype or not source.flags.c_contiguous:
        return None
    chosen = _Chosen(mask)
    if chosen.count > source.size:
        return None  # an error, in the reference's words
    result = contiguous(input)
    chosen.take("list", source, result)
    return result


@native("_places_of")
def places_of(array: np.ndarray) -> np.ndarray | None:
    """The places of what is not zero: of a vector, or row numbers and column numbers of a matrix."""
    if array.__class__ is not np.ndarray or array.dtype.kind not in "biuf" or not array.flags.c_contiguous or array.ndim not in (1, 2):
        return None
    mask = array if array.dtype == np.bool_ else array != 0
    if not mask.size:
        return None
    chosen = _Chosen(mask) if mask.ndim == 1 else _Chosen(mask, mask.shape[1])
    result = empty((mask.ndim, chosen.count), np.dtype(np.int64))
    chosen.take("places" if mask.ndim == 1 else "rows", mask, result)
    return result


@native("_begins")
def begins(rows: np.ndarray) -> np.ndarray | None:
    element = ELEMENTS.get(rows.dtype)
    if rows.__class__ is not np.ndarray or rows.ndim != 1 or not rows.size or not rows.flags.c_contiguous or element in _NO_REGISTERS:
        return None
    result = empty(rows.shape, np.dtype(np.bool_))
    mark_changes(element)(-(-rows.size // _SPAN), id(rows), id(result), rows.size)
    return result


@native("_numbered")
def numbered(first: np.ndarray) -> np.ndarray | None:
    if first.__class__ is not np.ndarray or not first.size:
        return None
    chosen, result = _Chosen(first), empty(first.shape, np.dtype(np.int64))
    number_runs()(chosen.chunks, id(first), id(chosen.starts), id(result), first.size)
    return result
