"""Nothing is left of processes that are killed while tensors are under way. ``python -m tests.processes`` kills many."""

from __future__ import annotations

import sys

import pytest

from .trials import failures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is read in /proc")


@pytest.mark.parametrize(("scenario", "count"), [("child", 3), ("parent", 1), ("deaf-parent", 1)])
def test_nothing_is_left(scenario, count):
    assert list(failures(scenario, 0, count, 1000)) == []
