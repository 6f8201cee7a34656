"""``torch._dynamo.utils``: counts of what was compiled. Source: torch._dynamo.utils."""

from __future__ import annotations

from ...compiler.compiled import counters

__all__ = ["counters"]
