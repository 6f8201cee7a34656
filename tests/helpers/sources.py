"""The package's files as syntax trees, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file.

    The collector looks neither at a tree that grows nor, afterwards, at those that stay: they have no cycles, and would make every
    full collection of the process a long one.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(path.read_text())
        gc.freeze()
    finally:
        if was_on:
            gc.enable()
    return tree
