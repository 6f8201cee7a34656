"""Arguments that several functions share, declared once: of builders that choose weights, and of classes derived from each other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ._api import register_model
from ._utils import handle_legacy_interface

Init = Callable[..., None]


def shown_as(
    build: Callable[..., Any], builder: Callable[..., Any], after: str = "", hidden: tuple[str, ...] = (), **weights: tuple[Any, Any]
) -> Any:
    """``builder``, registered under the name of ``build``, with its documentation and its keyword-only arguments beside the own ones.

    Args:
        build: makes the model of what ``builder`` has chosen.
        builder: what users call; all of its arguments are keyword-only.
        after: argument of ``builder`` behind which those of ``build`` stand.
        hidden: arguments of ``builder`` that are not shown.
        weights: for each argument that takes weights their enum, and the weights that the old argument (``pretrained`` in place of
            ``weights`` in its name) stands for where it is true.
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(builder, name, getattr(build, name))
    builder.__annotations__.update({name: enum | None for name, (enum, _) in weights.items()})
    own, shown = inspect.signature(build), []
    for parameter in inspect.signature(builder).parameters.values():
        if parameter.name not in hidden:
            shown.append(parameter)
        if parameter.name == after:
            shown += [extra for extra in own.parameters.values() if extra.kind is extra.KEYWORD_ONLY]
    builder.__signature__ = inspect.Signature(shown, return_annotation=own.return_annotation)  # type: ignore[attr-defined]
    old = {"weights": "pretrained", "weights_backbone": "pretrained_backbone"}
    return register_model()(handle_legacy_interface(**{name: (old[name], meant) for name, (_, meant) in weights.items()})(builder))


def taking(base: Init, **changed: Any) -> Callable[[Init], Init]:
    """Decorates ``__init__(self, *, own=None, **others)``: it takes the arguments of ``base`` and then its own, by position or name.

    Args:
        base: another ``__init__``. Arguments of it that are named again keep its place.
        changed: arguments of ``base`` that have other defaults.
    """
    inherited = inspect.signature(base).parameters.values()
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
