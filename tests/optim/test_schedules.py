"""Properties of schedules that hold without a reference."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

import flambeau
from flambeau.optim import SGD, lr_scheduler as schedules


def rates(make, n, metric=None):
    optimizer = SGD([flambeau.ones(1, requires_grad=True)], lr=1.0)
    schedule, out = make(optimizer), []
    for _ in range(n):
        out.append(round(optimizer.param_groups[0]["lr"], 4))
        optimizer.step()
        schedule.step() if metric is None else schedule.step(metric)
    return out


def test_rates_by_hand():
    assert rates(lambda o: schedules.MultiStepLR(o, milestones=[2, 4], gamma=0.1), 6) == [1, 1, 0.1, 0.1, 0.01, 0.01]
    assert rates(lambda o: schedules.LambdaLR(o, lr_lambda=lambda t: t / 10), 4) == [0, 0.1, 0.2, 0.3]
    assert rates(lambda o: schedules.CosineAnnealingLR(o, T_max=4), 5) == [1, 0.8536, 0.5, 0.1464, 0]
    assert rates(lambda o: schedules.ReduceLROnPlateau(o, mode="max", patience=1), 5, 1.0) == [1, 1, 1, 0.1, 0.1]


def test_verbose_is_accepted_with_a_warning():
    optimizer = SGD([flambeau.ones(1, requires_grad=True)], lr=1.0)
    with pytest.warns(UserWarning, match="verbose"):
        schedules.ReduceLROnPlateau(optimizer, mode="max", patience=5, verbose=True)


def test_a_schedule_does_not_keep_its_optimizer_alive():
    optimizer = SGD([flambeau.ones(1, requires_grad=True)], lr=1.0)
    schedule = schedules.StepLR(optimizer, 2)
    watched = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer, schedule
        assert watched() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_schedules_are_copied_with_their_optimizer(copied):
    optimizer = SGD([flambeau.ones(1, requires_grad=True)], lr=1.0)
    schedule = schedules.StepLR(optimizer, 2)
    optimizer.step()
    schedule.step()
    again = copied(schedule)
    assert again.optimizer is not optimizer
    again.optimizer.step()
    again.step()
    assert again.get_last_lr() == [0.1] and schedule.get_last_lr() == [1.0]


def test_plain_functions_stay_those_of_the_loading_schedule():
    optimizer = SGD([flambeau.ones(1, requires_grad=True)], lr=1.0)
    saved = schedules.LambdaLR(optimizer, lambda t: 0.5).state_dict()
    assert saved["lr_lambdas"] == [None] and "optimizer" not in saved
    schedule = schedules.LambdaLR(optimizer, lambda t: 0.25)
    schedule.load_state_dict(saved)
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.25]
    assert saved["lr_lambdas"] == [None]
