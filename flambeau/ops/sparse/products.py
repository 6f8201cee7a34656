"""Products with a sparse operand, over SciPy's sparse kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays import native
from ...core.arrays.sparse import (
    BLOCKED,
    SparseArray,
    coalesced,
    compressed_from,
    coo,
    coo_from,
    dense_from,
    entries_at,
    places_of,
    rules,
    sparse_array,
    stable_order,
    transposed,
    unsupported,
)
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, op
from ...core.layout import sparse_coo, sparse_csc, sparse_csr, strided
from ..arithmetic import conj
from ..linalg.matrix_checks import not_differentiable
from ..linalg.products import matmul as plain_matmul, mm as plain_mm
from .construction import entries, sparse_compressed_tensor, sparse_op, with_values
from .places import compressed_like

_WIDER = {"e": np.float32, "V": np.float32, "?": np.uint8}  # by dtype.char: what SciPy computes instead


# -- arrays -----------------------------------------------------------------------------------------------------------------------------
def rows_form(array: SparseArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix as row starts, columns and values; equal places may be there twice."""
    if array.layout is sparse_csr and not array.batch_dim:
        return (*array.parts, array.values)
    if array.layout is sparse_csc and not array.batch_dim:
        row, column = places_of(array)
    else:
        array = coo_from(array)
        row, column = array.parts[0]
    values = array.values
    if not array.coalesced and not (row[1:] >= row[:-1]).all():
        order = stable_order(row)
        row, column, values = row[order], column[order], values[order]
    return compressed_from(row, array.shape[0]), column, values


def scipy_rows(array: SparseArray) -> Any:
    """A matrix as SciPy's CSR, in a dtype that it computes with."""
    return _csr_of(*rows_form(array), array.shape[1])


def _csr_of(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((_widened(values), columns, starts), shape=(starts.size - 1, width))


def _widened(dense: np.ndarray) -> np.ndarray:
    wider = _WIDER.get("V" if dense.dtype.kind == "V" else dense.dtype.char)
    return dense if wider is None else dense.astype(wider)


def _require_matrices(a: Any, b: Any) -> None:
    for operand in (a, b):
        if operand.__class__ is SparseArray and (operand.ndim != 2 or operand.dense_dim):
            raise RuntimeError(f"addmm: matrices expected, got {operand.ndim}D tensor with {operand.dense_dim} dense dimensions")


@rules("mm")
def times(a: Any, b: Any) -> Any:
    """``a @ b`` of matrices, at least one of them sparse: dense, or COO (CSR) where both are sparse."""
    _require_matrices(a, b)
    if a.__class__ is SparseArray and b.__class__ is SparseArray:
        return _sparse_times_sparse(a, b)
    if a.__class__ is not SparseArray:
        left = scipy_rows(b)
        return np.ascontiguousarray((left.T @ _widened(a).T).T).astype(a.dtype, copy=False)
    return _rows_times_dense(*rows_form(a), np.ascontiguousarray(b))


@native.part("_csr_times_dense", work="values.size * dense[:1].size")
def _rows_times_dense(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(_csr_of(starts, columns, values, len(dense)) @ _widened(dense)).astype(dense.dtype, copy=False)


def _ones_at(matrix: Any) -> Any:
    """A matrix of ones at the places of another."""
    return type(matrix)((np.ones(matrix.nnz, np.int64), matrix.indices, matrix.indptr), matrix.shape)


def _numbered(matrix: Any) -> np.ndarray:
    """The places of a matrix, counted row by row."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * matrix.shape[1] + matrix.indices


def _sparse_times_sparse(a: SparseArray, b: SparseArray) -> SparseArray:
    a, b = (coalesced(factor) if factor.layout is sparse_coo else factor for factor in (a, b))
    left, right = scipy_rows(a), scipy_rows(b)
    result, places = left @ right, _ones_at(left) @ _ones_at(right)
    result.sort_indices()
    values = result.data.astype(a.dtype, copy=False)
    if result.nnz < places.nnz:  # SciPy leaves out sums that are 0, and gradients flow through them
        places.sort_indices()
        values = np.zeros(places.nnz, a.dtype)
        values[np.searchsorted(_numbered(places), _numbered(result))] = result.data
        result = places
    starts, columns = result.indptr.astype(np.int64), result.indices.astype(np.int64)
    matrix = sparse_array(sparse_csr, result.shape, (starts, columns), values)
    if a.layout is sparse_coo or b.layout is sparse_coo:
        return coo_from(matrix)
    return matrix if a.layout is not b.layout or a.layout not in BLOCKED else compressed_like(coo_from(matrix), a)


@rules("mv")
def times_vector(a: Any, b: Any) -> np.ndarray:
    """A matrix times a vector, one of them sparse; the vector in COO."""
    if b.__class__ is not SparseArray:
        return times(a, b[:, None])[:, 0]
    if a.__class__ is SparseArray or b.layout is not sparse_coo or b.dense_dim:
        unsupported("mv", a, b)
    return times(a, coo(np.insert(b.parts[0], 1, 0, axis=0), b.values, (*b.shape, 1)))[:, 0]


def _flat_batch(array: SparseArray) -> SparseArray:
    """A batch of matrices as one with the matrices along its diagonal."""
    batch, rows, columns = array.shape
    entry, row, column = coalesced(coo_from(array)).parts[0]
    indices = np.stack((entry * rows + row, entry * columns + column))
    return coo(indices, coalesced(coo_from(array)).values, (batch * rows, batch * columns), True)


@rules("bmm")
def times_batched(a: Any, b: Any) -> np.ndarray:
    if a.__class__ is not SparseArray or b.__class__ is SparseArray or a.layout is not sparse_coo or a.dense_dim:
        unsupported("bmm", a, b)
    flat = times(_flat_batch(a), np.ascontiguousarray(b).reshape(-1, b.shape[2]))
    return flat.reshape(a.shape[0], a.shape[1], b.shape[2])


@rules("matmul")
def rule_of_matmul(a: Any, b: Any) -> Any:
    ranks = (a.ndim, b.ndim)
    if ranks == (2, 2):
        return times(a, b)
    if ranks == (2, 1):
        return times_vector(a, b)
    if ranks == (1, 2) and a.__class__ is not SparseArray:
        return times(a[None], b)[0]
    if ranks[0] == 1 < ranks[1] and a.layout is sparse_coo and b.__class__ is not SparseArray and not a.dense_dim:
        row = coo(np.insert(a.parts[0], 0, 0, axis=0), a.values, (1, *a.shape))
        return rule_of_matmul(row, b)[..., 0, :]
    if ranks == (3, 3):
        return times_batched(a, b)
    if ranks[0] > 2 and ranks[1] <= 2 and a.__class__ is not SparseArray:  # the rows of all matrices
        rows = np.ascontiguousarray(a).reshape(-1, a.shape[-1])
        return (times if ranks[1] == 2 else times_vector)(rows, b).reshape(*a.shape[:-1], *b.shape[1:])
    if ranks[0] == 2 and ranks[1] > 2 and b.__class__ is not SparseArray:  # the columns of all matrices
        columns = np.moveaxis(b, -2, 0)
        flat = times(a, np.ascontiguousarray(columns).reshape(b.shape[-2], -1))
        return np.ascontiguousarray(np.moveaxis(flat.reshape(a.shape[0], *columns.shape[1:]), 0, -2))
    return unsupported("matmul", a, b)


@rules("addmm")
def rule_of_addmm(input: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * a @ b``; sparse where all of them are."""
    if input.__class__ is SparseArray and (a.__class__ is not SparseArray or b.__class__ is not SparseArray or input.layout is sparse_coo):
        raise RuntimeError(f"addmm_sparse_dense: expected strided result tensor, got tensor with layout {input.layout}")
    product = times(a, b)
    if product.dtype.kind in "biu":
        beta, alpha = int(beta), int(alpha)
    if input.__class__ is SparseArray:
        if product.layout is not input.layout and input.layout is not sparse_coo:
            product = compressed_like(coo_from(product), input)
        return rules["add"](input.with_values(input.values * input.dtype.type(beta)), product, alpha)
    if product.__class__ is SparseArray:
        product = dense_from(product)
    product = product if alpha == 1 else product * product.dtype.type(alpha)
    if beta == 0:
        return product
    return np.ascontiguousarray((input if beta == 1 else input * input.dtype.type(beta)) + product)


@rules("nn.functional.linear")
def rule_of_linear(input: Any, weight: Any, bias: Any = None) -> np.ndarray:
    if input.__class__ is SparseArray or weight.ndim != 2:
        unsupported("linear", input, weight)
    rows = times(np.ascontiguousarray(input).reshape(-1, input.shape[-1]), transposed(weight))
    result = rows.reshape(*input.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


def sampled(a: np.ndarray, b: np.ndarray, mask: Any) -> np.ndarray:
    """``(a @ b)`` at the places of a matrix, without the rest of it."""
    if mask.layout in BLOCKED or mask.batch_dim or a.ndim > 2:
        return entries_at(np.matmul(a, b), mask)
    row, column = mask.parts[0] if mask.layout is sparse_coo else places_of(mask)
    columns = np.ascontiguousarray(b.T)
    return _dots_at(a, columns, row, column)


@native.part("_dots_at_places", work="row.size * a.shape[1]")
def _dots_at(a: np.ndarray, b: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The elements of ``a @ b.T`` at ``(row, column)``."""
    values = np.empty(row.size, np.result_type(a, b))
    step = max(1, (1 << 20) // max(a.shape[1], 1))  # rows that are gathered at once: 8 MB
    for start in range(0, row.size, step):
        some = slice(start, start + step)
        values[some] = np.einsum("ij,ij->i", a.take(row[some], axis=0), b.take(column[some], axis=0))
    return values


@sparse_op(
    name="_sampled_product",
    grad={
        "a": lambda grad, b, mask: plain_mm(with_values(grad, mask), conj(b).t()),
        "b": lambda grad, a, mask: plain_mm(with_values(grad, mask).t(), conj(a)).t(),
    },
)
def sampled_product(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``a @ b`` at the places of a sparse matrix."""
    return sampled(a, b, mask)


# -- torch.sparse.mm --------------------------------------------------------------------------------------------------------------------
def gradient_at(factor: Any, a: Any, b: Any) -> Any:
    """The gradient ``a @ b`` of a factor: of a sparse one at its specified elements."""
    if factor.layout is strided:
        return plain_mm(a, b)
    mask = _masking(factor)
    if a.layout is strided and b.layout is strided:
        return with_values(sampled_product(a, b, mask), mask)
    return with_values(entries(plain_mm(a, b), mask), mask)


def _masking(tensor: Any) -> Any:
    mask = tensor.detach()
    return mask.coalesce() if mask.is_sparse else mask


@op(
    name="_sparse_mm",
    promotion="same",
    node_name="SparseAddmmBackward0",
    grad={
        "input": lambda grad, input, mat2: gradient_at(input, grad, conj(mat2).t()),
        "mat2": lambda grad, input, mat2: gradient_at(mat2, conj(input).t(), grad),
    },
    aten=None,
)
def sparse_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """``input @ mat2``, with gradients of sparse factors at their specified elements only."""
    return input.dot(mat2)


rules["_sparse_mm"] = times


def _check_product(name: str, a: Any, b: Any) -> None:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{name}: matrices expected, got {a.ndim}D and {b.ndim}D tensors")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"{name}: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {b.shape[0]}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{name}: expected operands of one dtype, got {a.dtype} and {b.dtype}")


REDUCTIONS = ("sum", "mean", "amax", "amin", "prod")


@composite(name="mm", namespace="sparse", method=False)
def sparse_mm_function(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """Product of matrices of which at least one is sparse.

    Args:
        mat1: ``(n, m)``, sparse or dense.
        mat2: ``(m, p)``, sparse or dense.
        reduce: ``'sum'``, ``'mean'``, ``'amax'`` or ``'amin'``: how the products of a CSR ``mat1``'s specified elements with the rows of
            ``mat2`` are put together; 0 for rows without elements.
    Returns:
        ``(n, p)``, dense; sparse where both factors are.
    Raises:
        RuntimeError: sizes or dtypes that do not fit, or no such reduction.
        NotImplementedError: ``reduce`` for other layouts.
    Gradient: as of ``torch.mm``; to a sparse factor at its specified elements.
    Source: torch.sparse.mm.
    Example:
        >>> torch.sparse.mm(torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse(), torch.tensor([[1.0, 3.0], [4.0, 5.0]]))
        tensor([[ 8., 10.],
                [ 0.,  0.]])
    """
    _check_product("addmm", mat1, mat2)
    if reduce is None:
        return sparse_mm(mat1, mat2)
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if mat1.layout is not sparse_csr or mat2.layout is not strided:
        unsupported("_sparse_mm_reduce_impl", mat1._array, mat2._array)
    if reduce == "prod":
        raise NotImplementedError("sparse.mm: reduce='prod' is not supported")
    if reduce == "sum":
        return sparse_mm(mat1, mat2)
    if reduce == "mean":
        return mean_product(mat1, mat2)
    return extreme_product(mat1, mat2, reduce == "amax")[0]


@sparse_op(
    "_sparse_mm_reduce_impl",
    name="_sparse_mm_mean",
    promotion="same",
    node_name="SparseMmReduceImplBackward0",
    grad={
        "input": lambda grad, input, mat2: gradient_at(input, over_counts(grad, input.detach()), conj(mat2).t()),
        "mat2": lambda grad, input: plain_mm(conj(input).t(), over_counts(grad, input.detach())),
    },
)
def mean_product(input: Tensor, mat2: Tensor) -> Tensor:
    """``input @ mat2`` over how many elements each row specifies."""
    return over_counts_of(times(input, mat2), input)


def over_counts_of(rows: np.ndarray, matrix: Any) -> np.ndarray:
    counts = np.maximum(np.diff(matrix.parts[0]), 1)
    return rows / counts[:, None].astype(rows.dtype)


@sparse_op(name="_sparse_over_counts", grad={"rows": lambda grad, matrix: over_counts(grad, matrix)})
def over_counts(rows: Tensor, matrix: Tensor) -> Tensor:
    """Rows over how many elements the rows of a CSR matrix specify."""
    return over_counts_of(rows, matrix)


@sparse_op(
    "_sparse_mm_reduce_impl",
    name="_sparse_mm_extreme",
    promotion="same",
    multi_output=True,
    node_name="SparseMmReduceImplBackward0",
    grad={
        "input": lambda grad, input, mat2, result1: with_values(extreme_left(grad, mat2, result1, input.detach()), input.detach()),
        "mat2": lambda grad, input, mat2_shape, result1: extreme_right(grad, input.values(), result1, input.detach(), mat2_shape),
    },
)
def extreme_product(input: Tensor, mat2: Tensor, largest: bool) -> tuple[Tensor, Tensor]:
    """The largest (or least) product of each row's elements with ``mat2``'s rows, and which element it is (nnz for none)."""
    starts, columns, values = rows_form(input)
    products = values[:, None] * mat2[columns]
    filled = np.flatnonzero(np.diff(starts))
    result = np.zeros((input.shape[0], mat2.shape[1]), mat2.dtype)
    chosen = np.full(result.shape, input.nnz, np.int64)
    if filled.size:
        result[filled] = (np.maximum if largest else np.minimum).reduceat(products, starts[filled], axis=0)
        rows = np.repeat(np.arange(input.shape[0]), np.diff(starts))
        hits = (products == result[rows]) | (products != products)
        numbers = np.where(hits, np.arange(input.nnz)[:, None], input.nnz)
        chosen[filled] = np.minimum.reduceat(numbers, starts[filled], axis=0)
    return result, chosen


def _padded(array: np.ndarray) -> np.ndarray:
    return np.concatenate((array, np.zeros((1, *array.shape[1:]), array.dtype)))


@sparse_op("_sparse_mm_reduce_impl", name="_sparse_extreme_left", grad=None)
def extreme_left(grad: Tensor, mat2: Tensor, chosen: Tensor, mask: Tensor) -> Tensor:
    """The gradient of the elements that were chosen."""
    _, columns, values = rows_form(mask)
    total = np.zeros(values.size + 1, grad.dtype)
    column = _padded(columns)
    np.add.at(total, chosen, grad * mat2[column[chosen], np.arange(mat2.shape[1])])
    return total[:-1]


@sparse_op("_sparse_mm_reduce_impl", name="_sparse_extreme_right", grad=None)
def extreme_right(grad: Tensor, values: Tensor, chosen: Tensor, mask: Tensor, shape: Any) -> Tensor:
    """The gradient of the dense factor."""
    _, columns, _ = rows_form(mask)
    total = np.zeros(shape, grad.dtype)
    np.add.at(total, (_padded(columns)[chosen], np.broadcast_to(np.arange(shape[1]), chosen.shape)), grad * _padded(values)[chosen])
    return total


_BY_ELEMENT = frozenset((sparse_coo, sparse_csr, sparse_csc))


# -- sums with products -----------------------------------------------------------------------------------------------------------------
def _scaled(tensor: Any, factor: Any) -> Any:
    return tensor if not isinstance(factor, bool) and factor == 1 else tensor * factor


@composite(name="addmm", namespace="sparse", method=False)
def sparse_addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """``beta * mat + alpha * mat1 @ mat2`` with a sparse ``mat1``, whose gradient is taken at its specified elements.

    Args:
        mat: dense, a shape that broadcasts to the product's.
        mat1: sparse, ``(n, m)``.
        mat2: ``(m, p)``.
        beta, alpha: factors.
    Returns:
        ``(n, p)``, dense.
    Raises:
        RuntimeError: sizes or dtypes that do not fit.
    Source: torch.sparse.addmm.
    Example:
        >>> torch.sparse.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.full((2, 2), 3.0), beta=10.0)
        tensor([[13., 13.],
                [13., 13.]])
    """
    _check_product("addmm", mat1, mat2)
    product = sparse_mm(mat1, mat2)
    if product.dtype.category < dtypes.FLOATING:
        beta, alpha = int(beta), int(alpha)
    product = _scaled(product, alpha)
    shape = (mat1.shape[0], mat2.shape[1])
    if beta == 0:
        return product
    if mat.layout in _BY_ELEMENT and product.layout in _BY_ELEMENT and product.layout is not mat.layout:
        product = product.to_sparse(layout=mat.layout)
    return _scaled(mat.expand(shape) if tuple(mat.shape) != shape else mat, beta) + product


@composite(namespace="sparse", method=False)
def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` at the specified elements of a CSR tensor.

    Args:
        input: CSR (or CSC), ``(*, n, p)``, or a CSR matrix for all of a batch.
        mat1: dense, ``(*, n, m)``.
        mat2: dense, ``(*, m, p)``.
        beta, alpha: factors.
        out: CSR tensor to write into.
    Returns:
        ``input``'s shape, layout and places; elements elsewhere are never computed.
    Raises:
        RuntimeError: sizes, dtypes or layouts that do not fit.
    Source: torch.sparse.sampled_addmm.
    Example:
        >>> places = torch.eye(2).to_sparse_csr()
        >>> torch.sparse.sampled_addmm(places, torch.ones(2, 3), torch.ones(3, 2), beta=0.0).values()
        tensor([3., 3.])
    """
    if input.layout is strided or input.layout is sparse_coo:
        if input.layout is sparse_coo:
            unsupported("sparse_sampled_addmm", input._array)
        raise RuntimeError("sampled_addmm: Expected self to be a sparse CSR tensor, got torch.strided")
    if mat1.layout is not strided or mat2.layout is not strided:
        raise RuntimeError(f"sampled_addmm: Expected dense factors, got {mat1.layout} and {mat2.layout}")
    if not input.dtype is mat1.dtype is mat2.dtype:
        raise RuntimeError(f"sampled_addmm: Expected one dtype, got {input.dtype}, {mat1.dtype} and {mat2.dtype}")
    if input.ndim == 2 < mat1.ndim and input.layout is sparse_csr:
        input = _repeated(input, tuple(mat1.shape[:-2]))
    if mat1.ndim != mat2.ndim or mat1.ndim < 2 or mat1.shape[:-2] != mat2.shape[:-2] or input.ndim != mat1.ndim:
        raise RuntimeError("sampled_addmm: Expected operands to have the same batch dimensions and be matrices")
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[-2]}x{mat1.shape[-1]} and "
            f"{mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    if tuple(input.shape[-2:]) != (mat1.shape[-2], mat2.shape[-1]):
        raise RuntimeError(f"sampled_addmm: self.shape[-2:] must match the product's, got {list(input.shape)}")
    result = _sampled_addmm(input, mat1, mat2, beta, alpha)
    if out is None:
        return result
    out._array.adopt(result._array.copy())
    return out


def _repeated(input: Any, batch: tuple[int, ...]) -> Any:
    """A batch of one CSR matrix over and over."""
    crow, columns, values = (part.expand(*batch, *part.shape) for part in (input.crow_indices(), input.col_indices(), input.values()))
    return sparse_compressed_tensor(crow, columns, values, (*batch, *input.shape), layout=sparse_csr)


def _at_places(grad: Any, input: Any) -> Any:
    """A gradient at the specified elements of ``input``; of batches as a dense tensor, which has products."""
    mask = input.detach()
    masked = with_values(entries(grad, mask), mask)
    return masked if mask.ndim == 2 else masked.to_dense(masked_grad=False)


@sparse_op(
    "sparse_sampled_addmm",
    promotion="same",
    node_name="SparseSampledAddmmBackward0",
    grad={
        "input": lambda grad, beta: _scaled(grad, conj(beta)),
        "mat1": lambda grad, input, mat2, alpha: _scaled(plain_matmul(_at_places(grad, input), conj(mat2).mT), conj(alpha)),
        "mat2": lambda grad, input, mat1, alpha: _scaled(plain_matmul(_at_places(grad, input).mT, conj(mat1)).mT, conj(alpha)),
    },
)
def _sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``torch.sparse.sampled_addmm`` of checked operands."""
    values = sampled(mat1, mat2, input)
    values = values if alpha == 1 else values * values.dtype.type(alpha)
    if beta != 0:
        values = (input.values if beta == 1 else input.values * values.dtype.type(beta)) + values
    return input.with_values(values)


@composite()
def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of a COO and a dense matrix, as a COO tensor.

    Args:
        input: COO, ``(n, m)``.
        mat2: dense, ``(m, p)``.
    Returns:
        ``(n, p)``, of layout ``torch.sparse_coo``.
    Raises:
        RuntimeError: sizes or dtypes that do not fit; in the backward pass, always.
    Source: torch.smm.
    Example:
        >>> torch.smm(torch.eye(2).to_sparse(), torch.full((2, 2), 3.0)).to_dense()
        tensor([[3., 3.],
                [3., 3.]])
    """
    return sspaddmm(without_entries(input, mat2), input, mat2)


def without_entries(a: Any, b: Any) -> Any:
    from .. import zeros

    return zeros((a.shape[0], b.shape[1]), dtype=a.dtype, layout=sparse_coo)


@composite()
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2`` of COO ``input`` and ``mat1`` and a dense matrix, as a COO tensor.

    Args:
        input: COO, ``(n, p)``.
        mat1: COO, ``(n, m)``.
        mat2: dense, ``(m, p)``.
        beta, alpha: factors.
        out: COO tensor to write into.
    Returns:
        ``(n, p)``, of layout ``torch.sparse_coo``.
    Raises:
        RuntimeError: sizes or dtypes that do not fit.
    Source: torch.sspaddmm.
    Example:
        >>> eye = torch.eye(2).to_sparse()
        >>> torch.sspaddmm(eye, eye, torch.full((2, 2), 3.0), beta=10).to_dense()
        tensor([[13.,  3.],
                [ 3., 13.]])
    """
    for tensor in (input, mat1):
        if not tensor.is_sparse:
            unsupported("sspaddmm", tensor._array)
    _check_product("sspaddmm", mat1, mat2)
    product = spread_product(mat1, mat2)
    result = _scaled(input, beta) + _scaled(product, alpha)
    if out is None:
        return result
    out._array.adopt(result._array)
    return out


def rows_of_product(input: SparseArray, mat2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the product that are specified: which, and their values."""
    array = coalesced(input)
    rows = np.unique(array.parts[0][0])
    return rows, np.ascontiguousarray(times(array, mat2)[rows])


@sparse_op("sspaddmm", name="_sspmm", promotion="same", grad=dict.fromkeys(("input", "mat2"), not_differentiable("sspaddmm")))
def spread_product(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of a COO and a dense matrix, with the rows that have elements specified whole."""
    rows, values = rows_of_product(input, mat2)
    width = mat2.shape[1]
    indices = np.stack((np.repeat(rows, width), np.tile(np.arange(width), rows.size)))
    return coo(indices, values.reshape(-1), (input.shape[0], width), False)


@sparse_op("hspmm", promotion="same", method=False, grad=dict.fromkeys(("mat1", "mat2"), not_differentiable("hspmm")), aten=None)
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Product of a COO and a dense matrix, as a COO tensor of rows: one sparse and one dense dimension.

    Args:
        mat1: COO, ``(n, m)``.
        mat2: dense, ``(m, p)``.
    Returns:
        ``(n, p)``, of layout ``torch.sparse_coo``; rows of ``mat1`` without elements are not specified.
    Raises:
        NotImplementedError: a dense ``mat1``.
        RuntimeError: sizes that do not fit; in the backward pass, always.
    Source: torch.hspmm.
    Example:
        >>> x = torch.hspmm(torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse(), torch.ones(2, 3))
        >>> x.indices(), x.values()
        (tensor([[0]]), tensor([[2., 2., 2.]]))
    """
    if mat1.__class__ is not SparseArray or mat1.layout is not sparse_coo or mat2.__class__ is SparseArray:
        unsupported("hspmm", mat1, mat2)
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"hspmm: Argument #3: Expected dim 0 size {mat1.shape[1]}, got {mat2.shape[0]}")
    rows, values = rows_of_product(mat1, mat2)
    return coo(rows[None], values, (mat1.shape[0], mat2.shape[1]), rows.size < 2)


@composite(method=False, aliases=("dsmm", "hsmm"))
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """``torch.mm``, under its name for sparse matrices.

    Args:
        input: ``(n, m)``, sparse or dense.
        mat2: ``(m, p)``.
    Returns:
        ``(n, p)``; sparse where both are.
    Raises:
        RuntimeError: sizes or dtypes that do not fit.
    Source: torch.spmm.
    Example:
        >>> torch.spmm(torch.eye(2).to_sparse(), torch.full((2, 1), 3.0))
        tensor([[3.],
                [3.]])
    """
    return plain_mm(input, mat2)


@composite(method=False)
def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``torch.sspaddmm`` under another name: ``beta * input + alpha * mat1 @ mat2``.

    Args:
        input, mat1: COO, ``(n, p)`` and ``(n, m)``.
        mat2: dense, ``(m, p)``.
        beta, alpha: factors.
        out: COO tensor to write into.
    Returns:
        ``(n, p)``, of layout ``torch.sparse_coo``.
    Raises:
        RuntimeError: sizes or dtypes that do not fit.
    Source: torch.saddmm.
    Example:
        >>> eye = torch.eye(2).to_sparse()
        >>> torch.saddmm(eye, eye, torch.ones(2, 2), alpha=3).to_dense()
        tensor([[4., 3.],
                [3., 4.]])
    """
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha, out=out)
