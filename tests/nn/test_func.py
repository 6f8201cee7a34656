"""``torch.func``: modules as functions of their parameters."""

from __future__ import annotations

import importlib

import pytest

import flambeau


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request):
    library = flambeau if request.param == "flambeau" else request.getfixturevalue("oracle")
    importlib.import_module(f"{library.__name__}.func")
    return library


def net(torch):
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))


def test_functional_call_uses_the_tensors_given(torch):
    module = net(torch).eval()
    parameters = {name: torch.full_like(p, 2).requires_grad_() for name, p in module.named_parameters()}
    buffers = dict(module.named_buffers())
    x = torch.ones(3, 2)
    before = module[0].weight.clone()
    results = [torch.func.functional_call(module, given, args) for given in ((parameters, buffers), [parameters]) for args in (x, (x,))]
    results.append(torch.func.functional_call(module, parameters, kwargs={"input": x}))
    for result in results:
        torch.testing.assert_close(result, torch.full((3, 2), 14.0), rtol=1e-4, atol=0.0)
    results[0].sum().backward()
    assert parameters["0.weight"].grad is not None and module[0].weight.grad is None and torch.equal(module[0].weight, before)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (3, ValueError, "to be a dict, or a list/tuple of dicts, but got <class 'int'>"),
        (({}, 3), ValueError, "all elements of parameter_and_buffer_dicts to be dictionaries"),
        (({"0.bias": None}, {"0.bias": None}), ValueError, r"\['0.bias'\] appeared in multiple dictionaries"),
    ],
)
def test_functional_call_refuses(torch, given, error, words):
    with pytest.raises(error, match=words):
        torch.func.functional_call(net(torch), given, torch.ones(3, 2))


def test_functional_call_may_be_strict(torch):
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'q'"):
        torch.func.functional_call(net(torch), {"q": torch.ones(1)}, torch.ones(3, 2), strict=True)


def test_states_of_modules_are_stacked(torch):
    models = [torch.nn.BatchNorm1d(2) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    assert list(parameters) == ["weight", "bias"] and list(buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    assert parameters["weight"].shape == (3, 2) and buffers["num_batches_tracked"].shape == (3,)
    assert all(p.requires_grad and p.is_leaf and type(p) is torch.Tensor for p in parameters.values())
    assert not any(b.requires_grad for b in buffers.values())


def test_states_of_different_modules_are_not(torch):
    norm, stack = torch.nn.BatchNorm1d(2), torch.func.stack_module_state
    for models, words in (
        ([], "at least one model, got 0"),
        ([norm, torch.nn.Linear(1, 1)], "of the same class"),
        ([norm, torch.nn.BatchNorm1d(2).eval()], "same training/eval mode"),
        ([norm, torch.nn.BatchNorm1d(2).requires_grad_(False)], "Expected weight from each model to have the same .requires_grad"),
    ):
        with pytest.raises(RuntimeError, match=words):
            stack(models)


def test_batch_norms_lose_their_statistics(torch):
    module = net(torch)
    assert torch.func.replace_all_batch_norm_modules_(module) is module
    assert list(module.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"] and not module[1].track_running_stats
    assert module.eval()(torch.randn(8, 2)).mean().abs() < 1e-5
