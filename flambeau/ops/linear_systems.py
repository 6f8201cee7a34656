"""Inverses, determinants, triangular factors, and systems of linear equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import lapack
from ..core.arrays.kinds import perhaps
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, op, resolve
from ..core.calls.return_types import named_result
from ..core.layout import contiguous_format
from ..core.shape import broadcast_shape
from .arithmetic import row_major
from .joining import cat
from .matrix_checks import (
    by_lapack,
    check_info,
    columns,
    not_differentiable,
    precise,
    require_equation,
    require_floating,
    require_kernel,
    require_matrices,
    require_numbers,
    require_square,
    warn_superseded,
)

_LU = named_result("linalg_lu", ("P", "L", "U"))
_LU_UNPACK = named_result("lu_unpack", ("P", "L", "U"))
_LU_FACTOR = named_result("linalg_lu_factor", ("LU", "pivots"))
_LU_WITH_INFO = named_result("_lu_with_info", ("LU", "pivots", "info"))
_LDL_FACTOR = named_result("linalg_ldl_factor", ("LD", "pivots"))
_SLOGDET = named_result("slogdet", ("sign", "logabsdet"))
_TRIANGULAR = named_result("triangular_solve", ("solution", "cloned_coefficient"))


def _identity(matrices: Any) -> Any:
    return resolve("torch", "eye")(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def _no_failures(A: Any) -> Any:
    return np.zeros(A.shape[:-2], np.int32)


# -- inverse ------------------------------------------------------------------------------------------------------------------------
def _canonicalize_inverse(A: Any, check_errors: Any) -> tuple[Any, ...]:
    require_square("linalg.inv", A)
    require_numbers("linalg.inv", A)
    return (A, "linalg.inv_ex" if check_errors is True else check_errors)


@op(
    batch=2,
    name="inv_ex",
    namespace="linalg",
    method=False,
    returns=("inverse", "info"),
    promotion="same",
    canonicalize=_canonicalize_inverse,
    node_name="LinalgInvExBackward0",
    grad={"A": lambda grad, result: -(result.mH @ grad @ result.mH)},
)
def inv_ex(A: Tensor, *, check_errors: Any = False) -> Tensor:
    """Inverse of a square matrix, or of each in a batch, and which of them are singular.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        check_errors: raise for a singular matrix, in the name of this operation or of another.
    Returns:
        ``inverse``, and ``info``, int32: the first zero on the diagonal of the factor U, counted from 1; 0 for a regular matrix.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a singular matrix and ``check_errors``.
    Gradient: ``-inv(A)^H grad inv(A)^H``.
    Source: torch.linalg.inv_ex.
    """
    solution = by_lapack("_solve", A, np.eye(A.shape[-1], dtype=A.dtype))
    if solution is None:
        try:
            return columns(np.linalg.inv(A)), _no_failures(A)
        except np.linalg.LinAlgError:
            factors, pivots, info = lapack.lu_factor(A)
            solution = lapack.lu_solve(factors, pivots, np.eye(A.shape[-1], dtype=A.dtype), False), info
    if check_errors:
        check_info(solution[1], check_errors)
    return solution


@composite(namespace="linalg", method=False, out=True)
def inv(A: Tensor) -> Any:
    """Inverse of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a singular matrix.
    Source: torch.linalg.inv.
    """
    return inv_ex(A, check_errors="linalg.inv")[0]


@composite(out=True)
def inverse(input: Tensor) -> Any:
    """Inverse of a square matrix; see ``linalg.inv``. Source: torch.inverse."""
    return inv(input)


# -- determinants -------------------------------------------------------------------------------------------------------------------
def _canonicalize_det(A: Any) -> tuple[Any, ...]:
    require_square("linalg.det", A)
    require_numbers("linalg.det", A, "lu_cpu")
    return (A,)


def _products_of_others(values: Any) -> Any:
    """For each element of the last dimension the product of the others."""
    ones = values.new_ones((*values.shape[:-1], 1))
    before = cat([ones, values[..., :-1]], -1).cumprod(-1)
    behind = cat([values[..., 1:], ones], -1).flip(-1).cumprod(-1).flip(-1)
    return before * behind


def _cofactors(A: Any) -> Any:
    """Conjugated cofactors of any matrix, by its singular values. Source: Higham, What is the adjugate of a matrix?, 2020."""
    U, S, Vh = resolve("linalg", "svd")(A)
    phase = (det(U) * det(Vh)).conj()[..., None]
    return (U * (phase * _products_of_others(S))[..., None, :]) @ Vh


def _cofactors_beside_zero(A: Any) -> Any:
    """Conjugated cofactors of a matrix with at most one singular value of 0, differentiable as often as one likes.

    In the fixed frames of its singular vectors the matrix is ``X = [[R, c], [r, x]]`` with a regular R, and by R's inverse and the Schur
    complement ``s = x - r R^-1 c`` its adjugate is ``det(R) [[s R^-1 + R^-1 c r R^-1, -R^-1 c], [-r R^-1, 1]]``.
    """
    U, _, Vh = resolve("linalg", "svd")(A.detach())
    X = U.mH @ A @ Vh.mH
    R, c, r, x = X[..., :-1, :-1], X[..., :-1, -1:], X[..., -1:, :-1], X[..., -1:, -1:]
    inverse = inv_ex(R)[0]
    column, row = inverse @ c, r @ inverse
    corner = (x - r @ column) * inverse + column @ row
    adjugate = cat([cat([corner, -column], -1), cat([-row, x.new_ones(x.shape)], -1)], -2)
    return (det(R) * det(U) * det(Vh)).conj()[..., None, None] * (U @ adjugate.mH @ Vh)


def _det_gradient(grad: Any, A: Any, result: Any) -> Any:
    scale = (grad * result.conj())[..., None, None]
    precision, n = np.finfo(A.dtype.numpy).eps, A.shape[-1]
    singular = result.abs() < 100 * precision
    if not perhaps(singular.any()):
        return scale * inv_ex(A)[0].mH
    S = resolve("linalg", "svdvals")(A.detach())
    twice = singular & (S[..., max(n - 2, 0)] <= 100 * precision * S[..., 0]) if n > 1 else singular & False
    chosen, doubly = singular[..., None, None], twice[..., None, None]
    spread = A.new_ones(n).cumsum(0).diag_embed()  # what has distinct singular values stands for the other matrices
    regular = scale * inv_ex(A.where(~chosen, _identity(A)))[0].mH
    of_singular = _cofactors_beside_zero(A.where(chosen & ~doubly, spread))
    if perhaps(twice.any()):
        of_singular = _cofactors(A.where(doubly, spread)).where(doubly, of_singular)
    return (grad[..., None, None] * of_singular).where(chosen, regular)


@op(
    batch=2,
    name="det",
    namespace="linalg",
    method=False,
    promotion="same",
    canonicalize=_canonicalize_det,
    node_name="LinalgDetBackward0",
    grad={"A": _det_gradient},
)
def det(A: Tensor) -> Tensor:
    """Determinant of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        ``(*)``.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad conj(det) A^-H``, of a singular matrix the cofactors from its singular values.
    Source: torch.linalg.det.
    """
    factors = by_lapack("_lu_factor", A)
    if factors is not None:
        return np.multiply.reduce(_signed_diagonal(*factors[:2]), -1)
    return precise(np.asarray(np.linalg.det(A)), A.dtype)


def _signed_diagonal(factors: Any, pivots: Any) -> Any:
    """The diagonal of U, its first element with the sign of the rows' permutation."""
    diagonal = factors.diagonal(0, -2, -1).copy()
    swapped = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1) % 2 == 1
    diagonal[..., 0] = np.where(swapped, -diagonal[..., 0], diagonal[..., 0])
    return diagonal


@composite(name="det", out=False)
def top_level_det(input: Tensor) -> Any:
    """Determinant; see ``linalg.det``. Source: torch.det."""
    return det(input)


def _canonicalize_slogdet(A: Any) -> tuple[Any, ...]:
    require_square("linalg.slogdet", A)
    require_numbers("linalg.slogdet", A)
    return (A,)


def _slogdet_gradient(grads: Any, A: Any, result: Any) -> Any:
    grad_sign, grad_log = grads
    scale = result.new_zeros(result.shape) if grad_log is None else grad_log
    if A.is_complex() and grad_sign is not None:
        scale = scale - 1j * (grad_sign.conj() * result).imag
    return scale[..., None, None] * inv_ex(A)[0].mH


@op(
    batch=2,
    name="slogdet",
    namespace="linalg",
    method=False,
    returns=("sign", "logabsdet"),
    promotion="same",
    canonicalize=_canonicalize_slogdet,
    node_name="LinalgSlogdetBackward0",
    grad={"A": _slogdet_gradient},
)
def slogdet(A: Tensor) -> Tensor:
    """Sign of the determinant (a number of size 1 for complex matrices) and logarithm of its size.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        ``sign``, and ``logabsdet``, which is real: 0 and ``-inf`` for a singular matrix.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad A^-H``.
    Source: torch.linalg.slogdet.
    """
    factors = by_lapack("_lu_factor", A)
    if factors is not None:
        diagonal = _signed_diagonal(*factors[:2])
        sizes = np.abs(diagonal)
        return np.multiply.reduce(np.sign(diagonal), -1), np.log(sizes).sum(-1)
    sign, size = np.linalg.slogdet(A)
    return precise(np.asarray(sign), A.dtype), precise(np.asarray(size), A.real.dtype)


@composite(name="slogdet", out=True)
def top_level_slogdet(input: Tensor) -> Any:
    """Sign and logarithm of the determinant; see ``linalg.slogdet``. Source: torch.slogdet."""
    return _SLOGDET(slogdet(input))


@composite()
def logdet(input: Tensor) -> Any:
    """Logarithm of the determinant; NaN where it is negative.

    Args:
        input: ``(*, n, n)``, floating point or complex.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Source: torch.logdet.
    """
    require_square("logdet", input)
    require_numbers("logdet", input)
    sign, size = slogdet(input)
    if input.is_complex():
        return sign.log() + size
    return size.masked_fill(sign == -1, float("nan"))


# -- Cholesky -----------------------------------------------------------------------------------------------------------------------
def _canonicalize_cholesky(A: Any, upper: bool, check_errors: Any) -> tuple[Any, ...]:
    require_square("linalg.cholesky", A)
    require_numbers("linalg.cholesky", A, "cholesky_cpu")
    return (A, upper, "linalg.cholesky_ex" if check_errors is True else check_errors)


def _cholesky_gradient(grad: Any, result: Any, upper: bool) -> Any:
    """``L^-H sym(L^H gL) L^-1`` with half of it on the diagonal. Source: Murray, Differentiation of the Cholesky decomposition, 2016."""
    factor, grad = (result.mH, grad.mH) if upper else (result, grad)
    inside = (factor.mH @ grad).tril()
    inside = (inside + inside.tril(-1).mH) * 0.5
    inner = solve_triangular(factor.mH, inside, upper=True)
    return solve_triangular(factor, inner, upper=False, left=False)


@op(
    batch=2,
    name="cholesky_ex",
    namespace="linalg",
    method=False,
    returns=("L", "info"),
    promotion="same",
    canonicalize=_canonicalize_cholesky,
    node_name="LinalgCholeskyExBackward0",
    grad={"A": _cholesky_gradient},
)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: Any = False) -> Tensor:
    """Cholesky factor of a Hermitian positive-definite matrix, or of each in a batch, and which of them are not.

    Args:
        A: ``(*, n, n)``, floating point or complex; only one triangle is read.
        upper: read the upper triangle and return ``U = L^H``.
        check_errors: raise for a matrix that is not positive-definite, in the name of this operation or of another.
    Returns:
        ``L``, and ``info``, int32: the order of the first leading minor that is not positive; 0 for a positive-definite matrix.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a matrix that is not positive-definite and ``check_errors``.
    Gradient: ``L^-H S L^-1``, S the Hermitian part of what is below the diagonal of ``L^H grad``.
    Source: torch.linalg.cholesky_ex.
    """
    result = by_lapack("_cholesky", A, upper)
    if result is not None:
        if check_errors:
            check_info(result[1], check_errors)
        return result
    lower = A.swapaxes(-1, -2).conj() if upper else A
    try:
        factor, info = np.linalg.cholesky(lower), _no_failures(A)
    except np.linalg.LinAlgError:
        factor, info = lapack.cholesky(lower)
        if check_errors:
            check_info(info, check_errors)
    return columns(factor.swapaxes(-1, -2).conj() if upper else factor), info


@composite(name="cholesky", namespace="linalg", method=False, out=True)
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Any:
    """Cholesky factor of a Hermitian positive-definite matrix: ``A = L L^H``.

    Args:
        A: ``(*, n, n)``, floating point or complex; only one triangle is read.
        upper: return ``U = L^H``.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a matrix that is not positive-definite.
    Source: torch.linalg.cholesky.
    """
    return cholesky_ex(A, upper=upper, check_errors="linalg.cholesky")[0]


@composite(out=True)
def cholesky(input: Tensor, upper: bool = False) -> Any:
    """Cholesky factor. Deprecated; use ``linalg.cholesky``. Source: torch.cholesky."""
    warn_superseded("cholesky", "torch.linalg.cholesky(A).mH" if upper else "torch.linalg.cholesky(A)")
    require_square("cholesky", input)
    require_kernel("cholesky_cpu", input)
    return cholesky_ex(input, upper=upper, check_errors="cholesky")[0]


def _canonicalize_cholesky_solve(input: Any, input2: Any, upper: bool) -> tuple[Any, ...]:
    _require_fitting("cholesky_solve", input, input2)
    require_kernel("cholesky_solve_cpu", input)
    broadcast_shape(tuple(input.shape[:-2]), tuple(input2.shape[:-2]))
    return (input, input2, upper)


def _cholesky_solve_gradients(grad: Any, input2: Any, result: Any, upper: bool, needs: Any) -> Any:
    grad_B = cholesky_solve(grad, input2, upper)
    if not needs[1]:
        return grad_B, None
    both = grad_B @ result.mH
    both = both + both.mH
    return grad_B, -(input2 @ both) if upper else -(both @ input2)


def _solve_with_factor(factor: Any, B: Any, upper: bool) -> Any:
    result = by_lapack("_cholesky_solve", factor, B, upper)
    if result is not None:
        return result
    adjoint = factor.swapaxes(-1, -2).conj()
    first, second = (adjoint, factor) if upper else (factor, adjoint)
    return lapack.solve_triangular(second, lapack.solve_triangular(first, B, False, True, False), True, True, False)


@op(
    batch=2,
    promotion="same",
    canonicalize=_canonicalize_cholesky_solve,
    grad={"input, input2": _cholesky_solve_gradients},
)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """``A X = B`` from the Cholesky factor of A.

    Args:
        input: B, ``(*, n, k)``.
        input2: the factor, ``(*, n, n)``: lower, or upper.
        upper: which of them it is.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
    Gradient: ``A^-1 grad`` for B, and for a lower factor ``-(A^-1 grad X^H + X grad^H A^-1) L``.
    Source: torch.cholesky_solve.
    """
    return _solve_with_factor(input2, input, upper)


def _canonicalize_cholesky_inverse(input: Any, upper: bool) -> tuple[Any, ...]:
    require_square("cholesky_inverse", input)
    require_kernel("cholesky_inverse_out_cpu", input)
    return (input, upper)


def _cholesky_inverse_gradient(grad: Any, input: Any, result: Any, upper: bool) -> Any:
    both = result @ (grad + grad.mH) @ result
    return -(input @ both) if upper else -(both @ input)


@op(
    batch=2,
    promotion="same",
    canonicalize=_canonicalize_cholesky_inverse,
    grad={"input": _cholesky_inverse_gradient},
)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Inverse of a matrix from its Cholesky factor.

    Args:
        input: the factor, ``(*, n, n)``: lower, or upper.
        upper: which of them it is.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a zero on the diagonal.
    Gradient: for a lower factor ``-A^-1 (grad + grad^H) A^-1 L``.
    Source: torch.cholesky_inverse.
    """
    zero = input.diagonal(0, -2, -1) == 0
    if zero.any():
        check_info((zero.argmax(-1) + 1) * zero.any(-1), "cholesky_inverse")
    result = by_lapack("_cholesky_inverse", input, upper)
    if result is not None:
        return result
    return _solve_with_factor(input, np.eye(input.shape[-1], dtype=input.dtype), upper)


def _require_fitting(operation: str, b: Any, A: Any) -> None:
    for word, operand in (("b", b), ("A", A)):
        if operand.ndim < 2:
            raise RuntimeError(f"{word} should have at least 2 dimensions, but has {operand.ndim} dimensions instead")
    if A.dtype is not b.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.legacy} and A of type {A.dtype.legacy} instead."
        )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
    if A.shape[-2] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {operation}: each A matrix is {A.shape[-1]} by {A.shape[-1]} but each b matrix is "
            f"{b.shape[-2]} by {b.shape[-1]}"
        )


# -- LU -----------------------------------------------------------------------------------------------------------------------------
def _canonicalize_lu(A: Any, pivot: bool, check_errors: Any) -> tuple[Any, ...]:
    if A.ndim < 2:
        raise RuntimeError(f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    require_kernel("lu_cpu", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    return (A, pivot, "torch.linalg.lu_factor_ex" if check_errors is True else check_errors)


def _lu_gradient(grad: Any, result: Any, result1: Any) -> Any:
    """``P L^-H (tril(L^H gL) + triu(gU U^H)) U^-H``, with the part of a matrix that is not square taken off first."""
    m, n = result.shape[-2:]
    k = min(m, n)
    packed, rest = result[..., :k, :k], None
    grad_square = grad[..., :k, :k]
    below, above = grad_square.tril(-1), grad_square.triu()
    L, U = packed.tril(-1) + _identity(packed), packed.triu()
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


@op(
    batch=2,
    name="lu_factor_ex",
    namespace="linalg",
    method=False,
    returns=("LU", "pivots", "info"),
    promotion="same",
    canonicalize=_canonicalize_lu,
    node_name="LinalgLuFactorExBackward0",
    grad={"A": _lu_gradient},
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
        RuntimeError: another dtype, ``pivot=False``, or a singular matrix and ``check_errors``.
    Source: torch.linalg.lu_factor_ex.
    """
    factors, pivots, info = lapack.lu_factor(A)
    if check_errors:
        check_info(info, check_errors)
    return factors, pivots, info


@composite(namespace="linalg", method=False, out=True)
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """LU factors packed into one matrix, and the pivots; see ``linalg.lu_factor_ex``.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        pivot: swap rows; False is not there on the CPU.
    Raises:
        RuntimeError: a singular matrix, or another dtype.
    Source: torch.linalg.lu_factor.
    """
    return _LU_FACTOR(lu_factor_ex(A, pivot=pivot, check_errors="torch.linalg.lu_factor")[:2])


@composite(name="lu", namespace="linalg", method=False, out=True)
def linalg_lu(A: Tensor, *, pivot: bool = True) -> Any:
    """``A = P L U`` with a permutation, a lower triangle with ones on its diagonal, and an upper triangle.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        pivot: swap rows; False is not there on the CPU.
    Raises:
        RuntimeError: another dtype, or ``pivot=False``.
    Source: torch.linalg.lu.
    """
    if A.ndim < 2:
        raise RuntimeError(f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    return _LU(lu_unpack(*lu_factor_ex(A, pivot=pivot)[:2]))


@composite()
def lu(input: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """LU factors packed into one matrix, and the pivots. Deprecated; use ``linalg.lu_factor``.

    Args:
        input: ``(*, m, n)``. pivot: swap rows. get_infos: return which matrices are singular too, rather than raise.
        out: tensors to write into.
    Source: torch.lu.
    """
    warn_superseded("lu", "torch.linalg.lu_factor_ex(A)" if get_infos else "torch.linalg.lu_factor(A)")
    factors = lu_factor_ex(input, pivot=pivot, check_errors=False)
    if out is not None:
        for target, result in zip(out, factors):
            target.resize_(result.shape).copy_(result)
        return out
    return _LU_WITH_INFO(factors) if get_infos else tuple(factors[:2])


@op(name="_permutation", method=False, out=False, grad=None)
def _permutation(LU_pivots: Tensor, rows: int, like: Tensor) -> Tensor:
    """The permutation that pivots tell, as a matrix of the dtype of ``like``."""
    order = lapack.permutation(LU_pivots, rows)
    result = np.zeros((*order.shape, rows), like.dtype)
    np.put_along_axis(result, order[..., None, :], 1, -2)
    return result


@op(batch=2, name="_unit_lower", method=False, out=False, grad={"input": lambda grad: grad.tril(-1)})
def _unit_lower(input: Tensor) -> Tensor:
    """What stands below the diagonal of matrices, with ones on it and zeros above."""
    below, ones = np.tri(*input.shape[-2:], -1, dtype=bool), np.eye(*input.shape[-2:], dtype=input.dtype)
    return row_major(np.where(below, row_major(input), ones))


@composite(method=False, out=True)
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The three factors from what ``linalg.lu_factor`` returns.

    Args:
        LU_data: ``(*, m, n)``. LU_pivots: ``(*, k)``, int32, k the smaller of m and n.
        unpack_data: return L and U, which are empty otherwise.
        unpack_pivots: return P, which is empty otherwise.
    Returns:
        ``P``, ``(*, m, m)``; ``L``, ``(*, m, k)``; ``U``, ``(*, k, n)``.
    Raises:
        RuntimeError: pivots of another dtype, or that are no rows.
    Source: torch.lu_unpack.
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
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.dtype.legacy} and B of type "
            f"{B.dtype.legacy} instead"
        )
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
    batch=(2, 1, 2),
    name="lu_solve",
    namespace="linalg",
    method=False,
    canonicalize=_canonicalize_lu_solve,
    node_name="LinalgLuSolveBackward0",
    grad={"LU, B": _lu_solve_gradients},
)
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """``A X = B`` from A's LU factors.

    Args:
        LU, pivots: as ``linalg.lu_factor`` returns them.
        B: ``(*, n, k)``; batches are broadcast.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
        adjoint: with ``A^H`` in place of A.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
    Source: torch.linalg.lu_solve.
    """
    if left:
        return lapack.lu_solve(LU, pivots, B, adjoint)
    # X A = B is A^H X^H = B^H
    return lapack.lu_solve(LU, pivots, B.swapaxes(-1, -2).conj(), not adjoint).swapaxes(-1, -2).conj()


@composite(name="lu_solve", out=True)
def top_level_lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Any:
    """``A X = B`` from A's LU factors. Deprecated; use ``linalg.lu_solve``, which takes B last. Source: torch.lu_solve."""
    warn_superseded("lu_solve", "torch.linalg.lu_solve(LU, pivots, B)")
    return lu_solve(LU_data, LU_pivots, input)


# -- LDL ----------------------------------------------------------------------------------------------------------------------------
def _canonicalize_ldl(A: Any, hermitian: bool, check_errors: Any) -> tuple[Any, ...]:
    require_square("torch.linalg.ldl_factor_ex", A)
    require_numbers("torch.linalg.ldl_factor_ex", A, "ldl_factor_kernel_cpu")
    return (A, hermitian, "torch.linalg.ldl_factor_ex" if check_errors is True else check_errors)


@op(
    batch=2,
    name="ldl_factor_ex",
    namespace="linalg",
    method=False,
    returns=("LD", "pivots", "info"),
    promotion="same",
    canonicalize=_canonicalize_ldl,
    grad={"A": not_differentiable("linalg_ldl_factor_ex")},
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
    """
    factors, pivots, info = lapack.ldl_factor(A, hermitian)
    if check_errors:
        check_info(info, check_errors)
    return factors, pivots, info


@composite(namespace="linalg", method=False, out=True)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """LDL factors of a symmetric or Hermitian matrix; see ``linalg.ldl_factor_ex``.

    Args:
        A: ``(*, n, n)``, floating point or complex; the lower triangle is read.
        hermitian: a complex A is Hermitian, not symmetric.
    Raises:
        RuntimeError: a singular matrix, or another dtype.
    Source: torch.linalg.ldl_factor.
    """
    return _LDL_FACTOR(ldl_factor_ex(A, hermitian=hermitian, check_errors="torch.linalg.ldl_factor")[:2])


def _canonicalize_ldl_solve(LD: Any, pivots: Any, B: Any, hermitian: bool) -> tuple[Any, ...]:
    require_square("torch.linalg.ldl_solve", LD)
    require_numbers("torch.linalg.ldl_solve", LD)
    if B.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    _require_fitting("torch.linalg.ldl_solve", B, LD)
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
    batch=(2, 1, 2),
    name="ldl_solve",
    namespace="linalg",
    method=False,
    canonicalize=_canonicalize_ldl_solve,
    grad={"LD": not_differentiable("linalg_ldl_solve"), "B": not_differentiable("linalg_ldl_solve")},
)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """``A X = B`` from A's LDL factors.

    Args:
        LD, pivots: as ``linalg.ldl_factor`` returns them.
        B: ``(*, n, k)``; batches are broadcast.
        hermitian: as it was for the factors.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
        NotImplementedError: backward.
    Source: torch.linalg.ldl_solve. LAPACK's sytrs and hetrs.
    """
    return lapack.ldl_solve(LD, pivots, B, hermitian)


# -- systems ------------------------------------------------------------------------------------------------------------------------
def is_vector(A_shape: Any, B_shape: Any) -> bool:
    """Whether a right hand side is a vector, or a batch of them."""
    return len(B_shape) == 1 or (len(A_shape) - 1 == len(B_shape) and tuple(A_shape[:-1]) == tuple(B_shape))


def _canonicalize_solve(A: Any, B: Any, left: bool, check_errors: Any) -> tuple[Any, ...]:
    require_square("linalg.solve", A)
    require_floating("linalg.solve", A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {A.dtype.legacy} and B of type "
            f"{B.dtype.legacy} instead"
        )
    require_kernel("lu_cpu", A)
    vector = is_vector(A.shape, B.shape)
    if not vector:
        require_matrices("linalg.solve", B, "B")
    require_equation("linalg.solve", A, B.unsqueeze(-1) if vector else B, left)
    return (A, B, left, "torch.linalg.solve_ex" if check_errors is True else check_errors)


def _solve_gradients(grad: Any, A: Any, result: Any, B_shape: Any, left: bool) -> Any:
    vector = is_vector(A.shape, B_shape)
    if vector:
        grad, result = grad.unsqueeze(-1), result.unsqueeze(-1)
    grad_B = solve_ex(A.mH, grad, left=left)[0]
    grad_A = -(grad_B @ result.mH) if left else -(result.mH @ grad_B)
    return grad_A, grad_B.squeeze(-1) if vector else grad_B


@op(
    name="solve_ex",
    namespace="linalg",
    method=False,
    returns=("result", "info"),
    promotion="same",
    canonicalize=_canonicalize_solve,
    node_name="LinalgSolveExBackward0",
    grad={"A, B": lambda grad, A, result, B_shape, left, needs: _solve_gradients(grad, A, result, B_shape, left)},
)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: Any = False) -> Tensor:
    """``A X = B`` for square A, and which of them are singular.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        B: ``(*, n, k)``, ``(n)`` or ``(*, n)``; batches are broadcast.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
        check_errors: raise for a singular matrix, in the name of this operation or of another.
    Returns:
        ``result``, and ``info``, int32: the first zero on the diagonal of the factor U, counted from 1, or 0.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
        LinAlgError: a singular matrix and ``check_errors``.
    Gradient: ``A^-H grad`` for B, and ``-A^-H grad X^H`` for A.
    Source: torch.linalg.solve_ex.
    """
    vector = is_vector(A.shape, B.shape)
    right = B[..., None] if vector else B
    matrix = A if left else A.swapaxes(-1, -2)
    right = right if left else right.swapaxes(-1, -2)
    result = by_lapack("_solve", matrix, right)
    if result is None:
        try:
            result = np.linalg.solve(matrix, right), _no_failures(A)
        except np.linalg.LinAlgError:
            factors, pivots, info = lapack.lu_factor(matrix)
            result = lapack.lu_solve(factors, pivots, right, False), info
    solution, info = result
    if check_errors:
        check_info(info, check_errors)
    if vector:
        solution = solution[..., 0]
        return (columns(solution) if left and solution.ndim > 1 else np.ascontiguousarray(solution)), info
    return columns(solution) if left else columns(solution).swapaxes(-1, -2), info


@composite(namespace="linalg", method=False, out=True)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Any:
    """``A X = B`` for square A.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        B: ``(*, n, k)``, ``(n)`` or ``(*, n)``; batches are broadcast.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
        LinAlgError: a singular matrix.
    Source: torch.linalg.solve.
    """
    return solve_ex(A, B, left=left, check_errors="torch.linalg.solve")[0]


def _canonicalize_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> tuple[Any, ...]:
    require_square("linalg.solve_triangular", A)
    require_matrices("linalg.solve_triangular", B, "B")
    require_equation("linalg.solve_triangular", A, B, left)
    require_kernel("triangular_solve_cpu", A)
    require_kernel("triangular_solve_cpu", B)
    return (A, B, upper, left, unitriangular)


def _triangular_gradients(grad: Any, A: Any, result: Any, upper: bool, left: bool, unitriangular: bool, needs: Any) -> Any:
    grad_B = solve_triangular(A.mH, grad, upper=not upper, left=left, unitriangular=unitriangular)
    if not needs[0]:
        return None, grad_B
    grad_A = -(grad_B @ result.mH) if left else -(result.mH @ grad_B)
    return grad_A.triu(int(unitriangular)) if upper else grad_A.tril(-int(unitriangular)), grad_B


@op(
    batch=2,
    name="solve_triangular",
    namespace="linalg",
    method=False,
    promotion="default",
    canonicalize=_canonicalize_triangular,
    node_name="LinalgSolveTriangularBackward0",
    grad={"A, B": _triangular_gradients},
)
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """``A X = B`` for triangular A.

    Args:
        A: ``(*, n, n)``, floating point or complex; the other triangle is not read.
        B: ``(*, n, k)``; batches are broadcast.
        upper: which triangle A is.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
        unitriangular: A's diagonal is ones and is not read.
    Raises:
        RuntimeError: matrices that do not fit.
        NotImplementedError: another dtype.
    Gradient: ``A^-H grad`` for B, and for A the triangle of ``-A^-H grad X^H``.
    Source: torch.linalg.solve_triangular.
    """
    return lapack.solve_triangular(A, B, upper, left, unitriangular)


@composite(out=True)
def triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """``A X = B`` for triangular A. Deprecated; use ``linalg.solve_triangular``, which takes B last.

    Args:
        input: B, ``(*, n, k)``. A: ``(*, n, n)``. upper: which triangle A is. transpose: solve with ``A^T``.
        unitriangular: A's diagonal is ones and is not read.
    Returns:
        The solution, and a copy of A.
    Source: torch.triangular_solve.
    """
    warn_superseded("triangular_solve", "torch.linalg.solve_triangular(A, B, upper=upper)")
    for word, operand in (("b", input), ("A", A)):
        if operand.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {word} to have at least 2 dimensions, but it has {operand.ndim} dimensions instead"
            )
    _require_fitting("triangular_solve", input, A)
    lead = broadcast_shape(tuple(input.shape[:-2]), tuple(A.shape[:-2]))
    solution = solve_triangular(A.mT if transpose else A, input, upper=upper != transpose, unitriangular=unitriangular)
    return _TRIANGULAR((solution, A.mT.expand(*lead, *A.shape[-2:]).clone(memory_format=contiguous_format).mT))
