"""``torch.distributed.fsdp``: modules whose parameters are spread over processes, which are not implemented yet: nothing is one."""

from __future__ import annotations

from ..facades import unsupported

globals().update(
    unsupported.names(
        "distributed.fsdp",
        "fully_shard register_fsdp_forward_method share_comm_ctx",
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel "
        "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig "
        "OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings "
        "StateDictType UnshardHandle",
    )
)
