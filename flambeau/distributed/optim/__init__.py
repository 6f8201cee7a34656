"""Optimizers over processes. Source: torch.distributed.optim."""

from __future__ import annotations

from ...core import late as _late
from ...facades import unsupported
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

_late.adopt(__name__)

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

globals().update(unsupported.names("distributed.optim", "", "DistributedOptimizer _FunctionalAdam _FunctionalSGD"))
