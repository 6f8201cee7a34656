"""Products with what is done to each of their elements: which become one kernel, over which operands it writes, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from capture.test_lowering import needs_kernels
from capture.test_memory_of_values import ran

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.capture.fusion import factors
from flambeau.capture.planning import rounded

FORMULAS: dict[str, Callable[..., Any]] = {
    "alone": lambda p, whole, column, row: torch.relu(p),
    "broadcast": lambda p, whole, column, row: p * whole + column - row,
    "mask": lambda p, whole, column, row: torch.where(whole > 0, p, 0.5) * 2,
    "functions": lambda p, whole, column, row: F.gelu(p) + whole.exp(),
    "whole numbers": lambda p, whole, column, row: p.clamp(max=1) / (whole.abs() + 1) * torch.arange(70)[:, None],
}


def groups(run: Any) -> int:
    """How many products are in groups."""
    return sum(bool(factors(node)) for node in run.graph.nodes)


def bytes_of(*shape: int) -> int:
    return rounded(4 * torch.Size(shape).numel())


@needs_kernels
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("inner", [3, 600])
def test_products_go_on_to_formulas(formula: str, inner: int) -> None:
    function, others = FORMULAS[formula], (torch.randn(70, 90), torch.randn(70, 1), torch.randn(90))
    for x, w in ((torch.randn(70, inner), torch.randn(inner, 90)), (torch.randn(inner, 70).t(), torch.randn(90, inner).t())):
        assert groups(ran(lambda x, w, *others: function(x @ w, *others), x, w, *others)) == 1
    doubled = [each.double() for each in (x, w, *others)]
    assert groups(ran(lambda x, w, *others: function(x @ w, *others), *doubled)) == 1


@needs_kernels
def test_gradients_are_written_over_activations() -> None:
    weights = [torch.randn(n, m, requires_grad=True) for m, n in ((100, 160), (160, 160), (160, 10))]

    def function(x: Any) -> Any:
        for weight in weights[:-1]:
            x = torch.relu(F.linear(x, weight))
        return F.linear(x, weights[-1]).square().sum()

    run = ran(function, torch.randn(48, 100), parameters=weights)
    assert groups(run) == 2 and run.plan.arena_bytes < 2 * bytes_of(48, 160) + 3 * bytes_of(48, 10)


@needs_kernels
def test_gradients_of_several_dimensions_are_written_over_what_was_kept() -> None:
    weights = [torch.randn(128, 64, requires_grad=True), torch.randn(64, 128, requires_grad=True)]
    run = ran(lambda x: F.linear(F.gelu(F.linear(x, weights[0])), weights[1]).tanh(), torch.randn(4, 20, 64), parameters=weights)
    assert groups(run) == 1 and run.plan.arena_bytes < 2.6 * bytes_of(80, 128)


@needs_kernels
def test_factors_are_not_written_over() -> None:
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    for function in (lambda y, w: y @ w * y, lambda y, w: w @ y * y, lambda y, w: torch.where(y > 0, y @ y, 1.0)):
        assert groups(ran(lambda x, w, function=function: function(x.exp(), w) @ w, x, w)) == 1


@needs_kernels
def test_products_that_others_need_stay() -> None:
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    assert not groups(ran(lambda x, w: (lambda p: (torch.relu(p), p.sum(1)))(x @ w), x, w))
    assert not groups(ran(lambda x, w: (lambda p: (p, torch.relu(p)))(x @ w), x, w))
    assert not groups(ran(lambda x, w: torch.relu(x @ w) + (x @ w).t(), x, w))
    assert not groups(ran(lambda x, w: torch.softmax(x @ w, 1), x, w))


@needs_kernels
def test_products_of_memory_that_is_written_to_do_not_wait() -> None:
    def function(x: Any, w: Any) -> Any:
        v = w.clone()
        p = x @ v
        v.add_(1)
        return p * v

    assert not groups(ran(function, torch.randn(40, 40), torch.randn(40, 40)))
