"""Records of operations with index tensors; ``x[...]`` itself is tested in ``test_indexing``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")


def some_mask(make: Any, *shape: int) -> np.ndarray:
    return make(*shape, dtype="bool")


def _put_samples(make: Any) -> list:
    rows, columns = np.array([0, 2, 1]), np.array([-1, 0, 1])
    return [
        call(make(3, 4), (rows, columns), make(3)),
        call(make(3, 4), (rows,), make(4)),
        call(make(3, 4), [rows[:2]], make(2, 4)),
        call(make(3, 4), (rows[:, None], columns), make()),
        call(make(3, 4), (some_mask(make, 3, 4),), make()),
        call(make(3, 4), (np.array([1, 1, 0]),), make(3, 4), True),
        call(make(3, 4), (np.zeros(0, np.int64),), make(0, 4)),
    ]


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    result = x.copy()
    if accumulate:
        np.add.at(result, tuple(indices), values)
    else:
        result[tuple(indices)] = values
    return result


_PUT_ERRORS = (
    Error(lambda make: call(make(3), (np.array([3]),), make(1)), IndexError, "out of bounds for dimension 0 with size 3"),
    Error(lambda make: call(make(3), (np.array([0, 1]),), make(3)), RuntimeError, "cannot be broadcast"),
    Error(lambda make: call(make(3), (np.array([0]),), make(1, dtype="int64")), RuntimeError, "dtypes match"),
    Error(lambda make: call(make(3), (np.array([0.5]),), make(1)), IndexError, "must be long, int, byte or bool"),
    Error(lambda make: call(make(3), (np.array([0]), np.array([0])), make(1)), IndexError, "too many indices"),
)


RECORDS = [
    Record("index_put", _put_samples, _index_put, DTYPES, _PUT_ERRORS),
    Record("index_put_", _put_samples, _index_put, DTYPES, _PUT_ERRORS, gradient=False, is_view=True, notes="works on the tensor itself"),
]
