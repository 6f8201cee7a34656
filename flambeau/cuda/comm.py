"""Deprecated: use ``torch.nn.parallel.comm``. Source: torch.cuda.comm."""

from __future__ import annotations

from ..nn.parallel.comm import broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
