"""Records of pseudo-inverses, least squares, ranks, condition numbers, inverses of tensors and the exponential function of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from .decompositions import RECTANGULAR, apart, symmetric
from .linear_systems import DTYPES, SHAPES, each, regular
from .record import Error, Maker, Record, Sample, call


def _record(name: str, samples: Any, reference: Any = None, **options: Any) -> Record:
    options = {"dtypes": DTYPES, "expanded": False, **options}
    return Record(name, samples, reference, **options)


def _systems(make: Maker) -> list[Sample]:
    return [
        call(regular(make, 3, 3), make(3, 2)),
        call(apart(make, 2, 4, 3), make(2, 4, 2)),
        call(apart(make, 4, 3), make(4, 1), driver="gelsd"),
        call(apart(make, 3, 4), make(3, 1), driver="gelss"),
        call(apart(make, 2, 4, 3), make(2, 4), driver="gels"),
    ]


def _lstsq(A: np.ndarray, B: np.ndarray, driver: str = "gelsy") -> tuple[np.ndarray, ...]:
    vector = B.ndim == A.ndim - 1
    right = B[..., None] if vector else B
    X = np.linalg.pinv(A) @ right
    lead, (m, n) = A.shape[:-2], A.shape[-2:]
    nothing = np.empty(0, A.dtype)
    residuals = (np.abs(A @ X - right) ** 2).sum(-2) if m > n and driver != "gelsy" else nothing
    rank = np.empty(0, np.int64) if driver == "gels" else np.full(lead, min(m, n))
    values = np.linalg.svd(A, compute_uv=False) if driver in ("gelsd", "gelss") else nothing
    return X[..., 0] if vector else X, residuals, rank, values


RECORDS = [
    _record(
        "linalg.pinv",
        lambda m: [call(apart(m, 2, 4, 3)), call(apart(m, 3, 4), rtol=0.01), call(symmetric(m, 3, 3), hermitian=True)],
        lambda A, rtol=None, hermitian=False: np.linalg.pinv(A),
        errors=(Error(lambda m: call(m(3)), RuntimeError, "2 or more dimensions"),),
        gradient=False,
        notes="finite differences of single elements leave the Hermitian matrices; the gradients are compared with PyTorch's",
    ),
    _record("pinverse", lambda m: [call(apart(m, 4, 3)), call(apart(m, 2, 3, 4))], np.linalg.pinv),
    _record(
        "linalg.matrix_rank",
        lambda m: [
            call(apart(m, 2, 4, 3)),
            call(np.ones((3, 3), m(1).dtype)),
            call(symmetric(m, 3, 3), hermitian=True),
            call(m(3, 3), 9.0),
        ],
        lambda A, tol=None, hermitian=False: np.linalg.matrix_rank(A, tol),
        errors=(Error(lambda m: call(m(3)), RuntimeError, "at least 2 dimensions"),),
        gradient=False,
    ),
    _record(
        "linalg.cond",
        lambda m: [call(apart(m, 2, 3, 3)), call(apart(m, 4, 3), -2)],
        np.linalg.cond,
        errors=(Error(lambda m: call(m(2, 3), 1), RuntimeError, "square"),),
        notes="the other norms by the samples of PyTorch's database, whose derivatives fail for single matrices",
    ),
    _record(
        "linalg.lstsq",
        _systems,
        _lstsq,
        errors=(
            Error(lambda m: call(m(3, 3), m(4, 1)), RuntimeError, "should match"),
            Error(lambda m: call(m(3, 3), m(3, 1), driver="x"), RuntimeError, "driver"),
            *(
                Error(lambda m, driver=driver: call(np.full_like(m(4, 3), np.inf), m(4, 1), driver=driver), RuntimeError, "code: 2")
                for driver in ("gelsd", "gelss")
            ),
        ),
    ),
    _record(
        "linalg.tensorinv",
        lambda m: [call(regular(m, 6, 6).reshape(6, 2, 3), 1), call(regular(m, 4, 4).reshape(2, 2, 4))],
        np.linalg.tensorinv,
        errors=(Error(lambda m: call(m(4, 6, 8), 1), RuntimeError, "requirement prod"),),
    ),
    _record(
        "linalg.tensorsolve",
        lambda m: [call(regular(m, 6, 6).reshape(6, 2, 3), m(6)), call(regular(m, 6, 6).reshape(2, 6, 3), m(6), dims=(0, 2))],
        lambda A, B, dims=None: np.linalg.tensorsolve(A, B, dims),
        errors=(Error(lambda m: call(m(4, 6, 8), m(4)), RuntimeError, "requirement prod"),),
        gradient=False,
        notes="the gradient is that of linalg.solve",
    ),
    _record(
        "linalg.diagonal",
        lambda m: [call(m(2, 3, 4)), call(m(3, 4), offset=1)],
        lambda A, offset=0: np.diagonal(A, offset, -2, -1),
        is_view=True,
    ),
    _record("linalg.matmul", lambda m: [call(m(2, 3, 4), m(4, 2)), call(m(3), m(3))], np.matmul),
    *(
        _record(name, lambda m: [call(m(*shape)) for shape in (*SHAPES, (1, 1))], each(scipy.linalg.expm), errors=(RECTANGULAR,))
        for name in ("linalg.matrix_exp", "matrix_exp")
    ),
    *(
        Record(
            name,
            lambda m: [call(m(5, 4), q=2), call(m(2, 3, 5), q=2)],
            unreferenced="the directions are drawn; compared with PyTorch's, which draws the same",
            dtypes=("float32", "float64"),
            gradient=False,
            expanded=False,
            layout_free=False,
            sign_free=True,
            random=True,
            notes="by the samples of PyTorch's database",
        )
        for name in ("svd_lowrank", "pca_lowrank")
    ),
]
