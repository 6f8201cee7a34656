"""Drawing categories by their probabilities: running sums of rows, and where shares of the last sum are reached."""

from __future__ import annotations

import numpy as np

from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.memory import empty

_ROWS = 8  # side by side: a sum waits for the one before it, eight rows do not wait for each other
_CHUNK = 1 << 15  # elements


@kernel
def running_sums(k: Builder, element: str) -> None:
    """Sums of each row up to each element, added one by one; a flag is set by an element that is no finite number from 0 on."""
    x, y, flag, rows, columns, per = k.array(), k.array(), k.array(), k.integer(), k.integer(), k.integer()

    def group(g: Value) -> None:
        places = [k.least(g + i, rows - 1) * columns for i in range(_ROWS)]

        def add(j: Value, fine: Value, *sums: Value) -> tuple[Value, ...]:
            following = []
            for place, before in zip(places, sums, strict=True):
                share = k.load(x, place + j, element)
                fine = fine & (share >= 0.0) & (share < float("inf"))
                following.append(before + share)
                k.store(following[-1], y, place + j, element)
            return fine, *following

        fine, *sums = k.loop(0, columns, add, carried=[k.const(True, "b1"), *[k.const(0, element)] * _ROWS])
        for total in sums:
            fine = fine & (total > 0.0)
        k.when(~fine, lambda: k.store(k.const(1, "i64"), flag, 0, "i64"))

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, rows), group, step=_ROWS))


@kernel
def first_reaching(k: Builder, element: str) -> None:
    """For each of a row's shares the first of its sums that is, divided by the last one, not below it."""
    sums, shares, out, rows, columns = k.array(), k.array(), k.array(), k.integer(), k.integer()
    count, steps, per = k.integer(), k.integer(), k.integer()

    def row(r: Value) -> None:
        start = r * columns
        total = k.load(sums, start + columns - 1, element)

        def look(i: Value) -> None:
            share = k.load(shares, r * count + i, "f64")

            def halve(_: Value, low: Value, high: Value) -> tuple[Value, Value]:
                middle = (low + high) >> 1
                before = (k.cast(k.load(sums, start + middle, element) / total, "f64") < share) & (low < high)
                return k.select(before, middle + 1, low), k.select(before, high, middle)

            k.store(k.loop(0, steps, halve, carried=[k.const(0, "i64"), columns - 1])[0], out, r * count + i, "i64")

        k.loop(0, count, look)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, rows), row))


@native("random.running_sums")
def sums_of_rows(rows: np.ndarray) -> np.ndarray | None:
    """Running sums; None where an element is negative or not finite, or a row has nothing but zeros."""
    element = FLOATS.get(rows.dtype)
    if element is None:
        return None
    given, (count, columns), flag = np.ascontiguousarray(rows), rows.shape, np.zeros(1, np.int64)
    sums, per = empty(rows.shape, rows.dtype), max(_CHUNK // (columns * _ROWS), 1) * _ROWS
    running_sums(element)(-(-count // per), id(given), id(sums), id(flag), count, columns, per)
    return None if flag[0] else sums


@native("random.first_reaching")
def places_of_shares(sums: np.ndarray, shares: np.ndarray) -> np.ndarray | None:
    element = FLOATS.get(sums.dtype)
    if element is None or not sums.flags.c_contiguous:
        return None
    (count, columns), out = sums.shape, empty(shares.shape, np.dtype(np.int64))
    steps, each = (columns - 1).bit_length(), shares.shape[1]
    per = max(_CHUNK // (each * (steps + 1) * 8), 1)
    arguments = (id(sums), id(shares), id(out), count, columns, each, steps, per)
    first_reaching(element)(-(-count // per), *arguments)
    return out
