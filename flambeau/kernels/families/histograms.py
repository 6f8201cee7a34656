"""Histograms with equal bins: a register of elements finds its bins by arithmetic, and these are counted one by one. Counts of integers.

Each chunk counts for itself, in as many places as there are bins and one more, for what lies outside.
"""

from __future__ import annotations

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from .embedding import scattered_sums

_SPAN = 1 << 16  # elements of a chunk
_CHUNKS = 16  # at most
_BINS = 1 << 14  # more of them do not stay in cache


@kernel
def count_in_bins(k: Builder, element: str, has_edges: bool) -> None:
    """``counts[chunk, bin]``; an element's bin is at most one beside what arithmetic says where the ``edges`` are given."""
    x, counts, edges = k.array(), k.array(), k.array()
    n, bins, span = (k.integer() for _ in range(3))
    low, width, first, last = (k.number(number) for number in ("f64", "f64", element, element))
    lanes = k.lanes(element)
    places = k.scratch(lanes, "i64")
    most = bins - 1

    def chunk(c: Value) -> None:
        mine = k.at(counts, c * (bins + 1), "i64")

        def some(i: Value, mask: Value | None) -> None:
            value = k.load(x, i, element, lanes, mask)
            inside = (value >= first) & (value <= last)
            share = (k.cast(value, "f64") - low) / width * k.cast(bins, "f64")
            place = k.least(k.cast(k.select(inside, share, 0.0), "i64"), most)
            if has_edges:
                below, above = value < k.gather(edges, place, element), value >= k.gather(edges, place + 1, element)
                place = place - k.select(below, k.const(1, "i64", lanes), 0) + k.select(above, k.const(1, "i64", lanes), 0)
                place = k.least(k.most(place, 0), most)
            k.store(k.select(inside, place, bins), places, 0, "i64")

            def count(j: Value) -> None:
                at = k.load(places, j, "i64")
                k.store(k.load(mine, at, "i64") + 1, mine, at, "i64")

            if mask is None:
                for lane in range(lanes):
                    count(k.const(lane, "i64"))
            else:
                k.loop(0, k.least((c + 1) * span, n) - i, count)

        k.vector_loop(c * span, k.least((c + 1) * span, n), lanes, some)

    k.for_chunks(chunk)


@native("_equal_bins")
def equal_bins(values: np.ndarray, bins: int, low: float, high: float, edges: np.ndarray | None) -> np.ndarray | None:
    """Number of values, from ``low`` to ``high`` or between the ``edges``, in each of ``bins`` equal bins."""
    element = ELEMENTS.get(values.dtype)
    if element not in ("f32", "f64") or not values.size or not 0 < bins <= _BINS:
        return None
    first, last = (low, high) if edges is None else (float(edges[0]), float(edges[-1]))
    width = high - low
    if edges is not None:
        # arithmetic is off by one bin at most, as long as an edge's rounding error is small beside a bin
        fine = width / bins > 16 * float(np.spacing(np.maximum(np.abs(edges[0]), np.abs(edges[-1]))))
        if not fine or edges.dtype != values.dtype or not edges.flags.c_contiguous:
            return None
    source = contiguous(values)
    chunks = min(-(-source.size // _SPAN), _CHUNKS)
    counts = np.zeros((chunks, bins + 1), np.int64)
    arrays = source, counts, source if edges is None else edges
    run = count_in_bins(element, edges is not None)
    run(chunks, *map(id, arrays), source.size, bins, -(-source.size // chunks), low, width, first, last)
    return counts.sum(0)[:bins]


@kernel
def count_places(k: Builder, weight: str) -> None:
    """``counts[chunk, place]``: how often each place occurs, or the sums of the ``weights`` that have an element type, in float64."""
    places, weights, counts = k.array(), k.array(), k.array()
    n, size, span = (k.integer() for _ in range(3))

    def chunk(c: Value) -> None:
        mine = k.at(counts, c * size, "i64")

        def one(i: Value) -> None:
            at = k.load(places, i, "i64")
            if weight:
                k.store(k.load(mine, at, "f64") + k.cast(k.load(weights, i, weight), "f64"), mine, at, "f64")
            else:
                k.store(k.load(mine, at, "i64") + 1, mine, at, "i64")

        k.loop(c * span, k.least((c + 1) * span, n), one)

    k.for_chunks(chunk)


def _counted(places: np.ndarray, weights: np.ndarray | None, size: int) -> np.ndarray | None:
    """Counts of places below ``size``, which has been looked at; of many more places than there are bins that stay in cache, None."""
    plain = places if weights is None else weights
    element = "" if weights is None else ELEMENTS.get(weights.dtype)
    if places.__class__ is not np.ndarray or plain.__class__ is not np.ndarray or places.dtype != np.int64 or not 0 < size <= _BINS:
        return None
    if element not in ("", "f32", "f64") or not places.flags.c_contiguous or not plain.flags.c_contiguous:
        return None
    chunks = min(-(-places.size // _SPAN), _CHUNKS)
    counts = np.zeros((chunks, size), np.float64 if element else np.int64)
    count_places(element)(chunks, id(places), id(plain), id(counts), places.size, size, -(-places.size // chunks))
    return counts.sum(0)


@native("_counts")
def counts(places: np.ndarray, size: int) -> np.ndarray | None:
    return _counted(places, None, size)


@native("_weighted_counts")
def weighted_counts(places: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray | None:
    few = _counted(places, weights, size)
    if few is not None or size > max(places.size, 1):
        return few
    return scattered_sums(weights.astype(np.float64), 0, places, (size,))
