"""Storages under the name of PyTorch's module. Source: torch.storage."""

from __future__ import annotations

import io
from typing import Any

from .core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(data: bytes) -> Any:
    """The storage in a plain pickle of PyTorch's, which holds it as a whole file of the old format."""
    from .serialization import load  # late: storages are imported before files

    return load(io.BytesIO(data), weights_only=False)
