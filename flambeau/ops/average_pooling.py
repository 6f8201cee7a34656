"""Average pooling: windows, adaptive bins, and power averages."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.copies import contiguous
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, documented, functional, op
from ..core.tape.ties import tied
from .arithmetic import reject
from .patches import Ints, in_layout, ints, is_channels_last, padded, product
from .pooling import adaptive_size, bins, pool_geometry


def _divisors(
    spatial: Ints, kernel_size: Ints, stride: Ints, padding: Ints, size: Ints, count_include_pad: bool, divisor_override: int | None
) -> Any:
    """By how many elements each window's sum is divided: a number, or an array ``size``."""
    if divisor_override is not None:
        return divisor_override
    divisors: Any = np.ones((), np.int64)
    same = True
    for length, k, s, p, n in zip(spatial, kernel_size, stride, padding, size, strict=True):
        start = np.arange(n) * s - p
        stop = np.minimum(start + k, length + p)
        if not count_include_pad:
            start, stop = start.clip(0), stop.clip(None, length)
        counts = stop - start
        same = same and bool((counts == k).all())
        divisors = divisors[..., None] * counts
    return product(kernel_size) if same else divisors


def _divided(total: np.ndarray, divisors: Any) -> np.ndarray:
    if total.dtype.kind in "iu":  # towards zero, as C divides
        return (np.abs(total) // np.abs(divisors) * np.sign(total) * np.sign(divisors)).astype(total.dtype)
    if divisors.__class__ is np.ndarray:
        divisors = divisors.astype(total.dtype)
    return np.divide(total, divisors, out=total)


def _sums(array: np.ndarray, kernel_size: Ints, stride: Ints, size: Ints) -> np.ndarray:
    """Sum of each window, one dimension after the other."""
    rank = len(kernel_size)
    for dim, (k, s, n) in enumerate(zip(kernel_size, stride, size, strict=True)):
        rest = (slice(None),) * (rank - 1 - dim)
        total: Any = None
        for at in range(k):
            part = array[(..., slice(at, at + (n - 1) * s + 1, s), *rest)]
            total = part.copy(order="K") if total is None else np.add(total, part, out=total)
        array = total
    return array


@op(
    name="_avg_pool_backward",
    namespace="nn.functional",
    promotion="same",
    work="prod(shape)",
    fast=True,
    grad={
        "grad_output": lambda grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: _AVERAGES[
            len(kernel_size)
        ].wrapper(grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    },
    forward="linear",
)
def average_backward(
    grad_output: Tensor,
    shape: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Tensor:
    """``grad_output`` spread evenly over each window of an input of shape ``shape``."""
    rank = len(kernel_size)
    kernel_size, stride, padding, _, size = pool_geometry(f"avg_pool{rank}d", rank, shape, kernel_size, stride, padding, 1, ceil_mode)
    spatial = tuple(shape[-rank:])
    divisors = _divisors(spatial, kernel_size, stride, padding, size, count_include_pad, divisor_override)
    if divisors.__class__ is np.ndarray:
        divisors = divisors.astype(grad_output.dtype)
    part = np.divide(grad_output, divisors)
    for dim in range(rank - 1, -1, -1):
        k, s, p, n, length = kernel_size[dim], stride[dim], padding[dim], size[dim], spatial[dim]
        axis = part.ndim - rank + dim
        rest = (slice(None),) * (rank - 1 - dim)
        reach = max(length + 2 * p, (n - 1) * s + k)
        whole = np.zeros((*part.shape[:axis], reach, *part.shape[axis + 1 :]), part.dtype)
        for at in range(k):
            place = whole[(..., slice(at, at + (n - 1) * s + 1, s), *rest)]
            if s >= k:
                place[...] = part
            else:
                place += part
        part = whole[(..., slice(p, p + length), *rest)] if reach != length else whole
    return in_layout(contiguous(part), is_channels_last(grad_output))


def average_pool(
    input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: Any
) -> Tensor:
    """Mean of each window; ``kernel`` is a tuple."""
    rank = len(kernel_size)
    reject(f"avg_pool{rank}d", input, "cb")
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    kernel_size, stride, padding, _, size = pool_geometry(f"avg_pool{rank}d", rank, input.shape, kernel_size, stride, padding, 1, ceil_mode)
    spatial = input.shape[-rank:]
    after = [max(0, (n - 1) * s + k - length - p) for n, s, k, length, p in zip(size, stride, kernel_size, spatial, padding, strict=True)]
    total = _sums(padded(input, padding, after), kernel_size, stride, size)
    result = _divided(total, _divisors(spatial, kernel_size, stride, padding, size, count_include_pad, divisor_override))
    return in_layout(result, is_channels_last(input))


_AVERAGES: dict[int, Any] = {
    rank: op(
        name=f"_avg_pool{rank}d",
        batch="folded",
        namespace="nn.functional",
        node_name=f"AvgPool{max(rank, 2)}DBackward0",
        forward="linear",
        promotion="same",
        fast=True,
        grad={
            "input": lambda grad, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, node: tied(
                average_backward(grad, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
                node.edges[0],
            )
        },
    )(average_pool)
    for rank in (1, 2, 3)
}


def _pool(rank: int, input: Any, kernel_size: Any, *options: Any) -> Any:
    """The operation of ``rank`` dimensions, with its further arguments in their order."""
    kernel_size = ints(kernel_size, rank, f"avg_pool{rank}d", "kernel_size", what="pooling")
    return _AVERAGES[rank].wrapper(input, kernel_size, *options)


@functional(compiled=True)
def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """Mean of each window along the last dimension; see :func:`torch.nn.functional.avg_pool2d`.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        kernel_size: size of the windows, in elements.
        stride: step between windows; ``kernel_size`` when None.
        padding: zeros on each side, at most half of the kernel.
        ceil_mode: round the number of windows up, so that the last one may end outside.
        count_include_pad: whether the zeros count as elements of the mean.
    Returns:
        ``(N, C, L')`` or ``(C, L')``, ``L' = (L + 2 padding - kernel_size) // stride + 1`` without ``ceil_mode``.
    Raises:
        RuntimeError: another number of dimensions, a stride of 0, too much padding, no room for a window.
    Gradient: ``grad`` spread evenly over each window.
    Source: torch.nn.functional.avg_pool1d.
    Example:
        >>> F.avg_pool1d(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), kernel_size=3, stride=2)
        tensor([[2., 4.]])
        >>> F.avg_pool1d(torch.tensor([[1.0, 2.0, 3.0]]), 2, padding=1, count_include_pad=False)
        tensor([[1.0000, 2.5000]])
    """
    return _pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@composite(namespace="nn.functional", out=True, compiled=True)
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of each window of an image.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the windows, an int or one per dimension.
        stride: step between windows; ``kernel_size`` when None.
        padding: zeros on each side, at most half of the kernel.
        ceil_mode: round the number of windows up, so that the last one may end outside.
        count_include_pad: whether the zeros count as elements of the mean.
        divisor_override: divide each sum by this instead.
    Returns:
        ``(N, C, H', W')`` or ``(C, H', W')``, ``H' = (H + 2 padding - kernel_size) // stride + 1`` without ``ceil_mode``.
    Raises:
        RuntimeError: geometry that does not fit, or a divisor of 0.
        NotImplementedError: bool input.
    Gradient: ``grad`` spread evenly over each window.
    Source: torch.nn.functional.avg_pool2d.
    Example:
        >>> image = torch.arange(16.0).reshape(1, 4, 4)
        >>> F.avg_pool2d(image, kernel_size=2)
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
        >>> F.avg_pool2d(image, 4, divisor_override=1)
        tensor([[[120.]]])
    """
    return _pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@composite(namespace="nn.functional", out=True, autocast={"cpu": "float32"}, compiled=True)
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of each window of 3 dimensions; see :func:`torch.nn.functional.avg_pool2d`.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        kernel_size: size of the windows, an int or one per dimension.
        stride: step between windows; ``kernel_size`` when None.
        padding: zeros on each side, at most half of the kernel.
        ceil_mode: round the number of windows up, so that the last one may end outside.
        count_include_pad: whether the zeros count as elements of the mean.
        divisor_override: divide each sum by this instead.
    Returns:
        ``(N, C, D', H', W')`` or ``(C, D', H', W')``.
    Raises:
        RuntimeError: geometry that does not fit, or a divisor of 0.
    Gradient: ``grad`` spread evenly over each window.
    Source: torch.nn.functional.avg_pool3d.
    Example:
        >>> F.avg_pool3d(torch.arange(16.0).reshape(1, 4, 2, 2), kernel_size=2).flatten()
        tensor([ 3.5000, 11.5000])
    """
    return _pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# -- adaptive ------------------------------------------------------------------------------------------------------------------
def adaptive_average(input: Tensor, size: Any) -> Tensor:
    """Mean of each bin."""
    rank = len(size)
    if not input.size:
        return np.empty((*input.shape[: input.ndim - rank], *size), input.dtype)
    if input.dtype.kind in "biuc" and kind_of(input).has_values:
        reject("adaptive_avg_pool2d", input, "biuc")
    means = input
    for dim, count in enumerate(size):
        axis = input.ndim - rank + dim
        length = means.shape[axis]
        if length == count:
            continue
        if count and length % count == 0:
            means = means.reshape(*means.shape[:axis], count, length // count, *means.shape[axis + 1 :]).sum(axis + 1, dtype=means.dtype)
            means = np.divide(means, length // count, dtype=means.dtype)
            continue
        rest = (slice(None),) * (rank - 1 - dim)
        pieces = np.empty((*means.shape[:axis], count, *means.shape[axis + 1 :]), means.dtype)
        for k, (start, stop) in enumerate(bins(length, count)):
            pieces[(..., k, *rest)] = means[(..., slice(start, stop), *rest)].sum(axis, dtype=means.dtype) / (stop - start)
        means = pieces
    return in_layout(means.copy() if means is input else contiguous(means), is_channels_last(input))


@op(
    batch="folded",
    name="_adaptive_avg_pool_backward",
    namespace="nn.functional",
    promotion="same",
    work="prod(grad_output.shape[: grad_output.ndim - len(spatial)]) * prod(spatial)",
    grad={
        "grad_output": lambda grad, grad_output_shape, spatial: _ADAPTIVE[len(spatial)].wrapper(grad, grad_output_shape[-len(spatial) :])
    },
    forward="linear",
)
def adaptive_average_backward(grad_output: Tensor, spatial: Any) -> Tensor:
    """``grad_output`` spread evenly over each bin of a plane of size ``spatial``."""
    rank = len(spatial)
    gradient = grad_output
    for dim, length in enumerate(spatial):
        axis = gradient.ndim - rank + dim
        count = gradient.shape[axis]
        if length == count:
            continue
        rest = (slice(None),) * (rank - 1 - dim)
        whole = np.zeros((*gradient.shape[:axis], length, *gradient.shape[axis + 1 :]), gradient.dtype)
        for k, (start, stop) in enumerate(bins(length, count)):
            whole[(..., slice(start, stop), *rest)] += gradient[(..., slice(k, k + 1), *rest)] / (stop - start)
        gradient = whole
    return in_layout(gradient.copy() if gradient is grad_output else gradient, is_channels_last(grad_output))


_ADAPTIVE: dict[int, Any] = {
    rank: op(
        name=f"_adaptive_avg_pool{rank}d",
        batch="folded",
        namespace="nn.functional",
        node_name=f"AdaptiveAvgPool{max(rank, 2)}DBackward0",
        aten=None,  # which is no primitive of PyTorch's: adaptive pooling to one element is a mean there
        forward="linear",
        promotion="same",
        grad={
            "input": lambda grad, size, input_shape, node: tied(
                adaptive_average_backward(grad, input_shape[-len(size) :]), None if tuple(size) == (1,) else node.edges[0]
            )
        },
    )(adaptive_average)
    for rank in (1, 2, 3)
}


def _adaptive(rank: int, input: Any, output_size: Any) -> Any:
    size = adaptive_size(f"adaptive_avg_pool{rank}d", rank, output_size, tuple(input.shape))
    if size == (1,) * rank and (rank > 1 or input.is_complex()):
        return input.mean(tuple(range(-rank, 0)), keepdim=True)
    return _ADAPTIVE[rank].wrapper(input, size)


@functional(compiled=True)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Mean of each of ``output_size`` bins; see :func:`torch.nn.functional.adaptive_avg_pool2d`.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        output_size: number of bins, an int or a sequence of one.
    Returns:
        ``(N, C, output_size)`` or ``(C, output_size)``.
    Raises:
        RuntimeError: another number of dimensions or of sizes.
    Gradient: ``grad`` spread evenly over each bin.
    Source: torch.nn.functional.adaptive_avg_pool1d.
    Example:
        >>> F.adaptive_avg_pool1d(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2)
        tensor([[2., 4.]])
    """
    return _adaptive(1, input, output_size)


@composite(namespace="nn.functional")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Mean of each of a given number of bins along height and width; neighbouring bins may share elements.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: number of bins, an int or one per dimension; None keeps a dimension's size.
    Returns:
        ``(N, C, *output_size)`` or ``(C, *output_size)``.
    Raises:
        RuntimeError: a misshapen input, one whose channels or sizes are empty, or a negative number of bins.
        ValueError: more sizes than dimensions to pool.
    Gradient: ``grad`` spread evenly over each bin.
    Source: torch.nn.functional.adaptive_avg_pool2d. Bin k of n over s elements is ``[k s // n, ceil((k + 1) s / n))``.
    Example:
        >>> F.adaptive_avg_pool2d(torch.arange(9.0).reshape(1, 3, 3), (2, 1))
        tensor([[[2.5000],
                 [5.5000]]])
    """
    return _adaptive(2, input, output_size)


@composite(namespace="nn.functional", autocast={"cpu": "float32"})
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Mean of each of a given number of bins along 3 dimensions; see :func:`torch.nn.functional.adaptive_avg_pool2d`.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        output_size: number of bins, an int or one per dimension; None keeps a dimension's size.
    Returns:
        ``(N, C, *output_size)`` or ``(C, *output_size)``.
    Raises:
        RuntimeError: a misshapen input, or a negative number of bins.
        ValueError: more sizes than dimensions to pool.
    Gradient: ``grad`` spread evenly over each bin.
    Source: torch.nn.functional.adaptive_avg_pool3d.
    Example:
        >>> F.adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), (None, 1, 1)).flatten()
        tensor([1.5000, 5.5000])
    """
    return _adaptive(3, input, output_size)


# -- power averages ------------------------------------------------------------------------------------------------------------
def _power_pool(rank: int, input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
    kernel_size = ints(kernel_size, rank, f"lp_pool{rank}d", "kernel_size", what="pooling")
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[rank - 1]
    means = pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (means.sign() * means.abs().relu()).mul(product(kernel_size)).pow(1.0 / norm_type)


def _declare_power_pool(rank: int, root: str) -> None:
    @composite(name=f"lp_pool{rank}d", namespace="nn.functional")
    @documented(rank=rank, shape=(1, *(2,) * rank), total=3.0 * 2**rank, root=root)
    def lp_pool(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        """Power average of each window: the ``norm_type``-th root of the sum of powers.

        Args:
            input: ``(N, C, *)`` or ``(C, *)`` with {rank} pooled dimensions, floating point.
            norm_type: the power; 1 for sums, 2 for lengths.
            kernel_size, stride, ceil_mode: as for ``avg_pool{rank}d``.
        Returns:
            ``(N, C, *)`` or ``(C, *)``, one element for each window.
        Raises:
            RuntimeError: geometry that does not fit.
            ZeroDivisionError: a ``norm_type`` of 0.
        Gradient: ``grad * (input / result)**(norm_type - 1)``, 0 where the result is 0.
        Source: torch.nn.functional.lp_pool{rank}d.
        Example:
            >>> x = torch.full({shape}, 3.0)
            >>> F.lp_pool{rank}d(x, norm_type=1, kernel_size=2).item()
            {total}
            >>> F.lp_pool{rank}d(x, norm_type=2, kernel_size=2).flatten()
            tensor([{root}])
        """
        return _power_pool(rank, input, norm_type, kernel_size, stride, ceil_mode)


for _rank, _root in enumerate(("4.2426", "6.", "8.4853"), 1):
    _declare_power_pool(_rank, _root)
