"""LAPACK over batches: what the native loop and SciPy's bindings compute fulfils the equations that define it."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import lapack as bindings, native
from flambeau.kernels.families import elimination, lapack, small_matrices, small_solutions
from flambeau.kernels.families.blas import library

from .guard import guarded

pytestmark = pytest.mark.skipif(library() is None, reason="NumPy's LAPACK cannot be called")
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
every_lead = pytest.mark.parametrize("lead", [(), (2, 40)])
SHAPES = ((5, 5), (7, 4), (4, 7), (1, 1))


def normal(rng, dtype, *shape):
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else values).astype(dtype)


def adjoint(A):
    return A.swapaxes(-1, -2).conj()


def check(got, want, dtype, scale=1.0):
    assert got.dtype == dtype
    tolerance = 3e-4 if np.dtype(dtype).char in "fF" else 1e-10
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=scale * tolerance)


@every_dtype
@every_lead
def test_factors_multiply_to_the_matrix(dtype, lead):
    rng = np.random.default_rng(0)
    for m, n in SHAPES:
        A, short = normal(rng, dtype, *lead, m, n), min(m, n)
        for mode, size in (("reduced", short), ("complete", m)):
            Q, R = lapack.qr(A, mode)
            assert Q.shape == (*lead, m, size) and R.shape == (*lead, size, n)
            check(Q @ R, A, dtype)
            check(adjoint(Q) @ Q, np.broadcast_to(np.eye(size), (*lead, size, size)), dtype)
        for full in (False, True):
            U, S, Vh = lapack.svd(A, full, True)
            assert U.shape == (*lead, m, m if full else short) and Vh.shape == (*lead, n if full else short, n)
            check((U[..., :short] * S[..., None, :]) @ Vh[..., :short, :], A, dtype)
        check(lapack.svd(A, False, False), S, S.dtype)
        factors, pivots, info = lapack.lu_factor(A)
        L = np.tril(factors[..., :short], -1) + np.eye(m, short)
        P = np.arange(m)[:, None] == bindings.permutation(pivots, m)[..., None, :]
        check((P @ L).astype(dtype) @ np.triu(factors[..., :short, :]), A, dtype)
        assert pivots.dtype == np.int32 and not info.any()


@every_dtype
@every_lead
def test_eigenvectors_are_only_stretched(dtype, lead):
    A = normal(np.random.default_rng(1), dtype, *lead, 5, 5)
    for word in "LU":
        values, vectors = lapack.eigh(A + adjoint(A), word, True)
        check((A + adjoint(A)) @ vectors, vectors * values[..., None, :], dtype)
        check(lapack.eigh(A + adjoint(A), word, False), values, values.dtype)
    values, vectors = lapack.eig(A, True)
    check(A @ vectors, vectors * values[..., None, :], values.dtype)
    check(np.sort(np.abs(lapack.eig(A, False))), np.sort(np.abs(values)), values.real.dtype)


@every_dtype
@every_lead
@pytest.mark.parametrize("bound", [False, True])
def test_solutions_solve_and_reflections_multiply(dtype, lead, bound):
    """Of the native loop, and of SciPy's bindings, which serve where there are no kernels."""
    rng, way = np.random.default_rng(2), bindings if bound else lapack
    n = 5
    A, B, ones = normal(rng, dtype, *lead, n, n) + 3 * np.eye(n, dtype=dtype), normal(rng, dtype, n, 3), np.eye(n)
    with native.disabled():
        factors, pivots, _ = way.lu_factor(A)
        check(A @ way.lu_solve(factors, pivots, B, False), np.broadcast_to(B, (*lead, n, 3)), dtype)
        check(adjoint(A) @ way.lu_solve(factors, pivots, B, True), np.broadcast_to(B, (*lead, n, 3)), dtype)
        for upper in (False, True):
            T = np.triu(A) if upper else np.tril(A)
            for lying in (T, np.ascontiguousarray(T.swapaxes(-1, -2)).swapaxes(-1, -2)):
                check(T @ way.solve_triangular(lying, B, upper, True, False), np.broadcast_to(B, (*lead, n, 3)), dtype)
                X = way.solve_triangular(lying, B.T, upper, False, False)
                check(X @ T, np.broadcast_to(B.T, (*lead, 3, n)), dtype)
        for hermitian in (False, True):
            E = A + (adjoint(A) if hermitian else A.swapaxes(-1, -2))
            packed, swaps, _ = way.ldl_factor(E, hermitian)
            check(E @ way.ldl_solve(packed, swaps, B, hermitian), np.broadcast_to(B, (*lead, n, 3)), dtype)
        tall = normal(rng, dtype, *lead, 7, n)
        packed, tau = lapack.geqrf(tall)
        Q, C = lapack.qr(tall, "complete")[0], normal(rng, dtype, *lead, 7, 3)
        check(way.orgqr(packed, tau), Q[..., :n], dtype)
        check(way.ormqr(packed, tau, C, True, False), Q @ C, dtype)
        check(way.ormqr(packed, tau, C, True, True), adjoint(Q) @ C, dtype)
        check(way.ormqr(packed, tau, adjoint(C), False, False), adjoint(C) @ Q, dtype)
    if bound:
        return
    X, info = lapack.solve(A, B)
    check(A @ X, np.broadcast_to(B, (*lead, n, 3)), dtype)
    definite = A @ adjoint(A) + ones.astype(dtype)
    for upper in (False, True):
        factor, info = lapack.cholesky(definite, upper)
        check(adjoint(factor) @ factor if upper else factor @ adjoint(factor), definite, dtype)
        check(definite @ lapack.cholesky_solve(factor, B, upper), np.broadcast_to(B, (*lead, n, 3)), dtype, 10)
        check(definite @ lapack.cholesky_inverse(factor, upper), np.broadcast_to(ones, A.shape), dtype, 10)
        assert info.shape == lead and not info.any()
    for m, columns in SHAPES:
        A = normal(rng, dtype, *lead, m, columns)
        place = np.zeros((*lead, max(m, columns), 3), dtype)
        place[..., :m, :] = normal(rng, dtype, *lead, m, 3)
        solution, rank = lapack.gelsy(A, place, 1e-6)
        check(solution[..., :columns, :], np.linalg.pinv(A) @ place[..., :m, :], dtype, 10)
        assert (rank == min(m, columns)).all()


def test_matrices_that_fail_are_told():
    A = torch.eye(30).repeat(50, 1, 1)
    A[3, 4, 4] = 0.0
    assert torch.linalg.lu_factor_ex(A)[2].nonzero().tolist() == [[3]] and torch.linalg.inv_ex(A)[1][3] == 5
    assert torch.linalg.det(A).sum() == 49 and torch.linalg.slogdet(A)[1].isinf().sum() == 1
    with pytest.raises(torch.linalg.LinAlgError, match=r"Batch element 3\): The solver failed"):
        torch.linalg.solve(A, A)
    A[3, 4, 4] = -1.0
    assert torch.linalg.cholesky_ex(A)[1][3] == 5 and torch.linalg.det(A)[3] == -1
    A[2] = float("nan")
    for operation in (torch.linalg.eigh, torch.linalg.svd, torch.linalg.svdvals, torch.linalg.eigvalsh):
        with pytest.raises(torch.linalg.LinAlgError, match="Batch element 2"):
            operation(A)


def test_results_do_not_depend_on_the_number_of_threads():
    A = torch.randn(300, 9, 9)
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append([*torch.linalg.svd(A), *torch.linalg.qr(A), torch.linalg.inv(A)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 8, small_matrices.SIDE, small_matrices.SIDE + 1])
def test_many_small_matrices_are_factored_as_each_of_them(dtype, n):
    """Around the number and the size from which on lanes hold matrices; pivots are LAPACK's, ties and zeros included."""
    rng = np.random.default_rng(n)
    for count in (small_matrices.MANY - 1, small_matrices.MANY, 65):
        A = normal(rng, dtype, count, n, n)
        A[3], A[4, :, : n // 2] = 0, 0
        A[5] = np.sign(A[5])
        took = small_matrices.factors(A)
        assert (took is not None) == (count >= small_matrices.MANY and n <= small_matrices.SIDE)
        factors, pivots, info = lapack.lu_factor(A)
        each = [lapack.lu_factor(matrix) for matrix in A]
        np.testing.assert_array_equal(pivots, np.stack([one[1] for one in each]))
        np.testing.assert_array_equal(info, np.stack([one[2] for one in each]))
        fine = info == 0
        check(factors[fine], np.stack([one[0] for one in each])[fine], dtype, scale=10 * n)
        P = (A @ adjoint(A) / n + np.eye(n)).astype(dtype)
        for given in (P, np.asfortranarray(P), np.repeat(P[:, None], 2, 1)[:, 1]):
            for upper in (False, True):
                beside = given + (np.tril if upper else np.triu)(np.full_like(given, 7), -1 if upper else 1)  # never looked at
                roots, info = lapack.cholesky(beside.astype(dtype), upper)
                check((adjoint(roots) @ roots if upper else roots @ adjoint(roots)), P, dtype, scale=n)
                assert not info.any() and not (np.tril(roots, -1) if upper else np.triu(roots, 1)).any()
                assert roots.swapaxes(-1, -2).flags.c_contiguous


def test_small_matrices_that_fail_are_told():
    A = np.stack([np.eye(3, dtype=np.float32)] * 40)
    A[17, 1, 1] = -1
    _, info = lapack.cholesky(A, False)
    assert info.tolist() == [2 * (i == 17) for i in range(40)]
    A[17, 1, 1], A[18, 2, 2] = np.nan, 0
    assert lapack.lu_factor(A)[2].tolist() == [3 * (i == 18) for i in range(40)] and small_matrices.roots(A, False) is None
    assert np.isnan(lapack.lu_factor(A)[0][17]).any() and not np.isnan(np.delete(lapack.lu_factor(A)[0], 17, 0)).any()


def test_small_matrices_stay_within_their_arrays():
    A = np.random.default_rng(0).standard_normal((37, 5, 5))
    for end in (False, True):
        factors, _, _ = small_matrices.factors(guarded(A, end))
        np.testing.assert_array_equal(factors, small_matrices.factors(A)[0])
        assert small_matrices.roots(guarded(A @ adjoint(A) + np.eye(5), end), True) is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m, n", [(1, 1), (3, 2), (8, 8), (5, 16), (16, 16), (16, 7)])
def test_many_small_matrices_are_reflected_and_solved_with(dtype, m, n):
    """Whichever way they lie, and read within their memory; numbers that are not finite, and what squares cannot hold, are LAPACK's."""
    rng, count = np.random.default_rng(0), 37
    A = normal(rng, dtype, count, m, n)
    for given in (A, A.swapaxes(-1, -2).copy().swapaxes(-1, -2), np.repeat(A, 2, 0)[::2], guarded(A), guarded(A, False)):
        packed, tau = (each if k else each.swapaxes(-1, -2) for k, each in enumerate(small_solutions.reflections(given)))
        one = [lapack.geqrf(matrix) for matrix in A]
        check(packed, np.stack([each[0] for each in one]), dtype, 10)
        check(tau, np.stack([each[1] for each in one]), dtype, 10)
        for mode, size in (("reduced", min(m, n)), ("complete", m)):
            Q, R = lapack.qr(given, mode)
            check(Q @ R, A, dtype)
            check(adjoint(Q) @ Q, np.broadcast_to(np.eye(size), (count, size, size)), dtype)
    T, B = normal(rng, dtype, count, m, m) + 5 * np.eye(m, dtype=dtype), normal(rng, dtype, count, m, n)
    for given in (T, T.swapaxes(-1, -2).copy().swapaxes(-1, -2), guarded(T), guarded(T, False)):
        for upper in (False, True):
            half = np.triu(T) if upper else np.tril(T)
            check(half @ lapack.solve_triangular(given, B, upper, True, False), B, dtype)
            right = lapack.solve_triangular(given, adjoint(B), upper, False, False)
            check(right @ half, adjoint(B), dtype)
            product = half.swapaxes(-1, -2) @ half if upper else half @ half.swapaxes(-1, -2)
            check(product @ lapack.cholesky_solve(given, B, upper), B, dtype, 100)
            check(product @ lapack.cholesky_inverse(given, upper), np.broadcast_to(np.eye(m), T.shape), dtype, 100)
    for value in (np.nan, np.inf, 1e-30, 0):
        B = A.copy()
        B[7] = value
        assert small_solutions.reflections(B) is None or (value and dtype == np.float64 and np.isfinite(value))
    assert small_solutions.reflections(A[:31]) is None and small_solutions.solutions("lower", T[:31], T[:31]) is None


@pytest.mark.parametrize("lead, short, rows", [((), 5, 5), ((40,), 3, 7), ((2, 0), 4, 4), ((), 0, 3), ((), 0, 0)])
def test_pivots_are_orders_of_rows(lead, short, rows):
    rng = np.random.default_rng(0)
    pivots = np.array([rng.integers(i + 1, rows + 1, lead) for i in range(short)], np.int32).reshape(short, *lead)
    pivots = np.moveaxis(pivots, 0, -1)
    with native.disabled():
        want = bindings.permutation(pivots, rows)
    got = elimination.order_of_pivots(pivots, rows)
    assert (got is None) == (not pivots.size)
    np.testing.assert_array_equal(want if got is None else got, want)
    P = torch.lu_unpack(torch.zeros(*lead, rows, short), torch.from_numpy(np.ascontiguousarray(pivots)), unpack_data=False)[0].numpy()
    np.testing.assert_array_equal(P, np.arange(rows)[:, None] == want[..., None, :])
