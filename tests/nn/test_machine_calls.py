"""Calls of modules and reads of members as machine code: whatever a program exchanges takes effect, and no object is lost."""

from __future__ import annotations

from typing import Any

import pytest
from machine_code import load_machine_code
from object_counts import assert_counted, collecting, fail_everywhere

import flambeau
from flambeau import nn
from flambeau.nn import _machine, _module_hooks, containers, functional as F

X = flambeau.arange(12.0).view(3, 4) / 7


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(containers.sequence)


@pytest.fixture(autouse=True)
def without_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_module_hooks, "registered", False)  # tests before this one may have had some


def network() -> Any:
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 6, bias=False), nn.Tanh()), nn.Linear(6, 2))


def by_hand(model: Any, x: Any) -> Any:
    first, _, (second, _), last = model
    return F.linear(F.linear(F.linear(x, first.weight, first.bias).relu(), second.weight).tanh(), last.weight, last.bias)


def test_networks_compute_the_same() -> None:
    model = network()
    result, expected = model(X), by_hand(model, X)
    assert flambeau.equal(result, expected) and type(result.grad_fn) is type(expected.grad_fn)
    assert flambeau.equal(model[0](X), F.linear(X, model[0].weight, model[0].bias))
    assert model[0](input=X).shape == (3, 5) and nn.Sequential()(X) is X
    with flambeau.no_grad():
        assert model(X).grad_fn is None
    assert model.double()(X.double()).dtype is flambeau.float64


def test_exchanged_functions_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = network(), []

    def noted(name: str, function: Any) -> Any:
        return lambda *args: seen.append(name) or function(*args)

    for owner, name, count in ((F, "linear", 4), (nn.Linear, "forward", 4), (nn.Module, "__call__", 8), (nn.ReLU, "__call__", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, noted(name, getattr(owner, name)), raising=False)
            model(X)
            model[0](X)
        assert seen == [name] * count
        seen.clear()
    model[0].forward = noted("own", model[0].forward)
    assert model(X).shape == (3, 2) and model[0](X).shape == (3, 5) and seen == ["own"] * 2
    assert flambeau.equal(network()(X), by_hand(network(), X))


@pytest.mark.parametrize(("owner", "name"), [(F, "linear"), (nn.Linear, "forward"), (nn.Module, "__call__")])
def test_what_was_exchanged_before_machine_code_came_stays(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    usual = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args: usual(*args))
    monkeypatch.setattr(containers, "sequence", [])
    _machine.take_over()
    assert not containers.sequence


def test_errors_and_results_that_are_no_tensors() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Any) -> Any:
            calls.append(x)

    class Growing(nn.Module):
        def forward(self, x: Any) -> Any:
            model.append(nn.ReLU())
            return x

    calls: list[Any] = []
    assert nn.Sequential(nn.Linear(4, 4), Nothing())(X) is None and len(calls) == 1
    assert nn.Sequential(Nothing(), Nothing())(X) is None and calls[1:] == [X, None]
    model = nn.Sequential(nn.Linear(4, 4), Growing())
    with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
        model(X)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        network()(X.t())
    with pytest.raises(TypeError, match="positional argument"):
        nn.Linear(4, 4)(X, X)
    with pytest.raises(AttributeError, match="has no attribute 'weights'"):
        nn.Linear(4, 4).weights  # noqa: B018
    with pytest.raises(TypeError, match="not callable"):
        nn.Sequential(nn.ReLU(), None)(X)


def test_members_that_are_elsewhere() -> None:
    layer = nn.Linear(4, 2)
    weight = layer.weight
    del layer.weight
    layer.weight = weight.detach() * 2  # as pruning does
    assert flambeau.equal(layer(X), F.linear(X, weight * 2, layer.bias)) and "weight" not in layer._parameters
    plain = nn.Linear(4, 2)
    nn.utils.parametrizations.weight_norm(plain)
    assert flambeau.allclose(nn.Sequential(plain)(X), plain(X)) and type(plain) is not nn.Linear
    values = {"weight": flambeau.ones(2, 4), "bias": flambeau.zeros(2)}
    assert flambeau.equal(flambeau.func.functional_call(nn.Linear(4, 2), values, (X,)), F.linear(X, values["weight"], values["bias"]))

    class Own(nn.Linear):
        def __getattr__(self, name: str) -> Any:
            return flambeau.ones(2) if name == "bias" and self.__dict__.get("is_made") else super().__getattr__(name)

    own = Own(4, 2)
    own.is_made = True
    assert flambeau.equal(own(X), F.linear(X, own.weight) + 1)
    assert nn.BatchNorm1d(3).running_mean.shape == (3,) and network()[2][0].bias is None
    with pytest.raises(AttributeError):
        nn.Linear.weight  # noqa: B018


def test_gradients_are_forgotten() -> None:
    class Part(nn.Sequential):
        def parameters(self, recurse: bool = True, memo: Any = None) -> Any:
            return iter([self[0].weight])

    model = network()
    model.append(model[0])
    model[0].register_parameter("other", None)
    for outer in (model, nn.ModuleList([model, None, model[2]]), Part(*model)):
        for parameter in model.parameters():
            parameter.grad = flambeau.ones_like(parameter)
        outer.zero_grad()
        left = [parameter.grad is not None for parameter in model.parameters()]
        assert left == ([False, True, True, True, True] if type(outer) is Part else [False] * 5)
    model[0].weight.grad = flambeau.ones(5, 4)
    model.zero_grad(set_to_none=False)
    assert not model[0].weight.grad.any()


def test_hooks_are_called() -> None:
    model, seen = network(), []
    handle = model[0].register_forward_hook(lambda module, args, result: seen.append(result.shape))
    model(X)
    handle.remove()
    assert seen == [(3, 5)]


def test_objects_are_counted() -> None:
    model = network()
    things: list[Any] = [None, X, model, model._modules, *model, *model.parameters(), model[0].__dict__, nn.Linear]

    def use() -> None:
        model(X)
        model[0](X)
        assert model[0].weight is not model[0].bias

    assert_counted(use, things, 50)


def test_a_collection_at_every_allocation() -> None:
    model = network()
    expected = model(X)
    with collecting():
        for _ in range(50):
            assert flambeau.equal(model(X), expected)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_allocation_may_fail() -> None:
    """Of a forward pass, a loss and its derivative, and a step; counts of objects stay right."""
    model, labels, x = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2)), flambeau.tensor([0, 1, 1]), flambeau.randn(3, 2, requires_grad=True)
    optimizer = flambeau.optim.Adam(model.parameters(), lr=1e-6)
    F.cross_entropy(model(X), labels).backward()
    for _ in range(200):
        optimizer.step()
    losses = [lambda: F.cross_entropy(x, labels), lambda: F.nll_loss(x, labels), lambda: F.mse_loss(x, x)]
    node, grad = losses[0]().grad_fn, flambeau.ones(())

    things: list[Any] = [X, labels, x, *model, *model.parameters(), *[param.grad for param in model.parameters()], nn.Linear, 1e-6]
    things += [entry for entries in optimizer.state.values() for entry in entries.values()]
    calls = [lambda: model(X), lambda: model[0](X), *losses, optimizer.step, lambda: node.apply(grad)]
    for call, mode in zip(calls, [*[flambeau.enable_grad] * 6, flambeau.no_grad], strict=True):
        with mode():
            call()
            assert fail_everywhere(call, things, 19, 24, 960) > 30
    assert flambeau.equal(model(X), F.linear(F.linear(X, model[0].weight, model[0].bias), model[1].weight, model[1].bias))
