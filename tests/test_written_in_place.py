"""In-place forms write into large operands what the other forms return, whatever the memory and whoever else looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native

AROUND = max(native.LARGE, 64)  # elements from which on a kernel writes
ACTIVATIONS = ("relu", "relu6", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "silu", "mish", "selu", "celu")
SHAPES = {"below": (AROUND - 1,), "at": (AROUND,), "above": (3, AROUND // 2, 1), "planes": (2, AROUND // 32, 5, 9)}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "row-major": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "every second": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "inner part": lambda x: F.pad(x, (3, 2))[..., 3:-2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, layout: str) -> None:
    function = getattr(F, name)
    for shape in SHAPES.values():
        for dtype in (torch.float32, torch.float64, torch.bfloat16) if layout == "row-major" else (torch.float32,):
            x = LAYOUTS[layout](torch.randn(shape).mul(4).to(dtype))
            base = x if x._base is None else x._base
            want, before, version = function(x), base.clone(), x._version
            assert function(x, inplace=True) is x and x._version > version
            np.testing.assert_allclose(x.float().numpy(), want.float().numpy(), rtol=1e-5, atol=1e-6)
            if layout == "every second":
                assert torch.equal(base[..., 1::2], before[..., 1::2])
            if layout == "inner part":
                assert not base[..., :3].any() and not base[..., -2:].any()


@pytest.mark.parametrize("name", ["relu", "hardswish", "silu", "elu"])
def test_gradients(name: str) -> None:
    grads = []
    for inplace in (False, True):
        torch.manual_seed(0)
        x = torch.randn(AROUND + 5, requires_grad=True)
        y = getattr(F, name)(x * 1, inplace=inplace)
        (y * y).sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_who_may_not_be_written_to() -> None:
    leaf = torch.randn(AROUND, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        F.relu(leaf, inplace=True)
    with pytest.raises(RuntimeError, match="more than one element|single memory location"):
        torch.randn(1, AROUND).expand(2, AROUND).relu_()
    with torch.inference_mode():
        made = torch.randn(AROUND)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        F.hardswish(made, inplace=True)
    with torch.no_grad():
        assert F.relu(leaf, inplace=True) is leaf and leaf.min() >= 0 and leaf.requires_grad
    saved = torch.randn(AROUND, requires_grad=True).exp()
    result = saved * saved
    with torch.no_grad():
        F.hardsigmoid(saved, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_several_operands() -> None:
    x, y, z = (torch.randn(5, AROUND // 4) for _ in range(3))
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("lerp", (y, 0.25), {}),
        ("lerp", (y, z), {}),
        ("lerp", (y[:1], 0.25), {}),
        ("addcmul", (y, z), {"value": 0.5}),
        ("addcdiv", (y, z[:1]), {}),
        ("clamp", (-0.5, 0.5), {}),
        ("clamp", (-0.5,), {}),
        ("clamp", (y.minimum(z), z), {}),
        ("add", (y,), {"alpha": 3}),
        ("sub", (y[:1],), {"alpha": 0.5}),
        ("nan_to_num", (1.0,), {}),
    ]
    for name, args, named in calls:
        a = x.clone()
        np.testing.assert_allclose(getattr(a, f"{name}_")(*args, **named).numpy(), getattr(x, name)(*args, **named).numpy(), rtol=2e-6)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x[:1].lerp_(y, 0.5)
    with pytest.raises((RuntimeError, TypeError)):
        x.clamp_(None, None)


def test_operands_in_the_same_memory() -> None:
    base = torch.randn(AROUND + 1)
    with pytest.raises(RuntimeError, match="single memory location"):
        base[:-1].lerp_(base[1:], 0.25)
    square = torch.randn(100, AROUND // 100 + 100)[:, :100].contiguous()
    want = square.lerp(square, 0.5)
    assert torch.allclose(square.lerp_(square, 0.5), want)
    halves = torch.randn(2, AROUND)
    want = halves[0].lerp(halves[1], 0.25)
    assert torch.equal(halves[0].lerp_(halves[1], 0.25), want) and torch.equal(halves[0], want)


def test_without_kernels() -> None:
    x = torch.randn(AROUND + 3)
    with native.disabled():
        want = F.hardswish(x), F.relu(x), x.clamp(0, 1), x.lerp(-x, 0.3)
        got = F.hardswish(x.clone(), inplace=True), x.clone().relu_(), x.clone().clamp_(0, 1), x.clone().lerp_(-x, 0.3)
    for a, b in zip(want, got, strict=True):
        assert torch.equal(a, b)
