"""A pytest plugin for a machine with a GPU: CUDA's tests run on CuPy itself. Run as ``pytest -p devices.with_cupy``.

A test that asks for more devices than the machine has is skipped, by the error that says so.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

os.environ["FLAMBEAU_TEST_CUPY"] = "real"

import flambeau

DEVICES = flambeau.cuda.device_count()
if not DEVICES:
    raise pytest.UsageError("CuPy finds no GPU on this machine")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    try:
        yield
    except flambeau.AcceleratorError as error:
        if "invalid device ordinal" not in str(error) or DEVICES > 2:
            raise
        pytest.skip(f"needs more devices than the {DEVICES} of this machine")
