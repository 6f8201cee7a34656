"""Histories of tensors whose shape is changed in place, recorded or not, and of their views; compared with PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau

SOURCES = {
    "result": "x = leaf * 2",
    "result that nothing is saved for": "x = leaf + 1",
    "view": "x = leaf.transpose(0, 1)",
    "view of a result": "base = leaf * 2\nx = base.view(3, 1, 4)",
    "view of a written result": "base = leaf * 2\nx = base.view(3, 1, 4)\nx += leaf.view(3, 1, 4)",
    "copy of a part": "x = leaf.reshape(4, 3).t().reshape(3, 1, 4)",
    "one of several views": "x = (leaf * 2).split(2, 0)[1]",
    "view made without grad mode": "with torch.no_grad(): x = leaf[...]",
    "view made in inference mode": "with torch.inference_mode(): x = leaf[...]",
}
CHANGES = {
    "squeeze": "x.squeeze_()",
    "squeeze of none": "x.squeeze_(0)",
    "unsqueeze": "x.unsqueeze_(1)",
    "transpose": "x.transpose_(0, 2)",
    "swap of one with itself": "x.transpose_(0, 0)",
    "strides": "x.as_strided_((2, 4), (4, 1))",
    "strides that overlap": "x.as_strided_((2, 2), (1, 1))",
}
MODES = ["", "with torch.no_grad(): ", "with torch.inference_mode(): "]
RETAINS = ["", "x.retain_grad()", "x.retain_grad()\nx.backward(torch.ones_like(x), retain_graph=True)"]


def outcome(torch: Any, lines: str) -> list[Any]:
    """The exceptions' types of the lines that raise, and what became of ``x`` and the leaf."""
    space: dict[str, Any] = {"torch": torch, "leaf": torch.arange(12.0).reshape(3, 1, 4).clone().requires_grad_()}
    raised = []
    for place, line in enumerate(lines.splitlines()):
        try:
            exec(line, space)
        except Exception as error:
            raised.append((place, type(error).__name__, str(error).split(" is ")[0][:30]))
    x, leaf = space["x"], space["leaf"]
    try:
        facts = [x.requires_grad, x.is_leaf, x.retains_grad, x.grad_fn is None]
    except RuntimeError as error:
        facts = [str(error)[:30]]
    facts += [list(x.shape), list(x.stride()), x._version if not x.is_inference() else None]
    kept = x.grad.tolist() if facts[0] is True and facts[2] and x.grad is not None else None
    return [raised, *facts, kept, None if leaf.grad is None else leaf.grad.tolist()]


@pytest.mark.parametrize("source", SOURCES)
def test_shapes_changed_in_place(source: str, of_pytorch: Callable[..., Any]) -> None:
    for (name, change), mode, retains in itertools.product(CHANGES.items(), MODES, RETAINS):
        grads = ["x.backward(torch.arange(x.numel() + 0.0).reshape(x.shape) + 1, retain_graph=True)"] * 2
        lines = "\n".join(filter(None, [SOURCES[source], retains, mode + change, *grads]))
        ours, theirs = outcome(flambeau, lines), of_pytorch(outcome, lines)
        assert ours == theirs, f"{source}, {name}:\n{lines}"


WRITES = ["base.mul_(2)", "with torch.no_grad(): base.mul_(2)", "x[0] = 3", "with torch.no_grad(): x[0] = 3"]
USES = [
    "x.as_strided_((), ())",
    "x.mul_(2)",
    "x * 2",
    "x.sum().backward()",
    "base.detach_()",
    "base.detach_()\nbase.add_(1)\nx.sum().backward()",
]
VIEWS = [
    "x = base.split(1)[0]",
    "x = base.split(2)[0].unbind()[1]",
    "with torch.no_grad(): x = base.view(3, 4)",
    "with torch.inference_mode(): x = base.view(3, 4)",
    "x = base.split(1)[0]\nwith torch.inference_mode(): x = x[()]",
    "x = base.view(3, 4)",
    "with torch.no_grad(): x = base.view(3, 4)\nx = x.split(1)[1]",
]


@pytest.mark.parametrize("view", VIEWS)
def test_restricted_views_are_worded_as_before_a_write(view: str, of_pytorch: Callable[..., Any]) -> None:
    """Which call made a view is said of it also when its history has ended; a base that is detached in place ends views' histories."""
    for base, write, use in itertools.product(["base = leaf * 1", "base = leaf"], WRITES, USES):
        lines = "\n".join([base, view, write, use])
        ours, theirs = outcome(flambeau, lines), of_pytorch(outcome, lines)
        assert ours == theirs, lines


AGAIN = {
    "fmod": ("torch.fmod(x, 1)", "torch.fmod(x, leaf.detach() + 1)"),
    "addcmul": ("torch.addcmul(x, leaf.detach(), leaf.detach())", "torch.addcmul(leaf.detach(), x, leaf.detach())"),
    "lerp": ("torch.lerp(x, leaf.detach(), 0.5)", "torch.lerp(x, leaf.detach(), leaf.detach())"),
    "index_add": ("x.index_add(0, torch.tensor([0, 2]), torch.ones(2, 1, 4))", "leaf.detach().index_add(0, torch.tensor([0, 1, 2]), x)"),
    "mul": ("x + x", "x * leaf.detach()"),
}


@pytest.mark.parametrize("name", AGAIN)
def test_what_saved_nothing_can_be_gone_through_again(name: str, of_pytorch: Callable[..., Any]) -> None:
    """Also where another operand's gradient would have needed something."""
    for text, start in itertools.product(AGAIN[name], ["leaf", "leaf + 1"]):
        lines = f"x = {start}\nx = {text}\n" + "x.backward(torch.ones_like(x))\n" * 2
        ours, theirs = outcome(flambeau, lines), of_pytorch(outcome, lines)
        assert ours == theirs, lines


IN_PLACE = ["add_", "sub_", "mul_", "div_", "copy_", "pow_", "clamp_", "atan2_", "fmod_", "xlogy_", "hypot_"]


def test_what_refuses_an_operand_of_inference_mode_changes_nothing(of_pytorch: Callable[..., Any]) -> None:
    for name in IN_PLACE:
        lines = f"x = leaf + 1\nwith torch.inference_mode(): other = torch.full((3, 1, 4), 2.0)\nx.{name}(other)\ny = x.tolist()"

        def values(torch: Any, lines: str = lines) -> Any:
            space: dict[str, Any] = {"torch": torch, "leaf": torch.arange(12.0).reshape(3, 1, 4).clone().requires_grad_()}
            try:
                exec(lines, space)
            except RuntimeError as error:
                return str(error)[:30], space["x"]._version, space["x"].tolist()
            return space["x"]._version

        assert values(flambeau) == of_pytorch(values), name


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3, 1, 4), (1, 3, 1, 4), (12,), (2, 3, 1, 4)])
def test_gradients_of_a_shape_that_was_changed_without_grad_mode(shape: tuple[int, ...], of_pytorch: Callable[..., Any]) -> None:
    """They are summed to the shape that the history expects, or refused."""
    strides = (*[0] * (len(shape) - 3), 4, 4, 1)[-len(shape) :]
    lines = f"x = leaf * 2\nwith torch.no_grad(): x.as_strided_({shape}, {strides})\nx.backward(torch.ones({shape}))"
    assert outcome(flambeau, lines) == of_pytorch(outcome, lines)


def test_a_gradient_is_complex_where_the_result_is(of_pytorch: Callable[..., Any]) -> None:
    for dtype, other in itertools.product(["float32", "complex64"], ["int64", "float64", "complex64", "complex128"]):
        lines = f"x = leaf.to(torch.{dtype})\nx.backward(torch.ones(3, 1, 4, dtype=torch.{other}))"
        assert outcome(flambeau, lines) == of_pytorch(outcome, lines), lines


def test_a_view_without_gradient_of_its_own_needs_nothing_of_inference_mode(of_pytorch: Callable[..., Any]) -> None:
    """One made without grad mode of a leaf, or of a result; ``mul`` and ``where`` save, on the fast path and in place."""
    made = ["leaf[()]", "(leaf * 2)[()]", "leaf"]
    uses = ["other * x", "x * other", "torch.addcmul(x, other, other)", "torch.where(other > 0, x, other)", "(x + 0).mul_(other)"]
    for mode, view, use in itertools.product(["no_grad", "inference_mode"], made, uses):
        lines = f"with torch.{mode}(): view = {view}\nwith torch.inference_mode(): other = torch.ones(3, 1, 4)\nx = view\nx = {use}"
        assert outcome(flambeau, lines) == of_pytorch(outcome, lines), lines
