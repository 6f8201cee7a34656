"""Records of reductions, extrema, norms, running totals and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .record import FLOATS, Error, Maker, Record, Sample, call

F64, I64 = np.dtype("float64"), np.dtype("int64")
REAL = ("float32", "float64", "bfloat16", "int64", "bool")
NUMBERS = ("float32", "float64", "int64")


def distinct(make: Maker, *shape: int) -> np.ndarray:
    """Values of which no two are equal, so that there is one right index."""
    count = int(np.prod(shape))
    values = make.rng.permutation(count) - count // 2
    return np.asarray(values.reshape(shape)).astype(make(0).dtype)


def over_dims(make: Maker) -> list[Sample]:
    return [
        call(make(3, 4)),
        call(make(3, 4), 1),
        call(make(3, 4), 0, True),
        call(make(2, 3, 4), (0, 2)),
        call(make(2, 3, 4), [-1, 0], True),
        call(make(2, 3, 4), dim=1, keepdim=True),
        call(make(2, 3, 4), ()),
        call(make()),
        call(make(), 0),
        call(make(0, 3), 0),
        call(make(0, 3)),
        call(make(3, 4), axis=1),
        call(make(3, 4), None, True),
    ]


def along_dim(make: Maker) -> list[Sample]:
    return [call(distinct(make, 3, 4), 1), call(distinct(make, 2, 3, 4), -1, True), call(make(), 0), call(distinct(make, 3, 4), dim=1)]


def bad_dim(*dims: int) -> Callable[[Maker], Sample]:
    return lambda make: call(make(3, 4), *dims)


OUT_OF_RANGE = Error(bad_dim(2), IndexError, "Dimension out of range")


def numbered(make: Maker, *shape: int) -> np.ndarray:
    """Values away from 0, where quotients and powers are smooth."""
    return make(*shape, low=0.5, high=2)


def spread_samples(make: Maker) -> list[Sample]:
    return [
        call(make(3, 4)),
        call(make(3, 4), 1),
        call(make(3, 4), False),
        call(make(3, 4), 1, False, True),
        call(make(2, 3, 4), (0, 2), correction=0),
        call(make(3, 4), dim=0, correction=2, keepdim=True),
        call(make(1), 0),
    ]


def with_zeros(make: Maker) -> list[Sample]:
    first, second = numbered(make, 3, 4), numbered(make, 2, 3)
    first[0, 1] = second[0, 0] = second[0, 2] = 0
    return [call(first, 1), call(second, -1), call(numbered(make, 3, 4), 0), call(numbered(make), 0)]


def nan_in(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "fV":
        array[0, 1] = np.nan
    return array


def quantile_samples(make: Maker) -> list[Sample]:
    array = distinct(make, 3, 5)
    return [
        call(array, 0.3),
        call(array, np.array([0.1, 0.6], array.dtype), 1),
        call(array, 0.25, 0, True),
        *[call(array, 0.6, 1, interpolation=interpolation) for interpolation in ("lower", "higher", "midpoint", "nearest")],
    ]


def norm_samples(make: Maker) -> list[Sample]:
    orders = (2, 1, 0, 3, 0.5, float("inf"), -float("inf"))
    away = np.asarray(0.3, make(0).dtype)  # from the kink at 0
    return [call(distinct(make, 3, 4) + away, order) for order in orders] + [call(make(2, 3, 4), 2, (0, 2), True), call(make(3, 4))]


def _except_dim(v: Any, order: float, dim: int | None) -> Any:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim)
    return (np.abs(v) ** order).sum(axes, keepdims=dim is not None) ** (1 / order)


def _renormed(a: np.ndarray, p: float, dim: int, maxnorm: float) -> np.ndarray:
    others = tuple(k for k in range(a.ndim) if k != dim % a.ndim)
    sizes = np.abs(a.astype(np.float64))
    norms = sizes.max(others, keepdims=True) if p == np.inf else (sizes**p).sum(others, keepdims=True) ** (1 / p)
    return (a * np.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1)).astype(a.dtype)  # PyTorch adds this


def _histogramdd(a: np.ndarray, bins: Any, range: Any = None, *, weight: Any = None, density: bool = False) -> list[np.ndarray]:
    limits = None if range is None else np.reshape(range, (-1, 2))
    points = a.reshape(-1, a.shape[-1]).astype(np.float64)
    hist, edges = np.histogramdd(points, bins, limits, weights=weight, density=density)
    return [hist.astype(a.dtype), *[line.astype(a.dtype) for line in edges]]


def _increasing(m: Maker, count: int) -> np.ndarray:
    """Coordinates of samples, the further apart the later."""
    return np.arange(count, dtype="float64" if m.dtype in ("float64", "complex128") else "float32") ** 1.5


RECORDS = (
    Record(
        "sum",
        lambda m: [*over_dims(m), call(m(3, 4), dtype=F64)],
        errors=(OUT_OF_RANGE, Error(bad_dim((0, 0)), RuntimeError, "appears multiple times")),
    ),
    Record("nansum", lambda m: [call(nan_in(m(3, 4))), call(nan_in(m(3, 4)), 1), call(m(2, 3), 0, True)]),
    Record(
        "mean",
        lambda m: [*over_dims(m), call(m(3, 4), dtype=F64)],
        errors=(OUT_OF_RANGE, Error(bad_dim(), RuntimeError, "could not infer output dtype", dtype="int64")),
    ),
    Record("nanmean", lambda m: [call(nan_in(m(3, 4))), call(nan_in(m(3, 4)), 1), call(m(2, 3), 0, True)]),
    Record(
        "prod",
        lambda m: [call(numbered(m, 2, 3)), *with_zeros(m), call(m(0, 3), 0), call(m(2), dtype=F64)],
        errors=(OUT_OF_RANGE,),
    ),
    *[
        Record(name, spread_samples, errors=(Error(bad_dim(), RuntimeError, "floating point and complex", dtype="int64"),))
        for name in ("var", "std", "var_mean", "std_mean")
    ],
    Record("all", over_dims, errors=(OUT_OF_RANGE,), gradient=False),
    Record("any", over_dims, errors=(OUT_OF_RANGE,), gradient=False),
    Record("count_nonzero", lambda m: [call(m(3, 4)), call(m(3, 4), 1), call(m(2, 3, 4), (0, 2)), call(m())], gradient=False),
    Record("logsumexp", lambda m: [call(m(3, 4), 1), call(m(2, 3, 4), (0, 2), True), call(m(), 0)], errors=(OUT_OF_RANGE,)),
    *[
        Record(
            name,
            lambda m: [call(distinct(m, 3, 4)), call(distinct(m, 3, 4), 1), call(distinct(m, 2, 3, 4), (0, 2), True), call(m())],
            dtypes=REAL,
            errors=(OUT_OF_RANGE, Error(lambda m: call(m(0)), RuntimeError, "numel")),
        )
        for name in ("amax", "amin")
    ],
    *[
        Record(
            name,
            lambda m: [call(distinct(m, 3, 4)), *along_dim(m), call(m(3, 4), m(3, 4))],
            dtypes=REAL,
            errors=(OUT_OF_RANGE, Error(lambda m: call(m(0)), RuntimeError, "numel")),
        )
        for name in ("max", "min")
    ],
    Record("aminmax", lambda m: [call(distinct(m, 3, 4)), call(distinct(m, 3, 4), dim=1), call(m(3, 4), dim=0, keepdim=True)], dtypes=REAL),
    *[
        Record(
            name,
            lambda m: [call(distinct(m, 3, 4)), *along_dim(m), call(m(3, 4), None, True)],
            dtypes=(*NUMBERS, "bfloat16"),
            gradient=False,
            errors=(OUT_OF_RANGE, Error(lambda m: call(m(0)), IndexError)),
        )
        for name in ("argmax", "argmin")
    ],
    # running totals
    Record(
        "cumsum",
        lambda m: [call(m(3, 4), 1), call(m(2, 3, 4), 0), call(m(), 0), call(m(0, 3), 0)],
        lambda a, dim, dtype=None: np.cumsum(a, dim if a.ndim else None).reshape(a.shape),
        errors=(OUT_OF_RANGE,),
    ),
    Record("cumprod", with_zeros, errors=(OUT_OF_RANGE,)),
    *[
        Record(
            name, lambda m: [call(distinct(m, 3, 4), 1), call(distinct(m, 2, 3, 4), 0), call(m(), 0)], dtypes=REAL, errors=(OUT_OF_RANGE,)
        )
        for name in ("cummax", "cummin")
    ],
    Record(
        "logcumsumexp",
        lambda m: [call(m(3, 4), 1), call(m(3, 4), 0), call(m(), 0)],
        dtypes=(*FLOATS, "bfloat16"),
    ),
    Record(
        "diff",
        lambda m: [call(m(3, 4)), call(m(3, 4), 2), call(m(3, 4), 1, 0), call(m(3, 4), prepend=m(3, 1), append=m(3, 2)), call(m(2), 5)],
        is_view=False,
    ),
    Record(
        "gradient",
        lambda m: [
            call(m(5)),
            call(m(3, 4), edge_order=2),
            call(m(3, 4), spacing=2.5, dim=1),
            call(m(3, 4), spacing=[0.5, 2.0], dim=(1, 0)),
            call(m(3, 4), spacing=[_increasing(m, 3), _increasing(m, 4)]),
            call(m(4), spacing=[_increasing(m, 4)], edge_order=2),
        ],
        lambda a, *, spacing=1.0, dim=None, edge_order=1: np.gradient(
            a, *(spacing if isinstance(spacing, list) else [spacing]), axis=dim, edge_order=edge_order
        ),
        dtypes=("float32", "float64", "complex64", "int64"),
        errors=(
            Error(lambda m: call(m(3), edge_order=3), RuntimeError, "edge_order=1 and edge_order=2"),
            Error(lambda m: call(m(2), edge_order=2), RuntimeError, "at least edge_order"),
            Error(lambda m: call(m(3), spacing=[1, 2]), RuntimeError, "list of length 2"),
            Error(lambda m: call(m(3, 3), spacing=[1], dim=(0, 1)), RuntimeError, "same length"),
            Error(lambda m: call(m(3)), RuntimeError, "uint8", dtype="uint8"),
        ),
    ),
    Record(
        "renorm",
        lambda m: [call(m(3, 4), 2, 0, 1.0), call(m(3, 4), 1, 1, 3.0), call(m(2, 3, 2), float("inf"), -1, 0.5), call(m(3, 4), 2.5, 0, 100)],
        _renormed,
        dtypes=FLOATS,
        errors=(
            Error(lambda m: call(m(3, 3), 0, 0, 1.0), RuntimeError, "non-positive-norm"),
            Error(lambda m: call(m(3, 3), 2, 0, -1.0), RuntimeError, "maxnorm to be >= 0"),
            Error(lambda m: call(m(3), 2, 0, 1.0), RuntimeError, "at least 2 dimensions"),
            Error(lambda m: call(m(3, 3), 2, 2, 1.0), IndexError, "out of range"),
        ),
    ),
    Record(
        "histogramdd",
        lambda m: [
            call(m(20, 2), [2, 3]),
            call(m(4, 5, 3), 2),
            call(m(9, 2), [3, 2], range=[-1.0, 1.0, -0.5, 2.0]),
            call(m(9, 2), [np.array([-1, 0, 1.5], m(0).dtype), np.array([-2, 0, 2], m(0).dtype)]),
            call(m(9, 2), [2, 2], weight=m(9, low=0, high=2), density=True),
        ],
        _histogramdd,
        dtypes=("float32", "float64"),
        gradient=False,
        errors=(
            Error(lambda m: call(m(3, 2), [2]), RuntimeError, "must be equal to the innermost"),
            Error(lambda m: call(m(3, 2), [2, 0]), RuntimeError, "bins must be > 0"),
            Error(lambda m: call(m(3, 2), 2, range=[0.0, 1.0]), RuntimeError, "should have 4 elements"),
            Error(lambda m: call(m(3, 2), 2, range=[1.0, 0.0, 0.0, 1.0]), RuntimeError, "min should not exceed max"),
            Error(lambda m: call(m(3, 2), 2, weight=m(2)), RuntimeError, "same shape as the input"),
            Error(lambda m: call(m(3, 2), 2), NotImplementedError, "not implemented", dtype="int64"),
        ),
    ),
    Record(
        "trapezoid",
        lambda m: [call(m(3, 4)), call(m(3, 4), m(4)), call(m(3, 4), dx=0.5, dim=0), call(m(3, 4), m(3, 4))],
        dtypes=FLOATS,
    ),
    Record("cumulative_trapezoid", lambda m: [call(m(3, 4)), call(m(3, 4), m(4)), call(m(3, 4), dx=0.5, dim=0)], dtypes=FLOATS),
    # norms
    Record(
        "norm",
        lambda m: [*norm_samples(m), call(m(3, 4), "fro"), call(m(3, 4), "fro", (0, 1)), call(m(3, 4), 2, 1)],
        dtypes=FLOATS,
    ),
    Record(
        "dist",
        lambda m: [call(m(3, 4), m(3, 4)), call(m(3, 4), m(4), 1), call(m(3), m(3), float("inf"))],
        dtypes=(*FLOATS, "complex64"),
    ),
    Record(
        "norm_except_dim",
        lambda m: [call(m(3, 4)), call(m(2, 3, 4), 1, 1), call(m(2, 3, 4), 2, -2), call(m(3, 4), 2, -1), call(m(3), 2, 0)],
        lambda v, pow=2, dim=0: _except_dim(v, pow, None if dim == -1 else dim % v.ndim),
        dtypes=FLOATS,
    ),
    Record(
        "linalg.vector_norm",
        norm_samples,
        dtypes=FLOATS,
        errors=(Error(bad_dim(), RuntimeError, "floating point or complex", dtype="int64"),),
    ),
    Record(
        "linalg.matrix_norm",
        lambda m: (
            [call(distinct(m, 3, 4), order) for order in ("fro", 1, -1, float("inf"), -float("inf"))]
            + [call(m(2, 3, 4), "fro", (0, 2), True)]
        ),
        dtypes=FLOATS,
        errors=(Error(lambda m: call(m(3)), RuntimeError, "at least 2 dim"), Error(bad_dim(7), RuntimeError, "not supported")),
    ),
    Record(
        "linalg.norm",
        lambda m: [call(m(3, 4)), call(m(2, 3, 4)), call(m(4), 3), call(m(3, 4), 1, 1)],
        dtypes=FLOATS,
    ),
    # statistics
    *[
        Record(
            name,
            lambda m: [
                call(distinct(m, 3, 5)),
                call(distinct(m, 3, 4), 1),
                call(nan_in(distinct(m, 3, 5)), 1),
                call(distinct(m, 2, 5), 1, True),
            ],
            dtypes=("float64", "float32", "int64"),
            gradient=False,
            notes="gradients meet NaN; test_selections_send_gradients_to_one_place has them",
        )
        for name in ("median", "nanmedian")
    ],
    Record(
        "mode",
        lambda m: [call(np.sort(m(3, 5, low=0, high=3).round().astype(m(0).dtype), 1)), call(distinct(m, 3, 4), 1)],
        dtypes=NUMBERS,
        gradient=False,
        notes="an index among equals",
    ),
    Record("quantile", quantile_samples, dtypes=FLOATS, errors=(Error(bad_dim(2.0), RuntimeError, "range"),)),
    Record("nanquantile", quantile_samples, dtypes=FLOATS),
    Record(
        "histc",
        lambda m: [call(m(20)), call(m(3, 4), 5), call(m(9), 4, -1, 1), call(m(3), bins=3, min=0, max=2)],
        dtypes=FLOATS,
        gradient=False,
        errors=(Error(lambda m: call(m(3), 0), RuntimeError, "bins"),),
    ),
    Record(
        "histogram",
        lambda m: [
            call(m(20), 4),
            call(m(9), 3, range=(-1.0, 1.0)),
            call(m(9), np.array([-1, 0, 1.5], m(0).dtype)),
            call(m(9), 3, weight=m(9), density=True),
        ],
        dtypes=FLOATS,
        gradient=False,
    ),
    Record(
        "bincount",
        lambda m: [
            call(m.integers(9, high=5)),
            call(m.integers(4, high=3), minlength=6),
            call(m.integers(0)),
            call(m.integers(4, high=3), m(4, dtype="float64")),
        ],
        dtypes=("float32",),
        gradient=False,
        errors=(Error(lambda m: call(np.array([-1])), RuntimeError, "non-negative"),),
    ),
    Record(
        "cov",
        lambda m: [call(m(3, 5)), call(m(4)), call(m(2, 4), correction=0), call(m(2, 3), fweights=np.array([1, 2, 1]))],
        dtypes=(*FLOATS, "complex64"),
    ),
    Record("corrcoef", lambda m: [call(m(3, 5)), call(m(2, 6))], dtypes=FLOATS),
)
