"""Machine code of fast paths, for tests of what it does."""

from __future__ import annotations

from typing import Any

import pytest

from flambeau.core.arrays.native import NoKernel, switch
from flambeau.core.calls import machine_calls
from flambeau.kernels.compiler import target
from flambeau.kernels.fastpath import start
from flambeau.kernels.fastpath.interpreter import Unsupported, interpreter


def load_machine_code(loaded: list[Any]) -> None:
    """Load it; skip the test where it need not be there, and fail where it should be and ``loaded``, which it fills, is empty."""
    if machine_calls.CHOSEN == "python":
        pytest.skip("FLAMBEAU_FAST_PATH=python")
    if not machine_calls._finders:
        start.start()
    if loaded:
        return
    if not switch.on and machine_calls.CHOSEN != "machine":
        pytest.skip("kernels are off")
    try:
        interpreter(), target.current()
    except (Unsupported, NoKernel, ImportError) as error:
        pytest.skip(f"machine code of fast paths is not for this interpreter, or this machine: {error}")
    pytest.fail("machine code of fast paths should be there, and is not")
