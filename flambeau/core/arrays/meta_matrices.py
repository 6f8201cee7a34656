"""Shapes and strides of what linear algebra returns, for the meta device: a line for each kernel that calls LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..shape import broadcast_shape
from .meta_array import MetaArray, empty


def _columns(shape: tuple[int, ...], kind: Any) -> MetaArray:
    """Matrices with their columns contiguous."""
    return empty((*shape[:-2], shape[-1], shape[-2]), kind).swapaxes(-1, -2)


def _alike(A: Any) -> MetaArray:
    return _columns(A.shape, A.dtype)


def _real(A: Any) -> np.dtype:
    return A.dtype.type(0).real.dtype


def _complex(A: Any) -> np.dtype:
    return np.result_type(A.dtype, np.complex64)


def _info(A: Any) -> MetaArray:
    return empty(A.shape[:-2], np.int32)


def _rows(A: Any, count: int) -> tuple[int, ...]:
    return (*A.shape[:-2], count)


def _wide(A: Any, B: Any) -> MetaArray:
    """A right hand side's shape with the batches of both."""
    lead = broadcast_shape(A.shape[:-2], B.shape[:-2])
    return _columns((*lead, *B.shape[-2:]), np.result_type(A.dtype, B.dtype))


def _transposed(A: Any, B: Any) -> MetaArray:
    return _wide(A, B.swapaxes(-1, -2)).swapaxes(-1, -2)


def _qr(A: Any, mode: str) -> tuple[MetaArray, MetaArray]:
    *lead, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    Q = empty((0,), A.dtype) if mode == "r" else _columns((*lead, m, k), A.dtype)
    return Q, _columns((*lead, k, n), A.dtype)


def _svd(A: Any, full_matrices: bool, driver: Any = None) -> tuple[MetaArray, MetaArray, MetaArray]:
    *lead, m, n = A.shape
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    return _columns((*lead, m, left), A.dtype), empty((*lead, k), _real(A)), _columns((*lead, right, n), A.dtype)


def _solve(A: Any, B: Any, left: bool, check_errors: Any) -> tuple[MetaArray, MetaArray]:
    if B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]):
        shape = broadcast_shape(A.shape[:-1], B.shape)
        return (_columns(shape, B.dtype) if left and len(shape) > 1 else empty(shape, B.dtype)), _info(A)
    return (_wide(A, B) if left else _transposed(A, B)), _info(A)


def _least_squares(A: Any, B: Any, rcond: Any, driver: str) -> tuple[MetaArray, ...]:
    *_, m, n = A.shape
    vector = B.ndim == A.ndim - 1
    right = B[..., None] if vector else B
    lead, kind = broadcast_shape(A.shape[:-2], right.shape[:-2]), A.dtype
    whole = _columns((*lead, max(m, n), right.shape[-1]), kind)
    solution = whole[..., :n, :]
    with_residuals = m > n and driver != "gelsy"
    residuals = empty((*lead, right.shape[-1]) if with_residuals else (0,), _real(A))
    rank = empty((0,) if driver == "gels" else lead, np.int64)
    values = empty((*lead, min(m, n)) if driver in ("gelsd", "gelss") else (0,), _real(A))
    return solution[..., 0] if vector else solution, residuals, rank, values


RULES: dict[str, Callable[..., Any]] = {
    "linalg.inv_ex": lambda A, check: (_alike(A), _info(A)),
    "linalg.det": lambda A: empty(A.shape[:-2], A.dtype),
    "linalg.slogdet": lambda A: (empty(A.shape[:-2], A.dtype), empty(A.shape[:-2], _real(A))),
    "linalg.cholesky_ex": lambda A, upper, check: (_alike(A), _info(A)),
    "cholesky_solve": lambda B, L, upper: _wide(L, B),
    "cholesky_inverse": lambda L, upper: _alike(L),
    "linalg.lu_factor_ex": lambda A, pivot, check: (_alike(A), empty(_rows(A, min(A.shape[-2:])), np.int32), _info(A)),
    "_permutation": lambda pivots, rows, like: empty((*pivots.shape[:-1], rows, rows), like.dtype),
    "linalg.lu_solve": lambda LU, pivots, B, left, adjoint: _wide(LU, B) if left else _transposed(LU, B),
    "linalg.ldl_factor_ex": lambda A, hermitian, check: (_alike(A), empty(A.shape[:-1], np.int32), _info(A)),
    "linalg.ldl_solve": lambda LD, pivots, B, hermitian: _wide(LD, B),
    "linalg.solve_ex": _solve,
    "linalg.solve_triangular": lambda A, B, upper, left, unitriangular: _wide(A, B),
    "linalg.qr": _qr,
    "geqrf": lambda A: (_alike(A), empty(_rows(A, min(A.shape[-2:])), A.dtype)),
    "_product_of_reflections": lambda A, tau: _alike(A),
    "_apply_reflections": lambda A, tau, other, *rest: _alike(other),
    "linalg.eigh": lambda A, UPLO: (empty(A.shape[:-1], _real(A)), _alike(A)),
    "linalg._eigvalsh": lambda A, UPLO: empty(A.shape[:-1], _real(A)),
    "linalg.eig": lambda A: (empty(A.shape[:-1], _complex(A)), _columns(A.shape, _complex(A))),
    "linalg._eigvals": lambda A: empty(A.shape[:-1], _complex(A)),
    "linalg.svd": _svd,
    "linalg._svdvals": lambda A: _svd(A, False)[1],
    "linalg._lstsq": _least_squares,
    "linalg._pinv": lambda A, *rest: empty((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype),
    "linalg.matrix_exp": lambda A: empty(A.shape, A.dtype),
}
