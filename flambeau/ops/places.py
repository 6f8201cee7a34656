"""Positions of elements: as rows of a fixed number, and out of flat numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.out import EXACT
from ..core.calls.registry import composite
from ..core.layout import contiguous_format
from .joining import cat, stack
from .masks import nonzero_rows


@composite(out=EXACT)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first ``size`` rows of ``nonzero``, continued by rows of ``fill_value`` where there are fewer.

    Args:
        input: any shape and dtype.
        size: number of rows.
        fill_value: for rows that are missing.
    Returns:
        int64, ``(size, ndim)``.
    Raises:
        RuntimeError: a negative ``size``.
    Source: torch.nonzero_static.
    Example:
        >>> torch.nonzero_static(torch.tensor([0, 5, 0, 7]), size=3)
        tensor([[ 1],
                [ 3],
                [-1]])
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if not kind_of(input._array).has_values:
        return input.new_empty((size, input.ndim), dtype=dtypes.int64)
    rows = nonzero_rows(input)[:size]
    missing = size - rows.shape[0]
    if not missing:
        return rows.clone(memory_format=contiguous_format)
    return cat([rows, rows.new_full((missing, rows.shape[1]), fill_value)])


@composite(method=False)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> Any:
    """Coordinates in a tensor of ``shape`` of elements of the flattened tensor.

    Args:
        indices: integers, ``(*)``; outside of the tensor they are taken modulo each size.
        shape: its sizes.
    Returns:
        One int64 tensor ``(*)`` for each dimension.
    Raises:
        TypeError: indices or sizes that are not integers.
        ValueError: a negative size.
    Source: torch.unravel_index.
    Example:
        >>> torch.unravel_index(torch.tensor([1, 5]), (2, 3))
        (tensor([0, 1]), tensor([1, 2]))
    """
    if indices.dtype.category != dtypes.INTEGER:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes: Any = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    if not sizes:
        return ()
    if all(sizes) and indices.is_contiguous():  # the general way divides by tensors, which takes several times as long
        rest, coordinates = indices.long(), []
        for size in reversed(sizes):
            quotient = rest.div(size, rounding_mode="floor")
            coordinates.append(rest - quotient * size)
            rest = quotient
        return stack(coordinates[::-1], -1).unbind(-1)
    steps = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    quotients = indices.long().unsqueeze(-1).div(indices.new_tensor(steps, dtype=dtypes.int64), rounding_mode="floor")
    return quotients.remainder(indices.new_tensor(sizes, dtype=dtypes.int64)).unbind(-1)
