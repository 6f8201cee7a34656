"""Linear algebra under the names of PyTorch's first versions, with their arguments, defaults and results."""

from __future__ import annotations

from typing import Any

from ..core.arrays import lapack
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, op
from ..core.calls.return_types import named_result
from .cholesky_factors import cholesky_ex, cholesky_inverse, cholesky_solve
from .decompositions import eig as complex_eig, eigh, eigvalsh, geqrf, ormqr
from .joining import cat
from .least_squares import lstsq as least_squares, matrix_rank as rank_of
from .linear_systems import solve_ex, solve_triangular, triangular_solution
from .lu_factors import lu_factor_ex, lu_solve, lu_unpack
from .matrix_checks import warn_superseded

_SOLVE = named_result("solve", ("solution", "LU"))
_LSTSQ = named_result("lstsq", ("solution", "QR"))
_SYMEIG = named_result("symeig", ("eigenvalues", "eigenvectors"))
_EIG = named_result("eig", ("eigenvalues", "eigenvectors"))


# -- systems ------------------------------------------------------------------------------------------------------------------------
def _solve(input: Any, A: Any) -> Any:
    return _SOLVE((solve_ex(A, input, check_errors="solve")[0], lu_factor_ex(A.detach())[0]))


@composite()
def solve(input: Tensor, A: Tensor) -> Any:
    """The solution of ``A X = B``, and A's LU factors. Deprecated; use ``linalg.solve``, which takes B last.

    Args:
        input: B, ``(*, n, k)``. A: ``(*, n, n)``.
    Source: torch.solve of PyTorch 1.8.
    """
    warn_superseded("solve", "torch.linalg.solve(A, B)")
    return _solve(input, A)


@composite()
def gesv(input: Tensor, A: Tensor) -> Any:
    """As ``solve``. Source: torch.gesv of PyTorch 0.4."""
    warn_superseded("gesv", "torch.linalg.solve(A, B)")
    return _solve(input, A)


@composite()
def trtrs(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """As ``triangular_solve``. Source: torch.trtrs of PyTorch 1.0."""
    warn_superseded("trtrs", "torch.linalg.solve_triangular(A, B, upper=upper)")
    return triangular_solution(input, A, upper, transpose, unitriangular)


def _fit(input: Any, A: Any) -> Any:
    """Solutions with LAPACK's remainders below them, and the packed QR factors."""
    B = input.unsqueeze(-1) if input.ndim == 1 else input
    packed, tau = geqrf(A.detach())
    m, n = A.shape[-2:]
    if m < n:
        return _LSTSQ((least_squares(A, B, driver="gels")[0], packed))
    turned = ormqr(packed, tau, B, True, True)
    top = solve_triangular(packed[:n], turned[:n], upper=True)
    return _LSTSQ((cat([top, turned[n:]], 0), packed))


@composite()
def lstsq(input: Tensor, A: Tensor) -> Any:
    """Least squares. Deprecated; use ``linalg.lstsq``, which takes B last.

    Args:
        input: B, ``(m, k)``. A: ``(m, n)`` of full rank.
    Returns:
        ``(max(m, n), k)``: the solution in the first n rows, and below them what the residuals are sums of squares of; A's QR factors.
    Source: torch.lstsq of PyTorch 1.8.
    """
    warn_superseded("lstsq", "torch.linalg.lstsq(A, B)")
    return _fit(input, A)


@composite()
def gels(input: Tensor, A: Tensor) -> Any:
    """As ``lstsq``. Source: torch.gels of PyTorch 1.0."""
    warn_superseded("gels", "torch.linalg.lstsq(A, B)")
    return _fit(input, A)


# -- Cholesky -----------------------------------------------------------------------------------------------------------------------
@composite()
def potrf(input: Tensor, upper: bool = True) -> Any:
    """The Cholesky factor, the upper one unless told. Source: torch.potrf of PyTorch 1.0."""
    warn_superseded("potrf", "torch.linalg.cholesky(A, upper=upper)")
    return cholesky_ex(input, upper=upper, check_errors="cholesky")[0]


@composite()
def potri(input: Tensor, upper: bool = True) -> Any:
    """The inverse from a Cholesky factor, an upper one unless told. Source: torch.potri of PyTorch 1.0."""
    warn_superseded("potri", "torch.cholesky_inverse(L, upper=upper)")
    return cholesky_inverse(input, upper)


@composite()
def potrs(input: Tensor, input2: Tensor, upper: bool = True) -> Any:
    """``A X = B`` from a Cholesky factor, an upper one unless told. Source: torch.potrs of PyTorch 1.0."""
    warn_superseded("potrs", "torch.cholesky_solve(B, L, upper=upper)")
    return cholesky_solve(input, input2, upper)


@op(name="_pivoted_cholesky", method=False, multi_output=True, promotion="same", grad=None)
def _pivoted_cholesky(input: Tensor, upper: bool, tol: float) -> Tensor:
    """Factor and order of ``pstrf``."""
    return lapack.pivoted_cholesky(input, upper, tol)


@composite()
def pstrf(input: Tensor, upper: bool = True, tol: float = -1) -> Any:
    """Cholesky factor of a positive semi-definite matrix with its rows and columns in another order.

    Args:
        input: ``(n, n)``. upper: the upper factor. tol: least pivot; n times the dtype's precision times the largest when negative.
    Returns:
        The factor, and the order, int32, counted from 1.
    Source: torch.pstrf of PyTorch 1.0. LAPACK's pstrf.
    """
    warn_superseded("pstrf", "torch.linalg.cholesky(A) for positive-definite matrices")
    return _pivoted_cholesky(input, upper, tol)


# -- LU of batches ------------------------------------------------------------------------------------------------------------------
@composite()
def btrifact(input: Tensor, info: Any = None, pivot: bool = True) -> Any:
    """LU factors packed into one matrix, and the pivots.

    Args:
        input: ``(*, n, n)``. info: a tensor that is told which matrices are singular; without it they are an error. pivot: swap rows.
    Source: torch.btrifact of PyTorch 1.0.
    """
    warn_superseded("btrifact", "torch.linalg.lu_factor(A)")
    factors, pivots, failures = lu_factor_ex(input, pivot=pivot, check_errors=False if info is not None else "torch.linalg.lu_factor")
    if info is not None:
        info.resize_(failures.shape).copy_(failures)
    return factors, pivots


@composite()
def btrifact_with_info(input: Tensor, pivot: bool = True) -> Any:
    """LU factors, pivots, and which matrices are singular. Source: torch.btrifact_with_info of PyTorch 1.0."""
    warn_superseded("btrifact_with_info", "torch.linalg.lu_factor_ex(A)")
    return tuple(lu_factor_ex(input, pivot=pivot))


@composite(method=False)
def btriunpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """As ``lu_unpack``. Source: torch.btriunpack of PyTorch 1.0."""
    warn_superseded("btriunpack", "torch.lu_unpack(LU, pivots)")
    return tuple(lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots))


@composite()
def btrisolve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Any:
    """``A X = B`` from LU factors.

    Args:
        input: B, ``(*, n)`` or ``(*, n, k)``. LU_data, LU_pivots: as ``btrifact`` returns them.
    Source: torch.btrisolve of PyTorch 1.0.
    """
    warn_superseded("btrisolve", "torch.linalg.lu_solve(LU, pivots, B)")
    if input.ndim == LU_data.ndim - 1:
        return lu_solve(LU_data, LU_pivots, input.unsqueeze(-1)).squeeze(-1)
    return lu_solve(LU_data, LU_pivots, input)


# -- eigenvalues --------------------------------------------------------------------------------------------------------------------
@composite()
def symeig(input: Tensor, eigenvectors: bool = False, upper: bool = True) -> Any:
    """Eigenvalues, rising, and eigenvectors of symmetric or Hermitian matrices. Deprecated; use ``linalg.eigh``.

    Args:
        input: ``(*, n, n)``. eigenvectors: compute them; they are empty otherwise. upper: which triangle is read.
    Source: torch.symeig of PyTorch 1.8.
    """
    side = "U" if upper else "L"
    warn_superseded("symeig", f"torch.linalg.{'eigh' if eigenvectors else 'eigvalsh'}(A, UPLO='{side}')")
    return _SYMEIG(eigh(input, side) if eigenvectors else (eigvalsh(input, side), input.new_empty((0,))))


@composite()
def eig(input: Tensor, eigenvectors: bool = False) -> Any:
    """Eigenvalues and eigenvectors of a square matrix, as complex numbers. Deprecated; use ``linalg.eig``.

    Args:
        input: ``(*, n, n)``. eigenvectors: compute them; they are empty otherwise.
    Returns:
        ``(*, n)`` and ``(*, n, n)``, the vectors as columns: those of ``linalg.eig``, where PyTorch 1.8 had pairs of real numbers.
    Source: torch.eig of PyTorch 1.8.
    """
    warn_superseded("eig", "torch.linalg.eig(A)")
    values, vectors = complex_eig(input)
    return _EIG((values, vectors if eigenvectors else vectors.new_empty((0,))))


@composite(method=False)
def matrix_rank(input: Tensor, tol: float | None = None, symmetric: bool = False) -> Tensor:
    """The number of singular values above a tolerance. Deprecated; use ``linalg.matrix_rank``.

    Args:
        input: ``(*, m, n)``. tol: the tolerance; the largest one's rounding error when None. symmetric: whether ``input`` is Hermitian.
    Source: torch.matrix_rank of PyTorch 1.8.
    """
    warn_superseded("matrix_rank", "torch.linalg.matrix_rank(A, hermitian=symmetric)")
    return rank_of(input, tol, symmetric)
