"""Making and rearranging matrices: triangles, diagonals, powers, Kronecker products."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays import native
from ...core.arrays.copies import fill
from ...core.calls.annotations import Tensor
from ...core.calls.creation import Creation
from ...core.calls.operation import PARTS
from ...core.calls.out import EXACT
from ...core.calls.registry import Declare, composite, factory, op, other_names, resolve
from ...core.layout import contiguous_format, row_major
from ...core.shape import broadcast_shape, wrap_dim
from ..arithmetic import conj
from ..joining import cat
from .products import matmul

# -- triangles ------------------------------------------------------------------------------------------------------------------
_FEW = 4096  # elements: a mask of as many is kept


@functools.lru_cache(64)
def _small_mask(rows: int, columns: int, diagonal: int) -> np.ndarray:
    return np.tri(rows, columns, diagonal, dtype=np.bool_)


def _fast_triangle(a: np.ndarray, diagonal: int, lower: bool) -> Any:
    if a.ndim < 2 or not a.flags.c_contiguous or a.size > _FEW:
        return None
    mask = _small_mask(a.shape[-2], a.shape[-1], diagonal if lower else diagonal - 1)
    zero = a.dtype.type(0)
    return np.where(mask, a, zero) if lower else np.where(mask, zero, a)


def _triangle(array: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    rows, columns = array.shape[-2:]
    inside: Any = np.tri(rows, columns, diagonal if lower else diagonal - 1, dtype=np.bool_)
    return row_major(np.where(inside if lower else ~inside, row_major(array), np.zeros((), array.dtype)))


def _of_triangle(name: str, lower: bool) -> Declare:
    """Declare the operation ``name``, which keeps one triangle of a matrix and clears the rest."""

    def canonicalize(input: Any, diagonal: int) -> tuple[Any, ...]:
        if input._array.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return (input, diagonal)

    return op(
        batch=2,
        opmath="native",
        inplace=True,
        out=EXACT,
        may_overlap=PARTS,
        canonicalize=canonicalize,
        fast=lambda a, k: _fast_triangle(a, k, lower),
        grad={"input": lambda grad, diagonal: grad.tril(diagonal) if lower else grad.triu(diagonal)},
        forward="linear",
    )


@_of_triangle("tril", True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of each matrix, 0 above it.

    Args:
        input: ``(*, n, m)``.
        diagonal: the highest diagonal to keep: 0 the main one, positive above it.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        RuntimeError: fewer than two dimensions.
    Gradient: the lower triangle of ``grad``.
    Source: torch.tril.
    Example:
        >>> torch.tril(torch.ones(3, 3, dtype=torch.int64), diagonal=-1)
        tensor([[0, 0, 0],
                [1, 0, 0],
                [1, 1, 0]])
    """
    return _triangle(input, diagonal, True)


@_of_triangle("triu", False)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of each matrix, 0 below it.

    Args:
        input: ``(*, n, m)``.
        diagonal: the lowest diagonal to keep: 0 the main one, positive above it.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        RuntimeError: fewer than two dimensions.
    Gradient: the upper triangle of ``grad``.
    Source: torch.triu.
    Example:
        >>> torch.triu(torch.ones(3, 3, dtype=torch.int64), diagonal=1)
        tensor([[0, 1, 1],
                [0, 0, 1],
                [0, 0, 0]])
    """
    return _triangle(input, diagonal, False)


def _triangle_indices(new: Creation, row: int, col: int, is_lower: bool, offset: int) -> np.ndarray:
    if row < 0 or col < 0:
        raise RuntimeError(f"{'row' if row < 0 else 'col'} must be non-negative, got{min(row, col)}")
    kind = new.dtype or dtypes.int64
    if kind not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"\"{new.name}\" not implemented for '{kind.legacy}'")
    bounds = (np.arange(row) + (offset + is_lower)).clip(0, col)  # where the lower triangle ends in each row, or the upper one begins
    first, counts = (np.zeros_like(bounds), bounds) if is_lower else (bounds, col - bounds)
    ends = np.concatenate(([0], counts.cumsum()))
    result = np.empty((2, int(ends[-1])), kind.numpy)
    _put_places(result, first, ends)
    return result


@native.part("_triangle_places")
def _put_places(result: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
    """Write the row and the column of each place of a triangle; row ``r`` has those from ``ends[r]`` to ``ends[r + 1]``, and begins at
    column ``starts[r]``."""
    counts = np.diff(ends)
    result[0] = np.repeat(np.arange(counts.size), counts)
    result[1] = np.arange(result.shape[1]) - np.repeat(ends[:-1] - starts, counts)


@factory()
def tril_indices(new: Creation, row: int, col: int, offset: int = 0) -> Any:
    """Row and column indices of the lower triangle of a ``(row, col)`` matrix, row by row.

    Args:
        row, col: sizes of the matrix.
        offset: the highest diagonal: 0 the main one, positive above it.
        dtype: int64 or int32.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        ``(2, count)``: the rows, then the columns.
    Raises:
        RuntimeError: a negative size, or another dtype.
    Source: torch.tril_indices.
    Example:
        >>> torch.tril_indices(3, 3, -1)
        tensor([[1, 2, 2],
                [0, 0, 1]])
    """
    return _triangle_indices(new, row, col, True, offset)


@factory()
def triu_indices(new: Creation, row: int, col: int, offset: int = 0) -> Any:
    """Row and column indices of the upper triangle of a ``(row, col)`` matrix, row by row.

    Args:
        row, col: sizes of the matrix.
        offset: the lowest diagonal: 0 the main one, positive above it.
        dtype: int64 or int32.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        ``(2, count)``: the rows, then the columns.
    Raises:
        RuntimeError: a negative size, or another dtype.
    Source: torch.triu_indices.
    Example:
        >>> torch.triu_indices(3, 3, 1)
        tensor([[0, 0, 1],
                [1, 2, 2]])
    """
    return _triangle_indices(new, row, col, False, offset)


# -- diagonals ------------------------------------------------------------------------------------------------------------------
def _canonicalize_embed(input: Any, offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
    ndim = input._array.ndim + 1
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return (input, offset, first, second)


@op(
    opmath="native",
    canonicalize=_canonicalize_embed,
    grad={"input": lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)},
    forward="linear",
)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of ``input`` on a diagonal and 0 elsewhere.

    Args:
        input: ``(*, n)``.
        offset: the diagonal: 0 the main one, positive above it.
        dim1, dim2: where the matrices' dimensions go in the result.
    Returns:
        ``(*, m, m)`` with ``m = n + abs(offset)``, unless ``dim1`` and ``dim2`` say otherwise; ``input``'s dtype. A new tensor.
    Raises:
        RuntimeError: ``dim1`` and ``dim2`` are the same dimension.
        IndexError: ``dim1`` or ``dim2`` out of range.
    Gradient: the diagonal of ``grad``.
    Source: torch.diag_embed.
    Example:
        >>> torch.diag_embed(torch.tensor([[1, 2], [3, 4]]))
        tensor([[[1, 0],
                 [0, 2]],
        <BLANKLINE>
                [[3, 0],
                 [0, 4]]])
    """
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((dim1, dim2)):
        shape.insert(dim, size)
    whole = np.empty(shape, input.dtype)
    fill(whole, 0)
    view = np.moveaxis(whole, (dim1, dim2), (-2, -1))
    idx = np.arange(input.shape[-1])
    view[..., idx + max(-offset, 0), idx + max(offset, 0)] = input
    return whole


@composite(out=True)
def diag(input: Tensor, diagonal: int = 0) -> Any:
    """A matrix with a vector on a diagonal, or the diagonal of a matrix (as a copy).

    Args:
        input: 1-d or 2-d.
        diagonal: 0 the main one, positive above it.
    Returns:
        Square and 2-d for a vector; 1-d for a matrix. ``input``'s dtype, never a view.
    Raises:
        RuntimeError: another number of dimensions.
    Source: torch.diag.
    Example:
        >>> torch.diag(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
        >>> torch.diag(torch.tensor([[1, 2], [3, 4]]), diagonal=1)
        tensor([2])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return input.diagonal(diagonal).clone()
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Any:
    """A matrix with all elements of ``input`` on a diagonal.

    Args:
        input: any shape; ``n`` elements.
        offset: the diagonal: 0 the main one, positive above it.
    Returns:
        ``(m, m)`` with ``m = n + abs(offset)``, 0 elsewhere; ``input``'s dtype.
    Raises:
        TypeError: no tensor, or an ``offset`` that is no integer.
    Source: torch.diagflat.
    Example:
        >>> torch.diagflat(torch.tensor([[1], [2]]), offset=-1)
        tensor([[0, 0, 0],
                [1, 0, 0],
                [0, 2, 0]])
    """
    return diag_embed(input.reshape(-1), offset)


def _canonicalize_trace(input: Any) -> tuple[Any, ...]:
    if input._array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input._array.ndim}")
    return (input,)


@op(
    promotion="same",
    out=False,
    canonicalize=_canonicalize_trace,
    fast=lambda input: np.asarray(_trace(input)) if input.ndim == 2 else None,
    grad={"input": lambda grad, input_shape: on_diagonal(grad, input_shape)},
    autocast={"cpu": "float32"},
    forward="linear",
)
def trace(input: Tensor) -> Tensor:
    """Sum of the main diagonal of a matrix.

    Args:
        input: ``(n, m)``, numbers.
    Returns:
        0-d; int64 for integers and bools, otherwise ``input``'s dtype.
    Raises:
        RuntimeError: no matrix.
    Gradient: ``grad`` on the diagonal.
    Source: torch.trace.
    Example:
        >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
        tensor(5)
    """
    return _trace(input)


def _trace(input: np.ndarray) -> Any:
    return np.add.reduce(input.diagonal(), dtype=np.int64 if input.dtype.kind in "biu" else None)


@op(name="_on_diagonal", opmath="native", out=True, grad={"input": lambda grad: grad.diagonal().sum()}, forward="linear")
def on_diagonal(input: Tensor, shape: Any) -> Tensor:
    """A matrix of ``shape`` with one number along its diagonal."""
    whole = np.zeros(shape, input.dtype)
    np.fill_diagonal(whole, input)
    return whole


_SHORT = 64  # elements


# -- Kronecker, cross, powers --------------------------------------------------------------------------------------------------
@composite(out=True, in_library=True)
def kron(input: Tensor, other: Tensor) -> Any:
    """Kronecker product: every element of ``input`` times all of ``other``.

    Args:
        input, other: any shapes; the one with fewer dimensions is raised from the left.
    Returns:
        The product of both sizes in each dimension; the common dtype.
    Raises:
        RuntimeError: ``out`` of a dtype that the result cannot be cast to.
    Gradient: of the products.
    Source: torch.kron.
    Example:
        >>> torch.kron(torch.tensor([1, 10]), torch.tensor([[1, 2], [3, 4]]))
        tensor([[ 1,  2, 10, 20],
                [ 3,  4, 30, 40]])
    """
    ndim = max(input.ndim, other.ndim)
    a = (1,) * (ndim - input.ndim) + tuple(input.shape)
    b = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = input.contiguous().reshape([n for size in a for n in (size, 1)])
    right = other.contiguous().reshape([n for size in b for n in (1, size)])
    if ndim > 1 and 1 < b[-1] <= _SHORT and 1 < a[-1] and math.prod(b[:-1]) > 1:  # rows too short to be multiplied one by one
        last = (*(-1,) * (2 * ndim - 2), a[-1], b[-1])
        left, right = (part.expand(last).flatten(-2) for part in (left, right))
    return (left * right).reshape([m * n for m, n in zip(a, b, strict=True)])


def _canonicalize_cross(input: Any, other: Any, dim: int) -> tuple[Any, ...]:
    if input._array.ndim != other._array.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    ndim = input._array.ndim
    wrapped = wrap_dim(dim, ndim)
    a, b = (operand._array.shape[wrapped] if ndim else 1 for operand in (input, other))
    if a != 3 or b != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {a} and {b}")
    if input._array.dtype.kind == other._array.dtype.kind == "b":
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    return (input, other, wrapped)


@op(
    out=EXACT,
    name="cross",
    namespace="linalg",
    promotion="default",
    broadcasts=True,
    elementwise=False,
    row_major=True,
    canonicalize=_canonicalize_cross,
    grad={
        "input": lambda grad, other, dim: linalg_cross(conj(other), grad, dim=dim),
        "other": lambda grad, input, dim: linalg_cross(grad, conj(input), dim=dim),
    },
)
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Vector product along a dimension of size 3.

    Args:
        input, other: broadcastable shapes, with as many dimensions; 3 elements along ``dim``.
        dim: the dimension of the vectors.
    Returns:
        The broadcast shape, the common dtype.
    Raises:
        RuntimeError: another size than 3, or different numbers of dimensions.
        IndexError: ``dim`` out of range.
        NotImplementedError: bool operands.
    Gradient: ``other x grad`` and ``grad x input``.
    Source: torch.linalg.cross.
    Example:
        >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))
        tensor([0, 0, 1])
    """
    result = np.empty(broadcast_shape(input.shape, other.shape), input.dtype)
    a, b, c = (np.moveaxis(array, dim, 0) for array in (input, other, result))
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        c[k] = a[i] * b[j] - a[j] * b[i]
    return result


@composite(out=EXACT, autocast={"cuda": "widest"})
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Any:
    """Vector product along a dimension of size 3; the first such dimension when ``dim`` is None.

    Args:
        input, other: broadcastable shapes, with as many dimensions.
        dim: the dimension of the vectors.
    Returns:
        The broadcast shape, the common dtype.
    Raises:
        RuntimeError: no dimension of size 3, or different numbers of dimensions.
        IndexError: ``dim`` out of range.
    Source: torch.cross.
    Example:
        >>> torch.cross(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 1]), dim=0)
        tensor([ 2, -1,  0])
    """
    if dim is None:
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=dim)


@op(name="_identity_of", opmath="native", out=True, grad={"input": lambda grad, input_shape: grad.new_zeros(input_shape)})
def identity_of(input: Tensor) -> Tensor:
    """Identity matrices of ``input``'s shape, with the derivative 0."""
    result = np.empty(input.shape, input.dtype)
    result[...] = np.eye(input.shape[-1]).astype(input.dtype)
    return result


def matrix_to_power(matrix: Any, n: int) -> Any:
    """``matrix`` to the power n by repeated squaring."""
    if matrix.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if matrix.shape[-1] != matrix.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but they are {matrix.shape[-2]} by {matrix.shape[-1]} matrices"
        )
    if n == 0:
        return matrix.clone(memory_format=contiguous_format).copy_(identity_of(matrix))  # on the tape, with a gradient of 0
    result, original = None, matrix
    if n < 0:
        matrix, n = resolve("linalg", "inv")(matrix), -n
    while True:
        n, odd = divmod(n, 2)
        if odd:
            result = matrix if result is None else matmul(result, matrix)
        if not n:
            return result.clone(memory_format=contiguous_format) if result is original else result
        matrix = matmul(matrix, matrix)


@composite(out=True)
def matrix_power(input: Tensor, n: int) -> Any:
    """Square matrices to an integer power; a negative one takes the inverse.

    Args:
        input: ``(*, m, m)``, floating point or complex.
        n: the exponent.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: matrices that are not square.
        linalg.LinAlgError: a singular matrix to a negative power.
    Source: torch.matrix_power.
    Example:
        >>> torch.matrix_power(torch.tensor([[1.0, 1.0], [1.0, 0.0]]), 5)  # Fibonacci's numbers
        tensor([[8., 5.],
                [5., 3.]])
    """
    return matrix_to_power(input, n)


@composite(name="matrix_power", namespace="linalg", method=False, out=EXACT)
def linalg_matrix_power(A: Tensor, n: int) -> Any:
    """Square matrices to an integer power; a negative one takes the inverse.

    Args:
        A: ``(*, m, m)``, floating point or complex.
        n: the exponent.
    Returns:
        ``A``'s shape and dtype.
    Raises:
        RuntimeError: matrices that are not square.
        linalg.LinAlgError: a singular matrix to a negative power.
    Source: torch.linalg.matrix_power.
    Example:
        >>> torch.linalg.matrix_power(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), -2)
        tensor([[0.2500, 0.0000],
                [0.0000, 0.0625]])
    """
    return matrix_to_power(A, n)


def _powers(x: Any, count: int) -> Any:
    """Powers 0 .. count - 1 of each element, along a further last dimension."""
    if count == 0:
        return x.new_empty((*x.shape, 0))
    ones = x.new_ones((*x.shape, 1))
    if ones.dtype is dtypes.bool_:
        ones = ones.to(dtypes.int64)
    if count == 1:
        return ones
    return cat([ones, x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)], -1)


@composite(method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Any:
    """Vandermonde matrix: row ``i`` holds powers of ``x[i]``.

    Args:
        x: ``(n,)``.
        N: number of columns; ``n`` when None.
        increasing: powers rise from left to right.
    Returns:
        ``(n, N)``; ``x``'s dtype, int64 for bools.
    Raises:
        RuntimeError: another number of dimensions, or a negative ``N``.
    Source: torch.vander.
    Example:
        >>> torch.vander(torch.tensor([1, 2, 3]), N=4)
        tensor([[ 1,  1,  1,  1],
                [ 8,  4,  2,  1],
                [27,  9,  3,  1]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    powers = _powers(x, x.shape[0] if N is None else N)
    return powers if increasing else powers.flip(-1)


@composite(name="vander", namespace="linalg", method=False)
def linalg_vander(x: Tensor, *, N: int | None = None) -> Any:
    """Vandermonde matrices with rising powers.

    Args:
        x: ``(*, n)``.
        N: number of columns; ``n`` when None.
    Returns:
        ``(*, n, N)``; ``x``'s dtype, int64 for bools.
    Raises:
        RuntimeError: ``N`` not above 1.
    Source: torch.linalg.vander.
    Example:
        >>> torch.linalg.vander(torch.tensor([2, 3]), N=3)
        tensor([[1, 2, 4],
                [1, 3, 9]])
    """
    x = x if x.ndim else x.reshape(1)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x, count)


other_names("matrix_power", "linalg", input="A")
