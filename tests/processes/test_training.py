"""Training in several processes on parameters that they share."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.multiprocessing as mp


def hogwild(rank, model, steps):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    true = torch.arange(1.0, 9.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(steps):
        inputs = torch.randn(16, 8)
        loss = (model(inputs)[:, 0] - inputs @ true).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_hogwild_training():
    model = torch.nn.Linear(8, 1)
    model.share_memory()
    weight = model.weight.detach()
    mp.start_processes(hogwild, (model, 150), nprocs=2, start_method="fork")
    assert torch.allclose(weight[0], torch.arange(1.0, 9.0), atol=0.05)
    assert model.weight.grad is None  # gradients are each process's own


def test_training_of_all_parameters_in_place_from_a_state_that_is_shared():
    """A3C's way: children load the shared model's state, and step an optimizer whose state is shared too."""
    model = torch.nn.Linear(2, 1).share_memory()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.5)
    optimizer.share_memory()

    def train(rank):
        own = torch.nn.Linear(2, 1)
        own.load_state_dict(model.state_dict())
        own(torch.ones(1, 2)).sum().backward()
        for mine, shared in zip(own.parameters(), model.parameters(), strict=True):
            shared.grad = mine.grad
        optimizer.step()

    before = model.bias.item()
    for _ in range(2):
        mp.start_processes(train, nprocs=1, start_method="fork")
    assert [state["sum"].tolist() for state in optimizer.state.values()] == [[[2.0, 2.0]], [2.0]]
    assert model.bias.item() == pytest.approx(before - 0.5 - 0.5 / 2**0.5)
