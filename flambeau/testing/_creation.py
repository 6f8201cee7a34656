"""``make_tensor``: random tensors of any dtype to test with."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import ops
from ..core import dtype as dtypes
from ..core.dtype import dtype as DType
from ..core.shape import sizes_of
from ..core.tensor import Tensor

_INT64_MAX = 2**63 - 1


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random values from ``[low, high)``, the same as PyTorch's for the same seed.

    Args:
        *shape: sizes one by one, or as one sequence.
        dtype: element type.
        device: the CPU.
        low, high: bounds; -9 and 9 for floating-point and complex dtypes (for both parts), 0 and 2 for bool, 0 and 10 for
            unsigned, -9 and 10 for signed integers. Bounds beyond the dtype's range are replaced by its ends.
        requires_grad: whether operations on the result are recorded.
        noncontiguous: leave gaps in the last dimension.
        exclude_zero: replace zeros by the smallest positive number (1 for integers and bool).
        memory_format: of the result; not together with ``noncontiguous``.
    Returns: a tensor of that shape, dtype and device.
    Raises:
        ValueError: bounds that are NaN or not in order, gradients of integers, or ``noncontiguous`` with ``memory_format``.
    Source: torch.testing.make_tensor.
    Example:
        >>> x = torch.testing.make_tensor(2, 3, dtype=torch.int32, device="cpu", low=0, high=4)
        >>> x.shape, bool((x >= 0).all() and (x < 4).all())
        (torch.Size([2, 3]), True)
    """
    sizes = sizes_of(shape, "make_tensor") if shape else ()
    is_real_or_complex = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not is_real_or_complex:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}")
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got noncontiguous={noncontiguous} and "
            f"memory_format={memory_format}"
        )
    if noncontiguous and math.prod(sizes) > 1:
        result = _filled((*sizes[:-1], 2 * sizes[-1]), dtype, device, low, high)[..., 1::2]
    else:
        result = _filled(sizes, dtype, device, low, high)
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = float(_limits(dtype).tiny) if is_real_or_complex else 1
    return result.requires_grad_() if requires_grad else result


def _limits(dtype: DType) -> Any:
    """``tiny``, ``min`` and ``max`` of a floating-point dtype, or of a complex one's parts."""
    if dtype.numpy.isbuiltin == 1:
        return np.finfo(dtype.numpy)
    import ml_dtypes

    return ml_dtypes.finfo(dtype.numpy)


def _bounds(low: float | None, high: float | None, defaults: tuple[float, float], ends: tuple[float, float], is_float: bool) -> Any:
    """The bounds to draw between, checked and kept in the dtype's range."""
    low, high = (default if value is None else value for value, default in zip((low, high), defaults, strict=True))
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if is_float and low == high:
        warnings.warn(f"make_tensor: {low=} equals {high=}, so all values will be the same", FutureWarning, stacklevel=4)
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    return min(max(low, ends[0]), ends[1]), min(max(high, ends[0]), ends[1])


def _filled(sizes: tuple[int, ...], dtype: DType, device: Any, low: float | None, high: float | None) -> Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        limits = _limits(dtype)
        begin, end = _bounds(low, high, (-9, 9), (float(limits.min), float(limits.max)), is_float=True)
        in_float32 = dtype.is_floating_point and dtype.itemsize == 1
        result = ops.empty(sizes, dtype=dtypes.float32 if in_float32 else dtype, device=device)
        _fill_uniformly(ops.view_as_real(result) if dtype.is_complex else result, begin, end)
        return result.to(dtype) if in_float32 else result
    if dtype is dtypes.bool_:
        begin, end = _bounds(low, high, (0, 2), (0, 2), is_float=False)
    else:
        info = np.iinfo(dtype.numpy)
        begin, end = _bounds(low, high, (-9 if info.min else 0, 10), (int(info.min), min(int(info.max) + 1, _INT64_MAX)), is_float=False)
    return ops.randint(math.ceil(begin), math.ceil(end), sizes, dtype=dtype, device=device)


def _fill_uniformly(tensor: Tensor, low: float, high: float) -> None:
    if low == high:
        tensor.fill_(low)
    elif high - low > float(_limits(tensor.dtype).max):  # the range itself is no finite number: draw between the opmath
        tensor.uniform_(low / 2, high / 2).mul_(2)
    else:
        tensor.uniform_(low, high)
