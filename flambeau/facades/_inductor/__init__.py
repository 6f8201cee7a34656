"""``torch._inductor``: settings that programs give PyTorch's code generator. Ours has none of them, so they are kept and do nothing."""

from __future__ import annotations

from ...core import late as _late
from . import config as config

_late.adopt(__name__)

__all__ = ["config"]
