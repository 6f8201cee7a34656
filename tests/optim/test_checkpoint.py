"""Checkpointed parts of a model: the same results and gradients, computed twice and kept once."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import pytest

import flambeau
from flambeau.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

WAYS = pytest.mark.parametrize("use_reentrant", [False, True])


def leaf(*values: float) -> Any:
    return flambeau.tensor(values, requires_grad=True)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


def wave(x: Any, w: Any) -> Any:
    return (x * w).exp().sin() * x


@WAYS
def test_same_results_and_gradients(use_reentrant):
    x, w = leaf(0.1, 0.2), leaf(0.3, 0.4)
    expected = wave(x, w)
    expected.sum().backward()
    grads = x.grad, w.grad
    x.grad = w.grad = None
    function = Counted(wave)
    result = checkpoint(function, x, w, use_reentrant=use_reentrant)
    assert result.tolist() == expected.tolist() and function.calls == 1
    result.sum().backward()
    assert function.calls == 2
    assert x.grad.tolist() == grads[0].tolist() and w.grad.tolist() == grads[1].tolist()


@WAYS
def test_several_outputs_and_other_arguments(use_reentrant):
    x = leaf(0.1, 0.2)

    def both(a, factor, b):
        return a.exp() * factor, b.sin(), factor

    first, second, factor = checkpoint(both, x, 3, x * 2, use_reentrant=use_reentrant)
    (first.sum() + second.sum()).backward()
    y = flambeau.tensor([0.1, 0.2])
    assert factor == 3
    assert x.grad.tolist() == pytest.approx((y.exp() * 3 + 2 * (2 * y).cos()).tolist())


@WAYS
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers_are_drawn_again(use_reentrant, preserve):
    masks = []

    def noisy(x):
        masks.append(flambeau.rand(4))
        return (x * masks[-1]).exp()

    x = leaf(1.0, 2.0, 3.0, 4.0)
    flambeau.manual_seed(1)
    result = checkpoint(noisy, x, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    after = flambeau.rand(1).item()
    result.sum().backward()
    then = flambeau.rand(1).item()
    assert (masks[0].tolist() == masks[1].tolist()) is preserve
    if preserve:
        flambeau.manual_seed(1)
        flambeau.rand(4)
        assert [after, then] == [flambeau.rand(1).item(), flambeau.rand(1).item()]


def test_nothing_is_kept_until_backward():
    x = leaf(0.1, 0.2)
    kept = []

    def inner(a):
        b = a.exp()
        c = b * b
        kept.append(weakref.ref(b))
        return c.sum()

    loss = checkpoint(inner, x, use_reentrant=False)
    gc.collect()
    assert kept[0]() is None
    loss.backward()
    assert x.grad is not None


def test_grad_and_inputs_work_without_reentry():
    x, w = leaf(0.1, 0.2), leaf(0.3, 0.4)
    (expected,) = flambeau.autograd.grad(wave(x, w).sum(), [w])
    (grad,) = flambeau.autograd.grad(checkpoint(wave, x, w, use_reentrant=False).sum(), [w])
    assert grad.tolist() == expected.tolist() and x.grad is None


def test_retained_graph_runs_the_function_each_time():
    x, w = leaf(0.1, 0.2), leaf(0.3, 0.4)
    function = Counted(wave)
    loss = checkpoint(function, x, w, use_reentrant=False).sum()
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    assert function.calls == 3 and x.grad.tolist() == (2 * once).tolist()


def test_second_derivatives_without_reentry():
    x = leaf(0.5)

    def cube(a):
        return a * a * a

    (first,) = flambeau.autograd.grad(checkpoint(cube, x, use_reentrant=False).sum(), [x], create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), [x])
    assert second.item() == pytest.approx(3.0)


def test_nested_checkpoints():
    x = leaf(0.1, 0.2)

    def inner(a):
        return a.exp().sin()

    def outer(a):
        return checkpoint(inner, a * 2, use_reentrant=False).exp() + checkpoint(inner, a, use_reentrant=False)

    expected = flambeau.autograd.grad(((x * 2).exp().sin().exp() + x.exp().sin()).sum(), [x])[0]
    grad = flambeau.autograd.grad(checkpoint(outer, x, use_reentrant=False).sum(), [x])[0]
    assert grad.tolist() == pytest.approx(expected.tolist())


def test_arguments_of_inner_checkpoints_are_not_kept():
    x = leaf(0.1, 0.2)
    kept = []

    def outer(a):
        b = a * 2
        kept.append(weakref.ref(b))
        return checkpoint(lambda c: c.exp().sin(), b, use_reentrant=False)

    loss = checkpoint(outer, x, use_reentrant=False).sum()
    gc.collect()
    assert kept[0]() is None
    loss.backward()
    expected = [2 * value.exp().item() * value.exp().cos().item() for value in (x.detach() * 2)]
    assert x.grad.tolist() == pytest.approx(expected)


def test_keyword_arguments_and_closures():
    w = leaf(2.0)
    result = checkpoint(lambda a, *, scale: (a * w * scale).exp(), flambeau.ones(1), scale=0.5, use_reentrant=False)
    result.backward()
    assert w.grad.item() == pytest.approx(0.5 * result.item())


def test_early_stop():
    x = leaf(0.1)
    reached = []

    def inner(a):
        b = a.exp().sin()
        reached.append(1)
        return b

    checkpoint(inner, x, use_reentrant=False).backward()
    assert len(reached) == 1
    checkpoint(inner, x, use_reentrant=False, early_stop=False).backward()
    assert len(reached) == 3
    with set_checkpoint_early_stop(False):
        loss = checkpoint(inner, x, use_reentrant=False)
    loss.backward()
    assert len(reached) == 5


def test_contexts_of_both_calls():
    seen = []

    @contextlib.contextmanager
    def noted(label):
        seen.append(label)
        yield

    x = leaf(0.1)
    checkpoint(lambda a: a.exp(), x, use_reentrant=False, context_fn=lambda: (noted("first"), noted("second"))).backward()
    assert seen == ["first", "second"]


@pytest.mark.parametrize("change", ["shape", "fewer", "more"])
def test_a_function_that_changes_is_noticed(change):
    calls = []

    def fickle(a):
        calls.append(1)
        again = len(calls) > 1
        if change == "shape":
            return (a[:1] if again else a).exp().sum()
        return a.exp().sum() if again == (change == "fewer") else a.exp().sin().sum()

    x = leaf(0.1, 0.2)
    with pytest.raises(CheckpointError, match=r"torch\.utils\.checkpoint"):
        checkpoint(fickle, x, use_reentrant=False, early_stop=False).backward()


def test_determinism_check_can_be_left_out():
    calls = []

    def fickle(a):
        calls.append(1)
        return (a.double() if len(calls) > 1 else a).exp().sum()

    x = leaf(0.1, 0.2)
    checkpoint(fickle, x, use_reentrant=False, determinism_check="none").backward()
    assert x.grad is not None


def test_without_recording_nothing_happens():
    function = Counted(wave)
    with flambeau.no_grad():
        assert not checkpoint(function, leaf(0.1), leaf(0.2), use_reentrant=False).requires_grad
    assert function.calls == 1


@WAYS
def test_sequential(use_reentrant):
    steps = [Counted(function) for function in (flambeau.sin, flambeau.exp, flambeau.cos, flambeau.tanh, flambeau.sigmoid)]
    x = leaf(0.1, 0.2)
    expected = x
    for step in steps:
        expected = step.function(expected)
    (grad,) = flambeau.autograd.grad(expected.sum(), [x])
    result = checkpoint_sequential(steps, 2, x, use_reentrant=use_reentrant)
    result.sum().backward()
    assert result.tolist() == expected.tolist() and x.grad.tolist() == grad.tolist()
    assert [step.calls for step in steps] == [2, 2, 1, 1, 1]


def test_mistakes_are_refused():
    x = leaf(0.1)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(flambeau.exp, x)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint_sequential([flambeau.exp], 1, x)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint(flambeau.exp, x, use_reentrant=True, other=1)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint_sequential([flambeau.exp], 1, x, use_reentrant=False, other=1)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(flambeau.exp, x, use_reentrant=True, context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(flambeau.exp, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(NotImplementedError, match="debug"):
        checkpoint(flambeau.exp, x, use_reentrant=False, debug=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint(flambeau.exp, x.detach(), use_reentrant=True)


@pytest.mark.parametrize(
    ("function", "after"),
    [
        (lambda y: y.tanh() * y, lambda y: y.mul_(2)),
        (lambda y: y.tanh() * y, lambda y: y.detach().mul_(2)),
        (lambda y: y.mul_(2).tanh(), lambda y: None),
        (lambda y: checkpoint(flambeau.tanh, y, use_reentrant=False) * y, lambda y: y.mul_(2)),
    ],
    ids=["after", "by another name", "inside", "nested"],
)
def test_an_argument_that_is_written_to_is_not_computed_with_again(function, after):
    x = flambeau.ones(3, requires_grad=True)
    y = x * 1
    z = checkpoint(function, y, use_reentrant=False)
    with flambeau.no_grad():
        after(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    assert x.grad is None


def test_an_argument_that_was_written_to_before_is_as_good_as_others():
    x = flambeau.ones(3, requires_grad=True)
    y = (x * 1).mul_(2)
    checkpoint(lambda y: y * y, y, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == [8, 8, 8]
