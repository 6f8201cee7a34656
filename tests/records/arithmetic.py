"""Records of sums, products, quotients and remainders."""

from __future__ import annotations

import numpy as np

from .record import Error, Record, call, pointwise

REAL_INT = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")


def _mismatch(make: object) -> object:
    return call(make(2, 3), make(2, 4))  # type: ignore[operator]


_shapes = Error(_mismatch, RuntimeError, "must match the size of tensor b")

RECORDS = [
    pointwise(
        "add",
        2,
        lambda a, b, alpha=1: a + alpha * b,
        scalars=(2, -3),
        extra=({}, {"alpha": 2}),
        dtypes=REAL_INT,
        errors=(
            _shapes,
            Error(lambda make: call(make(2), make(2), alpha=1.5), RuntimeError, "floating point", "int64"),
            Error(lambda make: call(make(2), make(2), alpha=1j), RuntimeError, "complex"),
            Error(lambda make: call(make(2), "a"), TypeError),
        ),
    ),
    pointwise(
        "sub",
        2,
        lambda a, b, alpha=1: a - alpha * b,
        scalars=(2,),
        extra=({}, {"alpha": 2}),
        dtypes=REAL_INT,
        errors=(_shapes, Error(lambda make: call(make(2), make(2)), RuntimeError, "two bool tensors", "bool")),
    ),
    pointwise("rsub", 2, lambda a, b, alpha=1: b - alpha * a, scalars=(2,), extra=({}, {"alpha": 2}), dtypes=REAL_INT),
    pointwise("mul", 2, np.multiply, scalars=(2,), dtypes=REAL_INT, errors=(_shapes,)),
    pointwise("addcmul", 3, lambda a, b, c, value=1: a + value * b * c, extra=({}, {"value": 2}), dtypes=REAL_INT),
    pointwise(
        "addcdiv",
        3,
        lambda a, b, c, value=1: a + value * b / c,
        away=0.5,
        extra=({}, {"value": 2}),
        dtypes=("float32", "float64", "bfloat16", "int64", "complex64"),
        errors=(Error(lambda make: call(make(2), make(2), make(2)), RuntimeError, "Integer division with addcdiv", "int64"),),
    ),
    pointwise(
        "lerp",
        3,
        lambda a, b, w: a + w * (b - a),
        scalars=(0.25, 0.75),
        dtypes=("float32", "float64", "bfloat16", "int64", "complex64"),
        errors=(Error(lambda make: call(make(2), make(2), 0.5), RuntimeError, "not implemented", "int64"),),
        specials=False,
        notes="PyTorch's vectorised and scalar loops treat infinities differently",
    ),
    pointwise(
        "div",
        2,
        lambda a, b, rounding_mode=None: a / b if rounding_mode is None else (np.floor if rounding_mode == "floor" else np.trunc)(a / b),
        away=0.5,
        scalars=(2,),
        extra=({}, {"rounding_mode": "floor"}, {"rounding_mode": "trunc"}),
        dtypes=("float32", "float64", "int64", "uint8", "bool", "complex64"),
        errors=(
            Error(lambda make: call(make(2), 2, rounding_mode="up"), RuntimeError, "rounding_mode"),
            Error(lambda make: call(make(2), 0, rounding_mode="floor"), RuntimeError, "ZeroDivisionError", "int64"),
        ),
    ),
    pointwise("true_divide", 2, np.true_divide, away=0.5, scalars=(2,)),
    pointwise(
        "floor_divide",
        2,
        lambda a, b: np.floor(a / b),
        away=0.5,
        scalars=(2,),
        gradient=False,
        dtypes=REAL_INT,
        errors=(Error(lambda make: call(make(2), 0), RuntimeError, "ZeroDivisionError", "int64"),),
    ),
    pointwise(
        "fmod",
        2,
        np.fmod,
        away=0.5,
        scalars=(2,),
        specials=False,
        notes="PyTorch's vector loop gives NaN where the quotient overflows",
        dtypes=REAL_INT,
        errors=(Error(lambda make: call(make(2), 0), RuntimeError, "ZeroDivisionError", "int64"),),
    ),
    pointwise(
        "remainder",
        2,
        np.remainder,
        away=0.5,
        scalars=(2,),
        specials=False,
        notes="PyTorch's vector loop gives NaN where the quotient overflows",
        dtypes=REAL_INT,
        errors=(Error(lambda make: call(make(2), 0), RuntimeError, "ZeroDivisionError", "int64"),),
    ),
    pointwise("gcd", 2, np.gcd, high=30, dtypes=("int64", "int32", "uint8", "float32", "bool"), gradient=False),
    pointwise("lcm", 2, np.lcm, high=30, dtypes=("int64", "int32", "float32", "bool"), gradient=False),
    pointwise("neg", 1, np.negative, errors=(Error(lambda make: call(make(2)), RuntimeError, "Negation", "bool"),)),
    Record("positive", lambda make: [call(make(2, 3)), call(make())], lambda a: a, is_view=True),
]
