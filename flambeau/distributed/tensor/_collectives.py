"""Collectives over one dimension of a mesh that return new tensors. All are called below the tape, on plain tensors."""

from __future__ import annotations

from typing import Any

from ... import distributed as dist
from ...autograd.grad_mode import no_grad
from ...core.layout import contiguous_format
from ...core.tensor import Tensor

_OPS = {"sum": "SUM", "avg": "AVG", "product": "PRODUCT", "max": "MAX", "min": "MIN"}


def reduce_op(name: str) -> Any:
    """``ReduceOp`` by the name that placements have for it."""
    if name not in _OPS:
        raise NotImplementedError(f"Partial({name!r}) is not supported; there are {', '.join(_OPS)}")
    return getattr(dist.ReduceOp, _OPS[name])


def all_reduce(tensor: Tensor, op: str, group: Any) -> Tensor:
    """The reduction of all processes' tensors."""
    with no_grad():
        result = tensor.detach().clone(memory_format=contiguous_format)
        if dist.get_world_size(group) > 1:
            dist.all_reduce(result, reduce_op(op), group=group)
        return result


def all_gather(tensor: Tensor, group: Any) -> Tensor:
    """All processes' tensors, of one shape, behind each other: ``(processes, *shape)``."""
    with no_grad():
        count = dist.get_world_size(group)
        given = tensor.detach().contiguous()
        if count == 1:
            return given.unsqueeze(0)
        result = given.new_empty((count, *given.shape))
        dist.all_gather_into_tensor(result.view(-1), given.view(-1), group=group)
        return result


def reduce_scatter(tensor: Tensor, op: str, group: Any) -> Tensor:
    """The reduction of what all processes have for this one: ``(processes, *shape)`` to ``shape``."""
    with no_grad():
        given = tensor.detach().contiguous()
        if given.shape[0] == 1:
            return given[0].clone()
        result = given.new_empty(given.shape[1:])
        dist.reduce_scatter_tensor(result.view(-1), given.view(-1), reduce_op(op), group=group)
        return result


def all_to_all(tensor: Tensor, group: Any) -> Tensor:
    """Part ``i`` of ``(processes, *shape)`` goes to process ``i``; what came, in the order of the senders."""
    with no_grad():
        given = tensor.detach().contiguous()
        result = given.new_empty(given.shape)
        dist.all_to_all_single(result.view(-1), given.view(-1), group=group)
        return result


def broadcast(tensor: Tensor, group_src: int, group: Any) -> None:
    """Write one process's tensor into all processes' tensors."""
    with no_grad():
        if dist.get_world_size(group) > 1:
            dist.broadcast(tensor, group=group, group_src=group_src)
