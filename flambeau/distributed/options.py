"""Options of a process group's methods, as PyTorch's C++ classes have them. Source: torch.distributed."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from .reduce_op import ReduceOp

__all__ = [
    "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions",
    "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]  # fmt: skip

_UNSET = datetime.timedelta(milliseconds=-1)


@dataclasses.dataclass
class AllToAllOptions:
    """Options of ``ProcessGroup.alltoall``. Source: torch.distributed.AllToAllOptions."""

    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


@dataclasses.dataclass
class AllreduceOptions:
    """Options of ``ProcessGroup.allreduce``. Source: torch.distributed.AllreduceOptions."""

    reduceOp: Any = ReduceOp.SUM
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of ``ProcessGroup.allreduce_coalesced``. Source: torch.distributed.AllreduceCoalescedOptions."""


@dataclasses.dataclass
class BarrierOptions:
    """Options of ``ProcessGroup.barrier``. Source: torch.distributed.BarrierOptions."""

    device_ids: list[int] = dataclasses.field(default_factory=list)
    timeout: datetime.timedelta = _UNSET
    device: Any = None
    asyncOp: bool = True


@dataclasses.dataclass
class BroadcastOptions:
    """Options of ``ProcessGroup.broadcast``. Source: torch.distributed.BroadcastOptions."""

    rootRank: int = 0
    rootTensor: int = 0
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


@dataclasses.dataclass
class GatherOptions:
    """Options of ``ProcessGroup.gather``. Source: torch.distributed.GatherOptions."""

    rootRank: int = 0
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


class ScatterOptions(GatherOptions):
    """Options of ``ProcessGroup.scatter``. Source: torch.distributed.ScatterOptions."""


@dataclasses.dataclass
class ReduceOptions:
    """Options of ``ProcessGroup.reduce``. Source: torch.distributed.ReduceOptions."""

    reduceOp: Any = ReduceOp.SUM
    rootRank: int = 0
    rootTensor: int = 0
    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


class ReduceScatterOptions(AllreduceOptions):
    """Options of ``ProcessGroup.reduce_scatter``. Source: torch.distributed.ReduceScatterOptions."""
