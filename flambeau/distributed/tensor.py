"""``torch.distributed.tensor``: tensors spread over processes, which are not implemented yet: nothing is a ``DTensor``."""

from __future__ import annotations

from ..facades import unsupported

globals().update(
    unsupported.names(
        "distributed.tensor",
        "distribute_module distribute_tensor empty full ones rand randn zeros",
        "DTensor Partial Placement Replicate Shard",
    )
)
