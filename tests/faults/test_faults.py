"""A little of every scenario, each in processes of its own; ``python -m tests.faults`` runs them for long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and interval timers are POSIX's")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        *(("signals", "--count 700"), ("first-uses", "--count 5"), ("imports", "--count 2"), ("races", "--count 4")),
        *(("forks", "--count 5"), ("forks-beside-products", "--count 8")),
        *(("schedules", "--count 12"), ("threads", "--seconds 4"), ("files", "--count 8")),
    ],
)
def test_nothing_breaks(scenario: str, options: str) -> None:
    command = [sys.executable, "-m", "tests.faults", scenario, *options.split()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLAMBEAU_KERNELS")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout
