"""Names from files that go into generated code, which is run."""

from __future__ import annotations

import keyword
from typing import Any


def identifier(name: Any) -> str:
    """A name that goes into generated code, which is run: nothing but an identifier may.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name")
    return name


def path(name: Any) -> str:
    """A dotted path of an attribute; generated code puts its parts in quotes where they are no identifiers.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(name, str) or not name.isprintable() or not all(name.split(".")) or any(sign in name for sign in "\"\\'"):
        raise ValueError(f"{name!r} is no path")
    return name
