"""Averaged models beside PyTorch's: the same averages, statistics and rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau
import flambeau.nn
import flambeau.optim.swa_utils

torch = pytorch()

pytorch("torch.optim.swa_utils")
pytestmark = pytest.mark.oracle


def trained(framework: Any, steps: int = 3, **options: Any) -> Any:
    """A model averaged over some steps, and the model."""
    framework.manual_seed(0)
    model = framework.nn.Sequential(framework.nn.Linear(3, 4), framework.nn.BatchNorm1d(4), framework.nn.Linear(4, 1))
    averaged = framework.optim.swa_utils.AveragedModel(model, **options)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        with framework.no_grad():
            for param in model.parameters():
                param.add_(framework.tensor(rng.standard_normal(tuple(param.shape)).astype("float32")))
        model(framework.tensor(rng.standard_normal((5, 3)).astype("float32")))
        averaged.update_parameters(model)
    return averaged, model


def same_state(ours: Any, theirs: Any) -> None:
    ours, theirs = ours.state_dict(), theirs.state_dict()
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("kind", ["mean", "mean of lists", "ema", "ema of lists", "with buffers"])
def test_averages_are_the_same(kind):
    def run(framework):
        utils = framework.optim.swa_utils
        options = {
            "mean": {},
            "mean of lists": {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
            "ema": {"avg_fn": utils.get_ema_avg_fn(0.7)},
            "ema of lists": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.7)},
            "with buffers": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.7), "use_buffers": True},
        }
        return trained(framework, **options[kind])[0]

    same_state(run(flambeau), run(torch))


def test_batch_statistics_are_computed_anew():
    def run(framework):
        averaged, _ = trained(framework)
        rng = np.random.default_rng(1)
        batches = [(framework.tensor(rng.standard_normal((6, 3)).astype("float32")), 0) for _ in range(3)]
        averaged.eval()
        framework.optim.swa_utils.update_bn(batches, averaged)
        assert not averaged.training and averaged.module[1].momentum == 0.1
        return averaged

    same_state(run(flambeau), run(torch))


@pytest.mark.parametrize("options", [{}, {"anneal_epochs": 3, "anneal_strategy": "linear"}, {"anneal_epochs": 0}])
def test_rates_are_the_same(options):
    def run(framework):
        optimizer = framework.optim.SGD([framework.ones(1, requires_grad=True)], lr=0.5)
        schedule = framework.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, **options)
        rates = [schedule.get_last_lr()]
        for _ in range(6):
            optimizer.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        return rates

    assert run(flambeau) == run(torch)


def test_mistakes_are_refused():
    utils = flambeau.optim.swa_utils
    optimizer = flambeau.optim.SGD([flambeau.ones(1, requires_grad=True)], lr=0.5)
    with pytest.raises(ValueError, match="Invalid decay"):
        utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="anneal_strategy"):
        utils.SWALR(optimizer, 0.1, anneal_strategy="cubic")
    with pytest.raises(ValueError, match="anneal_epochs"):
        utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(AssertionError, match="Only one"):
        utils.AveragedModel(flambeau.nn.Linear(1, 1), avg_fn=utils.get_swa_avg_fn(), multi_avg_fn=utils.get_swa_multi_avg_fn())
