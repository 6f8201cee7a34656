"""``DistributedDataParallel``, synchronised batch norm, optimizers and other libraries' calls, in two processes: one start for all checks."""

from __future__ import annotations

import pytest
from together import assert_passed, names_of

pytest.importorskip("mpi4py")


@pytest.mark.parametrize("name", names_of("ddp_ranks"))
def test_two_ranks(name):
    assert_passed("ddp_ranks", name)
