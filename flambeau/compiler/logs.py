"""Telling why programs are compiled again, or not at all.

``TORCH_LOGS=recompiles,graph_breaks,graph_code,dynamic`` (or ``+dynamo`` for all of them) prints to the standard error; the same
lines go to the logger ``torch._dynamo``, at the level of information.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

__all__ = ["KINDS", "note", "set_logs", "wanted"]

KINDS = ("recompiles", "graph_breaks", "graph_code", "dynamic")
_LOGGER = logging.getLogger("torch._dynamo")
_chosen: set[str] | None = None


def _read(text: str) -> set[str]:
    found: set[str] = set()
    for word in text.split(","):
        word = word.strip().lstrip("+")
        if word in ("dynamo", "all"):
            found.update(KINDS)
        elif word in ("graph", "output_code", "aot_graphs"):
            found.add("graph_code")
        elif word in KINDS:
            found.add(word)
    return found


def wanted(kind: str) -> bool:
    """Whether lines of that kind are printed."""
    global _chosen
    if _chosen is None:
        _chosen = _read(os.environ.get("TORCH_LOGS", ""))
    return kind in _chosen


def set_logs(**kinds: Any) -> None:
    """Switch kinds on and off, as ``TORCH_LOGS`` does at the start."""
    global _chosen
    _chosen = {kind for kind in KINDS if wanted(kind)}
    for kind, on in kinds.items():
        words = _read(kind)
        _chosen = _chosen | words if on else _chosen - words


def note(kind: str, text: str) -> None:
    """Say something, where it is wanted."""
    if wanted(kind):
        print(f"[{kind}] {text}", file=sys.stderr)
    _LOGGER.info("[%s] %s", kind, text)
