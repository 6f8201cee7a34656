"""Which gradients are None: PyTorch's, for every subset of inputs."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

F = torch.nn.functional

TIED: dict[str, Any] = {
    "relu": F.relu,
    "relu in place": lambda x: F.relu(x * 1, inplace=True),
    "leaky_relu": F.leaky_relu,
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 3),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool1d with places": lambda x: F.max_pool1d(x, 2, return_indices=True)[0],
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 3),
    "reflected": lambda x: F.pad(x, (1, 1), "reflect"),
    "replicated": lambda x: F.pad(x, (1, 1), "replicate"),
    "nll_loss": lambda x: F.nll_loss(x, torch.zeros(2, 8, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", TIED)
def test_second_derivatives_that_are_nothing_are_zeros(name: str) -> None:
    x = torch.linspace(-2, 2, 48).reshape(2, 3, 8).requires_grad_()
    y = TIED[name](x)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert grad.requires_grad
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert second.shape == x.shape and not second.any()


def test_a_gradient_penalty_reaches_the_first_bias() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    x = torch.randn(2, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    ((grad.norm(2, 1) - 1) ** 2).mean().backward()
    present = [parameter.grad is not None for parameter in net.parameters()]
    assert present == [True, True, True, False] and not net[0].bias.grad.any()


def test_places_are_no_part_of_a_graph() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    for values in (x.topk(2)[0], x.sort()[0], x.max(1)[0], x.median(1)[0], x.kthvalue(2)[0]):
        (grad,) = torch.autograd.grad(values.sum(), x, create_graph=True)
        assert not grad.requires_grad


@pytest.mark.oracle
def test_the_database_has_pytorchs(oracle: Any) -> None:
    pytest.importorskip("expecttest")
    from gradient_presence import EXPLAINED, FUNCTIONS, compare

    asked = "nn.functional.relu nn.functional.max_pool2d nn.functional.pad.reflect nn.functional.prelu topk nn.functional.conv2d".split()
    names = [name for name in [*list(FUNCTIONS)[4::12], *asked] if name not in EXPLAINED]
    results = [compare(name, 1) for name in names]
    assert sum(count for count, _ in results) > 60
    assert not [line for _, lines in results for line in lines]


@pytest.mark.oracle
@pytest.mark.parametrize("hidden", [1, 2])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_have_pytorchs(kind: str, hidden: int, oracle: Any) -> None:
    found = []
    for library in (torch, oracle):
        options = {"nonlinearity": "relu"} if kind == "RNN" else {}
        layer = getattr(library.nn, kind)(3, hidden, 2, bidirectional=True, **options)
        x = library.linspace(-1, 1, 12).reshape(4, 1, 3).requires_grad_()
        (grad,) = library.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
        grad.pow(2).sum().backward()
        found.append([(name, parameter.grad is None) for name, parameter in layer.named_parameters()] + [x.grad is None])
    assert found[0] == found[1]
