"""Records of joining tensors."""

from __future__ import annotations

import numpy as np

from .record import Error, Maker, Record, Sample, call


def cats(make: Maker) -> list[Sample]:
    return [
        call([make(2, 3), make(4, 3)]),
        call((make(2, 3), make(2, 1)), 1),
        call([make(2, 3), make(2, 3)], dim=-1),
        call([make(2, 3)], axis=0),
        call([make(0), make(2, 3)], 1),
        call([make(0), make(0)]),
        call([make(2), make(3, dtype="int64")]),
        call([make(2, 3), make(2, 3)[:, ::2][:, [0, 0, 0]]]),
    ]


def stacks(make: Maker) -> list[Sample]:
    return [call([make(2, 3) for _ in range(3)], *dim) for dim in ((), (1,), (2,), (-1,), (-3,))] + [call([make(), make()])]


def same_rank(make: Maker) -> list[Sample]:
    return [call([make(3), make(2)]), call([make(2, 3), make(2, 3)]), call([make(), make(1)])]


def rows(make: Maker) -> list[Sample]:
    return [call([make(3), make(3)]), call([make(2, 3), make(2, 3)]), call([make(), make()])]


EMPTY = Error(lambda m: call([]), RuntimeError, "non-empty")
RECORDS = (
    Record(
        "cat",
        cats,
        lambda tensors, dim=0, axis=None: np.concatenate(
            [t for t in tensors if t.shape != (0,)] or [tensors[0]], dim if tensors[-1].shape != (0,) else 0
        ),
        errors=(
            Error(lambda m: call([]), ValueError, "non-empty"),
            Error(lambda m: call([m(2, 3), m(2)]), RuntimeError, "same number of dimensions"),
            Error(lambda m: call([m(2, 3), m(3, 3)], 1), RuntimeError, "Sizes of tensors must match except in dimension 1"),
            Error(lambda m: call([m(), m()]), RuntimeError, "zero-dimensional"),
            Error(lambda m: call([m(2), 3]), TypeError, "expected Tensor as element 1"),
            Error(lambda m: call(m(2)), TypeError, "must be tuple of Tensors"),
            Error(lambda m: call([m(2)], 1), IndexError),
        ),
    ),
    Record(
        "stack",
        stacks,
        lambda tensors, dim=0: np.stack(tensors, dim),
        errors=(EMPTY, Error(lambda m: call([m(2, 3), m(2, 2)]), RuntimeError, "equal size"), Error(lambda m: call([m(2)], 2), IndexError)),
    ),
    Record("hstack", same_rank, lambda tensors: np.hstack(tensors), errors=(EMPTY,)),
    Record("vstack", rows, lambda tensors: np.vstack(tensors), errors=(EMPTY,)),
    Record("dstack", rows, lambda tensors: np.dstack(tensors), errors=(EMPTY,)),
    Record("column_stack", rows, lambda tensors: np.column_stack([np.reshape(t, (-1, 1)) if t.ndim < 2 else t for t in tensors])),
    Record(
        "block_diag",
        lambda m: [call(m(2, 3), m(2), m()), call(m(1, 2)), call(m(0, 2), m(2, 1))],
        errors=(Error(lambda m: call(m(1, 1, 1)), RuntimeError, "2 or fewer dimensions"),),
    ),
    Record(
        "broadcast_tensors",
        lambda m: [call(m(3, 1), m(4)), call(m(2), m())],
        lambda *a: np.broadcast_arrays(*a),
        is_view=True,
        errors=(Error(lambda m: call(m(2, 3), m(2)), RuntimeError, "must match"),),
    ),
    Record("broadcast_shapes", lambda m: [call((2, 1), (3,)), call((2, 3)), call(2, (4, 1))], dtypes=("float32",), gradient=False),
    Record(
        "meshgrid",
        lambda m: [call(m(2), m(3), indexing="ij"), call([m(2), m(3), m(1)], indexing="xy"), call(m(), m(2), indexing="ij")],
        is_view=True,
        errors=(Error(lambda m: call(m(2), m(2), indexing="no"), RuntimeError, "indexing"),),
    ),
    Record("cartesian_prod", lambda m: [call(m(2), m(3)), call(m(2), m(1), m(2))]),
    Record(
        "combinations",
        lambda m: [call(m(4)), call(m(3), 3), call(m(3), 2, True), call(m(2), 3), call(m(3), 1)],
        errors=(Error(lambda m: call(m(2, 2)), RuntimeError, "1D"),),
    ),
)
