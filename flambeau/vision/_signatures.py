"""Arguments that the constructors of derived classes share, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

Init = Callable[..., None]


def taking(base: Init, without: tuple[str, ...] = (), **changed: Any) -> Callable[[Init], Init]:
    """Decorates ``__init__(self, *, own=None, **others)``: it takes the arguments of ``base`` and then its own, by position or name.

    The function gets all of them by name, those that are not given with their defaults.

    Args:
        base: another ``__init__``. Arguments of it that are named again keep its place, and are as there unless another default is said.
        without: arguments of ``base`` that are not taken.
        changed: arguments of ``base`` that have other defaults.
    """

    def decorate(init: Init) -> Init:
        signature, shown = inspect.signature(init), []
        own = {p.name: p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}
        inherited = [p for p in inspect.signature(base).parameters.values() if p.name not in without]
        for parameter in inherited:
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                usual = parameter.replace(default=changed.get(parameter.name, parameter.default))
                named = own.pop(parameter.name, usual)
                shown.append(usual if named.default is named.empty else named)
        shown += own.values()
        names = [p.name for p in shown]
        defaults = {p.name: p.default for p in shown if p.default is not p.empty}

        @wraps(init)
        def complete(*args: Any, **kwargs: Any) -> None:
            if len(args) > len(names):
                raise TypeError(f"{init.__qualname__}() takes {len(names)} positional arguments but {len(args)} were given")
            given = dict(zip(names[1:], args[1:]))
            absent = {name: value for name, value in defaults.items() if name not in given and name not in kwargs}
            init(args[0], **absent, **given, **kwargs)

        shown += [p for p in inherited if p.kind is p.VAR_KEYWORD]
        complete.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return complete

    return decorate
