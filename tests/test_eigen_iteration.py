"""``lobpcg`` beside PyTorch's and beside all eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
from libraries import OURS
from oracle import pytorch

import flambeau as torch


def symmetric(rng, *shape):
    matrix = rng.standard_normal(shape)
    return matrix + matrix.swapaxes(-1, -2) + 0.2 * shape[-1] * np.eye(shape[-1])


def definite(rng, *shape):
    matrix = rng.standard_normal(shape)
    return matrix @ matrix.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])


@pytest.mark.oracle
@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_eigenvalues_and_steps_are_pytorchs(method, largest, lead):
    real, rng = pytorch(), np.random.default_rng(3)
    A, X = symmetric(rng, *lead, 24, 24), rng.standard_normal((*lead, 24, 3))
    results = []
    for library in (torch, real):
        shown: list[tuple[int, int]] = []

        def track(worker, shown=shown):
            shown.append((worker.ivars["istep"], worker.ivars["iterations_left"]))
            assert worker.S.shape == (24, 9) and worker.tvars["rerr"].shape == (3,) and worker.iparams["k"] == 2

        options = {"largest": largest, "method": method, "tol": 1e-6, "tracker": track}
        E, U = library.lobpcg(library.from_numpy(A), 2, X=library.from_numpy(X), **options)
        results.append((E.numpy(), np.abs(U.numpy()), shown))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-9)
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-4)
    assert abs(len(results[0][2]) - len(results[1][2])) <= 3 and results[0][2][:5] == results[1][2][:5]


@pytest.mark.parametrize("method", ["ortho", "basic"])
def test_vectors_are_orthonormal_with_respect_to_B(method):
    rng = np.random.default_rng(1)
    A, B = torch.tensor(symmetric(rng, 20, 20)), torch.tensor(definite(rng, 20, 20))
    E, U = torch.lobpcg(A, 2, B, largest=False, method=method, tol=1e-9, niter=-1)
    assert torch.allclose(A @ U, B @ U * E, atol=1e-6) and torch.allclose(U.T @ B @ U, torch.eye(2, dtype=torch.float64))
    factor = torch.linalg.inv(torch.linalg.cholesky(B))
    assert torch.allclose(E, torch.linalg.eigvalsh(factor @ A @ factor.T)[:2], rtol=1e-13, atol=0)


def test_sparse_matrices_a_preconditioner_and_a_stop():
    matrix = torch.diag(torch.arange(1.0, 61, dtype=torch.float64)) + torch.diag(torch.full((59,), 0.3, dtype=torch.float64), 1)
    matrix = (matrix + matrix.T) / 2
    steps = {}
    for name, given in (("plain", None), ("preconditioned", torch.linalg.inv(matrix))):
        for method in ("ortho", "basic"):
            torch.manual_seed(0)
            E, _ = torch.lobpcg(
                matrix.to_sparse(),
                k=2,
                iK=given,
                largest=False,
                method=method,
                tracker=lambda worker, key=(name, method): steps.__setitem__(key, worker.ivars["istep"]),
            )
            assert torch.allclose(E, torch.linalg.eigvalsh(matrix)[:2])
    assert all(steps["preconditioned", method] < steps["plain", method] / 2 for method in ("ortho", "basic"))

    def stop(worker):
        assert str(worker).startswith("LOBPCG:\n  iparams=")
        worker.bvars["force_stop"] = True
        steps["stopped"] = worker.ivars["istep"]

    torch.lobpcg(matrix, tracker=stop, ortho_bparams={"ortho_use_drop": True})
    assert steps["stopped"] == 1


def test_derivatives_to_second_order():
    A = torch.tensor(symmetric(np.random.default_rng(2), 2, 6, 6))
    X = torch.linalg.eigh(A)[1][..., [5, 4]]
    A.requires_grad_()

    def pairs(A):
        E, U = torch.lobpcg(A, X=X, tol=1e-11, niter=20)
        return E, U * U.detach()[..., :1, :].sign()

    assert torch.autograd.gradcheck(pairs, (A,), atol=1e-4, fast_mode=True)
    assert torch.autograd.gradgradcheck(pairs, (A,), atol=1e-4, fast_mode=True)
    (grad,) = torch.autograd.grad(pairs(A)[1].sum(), A)
    assert torch.equal(grad, grad.mT)


def test_what_does_not_fit_is_refused():
    square = torch.eye(9)
    for error, arguments in (
        (AssertionError, (torch.ones(5, 4),)),
        (AssertionError, (square, 1, torch.eye(8))),
        (AssertionError, (square, 2, None, torch.ones(8, 2))),
        (ValueError, (square, 4)),
        (NotImplementedError, (torch.eye(9, dtype=torch.complex64),)),
    ):
        with pytest.raises(error):
            torch.lobpcg(*arguments)
    with pytest.raises(ValueError, match="'basic' or 'ortho'"):
        torch.lobpcg(square, method="orthogonal")
    values = torch.diag(torch.arange(1.0, 10)).requires_grad_()
    with pytest.raises(ValueError, match="B != I"):
        torch.lobpcg(values, 1, torch.eye(9))[0].sum().backward()
    assert OURS.array(torch.lobpcg(values.detach(), 1)[0]).round(3) == 9
