"""Groups of parts of the processes, and a barrier that names who is missing. Source: torch.distributed."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import groups
from .engine.world import here
from .errors import DistBackendError
from .groups import default_group, is_member, new_group, resolved
from .process_group import ProcessGroup
from .work import seconds

__all__ = ["monitored_barrier", "new_subgroups", "new_subgroups_by_enumeration", "split_group"]


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of neighbours, all of one size.

    Args:
        group_size: processes in each.
        group: the group that is divided; that of all processes when None.
        timeout, backend, pg_options, group_desc: as in ``new_group``.
    Returns: this process's group, and the list of all.
    Raises:
        ValueError: ``group_size`` is missing, too large, or does not divide the number of processes.
    Source: torch.distributed.new_subgroups. PyTorch takes the number of GPUs where ``group_size`` is missing.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> own, every = torch.distributed.new_subgroups(1)
        >>> torch.distributed.get_process_group_ranks(own), len(every)
        ([0], 1)
        >>> torch.distributed.destroy_process_group()
    """
    if group_size is None:
        raise ValueError(
            "Default group size only takes effect when CUDA is available. If your subgroup using a backend that does not "
            "depend on CUDA, please pass in 'group_size' correctly."
        )
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    world_size = groups.get_world_size(group)
    if world_size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({world_size})")
    if world_size % group_size != 0:
        raise ValueError(f"The world size ({world_size}) must be divisible by '{group_size=}'")
    ranks = groups.get_process_group_ranks(group)
    parts = [ranks[start : start + group_size] for start in range(0, world_size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups that have no process in common.

    Args:
        ranks_per_subgroup_list: for each group its ranks among all.
        timeout, backend, pg_options, group_desc: as in ``new_group``.
    Returns: this process's group, None where it is in none; and the list of all.
    Raises:
        ValueError: no ranks, or one in two groups.
    Source: torch.distributed.new_subgroups_by_enumeration.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> own, every = torch.distributed.new_subgroups_by_enumeration([[0]])
        >>> torch.distributed.get_process_group_ranks(own)
        [0]
        >>> torch.distributed.destroy_process_group()
    """
    if ranks_per_subgroup_list is None or len(ranks_per_subgroup_list) == 0:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    own, made, seen = None, [], dict[int, int]()
    for i, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {i}")
            seen[rank] = i
    for ranks in ranks_per_subgroup_list:
        subgroup = new_group(list(ranks), timeout, backend, pg_options, group_desc=group_desc)
        made.append(subgroup)
        if groups.get_rank() in ranks:
            own = subgroup
    return own, made


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: datetime.timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Groups that have no process in common, of parts of a group. Its processes call it, and only these.

    Args:
        parent_pg: the group that is divided; that of all processes when None.
        split_ranks: for each part its places in ``parent_pg``.
        timeout: how long an operation may take; as in ``parent_pg`` when None.
        pg_options: not supported; the engine has none.
        group_desc: a description.
        backend: that of ``parent_pg``, which is the default.
    Returns: this process's group, None where it is in none.
    Raises:
        ValueError: no ranks, places that the group has not, or one in two parts.
        NotImplementedError: options, or another back end.
    Source: torch.distributed.split_group.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> part = torch.distributed.split_group(split_ranks=[[0]])
        >>> torch.distributed.get_process_group_ranks(part)
        [0]
        >>> torch.distributed.destroy_process_group()
    """
    parent = resolved(parent_pg)
    if pg_options is not None or (backend is not None and str(backend) != parent.backend):
        raise NotImplementedError("split_group: options and another back end are not supported")
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    every = [rank for part in split_ranks for rank in part]
    if len(set(every)) != len(every) or not set(every) <= set(range(parent.size())):
        raise ValueError(f"split_ranks: expected places in a group of {parent.size()}, each once at most, got {split_ranks}")
    parent.splits += 1
    for i, part in enumerate(split_ranks):
        if parent.rank() in part:
            limit = parent.timeout if timeout is None else timeout.total_seconds()
            members = [parent.ranks[place] for place in sorted(part)]
            label = f"{parent.group_name}:split:{parent.splits}:{i}"
            desc = group_desc or f"{parent.group_desc}:split:{i}"
            return groups.made_of(parent, members, label, limit, parent.backend, groups.get_backend_config(parent), desc)
    return None


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks have come here; rank 0 names those that have not.

    Args:
        group: the group; that of all processes when None.
        timeout: how long to wait, a ``timedelta``; the group's when None.
        wait_all_ranks: name all that are missing, not the first.
    Raises:
        RuntimeError: some rank did not come within the timeout.
    Source: torch.distributed.monitored_barrier.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.monitored_barrier()
        >>> torch.distributed.destroy_process_group()
    """
    if not is_member(group, "monitored_barrier"):
        return
    pg = default_group() if group is None else resolved(group)
    if pg.size() == 1:
        return
    limit = seconds(timeout, pg.timeout)
    if pg.rank():
        _report(pg, limit)
    else:
        _await_reports(pg, limit, wait_all_ranks)


def _report(pg: ProcessGroup, limit: float) -> None:
    lane: Any = pg.apart.background
    token = np.zeros(1, np.uint8)
    try:
        lane.wait(lane.communicator.Isend(token, 0), token, limit, "monitored_barrier")
        lane.wait(lane.communicator.Irecv(token, 0), token, limit, "monitored_barrier")
    except DistBackendError as error:
        raise DistBackendError(
            f"{here(pg.ranks[pg.rank()])}: it reached monitored_barrier, but rank {pg.ranks[0]} did not answer within {limit:g} s; "
            "that rank's error names the ranks that are missing"
        ) from error


def _await_reports(pg: ProcessGroup, limit: float, wait_all_ranks: bool) -> None:
    lane: Any = pg.apart.background
    end = time.monotonic() + limit
    tokens = np.zeros(pg.size(), np.uint8)
    waiting = {rank: lane.communicator.Irecv(tokens[rank : rank + 1], rank) for rank in range(1, pg.size())}
    missing = []
    for rank, request in waiting.items():
        try:
            lane.wait(request, tokens, max(0.0, end - time.monotonic()), "monitored_barrier")
        except DistBackendError:
            missing.append(pg.ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        ranks = ", ".join(map(str, missing))
        raise DistBackendError(f"{here(pg.ranks[0])}: Rank {ranks} failed to pass monitoredBarrier in {round(1000 * limit)} ms")
    for rank in waiting:
        lane.wait(lane.communicator.Isend(tokens[:1], rank), tokens, limit, "monitored_barrier")
