"""LU and LDL factors of matrices, and systems of linear equations solved with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays import lapack
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, op, other_names
from ...core.calls.return_types import named_result
from ...core.shape import broadcast_shape
from ..arithmetic import row_major
from ..joining import cat
from .linear_systems import solve_triangular
from .matrix_checks import (
    check_info,
    identity,
    matrix_op,
    not_differentiable,
    require_equation,
    require_fitting,
    require_floating,
    require_kernel,
    require_matrices,
    require_numbers,
    require_one_dtype,
    require_square,
    solution,
    square_numbers,
    warn_superseded,
)

_LU = named_result("linalg_lu", ("P", "L", "U"))
_LU_UNPACK = named_result("lu_unpack", ("P", "L", "U"))
_LU_FACTOR = named_result("linalg_lu_factor", ("LU", "pivots"))
_LU_WITH_INFO = named_result("_lu_with_info", ("LU", "pivots", "info"))
_LDL_FACTOR = named_result("linalg_ldl_factor", ("LD", "pivots"))


# -- LU -----------------------------------------------------------------------------------------------------------------------------
def _canonicalize_lu(A: Any, pivot: bool, check_errors: Any) -> tuple[Any, ...]:
    if A.ndim < 2:
        raise RuntimeError(f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    require_kernel("lu_cpu", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    return (A, pivot, check_errors)


def _lu_gradient(grad: Any, result: Any, result1: Any) -> Any:
    """``P L^-H (tril(L^H gL) + triu(gU U^H)) U^-H``, with the part of a matrix that is not square taken off first."""
    m, n = result.shape[-2:]
    k = min(m, n)
    packed, rest = result[..., :k, :k], None
    grad_square = grad[..., :k, :k]
    below, above = grad_square.tril(-1), grad_square.triu()
    L, U = packed.tril(-1) + identity(packed), packed.triu()
    down, up = L.mH @ below, above @ U.mH
    if m < n:
        rest = grad[..., k:]
        down = down - rest @ result[..., k:].mH
    elif m > n:
        rest = grad[..., k:, :]
        up = up - result[..., k:, :].mH @ rest
    inside = solve_triangular(U.mH, down.tril(-1) + up.triu(), upper=False, left=False)
    inside = solve_triangular(L.mH, inside, upper=True, unitriangular=True)
    if m < n:
        inside = cat([inside, solve_triangular(L.mH, rest, upper=True, unitriangular=True)], -1)
    elif m > n:
        inside = cat([inside, solve_triangular(U.mH, rest, upper=False, left=False)], -2)
    P = lu_unpack(result.detach(), result1, unpack_data=False)[0]
    return P @ inside


@matrix_op(
    returns=("LU", "pivots", "info"),
    canonicalize=_canonicalize_lu,
    node_name="LinalgLuFactorExBackward0",
    grad={"A": _lu_gradient},
    meta=lambda new, A, pivot, check: (
        new(A.shape, A.dtype, columns=True),
        new((*A.shape[:-2], min(A.shape[-2:])), np.int32),
        new(A.shape[:-2], np.int32),
    ),
)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: Any = False) -> Tensor:
    """LU factors with partial pivoting, packed into one matrix, and which matrices are singular.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        pivot: swap rows; False is not there on the CPU.
        check_errors: raise for a singular matrix, in the name of this operation or of another.
    Returns:
        ``LU``, ``(*, m, n)``: U, and L below the diagonal without its ones; ``pivots``, int32: with which row, counted from 1, each was
        swapped; ``info``, int32: the first zero on the diagonal of U, counted from 1, or 0.
    Raises:
        RuntimeError: fewer than two dimensions, ``pivot=False``, or a singular matrix and ``check_errors``.
        NotImplementedError: another dtype.
    Gradient: ``P L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H`` for a square matrix.
    Source: torch.linalg.lu_factor_ex.
    Example:
        >>> LU, pivots, info = torch.linalg.lu_factor_ex(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> LU, pivots, info
        (tensor([[4.0000, 4.0000],
                [0.2500, 1.0000]]), tensor([2, 2], dtype=torch.int32), tensor(0, dtype=torch.int32))
    """
    factors, pivots, info = lapack.lu_factor(A)
    check_info(info, "torch.linalg.lu_factor_ex", check_errors)
    return factors, pivots, info


@composite(namespace="linalg", method=False, out=EXACT)
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """LU factors packed into one matrix, and the pivots; see :func:`torch.linalg.lu_factor_ex`.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        pivot: swap rows; False is not there on the CPU.
    Returns:
        ``LU``, ``(*, m, n)``, and ``pivots``, ``(*, min(m, n))``, int32.
    Raises:
        RuntimeError: a singular matrix, fewer than two dimensions, or ``pivot=False``.
        NotImplementedError: another dtype.
    Gradient: that of ``lu_factor_ex``.
    Source: torch.linalg.lu_factor.
    Example:
        >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> LU, pivots
        (tensor([[4.0000, 4.0000],
                [0.2500, 1.0000]]), tensor([2, 2], dtype=torch.int32))
    """
    return _LU_FACTOR(lu_factor_ex(A, pivot=pivot, check_errors="torch.linalg.lu_factor")[:2])


@composite(name="lu", namespace="linalg", method=False, out=EXACT)
def linalg_lu(A: Tensor, *, pivot: bool = True) -> Any:
    """``A = P L U`` with a permutation, a lower triangle with ones on its diagonal, and an upper triangle.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        pivot: swap rows; False is not there on the CPU.
    Returns:
        ``P``, ``(*, m, m)``; ``L``, ``(*, m, k)``; ``U``, ``(*, k, n)``; k the smaller of m and n.
    Raises:
        RuntimeError: fewer than two dimensions, or ``pivot=False``.
        NotImplementedError: another dtype.
    Gradient: that of ``lu_factor_ex``, of the triangles.
    Source: torch.linalg.lu.
    Example:
        >>> P, L, U = torch.linalg.lu(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> L, U
        (tensor([[1.0000, 0.0000],
                [0.2500, 1.0000]]), tensor([[4., 4.],
                [0., 1.]]))
    """
    if A.ndim < 2:
        raise RuntimeError(f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    return _LU(lu_unpack(*lu_factor_ex(A, pivot=pivot)[:2]))


@composite()
def lu(input: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """LU factors packed into one matrix, and the pivots. Deprecated: ``torch.linalg.lu_factor`` does the same.

    Args:
        input: ``(*, m, n)``, floating point or complex.
        pivot: swap rows.
        get_infos: return which matrices are singular too.
        out: tensors to write into.
    Returns:
        A tuple of the factors ``(*, m, n)`` and int32 pivots ``(*, min(m, n))``; with ``get_infos`` int32 infos ``(*)``.
    Raises:
        RuntimeError: fewer than two dimensions, or ``pivot=False``.
        NotImplementedError: another dtype.
    Gradient: that of ``torch.linalg.lu_factor``.
    Source: torch.lu.
    Example:
        >>> factors, pivots = torch.lu(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> factors, pivots
        (tensor([[4.0000, 4.0000],
                [0.2500, 1.0000]]), tensor([2, 2], dtype=torch.int32))
    """
    warn_superseded("lu", "torch.linalg.lu_factor_ex(A)" if get_infos else "torch.linalg.lu_factor(A)")
    factors = lu_factor_ex(input, pivot=pivot, check_errors=False)
    if out is not None:
        for target, result in zip(out, factors):
            target.resize_(result.shape).copy_(result)
        return out
    return _LU_WITH_INFO(factors) if get_infos else tuple(factors[:2])


@op(grad=None, forward="constant", meta=lambda new, pivots, rows, like: new((*pivots.shape[:-1], rows, rows), like.dtype))
def _permutation(LU_pivots: Tensor, rows: int, like: Tensor) -> Tensor:
    """The permutation that pivots tell, as a matrix of the dtype of ``like``."""
    order = lapack.permutation(LU_pivots, rows)
    result = np.zeros((*order.shape, rows), like.dtype)
    count = math.prod(order.shape[:-1])
    ones = (order * rows + np.arange(rows)).reshape(count, rows)  # places in each matrix
    result.reshape(count, rows * rows)[np.arange(count)[:, None], ones] = 1
    return result


@op(batch=2, grad={"input": lambda grad: grad.tril(-1)})
def _unit_lower(input: Tensor) -> Tensor:
    """Elements below the diagonal of matrices, with ones on it and zeros above."""
    result = row_major(np.tril(input, -1))
    result[..., range(min(result.shape[-2:])), range(min(result.shape[-2:]))] = 1
    return result


@composite(method=False, out=EXACT)
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The three factors from what ``linalg.lu_factor`` returns: ``A = P @ L @ U``.

    Args:
        LU_data: ``(*, m, n)``.
        LU_pivots: ``(*, k)``, int32, k the smaller of m and n.
        unpack_data: return L and U, which are empty otherwise.
        unpack_pivots: return P, which is empty otherwise.
    Returns:
        ``P``, ``(*, m, m)``; ``L``, ``(*, m, k)``; ``U``, ``(*, k, n)``.
    Raises:
        RuntimeError: pivots of another dtype, or that are no rows.
    Gradient: the triangles of the factors' gradients.
    Source: torch.lu_unpack.
    Example:
        >>> A = torch.tensor([[1.0, 2.0], [4.0, 4.0]])
        >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(A))
        >>> L, torch.allclose(P @ L @ U, A)
        (tensor([[1.0000, 0.0000],
                [0.2500, 1.0000]]), True)
    """
    if LU_data.ndim < 2:
        raise RuntimeError(f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.shape)} instead")
    if unpack_pivots and LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    nothing = LU_data.new_empty((0,))
    P = _permutation(LU_pivots, m, LU_data) if unpack_pivots else nothing
    if not unpack_data:
        return _LU_UNPACK((P, nothing, nothing))
    return _LU_UNPACK((P, _unit_lower(LU_data[..., :k]), LU_data[..., :k, :].triu()))


def _canonicalize_lu_solve(LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> tuple[Any, ...]:
    require_square("torch.linalg.lu_solve", LU)
    require_floating("torch.linalg.lu_solve", LU)
    require_kernel("linalg.lu_solve_cpu", LU)
    require_one_dtype("linalg.lu_solve", LU, B, ("LU", "B"))
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    require_matrices("linalg.lu_solve", B, "B")
    require_equation("linalg.lu_solve", LU, B, left)
    if not pivots.ndim or pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {list(pivots.shape)} "
            "instead"
        )
    return (LU, pivots, B, left, adjoint)


def _lu_solve_gradients(grad: Any, LU: Any, pivots: Any, result: Any, left: bool, adjoint: bool, needs: Any) -> Any:
    grad_B = lu_solve(LU.detach() if not needs[0] else LU, pivots, grad, left=left, adjoint=not adjoint)
    if not needs[0]:
        return None, grad_B
    grad_A = -(grad_B @ result.mH) if left else -(result.mH @ grad_B)
    P, L, U = lu_unpack(LU, pivots)
    inside = P.mT @ (grad_A.mH if adjoint else grad_A)
    return (inside @ U.mH).tril(-1) + (L.mH @ inside).triu(), grad_B


@op(
    out=EXACT,
    batch=(2, 1, 2),
    namespace="linalg",
    canonicalize=_canonicalize_lu_solve,
    node_name="LinalgLuSolveBackward0",
    grad={"LU, B": _lu_solve_gradients},
    meta=lambda new, LU, pivots, B, left, adjoint: solution(new, LU, B, left),
)
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with ``A X = B`` from A's LU factors.

    Args:
        LU, pivots: as ``linalg.lu_factor`` returns them.
        B: ``(*, n, k)``; batches are broadcast.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
        adjoint: with ``A^H`` in place of A.
    Returns:
        A new tensor of B's shape, broadcast with the factors' batch.
    Raises:
        RuntimeError: matrices that do not fit, different dtypes, or pivots of another dtype or that are no rows.
    Gradient: ``A^-H grad`` for B, through the triangles for ``LU``.
    Source: torch.linalg.lu_solve.
    Example:
        >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[3.0], [4.0]]))
        tensor([[1.],
                [2.]])
    """
    if left:
        return lapack.lu_solve(LU, pivots, B, adjoint)
    # X A = B is A^H X^H = B^H
    return lapack.lu_solve(LU, pivots, B.swapaxes(-1, -2).conj(), not adjoint).swapaxes(-1, -2).conj()


@composite(name="lu_solve", out=EXACT, autocast={"cpu": "float32"})
def top_level_lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Any:
    """X with ``A X = B`` from A's LU factors. Deprecated: ``torch.linalg.lu_solve`` takes B last.

    Args:
        input: B, ``(*, n, k)``.
        LU_data, LU_pivots: as ``linalg.lu_factor`` returns them.
    Returns:
        A new tensor of B's shape, broadcast with the factors' batch.
    Raises:
        RuntimeError: matrices that do not fit, or pivots of another dtype.
    Gradient: that of ``torch.linalg.lu_solve``.
    Source: torch.lu_solve.
    Example:
        >>> factors, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        >>> torch.lu_solve(torch.tensor([[3.0], [4.0]]), factors, pivots)
        tensor([[1.],
                [2.]])
    """
    warn_superseded("lu_solve", "torch.linalg.lu_solve(LU, pivots, B)")
    return lu_solve(LU_data, LU_pivots, input)


# -- LDL ----------------------------------------------------------------------------------------------------------------------------
@matrix_op(
    returns=("LD", "pivots", "info"),
    canonicalize=square_numbers("torch.linalg.ldl_factor_ex", "ldl_factor_kernel_cpu"),
    grad={"A": not_differentiable("linalg_ldl_factor_ex")},
    meta=lambda new, A, hermitian, check: (new(A.shape, A.dtype, columns=True), new(A.shape[:-1], np.int32), new(A.shape[:-2], np.int32)),
)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: Any = False) -> Tensor:
    """LDL factors of a symmetric or Hermitian matrix with Bunch and Kaufman's pivots, packed into one matrix.

    Args:
        A: ``(*, n, n)``, floating point or complex; the lower triangle is read.
        hermitian: a complex A is Hermitian, not symmetric.
        check_errors: raise for a singular matrix.
    Returns:
        ``LD``; ``pivots``, int32, as LAPACK's; ``info``, int32: the first zero on the diagonal of D, counted from 1, or 0.
    Raises:
        RuntimeError: no square matrices, another dtype, or a singular matrix and ``check_errors``.
        NotImplementedError: backward.
    Source: torch.linalg.ldl_factor_ex. LAPACK's sytrf and hetrf.
    Example:
        >>> LD, pivots, info = torch.linalg.ldl_factor_ex(torch.tensor([[4.0, 2.0], [2.0, -1.0]]))
        >>> LD.tril(), pivots, info  # L below the diagonal, D on it
        (tensor([[ 4.0000,  0.0000],
                [ 0.5000, -2.0000]]), tensor([1, 2], dtype=torch.int32), tensor(0, dtype=torch.int32))
    """
    factors, pivots, info = lapack.ldl_factor(A, hermitian)
    check_info(info, "torch.linalg.ldl_factor_ex", check_errors)
    return factors, pivots, info


@composite(namespace="linalg", method=False, out=EXACT)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """LDL factors of a symmetric or Hermitian matrix; see :func:`torch.linalg.ldl_factor_ex`.

    Args:
        A: ``(*, n, n)``, floating point or complex; the lower triangle is read.
        hermitian: a complex A is Hermitian, not symmetric.
    Returns:
        ``LD``, ``(*, n, n)``, and ``pivots``, ``(*, n)``, int32.
    Raises:
        RuntimeError: a singular matrix, no square matrices, or another dtype.
    Source: torch.linalg.ldl_factor.
    Example:
        >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[4.0, 2.0], [2.0, -1.0]]))
        >>> LD.diagonal(), LD[1, 0]  # 4 and -2 are D, 0.5 is L's
        (tensor([ 4., -2.]), tensor(0.5000))
    """
    return _LDL_FACTOR(ldl_factor_ex(A, hermitian=hermitian, check_errors="torch.linalg.ldl_factor")[:2])


def _canonicalize_ldl_solve(LD: Any, pivots: Any, B: Any, hermitian: bool) -> tuple[Any, ...]:
    require_square("torch.linalg.ldl_solve", LD)
    require_numbers("torch.linalg.ldl_solve", LD)
    if B.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    require_fitting("torch.linalg.ldl_solve", B, LD)
    if pivots.dtype.category >= dtypes.FLOATING or pivots.dtype is dtypes.bool_:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype.legacy}")
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    broadcast_shape(tuple(LD.shape[:-2]), tuple(B.shape[:-2]))
    return (LD, pivots, B, hermitian)


@op(
    out=EXACT,
    batch=(2, 1, 2),
    namespace="linalg",
    canonicalize=_canonicalize_ldl_solve,
    grad={"LD": not_differentiable("linalg_ldl_solve"), "B": not_differentiable("linalg_ldl_solve")},
    aten=None,
    meta=lambda new, LD, pivots, B, hermitian: solution(new, LD, B),
)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with ``A X = B`` from A's LDL factors.

    Args:
        LD, pivots: as ``linalg.ldl_factor`` returns them.
        B: ``(*, n, k)``; batches are broadcast.
        hermitian: as it was for the factors.
    Returns:
        A new tensor of B's shape, broadcast with the factors' batch.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
        NotImplementedError: backward.
    Source: torch.linalg.ldl_solve. LAPACK's sytrs and hetrs.
    Example:
        >>> factors = torch.linalg.ldl_factor(torch.tensor([[4.0, 2.0], [2.0, -1.0]]))
        >>> torch.linalg.ldl_solve(*factors, torch.tensor([[8.0], [0.0]]))
        tensor([[1.],
                [2.]])
    """
    return lapack.ldl_solve(LD, pivots, B, hermitian)


for _name in ("ldl_factor", "ldl_factor_ex"):
    other_names(_name, "linalg", input="A")
