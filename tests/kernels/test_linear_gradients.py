"""Gradients of ``linear`` that one kernel makes together, beside the rules of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native

pytest.importorskip("llvmlite")
from flambeau.kernels.families import linear_gradients as kernels

pytestmark = pytest.mark.skipif(not native.switch.on, reason="native kernels are switched off")
asked: list[bool] = []  # for each call of the kernel, whether it made the gradients


@pytest.fixture(autouse=True)
def _noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    native.find("gradients:nn.functional.linear")
    run = kernels.linear_gradients

    def noted(*arguments: Any, **named: Any) -> Any:
        made = run(*arguments, **named)
        asked.append(made is not None)
        return made

    monkeypatch.setitem(native._found, "gradients:nn.functional.linear", noted)
    asked.clear()
    yield


def drawn(*shape: int, dtype: str = "float32") -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype))


def gradients(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    needs: tuple[bool, ...],
    change: Callable[[Any], Any] = lambda y: y,
) -> list[Any]:
    operands = [
        None if each is None else each.clone().requires_grad_(need) for each, need in zip((input, weight, bias), needs, strict=True)
    ]
    given = torch.from_numpy(np.random.default_rng(1).standard_normal((*input.shape[:-1], weight.shape[0])).astype(input.numpy().dtype))
    change(F.linear(*operands)).backward(change(given))
    return [None if each is None or each.grad is None else each.grad for each in operands]


def hold(made: list[Any], expected: list[Any]) -> None:
    for one, other in zip(made, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape and one.dtype is other.dtype and one.stride() == other.stride()
            scale = float(other.abs().max())
            assert float((one - other).abs().max()) <= (3e-6 if one.dtype is torch.float32 else 1e-13) * scale


def by_rules(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> list[Any]:
    with monkeypatch.context() as patch:
        patch.setitem(native._found, "gradients:nn.functional.linear", None)
        return gradients(*arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "out"),
    [((300, 70), 40), ((4, 33, 128), 96), ((2, 3, 50, 40), 33), ((512, 128), 512), ((9000, 3), 2), ((8200, 1), 1), ((2, 5), 5000)],
)
def test_gradients_are_those_of_the_rules(shape: tuple[int, ...], out: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operands = drawn(*shape, dtype=dtype), drawn(out, shape[-1], dtype=dtype), drawn(out, dtype=dtype)
    for needs in ((True, True, True), (True, False, False), (False, True, False), (False, False, True), (False, True, True)):
        hold(gradients(*operands, needs), by_rules(monkeypatch, *operands, needs))
    without = (*operands[:2], None, (True, True, False))
    hold(gradients(*without), by_rules(monkeypatch, *without))
    assert asked


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float16, torch.bfloat16])
def test_a_bias_alone_has_a_gradient_whatever_its_dtype(dtype: torch.dtype) -> None:
    """Of some dtypes, and on some processors, there is no kernel for its sum."""
    bias = torch.zeros(50, dtype=dtype, requires_grad=True)
    F.linear(drawn(300, 7).to(dtype), drawn(50, 7).to(dtype), bias).backward(torch.ones(300, 50, dtype=dtype))
    assert bias.grad is not None and torch.equal(bias.grad, torch.full((50,), 300, dtype=dtype))


def test_the_kernel_makes_those_of_a_layer() -> None:
    gradients(drawn(8, 64, 128), drawn(256, 128), drawn(256), (True, True, True))
    assert asked == [True]


def test_operands_that_lie_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = drawn(70, 300).T, drawn(70, 50).T, drawn(50)
    strided = drawn(300, 140)[:, ::2], drawn(50, 70), drawn(50)
    apart = drawn(6, 100, 80)[:, :50, 5:75], drawn(50, 140)[:, 70:], drawn(50)
    everything = (True, True, True)
    for operands in (columns, strided, apart):
        hold(gradients(*operands, everything), by_rules(monkeypatch, *operands, everything))

    def turned(y: torch.Tensor) -> torch.Tensor:
        return y.transpose(0, 1)

    hold(gradients(*columns, everything, turned), by_rules(monkeypatch, *columns, everything, turned))


def test_rules_serve_graphs_of_gradients_hooks_and_second_passes() -> None:
    x, weight, bias = drawn(300, 70).requires_grad_(), drawn(50, 70).requires_grad_(), drawn(50).requires_grad_()
    first = torch.autograd.grad(F.linear(x, weight, bias).square().sum(), (x, weight, bias), create_graph=True)
    assert not asked and all(each.requires_grad for each in first)
    result = F.linear(x, weight, bias)
    seen = []
    x.register_hook(lambda grad: seen.append(grad.shape))
    result.sum().backward(retain_graph=True)
    before = weight.grad.clone()
    result.sum().backward()
    assert torch.equal(weight.grad, 2 * before) and seen == [x.shape, x.shape]
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()


def test_what_was_written_to_is_refused() -> None:
    x, weight = drawn(300, 70).requires_grad_(), drawn(50, 70).requires_grad_()
    result = F.linear(x, weight)
    with torch.no_grad():
        weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
