"""``torch.distributed.tensor.parallel``: layers whose weights are divided among processes."""

from __future__ import annotations

from ....core import late as _late
from .api import parallelize_module
from .loss import loss_parallel
from .style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

_late.adopt(__name__)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "RowwiseParallel",
    "SequenceParallel", "loss_parallel", "parallelize_module",
]  # fmt: skip
