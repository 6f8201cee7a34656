"""Rules of views: which dimension of the result a divided dimension becomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._dispatch import Choice, SpreadCall, rule
from .placement_types import Replicate, Shard

R = Replicate()


def _choices(call: SpreadCall, becomes: dict[int, int]) -> Iterator[Choice]:
    """Choices by where each dimension goes; dimensions that are not there cannot be divided. Terms stay terms."""
    for dim, other in becomes.items():
        if call.divides(0, dim) and call.operands[0].shape[dim] != 1:
            yield Choice((Shard(other),) * len(call.results), (Shard(dim),))
    if call.placement(0).is_partial():
        yield Choice((call.placement(0),) * len(call.results), (call.placement(0),))


def groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of a shape that become dimensions of another one with as many elements: the shortest runs of equal products."""
    found, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        left, right = [], []
        have = want = 1
        if i < len(before):
            left.append(i)
            have, i = before[i], i + 1
        if j < len(after) and not (left and have == 1 and after[j] != 1):
            right.append(j)
            want, j = after[j], j + 1
        while have != want:
            if have < want and i < len(before):
                left.append(i)
                have, i = have * before[i], i + 1
            elif have > want and j < len(after):
                right.append(j)
                want, j = want * after[j], j + 1
            else:
                return []
        found.append((left, right))
    return found


@rule("view", "_unsafe_view", "reshape")
def view(call: SpreadCall) -> Iterator[Choice]:
    """The first dimension of those that are merged, or the one that is split, may be divided, if parts end where rows do."""
    before, after = call.operands[0].shape, tuple(call.results[0].shape)
    becomes: dict[int, int] = {}
    if 0 not in before:
        for left, right in groups(before, after):
            left, right = [dim for dim in left if before[dim] != 1], [dim for dim in right if after[dim] != 1]
            if not left or not right:
                continue
            alone = len(left) == len(right) == 1
            if alone or (before[left[0]] % call.count == 0 and after[right[0]] % call.count == 0):
                becomes[left[0]] = right[0]
    yield from _choices(call, becomes)


@rule("transpose", "t", "permute", "transpose_", "t_")
def exchanged(call: SpreadCall) -> Iterable[Choice]:
    ndim = len(call.operands[0].shape)
    if call.name.startswith("permute"):
        order = [dim % ndim for dim in call.args[1]]
    else:
        order = list(range(ndim))
        first, second = (
            (0, 1) if call.name.startswith("t") and not call.name.startswith("tr") else (call.args[1] % ndim, call.args[2] % ndim)
        )
        if ndim > 1:
            order[first], order[second] = second, first
    return _choices(call, {dim: place for place, dim in enumerate(order)})


@rule("unsqueeze")
def unsqueeze(call: SpreadCall) -> Iterable[Choice]:
    ndim = len(call.operands[0].shape)
    place = call.args[1] % (ndim + 1)
    return _choices(call, {dim: dim + (dim >= place) for dim in range(ndim)})


@rule("squeeze")
def squeeze(call: SpreadCall) -> Iterable[Choice]:
    shape = call.operands[0].shape
    dims = call.argument(1, "dim")
    chosen = range(len(shape)) if dims is None else [dim % len(shape) for dim in (dims if isinstance(dims, (list, tuple)) else [dims])]
    gone = {dim for dim in chosen if shape[dim] == 1}
    return _choices(call, {dim: dim - sum(other < dim for other in gone) for dim in range(len(shape)) if dim not in gone})


@rule("expand")
def expand(call: SpreadCall) -> Iterable[Choice]:
    shape, more = call.operands[0].shape, len(call.results[0].shape) - len(call.operands[0].shape)
    return _choices(call, {dim: dim + more for dim in range(len(shape))})


@rule("slice", "split", "split_with_sizes", "narrow", "unfold", "constant_pad_nd", "slice_backward", "select_backward", "unsafe_split")
def kept(call: SpreadCall) -> Iterable[Choice]:
    """All dimensions but the one that is cut, which may be where all of it is taken."""
    shape, after = call.operands[0].shape, tuple(call.results[0].shape)
    if call.name == "constant_pad_nd":
        return _choices(call, {dim: dim for dim in range(len(shape)) if shape[dim] == after[dim]})
    if call.name == "select_backward":
        place = call.args[2] % len(after)
        return _choices(call, {dim: dim + (dim >= place) for dim in range(len(shape))})
    if call.name == "slice_backward":
        place = call.args[2] % len(shape)
    else:
        place = call.argument(1 if call.name in ("slice", "narrow", "unfold") else 2, "dim", 0) % len(shape)
    whole = call.name == "slice" and shape == after
    return _choices(call, {dim: dim for dim in range(len(shape)) if dim != place or whole})


@rule("select", "unbind")
def select(call: SpreadCall) -> Iterable[Choice]:
    ndim = len(call.operands[0].shape)
    place = call.argument(1, "dim", 0) % ndim
    return _choices(call, {dim: dim - (dim > place) for dim in range(ndim) if dim != place})


@rule("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided")
def new(call: SpreadCall) -> Iterator[Choice]:
    """A tensor of the same shape is divided in the same way; another one is whole."""
    if call.placement(0) != R:
        same = tuple(call.results[0].shape) == call.operands[0].shape
        own: Any = call.placement(0)
        yield Choice((own if same and isinstance(own, Shard) else R,), (own,))
