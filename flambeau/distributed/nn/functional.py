"""``torch.distributed.nn.functional``: names that raise ``NotImplementedError``."""

from __future__ import annotations

from ...facades import unsupported

globals().update(
    unsupported.names(
        "distributed.nn.functional", "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter"
    )
)
