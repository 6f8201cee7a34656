"""Parametrizations: values, state, messages, copies; weight norm, spectral norm and orthogonal matrices, new and old."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize


def _modules(torch):
    class Symmetric(torch.nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).mT

        def right_inverse(self, A):
            return A.triu()

    class Doubled(torch.nn.Module):
        def forward(self, X):
            return X * 2

    class Split(torch.nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, X):
            return X / 2, X / 2

    class Shorter(torch.nn.Module):
        def forward(self, X):
            return X[:1]

    class Wider(torch.nn.Module):
        def forward(self, X):
            return X.double()

    class Nothing(torch.nn.Module):
        def forward(self, X):
            return None

    class Number(torch.nn.Module):
        def forward(self, X):
            return X

        def right_inverse(self, X):
            return 3

    return Symmetric, Doubled, Split, Shorter, Wider, Nothing, Number


def test_parametrizations_are_pytorchs(same):
    def program(torch):
        of = importlib.import_module(f"{torch.__name__}.nn.utils.parametrize")
        Symmetric, Doubled, Split, Shorter, Wider, Nothing, Number = _modules(torch)
        layer = torch.nn.Linear(3, 3)
        start = layer.weight.detach().clone()
        outcomes = [of.is_parametrized(layer), of.register_parametrization(layer, "weight", Symmetric()) is layer]
        outcomes += [start, repr(layer), layer.weight, layer.state_dict(), [name for name, _ in layer.named_parameters()]]
        layer(torch.ones(3)).sum().backward()
        outcomes += [layer.parametrizations.weight.original.grad, type(layer).__name__, of.type_before_parametrizations(layer).__name__]
        layer.weight = torch.arange(9.0).reshape(3, 3)
        outcomes += [layer.weight, layer.parametrizations.weight.original]
        of.register_parametrization(layer, "weight", Doubled())
        outcomes += [layer.weight, repr(layer), lambda: setattr(layer, "weight", start)]
        of.register_parametrization(layer, "bias", Split())
        outcomes += [layer.state_dict(), of.is_parametrized(layer, "bias"), of.is_parametrized(layer, "other")]
        with of.cached():
            outcomes += [layer.weight is layer.weight]
        outcomes += [layer.weight is layer.weight, copy.deepcopy(layer).state_dict(), lambda: pickle.dumps(layer)]
        other = of.transfer_parametrizations_and_params(layer, torch.nn.Linear(3, 3))
        outcomes += [other.weight, other.parametrizations.weight.original is layer.parametrizations.weight.original]
        outcomes += [lambda: of.remove_parametrizations(layer, "bias", leave_parametrized=False)]
        of.remove_parametrizations(layer, "bias")
        outcomes += [of.is_parametrized(layer), layer.bias, type(layer.bias).__name__]
        of.remove_parametrizations(layer, "weight", leave_parametrized=False)
        outcomes += [of.is_parametrized(layer), layer.weight, type(layer).__name__, sorted(layer.state_dict()), repr(layer)]
        outcomes += [lambda: of.remove_parametrizations(layer, "weight"), lambda: of.ParametrizationList([], layer.weight)]
        for module in (Shorter(), Wider(), Nothing(), Number()):
            outcomes += [lambda module=module: of.register_parametrization(layer, "weight", module)]
        outcomes += [lambda: of.register_parametrization(layer, "nothing", Doubled()), repr(layer)]
        of.register_parametrization(layer, "weight", Doubled())
        for module in (Shorter(), Wider(), Nothing(), Number()):
            outcomes += [lambda module=module: of.register_parametrization(layer, "weight", module)]
        of.register_parametrization(layer, "weight", Shorter(), unsafe=True)
        return [*outcomes, layer.weight, layer.parametrizations.weight.unsafe]

    same(program)


def test_a_parametrized_module_reads_its_state_and_moves():
    Symmetric, *_ = _modules(flambeau)
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    other = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    other.load_state_dict(layer.state_dict())
    assert flambeau.equal(other.weight, layer.weight)
    assert layer.double().weight.dtype is flambeau.float64
    assert layer.train(False).parametrizations.weight[0].training is False


def _compare(program, oracle, rtol=2e-5, atol=2e-6):
    results = []
    for torch in (flambeau, oracle):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(program(torch))
    for got, expected in zip(*results, strict=True):
        if not hasattr(got, "detach"):
            assert got == expected
            continue
        assert tuple(got.shape) == tuple(expected.shape)
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=atol)


LAYERS = {
    "linear": (lambda of: of.Linear(3, 4), (2, 3)),
    "convolution": (lambda of: of.Conv2d(2, 3, 2), (1, 2, 3, 3)),
    "transposed": (lambda of: of.ConvTranspose2d(2, 3, 2), (1, 2, 3, 3)),
}
NORMS = {
    "weight_norm": ({}, {"dim": None}, {"dim": 1}),
    "spectral_norm": ({}, {"n_power_iterations": 3, "dim": 1}, {"name": "weight", "eps": 1e-6}),
}


@pytest.mark.parametrize("where", ["nn.utils", "nn.utils.parametrizations"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", LAYERS)
def test_norms_are_pytorchs(oracle, kind, norm, where):
    def program(torch):
        make, shape = LAYERS[kind]
        outcomes = []
        for options in NORMS[norm]:
            home = importlib.import_module(f"{torch.__name__}.{where}")
            layer = getattr(home, norm)(make(torch.nn), **options)
            input = torch.randn(shape)
            for training in (True, False, True):
                layer.train(training)(input).sin().sum().backward()
                outcomes += [layer.weight, *[parameter.grad for parameter in layer.parameters()]]
            outcomes += [list(layer.state_dict()), *layer.state_dict().values(), repr(layer)]
            if where == "nn.utils":
                getattr(home, f"remove_{norm}")(layer)
            else:
                home.parametrize.remove_parametrizations(layer, "weight")
            outcomes += [list(layer.state_dict()), *layer.state_dict().values()]
        return outcomes

    _compare(program, oracle)


def test_messages_of_norms(same):
    def program(torch):
        of, new = torch.nn.utils, torch.nn.utils.parametrizations
        layer = of.spectral_norm(torch.nn.Linear(2, 2))
        return [
            lambda: of.spectral_norm(layer),
            lambda: of.spectral_norm(torch.nn.Linear(2, 2), n_power_iterations=0),
            lambda: of.spectral_norm(torch.nn.Linear(2, 2, bias=False), name="bias"),
            lambda: of.remove_spectral_norm(torch.nn.Linear(2, 2)),
            lambda: of.remove_weight_norm(torch.nn.Linear(2, 2)),
            lambda: new.spectral_norm(torch.nn.Linear(2, 2), n_power_iterations=0),
            lambda: new.spectral_norm(torch.nn.Linear(2, 2), dim=2),
            lambda: new.spectral_norm(torch.nn.Linear(2, 2), "other"),
            lambda: new.orthogonal(torch.nn.Linear(2, 2), "other"),
            lambda: new.orthogonal(torch.nn.Linear(2, 2), "bias"),
            lambda: new.orthogonal(torch.nn.Linear(2, 2), orthogonal_map="polar"),
        ]

    same(program)


def test_old_weight_norm_warns_and_its_states_are_read():
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        old = nn.utils.weight_norm(nn.Linear(3, 2))
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    layer.load_state_dict(old.state_dict())
    assert flambeau.equal(layer.weight, old.weight)


def test_old_states_of_spectral_norm_are_read():
    layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    layer(flambeau.ones(3))
    state = layer.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    expected = layer.eval()(flambeau.ones(3)).detach()
    state["weight"] = layer.weight.detach()
    del state["weight_v"], state._metadata[""]["spectral_norm"]
    other = nn.utils.spectral_norm(nn.Linear(3, 2)).eval()
    other.load_state_dict(state)
    np.testing.assert_allclose(other(flambeau.ones(3)).detach().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_orthogonal_matrices_are_pytorchs(oracle, shape, name, trivialized):
    def program(torch):
        layer = torch.nn.Linear(*shape)
        torch.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=name, use_trivialization=trivialized)
        outcomes = [layer.weight, list(layer.state_dict()), *layer.state_dict().values()]
        original = layer.parametrizations.weight.original
        original.data += torch.linspace(-0.4, 0.6, original.numel()).reshape(original.shape)
        original.data.diagonal().sign_()
        (layer.weight * torch.linspace(0, 1, original.numel()).reshape(original.shape)).sum().backward()
        return [*outcomes, layer.weight, original.grad]

    _compare(program, oracle, rtol=1e-4, atol=2e-5)


def test_an_orthogonal_weight_can_be_assigned():
    layer = parametrizations.orthogonal(nn.Linear(3, 3))
    wanted = flambeau.eye(3)[[1, 2, 0]]
    layer.weight = wanted
    np.testing.assert_allclose(layer.weight.detach().numpy(), wanted.numpy(), atol=1e-6)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        parametrizations.orthogonal(nn.Linear(3, 3), use_trivialization=False).weight = wanted
