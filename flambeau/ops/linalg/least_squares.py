"""Pseudo-inverses, least squares, ranks and condition numbers, and inverses of tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays import lapack
from ...core.calls.annotations import Number, Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, op, other_names
from ...core.calls.return_types import named_result
from ...core.shape import broadcast_shape, wrap_dim
from .decompositions import decomposed, eigvalsh, svdvals, symmetric_decomposed
from .inverses import inv, inv_ex
from .linear_systems import is_vector, solve
from .matrix_checks import check_info, real_dtype, require_matrices, require_square
from .norms import matrix_norm
from .products import matmul

_LSTSQ = named_result("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))


# -- tolerances ---------------------------------------------------------------------------------------------------------------------
def _tolerances(name: str, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Thresholds for singular values: absolute, and relative to the largest."""
    for word, value in (("atol", atol), ("rtol", rtol)):
        if hasattr(value, "dtype") and value.dtype.is_complex:
            raise RuntimeError(f"torch.linalg.{name}: {word} tensor of complex type is not supported. Got {value.dtype.legacy}")
    usual = np.finfo(A.dtype.numpy).eps * max(A.shape[-2:])
    if rtol is not None:
        return 0.0 if atol is None else atol, rtol
    if atol is None:
        return 0.0, usual
    if hasattr(atol, "where"):
        return atol, (atol > 0).logical_not() * usual
    return atol, 0.0 if atol > 0 else usual


def _require_float(A: Any) -> None:
    if A.dtype.category < dtypes.FLOATING or A.dtype.itemsize < 4:
        raise RuntimeError("This function doesn't handle types other than float and double")


# -- pseudo-inverse -----------------------------------------------------------------------------------------------------------------
def pinv_gradient(grad: Any, A: Any, P: Any) -> Any:
    """``-P^H grad P^H`` and what changes of the spaces of A's rows and columns add. Source: Golub and Pereyra, 1973."""
    PH, GH = P.mH, grad.mH
    left, right = GH @ P, P @ GH  # both parts are projected to where A is 0
    inside = (P @ left).mH
    left, right = left @ PH, PH @ right
    outside, beside = left - A @ (P @ left), right - (right @ P) @ A
    return outside + beside - inside


@op(
    batch=(2, 0, 0),
    name="_pinv",
    namespace="linalg",
    node_name="LinalgPinvBackward0",
    out=True,
    grad={"A": lambda grad, A, result: pinv_gradient(grad, A, result)},
    meta=lambda new, A, *rest: new((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype),
)
def _pseudo_inverse(A: Tensor, atol: Tensor | Number, rtol: Tensor | Number, hermitian: bool) -> Tensor:
    """``linalg.pinv`` with both tolerances."""
    if not A.size:
        return np.zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype)
    if hermitian:
        values, left = symmetric_decomposed(A, "L")
        right = left.swapaxes(-1, -2).conj()
    else:
        left, values, right = decomposed(A, False, True)
    size = np.abs(values)
    least = np.maximum(np.asarray(atol)[..., None], np.asarray(rtol)[..., None] * size.max(-1, keepdims=True))
    inverted = np.where(size > least, 1 / np.where(size > least, values, 1), 0).astype(values.dtype)
    product = (right.swapaxes(-1, -2).conj() * inverted[..., None, :]) @ left.swapaxes(-1, -2).conj()
    return np.ascontiguousarray(product)


@composite(namespace="linalg", method=False, out=True)
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Pseudo-inverse of a matrix, or of each in a batch: singular values that are small count as 0.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        rcond: as ``rtol``.
        hermitian: A is Hermitian; only its lower triangle is read.
        atol: singular values up to it count as 0; 0 when None. A number, or a tensor of the batch's shape.
        rtol: so do those up to this share of the largest one; max(m, n) times the dtype's precision when None and ``atol`` is.
    Returns:
        ``(*, n, m)``, ``A``'s dtype.
    Raises:
        RuntimeError: fewer than two dimensions, or another dtype.
        LinAlgError: NaN among the values.
    Gradient: ``-P^H grad P^H`` with P the result, and what changes of the spaces of A's rows and columns add.
    Source: torch.linalg.pinv. Golub and Pereyra 1973.
    Example:
        >>> A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> torch.allclose(A @ torch.linalg.pinv(A) @ A, A, atol=1e-4)
        True
    """
    if A.ndim < 2 or A.dtype.category < dtypes.FLOATING or A.dtype.itemsize < 4:
        raise RuntimeError(
            f"linalg.pinv({A.dtype.legacy}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or "
            "cdouble types"
        )
    if hermitian and A.numel():
        require_square("linalg.eigh", A)
    return _pseudo_inverse(A, *_tolerances("pinv", A, atol, rcond if rtol is None else rtol), hermitian)


@composite(autocast={"cpu": "float32"})
def pinverse(input: Tensor, rcond: float = 1e-15) -> Any:
    """Pseudo-inverse; see :func:`torch.linalg.pinv`.

    Args:
        input: ``(*, m, n)``, floating point or complex.
        rcond: singular values up to this share of the largest one count as 0.
    Returns:
        ``(*, n, m)``, ``input``'s dtype.
    Raises:
        RuntimeError: fewer than two dimensions, or another dtype.
        LinAlgError: NaN among the values.
    Gradient: that of ``torch.linalg.pinv``.
    Source: torch.pinverse.
    Example:
        >>> torch.pinverse(torch.tensor([[2.5, 0.0], [0.0, 0.0], [0.0, 0.0]]))
        tensor([[0.4000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    return pinv(input, rcond)


# -- ranks and condition numbers ----------------------------------------------------------------------------------------------------
@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Number of singular values above a tolerance.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        tol: as ``atol`` with an ``rtol`` of 0.
        hermitian: A is Hermitian; only its lower triangle is read.
        atol: singular values up to it count as 0; 0 when None. A number, or a tensor of the batch's shape.
        rtol: so do those up to this share of the largest one; max(m, n) times the dtype's precision when None and ``atol`` is.
    Returns:
        ``(*)``, int64.
    Raises:
        RuntimeError: fewer than two dimensions, or another dtype.
    Source: torch.linalg.matrix_rank.
    Example:
        >>> A = torch.diag(torch.tensor([5.0, 1.0, 1e-9]))
        >>> torch.linalg.matrix_rank(A), torch.linalg.matrix_rank(A, atol=2.0)
        (tensor(2), tensor(1))
    """
    require_matrices("torch.linalg.matrix_rank", A, "input")
    _require_float(A)
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = _tolerances("matrix_rank", A, atol, rtol)
    if not A.numel():
        return A.new_zeros(A.shape[:-2], dtype=dtypes.int64)
    A = A.detach()
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    least = values.amax(-1) * rtol
    least = least.maximum(atol) if hasattr(atol, "dtype") else least.clamp(min=atol)
    return (values > least.unsqueeze(-1)).sum(-1)


@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def cond(A: Tensor, p: Any = None) -> Any:
    """Condition number: the norm of a matrix times that of its inverse.

    Args:
        A: ``(*, n, n)``, floating point or complex; ``(*, m, n)`` for p of None, 2 and -2.
        p: the norm, as for ``linalg.matrix_norm``; 2 when None.
    Returns:
        ``(*)``, real; infinite for a singular matrix.
    Raises:
        RuntimeError: another norm, or matrices that are not square.
    Gradient: through the norms and the inverse, or through the singular values.
    Source: torch.linalg.cond.
    Example:
        >>> A = torch.tensor([[0.5, 0.0], [0.0, 4.0]])
        >>> torch.linalg.cond(A, 1), torch.linalg.cond(torch.zeros(2, 2), 1)
        (tensor(8.), tensor(inf))
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p not in (None, "fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p in (None, 2, -2) and A.numel():
        values = svdvals(A)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    if p not in (None, 2, -2):
        require_square(f"linalg.cond(ord={p})", A)
    if not A.numel():
        return A.detach().abs().new_zeros(A.shape[:-2])
    inverse, info = inv_ex(A)
    return (matrix_norm(A, p) * matrix_norm(inverse, p)).masked_fill(info != 0, math.inf)


# -- least squares ------------------------------------------------------------------------------------------------------------------
def _canonicalize_lstsq(A: Any, B: Any, rcond: Any, driver: Any) -> tuple[Any, ...]:
    name = "torch.linalg.lstsq"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if not B.ndim:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {A.dtype.legacy} and other's dtype "
            f"{B.dtype.legacy}"
        )
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    _require_float(A)
    vector = is_vector(A.shape, B.shape)
    if A.shape[-2] != B.shape[-1 if vector else -2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({-1 if vector else -2})")
    if not vector:
        broadcast_shape(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    if rcond is None:
        rcond = float(np.finfo(A.dtype.numpy).eps) * max(A.shape[-2:])
    return (A, B, float(rcond), driver or "gelsy")


def _lstsq_gradients(grads: Any, A: Any, B: Any, result: Any, needs: Any) -> Any:
    """Those of ``X = pinv(A) B``, and of the residuals, whose derivative by X is 0."""
    grad_X, grad_residuals = grads[0], grads[1]
    vector = is_vector(A.shape, B.shape)
    X, right = (result.unsqueeze(-1), B.unsqueeze(-1)) if vector else (result, B)
    grad_A = grad_B = None
    if grad_X is not None:
        grad_X = grad_X.unsqueeze(-1) if vector else grad_X
        inverse = pinv(A)
        grad_B = inverse.mH @ grad_X
        grad_A = pinv_gradient(grad_X @ right.mH, A, inverse) if needs[0] else None
    if grad_residuals is not None and grad_residuals.numel():
        rest = (A @ X - right) * (2 * grad_residuals.unsqueeze(-2))
        grad_A = rest @ X.mH if grad_A is None else grad_A + rest @ X.mH
        grad_B = -rest if grad_B is None else grad_B - rest
    return grad_A, grad_B.squeeze(-1) if vector and grad_B is not None else grad_B


def _lstsq_shapes(new: Any, A: Any, B: Any, rcond: Any, driver: str) -> Any:
    *_, m, n = A.shape
    vector = B.ndim == A.ndim - 1
    right = B[..., None] if vector else B
    lead = broadcast_shape(A.shape[:-2], right.shape[:-2])
    found = new((*lead, max(m, n), right.shape[-1]), A.dtype, columns=True)[..., :n, :]
    with_residuals = m > n and driver != "gelsy"
    residuals = new((*lead, right.shape[-1]) if with_residuals else (0,), real_dtype(A))
    rank = new((0,) if driver == "gels" else lead, np.int64)
    values = new((*lead, min(m, n)) if driver in ("gelsd", "gelss") else (0,), real_dtype(A))
    return found[..., 0] if vector else found, residuals, rank, values


@op(
    name="_lstsq",
    namespace="linalg",
    multi_output=True,
    promotion="same",
    canonicalize=_canonicalize_lstsq,
    node_name="LinalgLstsqBackward0",
    out=True,
    grad={"A, B": _lstsq_gradients},
    meta=_lstsq_shapes,
)
def _least_squares(A: Tensor, B: Tensor, rcond: Any, driver: Any) -> Tensor:
    """``linalg.lstsq``, with singular values that look differentiable."""
    vector = is_vector(A.shape, B.shape)
    right = B[..., None] if vector else B
    m, n = A.shape[-2:]
    whole, rank, values, info = lapack.least_squares(A, right, rcond, driver)
    if info.any():
        check_info(info, "torch.linalg.lstsq")
    solution, real = whole[..., :n, :], A.real.dtype
    residuals = np.empty(0, real)
    if m > n and driver != "gelsy" and (driver == "gels" or (rank == n).all()):
        rest = whole[..., n:, :]
        residuals = (rest.real * rest.real + rest.imag * rest.imag).sum(-2).astype(real)
    rank = np.empty(0, np.int64) if driver == "gels" else rank
    values = values if driver in ("gelsd", "gelss") else np.empty(0, real)
    return solution[..., 0] if vector else solution, residuals, rank, values


@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def lstsq(A: Tensor, B: Tensor, rcond: Any = None, *, driver: Any = None) -> Any:
    """The X of least norm for which ``A X - B`` has the least norm.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        B: ``(*, m, k)``, or ``(*, m)``; batches are broadcast.
        rcond: singular values up to this share of the largest one count as 0; max(m, n) times the dtype's precision when None.
        driver: LAPACK's 'gels' (A has full rank), 'gelsy', 'gelsd' or 'gelss'; 'gelsy' when None.
    Returns:
        ``solution``, ``(*, n, k)``; ``residuals``, ``(*, k)``: squared norms of ``A X - B``, empty unless m > n, A has full rank and
        the driver is not 'gelsy'; ``rank``, ``(*)``, empty for 'gels'; ``singular_values``, ``(*, min(m, n))`` for 'gelsd' and 'gelss'.
    Raises:
        RuntimeError: matrices that do not fit, different dtypes, or another driver.
        LinAlgError: 'gels' and a matrix without full rank; 'gelsd' or 'gelss' and one with values that are not finite.
    Gradient: to both, through the pseudo-inverse.
    Source: torch.linalg.lstsq.
    Example:
        >>> A = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])  # a line through three points
        >>> solution, residuals, rank, _ = torch.linalg.lstsq(A, torch.tensor([[1.5], [2.0], [2.5]]))
        >>> solution.flatten(), rank
        (tensor([1.5000, 0.5000]), tensor(2))
    """
    solution, residuals, rank, values = _least_squares(A, B, rcond, driver)
    return _LSTSQ((solution, residuals, rank, values.detach()))


# -- tensors as matrices ------------------------------------------------------------------------------------------------------------
@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def tensorinv(A: Tensor, ind: int = 2) -> Any:
    """Inverse of the map that ``tensordot`` with A is.

    Args:
        A: its first ``ind`` dimensions hold as many elements as the others.
        ind: how many dimensions of A are its first ones.
    Returns:
        A tensor of shape ``A.shape[ind:] + A.shape[:ind]``.
    Raises:
        RuntimeError: sizes that do not fit.
        LinAlgError: a map without inverse.
    Gradient: that of ``inv``, of the matrix that A is.
    Source: torch.linalg.tensorinv.
    Example:
        >>> A = torch.eye(6).reshape(2, 3, 6)
        >>> torch.linalg.tensorinv(A, ind=2).shape
        torch.Size([6, 2, 3])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    if ind > A.ndim:
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {A.ndim}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    count = math.prod(last)
    if count != math.prod(first):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {count} != "
            f"{math.prod(first)}"
        )
    return inv(A.reshape(count, count)).reshape((*last, *first))


@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Any:
    """X with ``tensordot(A, X, X.ndim) = B``.

    Args:
        A: its first dimensions have B's sizes; the others hold as many elements.
        B: the right hand side.
        dims: dimensions of A to move to its end first.
    Returns:
        A tensor with the sizes of A's other dimensions.
    Raises:
        RuntimeError: sizes that do not fit.
        LinAlgError: a map without inverse.
    Gradient: that of ``solve``, of the matrix that A is.
    Source: torch.linalg.tensorsolve.
    Example:
        >>> A = 2 * torch.eye(6).reshape(2, 3, 6)
        >>> torch.linalg.tensorsolve(A, torch.arange(6.0).reshape(2, 3))
        tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000])
    """
    if dims is not None:
        moved = [wrap_dim(dim, A.ndim) for dim in dims]
        A = A.permute([*(dim for dim in range(A.ndim) if dim not in moved), *moved])
    last = tuple(A.shape[B.ndim :])
    if math.prod(last) != B.numel():
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got "
            f"{math.prod(last)} != {B.numel()}"
        )
    return solve(A.reshape(math.prod(last), math.prod(last)), B.reshape(-1)).reshape(last)


@composite(name="diagonal", namespace="linalg", method=False)
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices, as a view; see :func:`torch.diagonal`.

    Args:
        A: ``(*, m, n)``.
        offset: which diagonal; above the main one where positive.
        dim1, dim2: the matrices' dimensions.
    Returns:
        A view ``(*, k)``, k the diagonal's length.
    Raises:
        IndexError: a dimension out of range.
    Gradient: ``grad`` on the diagonal, 0 elsewhere.
    Source: torch.linalg.diagonal.
    Example:
        >>> A = torch.tensor([[1, 2, 3], [4, 5, 6]])
        >>> torch.linalg.diagonal(A), torch.linalg.diagonal(A, offset=1)
        (tensor([1, 5]), tensor([2, 6]))
    """
    return A.diagonal(offset, dim1, dim2)


@composite(name="matmul", namespace="linalg", method=False, out=EXACT)
def linalg_matmul(input: Tensor, other: Tensor) -> Any:
    """Product of matrices; see :func:`torch.matmul`.

    Args:
        input: ``(*, n, m)`` or ``(m)``.
        other: ``(*, m, p)`` or ``(m)``; batches are broadcast.
    Returns:
        ``(*, n, p)``; without the dimension of an operand that is a vector.
    Raises:
        RuntimeError: sizes that do not fit, or different dtypes.
    Gradient: ``grad @ other^H`` and ``input^H @ grad``.
    Source: torch.linalg.matmul.
    Example:
        >>> torch.linalg.matmul(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 10]))
        tensor([21, 43])
    """
    return matmul(input, other)


for _name in ("cond", "matrix_rank", "pinv", "tensorinv"):
    other_names(_name, "linalg", input="A")
other_names("lstsq", "linalg", input="A", b="B")
other_names("tensorsolve", "linalg", input="A", other="B")
