"""Transforms in each other at sizes from which kernels are used: derivatives of batches of tensors have no arrays to give to a kernel."""

from __future__ import annotations

import re
import secrets

import pytest
from differential.func_operations import ALL
from differential.running import Report, run_programs

import flambeau as torch
from flambeau.core.calls.registry import TABLES

func = torch.func
F = torch.nn.functional
SIZES = [40, 8190, 8200, 32770]

ACTIVATIONS = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "elu": F.elu,
    "hardswish": F.hardswish,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "square": lambda x: x * x,
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
}


def by_rows(f, rows=10):
    """``f`` of a vector, and sums of a tenth of it each."""
    return lambda x: f(x).reshape(rows, -1).sum(1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_jacobians_of_each_example_are_right_at_any_size(name, size):
    f = ACTIVATIONS[name]
    x = torch.randn(3, size, generator=torch.Generator().manual_seed(0))
    found = func.vmap(func.jacrev(by_rows(f)))(x)
    (slopes,) = func.vjp(f, x)[1](torch.ones_like(x))
    wanted = torch.zeros(3, 10, 10, size // 10)
    for i in range(10):
        wanted[:, i, i] = slopes.reshape(3, 10, -1)[:, i]
    torch.testing.assert_close(found, wanted.reshape(3, 10, size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_other_pairs_of_transforms_agree(name, size):
    f = by_rows(ACTIVATIONS[name])
    generator = torch.Generator().manual_seed(0)
    x, t, c = (torch.randn(2, n, dtype=torch.float64, generator=generator) for n in (size, size, 10))
    slope = func.jvp(f, (x[0],), (t[0],))[1]
    (back,) = func.vjp(f, x[0])[1](c[0])
    torch.testing.assert_close((back * t[0]).sum(), (slope * c[0]).sum())
    torch.testing.assert_close(func.jvp(func.jacrev(f), (x[0],), (t[0],))[0] @ t[0], slope)
    torch.testing.assert_close(func.vmap(func.vjp(f, x[0])[1])(c)[0][0], back)
    torch.testing.assert_close(func.vmap(lambda x, c: func.vjp(f, x)[1](c)[0])(x, c)[0], back)
    torch.testing.assert_close(func.vmap(lambda x, t: func.jvp(f, (x,), (t,))[1])(x, t)[0], slope)
    rows = func.vmap(lambda x: func.vmap(func.vjp(f, x)[1])(torch.eye(10, dtype=x.dtype))[0])(x)
    torch.testing.assert_close(rows, func.vmap(func.jacrev(f, chunk_size=3))(x))


PER_SAMPLE = {
    "products": lambda x: (x.reshape(2, 50) @ torch.linspace(-1, 1, 5000).reshape(100, 50).tanh().t()).reshape(2, 100).sum(1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "var": lambda x: x.reshape(5, 20).var(1),
    "std": lambda x: x.reshape(5, 20).std(0),
    "prod": lambda x: (1 + 0.1 * x).reshape(5, 20).prod(1),
    "cumprod": lambda x: (1 + 0.1 * x).cumprod(0),
    "stack": lambda x: torch.stack([x.sin(), x, x * x]).sum(0),
    "softmax": lambda x: x.softmax(0),
    "gelu": F.gelu,
    "layer_norm": lambda x: F.layer_norm(x, (100,)),
    "logsumexp": lambda x: x.reshape(5, 20).logsumexp(1),
}


@pytest.mark.parametrize("name", PER_SAMPLE)
def test_jacobians_of_each_example_are_those_of_the_examples_alone(name):
    f, x = PER_SAMPLE[name], torch.randn(3, 100, generator=torch.Generator().manual_seed(0))
    found = func.vmap(func.jacrev(f))(x)
    torch.testing.assert_close(found, torch.stack([func.jacrev(f)(each) for each in x]))
    torch.testing.assert_close(found, func.vmap(func.jacfwd(f))(x))
    twice = func.vmap(func.vmap(func.jacrev(f)))(x[None])
    torch.testing.assert_close(twice[0], found)


def test_cotangents_of_no_batch_go_with_outputs_of_one():
    x, c = torch.randn(3, 4), torch.randn(4)
    torch.testing.assert_close(func.vmap(lambda x: func.vjp(torch.sin, x)[1](c)[0])(x), x.cos() * c)
    torch.testing.assert_close(func.jvp(lambda x: func.vjp(torch.sin, x)[1](c)[0], (x[0],), (x[0],))[1], -x[0].sin() * c * x[0])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(3, 8, (3, 3)), torch.nn.Conv2d(8, 8, (3, 3))
        self.conv3, self.fc = torch.nn.Conv2d(8, 8, (3, 3)), torch.nn.Linear(1152, 10)

    def forward(self, x):
        x = self.conv1(x).relu()
        x = self.conv2(x).relu()
        return self.fc(self.conv3(x).flatten(1))


def test_neural_tangent_kernels_by_three_ways_agree():
    """By contraction of Jacobians, by products of a Jacobian with vectors, and the trace of the kernel."""
    torch.manual_seed(0)
    net = Net()
    params = {name: each.detach() for name, each in net.named_parameters()}
    x_train, x_test = torch.randn(3, 3, 18, 18), torch.randn(2, 3, 18, 18)

    def one(params, x):
        return func.functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)

    def contracted(x1, x2, text):
        left, right = ([j.flatten(2) for j in func.vmap(func.jacrev(one), (None, 0))(params, x).values()] for x in (x1, x2))
        return torch.stack([torch.einsum(text, a, b) for a, b in zip(left, right, strict=True)]).sum(0)

    def by_products(x1, x2):
        def of_pair(x1, x2):
            output, back = func.vjp(lambda params: one(params, x1), params)
            return func.vmap(lambda row: func.jvp(lambda params: one(params, x2), (params,), back(row))[1])(torch.eye(output.numel()))

        return func.vmap(func.vmap(of_pair, (None, 0)), (0, None))(x1, x2)

    full = contracted(x_train, x_test, "Naf,Mbf->NMab")
    assert full.shape == (3, 2, 10, 10)
    torch.testing.assert_close(by_products(x_train, x_test), full, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(contracted(x_train, x_test, "Naf,Maf->NM"), full.diagonal(0, 2, 3).sum(-1), atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.oracle
def test_new_programs_agree_with_kernels_from_one_element_on(oracle, monkeypatch):
    """Those of ``test_differential`` are of larger operands."""
    monkeypatch.setenv("FLAMBEAU_KERNELS_FROM", "1")
    seed = secrets.randbelow(1 << 40)
    print(f"FLAMBEAU_KERNELS_FROM=1 python -m tests.differential --area func --seed {seed} --count 100")
    texts: list[str] = []
    assert run_programs(Report("func", seed), 100, None, complain=texts.append).count == 100
    assert not texts, "\n\n".join(texts)


def test_programs_have_every_element_wise_operation():
    """The area of differential programs; those by operators, without derivatives, and with complex results excepted."""
    words = set(re.findall(r"\w+", " ".join(operation.text for operation in ALL)))
    known = {"mul", "complex", "polar", "frexp", "nextafter", "floor_divide"}
    names = {entry.name for table in TABLES.values() for entry in table.values() if getattr(entry, "elementwise", False) and entry.rules}
    assert {name for name in names if not name.startswith("_")} - words <= known


def test_places_of_batches_are_searched_at_any_size():
    """A composite whose body comes to a kernel with a tensor that has no array."""
    x = torch.randn(2, 3, 9000, generator=torch.Generator().manual_seed(0))
    find = lambda x: torch.searchsorted(x.sort(-1)[0], x)  # noqa: E731
    assert torch.equal(func.vmap(func.vmap(find, in_dims=1, out_dims=1))(x.transpose(1, 2)), find(x).transpose(1, 2))
