"""Sorting by digits, and places in what is sorted.

A row is sorted by the bytes of a whole number that is ordered as its elements are, the lowest byte first, which keeps the order of equal
elements.  Records of such a key and the element's place are moved back and forth between two pieces of memory; a byte that all keys of a
row share moves nothing, so that small numbers cost as many rounds as they have bytes.

      sign and size of a float   ->   all bits turned where it is negative, the sign alone elsewhere   (float32: key and place in 64 bits)
      NaN                        ->   the largest key;   -0.0   ->   the key of 0.0;   descending   ->   all bits of the key turned
"""

from __future__ import annotations

import numpy as np

from ...core.arrays.copies import contiguous, copy_into
from ...core.arrays.native import at_most, native
from ...core.layout import empty_as, row_major
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, SIZES, Builder, Value, register_element
from ..compiler.memory import empty
from .rows import float_element

_CHUNKS = 64  # at most, each with scratch memory for a row
_SHORT = 64  # elements: rows from here on pay for counting bytes
_BYTES = 256  # values of one
_SPAN = 2048  # values that one chunk looks up
_FEW = 64  # elements that are found by putting each into its place among the best so far


def _unsigned(value: Value) -> Value:
    return Value(value.k, value.text, "u" + value.element[1:], value.lanes)


def _key_bits(element: str) -> int:
    """Number of bits of the key by which elements of a type are sorted."""
    register = register_element(element)
    return {"f32": 32, "f64": 64, "b1": 8}.get(register) or int(register[1:])


def _key(k: Builder, value: Value, bits: int, descending: bool) -> Value:
    """A whole number without sign, ordered as the values are, in 32 or 64 bits."""
    wide = "i64" if bits == 64 else "i32"
    if value.is_float:
        raw = k.bits(value + 0.0)
        sign = raw >> (bits - 1)
        key = k.select(value.is_nan(), -1, raw ^ (sign | (-1 << bits - 1)))
    else:
        is_signed = value.element[0] == "i"
        key = k.cast(k.cast(value, wide if is_signed else "u" + wide[1:]), wide)
        key = key + (1 << bits - 1) if is_signed else key
    return _unsigned(key ^ ((1 << bits) - 1) if descending else key)


@kernel
def radix_sort(k: Builder, element: str, descending: bool) -> None:
    """Rows of ``n`` elements in order, and their places; ``records`` has memory for two copies of a row for each chunk."""
    x, values, places, records = k.array(), k.array(), k.array(), k.array()
    n, rows, per = k.integer(), k.integer(), k.integer()
    bits = _key_bits(element)
    words = 2 if bits == 64 else 1  # of 64 bits in a record
    digits = bits // 8
    counts = k.scratch(digits * _BYTES, "i32")
    as_bits = f"u{8 * SIZES[element]}"

    def digit_of(word: Value, digit: Value | int) -> Value:
        shift = k.cast(digit, "u64") * 8 if isinstance(digit, Value) else k.const(digit * 8, "u64")
        return k.cast((word >> (shift if words == 2 else shift + 32)) & (_BYTES - 1), "i64")

    def one_row(r: Value, source: Value, target: Value) -> None:
        start = r * n
        k.loop(0, digits * _BYTES, lambda i: k.store(k.const(0, "i32", 8), counts, i, "i32"), step=8)

        def enter(i: Value) -> None:
            key = k.cast(_key(k, k.load(x, start + i, element), bits, descending), "u64")
            place = _unsigned(i)
            word = key if words == 2 else (key << 32) | place
            k.store(word, source, i * words, "u64")
            if words == 2:
                k.store(place, source, i * 2 + 1, "u64")
            for digit in range(digits):
                at = digit_of(word, digit) + digit * _BYTES
                k.store(k.load(counts, at, "i32") + 1, counts, at, "i32")

        k.loop(0, n, enter)

        def move(digit: Value, source: Value, target: Value) -> tuple[Value, Value]:
            here = k.at(counts, digit * _BYTES, "i32")

            def add_up(i: Value, total: Value) -> Value:
                count = k.load(here, i, "i32")
                k.store(total, here, i, "i32")
                return total + count

            k.loop(0, _BYTES, add_up, carried=(k.const(0, "i32"),))

            def put(i: Value) -> None:
                word = k.load(source, i * words, "u64")
                at = digit_of(word, digit)
                place = k.load(here, at, "i32")
                k.store(place + 1, here, at, "i32")
                to = k.cast(place, "i64") * words
                k.store(word, target, to, "u64")
                if words == 2:
                    k.store(k.load(source, i * 2 + 1, "u64"), target, to + 1, "u64")

            k.loop(0, n, put)
            return target, source

        def one_digit(digit: Value, source: Value, target: Value) -> tuple[Value, Value]:
            first = digit_of(k.load(source, 0, "u64"), digit) + digit * _BYTES
            shared = k.cast(k.load(counts, first, "i32"), "i64").eq(n)
            return k.when(shared, lambda: (source, target), lambda: move(digit, source, target))

        ranked, _ = k.loop(0, digits, one_digit, carried=(source, target))

        def leave(i: Value) -> None:
            word = k.load(ranked, i * words + (words - 1), "u64")
            place = k.cast(word if words == 2 else word & 0xFFFFFFFF, "i64")
            k.store(place, places, start + i, "i64")
            k.store(k.load(x, start + place, as_bits), values, start + i, as_bits)

        k.loop(0, n, leave)

    def chunk(c: Value) -> None:
        source = k.at(records, c * n * (2 * words), "u64")
        target = k.at(source, n * words, "u64")
        k.loop(c * per, k.least((c + 1) * per, rows), lambda r: one_row(r, source, target))

    k.for_chunks(chunk)


def _sorted_rows(rows: np.ndarray, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous rows in order, and the places that their elements come from."""
    element = ELEMENTS[rows.dtype]
    n = rows.shape[-1]
    count = rows.size // n
    per = -(-count // _CHUNKS)
    chunks = -(-count // per)
    records = empty((chunks * n * (4 if _key_bits(element) == 64 else 2),), np.uint64)
    values, places = empty(rows.shape, rows.dtype), empty(rows.shape, np.int64)
    radix_sort(element, descending)(chunks, id(rows), id(values), id(places), id(records), n, count, per)
    return values, places


@native("sort")
def sort(input: np.ndarray, dim: int = -1, descending: bool = False, stable: bool | None = False) -> tuple[np.ndarray, np.ndarray] | None:
    element = ELEMENTS.get(input.dtype)
    if not input.ndim or not input.size or element is None or (input.dtype.kind in "fV" and float_element(input.dtype) is None):
        return None
    if not at_most(_SHORT) <= input.shape[dim] < 1 << 31:
        return None
    if dim in (-1, input.ndim - 1) and input.flags.c_contiguous and 1 not in input.shape:
        return _sorted_rows(input, bool(descending))
    turned = _sorted_rows(contiguous(np.moveaxis(input, dim, -1)), bool(descending))
    results = empty_as(input, None, input.shape, input.dtype), empty_as(input, None, input.shape, np.dtype(np.int64))
    for result, rows in zip(results, turned, strict=True):
        copy_into(result, np.moveaxis(rows, -1, dim))
    return results


# -- the first few ------------------------------------------------------------------------------------------------------------------------
@kernel
def first_few(k: Builder, element: str, largest: bool) -> None:
    """The ``count`` first elements of each row in order, and their places: what is better than the last of them is put in among them."""
    x, values, places = k.array(), k.array(), k.array()
    n, count, rows, per = (k.integer() for _ in range(4))
    lanes = k.lanes(register_element(element))

    def is_better(a: Value, b: Value) -> Value:
        """Whether ``a`` goes before ``b``, which comes first in the row."""
        better = a > b if largest else a < b
        if not a.is_float:
            return better
        return better | (a.is_nan() & ~b.is_nan() if largest else b.is_nan() & ~a.is_nan())

    def one_row(r: Value) -> None:
        source, best, where = k.at(x, r * n, element), k.at(values, r * count, element), k.at(places, r * count, "i64")

        def insert(i: Value, value: Value, last: Value) -> None:
            """Put an element in, at place ``last`` or before it; what is there moves on."""

            def goes_before(j: Value) -> Value:
                return k.when(j > 0, lambda: is_better(value, k.load(best, j - 1, element)), lambda: k.const(False, "b1"))

            def move(j: Value) -> Value:
                k.store(k.load(best, j - 1, element), best, j, element)
                k.store(k.load(where, j - 1, "i64"), where, j, "i64")
                return j - 1

            j = k.repeat(goes_before, move, (last,))
            k.store(value, best, j, element)
            k.store(i, where, j, "i64")

        k.loop(0, count, lambda i: insert(i, k.load(source, i, element), i))

        def one(i: Value, bound: Value) -> Value:
            value = k.load(source, i, element)

            def put() -> Value:
                insert(i, value, count - 1)
                return k.load(best, count - 1, element)

            return k.when(is_better(value, bound), put, lambda: bound)

        def some(i: Value, mask: Value | None, bound: Value) -> Value:
            better = is_better(k.load(source, i, element, lanes, mask), k.splat(bound, lanes))
            better = better if mask is None else better & mask
            return k.when(k.any(better), lambda: k.loop(i, k.least(i + lanes, n), one, carried=(bound,)), lambda: bound)

        k.vector_loop(count, n, lanes, some, carried=(k.load(best, count - 1, element),))

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, rows), one_row))


@native("_order_along")
def order_along(input: np.ndarray, dim: int = -1, descending: bool = False) -> np.ndarray | None:
    ranked = sort(input, dim, descending)
    return None if ranked is None else ranked[1]


@native("topk")
def topk(input: np.ndarray, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[np.ndarray, np.ndarray] | None:
    element = ELEMENTS.get(input.dtype)
    if not input.ndim or element in (None, "b8") or (input.dtype.kind in "fV" and float_element(input.dtype) is None):
        return None
    if not 0 < k <= min(_FEW, input.shape[dim]):
        return None
    if dim not in (-1, input.ndim - 1):
        found = topk(np.moveaxis(input, dim, -1), k, -1, largest)
        return None if found is None else tuple([row_major(np.moveaxis(part, -1, dim)) for part in found])
    n, shape = input.shape[-1], (*input.shape[:-1], k)
    values, places = empty(shape, input.dtype), empty(shape, np.int64)
    rows = values.size // k
    per = max(_SPAN * 8 // n, 1)
    source = contiguous(input)
    first_few(element, bool(largest))(-(-rows // per), id(source), id(values), id(places), n, k, rows, per)
    return values, places


# -- search -------------------------------------------------------------------------------------------------------------------------------
@kernel
def search(k: Builder, element: str, right: bool) -> None:
    """Position of each value in its sorted row: the number of the row's elements that go before it. NaN goes last."""
    ranked, values, result = k.array(), k.array(), k.array()
    n, count, row_step, blocks = (k.integer() for _ in range(4))
    lanes = min(k.lanes(element), k.lanes("i32"))

    def is_before(one: Value, value: Value) -> Value:
        if right:
            before = ~(value < one)
            return before & ~(one.is_nan() & ~value.is_nan()) if value.is_float else before
        before = one < value
        return before | (value.is_nan() & ~one.is_nan()) if value.is_float else before

    def chunk(c: Value) -> None:
        row = c // blocks
        first = (c - row * blocks) * _SPAN
        here = k.at(ranked, row * row_step, element)

        def some(i: Value, mask: Value | None) -> None:
            value = k.load(values, row * count + i, element, lanes, mask)

            def advance(place: Value, step: Value) -> Value:
                before = is_before(k.gather(here, place + (step - 1), element), value)
                return place + k.select(before, k.splat(step, lanes), 0)

            def halve(left: Value, place: Value) -> tuple[Value, Value]:
                half = _unsigned(left) >> 1
                step = Value(k, half.text, "i64")
                return left - step, advance(place, step)

            _, place = k.repeat(lambda left, place: left > 1, halve, (n, k.const(0, "i64", lanes)))
            k.store(advance(place, k.const(1, "i64")), result, row * count + i, "i64", mask)

        k.vector_loop(first, k.least(first + _SPAN, count), lanes, some)

    k.for_chunks(chunk)


@native("_search")
def positions(ranked: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray | None:
    """Places of ``values`` in ``ranked``, a row or as many rows as values have."""
    element = ELEMENTS.get(ranked.dtype)
    n = ranked.shape[-1]
    if element in (None, "b8") or not n or not values.size or (ranked.dtype.kind in "fV" and float_element(ranked.dtype) is None):
        return None
    count = values.size if ranked.ndim == 1 else values.shape[-1]
    blocks = -(-count // _SPAN)
    result = empty(values.shape, np.int64)
    row_step = 0 if ranked.ndim == 1 else n
    arrays = contiguous(ranked), contiguous(values), result
    search(element, right)(blocks * (values.size // count), *map(id, arrays), n, count, row_step, blocks)
    return result
