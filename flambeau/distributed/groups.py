"""Process groups: making them, finding them, leaving them. Source: torch.distributed."""

from __future__ import annotations

import contextlib
import datetime
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from . import debug, watching
from .backend import Backend, BackendConfig
from .constants import default_pg_timeout
from .engine import world as mpi_world
from .engine.background import BackgroundLane
from .engine.lane import Alone, Lane
from .process_group import ProcessGroup
from .rendezvous import rendezvous
from .stores import PrefixStore, Store

__all__ = [
    "GroupMember", "GroupName", "default_pg_timeout", "destroy_process_group", "get_backend", "get_backend_config", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_initialized", "is_torchelastic_launched", "new_group", "record_comm",
]  # fmt: skip


class _Groups:
    """The groups of this process.

    Attributes:
        default: that of all processes.
        named: all, by name.
        made: how many were made since the default one, of which all ranks have the same count.
    """

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.named: dict[str, ProcessGroup] = {}
        self.config: dict[str, str] = {}
        self.made = 0
        self.kept: list[Any] = []  # stores, which serve other ranks to the end


state = _Groups()


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes, None where there is none."""
        return state.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        state.default = group


class group(metaclass=_World):
    """The group of all processes: ``group.WORLD``, which is None where there is none.

    Source: torch.distributed.group.
    Example:
        >>> torch.distributed.group.WORLD is None
        True
    """


class GroupMember(metaclass=_World):
    """Constants for a group that this process is in, or is not in.

    Source: torch.distributed.GroupMember.
    Example:
        >>> torch.distributed.GroupMember.NON_GROUP_MEMBER
        -100
    """

    NON_GROUP_MEMBER = -100


class GroupName(str):
    """The name of a group.

    Args:
        name: the name.
    Source: torch.distributed.distributed_c10d.GroupName.
    Example:
        >>> torch.distributed.GroupName("0")
        '0'
    """


@contextlib.contextmanager
def record_comm(name: str) -> Iterator[None]:
    """A ``with`` block that stands under a name in profiles.

    Args:
        name: the name of what is communicated in it.
    Returns: a context manager.
    Source: torch.distributed.record_comm.
    Example:
        >>> with torch.distributed.record_comm("gradients"):
        ...     pass
    """
    from ..autograd.profiler import record_function

    with record_function(name):
        yield


# -- finding -------------------------------------------------------------------------------------------------------------
def default_group() -> ProcessGroup:
    """The group of all processes.

    Raises:
        ValueError: there is none.
    """
    if state.default is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return state.default


def resolved(group: Any) -> ProcessGroup:
    """The group, that of all processes where None is given.

    Raises:
        ValueError: there is none, or this process is not in it.
    """
    if group.__class__ is ProcessGroup:
        return group
    if group is None:
        return default_group()
    if group is GroupMember.NON_GROUP_MEMBER:
        raise ValueError("Invalid process group specified")
    raise TypeError(f"expected a torch.distributed.ProcessGroup, got {type(group).__name__}")


def is_member(group: Any, operation: str) -> bool:
    """Whether this process is in the group; a warning where it is not."""
    if group is not GroupMember.NON_GROUP_MEMBER:
        return True
    place = -1 if state.default is None else state.default.rank()
    warnings.warn(f"Running {operation} on global rank {place} which does not belong to the given group.", stacklevel=3)
    return False


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is not in a group. Source: torch.distributed."""
    return group is GroupMember.NON_GROUP_MEMBER


def _get_process_group_name(pg: ProcessGroup) -> str:
    """A group's name. Source: torch.distributed."""
    return pg.group_name


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """The group of that name."""
    if group_name not in state.named:
        raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}")
    return state.named[group_name]


def is_initialized() -> bool:
    """Whether this process is in a group.

    Returns: a bool.
    Source: torch.distributed.is_initialized.
    Example:
        >>> torch.distributed.is_initialized()
        False
    """
    return state.default is not None


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts processes started this one, by its environment.

    Returns: a bool.
    Source: torch.distributed.is_torchelastic_launched.
    Example:
        >>> torch.distributed.is_torchelastic_launched() == ("TORCHELASTIC_RUN_ID" in os.environ)
        True
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_rank(group: ProcessGroup | None = None) -> int:
    """This process's place in the group.

    Args:
        group: the group; that of all processes when None.
    Returns: an int; -1 where it is not in the group.
    Raises:
        ValueError: there is no group.
    Source: torch.distributed.get_rank.
    Example:
        >>> torch.distributed.get_rank() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return resolved(group)._rank


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Number of processes in the group.

    Args:
        group: the group; that of all processes when None.
    Returns: an int; -1 where this process is not in the group.
    Raises:
        ValueError: there is no group.
    Source: torch.distributed.get_world_size.
    Example:
        >>> torch.distributed.get_world_size() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return resolved(group)._size


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The name of the group's back end.

    Args:
        group: the group; that of all processes when None.
    Returns: a string.
    Raises:
        ValueError: there is no group.
    Source: torch.distributed.get_backend.
    Example:
        >>> torch.distributed.get_backend() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    return resolved(group).backend


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The back ends that serve each kind of device.

    Args:
        group: the group; that of all processes when None.
    Returns: pairs, as a string.
    Source: torch.distributed.get_backend_config.
    Example:
        >>> torch.distributed.get_backend_config() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    return state.config[resolved(group).group_name]


def get_pg_count() -> int:
    """The number of groups of which this process is one.

    Returns: an int.
    Source: torch.distributed.get_pg_count.
    Example:
        >>> torch.distributed.get_pg_count()
        0
    """
    return len(state.named)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The group's processes, by their ranks among all.

    Args:
        group: the group; that of all processes when None.
    Returns: a list of ints.
    Source: torch.distributed.get_process_group_ranks.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.get_process_group_ranks(torch.distributed.group.WORLD)
        [0]
        >>> torch.distributed.destroy_process_group()
    """
    return list(resolved(group).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The place in a group of a process that is ``global_rank`` among all.

    Args:
        group: the group.
        global_rank: the rank among all.
    Returns: an int.
    Raises:
        ValueError: it is not in the group. That of all processes is not asked.
    Source: torch.distributed.get_group_rank.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.get_group_rank(torch.distributed.new_group([0]), 0)
        0
        >>> torch.distributed.destroy_process_group()
    """
    if group is state.default:
        return global_rank
    found = resolved(group)._place.get(global_rank)
    if found is None:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank among all of a group's process.

    Args:
        group: the group.
        group_rank: the place in the group.
    Returns: an int.
    Raises:
        ValueError: the group has no such place. That of all processes is not asked.
    Source: torch.distributed.get_global_rank.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.get_global_rank(torch.distributed.new_group([0]), 0)
        0
        >>> torch.distributed.destroy_process_group()
    """
    if group is state.default:
        return group_rank
    ranks = resolved(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's place on its machine, as its launcher told it.

    Args:
        fallback_rank: what it is where no launcher told.
    Returns: an int.
    Raises:
        RuntimeError: nothing tells it.
    Source: torch.distributed.get_node_local_rank.
    Example:
        >>> torch.distributed.get_node_local_rank(fallback_rank=0) >= 0
        True
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you "
        "are not running in a multi-device context and want the code to run locally instead."
    )


# -- making --------------------------------------------------------------------------------------------------------------
def _seconds(timeout: Any) -> float:
    if timeout is None:
        return default_pg_timeout.total_seconds()
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout.total_seconds()


def _checked_backend(backend: Any) -> tuple[Backend, str]:
    """The back end's name, and which back end serves which kind of device."""
    config = BackendConfig("gloo" if backend in (None, "", "undefined") else str(backend))
    for name in config.device_backend_map.values():
        if name == "nccl":
            if "cpu:" in str(backend):
                continue
            raise RuntimeError("Distributed package doesn't have NCCL built in: use the back end 'gloo' or 'mpi'")
        if name not in ("gloo", "mpi"):
            raise ValueError(f"Unknown backend {name!s}: expected 'gloo' or 'mpi', which both name the engine on MPI")
    return config.device_backend_map.get("cpu", Backend("gloo")), repr(config)


def _found_by_launcher(timeout: datetime.timedelta) -> tuple[Any, int, int]:
    """Rank and number of ranks by ``mpiexec``, and a store that rank 0 serves."""
    import socket

    from .stores import TCPStore

    communicator = mpi_world.of_launcher()
    rank, size = communicator.rank, communicator.size
    host = socket.gethostname() if len(set(communicator.allgather(socket.gethostname()))) > 1 else "127.0.0.1"
    store: Any = TCPStore(host, 0, size, True, timeout, wait_for_workers=False) if rank == 0 else None
    where = communicator.bcast((host, store.port) if store is not None else None)
    return store or TCPStore(where[0], where[1], size, False, timeout), rank, size


def _found(init_method: str | None, store: Any, rank: int, world_size: int, timeout: datetime.timedelta) -> tuple[Any, int, int]:
    """A store, this process's rank and the number of ranks."""
    if store is not None:
        if world_size <= 0:
            raise ValueError("world_size must be positive if using store")
        if rank < 0:
            raise ValueError("rank must be non-negative if using store")
        return store, rank, world_size
    if init_method is None and rank < 0 and "RANK" not in os.environ and mpi_world.has_launcher():
        return _found_by_launcher(timeout)
    return next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=timeout)))


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Meet the other processes, and make the group of all.

    Args:
        backend: ``"mpi"`` or ``"gloo"``, which both name the engine on MPI.
        init_method: where processes meet: ``env://`` (the default), ``tcp://HOST:PORT`` or ``file://PATH``.
        timeout: how long an operation may take, 30 minutes by default.
        world_size, rank: the number of processes, and which of them this is, where ``init_method`` does not tell.
        store: where processes meet, in place of ``init_method``.
        group_name, pg_options: for PyTorch's back ends; the engine has no options.
        device_id: the device that this process uses.
    Raises:
        ValueError: there is a group already, or something is missing.
        ModuleNotFoundError: mpi4py or MPI is not installed, and there are several processes.
        DistBackendError: MPI does not start.
    Source: torch.distributed.init_process_group.
    Example:
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> torch.distributed.all_reduce(x := torch.ones(2))
        >>> torch.distributed.destroy_process_group()
    """
    if state.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if not (store is None or init_method is None):
        raise AssertionError("Cannot specify both init_method and store.")
    if pg_options is not None:
        raise NotImplementedError("init_process_group: pg_options are not supported; the engine on MPI has none")
    seconds = _seconds(timeout)
    name, config = _checked_backend(backend)
    limit = datetime.timedelta(seconds=seconds)
    base, rank, world_size = _found(init_method, store, rank, world_size, limit)
    state.kept.append(base)
    base.set_timeout(limit)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    label = f"default_pg/{attempt}/{base.add(f'made/{attempt}/{rank}', 1)}"  # a group after another one has keys of its own
    shared = PrefixStore(label, base)
    ranks = list(range(world_size)) if _ranks is None else list(_ranks)
    watching.start(shared, rank, world_size, label)
    communicator = None if world_size == 1 else mpi_world.world(shared, rank, world_size).Dup()
    made = _group(communicator, ranks, name, shared, seconds, group_name or "0", "default_pg")
    made.bound_device_id = device_id
    state.made = 0
    state.config = {made.group_name: config}
    state.named = {made.group_name: made}
    state.default = made


def _group(communicator: Any, ranks: list[int], backend: Backend, store: Any, timeout: float, label: str, desc: str) -> ProcessGroup:
    """A group on a communicator, which it gives back; None for a group of one."""

    def on(lane: Lane | Alone, background: Lane | Alone, label: str) -> ProcessGroup:
        made = ProcessGroup(lane, background, ranks, backend, store, timeout, label, desc)
        debug.equip(made)
        return made

    if communicator is None:
        return on(Alone(timeout), Alone(timeout), label)
    MPI = mpi_world.mpi()
    fronts = [Lane(MPI, each, timeout) for each in (communicator, communicator.Dup())]
    made, made.apart = [on(front, BackgroundLane(front), f"{label}{of}") for front, of in zip(fronts, ("", ", apart"), strict=True)]
    return made


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some of the processes. All processes call it, in the same order, also those that are not in it.

    Args:
        ranks: the processes, by their ranks among all; all when None.
        timeout: how long an operation may take; as in the group of all when None.
        backend: as in ``init_process_group``; that of the group of all when None.
        pg_options: not supported; the engine has none.
        use_local_synchronization: only those that are in it call it.
        group_desc: a description.
        device_id: the device that this process uses.
        sort_ranks: give places by rank; in the order of ``ranks`` when False.
    Returns: a ``ProcessGroup``, ``GroupMember.NON_GROUP_MEMBER`` where this process is not in it.
    Raises:
        ValueError: ranks that are none, or that are there twice.
    Source: torch.distributed.new_group.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> group = torch.distributed.new_group([0])
        >>> torch.distributed.get_world_size(group)
        1
        >>> torch.distributed.destroy_process_group()
    """
    if pg_options is not None:
        raise NotImplementedError("new_group: pg_options are not supported; the engine on MPI has none")
    world = default_group()
    seconds = world.timeout if timeout is None else _seconds(timeout)
    name, config = (world.backend, state.config[world.group_name]) if backend is None else _checked_backend(backend)
    members = _checked_ranks(ranks, world, sort_ranks)
    if use_local_synchronization:
        import hashlib

        suffix = hashlib.sha1("_".join(map(str, members)).encode()).hexdigest()
        label = f"{suffix}_{sum(key.startswith(suffix) for key in state.named)}"
    else:
        state.made += 1
        label = str(state.made)
    if world.ranks[world.rank()] not in members:
        return GroupMember.NON_GROUP_MEMBER
    return made_of(world, members, label, seconds, name, config, group_desc or "undefined", device_id)


def _checked_ranks(ranks: Sequence[int] | None, world: ProcessGroup, sort_ranks: bool) -> list[int]:
    if ranks is None:
        return list(world.ranks)
    members = sorted(ranks) if sort_ranks else list(ranks)
    if len(members) > world.size():
        raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
    for rank in members:
        if rank < 0 or rank >= world.size():
            raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    if len(set(members)) != len(members):
        raise ValueError(f"new_group: ranks must not be there twice, got {members}")
    return members


def made_of(
    parent: ProcessGroup, members: list[int], label: str, timeout: float, backend: Backend, config: str, desc: str, device_id: Any = None
) -> ProcessGroup:
    """A group of processes of ``parent``, which these call, and only these."""
    store = PrefixStore(f"{label}/", parent.store)
    communicator = None
    if len(members) > 1:
        places = [parent._place[rank] for rank in members]
        meet(store, places.index(parent.rank()), len(members))  # so that MPI's call, which cannot be interrupted, does not wait long
        whole = parent.lane.communicator  # type: ignore[union-attr]
        communicator = whole.Create_group(whole.group.Incl(places), tag=zlib.crc32(label.encode()) % 32768)
    made = _group(communicator, members, backend, store, timeout, label, desc)
    made.bound_device_id = device_id
    state.named[label] = made
    state.config[label] = config
    return made


def meet(store: Any, rank: int, size: int) -> None:
    """Wait in the store until all ranks have come."""
    keys = [f"here/{i}" for i in range(size)]
    store.set(keys[rank], "1")
    store.wait(keys)


# -- leaving -------------------------------------------------------------------------------------------------------------
def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group, or all groups.

    Args:
        group: the group; all of them when None or when it is that of all processes.
    Raises:
        AssertionError: there is no group.
        ValueError: the group was destroyed, or this process is not in it.
    Source: torch.distributed.destroy_process_group.
    Example:
        >>> if torch.distributed.is_initialized():
        ...     torch.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    chosen = state.default if group is None else group
    if chosen is None:
        raise AssertionError("Process group cannot be None")
    if chosen.group_name not in state.named:
        raise ValueError("Invalid process group specified or has been destroyed.")
    if chosen is not state.default:
        chosen.close()
        del state.named[chosen.group_name]
        return
    for each in reversed(list(state.named.values())):
        each.close()
    watching.stop()
    state.named = {}
    state.default = None
    state.made = 0
