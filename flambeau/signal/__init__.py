"""Signal processing: window functions."""

from __future__ import annotations

from ..core import late as _late
from . import windows

_late.adopt(__name__)

__all__ = ["windows"]
