"""``torch._C._nn``: the parser of arguments that ``Module.to``, and packages that follow it, use."""

from __future__ import annotations

from typing import Any

from ...nn._module_convert import _parse_to as _parsed

__all__ = ["_parse_to"]


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, ``non_blocking`` and memory format of a call of ``to``."""
    return _parsed(args, kwargs)
