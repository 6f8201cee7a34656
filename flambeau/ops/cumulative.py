"""Running totals along a dimension: sums, products, extrema, differences, integrals by trapezoids."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of, perhaps
from ..core.calls.annotations import Tensor
from ..core.calls.casting import cast_array
from ..core.calls.out import EXACT, Out
from ..core.calls.registry import Declare, composite, op
from ..core.shape import index_of, wrap_dim, wrap_dims
from ..core.state import grad_enabled
from .arithmetic import reject
from .exponential import complex_logaddexp
from .joining import cat, stack
from .masks import where
from .reduction import cast_operand
from .scatter import scattered_sums

_F4 = np.dtype(np.float32)
_TOTALS = {"f": np.dtype(np.float64), "F": np.dtype(np.complex128)}  # in which totals are kept, as in PyTorch


def _prepare(input: Any, dim: int, *rest: Any) -> tuple[Any, ...]:
    return (input, wrap_dim(index_of(dim), input._array.ndim), *rest)


def reversed_cumsum(grad: Any, dim: int) -> Any:
    """At every place the sum of what follows, itself included."""
    return grad if not grad.ndim else grad.flip(dim).cumsum(dim).flip(dim)


def _accumulated(ufunc: Any, input: np.ndarray, dim: int, dtype: Any) -> np.ndarray:
    input = input if dtype is None else cast_array(input, dtype)
    wanted = np.dtype(np.int64) if dtype is None and input.dtype.kind in "biu" else input.dtype
    if not input.ndim:
        return input.astype(wanted)
    wide = _TOTALS.get(wanted.char) or (_F4 if wanted.kind in "fV" and wanted.itemsize < 4 else wanted)
    out = np.empty(input.shape, wide)
    ufunc.accumulate(input, axis=dim, dtype=wide, out=out)
    return out if wide == wanted else out.astype(wanted)


def _fast_accumulate(ufunc: Any) -> Any:
    def fast(a: np.ndarray, dim: int, dtype: Any) -> Any:
        if dtype is not None or a.dtype.kind == "b" or not a.ndim:
            return None
        wide = _TOTALS.get(a.dtype.char)
        result = ufunc.accumulate(a, dim) if wide is None else ufunc.accumulate(a.astype(wide), dim).astype(a.dtype)
        return result if result.flags.c_contiguous else None

    return fast


# -- cumsum, cumprod ------------------------------------------------------------------------------------------------------------
def _accumulation(**options: Any) -> Declare:
    """Declare sums or products of the elements so far."""
    return op(
        promotion="same",
        opmath="native",
        inplace=True,
        out=Out(dtype="dtype"),
        canonicalize=_prepare,
        autocast={"cuda": "result"},
        batch="along",
        **options,
    )


@_accumulation(fast=_fast_accumulate(np.add), grad={"input": reversed_cumsum}, forward="linear")
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sum along ``dim``.

    Args:
        input: any shape and dtype.
        dim: dimension to run along.
        dtype: cast to it first; integers and bools become int64 when None.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        IndexError: ``dim`` out of range.
    Gradient: the running sum of ``grad`` from the end.
    Source: torch.cumsum.
    Example:
        >>> torch.cumsum(torch.tensor([[1, 2, 3], [10, 20, 30]]), dim=1)
        tensor([[ 1,  3,  6],
                [10, 30, 60]])
    """
    return _accumulated(np.add, input, dim, dtype)


def _cumprod_gradient(grad: Any, input: Any, result: Any, dim: int, dtype: Any) -> Any:
    input = cast_operand(input, dtype)
    if not input.ndim or not input.numel() or input.shape[dim] == 1:
        return grad
    dim = wrap_dim(dim, input.ndim)
    zeros = input == 0
    if not perhaps(zeros.any()):
        return reversed_cumsum(grad * result.conj(), dim) / input.conj()
    if grad_enabled():
        return _products_without_each(grad, input, dim)
    return _cumprod_gradient_beside_zeros(grad, input, result, zeros, dim)


def _cumprod_gradient_beside_zeros(grad: Any, input: Any, result: Any, zeros: Any, dim: int) -> Any:
    """The gradient where there are zeros along ``dim``: no number behind the first counts, and it itself up to the second alone.

    What is masked depends on the values, so that the derivative of this is not the second derivative.
    """
    count, input = zeros.cumsum(dim), input.conj()
    before, behind = count == 0, count == 1
    in_front = reversed_cumsum((grad * result.conj()).masked_fill(before.logical_not(), 0), dim) / input
    product = input.masked_fill(before.logical_not(), 1).cumprod(dim).narrow(dim, -1, 1)
    between = input.masked_fill((behind & zeros.logical_not()).logical_not(), 1).cumprod(dim)
    of_first = product * (between * grad.masked_fill(behind.logical_not(), 0)).sum(dim, keepdim=True)
    return where(before, in_front, where(behind & zeros, of_first, 0))


def _products_without_each(grad: Any, input: Any, dim: int) -> Any:
    """For each k the sum over i >= k of ``grad[i]`` times the product of all inputs up to i but the k-th: O(n**2), no division."""
    n = input.shape[dim]
    input = input.conj()
    one = input.new_ones([1 if d == dim else size for d, size in enumerate(input.shape)])
    before, parts = one, []
    for k in range(n):
        after = cat([one, input.narrow(dim, k + 1, n - k - 1)], dim).cumprod(dim) if k + 1 < n else one
        parts.append((grad.narrow(dim, k, n - k) * (before * after)).sum(dim))
        before = before * input.narrow(dim, k, 1)
    return stack(parts, dim)


@_accumulation(fast=_fast_accumulate(np.multiply), grad={"input": _cumprod_gradient})
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running product along ``dim``.

    Args:
        input: any shape and dtype.
        dim: dimension to run along.
        dtype: cast to it first; integers and bools become int64 when None.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        IndexError: ``dim`` out of range.
    Gradient: the sum from the end of ``grad * result``, by ``input``; correct where some elements are 0, too.
    Source: torch.cumprod.
    Example:
        >>> torch.cumprod(torch.tensor([2, 3, 0, 5]), dim=0)
        tensor([2, 6, 0, 0])
    """
    return _accumulated(np.multiply, input, dim, dtype)


# -- running extrema ------------------------------------------------------------------------------------------------------------
def _running(ufunc: Any, at_least: Any, input: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Running extremum, and where it was last met."""
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    if input.dtype.kind == "c" and input.size and kind_of(input).has_values:
        reject(f"cum{ufunc.__name__[:3]}", input, "c")
    values = np.empty(input.shape, input.dtype)
    if input.size:
        ufunc.accumulate(input, axis=dim, out=values)
    met = at_least(input, values)
    if input.dtype.kind in "fV":
        met |= np.isnan(input)
    along = np.arange(input.shape[dim]).reshape([-1 if d == dim else 1 for d in range(input.ndim)])
    places = np.where(met, along, 0)
    if input.size:
        places = np.maximum.accumulate(places, axis=dim)
    return values, np.asarray(places, np.int64, order="C")


def _running_gradient(grad: Any, result1: Any, dim: int, input_shape: Any) -> Any:
    if not input_shape:
        return grad
    return scattered_sums(grad, dim, result1, input_shape)


def _running_extremum(**options: Any) -> Declare:
    """Declare the largest or smallest elements so far."""
    return op(
        opmath="native",
        out=EXACT,
        canonicalize=_prepare,
        returns=("values", "indices"),
        grad={"input": _running_gradient},
        forward="selects",
        batch="along",
        **options,
    )


@_running_extremum()
def cummax(input: Tensor, dim: int) -> Any:
    """Running maximum along ``dim`` and where it is; of equal elements the last, from a NaN on NaN.

    Args:
        input: any shape, real.
        dim: dimension to run along.
    Returns:
        A named tuple (values, indices) of ``input``'s shape; indices are int64.
    Raises:
        IndexError: ``dim`` out of range.
        NotImplementedError: complex input.
    Gradient: ``grad`` summed at the places.
    Source: torch.cummax.
    Example:
        >>> values, indices = torch.cummax(torch.tensor([3, 1, 3, 5]), dim=0)
        >>> values, indices
        (tensor([3, 3, 3, 5]), tensor([0, 0, 2, 3]))
    """
    return _running(np.maximum, np.greater_equal, input, dim)


@_running_extremum()
def cummin(input: Tensor, dim: int) -> Any:
    """Running minimum along ``dim`` and where it is; of equal elements the last, from a NaN on NaN.

    Args:
        input: any shape, real.
        dim: dimension to run along.
    Returns:
        A named tuple (values, indices) of ``input``'s shape; indices are int64.
    Raises:
        IndexError: ``dim`` out of range.
        NotImplementedError: complex input.
    Gradient: ``grad`` summed at the places.
    Source: torch.cummin.
    Example:
        >>> torch.cummin(torch.tensor([3.0, 4.0, float("nan"), 1.0]), dim=0)
        torch.return_types.cummin(
        values=tensor([3., 3., nan, nan]),
        indices=tensor([0, 0, 2, 2]))
    """
    return _running(np.minimum, np.less_equal, input, dim)


def _logcumsumexp_gradient(grad: Any, input: Any, result: Any, dim: int) -> Any:
    if not input.ndim:
        return grad
    if input.is_complex():
        others = grad == 0
        size = grad.masked_fill(others, 1).log().masked_fill(others, -3e38)
        return (_reversed_logcumsumexp(size - result.conj(), dim) + input.conj()).exp()
    # sums of positive and of negative gradients apart, in logarithms, so that nothing overflows
    parts = []
    lowest = float(np.finfo(grad.detach()._array.dtype).min) if grad._array.dtype.kind == "f" else -3e38
    for sign in (1, -1):
        others = grad * sign <= 0
        size = (grad * sign).masked_fill(others, 1).log().masked_fill(others, lowest)  # finite, so that no derivative is NaN
        parts.append((_reversed_logcumsumexp(size - result, dim) + input).exp())
    return parts[0] - parts[1]


def _reversed_logcumsumexp(values: Any, dim: int) -> Any:
    return values.flip(dim).logcumsumexp(dim).flip(dim)


@op(out=EXACT, promotion="same", canonicalize=_prepare, grad={"input": _logcumsumexp_gradient}, batch="along")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Running ``log(sum(exp(input)))`` along ``dim``, without overflow.

    Args:
        input: any shape, floating point or complex.
        dim: dimension to run along.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        NotImplementedError: integer input.
        IndexError: ``dim`` out of range.
    Gradient: at each element the sum of ``grad * exp(input - result)`` from there to the end.
    Source: torch.logcumsumexp.
    Example:
        >>> torch.logcumsumexp(torch.tensor([1000.0, 1000.0, 0.0]), dim=0)
        tensor([1000.0000, 1000.6932, 1000.6932])
    """
    reject("logcumsumexp_out_cpu", input, "biu")
    if not input.ndim or not input.size:
        return input.copy()
    if input.dtype.kind == "c":
        return _complex_logcumsumexp(input, dim)
    out = np.empty(input.shape, input.dtype)
    np.logaddexp.accumulate(input, axis=dim, out=out)
    return out


def _complex_logcumsumexp(input: np.ndarray, dim: int) -> np.ndarray:
    moved, result = np.moveaxis(input, dim, 0), np.empty(input.shape, input.dtype)
    into, running = np.moveaxis(result, dim, 0), np.full(moved.shape[1:], -np.inf, np.complex128)
    for i, term in enumerate(moved):
        running = complex_logaddexp(term, running)
        into[i] = running
    return result


# -- differences and integrals --------------------------------------------------------------------------------------------------
@composite(out=True, in_library=True)
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """n-th differences of neighbours along ``dim``.

    Args:
        input: at least 1-d; of bools the exclusive or is taken.
        n: how often differences are taken.
        dim: dimension.
        prepend, append: tensors joined before and after first.
    Returns:
        ``input``'s shape with ``n`` elements fewer along ``dim``, at least 0.
    Raises:
        RuntimeError: a 0-d input, or a negative ``n``.
        IndexError: ``dim`` out of range.
    Gradient: minus the difference of ``grad`` along ``dim``, with zeros at both ends, ``n`` times.
    Source: torch.diff.
    Example:
        >>> x = torch.tensor([1, 4, 9, 16])
        >>> torch.diff(x), torch.diff(x, n=2), torch.diff(x, prepend=torch.tensor([0]))
        (tensor([3, 5, 7]), tensor([2, 2]), tensor([1, 3, 5, 7]))
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    parts = [tensor for tensor in (prepend, input, append) if tensor is not None]
    if len(parts) > 1:
        input = cat(parts, dim)
    for _ in range(min(n, input.shape[dim])):
        size = input.shape[dim]
        later, earlier = input.narrow(dim, 1, size - 1), input.narrow(dim, 0, size - 1)
        input = later.logical_xor(earlier) if input.dtype.category == 0 else later - earlier
    return input


def _steps_for(y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Widths of the intervals: a number, or a tensor that broadcasts against the differences of ``y``."""
    if x is None:
        return 1 if dx is None else dx
    if not x.ndim:
        raise RuntimeError("trapezoid: expected x of at least one dimension, got a 0-d tensor")
    if x.ndim == 1:
        x = x.reshape([-1 if d == dim else 1 for d in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape([1] * (y.ndim - x.ndim) + list(x.shape))
    if x.shape[dim] != y.shape[dim]:
        raise RuntimeError("There must be one `x` value for each sample point")
    return diff(x, 1, dim)


def _areas(y: Any, x: Any, dx: Any, dim: int) -> Any:
    size = y.shape[dim]
    heights = y.narrow(dim, 1, size - 1) + y.narrow(dim, 0, size - 1)
    return heights * _steps_for(y, x, dx, dim) / 2


def _slope_uniform(input: Any, dim: int, step: Any, edge_order: int) -> Any:
    size = input.shape[dim]

    def at(start: int, length: int = 1) -> Any:
        return input.narrow(dim, start, length)

    middle = (at(2, size - 2) - at(0, size - 2)) / (2 * step)
    if edge_order == 1:
        return (at(1) - at(0)) / step, middle, (at(size - 1) - at(size - 2)) / step
    left = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / step
    return left, middle, (at(size - 3) * 0.5 - at(size - 2) * 2 + at(size - 1) * 1.5) / step


def _slope_between(input: Any, dim: int, places: Any, edge_order: int) -> Any:
    """Derivatives of the parabolas through neighbours whose coordinates are ``places``."""
    size = input.shape[dim]
    if tuple(places.shape) != (size,):
        raise RuntimeError(
            f"torch.gradient expected {size} coordinates for dimension {dim}, but got a tensor of shape {list(places.shape)}"
        )
    steps = places.diff().reshape(-1, *(1,) * (input.ndim - 1 - dim))

    def at(start: int, length: int = 1) -> Any:
        return input.narrow(dim, start, length)

    before, after = steps[:-1], steps[1:]
    both = before + after
    middle = at(0, size - 2) * (-after / (before * both)) + at(1, size - 2) * ((after - before) / (before * after))
    middle = middle + at(2, size - 2) * (before / (after * both))
    if edge_order == 1:
        return (at(1) - at(0)) / steps[:1], middle, (at(size - 1) - at(size - 2)) / steps[-1:]
    first, second = steps[:1], steps[1:2]
    left = at(0) * (-(2 * first + second) / (first * (first + second))) + at(1) * ((first + second) / (first * second))
    left = left - at(2) * (first / (second * (first + second)))
    first, second = steps[-2:-1], steps[-1:]
    right = at(size - 3) * (second / (first * (first + second))) - at(size - 2) * ((first + second) / (first * second))
    return left, middle, right + at(size - 1) * ((2 * second + first) / (second * (first + second)))


@composite(method=False, in_library=True)
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """Estimates of the derivatives of sampled values along dimensions, by the parabola through each three neighbours.

    Args:
        input: at least ``edge_order + 1`` elements along each of the dimensions.
        spacing: the distance of samples (1 when None), one for each dimension, or one tensor of coordinates for each.
        dim: dimensions, by default all.
        edge_order: 1 (differences of two) or 2 (parabolas) at the ends.
    Returns:
        A tuple with one tensor of ``input``'s shape for each dimension; integers become the default float dtype.
    Raises:
        RuntimeError: too few elements, ``spacing`` of another length, another ``edge_order``, or uint8.
        IndexError: ``dim`` out of range.
    Source: torch.gradient.
    Example:
        >>> squares = torch.tensor([0.0, 1.0, 4.0, 9.0])
        >>> torch.gradient(squares)
        (tensor([1., 2., 4., 5.]),)
        >>> torch.gradient(squares, edge_order=2, spacing=0.5)
        (tensor([ 0.,  4.,  8., 12.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.dtype is dtypes.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims = wrap_dims(dim, input.ndim, empty_is_all=False)
    spacing = 1 if spacing is None else spacing
    is_list = isinstance(spacing, (list, tuple))
    if is_list and len(spacing) != len(dims):
        if dim is None:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                f"'self.dim() = {input.ndim}', since dim argument was not given, but got a list of length {len(spacing)}"
            )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same length, but "
            f"got a spacing argument of length {len(spacing)} and a dim argument of length {len(dims)}."
        )
    if any(input.shape[place] <= edge_order for place in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    slopes = []
    for place, step in zip(dims, spacing if is_list else [spacing] * len(dims), strict=True):
        are_coordinates = getattr(step, "ndim", 0) > 0
        parts = _slope_between(input, place, step, edge_order) if are_coordinates else _slope_uniform(input, place, step, edge_order)
        slopes.append(cat(parts, place))
    return tuple(slopes)


@composite(aliases=("trapz",), method=False, in_library=True)
def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Integral of ``y`` along ``dim`` by the trapezoidal rule.

    Args:
        y: values, ``(*, n, *)``.
        x: their places, broadcastable or ``(n,)``; ``dx`` apart when None.
        dx: distance of neighbours, 1 when None.
        dim: dimension.
    Returns:
        ``y``'s shape without ``dim``.
    Raises:
        RuntimeError: another number of ``x`` than of ``y``.
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` times half the distance of each element's two neighbours.
    Source: torch.trapezoid.
    Example:
        >>> torch.trapezoid(torch.tensor([0.0, 2.0, 4.0])), torch.trapezoid(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 4.0]))
        (tensor(4.), tensor(3.))
    """
    dim = wrap_dim(dim, y.ndim)
    if not y.shape[dim]:
        return y.sum(dim)
    if x is None:  # the ends count half
        whole = y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5
        return whole if dx is None else whole * dx
    return _areas(y, x, dx, dim).sum(dim)


@composite(method=False, in_library=True)
def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Running integral of ``y`` along ``dim`` by the trapezoidal rule; one value fewer than ``y`` has.

    Args:
        y, x, dx, dim: as for ``torch.trapezoid``.
    Returns:
        ``(*, n - 1, *)``; its last element is the whole integral.
    Raises:
        RuntimeError: another number of ``x`` than of ``y``.
        IndexError: ``dim`` out of range.
    Gradient: that of the running sum, through the trapezoids' areas.
    Source: torch.cumulative_trapezoid.
    Example:
        >>> torch.cumulative_trapezoid(torch.tensor([0.0, 2.0, 4.0]))
        tensor([1., 4.])
    """
    dim = wrap_dim(dim, y.ndim)
    return _areas(y, x, dx, dim).cumsum(dim)
