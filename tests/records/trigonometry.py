"""Records of circular and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from .record import pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "bool", "complex64", "complex128")
HUGE = {"specials": False, "notes": "arguments of 1e38 need another reduction of the angle"}

RECORDS = [
    pointwise("sin", 1, np.sin, dtypes=ALL),
    pointwise("cos", 1, np.cos, dtypes=ALL),
    pointwise("tan", 1, np.tan, low=-1, high=1, dtypes=ALL, **HUGE),
    pointwise("asin", 1, np.arcsin, low=-0.9, high=0.9, dtypes=ALL),
    pointwise("acos", 1, np.arccos, low=-0.9, high=0.9, dtypes=ALL),
    pointwise("atan", 1, np.arctan, dtypes=ALL),
    pointwise("atan2", 2, np.arctan2, away=0.1, dtypes=ALL[:-1]),
    pointwise("sinh", 1, np.sinh, dtypes=ALL),
    pointwise("cosh", 1, np.cosh, dtypes=ALL),
    pointwise("tanh", 1, np.tanh, dtypes=ALL),
    pointwise("asinh", 1, np.arcsinh, dtypes=ALL),
    pointwise("acosh", 1, np.arccosh, low=1.5, high=3, dtypes=ALL),
    pointwise("atanh", 1, np.arctanh, low=-0.9, high=0.9, dtypes=ALL),
    pointwise("deg2rad", 1, np.deg2rad, low=-90, high=90, dtypes=ALL),
    pointwise("rad2deg", 1, np.rad2deg, dtypes=ALL),
]
