"""Short ways for small float arrays, where a call of NumPy's costs more than the arithmetic.

A reduction through ``ufunc.reduce`` costs about 0.9 us before it adds anything, a product with a vector of ones 0.4 us.  Sums of
at most ``LIMIT`` elements made that way carry at most about ``LIMIT`` / 8 roundings, since BLAS keeps several partial sums.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

LIMIT = 256
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_LONGEST32, _LONGEST64 = np.ones(LIMIT, np.float32), np.ones(LIMIT, np.float64)
_ONES32, _ONES64 = [_LONGEST32[:n] for n in range(LIMIT + 1)], [_LONGEST64[:n] for n in range(LIMIT + 1)]


def small_sum(a: np.ndarray, dim: int | None) -> Any:
    """Sum of all, or over one dimension of a matrix; None where this is not a small row-major float array."""
    if a.size > LIMIT or not a.flags.c_contiguous:
        return None
    ones = _ONES32 if a.dtype is _F32 else _ONES64 if a.dtype is _F64 else None
    if ones is None:
        return None
    if dim is None:
        return a.ravel().dot(ones[a.size])
    if a.ndim != 2:
        return None
    if dim == 1 or dim == -1:
        return a.dot(ones[a.shape[1]])
    return ones[a.shape[0]].dot(a) if dim == 0 or dim == -2 else None


# High bytes of little-endian float32 numbers x with |x| < 32, of either sign: exp(x) and sums of LIMIT of them stay far inside float32.
MODERATE = bytes(sign | high for sign in (0x00, 0x80) for high in range(0x42)) if sys.byteorder == "little" else b""
SQUARES: dict[tuple[int, ...], np.ndarray] = {}  # shape of a small matrix -> the ones that replace each element by its row's sum


def prepare_square(a: np.ndarray) -> None:
    """Make the matrix of ones for arrays of this shape, if they are small enough."""
    if a.ndim == 2 and 0 < a.size <= LIMIT and len(SQUARES) < 1000:
        SQUARES[a.shape] = np.ones((a.shape[1], a.shape[1]), np.float32)
