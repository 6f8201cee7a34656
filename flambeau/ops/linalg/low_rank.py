"""Decompositions of large matrices by a few of their directions, by random projections."""

from __future__ import annotations

from typing import Any

from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, resolve
from .decompositions import qr, svd
from .products import matmul


def _basis(A: Any, q: int, niter: int, M: Any) -> Any:
    """Orthonormal columns that nearly span those of ``A - M``. Source: Halko, Martinsson and Tropp, 2009, algorithm 4.4."""

    def times(X: Any, adjoint: bool) -> Any:
        product = matmul(A.mH if adjoint else A, X)
        return product if M is None else product - matmul(M.mH if adjoint else M, X)

    Q = qr(times(resolve("torch", "randn")(A.shape[-1], q, dtype=A.dtype, device=A.device), False))[0]
    for _ in range(niter):
        Q = qr(times(Q, True))[0]
        Q = qr(times(Q, False))[0]
    return Q


def _decompose(A: Any, q: int | None, niter: int, M: Any) -> tuple[Any, Any, Any]:
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    M = None if M is None else M.expand(A.shape)
    if m < n:
        A, M = A.mH, None if M is None else M.mH
    Q = _basis(A, q, niter, M)
    B = matmul(Q.mH, A)
    if M is not None:
        B = B - matmul(Q.mH, M)
    U, S, Vh = svd(B, False)
    U, V = matmul(Q, U), Vh.mH
    return (V, S, U) if m < n else (U, S, V)


@composite(method=False)
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """Singular value decomposition of a matrix of low rank, nearly: ``A - M = U diag(S) V^H``.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        q: somewhat more than the rank; 6 when None.
        niter: steps of subspace iteration.
        M: ``(*, m, n)``: what to take off first.
    Returns:
        ``U``, ``(*, m, q)``; ``S``, ``(*, q)``, falling; ``V``, ``(*, n, q)``.
    Raises:
        ValueError: fewer than two dimensions.
    Gradient: through the random projection and its decomposition.
    Source: torch.svd_lowrank. Halko, Martinsson and Tropp, 2009, algorithm 5.1.
    Example:
        >>> A = torch.outer(torch.arange(5.0), torch.arange(4.0))  # rank 1
        >>> U, S, V = torch.svd_lowrank(A, q=1)
        >>> U.shape, V.shape, torch.allclose(U * S @ V.mT, A, atol=1e-4)
        (torch.Size([5, 1]), torch.Size([4, 1]), True)
    """
    return _decompose(A, q, 2 if niter is None else niter, M)


@composite(method=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Principal components of the rows of a matrix: the singular value decomposition of ``A`` less its columns' means.

    Args:
        A: ``(*, m, n)``, floating point.
        q: somewhat more than the rank; the least of 6, m and n when None.
        center: take the means off.
        niter: steps of subspace iteration.
    Returns:
        ``U``, ``(*, m, q)``; ``S``, ``(*, q)``, falling; ``V``, ``(*, n, q)``: the directions, as columns.
    Raises:
        ValueError: ``q`` or ``niter`` out of range.
    Gradient: through the random projection and its decomposition.
    Source: torch.pca_lowrank.
    Example:
        >>> points = torch.tensor([[1.0, 10.0], [2.0, 10.0], [3.0, 10.0]])
        >>> torch.pca_lowrank(points, q=1)[2].abs().round(decimals=3)  # they lie along the first axis
        tensor([[1.],
                [0.]])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return _decompose(A - A.mean(-2, True) if center else A, q, niter, None)
