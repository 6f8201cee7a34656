"""The other transforms of ``torch.func``. Source: torch._functorch.eager_transforms."""

from __future__ import annotations

from ..func import debug_unwrap, functionalize, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = ["debug_unwrap", "functionalize", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
