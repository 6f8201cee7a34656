"""The oracle: real PyTorch, where it is installed.  Tests and programs get it here and nowhere else (``test_oracle.py`` holds it)."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

import pytest

VERSION = "2.13.0"
HAS_ORACLE = importlib.util.find_spec("torch") is not None
RESTS = "PyTorch is not installed"  # why a test rests; conftest counts such tests, and says at the end how to wake them


def rest() -> None:
    """Let the test rest, or the whole module where it is called at its top."""
    pytest.skip(RESTS, allow_module_level=True)


def pytorch(name: str = "torch") -> ModuleType:
    """Real PyTorch, or one of its modules, on one thread; the test, or the module that is being imported, rests where there is none."""
    if not HAS_ORACLE:
        rest()
    importlib.import_module("torch").set_num_threads(1)
    return importlib.import_module(name)
