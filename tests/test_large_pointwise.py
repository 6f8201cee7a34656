"""Large arrays take other loops than small ones in some activations and limits: the values must be the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e30, -1e30, 0.25]
CASES: dict[str, Callable[[Any], Any]] = {
    "relu": flambeau.relu,
    "sigmoid": flambeau.sigmoid,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp(min=0.5),
    "clamp_max": lambda x: x.clamp(max=0.5),
    "clamp_crossed": lambda x: x.clamp(1, -1),
    "leaky_relu": F.leaky_relu,
    "leaky_relu_steep": lambda x: F.leaky_relu(x, 2.0),
    "elu": F.elu,
    "softplus": F.softplus,
    "hardshrink": F.hardshrink,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_large_equals_small(name: str, dtype: str) -> None:
    small = flambeau.tensor(SPECIAL, dtype=getattr(flambeau, dtype))
    expected = CASES[name](small).numpy()
    got = CASES[name](small.repeat(1000)).numpy().reshape(1000, -1)
    assert_rows_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_large_gradient_equals_small(name: str, dtype: str) -> None:
    small = flambeau.tensor(SPECIAL, dtype=getattr(flambeau, dtype), requires_grad=True)
    large = small.detach().repeat(1000).requires_grad_()
    CASES[name](small).backward(small.detach())  # NaN and infinities among the cotangents must not leak through a zero
    CASES[name](large).backward(large.detach())
    assert_rows_equal(large.grad.numpy().reshape(1000, -1), small.grad.numpy())


def assert_rows_equal(got: np.ndarray, expected: np.ndarray) -> None:
    for row in (got[0], got[-1]):
        np.testing.assert_allclose(row, expected, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(row) & ~np.isnan(row), np.signbit(expected) & ~np.isnan(expected))
