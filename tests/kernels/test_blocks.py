"""Factorisations and solutions by blocks: as accurate as LAPACK's around every size that blocks have, and within their arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg.lapack

import flambeau as torch
from flambeau.kernels.families import blocks, elimination, lapack, roots
from flambeau.kernels.families.blas import library

from .guard import guarded

pytestmark = pytest.mark.skipif(library() is None, reason="NumPy's LAPACK cannot be called")
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 96, 130)


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS", (1, 600))


def routine(name, dtype):
    return getattr(scipy.linalg.lapack, ("s" if dtype == np.float32 else "d") + name)


def matrices(rng, dtype, m, n):
    """Random ones, badly scaled ones, and ones with equal numbers in a column."""
    A = rng.standard_normal((m, n))
    scales = 10.0 ** rng.integers(-6, 6, (m, 1))
    return [each.astype(dtype) for each in (A, A * scales, A * 10.0 ** rng.integers(-6, 6, n), np.sign(A) + (A > 1) * 1.0)]


def error(product, want, scale):
    """The root of the mean square of differences, each in units of the last place of ``scale``."""
    differences = (product - want.astype(np.float64)) / np.maximum(np.abs(scale), 1e-300)
    return np.sqrt(np.mean(differences**2)) / np.finfo(want.dtype).eps


def exchanged(A, pivots):
    A = A.astype(np.float64)
    for row, other in enumerate(pivots):
        A[[row, other - 1]] = A[[other - 1, row]]
    return A


def residual(A, packed, pivots):
    packed = packed.astype(np.float64)
    short = min(packed.shape)
    L, U = np.tril(packed[:, :short], -1) + np.eye(len(packed), short), np.triu(packed[:short])
    return error(L @ U, exchanged(A, pivots).astype(A.dtype), np.abs(L) @ np.abs(U))


@both_dtypes
def test_elimination_is_lapacks(dtype):
    rng, getrf = np.random.default_rng(0), routine("getrf", dtype)
    for size in SIZES:
        for m, n in ((size, size), (size, size + 5), (size + 40, size)):
            for A in matrices(rng, dtype, m, n):
                for given in (A, np.asfortranarray(A), np.repeat(A, 2, 1)[:, ::2]):
                    packed, pivots, info = lapack.lu_factor(given)
                    want, swaps, failure = getrf(A)
                    assert packed.T.flags.c_contiguous and info == failure
                    if not failure:
                        ours, theirs = residual(A, packed, pivots), residual(A, want, swaps + 1)
                        assert ours <= 2 * theirs + 0.5, (m, n, ours, theirs)


def test_of_equal_pivots_the_first_is_taken():
    for n in (5, 40):
        A = np.tril(-np.ones((n, n)), -1) + np.eye(n)
        A[:, -1] = 1
        np.testing.assert_array_equal(lapack.lu_factor(A.astype(np.float32))[1], np.arange(1, n + 1))


@both_dtypes
def test_solutions_are_as_accurate_as_lapacks(dtype):
    rng = np.random.default_rng(1)
    errors = {name: [] for name in ("inverse", "solve", "lu_solve", "transposed")}

    def note(name, A, want, *ours):
        right = np.eye(len(A), dtype=dtype) if name == "inverse" else B
        errors[name] += [[error(A.astype(np.float64) @ X, right, np.abs(A) @ np.abs(want)) for X in (each, want)] for each in ours]

    for n in SIZES:
        for A in matrices(rng, dtype, n, n)[:3]:
            inverse, info = lapack.inverse(A)
            note("inverse", A, routine("getri", dtype)(*routine("getrf", dtype)(A)[:2])[0], inverse)
            assert not info and inverse.T.flags.c_contiguous
            packed, pivots, _ = lapack.lu_factor(A)
            for columns in (1, 3, 17, 40):
                B = rng.standard_normal((n, columns)).astype(dtype)
                want = routine("gesv", dtype)(A, B)[2]
                for given in (B, np.asfortranarray(B)):
                    note("solve", A, want, lapack.solve(A, given)[0])
                    note("lu_solve", A, want, lapack.lu_solve(packed, pivots, given, False))
                want = routine("getrs", dtype)(packed, pivots - 1, B, trans=1)[0]
                note("transposed", A.T, want, lapack.lu_solve(packed, pivots, B, True))
    for name, each in errors.items():
        ours, theirs = np.sqrt(np.mean(np.square(each), 0))
        assert ours <= 2 * theirs, (name, ours, theirs)
        assert all(one <= 4 * other + 1 for one, other in each), name


@both_dtypes
def test_roots_and_triangles(dtype):
    rng = np.random.default_rng(2)
    for n in SIZES:
        P = rng.standard_normal((n, n))
        P = (P @ P.T + np.eye(n)).astype(dtype)
        want = np.tril(routine("potrf", dtype)(P, lower=1)[0]).astype(np.float64)
        B = rng.standard_normal((n, 9)).astype(dtype)
        for upper in (False, True):
            beside = P + (np.tril if upper else np.triu)(np.full_like(P, 7), -1 if upper else 1)
            for given in (beside, np.asfortranarray(beside)):
                root, info = lapack.cholesky(given, upper)
                wide = (root.T if upper else root).astype(np.float64)
                scale = np.abs(want) @ np.abs(want.T)
                assert error(wide @ wide.T, P, scale) <= 2 * error(want @ want.T, P, scale) + 0.5 and not info
                assert not (np.tril(root, -1) if upper else np.triu(root, 1)).any() and root.T.flags.c_contiguous
                for X, right in (
                    (lapack.cholesky_solve(root, B, upper), B),
                    (lapack.cholesky_inverse(root, upper), np.eye(n, dtype=dtype)),
                ):
                    assert error(P.astype(np.float64) @ X, right, np.abs(P) @ np.abs(X)) <= np.sqrt(n) + 1
                for unit in (False, True):
                    T = root / np.abs(root).max() if unit else root
                    T = (T if not unit else (np.triu(T, 1) if upper else np.tril(T, -1)) + np.eye(n)).astype(dtype)
                    lying = (T + 5 * (np.tril(np.ones_like(T), -1) if upper else np.triu(np.ones_like(T), 1))).astype(dtype)
                    X = lapack.solve_triangular(lying, B, upper, True, unit)
                    assert error(T.astype(np.float64) @ X, B, np.abs(T) @ np.abs(X)) <= np.sqrt(n) + 1
                    Y = lapack.solve_triangular(np.asfortranarray(lying).T, B.T, not upper, False, unit)
                    np.testing.assert_array_equal(Y.T, X)
                    assert Y.T.flags.c_contiguous or min(Y.shape) == 1 or Y.flags.f_contiguous


def test_what_blocks_leave_to_lapack():
    A = np.random.default_rng(3).standard_normal((40, 40))
    for value in (np.nan, np.inf):
        B = A.copy()
        B[20, 3] = value
        assert elimination.factors(B) is None and blocks.in_rows(B) is None and roots.roots(B, False) is None
    tiny = np.eye(40, dtype=np.float32) * np.float32(1e-40)
    assert elimination.factors(tiny) is None
    P = A @ A.T
    P[30, 30] = -1
    assert roots.roots(P, False) is None and roots.roots(P, True) is None
    A[:, 7] = 0
    assert lapack.lu_factor(A)[2] == 8 and torch.linalg.inv_ex(torch.from_numpy(A))[1] == 8
    with pytest.raises(torch.linalg.LinAlgError, match="order 31"):
        torch.linalg.cholesky(torch.from_numpy(P))


def test_batches_are_computed_as_each_matrix():
    rng = np.random.default_rng(4)
    A, B = rng.standard_normal((3, 50, 40, 40)), rng.standard_normal((3, 50, 40, 6))
    factors, pivots, info = lapack.lu_factor(A)
    X, inverse, root = lapack.solve(A, B)[0], lapack.inverse(A)[0], lapack.cholesky(A @ A.swapaxes(-1, -2), True)[0]
    for place in ((0, 0), (1, 13), (1, 14), (2, 49)):
        for got, want in zip((factors, pivots, info), lapack.lu_factor(A[place]), strict=True):
            np.testing.assert_array_equal(got[place], want)
        np.testing.assert_array_equal(X[place], lapack.solve(A[place], B[place])[0])
        np.testing.assert_array_equal(inverse[place], lapack.inverse(A[place])[0])
        np.testing.assert_array_equal(root[place], lapack.cholesky(A[place] @ A[place].T, True)[0])


def test_blocks_stay_within_their_arrays():
    A = np.random.default_rng(5).standard_normal((37, 37)).astype(np.float32)
    P = A @ A.T + np.eye(37, dtype=np.float32)
    for end in (False, True):
        for given in (guarded(A, end), guarded(A.T, end).T):
            np.testing.assert_array_equal(lapack.lu_factor(given)[0], lapack.lu_factor(A)[0])
            np.testing.assert_array_equal(lapack.solve(A, given)[0], lapack.solve(A, A)[0])
            np.testing.assert_array_equal(
                lapack.solve_triangular(given, A, False, True, False), lapack.solve_triangular(A, A, False, True, False)
            )
        np.testing.assert_array_equal(lapack.cholesky(guarded(P, end), False)[0], lapack.cholesky(P, False)[0])
