"""Tensors from sizes: constants, uninitialised memory.  ``ranges`` has sequences of numbers, ``from_data`` tensors made from values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.copies import fill, filling, zeroing
from ..core.arrays.kinds import fill_array
from ..core.calls.annotations import Tensor as TensorLike
from ..core.calls.casting import filling_number, fits_integers, number_array
from ..core.calls.creation import Creation, sizes_from
from ..core.calls.registry import Declare, factory
from ..core.layout import empty_as, empty_strided_array, format_strides
from ..core.shape import restrided
from ..core.state import run_ignoring_fp
from ..core.tensor import Tensor
from .arithmetic import dtype_of

# The fast path of factories that take sizes one by one or as one sequence.
_SIZED = (
    "({array}) if size is None and "
    "(kind := {otherwise}.numpy if dtype is None else dtype.numpy if dtype.__class__ is dtypes.dtype else None) is not None and "
    "((shape := sizes)[0].__class__ is int or len(sizes) == 1 and ((shape := sizes[0]).__class__ is tuple or shape.__class__ is list)) "
    "else None"
)
_ASKED = "{0}, dtype, dtypes._default, {1}"  # what machine code is given
_OF_DEFAULT, _OF_INPUT = (functools.partial(_SIZED.format, otherwise=otherwise) for otherwise in ("dtypes._default", "input.dtype"))
_FILLED = "(large(filled, {2}) if (filled := np.empty({0}, {1})).size >= THRESHOLD else filled.fill({2})) or filled"
_ONES = "None if {1} is dtypes.PAIR else " + _FILLED.replace("{2}", "1")


# -- sizes -> zeros, ones, empty --------------------------------------------------------------------------------------------
def _positive(new: Creation, sizes: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    """Raises:
    RuntimeError: a negative size, in the words of ``zeros`` and ``ones``.
    """
    given = sizes if size is None else (size,)
    lengths = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    if any(isinstance(length, int) and length < 0 for length in lengths):
        raise RuntimeError(f"{new.name}: Dimension size must be non-negative.")
    return new.sizes(sizes, size)


@factory(out=True, fast=_OF_DEFAULT(array="np.zeros(shape, kind)"), asked=_ASKED.format("sizes", None))
def zeros(new: Creation, *sizes: Any, size: Any = None) -> Any:
    """A tensor of the given sizes, filled with 0.

    Args:
        *sizes: sizes one by one, or as one sequence; also by the keyword ``size``.
        out: tensor to write into, resized where needed.
        dtype: element type; the default floating type when None.
        layout: ``torch.strided``.
        device: where it is made; the thread's device when None.
        pin_memory: needs an accelerator.
        requires_grad: whether operations on the result are recorded.
    Returns:
        A new contiguous tensor of shape ``sizes``.
    Raises:
        TypeError: sizes that are no integers.
        RuntimeError: a negative size, or an integer tensor that shall require grad.
    Source: torch.zeros.
    Example:
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
        >>> torch.zeros((2,), dtype=torch.int64)
        tensor([0, 0])
    """
    return new.make(np.zeros, _positive(new, sizes, size), new.dtype_or_default().numpy)


@factory(out=True, fast=_OF_DEFAULT(array=_ONES.format("shape", "kind")), part=filling, asked=_ASKED.format("sizes", None))
def ones(new: Creation, *sizes: Any, size: Any = None) -> Any:
    """A tensor of the given sizes, filled with 1.

    Args:
        *sizes, size, out, dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new contiguous tensor of shape ``sizes``; of the default floating type without ``dtype``.
    Raises:
        TypeError: sizes that are no integers.
        RuntimeError: a negative size, or an integer tensor that shall require grad.
    Source: torch.ones.
    Example:
        >>> torch.ones(2, 3), torch.ones(())
        (tensor([[1., 1., 1.],
                [1., 1., 1.]]), tensor(1.))
    """
    array = new.make(np.empty, _positive(new, sizes, size), new.dtype_or_default().numpy)
    fill_array(array, 1)
    return array


@factory(out=True, fast=_OF_DEFAULT(array="np.empty(shape, kind) if memory_format is None else None"), asked=_ASKED.format("sizes", None))
def empty(new: Creation, *sizes: Any, size: Any = None, memory_format: Any = None) -> Any:
    """A tensor of the given sizes whose values are whatever the memory held.

    Args:
        *sizes, size, out, dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
        memory_format: the order of the elements in memory; row by row when None.
    Returns:
        A new tensor; of the default floating type without ``dtype``.
    Raises:
        TypeError: sizes that are no integers.
        RuntimeError: a negative size, an integer tensor that shall require grad, or ``torch.preserve_format``.
    Source: torch.empty.
    Example:
        >>> torch.empty(2, 3).shape
        torch.Size([2, 3])
        >>> torch.empty(1, 2, 3, 4, memory_format=torch.channels_last).stride()
        (24, 1, 8, 2)
    """
    shape, kind = new.sizes(sizes, size), new.dtype_or_default().numpy
    if memory_format is not None:
        if repr(memory_format) == "torch.preserve_format":
            raise RuntimeError("unsupported memory format Preserve")
        return new.make(empty_strided_array, shape, format_strides(shape, memory_format), kind)
    if new.out is not None and new.out._array.shape == shape:
        return new.out
    return new.make(np.empty, shape, kind)


def filled(shape: tuple[int, ...], value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """An array of ``shape`` full of ``value``.

    Raises:
        RuntimeError: a value that ``dtype`` cannot hold.
    """
    array = np.empty(shape, dtype.numpy)
    fill(array, filling_number(value.item() if isinstance(value, Tensor) else value, dtype)[()])
    return array


def fitting(value: Any, dtype: dtypes.dtype) -> Any:
    """``value`` as an array's element of ``dtype``.

    Raises:
        RuntimeError: an integer out of range, or a complex value for a real dtype.
    """
    if isinstance(value, Tensor):
        value = value.item()
    words = dtype.name
    if isinstance(value, (complex, np.complexfloating)) and not dtype.is_complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {words} without overflow")
        value = value.real
    if dtype.category == dtypes.INTEGER and not isinstance(value, bool):
        if not fits_integers(value, dtype):
            raise RuntimeError(f"value cannot be converted to type {words} without overflow")
        return number_array(int(value), dtype)[()]
    if dtype is dtypes.bool_:
        return bool(value)
    return run_ignoring_fp(number_array, value, dtype)[()]


@factory(
    out=True,
    fast=f"{_FILLED.format('size', 'dtypes._default.numpy', 'fill_value')} if fill_value.__class__ is float and dtype is None "
    "and (size.__class__ is tuple or size.__class__ is list) and (-3e38 < fill_value < 3e38 or fill_value - fill_value) else None",
    part=filling,
    asked=_ASKED.format("size", "fill_value"),
)  # the difference of what is not finite is NaN, which is true
def full(new: Creation, size: Sequence[int], fill_value: Any) -> Any:
    """A tensor of the given sizes, filled with one value.

    Args:
        size: sequence of sizes.
        fill_value: a number, or a tensor with one element.
        dtype: element type; that of ``fill_value`` when None.
        out, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new contiguous tensor of shape ``size``.
    Raises:
        RuntimeError: a value that ``dtype`` cannot hold, or a negative size.
        OverflowError: an integer of more than 64 bits.
        TypeError: a ``size`` that is no sequence, or a ``fill_value`` that is no number.
    Source: torch.full.
    Example:
        >>> torch.full((2, 2), 7), torch.full((2,), True)
        (tensor([[7, 7],
                [7, 7]]), tensor([True, True]))
    """
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    if not isinstance(fill_value, (bool, int, float, complex, np.number, np.bool_, Tensor)):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(fill_value).__name__}")
    return new.make(filled, sizes_from((size,), "full"), fill_value, new.dtype or dtype_of(fill_value))


# -- like another tensor ------------------------------------------------------------------------------------------------------
def array_like(array: np.ndarray, dtype: np.dtype, memory_format: Any = None) -> np.ndarray:
    """Uninitialised array of ``array``'s shape, and its strides unless a memory format says otherwise."""
    return empty_as(array, memory_format, array.shape, dtype)


def _like(new: Creation, input: Tensor, memory_format: Any, value: Any = None) -> Any:
    """An array like a tensor's, filled with ``value`` where one is given."""
    array = new.make(array_like, input._array, new.dtype_or_default().numpy, memory_format)
    if value is not None:
        fill_array(array, value)
    return array


def in_place_of(made: np.ndarray | None, array: np.ndarray) -> np.ndarray | None:
    """``made``, row by row, with the strides that ``array`` has where a size is 1; None where nothing was made."""
    return made if made is None or made.strides == array.strides else restrided(made, array.shape, array.strides)


_LIKE = "(in_place_of({0}, a) if 1 in a.shape else {0}) if a.flags.c_contiguous and dtype is memory_format is None else None"


@factory(fast=_LIKE.format("(large if a.size >= THRESHOLD else np.zeros)(a.shape, a.dtype)"), part=zeroing, asked="input")
def zeros_like(new: Creation, input: TensorLike, *, memory_format: Any = None) -> Any:
    """A tensor filled with 0, of another tensor's shape and dtype.

    Args:
        input: tensor whose shape, and dtype and strides unless told otherwise, are taken.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
        memory_format: ``torch.preserve_format`` (the default) keeps the strides of a dense input.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        TypeError: ``input`` is no tensor.
        RuntimeError: an integer tensor that shall require grad.
    Source: torch.zeros_like.
    Example:
        >>> torch.zeros_like(torch.tensor([[1, 2]])), torch.zeros_like(torch.tensor([1, 2]), dtype=torch.float32)
        (tensor([[0, 0]]), tensor([0., 0.]))
    """
    return _like(new, input, memory_format, 0)


@factory(fast=_LIKE.format(_ONES.format("a.shape", "a.dtype")), part=filling, asked="input")
def ones_like(new: Creation, input: TensorLike, *, memory_format: Any = None) -> Any:
    """A tensor filled with 1, of another tensor's shape and dtype.

    Args:
        input, dtype, layout, device, pin_memory, requires_grad, memory_format: as for ``torch.zeros_like``.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        TypeError: ``input`` is no tensor.
        RuntimeError: an integer tensor that shall require grad.
    Source: torch.ones_like.
    Example:
        >>> torch.ones_like(torch.tensor([[2.5, 3.5]])), torch.ones_like(torch.tensor([5]), dtype=torch.bool)
        (tensor([[1., 1.]]), tensor([True]))
    """
    return _like(new, input, memory_format, 1)


@factory(fast=_LIKE.format("np.empty(a.shape, a.dtype)"), asked="input")
def empty_like(new: Creation, input: TensorLike, *, memory_format: Any = None) -> Any:
    """An uninitialised tensor of another tensor's shape and dtype.

    Args:
        input, dtype, layout, device, pin_memory, requires_grad, memory_format: as for ``torch.zeros_like``.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        TypeError: ``input`` is no tensor.
        RuntimeError: an integer tensor that shall require grad.
    Source: torch.empty_like.
    Example:
        >>> y = torch.empty_like(torch.ones(2, 3).t())
        >>> y.shape, y.stride(), y.dtype
        (torch.Size([3, 2]), (1, 3), torch.float32)
    """
    return _like(new, input, memory_format)


# Numbers that no float32 is too small for, integers of 64 bits; the slow path tells the others from infinity.
_OF_ANY_FLOAT = (
    "(fill_value.__class__ is float and -1e38 < fill_value < 1e38 or fill_value.__class__ is int and -(1 << 63) <= fill_value < 1 << 63)"
)
_FULL_LIKE = _LIKE.format(_FILLED.format("a.shape", "a.dtype", "fill_value"))


@factory(fast=f"({_FULL_LIKE}) if (a.dtype is F32 or a.dtype is F64) and {_OF_ANY_FLOAT} else None", part=filling)
def full_like(new: Creation, input: TensorLike, fill_value: Any, *, memory_format: Any = None) -> Any:
    """A tensor filled with one value, of another tensor's shape and dtype.

    Args:
        input: tensor whose shape, and dtype and strides unless told otherwise, are taken.
        fill_value: a number, or a tensor with one element.
        dtype, layout, device, pin_memory, requires_grad, memory_format: as for ``torch.zeros_like``.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        RuntimeError: a value that the dtype cannot hold.
        OverflowError: an integer of more than 64 bits.
        TypeError: ``input`` is no tensor.
    Source: torch.full_like.
    Example:
        >>> torch.full_like(torch.tensor([[1.0, 2.0]]), 7)
        tensor([[7., 7.]])
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _like(new, input, memory_format, filling_number(value, new.dtype_or_default())[()])


@factory()
def empty_strided(new: Creation, size: Sequence[int], stride: Sequence[int]) -> Any:
    """An uninitialised tensor of given sizes and strides.

    Args:
        size: sizes.
        stride: elements between neighbours along each dimension, not negative.
        dtype, layout, device, requires_grad, pin_memory: as for ``torch.zeros``.
    Returns:
        A new tensor; with a stride of 0, elements share their memory.
    Raises:
        RuntimeError: another number of strides than of sizes, or a negative one.
    Source: torch.empty_strided.
    Example:
        >>> torch.empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    return new.make(checked_strided, "empty_strided", size, stride, new.dtype_or_default())


@factory()
def empty_permuted(new: Creation, size: Sequence[int], physical_layout: Sequence[int]) -> Any:
    """An uninitialised dense tensor whose dimensions lie in memory in a given order.

    Args:
        size: sizes.
        physical_layout: the dimensions, the one with the largest stride first.
        dtype, layout, device, requires_grad, pin_memory: as for ``torch.zeros``.
    Returns:
        A new tensor of shape ``size``.
    Raises:
        RuntimeError: an order that is no permutation of the dimensions.
    Source: torch.empty_permuted.
    Example:
        >>> torch.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
        (15, 1, 3)
    """
    sizes, order = sizes_from((size,), "empty_permuted"), tuple(dim.__index__() for dim in physical_layout)
    if len(sizes) != len(order):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(sizes)} is not equal to "
            f"len(physical_layout) = {len(order)}"
        )
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        if not 0 <= dim < len(sizes):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(sizes) - 1}, but got {dim} at index 0")
        if strides[dim]:
            raise RuntimeError(f"Duplicate dim not allowed, but got {dim} twice")
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return new.make(empty_strided_array, sizes, tuple(strides), new.dtype_or_default().numpy)


def checked_strided(operation: str, size: Any, stride: Any, dtype: dtypes.dtype) -> np.ndarray:
    """An uninitialised array of sizes and strides that a user gave."""
    sizes, strides = sizes_from((size,), operation), tuple(step.__index__() for step in stride)
    if len(sizes) != len(strides):
        raise RuntimeError(f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})")
    if strides and min(strides) < 0:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    return empty_strided_array(sizes, strides, dtype.numpy)


# -- methods that take dtype and device from a tensor --------------------------------------------------------------------------
def new_factory(**options: Any) -> Declare:
    return factory(namespace="Tensor", **options)


@new_factory(fast=_OF_INPUT(array="np.zeros(shape, kind)"))
def new_zeros(new: Creation, input: TensorLike, *sizes: Any, size: Any = None) -> Any:
    """A tensor filled with 0, of this tensor's dtype.

    Args:
        input: tensor whose dtype and device are taken.
        *sizes: sizes one by one, or as one sequence; also by the keyword ``size``.
        dtype: element type; this tensor's when None.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new contiguous tensor of shape ``sizes``.
    Raises:
        TypeError: sizes that are no integers.
        RuntimeError: a negative size.
    Source: torch.Tensor.new_zeros.
    Example:
        >>> torch.tensor([7]).new_zeros(2, 3)
        tensor([[0, 0, 0],
                [0, 0, 0]])
    """
    return new.make(np.zeros, new.sizes(sizes, size), new.dtype_or_default().numpy)


@new_factory(fast=_OF_INPUT(array=_ONES.format("shape", "kind")), part=filling)
def new_ones(new: Creation, input: TensorLike, *sizes: Any, size: Any = None) -> Any:
    """A tensor filled with 1, of this tensor's dtype.

    Args:
        input, *sizes, size, dtype, layout, device, pin_memory, requires_grad: as for ``torch.Tensor.new_zeros``.
    Returns:
        A new contiguous tensor of shape ``sizes``.
    Raises:
        TypeError: sizes that are no integers.
        RuntimeError: a negative size.
    Source: torch.Tensor.new_ones.
    Example:
        >>> torch.tensor([True]).new_ones((2,))
        tensor([True, True])
    """
    array = new.make(np.empty, new.sizes(sizes, size), new.dtype_or_default().numpy)
    fill_array(array, 1)
    return array


@new_factory(fast=_OF_INPUT(array="np.empty(shape, kind)"))
def new_empty(new: Creation, input: TensorLike, *sizes: Any, size: Any = None) -> Any:
    """An uninitialised tensor of this tensor's dtype.

    Args:
        input, *sizes, size, dtype, layout, device, pin_memory, requires_grad: as for ``torch.Tensor.new_zeros``.
    Returns:
        A new contiguous tensor of shape ``sizes``.
    Raises:
        TypeError: sizes that are no integers.
        RuntimeError: a negative size.
    Source: torch.Tensor.new_empty.
    Example:
        >>> y = torch.tensor([7]).new_empty(2, 3)
        >>> y.shape, y.dtype
        (torch.Size([2, 3]), torch.int64)
    """
    return new.make(np.empty, new.sizes(sizes, size), new.dtype_or_default().numpy)


@new_factory()
def new_full(new: Creation, input: TensorLike, size: Sequence[int], fill_value: Any) -> Any:
    """A tensor filled with one value, of this tensor's dtype unless ``dtype`` is given.

    Args:
        input: tensor whose dtype and device are taken.
        size: sequence of sizes.
        fill_value: a number.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new contiguous tensor of shape ``size``.
    Raises:
        RuntimeError: a negative size, or a value that the dtype cannot hold.
        TypeError: a ``fill_value`` that is no number.
    Source: torch.Tensor.new_full.
    Example:
        >>> torch.tensor([7]).new_full((2, 2), 3.9)
        tensor([[3, 3],
                [3, 3]])
    """
    return new.make(filled, sizes_from((size,), "new_full"), fill_value, new.dtype_or_default())


@new_factory()
def new_empty_strided(new: Creation, input: TensorLike, size: Sequence[int], stride: Sequence[int]) -> Any:
    """An uninitialised tensor of given sizes and strides, of this tensor's dtype unless ``dtype`` is given.

    Args:
        input: tensor whose dtype and device are taken.
        size: sizes.
        stride: elements between neighbours along each dimension, not negative.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new tensor.
    Raises:
        RuntimeError: another number of strides than of sizes, or a negative one.
    Source: torch.Tensor.new_empty_strided.
    Example:
        >>> y = torch.tensor([7]).new_empty_strided((2, 3), (1, 2))
        >>> y.stride(), y.dtype
        ((1, 2), torch.int64)
    """
    return new.make(checked_strided, "new_empty_strided", size, stride, new.dtype_or_default())


def _with_diagonal(array: np.ndarray, columns: int) -> np.ndarray:
    """A matrix of zeros, row-major, after 1 was written to its main diagonal."""
    array.ravel()[: columns * columns : columns + 1] = number_array(1, dtypes.complex32) if array.dtype == dtypes.PAIR else 1
    return array


@factory(
    out=True,
    fast="_with_diagonal(np.zeros((n, m := n if m is None else m), kind), m) "
    "if n.__class__ is int and (m is None or m.__class__ is int) and (kind := dtypes._default.numpy if dtype is None "
    "else dtype.numpy if dtype.__class__ is dtypes.dtype else None) is not None else None",
)
def eye(new: Creation, n: int, m: int | None = None) -> Any:
    """A matrix with 1 on its main diagonal and 0 elsewhere.

    Args:
        n: rows.
        m: columns; ``n`` when None.
        out, dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new tensor ``(n, m)``.
    Raises:
        RuntimeError: a negative size.
        TypeError: sizes that are no integers.
    Source: torch.eye.
    Example:
        >>> torch.eye(2, 3)
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    for name, size in (("n", n), ("m", m)):
        if size is not None and not hasattr(size, "__index__"):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(size).__name__}")
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    rows = n.__index__()
    columns = rows if m is None else m.__index__()
    return _with_diagonal(new.make(np.zeros, (rows, columns), new.dtype_or_default().numpy), columns)


@factory()
def scalar_tensor(new: Creation, s: Any) -> Any:
    """A 0-d tensor holding a number, of the default floating type unless ``dtype`` is given.

    Args:
        s: a number.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        A new 0-d tensor.
    Raises:
        RuntimeError: a number that the dtype cannot hold.
        TypeError: no number.
    Source: torch.scalar_tensor.
    Example:
        >>> torch.scalar_tensor(3), torch.scalar_tensor(3, dtype=torch.int64)
        (tensor(3.), tensor(3))
    """
    return filled((), s, new.dtype_or_default())
