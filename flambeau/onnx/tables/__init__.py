"""Operations in ONNX: one row for each, by the name of PyTorch's kernel.

A row is a function of a ``Builder`` and the operation's arguments, in which tensors and symbolic sizes are ``Value``s.
``@row("add.Tensor")`` is for one overload, ``@row("add")`` for all of a name; a name with an underscore behind it, which writes, has the
row of the one without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ROWS"]

ROWS: dict[str, Callable[..., Any]] = {}


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the row of these operations of ``aten``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            ROWS[name] = function
        return function

    return register


def row_of(func: Any) -> Callable[..., Any] | None:
    """The row of an overload; None where there is none."""
    from . import elementwise, factories, indexing, layers, losses, recurrent, reductions, shapes  # noqa: F401  # they fill ROWS

    if func.namespace != "aten":
        return None
    name, overload = func._opname, func._overloadname
    for base in (name, name.removesuffix("_")):
        for key in (f"{base}.{overload}", base):
            if key in ROWS:
                return ROWS[key]
    return None
