"""Everyday programs run twice: with flambeau, and with real PyTorch where it is installed, which shows that they are right themselves."""

from __future__ import annotations

from types import ModuleType

import pytest

import flambeau


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request: pytest.FixtureRequest) -> ModuleType:
    """The library under the name by which programs know it, seeded."""
    library = flambeau if request.param == "flambeau" else request.getfixturevalue("oracle")
    library.manual_seed(0)
    return library
