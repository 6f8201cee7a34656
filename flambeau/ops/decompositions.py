"""Decompositions of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.annotations import Tensor
from ..core.registry import op


def _no_derivative(grads: Any) -> Any:
    raise NotImplementedError("linalg.qr: the derivative is not supported yet")


@op(
    name="qr",
    namespace="linalg",
    method=False,
    returns=("Q", "R"),
    result_name="linalg_qr",
    promotion="same",
    grad={"A": _no_derivative},
    node_name="LinalgQrBackward0",
)
def qr(A: Tensor, mode: str = "reduced") -> Tensor:
    """QR decomposition: ``A = Q @ R`` with orthonormal columns in Q and upper triangular R.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        mode: 'reduced' (Q of shape ``(*, m, k)``, k = min(m, n)), 'complete' (``(*, m, m)``) or 'r' (Q empty).
    Raises:
        RuntimeError: another dtype, fewer than two dimensions, or another mode.
        NotImplementedError: backward through the result.
    Source: torch.linalg.qr.
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.qr: The input tensor A must have at least 2 dimensions.")
    if A.dtype.kind not in "fc":
        raise RuntimeError(f"linalg.qr: Expected a floating point or complex tensor as input. Got {A.dtype}")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    if mode == "r":
        return np.empty((0,), A.dtype), np.linalg.qr(A, mode="r")
    q, r = np.linalg.qr(A, mode=mode)
    return np.ascontiguousarray(q), np.ascontiguousarray(r)
