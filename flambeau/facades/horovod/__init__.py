"""``flambeau.horovod``: the calls of ``horovod.torch``, on the process groups of ``torch.distributed``.

``init`` joins the processes that ``torchrun`` or ``mpiexec`` started; a process that was started alone is a world of one. Operations
are matched between ranks by the order of the calls, so that all ranks make the same calls in the same order; names are for messages.

Source: horovod.torch, https://horovod.readthedocs.io/en/stable/api.html. Sergeev and Del Balso 2018.
"""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from ...nn import SyncBatchNorm as SyncBatchNorm
from .broadcasts import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .compression import Compression
from .operations import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allreduce,
    grouped_allreduce_,
    poll,
    reducescatter,
    synchronize,
)  # fmt: skip
from .optimizer import DistributedOptimizer
from .world import (
    cross_rank,
    cross_size,
    cuda_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    shutdown,
    size,
)  # fmt: skip

_late.adopt(__name__)

__all__ = [
    "Adasum", "Average", "Compression", "DistributedOptimizer", "Max", "Min", "Product", "Sum", "SyncBatchNorm", "allgather",
    "allgather_async", "allgather_object", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "barrier",
    "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_object", "broadcast_optimizer_state",
    "broadcast_parameters", "cross_rank", "cross_size", "cuda_built", "gloo_built", "gloo_enabled", "grouped_allreduce",
    "grouped_allreduce_", "init", "is_homogeneous", "is_initialized", "local_rank", "local_size", "mpi_built", "mpi_enabled",
    "mpi_threads_supported", "nccl_built", "poll", "rank", "reducescatter", "shutdown", "size", "synchronize",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "torch":  # ``horovod.torch`` is where Horovod has these names
        import sys

        return sys.modules[__name__]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
