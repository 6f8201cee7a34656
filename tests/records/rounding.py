"""Records of rounding."""

from __future__ import annotations

import numpy as np

from .record import pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")

RECORDS = [
    pointwise("floor", 1, np.floor, high=5, dtypes=ALL),
    pointwise("ceil", 1, np.ceil, high=5, dtypes=ALL),
    pointwise("trunc", 1, np.trunc, high=5, dtypes=ALL),
    pointwise("round", 1, np.round, high=5, dtypes=ALL),
    pointwise("special.round", 1, np.round, high=5, dtypes=("float32", "float64", "bfloat16")),
    pointwise("frac", 1, lambda a: a - np.trunc(a), high=5, dtypes=ALL),
]
