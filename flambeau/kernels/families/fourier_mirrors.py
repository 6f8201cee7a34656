"""Spectra of real matrices from their first halves: element ``(-j, -k)`` is the conjugate of element ``(j, k)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value

_CHUNK = 1 << 15  # elements


@kernel
def mirrored_rows(k: Builder, element: str) -> None:
    """Rows of ``points`` complex numbers, the first ``known`` of them from ``half``, the others from its row ``partners[r]``."""
    half, partners, result = k.array(), k.array(), k.array()
    rows, points, known, per = (k.integer() for _ in range(4))
    lanes = k.lanes(element)
    backward = [lane ^ 1 for lane in range(lanes)][::-1]  # pairs in the opposite order

    def row(r: Value) -> None:
        source, target = k.at(half, r * known * 2, element), k.at(result, r * points * 2, element)
        k.vector_loop(0, known * 2, lanes, lambda i, mask: k.store(k.load(source, i, element, lanes, mask), target, i, element, mask))
        other = k.at(half, k.load(partners, r, "i64") * known * 2, element)
        tail, missing = k.at(target, known * 2, element), points - known
        whole = missing - missing % (lanes // 2)

        def some(j: Value) -> None:
            value = k.shuffle(k.load(other, (missing - j - (lanes // 2 - 1)) * 2, element, lanes), backward)
            k.store(k.select((k.indices(lanes, "i32") & 1).ne(0), -value, value), tail, j * 2, element)

        def one(j: Value) -> None:
            k.store(k.load(other, (missing - j) * 2, element), tail, j * 2, element)
            k.store(-k.load(other, (missing - j) * 2 + 1, element), tail, j * 2 + 1, element)

        k.loop(0, whole, some, step=lanes // 2)
        k.loop(whole, missing, one)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, rows), row))


def plan(real: np.dtype, shape: tuple[int, ...], dims: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """Function ``launch(half, result)`` for results of that shape, transformed along the last ``dims`` dimensions."""
    *outer, points = shape
    mirrored = len(outer) - (dims - 1)
    places = np.arange(math.prod(outer)).reshape(outer)
    for dim in range(mirrored, len(outer)):
        places = np.roll(np.flip(places, dim), 1, dim)
    partners, per = np.ascontiguousarray(places).ravel(), max(1, _CHUNK // points)
    run = partial(mirrored_rows(FLOATS[real]), -(-partners.size // per))
    return lambda half, result: run(id(half), id(partners), id(result), partners.size, points, points // 2 + 1, per)
