"""Functions that a tracer of programs (``torch.fx``) calls without looking inside.

They are listed here, below the tracer, so that modules can list theirs without importing it.
"""

from __future__ import annotations

from typing import Any

WHOLE: dict[tuple[int, str], dict[str, Any]] = {}  # by the identity of a module's globals and a name among them: the globals


def keep_whole(scope: dict[str, Any], *names: str) -> None:
    """Have tracers call the functions that a module's globals name, without looking inside."""
    for name in names:
        WHOLE[id(scope), name] = scope
