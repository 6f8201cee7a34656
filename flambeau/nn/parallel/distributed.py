"""One module in several processes: not yet. Source: torch.nn.parallel.distributed."""

from __future__ import annotations

from typing import Any

from ...facades import unsupported
from ..module import Module

__all__ = ["DistributedDataParallel"]

DistributedDataParallel: Any = unsupported.kind("nn.parallel", "DistributedDataParallel", Module)
DistributedDataParallelCPU: Any = unsupported.kind("nn.parallel", "DistributedDataParallelCPU", Module)
