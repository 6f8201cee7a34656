"""Faults in training by the launcher: it starts again from the checkpoint and comes to the same losses, and nothing is left."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("mpi4py")

import kill_matrix

SHORT = ("kill:backward:1", "stop:collective:0", "raise:checkpoint:0")
ALL = [f"{fault}:{phase}:{rank}" for phase in kill_matrix.PHASES for fault in kill_matrix.FAULTS for rank in range(2)]


@pytest.fixture(scope="module")
def losses():
    clean = kill_matrix.run("none:none:-1")
    assert not kill_matrix.problems(clean, clean["losses"])
    assert len(clean["losses"]) == kill_matrix.STEPS
    return clean["losses"]


@pytest.mark.parametrize("fault", [pytest.param(each, marks=[] if each in SHORT else pytest.mark.slow) for each in ALL])
def test_a_fault(fault, losses):
    result = kill_matrix.run(fault)
    assert not kill_matrix.problems(result, losses)
    _, phase, rank = fault.split(":")
    if phase == "collective":  # the others were told who it was
        assert re.search(rf"rank {rank} on \S+ is lost(, which was in .*)?: ", result["errors"])


@pytest.mark.parametrize(
    "row", [pytest.param(each, marks=[] if each == "launcher killed" else pytest.mark.slow) for each in kill_matrix.OTHERS]
)
def test_another_row(row):
    assert not kill_matrix.OTHERS[row](2)
