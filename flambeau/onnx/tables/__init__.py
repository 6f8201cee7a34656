"""Operations in ONNX: one row for each, by the name of PyTorch's kernel.

A row is a function of a ``Builder`` and the operation's arguments, in which tensors and symbolic sizes are ``Value``s.
``@row("add.Tensor")`` is for one overload, ``@row("add")`` for all of a name; a name with an underscore behind it, which writes, has the
row of the one without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..builder import Value

__all__ = ["ROWS"]

ROWS: dict[str, Callable[..., Any]] = {}


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the row of these operations of ``aten``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            ROWS[name] = function
        return function

    return register


def of_vectors(row: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a row of what works along a dimension; tensors without one are vectors of one element."""

    @functools.wraps(row)
    def translate(b: Any, x: Value, *args: Any, **options: Any) -> Any:
        if x.rank:
            return row(b, x, *args, **options)
        vectors = [b.unsqueeze(arg, [0]) if isinstance(arg, Value) and not arg.rank else arg for arg in args]
        found = row(b, b.unsqueeze(x, [0]), *vectors, **options)
        for part in found if isinstance(found, list) else [found]:
            part.shape = (1, *b.shape)
        return [b.squeeze(part, [0]) for part in found] if isinstance(found, list) else b.squeeze(found, [0])

    return translate


def of_reduced_vectors(row: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a row that leaves the dimension out, or keeps it where ``keepdim``, its only truth value, says so."""

    @functools.wraps(row)
    def translate(b: Any, x: Value, *args: Any, keepdim: bool = False, **options: Any) -> Any:
        if x.rank:
            return row(b, x, *args, keepdim=keepdim, **options) if keepdim else row(b, x, *args, **options)
        return row(b, b.unsqueeze(x, [0]), *[False if arg is True else arg for arg in args], **options)

    return translate


def row_of(func: Any) -> Callable[..., Any] | None:
    """The row of an overload; None where there is none."""
    from . import (  # noqa: F401  # they fill ROWS
        counts,
        elementwise,
        equations,
        factories,
        functions,
        indexing,
        layers,
        losses,
        matrices,
        orders,
        packed,
        recurrent,
        reductions,
        shapes,
        windows,
    )

    if func.namespace != "aten":
        return None
    name, overload = func._opname, func._overloadname
    for base in (name, name.removesuffix("_")):
        for key in (f"{base}.{overload}", base):
            if key in ROWS:
                return ROWS[key]
    return None
