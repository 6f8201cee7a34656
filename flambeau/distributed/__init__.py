"""``torch.distributed``: answers of a build without process groups, by which programs choose to run alone."""

from __future__ import annotations

import enum
import os
from typing import Any, NoReturn

from ..core import late as _late
from ..facades import unsupported

_late.adopt(__name__)

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember", "ReduceOp", "destroy_process_group",
    "get_backend", "get_rank", "get_world_size", "group", "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
]  # fmt: skip


class DistError(RuntimeError):
    """An error of a process group. Source: torch.distributed.DistError."""


class DistBackendError(DistError):
    """An error of a process group's back end. Source: torch.distributed.DistBackendError."""


class DistNetworkError(DistError):
    """An error of the network. Source: torch.distributed.DistNetworkError."""


class DistStoreError(DistError):
    """An error of the store by which processes meet. Source: torch.distributed.DistStoreError."""


class ReduceOp(enum.Enum):
    """Reductions of several processes' values to one: for signatures, as nothing is reduced yet. Source: torch.distributed.ReduceOp."""

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
    """The group of all processes: None, as there is none. Source: torch.distributed.group."""

    WORLD = None


class GroupMember:
    """Constants for a group that this process is in, or is not in. Source: torch.distributed.GroupMember."""

    WORLD = None
    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether processes can be grouped: not yet. Source: torch.distributed.is_available."""
    return False


def is_initialized() -> bool:
    """Whether this process is in a group: False. Source: torch.distributed.is_initialized."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether there is a back end of that name: False. Source: torch.distributed.is_backend_available."""
    return False


def is_gloo_available() -> bool:
    """False. Source: torch.distributed.is_gloo_available."""
    return False


def is_mpi_available() -> bool:
    """False. Source: torch.distributed.is_mpi_available."""
    return False


def is_nccl_available() -> bool:
    """False. Source: torch.distributed.is_nccl_available."""
    return False


def is_ucc_available() -> bool:
    """False. Source: torch.distributed.is_ucc_available."""
    return False


def is_xccl_available() -> bool:
    """False. Source: torch.distributed.is_xccl_available."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts processes started this one, by its environment.

    Source: torch.distributed.is_torchelastic_launched.
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _complain() -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group: Any = None) -> int:
    """This process's place in the group.

    Raises:
        ValueError: always, as there is no group.
    Source: torch.distributed.get_rank.
    """
    _complain()


def get_world_size(group: Any = None) -> int:
    """Number of processes in the group.

    Raises:
        ValueError: always, as there is no group.
    Source: torch.distributed.get_world_size.
    """
    _complain()


def get_backend(group: Any = None) -> str:
    """The name of the group's back end.

    Raises:
        ValueError: always, as there is no group.
    Source: torch.distributed.get_backend.
    """
    _complain()


def destroy_process_group(group: Any = None) -> None:
    """Leave the group.

    Raises:
        AssertionError: always, as there is no group.
    Source: torch.distributed.destroy_process_group.
    """
    raise AssertionError("Process group cannot be None")


globals().update(
    unsupported.names(
        "distributed",
        "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier batch_isend_irecv broadcast "
        "broadcast_object_list gather gather_object init_device_mesh init_process_group irecv isend monitored_barrier new_group "
        "new_subgroups recv recv_object_list reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list send send_object_list",
        "Backend DeviceMesh FileStore HashStore P2POp PrefixStore ProcessGroup Store TCPStore Work",
    )
)
