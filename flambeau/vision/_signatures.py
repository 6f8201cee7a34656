"""Arguments that the constructors of derived classes share, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

Init = Callable[..., None]


def taking(base: Init, without: tuple[str, ...] = (), **changed: Any) -> Callable[[Init], Init]:
    """Decorates ``__init__(self, *, own=None, **others)``: it takes the arguments of ``base`` and then its own, by position or name.

    Args:
        base: another ``__init__``. Arguments of it that are named again keep its place.
        without: arguments of ``base`` that are not taken.
        changed: arguments of ``base`` that have other defaults.
    """
    inherited = [p for p in inspect.signature(base).parameters.values() if p.name not in without]
    listed = [p.replace(default=changed.get(p.name, p.default)) for p in inherited if p.kind is p.POSITIONAL_OR_KEYWORD]
    others = [p for p in inherited if p.kind is p.VAR_KEYWORD]

    def decorate(init: Init) -> Init:
        signature, known = inspect.signature(init), {p.name for p in listed}
        added = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.name not in known]
        shown = [*listed, *(p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in added)]
        names = [p.name for p in shown]

        @wraps(init)
        def complete(*args: Any, **kwargs: Any) -> None:
            if len(args) > len(names):
                raise TypeError(f"{init.__qualname__}() takes {len(names)} positional arguments but {len(args)} were given")
            defaults = {name: value for name, value in changed.items() if name not in kwargs}
            init(args[0], **{**defaults, **dict(zip(names[1:], args[1:]))}, **kwargs)

        complete.__signature__ = signature.replace(parameters=[*shown, *others])  # type: ignore[attr-defined]
        return complete

    return decorate
