"""Work on several devices. Source: torch.nn.parallel."""

from __future__ import annotations

from . import comm as comm
