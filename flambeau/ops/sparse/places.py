"""Places of sparse tensors: masks, parts, other orders of dimensions, joining."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.sparse import (
    SparseArray,
    bodies,
    coalesced,
    compressed_of,
    coo,
    coo_from,
    entries_at,
    rules,
    sparse_array,
    transposed,
    unsupported,
)
from ...core.calls.annotations import Tensor
from ...core.calls.registry import TABLES, method
from ...core.layout import sparse_coo, sparse_csr, strided
from ...core.shape import wrap_dim
from .construction import entries, sparse_op, with_values


@sparse_op(
    name="_sparse_mask", node_name="SparseMaskBackward0", grad={"input": lambda grad, mask, dense: masked_gradient(grad, mask, dense)}
)
def _masked(input: Tensor, mask: Tensor, dense: bool) -> Tensor:
    """The elements of ``input`` at the places of ``mask``."""
    if input.__class__ is SparseArray and input.layout is mask.layout is sparse_csr:  # then only what both specify, as in PyTorch
        return rules["mul"](input, mask.with_values(np.ones_like(mask.values, input.dtype)))
    if input.__class__ is SparseArray and input.layout is sparse_coo:
        input = coalesced(input)
    return mask.with_values(entries_at(input, mask))


def masked_gradient(grad: Any, mask: Any, dense: bool) -> Any:
    masked = with_values(entries(grad, mask), mask)
    if dense:
        return masked.to_dense(masked_grad=False)
    return masked.coalesce() if masked.layout is sparse_coo else masked  # an element may have been taken more than once


@method()
def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``input`` at the places that ``mask`` specifies, as a tensor of ``mask``'s layout.

    Args:
        input: dense or sparse, any shape.
        mask: a sparse tensor of its shape, whose values do not matter.
    Returns:
        ``input``'s shape and dtype, ``mask``'s layout.
    Raises:
        RuntimeError: other sizes.
        NotImplementedError: a mask that is not sparse.
    Gradient: ``grad`` at the same places.
    Source: torch.Tensor.sparse_mask.
    Example:
        >>> torch.tensor([[1, 2], [3, 4]]).sparse_mask(torch.eye(2).to_sparse()).to_dense()
        tensor([[1, 0],
                [0, 4]])
    """
    if mask.layout is strided:
        unsupported("sparse_mask", input._array)
    if mask is input:
        return input
    return _masked(input, mask.detach(), input.layout is strided)


# -- the order of dimensions ------------------------------------------------------------------------------------------------------------
@rules("permute")
def permuted(input: SparseArray, dims: Any) -> SparseArray:
    """Dimensions in another order; sparse ones stay among themselves."""
    dims = tuple(dims)
    if input.layout is not sparse_coo:
        if dims == tuple(range(input.ndim)):
            return input.copy()
        place = input.batch_dim
        expected = [*range(input.ndim)]
        expected[place], expected[place + 1] = place + 1, place
        if list(dims) != expected:
            unsupported("permute", input)
        return transposed(input)
    count = input.sparse_dim
    if sorted(dims[:count]) != list(range(count)):
        raise RuntimeError("sparse permute: transposed dimensions must be sparse Got sparse_dim: " + f"{count}, dims: {list(dims)}")
    indices = input.parts[0][list(dims[:count])]
    values = input.values.transpose(0, *[d - count + 1 for d in dims[count:]])
    shape = tuple([input.shape[d] for d in dims])
    same = dims[:count] == tuple(range(count))
    result = coo(np.ascontiguousarray(indices), np.ascontiguousarray(values), shape, input.coalesced and same)
    result.coalesced = input.coalesced and same
    return result


@rules("transpose")
def rule_of_transpose(input: SparseArray, dim0: int, dim1: int) -> SparseArray:
    dims = list(range(input.ndim))
    if dims:
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    count = input.sparse_dim
    if input.layout is sparse_coo and dim0 % max(input.ndim, 1) != dim1 % max(input.ndim, 1) and ((dim0 < count) != (dim1 < count)):
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {count}, d0: {min(dim0, dim1)}, d1: {max(dim0, dim1)}"
        )
    result = permuted(input, dims)
    if input.layout is not sparse_coo:
        return result
    result.coalesced = result.coalesced or (input.coalesced and not result.nnz)
    return apart(result, input)


def apart(result: SparseArray, input: SparseArray) -> SparseArray:
    """``result`` with values of its own: ``permute`` shares them with its input, ``transpose`` and ``narrow_copy`` do not."""
    return result.with_values(result.values.copy()) if np.may_share_memory(result.values, input.values) else result


@rules("t")
def rule_of_t(input: SparseArray) -> SparseArray:
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is {input.ndim}D")
    return rule_of_transpose(input, 0, 1) if input.ndim == 2 else input.copy()


# -- parts ------------------------------------------------------------------------------------------------------------------------------
def selected(input: SparseArray, dim: int, index: int) -> Any:
    """The slice at ``index`` of a dimension: of rows or columns COO, or dense where no sparse dimension is left."""
    is_compressed = input.layout is not sparse_coo
    if is_compressed and dim not in (input.batch_dim, input.batch_dim + 1):
        return _selected_of_compressed(input, dim, index)
    if is_compressed:
        input = coalesced(coo_from(input))
    count = input.sparse_dim
    shape = (*input.shape[:dim], *input.shape[dim + 1 :])
    index += input.shape[dim] if index < 0 else 0
    if dim >= count:
        return coo(input.parts[0], np.ascontiguousarray(input.values.take(index, axis=dim - count + 1)), shape)
    kept = np.flatnonzero(input.parts[0][dim] == index)
    indices = np.delete(input.parts[0][:, kept], dim, axis=0)
    values = input.values[kept]
    if count == 1:
        return values.sum(0, dtype=values.dtype) if len(values) != 1 else values[0]
    return coo(indices, values, shape, is_compressed)


def _selected_of_compressed(input: SparseArray, dim: int, index: int) -> SparseArray:
    """The slice at ``index`` of a dimension of batches or of a dense one, in the same layout."""
    shape = (*input.shape[:dim], *input.shape[dim + 1 :])
    if dim < input.batch_dim:
        parts = tuple([part.take(index, axis=dim) for part in input.parts])
        return sparse_array(input.layout, shape, parts, input.values.take(index, axis=dim))
    values = np.ascontiguousarray(input.values.take(index, axis=dim - input.ndim))
    return sparse_array(input.layout, shape, tuple([part.copy() for part in input.parts]), values)


@rules("unsqueeze")
def inserted(input: SparseArray, dim: int) -> SparseArray:
    """A dimension of size 1 put in; the result does not count as coalesced, as in PyTorch."""
    if input.layout is not sparse_coo:
        unsupported("unsqueeze", input)
    shape = (*input.shape[:dim], 1, *input.shape[dim:])
    if dim <= input.sparse_dim:
        return coo(np.insert(input.parts[0], dim, 0, axis=0), input.values, shape)
    return coo(input.parts[0], np.expand_dims(input.values, dim - input.sparse_dim + 1), shape)


def whole_key(key: Any, ndim: int) -> list[Any]:
    """A basic index with whole slices in place of its Ellipsis."""
    used = sum(part is not None and part is not Ellipsis for part in key)
    at = next((i for i, part in enumerate(key) if part is Ellipsis), len(key))
    return [*key[:at], *[slice(None)] * (ndim - used), *key[at + 1 :]]


@rules("_select", "_slice", "_exact_select", "_exact_slice", "_index_unsqueeze")
def rule_of_part(input: Any, key: Any) -> Any:
    """A basic index: whole numbers, None, and slices without steps."""
    dim = 0
    for part in whole_key(key, input.ndim):
        if input.__class__ is not SparseArray:  # no sparse dimension is left
            input = input[(slice(None),) * dim + (part,)]
            dim += part is None or isinstance(part, slice)
        elif part is None:
            input, dim = inserted(input, dim), dim + 1
        elif isinstance(part, slice):
            start, stop, step = part.indices(input.shape[dim])
            if step != 1:
                unsupported("slice", input)
            if (start, stop) != (0, input.shape[dim]):
                input = narrowed(input, dim, start, max(stop - start, 0))
            dim += 1
        else:
            input = selected(input, dim, part)
    return input


@rules("_scatter_part")
def rule_of_scatter_part(input: SparseArray, shape: Any, key: Any) -> Any:
    """The gradient of a part: entries with the indices that were selected."""
    if input.layout is not sparse_coo:
        unsupported("select_backward", input)
    array, dim = input, 0
    for part in whole_key(key, len(shape)):
        if part is None:
            array = selected(array, dim, 0)
            continue
        full = (*array.shape[:dim], shape[dim], *array.shape[dim + (1 if isinstance(part, slice) else 0) :])
        if isinstance(part, slice):
            start = part.indices(shape[dim])[0]
            array = array if full == array.shape else widened(array, full, dim, start)
        elif dim <= array.sparse_dim:
            array = coo(np.insert(array.parts[0], dim, part % shape[dim], axis=0), array.values, full, array.coalesced)
        else:
            array = widened(inserted(array, dim), full, dim, part % shape[dim])
        dim += 1
    return array


@rules("index_select")
def rule_of_index_select(input: SparseArray, dim: int, index: np.ndarray) -> SparseArray:
    if input.layout is not sparse_coo:
        unsupported("index_select", input)
    shape = (*input.shape[:dim], index.size, *input.shape[dim + 1 :])
    if dim >= input.sparse_dim:
        return coo(input.parts[0], input.values.take(index.reshape(-1), axis=dim - input.sparse_dim + 1), shape)
    along = input.parts[0][dim]
    order = along.argsort(kind="stable")
    ordered = along[order]
    first, last = ordered.searchsorted(index), ordered.searchsorted(index, side="right")
    counts = last - first
    places = np.repeat(np.arange(index.size), counts)
    within = np.arange(places.size) - np.repeat(np.cumsum(counts) - counts, counts)
    source = order[np.repeat(first, counts) + within]
    indices = input.parts[0][:, source]
    indices[dim] = places
    return coo(indices, input.values[source], shape)


def narrowed(input: SparseArray, dim: int, start: int, length: int) -> SparseArray:
    if input.layout is not sparse_coo:
        unsupported("narrow_copy", input)
    shape = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    if dim >= input.sparse_dim:
        part = (slice(None),) * (dim - input.sparse_dim + 1) + (slice(start, start + length),)
        return coo(input.parts[0], input.values[part].copy(), shape, input.coalesced)
    along = input.parts[0][dim]
    kept = np.flatnonzero((along >= start) & (along < start + length))
    indices = input.parts[0][:, kept]
    indices[dim] -= start
    return coo(indices, input.values[kept], shape, input.coalesced)


def widened(input: SparseArray, shape: Any, dim: int, start: int) -> SparseArray:
    """Zeros around a range of a dimension."""
    if input.layout is not sparse_coo:
        unsupported("narrow_copy", input)
    if dim < input.sparse_dim:
        indices = input.parts[0].copy()
        indices[dim] += start
        return coo(indices, input.values, shape, input.coalesced)
    place = dim - input.sparse_dim + 1
    values = np.zeros((input.nnz, *shape[input.sparse_dim :]), input.dtype)
    values[(slice(None),) * place + (slice(start, start + input.shape[dim]),)] = input.values
    return coo(input.parts[0], values, shape, input.coalesced)


def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """``torch.narrow_copy`` of a sparse tensor."""
    part = input.narrow(dim, start, length)
    return part.clone() if np.may_share_memory(part._array.values, input._array.values) else part


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """``torch.unbind`` of a sparse tensor."""
    return tuple([input.select(dim, i) for i in range(input.shape[wrap_dim(dim, input.ndim)])])


bodies[TABLES["torch"]["narrow_copy"].body] = narrow_copy
bodies[TABLES["torch"]["unbind"].body] = unbind


@rules("_expand")
def rule_of_expand(input: SparseArray, *rest: Any) -> Any:
    raise RuntimeError("expand is unsupported for Sparse tensors")


# -- joining ----------------------------------------------------------------------------------------------------------------------------
@rules("cat")
def rule_of_cat(tensors: Sequence[Any], dim: int) -> SparseArray:
    first = tensors[0]
    for position, array in enumerate(tensors):
        if array.__class__ is not SparseArray:
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {position}.")
        if array.layout is not sparse_coo:
            unsupported("cat", array)
        if array.sparse_dim != first.sparse_dim or array.dense_dim != first.dense_dim:
            raise RuntimeError(
                "All tensors must have the same shape (except in the concatenating dimension) and the same number of sparse and dense "
                f"dimensions, but tensor {position} has {array.sparse_dim} and {array.dense_dim}"
            )
        if [n for d, n in enumerate(array.shape) if d != dim] != [n for d, n in enumerate(first.shape) if d != dim]:
            raise RuntimeError(
                "All tensors must have the same shape: " + f"{list(first.shape)} (except in the concatenating dimension), but tensor "
                f"{position} has {list(array.shape)}"
            )
    starts = np.cumsum([0] + [array.shape[dim] for array in tensors])
    shape = (*first.shape[:dim], int(starts[-1]), *first.shape[dim + 1 :])
    widened_arrays = [widened(array, shape, dim, int(start)) for array, start in zip(tensors, starts, strict=False)]
    indices = np.concatenate([array.parts[0] for array in widened_arrays], axis=1)
    return coo(indices, np.concatenate([array.values for array in widened_arrays]), shape, False)


@rules("stack")
def rule_of_stack(tensors: Sequence[Any], dim: int) -> SparseArray:
    for position, array in enumerate(tensors):
        if array.__class__ is not SparseArray:
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {position}.")
        if array.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(array.shape)} at entry {position}"
            )
    return rule_of_cat([inserted(array, dim) for array in tensors], dim)


def compressed_like(array: SparseArray, template: SparseArray) -> SparseArray:
    """A COO array of two sparse dimensions in a template's layout."""
    return array if template.layout is sparse_coo else compressed_of(array, template.layout, template.block)
