"""Sums, norms and softmax of sparse tensors, and matrices of diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.sparse import (
    SparseArray,
    bodies,
    coalesced,
    compressed_of,
    coo,
    coo_from,
    dense_from,
    entries_at,
    keys_of,
    rules,
    unsupported,
)
from ...core.calls.annotations import Tensor
from ...core.calls.registry import TABLES, composite, op
from ...core.layout import sparse_coo, sparse_csc, sparse_csr
from ...core.shape import wrap_dims
from .construction import sparse_op, with_values


def _sum_dtype(array: Any, dtype: Any) -> np.dtype:
    if dtype is not None:
        return dtype.numpy
    return np.dtype(np.int64) if array.dtype.kind in "biu" else array.dtype


@rules("sum")
def rule_of_sum(input: SparseArray, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum over dimensions: dense where no sparse dimension is left."""
    kind = _sum_dtype(input, dtype)
    values = input.values.astype(kind, copy=False)
    dims = tuple(range(input.ndim)) if dim is None else tuple(sorted(d % input.ndim for d in dim)) if input.ndim else ()
    if len(dims) == input.ndim and not keepdim:
        return np.asarray(values.sum(dtype=kind))
    if input.layout is not sparse_coo:
        return _sum_of_compressed(input.with_values(values), dims, keepdim)
    count = input.sparse_dim
    values = values.sum(axis=tuple(d - count + 1 for d in dims if d >= count), dtype=kind, keepdims=keepdim)
    left = [d for d in range(count) if d not in dims]
    shape = tuple([n if d not in dims else 1 for d, n in enumerate(input.shape) if keepdim or d not in dims])
    if not left:
        values = values.sum(0, dtype=kind)
        return values.reshape(shape) if keepdim else np.asarray(values)
    if keepdim:
        indices = input.parts[0].copy()
        indices[[d for d in range(count) if d in dims]] = 0
        total = coalesced(coo(indices, values, shape))
        total.coalesced = total.nnz < 2  # in PyTorch the dimensions are put in again
        return total
    return coalesced(coo(input.parts[0][left], values, shape))


def _sum_of_compressed(input: SparseArray, dims: tuple[int, ...], keepdim: bool) -> Any:
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if input.layout not in (sparse_csr, sparse_csc) or input.batch_dim:
        unsupported("sum.dim_IntList", input)
    total = rule_of_sum(coo_from(input), dims, True)
    if total.__class__ is not SparseArray:
        total = coo(np.zeros((2, 1), np.int64), total.reshape(1, *total.shape[2:]), total.shape, True)
    return compressed_of(total, input.layout)


@rules("_sum_to_size")
def _to_size(input: SparseArray, shape: Any) -> Any:
    lead = input.ndim - len(shape)
    reduced = rule_of_sum(input, tuple(range(lead)), False) if lead else input
    ones = tuple([d for d, n in enumerate(shape) if n == 1 and reduced.shape[d] != 1])
    if not ones:
        return reduced
    return rule_of_sum(reduced, ones, True) if reduced.__class__ is SparseArray else reduced.sum(ones, keepdims=True)


@rules("any")
def rule_of_any(input: SparseArray, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is not None and len(dim) < input.ndim:
        unsupported("any", input)
    return np.asarray(bool((coalesced(input) if input.layout is sparse_coo else input).values.any()))


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """``torch.norm`` of a sparse tensor: of all its values."""
    if not input.is_sparse:
        unsupported("norm.ScalarOpt_dim", input._array)
    if dim is not None and len(wrap_dims(dim, input.ndim)) < input.ndim:
        raise RuntimeError("Only full reduction is supported for norm on sparse tensors")
    if keepdim:
        raise RuntimeError("norm_sparse doesn't support keepdim=True on sparse tensors")
    return TABLES["torch"]["norm"].wrapper(input.coalesce().values(), p, dtype=dtype)


bodies[TABLES["torch"]["norm"].body] = norm


# -- torch.sparse.sum -------------------------------------------------------------------------------------------------------------------
@sparse_op(
    "_sparse_sum",
    name="_sparse_sum",
    node_name="SparseSumBackward0",
    grad={"input": lambda grad, input, dim: _spread_over(grad, input.detach().coalesce(), dim)},
    aten=None,
)
def _sum(input: Tensor, dim: Any) -> Tensor:
    """Sum over dimensions, with a gradient at the specified elements only."""
    return rule_of_sum(input, dim, False, dtypes.of_array(input))


def _spread_over(grad: Any, mask: Any, dim: Any) -> Any:
    return with_values(spread_entries(grad, mask, dim), mask)


@sparse_op("_sparse_sum_backward", name="_sparse_spread", grad={"grad_output": lambda grad, mask, dim: _sum(with_values(grad, mask), dim)})
def spread_entries(grad_output: Tensor, mask: Tensor, dim: Any) -> Tensor:
    """A summed tensor's elements at the places of what was summed over ``dim``."""
    count = mask.sparse_dim
    dims = tuple(range(mask.ndim)) if dim is None else tuple(d % mask.ndim for d in dim)
    left = [d for d in range(count) if d not in dims]
    if not left:
        values = np.broadcast_to(grad_output, (mask.nnz, *grad_output.shape))
    else:
        shape = tuple([n for d, n in enumerate(mask.shape) if d not in dims])
        values = entries_at(grad_output, coo(mask.parts[0][left], np.empty((mask.nnz, *shape[len(left) :]), mask.dtype), shape))
    values = np.expand_dims(values, tuple(d - count + 1 for d in dims if d >= count))
    return np.broadcast_to(values, mask.values.shape).astype(mask.dtype)


@composite(name="sum", namespace="sparse", method=False)
def sparse_sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """Sum of a COO tensor over all or some dimensions: sparse while a sparse dimension is left.

    Args:
        input: COO (or a CSR or CSC matrix), any shape.
        dim: dimension or dimensions; all when None, none when empty.
        dtype: cast to it first; integers and bools become int64 where no sparse dimension is left.
    Returns:
        ``input``'s shape without ``dim``: COO while a sparse dimension is left, otherwise dense.
    Raises:
        IndexError: ``dim`` out of range.
        NotImplementedError: a dense tensor.
    Gradient: ``grad`` at the specified elements of ``input``.
    Source: torch.sparse.sum.
    Example:
        >>> x = torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse()
        >>> torch.sparse.sum(x), torch.sparse.sum(x, dim=0).to_dense()
        (tensor(6.), tensor([3., 3.]))
    """
    if not input.is_sparse:
        unsupported("_indices", input._array) if input.layout not in (sparse_csr, sparse_csc) else input.coalesce()
    given = input.coalesce() if dim is None else input  # of bools at one place whether one is true, or how many are
    given = given if dtype is None else given.to(dtype)
    dims = wrap_dims(dim, input.ndim, empty_is_all=False)
    whole = set(range(given.sparse_dim())) <= set(dims)
    if whole and (dim is not None or dtype is None) and dtypes.of_array(given._array).category < dtypes.FLOATING:
        given = given.to(dtypes.int64)
    return _sum(given, dims)


# -- softmax ----------------------------------------------------------------------------------------------------------------------------
def _groups(array: SparseArray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The order that brings entries together which differ in ``dim`` only, and where each group begins."""
    others = [d for d in range(array.sparse_dim) if d != dim]
    if not others:
        return np.arange(array.nnz), np.zeros(min(array.nnz, 1), np.int64)
    keys = keys_of(array.parts[0][others], tuple([array.shape[d] for d in others]))
    order = keys.argsort(kind="stable")
    keys = keys[order]
    return order, np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if keys.size else np.zeros(0, np.int64)


def _by_group(array: SparseArray, dim: int, function: Any) -> np.ndarray:
    """``function(values, reduce)`` along a dimension; ``reduce(ufunc, values)`` gives each element its group's result."""
    values = array.values
    if dim >= array.sparse_dim:
        axis = dim - array.sparse_dim + 1
        return function(values, lambda ufunc, part: ufunc.reduce(part, axis=axis, keepdims=True))
    order, starts = _groups(array, dim)
    if not order.size:
        return values.copy()
    counts = np.diff(np.concatenate((starts, [order.size])))
    result = np.empty_like(values)
    result[order] = function(values[order], lambda ufunc, part: np.repeat(ufunc.reduceat(part, starts, axis=0), counts, axis=0))
    return result


@sparse_op(
    "_sparse_softmax",
    name="_sparse_softmax",
    node_name="SparseSoftmaxBackward0",
    grad={"input": lambda grad, result, dim, log: softmax_backward(grad, result, dim, log)},
    aten=None,
)
def _softmax(input: Tensor, dim: int, log: bool) -> Tensor:
    """Softmax over the specified elements."""

    def function(values: np.ndarray, reduce: Any) -> np.ndarray:
        shifted = values - reduce(np.maximum, values)
        powers = np.exp(shifted)
        total = reduce(np.add, powers)
        return shifted - np.log(total) if log else powers / total

    array = coalesced(input)
    return array.with_values(_by_group(array, dim, function))


@sparse_op("_sparse_softmax_backward_data", name="_sparse_softmax_backward", grad=None)
def softmax_backward(grad_output: Tensor, result: Tensor, dim: int, log: bool) -> Tensor:
    """The gradient of a softmax over specified elements."""
    given = result.with_values(entries_at(grad_output, result))

    def function(pairs: np.ndarray, reduce: Any) -> np.ndarray:
        along, outputs = pairs[..., 0], pairs[..., 1]
        if log:
            return np.stack((along - np.exp(outputs) * reduce(np.add, along), outputs), -1)
        return np.stack((outputs * (along - reduce(np.add, along * outputs)), outputs), -1)

    both = coo(result.parts[0], np.stack((given.values, result.values), -1), (*result.shape, 2), True)
    return result.with_values(np.ascontiguousarray(_by_group(both, dim, function)[..., 0]))


def _specified_softmax(input: Any, dim: int, dtype: Any, log: bool) -> Any:
    if not input.is_sparse:
        unsupported("_sparse_log_softmax" if log else "_sparse_softmax", input._array)
    given = input if dtype is None else input.to(dtype)
    if not given.is_floating_point():
        raise NotImplementedError(f"\"softmax\" not implemented for '{given.dtype.legacy}'")
    (axis,) = wrap_dims(dim, input.ndim)
    return _softmax(given, axis, log)


@composite(namespace="sparse", method=False)
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along ``dim`` over the specified elements of a COO tensor; what is not specified counts as minus infinity.

    Args:
        input: COO, any shape.
        dim: along which the results add up to 1.
        dtype: cast to it first.
    Returns:
        ``input``'s shape and places.
    Raises:
        NotImplementedError: another layout, or integers without ``dtype``.
        IndexError: ``dim`` out of range.
    Source: torch.sparse.softmax.
    Example:
        >>> x = torch.sparse_coo_tensor([[0, 1, 1], [0, 0, 2]], [5.0, 1.0, 1.0], (2, 3))
        >>> torch.sparse.softmax(x, dim=1).to_dense()
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.0000, 0.5000]])
    """
    return _specified_softmax(input, dim, dtype, False)


@composite(namespace="sparse", method=False)
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Logarithm of ``torch.sparse.softmax``, at the specified elements.

    Args:
        input: COO, any shape.
        dim: along which the probabilities add up to 1.
        dtype: cast to it first.
    Returns:
        ``input``'s shape and places.
    Raises:
        NotImplementedError: another layout, or integers without ``dtype``.
        IndexError: ``dim`` out of range.
    Source: torch.sparse.log_softmax.
    Example:
        >>> x = torch.sparse_coo_tensor([[0, 2]], [1.0, 1.0], (3,))
        >>> torch.sparse.log_softmax(x, dim=0).coalesce().values()  # log 1/2
        tensor([-0.6931, -0.6931])
    """
    return _specified_softmax(input, dim, dtype, True)


for _name, _function in (("softmax", softmax), ("log_softmax", log_softmax)):
    bodies.setdefault(
        getattr(TABLES["torch"][_name], "body", None), lambda input, dim, dtype=None, function=_function: function(input, dim, dtype=dtype)
    )


# -- diagonals --------------------------------------------------------------------------------------------------------------------------
@op(grad={"diagonals": lambda grad, offsets, diagonals_shape: diagonals_of(grad, offsets, diagonals_shape)}, aten=None)
def _spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, form: Any) -> Tensor:
    """A sparse matrix of its diagonals."""
    row, column, values = [], [], []
    for offset, diagonal in zip(offsets.reshape(-1).tolist(), diagonals, strict=True):
        first, last = max(offset, 0), min(shape[1], shape[0] + offset, diagonal.size)
        along = np.arange(first, max(last, first))
        row.append(along - offset)
        column.append(along)
        values.append(diagonal[along])
    indices = np.stack((np.concatenate(row), np.concatenate(column))) if row else np.zeros((2, 0), np.int64)
    array = coo(indices.astype(np.int64), np.concatenate(values) if values else np.zeros(0, diagonals.dtype), shape, False)
    return array if form is sparse_coo else compressed_of(array, form)


@sparse_op(name="_spdiags_backward", grad=None)
def diagonals_of(grad_output: Tensor, offsets: Tensor, shape: Any) -> Tensor:
    """The diagonals of a matrix, in the shape that ``spdiags`` was given."""
    whole = dense_from(grad_output) if grad_output.__class__ is SparseArray else grad_output
    result = np.zeros(shape, whole.dtype)
    for target, offset in zip(result, offsets.reshape(-1).tolist(), strict=True):
        first, last = max(offset, 0), min(whole.shape[1], whole.shape[0] + offset, shape[1])
        along = np.arange(first, max(last, first))
        target[along] = whole[along - offset, along]
    return result


@composite(namespace="sparse", method=False)
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix of given diagonals; element ``j`` of a diagonal stands in column ``j``.

    Args:
        diagonals: ``(k, n)``, or ``(n,)`` for one.
        offsets: int64, ``(k,)``, distinct; 0 is the main diagonal, positive ones lie above it.
        shape: of the matrix.
        layout: ``torch.sparse_coo`` (when None), ``sparse_csr`` or ``sparse_csc``.
    Returns:
        Shape ``shape``, of that layout, ``diagonals``' dtype.
    Raises:
        RuntimeError: another dtype of ``offsets``, numbers of diagonals that differ, or another layout.
    Source: torch.sparse.spdiags.
    Example:
        >>> torch.sparse.spdiags(torch.tensor([[1, 2, 3], [7, 8, 9]]), torch.tensor([0, 1]), (3, 3)).to_dense()
        tensor([[1, 8, 0],
                [0, 2, 9],
                [0, 0, 3]])
    """
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    places = offsets if offsets.ndim else offsets.unsqueeze(0)
    form = sparse_coo if layout is None else layout
    if rows.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if places.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, got {len(shape)} dimensions")
    if form not in (sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError("Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got " + str(form))
    if places.dtype is not dtypes.int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {places.dtype}")
    if rows.shape[0] != places.shape[0]:
        raise RuntimeError(f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({places.shape[0]})")
    if len(set(places.tolist())) != places.shape[0]:
        raise RuntimeError("Offset tensor contains duplicate values")
    return _spdiags(rows, places, tuple(shape), form)
