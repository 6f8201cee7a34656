"""Small programs, as functions of the module ``torch``: what compiling must not make slower than it is in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .comparison import Source
from .models import Step


def _model(torch: ModuleType, source: Source, layers: int = 0) -> Any:
    nn = torch.nn
    small = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)]
    return source.fill(nn.Sequential(*([nn.Linear(8, 8) for _ in range(layers)] or small)))


def _inferred(module: Any, *args: Any, torch: ModuleType) -> Step:
    def step() -> Any:
        with torch.no_grad():
            return module(*args)

    return step


def _forward(torch: ModuleType) -> Step:
    source = Source(torch)
    return _inferred(_model(torch, source), source.normal(8, 16), torch=torch)


def _linear(torch: ModuleType) -> Step:
    source = Source(torch)
    return _inferred(source.fill(torch.nn.Linear(16, 16)), source.normal(8, 16), torch=torch)


def _cell(torch: ModuleType) -> Step:
    source = Source(torch)
    states = source.normal(4, 16), source.normal(4, 16)
    return _inferred(source.fill(torch.nn.LSTMCell(8, 16)), source.normal(4, 8), states, torch=torch)


def _hundred(torch: ModuleType) -> Step:
    source = Source(torch)
    return _inferred(_model(torch, source, 50), source.normal(4, 8), torch=torch)


def _five(torch: ModuleType) -> Step:
    source = Source(torch)
    a, b = source.normal(16), source.normal(16)
    return lambda: ((a * b + a).relu() - b) * a


def _two(torch: ModuleType) -> Step:
    source = Source(torch)
    a, b = source.normal(16), source.normal(16)
    return lambda: (a + b, a - b)


def _numbers(torch: ModuleType) -> Step:
    source = Source(torch)
    a, scale, shift = source.normal(16), 2.0, 3
    return lambda: a * scale + shift


def _trained(optimizer_of: Callable[[ModuleType, Any], Any], layers: int = 0) -> Callable[[ModuleType], Step]:
    def build(torch: ModuleType) -> Step:
        source = Source(torch)
        model = _model(torch, source, layers)
        optimizer = optimizer_of(torch, model.parameters())
        x, target = (source.normal(4, 8), source.normal(4, 8)) if layers else (source.normal(8, 16), source.normal(8, 4))

        def step() -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


SMALL: dict[str, Callable[[ModuleType], Step]] = {
    "MLP 16-32-4": _forward,
    "one linear": _linear,
    "LSTM cell": _cell,
    "module of 100 parameters": _hundred,
    "5 element-wise operations, 16 numbers": _five,
    "two results": _two,
    "Python's numbers": _numbers,
    "MLP step, SGD with momentum": _trained(lambda torch, parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)),
    "MLP step, AdamW": _trained(lambda torch, parameters: torch.optim.AdamW(parameters, lr=1e-4)),
    "step of 100 parameters, Adam": _trained(lambda torch, parameters: torch.optim.Adam(parameters, lr=1e-5), 50),
}
