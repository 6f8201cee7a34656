"""LAPACK's routines that NumPy has no function for, over batches of matrices: SciPy's bindings, called once per matrix.

Where a matrix is not very small, or there are many, ``kernels/families/lapack.py`` calls the routines of NumPy's library from a native
loop; an element of a matrix costs about 16 of an element-wise operation. Matrices lie with their columns contiguous, as LAPACK reads and
leaves them; a batch of them is ``(*, m, n)``. Other kinds of arrays than the host's are copied to it and back (``Kind.hosted``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import native

MANY = 32  # matrices from which on a step of elimination over all of them costs less than a call of LAPACK for each
SMALL = 32  # size up to which that holds


def by_columns(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Unwritten matrices with their columns contiguous."""
    return np.empty((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)


def columns_of(matrices: np.ndarray) -> np.ndarray:
    """A copy with its columns contiguous."""
    copy = by_columns(matrices.shape, matrices.dtype)
    copy[...] = matrices
    return copy


def _routine(name: str, kind: np.dtype) -> Any:
    from scipy.linalg import lapack

    return getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[kind.char] + name)


def _each(lead: tuple[int, ...], *stacks: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """The index of every matrix of a batch, and the stacks' parts there; stacks are broadcast over ``lead``."""
    wide = [np.broadcast_to(stack, (*lead, *stack.shape[stack.ndim - kept :])) for stack, kept in zip(stacks[::2], stacks[1::2])]
    for index in np.ndindex(*lead):
        yield index, *[stack[index] for stack in wide]


# -- LU -----------------------------------------------------------------------------------------------------------------------------
@native.part("_lu_factor", work="16 * A.size")
def lu_factor(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both factors in one matrix, the pivots counted from 1, and the first zero on U's diagonal counted from 1 (0: none)."""
    lead, (m, n) = A.shape[:-2], A.shape[-2:]
    factors, pivots = columns_of(A), np.empty((*lead, min(m, n)), np.int32)
    info = np.zeros(lead, np.int32)
    if not A.size:
        return factors, pivots, info
    if info.size >= MANY and max(m, n) <= SMALL:
        return _eliminate(factors, pivots, info)
    getrf = _routine("getrf", A.dtype)
    for index in np.ndindex(*lead):
        packed, swaps, info[index] = getrf(factors[index], overwrite_a=True)
        pivots[index] = swaps + 1
        if not np.may_share_memory(packed, factors):
            factors[index] = packed
    return factors, pivots, info


def _eliminate(factors: np.ndarray, pivots: np.ndarray, info: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian elimination of many small matrices, a step for all of them at a time."""
    m, n = factors.shape[-2:]
    work = np.ascontiguousarray(np.moveaxis(factors.reshape(-1, m, n), 0, -1))  # the batch last: rows are long
    places = np.arange(work.shape[-1])
    flat_pivots, first_zero = pivots.reshape(-1, min(m, n)), info.reshape(-1)
    for k in range(min(m, n)):
        column = np.abs(work[k:, k].real) + np.abs(work[k:, k].imag) if work.dtype.kind == "c" else np.abs(work[k:, k])
        pivot = column.argmax(0) + k
        flat_pivots[:, k] = pivot + 1
        row = work[pivot, :, places].T
        work[pivot, :, places] = work[k].T
        work[k] = row
        zero = row[k] == 0
        first_zero[(first_zero == 0) & zero] = k + 1
        work[k + 1 :, k] /= np.where(zero, 1, row[k])
        work[k + 1 :, k + 1 :] -= work[k + 1 :, k, None] * row[None, k + 1 :]
    factors[...] = np.moveaxis(work, -1, 0).reshape(factors.shape)
    return factors, pivots, info


def permutation(pivots: np.ndarray, rows: int) -> np.ndarray:
    """The row from which each row comes after the swaps in ``pivots``.

    Raises:
        RuntimeError: a pivot that is no row.
    """
    if rows and pivots.size and not 1 <= pivots.min() <= pivots.max() <= rows:
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?"
        )
    return _order(pivots, rows)


@native.part("_order_of_pivots", work="64 * pivots.size")
def _order(pivots: np.ndarray, rows: int) -> np.ndarray:
    order = np.empty((*pivots.shape[:-1], rows), np.int64)
    order[...] = np.arange(rows)
    count, steps = math.prod(pivots.shape[:-1]), pivots.shape[-1] if rows else 0
    if count < MANY:
        for line, swaps in zip(order.reshape(count, rows), pivots.reshape(count, steps).tolist()):
            places = list(range(rows))
            for k, other in enumerate(swaps):
                places[k], places[other - 1] = places[other - 1], places[k]
            line[:] = places
        return order
    pivots = pivots[..., :steps]
    flat, swaps, places = order.reshape(count, rows), pivots.reshape(count, steps).astype(np.int64) - 1, np.arange(count)
    for k in range(steps):
        other = flat[places, swaps[:, k]]
        flat[places, swaps[:, k]] = flat[:, k]
        flat[:, k] = other
    return order


def lu_solve(factors: np.ndarray, pivots: np.ndarray, B: np.ndarray, adjoint: bool) -> np.ndarray:
    """``A X = B``, or ``A^H X = B``, from A's factors; batches are broadcast.

    Raises:
        RuntimeError: a pivot that is no row.
    """
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= factors.shape[-2]:
        bound = "greater or equal to 1" if pivots.min() < 1 else "smaller or equal to LU.size(-2)"
        raise RuntimeError(f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of lu_factor?")
    return _solved(factors, pivots, B, adjoint)


@native.part("_lu_solve", work="16 * B.size")
def _solved(factors: np.ndarray, pivots: np.ndarray, B: np.ndarray, adjoint: bool) -> np.ndarray:
    lead = np.broadcast_shapes(factors.shape[:-2], B.shape[:-2])
    X = columns_of(np.broadcast_to(B, (*lead, *B.shape[-2:])))
    if X.size:
        getrs = _routine("getrs", B.dtype)
        for index, packed, swaps in _each(lead, factors, 2, pivots - 1, 1):
            X[index] = getrs(packed, swaps, X[index], trans=2 if adjoint else 0)[0]
    return X


# -- triangles ------------------------------------------------------------------------------------------------------------------------
@native.part("_solve_triangular", work="16 * B.size")
def solve_triangular(A: np.ndarray, B: np.ndarray, upper: bool, left: bool, unitriangular: bool) -> np.ndarray:
    """``A X = B``, or ``X A = B``, for triangular A; batches are broadcast, and a zero on the diagonal divides."""
    from scipy.linalg import blas

    lead = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    X = columns_of(np.broadcast_to(B, (*lead, *B.shape[-2:])))
    if not X.size:
        return X
    if X[..., 0, 0].size >= MANY and A.shape[-1] <= SMALL:
        _substitute(A, X if left else X.swapaxes(-1, -2), upper if left else not upper, unitriangular, transposed=not left)
        return X
    trsm = getattr(blas, {"f": "s", "d": "d", "F": "c", "D": "z"}[X.dtype.char] + "trsm")
    for index, matrix in _each(lead, A, 2):
        by_rows = matrix.flags.c_contiguous  # its transpose needs no copy
        X[index] = trsm(
            1,
            matrix.T if by_rows else matrix,
            X[index],
            side=not left,
            lower=upper if by_rows else not upper,
            trans_a=by_rows,
            diag=unitriangular,
        )
    return X


def _substitute(A: np.ndarray, X: np.ndarray, upper: bool, unitriangular: bool, transposed: bool) -> None:
    """Substitution in many small systems, a row of all of them at a time."""
    n, wide = A.shape[-1], np.broadcast_to(A.swapaxes(-1, -2) if transposed else A, (*X.shape[:-2], *A.shape[-2:]))
    rows, matrix = np.ascontiguousarray(np.moveaxis(X, (-2, -1), (0, 1))), np.moveaxis(wide, (-2, -1), (0, 1))
    for k in reversed(range(n)) if upper else range(n):
        if not unitriangular:
            rows[k] /= matrix[k, k]
        rest = slice(0, k) if upper else slice(k + 1, n)
        rows[rest] -= matrix[rest, k, None] * rows[None, k]
    X[...] = np.moveaxis(rows, (0, 1), (-2, -1))


# -- reflections --------------------------------------------------------------------------------------------------------------------------
@native.part("_orgqr", work="16 * A.size")
def orgqr(A: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The first columns, as many as A has, of the product of the reflections that ``geqrf`` leaves."""
    Q = columns_of(A)
    if Q.size:
        routine = _routine("ungqr" if A.dtype.kind == "c" else "orgqr", A.dtype)
        for index in np.ndindex(*A.shape[:-2]):
            Q[index] = routine(Q[index], tau[index])[0]
    return Q


@native.part("_ormqr", work="16 * C.size")
def ormqr(A: np.ndarray, tau: np.ndarray, C: np.ndarray, left: bool, adjoint: bool) -> np.ndarray:
    """``Q C`` or ``C Q`` with the whole product of the reflections, or with its adjoint."""
    product = columns_of(C)
    if product.size and tau.shape[-1]:
        word, name = ("C", "unmqr") if A.dtype.kind == "c" else ("T", "ormqr")
        routine = _routine(name, A.dtype)
        for index in np.ndindex(*C.shape[:-2]):
            vectors = np.asfortranarray(A[index][:, : tau.shape[-1]])
            room = 64 * (max(C.shape[-2:]) + 65)
            product[index] = routine("L" if left else "R", word if adjoint else "N", vectors, tau[index], product[index], room)[0]
    return product


# -- symmetric matrices -----------------------------------------------------------------------------------------------------------------
def cholesky(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower factors, and the order of the first leading minor that is not positive (0: none)."""
    factors, info = columns_of(A), np.zeros(A.shape[:-2], np.int32)
    if A.size:
        potrf = _routine("potrf", A.dtype)
        for index in np.ndindex(*A.shape[:-2]):
            factors[index], info[index] = potrf(factors[index], lower=1, clean=1)
    return factors, info


def pivoted_cholesky(A: np.ndarray, upper: bool, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """A factor of the matrix with its rows and columns in another order, and that order, counted from 1."""
    factor, order, _, _ = _routine("pstrf", A.dtype)(A, tol=tol, lower=not upper)
    return np.asfortranarray(np.triu(factor) if upper else np.tril(factor)), order.astype(np.int32)


@native.part("_ldl_factor", work="16 * A.size")
def ldl_factor(A: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bunch and Kaufman's factors of the lower triangle in one matrix, the pivots, and the first zero in D (0: none)."""
    factors, pivots = columns_of(A), np.empty(A.shape[:-1], np.int32)
    info = np.zeros(A.shape[:-2], np.int32)
    if A.size:
        sytrf = _routine("hetrf" if hermitian and A.dtype.kind == "c" else "sytrf", A.dtype)
        for index in np.ndindex(*A.shape[:-2]):
            packed, pivots[index], info[index] = sytrf(factors[index], lower=1)
            factors[index] = np.tril(packed)
    return factors, pivots, info


@native.part("_ldl_solve", work="16 * B.size")
def ldl_solve(factors: np.ndarray, pivots: np.ndarray, B: np.ndarray, hermitian: bool) -> np.ndarray:
    """``A X = B`` from what ``ldl_factor`` returned; batches are broadcast."""
    lead = np.broadcast_shapes(factors.shape[:-2], B.shape[:-2])
    X = columns_of(np.broadcast_to(B, (*lead, *B.shape[-2:])))
    if X.size:
        sytrs = _routine("hetrs" if hermitian and B.dtype.kind == "c" else "sytrs", B.dtype)
        for index, packed, swaps in _each(lead, factors, 2, pivots, 1):
            X[index] = sytrs(packed, swaps, X[index], lower=1)[0]
    return X


# -- least squares ------------------------------------------------------------------------------------------------------------------------
def least_squares(A: np.ndarray, B: np.ndarray, rcond: float, driver: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The right hand sides' place with the solutions in its first n rows, ranks, singular values, and which matrices lack full rank."""
    lead, (m, n), count = np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2:], B.shape[-1]
    if m >= n and driver == "gelsy":
        X = np.broadcast_to(B, (*lead, m, count))
    else:
        X = by_columns((*lead, max(m, n), count), A.dtype)
        X[...] = 0
        X[..., :m, :] = B
    rank, info = np.zeros(lead, np.int64), np.zeros(lead, np.int32)
    values = np.zeros((*lead, min(m, n)), A.real.dtype)
    if not min(m, n, count) or not rank.size:
        return columns_of(X), rank, values, info
    if driver == "gelsy":
        return *_of_least_norm(A, X, rcond), values, info
    solve = _routine(driver, A.dtype)
    for index, matrix in _each(lead, A, 2):
        if driver != "gels" and not np.isfinite(matrix).all():  # LAPACK may look for their singular values for ever
            info[index] = max(min(m, n) - 1, 1)
        elif driver == "gels":
            _, X[index], info[index] = solve(matrix, X[index])
        elif driver == "gelsd":
            sizes = _routine("gelsd_lwork", A.dtype)(m, n, count, rcond)
            work = [int(size.real) for size in sizes[:-1]]
            X[index], values[index], rank[index], info[index] = solve(matrix, X[index], *work, rcond, False, False)
        else:
            _, X[index], values[index], rank[index], _, info[index] = solve(matrix, X[index], rcond)
    return X, rank, values, info


@native.part("_gelsy", work="16 * A.size")
def _of_least_norm(A: np.ndarray, X: np.ndarray, rcond: float) -> tuple[np.ndarray, np.ndarray]:
    """Solutions of least norm, by a complete orthogonal factorisation, in the first rows of what X becomes, and ranks."""
    lead, (m, n), count, X = X.shape[:-2], A.shape[-2:], X.shape[-1], columns_of(X)
    rank, solve = np.zeros(lead, np.int64), _routine("gelsy", A.dtype)
    room = max(min(m, n) + 3 * n + 1, 2 * min(m, n) + count, 2 * n + 64 * (n + 1))
    for index, matrix in _each(lead, A, 2):
        _, X[index], _, rank[index], _ = solve(matrix, X[index], np.zeros(n, np.int32), rcond, room)
    return X, rank
