"""Elements chosen by masks: filled, selected, scattered, merged, and the positions of those that are not zero."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of, missing_values, view_at
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import checked_number, filling_number
from ..core.calls.operation import PARTS
from ..core.calls.out import EXACT, EXACT_APART
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import composite, method, op, pointwise
from ..core.shape import broadcast_shape
from ..core.state import as_constant, computed
from ..core.tensor import Tensor as TensorType, wrap
from .arithmetic import row_major
from .indexing import places_of, put_at


# -- masks ------------------------------------------------------------------------------------------------------------------------
def _canonicalize_mask_fill(input: Any, mask: Any, value: Any) -> tuple[Any, ...]:
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, TensorType) and value._array.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._array.ndim} dimension(s)."
        )
    return input, mask, value


@op(
    inplace=True,
    may_overlap=PARTS,
    broadcasts=True,
    row_major=True,
    canonicalize=_canonicalize_mask_fill,
    grad={
        "input": lambda grad, mask: grad.masked_fill(mask, 0),
        "value": lambda grad, mask: grad.masked_fill(mask.logical_not(), 0).sum(),
    },
    meta=lambda new, input, mask, value: new(broadcast_shape(input.shape, mask.shape), input.dtype),
)
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """``input`` with ``value`` where ``mask`` holds.

    Args:
        input: any shape and dtype.
        mask: bool, broadcastable with ``input``.
        value: a number or a 0-d tensor; rounded towards zero for integers.
    Returns:
        The broadcast shape, ``input``'s dtype; a new tensor.
    Raises:
        RuntimeError: ``value`` outside the range of ``input``'s dtype or not 0-d, a mask that is not bool, or shapes that do not broadcast.
    Gradient: ``grad`` where ``mask`` does not hold; to ``value`` the sum of the rest.
    Source: torch.Tensor.masked_fill.
    Example:
        >>> scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> scores.masked_fill(torch.tensor([False, True]), -torch.inf)
        tensor([[1., -inf],
                [3., -inf]])
    """
    return row_major(np.where(mask, checked_number(value, dtypes.of_array(input)), input))


def _canonicalize_select_mask(input: Any, mask: Any) -> tuple[Any, ...]:
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.dtype}")
    return input, mask


@op(
    broadcasts=True,
    elementwise=False,
    out=EXACT_APART,
    canonicalize=_canonicalize_select_mask,
    grad={
        "input": lambda grad, input_shape, mask: grad.new_zeros(broadcast_shape(input_shape, mask._array.shape)).masked_scatter(mask, grad)
    },
    forward="linear",
    meta=lambda new, *operands: missing_values("masked_select"),
)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``input`` where ``mask`` holds, as a 1-d copy.

    Args:
        input: any shape and dtype.
        mask: bool, broadcastable with ``input``.
    Returns:
        1-d, in row-major order; ``input``'s dtype. A copy.
    Raises:
        RuntimeError: a mask that is not bool, or shapes that do not broadcast.
    Gradient: ``grad`` where ``mask`` holds, 0 elsewhere.
    Source: torch.masked_select.
    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> x.masked_select(x > 3)
        tensor([5, 7])
    """
    shape = np.broadcast_shapes(input.shape, mask.shape)
    chosen = np.broadcast_to(mask, shape).reshape(-1).nonzero()[0]
    return np.broadcast_to(input, shape).reshape(-1).take(chosen)


@op(
    inplace=True,
    broadcasts=False,
    grad={
        "input": lambda grad, mask: grad.masked_fill(mask, 0),
        "source": lambda grad, mask, source_shape: _scatter_source_gradient(grad, mask, source_shape),
    },
    forward="linear",
    meta=lambda new, input, mask, source: new(broadcast_shape(input.shape, mask.shape), input.dtype),
)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``input`` with the elements of ``source``, in order, where ``mask`` holds.

    Args:
        input: any shape and dtype.
        mask: bool, broadcastable with ``input``.
        source: at least as many elements as ``mask`` has places, ``input``'s dtype; any shape.
    Returns:
        The broadcast shape, ``input``'s dtype; a new tensor.
    Raises:
        RuntimeError: fewer elements in ``source`` than places, another dtype, or a mask that is not bool.
    Gradient: to ``input`` where ``mask`` does not hold; to ``source`` at the elements that were used.
    Source: torch.Tensor.masked_scatter.
    Example:
        >>> mask = torch.tensor([True, False, True])
        >>> torch.zeros(3).masked_scatter(mask, torch.tensor([5.0, 6.0, 7.0]))
        tensor([5., 0., 6.])
    """
    if mask.dtype.kind != "b":
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {dtypes.of_array(mask)}")
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {dtypes.of_array(input).legacy} and "
            f"{dtypes.of_array(source).legacy}"
        )
    shape = broadcast_shape(input.shape, mask.shape)
    result = np.array(np.broadcast_to(input, shape), order="C")
    where = np.broadcast_to(mask, shape)
    count = int(where.sum())
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    result[where] = source.reshape(-1)[:count]
    return result


def _scatter_source_gradient(grad: Any, mask: Any, source_shape: Any) -> Any:
    taken = grad.masked_select(mask.expand(grad.shape))
    whole = taken.new_zeros(math.prod(source_shape))
    whole = put_at(whole, [np.arange(taken._array.size)], taken, False)
    return whole.reshape(source_shape)


# -- where, nonzero -----------------------------------------------------------------------------------------------------------------
def _fast_where(condition: np.ndarray, a: Any, b: np.ndarray) -> np.ndarray | None:
    result = np.where(condition, a, b)
    return result if result.dtype is b.dtype and (a.__class__ is not np.ndarray or a.dtype is b.dtype) else None


@pointwise(
    name="_where",
    inplace=False,
    fast=_fast_where,
    node_name="WhereBackward0",
    promotion="keep",
    out=True,
    grad={
        "input": lambda grad, condition: where_select(condition, grad, 0),
        "other": lambda grad, condition: where_select(condition, 0, grad),
    },
    aten="where.self",
    forward="holomorphic",
)
def where_select(condition: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input`` where ``condition`` holds, ``other`` elsewhere; promotion was done by ``where``."""
    dtype = (input if hasattr(input, "dtype") else other).dtype  # the other one may be a plain number
    return np.where(condition, input, other).astype(dtype, copy=False)


@composite(method=False, out=EXACT)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` holds, ``other`` elsewhere; the positions where it holds if called with a condition alone.

    Args:
        condition: bool (uint8 is deprecated).
        input, other: tensors or numbers, promoted to a common dtype; all three are broadcast.
    Returns:
        The broadcast shape, the common dtype. With a condition alone: one 1-d int64 tensor for each dimension, as
        ``nonzero(as_tuple=True)``.
    Raises:
        RuntimeError: a condition of another dtype, or shapes that do not broadcast.
    Source: torch.where.
    Example:
        >>> x = torch.tensor([-1.0, 2.0, -3.0])
        >>> torch.where(x > 0, x, 0)
        tensor([0., 2., 0.])
        >>> torch.where(x < 0)
        (tensor([0, 2]),)
    """
    if input is None and other is None:
        return tuple(nonzero(condition, as_tuple=True))
    if condition.dtype is dtypes.uint8:
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. "
            "Use a boolean condition instead.",
            UserWarning,
            stacklevel=3,
        )
        condition = condition.bool()
    elif condition.dtype is not dtypes.bool_:
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.legacy}")
    dtype = common_dtype((input, other))
    a, b = (
        (value if value.dtype is dtype else value.to(dtype))
        if isinstance(value, TensorType)
        else wrap(as_constant(filling_number(value, dtype)))
        for value in (input, other)
    )
    return where_select(condition, a, b)


@method(name="where")
def where_method(input: Tensor, condition: Tensor, other: Any) -> Tensor:
    """``torch.where(condition, input, other)``: the tensor where ``condition`` holds, ``other`` elsewhere.

    Args:
        condition: bool, broadcastable.
        other: a tensor or a number.
    Returns:
        The broadcast shape, the common dtype.
    Raises:
        RuntimeError: a condition of another dtype, or shapes that do not broadcast.
    Source: torch.Tensor.where.
    Example:
        >>> torch.tensor([1, 2, 3]).where(torch.tensor([True, False, True]), 0.5)
        tensor([1.0000, 0.5000, 3.0000])
    """
    return where(condition, input, other)


def _places(array: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple([places.astype(np.int64) for places in array.nonzero()])


@op(name="_nonzero", out=EXACT, grad=None, aten="nonzero")
def nonzero_rows(input: Tensor) -> Tensor:
    if not kind_of(input).has_values:
        missing_values("nonzero")
    rows = places_of(input).T if input.ndim else np.empty((int(bool(input)), 0), np.int64)
    return rows if rows.size else view_at(np.empty(1, np.int64), rows.shape, rows.dtype, 0, (8, 8 * len(rows)))  # column by column


@composite()
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero, in row-major order.

    Args:
        input: any shape and dtype; NaN is not zero.
        out: int64, where to write them, one row per element.
        as_tuple: one 1-d tensor per dimension, fit for indexing, instead of one row per element.
    Returns:
        int64, ``(count, ndim)``; or ``ndim`` tensors of ``(count,)``.
    Raises:
        RuntimeError: ``out`` and ``as_tuple`` together.
        TypeError: ``out`` that is no tensor.
    Source: torch.nonzero.
    Example:
        >>> x = torch.tensor([[0, 4], [5, 0]])
        >>> torch.nonzero(x)
        tensor([[0, 1],
                [1, 0]])
        >>> x[torch.nonzero(x, as_tuple=True)]
        tensor([4, 5])
    """
    if out is not None and not isinstance(out, TensorType):
        raise TypeError(f"nonzero(): argument 'out' must be Tensor, not {type(out).__name__}")
    if not as_tuple:
        return nonzero_rows(input, out=out)
    if out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    array = input._array if input._array.ndim else input._array.reshape(1)
    if not kind_of(array).has_values:
        missing_values("nonzero")
    return tuple([wrap(places) for places in computed(_places, array, varies=True)])


@composite()
def argwhere(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero, one row each; ``nonzero`` without options.

    Args:
        input: any shape and dtype.
    Returns:
        int64, ``(count, ndim)``.
    Raises:
        TypeError: no tensor.
    Source: torch.argwhere.
    Example:
        >>> torch.argwhere(torch.tensor([[0, 4], [5, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    return nonzero_rows(input)
