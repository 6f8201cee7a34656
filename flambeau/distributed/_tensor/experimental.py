"""``torch.distributed._tensor.experimental``: ``torch.distributed.tensor.experimental`` under its first name."""

from __future__ import annotations

from ..tensor.experimental import (  # type: ignore[attr-defined]
    context_parallel,
    implicit_replication,
    local_map,
    register_sharding,
)

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
