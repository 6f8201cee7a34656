"""Work on several devices and in several processes. Source: torch.nn.parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core import late as _late
from . import comm as comm
from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

if TYPE_CHECKING:
    from .distributed import DistributedDataParallel as DistributedDataParallel

_late.adopt(__name__)

__all__ = ["replicate", "scatter", "parallel_apply", "gather", "data_parallel", "DataParallel", "DistributedDataParallel"]


def __getattr__(name: str) -> Any:
    if name in ("DistributedDataParallel", "DistributedDataParallelCPU"):  # late, as most programs are one process
        from .distributed import DistributedDataParallel

        return DistributedDataParallel
    return _late.submodule(__name__, name, ("distributed",))
