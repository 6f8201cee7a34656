"""Tensors, modules and checkpoints that are divided among processes, in two processes: one start for all checks."""

from __future__ import annotations

import pytest
from distributed.together import assert_passed, names_of

pytest.importorskip("mpi4py")


@pytest.mark.parametrize("name", names_of("distributed.shard_ranks"))
def test_two_ranks(name):
    assert_passed("distributed.shard_ranks", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", names_of("distributed.shard_ranks"))
def test_four_ranks(name):
    assert_passed("distributed.shard_ranks", name, 4)
