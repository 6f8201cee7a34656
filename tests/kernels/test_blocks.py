"""Factorisations and solutions by blocks: as accurate as LAPACK's around every size that blocks have, and within their arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg.lapack

import flambeau as torch
from flambeau.kernels.families import blocks, elimination, lapack, reflections, roots
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


@both_dtypes
def test_launches_for_each_panel_give_the_same_bits(dtype, monkeypatch):
    rng = np.random.default_rng(8)
    for m, n in ((40, 40), (65, 130), (200, 129)):
        A = rng.standard_normal((m, n)).astype(dtype)
        A[:, 70:75] = 0
        whole = lapack.lu_factor(A)
        monkeypatch.setattr(elimination, "APART", 1)
        for got, want in zip(lapack.lu_factor(A), whole, strict=True):
            np.testing.assert_array_equal(got, want)
        A[3, 30] = np.nan
        assert elimination.factors(A) is None
        A[3, 30] = 1e-310
        assert elimination.factors(np.eye(m, dtype=dtype) * A[3, 30]) is None or dtype == np.float32
        monkeypatch.undo()
        monkeypatch.setattr(blocks, "ROWS", (1, 600))


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


@both_dtypes
def test_reflections_are_as_accurate_as_lapacks(dtype):
    rng, errors = np.random.default_rng(6), []
    for size in SIZES[1:-2:2]:
        for m, n in ((size, size), (size, size + 5), (size + 40, size)):
            for A in matrices(rng, dtype, m, n):
                packed, tau = lapack.geqrf(A)
                want, taus, _, _ = routine("geqrf", dtype)(A)
                assert packed.T.flags.c_contiguous and ((tau >= 0) & (tau <= 2)).all()
                residuals = []
                for factors, scalars in ((packed, tau), (want, taus)):
                    V, Q = np.tril(factors.astype(np.float64), -1), np.eye(m)
                    for i, scalar in reversed(list(enumerate(scalars.astype(np.float64)))):
                        v = V[:, i].copy()
                        v[i] = 1
                        Q -= scalar * np.outer(v, v @ Q)
                    R = np.triu(factors).astype(np.float64)
                    residuals.append(error(Q @ R, A, np.linalg.norm(A.astype(np.float64), axis=0)))
                errors.append(residuals)
                for mode, columns in (("reduced", min(m, n)), ("complete", m)):
                    ours, R = lapack.qr(A, mode)
                    assert ours.shape == (m, columns) and R.shape == (columns, n) and not np.tril(R, -1).any()
                    np.testing.assert_array_equal(R[: min(m, n)], np.triu(packed)[:columns][: min(m, n)])
                    assert error(ours.T.astype(np.float64) @ ours, np.eye(columns, dtype=dtype), np.sqrt(m)) < 1.5
                    assert error(ours.astype(np.float64) @ R, A, np.linalg.norm(A.astype(np.float64), axis=0)) < 3
                np.testing.assert_allclose(lapack.orgqr(packed[:, : min(m, n)], tau), ours[:, : min(m, n)], atol=20 * np.finfo(dtype).eps)
                if A is not None and m >= n:
                    C = rng.standard_normal((m, 5)).astype(dtype)
                    for adjoint, want in ((False, ours.astype(np.float64) @ C), (True, ours.T.astype(np.float64) @ C)):
                        np.testing.assert_allclose(lapack.ormqr(packed, tau, C, True, adjoint), want, atol=200 * np.finfo(dtype).eps)
                        right = lapack.ormqr(packed, tau, C.T, False, not adjoint)
                        np.testing.assert_allclose(right, want.T, atol=200 * np.finfo(dtype).eps)
    ours, theirs = np.sqrt(np.mean(np.square(errors), 0))
    assert ours <= 2 * theirs, (ours, theirs)


@both_dtypes
def test_least_squares_of_full_rank(dtype):
    rng = np.random.default_rng(7)
    for m, n in ((40, 40), (90, 40), (65, 64)):
        A, B = rng.standard_normal((m, n)).astype(dtype), rng.standard_normal((m, 5)).astype(dtype)
        A[:n] += 10 * np.eye(n, dtype=dtype)
        rcond = float(np.finfo(dtype).eps * m)
        assert lapack._of_full_rank(A, B, rcond) is not None
        X, rank = lapack.gelsy(A, B, rcond)
        want = np.linalg.lstsq(A.astype(np.float64), B.astype(np.float64), rcond=None)[0]
        np.testing.assert_allclose(X[:n], want, atol=100 * np.finfo(dtype).eps)
        assert rank == n
        A[:, 3] = A[:, 5]
        assert lapack._of_full_rank(A, B, rcond) is None and lapack.gelsy(A, B, rcond)[1] == n - 1


def test_what_blocks_leave_to_lapack():
    A = np.random.default_rng(3).standard_normal((40, 40))
    for value in (np.nan, np.inf):
        B = A.copy()
        B[20, 3] = value
        assert all(by(B) is None for by in (elimination.factors, blocks.in_rows, reflections.factors)) and roots.roots(B, False) is None
    assert reflections.factors(A * 1e-270) is None and reflections.factors(A * 1e-100) is not None
    assert reflections.factors(A * 0) is not None and not lapack.geqrf(A * 0)[1].any()
    tiny = np.eye(40, dtype=np.float32) * np.float32(1e-40)
    assert elimination.factors(tiny) is None
    P = A @ A.T
    P[30, 30] = -1
    assert roots.roots(P, False) is None and roots.roots(P, True) is None
    assert blocks.are_for_blocks(np.broadcast_to(A, (5000, 40, 40))) and not blocks.are_for_blocks(np.broadcast_to(A, (9000, 40, 40)))
    many = np.broadcast_to(np.float32(1), (16000, 12, 12))  # few elements, whose padded rows are many times as many
    assert not blocks.are_for_blocks(many) and blocks.are_for_blocks(many[:1000])
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
            for got, want in zip(lapack.qr(given, "reduced"), lapack.qr(A, "reduced"), strict=True):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(
                lapack.solve_triangular(given, A, False, True, False), lapack.solve_triangular(A, A, False, True, False)
            )
        np.testing.assert_array_equal(lapack.cholesky(guarded(P, end), False)[0], lapack.cholesky(P, False)[0])
