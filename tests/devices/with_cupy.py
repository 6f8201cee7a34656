"""A pytest plugin for a machine with a GPU: CUDA's tests run on CuPy itself. Run as ``pytest -p devices.with_cupy``."""

import os

os.environ["FLAMBEAU_TEST_CUPY"] = "real"

from devices.fewer_devices import pytest_runtest_call  # noqa: F401
