"""Calls of compiled programs in machine code: which they are, what makes them decline, and that nothing else differs."""

from __future__ import annotations

import contextlib
import gc
import os
import weakref
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.capture import driver
from flambeau.compiler import _machine as direct
from flambeau.core.arrays import native
from flambeau.core.calls.machine_calls import CHOSEN, DECLINED
from tests.helpers.threads import in_threads

pytestmark = [
    pytest.mark.skipif(not native.switch.on, reason="needs kernels"),
    pytest.mark.skipif(CHOSEN == "python" or direct._found(True) is None, reason="needs machine code"),
    pytest.mark.skipif("FLAMBEAU_KERNELS_FROM" in os.environ, reason="Python's run"),
]


def settled(function: Any, *args: Any, times: int = 4, **kwargs: Any) -> Any:
    """``function`` compiled, and called until machine code does its calls."""
    compiled = torch.compile(function)
    for _ in range(times):
        compiled(*args, **kwargs)
    return compiled


def answers(compiled: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether machine code does a call."""
    return compiled._call.quick(args, kwargs) is not DECLINED


def is_launches(compiled: Any) -> bool:
    """Whether it does so without Python."""
    return compiled._call.programs[0].direct.plan is not None


def model_and_optimizer(kind: Any, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return model, kind(model.parameters(), **options)


def step_of(model: Any, optimizer: Any) -> Any:
    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps_are_one_call_and_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = OPTIMIZERS[name]
    x, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
    results = []
    for soon in (1, 1 << 40):
        monkeypatch.setattr(direct, "SOON", soon)
        model, optimizer = model_and_optimizer(kind, **options)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        compiled = torch.compile(step_of(model, optimizer))
        losses = []
        for _ in range(12):
            losses.append(compiled(x, target).item())
            scheduler.step()
        if soon == 1 and name != "nadam":
            assert is_launches(compiled) and answers(compiled, x, target)
        elif soon == 1:
            compiled(x, target)
        else:
            assert compiled(x, target) is not None
        states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
        parameters = list(model.parameters())
        grads = [parameter.grad for parameter in parameters]
        losses += [parameter._version for parameter in parameters]
        results.append((losses, [tensor.detach().clone() for tensor in (*parameters, *states, *grads)]))
    assert results[0][0] == results[1][0]
    assert all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1], strict=True))


def test_losses_of_steps_have_a_history_that_is_gone() -> None:
    model, optimizer = model_and_optimizer(torch.optim.SGD, lr=0.1)
    x, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
    compiled = settled(step_of(model, optimizer), x, target)
    one, other = compiled(x, target), compiled(x, target)
    assert is_launches(compiled) and one.requires_grad and one.grad_fn is not other.grad_fn and one.grad_fn.name() == other.grad_fn.name()
    with pytest.raises(RuntimeError, match="second time"):
        one.backward()


def test_a_wrong_class_raises_and_leaves_everything_as_it_was() -> None:
    model, optimizer = model_and_optimizer(torch.optim.Adam, lr=0.1)
    x, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
    compiled = settled(step_of(model, optimizer), x, target)
    assert is_launches(compiled)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(3):
        with pytest.raises(IndexError):
            compiled(x, target + 7)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    compiled(x, target), compiled(x, target)
    assert answers(compiled, x, target)


def test_what_a_call_gives_is_alike() -> None:
    a, b = torch.randn(4), torch.randn(4)
    for function, count in (
        (lambda a, b: a + b, 1),
        (lambda a, b: (a + b, a - b), 2),
        (lambda a, b: {"sum": a + b, "rest": [a * b, None, 3, "x"]}, 2),
        (lambda a, b: (a, (a * b).view(2, 2)), 1),
        (lambda a, b: None, 0),
    ):
        compiled = settled(function, a, b)
        assert answers(compiled, a, b) and str(compiled(a, b)) == str(function(a, b)), count
    assert settled(lambda a: (a, 1), a)(b)[0] is b
    x, y = settled(lambda a: (a.exp(), a.exp().t()), torch.ones(2, 3))(torch.ones(2, 3))
    assert x.shape == (2, 3) and y.shape == (3, 2)


def test_numbers_and_keywords() -> None:
    a = torch.randn(4)
    compiled = settled(lambda x, s, *, t: x * s + t, a, 2.0, t=1.0)
    for s, t in ((2.0, 1.0), (3.0, 1.0), (-0.0, 4.0), (5, 1.0), (2.0, 1.0)):
        assert torch.equal(compiled(a, s, t=t), a * s + t)
    compiled = settled(lambda x, n, flag: x * n if flag else x + n, a, 3, True)
    assert answers(compiled, a, 3, True) and not answers(compiled, a, 4, True) and not answers(compiled, a, 3, 1)
    assert torch.equal(compiled(a, 4, False), a + 4)
    compiled = settled(lambda x, s: x * s, a, 0.0)
    assert torch.equal(compiled(a, -0.0).signbit(), (a * -0.0).signbit())


def test_arguments_of_other_kinds_are_declined() -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    compiled = settled(lambda x, y: x * y, a, b)
    assert answers(compiled, a, b) and answers(compiled, b, b)
    others = [(a[:2], b), (a.double(), b), (a.t(), b), (a, nn.Parameter(b)), (a, b.clone().requires_grad_()), (a, 2.0), (a,), (a, b, b)]
    assert not any(answers(compiled, *each) for each in others)
    with torch.no_grad():
        assert not answers(compiled, a, b)
    with torch.inference_mode():
        assert not answers(compiled, a, b)
        assert compiled(a, b).is_inference()
    with torch.autocast("cpu"):
        assert not answers(compiled, a, b)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert not answers(compiled, a, b)
    finally:
        torch.set_default_dtype(before)
    assert torch.equal(compiled(a, b), a * b) and answers(compiled, a, b)


SCALE = 2.0


def test_surroundings_are_looked_at() -> None:
    global SCALE
    options, layer, shift = {"power": 2}, nn.Linear(3, 3), 1.0

    def function(x: Any, bias: float = 0.5) -> Any:
        return layer(x) * SCALE ** options["power"] + shift + bias

    def same() -> None:
        with torch.no_grad():
            assert torch.allclose(compiled(x), function(x))
            assert torch.allclose(compiled(x), function(x))

    x = torch.randn(2, 3)
    with torch.no_grad():
        compiled = settled(function, x)
        assert answers(compiled, x)
    same()
    SCALE = 3.0
    same()
    options["power"] = 1
    same()
    options.pop("power")
    options["power"] = 2
    same()
    for i in range(100):
        options[str(i)] = i
    same()
    shift = 4.0
    same()
    function.__defaults__ = (7.0,)
    same()
    layer.weight.data = torch.randn(3, 3)
    same()
    layer.register_forward_hook(lambda module, args, result: result + 1)
    same()
    SCALE = 2.0
    same()


def test_globals_that_come_later_cost_nothing() -> None:
    x = torch.randn(3)
    compiled = settled(lambda x: x * SCALE, x)
    names = [f"_name_{i}" for i in range(5000)]
    globals().update(dict.fromkeys(names, 0))
    try:
        assert answers(compiled, x)
    finally:
        for name in names:
            del globals()[name]
    assert answers(compiled, x)


def test_gradients_that_are_there_or_not() -> None:
    weight = torch.randn(3, requires_grad=True)

    def function(x: Any) -> Any:
        (weight * x).sum().backward()

    x = torch.randn(3)
    compiled = settled(function, x)
    for grad in (None, torch.ones(3), None, torch.zeros(3), torch.ones(6)[::2], torch.ones(3)):
        for _ in range(3):
            weight.grad = grad if grad is None else grad.clone()
            compiled(x)
            assert torch.allclose(weight.grad, x if grad is None else x + grad)
    held = weight.grad
    version = held._version
    compiled(x)
    assert weight.grad is held and held._version > version


def test_written_arguments_count_and_must_be_apart() -> None:
    def function(x: Any, y: Any) -> None:
        x.add_(y)

    a, b = torch.zeros(4), torch.ones(4)
    compiled = settled(function, a, b)
    version, value = a._version, a[0].item()
    assert answers(compiled, a, b) and a._version == version + 1 and a[0].item() == value + 1
    whole = torch.ones(8)
    assert not answers(compiled, whole[:4], whole[4:]) and not answers(compiled, a, a)
    compiled(a, a)
    assert torch.equal(a, torch.full((4,), 2 * (value + 1)))
    part = torch.ones(2, 4)
    compiled(b, part[1])
    assert answers(compiled, part[0], part[1]) is False and answers(compiled, part[0], b) and torch.equal(part[0], torch.full((4,), 3.0))


def test_optimizers_options_and_states_that_change() -> None:
    x, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
    one, other = (model_and_optimizer(torch.optim.AdamW, lr=0.01) for _ in range(2))
    compiled, plain = torch.compile(step_of(*one)), step_of(*other)

    def both(times: int = 4) -> None:
        for _ in range(times):
            assert torch.allclose(compiled(x, target), plain(x, target), rtol=1e-4)

    both()
    for _, optimizer in (one, other):
        optimizer.param_groups[0]["weight_decay"] = 0.3
    both()
    for _, optimizer in (one, other):
        optimizer.param_groups[0]["lr"] = 0.5
    both(2)
    for _, optimizer in (one, other):
        optimizer.load_state_dict(optimizer.state_dict())
    both()
    seen: list[int] = []
    handle = one[1].register_step_post_hook(lambda *args: seen.append(1))
    both(2)
    assert seen
    handle.remove()
    both(12)
    for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def test_numbers_of_a_step_are_right_after_options_that_python_has_not_seen() -> None:
    x, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
    one, other = (model_and_optimizer(torch.optim.AdamW, lr=0.1) for _ in range(2))
    compiled, plain = settled(step_of(*one), x, target), step_of(*other)
    for _ in range(4):
        plain(x, target)
    for lr, is_python in ((0.1, True), (0.5, False), (0.1, True)):
        for _, optimizer in (one, other):
            optimizer.param_groups[0]["lr"] = lr
        with torch.profiler.profile() if is_python else contextlib.nullcontext():
            compiled(x, target)
        plain(x, target)
    for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4)


def test_products_that_wake_threads_have_them_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_wakes_threads", lambda launch: True)
    x, before = torch.randn(4, 4), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        compiled = settled(lambda x: x @ x, x)
        assert is_launches(compiled) and answers(compiled, x)
        torch.set_num_threads(2)
        assert not answers(compiled, x) and torch.equal(compiled(x), x @ x)
    finally:
        torch.set_num_threads(before)


def test_a_plan_is_taken_up_again_when_it_is_made_anew() -> None:
    x, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
    model, optimizer = model_and_optimizer(torch.optim.Adam, lr=0.01)
    compiled = settled(step_of(model, optimizer), x, target)
    optimizer.load_state_dict(optimizer.state_dict())
    assert not answers(compiled, x, target)
    for _ in range(80):
        compiled(x, target)
    assert answers(compiled, x, target)


def test_a_backward_pass_outside() -> None:
    layer = nn.Linear(4, 4)
    x = torch.randn(3, 4)
    compiled = settled(lambda x: layer(x).relu().square().mean(), x)
    for _ in range(3):
        layer.zero_grad()
        compiled(x).backward()
        grads = [parameter.grad.clone() for parameter in layer.parameters()]
        layer.zero_grad()
        layer(x).relu().square().mean().backward()
        assert all(torch.allclose(a, b.grad) for a, b in zip(grads, layer.parameters(), strict=True))
    assert is_launches(compiled)


def test_random_numbers_and_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled, x = torch.compile(model), torch.randn(2, 4)
    for _ in range(4):
        compiled(x)
    torch.manual_seed(1)
    one = [compiled(x) for _ in range(3)]
    torch.manual_seed(1)
    other = [model(x) for _ in range(3)]
    assert all(torch.allclose(a, b) for a, b in zip(one, other, strict=True))
    compiled.eval()
    assert torch.allclose(compiled(x), model(x)) and torch.allclose(compiled(x), model(x))


def test_threads_and_calls_within_calls() -> None:
    compiled = settled(lambda x: (x * 2 + 1).sin().cos(), torch.randn(300))

    def work(k: int) -> None:
        x = torch.full((300,), float(k))
        wanted = (x * 2 + 1).sin().cos()
        assert all(torch.allclose(compiled(x), wanted) for _ in range(200))

    in_threads(4, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on() -> None:
    x = torch.randn(5)
    compiled = settled(lambda x: x.exp() + 1, x)
    child = os.fork()
    if not child:
        good = all(torch.allclose(compiled(x), x.exp() + 1) for _ in range(3))
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0 and answers(compiled, x)


def test_programs_end_with_their_functions_and_hold_no_arguments() -> None:
    def make() -> tuple[Any, Any]:
        layer = nn.Linear(3, 3)
        x = torch.randn(2, 3)
        settled(lambda x: layer(x), x)
        return weakref.ref(layer), weakref.ref(x)

    layer, x = make()
    gc.collect()
    assert layer() is None and x() is None


def test_references_are_kept_in_balance() -> None:
    import sys

    x, layer = torch.randn(2, 3), nn.Linear(3, 3)
    optimizer = torch.optim.Adam(layer.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss, loss.detach()

    compiled = settled(step, x)
    things = [x, x._array, layer.weight, layer.weight._array, None, True, x._array.dtype, optimizer.state, torch.Tensor]

    def counts() -> list[int]:
        return [sys.getrefcount(thing) for thing in things]

    compiled(x), compiled(x[:1])
    before = counts()
    for _ in range(500):
        compiled(x)
    after = counts()
    assert is_launches(compiled) and all(abs(a - b) < 100 for a, b in zip(before, after, strict=True)), np.subtract(after, before)


def test_reset_and_stances() -> None:
    x = torch.randn(3)
    compiled = settled(lambda x: x + 1, x)
    assert answers(compiled, x)
    (program,) = compiled._call.programs
    torch.compiler.reset()
    compiled._call._put_first(program)  # by a thread that has run it meanwhile
    assert not answers(compiled, x) and torch.equal(compiled(x), x + 1)
