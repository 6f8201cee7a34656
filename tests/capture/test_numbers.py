"""Numbers among arguments of compiled programs: inputs where they only take part in arithmetic, guards where Python looks at them."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau.compiler.numbers import Number, NumberProgram, Watch


def programs_of(compiled):
    return compiled._call.programs


def agree(function, calls, count=3):
    """Compile a function, compare all calls, and check that there are at most ``count`` programs."""
    compiled = torch.compile(function)
    for call in calls:
        have, want = compiled(*call), function(*call)
        torch.testing.assert_close(have, want, equal_nan=True, msg=lambda text, call=call: f"{call[1:]}: {text}")
        assert type(have) is type(want)
    assert len(programs_of(compiled)) <= count, [type(each).__name__ for each in programs_of(compiled)]
    return compiled


X = torch.linspace(-2.0, 3.0, 20).reshape(4, 5)


def test_floats_are_inputs_from_the_second_value_on():
    compiled = agree(lambda x, lr: x * (lr * 2) - lr / 3, [(X, lr) for lr in (0.1, 0.2, 0.3, -4.0, 0.0, 1e30, math.inf)], 2)
    assert type(programs_of(compiled)[0]) is NumberProgram


def test_integers_are_inputs_from_the_second_value_on():
    agree(lambda x, k: x * k + k**2 % 7, [(X, k) for k in (3, 4, 5, -1, 0, 10**6)], 2)
    whole = torch.arange(6)
    agree(lambda x, k: (x + k) * (k > 4), [(whole, k) for k in (3, 4, 5, -1, 0, 10**6)], 4)


def test_the_class_of_a_number_is_a_guard():
    half = torch.arange(4)
    agree(lambda x, k: x * k, [(half, k) for k in (1, 2, 3, 0.5, 1.5, 2.5, True, 4)], 5)


def test_comparisons_are_guards():
    def step(x, lr):
        if lr > 0.5:
            lr = 0.5
        return x * lr

    compiled = agree(step, [(X, 0.1 * i) for i in range(20)])
    assert len(programs_of(compiled)) <= 3


def test_numbers_that_choose_elements_are_guards():
    table = [1.0] * 9 + [7.0]
    names = dict.fromkeys(range(8), 1.0)
    for function in (
        lambda x, k: x * table[k],
        lambda x, k: x * names.get(k, 3.0),
        lambda x, k: x * sum(table[: k + 1]),
        lambda x, k: x * len("a" * (k // 9)) + k,
        lambda x, k: x * (k in (8, 9)) + k,
        lambda x, k: x * float(f"{k}"),
        lambda x, k: sum((x for _ in range(k // 9)), x) + k,
        lambda x, k: x * math.sqrt(k),
        lambda x, k: x * (k & 1),
        lambda x, k: x * round(k / 8),
    ):
        agree(function, [(X, k) for k in (3, 4, 5, 8, 9)], 5)


def test_options_and_sizes_that_follow_from_numbers_have_their_own_programs():
    for function in (
        lambda x, k: x.sum(k % 2),
        lambda x, k: x[: k + 1] * 2,
        lambda x, k: x.new_zeros(k) + 1,
        lambda x, k: x + torch.full((1,), float(k)),
        lambda x, k: torch.nn.functional.leaky_relu(x, k / 10),
        lambda x, k: (x, k)[1],
        lambda x, k: x * torch.tensor(k),
    ):
        agree(function, [(X, k) for k in (1, 2, 3)], 3)


def test_gradients_follow_from_numbers_too():
    def loss(x, beta):
        return ((x - 1) ** 2 * beta).mean() + beta**2

    compiled = torch.compile(loss)
    for beta in (0.5, 0.75, 1.5, -2.0):
        grads = []
        for function in (compiled, loss):
            x = X.clone().requires_grad_()
            function(x, beta).backward()
            grads.append(x.grad)
        torch.testing.assert_close(*grads)
    assert type(programs_of(compiled)[0]) is NumberProgram and len(programs_of(compiled)) == 2


def test_a_step_with_a_changing_rate_writes_what_eager_writes():
    def step(w, grad, lr):
        w.sub_(grad * lr)
        w.add_(grad, alpha=-lr)
        return w.sum()

    ours, theirs = X.clone(), X.clone()
    compiled = torch.compile(step)
    for i in range(6):
        torch.testing.assert_close(compiled(ours, X.sin(), 0.1 / (i + 1)), step(theirs, X.sin(), 0.1 / (i + 1)))
        torch.testing.assert_close(ours, theirs)
    assert len(programs_of(compiled)) == 2


def test_static_numbers_stay_static():
    compiled = torch.compile(lambda x, k: x * k, dynamic=False)
    for k in (1.5, 2.5, 3.5):
        compiled(X, k)
    assert len(programs_of(compiled)) == 3


def test_what_looks_at_a_number_is_a_condition():
    watch = Watch()
    n = Number(5, "n0", watch)
    assert isinstance(n, int) and not isinstance(n, float)
    assert type(n + 1) is Number and (2 * n - 1).text == "((2 * n0) - 1)" and not watch.conditions
    assert n > 3 and list(watch.conditions) == ["(n0 > 3)"]
    with pytest.raises(AttributeError):
        n.shape  # noqa: B018
    assert [10, 11, 12, 13, 14, 15][n] == 15 and "(n0 == 5)" in watch.conditions
    for look in (hash, int, float, str, bool, lambda k: f"{k:3}", lambda k: range(k), lambda k: k.bit_length(), math.sqrt):
        watch.conditions.clear()
        assert look(n) == look(5) and watch.conditions


def test_a_profiler_of_the_caller_goes_on():
    import cProfile
    import sys

    profile = cProfile.Profile()
    profile.enable()
    torch.compile(lambda x: x + 1)(X)
    was_on = sys.getprofile() is profile or sys.version_info >= (3, 12)
    profile.disable()
    assert was_on
