"""``torch.cpu.amp``: older spellings of ``torch.amp`` for the CPU."""

from ...amp._by_device import classes
from ...core.dtype import bfloat16

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = classes("cpu", bfloat16)
