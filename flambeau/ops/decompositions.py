"""Decompositions of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, op


def _require_square(operation: str, array: np.ndarray) -> None:
    if array.ndim < 2:
        raise RuntimeError(f"{operation}: The input tensor A must have at least 2 dimensions.")
    if array.shape[-1] != array.shape[-2]:
        raise RuntimeError(
            f"{operation}: A must be batches of square matrices, but they are {array.shape[-2]} by {array.shape[-1]} matrices"
        )
    if array.dtype.kind not in "fc":
        raise RuntimeError(f"{operation}: Expected a floating point or complex tensor as input. Got {dtypes.of_array(array)}")


def _by_columns(matrix: np.ndarray) -> np.ndarray:
    """The matrices with their columns contiguous, as LAPACK leaves them."""
    return np.ascontiguousarray(matrix.swapaxes(-1, -2)).swapaxes(-1, -2)


@op(
    namespace="linalg",
    method=False,
    promotion="same",
    node_name="LinalgInvExBackward0",
    grad={"A": lambda grad, result: -(result.mH @ grad @ result.mH)},
)
def inv(A: Tensor) -> Tensor:
    """Inverse of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Raises:
        RuntimeError: no square matrices, or another dtype.
        LinAlgError: a singular matrix.
    Gradient: ``-inv(A)^H grad inv(A)^H``.
    Source: torch.linalg.inv.
    """
    _require_square("linalg.inv", A)
    try:
        return _by_columns(np.linalg.inv(A))
    except np.linalg.LinAlgError:
        raise _LinAlgError(
            "linalg.inv: The diagonal element is zero, the inversion could not be completed because the input matrix is singular."
        ) from None


class _LinAlgError(RuntimeError):
    """A factorisation or an inverse that does not exist. Source: torch.linalg.LinAlgError."""


@composite(out=True)
def inverse(input: Tensor) -> Tensor:
    """Inverse of a square matrix; see ``linalg.inv``. Source: torch.inverse."""
    return inv(input)


def _qr_gradient(grads: Any, result0: Any, result1: Any, mode: str) -> Any:
    """``(gQ + Q S) R^-H`` with the Hermitian S whose upper triangle is that of ``gR R^H - Q^H gQ``."""
    q, r = result0, result1
    rows, columns = q.shape[-2], r.shape[-1]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced')"
        )
    if rows < columns or (mode == "complete" and rows != columns):
        raise NotImplementedError("linalg.qr: the derivative is supported for mode='reduced' and at least as many rows as columns only")
    grad_q, grad_r = grads
    upper = r.new_zeros(()) if grad_r is None else grad_r @ r.mH
    if grad_q is not None:
        upper = upper - q.mH @ grad_q
    upper = upper.triu()
    both = upper + upper.mH
    both = q @ (both - (both.diagonal(0, -2, -1) * 0.5).diag_embed())
    return (both if grad_q is None else grad_q + both) @ inv(r).mH


@op(
    name="qr",
    namespace="linalg",
    method=False,
    returns=("Q", "R"),
    promotion="same",
    grad={"A": _qr_gradient},
    node_name="LinalgQrBackward0",
)
def qr(A: Tensor, mode: str = "reduced") -> Tensor:
    """QR decomposition: ``A = Q @ R`` with orthonormal columns in Q and upper triangular R.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        mode: 'reduced' (Q of shape ``(*, m, k)``, k = min(m, n)), 'complete' (``(*, m, m)``) or 'r' (Q empty).
    Raises:
        RuntimeError: another dtype, fewer than two dimensions, or another mode.
        NotImplementedError: backward for more columns than rows, or for the complete form of a matrix that is not square.
    Source: torch.linalg.qr.
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.qr: The input tensor A must have at least 2 dimensions.")
    if A.dtype.kind not in "fc":
        raise RuntimeError(f"linalg.qr: Expected a floating point or complex tensor as input. Got {dtypes.of_array(A)}")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    if mode == "r":
        return np.empty((0,), A.dtype), _by_columns(np.linalg.qr(A, mode="r"))
    q, r = np.linalg.qr(A, mode=mode)
    return _by_columns(q), _by_columns(r)
