"""Every optimizer beside PyTorch's on the same gradients: the same parameters and the same state.

The operations and their order are PyTorch's, so only the rounding inside single operations differs: PyTorch fuses the product
and the sum of ``add_(x, alpha=a)`` and ``addcmul_``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau

torch = pytorch()
pytestmark = pytest.mark.oracle

SHAPES = ((3, 4), (5,), ())
STEPS = 8

CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.95)}),
    ("Adam", {"amsgrad": True, "maximize": True, "eps": 1e-3}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.7, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.1, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "maximize": True}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2), "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 2, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.9, 0.9), "maximize": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
]


def config_id(config: tuple[str, dict[str, Any]]) -> str:
    return config[0] + "".join(f"-{key}={value}" for key, value in config[1].items())


def arrays(seed: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    out = []
    for shape in SHAPES:
        values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.startswith("complex") else 0)
        out.append(np.asarray(values, dtype=dtype))
    return out


def run(framework: Any, name: str, options: dict[str, Any], dtype: str, steps: int = STEPS) -> tuple[list[Any], Any]:
    """Parameters and optimizer after some steps on fixed gradients."""
    options = dict(options)
    if "lr_tensor" in options:
        options["lr"] = framework.tensor(options.pop("lr_tensor"))
    params = [framework.tensor(value, requires_grad=True) for value in arrays(0, dtype)]
    optimizer = getattr(framework.optim, name)(params, **options)
    for step in range(steps):
        for param, grad in zip(params, arrays(step + 1, dtype), strict=True):
            param.grad = framework.tensor(grad)
        if step == 3:
            params[1].grad = None
        optimizer.step()
    return params, optimizer


# A few roundings a step; the worst element is the one where sums cancel.
TOLERANCE = {"float32": 2e-6, "float64": 4e-15, "complex64": 4e-6}


def same_values(ours: Any, theirs: Any) -> None:
    """The same structure and dtypes, and values up to rounding."""
    if isinstance(theirs, torch.Tensor):
        ours_array, theirs_array = ours.detach().numpy(), theirs.detach().numpy()
        assert ours_array.dtype == theirs_array.dtype
        tolerance = TOLERANCE[str(theirs_array.dtype)]
        np.testing.assert_allclose(ours_array, theirs_array, rtol=tolerance, atol=tolerance)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same_values(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for our_value, their_value in zip(ours, theirs, strict=True):
            same_values(our_value, their_value)
    else:
        assert ours == theirs


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_steps_give_the_same_values(config):
    ours, our_optimizer = run(flambeau, *config, "float32")
    theirs, their_optimizer = run(torch, *config, "float32")
    same_values(ours, theirs)
    same_values(our_optimizer.state_dict(), their_optimizer.state_dict())
    assert repr(our_optimizer) == repr(their_optimizer)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_steps_agree_in_other_dtypes(config, dtype):
    ours, our_optimizer = run(flambeau, *config, dtype)
    theirs, their_optimizer = run(torch, *config, dtype)
    same_values(ours, theirs)
    our_state, their_state = our_optimizer.state_dict()["state"], their_optimizer.state_dict()["state"]
    assert {key: list(value) for key, value in our_state.items()} == {key: list(value) for key, value in their_state.items()}


# A few units of the last place of the largest value: what a fused product or one rounding more makes of three steps.
@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 2.0**-6), ("float16", 2.0**-9)])
@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_steps_in_half_precision(config, dtype, tolerance):
    name, options = config
    results = []
    for framework in (flambeau, torch):
        rng = np.random.default_rng(4)
        param = framework.tensor(rng.standard_normal(40).tolist(), dtype=getattr(framework, dtype), requires_grad=True)
        optimizer = getattr(framework.optim, name)([param], **options)
        for _ in range(3):
            param.grad = framework.tensor(rng.standard_normal(40).tolist(), dtype=getattr(framework, dtype))
            optimizer.step()
        entries = [entry for entry in optimizer.state[param].values() if entry.ndim] if param in optimizer.state else []
        assert all(entry.dtype == param.dtype for entry in entries)
        results.append([entry.detach().to(framework.float64).numpy() for entry in (param, *entries)])
    for mine, reference in zip(*results, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=0, atol=tolerance * max(1.0, np.abs(reference).max()))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adamax", "Adadelta", "Adagrad", "RMSprop", "Rprop", "ASGD", "NAdam", "RAdam"])
@pytest.mark.parametrize("lr", [0.125, [0.1]])
def test_lr_may_be_a_tensor(name, lr):
    if name == "Rprop" and isinstance(lr, list):
        lr = [0.125]
    ours, our_optimizer = run(flambeau, name, {"lr_tensor": lr}, "float32")
    theirs, their_optimizer = run(torch, name, {"lr_tensor": lr}, "float32")
    same_values(ours, theirs)
    same_values(our_optimizer.state_dict()["state"], their_optimizer.state_dict()["state"])


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_betas_may_be_tensors(name):
    def trained(framework):
        options = {"betas": (framework.tensor(0.9), framework.tensor([0.99]))}
        return run(framework, name, options, "float32")[0]

    same_values(trained(flambeau), trained(torch))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
@pytest.mark.parametrize("flag", ["foreach", "fused"])
def test_foreach_and_fused_change_no_result(name, flag):
    plain, _ = run(flambeau, name, {"lr": 0.1}, "float32")
    flagged, flagged_optimizer = run(flambeau, name, {"lr": 0.1, flag: True}, "float32")
    for one, other in zip(plain, flagged, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    theirs = run(torch, name, {"lr": 0.1, flag: True}, "float32")[1].state_dict()
    ours = flagged_optimizer.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    for key, entry in theirs["state"].items():
        assert {name: str(value.dtype) for name, value in entry.items()} == {
            name: str(value.dtype) for name, value in ours["state"][key].items()
        }


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adafactor", {}),
        ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 1.5, "eps": (1e-4, 0.1), "maximize": True}),
        ("Adafactor", {"lr_tensor": 0.5}),
        ("Muon", {"lr": 0.1}),
        ("Muon", {"nesterov": False, "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw"}),
    ],
)
def test_optimizers_of_matrices(name, options):
    def trained(framework):
        kinds = dict(options)
        if "lr_tensor" in kinds:
            kinds["lr"] = framework.tensor(kinds.pop("lr_tensor"))
        rng = np.random.default_rng(0)
        shapes = [(6, 4), (3, 5)] + ([(2, 3, 4), (5,), ()] if name == "Adafactor" else [])
        params = [framework.tensor(rng.standard_normal(shape).astype("float32"), requires_grad=True) for shape in shapes]
        optimizer = getattr(framework.optim, name)(params, **kinds)
        for _ in range(4):
            for param, shape in zip(params, shapes, strict=True):
                param.grad = framework.tensor(rng.standard_normal(shape).astype("float32"))
            optimizer.step()
        return params, optimizer.state_dict()

    (ours, our_state), (theirs, their_state) = trained(flambeau), trained(torch)
    # Muon's products are in bfloat16, whose order of summation shows.
    tolerance = 2e-2 if name == "Muon" else 1e-6
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)
    same_values(our_state["param_groups"], their_state["param_groups"])
    for key, entry in their_state["state"].items():
        assert [(name, tuple(value.shape)) for name, value in entry.items()] == [
            (name, tuple(value.shape)) for name, value in our_state["state"][key].items()
        ]


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("options", [{}, {"lr": 0.3, "history_size": 3, "max_iter": 7}, {"max_eval": 4}])
def test_lbfgs_follows_the_same_path(line_search, options):
    def trained(framework):
        point = framework.tensor([-1.5, 2.0], dtype=framework.float64, requires_grad=True)
        other = framework.tensor(0.5, dtype=framework.float64, requires_grad=True)
        optimizer = framework.optim.LBFGS([point, other], line_search_fn=line_search, **options)
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = (1 - point[0]) ** 2 + 10 * (point[1] - point[0] ** 2) ** 2 + (other - point[0]) ** 4
            loss.backward()
            losses.append(loss.item())
            return loss

        for _ in range(6):
            optimizer.step(closure)
        state = optimizer.state_dict()["state"][0]
        return np.array(losses), point.detach().numpy(), state["n_iter"], state["func_evals"], set(state)

    ours, theirs = trained(flambeau), trained(torch)
    assert len(ours[0]) == len(theirs[0])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
    assert ours[2:] == theirs[2:]


# PyTorch's Adamax and Rprop cannot record more than one step.
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adadelta", "Adagrad", "RMSprop", "ASGD", "NAdam", "RAdam"])
def test_differentiable_steps_have_the_same_gradients(name):
    def meta_gradients(framework):
        start = framework.tensor([1.0, -2.0, 0.5], dtype=framework.float64, requires_grad=True)
        scale = framework.tensor([0.5, 1.5, -1.0], dtype=framework.float64, requires_grad=True)
        param = start.clone()
        optimizer = getattr(framework.optim, name)([param], lr=0.1, differentiable=True)
        for step in range(3):
            param.grad = scale * (step + 1) + start * 0.5
            optimizer.step()
        (param * framework.tensor([1.0, 2.0, 3.0], dtype=framework.float64)).sum().backward()
        return [param.detach().numpy().copy(), start.grad.numpy(), scale.grad.numpy()]

    for ours, theirs in zip(meta_gradients(flambeau), meta_gradients(torch), strict=True):
        # The counters are float32, and one rounding of 0.999**t is 6e-5 of 1 - 0.999**t.
        tolerance = 1e-5 if name in ("Adam", "AdamW") else 1e-10
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_learning_rate_can_be_learnt(name):
    def lr_gradient(framework):
        lr = framework.tensor(0.1, dtype=framework.float64, requires_grad=True)
        param = framework.tensor([1.0, -2.0], dtype=framework.float64, requires_grad=True).clone()
        optimizer = getattr(framework.optim, name)([param], lr=lr, differentiable=True)
        for step in range(2):
            param.grad = framework.tensor([0.5, -1.0], dtype=framework.float64) * (step + 1)
            optimizer.step()
        (param**2).sum().backward()
        return lr.grad.item()

    assert lr_gradient(flambeau) == pytest.approx(lr_gradient(torch), rel=1e-5)
