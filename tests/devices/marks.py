"""What some of CUDA's tests need of the machine: several devices, or work that waits until it is asked for, as on the stand-in for CuPy."""

from __future__ import annotations

import os

import pytest

import flambeau

IS_REAL = os.environ.get("FLAMBEAU_TEST_CUPY") == "real"
several_devices = pytest.mark.skipif(1 <= flambeau.cuda.device_count() < 3, reason="needs three devices")
work_that_waits = pytest.mark.skipif(IS_REAL, reason="a GPU works before it is asked for results")
