"""Calls with unusual arguments, by all ways to compute them; more of them by ``python -m tests.programs.unusual_calls``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from programs.unusual_calls import KINDS, call_of, disagreements

import flambeau as torch


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_all_ways_agree(kind: str) -> None:
    for seed in range(4):
        call = call_of(zlib.crc32(kind.encode()) + seed, [kind])
        assert not list(disagreements(call)), str(call)
