"""Addresses, checksums and classes of data sets, from ``tables.json`` beside this module."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _tables() -> dict[str, Any]:
    return json.loads((Path(__file__).parent / "tables.json").read_text(encoding="utf-8"))


def table(name: str) -> Any:
    """The entries of a data set."""
    return _tables()[name]


def tuples(name: str) -> Any:
    """The entries of a data set, with tuples for the lists that hold no others."""
    return _with_tuples(table(name))


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_tuples(entry) for name, entry in value.items()}
    if not isinstance(value, list):
        return value
    return [_with_tuples(entry) for entry in value] if any(isinstance(entry, list) for entry in value) else tuple(value)
