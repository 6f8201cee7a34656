"""Records of circular and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from .record import pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "bool", "complex64", "complex128")
LOOSE = {"float32": (5e-6, 1e-5), "complex64": (2e-5, 2e-5), "gradient": (1e-3, 1e-3)}
HUGE = {"specials": False, "notes": "arguments of 1e38 need another reduction of the angle"}

RECORDS = [
    pointwise("sin", 1, np.sin, dtypes=ALL, tolerance=LOOSE),
    pointwise("cos", 1, np.cos, dtypes=ALL, tolerance=LOOSE),
    pointwise("tan", 1, np.tan, low=-1, high=1, dtypes=ALL, tolerance=LOOSE, **HUGE),
    pointwise("asin", 1, np.arcsin, low=-0.9, high=0.9, dtypes=ALL, tolerance=LOOSE),
    pointwise("acos", 1, np.arccos, low=-0.9, high=0.9, dtypes=ALL, tolerance=LOOSE),
    pointwise("atan", 1, np.arctan, dtypes=ALL, tolerance=LOOSE),
    pointwise("atan2", 2, np.arctan2, away=0.1, dtypes=ALL[:-1], tolerance=LOOSE),
    pointwise("sinh", 1, np.sinh, dtypes=ALL, tolerance=LOOSE),
    pointwise("cosh", 1, np.cosh, dtypes=ALL, tolerance=LOOSE),
    pointwise("tanh", 1, np.tanh, dtypes=ALL, tolerance=LOOSE),
    pointwise("asinh", 1, np.arcsinh, dtypes=ALL, tolerance=LOOSE),
    pointwise("acosh", 1, np.arccosh, low=1.5, high=3, dtypes=ALL, tolerance=LOOSE),
    pointwise("atanh", 1, np.arctanh, low=-0.9, high=0.9, dtypes=ALL, tolerance=LOOSE),
    pointwise("deg2rad", 1, np.deg2rad, low=-90, high=90, dtypes=ALL, tolerance=LOOSE),
    pointwise("rad2deg", 1, np.rad2deg, dtypes=ALL, tolerance=LOOSE),
]
