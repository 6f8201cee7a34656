"""Records of magnitudes, signs, complex parts and neighbours."""

from __future__ import annotations

import numpy as np

from .record import Error, Record, call, pointwise

ALL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64", "complex128")
PARTS = ("float32", "float64", "int64")

RECORDS = [
    pointwise("abs", 1, np.absolute, away=0.1, dtypes=ALL),
    pointwise("sign", 1, np.sign, away=0.1, dtypes=ALL),
    pointwise("sgn", 1, lambda a: a / np.abs(a) if a.dtype.kind == "c" else np.sign(a), away=0.1, dtypes=ALL),
    pointwise("signbit", 1, np.signbit, dtypes=("float32", "float64", "bfloat16", "int64", "bool", "complex64"), gradient=False),
    pointwise("copysign", 2, np.copysign, away=0.1, scalars=(-1.5,), dtypes=ALL),
    pointwise(
        "heaviside",
        2,
        np.heaviside,
        gradient=False,
        dtypes=ALL,
        errors=(Error(lambda make: call(make(2), make(2, dtype="int64")), RuntimeError, "different dtypes"),),
    ),
    pointwise("nan_to_num", 1, None, extra=({}, {"nan": 1.5, "posinf": 2.5, "neginf": -2.5}), dtypes=ALL[:-2]),
    pointwise("nextafter", 2, np.nextafter, dtypes=("float32", "float64", "bfloat16", "int64", "complex64"), gradient=False),
    Record(
        "conj", lambda make: [call(make(2, 3)), call(make())], np.conjugate, is_view=True, notes="real tensors are returned as they are"
    ),
    Record("conj_physical", lambda make: [call(make(2, 3)), call(make())], np.conjugate, dtypes=ALL, is_view=True, notes="as conj"),
    Record("resolve_conj", lambda make: [call(make(2, 3)), call(make())], lambda a: a, is_view=True),
    Record("resolve_neg", lambda make: [call(make(2, 3)), call(make())], lambda a: a, is_view=True),
    Record("real", lambda make: [call(make(2, 3)), call(make())], np.real, is_view=True),
    Record(
        "imag",
        lambda make: [call(make(2, 3)), call(make())],
        np.imag,
        dtypes=("complex64", "complex128", "float32"),
        is_view=True,
        errors=(Error(lambda make: call(make(2)), RuntimeError, "imag is not implemented"),),
    ),
    pointwise("angle", 1, np.angle, away=0.1, dtypes=ALL),
    pointwise(
        "complex",
        2,
        lambda a, b: a + 1j * b,
        dtypes=PARTS,
        errors=(
            Error(lambda make: call(make(2), make(2, dtype="float64")), RuntimeError, "Expected object of scalar type Float"),
            Error(lambda make: call(make(2), make(2)), RuntimeError, "Half, Float or Double", "int64"),
        ),
        specials=False,
        notes="inf and NaN in one part are compared by test_agrees_with_pytorch only",
    ),
    pointwise(
        "polar",
        2,
        lambda a, b: a * np.exp(1j * b),
        low=0.5,
        dtypes=PARTS,
        errors=(Error(lambda make: call(make(2), make(2, dtype="float64")), RuntimeError, "Expected object of scalar type Float"),),
        specials=False,
        notes="cos and sin of huge numbers",
    ),
]
