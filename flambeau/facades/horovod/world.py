"""The processes that there are. Source: horovod.torch: init, rank, size and their kin."""

from __future__ import annotations

import os
import socket
from typing import Any

from ... import distributed as dist

__all__ = [
    "cross_rank", "cross_size", "cuda_built", "gloo_built", "gloo_enabled", "init", "is_homogeneous", "is_initialized", "local_rank",
    "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "rank", "shutdown", "size",
]  # fmt: skip

_LAUNCHERS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "PMIX_SIZE"))


class _World:
    """Attributes: the hosts of all ranks; whether the group was made here."""

    def __init__(self, hosts: list[str], owns_group: bool) -> None:
        self.hosts, self.owns_group = hosts, owns_group
        self.rank = dist.get_rank() if len(hosts) > 1 else 0
        there = [other for other, host in enumerate(hosts) if host == hosts[self.rank]]
        self.local_rank, self.local_size = there.index(self.rank), len(there)


_world: _World | None = None


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Join the processes that a launcher started with this one; a process that was started alone is a world of one.

    Args:
        comm: not supported: all processes take part.
        process_sets: not supported.
    Raises:
        NotImplementedError: an argument is given.
    Source: horovod.torch.init.
    Example:
        >>> import flambeau.horovod as hvd
        >>> hvd.init()
        >>> hvd.rank() < hvd.size()
        True
    """
    global _world
    if comm is not None or process_sets is not None:
        raise NotImplementedError("horovod.init: communicators and process sets are not supported")
    if _world is not None:
        return
    owns = False
    if not (dist.is_available() and dist.is_initialized()):
        if all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
            owns = True
            dist.init_process_group("gloo")
        elif any(one in os.environ and other in os.environ for one, other in _LAUNCHERS):
            owns = True
            dist.init_process_group("mpi")
    hosts = [socket.gethostname()]
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        theirs: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(theirs, hosts[0])
        hosts = theirs
    _world = _World(hosts, owns)


def shutdown() -> None:
    """Leave the world. Source: horovod.torch.shutdown."""
    global _world
    if _world is not None and _world.owns_group and dist.is_initialized():
        dist.destroy_process_group()
    _world = None


def world() -> _World:
    """The world.

    Raises:
        ValueError: ``init`` was not called.
    """
    if _world is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _world


def is_initialized() -> bool:
    """Whether ``init`` was called. Source: horovod.torch.is_initialized."""
    return _world is not None


def rank() -> int:
    """This process's place among all. Source: horovod.torch.rank."""
    return world().rank


def size() -> int:
    """Number of all processes. Source: horovod.torch.size."""
    return len(world().hosts)


def local_rank() -> int:
    """This process's place among those of its machine. Source: horovod.torch.local_rank."""
    return world().local_rank


def local_size() -> int:
    """Number of processes of this machine. Source: horovod.torch.local_size."""
    return world().local_size


def _machines() -> list[str]:
    return list(dict.fromkeys(world().hosts))


def cross_rank() -> int:
    """This machine's place among all. Source: horovod.torch.cross_rank."""
    return _machines().index(world().hosts[rank()])


def cross_size() -> int:
    """Number of machines. Source: horovod.torch.cross_size."""
    return len(_machines())


def is_homogeneous() -> bool:
    """Whether all machines have equally many processes. Source: horovod.torch.is_homogeneous."""
    hosts = world().hosts
    return len({hosts.count(host) for host in hosts}) == 1


def mpi_threads_supported() -> bool:
    """Whether MPI may be called from several threads. Source: horovod.torch.mpi_threads_supported."""
    world()
    return True


def mpi_enabled() -> bool:
    """Whether MPI moves the data. Source: horovod.torch.mpi_enabled."""
    return mpi_built()


def mpi_built() -> bool:
    """Whether there is MPI. Source: horovod.torch.mpi_built."""
    return dist.is_available() and dist.is_mpi_available()


def gloo_enabled() -> bool:
    """Whether Gloo moves the data: no. Source: horovod.torch.gloo_enabled."""
    return False


def gloo_built() -> bool:
    """Whether there is Gloo: no. Source: horovod.torch.gloo_built."""
    return False


def nccl_built() -> int:
    """Version of NCCL, 0 without. Source: horovod.torch.nccl_built."""
    return int(dist.is_available() and dist.is_nccl_available())


def cuda_built() -> bool:
    """Whether operations know CUDA. Source: horovod.torch.cuda_built."""
    return False
