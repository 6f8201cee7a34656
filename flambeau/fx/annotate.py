"""Types of values in a program that is traced. Source: torch.fx.annotate."""

from __future__ import annotations

from typing import Any

from .proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Say of what type a value is, which the graph notes while the program is traced.

    Args:
        val: the value. type: its type.
    Returns: ``val``.
    Raises:
        RuntimeError: it has a type already.
    Source: torch.fx.annotate.annotate.
    Example:
        >>> from flambeau.fx.annotate import annotate
        >>> module = torch.fx.symbolic_trace(lambda x: annotate(x.size(0), int))
        >>> [node.type for node in module.graph.nodes if node.name == "size"]
        [<class 'int'>]
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise RuntimeError(
            f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new type is {type}. "
            "An argument's type is that of the function's signature, and a value is annotated once."
        )
    val.node.type = type
    return val
