"""The oracle: real PyTorch, where it is installed.  Tests and programs get it here and nowhere else (``test_oracle.py`` holds it)."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

VERSION = "2.13.0"
HAS_ORACLE = importlib.util.find_spec("torch") is not None
# What tests call PyTorch by: functions, fixtures, and texts that name fixtures.
NAMES = frozenset(("oracle", "of_pytorch", "recorded_oracle", "theirs", "same", "pytorch", "torchvision", "HAS_ORACLE"))
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


def asks_by_name(function: Any) -> bool:
    """Whether a name for PyTorch is in the code of a function, or of one of the tests' own that it calls."""
    return _asks(inspect.unwrap(function), set())


def _asks(function: Any, seen: set[CodeType]) -> bool:
    codes, names = [function.__code__], set[Any]()
    for code in codes:
        seen.add(code)
        names.update(code.co_names, code.co_varnames, [part for part in code.co_consts if isinstance(part, str)])
        codes.extend(part for part in code.co_consts if isinstance(part, CodeType) and part not in seen)
    if names & NAMES:
        return True
    called = [inspect.unwrap(part) for part in map(function.__globals__.get, names) if callable(part)]
    here = Path(__file__).parents[1]
    return any(
        isinstance(part, FunctionType)
        and part.__code__ not in seen
        and Path(part.__code__.co_filename).is_relative_to(here)
        and _asks(part, seen)
        for part in called
    )
