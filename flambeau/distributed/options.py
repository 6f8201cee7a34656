"""Options of a process group's methods, as PyTorch's C++ classes have them. Source: torch.distributed."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from ._reduce_op import ReduceOp

__all__ = [
    "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions",
    "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]  # fmt: skip

_UNSET = datetime.timedelta(milliseconds=-1)


@dataclasses.dataclass
class AllToAllOptions:
    """Options of ``ProcessGroup.alltoall``.

    Args:
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.AllToAllOptions.
    Example:
        >>> torch.distributed.AllToAllOptions().timeout < torch.distributed.default_pg_timeout
        True
    """

    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


@dataclasses.dataclass
class AllreduceOptions:
    """Options of ``ProcessGroup.allreduce``.

    Args:
        reduceOp: a ``ReduceOp``.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.AllreduceOptions.
    Example:
        >>> torch.distributed.AllreduceOptions().timeout < torch.distributed.default_pg_timeout
        True
    """

    reduceOp: Any = ReduceOp.SUM
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of ``ProcessGroup.allreduce_coalesced``.

    Args:
        reduceOp: a ``ReduceOp``.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.AllreduceCoalescedOptions.
    Example:
        >>> torch.distributed.AllreduceCoalescedOptions().timeout < torch.distributed.default_pg_timeout
        True
    """


@dataclasses.dataclass
class BarrierOptions:
    """Options of ``ProcessGroup.barrier``.

    Args:
        device_ids: GPUs, for PyTorch's NCCL back end.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        device: for PyTorch's NCCL back end.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.BarrierOptions.
    Example:
        >>> torch.distributed.BarrierOptions().timeout < torch.distributed.default_pg_timeout
        True
    """

    device_ids: list[int] = dataclasses.field(default_factory=list)
    timeout: datetime.timedelta = _UNSET
    device: Any = None
    asyncOp: bool = True


@dataclasses.dataclass
class BroadcastOptions:
    """Options of ``ProcessGroup.broadcast``.

    Args:
        rootRank: the source or destination, by its place in the group.
        rootTensor: which of several tensors: 0, as each call has one here.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.BroadcastOptions.
    Example:
        >>> torch.distributed.BroadcastOptions().timeout < torch.distributed.default_pg_timeout
        True
    """

    rootRank: int = 0
    rootTensor: int = 0
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


@dataclasses.dataclass
class GatherOptions:
    """Options of ``ProcessGroup.gather``.

    Args:
        rootRank: the source or destination, by its place in the group.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.GatherOptions.
    Example:
        >>> torch.distributed.GatherOptions().timeout < torch.distributed.default_pg_timeout
        True
    """

    rootRank: int = 0
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


class ScatterOptions(GatherOptions):
    """Options of ``ProcessGroup.scatter``.

    Args:
        rootRank: the source or destination, by its place in the group.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.ScatterOptions.
    Example:
        >>> torch.distributed.ScatterOptions().timeout < torch.distributed.default_pg_timeout
        True
    """


@dataclasses.dataclass
class ReduceOptions:
    """Options of ``ProcessGroup.reduce``.

    Args:
        reduceOp: a ``ReduceOp``.
        rootRank: the source or destination, by its place in the group.
        rootTensor: which of several tensors: 0, as each call has one here.
        timeout: how long ``wait`` waits, a ``timedelta``; the group's where it is not positive.
        asyncOp: whether the method returns at once.
    Source: torch.distributed.ReduceOptions.
    Example:
        >>> torch.distributed.ReduceOptions().timeout < torch.distributed.default_pg_timeout
        True
    """

    reduceOp: Any = ReduceOp.SUM
    rootRank: int = 0
    rootTensor: int = 0
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


class ReduceScatterOptions(AllreduceOptions):
    """Options of ``ProcessGroup.reduce_scatter``.

    Args:
    Source: torch.distributed.ReduceScatterOptions.
    Example:
        >>> torch.distributed.ReduceScatterOptions().timeout < torch.distributed.default_pg_timeout
        True
    """
