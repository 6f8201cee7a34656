"""``flambeau.apex``: the calls of NVIDIA's Apex that old programs make; today's are in ``torch.amp`` and ``torch.nn.parallel``."""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from . import amp as amp

_late.adopt(__name__)

__all__ = ["amp", "parallel"]


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, ("parallel",))
