"""Inference without gradients, one sample at a time: an MLP, ResNets, a GPT that reads a text and one that writes a token, an LSTM.

What is measured are programs that have answered some thousand times before, on both sides, as those that serve have: machine code has
taken over by then.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed
from .models import language_model, perceptron, recurrent_classifier, residual_network

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS


def builder(model_of: Callable[[ModuleType], Any], input_of: Callable[[Source], Any]) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        model, x = source.fill(model_of(torch)).eval(), input_of(source)

        def run() -> Any:
            with torch.no_grad():
                return model(x)

        return run

    return build


def gpt(torch: ModuleType) -> Any:
    return language_model(torch, 3, 128, 4, 64, 1000)


ROWS: dict[str, tuple[Callable[[ModuleType], Any], Callable[[Source], Any]]] = {
    "MLP, 784-512-512-10": (perceptron, lambda source: source.normal(1, 784)),
    "ResNet-18, 96x96": (residual_network, lambda source: source.normal(1, 3, 96, 96)),
    "ResNet-18, 224x224": (residual_network, lambda source: source.normal(1, 3, 224, 224)),
    "GPT, 3 x 128, 64 tokens": (gpt, lambda source: source.integers(1000, 1, 64)),
    "GPT, 3 x 128, 1 token": (gpt, lambda source: source.integers(1000, 1, 1)),
    "LSTM, 128, 32 steps": (recurrent_classifier, lambda source: source.normal(1, 32, 64)),
}
BEFORE = {"MLP, 784-512-512-10": 8000, "GPT, 3 x 128, 64 tokens": 800, "GPT, 3 x 128, 1 token": 800, "LSTM, 128, 32 steps": 3000}  # calls
CASES = [Case(name, "inference", builder(*row), rehearsals=BEFORE.get(name, 3)) for name, row in ROWS.items()]


def main(options: argparse.Namespace) -> int:
    return comparison.report(__name__, CASES, options)
