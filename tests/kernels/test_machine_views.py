"""Views as machine code, of memory in any order: the strides, the storage and the history of those that Python makes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from machine_code import load_machine_code

import flambeau
from flambeau.core.calls import machine_calls
from flambeau.core.calls.registry import primitive


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(machine_calls._finders)


def shown(rng: random.Random, x: Any) -> Any:
    """A view of ``x`` with other strides."""
    dim, other = rng.randrange(x.dim()), rng.randrange(x.dim())
    first = rng.randint(0, x.shape[dim] - 1)
    changes = (
        lambda: x.transpose(dim, other),
        lambda: x.narrow(dim, first, rng.randint(1, x.shape[dim] - first)),
        lambda: x.unsqueeze(dim),
        lambda: x.unsqueeze(0).expand(rng.randint(1, 3), *x.shape),
        lambda: x[..., :: rng.randint(1, 2)],
    )
    return rng.choice(changes)()


def tensor(rng: random.Random) -> Any:
    """A tensor whose elements lie in some order, perhaps far from each other or several at one place."""
    x = flambeau.randn(*[rng.choice((1, 1, 2, 3, 4, 6, 8)) for _ in range(rng.randint(1, 5))]).requires_grad_(rng.random() < 0.3)
    for _ in range(rng.randint(0, 3)):
        x = shown(rng, x)
    return x


def sizes(rng: random.Random, x: Any) -> list[int]:
    """A shape for as many elements, most of the time."""
    left, found = x.numel(), []
    while left > 1:
        found.append(rng.choice([size for size in range(2, left + 1) if left % size == 0]))
        left //= found[-1]
        found += [1] * (rng.random() < 0.3)
    rng.shuffle(found)
    found = list(x.shape) if rng.random() < 0.1 else found or [1]
    if rng.random() < 0.3:
        found[rng.randrange(len(found))] = rng.choice((-1, -1, -1, 7))
    return found


def outcome(call: Any, shape: list[int]) -> Any:
    try:
        result = call(*shape)
    except RuntimeError as error:
        return str(error)
    array = result._array
    told = [result.shape, result.stride(), result.storage_offset(), result.detach().numpy().tobytes(), array.strides]
    return [*told, array.flags.c_contiguous, array.flags.f_contiguous, type(result.grad_fn), result._is_view(), result.requires_grad]


@pytest.mark.parametrize("name", ["view", "reshape"])
def test_other_shapes_have_the_same_strides(name: str) -> None:
    rng, quick = random.Random(name), 0
    flambeau.manual_seed(0)
    form = machine_calls.found(primitive("_view"), "whole")
    outcome(flambeau.ones(4).__getattribute__(name), [2, 2])
    for _ in range(4000):
        x = tensor(rng)
        shape = sizes(rng, x)
        call = getattr(x, name)
        with machine_calls.python_only():
            expected = outcome(call, shape)
        assert outcome(call, shape) == expected, (x.shape, x.stride(), shape)
        quick += form(x, tuple(shape)) is not None
    assert quick > 2500
