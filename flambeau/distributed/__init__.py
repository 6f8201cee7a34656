"""``torch.distributed``: answers of a build without process groups, by which programs choose to run alone."""

from __future__ import annotations

import enum
import importlib
import os
from typing import Any, NoReturn

from ..core import late as _late
from ..facades import unsupported
from .errors import (
    DistBackendError as DistBackendError,
    DistError as DistError,
    DistNetworkError as DistNetworkError,
    DistStoreError as DistStoreError,
    QueueEmptyError as QueueEmptyError,
)

_late.adopt(__name__)

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "GroupMember", "HashStore", "PrefixStore",
    "QueueEmptyError", "ReduceOp", "Store", "TCPStore", "destroy_process_group", "get_backend", "get_rank", "get_world_size", "group",
    "is_available", "is_backend_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
]  # fmt: skip


class ReduceOp(enum.Enum):
    """Reductions of several processes' values to one: for signatures, as nothing is reduced yet.

    Source: torch.distributed.ReduceOp.
    Example:
        >>> torch.distributed.ReduceOp.SUM.name
        'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class group:
    """The group of all processes: None, as there is none.

    Source: torch.distributed.group.
    Example:
        >>> torch.distributed.group.WORLD is None
        True
    """

    WORLD = None


class GroupMember:
    """Constants for a group that this process is in, or is not in.

    Source: torch.distributed.GroupMember.
    Example:
        >>> torch.distributed.GroupMember.NON_GROUP_MEMBER
        -100
    """

    WORLD = None
    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether processes can be grouped: not yet.

    Returns: False.
    Source: torch.distributed.is_available.
    Example:
        >>> torch.distributed.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """Whether this process is in a group.

    Returns: False.
    Source: torch.distributed.is_initialized.
    Example:
        >>> torch.distributed.is_initialized()
        False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether there is a back end.

    Args:
        backend: its name.
    Returns: False.
    Source: torch.distributed.is_backend_available.
    Example:
        >>> torch.distributed.is_backend_available("gloo")
        False
    """
    return False


def is_gloo_available() -> bool:
    """Whether there is a back end that uses Gloo.

    Returns: False.
    Source: torch.distributed.is_gloo_available.
    Example:
        >>> torch.distributed.is_gloo_available()
        False
    """
    return False


def is_mpi_available() -> bool:
    """Whether there is a back end that uses MPI.

    Returns: False.
    Source: torch.distributed.is_mpi_available.
    Example:
        >>> torch.distributed.is_mpi_available()
        False
    """
    return False


def is_nccl_available() -> bool:
    """Whether there is a back end that uses NCCL.

    Returns: False.
    Source: torch.distributed.is_nccl_available.
    Example:
        >>> torch.distributed.is_nccl_available()
        False
    """
    return False


def is_ucc_available() -> bool:
    """Whether there is a back end that uses UCC.

    Returns: False.
    Source: torch.distributed.is_ucc_available.
    Example:
        >>> torch.distributed.is_ucc_available()
        False
    """
    return False


def is_xccl_available() -> bool:
    """Whether there is a back end that uses XCCL.

    Returns: False.
    Source: torch.distributed.is_xccl_available.
    Example:
        >>> torch.distributed.is_xccl_available()
        False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts processes started this one, by its environment.

    Returns: a bool.
    Source: torch.distributed.is_torchelastic_launched.
    Example:
        >>> torch.distributed.is_torchelastic_launched() == ("TORCHELASTIC_RUN_ID" in os.environ)
        True
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _complain() -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group: Any = None) -> int:
    """This process's place in the group.

    Args:
        group: the group; that of all processes when None.
    Returns: an int, where there is a group.
    Raises:
        ValueError: always, as there is no group.
    Source: torch.distributed.get_rank.
    Example:
        >>> torch.distributed.get_rank() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    _complain()


def get_world_size(group: Any = None) -> int:
    """Number of processes in the group.

    Args:
        group: the group; that of all processes when None.
    Returns: an int, where there is a group.
    Raises:
        ValueError: always, as there is no group.
    Source: torch.distributed.get_world_size.
    Example:
        >>> torch.distributed.get_world_size() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    _complain()


def get_backend(group: Any = None) -> str:
    """The name of the group's back end.

    Args:
        group: the group; that of all processes when None.
    Returns: a string, where there is a group.
    Raises:
        ValueError: always, as there is no group.
    Source: torch.distributed.get_backend.
    Example:
        >>> torch.distributed.get_backend() if torch.distributed.is_initialized() else "alone"
        'alone'
    """
    _complain()


def destroy_process_group(group: Any = None) -> None:
    """Leave the group.

    Args:
        group: the group; that of all processes when None.
    Raises:
        AssertionError: always, as there is no group.
    Source: torch.distributed.destroy_process_group.
    Example:
        >>> if torch.distributed.is_initialized():
        ...     torch.distributed.destroy_process_group()
    """
    raise AssertionError("Process group cannot be None")


globals().update(
    unsupported.names(
        "distributed",
        "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier batch_isend_irecv broadcast "
        "broadcast_object_list gather gather_object init_device_mesh init_process_group irecv isend monitored_barrier new_group "
        "new_subgroups recv recv_object_list reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list send send_object_list",
        "Backend DeviceMesh P2POp ProcessGroup Work",
    )
)


_STORES = dict.fromkeys("FileStore HashStore PrefixStore Store TCPStore".split(), "stores")
_LATE = {**_STORES, "register_rendezvous_handler": "rendezvous"}  # by name: the module that has it


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
    if name in ("autograd", "device_mesh", "rendezvous", "rpc"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
