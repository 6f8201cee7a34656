"""Native losses against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native
from flambeau.core.calls.registry import primitive
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import loss as kernels

from .guard import guarded

CLOSE = {np.float32: 1e-5, np.float64: 1e-13}


def reference(name):
    """The kernel over arrays that a native one stands beside."""
    return primitive(name, "nn.functional").kernel


FORWARD = {name: reference(f"_{name}") for name in ("cross_entropy", "nll_loss", "smoothed_cross_entropy")}


def _backward(name, g, x, *rest):
    """The reference gradient."""
    with native.disabled():
        if name == "nll_loss":
            return reference("_nll_loss_backward")(g, rest[0], rest[1], x.shape, *rest[2:])
        return reference(f"_{name}_backward")(g, x, *rest)


@pytest.mark.parametrize("name", list(FORWARD))
@given(
    data=st.data(),
    samples=st.integers(1, 40),
    classes=st.integers(1, 70),
    area=st.sampled_from([(), (3,), (5, 7), (70,), (9, 8)]),
    weighted=st.booleans(),
    reduction=st.sampled_from(["none", "sum", "mean"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    last=st.booleans(),
    end=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_class_losses(name, data, samples, classes, area, weighted, reduction, dtype, last, end):
    rng = np.random.default_rng(classes)
    x = (rng.standard_normal((samples, classes, *area)) * 4).astype(dtype)
    target = guarded(rng.integers(0, classes, (samples, *area)), end)
    ignored = data.draw(st.sampled_from([-100, 0, classes - 1]))
    x = np.moveaxis(guarded(np.moveaxis(x, 1, -1), end), -1, 1) if last else guarded(x, end)
    weight = guarded(rng.random(classes).astype(dtype) + dtype(0.1), end) if weighted else None
    rest = target, weight, reduction, ignored, *((0.2,) if name == "smoothed_cross_entropy" else ())
    with np.errstate(all="ignore"):
        result, wanted = getattr(kernels, name)(x, *rest), FORWARD[name](x, *rest)
        np.testing.assert_allclose(result, wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype] * 4)
        g = np.asarray(rng.standard_normal(np.shape(wanted)).astype(dtype))
        g = guarded(g, end) if g.ndim else g
        if name == "nll_loss":
            slope = kernels.nll_loss_backward(g, target, weight, x.shape, reduction, ignored)
        else:
            slope = getattr(kernels, name + "_backward")(g, x, *rest)
        wanted = _backward(name, g, x, *rest)
        assert slope.dtype == wanted.dtype and slope.flags.c_contiguous
        np.testing.assert_allclose(slope, wanted, rtol=CLOSE[dtype] * 4, atol=CLOSE[dtype])


def test_a_class_out_of_range_is_an_error():
    x, target = torch.randn(100, 200), torch.zeros(100, dtype=torch.int64)
    target[70] = 200
    for loss in (F.cross_entropy, F.nll_loss, lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1)):
        with pytest.raises(IndexError, match="Target 200 is out of bounds"):
            loss(x, target)
    target[70] = -100
    F.cross_entropy(x, target)


def test_scores_of_ignored_samples_do_not_count():
    x = torch.randn(100, 200)
    x[3] = float("nan")
    x.requires_grad_()
    target = torch.arange(100)
    target[3] = -100
    loss = F.cross_entropy(x, target)
    loss.backward()
    assert loss.isfinite() and x.grad.isfinite().all() and not x.grad[3].any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}])
def test_the_mean_over_no_sample_is_nan_without_a_warning(options):
    x = torch.randn(100, 200, requires_grad=True)
    with np.errstate(all="raise"):
        loss = F.cross_entropy(x, torch.full((100,), -100), **options)
        loss.backward()
    assert loss.isnan() and not x.grad.any()


@pytest.mark.parametrize("classes", [5, 100])
def test_a_class_that_cannot_be_has_an_infinite_loss(classes):
    x = torch.zeros(3000, classes)
    x[3, 1] = -torch.inf
    loss = F.cross_entropy(x, torch.ones(3000, dtype=torch.int64), label_smoothing=0.1, reduction="none")
    assert loss[3] == torch.inf and loss.isfinite().sum() == 2999


def test_large_scores_keep_their_digits():
    x = torch.full((100, 100), 1e6)
    assert torch.allclose(F.cross_entropy(x, torch.arange(100)), torch.tensor(100.0).log(), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": torch.rand(100)}, {"reduction": "sum", "ignore_index": 4}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_programs_with_and_without_kernels_agree(options, dtype):
    x, target = torch.randn(90, 100).to(dtype).requires_grad_(), torch.arange(90)
    options = {k: v.to(dtype) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    loss = F.cross_entropy(x, target, **options)
    (slope,) = torch.autograd.grad(loss, x)
    with native.disabled():
        wanted = F.cross_entropy(x, target, **options)
        (wanted_slope,) = torch.autograd.grad(wanted, x)
    wide = 1e-5 if dtype is torch.float32 else 2e-2
    assert loss.dtype is dtype and torch.allclose(loss.float(), wanted.float(), rtol=wide)
    assert torch.allclose(slope.float(), wanted_slope.float(), rtol=wide, atol=wide * wanted_slope.float().abs().max().item())


NUMBERS = {"mse_loss": (), "huber_loss": (0.4, 1.5), "binary_cross_entropy": None, "binary_cross_entropy_with_logits": None}


@pytest.mark.parametrize("name", list(NUMBERS))
@given(
    shape=st.lists(st.integers(1, 60), max_size=3).map(tuple),
    dtype=st.sampled_from([np.float32, np.float64]),
    reduction=st.sampled_from(["none", "sum", "mean"]),
    end=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_plain_losses(name, shape, dtype, reduction, end):
    rng = np.random.default_rng(len(shape))
    x, t = (guarded(np.asarray(rng.random(shape).astype(dtype)), end) for _ in range(2))
    numbers = NUMBERS[name]
    if name.endswith("logits"):
        x, rest = guarded(x * 20 - 10, end), (None, None, reduction)
    else:
        rest = (None, reduction) if numbers is None else (reduction, *numbers)
    result, wanted = getattr(kernels, name)(x, t, *rest), reference(f"_{name}")(x, t, *rest)
    assert result.dtype == dtype and result.shape == np.shape(wanted)
    np.testing.assert_allclose(result, wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def test_probabilities_out_of_range_are_an_error():
    x = torch.rand(20000)
    t = x.clone()
    for wrong in (1.5, float("nan")):
        t[19999] = wrong
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(x, t)
    x[19999], t[19999] = float("nan"), 0.5
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(x, t)


@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_gradients_of_plain_losses(name, reduction):
    x, t = (torch.rand(100, 100).requires_grad_() for _ in range(2))
    loss = getattr(F, name)
    slopes = torch.autograd.grad(loss(x, t, reduction=reduction).sum(), (x, t))
    with native.disabled():
        wanted = torch.autograd.grad(loss(x, t, reduction=reduction).sum(), (x, t))
    for a, b in zip(slopes, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6 * b.abs().max().item())


def test_the_number_of_threads_does_not_change_a_bit():
    x = torch.randn(3000, 100, requires_grad=True)
    target = torch.arange(3000) % 100
    before, runs = pool.threads, []
    try:
        for count in (1, 2):
            pool.set_threads(count)
            loss = F.cross_entropy(x, target, label_smoothing=0.1) + F.mse_loss(x, x * 0.5)
            runs.append((loss.detach(), *torch.autograd.grad(loss, x)))
    finally:
        pool.set_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_of_few_samples_is_that_of_the_reference(dtype):
    """Of few samples with many classes, and of targets that do not count or are no class."""
    x = torch.randn(200, 60, dtype=dtype)
    target = torch.arange(200) % 60
    for scores, classes in (
        (x, target),
        (x[:, ::2].contiguous()[:150], target[:150] % 30),
        (torch.randn(60, 200, dtype=dtype).t(), target),
    ):
        loss = torch.nn.functional.nll_loss(scores, classes)
        with native.disabled():
            assert torch.allclose(loss, torch.nn.functional.nll_loss(scores, classes)) and loss.shape == () and loss.dtype == dtype
    ignored = target.clone()
    ignored[::3] = -100
    with native.disabled():
        wanted = torch.nn.functional.nll_loss(x, ignored)
    assert torch.allclose(torch.nn.functional.nll_loss(x, ignored), wanted)
    for wrong in (-1, 60, -(1 << 40)):
        ignored[7] = wrong
        with pytest.raises(IndexError, match="out of bounds"):
            torch.nn.functional.nll_loss(x, ignored)
    target[5] = 60
    with pytest.raises(IndexError, match="out of bounds"):
        torch.nn.functional.nll_loss(x, target)
