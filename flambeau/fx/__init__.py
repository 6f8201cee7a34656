"""``torch.fx``: marks for a tracer that is not there yet. Tracing and graphs are not supported."""

from __future__ import annotations

from typing import Any

from ..core import late as _late
from ..facades import unsupported

_late.adopt(__name__)

__all__ = ["has_side_effect", "wrap"]

_side_effectful: set[Any] = set()


def wrap(fn_or_name: Any) -> Any:
    """Have a tracer call a function without looking inside.

    Args:
        fn_or_name: the function, or its name in the module that calls this.
    Returns: ``fn_or_name`` itself.
    Raises:
        RuntimeError: neither a function nor a name.
    Source: torch.fx.wrap.
    Example:
        >>> torch.fx.wrap("len")
        'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """Have a graph keep calls of a function whose results nobody uses.

    Args:
        fn: the function.
    Returns: ``fn`` itself.
    Source: torch.fx.has_side_effect.
    Example:
        >>> torch.fx.has_side_effect(print) is print
        True
    """
    _side_effectful.add(fn)
    return fn


globals().update(
    unsupported.names(
        "fx", "replace_pattern symbolic_trace", "CodeGen Graph GraphModule Interpreter Node PH ProxyableClassMeta Proxy Tracer Transformer"
    )
)
