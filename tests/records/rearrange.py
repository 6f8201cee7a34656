"""Records of copies with elements repeated, reversed or shifted."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
RANGE = "Dimension out of range"


def _times(x: Any, *times: Any) -> Any:
    times = times[0] if len(times) == 1 and isinstance(times[0], tuple) else times
    return np.tile(x, times)


def _interleave(x: Any, repeats: Any = None, dim: Any = None, output_size: Any = None) -> Any:
    return np.repeat(np.arange(x.size), x) if repeats is None else np.repeat(x, repeats, dim)


_REPEATS = [
    Record(
        "Tensor.repeat",
        lambda make: [
            call(make(2, 3), 2, 1),
            call(make(2, 3), (2, 1, 2)),
            call(make(2), 3),
            call(make(), 2),
            call(make(2), 0),
            call(make(0, 2), 2, 2),
        ],
        _times,
        DTYPES,
        (
            Error(lambda make: call(make(2, 3), 2), RuntimeError, "can not be smaller than number of dimensions"),
            Error(lambda make: call(make(2), -1), RuntimeError),
        ),
    ),
    Record("tile", lambda make: [call(make(2, 3), (2,)), call(make(2, 3), (2, 1, 2)), call(make(), (2,)), call(make(2), ())], np.tile),
    Record("Tensor.tile", lambda make: [call(make(2, 3), 2), call(make(2, 3), 2, 1, 2), call(make(2), (3, 1))], _times),
    Record(
        "repeat_interleave",
        lambda make: [
            call(make(2, 3), 2),
            call(make(2, 3), 2, 1),
            call(make(2, 3), np.array([1, 3]), 0),
            call(make(2, 3), np.array([0, 2, 1]), dim=-1),
            call(make(3), np.array([2])),
            call(make(), 3),
            call(make(2), np.array([1, 2]), 0, output_size=3),
            call(np.array([2, 0, 3])),
        ],
        _interleave,
        DTYPES,
        (
            Error(lambda make: call(make(2, 3), np.array([1, 2, 3, 4]), 1), RuntimeError, "same size as input along dim"),
            Error(lambda make: call(make(2), np.array([1, -1]), 0), RuntimeError, "negative"),
            Error(lambda make: call(make(2), make(2), 0), RuntimeError, "Long or Int"),
            Error(lambda make: call(make(2), 2, 1), IndexError, RANGE),
        ),
    ),
]

RECORDS = [
    *_REPEATS,
    Record(
        "flip",
        lambda make: [
            call(make(3, 4), (0,)),
            call(make(3, 4), (0, -1)),
            call(make(2, 3, 4), (1,)),
            call(make(), ()),
            call(make(0, 2), (0,)),
        ],
        np.flip,
        DTYPES,
        (
            Error(lambda make: call(make(3), (1,)), IndexError, RANGE),
            Error(lambda make: call(make(3), (0, 0)), RuntimeError, "appears multiple times"),
        ),
    ),
    Record(
        "Tensor.flip",
        lambda make: [call(make(3, 4), 0), call(make(3, 4), 0, 1), call(make(3, 4), [1])],
        lambda x, *dims: np.flip(x, tuple(dims[0]) if isinstance(dims[0], list) else dims),
        DTYPES,
    ),
    Record("fliplr", lambda make: [call(make(3, 4))], np.fliplr, DTYPES, (Error(lambda make: call(make(3)), RuntimeError, ">= 2-d"),)),
    Record("flipud", lambda make: [call(make(3, 4)), call(make(3))], np.flipud, DTYPES, (Error(lambda make: call(make()), RuntimeError),)),
    Record(
        "roll",
        lambda make: [
            call(make(3, 4), 1),
            call(make(3, 4), 1, 0),
            call(make(3, 4), (1, -2), (0, 1)),
            call(make(3, 4), (5,), (-1,)),
            call(make(3, 4), (1, 1), (0, 0)),
            call(make(0, 3), 1, 0),
        ],
        lambda x, shifts, dims=None: np.roll(x, shifts, dims),
        DTYPES,
        (
            Error(lambda make: call(make(3), (1, 2), 0), RuntimeError, "shifts and dimensions must align"),
            Error(lambda make: call(make(3), (1, 2)), RuntimeError, "shifts and dimensions must align"),
            Error(lambda make: call(make(3), 1, 1), IndexError, RANGE),
        ),
    ),
    Record(
        "rot90",
        lambda make: [
            call(make(3, 4)),
            call(make(3, 4), 2),
            call(make(3, 4), -1),
            call(make(3, 4), 4),
            call(make(2, 3, 4), 1, (1, 2)),
            call(make(2, 3, 4), 3, (0, -1)),
        ],
        lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
        DTYPES,
        (
            Error(lambda make: call(make(3, 4), 1, (0, 0)), RuntimeError, "rotation dims to be different"),
            Error(lambda make: call(make(3)), RuntimeError, "total dims >= 2"),
            Error(lambda make: call(make(3, 4), 1, (0,)), RuntimeError, "rotation dims == 2"),
        ),
    ),
]
