"""Layouts and memory formats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .arrays.kinds import view_at
from .shape import contiguous_strides, element_strides, is_dense, restrided


class Constant:
    """A value of the package that is known by its name, printed and pickled as it."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(Constant):
    """Layout of a tensor's values: ``torch.strided``, a sparse layout, or ``torch.jagged``. Source: torch.layout."""

    __slots__ = ()


class memory_format(Constant):
    """Order of dimensions in memory. Source: torch.memory_format."""

    __slots__ = ()


strided, sparse_coo, sparse_csr, sparse_csc = layout("strided"), layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc, jagged, _mkldnn = layout("sparse_bsr"), layout("sparse_bsc"), layout("jagged"), layout("_mkldnn")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

_CHANNELS = {channels_last: 4, channels_last_3d: 5}


def format_strides(shape: tuple[int, ...], form: memory_format) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor in a memory format.

    Raises:
        RuntimeError: a number of dimensions that the format does not have.
    """
    if form is contiguous_format:
        return contiguous_strides(shape)
    count = _CHANNELS.get(form)
    if not isinstance(form, memory_format):
        raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type(form).__name__}")
    if count is None:
        raise RuntimeError(f"unsupported memory format option {form}")
    if len(shape) != count:
        raise RuntimeError(f"required rank {count} tensor to use {form.name} format")
    return strides_in_order(shape, (1, *range(count - 1, 1, -1), 0))


def is_contiguous_as(array: np.ndarray, form: memory_format) -> bool:
    """Whether an array is dense in that format; sizes of 1 fit any stride."""
    shape = array.shape
    if form is contiguous_format or form is preserve_format:
        return bool(array.flags.c_contiguous)
    if len(shape) != _CHANNELS.get(form):
        return False
    strides, expected = element_strides(array), 1
    for dim in (1, *range(array.ndim - 1, 1, -1), 0):  # from the innermost dimension out
        if shape[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= shape[dim]
    return True


def empty_as(array: np.ndarray, form: memory_format | None, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array of ``shape``: ``preserve_format`` (or None) keeps the order of dimensions of an ``array`` of that shape."""
    if form is None or form is preserve_format:
        if shape != array.shape or (array.flags.c_contiguous and array.size and 1 not in shape):
            return np.empty(shape, dtype)
        return empty_strided_array(shape, preserved_strides(array), dtype)
    if form is contiguous_format:
        return np.empty(shape, dtype)
    return empty_strided_array(shape, format_strides(shape, form), dtype)


def preserved_strides(array: np.ndarray) -> tuple[int, ...]:
    """Strides, in elements, of a dense array with the order of dimensions of ``array``: its own where it is dense."""
    if is_dense(array) or not array.size:
        return element_strides(array)
    return strides_in_order(tuple([max(n, 1) for n in array.shape]), order_of_dims(array.shape, [array.strides]))


def is_channels_last(array: np.ndarray) -> bool:
    """Whether an array of 4 or 5 dimensions lies in memory with its channels innermost, as PyTorch decides it."""
    if array.ndim not in (4, 5) or (array.flags.c_contiguous and array.shape[1] != 1):
        return False
    return _has_channels_last(array.shape, array.strides)


@lru_cache(maxsize=4096)
def _has_channels_last(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    if strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[dim] == 0 or strides[dim] < least:
            return False
        if dim == 0 and least == strides[1]:
            return False
        least = strides[dim]
        if shape[dim] > 1:
            least *= shape[dim]
    return True


def suggested_format(array: np.ndarray) -> memory_format:
    """The memory format that PyTorch reads off the strides; what may be either is row-major."""
    return format_of(array.shape, array.strides)


def format_of(shape: Sequence[int], strides: Sequence[int]) -> memory_format:
    """``suggested_format`` of an array of such a shape and strides, in whatever unit."""
    for form, count in _CHANNELS.items():
        if len(shape) == count:
            least = 0
            for dim in (1, *range(count - 1, 1, -1), 0):
                n, step = shape[dim], strides[dim]
                if n == 0 or step < least or not strides[1] or (dim == 0 and least == strides[1]):
                    return contiguous_format
                least = step * n
            return form
    return contiguous_format


def order_of_dims(shape: tuple[int, ...], operands: Sequence[Sequence[int]]) -> list[int]:
    """The dimensions of a result from the innermost in memory to the outermost, as PyTorch's element-wise operations find it.

    An insertion sort in which the first operand that can tell decides: one that repeats neither dimension (stride 0), by stride, equal
    strides by size. What no operand tells stays row-major.

    Args:
        operands: for each its strides, aligned with ``shape``.
    """

    def comes_after(a: int, b: int) -> int:
        for strides in operands:
            first, second = strides[a], strides[b]
            if first == 0 or second == 0:
                continue
            if first != second:
                return 1 if first > second else -1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            comparison = comes_after(order[before], order[at])
            if comparison > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif comparison < 0:
                break
    return order


def strides_in_order(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense array whose dimensions lie in memory in ``order``, innermost first."""
    if list(order) == list(range(len(shape)))[::-1]:
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def elementwise_strides(shape: tuple[int, ...], arrays: Sequence[np.ndarray], has_numbers: bool) -> tuple[int, ...]:
    """Strides, in elements, of what an element-wise operation makes of ``arrays``, which broadcast to ``shape``.

    Args:
        has_numbers: whether Python numbers are operands too.
    """
    if not has_numbers and all(array.shape == shape for array in arrays):
        if all(array.flags.c_contiguous for array in arrays):
            return contiguous_strides(shape)
        if len(shape) == 4 and all(is_contiguous_as(array, channels_last) for array in arrays):
            return format_strides(shape, channels_last)
        if all(is_dense(array) for array in arrays) and len({element_strides(array) for array in arrays}) == 1:
            return element_strides(arrays[0])
    operands = []
    for array in arrays:
        lead = len(shape) - array.ndim
        steps = element_strides(array)
        operands.append([0] * lead + [0 if n == 1 != whole else s for n, whole, s in zip(array.shape, shape[lead:], steps, strict=True)])
    return strides_in_order(shape, order_of_dims(shape, operands))


def laid_out_elementwise(result: np.ndarray, arrays: Sequence[np.ndarray], has_numbers: bool) -> np.ndarray:
    """Result of an element-wise operation on ``arrays``, with PyTorch's strides; a copy if elements move."""
    if result.size and 1 not in result.shape and all(array.flags.c_contiguous for array in arrays):
        return result
    return laid_out(result, elementwise_strides(result.shape, arrays, has_numbers))


def is_uneven(array: np.ndarray) -> bool:
    """Whether an array has other strides than a fresh row-major one, at sizes of 0 and 1, too."""
    if array.ndim < 2 or array.__class__ is not np.ndarray:
        return False
    if array.size and 1 not in array.shape:
        return not array.flags.c_contiguous
    return element_strides(array) != contiguous_strides(array.shape)


def row_major(array: np.ndarray) -> np.ndarray:
    """The array itself where it is row-major, its sizes of 1 too; else a view or a copy that is."""
    array = np.asarray(array, order="C")
    return array.reshape(-1).reshape(array.shape) if 1 in array.shape and array.ndim > 1 else array


def laid_out(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """``array`` with these strides (in elements, dense): itself if it has them, else a copy."""
    have = element_strides(array)
    if have == strides:
        return array
    if array.size and all(n == 1 or a == b for n, a, b in zip(array.shape, have, strides, strict=True)):
        return restrided(array, array.shape, tuple([step * array.itemsize for step in strides]))
    result = empty_strided_array(array.shape, strides, array.dtype)
    result[...] = array
    return result


def empty_strided_array(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array with the given strides in elements."""
    if 0 in shape:
        return view_at(np.empty(max(dtype.itemsize, 1), np.uint8), shape, dtype, 0, [step * dtype.itemsize for step in strides])
    extent = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return view_at(np.empty(extent, dtype), shape, dtype, 0, [step * dtype.itemsize for step in strides])


def is_fused_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> bool:
    """Whether PyTorch's fused kernel of attention takes these: its output is ordered as the query, its gradients have heads inside rows."""
    return (
        query.ndim == key.ndim == value.ndim == 4
        and query.shape[:2] == key.shape[:2] == value.shape[:2]
        and query.shape[3] == value.shape[3]
        and all(array.strides[3] == array.itemsize for array in (query, key, value))
    )


def fused_gradient_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a gradient that PyTorch's fused kernel makes: ``(batch, length, heads, width)`` in memory."""
    return strides_in_order(shape, (3, 1, 2, 0))
