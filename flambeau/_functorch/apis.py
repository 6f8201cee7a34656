"""``grad`` and ``vmap`` of ``torch.func``. Source: torch._functorch.apis."""

from __future__ import annotations

from ..func import grad, grad_and_value, vmap

__all__ = ["grad", "grad_and_value", "vmap"]
