"""Records of questions about tensors and of settings of the process."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")
_SETTING = "a setting of the process: its number depends on the machine, so the calls are those that are refused"


def _one(make: Any) -> list:
    return [call(make(3, 4)), call(make()), call(make(0))]


def _about(name: str, reference: Any) -> Record:
    return Record(name, _one, reference, DTYPES, (Error(lambda make: call(2), TypeError),), gradient=False)


RECORDS = [
    _about("is_floating_point", lambda x: x.dtype.kind == "f"),
    _about("is_complex", lambda x: x.dtype.kind == "c"),
    _about("is_conj", lambda x: False),
    _about("get_device", lambda x: -1),
    Record(
        "is_same_size",
        lambda make: [call(make(2, 3), make(2, 3)), call(make(2), make(2, 1)), call(make(0), make())],
        lambda x, y: x.shape == y.shape,
        DTYPES,
        gradient=False,
    ),
    _about("is_neg", lambda x: False),
    _about("is_signed", lambda x: x.dtype.kind in "ifc"),
    _about("is_inference", lambda x: False),
    Record(
        "is_nonzero",
        lambda make: [call(make(1)), call(make()), call(np.zeros((1, 1), np.int32)), call(np.array([np.nan]))],
        lambda x: bool(x.item()),
        DTYPES,
        (
            Error(lambda make: call(make(2)), RuntimeError, "more than one value is ambiguous"),
            Error(lambda make: call(make(0)), RuntimeError, "no values is ambiguous"),
        ),
        gradient=False,
    ),
    Record(
        "result_type",
        lambda make: (
            [
                call(make(2), make(3, dtype=other))
                for other in ("bool", "uint8", "int8", "int32", "float16", "bfloat16", "float64", "complex64")
            ]
            + [call(make(2), number) for number in (True, 1, 1.5, 1j)]
            + [call(1.5, make(2)), call(1, 2), call(1, 2.0), call(make(), 1.5), call(make(2), make(dtype="float64"))]
        ),
        None,
        DTYPES,
        gradient=False,
        notes="test_dtypes has the whole tables",
    ),
    Record(
        "get_num_threads",
        lambda make: [call(1)],
        None,
        ("float32",),
        (Error(lambda make: call(1), TypeError),),
        gradient=False,
        notes=_SETTING,
    ),
    Record(
        "set_num_threads",
        lambda make: [call(0)],
        None,
        ("float32",),
        (Error(lambda make: call(0), RuntimeError),),
        gradient=False,
        notes=_SETTING,
    ),
    Record(
        "get_num_interop_threads",
        lambda make: [call(1)],
        None,
        ("float32",),
        (Error(lambda make: call(1), TypeError),),
        gradient=False,
        notes=_SETTING,
    ),
    Record(
        "set_num_interop_threads",
        lambda make: [call(0)],
        None,
        ("float32",),
        (Error(lambda make: call(0), RuntimeError),),
        gradient=False,
        notes=_SETTING,
    ),
]
