"""Linear algebra under the names of PyTorch's first versions, with their arguments, defaults and results."""

from __future__ import annotations

from typing import Any

from ...core.arrays import lapack
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, op
from ...core.calls.return_types import named_result
from ..joining import cat
from .cholesky_factors import cholesky_ex, cholesky_inverse, cholesky_solve
from .decompositions import eig as complex_eig, eigh, eigvalsh, geqrf, ormqr
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
        input: B, ``(*, n, k)``.
        A: ``(*, n, n)``.
    Returns:
        Named tuple ``(solution, LU)``: ``(*, n, k)`` and the packed factors ``(*, n, n)``.
    Raises:
        RuntimeError: shapes that do not fit.
        linalg.LinAlgError: a singular ``A``.
    Source: torch.solve of PyTorch 1.8.
    Example:
        >>> torch.solve(torch.tensor([[6.0], [8.0]]), torch.tensor([[2.0, 0.0], [0.0, 4.0]])).solution
        tensor([[3.],
                [2.]])
    """
    warn_superseded("solve", "torch.linalg.solve(A, B)")
    return _solve(input, A)


@composite()
def gesv(input: Tensor, A: Tensor) -> Any:
    """As ``solve``: the solution of ``A X = B``, and A's LU factors. Deprecated; use ``linalg.solve``.

    Args:
        input: B, ``(*, n, k)``.
        A: ``(*, n, n)``.
    Returns:
        Named tuple ``(solution, LU)``: ``(*, n, k)`` and ``(*, n, n)``.
    Raises:
        RuntimeError: shapes that do not fit.
        linalg.LinAlgError: a singular ``A``.
    Source: torch.gesv of PyTorch 0.4.
    Example:
        >>> torch.gesv(torch.tensor([[6.0]]), torch.tensor([[2.0]])).solution
        tensor([[3.]])
    """
    warn_superseded("gesv", "torch.linalg.solve(A, B)")
    return _solve(input, A)


@composite()
def trtrs(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """As ``triangular_solve``: the solution of ``A X = B`` for a triangular A. Deprecated; use ``linalg.solve_triangular``.

    Args:
        input: B, ``(*, n, k)``.
        A: ``(*, n, n)``.
        upper, transpose, unitriangular: A is the upper triangle, is transposed first, has a diagonal of ones.
    Returns:
        Named tuple ``(solution, cloned_coefficient)``: ``(*, n, k)``, and a copy of A.
    Raises:
        RuntimeError: shapes that do not fit.
    Source: torch.trtrs of PyTorch 1.0.
    Example:
        >>> torch.trtrs(torch.tensor([[4.0], [6.0]]), torch.tensor([[1.0, 1.0], [0.0, 3.0]])).solution
        tensor([[2.],
                [2.]])
    """
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
    """Least squares: X that brings ``A X`` nearest to B. Deprecated; use ``linalg.lstsq``, which takes B last.

    Args:
        input: B, ``(m, k)`` or ``(m,)``.
        A: ``(m, n)`` of full rank.
    Returns:
        ``(max(m, n), k)``: the solution in the first n rows, and below them what the residuals are sums of squares of; A's QR factors.
    Raises:
        RuntimeError: shapes that do not fit, or an ``A`` that is no matrix.
    Source: torch.lstsq of PyTorch 1.8.
    Example:
        >>> A, B = torch.tensor([[1.0], [1.0]]), torch.tensor([[2.0], [4.0]])
        >>> torch.lstsq(B, A).solution[0].round(decimals=3)  # the mean
        tensor([3.])
    """
    warn_superseded("lstsq", "torch.linalg.lstsq(A, B)")
    return _fit(input, A)


@composite()
def gels(input: Tensor, A: Tensor) -> Any:
    """As ``lstsq``: least squares. Deprecated; use ``linalg.lstsq``.

    Args:
        input: B, ``(m, k)`` or ``(m,)``.
        A: ``(m, n)`` of full rank.
    Returns:
        Named tuple ``(solution, QR)`` as ``lstsq`` returns it.
    Raises:
        RuntimeError: shapes that do not fit, or an ``A`` that is no matrix.
    Source: torch.gels of PyTorch 1.0.
    Example:
        >>> torch.gels(torch.tensor([[6.0], [8.0]]), torch.tensor([[2.0, 0.0], [0.0, 4.0]])).solution
        tensor([[3.],
                [2.]])
    """
    warn_superseded("gels", "torch.linalg.lstsq(A, B)")
    return _fit(input, A)


# -- Cholesky -----------------------------------------------------------------------------------------------------------------------
@composite()
def potrf(input: Tensor, upper: bool = True) -> Any:
    """The Cholesky factor, the upper one unless told. Deprecated; use ``linalg.cholesky``.

    Args:
        input: ``(*, n, n)``, positive definite.
        upper: which factor.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        linalg.LinAlgError: a matrix that is not positive definite.
    Source: torch.potrf of PyTorch 1.0.
    Example:
        >>> torch.potrf(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 1.],
                [0., 2.]])
    """
    warn_superseded("potrf", "torch.linalg.cholesky(A, upper=upper)")
    return cholesky_ex(input, upper=upper, check_errors="cholesky")[0]


@composite()
def potri(input: Tensor, upper: bool = True) -> Any:
    """The inverse from a Cholesky factor, an upper one unless told. Deprecated; use ``cholesky_inverse``.

    Args:
        input: the factor, ``(*, n, n)``.
        upper: which one it is.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: matrices that are not square.
    Source: torch.potri of PyTorch 1.0.
    Example:
        >>> torch.potri(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).diagonal()  # 1 / 2**2, 1 / 4**2
        tensor([0.2500, 0.0625])
    """
    warn_superseded("potri", "torch.cholesky_inverse(L, upper=upper)")
    return cholesky_inverse(input, upper)


@composite()
def potrs(input: Tensor, input2: Tensor, upper: bool = True) -> Any:
    """The solution of ``A X = B`` from A's Cholesky factor, an upper one unless told. Deprecated; use ``cholesky_solve``.

    Args:
        input: B, ``(*, n, k)``.
        input2: the factor, ``(*, n, n)``.
        upper: which one it is.
    Returns:
        ``(*, n, k)``, ``input``'s dtype.
    Raises:
        RuntimeError: shapes that do not fit.
    Source: torch.potrs of PyTorch 1.0.
    Example:
        >>> torch.potrs(torch.tensor([[8.0], [16.0]]), torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[2.],
                [1.]])
    """
    warn_superseded("potrs", "torch.cholesky_solve(B, L, upper=upper)")
    return cholesky_solve(input, input2, upper)


@op(multi_output=True, promotion="same", out=True, grad=None)
def _pivoted_cholesky(input: Tensor, upper: bool, tol: float) -> Tensor:
    """Factor and order of ``pstrf``."""
    return lapack.pivoted_cholesky(input, upper, tol)


@composite()
def pstrf(input: Tensor, upper: bool = True, tol: float = -1) -> Any:
    """Cholesky factor of a positive semi-definite matrix with its rows and columns in another order. Deprecated.

    Args:
        input: ``(n, n)``.
        upper: the upper factor.
        tol: least pivot; n times the dtype's precision times the largest when negative.
    Returns:
        The factor, and the order, int32, counted from 1.
    Raises:
        TypeError: no tensor.
    Source: torch.pstrf of PyTorch 1.0. LAPACK's pstrf.
    Example:
        >>> factor, order = torch.pstrf(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
        >>> factor, order
        (tensor([[2., 1.],
                [0., 0.]]), tensor([2, 1], dtype=torch.int32))
    """
    warn_superseded("pstrf", "torch.linalg.cholesky(A) for positive-definite matrices")
    return _pivoted_cholesky(input, upper, tol)


# -- LU of batches ------------------------------------------------------------------------------------------------------------------
@composite()
def btrifact(input: Tensor, info: Any = None, pivot: bool = True) -> Any:
    """LU factors packed into one matrix, and the pivots. Deprecated; use ``linalg.lu_factor``.

    Args:
        input: ``(*, n, n)``.
        info: an int32 tensor that is told which matrices are singular; without it they are an error.
        pivot: swap rows.
    Returns:
        ``(*, n, n)`` in ``input``'s dtype, and int32 pivots ``(*, n)``, counted from 1.
    Raises:
        RuntimeError: fewer than two dimensions, or a singular matrix without ``info``.
    Source: torch.btrifact of PyTorch 1.0.
    Example:
        >>> torch.btrifact(torch.tensor([[1.0, 2.0], [4.0, 2.0]]))
        (tensor([[4.0000, 2.0000],
                [0.2500, 1.5000]]), tensor([2, 2], dtype=torch.int32))
    """
    warn_superseded("btrifact", "torch.linalg.lu_factor(A)")
    factors, pivots, failures = lu_factor_ex(input, pivot=pivot, check_errors=False if info is not None else "torch.linalg.lu_factor")
    if info is not None:
        info.resize_(failures.shape).copy_(failures)
    return factors, pivots


@composite()
def btrifact_with_info(input: Tensor, pivot: bool = True) -> Any:
    """LU factors, pivots, and which matrices are singular. Deprecated; use ``linalg.lu_factor_ex``.

    Args:
        input: ``(*, n, n)``.
        pivot: swap rows.
    Returns:
        ``(*, n, n)`` in ``input``'s dtype, int32 pivots ``(*, n)``, and int32 numbers ``(*)``, 0 where the matrix is regular.
    Raises:
        RuntimeError: fewer than two dimensions.
    Source: torch.btrifact_with_info of PyTorch 1.0.
    Example:
        >>> torch.btrifact_with_info(torch.tensor([[1.0, 1.0], [2.0, 2.0]]))[2]
        tensor(2, dtype=torch.int32)
    """
    warn_superseded("btrifact_with_info", "torch.linalg.lu_factor_ex(A)")
    return tuple(lu_factor_ex(input, pivot=pivot))


@composite(method=False)
def btriunpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """As ``lu_unpack``: the permutation and the triangles that packed LU factors stand for. Deprecated.

    Args:
        LU_data, LU_pivots: ``(*, n, n)`` and ``(*, n)`` as ``btrifact`` returns them.
        unpack_data, unpack_pivots: which results to compute; the others are empty.
    Returns:
        A tuple ``(P, L, U)`` of shape ``(*, n, n)`` each, with ``P @ L @ U`` the matrix.
    Raises:
        RuntimeError: pivots that are not int32.
    Source: torch.btriunpack of PyTorch 1.0.
    Example:
        >>> P, L, U = torch.btriunpack(*torch.btrifact(torch.tensor([[1.0, 2.0], [4.0, 2.0]])))
        >>> P @ L @ U
        tensor([[1., 2.],
                [4., 2.]])
    """
    warn_superseded("btriunpack", "torch.lu_unpack(LU, pivots)")
    return tuple(lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots))


@composite()
def btrisolve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Any:
    """The solution of ``A X = B`` from A's LU factors. Deprecated; use ``linalg.lu_solve``.

    Args:
        input: B, ``(*, n)`` or ``(*, n, k)``.
        LU_data, LU_pivots: as ``btrifact`` returns them.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: shapes that do not fit.
    Source: torch.btrisolve of PyTorch 1.0.
    Example:
        >>> torch.btrisolve(torch.tensor([[6.0, 8.0]]), *torch.btrifact(torch.tensor([[[2.0, 0.0], [0.0, 4.0]]])))
        tensor([[3., 2.]])
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
        input: ``(*, n, n)``, of which one triangle is read.
        eigenvectors: compute them; they are empty otherwise.
        upper: which triangle is read.
    Returns:
        Named tuple ``(eigenvalues, eigenvectors)``: ``(*, n)``, real, and ``(*, n, n)`` with the vectors as columns.
    Raises:
        RuntimeError: matrices that are not square.
    Source: torch.symeig of PyTorch 1.8.
    Example:
        >>> torch.symeig(torch.tensor([[3.0, 0.0], [0.0, 1.0]])).eigenvalues
        tensor([1., 3.])
    """
    side = "U" if upper else "L"
    warn_superseded("symeig", f"torch.linalg.{'eigh' if eigenvectors else 'eigvalsh'}(A, UPLO='{side}')")
    return _SYMEIG(eigh(input, side) if eigenvectors else (eigvalsh(input, side), input.new_empty((0,))))


@composite()
def eig(input: Tensor, eigenvectors: bool = False) -> Any:
    """Eigenvalues and eigenvectors of a square matrix, as complex numbers. Deprecated; use ``linalg.eig``.

    Args:
        input: ``(*, n, n)``.
        eigenvectors: compute them; they are empty otherwise.
    Returns:
        ``(*, n)`` and ``(*, n, n)``, the vectors as columns: those of ``linalg.eig``, where PyTorch 1.8 had pairs of real numbers.
    Raises:
        RuntimeError: matrices that are not square.
    Source: torch.eig of PyTorch 1.8.
    Example:
        >>> torch.eig(torch.tensor([[2.0, 1.0], [0.0, 3.0]])).eigenvalues
        tensor([2.+0.j, 3.+0.j])
    """
    warn_superseded("eig", "torch.linalg.eig(A)")
    values, vectors = complex_eig(input)
    return _EIG((values, vectors if eigenvectors else vectors.new_empty((0,))))


@composite(method=False)
def matrix_rank(input: Tensor, tol: float | None = None, symmetric: bool = False) -> Tensor:
    """The number of singular values above a tolerance. Deprecated; use ``linalg.matrix_rank``.

    Args:
        input: ``(*, m, n)``.
        tol: the tolerance; the largest one's rounding error when None.
        symmetric: whether ``input`` is Hermitian.
    Returns:
        ``(*)``, int64.
    Raises:
        RuntimeError: fewer than two dimensions.
    Source: torch.matrix_rank of PyTorch 1.8.
    Example:
        >>> torch.matrix_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
        tensor(1)
    """
    warn_superseded("matrix_rank", "torch.linalg.matrix_rank(A, hermitian=symmetric)")
    return rank_of(input, tol, symmetric)
