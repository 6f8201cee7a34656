"""Rules as such: any rule gives the same on tensors, as passes over arrays and as a kernel, whatever it does with old values."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.optim import _arrays
from flambeau.optim._passes import passes_of
from flambeau.optim.elementwise import ElementwiseOptimizer


class Descent(ElementwiseOptimizer):
    """Descent with two entries of state, whose rule is left to the subclasses."""

    _options = "lr maximize differentiable"
    _moments = ("first", "second")

    def __init__(self, params, lr=0.5, *, maximize=False, differentiable=False):
        self._begin(params, locals())

    @staticmethod
    def _numbers(group, count):
        return {"step_size": -group["lr"] / count, "is_odd": count % 2 == 1}


class Shifted(Descent):
    """Each entry takes what the one before had."""

    @staticmethod
    def _rule(f, n, param, grad, first, second):
        return f.add(param, grad, n.step_size), param, first


class Swapped(Descent):
    @staticmethod
    def _rule(f, n, param, grad, first, second):
        return second, grad, param


class Shared(Descent):
    """One value in two places, and one that nobody asks for."""

    @staticmethod
    def _rule(f, n, param, grad, first, second):
        result = f.where(grad > 0, first + 1, param * n.step_size) if n.is_odd else f.maximum(first, grad)
        f.sqrt(result)
        return result, result, f.clamp(second - result, -1.0, 1 - n.step_size)


class Idle(Descent):
    @staticmethod
    def _rule(f, n, param, grad, first, second):
        return param, first, second


KINDS = [Shifted, Swapped, Shared, Idle]


def trained(kind, way, monkeypatch, steps=5, size=11):
    rng = np.random.default_rng(3)
    params = [torch.nn.Parameter(torch.from_numpy(rng.standard_normal(shape).astype(np.float32))) for shape in ((size,), (2, 3), ())]
    optimizer = kind(params)
    if way == "tensors":
        optimizer._update_arrays = lambda group: False
    monkeypatch.setattr(_arrays.update.part.budget, "is_spent", True)
    monkeypatch.setattr(native.switch, "on", native.switch.on and way == "kernel")
    for _ in range(steps):
        for param in params:
            param.grad = torch.from_numpy(rng.standard_normal(tuple(param.shape)).astype(np.float32))
        optimizer.step()
    return [entry.detach().numpy() for param in params for entry in (param, *optimizer.state[param].values())]


@pytest.mark.parametrize("way", ["arrays", "kernel"])
@pytest.mark.parametrize("size", [11, 1 << 16])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_the_same(kind, size, way, monkeypatch):
    for one, other in zip(trained(kind, way, monkeypatch, size=size), trained(kind, "tensors", monkeypatch, size=size), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("way", ["tensors", "arrays", "kernel"])
def test_old_values_move_on(way, monkeypatch):
    before = trained(Shifted, way, monkeypatch, steps=4)
    after = trained(Shifted, way, monkeypatch, steps=5)
    for start in range(0, len(before), 4):
        _, _, *entries = after[start : start + 4]
        np.testing.assert_array_equal(entries[0], before[start])
        np.testing.assert_array_equal(entries[1], before[start + 2])


def test_passes_reuse_their_scratch():
    class Long(Descent):
        @staticmethod
        def _rule(f, n, param, grad, first, second):
            for _ in range(9):
                grad = f.sqrt(abs(grad * n.step_size)) + first
            return param - grad, first, second

    param = torch.nn.Parameter(torch.ones(3))
    form, _ = Long._advance(Long([param]).param_groups[0], [np.zeros((), np.float32)])
    passes = passes_of(form, 2)
    assert passes.scratches == 1 and passes.source.count("\n") == 1 + 9 * 4 + 1


def test_a_recorded_rule_has_a_gradient():
    start = torch.tensor([1.0, -2.0], requires_grad=True)
    param = start.clone()
    optimizer = Shifted([param], differentiable=True)
    param.grad = start * start
    optimizer.step()
    param.sum().backward()
    assert start.grad.tolist() == [1 - 0.5 * 2 * 1.0, 1 - 0.5 * 2 * -2.0]
