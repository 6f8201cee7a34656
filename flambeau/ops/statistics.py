"""Medians, modes, quantiles, histograms, covariance."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.arrays.copies import limits
from ..core.arrays.kinds import kind_of, missing_values, perhaps, surely
from ..core.calls.annotations import Tensor
from ..core.calls.out import EXACT
from ..core.calls.registry import composite, op
from ..core.calls.return_types import named_result
from ..core.layout import row_major
from ..core.shape import index_of, wrap_dim
from ..core.state import computed
from ..core.tensor import Tensor as TensorType, wrap
from .arithmetic import reject
from .extrema import over_all, require_elements, taken_along, to_place
from .sorting import order_along, place_of_rank, positions, selecting, without_derivative

_I8 = np.dtype(np.int64)


# -- median, mode ---------------------------------------------------------------------------------------------------------------
def _middle(array: np.ndarray, dim: int, ignore_nan: bool) -> np.ndarray:
    """Index along ``dim`` (kept, size 1) of the lower median; of the first NaN where there is one that counts."""
    n = array.shape[dim]
    missing = np.isnan(array) if array.dtype.kind in "fV" else None
    if missing is None or not missing.any():
        return place_of_rank(array, (n - 1) // 2, dim)
    if ignore_nan:
        rank = np.maximum((n - missing.sum(dim, keepdims=True) - 1) // 2, 0)
        return np.take_along_axis(order_along(array, dim, False), rank, dim)
    middle = place_of_rank(array, (n - 1) // 2, dim)
    return np.where(missing.any(dim, keepdims=True), missing.argmax(dim, keepdims=True), middle)


def _median_along(array: np.ndarray, dim: int, keepdim: bool, ignore_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    if not array.ndim:
        return array.copy(), np.zeros((), _I8)
    kept = _middle(array, dim, ignore_nan)
    indices: Any = row_major(kept if keepdim else np.squeeze(kept, dim)).astype(_I8, copy=False)
    return taken_along(array, indices, dim, keepdim), indices


def _require_no_bool(name: str, kernel: str, array: Any) -> None:
    if array.dtype.kind == "b" and name != "mode":
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")


def _canonicalize_along(name: str) -> Any:
    def canonicalize(input: Any, dim: int, keepdim: bool) -> tuple[Any, ...]:
        array = input._array
        dim = wrap_dim(index_of(dim), array.ndim)
        require_elements(name, array, dim)
        if array.size or name != "mode":
            reject(name, array, "c")
        _require_no_bool(name, f"{name}_out", array)
        return (input, dim, keepdim)

    return canonicalize


def _median_kernel(name: str, ignore_nan: bool) -> Any:
    def kernel(input: Tensor, dim: int, keepdim: bool) -> Any:
        return _median_along(input, dim, keepdim, ignore_nan)

    kernel.__doc__, kernel.__name__ = f"Kernel of ``{name}`` along a dimension.", name
    return op(
        name=f"_{name}_along",
        **selecting,
        canonicalize=_canonicalize_along(name),
        node_name=f"{name.title()}Backward1",
        out=True,
        grad={"input": to_place},
        aten=f"{name}.dim",
    )(kernel)


_median, _nanmedian = _median_kernel("median", False), _median_kernel("nanmedian", True)


def _canonicalize_all(name: str) -> Any:
    def canonicalize(input: Any) -> tuple[Any, ...]:
        if input._array.size:
            reject(name, input._array, "c")
            _require_no_bool(name, "median_cpu", input._array)
        return (input,)

    return canonicalize


def _median_of_all_kernel(name: str, ignore_nan: bool) -> Any:
    def kernel(input: Tensor) -> Tensor:
        if not input.size:
            return np.full_like(input, np.iinfo(input.dtype).min if input.dtype.kind in "iu" else math.nan, shape=())
        return _median_along(input.reshape(-1), 0, False, ignore_nan)[0]

    kernel.__doc__, kernel.__name__ = f"Kernel of ``{name}`` over all elements.", name
    return over_all(name, kernel, _canonicalize_all(name), f"{name.title()}Backward0")


_median_of_all, _nanmedian_of_all = _median_of_all_kernel("median", False), _median_of_all_kernel("nanmedian", True)


def _median_of(name: str, along: Any, of_all: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is not None:
        return named_result(name, ("values", "indices"))(along(input, dim, keepdim))
    return of_all(input)


@composite(out=EXACT)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Middle of the sorted elements, of all or along ``dim``; the lower one of two. NaN where there is one.

    Args:
        input: any shape, real.
        dim: dimension; all elements when None.
        keepdim: keep it with size 1.
    Returns:
        0-d, ``input``'s dtype; with ``dim`` a named tuple (values, indices) of ``input``'s shape without it.
    Raises:
        IndexError: ``dim`` out of range, or an empty one.
        NotImplementedError: bool or complex input.
    Gradient: of all: in equal parts to the elements that have the value; along ``dim``: to the one at the index.
    Source: torch.median.
    Example:
        >>> torch.median(torch.tensor([3, 1, 2, 9]))
        tensor(2)
        >>> torch.median(torch.tensor([[1.0, 9.0, 5.0], [7.0, torch.nan, 0.0]]), dim=1).values
        tensor([5., nan])
    """
    return _median_of("median", _median, _median_of_all, input, dim, keepdim)


@composite(out=EXACT)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Middle of the sorted elements that are no NaN, of all or along ``dim``; NaN where there is nothing else.

    Args:
        input: any shape, real.
        dim: dimension; all elements when None.
        keepdim: keep it with size 1.
    Returns:
        0-d, ``input``'s dtype; with ``dim`` a named tuple (values, indices) of ``input``'s shape without it.
    Raises:
        IndexError: ``dim`` out of range, or an empty one.
        NotImplementedError: bool or complex input.
    Gradient: as of ``torch.median``.
    Source: torch.nanmedian.
    Example:
        >>> torch.nanmedian(torch.tensor([1.0, 9.0, 5.0, torch.nan]))
        tensor(5.)
    """
    return _median_of("nanmedian", _nanmedian, _nanmedian_of_all, input, dim, keepdim)


def _one_along(new: Any, input: Any, dim: int, keepdim: bool) -> Any:
    """An element along a dimension, and where it is."""
    kept = (1,) if keepdim and input.ndim else ()
    shape = (*input.shape[:dim], *kept, *input.shape[dim + 1 :]) if input.ndim else ()
    return new(shape, input.dtype), new(shape, np.int64)


@op(
    **selecting,
    out=EXACT,
    canonicalize=_canonicalize_along("mode"),
    grad={"input": to_place},
    meta=_one_along,
)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Most frequent element along ``dim``, the smallest of several, and the last place where it is.

    Args:
        input: any shape, real.
        dim: dimension.
        keepdim: keep it with size 1.
    Returns:
        A named tuple (values, indices) of ``input``'s shape without ``dim``.
    Raises:
        IndexError: ``dim`` out of range, or an empty one.
        NotImplementedError: a complex tensor.
    Gradient: ``grad`` at the element's place.
    Source: torch.mode.
    Example:
        >>> values, indices = torch.mode(torch.tensor([[3, 1, 3], [2, 5, 5]]))
        >>> values, indices
        (tensor([3, 5]), tensor([2, 2]))
    """
    if not input.ndim:
        return input.copy(), np.zeros((), _I8)
    rows = np.moveaxis(input, dim, -1)
    order = order_along(rows, rows.ndim - 1, False)
    ranked = np.take_along_axis(rows, order, -1)
    n = rows.shape[-1]
    starts = np.ones(ranked.shape, np.bool_)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    begin = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=-1)
    run = np.arange(n) - begin  # how many equal elements stand before
    last = run.argmax(-1)[..., None]
    indices = np.take_along_axis(order, last, -1)
    indices = np.moveaxis(indices, -1, dim) if keepdim else indices[..., 0]
    indices = row_major(indices).astype(_I8, copy=False)
    return taken_along(input, indices, dim, keepdim), indices


# -- quantiles ------------------------------------------------------------------------------------------------------------------
_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, ignore_nan: bool) -> Any:
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}")
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if isinstance(q, TensorType):
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
        if q.dtype is not input.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    else:
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = input.new_full((), q)
    if not surely(((q >= 0) & (q <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    shape = [1] * input.ndim
    if dim is None:
        rows = input.reshape(-1)
    else:
        dim = wrap_dim(dim, input.ndim)
        rows = input.unsqueeze(-1).transpose(dim, -1).squeeze(dim) if input.ndim else input.reshape(1)
        shape = list(input.shape)
        if shape:
            shape[dim] = 1
    result = _ranked_values(rows, q.reshape(-1), interpolation, ignore_nan)  # (*, number of q)
    result = result.movedim(-1, 0)
    inner = tuple(shape) if keepdim else tuple(result.shape[1:])
    return result.reshape((*((q.shape[0],) if q.ndim else ()), *inner))


def _ranked_values(rows: Any, q: Any, interpolation: str, ignore_nan: bool) -> Any:
    """The values at the ranks that ``q`` names along the last dimension, ``(*, n) -> (*, number of q)``."""
    ranked = rows.sort(-1)[0]
    missing = rows.isnan()
    last = rows.shape[-1] - 1
    if ignore_nan:
        ranks = q * (last - missing.sum(-1, keepdim=True)).to(q.dtype)
        ranks = ranks.masked_fill(ranks < 0, 0)
    else:
        # a row with NaN has its NaN last: its rank is the last place
        ranks = (q * last).expand((*rows.shape[:-1], q.shape[0]))
        ranks = ranks.masked_fill(missing.any(-1, keepdim=True), last)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.detach().floor()
    values = ranked.gather(-1, below.to(dtypes.int64))
    if interpolation in ("linear", "midpoint"):
        weights = ranks - below if interpolation == "linear" else 0.5 * (ranks > below).to(q.dtype)
        above = ranked.gather(-1, ranks.detach().ceil().to(dtypes.int64))
        values = values.lerp(above, weights)
    return values


@composite(out=EXACT, autocast={"cpu": "float32"})
def quantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """Values below which the fractions ``q`` of the elements lie. NaN where there is one.

    Args:
        input: any shape, float32 or float64.
        q: a number, or a 0-d or 1-d tensor, in [0, 1].
        dim: dimension; all elements when None.
        keepdim: keep it with size 1.
        interpolation: between the two nearest elements: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'.
    Returns:
        ``input``'s shape without ``dim``, behind the dimension of a 1-d ``q``; ``input``'s dtype.
    Raises:
        RuntimeError: an empty input, another dtype, or ``q`` out of range.
        IndexError: ``dim`` out of range.
    Source: torch.quantile.
    Example:
        >>> x = torch.tensor([0.0, 1.0, 3.0])
        >>> torch.quantile(x, torch.tensor([0.25, 0.5]))
        tensor([0.5000, 1.0000])
        >>> torch.quantile(x, 0.75, interpolation="higher")
        tensor(3.)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@composite(out=EXACT, autocast={"cpu": "float32"})
def nanquantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """Values below which the fractions ``q`` of the elements that are no NaN lie.

    Args:
        input, q, dim, keepdim, interpolation: as for ``torch.quantile``.
    Returns:
        ``input``'s shape without ``dim``, behind the dimension of a 1-d ``q``; ``input``'s dtype.
    Raises:
        RuntimeError: an empty input, another dtype, or ``q`` out of range.
        IndexError: ``dim`` out of range.
    Source: torch.nanquantile.
    Example:
        >>> torch.nanquantile(torch.tensor([0.0, 1.0, 3.0, torch.nan]), 0.5)
        tensor(1.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# -- histograms -----------------------------------------------------------------------------------------------------------------
@op(out=EXACT, promotion="same", grad=None, meta=lambda new, input, bins, *rest: new((bins,), input.dtype))
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Histogram with equal bins.

    Args:
        input: any shape, floating point (integers count as such).
        bins: how many.
        min, max: range; that of the data when both are equal. Elements outside and NaN are not counted; ``max`` is in the last bin.
    Returns:
        ``(bins,)``, ``input``'s dtype.
    Raises:
        RuntimeError: no bins, or a range that is not finite or upside down.
    Source: torch.histc.
    Example:
        >>> torch.histc(torch.tensor([0.5, 1.5, 1.7, 4.0, 9.0]), bins=4, min=0, max=4)
        tensor([1., 2., 0., 1.])
    """
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    low, high = float(min), float(max)
    if low == high and input.size:
        low, high = float(input.min()), float(input.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("max must be larger than min")
    flat = input.reshape(-1)
    return _counts_in_bins(flat, bins, low, high, None).astype(input.dtype)


@native.part("_equal_bins")
def _counts_in_bins(values: np.ndarray, bins: int, low: float, high: float, edges: np.ndarray | None) -> np.ndarray:
    """Number of ``values``, 1-d, in each of ``bins`` equal bins, which are those between ``edges`` if these are given."""
    inside = values[(values >= low) & (values <= high)]
    if edges is not None:
        return np.bincount(np.minimum(positions(edges, inside, "right") - 1, bins - 1), minlength=bins)
    place = ((inside.astype(np.float64) - low) / (high - low) * bins).astype(_I8)
    return np.bincount(np.minimum(place, bins - 1), minlength=bins)


@composite()
def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Any:
    """Number of times that each value occurs in a tensor of non-negative integers.

    Args:
        input: 1-d, integers, not negative.
        weights: ``input``'s shape, what each element counts; 1 when None.
        minlength: least size of the result.
    Returns:
        1-d, one place for each value up to the largest; int64, or the dtype of the weights (float64 unless they are float32).
    Raises:
        RuntimeError: negative values, another number of dimensions, or weights of another shape.
    Source: torch.bincount.
    Example:
        >>> torch.bincount(torch.tensor([0, 3, 3]))
        tensor([1, 0, 0, 2])
        >>> torch.bincount(torch.tensor([0, 3, 3]), weights=torch.tensor([0.5, 1.0, 10.0]))
        tensor([ 0.5000,  0.0000,  0.0000, 11.0000])
    """
    array = input._array
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is None:
        return wrap(computed(lambda array: _counts(*_places_to_count(array, minlength)), array, varies=True))
    if tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    places, size = _places_to_count(array, minlength)
    counts = _weighted_counts(places, weights._array, size)
    result = wrap(counts.astype(np.float32 if weights.dtype is dtypes.float32 else np.float64))
    return without_derivative(result, weights, "aten::bincount") if weights.requires_grad else result


def _places_to_count(array: np.ndarray, minlength: int) -> tuple[np.ndarray, int]:
    """The integers as places, and the number of places."""
    if not kind_of(array).has_values:
        missing_values("bincount")
    low, high = limits(array) if array.size else (0, -1)
    if low < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    return array.astype(_I8, copy=False), max(int(high) + 1, minlength)


@native.part("_counts")
def _counts(places: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(places, minlength=size).astype(_I8, copy=False)


@native.part("_weighted_counts")
def _weighted_counts(places: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Sums in float64 of the weights of each place below ``size``."""
    return np.bincount(places, weights.astype(np.float64), size)


def _edges_of(input: Any, bins: Any, range: Any) -> Any:
    """Bin edges of ``histogram``."""
    from .ranges import linspace

    if isinstance(bins, TensorType):
        return bins.clone()
    if range is None:
        low, high = (float(input.min()), float(input.max())) if input.numel() else (0.0, 1.0)
    else:
        low, high = range
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)


def _counted(name: str, input: Any, counts: np.ndarray, edges: Any) -> Any:
    """The result of ``name``, which has no derivative."""
    hist = wrap(counts)
    if input.requires_grad:
        hist = without_derivative(hist, input, f"aten::{'histogram' if name == 'histogram' else '_histogramdd_from_bin_cts'}")
    return named_result(name, ("hist", "bin_edges"))((hist, edges))


@composite(out=EXACT)
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Histogram with given bins.

    Args:
        input: any shape, floating point.
        bins: number of equal bins, or a tensor of increasing edges.
        range: lowest and highest edge of equal bins; those of the data when None.
        weight: ``input``'s shape, what each element counts; 1 when None.
        density: divide by the sum and the width of the bins.
    Returns:
        A named tuple (hist, bin_edges) of ``(bins,)`` and ``(bins + 1,)``, ``input``'s dtype.
    Raises:
        RuntimeError: integers, or weights of another shape.
    Source: torch.histogram.
    Example:
        >>> torch.histogram(torch.tensor([0.5, 1.5, 1.7]), torch.tensor([0.0, 1.0, 2.0])).hist
        tensor([1., 2.])
        >>> torch.histogram(torch.tensor([0.5, 1.5, 1.7]), 2, range=(0.0, 4.0)).bin_edges
        tensor([0., 2., 4.])
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"torch.histogram: input tensor must have a floating dtype, got {input.dtype}")
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise RuntimeError("torch.histogram: if weight tensor is provided it should have the same shape as the input tensor")
    if not kind_of(input._array).has_values:
        missing_values("histogram.bin_ct")
    edges = _edges_of(input, bins, range)
    weights = None if weight is None else weight._array.reshape(-1)
    flat = input._array.reshape(-1)
    if weights is None and isinstance(bins, int):
        counts = _counts_in_bins(flat, bins, edges._array[:1].item(), edges._array[-1:].item(), edges._array)
    else:
        inside = (flat >= edges._array[0]) & (flat <= edges._array[-1])
        if not inside.all():
            flat, weights = flat[inside], None if weights is None else weights[inside]
        place = np.minimum(positions(edges._array, flat, "right") - 1, len(edges._array) - 2)
        counts = np.bincount(place, weights, len(edges._array) - 1)
    counts = counts.astype(input._array.dtype)
    if density:
        counts = counts / counts.sum() / np.diff(edges._array)
    return _counted("histogram", input, counts, edges)


def _all_edges(input: Any, bins: Any, range: Any) -> list[Any]:
    """Bin edges of ``histogramdd``, one tensor for each dimension."""
    count = input.shape[-1]
    given = [bins] * count if isinstance(bins, int) else list(bins)
    if given and isinstance(given[0], TensorType):
        if len(given) != count:
            raise RuntimeError(
                f"torch.histogramdd: expected {count} sequences of bin edges for a {count}-dimensional histogram but got {len(given)}"
            )
        return given
    if len(given) != count:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"torch.histogramdd: for a {count}-dimensional histogram range should have {2 * count} elements, but got {len(range)}"
        )
    edges = []
    for k, number in enumerate(given):
        if number <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {number} for dimension {k}")
        limits = None if range is None else (range[2 * k], range[2 * k + 1])
        if limits is not None and limits[0] > limits[1]:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {limits[0]:g} max {limits[1]:g} for dimension {k}"
            )
        edges.append(_edges_of(input[..., k], number, limits))
    return edges


@composite(method=False)
def histogramdd(input: Tensor, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Histogram of points in several dimensions.

    Args:
        input: ``(*, d)``, floating point: points of d coordinates.
        bins: numbers of equal bins, one for each dimension or one for all, or a list of d tensors of increasing edges.
        range: lowest and highest edge of equal bins, for one dimension after the other; those of the data when None.
        weight: ``(*)``, what each point counts; 1 when None.
        density: divide by the sum and the volume of the bins.
    Returns:
        A named tuple (hist, bin_edges): one dimension, and one tensor of edges, for each coordinate.
    Raises:
        RuntimeError: bins, a range or weights that do not fit.
        NotImplementedError: an integer dtype.
    Source: torch.histogramdd.
    Example:
        >>> points = torch.tensor([[0.5, 0.5], [1.5, 0.5], [1.6, 0.4]])
        >>> torch.histogramdd(points, [2, 1], range=[0.0, 2.0, 0.0, 1.0]).hist
        tensor([[1.],
                [2.]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{input.dtype.legacy}'")
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
            f"dimension, but got input with shape {list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    if not kind_of(input._array).has_values:
        missing_values("_histogramdd_bin_edges")
    edges = _all_edges(input.detach(), bins, range)
    points = input._array.reshape(-1, input.shape[-1])
    shape = [len(line._array) - 1 for line in edges]
    inside, place = np.ones(len(points), np.bool_), np.zeros(len(points), _I8)
    for k, line in enumerate(edges):
        values, limits = points[:, k], line._array
        inside &= (values >= limits[0]) & (values <= limits[-1])
        place = place * shape[k] + np.clip(positions(limits, values, "right") - 1, 0, shape[k] - 1)
    weights = None if weight is None else weight._array.reshape(-1)[inside]
    counts = np.bincount(place[inside], weights, math.prod(shape)).astype(input._array.dtype).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for k, line in enumerate(edges):
            counts = counts / np.diff(line._array).reshape(-1, *(1,) * (len(shape) - 1 - k))
    return _counted("histogramdd", input, counts, tuple(edges))


# -- covariance -----------------------------------------------------------------------------------------------------------------
def _checked_weights(name: str, weights: Any, count: int, integers: bool) -> None:
    if weights is None:
        return
    if weights.ndim > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions")
    if integers and weights.dtype.category != dtypes.INTEGER:
        raise RuntimeError(f"cov(): expected {name} to have integral dtype but got {name} with {weights.dtype.legacy} dtype")
    if not integers and weights.dtype.category < dtypes.FLOATING:
        raise RuntimeError(f"cov(): expected {name} to have floating point dtype but got {name} with {weights.dtype.legacy} dtype")
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got {weights.numel()} != {count}"
        )
    if count and perhaps((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composite(in_library=True)
def cov(input: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariance matrix of the rows of ``input``, whose columns are observations.

    Args:
        input: ``(variables, observations)``, or 1-d for one variable.
        correction: subtracted from the number of observations.
        fweights: how often each observation counts, integers.
        aweights: how much each observation counts.
    Returns:
        ``(variables, variables)``; 0-d for one variable given as 1-d.
    Raises:
        RuntimeError: more than two dimensions, bool input, or weights that do not fit.
    Source: torch.cov.
    Example:
        >>> x = torch.tensor([[1.0, 2.0, 3.0], [30.0, 20.0, 10.0]])
        >>> torch.cov(x)
        tensor([[  1., -10.],
                [-10., 100.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    if input.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    count = rows.shape[1]
    _checked_weights("fweights", fweights, count, True)
    _checked_weights("aweights", aweights, count, False)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        mean = rows.sum(1, keepdim=True) / count if count else rows.sum(1, keepdim=True) * math.nan
        freedom: Any = count - correction
    else:
        total = weights.sum()
        mean = (rows * weights).sum(1, keepdim=True) / total
        if aweights is None or correction == 0:
            freedom = total - correction
        else:
            freedom = total - correction * (weights * aweights).sum() / total
    _warn_freedom(freedom)
    rest = rows - mean
    weighted = rest if weights is None else rest * weights
    weighted = weighted.conj() if weighted.is_complex() else weighted
    result = rest.matmul(weighted.to(rest.dtype).t()) / (max(freedom, 0) if not isinstance(freedom, TensorType) else freedom.clamp_min(0))
    return result.squeeze()


def _warn_freedom(freedom: Any) -> None:
    if perhaps(freedom <= 0) if isinstance(freedom, TensorType) else freedom <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
            stacklevel=4,
        )


@composite(in_library=True)
def corrcoef(input: Tensor) -> Any:
    """Matrix of correlation coefficients of the rows of ``input``, whose columns are observations.

    Args:
        input: ``(variables, observations)``, or 1-d for one variable.
    Returns:
        ``(variables, variables)``, clipped to [-1, 1]; 0-d for one variable given as 1-d.
    Raises:
        RuntimeError: more than two dimensions.
    Source: torch.corrcoef.
    Example:
        >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [30.0, 20.0, 10.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    result = cov(input)
    if not result.ndim:
        return result / result
    spread = result.diagonal()
    spread = (spread.real if result.is_complex() else spread).sqrt()
    result = result / spread.unsqueeze(1) / spread.unsqueeze(0)
    if result.is_complex():
        from .views import view_as_complex, view_as_real

        return view_as_complex(view_as_real(result).clamp(-1, 1))
    return result.clamp(-1, 1)
