"""A leaf's first gradient lies in memory as the leaf does where the leaf is dense, row by row elsewhere; later ones are added to it."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

LEAVES = {
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(3, 4).t(),
    "permuted": lambda: torch.randn(2, 3, 4).permute(2, 0, 1),
    "row-major": lambda: torch.randn(3, 4),
    "every second": lambda: torch.randn(4, 6)[:, ::2],
    "expanded": lambda: torch.randn(3, 1).expand(3, 4),
}
LOSSES = {
    "spread": lambda x: x.sum(),
    "fresh": lambda x: (x * x).sum(),
    "row-major": lambda x: (x * torch.arange(1.0, x.numel() + 1).reshape(x.shape)).sum(),
    "through a copy": lambda x: x.contiguous().sin().sum(),
    "of a part": lambda x: x[..., :1].sum(),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", LEAVES)
def test_gradients_lie_in_memory_as_their_leaves(kind: str, loss: str, recorded: bool) -> None:
    leaf = LEAVES[kind]().detach().requires_grad_()
    value = LOSSES[loss](leaf)
    wanted = leaf.stride() if kind not in ("every second", "expanded") else torch.empty(leaf.shape).stride()
    (expected,) = torch.autograd.grad(value, leaf, retain_graph=True)
    value.backward(create_graph=recorded)
    assert leaf.grad.stride() == wanted and torch.equal(leaf.grad, expected)
    LOSSES[loss](leaf).backward()
    assert torch.equal(leaf.grad, 2 * expected)
    assert recorded or leaf.grad.stride() == wanted


def test_gradients_of_channels_last_layers_are_channels_last() -> None:
    layers: Any = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 2))
    layers = layers.to(memory_format=torch.channels_last)
    images = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last).requires_grad_()
    layers(images).sum().backward()
    for leaf in (images, *layers.parameters()):
        assert leaf.grad.stride() == leaf.stride()


@pytest.mark.parametrize("shape", [(1, 1, 4, 4), (2, 1, 4, 4), (2, 3, 1, 1), (1, 3, 1, 1)])
def test_to_channels_last_changes_the_strides_of_what_could_be_either(shape: tuple[int, ...]) -> None:
    given = torch.randn(shape)
    changed = given.to(memory_format=torch.channels_last)
    assert changed.stride() == torch.empty(shape, memory_format=torch.channels_last).stride() and torch.equal(given, changed)
    assert changed.to(memory_format=torch.channels_last) is changed
    assert given.contiguous(memory_format=torch.channels_last) is given
