"""Modes below the tape see PyTorch's kernels, and what they pass on is computed as without them."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest
from dispatch_sequences import PROGRAMS, compare, environment, flat, logging_mode, reason

import flambeau

# New memory, and what is refused.
_LEFT_OUT = ("empty_like", "scatter(1", "scatter_add(1", "torch.unique", "x // 2", "torch.stft")
NAMES = [name for name in PROGRAMS if not any(part in name for part in _LEFT_OUT)]


@pytest.mark.oracle
def test_the_sequences_of_kernels_are_pytorchs(oracle: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        different = compare(PROGRAMS, oracle)
    assert not [name for name in different if reason(name) is None]
    assert len(different) <= 0.08 * len(PROGRAMS)


def derivatives(source: str, order: int, below_a_mode: bool) -> list[Any]:
    """Results of a program, its gradients, and those of the gradients."""
    scope = environment(flambeau, source)
    leaves = [value for value in scope.values() if isinstance(value, flambeau.Tensor) and value.requires_grad]
    leaves += [p for value in scope.values() if isinstance(value, flambeau.nn.Module) for p in value.parameters()]
    *steps, last = source.split("; ")
    with logging_mode(flambeau) if below_a_mode else contextlib.nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps:
            exec(step, scope)
        results = flat(flambeau, eval(last, scope))
        found = [result.detach() for result in results]
        results = [result for result in results if result.requires_grad]
        for k in range(order):
            cotangents = [flambeau.linspace(0.5, 1.5, result.numel() + 1)[1:].reshape(result.shape).to(result.dtype) for result in results]
            grads = flambeau.autograd.grad(results, leaves, cotangents, create_graph=k + 1 < order, allow_unused=True) if results else ()
            found += [None if grad is None else grad.detach() for grad in grads]
            results = [grad for grad in grads if grad is not None and grad.requires_grad]
    return found


def agree(mine: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(mine, theirs, strict=False):
        if a is None or b is None:
            assert a is b or not (b if a is None else a).count_nonzero()
        else:
            assert a.shape == b.shape and a.dtype == b.dtype
            assert a.layout != flambeau.strided or np.allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=5e-5, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_below_a_mode_are_those_without(name: str) -> None:
    agree(derivatives(PROGRAMS[name], 1, True), derivatives(PROGRAMS[name], 1, False))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_second_gradients_below_a_mode_are_those_without(name: str) -> None:
    try:
        usual = derivatives(PROGRAMS[name], 2, False)
    except (RuntimeError, NotImplementedError):
        return
    agree(derivatives(PROGRAMS[name], 2, True), usual)
