"""The named tuples that operations return, by the operation's name: ``torch.return_types.max``. Source: torch.return_types."""

from __future__ import annotations

from typing import Any

from .core.calls.registry import TABLES
from .core.calls.return_types import _made, named_result

_NAMESPACES = ("torch", "linalg")


def _classes() -> dict[str, Any]:
    """Every class by name: those of the registry's operations, and those that composites made."""
    classes = dict(_made)
    for namespace in _NAMESPACES:
        for entry in TABLES[namespace].values():
            fields = getattr(entry, "returns", None)
            if isinstance(fields, tuple) and not entry.result_name.startswith("_"):
                classes[entry.result_name] = named_result(entry.result_name, fields)
    return classes


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        cls = _classes().get(name)
        if cls is not None:
            globals()[name] = cls
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_classes())
