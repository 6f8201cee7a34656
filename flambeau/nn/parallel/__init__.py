"""Work on several devices. Source: torch.nn.parallel."""

from __future__ import annotations

from ...core import late as _late
from . import comm as comm, distributed as distributed
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel, DistributedDataParallelCPU as DistributedDataParallelCPU
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

_late.adopt(__name__)

__all__ = ["replicate", "scatter", "parallel_apply", "gather", "data_parallel", "DataParallel", "DistributedDataParallel"]
