"""``torch.distributed.optim``: optimizers over processes. None is supported yet."""

from __future__ import annotations

from .. import _unsupported

globals().update(
    _unsupported.names(
        "distributed.optim", "", "DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer _FunctionalAdam _FunctionalSGD"
    )
)
