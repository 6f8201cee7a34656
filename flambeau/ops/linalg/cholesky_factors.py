"""Cholesky factors of positive-definite matrices, and what is solved and inverted with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import lapack, native
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, op, other_names
from ...core.shape import broadcast_shape
from .linear_systems import solve_triangular
from .matrix_checks import (
    check_info,
    columns,
    matrix_op,
    no_failures,
    require_fitting,
    require_kernel,
    require_square,
    solution,
    square_numbers,
    warn_superseded,
)


def _cholesky_gradient(grad: Any, result: Any, upper: bool) -> Any:
    """``L^-H sym(L^H gL) L^-1`` with half of it on the diagonal. Source: Murray, Differentiation of the Cholesky decomposition, 2016."""
    factor, grad = (result.mH, grad.mH) if upper else (result, grad)
    inside = (factor.mH @ grad).tril()
    inside = (inside + inside.tril(-1).mH) * 0.5
    inner = solve_triangular(factor.mH, inside, upper=True)
    return solve_triangular(factor, inner, upper=False, left=False)


def _with_missing_pivots(A: np.ndarray, factor: np.ndarray, info: Any) -> np.ndarray:
    """LAPACK's report with the first pivot that is NaN, which some take for a positive one; behind an infinite one that is what is left."""
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    missing = np.isnan(diagonal)
    # infinity divided by an infinite pivot is NaN, which blocked and vectorised kernels multiply away
    below = np.tril(~np.isfinite(A), -1) & np.isinf(diagonal)[..., None, :]
    missing = missing | below.any(-1)
    return np.where((info == 0) & missing.any(-1), missing.argmax(-1) + 1, info).astype(np.int32)


@native.part("_cholesky", work="16 * A.size")
def _factored(A: Any, upper: bool) -> tuple[Any, Any]:
    """Factors, and the order of the first leading minor that is not positive (0: none)."""
    lower = A.swapaxes(-1, -2).conj() if upper else A
    try:
        factor, info = np.linalg.cholesky(lower), no_failures(A)
    except np.linalg.LinAlgError:
        factor, info = lapack.cholesky(lower)
    return columns(factor.swapaxes(-1, -2).conj() if upper else factor), info


@matrix_op(
    returns=("L", "info"),
    canonicalize=square_numbers("linalg.cholesky", "cholesky_cpu"),
    node_name="LinalgCholeskyExBackward0",
    grad={"A": _cholesky_gradient},
    autocast={"cpu": "float32"},
    meta=lambda new, A, upper, check: (new(A.shape, A.dtype, columns=True), new(A.shape[:-2], np.int32)),
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
    Example:
        >>> torch.linalg.cholesky_ex(torch.tensor([[4.0, 2.0], [2.0, 5.0]])).L
        tensor([[2., 0.],
                [1., 2.]])
        >>> torch.linalg.cholesky_ex(torch.tensor([[1.0, 0.0], [0.0, -1.0]])).info
        tensor(2, dtype=torch.int32)
    """
    factor, info = _factored(A, upper)
    if factor.size and not np.isfinite(np.diagonal(factor, axis1=-2, axis2=-1)).all():
        info = _with_missing_pivots(A.swapaxes(-1, -2).conj() if upper else A, factor, info)
    check_info(info, "linalg.cholesky_ex", check_errors)
    return factor, info


@composite(name="cholesky", namespace="linalg", method=False, out=EXACT, autocast={"cpu": "float32"})
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Any:
    """Cholesky factor of a Hermitian positive-definite matrix: lower triangular L with ``A = L L^H``.

    Args:
        A: ``(*, n, n)``, floating point or complex; only one triangle is read.
        upper: return ``U = L^H``.
    Returns:
        ``(*, n, n)``, ``A``'s dtype, zeros in the other triangle.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a matrix that is not positive-definite.
    Gradient: ``L^-H S L^-1``, S the Hermitian part of what is below the diagonal of ``L^H grad``.
    Source: torch.linalg.cholesky.
    Example:
        >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    return cholesky_ex(A, upper=upper, check_errors="linalg.cholesky")[0]


@composite(out=True, autocast={"cpu": "float32"})
def cholesky(input: Tensor, upper: bool = False) -> Any:
    """Cholesky factor of a positive-definite matrix. Deprecated: ``torch.linalg.cholesky`` does the same.

    Args:
        input: ``(*, n, n)``, floating point or complex; only one triangle is read.
        upper: return ``U = L^H`` instead of L.
    Returns:
        The factor, ``(*, n, n)``, zeros in its other triangle.
    Raises:
        RuntimeError: no square matrices.
        LinAlgError: a matrix that is not positive-definite.
    Gradient: that of ``torch.linalg.cholesky``.
    Source: torch.cholesky.
    Example:
        >>> torch.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]), upper=True)
        tensor([[2., 1.],
                [0., 2.]])
    """
    warn_superseded("cholesky", "torch.linalg.cholesky(A).mH" if upper else "torch.linalg.cholesky(A)")
    require_square("cholesky", input)
    require_kernel("cholesky_cpu", input)
    return cholesky_ex(input, upper=upper, check_errors="cholesky")[0]


def _canonicalize_cholesky_solve(input: Any, input2: Any, upper: bool) -> tuple[Any, ...]:
    require_fitting("cholesky_solve", input, input2)
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


@native.part("_cholesky_solve", work="16 * factor.size")
def _solve_with_factor(factor: Any, B: Any, upper: bool) -> Any:
    adjoint = factor.swapaxes(-1, -2).conj()
    first, second = (adjoint, factor) if upper else (factor, adjoint)
    return lapack.solve_triangular(second, lapack.solve_triangular(first, B, False, True, False), True, True, False)


@op(
    batch=2,
    promotion="same",
    canonicalize=_canonicalize_cholesky_solve,
    grad={"input, input2": _cholesky_solve_gradients},
    autocast={"cpu": "float32"},
    meta=lambda new, B, L, upper: solution(new, L, B),
)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """``X`` with ``A X = B``, from the Cholesky factor of A.

    Args:
        input: B, ``(*, n, k)``.
        input2: the factor, ``(*, n, n)``: lower, or upper.
        upper: which of them it is.
    Returns:
        ``(*, n, k)``, the operands' dtype; batches are broadcast.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
    Gradient: ``A^-1 grad`` for B, and for a lower factor ``-(A^-1 grad X^H + X grad^H A^-1) L``.
    Source: torch.cholesky_solve.
    Example:
        >>> L = torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        >>> torch.cholesky_solve(torch.tensor([[8.0], [12.0]]), L)
        tensor([[1.],
                [2.]])
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
    autocast={"cpu": "float32"},
    meta=lambda new, L, upper: new(L.shape, L.dtype, columns=True),
)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Inverse of a matrix from its Cholesky factor.

    Args:
        input: the factor, ``(*, n, n)``: lower, or upper.
        upper: which of them it is.
    Returns:
        The inverse of ``L L^H`` or ``U^H U``, ``(*, n, n)``.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a zero on the diagonal.
    Gradient: for a lower factor ``-A^-1 (grad + grad^H) A^-1 L``.
    Source: torch.cholesky_inverse.
    Example:
        >>> torch.cholesky_inverse(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        tensor([[ 2., -1.],
                [-1.,  1.]])
    """
    zero = input.diagonal(0, -2, -1) == 0
    if zero.any():
        check_info((zero.argmax(-1) + 1) * zero.any(-1), "cholesky_inverse")
    return _inverse_of_product(input, upper)


@native.part("_cholesky_inverse", work="16 * factor.size")
def _inverse_of_product(factor: Any, upper: bool) -> Any:
    return _solve_with_factor(factor, np.eye(factor.shape[-1], dtype=factor.dtype), upper)


for _name in ("cholesky", "cholesky_ex"):
    other_names(_name, "linalg", input="A")
