"""Records of Cholesky factors."""

from __future__ import annotations

import numpy as np

from .linear_systems import RECTANGULAR, ZEROS, matrix_record, no_failures, positive
from .record import Error, Maker, Sample, call


def factor(make: Maker, *shape: int) -> np.ndarray:
    return np.linalg.cholesky(positive(make, *shape))


def _cholesky(A: np.ndarray, upper: bool = False) -> np.ndarray:
    lower = np.linalg.cholesky(A)
    return lower.swapaxes(-1, -2).conj() if upper else lower


def _cholesky_ex(A: np.ndarray, upper: bool = False) -> tuple[np.ndarray, np.ndarray]:
    return _cholesky(A, upper), no_failures(A)


def _from_factor(L: np.ndarray, upper: bool = False) -> np.ndarray:
    adjoint = L.swapaxes(-1, -2).conj()
    return adjoint @ L if upper else L @ adjoint


def _positives(make: Maker) -> list[Sample]:
    return [call(positive(make, 2, 3, 3)), call(positive(make, 3, 3), upper=True)]


HERMITIAN = "the derivative is that of Hermitian matrices, which finite differences of single elements do not see; compared with PyTorch's"
NOT_POSITIVE = Error(lambda m: call(-np.eye(2, dtype=np.float32)), RuntimeError, "leading minor of order 1 is not positive-definite")

RECORDS = [
    *(
        matrix_record(
            name,
            _positives,
            _cholesky_ex if name.endswith("_ex") else _cholesky,
            errors=(RECTANGULAR, *(() if name.endswith("_ex") else (NOT_POSITIVE,))),
            gradient=False,
            layout_free=False,
            notes=HERMITIAN,
        )
        for name in ("linalg.cholesky", "linalg.cholesky_ex", "cholesky")
    ),
    matrix_record(
        "cholesky_solve",
        lambda m: [call(m(3, 2), factor(m, 2, 3, 3)), call(m(3, 2), _cholesky(positive(m, 3, 3), True), upper=True)],
        lambda B, L, upper=False: np.linalg.solve(_from_factor(L, upper), B),
        errors=(Error(lambda m: call(m(4, 1), m(3, 3)), RuntimeError, "Incompatible matrix sizes"),),
        gradient=False,
        notes="as PyTorch, the derivative of the factor is not cut to its triangle; compared with PyTorch's",
    ),
    matrix_record(
        "cholesky_inverse",
        lambda m: [call(factor(m, 2, 3, 3)), call(_cholesky(positive(m, 3, 3), True), upper=True)],
        lambda L, upper=False: np.linalg.inv(_from_factor(L, upper)),
        errors=(RECTANGULAR, Error(lambda m: call(ZEROS), RuntimeError, "diagonal element 1 is zero")),
        gradient=False,
        notes="as PyTorch, the derivative of the factor is not cut to its triangle; compared with PyTorch's",
    ),
]
