"""Operations that programs add by ``torch.library``: where ``torch.ops.NAMESPACE.NAME`` finds them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NAMESPACES: dict[str, SimpleNamespace] = {}


def add(qualified_name: str, operation: Any) -> None:
    """Make an operation ``torch.ops.NAMESPACE.NAME``; ``qualified_name`` is ``'NAMESPACE::NAME'``."""
    namespace, _, name = qualified_name.partition("::")
    setattr(NAMESPACES.setdefault(namespace, SimpleNamespace()), name, operation)
