"""``torch._functorch``: where PyTorch defines ``torch.func``; packages import from its modules. Source: torch._functorch."""

from __future__ import annotations

from ..core import late as _late
from . import apis, eager_transforms, functional_call, vmap

_late.adopt(__name__)

__all__ = ["apis", "eager_transforms", "functional_call", "vmap"]
