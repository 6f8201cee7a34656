"""``torch.distributed.fsdp``: modules whose parameters, gradients and optimizer state are divided among processes.

fully_shard                  parameters become ``DTensor``, each divided by rows
FullyShardedDataParallel     a wrapper whose parameters lie in a row, which is divided
_group                       what both do: gathering as an operation on the tape
_layout                      how shards lie in memory
"""

from __future__ import annotations

from ...core import late as _late
from ._fully_shard import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx
from ._policies import CPUOffloadPolicy, DataParallelMeshDims, MixedPrecisionPolicy, OffloadPolicy
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .fully_sharded_data_parallel import FullyShardedDataParallel, OptimStateKeyType

_late.adopt(__name__)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule", "FullOptimStateDictConfig",
    "FullStateDictConfig", "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
    "MixedPrecisionPolicy", "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType", "UnshardHandle", "fully_shard",
    "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip

for _name in __all__:
    globals()[_name].__module__ = __name__
