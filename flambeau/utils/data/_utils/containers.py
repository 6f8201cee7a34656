"""Containers rebuilt with other items, in their own type where that is possible."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any


def is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def rebuilt_mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """``items`` as a mapping like ``like``; a plain dict where that type can be neither copied nor made from a dict."""
    try:
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)  # a subclass may carry more than its items
            clone.update(items)
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def rebuilt_sequence(like: Sequence[Any], items: list[Any]) -> Any:
    """``items`` as a sequence like ``like``; a plain list where that type can be neither copied nor made from a list."""
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items
