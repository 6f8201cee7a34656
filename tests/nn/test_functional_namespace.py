"""nn.functional finds the functional forms when asked."""

from __future__ import annotations

import pytest

from flambeau.nn import functional
from flambeau.ops import names, resolve


def test_functions_are_those_of_the_operations():
    for name in names("nn.functional"):
        if not name.startswith("_") and not name.endswith("_"):
            assert getattr(functional, name) is resolve("nn.functional", name)
            assert name in dir(functional) and name in functional.__all__


def test_a_found_function_is_kept():
    name = next(name for name in names("nn.functional") if not name.startswith("_"))
    getattr(functional, name)
    assert name in vars(functional)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = functional.nothing
    with pytest.raises(AttributeError, match="no attribute 'zeros'"):
        _ = functional.zeros


def test_an_old_name_is_told_its_successor():
    with pytest.raises(AttributeError, match="max_pool2d or avg_pool2d"):
        _ = functional.pool


def test_names_are_pytorchs(oracle):
    assert {name for name in functional.__all__ if not hasattr(oracle.nn.functional, name)} == set()
