"""Every schedule beside PyTorch's: the same rates and momenta, the same saved state, the same warnings and errors."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
from oracle import pytorch

import flambeau

torch = pytorch()
pytestmark = pytest.mark.oracle

STEPS = 14


def halve(step: int) -> float:
    return 0.5**step


class Ramp:
    """A callable object, whose attributes are saved."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def __call__(self, step: float) -> float:
        return 1 - self.slope * step


SCHEDULES: dict[str, Any] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda t: 0.9**t),
    "LambdaLR, two": lambda s, o: s.LambdaLR(o, [lambda t: 0.9**t, Ramp(0.05)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda t: 0.9),
    "MultiplicativeLR, two": lambda s, o: s.MultiplicativeLR(o, (halve, Ramp(0.05))),
    "StepLR": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "ConstantLR, longer": lambda s, o: s.ConstantLR(o, factor=0.3, total_iters=7),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "LinearLR, down": lambda s, o: s.LinearLR(o, start_factor=0.9, end_factor=0.1, total_iters=8),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.7),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "PolynomialLR, square": lambda s, o: s.PolynomialLR(o, total_iters=8, power=2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, T_max=4),
    "CosineAnnealingLR, floor": lambda s, o: s.CosineAnnealingLR(o, T_max=9, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "CosineAnnealingWarmRestarts, longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, max_lr=0.5, total_steps=STEPS),
    "OneCycleLR, linear": lambda s, o: s.OneCycleLR(o, max_lr=[0.5, 1.0], epochs=2, steps_per_epoch=7, anneal_strategy="linear"),
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(o, max_lr=0.5, total_steps=STEPS, three_phase=True, cycle_momentum=False),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, 0.5, step_size_up=3),
    "CyclicLR, asymmetric": lambda s, o: s.CyclicLR(o, [0.1, 0.2], 0.5, step_size_up=2, step_size_down=3, mode="triangular2"),
    "CyclicLR, exponential": lambda s, o: s.CyclicLR(o, 0.1, 0.5, step_size_up=2, mode="exp_range", gamma=0.9),
    "CyclicLR, function": lambda s, o: s.CyclicLR(o, 0.1, 0.5, step_size_up=2, scale_fn=Ramp(0.1), scale_mode="iterations"),
    "CyclicLR, no momentum": lambda s, o: s.CyclicLR(o, 0.1, 0.5, step_size_up=3, cycle_momentum=False),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], milestones=[3]),
    "SequentialLR, three": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)], milestones=[3, 8]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]),
    "nested": lambda s, o: s.ChainedScheduler(
        [s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=3), s.ExponentialLR(o, 0.9)], milestones=[3]), s.StepLR(o, 4)]
    ),
}


def make_optimizer(framework: Any, name: str = "SGD", lr: Any = 0.3) -> Any:
    params = [framework.ones(1, requires_grad=True) for _ in range(2)]
    options = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(framework.optim, name)([{"params": params[0]}, {"params": params[1], "lr": 0.7}], lr=lr, **options)


def options_of(optimizer: Any) -> list[dict[str, Any]]:
    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, (flambeau.Tensor, torch.Tensor)) else value

    return [{key: plain(value) for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def caught(function: Any) -> Any:
    """The value of a function or the type and first words of its error, and the first words of its warnings."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        try:
            result = function()
        except Exception as error:
            result = type(error).__name__, str(error).strip("\"'")[:20]
    return result, [(record.category, str(record.message)[:50]) for record in records]


def same(program: Any) -> Any:
    ours, theirs = caught(lambda: program(flambeau)), caught(lambda: program(torch))
    assert ours == theirs
    return ours


@pytest.mark.parametrize("optimizer_name", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_the_same(name, optimizer_name):
    def program(framework):
        optimizer = make_optimizer(framework, optimizer_name)
        schedule = SCHEDULES[name](framework.optim.lr_scheduler, optimizer)
        seen = [options_of(optimizer)]
        for _ in range(STEPS):
            optimizer.step()
            schedule.step()
            seen.append((schedule.get_last_lr(), options_of(optimizer)))
        return seen

    assert isinstance(same(program)[0], list)


def comparable_state(state: Any) -> Any:
    """A saved state without what cannot be compared: functions that are kept as they are."""
    if isinstance(state, dict):
        return {key: comparable_state(value) for key, value in sorted(state.items(), key=str)}
    if isinstance(state, (list, tuple)):
        return [comparable_state(value) for value in state]
    return state


@pytest.mark.parametrize("name", SCHEDULES)
def test_saved_state_is_the_same_and_resumes(name):
    def program(framework):
        schedules = framework.optim.lr_scheduler
        optimizer = make_optimizer(framework)
        schedule = SCHEDULES[name](schedules, optimizer)
        for _ in range(5):
            optimizer.step()
            schedule.step()
        saved, saved_optimizer = copy.deepcopy(schedule.state_dict()), copy.deepcopy(optimizer.state_dict())

        optimizer = make_optimizer(framework, lr=9.0)
        again = SCHEDULES[name](schedules, optimizer)
        again.load_state_dict(copy.deepcopy(saved))
        optimizer.load_state_dict(saved_optimizer)
        rates = []
        for _ in range(5):
            optimizer.step()
            again.step()
            rates.append(again.get_last_lr())
        return comparable_state(saved), rates

    same(program)


@pytest.mark.parametrize(
    "name",
    [
        "StepLR",
        "MultiStepLR",
        "ConstantLR",
        "LinearLR",
        "ExponentialLR",
        "PolynomialLR",
        "CosineAnnealingLR",
        "CosineAnnealingWarmRestarts, longer",
        "LambdaLR",
        "CyclicLR",
    ],
)
def test_steps_to_an_epoch_use_the_closed_form(name):
    def program(framework):
        optimizer = make_optimizer(framework)
        schedule = SCHEDULES[name](framework.optim.lr_scheduler, optimizer)
        optimizer.step()
        rates = []
        for epoch in (3, 1, 7):
            schedule.step(epoch)
            rates.append((schedule.get_last_lr(), schedule.last_epoch))
        return rates

    same(program)


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in ("SequentialLR", "SequentialLR, three", "nested")])
def test_rates_may_be_tensors(name):
    def program(framework):
        rate = framework.tensor(0.3)
        params = [framework.ones(1, requires_grad=True) for _ in range(2)]
        optimizer = framework.optim.SGD([{"params": params[0]}, {"params": params[1], "lr": 0.7}], lr=rate, momentum=0.9)
        schedule = SCHEDULES[name](framework.optim.lr_scheduler, optimizer)
        seen = []
        for _ in range(6):
            optimizer.step()
            schedule.step()
            seen.append(options_of(optimizer))
        return seen, optimizer.param_groups[0]["lr"] is rate

    assert same(program)[0][1] is True


@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "LinearLR", "LambdaLR", "ExponentialLR", "CosineAnnealingWarmRestarts"])
def test_resuming_by_last_epoch(name):
    def program(framework):
        classes = framework.optim.lr_scheduler
        arguments = {
            "StepLR": {"step_size": 3},
            "CosineAnnealingLR": {"T_max": 6},
            "LinearLR": {},
            "LambdaLR": {"lr_lambda": halve},
            "ExponentialLR": {"gamma": 0.9},
            "CosineAnnealingWarmRestarts": {"T_0": 3},
        }
        optimizer = make_optimizer(framework)
        for group in optimizer.param_groups:
            group["initial_lr"] = 1.0
        schedule = getattr(classes, name)(optimizer, last_epoch=4, **arguments[name])
        rates = [schedule.get_last_lr()]
        for _ in range(3):
            optimizer.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        return rates

    same(program)


METRICS = [1.0, 0.9, 0.9, 0.95, 0.9, 0.89, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, float("nan"), 0.5]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 0, "cooldown": 2, "factor": 0.5},
        {"mode": "max", "patience": 1, "threshold": 0.1},
        {"mode": "max", "patience": 1, "threshold_mode": "abs"},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.2, "min_lr": [0.1, 0.01]},
        {"patience": 0, "min_lr": 0.05, "eps": 0.1},
    ],
)
def test_plateau(options):
    def program(framework):
        optimizer = make_optimizer(framework)
        schedule = framework.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        seen = []
        for metric in METRICS[:9]:
            schedule.step(framework.tensor(metric))
            seen.append((schedule.get_last_lr(), schedule.num_bad_epochs, schedule.in_cooldown))
        saved = copy.deepcopy(schedule.state_dict())
        again = framework.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        again.load_state_dict(saved)
        for metric in METRICS[9:]:
            again.step(metric)
            seen.append((again.get_last_lr(), again.best))
        again.step(1.0, 3)
        return comparable_state(saved), seen, again.last_epoch

    same(program)


def test_plateau_with_groups_added_later():
    def program(framework, min_lr):
        optimizer = make_optimizer(framework)
        schedule = framework.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=min_lr)
        optimizer.add_param_group({"params": framework.ones(1, requires_grad=True)})
        for _ in range(3):
            schedule.step(1.0)
        return schedule.get_last_lr()

    same(lambda framework: program(framework, 0.01))
    assert same(lambda framework: program(framework, [0.01, 0.01]))[0][0] == "RuntimeError"


def other(framework: Any) -> Any:
    return make_optimizer(framework)


BAD_CALLS: dict[str, Any] = {
    "no optimizer": lambda f, s, o: s.StepLR([1], 3),
    "resume without initial_lr": lambda f, s, o: s.StepLR(o, 3, last_epoch=2),
    "number of lambdas": lambda f, s, o: s.LambdaLR(o, [halve]),
    "number of factors": lambda f, s, o: s.MultiplicativeLR(o, [halve]),
    "no function": lambda f, s, o: s.MultiplicativeLR(o, 0.5),
    "constant factor": lambda f, s, o: s.ConstantLR(o, 1.5),
    "linear start": lambda f, s, o: s.LinearLR(o, 0.0),
    "linear end": lambda f, s, o: s.LinearLR(o, 0.5, -1.0),
    "restart period": lambda f, s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "restart float period": lambda f, s, o: s.CosineAnnealingWarmRestarts(o, 1.5),
    "restart factor": lambda f, s, o: s.CosineAnnealingWarmRestarts(o, 1, 0),
    "restart floor": lambda f, s, o: s.CosineAnnealingWarmRestarts(o, 1, 1, "a"),
    "restart epoch": lambda f, s, o: s.CosineAnnealingWarmRestarts(o, 1).step(-1),
    "one cycle without steps": lambda f, s, o: s.OneCycleLR(o, 1.0),
    "one cycle steps": lambda f, s, o: s.OneCycleLR(o, 1.0, total_steps=0),
    "one cycle epochs": lambda f, s, o: s.OneCycleLR(o, 1.0, epochs=1.5, steps_per_epoch=3),
    "one cycle steps per epoch": lambda f, s, o: s.OneCycleLR(o, 1.0, epochs=1, steps_per_epoch=-3),
    "one cycle share": lambda f, s, o: s.OneCycleLR(o, 1.0, total_steps=9, pct_start=1),
    "one cycle strategy": lambda f, s, o: s.OneCycleLR(o, 1.0, total_steps=9, anneal_strategy="cubic"),
    "one cycle rates": lambda f, s, o: s.OneCycleLR(o, [1.0], total_steps=9),
    "one cycle momentum": lambda f, s, o: s.OneCycleLR(f.optim.Rprop([f.ones(1, requires_grad=True)]), 1.0, total_steps=9),
    "one cycle over": lambda f, s, o: [s.OneCycleLR(o, 1.0, total_steps=2).step(5)],
    "cyclic mode": lambda f, s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "cyclic rates": lambda f, s, o: s.CyclicLR(o, [0.1], 0.2),
    "cyclic momentum": lambda f, s, o: s.CyclicLR(f.optim.Rprop([f.ones(1, requires_grad=True)]), 0.1, 0.2),
    "plateau factor": lambda f, s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda f, s, o: s.ReduceLROnPlateau(o, mode="mean"),
    "plateau threshold mode": lambda f, s, o: s.ReduceLROnPlateau(o, threshold_mode="mean"),
    "plateau minima": lambda f, s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "plateau optimizer": lambda f, s, o: s.ReduceLROnPlateau([1]),
    "sequence of none": lambda f, s, o: s.SequentialLR(o, [], []),
    "sequence milestones": lambda f, s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]),
    "sequence optimizers": lambda f, s, o: s.SequentialLR(o, [s.StepLR(other(f), 1)], []),
    "sequence plateau": lambda f, s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "sequence parts": lambda f, s, o: s.SequentialLR(o, [1], []),
    "chain of none": lambda f, s, o: s.ChainedScheduler([]),
    "chain optimizers": lambda f, s, o: s.ChainedScheduler([s.StepLR(o, 1), s.StepLR(other(f), 1)]),
    "chain plateau": lambda f, s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    "abstract": lambda f, s, o: s.LRScheduler(o),
    "schedule first": lambda f, s, o: s.StepLR(o, 1).step(),
    "get_lr outside": lambda f, s, o: s.StepLR(o, 1).get_lr(),
    "overridden step": lambda f, s, o: (lambda schedule: (setattr(o, "step", lambda: None), schedule.step()))(s.StepLR(o, 1)),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_mistakes_get_the_same_errors_and_warnings(name):
    def program(framework):
        result = BAD_CALLS[name](framework, framework.optim.lr_scheduler, make_optimizer(framework))
        return result if isinstance(result, (list, tuple)) else None

    result, records = same(program)
    assert records or isinstance(result, tuple)
