"""Records of copies and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
REAL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool")
_NO_ACCELERATOR = "PyTorch gives the same error without an accelerator"


def _itself(x: Any, *args: Any, **kwargs: Any) -> Any:
    return x


def _one(make: Any) -> list:
    return [call(make(3, 4)), call(make()), call(make(0, 2))]


def _cast(name: str) -> Any:
    """Casts to that dtype among others; values are in the range of every dtype."""
    target = np.dtype(name)
    return lambda make: [call(make(3, 4, low=0, high=100), target), call(make(), target), call(make(0, 2), target)]


def _type_samples(make: Any) -> list:
    return [
        call(make(3, 4)),
        call(make(3, 4), np.dtype("float64")),
        call(make(3, 4), "torch.DoubleTensor"),
        call(make(3, 4, high=9), "torch.IntTensor"),
        call(make(3, 4), dtype="torch.BoolTensor"),
    ]


RECORDS = [
    Record("clone", _one, np.copy, DTYPES),
    Record("detach", _one, np.array, DTYPES, gradient=False, is_view=True, notes="outside the graph"),
    Record(
        "detach_",
        lambda make: [call(make()), call(make(1))],
        _itself,
        DTYPES,
        gradient=False,
        is_view=True,
        notes="gives the tensor itself",
    ),
    Record("Tensor.contiguous", _one, np.array, DTYPES, is_view=True, notes="the tensor itself where it is contiguous"),
    Record(
        "Tensor.to",
        lambda make: [
            *(sample for name in ("float64", "float32", "int64", "uint8", "bool") for sample in _cast(name)(make)),
            call(make(3, 4), np.dtype("float64"), copy=True),
            call(make(3, 4), "cpu"),
            call(make(3, 4), "cpu", np.dtype("float64"), True),
            call(make(3, 4), make(2, dtype="float64")),
            call(make(3, 4), dtype=np.dtype("float16")),
            call(make(3, 4), dtype=np.dtype("complex64")),
        ],
        None,
        ("float32", "bfloat16", "int64", "uint8", "bool"),
        (
            Error(lambda make: call(make(2), [1]), TypeError),
            Error(lambda make: call(make(2), "no such device"), RuntimeError, "device"),
        ),
        is_view=True,
        widened=False,
        notes="the tensor itself where nothing changes",
    ),
    Record("Tensor.cpu", _one, _itself, DTYPES, is_view=True, notes="the tensor itself"),
    Record(
        "Tensor.cuda",
        _one,
        None,
        ("float32",),
        (Error(lambda make: call(make(2)), (AssertionError, RuntimeError)),),  # type: ignore[arg-type]
        gradient=False,
        notes=_NO_ACCELERATOR,
    ),
    Record(
        "Tensor.type",
        _type_samples,
        None,
        REAL,
        (Error(lambda make: call(make(2), "torch.NoTensor"), ValueError, "invalid type"),),
        is_view=True,
        widened=False,
        notes="the tensor itself where nothing changes",
    ),
    Record(
        "Tensor.type_as",
        lambda make: [call(make(3, 4), make(2, dtype="float64")), call(make(3), make(1))],
        lambda x, y: x.astype(y.dtype),
        REAL,
        is_view=True,
    ),
    Record(
        "Tensor.new",
        lambda make: [call(make(2)), call(make(2), [1, 0]), call(make(1), [[1], [0]])],
        lambda x, values=(): np.array(values, x.dtype),
        REAL,
        (
            Error(lambda make: call(make(2), 3.5), TypeError, "data must be a sequence"),
            Error(lambda make: call(make(2), make(2, dtype="int32")), TypeError, "expected"),
        ),
        gradient=False,
    ),
    Record(
        "Tensor.pin_memory",
        _one,
        None,
        ("float32",),
        (Error(lambda make: call(make(2)), RuntimeError, "accelerator"),),
        gradient=False,
        notes=_NO_ACCELERATOR,
    ),
    Record(
        "Tensor.record_stream",
        lambda make: [call(make(2), None)],
        None,
        ("float32",),
        (Error(lambda make: call(make(2), None), RuntimeError, "unknown parameter type"),),
        gradient=False,
        notes=_NO_ACCELERATOR,
    ),
    Record("Tensor.is_set_to", lambda make: [call(make(3), make(3)), call(make(0), make(0))], None, DTYPES, gradient=False),
]
