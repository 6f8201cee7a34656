"""Records of comparisons, logic and bits."""

from __future__ import annotations

import operator

import numpy as np

from .record import Error, Record, call, pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")
INTEGERS = ("int64", "int32", "uint8", "bool", "float32")


def _pairs(make: object) -> list:
    a = make(3, 4, low=-3, high=3)  # type: ignore[operator]
    return [call(a, a.copy()), call(a, make(3, 4)), call(make(), make())]  # type: ignore[operator]


def _order(name: str, function: object) -> Record:
    return pointwise(
        name,
        2,
        function,  # type: ignore[arg-type]
        low=-1,
        scalars=(0, 0.5),
        dtypes=ALL,
        gradient=False,
        errors=(Error(lambda make: call(make(2), make(3)), RuntimeError, "must match"), Error(lambda make: call(1, make(2)), TypeError)),
    )


def _kind(name: str, function: object) -> Record:
    return pointwise(name, 1, function, dtypes=ALL, gradient=False)  # type: ignore[arg-type]


RECORDS = [
    _order("eq", np.equal),
    _order("ne", np.not_equal),
    _order("lt", np.less),
    _order("le", np.less_equal),
    _order("gt", np.greater),
    _order("ge", np.greater_equal),
    Record(
        "equal",
        lambda make: [*_pairs(make), call(make(2), make(2, dtype="int64")), call(make(2, 1), make(2))],
        np.array_equal,
        gradient=False,
    ),
    Record(
        "isclose",
        lambda make: [*_pairs(make), call(make(3), make(3), rtol=0.5, atol=0.1)],
        np.isclose,
        gradient=False,
        errors=(
            Error(lambda make: call(make(2), make(2, dtype="int64")), RuntimeError, "did not match"),
            Error(lambda make: call(make(2), make(2), rtol=-1.0), RuntimeError),
        ),
    ),
    Record("allclose", _pairs, np.allclose, gradient=False),
    _kind("isnan", np.isnan),
    _kind("isinf", np.isinf),
    _kind("isfinite", np.isfinite),
    _kind("isposinf", np.isposinf),
    _kind("isneginf", np.isneginf),
    _kind("isreal", np.isreal),
    pointwise("logical_and", 2, np.logical_and, dtypes=ALL, gradient=False),
    pointwise("logical_or", 2, np.logical_or, dtypes=ALL, gradient=False),
    pointwise("logical_xor", 2, np.logical_xor, dtypes=ALL, gradient=False),
    pointwise("logical_not", 1, np.logical_not, dtypes=ALL, gradient=False),
    pointwise("bitwise_and", 2, operator.and_, high=9, scalars=(3,), dtypes=INTEGERS, gradient=False),
    pointwise("bitwise_or", 2, operator.or_, high=9, scalars=(3,), dtypes=INTEGERS, gradient=False),
    pointwise("bitwise_xor", 2, operator.xor, high=9, scalars=(3,), dtypes=INTEGERS, gradient=False),
    pointwise("bitwise_not", 1, operator.invert, high=9, dtypes=INTEGERS, gradient=False),
    pointwise("bitwise_left_shift", 2, operator.lshift, low=0, high=9, scalars=(3,), dtypes=INTEGERS, gradient=False),
    pointwise("bitwise_right_shift", 2, operator.rshift, low=0, high=9, scalars=(3,), dtypes=INTEGERS, gradient=False),
    Record(
        "isin",
        lambda make: [
            call(make(3, 4, high=5), make(3, high=5)),
            call(make(3, 4, high=5), 1),
            call(make(3), make(2), invert=True, assume_unique=True),
        ],
        lambda a, b, invert=False, assume_unique=False: np.isin(a, b, invert=invert),
        dtypes=("float32", "float64", "int64", "complex64"),
        gradient=False,
    ),
]
