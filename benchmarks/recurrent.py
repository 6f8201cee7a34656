"""Language models with LSTMs in training, recurrent layers forward and backward, inference at batch 1, and single steps."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS


def language_model(words: int, width: int, hidden: int, layers: int, batch: int, steps: int) -> Callable[[ModuleType], Timed]:
    """A training step: embedding, LSTM, a linear layer over the words, cross-entropy, clipped gradients, SGD."""

    def build(torch: ModuleType) -> Timed:
        nn, source = torch.nn, Source(torch)
        embedding, lstm, head = nn.Embedding(words, width), nn.LSTM(width, hidden, layers), nn.Linear(hidden, words)
        model = source.fill(nn.ModuleList([embedding, lstm, head]))
        optimizer, loss_of = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
        tokens, following = source.integers(words, steps, batch), source.integers(words, steps * batch)
        state = tuple(torch.zeros(layers, batch, hidden) for _ in range(2))

        def step() -> Any:
            optimizer.zero_grad()
            output, _ = lstm(embedding(tokens), state)
            loss = loss_of(head(output.view(steps * batch, hidden)), following)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            return loss

        return step

    return build


def layer(kind: str, features: int, hidden: int, batch: int, steps: int, **options: Any) -> Callable[[ModuleType], Timed]:
    """Forward and backward of a network in training."""

    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        model = source.fill(getattr(torch.nn, kind)(features, hidden, **options))
        x = source.normal(steps, batch, features).requires_grad_()
        grad = source.normal(*model(x)[0].shape)
        return lambda: torch.autograd.grad(model(x)[0], [x, *model.parameters()], grad)

    return build


def inference(kind: str, features: int, hidden: int, steps: int, layers: int = 1) -> Callable[[ModuleType], Timed]:
    """The output for one sequence, without gradients; a single step goes on from a state, as in generation."""

    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        model = source.fill(getattr(torch.nn, kind)(features, hidden, layers)).eval()
        x = source.normal(steps, 1, features)
        states = [source.normal(layers, 1, hidden) for _ in range(1 + (kind == "LSTM"))]
        state = tuple(states) if kind == "LSTM" else states[0]

        def run() -> Any:
            with torch.no_grad():
                return model(x, state)[0]

        return run

    return build


def cell(kind: str, features: int, hidden: int, batch: int) -> Callable[[ModuleType], Timed]:
    """One step of a cell without gradients."""

    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        model = source.fill(getattr(torch.nn, kind)(features, hidden))
        x, states = source.normal(batch, features), [source.normal(batch, hidden) for _ in range(1 + (kind == "LSTMCell"))]
        state = tuple(states) if kind == "LSTMCell" else states[0]

        def run() -> Any:
            with torch.no_grad():
                return model(x, state)

        return run

    return build


MODELS = ((1000, 200, 200, 2, 20, 35), (10000, 200, 200, 2, 20, 35), (1000, 256, 512, 2, 32, 35), (100, 64, 128, 1, 64, 50))
INFERENCE = (
    *(("GRU", 128, 128, 1, 1), ("GRU", 128, 128, 50, 1), ("GRU", 256, 256, 1, 1), ("GRU", 256, 256, 50, 1), ("GRU", 256, 512, 1, 1)),
    *(("GRU", 256, 512, 50, 1), ("GRU", 128, 256, 20, 2), ("LSTM", 256, 256, 50, 1)),
)
CELLS = (("LSTMCell", 128, 1), ("LSTMCell", 128, 32), ("GRUCell", 128, 1), ("GRUCell", 256, 32), ("RNNCell", 128, 32))
STEP, SLOPES, ALONE, SINGLE = "LSTM language model, training step", "forward and backward", "inference at batch 1", "single steps"
CASES = [
    *(
        Case(f"{words} words, {layers} x {hidden}, {batch} x {steps} tokens", STEP, language_model(*sizes), rehearsals=3)
        for sizes in MODELS
        for words, _, hidden, layers, batch, steps in [sizes]
    ),
    Case("LSTM in both directions, 128 features, 32 x 50", SLOPES, layer("LSTM", 128, 128, 32, 50, bidirectional=True)),
    Case("GRU, 200 features, 20 x 35", SLOPES, layer("GRU", 200, 200, 20, 35)),
    Case("RNN, 200 features, 20 x 35", SLOPES, layer("RNN", 200, 200, 20, 35)),
    *(
        Case(f"{kind}, {layers} x {hidden}, steps: {steps}", ALONE, inference(kind, features, hidden, steps, layers))
        for kind, features, hidden, steps, layers in INFERENCE
    ),
    *(Case(f"{kind}, {hidden} features, batch {batch}", SINGLE, cell(kind, hidden, hidden, batch)) for kind, hidden, batch in CELLS),
]


def main(options: argparse.Namespace) -> int:
    return comparison.report(__name__, CASES, options)
