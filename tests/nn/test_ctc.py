"""CTCLoss: gradients, long sequences, impossible labels, and what cannot be differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import gradcheck

VARIANTS = [
    {"reduction": "sum"},
    {"reduction": "mean", "blank": 3},
    {"reduction": "none", "zero_infinity": True},
]


def _gradients(torch, dtype, concatenated, options):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((12, 4, 6)).astype(dtype)
    lengths, counts = (12, 9, 5, 2), (4, 3, 0, 4)  # the last one is impossible
    rows = rng.integers(0, 6, (4, 4))
    rows[rows == options.get("blank", 0)] = 5
    targets = np.concatenate([row[:count] for row, count in zip(rows, counts, strict=True)]) if concatenated else rows
    logits = torch.tensor(scores).requires_grad_()
    loss = torch.nn.CTCLoss(**options)(logits.log_softmax(2), torch.tensor(targets), lengths, counts)
    if loss.dim():
        loss = (loss * torch.arange(1, 5)).sum()
    loss.backward()
    return loss.item(), logits.grad.numpy()


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: options["reduction"])
@pytest.mark.parametrize("concatenated", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients(oracle, dtype, concatenated, options):
    loss, gradient = _gradients(flambeau, dtype, concatenated, options)
    expected_loss, expected = _gradients(oracle, dtype, concatenated, options)
    tolerance = 1e-5 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(loss, expected_loss, rtol=tolerance)
    np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


def test_the_gradient_behind_log_softmax():
    flambeau.manual_seed(0)
    logits = flambeau.randn(6, 2, 4, dtype=flambeau.float64).requires_grad_()
    targets = flambeau.tensor([[1, 1, 2], [3, 0, 0]])
    assert gradcheck(lambda x: nn.functional.ctc_loss(x.log_softmax(2), targets, (6, 5), (3, 1), reduction="none"), logits)


def test_long_sequences_do_not_underflow(oracle):
    def run(torch):
        rng = np.random.default_rng(0)
        scores = torch.tensor(rng.standard_normal((1500, 2, 20)).astype(np.float32) * 3).requires_grad_()
        targets = torch.tensor(rng.integers(1, 20, (2, 100)))
        loss = torch.nn.functional.ctc_loss(scores.log_softmax(2), targets, (1500, 1400), (100, 90))
        loss.backward()
        return loss.item(), scores.grad.numpy()

    (loss, gradient), (expected_loss, expected) = run(flambeau), run(oracle)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, atol=2e-5)  # logarithms of thousands have errors of 5e-4 in float32


def test_classes_without_probability(oracle):
    """Scores of minus infinity have gradient zero, and change no other; PyTorch's is NaN there."""

    def run(torch):
        torch.manual_seed(0)
        scores = torch.randn(5, 1, 4, dtype=torch.float64).masked_fill(torch.arange(4) == 3, float("-inf")).log_softmax(2)
        scores.requires_grad_()
        loss = torch.nn.functional.ctc_loss(scores, torch.tensor([[1, 2]]), (5,), (2,))
        loss.backward()
        return loss.item(), scores.grad.numpy()

    (loss, gradient), (expected_loss, expected) = run(flambeau), run(oracle)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-10)
    np.testing.assert_allclose(gradient, np.where(np.isnan(expected), 0, expected), rtol=1e-10, atol=1e-14)


def test_targets_may_have_strides():
    scores, targets = flambeau.randn(6, 2, 4).log_softmax(2), flambeau.tensor([1, 2, 2, 3, 1])
    strided = flambeau.stack([targets, targets * 0], 1)[:, 0]
    losses = [nn.functional.ctc_loss(scores, labels, (6, 6), (3, 2)) for labels in (targets, strided)]
    assert losses[0] == losses[1]


def test_a_label_that_is_no_class_is_refused():
    with pytest.raises(RuntimeError, match="labels from 0 to 3, got 7"):
        nn.functional.ctc_loss(flambeau.zeros(4, 1, 4), flambeau.tensor([[7]]), (4,), (1,))
    assert nn.functional.ctc_loss(flambeau.zeros(4, 1, 4), flambeau.tensor([[1, 7]]), (4,), (1,)).isfinite()  # not looked at


def test_second_derivatives_are_refused(same):
    def program(torch):
        scores = torch.zeros(4, 1, 3, requires_grad=True)
        loss = torch.nn.functional.ctc_loss(scores, torch.tensor([[1]]), (4,), (1,))
        (gradient,) = torch.autograd.grad(loss, scores, create_graph=True)
        return [gradient, lambda: torch.autograd.grad(gradient.sum(), scores)]

    same(program)


def test_the_layer(same):
    def program(torch):
        layers = [torch.nn.CTCLoss(), torch.nn.CTCLoss(2, "sum", True)]
        return [layers, [{name: value for name, value in vars(layer).items() if name[0] != "_"} for layer in layers]]

    same(program)
