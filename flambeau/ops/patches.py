"""Sliding windows over the last dimensions of arrays: what convolution, pooling and unfolding share.

Arrays are ``(N, C, *spatial)``.  ``windows`` shows them as ``(N, C, *kernel, *positions)`` without a copy; ``add_windows`` is its
adjoint.  Geometry arguments are tuples with one entry per spatial dimension.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.arrays.copies import contiguous, copy_into, fill
from ..core.arrays.kinds import view_at
from ..core.calls.interruption import pass_on
from ..core.layout import is_channels_last

Ints = tuple[int, ...]
FOLDED = {"batch": "folded", "namespace": "nn.functional"}  # options of operations whose first dimension is a batch


def ints(value: Any, count: int, operation: str, name: str, *, what: str = "convolution") -> Ints:
    """``value``, an int or a sequence of 1 or ``count`` of them, as a tuple of ``count``.

    Raises:
        TypeError: anything but integers.
        RuntimeError: another length.
    """
    if value.__class__ is int:
        return (value,) * count
    if value.__class__ is tuple and len(value) == count:
        for item in value:
            if item.__class__ is not int:
                break
        else:
            return value
    if hasattr(value, "__index__") and not hasattr(value, "__len__"):
        return (value.__index__(),) * count
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        numbers = tuple([item.__index__() for item in value])
    except (TypeError, AttributeError) as error:
        pass_on(error)
        raise TypeError(f"{operation}(): argument '{name}' must be tuple of ints, not {type(value).__name__}") from None
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values to match the {what} dimensions, "
            f"but got {name}={list(numbers)}"
        )
    return numbers


def padded(array: np.ndarray, before: Sequence[int], after: Sequence[int], value: Any = 0) -> np.ndarray:
    """``array`` with ``value`` around its spatial dimensions; negative amounts cut.  The array itself where nothing changes."""
    if not any(before) and not any(after):
        return array
    shape, target, source = _places(array.shape, tuple(before), tuple(after))
    result = new_like(array, shape, zeros=value == 0)
    if value != 0:
        fill(result, value)
    copy_into(result[target], array[source])
    return result


@lru_cache(maxsize=4096)
def _places(whole: Ints, before: Ints, after: Ints) -> tuple[Ints, tuple[slice, ...], tuple[slice, ...]]:
    """The shape of a padded array, and the slices of it and of the array itself that have the same elements."""
    lead = len(whole) - len(before)
    shape, target, source = list(whole), [slice(None)] * lead, [slice(None)] * lead
    for k, (low, high) in enumerate(zip(before, after, strict=True)):
        size = whole[lead + k]
        shape[lead + k] = size + low + high
        source.append(slice(max(-low, 0), size - max(-high, 0)))
        target.append(slice(max(low, 0), max(low, 0) + size - max(-low, 0) - max(-high, 0)))
    return tuple(shape), tuple(target), tuple(source)


def window_count(size: int, kernel: int, stride: int, dilation: int) -> int:
    """Number of windows that fit into ``size`` elements; 0 or less if none does."""
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def windows(array: np.ndarray, kernel: Ints, stride: Ints, dilation: Ints, positions: Ints) -> np.ndarray:
    """A view ``(N, C, *kernel, *positions)``: element ``[n, c, k, p]`` is ``array[n, c, p * stride + k * dilation]``."""
    if not array.flags.c_contiguous:
        array = contiguous(array)
    lead = array.ndim - len(kernel)
    steps = array.strides
    inner, outer = map(operator.mul, steps[lead:], dilation), map(operator.mul, steps[lead:], stride)
    return view_at(array, array.shape[:lead] + kernel + positions, array.dtype, 0, (*steps[:lead], *inner, *outer))


def taps(kernel: Ints, stride: Ints, dilation: Ints, positions: Ints) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
    """For each place in the kernel, the slices of the padded array that it sees over all positions."""
    for at in np.ndindex(*kernel):
        yield at, tuple([slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(at, dilation, positions, stride, strict=True)])


def add_windows(total: np.ndarray, columns: np.ndarray, kernel: Ints, stride: Ints, dilation: Ints, positions: Ints) -> None:
    """Add ``columns``, ``(N, C, *kernel, *positions)``, to the places of ``total`` that ``windows`` would show."""
    for at, where in taps(kernel, stride, dilation, positions):
        total[(..., *where)] += columns[(slice(None), slice(None), *at)]


def new_like(array: np.ndarray, shape: Sequence[int], *, zeros: bool) -> np.ndarray:
    """A new array with its channels innermost in memory if ``array`` has them there."""
    make = np.zeros if zeros else np.empty
    if is_channels_last(array):
        return np.moveaxis(make((shape[0], *shape[2:], shape[1]), array.dtype), -1, 1)
    return make(shape, array.dtype)


def in_layout(array: np.ndarray, channels_last: bool) -> np.ndarray:
    """``array`` with its channels innermost in memory on request, else row-major."""
    if not channels_last:
        return array if array.flags.c_contiguous else contiguous(array)
    return np.moveaxis(contiguous(np.moveaxis(array, 1, -1)), -1, 1)


def product(values: Sequence[int]) -> int:
    return math.prod(values)
