"""The exponential function of matrices, and its derivative in a direction.

A matrix X and a direction E are one array ``[X, E]``, and stand for ``[[X, E], [0, X]]``: of all that is made of one such matrix by sums,
products and inverses the upper row says everything, and its right half is the derivative in the direction.

Source: Higham 2005, "The scaling and squaring method for the matrix exponential revisited"; Najfeld and Havel 1995, theorem 4.13.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays import lapack, native
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, other_names
from ...core.state import grad_enabled
from ..joining import cat
from .linear_systems import solved
from .matrix_checks import matrix_op, require_floating, require_square

# Degrees of Padé approximants, and the norms up to which their error is one of A's precision in the result's dtype: in double precision
# Higham's table 2.3, and 2**-30 of A for single.
_DEGREES = {
    4: ((3, 0.21), (5, 1.24), (7, 2.93)),
    8: ((3, 0.01495585217958292), (5, 0.253939833006323), (7, 0.9504178996162932), (9, 2.097847961257068), (13, 5.371920351148152)),
}


def _coefficients(degree: int) -> list[float]:
    """Of the numerator; the denominator has the same with alternating signs."""
    factorial = math.factorial
    return [float(factorial(2 * degree - k) // (factorial(k) * factorial(degree - k))) for k in range(degree + 1)]


@native.part("matmul", work="8 * a.size")
def _product(a: Any, b: Any) -> Any:
    """``a @ b``; its kernel uses the pool's threads."""
    return a @ b


def _times(a: Any, b: Any) -> Any:
    """The product of two matrices, or of two with directions."""
    n = a.shape[-2]
    if a.shape[-1] == n:
        return _product(a, b)
    result = _product(a[..., :n], b)
    result[..., n:] += _product(a[..., n:], b[..., :n])
    return result


def _sum(coefficients: Any, powers: Any, one: float) -> Any:
    """``one`` on the diagonal, and the powers times their coefficients."""
    total = coefficients[0] * powers[0]
    for coefficient, power in zip(coefficients[1:], powers[1:]):
        total += coefficient * power
    n, width = total.shape[-2:]
    total.reshape(*total.shape[:-2], n * width)[..., :: width + 1] += one
    return total


def _numerator(degree: int, A: Any) -> tuple[Any, Any]:
    """Even and odd part of the approximant's numerator."""
    b = _coefficients(degree)
    powers = [_times(A, A)]
    for _ in range(2 if degree == 13 else degree // 2 - 1):
        powers.append(_times(powers[-1], powers[0]))
    even, odd = (_sum(b[2 + k : 2 * len(powers) + 2 : 2], powers, b[k]) for k in (0, 1))
    if degree == 13:
        even += _times(powers[2], _sum(b[8::2], powers, 0.0))
        odd += _times(powers[2], _sum(b[9::2], powers, 0.0))
    return even, _times(A, odd)


def _quotient(numerator: Any, denominator: Any) -> Any:
    """``numerator @ denominator^-1``; the two commute, and their transposes lie as LAPACK reads them."""
    n = numerator.shape[-2]
    if numerator.shape[-1] == n:
        return solved(denominator.swapaxes(-1, -2), numerator.swapaxes(-1, -2))[0].swapaxes(-1, -2)
    factors, pivots, _ = lapack.lu_factor(denominator[..., :n].swapaxes(-1, -2))

    def over(matrix: Any) -> Any:
        return lapack.lu_solve(factors, pivots, matrix.swapaxes(-1, -2), False).swapaxes(-1, -2)

    value = over(numerator[..., :n])
    return np.concatenate([value, over(numerator[..., n:] - _product(value, denominator[..., n:]))], -1)


def _exponential(A: Any, direction: Any) -> Any:
    """The exponential function of A, or with a ``direction`` its derivative there."""
    kind, n = A.dtype, A.shape[-1]
    wide = np.complex128 if kind.kind == "c" else np.float64  # rounding grows with the norm
    norm = np.abs(A).sum(-2).max(-1).astype(np.float64)
    norm = np.where(np.isfinite(norm), norm, 0.0)
    degrees = _DEGREES[A.real.itemsize]
    largest = float(norm.max())
    degree, limit = next((each for each in degrees if largest <= each[1]), degrees[-1])
    squarings = np.maximum(np.ceil(np.log2(np.maximum(norm, 1e-30) / limit)), 0)[..., None, None]
    scaled = (A if direction is None else np.concatenate([A, direction], -1)).astype(wide)
    scaled *= 0.5**squarings
    even, odd = _numerator(degree, scaled)
    result = _quotient(even + odd, even - odd)
    for step in range(int(squarings.max())):
        square = _times(result, result)
        result = square if squarings.size == 1 else np.where(squarings > step, square, result)
    return np.ascontiguousarray((result if direction is None else result[..., n:]).astype(kind))


def _exponential_gradient(grad: Any, A: Any) -> Any:
    """The derivative at ``A^H`` in the gradient's direction; as a block of an exponential function where it is to be differentiated."""
    n, adjoint = A.shape[-1], A.mH
    if not grad_enabled():
        return _matrix_exp_backward(adjoint, grad.to(A.dtype))
    rows = cat([adjoint, grad.to(A.dtype)], -1), cat([adjoint.new_zeros(adjoint.shape), adjoint], -1)
    return matrix_exp(cat(rows, -2))[..., :n, n:]


@matrix_op(name="_matrix_exp_backward", out=False, grad=None, meta=lambda new, A, direction: new(A.shape, A.dtype))
def _matrix_exp_backward(A: Tensor, direction: Tensor) -> Tensor:
    """The derivative of the exponential function of A in a direction."""
    return _exponential(A, direction) if A.size else np.zeros(A.shape, A.dtype)


def _canonicalize_exponential(A: Any) -> tuple[Any, ...]:
    require_square("linalg.matrix_exp", A)
    require_floating("linalg.matrix_exp", A)
    return (A,)


@matrix_op(
    out=False,
    canonicalize=_canonicalize_exponential,
    node_name="LinalgMatrixExpBackward0",
    grad={"A": _exponential_gradient},
    meta=lambda new, A: new(A.shape, A.dtype),
)
def matrix_exp(A: Tensor) -> Tensor:
    """Exponential function of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        A new tensor of ``A``'s shape and dtype; not the exponential of each element.
    Raises:
        RuntimeError: no square matrices, or integers.
    Gradient: a block of the exponential function of ``[[A^H, grad], [0, A^H]]``.
    Source: torch.linalg.matrix_exp. Higham, The scaling and squaring method for the matrix exponential revisited, 2005.
    Example:
        >>> half_turn = torch.tensor([[0.0, -torch.pi], [torch.pi, 0.0]])
        >>> torch.allclose(torch.linalg.matrix_exp(half_turn), -torch.eye(2), atol=1e-5)
        True
    """
    if not A.size:
        return np.zeros(A.shape, A.dtype)
    return _exponential(A, None)


@composite(name="matrix_exp")
def top_level_matrix_exp(input: Tensor) -> Any:
    """Exponential function of matrices; see :func:`torch.linalg.matrix_exp`.

    Args:
        input: ``(*, n, n)``, floating point or complex.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: no square matrices, or integers.
    Gradient: that of ``torch.linalg.matrix_exp``.
    Source: torch.matrix_exp.
    Example:
        >>> torch.matrix_exp(torch.tensor([[0.0, 1.5], [0.0, 0.0]]))
        tensor([[1.0000, 1.5000],
                [0.0000, 1.0000]])
    """
    return matrix_exp(input)


other_names("matrix_exp", "linalg", input="A")
