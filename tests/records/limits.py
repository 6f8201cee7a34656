"""Records of clamp, maximum and minimum."""

from __future__ import annotations

import numpy as np

from .record import Error, Record, call, pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")


def _clamp(make: object) -> list:
    x = make(3, 4, low=-3, high=3)  # type: ignore[operator]
    low, high = make(4, low=-2, high=0), make(3, 1, low=1, high=2)  # type: ignore[operator]
    return [call(x, 0), call(x, max=1), call(x, -1, 1), call(x, low, high), call(x, max=high), call(make(), 0, 1)]  # type: ignore[operator]


RECORDS = [
    Record(
        "clamp",
        _clamp,
        lambda a, min=None, max=None: np.clip(a, min, max),
        dtypes=("float32", "float64", "bfloat16", "int64", "complex64"),
        errors=tuple(Error(lambda make, n=n: call(make(n)), RuntimeError, "At least one of") for n in (2, 5000)),
    ),
    pointwise("clamp_min", 2, np.maximum, scalars=(0,), dtypes=ALL, specials=False, notes="kinks have no derivative; NaN as in clamp"),
    pointwise("clamp_max", 2, np.minimum, scalars=(0,), dtypes=ALL, specials=False, notes="kinks have no derivative; NaN as in clamp"),
    pointwise("maximum", 2, np.maximum, dtypes=ALL, errors=(Error(lambda make: call(make(2), 1), TypeError, "must be Tensor"),)),
    pointwise("minimum", 2, np.minimum, dtypes=ALL),
    pointwise("fmax", 2, np.fmax, dtypes=ALL, signed_zeros=False),
    pointwise("fmin", 2, np.fmin, dtypes=ALL, signed_zeros=False),
]
