"""A group of processes: its communicators, its thread, and who is in it. Source: torch.distributed.ProcessGroup."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .backend import Backend
from .engine.lane import Alone, Lane
from .engine.reductions import Reduction, reduction
from .errors import DistBackendError
from .group_methods import GroupMethods
from .work import CollectiveWork, Works

__all__ = ["ProcessGroup"]


class ProcessGroup(GroupMethods):
    """Processes that communicate with each other, as this one of them sees them. ``init_process_group`` and ``new_group`` make them.

    Args:
        lane, background: how it communicates, from the calling thread and from its own, on one communicator.
        ranks: its processes, by their ranks among all.
        backend, store, timeout: the back end's name; what the processes share; seconds that an operation may take.
        name, desc: as the attributes.
    Attributes:
        group_name, group_desc: the name, which is the same on all its ranks; a description.
        bound_device_id: the device that was given to ``init_process_group``.
        apart: the same processes with another communicator, for what need not keep an order with the program's own collectives.
    Source: torch.distributed.ProcessGroup.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.group.WORLD.size(), torch.distributed.group.WORLD.rank()
        (1, 0)
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        lane: Lane | Alone,
        background: Lane | Alone,
        ranks: list[int],
        backend: Backend,
        store: Any,
        timeout: float,
        name: str,
        desc: str,
    ) -> None:
        self.lane, self.ranks, self.backend, self.store = lane, ranks, backend, store
        self.group_name, self.group_desc = name, desc
        self.bound_device_id: Any = None
        self.sequence = self.splits = 0
        self.check: Callable[[ProcessGroup, Any, str, str], None] | None = None  # of fingerprints, when they are asked for
        self.background = background
        self._rank, self._size = lane.rank, lane.size
        for each in (lane, background):
            each.members = ranks
        self._place = {rank: i for i, rank in enumerate(ranks)}
        self._reductions: dict[tuple[Any, int], Reduction] = {}
        self._works = Works(background, f"collectives of {name}")
        self.apart: ProcessGroup = self
        self._process = os.getpid()
        self._timeout = timeout
        self._closed = False

    # -- what it is -------------------------------------------------------------------------------------------------------
    def rank(self) -> int:
        """This process's place in the group."""
        return self._rank

    def size(self) -> int:
        """The number of processes in the group."""
        return self._size

    def name(self) -> str:
        """The back end's name."""
        return str(self.backend)

    def get_group_store(self) -> Any:
        """The store that the group's processes share."""
        return self.store

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Let operations take that long from now on."""
        for each in {self, self.apart}:
            each._timeout = each.lane.timeout = each.background.timeout = timeout.total_seconds()

    @property
    def timeout(self) -> float:
        return self._timeout

    def _get_backend_name(self) -> str:
        return str(self.backend)

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, desc: str) -> None:
        self.group_desc = desc

    def _get_backend(self, device: Any = None) -> ProcessGroup:
        return self

    @property
    def _device_types(self) -> list[Any]:
        from ..core.device import device

        return [device("cpu")]

    def __repr__(self) -> str:
        return f"<torch.distributed.ProcessGroup {self.group_name!r} of {self._size} ranks, this is rank {self._rank}>"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'torch.distributed.ProcessGroup' object")

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        return self

    # -- doing something --------------------------------------------------------------------------------------------------
    def reduction(self, op: Any, dtype: np.dtype) -> Reduction:
        """The way in which arrays of a dtype are reduced in this group."""
        if op.__class__.__name__ == "ReduceOp":
            return reduction(self.lane.MPI, op, dtype, self._size)
        key = (op, dtype.num)
        found = self._reductions.get(key)
        if found is None:
            found = self._reductions[key] = reduction(self.lane.MPI, op, dtype, self._size)
        return found

    def run(
        self, name: str, call: Callable[[Any], None], tensors: list[Any], async_op: bool, print_of: Callable[[], str] | None = None,
        timeout: float | None = None
    ) -> CollectiveWork | None:  # fmt: skip
        """Do a collective: here, or in the group's thread. It goes behind what that thread has not done.

        Args:
            name: for errors.
            call: does it on the lane that it is given.
            tensors: what it writes.
            async_op: whether it is done in the background.
            print_of: what must be the same on all ranks.
            timeout: seconds that ``call`` may take; the group's when None.
        Returns: None once it is done, a ``Work`` if ``async_op``.
        """
        self.sequence += 1
        if self._closed or self._process != os.getpid():
            raise self._unusable()
        if self.check is not None:
            call = self._checked(name, call, print_of)
        works = self._works
        if async_op or works.under_way:
            own = self._timeout if timeout is None else timeout
            limit = own + self._timeout * len(works.under_way)  # as long as each before it may take
            work = CollectiveWork(name, call, tensors, limit, works, self.sequence)
            if async_op:
                return work
            work.wait()
            return None
        lane = self.lane
        with works.turn:
            if lane.broken is not None:
                raise lane.broken
            lane.doing, lane.count = name, self.sequence
            call(lane)
        return None

    def _checked(self, name: str, call: Callable[[Any], None], print_of: Callable[[], str] | None) -> Callable[[Any], None]:
        number = self.sequence
        told = "" if print_of is None else print_of()

        def checked(lane: Any) -> None:
            assert self.check is not None
            self.check(self, lane, f"{name} #{number}", told)
            call(lane)

        return checked

    def _unusable(self) -> DistBackendError:
        if self._closed:
            return DistBackendError(f"process group {self.group_name!r} was destroyed")
        return DistBackendError("this process was forked from one of the group's; a process group does not work in a child of its process")

    def close(self) -> None:
        """Give its communicators back. Works that were not waited for are finished first."""
        if self._closed:
            return
        self._closed = True
        if self._process != os.getpid():
            return
        if self.apart is not self:
            self.apart.close()
        try:
            self._works.close(self._timeout)
        except DistBackendError:
            return
        self.lane.close()

    shutdown = abort = close
