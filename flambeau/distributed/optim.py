"""``torch.distributed.optim``: optimizers over processes. None is supported yet."""

from __future__ import annotations

from ..facades import unsupported

globals().update(
    unsupported.names(
        "distributed.optim", "", "DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer _FunctionalAdam _FunctionalSGD"
    )
)
