"""The code in docs/kernels.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flambeau.kernels.compiler import target

PAGE = Path(__file__).resolve().parent.parent / "docs" / "kernels.md"


def test_the_code_of_the_page_runs() -> None:
    pytest.importorskip("llvmlite")
    try:
        target.host()
    except target.UnsupportedMachine as reason:
        pytest.skip(str(reason))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 7
    scope: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number + 1}", "exec", dont_inherit=True), scope)
