"""Norms of vectors and matrices, and distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.kinds import perhaps
from ...core.calls.annotations import Tensor
from ...core.calls.casting import cast_array
from ...core.calls.out import EXACT
from ...core.calls.registry import TABLES, composite, op, other_names
from ...core.shape import reduced_shape, wrap_dim, wrap_dims
from ..reduction import add_reduce, array_dims, kept
from .matrix_checks import require_floating, require_numbers

_F8, _F4 = np.dtype(np.float64), np.dtype(np.float32)


# -- vector norms -----------------------------------------------------------------------------------------------------------------
def _order(ord: Any) -> float:
    if isinstance(ord, str):
        raise TypeError("linalg.vector_norm(): argument 'ord' must be Number, not str")
    return float(ord)


def _canonicalize_vector_norm(input: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> tuple[Any, ...]:
    array = input._array
    require_floating("linalg.vector_norm", input)
    if dtype is not None and dtype.category < dtypes.FLOATING:
        raise RuntimeError(f"linalg.vector_norm: dtype should be floating point or complex, but got {dtype.legacy}")
    if dtype is not None and dtype is not input.dtype:
        if dtype.is_complex != input.dtype.is_complex:
            kind = "complex" if input.dtype.is_complex else "real"
            raise RuntimeError(f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {dtype.legacy}")
        if dtypes.promote_types(input.dtype, dtype) is not dtype:
            raise RuntimeError(
                f"linalg.vector_norm: the dtype of the input ({input.dtype.legacy}) should be convertible without narrowing to the "
                f"specified dtype ({dtype.legacy})"
            )
    dims = array_dims(dim, array)
    order = _order(ord)
    if (order < 0 or order == math.inf) and any(array.shape[d] == 0 for d in dims):
        if dim is None:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {order} norm on an empty tensor because the operation does not have an identity"
            )
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {order} norm on the dimension {dims[0]} because this dimension is empty and the "
            "operation does not have an identity"
        )
    return (input, order, dims, keepdim, dtype)


def _vector_norm_gradient(grad: Any, x: Any, result: Any, ord: Any, dim: Any, keepdim: bool) -> Any:
    input, ndim = x, x.ndim
    grad, result = kept(grad, dim, keepdim, ndim), kept(result, dim, keepdim, ndim)
    if input.dtype is not result.dtype:
        wide = result.dtype.to_complex() if input.is_complex() else result.dtype
        input = input.to(wide)
    order = float(ord)
    if order == 0:
        return input.new_zeros(input.shape)
    if order == 1:
        return input.sgn() * grad
    if order == 2:
        at_zero = result == 0
        if perhaps(at_zero.any()):  # NaN in the second derivative, which is not there
            return (input / result).masked_fill(at_zero, 0) * grad
        return input * (grad / result)
    if math.isinf(order):
        size = input.abs()
        chosen = size.isnan() | (size == result) if perhaps(result.isnan().any()) else size == result
        dims = wrap_dims(dim, ndim) if ndim else ()
        count = chosen.sum(dims, True) if ndim else chosen.sum()
        return input.sgn() * chosen * (grad / count)
    if order < 1:
        scale = input.sgn() * input.abs().pow(order - 1).masked_fill(input == 0, 0)
        return scale * grad * result.pow(1 - order)
    if order < 2:
        scale = input.sgn() * input.abs().pow(order - 1)
    else:
        scale = input * input.abs().pow(order - 2)
    return scale * (grad / result.pow(order - 1)).masked_fill(result == 0, 0)


def norm_array(array: np.ndarray, order: float, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """The norm of order ``order`` over ``dims``, real."""
    size = np.abs(array)
    if math.isinf(order):
        ufunc = np.maximum if order > 0 else np.minimum
        out = np.empty(reduced_shape(size.shape, dims, keepdim), size.dtype)
        return ufunc.reduce(size, axis=dims, keepdims=keepdim, out=out) if dims else np.asarray(size).copy()
    if order == 0:
        return add_reduce((size != 0).astype(size.dtype), dims, keepdim, size.dtype)
    if order == 1:
        return add_reduce(size, dims, keepdim, size.dtype)
    if order == 2:
        wide = np.multiply(size, size, dtype=_F8)  # float32 squares overflow above 1.8e19
        return np.sqrt(add_reduce(wide, dims, keepdim, _F8)).astype(size.dtype)
    total = add_reduce(np.power(size, size.dtype.type(order)), dims, keepdim, size.dtype)
    return np.asarray(np.power(total, size.dtype.type(1 / order)))


def _fast_vector_norm(a: np.ndarray, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None or ord != 2 or dim is not None or keepdim or a.dtype.kind != "f" or not a.flags.c_contiguous:
        return None
    flat = a.reshape(-1)
    length = math.sqrt(flat.dot(flat))
    return np.array(length, a.dtype) if 1e-18 < length < 1e18 else None  # squares neither overflow nor vanish in between


@op(
    out=EXACT,
    namespace="linalg",
    promotion="same",
    opmath="native",
    canonicalize=_canonicalize_vector_norm,
    fast=_fast_vector_norm,
    node_name="LinalgVectorNormBackward0",
    grad={"x": _vector_norm_gradient},
    autocast={"cuda": "result"},
    forward="reduces",
    batch="along all",
)
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``sum(abs(x)**ord)**(1/ord)`` over ``dim``; the largest or smallest size for an infinite ``ord``.

    Args:
        x: any shape, floating point or complex.
        ord: order; 0 counts what is not 0.
        dim: dimension or dimensions; all, as one vector, when None.
        keepdim: keep each reduced dimension with size 1.
        dtype: cast to it first.
    Returns:
        ``x``'s shape without ``dim``; real, of ``x``'s precision or ``dtype``'s.
    Raises:
        RuntimeError: integers, a ``dtype`` that is narrower, or an empty dimension where the order has no value for it.
        TypeError: ``ord`` is a string.
    Gradient: ``grad * x / result`` for order 2; of an infinite order shared by the largest elements.
    Source: torch.linalg.vector_norm.
    Example:
        >>> x = torch.tensor([[3.0, -4.0], [6.0, 8.0]])
        >>> torch.linalg.vector_norm(x, dim=1)
        tensor([ 5., 10.])
        >>> torch.linalg.vector_norm(x, torch.inf)
        tensor(8.)
    """
    x = x if dtype is None else cast_array(x, dtype)
    if x.dtype.itemsize < 4:
        return np.asarray(norm_array(x.astype(_F4), float(ord), dim, keepdim)).astype(x.dtype)
    return norm_array(x, float(ord), dim, keepdim)


# -- matrix norms -----------------------------------------------------------------------------------------------------------------
def _to_back(tensor: Any, dims: tuple[int, int]) -> Any:
    rest = [d for d in range(tensor.ndim) if d not in dims]
    return tensor.permute([*rest, *dims])


def _extreme(values: Any, ord: float, dim: int, keepdim: bool = False) -> Any:
    """The largest, or for a negative order the smallest, along ``dim``; 0 is the largest size of none."""
    if ord < 0:
        return values.amin(dim, keepdim)
    return values.amax(dim, keepdim) if values.shape[dim] else values.detach().sum(dim, keepdim)


def _spectral(A: Any, ord: Any, dims: tuple[int, int], keepdim: bool) -> Any:
    values = TABLES["linalg"]["svdvals"].wrapper(_to_back(A, dims))
    norms = values.sum(-1) if ord == "nuc" else _extreme(values, ord, -1)
    if keepdim:
        for axis in sorted(dims):
            norms = norms.unsqueeze(axis)
    return norms


@composite(namespace="linalg", method=False, out=EXACT, autocast={"cuda": "result"})
def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norm of matrices.

    Args:
        A: ``(*, m, n)``, floating point or complex.
        ord: 'fro' (root of the sum of squares), 'nuc' (sum of singular values), inf and -inf (largest and smallest sum of sizes of a row),
            1 and -1 (of a column), 2 and -2 (largest and smallest singular value).
        dim: the matrices' two dimensions.
        keepdim: keep them with size 1.
        dtype: cast to it first.
    Returns:
        ``A``'s shape without the two dimensions; real.
    Raises:
        RuntimeError: integers, fewer than two dimensions, or an unknown order.
    Source: torch.linalg.matrix_norm.
    Example:
        >>> A = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
        >>> torch.linalg.matrix_norm(A, 1), torch.linalg.matrix_norm(A, torch.inf)  # of columns, of rows
        (tensor(6.), tensor(7.))
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    require_floating("linalg.matrix_norm", A)
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dims)}")
    rows, columns = wrap_dims(dims, A.ndim)
    if ord in ("nuc", 2, -2):
        require_numbers("linalg.matrix_norm", A)
    if dtype is not None:
        A = A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord == "nuc":
        return _spectral(A, ord, (rows, columns), keepdim)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    size = abs(ord)
    if size == 2:
        return _spectral(A, ord, (rows, columns), keepdim)
    if size not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, compared = (rows, columns) if size == 1 else (columns, rows)
    sums = vector_norm(A, 1, summed, True)
    norms = _extreme(sums, ord, compared, True)
    if keepdim:
        return norms
    for axis in sorted((rows, columns), reverse=True):
        norms = norms.squeeze(axis)
    return norms


@composite(name="norm", namespace="linalg", method=False, out=EXACT)
def linalg_norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norm of vectors or matrices, told by ``dim`` and ``ord``.

    Args:
        A: any shape, floating point or complex.
        ord: as for ``linalg.vector_norm`` (one dimension) or ``linalg.matrix_norm`` (two); the 2-norm of all elements when None.
        dim: one dimension, or two; all when None.
        keepdim: keep each reduced dimension with size 1.
        dtype: cast to it first.
    Returns:
        ``A``'s shape without ``dim``; real.
    Raises:
        RuntimeError: an order that the number of dimensions does not have, or an integer input.
    Source: torch.linalg.norm.
    Example:
        >>> A = torch.tensor([[3.0, 4.0], [0.0, 12.0]])
        >>> torch.linalg.norm(A), torch.linalg.norm(A, 1, dim=0), torch.linalg.norm(A, 1)
        (tensor(13.), tensor([ 3., 16.]), tensor(16.))
    """
    dims = None if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if ord is None:
        if dims is None:
            result = vector_norm(A.reshape(-1) if not keepdim else A, 2, None, keepdim, dtype=dtype)
            return result
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is None:
        if A.ndim not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
        dims = tuple(range(A.ndim))
    if len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} not supported for a vector")
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


# -- torch.norm ---------------------------------------------------------------------------------------------------------------------
@composite(out=EXACT, autocast={"cuda": "result"})
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norm of all elements or over ``dim``.

    Args:
        input: any shape, floating point or complex.
        p: order; 'fro' is 2, 'nuc' the sum of singular values of matrices; 2 when None.
        dim: dimension or dimensions; all when None.
        keepdim: keep each reduced dimension with size 1.
        dtype: cast to it first.
    Returns:
        ``input``'s shape without ``dim``; real.
    Raises:
        RuntimeError: integers, 'nuc' over another number of dimensions than two, or another word.
    Source: torch.norm.
    Example:
        >>> x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
        >>> x.norm(), x.norm(p=1, dim=0)
        (tensor(11.1803), tensor([ 9., 12.]))
    """
    if p == "nuc":
        dims = (-2, -1) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        if (dim is None and input.ndim != 2) or len(dims) != 2:
            raise RuntimeError(f"norm: expected two dimensions for the nuclear norm, got dim={dim} and {input.ndim} dimensions")
        return matrix_norm(input, "nuc", dims, keepdim, dtype=dtype)
    if p == "fro" or p is None:
        p = 2.0
    if isinstance(p, str):
        raise RuntimeError(f"norm: expected p to be a number, 'fro' or 'nuc', got {p!r}")
    if dim is not None and not isinstance(dim, int) and not len(dim):
        dim = None
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


@composite(inplace=True, out=EXACT, autocast={"cuda": "float32"})
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """``input`` with its slices along ``dim`` scaled down to the norm ``maxnorm`` where theirs is larger.

    Args:
        input: at least 2-d, floating point or complex.
        p: order of the norm, above 0.
        dim: the dimension along which the slices lie.
        maxnorm: not negative.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: a ``p`` or ``maxnorm`` out of range, or fewer than two dimensions, or an integer input.
        IndexError: ``dim`` out of range.
    Source: torch.renorm.
    Example:
        >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1.0)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])
    """
    if isinstance(p, complex) or isinstance(maxnorm, complex):
        raise RuntimeError("renorm: p and maxnorm must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    place = wrap_dim(dim, input.ndim)
    others = tuple(k for k in range(input.ndim) if k != place)
    wide = dtypes.float32 if input.dtype in (dtypes.float16, dtypes.bfloat16) else None
    norms = vector_norm(input, p, others, True, dtype=wide).double()
    factors = (maxnorm / (norms + 1e-7)).where(norms > maxnorm, norms.new_ones(()))
    return (input * factors.to(input.dtype)).contiguous()


@composite(autocast={"cuda": "float32"})
def dist(input: Tensor, other: Tensor, p: float = 2) -> Any:
    """p-norm of ``input - other``, over all elements.

    Args:
        input, other: broadcastable shapes, floating point or complex.
        p: the order.
    Returns:
        0-d, real.
    Raises:
        RuntimeError: integers, or shapes that do not broadcast.
    Source: torch.dist.
    Example:
        >>> torch.dist(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    return vector_norm(input - other, p)


@composite(method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of order ``pow`` over all dimensions but ``dim``, or over all of them for -1.

    Args:
        v: any shape.
        pow: the order.
        dim: the dimension that is kept.
    Returns:
        ``v``'s number of dimensions, all of size 1 but ``dim``; 0-d for -1.
    Raises:
        RuntimeError: an integer tensor.
        IndexError: ``dim`` out of range.
    Source: torch.norm_except_dim.
    Example:
        >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=0)
        tensor([[ 5.],
                [10.]])
    """
    if dim == -1:
        return norm(v, pow)
    kept_dim = wrap_dim(dim, v.ndim)
    others = [d for d in range(v.ndim) if d != kept_dim]
    return norm(v, pow, others, True) if others else v.abs()


@composite(method=False, name="_weight_norm")
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``v * (g / norm_except_dim(v, 2, dim))``. Source: torch._weight_norm."""
    return v * (g / norm_except_dim(v, 2, dim))


for _name in ("matrix_norm", "norm"):
    other_names(_name, "linalg", input="A")
other_names("vector_norm", "linalg", input="x")
