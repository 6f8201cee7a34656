"""Samples of PyTorch's database of operations give what PyTorch gave, where it is not installed too; ``test_op_db`` tries more with it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from libraries import OURS
from recorded_database import case, cases, outcome, problem


@pytest.mark.parametrize("key", list(cases().forms))
def test_a_sample_gives_what_pytorch_gives(key: str, recorded_oracle: Any) -> None:
    theirs, called = recorded_oracle, case(key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not (found := problem(outcome(OURS, called), outcome(theirs, called), theirs, called)), f"{called.function}: {found}"


def test_they_are_of_most_entries() -> None:
    assert len({key.rpartition("-")[0].split("-")[0] for key in cases().forms}) > 500
