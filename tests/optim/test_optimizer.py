"""The base class: groups, state, hooks, saving and loading, and the mistakes that it refuses."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau
from flambeau import optim
from flambeau.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)

ELEMENTWISE = ["SGD", "Adam", "AdamW", "Adamax", "Adadelta", "Adagrad", "RMSprop", "Rprop", "ASGD", "NAdam", "RAdam"]


def leaf(*values: float, **options: Any) -> Any:
    return flambeau.tensor(values, requires_grad=True, **options)


def stepped(optimizer: Any, value: float = 1.0) -> Any:
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = flambeau.full_like(param, value)
    optimizer.step()
    return optimizer


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_group_options_override_defaults():
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    optimizer = optim.SGD([{"params": a}, {"params": [b], "lr": 1e-2}], lr=1e-5, momentum=0.9)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-5, 1e-2]
    assert optimizer.param_groups[1]["momentum"] == 0.9
    optimizer.param_groups[0]["lr"] = 0.5
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 0.5
    optimizer.add_param_group({"params": iter([c])})
    assert len(optimizer.param_groups) == 3 and optimizer.defaults["lr"] == 1e-5


def test_named_parameters_keep_their_names():
    a, b = leaf(1.0), leaf(2.0)
    optimizer = optim.SGD([("a", a), ("b", b)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
    assert optimizer.param_groups[0]["params"] == [a, b]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [leaf(1.0)]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        optimizer.add_param_group({"params": [("c", leaf(1.0)), leaf(2.0)]})


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: optim.Adam(leaf(1.0)), TypeError, "params argument given to the optimizer should be an iterable"),
        (lambda: optim.Adam([]), ValueError, "empty parameter list"),
        (lambda: optim.Adam([1]), TypeError, "one of the params is int"),
        (lambda: optim.Adam([leaf(1.0) * 2]), ValueError, "non-leaf"),
        (lambda: optim.Adam([{"parameters": [leaf(1.0)]}]), KeyError, "params"),
        (lambda: optim.Adam([{"params": {leaf(1.0)}}]), TypeError, "ordered collections"),
        (lambda: optim.Adam([leaf(1.0)], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.Adam([leaf(1.0)], lr=flambeau.ones(2)), ValueError, "1-element"),
        (lambda: optim.Adam([leaf(1.0)], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda: optim.Adam([leaf(1.0)], betas=(0.9, -0.1)), ValueError, "beta parameter at index 1"),
        (lambda: optim.Adam([leaf(1.0)], betas=(0.9, flambeau.tensor(0.9))), ValueError, "both floats or both Tensors"),
        (lambda: optim.Adam([leaf(1.0)], eps=-1.0), ValueError, "Invalid epsilon value"),
        (lambda: optim.Adam([leaf(1.0)], weight_decay=-1.0), ValueError, "Invalid weight_decay value"),
        (lambda: optim.Adam([leaf(1.0)], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (lambda: optim.Adam([leaf(1.0)], fused=True, differentiable=True), RuntimeError, "does not support `differentiable`"),
        (lambda: optim.Adam([leaf(1.0)], lr=flambeau.tensor(0.1), foreach=True), ValueError, "lr as a Tensor"),
        (lambda: optim.SGD([leaf(1.0)], nesterov=True), ValueError, "Nesterov"),
        (lambda: optim.SGD([leaf(1.0)], momentum=-1), ValueError, "momentum"),
        (lambda: optim.SGD([leaf(1.0)], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (lambda: optim.Adadelta([leaf(1.0)], rho=1.5), ValueError, "Invalid rho"),
        (lambda: optim.Adagrad([leaf(1.0)], lr_decay=-1), ValueError, "Invalid lr_decay"),
        (lambda: optim.RMSprop([leaf(1.0)], alpha=-1), ValueError, "Invalid alpha"),
        (lambda: optim.Rprop([leaf(1.0)], etas=(1.1, 1.2)), ValueError, "Invalid eta values"),
        (lambda: optim.NAdam([leaf(1.0)], momentum_decay=-1), ValueError, "Invalid momentum_decay"),
        (lambda: optim.LBFGS([{"params": leaf(1.0)}, {"params": leaf(1.0)}]), ValueError, "parameter groups"),
        (lambda: Optimizer([leaf(1.0)], {"lr": required}), ValueError, "required optimization parameter lr"),
        (lambda: Optimizer([leaf(1.0)], {}).step(), NotImplementedError, "define step"),
        (lambda: optim.SGD([leaf(1.0)]).add_param_group([1]), TypeError, "must be a dict"),
        (lambda: stepped(optim.Adam([leaf(1.0)], capturable=True)), AssertionError, "If capturable=True"),
        (lambda: stepped(optim.SGD([flambeau.tensor([1j], requires_grad=True)], fused=True)), RuntimeError, "floating point"),
        (lambda: optim.LBFGS([leaf(1.0)], line_search_fn="guess").step(lambda: leaf(1.0).sum()), RuntimeError, "strong_wolfe"),
    ],
)
def test_mistakes_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_shared_parameters():
    a, b = leaf(1.0), leaf(2.0)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [a, b]}, {"params": [a]}])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([a, a])


def test_repr_lists_all_options():
    optimizer = optim.SGD([{"params": [leaf(1.0)]}, {"params": [leaf(1.0)], "lr": 0.5}], lr=0.1)
    text = repr(optimizer)
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n") and text.endswith("    weight_decay: 0\n)")
    assert "    lr: 0.1\n" in text and "Parameter Group 1\n" in text and "    lr: 0.5\n" in text and "params" not in text


# ---- stepping --------------------------------------------------------------------------------------------------------


def test_zero_grad():
    a, b = leaf(1.0), leaf(2.0)
    optimizer = optim.SGD([a, b])
    a.grad = grad = flambeau.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is grad and grad.tolist() == [0.0] and b.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_zero_grad_cuts_the_history_of_gradients():
    a = leaf(1.0)
    a.grad = a * 2
    optim.SGD([a]).zero_grad(set_to_none=False)
    assert a.grad.grad_fn is None and not a.grad.requires_grad


def test_parameters_without_gradient_are_skipped():
    a, b = leaf(1.0), leaf(2.0)
    optimizer = optim.Adam([a, b], lr=0.1)
    a.grad = flambeau.ones(1)
    optimizer.step()
    assert b.tolist() == [2.0] and list(optimizer.state) == [a]


def test_closure_runs_with_gradients_and_its_loss_is_returned():
    a = leaf(3.0, -2.0)
    for name in [*ELEMENTWISE, "LBFGS"]:
        optimizer = getattr(optim, name)([a], lr=0.05)

        def closure(optimizer=optimizer):
            assert flambeau.is_grad_enabled()
            optimizer.zero_grad()
            loss = (a**2).sum()
            loss.backward()
            return loss

        with flambeau.no_grad():
            before = optimizer.step(closure).item()
            assert not flambeau.is_grad_enabled()
        assert (a**2).sum().item() < before, name
        assert a.grad_fn is None and a.requires_grad


def test_first_adam_step_is_lr_times_sign():
    w = leaf(1.0, 1.0)
    optimizer = optim.Adam([w], lr=0.1)
    (w * flambeau.tensor([5.0, -0.01])).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), [0.9, 1.1], atol=1e-4)
    assert set(optimizer.state[w]) == {"step", "exp_avg", "exp_avg_sq"}
    assert optimizer.state[w]["step"].shape == () and optimizer.state[w]["step"].dtype == flambeau.float32


def test_sgd_without_momentum_has_no_state():
    assert stepped(optim.SGD([leaf(1.0)])).state_dict()["state"] == {}
    assert list(stepped(optim.SGD([leaf(1.0)], momentum=0.5)).state_dict()["state"][0]) == ["momentum_buffer"]


def test_momentum_buffer_is_not_the_gradient():
    a = leaf(1.0)
    optimizer = stepped(optim.SGD([a], lr=0.1, momentum=0.5))
    assert optimizer.state[a]["momentum_buffer"] is not a.grad
    a.grad.zero_()
    assert optimizer.state[a]["momentum_buffer"].tolist() == [1.0]


def test_weight_decay_leaves_the_gradient_alone():
    for name in ELEMENTWISE:
        if name != "Rprop":
            a = leaf(2.0)
            stepped(getattr(optim, name)([a], lr=0.1, weight_decay=0.5))
            assert a.grad.tolist() == [1.0], name


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_counters_are_float64_under_a_float64_default(name):
    flambeau.set_default_dtype(flambeau.float64)
    a = leaf(1.0)
    optimizer = stepped(getattr(optim, name)([a], lr=0.1))
    assert name == "SGD" or optimizer.state[a]["step"].dtype == flambeau.float64


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("SGD", {"momentum": 0.9}),
        ("Adam", {"weight_decay": 0.1}),
        ("Adam", {"amsgrad": True}),
        ("AdamW", {"weight_decay": 0.1}),
        ("Adamax", {}),
        ("Adadelta", {}),
        ("Adagrad", {"lr_decay": 0.1}),
        ("RMSprop", {"momentum": 0.9}),
        ("RMSprop", {"centered": True}),
        ("Rprop", {}),
        ("ASGD", {"t0": 1}),
        ("NAdam", {"weight_decay": 0.1}),
        ("RAdam", {"betas": (0.9, 0.9)}),
    ],
)
def test_recorded_steps_have_the_right_gradient(name, options):
    def trained(scale):
        param = flambeau.tensor([1.0, -2.0, 0.5], dtype=flambeau.float64, requires_grad=True).clone()
        optimizer = getattr(optim, name)([param], lr=0.1, differentiable=True, **options)
        for step in range(8 if name == "RAdam" else 3):
            param.grad = scale * (step + 1) + param * 0.5
            optimizer.step()
        return (param * flambeau.tensor([1.0, 2.0, 3.0], dtype=flambeau.float64)).sum()

    start = flambeau.tensor([0.5, 1.5, -1.0], dtype=flambeau.float64)
    scale = start.clone().requires_grad_()
    trained(scale).backward()
    for i in range(3):
        shift = flambeau.zeros(3, dtype=flambeau.float64)
        shift[i] = 1e-6
        expected = (trained(start + shift) - trained(start - shift)).item() / 2e-6
        assert scale.grad[i].item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


# ---- hooks -----------------------------------------------------------------------------------------------------------


def test_step_hooks_run_in_order_and_can_be_removed():
    seen = []
    optimizer = optim.SGD([leaf(1.0)])

    def hook(label):
        def record(opt, args, kwargs):
            assert opt is optimizer and args[0] is optimizer and kwargs == {}
            seen.append(label)

        return record

    handles = [
        optimizer.register_step_pre_hook(hook("pre")),
        register_optimizer_step_pre_hook(hook("global pre")),
        optimizer.register_step_post_hook(hook("post")),
        register_optimizer_step_post_hook(hook("global post")),
    ]
    optimizer.step()
    assert seen == ["global pre", "pre", "post", "global post"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_step_pre_hook_may_change_the_arguments():
    optimizer = optim.SGD([leaf(1.0)])
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: (args, {"closure": lambda: 42}))
    assert optimizer.step() == 42
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_hooks_run_for_steps_of_user_classes():
    class Own(Optimizer):
        def step(self, closure=None):
            return "stepped"

    optimizer = Own([leaf(1.0)], {})
    seen = []
    optimizer.register_step_post_hook(lambda *args: seen.append(1))
    assert optimizer.step() == "stepped" and Own([leaf(1.0)], {}).step() == "stepped" and seen == [1]


def test_state_dict_hooks():
    a = leaf(1.0)
    optimizer = optim.SGD([a], lr=0.1)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda opt: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda opt: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda opt, saved: {**saved, "extra": 1})
    optimizer.register_state_dict_post_hook(lambda opt, saved: saved.update(in_place=2))
    saved = optimizer.state_dict()
    assert seen == ["first", "second"] and saved["extra"] == 1 and saved["in_place"] == 2

    def change_rate(opt, loaded):
        loaded["param_groups"] = [{**loaded["param_groups"][0], "lr": 7.0}]

    optimizer.register_load_state_dict_pre_hook(change_rate)
    optimizer.register_load_state_dict_post_hook(lambda opt: seen.append("loaded"))
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 7.0 and saved["param_groups"][0]["lr"] == 0.1 and seen[-1] == "loaded"


# ---- saving and loading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("way", ["state_dict", "pickle", "deepcopy"])
def test_training_continues_from_a_copy_as_if_nothing_had_happened(name, way):
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    a = leaf(1.0, -2.0)
    optimizer = stepped(getattr(optim, name)([a], lr=0.1, **options))
    if way == "state_dict":
        b = a.detach().clone().requires_grad_()
        again = getattr(optim, name)([b], lr=5.0)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    else:
        again = pickle.loads(pickle.dumps(optimizer)) if way == "pickle" else copy.deepcopy(optimizer)
        (b,) = again.param_groups[0]["params"]
    assert b is not a
    for _ in range(2):
        stepped(optimizer, 0.5)
        stepped(again, 0.5)
    assert a.tolist() == b.tolist() != [1.0, -2.0]
    assert repr(again) == repr(optimizer)


def test_state_takes_the_parameter_dtype_but_the_counter_does_not():
    saved = stepped(optim.Adam([leaf(1.0)])).state_dict()
    half = leaf(1.0, dtype=flambeau.bfloat16)
    optimizer = optim.Adam([half])
    optimizer.load_state_dict(saved)
    state = optimizer.state[half]
    assert state["exp_avg"].dtype == flambeau.bfloat16 and state["step"].dtype == flambeau.float32
    assert saved["state"][0]["exp_avg"].dtype == flambeau.float32


def test_loaded_groups_replace_options_and_keep_parameters():
    a, b = leaf(1.0), leaf(2.0)
    saved = optim.SGD([("a", a)], lr=0.5).state_dict()
    optimizer = optim.SGD([("b", b)], lr=0.1)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.5 and optimizer.param_groups[0]["params"] == [b]
    assert optimizer.param_groups[0]["param_names"] == ["a"]
    del saved["param_groups"][0]["param_names"]
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["param_names"] == ["a"]


def test_loading_checks_the_sizes():
    optimizer = optim.SGD([leaf(1.0)])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(optim.SGD([{"params": leaf(1.0)}, {"params": leaf(1.0)}]).state_dict())
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(optim.SGD([leaf(1.0), leaf(2.0)]).state_dict())


def test_checkpoints_of_earlier_versions_are_understood():
    a = leaf(1.0)
    optimizer = stepped(optim.Adam([a], lr=0.1))
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"] = 1
    for late in ("maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay"):
        del saved["param_groups"][0][late]
    b = a.detach().clone().requires_grad_()
    again = optim.Adam([b], lr=0.1)
    again.load_state_dict(saved)
    assert isinstance(again.state[b]["step"], flambeau.Tensor)
    stepped(optimizer)
    stepped(again)
    assert a.tolist() == b.tolist()


def test_state_dict_is_saved_and_loaded_as_a_file():
    optimizer = stepped(optim.Adam([leaf(1.0, 2.0)]))
    buffer = io.BytesIO()
    flambeau.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    loaded = flambeau.load(buffer)
    assert loaded["param_groups"] == optimizer.state_dict()["param_groups"]
    assert loaded["state"][0]["exp_avg"].tolist() == optimizer.state_dict()["state"][0]["exp_avg"].tolist()


@pytest.mark.parametrize("name", [name for name in optim.__all__ if name[0].isupper()])
def test_docstrings_explain_every_argument_once_in_order(name):
    kind = getattr(optim, name)
    text = inspect.cleandoc(kind.__doc__)
    (section,) = re.findall(r"^Args:\n((?: {4}.*\n)+)", text, re.MULTILINE)
    assert re.findall(r"^ {4}(\w+): \S", section, re.MULTILINE) == list(inspect.signature(kind).parameters)
    assert "\nSource: torch.optim." in text


@pytest.mark.oracle
def test_types_of_hooks_have_pytorchs_names(oracle):
    theirs = vars(pytorch("torch.optim.optimizer"))
    ours = vars(flambeau.optim.optimizer)
    names = {name for name in theirs if name in ("Args", "Kwargs", "ParamsT") or name.endswith(("Hook", "Dict"))} - {"OrderedDict"}
    assert "GlobalOptimizerPreHook" in names and names <= ours.keys()
    assert Optimizer.OptimizerPreHook and Optimizer.OptimizerPostHook
