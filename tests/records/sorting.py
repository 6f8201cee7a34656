"""Records of sorting, selecting and searching."""

from __future__ import annotations

import numpy as np

from .record import Error, Maker, Record, Sample, call
from .reduction import distinct

NUMBERS = ("float32", "float64", "int64")


def sorts(make: Maker) -> list[Sample]:
    return [call(distinct(make, 3, 4)), call(distinct(make, 3, 4), -1, True), call(distinct(make, 2, 3, 4), dim=2), call(make(), 0)]


def repeated(make: Maker, *shape: int) -> np.ndarray:
    return np.round(make(*shape, low=0, high=3).astype(np.float64)).astype(make(0).dtype)


def searches(make: Maker) -> list[Sample]:
    ranked, rows = np.sort(distinct(make, 5)), np.sort(distinct(make, 2, 5), 1)
    return [
        call(ranked, make(3, 2)),
        call(ranked, ranked, right=True),
        call(ranked, ranked, side="left", out_int32=True),
        call(rows, make(2, 3)),
        call(ranked, 1),
    ]


RECORDS = (
    Record(
        "sort",
        lambda m: [*sorts(m), call(distinct(m, 3, 4), stable=True)],
        dtypes=NUMBERS,
        errors=(Error(lambda m: call(m(2), 1), IndexError), Error(lambda m: call(m(2)), RuntimeError, "complex", dtype="complex64")),
    ),
    Record("argsort", sorts, dtypes=NUMBERS, gradient=False),
    Record("msort", lambda m: [call(m(4, 3)), call(m(5))], dtypes=NUMBERS),
    Record(
        "topk",
        lambda m: [
            call(distinct(m, 3, 5), 2),
            call(distinct(m, 3, 5), 3, -1, False),
            call(distinct(m, 2, 400), 3),
            call(distinct(m, 3, 5), 0),
            call(m(), 1),
        ],
        dtypes=NUMBERS,
        errors=(Error(lambda m: call(m(3), 4), RuntimeError, "out of range"),),
    ),
    Record(
        "kthvalue",
        lambda m: [call(distinct(m, 3, 5), 2), call(distinct(m, 3, 5), 5, -1, True), call(m(), 1)],
        dtypes=NUMBERS,
        errors=(Error(lambda m: call(m(3), 4), RuntimeError, "out of range"),),
    ),
    Record(
        "unique",
        lambda m: [
            call(repeated(m, 3, 4)),
            call(repeated(m, 7), return_inverse=True, return_counts=True),
            call(repeated(m, 6, 2), dim=0, return_counts=True),
            call(m(0)),
        ],
        dtypes=NUMBERS,
        gradient=False,
    ),
    Record(
        "unique_consecutive",
        lambda m: [call(repeated(m, 9)), call(repeated(m, 9), True, True), call(repeated(m, 6, 1), dim=0)],
        dtypes=NUMBERS,
        gradient=False,
    ),
    Record(
        "searchsorted",
        searches,
        dtypes=NUMBERS,
        gradient=False,
        errors=(Error(lambda m: call(m(3), m(2), side="right", right=False, sorter=m.integers(2)), RuntimeError),),
    ),
    Record(
        "bucketize",
        lambda m: [call(m(3, 4), np.sort(distinct(m, 4))), call(m(3), np.sort(distinct(m, 4)), right=True)],
        dtypes=NUMBERS,
        gradient=False,
        errors=(Error(lambda m: call(m(3), m(2, 2)), RuntimeError, "1 dimension"),),
    ),
)
