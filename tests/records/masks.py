"""Records of operations with masks, and of the positions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .indexing import DTYPES, some_mask
from .record import Error, Record, call


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    result = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)))
    where = np.broadcast_to(mask, result.shape)
    result[where] = source.reshape(-1)[: where.sum()]
    return result


def _where_samples(make: Any) -> list:
    return [
        call(some_mask(make, 3, 4), make(3, 4), make(3, 4)),
        call(some_mask(make, 3, 1), make(4), make()),
        call(some_mask(make, 3, 4), make(3, 4), 1),
        call(some_mask(make, 3, 4), 0.5, make(3, 4)),
        call(some_mask(make, 3, 4), 1, 2.5),
        call(some_mask(make, 3, 4)),
        call(some_mask(make, 2), make(2), make(2, dtype="int32")),
        call(some_mask(make), make(), make()),
    ]


def _where(condition: Any, a: Any = None, b: Any = None) -> Any:
    return condition.nonzero() if a is None else np.where(condition, a, b)


RECORDS = [
    Record(
        "masked_fill",
        lambda make: [
            call(make(3, 4), some_mask(make, 3, 4), 1),
            call(make(3, 4), some_mask(make, 4), True),
            call(make(4), some_mask(make, 3, 4), 0),
            call(make(3, 4), some_mask(make, 3, 1), make()),
            call(make(), some_mask(make), 1),
        ],
        lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x),
        DTYPES,
        (
            Error(lambda make: call(make(3), make(3), 1), RuntimeError, "only supports boolean masks"),
            Error(lambda make: call(make(3), some_mask(make, 3), make(3)), RuntimeError, "0-dimension"),
            Error(lambda make: call(make(3), some_mask(make, 3), 2**40), RuntimeError, "cannot be converted", "int32"),
            Error(lambda make: call(make(3), some_mask(make, 3), 1e39), RuntimeError, "cannot be converted"),
            Error(lambda make: call(make(3), some_mask(make, 3), 1j), RuntimeError, "cannot be converted"),
            Error(lambda make: call(make(3), some_mask(make, 4), 1), RuntimeError, "must match the size"),
        ),
    ),
    Record(
        "masked_select",
        lambda make: [
            call(make(3, 4), some_mask(make, 3, 4)),
            call(make(3, 4), some_mask(make, 4)),
            call(make(4), some_mask(make, 3, 1)),
            call(make(), np.array(True)),
            call(make(), np.array(False)),
        ],
        lambda x, mask: np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
            np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
        ],
        DTYPES,
        (
            Error(lambda make: call(make(3), make(3)), RuntimeError, "expected BoolTensor for mask"),
            Error(lambda make: call(make(3), some_mask(make, 4)), RuntimeError, "must match the size"),
        ),
    ),
    Record(
        "masked_scatter",
        lambda make: [
            call(make(3, 4), some_mask(make, 3, 4), make(12)),
            call(make(3, 4), some_mask(make, 4), make(3, 5)),
            call(make(3, 4), np.zeros((3, 4), bool), make(2)),
            call(make(4), some_mask(make, 3, 4), make(12)),
        ],
        _masked_scatter,
        DTYPES,
        (
            Error(lambda make: call(make(3), np.ones(3, bool), make(2)), RuntimeError, "Number of elements of source"),
            Error(lambda make: call(make(3), make(3), make(3)), RuntimeError, "only supports boolean masks"),
            Error(lambda make: call(make(3), some_mask(make, 3), make(3, dtype="int64")), RuntimeError, "same dtypes"),
        ),
    ),
    Record(
        "where",
        _where_samples,
        _where,
        DTYPES,
        (
            Error(lambda make: call(make(3), make(3), make(3)), RuntimeError, "condition to be a boolean tensor"),
            Error(lambda make: call(some_mask(make, 3), make(4), make(4)), RuntimeError, "must match the size"),
        ),
    ),
    Record(
        "Tensor.where",
        lambda make: [call(make(3, 4), some_mask(make, 3, 4), make(3, 4)), call(make(3, 4), some_mask(make, 4), 0)],
        lambda x, condition, other: np.where(condition, x, other),
        DTYPES,
    ),
    Record(
        "nonzero",
        lambda make: [call(make(3, 4)), call(make()), call(make(0, 3)), call(make(2, 3), as_tuple=True), call(make(), as_tuple=True)],
        lambda x, as_tuple=False: np.atleast_1d(x).nonzero() if as_tuple else np.argwhere(x),
        (*DTYPES, "uint8"),
        gradient=False,
    ),
    Record("argwhere", lambda make: [call(make(3, 4)), call(make()), call(make(0))], np.argwhere, DTYPES, gradient=False),
]
