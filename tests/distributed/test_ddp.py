"""``DistributedDataParallel``, synchronised batch norm, optimizers and others' calls, in two processes: one start for all checks."""

from __future__ import annotations

import pytest
from distributed.together import assert_passed, names_of

pytest.importorskip("mpi4py")


@pytest.mark.parametrize("name", names_of("distributed.ddp_ranks"))
def test_two_ranks(name):
    assert_passed("distributed.ddp_ranks", name)
