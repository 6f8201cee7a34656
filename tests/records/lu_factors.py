"""Records of LU and LDL factors."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from .linear_systems import DTYPES, RECTANGULAR, SHAPES, each, matrix_record, no_failures, positive, regular
from .record import Error, Maker, Record, Sample, call


def _packed(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    packed, swaps = scipy.linalg.lu_factor(A)
    return packed, (swaps + 1).astype(np.int32)


def _unpacked(LU: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, ...]:
    """P, L and U; ``pivots`` is a row, so that it is batched as a matrix."""
    m, n = LU.shape
    order = np.arange(m)
    for k, swap in enumerate(pivots[0] - 1):
        order[[k, swap]] = order[[swap, k]]
    k = min(m, n)
    P = np.zeros((m, m), LU.dtype)
    P[order, np.arange(m)] = 1
    return P, np.tril(LU[:, :k], -1) + np.eye(m, k), np.triu(LU[:k])


def lu_solved(LU: np.ndarray, pivots: np.ndarray, B: np.ndarray, left: bool = True, adjoint: bool = False) -> np.ndarray:
    def one(packed: np.ndarray, swaps: np.ndarray, right: np.ndarray) -> np.ndarray:
        given = (packed, swaps[0] - 1)
        if left:
            return scipy.linalg.lu_solve(given, right, trans=2 if adjoint else 0)
        return scipy.linalg.lu_solve(given, right.conj().T, trans=0 if adjoint else 2).conj().T

    return each(one)(LU, pivots[..., None, :], B)


def with_factors(make: Maker) -> list[Sample]:
    single, many = (each(_packed)(regular(make, *shape)) for shape in SHAPES)
    return [
        call(*single, make(3, 2)),
        call(*many, make(2, 3, 2), adjoint=True),
        call(*many, make(2, 2, 3), left=False),
        call(*single, make(2, 3), left=False, adjoint=True),
    ]


def _ldl(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LAPACK's factors of a definite matrix, where it swaps nothing."""
    L = np.linalg.cholesky(A)
    size = np.diagonal(L)
    return np.tril(L / size, -1) + np.diag(size**2), np.arange(1, len(A) + 1, dtype=np.int32)


def _unpacked_ldl(LD: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    L = np.tril(LD, -1) + np.eye(len(LD))
    return L @ np.diag(np.diagonal(LD)) @ L.T


RECORDS = [
    *(
        matrix_record(
            name,
            lambda m: [call(m(*shape)) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
            (lambda A: (*each(_packed)(A), no_failures(A))) if name.endswith("_ex") else each(_packed),
            errors=(Error(lambda m: call(m(3)), RuntimeError, "2 or more dimensions"),),
        )
        for name in ("linalg.lu_factor", "linalg.lu_factor_ex", "lu")
    ),
    matrix_record(
        "linalg.lu",
        lambda m: [call(m(*shape)) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
        each(scipy.linalg.lu),
        errors=(Error(lambda m: call(m(3, 3), pivot=False), RuntimeError, "without pivoting"),),
    ),
    matrix_record(
        "lu_unpack",
        lambda m: [call(*each(_packed)(m(*shape))) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
        lambda LU, pivots: each(_unpacked)(LU, pivots[..., None, :]),
        errors=(Error(lambda m: call(m(2, 2), np.array([3, 3], np.int32)), RuntimeError, "between 1 and"),),
    ),
    matrix_record(
        "linalg.lu_solve",
        with_factors,
        lu_solved,
        errors=(
            Error(lambda m: call(m(2, 2), np.array([1, 2]), m(2, 1)), RuntimeError, "torch.int32"),
            Error(lambda m: call(m(2, 2), np.array([0, 2], np.int32), m(2, 1)), RuntimeError, "greater or equal to 1"),
            Error(lambda m: call(m(2, 2), np.array([1, 3], np.int32), m(2, 1)), RuntimeError, "smaller or equal to"),
        ),
    ),
    matrix_record(
        "lu_solve",
        lambda m: [call(m(3, 2), *each(_packed)(regular(m, 3, 3)))],
        lambda B, LU, pivots: lu_solved(LU, pivots, B),
    ),
    *(
        Record(
            name,
            lambda m: [call(positive(m, *shape)) for shape in SHAPES],
            unreferenced="the factors are not unique: `linalg.ldl_solve` uses them, and PyTorch's are the same",
            dtypes=DTYPES,
            errors=(RECTANGULAR,),
            gradient=False,
            expanded=False,
            notes="PyTorch has no derivative either",
        )
        for name in ("linalg.ldl_factor", "linalg.ldl_factor_ex")
    ),
    matrix_record(
        "linalg.ldl_solve",
        lambda m: [call(*_ldl(positive(m, 3, 3)), m(2, 3, 2))],
        lambda LD, pivots, B: np.linalg.solve(_unpacked_ldl(LD, pivots), B),
        errors=(Error(lambda m: call(m(2, 2), m(2), m(2, 1)), RuntimeError, "integers"),),
        gradient=False,
        notes="PyTorch has no derivative either",
    ),
]
