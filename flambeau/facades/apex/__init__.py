"""``flambeau.apex``: the calls of NVIDIA's Apex that old programs make; today's are ``torch.autocast`` and ``torch.amp.GradScaler``."""

from ...core import late as _late
from . import amp as amp

_late.adopt(__name__)

__all__ = ["amp"]
