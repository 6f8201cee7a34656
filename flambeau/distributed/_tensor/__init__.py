"""``torch.distributed._tensor``: ``torch.distributed.tensor`` under its first name."""

from __future__ import annotations

from ..tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor"]
