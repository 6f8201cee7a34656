"""``torch.func``: gradients, vmap, forward mode, Jacobians, Hessians and per-sample gradients, at small and moderate sizes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
SMALL, MODERATE = 8, 64


def smooth(torch: ModuleType) -> Callable[[Any], Any]:
    """A number of a vector."""
    return lambda x: (x.sin() * x.exp()).sum() + (x @ x).tanh()


def layer(torch: ModuleType, source: Source, size: int) -> tuple[Callable[[Any], Any], Any]:
    """A layer with softmax, and a row for it."""
    weight, bias = source.normal(size, size, scale=size**-0.5), source.normal(size)
    return lambda x: torch.nn.functional.linear(x, weight, bias).tanh().softmax(-1), source.normal(size)


def gradient(size: int, torch: ModuleType) -> Timed:
    x, f = Source(torch).normal(size * size), smooth(torch)
    return lambda: torch.func.grad(f)(x)


def gradient_of_gradient(size: int, torch: ModuleType) -> Timed:
    x, f = Source(torch).normal(size * size), smooth(torch)
    return lambda: torch.func.grad(lambda x: torch.func.grad(f)(x).sum())(x)


def products(size: int, torch: ModuleType) -> Timed:
    source = Source(torch)
    f, x = layer(torch, source, size)
    cotangent = source.normal(size)

    def run() -> Any:
        value, back = torch.func.vjp(f, x)
        return (value, *back(cotangent))

    return run


def rows(size: int, torch: ModuleType) -> Timed:
    source = Source(torch)
    f, _ = layer(torch, source, size)
    x = source.normal(4 * size, size)
    return lambda: torch.func.vmap(f)(x)


def rows_of_gradients(size: int, torch: ModuleType) -> Timed:
    x, f = Source(torch).normal(4 * size, size), smooth(torch)
    return lambda: torch.func.vmap(torch.func.grad(f))(x)


def tangents(size: int, torch: ModuleType) -> Timed:
    source = Source(torch)
    f, x = layer(torch, source, size)
    tangent = source.normal(size)
    return lambda: torch.func.jvp(f, (x,), (tangent,))


def jacobian(mode: str, size: int, torch: ModuleType) -> Timed:
    f, x = layer(torch, Source(torch), size)
    return lambda: getattr(torch.func, mode)(f)(x)


def second(size: int, torch: ModuleType) -> Timed:
    x, f = Source(torch).normal(size), smooth(torch)
    return lambda: torch.func.hessian(f)(x)


def curvature(size: int, torch: ModuleType) -> Timed:
    source, f = Source(torch), smooth(torch)
    x, direction = source.normal(size * size), source.normal(size * size)
    return lambda: torch.func.jvp(torch.func.grad(f), (x,), (direction,))


def per_sample(make: Callable[[Any], Any], shape: tuple[int, ...], batch: int, torch: ModuleType) -> Timed:
    source = Source(torch)
    model = source.fill(make(torch.nn))
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    inputs, labels = source.normal(batch, *shape), source.integers(10, batch)

    def loss(parameters: Any, x: Any, label: Any) -> Any:
        scores = torch.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(scores, label.unsqueeze(0))

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: tuple(gradients(parameters, inputs, labels).values())


def perceptron(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))


def small_cnn(nn: Any) -> Any:
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(400, 10))


def ensemble(count: int, batch: int, torch: ModuleType) -> Timed:
    source = Source(torch)
    models = [source.fill(perceptron(torch.nn)) for _ in range(count)]
    state, _ = torch.func.stack_module_state(models)
    state = {name: tensor.detach() for name, tensor in state.items()}
    inputs = source.normal(batch, 32)
    call = torch.func.vmap(lambda state, x: torch.func.functional_call(models[0], state, (x,)), in_dims=(0, None))
    return lambda: call(state, inputs)


BOTH: dict[str, Callable[[int, ModuleType], Timed]] = {
    "grad": gradient,
    "grad of grad": gradient_of_gradient,
    "vjp": products,
    "vmap": rows,
    "vmap of grad": rows_of_gradients,
    "jvp": tangents,
    "jvp of grad": curvature,
    "jacrev": partial(jacobian, "jacrev"),
    "jacfwd": partial(jacobian, "jacfwd"),
    "hessian": second,
}
CASES = [
    Case(name, words, partial(build, size)) for words, size in (("small", SMALL), ("moderate", MODERATE)) for name, build in BOTH.items()
]
CASES += [
    *[Case(f"perceptron, batch of {batch}", "per-sample gradients", partial(per_sample, perceptron, (32,), batch)) for batch in (8, 64)],
    *[
        Case(f"small CNN, batch of {batch}", "per-sample gradients", partial(per_sample, small_cnn, (1, 28, 28), batch))
        for batch in (8, 64)
    ],
    *[Case(f"{count} perceptrons, batch of 32", "ensembles", partial(ensemble, count, 32)) for count in (4, 32)],
]


def main(options: argparse.Namespace) -> int:
    return comparison.report(__name__, CASES, options)
