"""``torch.distributed``: programs of several processes, on MPI.

``init_process_group`` makes the group of all processes; ``groups.py`` has what makes and finds groups, ``collectives.py``, ``messages.py``
and ``objects.py`` what they do, ``engine/`` how bytes move. Modules are imported when a name of theirs is first used, and mpi4py when a
group of several processes is made.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core import late as _late
from ..facades import unsupported

_late.adopt(__name__)

_MODULES = frozenset(
    "_composable _functional_collectives _tensor algorithms autograd checkpoint device_mesh distributed_c10d elastic fsdp launch nn "
    "constants optim pipelining remote_device rendezvous rpc run tensor utils".split()
)
_NAMES_OF_MODULES = {
    "backend": (
        "Backend BackendConfig get_default_backend_for_device is_backend_available is_gloo_available is_mpi_available is_nccl_available "
        "is_ucc_available is_xccl_available"
    ),
    "collectives": (
        "_all_gather_base _reduce_scatter_base all_gather all_gather_coalesced all_gather_into_tensor all_gather_single all_reduce "
        "all_reduce_coalesced all_to_all all_to_all_single barrier broadcast gather reduce reduce_scatter reduce_scatter_single "
        "reduce_scatter_tensor scatter"
    ),
    "debug": "DebugLevel get_debug_level set_debug_level set_debug_level_from_env",
    "device_mesh": "DeviceMesh init_device_mesh",
    "errors": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    "groups": (
        "GroupMember GroupName _get_process_group_name _rank_not_in_group _resolve_process_group default_pg_timeout destroy_process_group "
        "get_backend get_backend_config get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks "
        "get_rank get_world_size group init_process_group is_initialized is_torchelastic_launched new_group record_comm"
    ),
    "grad_bucket": "BuiltinCommHookType GradBucket",
    "messages": "P2POp _coalescing_manager batch_isend_irecv irecv isend recv send",
    "objects": ("all_gather_object broadcast_object_list gather_object recv_object_list scatter_object_list send_object_list"),
    "options": (
        "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions BroadcastOptions GatherOptions ReduceOptions "
        "ReduceScatterOptions ScatterOptions"
    ),
    "process_group": "ProcessGroup",
    "_reduce_op": "ReduceOp _make_nccl_premul_sum reduce_op supports_complex",
    "remote_device": "_remote_device",
    "rendezvous": "register_rendezvous_handler",
    "stores": "FileStore HashStore PrefixStore Store TCPStore",
    "subgroups": "monitored_barrier new_subgroups new_subgroups_by_enumeration split_group",
    "work": "Work",
}
_MODULE_OF = {_name: _module for _module, _listed in _NAMES_OF_MODULES.items() for _name in _listed.split()}

__all__ = ["is_available", *sorted(_name for _name in _MODULE_OF if not _name.startswith("_"))]


globals().update(unsupported.names("distributed", "shrink_group", "ProcessGroupGloo"))


def is_available() -> bool:
    """Whether processes can be grouped.

    Returns: True: groups of one process need nothing else; those of several need ``pip install flambeau[mpi]``.
    Source: torch.distributed.is_available.
    Example:
        >>> torch.distributed.is_available()
        True
    """
    return True


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_MODULES})
