"""Native softmax and log-softmax against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import softmax as kernels
from flambeau.ops import softmaxes

from .guard import guarded

REFERENCES = {"softmax": softmaxes._softmax, "log_softmax": softmaxes._log_softmax}
SLOPES = {"softmax": softmaxes._softmax_slope, "log_softmax": softmaxes._log_softmax_slope}
CLOSE = {np.float32: {"rtol": 4e-6, "atol": 2e-6}, np.float64: {"rtol": 1e-13, "atol": 1e-14}}

shapes = st.lists(st.one_of(st.integers(1, 9), st.integers(10, 70)), min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@given(data=st.data(), shape=shapes, dtype=st.sampled_from([np.float32, np.float64]), end=st.booleans())
@settings(max_examples=40, deadline=None)
def test_values_and_gradients_are_those_of_the_reference(name, data, shape, dtype, end):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    rng = np.random.default_rng(len(shape))
    x, g = (guarded((rng.standard_normal(shape) * 4).astype(dtype), end) for _ in range(2))
    y = getattr(kernels, name)(x, dim)
    assert y.dtype == dtype and y.flags.c_contiguous
    np.testing.assert_allclose(y, REFERENCES[name](x, dim), **CLOSE[dtype])
    slope = getattr(kernels, name + "_backward")(g, guarded(y, end), dim, None)
    size = max(abs(g).max() * shape[dim] ** 0.5, 1)
    np.testing.assert_allclose(slope, SLOPES[name](g, y, dim), rtol=CLOSE[dtype]["rtol"], atol=CLOSE[dtype]["atol"] * size)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (2, 5, 64)])
def test_infinities_and_nan_are_as_in_the_reference(name, shape):
    rng = np.random.default_rng(1)
    x = rng.choice([0.0, 1.0, -np.inf, 90.0, -90.0], shape).astype(np.float32)
    x[0] = -np.inf
    x[1].reshape(-1)[1] = np.nan
    x[-1].reshape(-1)[2] = np.inf
    for dim in range(len(shape)):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(getattr(kernels, name)(x, dim), REFERENCES[name](x, dim), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
def test_halves_are_computed_in_float32(dtype, dim):
    x = torch.randn(90, 100).to(dtype).requires_grad_()
    for name in ("softmax", "log_softmax"):
        y = getattr(torch, name)(x, dim)
        (slope,) = torch.autograd.grad(y, x, torch.ones(90, 100).cumsum(1).to(dtype))
        with native.disabled():
            want = getattr(torch, name)(x, dim)
            (want_slope,) = torch.autograd.grad(want, x, torch.ones(90, 100).cumsum(1).to(dtype))
        eps = torch.finfo(dtype).eps
        assert torch.allclose(y.float(), want.float(), rtol=2 * eps)
        assert torch.allclose(slope.float(), want_slope.float(), rtol=4 * eps, atol=4 * eps * want_slope.abs().max().item())


def test_a_long_row_keeps_its_digits():
    x = np.zeros(3_000_000, np.float32)
    assert abs(kernels.softmax(x, 0).sum(dtype=np.float64) - 1) < 1e-6


@pytest.mark.parametrize("shape, dim", [((1000, 100), 1), ((1000, 100), 0), ((3, 50, 1000), 1)])
def test_the_number_of_threads_does_not_change_a_bit(shape, dim):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    before, runs = pool.threads, []
    try:
        for count in (1, 2):
            pool.set_threads(count)
            y = kernels.softmax(x, dim)
            runs.append((y, kernels.softmax_backward(x, y, dim, None), kernels.log_softmax(x, dim)))
    finally:
        pool.set_threads(before)
    assert all((a == b).all() for a, b in zip(*runs, strict=True))


def test_integers_and_strided_inputs_still_work():
    x = torch.randn(200, 100).t()
    with native.disabled():
        want = torch.softmax(x, 0)
    assert torch.allclose(torch.softmax(x, 0), want) and torch.softmax(x, 0).is_contiguous()
    assert torch.softmax(torch.arange(10000).reshape(100, 100), 1, dtype=torch.float32).dtype is torch.float32
    with pytest.raises(NotImplementedError):
        torch.softmax(torch.arange(10000), 0)
