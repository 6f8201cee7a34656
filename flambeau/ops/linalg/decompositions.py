"""Decompositions of matrices: QR, Householder reflections, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays import lapack, native
from ...core.arrays.kinds import kind_of, surely
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, op, other_names, resolve
from ...core.calls.return_types import named_result
from ...core.layout import contiguous_format
from ...core.tape.history import is_differentiated
from ..joining import cat
from .linear_systems import solve_ex, solve_triangular
from .matrix_checks import (
    LinAlgError,
    columns,
    complex_dtype,
    matrix_op,
    not_differentiable,
    real_dtype,
    require_kernel,
    require_matrices,
    require_numbers,
    require_square,
    warn_superseded,
)

_QR = named_result("qr", ("Q", "R"))
_SVD = named_result("svd", ("U", "S", "V"))
_REPEATED = "is ill-conditioned or has too many repeated eigenvalues (error code: 1)"
_GAUGE = 1e-2  # how far a loss may depend on the phase of a complex vector


# -- QR -----------------------------------------------------------------------------------------------------------------------------
def _qr_gradient(grads: Any, result0: Any, result1: Any, mode: str) -> Any:
    """``(gQ + Q S) R^-H`` with the Hermitian S whose upper triangle is that of ``gR R^H - Q^H gQ``.

    Of a wide matrix this holds for its square part X; the rest is ``Y = Q V``, so that ``gY = Q gV``, and ``Y gV^H`` is added to ``gQ``.
    """
    q, r = result0, result1
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you "
            "are going to differentiate through linalg.qr."
        )
    rows, columns = q.shape[-2], r.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    grad_q, grad_r = grads
    rest = None
    if rows < columns and grad_r is not None:
        grad_r, grad_v = grad_r[..., :rows], grad_r[..., rows:]
        rest = q @ grad_v
        turned = (q @ r[..., rows:]) @ grad_v.mH
        grad_q = turned if grad_q is None else grad_q + turned
    elif rows < columns:
        rest = q.new_zeros((*q.shape[:-1], columns - rows))
    r = r[..., :rows]
    products = [] if grad_r is None else [grad_r @ r.mH]
    if grad_q is not None:
        products.append(q.mH @ -grad_q)
    upper = products[0] + products[1] if len(products) == 2 else products[0]
    above = upper.triu(1)
    half = above + upper.diagonal(0, -2, -1).real.diag_embed() if upper.is_complex() else upper.triu()
    both = q @ (half + above.mH)
    square = solve_triangular(r.mH, both if grad_q is None else grad_q + both, upper=False, left=False)
    return square if rest is None else cat([square, rest], -1)


def _canonicalize_qr(A: Any, mode: str) -> tuple[Any, ...]:
    require_matrices("linalg.qr", A)
    require_numbers("linalg.qr", A, "geqrf_cpu")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    return (A, mode)


def _qr_shapes(new: Any, A: Any, mode: str) -> Any:
    *lead, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    Q = new((0,), A.dtype) if mode == "r" else new((*lead, m, k), A.dtype, columns=True)
    return Q, new((*lead, k, n), A.dtype, columns=True)


@matrix_op(
    work="16 * A.size",
    returns=("Q", "R"),
    canonicalize=_canonicalize_qr,
    grad={"A": _qr_gradient},
    node_name="LinalgQrBackward0",
    autocast={"cpu": "float32"},
    meta=_qr_shapes,
)
def qr(A: Tensor, mode: str = "reduced") -> Tensor:
    """QR decomposition: ``A = Q @ R`` with orthonormal columns in Q and upper triangular R.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        mode: 'reduced' (Q of shape ``(*, m, k)``, k = min(m, n)), 'complete' (``(*, m, m)``) or 'r' (Q empty).
    Returns:
        ``Q`` and ``R``, ``(*, k, n)`` or for 'complete' ``(*, m, n)``.
    Raises:
        RuntimeError: another dtype, fewer than two dimensions, or another mode; backward of mode 'r', and of the complete form of a matrix
            with more rows than columns.
    Gradient: ``(gQ + Q S) R^-H``, S the Hermitian matrix with the upper triangle of ``gR R^H - Q^H gQ``;
        of a wide matrix by its square part.
    Source: torch.linalg.qr.
    Example:
        >>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0], [0.0, 0.0]]))
        >>> Q.shape, R.abs()
        (torch.Size([3, 2]), tensor([[5.0000, 2.2000],
                [0.0000, 0.4000]]))
    """
    if mode == "r":
        return np.empty((0,), A.dtype), columns(np.linalg.qr(A, mode="r"))
    q, r = np.linalg.qr(A, mode=mode)
    return columns(q), columns(r)


@composite(name="qr", out=EXACT, autocast={"cpu": "float32"})
def top_level_qr(input: Tensor, some: bool = True) -> Any:
    """QR decomposition. Deprecated: ``torch.linalg.qr`` does the same.

    Args:
        input: ``(*, m, n)``, floating point or complex.
        some: the reduced form, not the complete one.
    Returns:
        ``Q`` and ``R``, ``input = Q @ R``; as of ``torch.linalg.qr``.
    Raises:
        RuntimeError: fewer than two dimensions, or another dtype.
    Gradient: that of ``torch.linalg.qr``.
    Source: torch.qr.
    Example:
        >>> Q, R = torch.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> R.abs(), torch.allclose(Q @ R, torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
        (tensor([[5.0000, 2.2000],
                [0.0000, 0.4000]]), True)
    """
    warn_superseded("qr", f"torch.linalg.qr(A, '{'reduced' if some else 'complete'}')")
    return _QR(qr(input, "reduced" if some else "complete"))


def _canonicalize_geqrf(input: Any) -> tuple[Any, ...]:
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    require_kernel("geqrf_cpu", input)
    return (input,)


@op(
    work="16 * input.size",
    batch=2,
    returns=("a", "tau"),
    promotion="same",
    canonicalize=_canonicalize_geqrf,
    grad={"input": not_differentiable("geqrf")},
    autocast={"cpu": "float32"},
    meta=lambda new, A: (new(A.shape, A.dtype, columns=True), new((*A.shape[:-2], min(A.shape[-2:])), A.dtype)),
)
def geqrf(input: Tensor) -> Tensor:
    """QR decomposition as LAPACK leaves it: R, and below it the Householder vectors of Q without their ones.

    Args:
        input: ``(*, m, n)``, floating point or complex.
    Returns:
        ``a``, ``(*, m, n)``, and the factors ``tau``, ``(*, min(m, n))``.
    Raises:
        RuntimeError: fewer than two dimensions.
        NotImplementedError: another dtype, and backward.
    Source: torch.geqrf.
    Example:
        >>> x = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
        >>> a, tau = torch.geqrf(x)
        >>> torch.allclose(torch.orgqr(a, tau) @ a.triu(), x)
        True
    """
    if not input.size:
        return input.copy(), np.zeros((*input.shape[:-2], min(input.shape[-2:])), input.dtype)
    packed, tau = np.linalg.qr(input, mode="raw")
    return columns(packed.swapaxes(-1, -2).astype(input.dtype)), tau.astype(input.dtype, "C")


# -- Householder reflections --------------------------------------------------------------------------------------------------------
def _reflectors(input: Any, tau: Any) -> tuple[Any, Any]:
    """V and T of the product of reflections ``I - V T V^H``. Source: Schreiber and Van Loan, 1989; Puglisi, 1992."""
    count = tau.shape[-1]
    vectors = input[..., :count].tril(-1)
    ones = resolve("torch", "eye")(vectors.shape[-2], count, dtype=vectors.dtype, device=vectors.device)
    vectors = vectors + ones
    inner = (vectors.mH @ vectors).triu(1)
    factors = tau.unsqueeze(-1) * inner
    return vectors, solve_triangular(factors, tau.diag_embed(), upper=True, unitriangular=True)


def _by_lapack(*operands: Any) -> bool:
    """Whether LAPACK may apply the reflections, without a derivative and on the host; or they are not there."""
    arrays = [operand._array for operand in operands]
    return not any(map(is_differentiated, operands)) and all(a.__class__ is np.ndarray or not kind_of(a).has_values for a in arrays)


@op(batch=(2, 1), grad=None, meta=lambda new, A, tau: new(A.shape, A.dtype, columns=True))
def _product_of_reflections(A: Tensor, tau: Tensor) -> Tensor:
    """``linalg.householder_product`` where no derivative is wanted."""
    return lapack.orgqr(A, tau)


@op(batch=(2, 1, 2), grad=None, meta=lambda new, A, tau, other, *rest: new(other.shape, other.dtype, columns=True))
def _apply_reflections(A: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    """``ormqr`` where no derivative is wanted."""
    return lapack.ormqr(A, tau, other, left, transpose)


def _by_columns(matrices: Any) -> Any:
    return matrices.mT.clone(memory_format=contiguous_format).mT


@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def householder_product(A: Tensor, tau: Tensor) -> Any:
    """The first n columns of a product of Householder reflections, such as Q of ``geqrf``.

    Args:
        A: ``(*, m, n)``, m at least n: the vectors are its columns below the diagonal, with a one on it.
        tau: ``(*, k)``, k at most n: the factors.
    Returns:
        ``(*, m, n)``, ``A``'s dtype.
    Raises:
        RuntimeError: shapes that do not fit, or different dtypes.
    Gradient: through the product of the reflections, to both.
    Source: torch.linalg.householder_product.
    Example:
        >>> torch.linalg.householder_product(torch.tensor([[0.0], [1.0]]), torch.tensor([1.0]))
        tensor([[ 0.],
                [-1.]])
    """
    name = "torch.linalg.householder_product"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _require_factors(name, A, tau)
    require_kernel("orgqr_cpu", A)
    if _by_lapack(A, tau):
        return _product_of_reflections(A, tau)
    vectors, inner = _reflectors(A, tau)
    ones = resolve("torch", "eye")(m, n, dtype=A.dtype, device=A.device)
    return _by_columns(ones - vectors @ (inner @ vectors[..., :n, :].mH))


@composite(out=True, autocast={"cpu": "float32"})
def orgqr(input: Tensor, input2: Tensor) -> Any:
    """The matrix Q of :func:`torch.geqrf`, from its Householder vectors; see ``torch.linalg.householder_product``.

    Args:
        input: ``(*, m, n)``, m at least n: ``a`` of ``geqrf``.
        input2: ``(*, k)``, k at most n: ``tau`` of ``geqrf``.
    Returns:
        ``(*, m, n)`` with orthonormal columns.
    Raises:
        RuntimeError: shapes that do not fit, or different dtypes.
    Gradient: through the product of the reflections, to both.
    Source: torch.orgqr.
    Example:
        >>> Q = torch.orgqr(*torch.geqrf(torch.tensor([[3.0], [4.0]])))
        >>> Q.abs()
        tensor([[0.6000],
                [0.8000]])
    """
    return householder_product(input, input2)


def _require_factors(name: str, A: Any, tau: Any) -> None:
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is equal to "
            f"{A.ndim}"
        )
    if tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise RuntimeError(f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}")
    if tau.dtype is not A.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype.legacy} does not match input dtype {A.dtype.legacy}")


@composite(out=EXACT, autocast={"cpu": "float32"})
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Any:
    """The product of a matrix and Q, the whole product of Householder reflections.

    Args:
        input: ``(*, m, k)``: the vectors.
        tau: ``(*, min(m, k))``: the factors.
        other: ``(*, m, n)``, or ``(*, n, m)`` where Q stands right.
        left: Q stands left.
        transpose: multiply by ``Q^H`` instead.
    Returns:
        ``other``'s shape and dtype.
    Raises:
        RuntimeError: shapes that do not fit, or different dtypes.
    Gradient: ``Q^H grad`` (or its counterpart) to ``other``, through the reflections to ``input`` and ``tau``.
    Source: torch.ormqr.
    Example:
        >>> x = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
        >>> a, tau = torch.geqrf(x)
        >>> torch.allclose(torch.ormqr(a, tau, a.triu()), x)  # Q @ R
        True
    """
    for word, operand in (("input", input), ("other", other)):
        if operand.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {word} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if not tau.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if tau.shape[-1] != min(other.shape[side], input.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    _require_factors("torch.ormqr", input, tau)
    if other.ndim != input.ndim:
        raise RuntimeError(
            f"torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to {other.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if tuple(other.shape[:-2]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got {list(other.shape[:-2])}"
        )
    if other.dtype is not input.dtype:
        raise RuntimeError(
            f"torch.ormqr: Expected input and other to have the same dtype, but input has dtype {input.dtype.legacy} and other has dtype "
            f"{other.dtype.legacy}"
        )
    require_kernel("ormqr_cpu", input)
    if not tau.numel():
        return _by_columns(other)
    if _by_lapack(input, tau, other):
        return _apply_reflections(input, tau, other, left, transpose)
    vectors, inner = _reflectors(input, tau)
    inner = inner.mH if transpose else inner
    if left:
        return _by_columns(other - vectors @ (inner @ (vectors.mH @ other)))
    return _by_columns(other - ((other @ vectors) @ inner) @ vectors.mH)


# -- eigenvalues --------------------------------------------------------------------------------------------------------------------
def _differences(values: Any) -> Any:
    """``values[j] - values[i]`` at (i, j), 1 on the diagonal."""
    difference = values.unsqueeze(-2) - values.unsqueeze(-1)
    return difference.masked_fill(_diagonal_mask(values), 1)


def _diagonal_mask(values: Any) -> Any:
    return resolve("torch", "eye")(values.shape[-1], dtype=dtypes.bool_, device=values.device)


def _check_phase(diagonal: Any, message: str) -> None:
    if diagonal.is_complex() and not surely((diagonal.detach().imag.abs() <= _GAUGE).all()):
        raise RuntimeError(message)


def _eigenvector_part(name: str, V: Any, grad_V: Any) -> Any:
    product = V.mH @ grad_V
    _check_phase(
        product.diagonal(0, -2, -1),
        f"{name}_backward: The eigenvectors in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
        "function depends on this quantity, so it is ill-defined.",
    )
    return product


def _eigh_gradient(grads: Any, result0: Any, result1: Any) -> Any:
    """``V (diag(gL) + skew(V^H gV) / 2 (L_j - L_i)) V^H``, Hermitian. Source: Giles, Matrix derivative results, 2008."""
    grad_values, grad_vectors = grads
    L, V = result0, result1
    if grad_vectors is None:
        return None if grad_values is None else (V * grad_values.unsqueeze(-2)) @ V.mH
    inside = _skew(_eigenvector_part("linalg_eigh", V, grad_vectors)) * 0.5 / _differences(L)
    inside = inside.masked_fill(_diagonal_mask(L), 0)
    if grad_values is not None:
        inside = inside + grad_values.diag_embed()
    return V @ inside @ V.mH


def _canonicalize_eigh(A: Any, UPLO: str) -> tuple[Any, ...]:
    require_square("linalg.eigh", A)
    require_kernel("linalg_eigh_cpu", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return (A, UPLO.upper())


@matrix_op(
    returns=("eigenvalues", "eigenvectors"),
    canonicalize=_canonicalize_eigh,
    node_name="LinalgEighBackward0",
    grad={"A": _eigh_gradient},
    aten=None,
    autocast={"cpu": "float32"},
    meta=lambda new, A, UPLO: (new(A.shape[:-1], real_dtype(A)), new(A.shape, A.dtype, columns=True)),
)
def eigh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, rising, and orthonormal eigenvectors of a symmetric or Hermitian matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        UPLO: which triangle is read, 'L' or 'U'.
    Returns:
        ``eigenvalues``, ``(*, n)``, real; ``eigenvectors``, ``(*, n, n)``, as columns.
    Raises:
        RuntimeError: no square matrices, or another ``UPLO``; in backward, a loss that depends on the vectors' phase.
        LinAlgError: the iteration does not converge.
        NotImplementedError: integers.
    Gradient: ``V (diag(gL) + skew(V^H gV) / 2 (L_j - L_i)) V^H``; finite where eigenvalues that it needs apart are distinct.
    Source: torch.linalg.eigh.
    Example:
        >>> L, V = torch.linalg.eigh(torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
        >>> L, V.abs()
        (tensor([0.5000, 1.5000]), tensor([[0.7071, 0.7071],
                [0.7071, 0.7071]]))
    """
    values, vectors = symmetric_decomposed(A, UPLO)
    return values, columns(vectors)


def symmetric_decomposed(A: Any, UPLO: str, vectors: bool = True) -> Any:
    """Eigenvalues, rising, of symmetric or Hermitian matrices, and eigenvectors where they are wanted.

    Raises:
        LinAlgError: LAPACK finds none.
    """
    if not np.isfinite(A).all():
        return _without_infinities(A, UPLO, vectors)
    try:
        result = _eigen_of_symmetric(A, UPLO, vectors)
    except np.linalg.LinAlgError:
        raise _not_converged("linalg.eigh", A, np.zeros(A.shape[:-2], bool), _REPEATED) from None
    failed = ~np.isfinite(result[0] if vectors else result).all(-1)
    if failed.any():
        raise _not_converged("linalg.eigh", A, failed, _REPEATED)
    return result


@native.part("_eigh", work="16 * A.size")
def _eigen_of_symmetric(A: Any, UPLO: str, vectors: bool) -> Any:
    """Eigenvalues, and eigenvectors where they are wanted."""
    return np.linalg.eigh(A, UPLO) if vectors else np.linalg.eigvalsh(A, UPLO)


def _without_infinities(A: Any, UPLO: str, vectors: bool) -> Any:
    """Eigenvalues, and vectors where they are wanted: NaN of matrices with infinities, and of small ones with NaN.

    Raises:
        LinAlgError: a matrix of three rows or more with NaN in it, or an iteration that does not converge.
    """
    triangle = np.tril(A) if UPLO.upper() == "L" else np.triu(A)
    finite, hopeless = np.isfinite(triangle).all((-2, -1)), np.isnan(triangle).any((-2, -1))
    if A.shape[-1] > 2 and hopeless.any():
        raise _not_converged("linalg.eigh", A, hopeless, _REPEATED)
    tame = np.where(finite[..., None, None], triangle, A.dtype.type(0))  # LAPACK may iterate for ever on infinities
    made = symmetric_decomposed(tame, UPLO, vectors)
    values = made[0] if vectors else made
    values = np.where(finite[..., None], values, np.real(A[..., 0]) if A.shape[-1] == 1 else values.dtype.type(np.nan))
    return (values, np.where(finite[..., None, None], made[1], A.dtype.type(np.nan))) if vectors else values


def _not_converged(operation: str, A: Any, failed: Any, what: str) -> LinAlgError:
    """The error for the first matrix that failed."""
    where = f" (Batch element {int(failed.reshape(-1).argmax())}):" if A.ndim > 2 else ""
    return LinAlgError(f"{operation}:{where} The algorithm failed to converge because the input matrix {what}.")


@matrix_op(
    name="_eigvalsh", canonicalize=_canonicalize_eigh, out=EXACT, grad=None, meta=lambda new, A, UPLO: new(A.shape[:-1], real_dtype(A))
)
def _eigenvalues_of_symmetric(A: Tensor, UPLO: str = "L") -> Tensor:
    """``linalg.eigvalsh`` where no derivative is wanted."""
    return symmetric_decomposed(A, UPLO, False)


@composite(namespace="linalg", method=False, out=EXACT, autocast={"cpu": "float32"})
def eigvalsh(A: Tensor, UPLO: str = "L") -> Any:
    """Eigenvalues, rising, of a symmetric or Hermitian matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        UPLO: which triangle is read, 'L' or 'U'.
    Returns:
        ``(*, n)``, real.
    Raises:
        RuntimeError: no square matrices.
        LinAlgError: the iteration does not converge.
    Gradient: ``V diag(grad) V^H``.
    Source: torch.linalg.eigvalsh.
    Example:
        >>> torch.linalg.eigvalsh(torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
        tensor([0.5000, 1.5000])
    """
    return eigh(A, UPLO)[0] if is_differentiated(A) else _eigenvalues_of_symmetric(A, UPLO)


def _eig_gradient(grads: Any, result0: Any, result1: Any) -> Any:
    """``V^-H (diag(gL) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(L_j - L_i)) V^H``. Source: Boeddeker et al., 2017."""
    grad_values, grad_vectors = grads
    L, V = result0, result1
    if grad_vectors is None:
        return None if grad_values is None else solve_ex(V.mH, grad_values.unsqueeze(-1) * V.mH)[0]
    inside = _eigenvector_part("linalg_eig", V, grad_vectors)
    inside = inside - (V.mH @ V) * inside.diagonal(0, -2, -1).real.unsqueeze(-2)
    inside = (inside / _differences(L).conj()).masked_fill(_diagonal_mask(L), 0)
    if grad_values is not None:
        inside = inside + grad_values.diag_embed()
    return solve_ex(V.mH, inside @ V.mH)[0]


def _canonicalize_eig(name: str) -> Any:
    def canonicalize(A: Any) -> tuple[Any, ...]:
        if A.dtype.category < dtypes.FLOATING:
            raise RuntimeError(f"Unknown Complex ScalarType for {A.dtype.legacy}")
        require_square(name, A)
        require_kernel("linalg_eig_out_cpu", A)
        return (A,)

    return canonicalize


def _require_finite(A: Any) -> None:
    if not np.isfinite(A).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")


def _complex_of(kind: Any) -> Any:
    return np.complex64 if kind in (np.float32, np.complex64) else np.complex128


@op(
    batch=2,
    namespace="linalg",
    returns=("eigenvalues", "eigenvectors"),
    canonicalize=_canonicalize_eig("linalg.eig"),
    node_name="LinalgEigBackward0",
    grad={"A": _eig_gradient},
    autocast={"cpu": "float32"},
    meta=lambda new, A: (new(A.shape[:-1], complex_dtype(A)), new(A.shape, complex_dtype(A), columns=True)),
)
def eig(A: Tensor) -> Tensor:
    """Eigenvalues and eigenvectors of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        ``eigenvalues``, ``(*, n)``, and ``eigenvectors``, ``(*, n, n)``, of norm 1, as columns; complex, in no order.
    Raises:
        RuntimeError: no square matrices, or infinite values; in backward, a loss that depends on the vectors' phase.
    Gradient: finite where eigenvalues that it needs apart are distinct.
    Source: torch.linalg.eig.
    Example:
        >>> turn = torch.tensor([[0.0, -1.5], [1.5, 0.0]])
        >>> L, V = torch.linalg.eig(turn)
        >>> L.imag.sort().values, torch.allclose((turn + 0j) @ V, V * L)
        (tensor([-1.5000,  1.5000]), True)
    """
    _require_finite(A)
    values, vectors = _eigen(A, True)
    return values.astype(_complex_of(A.dtype)), columns(vectors.astype(_complex_of(A.dtype)))


@op(
    batch=2,
    name="_eigvals",
    namespace="linalg",
    canonicalize=_canonicalize_eig("linalg.eigvals"),
    out=True,
    grad=None,
    meta=lambda new, A: new(A.shape[:-1], complex_dtype(A)),
)
def _eigenvalues(A: Tensor) -> Tensor:
    """``linalg.eigvals`` where no derivative is wanted."""
    _require_finite(A)
    return _eigen(A, False).astype(_complex_of(A.dtype))


@native.part("_eig", work="16 * A.size")
def _eigen(A: Any, vectors: bool) -> Any:
    """Eigenvalues, and eigenvectors where they are wanted."""
    return np.linalg.eig(A) if vectors else np.linalg.eigvals(A)


@composite(namespace="linalg", method=False, out=True, autocast={"cpu": "float32"})
def eigvals(A: Tensor) -> Any:
    """Eigenvalues of a square matrix, or of each in a batch.

    Args:
        A: ``(*, n, n)``, floating point or complex.
    Returns:
        ``(*, n)``, complex, in no order.
    Raises:
        RuntimeError: no square matrices, or infinite values.
    Gradient: ``V^-H diag(grad) V^H``.
    Source: torch.linalg.eigvals.
    Example:
        >>> L = torch.linalg.eigvals(torch.tensor([[0.0, -1.5], [1.5, 0.0]]))
        >>> L.imag.sort().values  # L.real is 0
        tensor([-1.5000,  1.5000])
    """
    return eig(A)[0] if is_differentiated(A) else _eigenvalues(A)


# -- singular values ----------------------------------------------------------------------------------------------------------------
def _skew(matrices: Any) -> Any:
    return matrices - matrices.mH


def _svd_gradient(grads: Any, result0: Any, result1: Any, result2: Any) -> Any:
    """``U ((skew(U^H gU) S + S skew(V^H gV)) / (S_j^2 - S_i^2) + diag(gS)) V^H``, and the vectors' parts outside the spaces of U and V.

    Source: Townsend, Differentiating the singular value decomposition, 2016; Wan and Zhang, 2019, for complex matrices.
    """
    grad_U, grad_S, grad_Vh = grads
    S, k = result1, result1.shape[-1]
    U, Vh = result0[..., :k], result2[..., :k, :]
    rows, columns = U.shape[-2], Vh.shape[-1]
    if grad_U is None and grad_Vh is None:
        return None if grad_S is None else (U * grad_S.unsqueeze(-2)) @ Vh
    grad_U = None if grad_U is None else grad_U[..., :k]
    grad_Vh = None if grad_Vh is None else grad_Vh[..., :k, :]
    left = None if grad_U is None else _skew(U.mH @ grad_U)
    right = None if grad_Vh is None else _skew(Vh @ grad_Vh.mH)
    turned: Any = left if right is None else right if left is None else left + right
    _check_phase(
        turned.diagonal(0, -2, -1),
        "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss "
        "function depends on this phase term, making it ill-defined.",
    )
    squares = (S * S).unsqueeze(-2) - (S * S).unsqueeze(-1)
    squares = squares.masked_fill(_diagonal_mask(S), 1)
    inside: Any = 0
    if left is not None:
        inside = left / squares * S.unsqueeze(-2)
    if right is not None:
        inside = inside + S.unsqueeze(-1) * (right / squares)
    if U.is_complex():  # the phase that U and V share
        inside = inside.masked_fill(_diagonal_mask(S), 0)
        if left is not None:
            inside = inside + (left.diagonal(0, -2, -1) / (2 * S)).diag_embed()
    if grad_S is not None:
        inside = inside + grad_S.diag_embed()
    if rows > k and grad_U is not None:
        outside = grad_U / S.unsqueeze(-2)
        return (U @ inside + outside - U @ (U.mH @ outside)) @ Vh
    if columns > k and grad_Vh is not None:
        outside = grad_Vh / S.unsqueeze(-1)
        return U @ (inside @ Vh + outside - (outside @ Vh.mH) @ Vh)
    return U @ inside @ Vh


def _canonicalize_svd(A: Any, full_matrices: bool, driver: Any) -> tuple[Any, ...]:
    require_matrices("linalg.svd", A)
    require_numbers("linalg.svd", A, "linalg_svd_cpu")
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
    return (A, full_matrices, driver)


def decomposed(A: Any, full_matrices: bool, vectors: bool) -> Any:
    """U, S and Vh of matrices, or S alone.

    Raises:
        LinAlgError: a matrix with NaN in it.
    """
    finite = np.isfinite(A).all((-2, -1))
    if finite.all():
        return _svd_of_finite(A, A, full_matrices, vectors)
    hopeless = np.isnan(A).any((-2, -1))
    if hopeless.any():
        raise _not_converged("linalg.svd", A, hopeless, "contained non-finite values")
    # LAPACK may iterate for ever on infinities
    made = _svd_of_finite(np.where(finite[..., None, None], A, A.dtype.type(0)), A, full_matrices, vectors)
    U, S, Vh = made if vectors else (None, made, None)
    S = np.where(finite[..., None], S, S.dtype.type(np.nan))
    return (U, S, Vh) if vectors else S


@native.part("_svd", work="16 * A.size")
def _singular(A: Any, full_matrices: bool, vectors: bool) -> Any:
    """U, S and Vh, or S alone."""
    return np.linalg.svd(A, full_matrices, vectors)


def _svd_of_finite(finite: Any, A: Any, full_matrices: bool, vectors: bool) -> Any:
    try:
        result = _singular(finite, full_matrices, vectors)
    except np.linalg.LinAlgError:
        raise _not_converged("linalg.svd", A, np.zeros(A.shape[:-2], bool), "contained non-finite values") from None
    failed = ~np.isfinite(result[1] if vectors else result).all(-1)
    if failed.any():
        raise _not_converged("linalg.svd", A, failed, "contained non-finite values")
    return result


def _svd_shapes(new: Any, A: Any, full_matrices: bool, driver: Any = None) -> Any:
    *lead, m, n = A.shape
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    U, Vh = new((*lead, m, left), A.dtype, columns=True), new((*lead, right, n), A.dtype, columns=True)
    return U, new((*lead, k), real_dtype(A)), Vh


@matrix_op(
    returns=("U", "S", "Vh"),
    canonicalize=_canonicalize_svd,
    node_name="LinalgSvdBackward0",
    grad={"A": _svd_gradient},
    aten=None,
    autocast={"cpu": "float32"},
    meta=_svd_shapes,
)
def svd(A: Tensor, full_matrices: bool = True, *, driver: Any = None) -> Tensor:
    """Singular value decomposition: ``A = U diag(S) Vh`` with orthonormal columns in U and rows in Vh.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        full_matrices: U is ``(*, m, m)`` and Vh ``(*, n, n)``; otherwise ``(*, m, k)`` and ``(*, k, n)``, k the smaller of m and n.
        driver: of CUDA only.
    Returns:
        ``U``; ``S``, ``(*, k)``, real and falling; ``Vh``.
    Raises:
        RuntimeError: fewer than two dimensions, another dtype, or a ``driver``; in backward, a loss that depends on the vectors' phase.
        LinAlgError: a matrix with NaN in it; of one with infinities the values are NaN.
    Gradient: finite where singular values are distinct and, of a matrix that is not square, not 0; only that of S otherwise.
    Source: torch.linalg.svd.
    Example:
        >>> A = torch.tensor([[0.0, 2.5], [3.5, 0.0], [0.0, 0.0]])
        >>> U, S, Vh = torch.linalg.svd(A, full_matrices=False)
        >>> S, torch.allclose(U @ torch.diag(S) @ Vh, A)
        (tensor([3.5000, 2.5000]), True)
    """
    U, S, Vh = decomposed(A, full_matrices, True)
    return columns(U), S, columns(Vh)


@matrix_op(name="_svdvals", out=EXACT, grad=None, meta=lambda new, A: _svd_shapes(new, A, False)[1])
def _singular_values(A: Tensor) -> Tensor:
    """``linalg.svdvals`` where no derivative is wanted."""
    return decomposed(A, False, False)


@composite(namespace="linalg", method=False, out=EXACT, autocast={"cpu": "float32"})
def svdvals(A: Tensor, *, driver: Any = None) -> Any:
    """Singular values, falling, of a matrix, or of each in a batch.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        driver: of CUDA only.
    Returns:
        ``(*, min(m, n))``, real.
    Raises:
        RuntimeError: fewer than two dimensions, or another dtype.
        LinAlgError: a matrix with NaN in it; of one with infinities the values are NaN.
    Gradient: ``U diag(grad) Vh``.
    Source: torch.linalg.svdvals.
    Example:
        >>> torch.linalg.svdvals(torch.tensor([[0.0, 2.5], [3.5, 0.0]]))
        tensor([3.5000, 2.5000])
    """
    _canonicalize_svd(A, False, driver)
    return svd(A, False)[1] if is_differentiated(A) else _singular_values(A)


@composite(name="svd", out=EXACT, autocast={"cpu": "float32"})
def top_level_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Singular value decomposition that returns V, not its adjoint; see :func:`torch.linalg.svd`.

    Args:
        input: ``(*, m, n)``, floating point or complex.
        some: the reduced form.
        compute_uv: U and V are zeros when False.
    Returns:
        ``U``; ``S``, ``(*, min(m, n))``, real and falling; ``V``: ``input = U diag(S) V^H``.
    Raises:
        RuntimeError: fewer than two dimensions, or another dtype.
    Gradient: that of ``torch.linalg.svd``.
    Source: torch.svd.
    Example:
        >>> U, S, V = torch.svd(torch.tensor([[0.0, 2.5], [3.5, 0.0], [0.0, 0.0]]))
        >>> S, U.shape, V.shape
        (tensor([3.5000, 2.5000]), torch.Size([3, 2]), torch.Size([2, 2]))
    """
    if input.ndim < 2:
        raise RuntimeError(f"linalg.svd: input should have at least 2 dimensions, but has {input.ndim} dimensions instead")
    if compute_uv:
        U, S, Vh = svd(input, not some)
        return _SVD((U, S, Vh.mH))
    rows, columns = input.shape[-2:]
    zeros = [input.new_zeros((*input.shape[:-2], n, n)) for n in (rows, columns)]
    return _SVD((zeros[0], svdvals(input), zeros[1].mT))


for _name in ("eig", "eigh", "eigvals", "eigvalsh", "householder_product"):
    other_names(_name, "linalg", input="A")
other_names("ormqr", input2="tau", input3="other")
