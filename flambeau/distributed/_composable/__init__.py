"""``torch.distributed._composable``: changes of modules in place, for several processes."""

from __future__ import annotations

from ...core import late as _late
from .fsdp import fully_shard
from .replicate import replicate

_late.adopt(__name__)

__all__ = ["fully_shard", "replicate"]
