"""Every composition of ``python -m tests.programs.func_compositions`` once, against PyTorch."""

from __future__ import annotations

import warnings

import pytest
from func_compositions import COMPOSITIONS, Source, compare

import flambeau


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_composition_gives_what_pytorchs_gives(name, of_pytorch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says where it has no batching rule
        expected = of_pytorch(lambda torch: COMPOSITIONS[name](Source(torch)))
    assert compare(COMPOSITIONS[name](Source(flambeau)), expected) < 1e-9


def test_there_are_many():
    assert len(COMPOSITIONS) >= 60
