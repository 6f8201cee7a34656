"""Adasum: sums of gradients that lie across each other, means of those that agree. Source: Maleki et al. 2021; horovod.torch.Adasum.

Two vectors become ``(1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b``; those of more processes pair by pair, as in a tournament.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import distributed as dist
from ...core.dtype import float64
from ...core.tensor import Tensor
from . import world

__all__ = ["combined", "started"]


def _pair(a: Tensor, b: Tensor) -> Tensor:
    product, a_square, b_square = (float((left * right).sum()) for left, right in ((a, b), (a, a), (b, b)))
    ours = 1.0 - product / (2.0 * a_square) if a_square else 1.0
    other = 1.0 - product / (2.0 * b_square) if b_square else 1.0
    return ours * a + other * b


def combined(vectors: list[Tensor]) -> Tensor:
    """The Adasum of as many vectors as a power of 2."""
    while len(vectors) > 1:
        vectors = [_pair(vectors[i], vectors[i + 1]) for i in range(0, len(vectors), 2)]
    return vectors[0]


def started(tensor: Tensor, after: float) -> tuple[Any, Callable[[], None]]:
    """Begin an Adasum in place: the work, and what to do with the tensor when it is done.

    Raises:
        NotImplementedError: the number of processes is no power of 2.
        ValueError: a tensor that is not floating point.
    """
    size = world.size()
    if size & (size - 1):
        raise NotImplementedError(f"horovod: op=Adasum runs with a power of 2 as the number of processes, got {size}")
    if not tensor.is_floating_point():
        raise ValueError(f"horovod: op=Adasum takes floating point tensors, got {tensor.dtype}")
    whole = tensor.new_empty((size, *tensor.shape))
    work = dist.all_gather_into_tensor(whole.view(-1), tensor.contiguous().view(-1), async_op=True) if size > 1 else None

    def finish() -> None:
        if size > 1:
            tensor.copy_(combined([part.to(float64) for part in whole.unbind(0)]) * after)
        elif after != 1.0:
            tensor.mul_(after)

    return work, finish
