"""Sorting, selecting by rank, and searching in what is sorted.  NaN counts as larger than anything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.arrays import native
from ..core.arrays.copies import contiguous, limits
from ..core.arrays.kinds import kind_of, missing_values
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import cast_array
from ..core.calls.out import EXACT, EXACT_APART
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import composite, op
from ..core.layout import row_major
from ..core.shape import index_of, wrap_dim
from ..core.state import computed
from ..core.tensor import wrap
from .arithmetic import reject
from .creation import array_like
from .extrema import taken_along, to_place
from .indexing import places_of
from .scatter import scattered_sums

_I8 = np.dtype(np.int64)
_LONG = 1 << 15  # elements of a row of which a sample tells where a rank lies
_SAMPLE = 1 << 14  # elements of that sample


# Options of operations that give elements of an operand along ``dim``, and their places.
selecting = {"opmath": "native", "returns": ("values", "indices"), "forward": "selects", "batch": "along"}


# -- what they share ------------------------------------------------------------------------------------------------------------
@native.part("_order_along")
def order_along(array: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """Indices that sort ``array`` along ``dim``; equal elements keep their order in both directions."""
    if not array.ndim:
        return np.zeros((), _I8)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    if not descending:
        return array.argsort(axis=dim, kind="stable")
    # sorted from the back: the order among equals is reversed twice
    backwards = np.flip(array, dim).argsort(axis=dim, kind="stable")
    return np.flip(array.shape[dim] - 1 - backwards, dim)


def _taken(array: np.ndarray, order: np.ndarray, dim: int) -> np.ndarray:
    if not array.ndim:
        return array.copy()
    if array.__class__ is not np.ndarray:
        return np.take_along_axis(array, order, dim)
    places = [np.arange(n).reshape(-1, *[1] * (array.ndim - 1 - d)) for d, n in enumerate(array.shape)]
    places[dim] = order
    return array[tuple(places)]  # NumPy's own function for this keeps some exceptions of signal handlers to itself


def _to_places(grad: Any, result1: Any, dim: Any, input_shape: Any) -> Any:
    """The gradient of a rearrangement: ``grad`` back at the places that the elements came from."""
    if not input_shape:
        return grad
    return scattered_sums(grad, -1 if dim is None else dim, result1, input_shape)


# -- sort -----------------------------------------------------------------------------------------------------------------------
def _canonicalize_sort(input: Any, dim: Any, descending: bool, stable: Any) -> tuple[Any, ...]:
    if input.dtype.is_complex:
        raise RuntimeError("Sort currently does not support complex dtypes on CPU")
    return (input, wrap_dim(-1 if dim is None else index_of(dim), input._array.ndim), descending, stable)


def _fast_sort(a: np.ndarray, dim: Any, descending: bool, stable: Any) -> Any:
    if a.ndim == 1 and (dim == -1 or dim == 0) and len(a) != 1:
        order = a.argsort(kind="stable") if not descending else len(a) - 1 - a[::-1].argsort(kind="stable")[::-1]
        return a[order], order
    if a.ndim != 2 or descending or dim not in (-1, 1) or not a.flags.c_contiguous or 1 in a.shape:
        return None
    order = a.argsort(1, kind="stable")
    return a[np.arange(len(a))[:, None], order], order


def _fast_topk(a: np.ndarray, k: int, dim: Any, largest: bool, sorted: bool) -> Any:
    if a.ndim != 1 or dim not in (-1, 0) or not 0 < k <= len(a) or len(a) > 256:
        return None
    order = len(a) - 1 - a[::-1].argsort(kind="stable")[: -k - 1 : -1] if largest else a.argsort(kind="stable")[:k]
    return a[order], order if largest else order.copy()


@op(**selecting, promotion="same", out=EXACT, canonicalize=_canonicalize_sort, fast=_fast_sort, grad={"input": _to_places})
def sort(input: Tensor, dim: Any = -1, descending: bool = False, *, stable: bool | None = False) -> Any:
    """The elements in order along ``dim``, and where they came from.

    Args:
        input: any shape, real.
        dim: dimension; the last when None.
        descending: largest first.
        stable: equal elements keep their order; they always do here.
    Returns:
        A named tuple (values, indices) of ``input``'s shape; the indices are int64. NaN comes last, or first when descending.
    Raises:
        RuntimeError: complex input.
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` back at the elements' places.
    Source: torch.sort.
    Example:
        >>> torch.sort(torch.tensor([[3, 1, 2], [9, 7, 8]]), descending=True).values
        tensor([[3, 2, 1],
                [9, 8, 7]])
        >>> torch.sort(torch.tensor([30, 10, 20])).indices
        tensor([1, 2, 0])
    """
    order = order_along(input, dim, descending)
    values, indices = array_like(input, input.dtype), array_like(input, _I8)
    values[...], indices[...] = _taken(input, order, dim), order
    return values, indices


@composite(out=EXACT)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Indices that sort ``input`` along ``dim``.

    Args:
        input: any shape, real.
        dim, descending, stable: as for ``torch.sort``.
    Returns:
        ``input``'s shape, int64.
    Raises:
        RuntimeError: complex input.
        IndexError: ``dim`` out of range.
    Source: torch.argsort.
    Example:
        >>> torch.argsort(torch.tensor([30, 10, 20]))
        tensor([1, 2, 0])
    """
    return sort(input.detach(), dim, descending, stable=stable)[1]


@composite(out=EXACT)
def msort(input: Tensor) -> Any:
    """``input`` sorted along its first dimension: each column by itself.

    Args:
        input: any shape, real.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: complex input.
    Source: torch.msort.
    Example:
        >>> torch.msort(torch.tensor([[3, 1], [2, 5]]))
        tensor([[2, 1],
                [3, 5]])
    """
    return sort(input, 0)[0]


# -- by rank --------------------------------------------------------------------------------------------------------------------
def _canonicalize_topk(input: Any, k: Any, dim: Any, largest: bool, sorted: bool) -> tuple[Any, ...]:
    reject("topk", input._array, "c")
    dim = wrap_dim(-1 if dim is None else index_of(dim), input._array.ndim)
    k = index_of(k, "k")
    size = input._array.shape[dim] if input._array.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError("selected index k out of range")
    return (input, k, dim, largest, sorted)


def _bounds(row: np.ndarray, rank: int) -> tuple[Any, Any] | None:
    """Likely bounds of the element with ``rank`` others before it, by a sample of the row; None if the sample gives none."""
    sample = np.sort(row[:: max(row.size // _SAMPLE, 1)])
    place = rank * sample.size // row.size
    margin = 4 * math.isqrt(min(place, sample.size - place)) + 8  # eight standard deviations, or more
    low, high = sample[max(place - margin, 0)], sample[min(place + margin, sample.size - 1)]
    return None if high != high or low == high else (low, high)


def _leading_of_row(row: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """``_leading`` of one long row: what lies beyond a bound, a few more than are wanted, is sorted; None where the bound is no good."""
    bounds = _bounds(row, row.size - k if largest else k - 1)
    if bounds is None:
        return None
    chosen = (~(row < bounds[0]) if largest else row <= bounds[1]).nonzero()[0]
    if not k <= chosen.size <= row.size // 4:
        return None
    return chosen[order_along(row[chosen], 0, largest)[:k]]


def _leading(array: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    """Indices of the first k along ``dim`` in descending or ascending order."""
    n = array.shape[dim]
    if n < 256 or k > n // 8 or k == 0 or (n < _LONG and native.runs(order_along, array, dim, largest)):
        return order_along(array, dim, largest).take(np.arange(k), dim)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    if dim % array.ndim != array.ndim - 1:  # a column at a time costs a copy of each
        return np.moveaxis(_leading(contiguous(np.moveaxis(array, dim, -1)), k, -1, largest), -1, dim)
    chosen = _leading_of_row(array.reshape(-1), k, largest) if n >= _LONG and array.size == n else None
    if chosen is not None:
        return chosen.reshape(*array.shape[:-1], k)
    bound = np.partition(array, n - k if largest else k - 1, -1)[..., n - k if largest else k - 1, None]
    equal, better = array == bound, array > bound if largest else array < bound
    if array.dtype.kind == "f":
        missing, is_missing = np.isnan(array), np.isnan(bound)
        equal |= missing & is_missing
        better |= missing & ~is_missing if largest else ~missing & is_missing
    wanted = k - better.sum(-1, keepdims=True)
    if (equal.sum(-1, keepdims=True) > wanted).any():
        equal &= equal.cumsum(-1) <= wanted
    chosen = (better | equal).nonzero()[-1].reshape(*array.shape[:-1], k)
    inner = order_along(np.take_along_axis(array, chosen, -1), array.ndim - 1, largest)
    return np.take_along_axis(chosen, inner, -1)


def _first_few(new: Any, input: Any, k: int, dim: int, *rest: Any) -> Any:
    shape = tuple(k if d == dim % input.ndim else size for d, size in enumerate(input.shape)) if input.ndim else () if k else (0,)
    return new(shape, input.dtype), new(shape, np.int64)


@op(
    **selecting,
    promotion="same",
    out=EXACT,
    canonicalize=_canonicalize_topk,
    fast=_fast_topk,
    work="32 * input.size",
    grad={"input": _to_places},
    meta=_first_few,
)
def topk(input: Tensor, k: int, dim: Any = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along ``dim``, and where they are.

    Args:
        input: any shape, real.
        k: how many.
        dim: dimension; the last when None.
        largest: the largest, else the smallest.
        sorted: in order; they always are here.
    Returns:
        A named tuple (values, indices) of ``input``'s shape with size ``k`` along ``dim``; of equal elements the first.
    Raises:
        RuntimeError: ``k`` out of range.
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` at the elements' places, 0 elsewhere.
    Source: torch.topk.
    Example:
        >>> values, indices = torch.topk(torch.tensor([3, 9, 1, 7]), 2)
        >>> values, indices
        (tensor([9, 7]), tensor([1, 3]))
    """
    if not input.ndim:
        return (input.copy(), np.zeros((), _I8)) if k else (np.empty(0, input.dtype), np.empty(0, _I8))
    order = row_major(_leading(input, k, dim, largest))
    return row_major(_taken(input, order, dim)), order


def _canonicalize_kth(input: Any, k: Any, dim: int, keepdim: bool) -> tuple[Any, ...]:
    reject("kthvalue", input._array, "c")
    dim = wrap_dim(-1 if dim is None else index_of(dim), input._array.ndim)
    size = input._array.shape[dim] if input._array.ndim else 1
    if size == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(dim))
    return (input, index_of(k, "k"), dim, keepdim)


def place_of_rank(array: np.ndarray, rank: int, dim: int) -> np.ndarray:
    """Index along ``dim`` (kept, size 1) of the element with ``rank`` others before it in ascending order; of equal elements the first."""
    rows = np.moveaxis(array, dim, -1)
    rows = contiguous(rows.astype(np.float32) if rows.dtype.kind == "V" else rows)
    n = rows.shape[-1]
    if n >= _LONG:
        places = np.stack([_place_in_row(row, rank) for row in rows.reshape(-1, n)])
        return np.moveaxis(places.reshape(*rows.shape[:-1], 1), -1, dim)
    return np.moveaxis(_first_equal(rows, np.partition(rows, rank, -1)[..., rank, None])[..., None], -1, dim)


def _first_equal(rows: np.ndarray, value: np.ndarray) -> np.ndarray:
    """First position of ``value`` in each row; NaN is equal to NaN."""
    found = rows == value
    if rows.dtype.kind == "f":
        found |= np.isnan(rows) & np.isnan(value)
    return found.argmax(-1)


def _place_in_row(row: np.ndarray, rank: int) -> np.ndarray:
    """``place_of_rank`` of one long row: of what lies between two bounds, few elements beside all others."""
    bounds = _bounds(row, rank)
    if bounds is not None:
        low, high = bounds
        rank_inside = rank - (row < low).sum()
        chosen = ((row >= low) & (row <= high)).nonzero()[0]
        if 0 <= rank_inside < chosen.size <= row.size // 4:
            inside = row[chosen]
            return chosen[_first_equal(inside, np.partition(inside, rank_inside)[rank_inside])]
    return _first_equal(row, np.partition(row, rank)[rank])


@op(
    **selecting,
    promotion="same",
    out=EXACT_APART,
    canonicalize=_canonicalize_kth,
    grad={
        "input": lambda grad, result1, dim, keepdim, input_shape: to_place(grad, result1, -1 if dim is None else dim, keepdim, input_shape)
    },
)
def kthvalue(input: Tensor, k: int, dim: Any = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along ``dim`` (k counts from 1), and where it is.

    Args:
        input: any shape, real.
        k: the rank, 1 for the smallest.
        dim: dimension; the last when None.
        keepdim: keep it with size 1.
    Returns:
        A named tuple (values, indices) of ``input``'s shape without ``dim``.
    Raises:
        RuntimeError: ``k`` out of range.
        IndexError: ``dim`` out of range, or an empty one.
    Gradient: ``grad`` at the element's place.
    Source: torch.kthvalue.
    Example:
        >>> torch.kthvalue(torch.tensor([30, 10, 20]), 2)
        torch.return_types.kthvalue(
        values=tensor(20),
        indices=tensor(2))
    """
    if not input.ndim:
        return input.copy(), np.zeros((), _I8)
    indices = place_of_rank(input, k - 1, dim)
    indices = row_major(indices if keepdim else np.squeeze(indices, dim))
    return taken_along(input, indices, dim, keepdim), indices


# -- unique ---------------------------------------------------------------------------------------------------------------------
@op(name="_without_derivative", opmath="native", out=True, grad={"source": lambda grad, operation: complain_derivative(operation)})
def without_derivative(values: Tensor, source: Tensor, operation: str) -> Tensor:
    """``values`` computed from ``source``, with an error instead of a derivative."""
    return values.copy()


def complain_derivative(operation: str) -> None:
    if "::" in operation:  # PyTorch's words where it has no formula, and where the formula says that there is none
        raise RuntimeError(f"derivative for {operation} is not implemented")
    raise NotImplementedError(f"the derivative for '{operation}' is not implemented.")


def _several(operation: str, input: Any, values: np.ndarray, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    results = [wrap(values)]
    if input.requires_grad:
        results = [without_derivative(results[0], input, operation)]
    if return_inverse:
        results.append(wrap(row_major(inverse).astype(_I8, copy=False)))
    if return_counts:
        results.append(wrap(row_major(counts).astype(_I8, copy=False)))
    return results[0] if len(results) == 1 else tuple(results)


@composite()
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The distinct elements (or slices along ``dim``), sorted.

    Args:
        input: any shape, real.
        sorted: they always are here.
        return_inverse: also where each element's value is in the result.
        return_counts: also how often each value occurs.
        dim: compare slices along it; all elements when None.
    Returns:
        1-d, or ``input``'s shape with fewer slices along ``dim``; or a tuple (values, inverse, counts) of the requested ones. Each NaN is
        distinct.
    Raises:
        IndexError: ``dim`` out of range.
        RuntimeError: another dimension than ``dim`` is empty; in the backward pass, always.
    Source: torch.unique.
    Example:
        >>> torch.unique(torch.tensor([3, 1, 3, 2]), return_inverse=True, return_counts=True)
        (tensor([1, 2, 3]), tensor([2, 0, 2, 1]), tensor([1, 1, 2]))
        >>> torch.unique(torch.tensor([[1, 2], [1, 2], [0, 5]]), dim=0)
        tensor([[0, 5],
                [1, 2]])
    """
    array = input._array
    if not kind_of(array).has_values:
        missing_values("_unique2" if dim is None else "unique_dim")
    narrow = array.dtype if array.dtype.kind == "V" else None
    array = array.astype(np.float32) if narrow is not None else array
    if dim is not None:
        dim = wrap_dim(dim, array.ndim)
        if not array.size and array.shape[dim]:
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    if dim is None or not array.size:
        values, inverse, counts = _unique_elements(array.reshape(-1), return_inverse)
        inverse = inverse.reshape(array.shape if dim is None else (array.shape[dim],)) if return_inverse else None
        values = values if dim is None else array
    else:
        rows = np.moveaxis(array, dim, 0)
        kept, inverse, counts = _unique_rows(rows.reshape(len(rows), -1))
        values = np.moveaxis(rows[kept], 0, dim)
    values = values if narrow is None else values.astype(narrow)
    return _several("_unique2" if dim is None else "unique_dim", input, values, inverse, counts, return_inverse, return_counts)


def _unique_elements(flat: np.ndarray, return_inverse: bool) -> tuple[np.ndarray, Any, np.ndarray]:
    """The distinct elements in order, which of them each element is (if wanted), and how many there are. Each NaN is distinct."""
    counted = _counted_elements(flat, return_inverse)
    if counted is not None:
        return counted
    order = order_along(flat, 0, False) if return_inverse else None
    ranked = np.sort(flat) if order is None else flat[order]
    first = _begins(ranked)
    inverse: Any = None
    if order is not None:
        inverse = np.empty(len(flat), _I8)
        inverse[order] = _numbered(first)
    starts = places_of(first)[0]
    return ranked[starts], inverse, np.diff(np.append(starts, len(flat)))


def _counted_elements(flat: np.ndarray, return_inverse: bool) -> tuple[np.ndarray, Any, np.ndarray] | None:
    """``_unique_elements`` of whole numbers from a range no longer than there are elements, which are counted; None for others."""
    if flat.__class__ is not np.ndarray or flat.dtype.kind not in "iu" or flat.size < 256:
        return None
    low, high = (int(bound) for bound in limits(flat))
    if high - low >= flat.size:
        return None
    begin = flat.dtype.type(low)
    wide = np.uint64 if flat.dtype == np.uint64 else np.int64
    places = (flat.astype(wide, copy=False) - wide(begin)).astype(np.int64, copy=False)
    counts = np.bincount(places, minlength=high - low + 1)
    kept = counts.nonzero()[0]
    inverse = _numbered(counts != 0)[places] if return_inverse else None
    return (kept.astype(wide) + wide(begin)).astype(flat.dtype), inverse, counts[kept]


@native.part("_begins")
def _begins(rows: np.ndarray) -> np.ndarray:
    """Mask of the rows, or elements, that differ from the one before."""
    first: Any = np.ones(len(rows), np.bool_)
    if len(rows) > 1:
        changed = rows[1:] != rows[:-1]
        first[1:] = changed if changed.ndim == 1 else changed.reshape(len(changed), -1).any(1)
    return first


@native.part("_numbered")
def _numbered(first: np.ndarray) -> Any:
    """The number of the run in which each place lies, of runs that begin where ``first``."""
    counted = _counted(first, 0)
    return np.subtract(counted, 1, out=counted)


@native.part("cumsum")
def _counted(array: np.ndarray, dim: int) -> np.ndarray:
    return array.cumsum(dim)


def _unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One row of each kind in lexicographic order, the kind of each row, and how many there are."""
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    ranked = rows[order]
    first = _begins(ranked)
    inverse: Any = np.empty(len(rows), _I8)
    inverse[order] = _numbered(first)
    return order[first], inverse, np.diff(np.append(places_of(first)[0], len(rows)))


@composite()
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """``input`` without elements (or slices along ``dim``) that repeat the one before.

    Args:
        input: any shape and dtype.
        return_inverse, return_counts, dim: as for ``torch.unique``.
    Returns:
        1-d, or ``input``'s shape with fewer slices along ``dim``; or a tuple of it and the requested ones, int64.
    Raises:
        IndexError: ``dim`` out of range.
        RuntimeError: another dimension than ``dim`` is empty; in the backward pass, always.
    Source: torch.unique_consecutive.
    Example:
        >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1, 1, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 1, 3]))
    """
    array = input._array
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, wrap_dim(dim, array.ndim), 0)
    if not array.size and len(rows):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    first = _begins(rows)
    starts = places_of(first)[0]
    counts = np.diff(np.append(starts, len(rows)))
    values = rows[starts]
    inverse = _numbered(first) if return_inverse else None
    if dim is None:
        inverse = inverse.reshape(array.shape) if inverse is not None else None
    else:
        values = np.moveaxis(values, 0, wrap_dim(dim, array.ndim))
    return _several("unique_consecutive", input, values, inverse, counts, return_inverse, return_counts)


# -- search ---------------------------------------------------------------------------------------------------------------------
def _side(right: bool, side: str | None, operation: str) -> str:
    if side is None:
        return "right" if right else "left"
    if side not in ("left", "right"):
        raise RuntimeError(f"{operation}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{operation}(): side and right can't be set to opposites, got side of left while right was True")
    return side


def positions(ranked: np.ndarray, values: np.ndarray, side: str, sorter: Any = None) -> np.ndarray:
    """Positions of ``values`` in ``ranked``, row by row if there are rows."""
    if ranked.dtype.kind == "V":
        ranked = ranked.astype(np.float32)
    values = values.astype(np.float32) if values.dtype.kind == "V" else values
    return _searched(ranked, values, side == "right") if sorter is None else _searched_by(sorter, ranked, values, side)


@native.part("_search", work="values.size")
def _searched(ranked: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray:
    return _searched_by(None, ranked, values, "right" if right else "left")


def _searched_by(sorter: np.ndarray | None, ranked: np.ndarray, values: np.ndarray, side: str) -> np.ndarray:
    if ranked.ndim == 1:
        return np.asarray(ranked.searchsorted(values, side, sorter))
    n = ranked.shape[-1]
    count = math.prod(ranked.shape[:-1])
    rows, wanted = np.reshape(ranked, (count, n)), np.reshape(values, (count, values.shape[-1]))
    sorters = None if sorter is None else sorter.reshape(count, n)
    found: Any = np.empty(wanted.shape, _I8)
    for i in range(len(rows)):
        found[i] = rows[i].searchsorted(wanted[i], side, None if sorters is None else sorters[i])
    return found.reshape(values.shape)


def _check_search(sorted_sequence: Any, values: Any, sorter: Any) -> None:
    where, other = sorted_sequence.device, values.device
    if where != other:
        raise RuntimeError(
            "torch.searchsorted(): boundaries and input value tensors should have same device type, but got boundaries tensor device "
            f"type {where} and input value tensor device type {other}"
        )
    if not sorted_sequence.ndim:
        raise RuntimeError("torch.searchsorted(): input value cannot be a 0-d boundary; sorted_sequence needs at least one dimension")
    if sorted_sequence.ndim > 1 and tuple(sorted_sequence.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
            f"value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and input value tensor "
            f"{list(values.shape)}"
        )
    if sorter is not None and tuple(sorter.shape) != tuple(sorted_sequence.shape):
        raise RuntimeError(
            f"torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {list(sorted_sequence.shape)} "
            f"and got sorter tensor {list(sorter.shape)}"
        )
    known = sorter is not None and sorter._array.size and kind_of(sorter._array).has_values
    if known and not 0 <= sorter._array.min() <= sorter._array.max() < sorter.shape[-1]:
        raise RuntimeError("torch.searchsorted(): sorter index out of range")


@composite(method=False, out=EXACT)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Positions where values would be inserted into a sorted sequence.

    Args:
        sorted_sequence: ``(n,)``, or ``(*, n)`` with one sequence for each row of ``input``.
        input: values; a tensor or a number.
        out_int32: int32 instead of int64.
        right: after equal elements instead of before them; the same as ``side='right'``.
        side: 'left' or 'right'.
        sorter: indices that sort the sequence, where it is not sorted itself.
    Returns:
        ``input``'s shape, int64 or int32: from 0 to n.
    Raises:
        RuntimeError: shapes that do not match, an index of ``sorter`` out of range, or ``right`` and ``side`` that differ.
    Source: torch.searchsorted.
    Example:
        >>> edges = torch.tensor([10, 20, 30])
        >>> torch.searchsorted(edges, torch.tensor([5, 20, 35])), torch.searchsorted(edges, 20, right=True)
        (tensor([0, 1, 3]), tensor(2))
    """
    from .from_data import tensor

    kind = common_dtype((sorted_sequence, input))
    values = input if hasattr(input, "_array") else tensor(input, dtype=kind, device=sorted_sequence.device)
    _check_search(sorted_sequence, values, sorter)
    chosen = _side(right, side, "torch.searchsorted")

    def search(ranked: np.ndarray, wanted: np.ndarray, order: np.ndarray | None) -> np.ndarray:
        places = positions(cast_array(ranked, kind), cast_array(wanted, kind), chosen, order)
        return places.astype(np.int32 if out_int32 else _I8)

    return wrap(computed(search, sorted_sequence._array, values._array, None if sorter is None else sorter._array))


@composite(method=False, out=EXACT)
def bucketize(input: Tensor | Number, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the interval between ``boundaries`` in which each value lies.

    Args:
        input: values; a tensor of any shape or a number.
        boundaries: 1-d, sorted.
        out_int32: int32 instead of int64.
        right: intervals that are closed on the left.
    Returns:
        ``input``'s shape, int64 or int32: 0 before the first boundary.
    Raises:
        RuntimeError: boundaries that are not 1-d.
    Source: torch.bucketize.
    Example:
        >>> torch.bucketize(torch.tensor([5, 20, 35]), torch.tensor([10, 20, 30]))
        tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
