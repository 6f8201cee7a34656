"""Copies with elements repeated, reversed or shifted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.copies import copy_into
from ..core.arrays.kinds import MissingValue, kind_of
from ..core.calls.annotations import Dim, Tensor
from ..core.calls.registry import composite, method, op, resolve
from ..core.layout import contiguous_format, empty_as, empty_strided_array, format_of, format_strides, preserve_format, row_major
from ..core.shape import index_of, one_by_one, sizes_of, wrap_dim, wrap_dims
from ..core.tensor import Tensor as TensorType, wrap
from .creation import array_like


def _repeat_gradient(grad: Any, input_shape: Any, repeats: Any) -> Any:
    lead = len(repeats) - len(input_shape)
    shape: list[int] = []
    for times, n in zip(repeats, (1,) * lead + tuple(input_shape), strict=True):
        shape += [times, n]
    return grad.reshape(shape).sum(tuple(range(0, len(shape), 2))).reshape(input_shape) if shape else grad


@op(
    name="_repeat",
    work="input.size * prod(repeats)",
    node_name="RepeatBackward0",
    out=True,
    grad={"input": _repeat_gradient},
    aten="repeat",
    forward="linear",
)
def repeat_copies(input: Tensor, repeats: Any) -> Tensor:
    return np.tile(input, repeats) if repeats else input.copy()


@method()
def repeat(input: Tensor, *times: Any, repeats: Any = None) -> Tensor:
    """``input`` copied a number of times along each dimension; new dimensions may be put in front.

    Args:
        input: any shape and dtype.
        *times: times per dimension, at least as many as ``input`` has dimensions, or one sequence, which may be called ``repeats``.
    Returns:
        ``input``'s dtype; each size times its number. A new tensor, where ``expand`` gives a view.
    Raises:
        RuntimeError: fewer numbers than dimensions, or a negative one.
    Source: torch.Tensor.repeat.
    Example:
        >>> torch.tensor([[1, 2]]).repeat(2, 3)
        tensor([[1, 2, 1, 2, 1, 2],
                [1, 2, 1, 2, 1, 2]])
    """
    times = sizes_of(one_by_one("repeat", times, repeats, "repeats"), "repeat")
    if len(times) < input._array.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if min(times, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(times)}: {list(times)}")
    return repeat_copies(input, times)


@composite(method=False)
def tile(input: Tensor, dims: Any) -> Tensor:
    """``input`` repeated along dimensions; missing leading numbers count as 1.

    Args:
        input: any shape and dtype.
        dims: times per dimension, of the last dimensions where there are fewer; one int, or a sequence.
    Returns:
        ``input``'s dtype; each size times its number. A new tensor.
    Raises:
        RuntimeError: a negative number.
    Source: torch.tile.
    Example:
        >>> torch.tile(torch.tensor([[1, 2], [3, 4]]), (2,))
        tensor([[1, 2, 1, 2],
                [3, 4, 3, 4]])
    """
    times = (dims,) if isinstance(dims, int) else tuple(dims)
    return repeat(input, (1,) * (input._array.ndim - len(times)) + times)


@method(name="tile")
def tile_method(input: Tensor, *times: Any, dims: Any = None) -> Tensor:
    """``input`` repeated along dimensions; see :func:`torch.tile`.

    Args:
        times: times per dimension, one by one or as one sequence, which may be called ``dims``.
    Returns:
        The tensor's dtype; each size times its number. A new tensor.
    Raises:
        RuntimeError: a negative number.
    Source: torch.Tensor.tile.
    Example:
        >>> torch.tensor([1, 2]).tile(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    return tile(input, sizes_of(one_by_one("tile", times, dims, "dims"), "tile"))


@composite()
def repeat_interleave(input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each entry of a dimension repeated in place.

    Args:
        input: any shape; if it is the only argument, the counts: entry i of the result's runs is i.
        repeats: a count, or an integer tensor of one count per entry.
        dim: the dimension; the flattened tensor when None.
        output_size: the size of the result's dimension, checked; taken for what it says where ``repeats`` has no values.
    Returns:
        ``input``'s shape but along ``dim``; 1-d without ``dim``. A new tensor.
    Raises:
        RuntimeError: negative counts, a number of counts that does not fit, or counts without values and no ``output_size``.
        IndexError: ``dim`` out of range.
    Source: torch.repeat_interleave.
    Example:
        >>> torch.repeat_interleave(torch.tensor([7, 8, 9]), torch.tensor([1, 0, 2]))
        tensor([7, 9, 9])
        >>> torch.repeat_interleave(torch.tensor([[1, 2]]), 2, dim=1)
        tensor([[1, 1, 2, 2]])
    """
    given = input if repeats is None else repeats
    has_values = not isinstance(given, TensorType) or kind_of(given._array).has_values
    if not has_values and output_size is None:
        raise MissingValue("cannot repeat_interleave a meta tensor without output_size")
    if repeats is None:
        if input._array.ndim != 1 or input.dtype not in (dtypes.int32, dtypes.int64):
            raise RuntimeError("repeats must be 0-dim or 1-dim int tensor")
        if not has_values:
            return input.new_empty(output_size)
        if (input._array < 0).any():
            raise RuntimeError("repeats can not be negative")
        return wrap(np.arange(input._array.size, dtype=input._array.dtype).repeat(input._array))
    if dim is None:
        input, dim = input.reshape(-1), 0
    dim = wrap_dim(dim, input._array.ndim)
    if not input._array.ndim:
        input = input.reshape(1)
    if not has_values:
        return input.index_select(dim, repeats.new_empty(output_size))
    if not isinstance(repeats, TensorType):
        return _each_repeated(input, index_of(repeats, "repeats"), dim, output_size)
    counts, size = repeats._array, input._array.shape[dim]
    if counts.dtype.kind not in "iu":
        raise RuntimeError("repeats has to be Long or Int tensor")
    if counts.ndim > 1 or (counts.ndim == 1 and counts.size not in (1, size)):
        raise RuntimeError("repeats must have the same size as input along dim")
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    index = np.arange(size).repeat(counts)
    if output_size is not None and output_size != index.size:
        raise RuntimeError(f"repeat_interleave: Expected output_size to be {index.size}, got {output_size}")
    return input.index_select(dim, resolve("torch", "as_tensor")(index, device=input.device))


def _each_repeated(input: Tensor, count: int, dim: int, output_size: int | None) -> Tensor:
    """Each entry of a dimension ``count`` times: a copy of a view."""
    sizes = input._array.shape
    size = sizes[dim] * count
    if count < 0:
        raise RuntimeError("Repeats must be non-negative")
    if output_size is not None and output_size != size:
        raise RuntimeError(f"repeat_interleave: Expected output_size to be {size}, got {output_size}")
    spread = input.unsqueeze(dim + 1).expand(*sizes[: dim + 1], count, *sizes[dim + 1 :])
    return spread.clone(memory_format=contiguous_format).view(*sizes[:dim], size, *sizes[dim + 1 :])


@op(
    name="_flip",
    canonicalize=lambda input, dims: (input, wrap_dims(_as_dims(dims), input._array.ndim, empty_is_all=False)),
    node_name="FlipBackward0",
    out=True,
    grad={"input": lambda grad, dims: flip(grad, dims)},
    aten="flip",
    forward="linear",
)
def flip_copy(input: Tensor, dims: Dim) -> Tensor:
    result = array_like(input, input.dtype)
    result[...] = np.flip(input, dims) if input.ndim else input
    return result


@composite(method=False, moves=True)
def flip(input: Tensor, dims: Dim) -> Tensor:
    """``input`` with the order of some dimensions reversed.

    Args:
        input: any shape and dtype.
        dims: a dimension, or several.
    Returns:
        ``input``'s shape and dtype. A copy, where NumPy gives a view.
    Raises:
        IndexError: a dimension out of range.
        RuntimeError: a dimension twice.
    Gradient: ``grad`` reversed.
    Source: torch.flip.
    Example:
        >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), (1,))
        tensor([[2, 1],
                [4, 3]])
    """
    return flip_copy(input, dims)


@method(name="flip", moves=True)
def flip_method(input: Tensor, *sizes: Any, dims: Dim = None) -> Tensor:
    """The tensor with the order of some dimensions reversed; see :func:`torch.flip`.

    Args:
        sizes: the dimensions, one by one or as one sequence, which may be called ``dims``.
    Returns:
        The tensor's shape and dtype. A copy.
    Raises:
        IndexError: a dimension out of range.
        RuntimeError: a dimension twice.
    Source: torch.Tensor.flip.
    Example:
        >>> torch.tensor([[1, 2], [3, 4]]).flip(0, 1)
        tensor([[4, 3],
                [2, 1]])
    """
    given = one_by_one("flip", sizes, dims, "dims")
    return flip_copy(input, given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)


@composite()
def fliplr(input: Tensor) -> Tensor:
    """``input`` with dimension 1 reversed: left and right change places.

    Args:
        input: at least 2 dimensions.
    Returns:
        ``input``'s shape and dtype. A copy.
    Raises:
        RuntimeError: fewer dimensions.
    Source: torch.fliplr.
    Example:
        >>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 1],
                [4, 3]])
    """
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip_copy(input, (1,))


@composite()
def flipud(input: Tensor) -> Tensor:
    """``input`` with dimension 0 reversed: top and bottom change places.

    Args:
        input: at least 1 dimension.
    Returns:
        ``input``'s shape and dtype. A copy.
    Raises:
        RuntimeError: a 0-d tensor.
    Source: torch.flipud.
    Example:
        >>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
        tensor([[3, 4],
                [1, 2]])
    """
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip_copy(input, (0,))


def _as_dims(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def _canonicalize_roll(input: Any, shifts: Any, dims: Any) -> tuple[Any, ...]:
    shifts, dims = _as_dims(shifts), _as_dims(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if (dims and len(shifts) != len(dims)) or (not dims and len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if dims and not input._array.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return input, shifts, tuple(wrap_dim(d, input._array.ndim) for d in dims)


@op(
    canonicalize=_canonicalize_roll,
    grad={"input": lambda grad, shifts, dims: grad.roll(tuple(-n for n in _as_dims(shifts)), dims)},
    forward="linear",
)
def roll(input: Tensor, shifts: Dim, dims: Dim = ()) -> Tensor:
    """``input`` with its entries moved along dimensions; those pushed out come in again at the other end.

    Args:
        input: any shape and dtype.
        shifts: places per dimension, towards the end where positive.
        dims: the dimensions; the flattened tensor when empty.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        RuntimeError: as many shifts as there are not dimensions.
        IndexError: a dimension out of range.
    Gradient: ``grad`` moved back.
    Source: torch.roll.
    Example:
        >>> torch.roll(torch.arange(5), 2)
        tensor([3, 4, 0, 1, 2])
        >>> torch.roll(torch.tensor([[1, 2, 3], [4, 5, 6]]), -1, dims=1)
        tensor([[2, 3, 1],
                [5, 6, 4]])
    """
    if not input.ndim:
        return input.copy()
    if not dims:
        flat = np.ascontiguousarray(input).reshape(-1)
        return _rolled(flat, np.empty_like(flat), shifts, (0,)).reshape(input.shape)
    if not input.size:
        return empty_as(input, preserve_format, input.shape, input.dtype)
    strides = input.strides
    for shift, dim in zip(shifts, dims, strict=True):  # as joining two parts, one dimension after another, would lay it out
        size = input.shape[dim]
        parts = [(*input.shape[:dim], n, *input.shape[dim + 1 :]) for n in (shift % size, size - shift % size)]
        forms = {format_of(part, strides) for part in parts}
        strides = format_strides(input.shape, forms.pop() if len(forms) == 1 else contiguous_format)
    return _rolled(input, empty_strided_array(input.shape, strides, input.dtype), shifts, dims)


def _rolled(source: np.ndarray, result: np.ndarray, shifts: Sequence[int], dims: Sequence[int]) -> np.ndarray:
    """``result`` with every part of ``source`` where the shifts put it: two parts of each dimension that moves."""
    total = [0] * source.ndim
    for shift, dim in zip(shifts, dims, strict=True):
        total[dim] += shift
    ways: list[list[tuple[slice, slice]]] = []
    for shift, size in zip(total, source.shape, strict=True):
        k = shift % size if size else 0
        ways.append([(slice(k), slice(size - k, None)), (slice(k, None), slice(size - k))] if k else [(slice(None), slice(None))])
    for part in itertools.product(*ways):
        copy_into(result[tuple(to for to, _ in part)], source[tuple(of for _, of in part)])
    return result


def _canonicalize_rot90(input: Any, k: int, dims: Any) -> tuple[Any, ...]:
    plane, ndim = tuple(dims), input._array.ndim
    if len(plane) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(plane)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    a, b = (wrap_dim(d, ndim) for d in plane)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}")
    return input, k % 4, (a, b)


@op(canonicalize=_canonicalize_rot90, grad={"input": lambda grad, k, dims: grad.rot90(-k, dims)}, out=False, forward="linear")
def rot90(input: Tensor, k: int = 1, dims: Dim = (0, 1)) -> Tensor:
    """``input`` turned by 90 degrees ``k`` times in the plane of two dimensions, from the first towards the second.

    Args:
        input: at least 2 dimensions.
        k: quarter turns; the other way round where negative.
        dims: the two dimensions of the plane.
    Returns:
        ``input``'s dtype, with the two sizes exchanged for an odd ``k``. A copy.
    Raises:
        RuntimeError: fewer dimensions, or another number of ``dims`` than two different ones.
        IndexError: a dimension out of range.
    Gradient: ``grad`` turned back.
    Source: torch.rot90.
    Example:
        >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    if not k:
        return row_major(input.copy())
    a, b = dims
    result = array_like(input, input.dtype)
    copy_into(result, np.flip(input, {1: (b,), 2: (a, b), 3: (a,)}[k]))
    return result if k == 2 else result.swapaxes(a, b)
