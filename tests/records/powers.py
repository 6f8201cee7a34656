"""Records of powers and roots."""

from __future__ import annotations

import numpy as np

from .record import Error, Record, call, pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64", "complex128")

RECORDS = [
    pointwise(
        "pow",
        2,
        np.power,
        low=0.5,
        high=3,
        scalars=(2, 3),
        dtypes=("float32", "float64", "bfloat16", "int64", "bool", "complex64"),
        errors=(
            Error(lambda make: call(make(3), -1), RuntimeError, "negative integer powers", "int64"),
            Error(lambda make: call(2, 3), TypeError, "invalid combination"),
        ),
    ),
    pointwise(
        "float_power",
        2,
        lambda a, b: np.power(np.asarray(a, complex if np.iscomplexobj(a) else float), b),
        low=0.5,
        high=3,
        scalars=(2,),
        specials=False,
        notes="as pow",
    ),
    pointwise("square", 1, np.square, dtypes=ALL),
    pointwise("sqrt", 1, np.sqrt, low=0.5, dtypes=ALL),
    pointwise("rsqrt", 1, lambda a: 1 / np.sqrt(a), low=0.5, high=4, dtypes=ALL),
    pointwise("reciprocal", 1, lambda a: 1 / a, away=0.5, dtypes=ALL),
    pointwise("hypot", 2, np.hypot, away=0.1, dtypes=("float32", "float64", "bfloat16", "int64", "complex64")),
    pointwise(
        "ldexp",
        2,
        lambda a, b: a * 2.0**b,
        dtypes=("float32", "float64", "int64", "complex64"),
        specials=False,
        notes="products that overflow in another order",
    ),
    Record(
        "frexp",
        lambda make: [call(make(3, 4, away=0.1)), call(make()), call(make(0, 2))],
        np.frexp,
        dtypes=("float32", "float64", "bfloat16", "int64", "complex64"),
        errors=(Error(lambda make: call(make(3)), RuntimeError, "frexp.. only supports", "int64"),),
    ),
]
