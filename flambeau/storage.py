"""Storages under the name of PyTorch's module. Source: torch.storage."""

from __future__ import annotations

from .core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
