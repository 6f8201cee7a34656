"""Compiled programs are machine code's from their first replay on, but for a run in which Python does all of them."""

from __future__ import annotations

import os

import pytest

from flambeau.compiler import _machine


@pytest.fixture(autouse=True)
def _machine_code_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if "FLAMBEAU_KERNELS_FROM" not in os.environ:
        monkeypatch.setattr(_machine, "SOON", 1)
        monkeypatch.setattr(_machine, "LATER", 1)
