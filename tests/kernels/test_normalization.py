"""Native normalization against the reference kernels: layer, RMS, batch, group and instance norm, forward and backward."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native
from flambeau.kernels.compiler import target as targets
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import normalization as kernels
from flambeau.ops import normalization as references

from .guard import guarded

CLOSE = {np.float32: 2e-5, np.float64: 1e-12}
dtypes = st.sampled_from([np.float32, np.float64])
sizes = st.one_of(st.integers(1, 9), st.integers(10, 80))


needs_halves = pytest.mark.skipif(not targets.current().has_halves, reason="no instructions for float16")


def _reference(name):
    """The kernel behind a declared operation of ops/normalization.py."""
    return references.NORMS[name].kernel if name in references.NORMS else getattr(references, name).kernel


def _given(rng, shape, dtype, end=True, shift=0.0):
    return guarded((rng.standard_normal(shape) + shift).astype(dtype), end)


def _check(results, wanted, tolerance, count=1):
    """Results agree; sums over ``count`` elements to that many roundings' worth."""
    for k, (a, b) in enumerate(zip(results, wanted, strict=True)):
        assert a.dtype == b.dtype and a.size == b.size
        wide = tolerance * (math.sqrt(count) if k and a.ndim < 2 else 1)
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=tolerance, atol=wide * max(np.abs(b).max(), 1))


@given(rows=sizes, width=st.integers(2, 300), dtype=dtypes, affine=st.sampled_from(["", "w", "wb"]), end=st.booleans())
@settings(max_examples=40, deadline=None)
def test_layer_norm(rows, width, dtype, affine, end):
    rng = np.random.default_rng(width)
    x, g = _given(rng, (rows, width), dtype, end, 2.0), _given(rng, (rows, width), dtype, end)
    weight, bias = (_given(rng, (width,), dtype, end) if letter in affine else None for letter in "wb")
    given_ = (rows, width), (1,), (1, width), 1e-2
    results, wanted = kernels.layer_norm(x, weight, bias, *given_), _reference("Layer")(x, weight, bias, *given_)
    _check(results, wanted, CLOSE[dtype])
    mean, variance = (guarded(moment, end) for moment in wanted[1:])
    slopes = kernels.normalized_backward(g, x, weight, mean, variance, *given_)
    wanted = _reference("normalized_backward")(g, x, weight, mean, variance, *given_)
    _check([slope.reshape(want.shape) for slope, want in zip(slopes, wanted, strict=True)], wanted, 4 * CLOSE[dtype], rows)


@given(rows=sizes, width=st.integers(1, 300), dtype=dtypes, weighted=st.booleans(), end=st.booleans())
@settings(max_examples=30, deadline=None)
def test_rms_norm(rows, width, dtype, weighted, end):
    rng = np.random.default_rng(width)
    x, g = _given(rng, (rows, width), dtype, end), _given(rng, (rows, width), dtype, end)
    weight = _given(rng, (width,), dtype, end) if weighted else None
    results, wanted = kernels.rms_norm(x, weight, width, 1e-2), _reference("rms_normalized")(x, weight, width, 1e-2)
    _check(results, wanted, CLOSE[dtype])
    slopes = kernels.rms_norm_backward(g, x, weight, wanted[1], width, 1e-2)
    _check(slopes, _reference("rms_normalized_backward")(g, x, weight, wanted[1], width, 1e-2), 4 * CLOSE[dtype], rows)


@given(
    data=st.data(),
    norm=st.sampled_from(["batch", "batch, channels last", "instance", "group"]),
    samples=st.integers(1, 40),
    groups=st.integers(1, 12),
    area=st.sampled_from([(), (1,), (3,), (9,), (40,), (3, 5), (16, 17)]),
    dtype=dtypes,
    affine=st.sampled_from(["", "w", "wb"]),
)
@settings(max_examples=80, deadline=None)
def test_batch_group_and_instance_norm(data, norm, samples, groups, area, dtype, affine):
    rng = np.random.default_rng(samples)
    per_group = data.draw(st.integers(1, 4)) if norm == "group" else 1
    channels, size = groups * per_group, math.prod(area)
    x, g = (_given(rng, (samples, channels, *area), dtype, shift=shift) for shift in (2.0, 0.0))
    if norm == "batch, channels last":
        x, g = (np.moveaxis(guarded(np.moveaxis(array, 1, -1)), -1, 1) for array in (x, g))
    view, axes, shape = {
        "group": ((samples, groups, per_group, size), (2, 3), (1, groups, per_group, 1)),
        "instance": ((samples, channels, size), (2,), (1, channels, 1)),
    }.get(norm, ((samples, channels, size), (0, 2), (1, channels, 1)))
    weight, bias = (_given(rng, (channels,), dtype) if letter in affine else None for letter in "wb")
    given_ = view, axes, shape, 0.1
    wanted = _reference("Batch")(x, weight, bias, *given_)
    results = kernels.normalized(x, weight, bias, *given_)
    slopes = kernels.normalized_backward(g, x, weight, *wanted[1:], *given_)
    if results is None:
        assert norm in ("group", "instance") and size < 8
        assert slopes is None
        return
    _check(results, wanted, CLOSE[dtype])
    if x.ndim != 3 or norm != "batch, channels last":  # of three dimensions the reference does not follow
        assert results[0].strides == wanted[0].strides or 1 in x.shape
    wanted = _reference("normalized_backward")(g, x, weight, *wanted[1:], *given_)
    _check([a.reshape(b.shape) for a, b in zip(slopes, wanted, strict=True)], wanted, 10 * CLOSE[dtype], x.size)


@given(samples=sizes, channels=sizes, area=st.sampled_from([(), (2,), (4, 5)]), last=st.booleans(), dtype=dtypes, weighted=st.booleans())
@settings(max_examples=40, deadline=None)
def test_batch_norm_with_given_moments(samples, channels, area, last, dtype, weighted):
    rng = np.random.default_rng(samples)
    x, g = (_given(rng, (samples, channels, *area), dtype) for _ in range(2))
    if last:
        x, g = (np.moveaxis(guarded(np.moveaxis(array, 1, -1)), -1, 1) for array in (x, g))
    mean, weight = _given(rng, (channels,), dtype), _given(rng, (channels,), dtype) if weighted else None
    variance = np.abs(_given(rng, (channels,), dtype)) + dtype(0.1)
    result, wanted = (f(x, mean, variance, weight, weight, 1e-3) for f in (kernels.batch_norm_fixed, _reference("batch_norm_fixed")))
    _check([result], [wanted], CLOSE[dtype])
    assert result.strides == wanted.strides or 1 in x.shape
    name = "batch_norm_fixed_backward"
    slopes, wanted = (f(g, x, mean, variance, weight, 1e-3) for f in (getattr(kernels, name), _reference(name)))
    _check(slopes, wanted, 4 * CLOSE[dtype], x.size // channels)


@pytest.mark.parametrize("shape", [(4, 30000), (30000, 8), (6, 3, 100, 100)])
def test_a_large_mean_does_not_spoil_the_variance(shape):
    x = (np.random.default_rng(0).standard_normal(shape) + 1000).astype(np.float32)
    if len(shape) == 2 and shape[1] > shape[0]:
        _, _, variance = kernels.layer_norm(x, None, None, shape, (1,), (1, shape[1]), 1e-5)
        wanted = x.astype(np.float64).var(1, keepdims=True)
    else:
        view = shape[0], shape[1], math.prod(shape[2:])
        _, _, variance = kernels.normalized(x, None, None, view, (0, 2), (1, shape[1], 1), 1e-5)
        wanted = x.astype(np.float64).reshape(view).var((0, 2), keepdims=True)
    np.testing.assert_allclose(variance, wanted, rtol=2e-5)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("half", [False, pytest.param(True, marks=needs_halves)])
def test_batch_norm_of_many_samples_and_channels(last, half):
    """What is done once for each channel takes several chunks here, and a masked rest."""
    rng, shape, view = np.random.default_rng(0), (3000, 41, 2, 2), ((3000, 41, 4), (0, 2), (1, 41, 1), 0.1)
    x, g = (rng.standard_normal(shape).astype(np.float16 if half else np.float64) for _ in range(2))
    if last:
        x, g = (np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1) for array in (x, g))
    weight, bias = _given(rng, (41,), x.dtype), _given(rng, (41,), x.dtype)
    results, wanted = (f(x, weight, bias, *view) for f in (kernels.normalized, _reference("Batch")))
    _check(results, wanted, 2e-3 if half else 1e-12)
    slopes, wanted = (f(g, x, weight, *wanted[1:], *view) for f in (kernels.normalized_backward, _reference("normalized_backward")))
    _check(slopes, wanted, 4e-3 if half else 1e-11)
    assert all(slope.shape == (41,) for slope in slopes[1:])


_LAYOUTS = {
    "whole": lambda x: x,
    "the first of each row": lambda x: x[..., :-3],
    "every second of each row": lambda x: x[..., ::2],
    "backwards": lambda x: x[..., ::-1],
    "some channels": lambda x: x[:, 3:],
    "every second sample": lambda x: x[::2],
    "channels first": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, 0)), 0, 1),
    "one sample for all": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_batch_norm_of_rows_that_do_not_lie_behind_one_another(layout):
    """Of three dimensions these come as they are, whatever kernel is for their sizes."""
    rng = np.random.default_rng(0)
    x = _LAYOUTS[layout](_given(rng, (6, 20, 34), np.float64, shift=np.arange(20.0)[:, None]))
    g, weight, bias = _given(rng, x.shape, x.dtype), _given(rng, x.shape[1:2], x.dtype), _given(rng, x.shape[1:2], x.dtype)
    given_ = x.shape, (0, 2), (1, x.shape[1], 1), 0.1
    results, wanted = (f(x, weight, bias, *given_) for f in (kernels.normalized, _reference("Batch")))
    _check(results, wanted, 1e-12)
    name = "normalized_backward"
    slopes, wanted = (f(g, x, weight, *wanted[1:], *given_) for f in (getattr(kernels, name), _reference(name)))
    _check([a.reshape(b.shape) for a, b in zip(slopes, wanted, strict=True)], wanted, 1e-11, x.size)


@pytest.mark.parametrize("turned", ["x", "g", "xg"])
@pytest.mark.parametrize("channels", [3, 9])
def test_batch_norm_of_sequences_that_do_not_lie_in_order(channels, turned):
    rng, shape, view = np.random.default_rng(0), (5, channels, 30), ((5, channels, 30), (0, 2), (1, channels, 1), 0.1)
    x, g = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    x, g = (guarded(array.T).T if name in turned else guarded(array) for name, array in zip("xg", (x, g), strict=True))
    weight, bias = _given(rng, (channels,), x.dtype), _given(rng, (channels,), x.dtype)
    results, wanted = (f(x, weight, bias, *view) for f in (kernels.normalized, _reference("Batch")))
    _check(results, wanted, 2e-5)
    slopes, wanted = (f(g, x, weight, *wanted[1:], *view) for f in (kernels.normalized_backward, _reference("normalized_backward")))
    _check(slopes, wanted, 2e-4)


def _programs():
    x = torch.randn(40, 12, 20, 20)
    yield lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x
    yield lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x.contiguous(memory_format=torch.channels_last)
    yield lambda x, w, b: F.batch_norm(x, b.detach(), (w * w + 1).detach(), w, b), x
    yield lambda x, w, b: F.group_norm(x, 3, w, b), x
    yield lambda x, w, b: F.instance_norm(x, None, None, w, b), x
    yield lambda x, w, b: F.layer_norm(x, (12,), w, b), torch.randn(2000, 12)
    yield lambda x, w, b: F.rms_norm(x, (12,), w) + b, torch.randn(2000, 12)
    yield lambda x, w, b: F.layer_norm(x.transpose(0, 1), (12,), w, b), torch.randn(20, 200, 12)


@pytest.mark.parametrize("k", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_programs_with_and_without_kernels_agree(k, dtype):
    program, x = list(_programs())[k]
    parameters = [tensor.to(dtype).requires_grad_() for tensor in (x, torch.randn(12), torch.randn(12))]
    results = []
    for kernels_off in (False, True):
        if kernels_off:
            with native.disabled():
                y = program(*parameters)
                slopes = torch.autograd.grad(y.float().cos().sum(), parameters)
        else:
            y = program(*parameters)
            slopes = torch.autograd.grad(y.float().cos().sum(), parameters)
        results.append((y.detach(), *slopes))
    for a, b in zip(*results, strict=True):
        assert a.dtype is b.dtype and a.stride() == b.stride()
        wide = 1e-4 if dtype is torch.float32 else 0.03
        assert torch.allclose(a.float(), b.float(), rtol=wide, atol=wide * max(b.float().abs().max().item(), 1))


@pytest.mark.parametrize("last", [False, True])
def test_running_moments_move_as_without_kernels(last):
    x = torch.randn(30, 5, 20, 10) * 3 + 1
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    moved = []
    for _ in range(2):
        moved.append((torch.zeros(5), torch.ones(5)))
        if len(moved) == 1:
            F.batch_norm(x, *moved[-1], training=True)
    with native.disabled():
        F.batch_norm(x, *moved[-1], training=True)
    for a, b in zip(*moved, strict=True):
        assert torch.allclose(a, b, rtol=1e-6)


def test_the_number_of_threads_does_not_change_a_bit():
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal((3000, 200)).astype(np.float32) for _ in range(2))
    image = x.reshape(30, 20, 20, 50)
    before, runs = pool.threads, []
    try:
        for count in (1, 2):
            pool.set_threads(count)
            layer, batch = ((3000, 200), (1,), (1, 200), 1e-5), ((3000, 200, 1), (0, 2), (1, 200, 1), 1e-5)
            y = kernels.layer_norm(x, x[0], x[1], *layer)
            z = kernels.normalized(x, x[0], x[1], *batch)
            images = kernels.normalized(image, None, None, (30, 20, 1000), (0, 2), (1, 20, 1), 1e-5)
            slopes = kernels.normalized_backward(g, x, x[0], *y[1:], *layer), kernels.normalized_backward(g, x, x[0], *z[1:], *batch)
            runs.append((*y, *z, *images, *slopes[0], *slopes[1]))
    finally:
        pool.set_threads(before)
    assert all((a == b).all() for a, b in zip(*runs, strict=True))
