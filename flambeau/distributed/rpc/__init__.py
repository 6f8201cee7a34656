"""``torch.distributed.rpc``: functions called in other processes, and references to what stays there. Source: torch.distributed.rpc."""

from __future__ import annotations

from ...core import late as _late
from . import functions as functions
from .agent import WorkerInfo as WorkerInfo
from .api import (
    _is_current_rpc_agent_set as _is_current_rpc_agent_set,
    get_rpc_timeout as get_rpc_timeout,
    get_worker_info as get_worker_info,
    init_rpc as init_rpc,
    is_available as is_available,
    remote as remote,
    rpc_async as rpc_async,
    rpc_sync as rpc_sync,
    shutdown as shutdown,
)
from .options import (
    BackendType as BackendType,
    RpcBackendOptions as RpcBackendOptions,
    TensorPipeRpcBackendOptions as TensorPipeRpcBackendOptions,
)
from .rref import RRef as RRef

_late.adopt(__name__)

__all__ = [
    "BackendType", "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo", "functions", "get_rpc_timeout",
    "get_worker_info", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown",
]  # fmt: skip
