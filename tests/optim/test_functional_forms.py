"""The functions under which PyTorch has one step of an optimizer over lists of tensors: their signatures and what they do."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau

torch = pytorch()
pytestmark = pytest.mark.oracle

# State entries, in the order of the lists, and options.
FORMS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "sgd": (["new"], {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.2, "nesterov": False, "maximize": False}),
    "adam": (
        ["value", "positive", "positive", "step"],
        {"amsgrad": True, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6, "maximize": True},
    ),
    "adamax": (["value", "positive", "step"], {"eps": 1e-6, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1}),
    "adadelta": (["positive", "positive", "step"], {"lr": 0.5, "rho": 0.8, "eps": 1e-6, "weight_decay": 0.1, "maximize": True}),
    "adagrad": (["positive", "step"], {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-6, "maximize": False}),
    "asgd": (["value", "part", "part", "step"], {"lambd": 0.1, "lr": 0.1, "t0": 1, "alpha": 0.7, "weight_decay": 0.1}),
    "nadam": (
        ["value", "positive", "part", "step"],
        {"beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.01, "eps": 1e-6},
    ),
    "radam": (["value", "positive", "step"], {"beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6}),
    "rmsprop": (
        ["positive", "value", "value", "step"],
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.5, "centered": False},
    ),
    "rprop": (
        ["value", "positive", "step"],
        {"step_size_min": 1e-3, "step_size_max": 1.0, "etaminus": 0.5, "etaplus": 1.2},
    ),
}


def function(framework: Any, name: str) -> Any:
    return getattr(importlib.import_module(f"{framework.__name__}.optim.{name}"), name)


def lists(framework: Any, kinds: list[str], dtype: str) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    tensors: list[list[Any]] = []
    for kind in ("value", "value", *kinds):
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in ((3, 4), (5,))]
        if kind == "new":
            tensors.append([None, None])
        elif kind in ("step", "part"):
            tensors.append([framework.tensor(3.0 if kind == "step" else 0.25) for _ in arrays])
        else:
            tensors.append([framework.tensor(np.abs(array) if kind == "positive" else array) for array in arrays])
    return tensors


@pytest.mark.parametrize("name", FORMS)
def test_signatures_are_pytorchs(name):
    def parameters(framework):
        return [(entry.name, entry.kind, entry.default) for entry in inspect.signature(function(framework, name)).parameters.values()]

    assert parameters(flambeau) == parameters(torch)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FORMS)
def test_one_step_over_lists(name, dtype):
    kinds, options = FORMS[name]
    ours, theirs = (lists(framework, kinds, dtype) for framework in (flambeau, torch))
    if name == "rmsprop":
        ours[3], theirs[3] = [], []  # not centered
    grads = [grad.tolist() for grad in ours[1]]
    for _ in range(2):
        function(flambeau, name)(*ours, **options)
        function(torch, name)(*theirs, foreach=False, **options)
    assert [grad.tolist() for grad in ours[1]] == grads
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for mine, reference in zip(ours, theirs, strict=True):
        for one, other in zip(mine, reference, strict=True):
            assert str(one.dtype) == str(other.dtype).replace("torch", "flambeau") or str(one.dtype) == str(other.dtype)
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad"])
@pytest.mark.parametrize("word", ["grad_scale", "found_inf"])
def test_scaling_is_refused(name, word):
    kinds, options = FORMS[name]
    with pytest.raises(NotImplementedError, match="unscale the gradients"):
        function(flambeau, name)(*lists(flambeau, kinds, "float32"), **options, **{word: flambeau.ones(())})


def test_counters_have_to_be_tensors():
    kinds, options = FORMS["adam"]
    *columns, _ = lists(flambeau, kinds, "float32")
    with pytest.raises(RuntimeError, match="singleton tensors"):
        function(flambeau, "adam")(*columns, [1, 1], **options)


def test_a_missing_option_is_named():
    with pytest.raises(TypeError, match="lr"):
        function(flambeau, "sgd")([], [], [], weight_decay=0, momentum=0, dampening=0, nesterov=False, maximize=False)


@pytest.mark.parametrize("name", ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "RMSprop", "Rprop", "SGD"])
def test_defaults_of_optimizers_that_get_gradients_as_arguments(name):
    def stepped(framework: Any) -> Any:
        utils = importlib.import_module(f"{framework.__name__}.distributed.optim.utils")
        param = framework.linspace(1, 2, 3)
        optimizer = utils.functional_optim_map[getattr(framework.optim, name)]([param])
        for grad in ([0.5, -1.0, 2.0], [-0.5, -1.0, 2.0], [0.5, 1.0, 2.0]):
            optimizer.step([framework.tensor(grad)])
        return param.numpy()

    with warnings.catch_warnings(record=True):  # PyTorch warns of its compiler whatever the filters
        expected = stepped(torch)
    np.testing.assert_allclose(stepped(flambeau), expected, rtol=1e-6)
