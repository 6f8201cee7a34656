"""Inverses and determinants of square matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import lapack, native
from ...core.arrays.kinds import perhaps
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, resolve
from ...core.calls.return_types import named_result
from ..joining import cat
from ..reduction import products_of_others
from .matrix_checks import (
    check_info,
    columns,
    identity,
    matrix_op,
    no_failures,
    precise,
    real_dtype,
    require_numbers,
    require_square,
    square_numbers,
)

_SLOGDET = named_result("slogdet", ("sign", "logabsdet"))


# -- inverse ------------------------------------------------------------------------------------------------------------------------
@matrix_op(
    returns=("inverse", "info"),
    canonicalize=square_numbers("linalg.inv"),
    node_name="LinalgInvExBackward0",
    grad={"A": lambda grad, result: -(result.mH @ grad @ result.mH)},
    autocast={"cpu": "float32"},
    meta=lambda new, A, check: (new(A.shape, A.dtype, columns=True), new(A.shape[:-2], np.int32)),
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
    Example:
        >>> both = torch.tensor([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])
        >>> inverse, info = torch.linalg.inv_ex(both)
        >>> inverse[0], info
        (tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]]), tensor([0, 2], dtype=torch.int32))
    """
    inverse, info = _inverted(A)
    check_info(info, "linalg.inv_ex", check_errors)
    return inverse, info


@native.part("_inverse", work="16 * A.size")
def _inverted(A: Any) -> tuple[Any, Any]:
    try:
        return columns(np.linalg.inv(A)), no_failures(A)
    except np.linalg.LinAlgError:
        factors, pivots, info = lapack.lu_factor(A)
        return lapack.lu_solve(factors, pivots, np.eye(A.shape[-1], dtype=A.dtype), False), info


@composite(namespace="linalg", method=False, out=EXACT, autocast={"cpu": "float32"})
def inv(A: Tensor) -> Any:
    """Inverse of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        A new tensor ``(*, n, n)`` of ``A``'s dtype.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a singular matrix.
    Gradient: ``-inv(A)^H grad inv(A)^H``.
    Source: torch.linalg.inv.
    Example:
        >>> torch.linalg.inv(torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        tensor([[ 1.0000, -0.5000],
                [ 0.0000,  0.5000]])
    """
    return inv_ex(A, check_errors="linalg.inv")[0]


@composite(out=EXACT, autocast={"cpu": "float32"})
def inverse(input: Tensor) -> Any:
    """Inverse of a square matrix, or of each in a batch; see :func:`torch.linalg.inv`.

    Args:
        input: ``(*, n, n)``, floating point or complex.
    Returns:
        A new tensor ``(*, n, n)`` of ``input``'s dtype.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a singular matrix.
    Gradient: ``-inv(input)^H grad inv(input)^H``.
    Source: torch.inverse.
    Example:
        >>> torch.inverse(torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        tensor([[ 1.0000, -0.5000],
                [ 0.0000,  0.5000]])
    """
    return inv(input)


# -- determinants -------------------------------------------------------------------------------------------------------------------
def _cofactors(A: Any) -> Any:
    """Conjugated cofactors of any matrix, by its singular values. Source: Higham, What is the adjugate of a matrix?, 2020."""
    U, S, Vh = resolve("linalg", "svd")(A)
    phase = (det(U) * det(Vh)).conj()[..., None]
    return (U * (phase * products_of_others(S, S.ndim - 1))[..., None, :]) @ Vh


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
    regular = scale * inv_ex(A.where(~chosen, identity(A)))[0].mH
    of_singular = _cofactors_beside_zero(A.where(chosen & ~doubly, spread))
    if perhaps(twice.any()):
        of_singular = _cofactors(A.where(doubly, spread)).where(doubly, of_singular)
    return (grad[..., None, None] * of_singular).where(chosen, regular)


@matrix_op(
    work="16 * A.size",
    canonicalize=square_numbers("linalg.det", "lu_cpu"),
    node_name="LinalgDetBackward0",
    grad={"A": _det_gradient},
    aten=None,
    meta=lambda new, A: new(A.shape[:-2], A.dtype),
)
def det(A: Tensor) -> Tensor:
    """Determinant of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        ``(*)``, ``A``'s dtype; 1 for a matrix without elements.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad conj(det) A^-H``, of a singular matrix the cofactors from its singular values.
    Source: torch.linalg.det.
    Example:
        >>> torch.linalg.det(torch.tensor([[[1.0, 2.0], [0.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]]))
        tensor([3., 0.])
    """
    return precise(np.asarray(np.linalg.det(A)), A.dtype)


@composite(name="det", out=False)
def top_level_det(input: Tensor) -> Any:
    """Determinant of a square matrix, or of each in a batch; see :func:`torch.linalg.det`.

    Args:
        input: ``(*, n, n)``, floating point or complex.
    Returns:
        ``(*)``, ``input``'s dtype; 1 for a matrix without elements.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad conj(det) input^-H``.
    Source: torch.det.
    Example:
        >>> torch.det(torch.tensor([[1.0, 2.0], [0.0, 3.0]]))
        tensor(3.)
    """
    return det(input)


def _slogdet_gradient(grads: Any, A: Any, result: Any) -> Any:
    grad_sign, grad_log = grads
    scale = result.new_zeros(result.shape) if grad_log is None else grad_log
    if A.is_complex() and grad_sign is not None:
        scale = scale - 1j * (grad_sign.conj() * result).imag
    return scale[..., None, None] * inv_ex(A)[0].mH


@matrix_op(
    work="16 * A.size",
    returns=("sign", "logabsdet"),
    canonicalize=square_numbers("linalg.slogdet"),
    node_name="LinalgSlogdetBackward0",
    grad={"A": _slogdet_gradient},
    aten=None,
    meta=lambda new, A: (new(A.shape[:-2], A.dtype), new(A.shape[:-2], real_dtype(A))),
)
def slogdet(A: Tensor) -> Tensor:
    """Sign of the determinant (a number of size 1 for complex matrices) and logarithm of its size.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        ``sign``, and ``logabsdet``, which is real: 0 and ``-inf`` for a singular matrix; ``(*)`` each.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad A^-H``.
    Source: torch.linalg.slogdet.
    Example:
        >>> sign, size = torch.linalg.slogdet(torch.diag(torch.tensor([-1e30, 1e30])))  # the product overflows
        >>> sign, size
        (tensor(-1.), tensor(138.1551))
    """
    sign, size = np.linalg.slogdet(A)
    return precise(np.asarray(sign), A.dtype), precise(np.asarray(size), A.real.dtype)


@composite(name="slogdet", out=EXACT)
def top_level_slogdet(input: Tensor) -> Any:
    """Sign and logarithm of the determinant; see :func:`torch.linalg.slogdet`.

    Args:
        input: ``(*, n, n)``, floating point or complex.
    Returns:
        ``sign``, and ``logabsdet``, which is real: ``(*)`` each.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad input^-H``.
    Source: torch.slogdet.
    Example:
        >>> sign, size = torch.slogdet(torch.diag(torch.tensor([-1e30, 1e30])))  # the product overflows
        >>> sign, size
        (tensor(-1.), tensor(138.1551))
    """
    return _SLOGDET(slogdet(input))


@composite()
def logdet(input: Tensor) -> Any:
    """Logarithm of the determinant; NaN where it is negative.

    Args:
        input: ``(*, n, n)``, floating point or complex.
    Returns:
        ``(*)``, ``input``'s dtype; ``-inf`` for a singular matrix.
    Raises:
        RuntimeError: no square matrices, or another dtype.
    Gradient: ``grad input^-H``.
    Source: torch.logdet.
    Example:
        >>> torch.logdet(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))  # log(6)
        tensor(1.7918)
        >>> torch.logdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        tensor(nan)
    """
    require_square("logdet", input)
    require_numbers("logdet", input)
    sign, size = slogdet(input)
    if input.is_complex():
        return sign.log() + size
    return size.masked_fill(sign == -1, float("nan"))
