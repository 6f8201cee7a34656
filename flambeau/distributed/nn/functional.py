"""``torch.distributed.nn.functional``: names that raise ``NotImplementedError``."""

from __future__ import annotations

from ... import _unsupported

globals().update(
    _unsupported.names(
        "distributed.nn.functional", "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter"
    )
)
