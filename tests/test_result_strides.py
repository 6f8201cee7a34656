"""Strides of the fast paths' results, those that say nothing included, where operands are views or lie in memory in odd ways."""

from __future__ import annotations

import random
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from flambeau.core.state import active, thread

OPERATIONS = {
    "add": lambda torch, a, b: a + b,
    "mul": lambda torch, a, b: a * b,
    "number": lambda torch, a, b: a + 1,
    "reflected": lambda torch, a, b: 2 - a,
    "tanh": lambda torch, a, b: a.tanh(),
    "exp": lambda torch, a, b: a.exp(),
    "neg": lambda torch, a, b: a.neg(),
    "compare": lambda torch, a, b: a < b,
    "isnan": lambda torch, a, b: a.isnan(),
    "where": lambda torch, a, b: torch.where(a > 0, a, b),
    "maximum": lambda torch, a, b: torch.maximum(a, b),
    "lerp": lambda torch, a, b: torch.lerp(a, b, 0.5),
    "addcmul": lambda torch, a, b: torch.addcmul(a, b, b),
    "clamp": lambda torch, a, b: a.clamp(0, 1),
    "relu": lambda torch, a, b: a.relu(),
    "gelu": lambda torch, a, b: torch.nn.functional.gelu(a),
    "hardtanh": lambda torch, a, b: torch.nn.functional.hardtanh(a),
    "twice": lambda torch, a, b: (a.t() * 2 if a.ndim == 2 else a * 2) + 1,
    "mixed": lambda torch, a, b: (a + 1) * (b * 2),
    "detached": lambda torch, a, b: a.detach() * 2,
    "recorded": lambda torch, a, b: a.detach().requires_grad_() * b,
    "sort": lambda torch, a, b: a.sort(-1)[0] if a.ndim else a,
    "any": lambda torch, a, b: a.any(-1) if a.ndim else a,
    "clone": lambda torch, a, b: a.clone() + 1,
    "cut": lambda torch, a, b: torch.nn.functional.pad(a, (-int(a.shape[-1] > 1), 0)) if a.ndim else a,
}


def draw_view(draw: random.Random, shape: tuple[int, ...]) -> str:
    """An expression for a tensor of a shape and an odd layout: permuted, sliced, expanded, in channels-last order."""
    order = draw.sample(range(len(shape)), len(shape))
    inverse = [order.index(dim) for dim in range(len(shape))]
    base = [shape[dim] for dim in order]
    text = "torch.ones({})"
    kind = draw.choice(["plain", "permuted", "permuted", "sliced", "expanded", "strided", "channels"])
    if kind == "plain":
        return text.format(shape)
    if kind == "channels" and len(shape) == 4:
        return text.format(shape) + ".contiguous(memory_format=torch.channels_last)"
    if kind == "strided":
        return f"torch.ones(400).as_strided({shape}, {tuple(draw.choice([0, 1, 2, 3, 6]) for _ in shape)})"
    if kind == "sliced":
        return text.format(tuple(2 * n for n in base)) + f"[{', '.join('::2' for _ in base) or '...'}].permute({inverse})"
    if kind == "expanded":
        return text.format([1 if draw.random() < 0.5 else n for n in base]) + f".expand({base}).permute({inverse})"
    return text.format(base) + f".permute({inverse})"


def draw_operands(draw: random.Random) -> tuple[str, str]:
    shape = tuple(draw.choice([1, 1, 2, 3]) for _ in range(draw.randint(0, 4)))
    other = tuple(1 if draw.random() < 0.3 else n for n in shape)[draw.choice([0, 0, 0, 1]) :]
    return draw_view(draw, shape), draw_view(draw, other)


def evaluate(torch: Any, texts: tuple[str, str]) -> Any:
    return [eval(text, {"torch": torch}) for text in texts]


@pytest.mark.parametrize("name", OPERATIONS)
def test_fast_paths_give_the_strides_of_the_slow_path(name: str) -> None:
    draw, operation = random.Random(name), OPERATIONS[name]
    for _ in range(100):
        texts = draw_operands(draw)
        a, b = evaluate(flambeau, texts)
        fast = operation(flambeau, a, b)
        active.append(None)
        thread.modes += 1
        try:
            slow = operation(flambeau, a, b)
        finally:
            thread.modes -= 1
            active.pop()
        assert fast.stride() == slow.stride(), f"{name} of {texts}: {tuple(fast.shape)}"
        assert flambeau.equal(fast, slow)


@pytest.mark.oracle
@pytest.mark.parametrize("name", OPERATIONS)
def test_strides_are_those_of_pytorch(name: str) -> None:
    torch = pytorch()
    draw, operation = random.Random(name), OPERATIONS[name]
    for _ in range(200):
        texts = draw_operands(draw)
        ours, theirs = (operation(library, *evaluate(library, texts)) for library in (flambeau, torch))
        assert ours.stride() == theirs.stride(), f"{name} of {texts}: {tuple(theirs.shape)}"


@pytest.mark.parametrize("sum_of", ["x.t() + y", "y + x.t()", "x.t().detach() * y"])
def test_operands_in_different_orders(sum_of: str) -> None:
    """The first operand that can tell decides, as in PyTorch."""
    operands = {"x": flambeau.arange(6.0).reshape(2, 3), "y": flambeau.arange(6.0).reshape(3, 2)}
    result = eval(sum_of, operands)
    assert result.stride() == ((2, 1) if sum_of.startswith("y") else (1, 3))
    assert result.tolist() == eval(sum_of.replace("x.t()", "x.t().contiguous()"), operands).tolist()
