"""``vmap`` of ``torch.func``. Source: torch._functorch.vmap."""

from __future__ import annotations

from ..func import vmap

__all__ = ["vmap"]
