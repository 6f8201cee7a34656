"""Native progressions and complex numbers of their parts: bit by bit as by the reference."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import creation as kernels

from .guard import guarded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_that_follow_a_rule_are_those_of_the_reference(dtype):
    for call in (
        lambda: torch.linspace(-1.3, 7.7, 20001, dtype=dtype),
        lambda: torch.linspace(3.0, -1e9, 33000, dtype=dtype),
        lambda: torch.linspace(0.0, float("inf"), 9000, dtype=dtype),
        lambda: torch.arange(0.5, 900.0, 0.037, dtype=dtype),
        lambda: torch.arange(7.0, -9.0, -0.001, dtype=dtype),
    ):
        with native.disabled():
            wanted = call()
        np.testing.assert_array_equal(call().numpy(), wanted.numpy())


def test_few_evenly_spaced_numbers():
    assert torch.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1] and torch.linspace(3, 4, 1).tolist() == [3]
    assert torch.linspace(0, 9, 4, dtype=torch.int64).tolist() == [0, 3, 6, 9] and torch.linspace(0, 1, 0).shape == (0,)
    assert kernels.evenly_spaced(np.dtype(np.float32), 0, 0.0, 1.0, None) is None
    assert kernels.evenly_spaced(np.dtype(np.float16), 9, 0.0, 1.0, None) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_parts_are_joined(dtype):
    rng = np.random.default_rng(0)
    for shape in ((1,), (7,), (16,), (3, 11), (130, 131)):
        for end in (True, False):
            first, second = (guarded((10 * rng.standard_normal(shape)).astype(dtype), end) for _ in range(2))
            first.reshape(-1)[0] = np.nan
            joined, polar = kernels.joined_parts(first, second, False), kernels.joined_parts(first, second, True)
            np.testing.assert_array_equal(joined.real, first)
            np.testing.assert_array_equal(joined.imag, second)
            wide = np.abs(first) * 4 * np.finfo(dtype).eps
            assert not (np.abs(polar.real - first * np.cos(second)) > wide).any()
            assert not (np.abs(polar.imag - first * np.sin(second)) > wide).any()
    assert kernels.joined_parts(first.T, second.T, False) is None and kernels.joined_parts(first, second[:1], False) is None
    x, y = torch.randn(100, 100), torch.randn(100)
    assert torch.equal(torch.complex(x.t(), y).imag, y.expand(100, 100))
