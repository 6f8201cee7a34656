"""Files made to end or to hang the program that loads them: the restricted loader answers each with an error, and soon.

A pickle of a few bytes can make a tuple nested a million times, or one of 2**60 items by taking the same object twice again and again.
Hashing, comparing or printing those ends the process or never ends, so that the loader must do none of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="alarm signals")
@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_hostile_files_are_errors_and_soon(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.hostile_files", form, "6000"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    said = done.stdout.splitlines()
    assert done.returncode == 0, f"ended with {done.returncode} at: {said[-1:]}\n{done.stderr[-2000:]}"
    assert said[-1] == "done"
