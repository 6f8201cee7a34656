"""Key-value stores through which processes find each other: in memory, in a file, over TCP. Source: torch.distributed."""

from __future__ import annotations

from ...core import late as _late
from .base import Store as Store
from .file import FileStore as FileStore
from .memory import HashStore as HashStore
from .prefix import PrefixStore as PrefixStore
from .tcp import TCPStore as TCPStore

_late.adopt(__name__)

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]
