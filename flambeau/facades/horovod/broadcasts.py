"""The same values everywhere. Source: horovod.torch.functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import distributed as dist
from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from . import world
from .operations import broadcast_async_, synchronize

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Write a rank's parameters to all others.

    Args:
        params: a ``state_dict``, or pairs of names and parameters.
        root_rank: whose.
    Raises:
        ValueError: neither.
    Source: horovod.torch.broadcast_parameters.
    Example:
        >>> import flambeau.horovod as hvd
        >>> hvd.init()
        >>> hvd.broadcast_parameters(torch.nn.Linear(2, 1).state_dict(), root_rank=0)
    """
    if isinstance(params, dict):
        pairs = sorted(params.items())
    elif isinstance(params, Iterable):
        pairs = [pair if isinstance(pair, tuple) else (str(number), pair) for number, pair in enumerate(params)]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    with no_grad():
        handles = [broadcast_async_(tensor, root_rank, name) for name, tensor in pairs if isinstance(tensor, Tensor)]
        for handle in handles:
            synchronize(handle)


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: Any = None) -> Any:
    """A rank's object, of any kind that can be pickled.

    Args:
        obj: the object; not looked at on the other ranks.
        root_rank: whose.
        name: for messages.
        process_set: not supported.
    Source: horovod.torch.broadcast_object.
    """
    if process_set is not None:
        raise NotImplementedError("horovod: process sets are not supported")
    if world.size() == 1:
        return obj
    holder = [obj]
    dist.broadcast_object_list(holder, src=root_rank)
    return holder[0]


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all ranks. Source: horovod.torch.allgather_object."""
    if world.size() == 1:
        return [obj]
    theirs: list[Any] = [None] * world.size()
    dist.all_gather_object(theirs, obj)
    return theirs


def broadcast_optimizer_state(optimizer: Any, root_rank: int, model: Any = None) -> None:
    """Write a rank's optimizer state, settings of its groups included, to all others.

    Args:
        optimizer: the optimizer, over the same parameters everywhere.
        root_rank: whose.
        model: not looked at.
    Source: horovod.torch.broadcast_optimizer_state.
    """
    if world.size() == 1:
        return
    state = broadcast_object(optimizer.state_dict() if world.rank() == root_rank else None, root_rank)
    if world.rank() != root_rank:
        optimizer.load_state_dict(state)
