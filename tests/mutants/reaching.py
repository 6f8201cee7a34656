"""Which tests run a function: a plugin for one run of the tests, with Python 3.12 or newer.

    FLAMBEAU_KERNELS=numpy python -m pytest -n 2 -p tests.mutants.reaching    # and with FLAMBEAU_KERNELS_FROM=1, tests/kernels

Each process of the run writes lines of a test and numbers of functions to a file in ``MUTANTS_REACH``; ``reached`` reads all of them.
A function that is run in a child process, or at the import alone, is reached by none.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

PACKAGE = str(Path(__file__).parents[2] / "flambeau") + os.sep
FEW = 400  # tests that are kept of a function: those that run the fewest other functions, from all files

_seen: set[CodeType] = set()
_numbers: dict[tuple[str, str], int] = {}
_file: Any = None


def _name(code: CodeType) -> tuple[str, str]:
    """The file, and the function at the top of it or the method; of rules in decorators, which have no name, the line."""
    outermost = code.co_qualname.partition(".<locals>")[0]
    return code.co_filename.removeprefix(PACKAGE), f"line {code.co_firstlineno}" if outermost == "<lambda>" else outermost


def pytest_sessionstart(session: pytest.Session) -> None:
    global _file
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    folder = Path(os.environ["MUTANTS_REACH"])
    folder.mkdir(parents=True, exist_ok=True)
    _file = (folder / f"{os.getpid()}.jsonl").open("w")

    def started(code: CodeType, offset: int) -> Any:
        if PACKAGE and code.co_filename.startswith(PACKAGE):
            _seen.add(code)
        return monitoring.DISABLE

    monitoring.use_tool_id(4, "reaching")
    monitoring.register_callback(4, monitoring.events.PY_START, started)
    monitoring.set_events(4, monitoring.events.PY_START)


def pytest_sessionfinish(session: pytest.Session) -> None:
    sys.monitoring.free_tool_id(4)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _seen.clear()
    sys.monitoring.restart_events()  # type: ignore[attr-defined]
    result = yield
    numbers = []
    for name in sorted({_name(code) for code in _seen}):
        if name not in _numbers:
            _numbers[name] = len(_numbers)
            _file.write(json.dumps(name) + "\n")
        numbers.append(_numbers[name])
    _file.write(json.dumps([item.nodeid, *numbers]) + "\n")
    _file.flush()
    return result


@cache
def reached() -> dict[tuple[str, str], list[str]]:
    """For each function tests that run it, the most particular of each file first; empty where no run was recorded."""
    if "MUTANTS_REACH" not in os.environ:
        return {}
    found: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for file in Path(os.environ["MUTANTS_REACH"]).glob("*.jsonl"):
        names: list[tuple[str, str]] = []
        for line in file.read_text().splitlines():
            first, *rest = json.loads(line)
            if len(rest) == 1 and isinstance(rest[0], str):
                names.append((first, rest[0]))
                continue
            for number in rest:
                found[names[number]].append((len(rest), first))
    return {name: _mixed(tests)[:FEW] for name, tests in found.items()}


def _mixed(tests: list[tuple[int, str]]) -> list[str]:
    """Of each file the most particular test, then of each the second, and so on: other files look at other things."""
    turns: Counter[str] = Counter()
    placed = []
    for size, test in sorted(tests):
        file = test.partition("::")[0]
        placed.append((turns[file], size, test))
        turns[file] += 1
    return [test for _, _, test in sorted(placed)]
