"""Twelve kinds of model give the same losses compiled and as they are written, over twenty steps."""

from __future__ import annotations

from typing import Any

import pytest
from capture.models import MODELS

import flambeau as torch


def losses(name: str, compiles: bool, backend: str = "inductor") -> tuple[list[float], Any]:
    torch.manual_seed(0)
    step, batches = MODELS[name]()
    called = torch.compile(step, backend=backend, fullgraph=True) if compiles else step
    torch.manual_seed(1)
    return [called(*batch).item() for batch in batches], called


@pytest.mark.parametrize("name", MODELS)
def test_steps_give_the_losses_of_eager_ones(name: str) -> None:
    want, _ = losses(name, False)
    got, called = losses(name, True)
    assert got == pytest.approx(want, rel=1e-5)
    assert 1 <= len(called._call.programs) <= 2, "a second one where gradients were there at the beginning"


@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_recorded_operations_run_one_by_one(name: str) -> None:
    assert losses(name, True, "aot_eager")[0] == pytest.approx(losses(name, False)[0], rel=1e-5)
