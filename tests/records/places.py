"""Records of positions of elements, and of segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .record import Error, Maker, Record, Sample, call


def _first_rows(a: np.ndarray, *, size: int, fill_value: int = -1) -> np.ndarray:
    rows = np.argwhere(a)[:size]
    return np.concatenate([rows, np.full((size - len(rows), a.ndim), fill_value, np.int64)])


def _segments(m: Maker) -> Iterable[Sample]:
    for reduce in ("sum", "mean", "prod", "max", "min"):
        is_finite = reduce in ("sum", "prod") or m.dtype != "float64"  # finite differences need finite results
        yield call(m(5, 2), reduce, lengths=np.array([2, 0, 3] if is_finite else [2, 3]))
        yield call(m(5), reduce, offsets=np.array([0, 1, 1, 5]), initial=0.5)
    yield call(m(2, 4, 3), "prod", lengths=np.array([[1, 3], [4, 0]]), axis=1)
    yield call(m(6), "sum", lengths=np.array([2, 2]), unsafe=True)


NUMPY = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
NOTHING = {"sum": 0.0, "mean": np.nan, "prod": 1.0, "max": -np.inf, "min": np.inf}


def _reduced(
    data: np.ndarray,
    reduce: str,
    *,
    lengths: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> np.ndarray:
    lengths = np.diff(offsets) if lengths is None else lengths
    if axis:
        options = {"initial": initial, "axis": axis - 1}
        return np.stack([_reduced(row, reduce, lengths=counts, **options) for row, counts in zip(data, lengths, strict=True)])
    rows, start = [], 0
    for count in lengths:
        part = data[start : start + count].astype(np.float64)
        start += count
        if initial is not None:
            part = np.concatenate([np.full((1, *part.shape[1:]), initial), part])
        if not len(part):
            rows.append(np.full(part.shape[1:], NOTHING[reduce]))
        elif reduce == "mean":
            rows.append(part.sum(0) / max(count, 1))
        else:
            rows.append(NUMPY[reduce](part, 0))
    return np.stack(rows).astype(data.dtype)


RECORDS = [
    Record(
        "nonzero_static",
        lambda m: [call(m(3, 4), size=5), call(m(3), size=6, fill_value=7), call(m(2, 2), size=0), call(m(), size=1)],
        _first_rows,
        gradient=False,
        errors=(Error(lambda m: call(m(3), size=-1), RuntimeError, "non-negative"),),
    ),
    Record(
        "unravel_index",
        lambda m: [call(m.integers(5, high=12), (3, 4)), call(m.integers(2, 2, high=24), (2, 3, 4)), call(m.integers(), 5)],
        lambda indices, shape: np.unravel_index(indices, shape),
        dtypes=("int64",),
        gradient=False,
        expanded=False,
        errors=(
            Error(lambda m: call(m(3), (3, 4)), TypeError, "expected 'indices' to be integer dtype"),
            Error(lambda m: call(m.integers(3), 2.5), TypeError, "int or sequence of ints"),
            Error(lambda m: call(m.integers(3), (2, -1)), ValueError, "cannot have negative values"),
        ),
    ),
    Record(
        "segment_reduce",
        _segments,
        _reduced,
        dtypes=("float32", "float64", "bfloat16"),
        errors=(
            Error(lambda m: call(m(3), "sum"), RuntimeError, "Either lengths or offsets"),
            Error(lambda m: call(m(3), "median", lengths=np.array([3])), RuntimeError, "must be either"),
            Error(lambda m: call(m(3), "sum", lengths=np.array([2])), RuntimeError, "to sum to"),
            Error(lambda m: call(m(3), "sum", lengths=np.array([-1, 4])), RuntimeError, "negative"),
            Error(lambda m: call(m(3, 3), "sum", lengths=np.array([3]), axis=1), RuntimeError, "Expected axis to be the last"),
            Error(lambda m: call(m(3), "sum", lengths=np.array([3])), NotImplementedError, "not implemented", dtype="int64"),
        ),
    ),
]
