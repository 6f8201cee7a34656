"""Records of exponentials and logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from .record import pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "bool", "complex64", "complex128")


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x)) if np.iscomplexobj(x) else special.expit(x)


RECORDS = [
    pointwise("exp", 1, np.exp, dtypes=ALL),
    pointwise("exp2", 1, np.exp2, dtypes=ALL),
    pointwise("expm1", 1, np.expm1, dtypes=ALL),
    pointwise("log", 1, np.log, low=0.5, dtypes=ALL),
    pointwise("log2", 1, np.log2, low=0.5, dtypes=ALL),
    pointwise("log10", 1, np.log10, low=0.5, dtypes=ALL),
    pointwise("log1p", 1, np.log1p, low=-0.5, dtypes=ALL),
    pointwise("logaddexp", 2, np.logaddexp, dtypes=("float32", "float64", "bfloat16", "int64")),
    pointwise("logaddexp2", 2, np.logaddexp2, dtypes=("float32", "float64", "bfloat16", "int64")),
    pointwise("xlogy", 2, special.xlogy, low=0.5, scalars=(2,), dtypes=ALL[:-1]),
    pointwise("special.xlog1py", 2, special.xlog1py, low=0.5, scalars=(2,), dtypes=ALL[:-1]),
    pointwise("sigmoid", 1, logistic, dtypes=ALL),
    pointwise(
        "logit",
        1,
        lambda a, eps=None: special.logit(a if eps is None else np.clip(a, eps, 1 - eps)),
        low=0.2,
        high=0.8,
        extra=({}, {"eps": 0.25}),
        dtypes=("float32", "float64", "int64", "complex64"),
    ),
]
