"""Native pooling against the reference kernels: values, places, strides and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.calls.registry import primitive
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import pooling as kernels
from flambeau.ops import pooling

from .guard import guarded

F = torch.nn.functional
seeds, dtypes = st.integers(0, 2**32 - 1), st.sampled_from(["f4", "f8"])
CLOSE = {"f4": {"rtol": 1e-5, "atol": 1e-5}, "f8": {"rtol": 1e-12, "atol": 1e-12}}


def reference(name: str):
    """The kernel over arrays that a native one stands beside."""
    return primitive(name, "nn.functional").kernel


def sample(rng: np.random.Generator, dtype: str, end: bool) -> tuple[np.ndarray, int]:
    """An input, and over how many dimensions to pool; small whole numbers, so that maxima are equal often."""
    rank = int(rng.integers(1, 3))
    shape = [*rng.integers(1, 5, rng.integers(1, 3)), *rng.integers(1, 60, rank)]
    if len(shape) == 4 and rng.random() < 0.5:
        shape[1] *= int(rng.integers(2, 9))
        rows = guarded(rng.integers(-4, 5, (shape[0], *shape[2:], shape[1])).astype(dtype), end)
        return np.moveaxis(rows, -1, 1), rank
    return guarded(rng.integers(-4, 5, shape).astype(dtype), end), rank


def windows(rng: np.random.Generator, rank: int, dilated: bool) -> list[tuple[int, ...]]:
    kernel, stride = rng.integers(1, 6, rank), rng.integers(1, 6, rank)
    dilation = rng.integers(1, 4, rank) if dilated else np.ones(rank, int)
    padding = rng.integers(0, ((kernel - 1) * dilation + 1) // 2 + 1)
    return [tuple(values.tolist()) for values in (kernel, stride, padding, dilation)]


def of_layout(array: np.ndarray, like: np.ndarray, end: bool) -> np.ndarray:
    last = not like.flags.c_contiguous
    return np.moveaxis(guarded(np.moveaxis(array, 1, -1), end), -1, 1) if last else guarded(array, end)


def same(actual, wanted, **close) -> None:
    if actual is None:
        return
    assert actual.shape == wanted.shape and actual.dtype == wanted.dtype
    shown = [[step for step, n in zip(array.strides, array.shape, strict=True) if n > 1] for array in (actual, wanted)]
    assert shown[0] == shown[1]
    np.testing.assert_allclose(actual, wanted, **(close or {"rtol": 0, "atol": 0}))


@given(seed=seeds, dtype=dtypes, end=st.booleans(), ceil_mode=st.booleans(), special=st.sampled_from([None, np.nan, -np.inf, np.inf]))
@settings(max_examples=150, deadline=None)
def test_maxima_places_and_gradients(seed, dtype, end, ceil_mode, special):
    rng = np.random.default_rng(seed)
    x, rank = sample(rng, dtype, end)
    if special is not None:
        x[rng.random(x.shape) < 0.3] = special
    arguments = (*windows(rng, rank, True), ceil_mode)
    try:
        wanted, places = pooling.max_pool_with_places(x, *arguments)
    except RuntimeError:
        assert kernels.max_pool(x, *arguments) is None
        return
    same(kernels.max_pool(x, *arguments), pooling.max_pool(x, *arguments))
    results = kernels.max_pool_with_places(x, *arguments)
    if results is not None:
        same(results[0], wanted)
        same(results[1], places)
    if (places >= 0).all():
        g = of_layout(rng.integers(-3, 4, wanted.shape).astype(dtype), x, end)
        gradient = kernels.scatter_planes(g, of_layout(places, x, end), x.shape[-rank:])
        np.testing.assert_array_equal(gradient, primitive("_max_pool_backward", "nn.functional").kernel(g, x, *arguments))


@given(
    seed=seeds, dtype=dtypes, end=st.booleans(), flags=st.tuples(st.booleans(), st.booleans()), divisor=st.sampled_from([None, None, 3, -2])
)
@settings(max_examples=150, deadline=None)
def test_averages_and_gradients(seed, dtype, end, flags, divisor):
    rng = np.random.default_rng(seed)
    x, rank = sample(rng, dtype, end)
    arguments = (*windows(rng, rank, False)[:3], *flags, divisor)
    try:
        wanted = reference(f"_avg_pool{rank}d")(x, *arguments)
    except RuntimeError:
        assert kernels.average_pool(x, *arguments) is None
        return
    same(kernels.average_pool(x, *arguments), wanted, **CLOSE[dtype])
    g = of_layout(rng.standard_normal(wanted.shape).astype(dtype), x, end)
    same(kernels.average_backward(g, x.shape, *arguments), reference("_avg_pool_backward")(g, x.shape, *arguments), **CLOSE[dtype])


@given(seed=seeds, dtype=dtypes, end=st.booleans())
@settings(max_examples=80, deadline=None)
def test_bins(seed, dtype, end):
    rng = np.random.default_rng(seed)
    x, rank = sample(rng, dtype, end)
    size = tuple(int(rng.integers(1, min(n, 8) + 3)) for n in x.shape[-rank:])
    same(kernels.adaptive_average(x, size), reference(f"_adaptive_avg_pool{rank}d")(x, size), **CLOSE[dtype])
    g = of_layout(rng.standard_normal((*x.shape[:-rank], *size)).astype(dtype), x, end)
    spatial = x.shape[-rank:]
    same(kernels.adaptive_average_backward(g, spatial), reference("_adaptive_avg_pool_backward")(g, spatial), **CLOSE[dtype])
    results = kernels.adaptive_max(x, size)
    if results is not None:
        for result, wanted in zip(results, pooling._adaptive_max(x, size), strict=True):
            same(result, pooling.in_layout(wanted, not x.flags.c_contiguous))


def test_nothing_is_written_outside_the_result(monkeypatch):
    monkeypatch.setattr(kernels, "empty", lambda shape, dtype: guarded(np.empty(shape, dtype)))
    rng = np.random.default_rng(0)
    for shape in [(3, 7, 33, 47), (1, 1, 5, 17), (2, 3, 14, 14)]:
        x = guarded(rng.standard_normal(shape).astype(np.float32))
        for y in (x, np.moveaxis(guarded(np.moveaxis(x, 1, -1)), -1, 1)):
            window = ((3, 3), (2, 2), (1, 1))
            assert kernels.max_pool(y, *window, (1, 1), False) is not None or y.shape[1] == 1
            results = kernels.max_pool_with_places(y, *window, (1, 1), True)
            if results is not None:
                kernels.scatter_planes(results[0], results[1], shape[2:])
                kernels.average_backward(results[0], shape, *window, True, True, None)


@pytest.mark.parametrize("wrong", [-1, 900, 2**40])
def test_a_place_outside_the_plane_is_declined(wrong):
    places = np.zeros((2, 5, 10), np.int64)
    places[1, 3, 7] = wrong
    assert kernels.scatter_planes(np.ones((2, 5, 10), np.float32), places, (900,)) is None


def test_threads_do_not_change_results():
    x = np.random.default_rng(0).standard_normal((16, 8, 60, 60)).astype(np.float32)
    threads, runs = pool.threads, []
    for count in (1, 2):
        pool.set_threads(count)
        values, places = kernels.max_pool_with_places(x, (3, 3), (2, 2), (1, 1), (1, 1), False)
        average = kernels.average_pool(x, (3, 3), (2, 2), (1, 1), False, True, None)
        shares = kernels.average_backward(values, x.shape, (3, 3), (2, 2), (1, 1), False, True, None)
        runs.append((values, places, average, shares, kernels.scatter_planes(values, places, (60, 60))))
    pool.set_threads(threads)
    for one, two in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        lambda x: F.avg_pool2d(x, 2, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (7, 5)),
        lambda x: F.adaptive_max_pool2d(x, 4),
        lambda x: F.max_pool1d(x[0], 2),
        lambda x: F.max_pool2d(x, 2).relu().square(),
    ],
)
def test_training_is_as_with_the_reference(function, dtype, form):
    torch.manual_seed(0)
    x = torch.randn(4, 8, 30, 30).to(dtype).contiguous(memory_format=form).requires_grad_()

    def gradient():
        torch.manual_seed(1)
        output = function(x)
        return output, *torch.autograd.grad(output, x, torch.randn(output.shape).to(dtype))

    results = gradient()
    with native.disabled():
        wanted = gradient()
    assert results[0].grad_fn.name() == wanted[0].grad_fn.name()
    for one, two in zip(results, wanted, strict=True):
        assert one.stride() == two.stride() and one.dtype is two.dtype
        torch.testing.assert_close(one, two)


def test_maxima_have_second_derivatives():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 72, 72, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(F.max_pool2d(x, 2).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    chosen = first != 0
    torch.testing.assert_close(second[chosen], 6 * x.detach()[chosen])
    assert not second[~chosen].any()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("special", [None, np.nan, -np.inf])
def test_places_in_large_bins(dtype, special):
    rng = np.random.default_rng(3)
    for shape, size in (
        ((2, 3, 130), (4,)),
        ((5, 33), (2,)),
        ((2, 2, 7, 9, 21), (2, 3, 4)),
        ((3, 2, 5, 40), (2, 7, 3)),
        ((1, 2, 1, 1, 1), (1, 1, 1)),
    ):
        for end in (True, False):
            x = guarded(rng.integers(-4, 5, shape).astype(dtype), end)
            if special is not None:
                x[rng.random(shape) < 0.2] = special
                x[0, 0] = special
            for result, wanted in zip(kernels.largest_of_bins(x, size), pooling._adaptive_max(x, size), strict=True):
                same(result, wanted)
    assert kernels.largest_of_bins(x, (1, 0, 1)) is None and kernels.largest_of_bins(np.moveaxis(x, 1, -1), (1, 1, 1)) is None
    assert kernels.adaptive_max(x.reshape(2, 1)[:1], (1,)) is not None
