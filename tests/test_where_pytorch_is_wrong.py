"""The programs of docs/where-pytorch-is-wrong.md: right here, and still wrong in PyTorch."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import flambeau

PAGE = Path(__file__).resolve().parents[1] / "docs" / "where-pytorch-is-wrong.md"
PROGRAMS = dict(re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def run(program: str, torch: Any) -> tuple[float, float]:
    """The error of a program's result, and what rounding explains."""
    space = {"torch": torch}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(program, PAGE.name, "exec"), space)
    return space["error"], space["bound"]


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("\n## ") == 20


@pytest.mark.parametrize("title", PROGRAMS)
def test_right_here(title: str) -> None:
    error, bound = run(PROGRAMS[title], flambeau)
    assert error < bound


@pytest.mark.oracle
@pytest.mark.parametrize("title", PROGRAMS)
def test_still_wrong_in_pytorch(title: str, oracle: Any) -> None:
    error, bound = run(PROGRAMS[title], oracle)
    assert error > bound, f"PyTorch has mended it: take {title!r} from docs/{PAGE.name}, and follow PyTorch"
