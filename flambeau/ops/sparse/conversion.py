"""From dense to sparse, back, and from one sparse layout to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.sparse import (
    BACKENDS,
    BLOCKED,
    BY_ROW,
    SparseArray,
    coalesced,
    compressed_of,
    coo,
    coo_from,
    dense_from,
    rules,
    sparse_array,
)
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, documented, method
from ...core.layout import layout as Layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .construction import entries, sparse_op, sparse_part, with_values


# -- arrays -----------------------------------------------------------------------------------------------------------------------------
def coo_of_dense(array: np.ndarray, sparse_dim: int) -> SparseArray:
    """The elements of a dense array that are not zero; slices with one that is not, where there are dense dimensions."""
    mask = array != 0
    if sparse_dim < array.ndim:
        mask = mask.any(axis=tuple(range(sparse_dim, array.ndim)))
    if not array.ndim:
        count = int(bool(mask))
        return coo(np.zeros((0, count), np.int64), array.reshape(1)[:count].copy(), (), True)
    if not sparse_dim:
        count = int(bool(mask))
        return coo(np.zeros((0, count), np.int64), array[None][:count].copy(), array.shape, True)
    places = np.nonzero(mask)
    return coo(np.stack(places).astype(np.int64, copy=False), array[places], array.shape, True)


def compressed_of_dense(array: np.ndarray, form: Any, block: tuple[int, int], dense_dim: int) -> SparseArray:
    """The same in a compressed layout.

    Raises:
        RuntimeError: sizes that blocks do not divide, or batches with different numbers of elements.
    """
    batch_dim = array.ndim - 2 - dense_dim
    if batch_dim < 0:
        raise IndexError(f"to_sparse: expected at least {2 + dense_dim} dimensions for layout {form}, got {array.ndim}")
    high, wide = block
    batch, (rows, columns) = array.shape[:batch_dim], array.shape[batch_dim : batch_dim + 2]
    dense = array.shape[batch_dim + 2 :]
    if not high or not wide or rows % high or columns % wide:
        raise RuntimeError(f"tensor sparse size ({rows},{columns}) must be divisible by given blocksize ({high},{wide})")
    count = int(np.prod(batch, dtype=np.int64)) if batch else 1
    blocks = array.reshape(count, rows // high, high, columns // wide, wide, *dense).swapaxes(2, 3)
    if form not in BY_ROW:
        blocks = blocks.swapaxes(1, 2)
    mask = (blocks != 0).any(axis=tuple(range(3, blocks.ndim)))
    counts = mask.sum((1, 2))
    if count > 1 and (counts != counts[0]).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    nnz = int(counts[0]) if count else 0
    along = np.nonzero(mask)[2]
    starts = np.zeros((count, mask.shape[1] + 1), np.int64)
    np.cumsum(mask.sum(2), axis=1, out=starts[:, 1:])
    values = blocks[mask].reshape(*batch, nnz, *(block if form in BLOCKED else ()), *dense)
    return sparse_array(form, array.shape, (starts.reshape(*batch, -1), along.reshape(*batch, nnz)), values)


def _one_by_one(array: SparseArray, form: Any, block: tuple[int, int]) -> SparseArray:
    """A batch of matrices, by rows or by columns, the other way: every specified element or block stays, those that are 0 too."""
    batch, rest = array.shape[: array.batch_dim], array.shape[array.batch_dim :]
    count = int(np.prod(batch))
    starts, along, values = (part.reshape(count, *part.shape[array.batch_dim :]) for part in (*array.parts, array.values))
    each = [
        compressed_of(coo_from(sparse_array(array.layout, rest, tuple(parts), v)), form, block)
        for *parts, v in zip(starts, along, values, strict=True)
    ]
    starts, along, values = (np.stack(parts) for parts in zip(*((*one.parts, one.values) for one in each), strict=True))
    starts, along, values = (part.reshape(*batch, *part.shape[1:]) for part in (starts, along, values))
    return sparse_array(form, array.shape, (starts, along), values)


def in_layout(array: Any, form: Any, sparse_dim: int | None, block: tuple[int, int] | None, dense_dim: int | None) -> Any:
    """An array in another layout.

    Args:
        sparse_dim: of a COO result made of a dense array. dense_dim: of a compressed one.
    Raises:
        RuntimeError: dimensions or blocks that the layout does not have.
    """
    if form is strided:
        return dense_from(array)
    if array.__class__ is not SparseArray:
        if form is sparse_coo:
            return coo_of_dense(array, array.ndim if sparse_dim is None else sparse_dim)
        return compressed_of_dense(array, form, block or (1, 1), dense_dim or 0)
    if form is sparse_coo:
        return coo_from(array)
    if array.layout is form and (block is None or block == array.block):
        return array.copy()
    keeps_blocks = (array.layout in BLOCKED) == (form in BLOCKED) and block in (None, array.block)
    if array.batch_dim and keeps_blocks and 0 not in array.shape[: array.batch_dim]:
        return _one_by_one(array, form, array.block)
    if array.batch_dim:
        return compressed_of_dense(dense_from(array), form, block or (1, 1), array.dense_dim)
    if array.layout is sparse_coo and array.sparse_dim != 2:
        raise RuntimeError(
            f"conversion from Sparse to {BACKENDS[form]} for input tensors with sparse_dim()!=2 is not supported"
            if array.sparse_dim < 2
            else f"to_sparse: expected a COO tensor of two sparse dimensions for layout {form}, got {array.sparse_dim}"
        )
    if block is not None and (array.shape[0] % block[0] or array.shape[1] % block[1]):
        raise RuntimeError(f"tensor sparse size ({array.shape[0]},{array.shape[1]}) must be divisible by given blocksize {block}")
    if array.layout in BLOCKED and form in BLOCKED and block is None:
        block = array.block
    return compressed_of(coo_from(array), form, block or (1, 1))


# -- the operations ---------------------------------------------------------------------------------------------------------------------
def facts_of(tensor: Any) -> tuple[Any, ...]:
    """Facts by which a gradient is brought back to a tensor's layout: the layout, sparse dimensions, block, dense dimensions."""
    array = tensor._array
    if array.__class__ is not SparseArray:
        return (strided, None, None, None)
    block = array.block if array.layout in BLOCKED else None
    return (array.layout, array.sparse_dim, block, array.dense_dim)


def back(grad: Any, source: tuple[Any, ...]) -> Any:
    """A gradient in the layout of what was converted."""
    return grad if grad.layout is source[0] else converted(grad, source)


def _declare(name: str, node_name: str, rule: Any) -> Any:
    def convert(input: Tensor, form: Any, sparse_dim: Any, block: Any, dense_dim: Any, source: Any) -> Tensor:
        """``input`` in another layout."""
        return in_layout(input, form, sparse_dim, block, dense_dim)

    convert.__name__ = name
    return sparse_op(name=name, node_name=node_name, grad={"input": rule}, aten=None)(convert)


_OPERATIONS: dict[Any, Any] = {
    sparse_coo: _declare("_to_sparse", "ToSparseBackward1", lambda grad, source: back(grad, source)),
    sparse_csr: _declare("_to_sparse_csr", "ToSparseCsrBackward0", lambda grad, source: back(grad, source)),
    sparse_csc: _declare("_to_sparse_csc", "ToSparseCscBackward0", lambda grad, source: back(grad, source)),
    sparse_bsr: _declare("_to_sparse_bsr", "ToSparseBsrBackward0", lambda grad, source: back(grad, source)),
    sparse_bsc: _declare("_to_sparse_bsc", "ToSparseBscBackward0", lambda grad, source: back(grad, source)),
    strided: _declare("_to_strided", "ToDenseBackward0", lambda grad, source: converted(grad, source)),
}


def converted(tensor: Any, facts: tuple[Any, ...]) -> Any:
    """A tensor in the layout of ``facts``."""
    return _OPERATIONS[facts[0]](tensor, *facts, facts_of(tensor))


@sparse_op(name="_to_dense", node_name="ToDenseBackward0", grad={"input": lambda grad, input: masked_back(grad, input)}, aten=None)
def to_dense_masked(input: Tensor) -> Tensor:
    """A dense tensor, whose gradient is taken at the specified elements only."""
    return dense_from(input)


def masked_back(grad: Any, input: Any) -> Any:
    """``grad`` at the specified elements of ``input``, whose layout it gets."""
    mask = input.detach()
    if mask.is_sparse:
        mask = mask.coalesce()
    return with_values(entries(grad, mask), mask)


@method()
def to_dense(input: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with zeros where nothing is specified; itself where it is dense.

    Args:
        input: any shape and layout.
        dtype: must be None for a sparse tensor.
        masked_grad: whether the gradient of a sparse tensor is taken at its specified elements only (True when None).
    Returns:
        ``input``'s shape and dtype, strided.
    Raises:
        RuntimeError: a ``dtype`` for a sparse tensor.
    Gradient: ``grad`` in the layout of ``input``.
    Source: torch.Tensor.to_dense.
    Example:
        >>> torch.sparse_coo_tensor([[0, 0]], [2.0, 3.0], (2,)).to_dense()  # values of equal indices are added
        tensor([5., 0.])
    """
    if input.layout is strided:
        return input if dtype is None else input.to(dtype)
    if dtype is not None:
        raise RuntimeError(f"dtype argument is not supported by {'sparse_to_dense' if input.is_sparse else 'sparse_csr_to_dense'}")
    if masked_grad is False:
        return converted(input, (strided, None, None, None))
    return to_dense_masked(input)


def _block(blocksize: Any) -> tuple[int, int] | None:
    if blocksize is None:
        return None
    if not isinstance(blocksize, (int, tuple, list)):
        raise TypeError(f"to_sparse: blocksize must be a number or a tuple of two, got {type(blocksize).__name__}")
    sizes = (blocksize, blocksize) if isinstance(blocksize, int) else tuple([int(n) for n in blocksize])
    if len(sizes) != 2 or min(sizes) <= 0:
        raise RuntimeError(f"blocksize needs to be a tuple of two positive numbers, got {list(sizes)}")
    return sizes


@method()
def to_sparse(
    input: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Tensor:
    """The elements that are not zero, as a sparse tensor; itself where it has that layout.

    Args:
        input: any shape and layout.
        sparse_dim: how many dimensions get indices; all when None. COO only.
        layout: ``torch.sparse_coo`` or another sparse layout.
        blocksize: rows and columns of a block, for the layouts with blocks.
        dense_dim: how many of the last dimensions belong to the values; for compressed layouts of a dense tensor.
    Returns:
        ``input``'s shape and dtype, of that layout.
    Raises:
        RuntimeError: dimensions, a layout or blocks that do not fit.
        TypeError: a ``blocksize`` that is no number nor a tuple.
    Gradient: ``grad`` in the layout of ``input``.
    Source: torch.Tensor.to_sparse.
    Example:
        >>> torch.tensor([[0, 7], [0, 0]]).to_sparse()
        tensor(indices=tensor([[0],
                               [1]]),
               values=tensor([7]),
               size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    form = sparse_coo if layout is None else layout
    if not isinstance(form, Layout) or (form not in BACKENDS):
        raise RuntimeError(f"to_sparse: expected a sparse layout, got {form}")
    if sparse_dim is not None and layout is not None:
        raise RuntimeError("to_sparse: expected either sparse_dim or layout, got both")
    if form is sparse_coo:
        if blocksize is not None or dense_dim is not None:
            raise RuntimeError("to_sparse: blocksize and dense_dim are for compressed layouts, not for torch.sparse_coo")
        return _to_coo(input, sparse_dim)
    if form in BLOCKED and blocksize is None and input.layout not in BLOCKED:
        raise RuntimeError(f"to_sparse: expected a blocksize for layout {form}")
    if form not in BLOCKED and blocksize is not None:
        raise RuntimeError(f"to_sparse: for {input.layout} to {form} conversion, blocksize must not be given")
    return _to_compressed(input, form, _block(blocksize), dense_dim)


def _to_coo(input: Any, sparse_dim: int | None) -> Any:
    if input.is_sparse:
        if sparse_dim is not None and sparse_dim != input._array.sparse_dim:
            raise RuntimeError("to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported")
        return input
    if sparse_dim is not None:
        if input.layout is not strided:
            if sparse_dim != 2:
                raise RuntimeError(f"to_sparse: a tensor of layout {input.layout} has 2 sparse dimensions, got sparse_dim={sparse_dim}")
        elif input.ndim and not 0 < sparse_dim <= input.ndim:
            raise RuntimeError(
                f"sparse_dim argument must be in >0 when self.ndim>0 and <= {input.ndim}, got {sparse_dim}"
                if sparse_dim
                else "sparse_dim argument must be >0 when self.ndim>0"
            )
        elif not input.ndim and sparse_dim:
            raise RuntimeError(f"sparse_dim argument must be 0 for a tensor without dimensions, got {sparse_dim}")
    return converted(input, (sparse_coo, sparse_dim, None, None))


def _to_compressed(input: Any, form: Any, block: Any, dense_dim: int | None) -> Any:
    if input.layout is form and (block is None or block == input._array.block):
        return input
    if input.layout is not strided and dense_dim is not None and dense_dim != input._array.dense_dim:
        raise RuntimeError("to_sparse: conversion with dense_dim argument for sparse self is not supported")
    return converted(input, (form, None, block, dense_dim))


@method()
def to_sparse_coo(input: Tensor) -> Tensor:
    """The elements that are not zero, with indices in all dimensions: ``to_sparse()``.

    Args:
        input: any shape and layout.
    Returns:
        ``input``'s shape and dtype, of layout ``torch.sparse_coo``; itself where it has that layout.
    Raises:
        TypeError: no tensor, called as a function.
    Source: torch.Tensor.to_sparse_coo.
    Example:
        >>> torch.tensor([[0, 7], [0, 0]]).to_sparse_coo().indices()
        tensor([[0],
                [1]])
    """
    return to_sparse(input)


def _declare_method(name: str, form: Any, values: str) -> None:
    def without_blocks(input: Tensor, dense_dim: int | None = None) -> Tensor:
        """The elements that are not zero, in layout ``{form}``: ``to_sparse(layout={form})``.

        Args:
            input: ``(*batch, n, m, *dense dims)``, of any layout.
            dense_dim: how many of the last dimensions belong to the values; 0 when None.
        Returns:
            ``input``'s shape and dtype; itself where it has that layout.
        Raises:
            IndexError: fewer than two dimensions beside ``dense_dim``.
            RuntimeError: a ``dense_dim`` for another sparse layout.
        Source: torch.Tensor.{name}.
        Example:
            >>> torch.tensor([[0, 7], [5, 6]]).{name}().values()
            tensor({values})
        """
        return _to_compressed(input, form, None, dense_dim)

    def with_blocks(input: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
        """The elements that are not zero, in layout ``{form}``: ``to_sparse(layout={form})``.

        Args:
            input: ``(*batch, n, m, *dense dims)``, of any layout.
            blocksize: rows and columns of a block, a number or two; they divide the matrix.
            dense_dim: how many of the last dimensions belong to the values; 0 when None.
        Returns:
            ``input``'s shape and dtype; itself where it has that layout.
        Raises:
            IndexError: fewer than two dimensions beside ``dense_dim``.
            RuntimeError: blocks that do not divide the matrix.
        Source: torch.Tensor.{name}.
        Example:
            >>> torch.tensor([[0, 7], [5, 6]]).{name}((1, 2)).values()
            tensor({values})
        """
        if blocksize is None:
            raise TypeError(f"to_sparse_{name}(): argument 'blocksize' must be a number or a tuple of two, not None")
        return _to_compressed(input, form, _block(blocksize), dense_dim)

    method(name=name)(documented(name=name, form=form, values=values)(with_blocks if form in BLOCKED else without_blocks))


for _name, _form, _values in (
    ("csr", sparse_csr, "[7, 5, 6]"),
    ("csc", sparse_csc, "[5, 7, 6]"),
    ("bsr", sparse_bsr, "[[[0, 7]], [[5, 6]]]"),
    ("bsc", sparse_bsc, "[[[0, 7]], [[5, 6]]]"),
):
    _declare_method(f"to_sparse_{_name}", _form, _values)


@sparse_op(node_name="CoalesceBackward0", grad={"input": lambda grad: grad}, aten=None)
def _coalesce(input: Tensor) -> Tensor:
    """A COO tensor with sorted, distinct indices."""
    return coalesced(input)


@method()
def coalesce(input: Tensor) -> Tensor:
    """The tensor with sorted, distinct indices: values of equal indices are added up; itself where it is so.

    Args:
        input: of layout ``torch.sparse_coo``, any shape.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: another layout than COO.
    Gradient: ``grad``.
    Source: torch.Tensor.coalesce.
    Example:
        >>> torch.sparse_coo_tensor([[1, 1, 0]], [2.0, 3.0, 9.0], (2,)).coalesce().values()
        tensor([9., 5.])
    """
    array = sparse_part("coalesce", input, frozenset((sparse_coo,)), "sparse coordinate tensor layout")
    return input if array.coalesced else _coalesce(input)


# -- rules of the operations that copy and convert --------------------------------------------------------------------------------------
@rules("clone")
def rule_of_clone(input: Any, memory_format: Any = None) -> Any:
    if memory_format is not None and repr(memory_format) != "torch.preserve_format":
        raise RuntimeError("unsupported memory format option " + repr(memory_format)[6:])
    return input.copy()


@rules("_to_copy")
def rule_of_to_copy(input: Any, dtype: Any, memory_format: Any = None) -> Any:
    return input.copy() if input.dtype == dtype.numpy else input.astype(dtype.numpy)


@rules("copy")
def rule_of_copy(input: Any, src: Any, non_blocking: bool = False) -> Any:
    if input.__class__ is not src.__class__:
        words = [f"torch.{'sparse.' if a.__class__ is SparseArray else ''}{dtypes.of_array(a).legacy}Tensor" for a in (input, src)]
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {words[0]} and src type = {words[1]}"
        )
    if input.layout is not src.layout:
        raise RuntimeError(
            f"copy of sparse compressed tensors having different layouts is not supported. self layout is {input.layout} "
            f"and src layout is {src.layout}"
        )
    if input.layout is not sparse_coo and input.nnz != src.nnz:
        raise RuntimeError("torch.copy_: only sparse compressed tensors with the same number of specified elements are supported.")
    return src.copy().astype(input.dtype)


def _declare_part_copy(name: str, layout: str, printed: str) -> None:
    @composite(name=f"{name}_copy", method=False, out=True)
    @documented(name=name, layout=layout, printed=printed)
    def copy(input: Tensor) -> Tensor:
        """``Tensor.{name}()`` as a copy, in memory of its own.

        Args:
            input: of a layout that has them.
        Returns:
            The shape and dtype of ``input.{name}()``.
        Raises:
            RuntimeError: another layout.
        Source: torch.{name}_copy.
        Example:
            >>> torch.{name}_copy(torch.tensor([[0, 7], [5, 6]]).to_sparse{layout}())
            tensor({printed})
        """
        return getattr(input, name)().clone()


for _name, _layout, _printed in (
    ("indices", "", "[[0, 1, 1], [1, 0, 1]]"),
    ("values", "", "[7, 5, 6]"),
    ("crow_indices", "_csr", "[0, 1, 3]"),
    ("col_indices", "_csr", "[1, 0, 1]"),
    ("ccol_indices", "_csc", "[0, 1, 3]"),
    ("row_indices", "_csc", "[1, 0, 1]"),
):
    _declare_part_copy(_name, _layout, _printed)
