"""Fast paths for small float arrays, where a call of NumPy's costs more than the arithmetic.

A reduction through ``ufunc.reduce`` costs about 0.9 us before it adds anything, a product with a vector of ones 0.4 us.  Sums of
at most ``LIMIT`` elements made that way carry at most about ``LIMIT`` / 8 roundings, since BLAS keeps several partial sums.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

LIMIT = 256
_F32, _F64, _I64, _ONE = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64), np.float32(1)
_LONGEST32, _LONGEST64 = np.ones(LIMIT, np.float32), np.ones(LIMIT, np.float64)
ONES32, _ONES64 = [_LONGEST32[:n] for n in range(LIMIT + 1)], [_LONGEST64[:n] for n in range(LIMIT + 1)]

# The sum of all elements is their product with as many ones, which NumPy's C function flattens itself; of one -0, too, it is +0.
flat_product = getattr(np.vdot, "_implementation", np.vdot)


def small_sum(a: np.ndarray, dim: int | None) -> Any:
    """Sum of all, or over one dimension of a matrix; None where this is not a small row-major float array."""
    if a.size > LIMIT or not a.flags.c_contiguous:
        return None
    ones = ONES32 if a.dtype is _F32 else _ONES64 if a.dtype is _F64 else None
    if ones is None:
        return None
    if dim is None:
        return flat_product(a, ones[a.size])
    if a.ndim != 2:
        return None
    if dim == 1 or dim == -1:
        return a.dot(ones[a.shape[1]])
    return ones[a.shape[0]].dot(a) if dim == 0 or dim == -2 else None


# High byte of a little-endian float32 number x -> 0 where |x| < 32, so that exp(x) and sums of LIMIT of them stay far inside
# float32, else 1. ``1 in a.tobytes()[HIGH].translate(HIGH_BYTES)`` takes a sixth of the time of a maximum.
HIGH, HIGH_BYTES = slice(3, None, 4), bytes(int(high & 0x7F > 0x41 or sys.byteorder != "little") for high in range(256))
# Shapes of small float32 matrices -> the ones that replace each element of a row by the row's sum.
SQUARES: dict[tuple[int, ...], np.ndarray] = {}


def prepare_square(a: np.ndarray) -> None:
    """Make the matrix of ones for arrays of this shape, if they are small enough."""
    if a.ndim == 2 and a.dtype is _F32 and 0 < a.size <= LIMIT:
        SQUARES[a.shape] = np.ones((a.shape[1], a.shape[1]), np.float32)


_places: dict[tuple[int, ...], np.ndarray] = {}  # shape of a small matrix -> where its rows begin in the flattened matrix


def row_places(shape: tuple[int, ...]) -> np.ndarray:
    """Offsets of the rows of a small matrix when it is flattened."""
    begins = _places.get(shape)
    if begins is None:
        begins = _places[shape] = np.arange(shape[0]) * shape[1]
    return begins


# Shape of a small matrix -> (column number of each element, shape of a row).
_columns: dict[tuple[int, ...], tuple[np.ndarray, tuple[int, ...]]] = {}


def small_rows(row: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Summand that adds ``row`` to each row of a matrix of ``shape``: ``row`` itself, or a small matrix of such rows.

    NumPy takes twice as long to broadcast a small row as to repeat it and add.
    """
    cached = _columns.get(shape)
    if cached is None:
        if len(shape) != 2 or not 0 < shape[0] * shape[1] <= LIMIT:
            return row
        cached = _columns[shape] = np.broadcast_to(np.arange(shape[1]), shape).copy(), shape[1:]
    return row.take(cached[0]) if row.shape == cached[1] else row


def _picked_places(a: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Positions in the flattened scores of each sample's class; None unless this is a small, moderate case without ignored samples."""
    shape = a.shape
    if a.dtype is not _F32 or target.dtype is not _I64 or target.shape != shape[:1] or a.size > LIMIT:
        return None
    if shape not in SQUARES:
        prepare_square(a)
        if shape not in SQUARES:
            return None
    classes = target.tolist()
    if min(classes) < 0 or max(classes) >= shape[1] or not a.flags.c_contiguous or 1 in a.tobytes()[HIGH].translate(HIGH_BYTES):
        return None
    return row_places(shape) + target


def small_cross_entropy(a: np.ndarray, target: np.ndarray) -> Any:
    """Mean over the samples of ``log(sum(exp(row)) / exp(row[class]))``; None where the general way must be taken."""
    places = _picked_places(a, target)
    if places is None:
        return None
    grown = np.exp(a)
    n, classes = a.shape
    losses = np.log(grown.dot(ONES32[classes]) / grown.ravel()[places])
    return losses.dot(ONES32[n]) / np.float32(n)


def small_cross_entropy_gradient(grad: np.ndarray, a: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Derivative of ``small_cross_entropy``: ``(softmax - 1 at the class) * grad / n``."""
    places = _picked_places(a, target)
    if places is None or grad.dtype is not _F32:
        return None
    gradient = np.exp(a)
    np.divide(gradient, gradient.dot(SQUARES[a.shape]), gradient)
    gradient.ravel()[places] -= _ONE
    return np.multiply(gradient, grad / np.float32(a.shape[0]), gradient)
