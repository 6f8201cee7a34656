"""Records of operations that write into a tensor or change what it shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
REAL = ("float32", "float64", "int64", "bool")


def _self(name: str, samples: Any, reference: Any = None, dtypes: Any = DTYPES, errors: tuple[Error, ...] = (), **options: Any) -> Record:
    """An operation that returns the tensor it worked on."""
    return Record(name, samples, reference, dtypes, errors, gradient=False, is_view=True, **options)


def _strided(x: Any, storage: Any, offset: int, size: Any, stride: Any) -> Any:
    return np.lib.stride_tricks.as_strided(storage.reshape(-1)[offset:], size, [step * storage.itemsize for step in stride])


def _with_diagonal(x: Any, value: Any, wrap: bool = False) -> Any:
    filled = np.array(x, order="C")
    if x.size:
        np.fill_diagonal(filled, value, wrap)
    return filled


def _mapped(x: Any, y: Any, function: Any) -> Any:
    return np.array([function(a, b) for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]).reshape(x.shape)


RECORDS = [
    Record(
        "copy",
        lambda make: [
            call(make(3, 4), make(1, 4)),
            call(make(3, 4), make(4)),
            call(make(3, 4), make()),
            call(make(3, 4), make(3, 1, dtype="int32")),
            call(make(), make()),
            call(make(0, 2), make(1)),
        ],
        lambda x, y: np.broadcast_to(y, x.shape).astype(x.dtype),
        ("float64", "int64", "bool"),
        (Error(lambda make: call(make(3), make(4)), RuntimeError, "must match the size|expanded size"),),
    ),
    Record(
        "fill",
        lambda make: [call(make(3, 4), 1), call(make(3, 4), True), call(make(), 2), call(make(3), make()), call(make(0), 1)],
        lambda x, value: np.full(x.shape, value, x.dtype),
        DTYPES,
        (
            Error(lambda make: call(make(2), make(2)), RuntimeError, "0-dimension value tensor"),
            Error(lambda make: call(make(2), 1e39), RuntimeError, "without overflow"),
            Error(lambda make: call(make(2), 1j), RuntimeError, "without overflow"),
            Error(lambda make: call(make(2), 300), RuntimeError, "without overflow", "uint8"),
            Error(lambda make: call(make(2), float("nan")), RuntimeError, "without overflow", "int64"),
        ),
    ),
    Record("zero", lambda make: [call(make(3, 4)), call(make()), call(make(0))], np.zeros_like, REAL),
    Record("numel", lambda make: [call(make(3, 4)), call(make()), call(make(0, 3))], np.size, DTYPES, gradient=False),
    _self(
        "Tensor.resize_",
        lambda make: [call(make(3, 4), 2, 2), call(make(3, 4), (4, 1)), call(make(2, 6), 2), call(make(2, 3), 0), call(make(1), ())],
        lambda x, *shape: x.reshape(-1)[: int(np.prod(shape[0] if isinstance(shape[0], tuple) else shape))].reshape(*shape),
        errors=(
            Error(lambda make: call(make(2), -1), RuntimeError, "negative dimension"),
            Error(lambda make: call(make(2), 1.5), TypeError),
        ),
    ),
    _self(
        "resize_as_",
        lambda make: [call(make(3, 4), make(2, 2)), call(make(3, 6), make(2, 3))],
        lambda x, y: x.reshape(-1)[: y.size].reshape(y.shape),
    ),
    Record(
        "Tensor.resize",
        lambda make: [call(make(3, 4), 4, 3), call(make(4), 2, 2)],
        lambda x, *s: x.reshape(*s),
        gradient=False,
        is_view=True,
    ),
    Record(
        "Tensor.set_",
        lambda make: [
            call(make(3, 4), make(2, 2)),
            call(make(3, 4), make(7), 2, (2, 2), (2, 1)),
            call(make(3, 4), make(7), 1, (3,), (2,)),
        ],
        lambda x, source, *geometry: _strided(x, source, *geometry) if geometry else source,
        DTYPES,
        (Error(lambda make: call(make(2), make(2, dtype="int32")), RuntimeError),),
        gradient=False,
        is_view=True,
    ),
    _self(
        "Tensor.fill_diagonal_",
        lambda make: [call(make(3, 4), 1), call(make(5, 2), 0), call(make(2, 2, 2), True), call(make(0, 2), 1)],
        _with_diagonal,
        errors=(
            Error(lambda make: call(make(3), 1), RuntimeError, "dimensions must larger than 1"),
            Error(lambda make: call(make(3, 2, 3), 1), RuntimeError, "must be of equal length"),
        ),
    ),
    _self(
        "Tensor.apply_",
        lambda make: [call(make(3, 4), lambda x: x * 2 + 1), call(make(), lambda x: x)],
        lambda x, function: np.vectorize(function)(x),
        ("float32", "float64", "int64"),
    ),
    _self(
        "Tensor.map_",
        lambda make: [call(make(3, 4), make(3, 4), lambda x, y: x * y + 1)],
        _mapped,
        ("float32", "float64", "int64"),
    ),
]
