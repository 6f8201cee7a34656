"""Linear algebra under the names of PyTorch's first versions, which PyTorch has no longer, against NumPy and SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.core import once

pytestmark = pytest.mark.filterwarnings("ignore:torch.* is deprecated")
RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
MANY = RNG.normal(size=(2, 4, 4)) + 4 * np.eye(4)
TALL = RNG.normal(size=(6, 4))
B = RNG.normal(size=(4, 2))
DEFINITE = A @ A.T


def tensor(array: np.ndarray) -> Any:
    return flambeau.tensor(array)


def close(got: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["solve", "gesv"])
def test_solve_takes_the_right_hand_side_first_and_returns_the_factors(name: str) -> None:
    solution, factors = getattr(flambeau, name)(tensor(B), tensor(A))
    close(solution, np.linalg.solve(A, B))
    close(factors, flambeau.linalg.lu_factor(tensor(A))[0].numpy())
    close(getattr(tensor(B), name)(tensor(A))[0], np.linalg.solve(A, B))


@pytest.mark.parametrize("name", ["lstsq", "gels"])
def test_lstsq_leaves_remainders_below_the_solution(name: str) -> None:
    right = RNG.normal(size=(6, 2))
    want, residuals = np.linalg.lstsq(TALL, right)[:2]
    solution, _ = getattr(flambeau, name)(tensor(right), tensor(TALL))
    close(solution[:4], want)
    close((solution[4:] ** 2).sum(0), residuals)
    wide = getattr(flambeau, name)(tensor(B), tensor(TALL.T))[0]
    close(wide, np.linalg.pinv(TALL.T) @ B)


def test_cholesky_factors_are_upper_unless_told() -> None:
    upper = np.linalg.cholesky(DEFINITE).T
    close(flambeau.potrf(tensor(DEFINITE)), upper)
    close(flambeau.potrf(tensor(DEFINITE), upper=False), upper.T)
    close(flambeau.potri(tensor(upper)), np.linalg.inv(DEFINITE))
    close(flambeau.potrs(tensor(B), tensor(upper)), np.linalg.solve(DEFINITE, B))


@pytest.mark.parametrize("upper", [True, False])
def test_pstrf_reorders(upper: bool) -> None:
    factor, order = (result.numpy() for result in flambeau.pstrf(tensor(DEFINITE), upper))
    product = factor.T @ factor if upper else factor @ factor.T
    np.testing.assert_allclose(product, DEFINITE[order - 1][:, order - 1], rtol=1e-9)


def test_factors_of_batches() -> None:
    info = flambeau.empty(0, dtype=flambeau.int32)
    factors, pivots = flambeau.btrifact(tensor(MANY), info=info)
    assert info.tolist() == [0, 0] == flambeau.btrifact_with_info(tensor(MANY))[2].tolist()
    P, L, U = flambeau.btriunpack(factors, pivots)
    close(P @ L @ U, MANY)
    close(flambeau.btrisolve(tensor(B.T), factors, pivots), np.linalg.solve(MANY, B.T[..., None])[..., 0])


def test_trtrs_reads_the_upper_triangle() -> None:
    close(flambeau.trtrs(tensor(B), tensor(A))[0], np.linalg.solve(np.triu(A), B))
    close(flambeau.trtrs(tensor(B), tensor(A), transpose=True)[0], np.linalg.solve(np.triu(A).T, B))


def test_symeig_reads_the_upper_triangle_and_has_no_vectors_unless_told() -> None:
    values, vectors = flambeau.symeig(tensor(A))
    close(values, np.linalg.eigvalsh(A, "U"))
    assert vectors.numel() == 0
    values, vectors = flambeau.symeig(tensor(A), eigenvectors=True, upper=False)
    close(vectors @ values.diag() @ vectors.T, np.tril(A) + np.tril(A, -1).T)


def test_eig_is_complex_and_has_no_vectors_unless_told() -> None:
    turned = np.array([[0.0, -2, 0], [1, 0, 0], [0, 0, 3]])
    values, vectors = (result.numpy() for result in flambeau.eig(tensor(turned), eigenvectors=True))
    np.testing.assert_allclose(turned @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(np.sort_complex(values), [-1j * 2**0.5, 1j * 2**0.5, 3], atol=1e-12)
    assert flambeau.eig(tensor(turned))[1].numel() == 0


def test_each_name_says_once_what_replaces_it() -> None:
    once._said.discard("gesv")
    with pytest.warns(UserWarning, match=r"torch.linalg.solve\(A, B\)") as caught:
        flambeau.gesv(tensor(B), tensor(A))
        flambeau.gesv(tensor(B), tensor(A))
    assert len(caught) == 1


def test_matrix_rank_has_an_absolute_tolerance() -> None:
    values = np.diag([3.0, 2.0, 1e-20])
    assert flambeau.matrix_rank(tensor(values)).item() == 2
    assert flambeau.matrix_rank(tensor(values), 2.5, True).item() == 1


OLD = {
    "solve": (B, A), "gesv": (B, A), "trtrs": (B, A), "potrf": (DEFINITE,), "potri": (A,), "potrs": (B, A), "pstrf": (DEFINITE,),
    "btrifact": (MANY,), "btrifact_with_info": (MANY,), "symeig": (DEFINITE,), "eig": (A,), "lstsq": (B, A), "gels": (B, A),
}  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", OLD)
def test_each_says_once_what_took_its_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "_said", set())
    operands = [tensor(array) for array in OLD[name]]
    with pytest.warns(UserWarning, match=rf"torch\.{name} is deprecated in favor of torch\.") as caught:
        getattr(flambeau, name)(*operands)
        getattr(flambeau, name)(*operands)
    assert [Path(each.filename) for each in caught] == [Path(__file__)]


def test_factors_of_an_expanded_matrix_lie_in_order() -> None:
    matrix = flambeau.arange(12.0).reshape(2, 3, 2)
    packed, tau = flambeau.geqrf(matrix.expand(3, 2, 3, 2))
    assert tau.is_contiguous() and packed.mT.is_contiguous()
    assert flambeau.equal(tau[2], flambeau.geqrf(matrix).tau)
