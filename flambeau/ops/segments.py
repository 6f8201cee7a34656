"""Reductions over stretches of a dimension that follow each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, op
from ..core.tensor import wrap

# Word -> scatter_reduce's word, and the result of no elements.
_REDUCTIONS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -math.inf), "min": ("amin", math.inf)}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


@op(name="_segment_sums", grad={"data": lambda grad, bounds, axis, data_shape: spread(grad, bounds, axis, data_shape)}, forward="linear")
def segment_sums(data: Tensor, bounds: Any, axis: int) -> Tensor:
    """Sums of neighbours along ``axis``: segment ``k`` of row ``b`` is from ``bounds[b, k]`` to ``bounds[b, k + 1]``."""
    lead, trailing = data.shape[:axis], data.shape[axis + 1 :]
    result = np.zeros((len(bounds), bounds.shape[1] - 1, *trailing), data.dtype)
    for line, ends, sums in zip(data.reshape(-1, data.shape[axis], *trailing), bounds, result, strict=True):
        filled = ends[1:] > ends[:-1]
        if filled.any():
            sums[filled] = np.add.reduceat(line[: ends[-1]], ends[:-1][filled], axis=0)
    return result.reshape(*lead, bounds.shape[1] - 1, *trailing)


@op(name="_segment_spread", grad={"sums": lambda grad, bounds, axis: segment_sums(grad, bounds, axis)}, forward="linear")
def spread(sums: Tensor, bounds: Any, axis: int, shape: Any) -> Tensor:
    """The adjoint of ``_segment_sums``: each segment's value at all of its elements."""
    trailing = shape[axis + 1 :]
    result = np.zeros((len(bounds), shape[axis], *trailing), sums.dtype)
    for line, ends, values in zip(result, bounds, sums.reshape(len(bounds), -1, *trailing), strict=True):
        line[ends[0] : ends[-1]] = np.repeat(values, np.diff(ends), axis=0)
    return result.reshape(shape)


@composite(method=False)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Each segment of ``data`` along ``axis`` reduced to one element.

    Args:
        data: ``(*batch, n, *)``, floating point.
        reduce: 'sum', 'mean', 'prod', 'max' or 'min'.
        lengths: ``(*batch, k)``, integers: the segments' lengths, one after the other.
        indices: must be None.
        offsets: ``(*batch, k + 1)``, integers: where they begin, and where the last one ends; instead of ``lengths``.
        axis: the last dimension of ``lengths``.
        unsafe: do not check that the lengths are not negative and add up to n.
        initial: value to start with. Without, empty segments give 0, NaN, 1, or minus or plus infinity.
    Returns:
        ``(*batch, k, *)``, ``data``'s dtype.
    Raises:
        RuntimeError: neither lengths nor offsets, lengths that do not fit, or another word.
        NotImplementedError: an integer dtype.
    Gradient: equal elements share that of the largest or smallest.
    Source: torch.segment_reduce.
    Example:
        >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0, 4.0]), "sum", lengths=torch.tensor([1, 3]))
        tensor([1., 9.])
    """
    _require(reduce in _REDUCTIONS, f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    _require(indices is None, "segment_reduce(): indices based reduction is not supported yet.")
    given = lengths if lengths is not None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{data.dtype.legacy}'")
    axis += data.ndim if axis < 0 else 0
    name = "lengths" if lengths is not None else "offsets"
    _require(axis == given.ndim - 1, f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if not kind_of(given._array).has_values:
        segments = given.shape[-1] - (lengths is None)
        return data.new_zeros([*data.shape[:axis], segments, *data.shape[axis + 1 :]]) + data.sum(axis, keepdim=True)
    rows = np.array(given.detach().long().reshape(-1, given.shape[-1]).tolist(), np.int64).reshape(-1, given.shape[-1])
    size = data.shape[axis]
    if lengths is not None:
        counts, bounds = rows, np.zeros((len(rows), rows.shape[1] + 1), np.int64)
        np.cumsum(rows, 1, out=bounds[:, 1:])
        if not unsafe:
            _require(bool((counts >= 0).all()), "lengths contains negative value!")
            _require(
                bool((bounds[:, -1] == size).all()),
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
            )
    else:
        counts, bounds = np.diff(rows), rows
    word, nothing = _REDUCTIONS[reduce]
    in_order = bounds.shape[1] > 0 and bool((counts >= 0).all() and (bounds[:, 0] >= 0).all() and (bounds[:, -1] <= size).all())
    if word == "sum" and in_order and data.numel() and data._array.__class__ is np.ndarray:
        result = segment_sums(data, bounds, axis)
        result = result if initial is None else result + initial
    else:
        result = _scattered(data, word, nothing if initial is None else initial, bounds, counts, axis)
    if reduce == "mean":
        divisors = data.new_tensor((counts if initial is None else np.maximum(counts, 1)).tolist())
        result = result / divisors.reshape(*result.shape[: axis + 1], *(1,) * (data.ndim - axis - 1))
    return result.contiguous()


def _scattered(data: Any, word: str, start: float, bounds: np.ndarray, counts: np.ndarray, axis: int) -> Any:
    """Segments reduced by ``scatter_reduce``, each beginning with ``start``."""
    segments = counts.shape[1]
    # Which segment an element belongs to; one behind the last where it belongs to none.
    places = np.full((len(bounds), data.shape[axis]), segments)
    for line, begins, sizes in zip(places, bounds, counts, strict=True):
        for k, (first, count) in enumerate(zip(begins, sizes, strict=False)):
            line[first : first + count] = k
    index = wrap(places).to(data.device).reshape(*data.shape[: axis + 1], *(1,) * (data.ndim - axis - 1)).expand(data.shape)
    shape = (*data.shape[:axis], segments + 1, *data.shape[axis + 1 :])
    return data.new_full(shape, start).scatter_reduce(axis, index, data, word).narrow(axis, 0, segments)
