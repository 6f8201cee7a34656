"""Functions that a tracer of programs (``torch.fx``) calls without looking inside.

They are listed here, below the tracer, so that modules can list theirs without importing it.
"""

from __future__ import annotations

import builtins
import functools
import math
from typing import Any

WHOLE: dict[tuple[int, str], dict[str, Any]] = {}  # by the identity of a module's globals and a name among them: the globals


def keep_whole(scope: dict[str, Any], *names: str) -> None:
    """Have tracers call the functions that a module's globals name, without looking inside."""
    for name in names:
        WHOLE[id(scope), name] = scope


def is_whole(function: Any) -> bool:
    """Whether tracers call a function without looking inside; those of ``math`` they always do."""
    named = (scope.get(name, getattr(builtins, name, None)) for (_, name), scope in WHOLE.items())
    return id(function) in mathematics() or any(each is function for each in named)


@functools.cache
def mathematics() -> set[int]:
    """The identities of the functions of ``math``."""
    return {id(function) for name, function in vars(math).items() if not name.startswith("_") and callable(function)}
