"""Joining tensors: along a dimension, along a further one, in blocks, and in all combinations."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.calls.annotations import Tensor
from ..core.calls.interruption import pass_on
from ..core.calls.out import Out
from ..core.calls.registry import Declare, composite, op, other_names, resolve
from ..core.layout import contiguous_format, empty_strided_array, format_strides, suggested_format
from ..core.shape import Size, broadcast_shape, index_of, part_of, restrided, sizes_of, view_strides, wrap_dim
from ..core.tensor import Tensor as TensorType
from .creation import empty
from .small import LIMIT

# -- cat ------------------------------------------------------------------------------------------------------------------------
_OUT = Out(complain=lambda have, want: TypeError(f"torch.cat(): input types can't be cast to the desired output type {want.legacy}"))


def _is_skipped(shape: tuple[int, ...]) -> bool:
    return shape == (0,)  # an empty 1-d tensor fits anything: programs start lists with torch.tensor([])


def _canonicalize_cat(tensors: Any, dim: int) -> tuple[Any, ...]:
    if not len(tensors):
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for position, tensor in enumerate(tensors):
        if not tensor._array.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    used = [(position, tensor._array.shape) for position, tensor in enumerate(tensors) if not _is_skipped(tensor._array.shape)]
    if not used:
        return (tensors, 0)
    first = used[0][1]
    dim = wrap_dim(index_of(dim), len(first))
    for position, shape in used:
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, (a, b) in enumerate(zip(first, shape, strict=True)):
            if a != b and d != dim:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} for tensor number "
                    f"{position} in the list."
                )
    return (tensors, dim)


def _cat_gradients(grad: Any, dim: int, tensors_shape: Any) -> list[Any]:
    ndim = grad._array.ndim
    dim = dim + ndim if dim < 0 else dim
    parts, start = [], 0
    for shape in tensors_shape:
        if _is_skipped(shape) and ndim != 1:
            parts.append(grad.new_zeros((0,)))
            continue
        parts.append(grad.narrow(dim, start, shape[dim]))
        start += shape[dim]
    return parts


# NumPy's C function without the dispatcher for ``__array_function__`` around it, which costs a third of a small call.
_concatenate = getattr(np.concatenate, "_implementation", np.concatenate)


# A row-major array of one channel may be in channels-last format too, which its strides tell.
_NO_CHANNELS_LAST = "(arrays[0].ndim < 4 or arrays[0].strides[1] > arrays[0].strides[-1])"


def _joining(**options: Any) -> Declare:
    """Declare a function that puts tensors together."""
    return op(
        promotion="default", opmath="native", method=False, out=_OUT, autocast={"cpu": "widest"}, forward="linear", moves=True, **options
    )


@_joining(
    aliases=("concat", "concatenate"),
    canonicalize=_canonicalize_cat,
    work="tensors.size // 8",  # NumPy copies whole rows
    # NumPy keeps the order of columns-first inputs
    fast=f"(large(arrays, dim) if arrays[0].flags.c_contiguous and {_NO_CHANNELS_LAST} else None) if arrays[0].size >= THRESHOLD "
    "else joined if (joined := _concatenate(arrays) if dim == 0 else _concatenate(arrays, dim)).flags.c_contiguous and "
    f"{_NO_CHANNELS_LAST} else None",
    grad={"tensors": _cat_gradients},
)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along ``dim``.

    Args:
        tensors: equal sizes except along ``dim``; empty 1-d tensors are left out.
        dim: dimension along which the sizes add up.
    Returns:
        A new tensor of the tensors' common dtype.
    Raises:
        ValueError: no tensors.
        RuntimeError: 0-d tensors, or sizes that do not match.
        IndexError: ``dim`` out of range.
    Gradient: the part of ``grad`` that each tensor became.
    Source: torch.cat.
    Example:
        >>> torch.cat([torch.tensor([[1, 2]]), torch.tensor([[3, 4], [5, 6]])])
        tensor([[1, 2],
                [3, 4],
                [5, 6]])
        >>> torch.cat([torch.tensor([1, 2]), torch.tensor([0.5])])
        tensor([1.0000, 2.0000, 0.5000])
    """
    used = [tensor for tensor in tensors if not _is_skipped(tensor.shape)]
    if not used:
        return np.empty(0, tensors[0].dtype)
    shape = list(used[0].shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in used)
    return np.concatenate(used, dim, out=_empty_in_common_format(tensors, tuple(shape), used[0].dtype))


other_names("cat", inputs="tensors", dimension="dim")


def _empty_in_common_format(arrays: Sequence[np.ndarray], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory for the result: channels last where all inputs are, row-major otherwise."""
    if len(shape) not in (4, 5):
        return np.empty(shape, dtype)
    forms = {suggested_format(array) if array.ndim == len(shape) else contiguous_format for array in arrays}
    return empty_strided_array(shape, format_strides(shape, forms.pop() if len(forms) == 1 else contiguous_format), dtype)


# -- stack ----------------------------------------------------------------------------------------------------------------------
def _canonicalize_stack(tensors: Any, dim: int) -> tuple[Any, ...]:
    if not len(tensors):
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0]._array.shape
    dim = wrap_dim(index_of(dim), len(shape) + 1)
    for position, tensor in enumerate(tensors):
        if tensor._array.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(tensor._array.shape)} at entry "
                f"{position}"
            )
    return (tensors, dim)


_array, _join = np.ndarray, bytearray().join


def _fast_stack(arrays: list[np.ndarray], dim: int) -> np.ndarray | None:
    shape = arrays[0].shape
    for array in arrays:
        if array.shape != shape:
            return None
    if len(shape) > 3 and not (arrays[0].flags.c_contiguous and arrays[0].strides[1] > arrays[0].strides[-1]):
        return None  # may be channels last
    if dim == 0:
        if arrays[0].size <= LIMIT:
            try:  # joined as bytes, which takes two thirds of the time of NumPy's functions
                return _array((len(arrays), *shape), arrays[0].dtype, _join(arrays))
            except (
                TypeError
            ) as error:  # raised for an array that is no row of bytes: not row-major, or of a dtype that Python does not know
                pass_on(error)
        return np.array(arrays)
    ndim = len(shape)
    if not 0 < dim < ndim:
        if dim != ndim and dim != -1:
            return None
        result = _concatenate([array[..., None] for array in arrays], ndim)
        return result if result.flags.c_contiguous else None
    # joined along the dimension that follows, which is then split: no array needs a further dimension first
    result = _concatenate(arrays, dim)
    return result.reshape((*shape[:dim], len(arrays), *shape[dim:])) if result.flags.c_contiguous else None


@_joining(canonicalize=_canonicalize_stack, fast=_fast_stack, fp_safe=True, grad={"tensors": lambda grad, dim: list(grad.unbind(dim))})
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along a further dimension.

    Args:
        tensors: equal sizes.
        dim: where the further dimension goes in the result.
    Returns:
        A new tensor of the tensors' common dtype; ``len(tensors)`` is the size along ``dim``.
    Raises:
        RuntimeError: no tensors, or different sizes.
        IndexError: ``dim`` out of range.
    Gradient: the slices of ``grad``.
    Source: torch.stack.
    Example:
        >>> torch.stack([torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6])])
        tensor([[1, 2, 3],
                [4, 5, 6]])
        >>> torch.stack([torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6])], dim=1).shape
        torch.Size([3, 2])
    """
    shape = tensors[0].shape
    whole = (*shape[:dim], len(tensors), *shape[dim:])
    if dim == len(shape):
        out = _empty_in_common_format([part_of(tensor, (..., None)) for tensor in tensors], whole, tensors[0].dtype)
        return np.stack(tensors, dim, out=out)
    joined = (*shape[:dim], len(tensors) * shape[dim], *shape[dim + 1 :])  # what PyTorch makes, and cuts into ``whole``
    flat = np.concatenate(tensors, dim, out=_empty_in_common_format(tensors, joined, tensors[0].dtype))
    return restrided(flat, whole, view_strides(flat, whole) or ())


other_names("stack", inputs="tensors")


# -- by rows, columns, depth ---------------------------------------------------------------------------------------------------
def _listed(tensors: tuple[Any, ...]) -> list[Any]:
    """Tensors given one by one or as one sequence."""
    return list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)


def _require_tensors(tensors: Any, operation: str) -> Sequence[Any]:
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{operation}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError(f"{operation} expects a non-empty TensorList")
    return tensors


@composite(method=False, out=_OUT, moves=True)
def hstack(tensors: Sequence[Tensor]) -> Any:
    """The tensors side by side: along dimension 1, or 0 for 1-d tensors.

    Args:
        tensors: equal sizes except along that dimension; 0-d tensors count as 1-d.
    Returns:
        A new tensor of the tensors' common dtype.
    Raises:
        RuntimeError: no tensors, or sizes that do not match.
    Gradient: the part of ``grad`` that each tensor became.
    Source: torch.hstack.
    Example:
        >>> torch.hstack([torch.tensor([[1], [2]]), torch.tensor([[3, 4], [5, 6]])])
        tensor([[1, 3, 4],
                [2, 5, 6]])
        >>> torch.hstack([torch.tensor([1, 2]), torch.tensor(3)])
        tensor([1, 2, 3])
    """
    raised = [tensor.reshape(1) if not tensor.ndim else tensor for tensor in _require_tensors(tensors, "hstack")]
    return cat(raised, 0 if raised[0].ndim == 1 else 1)


@composite(method=False, out=_OUT, aliases=("row_stack",), moves=True)
def vstack(tensors: Sequence[Tensor]) -> Any:
    """The tensors below each other, 1-d tensors as rows.

    Args:
        tensors: equal sizes except along dimension 0; 0-d and 1-d tensors count as one row.
    Returns:
        A new tensor of the tensors' common dtype and at least two dimensions.
    Raises:
        RuntimeError: no tensors, or sizes that do not match.
    Gradient: the part of ``grad`` that each tensor became.
    Source: torch.vstack.
    Example:
        >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([[3, 4], [5, 6]])])
        tensor([[1, 2],
                [3, 4],
                [5, 6]])
    """
    return cat([tensor.reshape(1, -1) if tensor.ndim < 2 else tensor for tensor in _require_tensors(tensors, "vstack")], 0)


@composite(method=False, out=_OUT, moves=True)
def dstack(tensors: Sequence[Tensor]) -> Any:
    """The tensors behind each other: along dimension 2, after raising each to three.

    Args:
        tensors: equal sizes except along dimension 2; ``(n)`` counts as ``(1, n, 1)``, ``(m, n)`` as ``(m, n, 1)``.
    Returns:
        A new tensor of the tensors' common dtype and at least three dimensions.
    Raises:
        RuntimeError: no tensors, or sizes that do not match.
    Gradient: the part of ``grad`` that each tensor became.
    Source: torch.dstack.
    Example:
        >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[[1, 3],
                 [2, 4]]])
    """
    raised = []
    for tensor in _require_tensors(tensors, "dstack"):
        if tensor.ndim < 2:
            tensor = tensor.reshape(1, -1)
        raised.append(tensor.unsqueeze(-1) if tensor.ndim == 2 else tensor)
    return cat(raised, 2)


@composite(method=False, out=_OUT, moves=True)
def column_stack(tensors: Sequence[Tensor]) -> Any:
    """The tensors side by side, 0-d and 1-d tensors as columns.

    Args:
        tensors: equal sizes except along dimension 1.
    Returns:
        A new tensor of the tensors' common dtype and at least two dimensions.
    Raises:
        RuntimeError: no tensors, or sizes that do not match.
    Gradient: the part of ``grad`` that each tensor became.
    Source: torch.column_stack.
    Example:
        >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([[3, 4], [5, 6]])])
        tensor([[1, 3, 4],
                [2, 5, 6]])
    """
    raised = [tensor.reshape(-1, 1) if tensor.ndim < 2 else tensor for tensor in _require_tensors(tensors, "column_stack")]
    return cat(raised, 1)


def _block_gradients(grad: Any, tensors_shape: Any) -> list[Any]:
    parts, row, column = [], 0, 0
    for shape in tensors_shape:
        rows, columns = (1, 1, *shape)[-2:]
        parts.append(grad.narrow(0, row, rows).narrow(1, column, columns).reshape(shape))
        row, column = row + rows, column + columns
    return parts


@op(name="_block_diag", promotion="default", opmath="native", grad={"tensors": _block_gradients}, forward="linear")
def block_matrix(tensors: Sequence[Tensor]) -> Tensor:
    """The block diagonal matrix of the tensors; kernel of ``block_diag``."""
    sizes = [(1, 1, *tensor.shape)[-2:] for tensor in tensors]
    whole = np.zeros((sum(r for r, _ in sizes), sum(c for _, c in sizes)), tensors[0].dtype)
    row = column = 0
    for block, (rows, columns) in zip(tensors, sizes, strict=True):
        whole[row : row + rows, column : column + columns] = block
        row, column = row + rows, column + columns
    return whole


@composite(method=False)
def block_diag(*tensors: Any) -> Any:
    """A matrix with the given matrices along its diagonal, and 0 elsewhere.

    Args:
        *tensors: of at most two dimensions; 0-d and 1-d tensors count as one row.
    Returns:
        A new matrix; its sizes are the sums of theirs, its dtype is their common one.
    Raises:
        RuntimeError: a tensor of more dimensions.
    Gradient: the block of ``grad`` that each tensor became.
    Source: torch.block_diag.
    Example:
        >>> torch.block_diag(torch.tensor([[1, 2], [3, 4]]), torch.tensor([7]))
        tensor([[1, 2, 0],
                [3, 4, 0],
                [0, 0, 7]])
    """
    listed = _listed(tensors)
    if not listed:
        return empty(1, 0)
    for position, tensor in enumerate(listed):
        if tensor.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {position} has {tensor.ndim} dimensions"
            )
    return block_matrix(listed)


# -- all combinations ----------------------------------------------------------------------------------------------------------
@composite(method=False, moves=True)
def broadcast_tensors(*tensors: Any) -> Any:
    """The tensors expanded to their common shape.

    Args:
        *tensors: sizes that broadcast: from the last dimension on, equal, 1 or absent.
    Returns:
        A tuple of views; a tensor of that shape is returned as it is.
    Raises:
        RuntimeError: sizes that do not broadcast.
    Gradient: ``grad`` summed over what was repeated.
    Source: torch.broadcast_tensors.
    Example:
        >>> row, column = torch.broadcast_tensors(torch.tensor([1, 2, 3]), torch.tensor([[10], [20]]))
        >>> column
        tensor([[10, 10, 10],
                [20, 20, 20]])
    """
    listed = _listed(tensors)
    shape = broadcast_shape(*[tuple(tensor.shape) for tensor in listed]) if listed else ()
    return tuple([tensor if tensor._array.shape == shape else tensor.expand(shape) for tensor in listed])


@composite(method=False)
def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of tensors of the given shapes, without making any.

    Args:
        *shapes: sequences of ints, or ints, which stand for one dimension.
    Returns:
        A ``torch.Size``.
    Raises:
        RuntimeError: sizes that do not broadcast.
    Source: torch.broadcast_shapes.
    Example:
        >>> torch.broadcast_shapes((5, 1, 3), (4, 1), 3)
        torch.Size([5, 4, 3])
    """
    plain = [sizes_of(tuple(shape) if isinstance(shape, (tuple, list)) else (shape,), "broadcast_shapes") for shape in shapes]
    for shape in plain:
        if shape and min(shape) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension ({min(shape)}): ({list(shape)})")
    if not plain:
        return Size()
    try:
        return Size(broadcast_shape(*plain))
    except RuntimeError as error:
        pass_on(error)
        raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape") from None


@composite(method=False, moves=True)
def meshgrid(*tensors: Any, indexing: str | None = None) -> Any:
    """Coordinate grids: grid i varies along one dimension as tensor i does, and is constant along the others.

    Args:
        *tensors: 0-d or 1-d, also as one sequence.
        indexing: 'ij' for matrix indexing; 'xy' exchanges the first two dimensions, as for plots.
    Returns:
        A tuple of views, one for each tensor, all of the same shape.
    Raises:
        RuntimeError: tensors of more dimensions, of different dtypes, or an unknown ``indexing``.
    Gradient: ``grad`` summed over what was repeated.
    Source: torch.meshgrid.
    Example:
        >>> rows, columns = torch.meshgrid(torch.tensor([1, 2]), torch.tensor([10, 20, 30]), indexing="ij")
        >>> rows + columns
        tensor([[11, 21, 31],
                [12, 22, 32]])
    """
    listed = _listed(tensors)
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", UserWarning, stacklevel=2
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not listed:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in listed:
        if not isinstance(tensor, TensorType):
            raise TypeError(f"meshgrid(): argument 'tensors' must be tuple of Tensors, but found element of type {type(tensor).__name__}")
        if tensor.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {tensor}")
        if tensor.dtype is not listed[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swaps = indexing == "xy" and len(listed) >= 2
    if swaps:
        listed[:2] = listed[1::-1]
    shape = tuple(tensor.numel() for tensor in listed)
    grids = [tensor.reshape(*[-1 if d == dim else 1 for d in range(len(shape))]).expand(shape) for dim, tensor in enumerate(listed)]
    if swaps:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@composite(method=False)
def cartesian_prod(*tensors: Any) -> Any:
    """All tuples with one element of each tensor, as rows; the last element varies fastest.

    Args:
        *tensors: 1-d.
    Returns:
        ``(product of sizes, number of tensors)``; a single tensor is returned as it is.
    Raises:
        RuntimeError: another number of dimensions.
    Gradient: ``grad`` summed over the rows that each element is in.
    Source: torch.cartesian_prod.
    Example:
        >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([10, 20]))
        tensor([[ 1, 10],
                [ 1, 20],
                [ 2, 10],
                [ 2, 20]])
    """
    listed = _listed(tensors)
    for tensor in listed:
        if tensor.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(tensor.shape)}")
    if len(listed) == 1:
        return listed[0]
    return stack([grid.flatten() for grid in meshgrid(*listed, indexing="ij")], 1)


@composite()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of ``r`` elements of a 1-d tensor, in the order of ``itertools.combinations``.

    Args:
        input: 1-d.
        r: elements of each, not negative.
        with_replacement: an element may be taken several times.
    Returns:
        ``(number of combinations, r)``.
    Raises:
        RuntimeError: another number of dimensions, or a negative ``r``.
    Gradient: ``grad`` summed over the rows that each element is in.
    Source: torch.combinations.
    Example:
        >>> torch.combinations(torch.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    if r == 2:
        count = input.numel()
        places = resolve("torch", "triu_indices")(count, count, 0 if with_replacement else 1, device=input.device)
        return stack([input.index_select(0, row) for row in places], 1)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.numel()), r)), np.int64).reshape(-1, r)
    places = resolve("torch", "as_tensor")(rows.reshape(-1), device=input.device)
    return input.index_select(0, places).reshape(-1, r)
