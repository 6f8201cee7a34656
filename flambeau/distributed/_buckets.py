"""Vectors that hold the gradients of several parameters, and which parameters go into which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import ops
from ..core.tensor import Tensor

__all__ = ["Bucket", "cut"]


class Bucket:
    """Gradients of some parameters side by side in one vector.

    Attributes:
        index: place in the order of reductions.
        members: indices of its parameters.
        flat: the vector; None for a bucket of one sparse gradient.
        places: views of ``flat`` in the parameters' shapes.
        pending: how many gradients are missing.
        result: future of the reduced vector, once the reduction began.
    """

    __slots__ = ("flat", "index", "members", "pending", "places", "result")

    def __init__(self, index: int, members: list[int], parameters: Sequence[Tensor], is_sparse: bool) -> None:
        self.index, self.members, self.pending = index, members, len(members)
        self.result: Any = None
        self.places: list[Tensor] = []
        self.flat: Any = None
        if is_sparse:
            return
        first = parameters[members[0]]
        self.flat = ops.zeros(sum(parameters[i].numel() for i in members), dtype=first.dtype, device=first.device)
        start = 0
        for i in members:
            self.places.append(_place(self.flat, start, parameters[i]))
            start += parameters[i].numel()

    @property
    def nbytes(self) -> int:
        return 0 if self.flat is None else self.flat.numel() * self.flat.element_size()


def _place(flat: Tensor, start: int, parameter: Tensor) -> Tensor:
    """The view of a bucket for one parameter, laid out in memory as that is, where it has no gaps."""
    strides, expected = parameter.stride(), 1
    for size, stride in sorted(zip(parameter.shape, strides), key=lambda pair: (pair[1], pair[0])):
        if size != 1 and stride != expected:
            return flat[start : start + parameter.numel()].view(parameter.shape)
        expected *= size
    return flat.as_strided(parameter.shape, strides, start)


def cut(parameters: Sequence[Tensor], order: Iterable[int], limits: Sequence[int], sparse: set[int]) -> list[Bucket]:
    """Buckets of one dtype and device each, filled in this order up to the limits, in bytes; the last limit holds for all further ones."""
    buckets: list[list[int]] = []
    filling: dict[Any, tuple[list[int], list[int]]] = {}
    for i in order:
        parameter = parameters[i]
        if i in sparse:
            buckets.append([i])
            continue
        key = parameter.dtype, parameter.device
        members, state = filling.setdefault(key, ([], [0, 0]))  # bytes in it, and which limit
        members.append(i)
        state[0] += parameter.numel() * parameter.element_size()
        if state[0] >= limits[min(state[1], len(limits) - 1)]:
            buckets.append(members)
            filling[key] = ([], [0, state[1] + 1])
    buckets += [members for members, _ in filling.values() if members]
    return [Bucket(index, members, parameters, members[0] in sparse) for index, members in enumerate(buckets)]
