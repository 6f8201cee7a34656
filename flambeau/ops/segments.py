"""Reductions over stretches of a dimension that follow each other."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite
from ..core.tensor import wrap

# Word -> scatter_reduce's word, and the result of no elements.
_REDUCTIONS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -math.inf), "min": ("amin", math.inf)}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


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
        offsets: ``(*batch, k + 1)``, integers: where they begin, and where the last one ends; instead of ``lengths``.
        axis: the last dimension of ``lengths``.
        unsafe: do not check that the lengths are not negative and add up to n.
        initial: value to start with. Without, empty segments give 0, NaN, 1, or minus or plus infinity.
    Returns:
        ``(*batch, k, *)``.
    Raises:
        RuntimeError: neither lengths nor offsets, lengths that do not fit, or another word. NotImplementedError: an integer dtype.
    Gradient: equal elements share that of the largest or smallest.
    Source: torch.segment_reduce.
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
    rows = given.detach().long().reshape(-1, given.shape[-1]).tolist()
    if lengths is not None:
        counts = rows
        starts = [list(itertools.accumulate(row, initial=0)) for row in rows]
        if not unsafe:
            _require(all(count >= 0 for row in rows for count in row), "lengths contains negative value!")
            _require(
                all(ends[-1] == data.shape[axis] for ends in starts),
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
            )
    else:
        counts, starts = [[end - start for start, end in itertools.pairwise(row)] for row in rows], rows
    word, nothing = _REDUCTIONS[reduce]
    segments = given.shape[-1] - (lengths is None)
    # Which segment an element belongs to; one behind the last where it belongs to none.
    places = np.full((len(rows), data.shape[axis]), segments)
    for line, begins, sizes in zip(places, starts, counts, strict=True):
        for k, (start, count) in enumerate(zip(begins, sizes, strict=False)):
            line[start : start + count] = k
    trailing = (1,) * (data.ndim - axis - 1)
    index = wrap(places).to(given.device).reshape(*data.shape[: axis + 1], *trailing).expand(data.shape)
    shape = (*data.shape[:axis], segments + 1, *data.shape[axis + 1 :])
    result = data.new_full(shape, nothing if initial is None else initial).scatter_reduce(axis, index, data, word)
    result = result.narrow(axis, 0, segments)
    if reduce == "mean":
        divisors = data.new_tensor([[count if initial is None else max(count, 1) for count in row] for row in counts])
        result = result / divisors.reshape(*result.shape[: axis + 1], *trailing)
    return result.contiguous()
