"""Training under autocast: how far the losses of a CNN and a small GPT are from those in float32, and what a step costs."""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pydoc_data.topics import topics
from types import ModuleType
from typing import Any

from .report import machine, table, write_section

THREADS = 1
KINDS = ("float32", "bfloat16", "float16")
LAST = 20  # steps whose mean loss is compared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=100, help="steps of training")
    parser.add_argument("--timed", type=int, default=4, help="steps of PyTorch, for their time alone")
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--quick", action="store_true", help="40 steps")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def cnn(torch: ModuleType) -> tuple[Any, Callable[[], Iterator[Any]], Callable[[Any, Any], Any]]:
    """Scikit-learn's digits, 8x8, in batches of 128; convolutions of 32 and 64 channels with batch norm."""
    import numpy as np
    from sklearn.datasets import load_digits

    nn = torch.nn
    images, labels = load_digits(return_X_y=True)
    inputs = torch.from_numpy((images / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = torch.from_numpy(labels.astype(np.int64))
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(1024, 10)),
    )

    def batches() -> Iterator[Any]:
        rng = np.random.default_rng(0)
        while True:
            chosen = torch.from_numpy(rng.integers(len(inputs), size=128))
            yield inputs[chosen], targets[chosen]

    return model, batches, lambda outputs, targets: nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)


def gpt(torch: ModuleType) -> tuple[Any, Callable[[], Iterator[Any]], Callable[[Any, Any], Any]]:
    """The next character of Python's reference manual: 2 pre-norm layers of width 96, contexts of 64, batches of 16."""
    import numpy as np

    nn = torch.nn
    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "ignore")[:200_000]
    data = torch.from_numpy(np.frombuffer(text, np.uint8).astype(np.int64))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(128, 96), nn.Embedding(64, 96)
            self.blocks = nn.ModuleList(
                [nn.TransformerEncoderLayer(96, 4, 384, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)]
            )
            self.norm, self.head = nn.LayerNorm(96), nn.Linear(96, 128)

        def forward(self, tokens: Any) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(64)
            x = self.tokens(tokens) + self.positions(torch.arange(64))
            for block in self.blocks:
                x = block(x, mask, is_causal=True)
            return self.head(self.norm(x))

    def batches() -> Iterator[Any]:
        rng = np.random.default_rng(0)
        while True:
            starts = rng.integers(len(data) - 65, size=16)
            rows = torch.stack([data[start : start + 65] for start in starts])
            yield rows[:, :-1], rows[:, 1:]

    return GPT(), batches, lambda outputs, targets: nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


MODELS = {"CNN": cnn, "GPT": gpt}


def train(torch: ModuleType, name: str, kind: str, steps: int) -> tuple[list[float], float]:
    """Losses of the steps, and the seconds of the fastest one. float16 scales its losses."""
    torch.manual_seed(0)
    model, batches, loss_of = MODELS[name](torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=kind == "float16")

    def region() -> AbstractContextManager[Any]:
        return torch.autocast("cpu", getattr(torch, kind) if kind != "float32" else None, enabled=kind != "float32")

    losses, best = [], float("inf")
    for _, (inputs, targets) in zip(range(steps), batches(), strict=False):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with region():
            loss = loss_of(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        best = min(best, time.perf_counter() - begin)
    return losses, best


def main(options: argparse.Namespace) -> int:
    steps = 40 if options.quick else options.steps
    flambeau, torch = (importlib.import_module(module) for module in ("flambeau", "torch"))
    for module in (flambeau, torch):
        module.set_num_threads(options.threads)
    rows, apart = [], 0.0
    for name in MODELS:
        if options.only not in name:
            continue
        expected = None
        for kind in KINDS:
            losses, seconds = train(flambeau, name, kind, steps)
            loss = statistics.mean(losses[-LAST:])
            expected = expected or loss
            apart = max(apart, abs(loss / expected - 1))
            theirs = train(torch, name, kind, options.timed)[1]
            cells = [f"{loss:.4f}", f"{100 * (loss / expected - 1):+.2f} %", *(f"{value * 1e3:.1f}" for value in (seconds, theirs))]
            rows.append([f"{name}, {kind}", *cells, f"{seconds / theirs:.2f}"])
            print(" ".join(rows[-1]), flush=True)
    text = table([f"{steps} steps", f"loss, mean of the last {LAST}", "from float32", "flambeau, ms", "PyTorch, ms", "ratio"], rows)
    print(text)
    if options.write:
        settings = f"`python -m benchmarks autocast`; {machine()}; {options.threads} thread(s), the fastest step of each"
        write_section("autocast", f"{settings}. Ratios below 1: flambeau is faster.\n\n{text}")
    return int(apart > 0.01 and steps >= 100)
