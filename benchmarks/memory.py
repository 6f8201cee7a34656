"""``python -m benchmarks.memory PACKAGE MODEL THREADS STEPS``: bytes in use before the first training step, and at most during the steps.

A process of its own for each model and framework, since what one leaves behind in the allocator would be the other's start.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

from .measuring import peak_bytes, resident_bytes, set_threads
from .models import MODELS


def in_a_process(package: str, model: str, threads: int, steps: int) -> tuple[int, int]:
    """The two numbers, from a fresh interpreter."""
    command = [sys.executable, "-m", "benchmarks.memory", package, model, str(threads), str(steps)]
    before, peak = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return int(before), int(peak)


def main(package: str, model: str, threads: str, steps: str) -> None:
    set_threads(int(threads))
    torch = importlib.import_module(package)
    torch.set_num_threads(int(threads))
    step = MODELS[model](torch)
    before = resident_bytes()

    def train() -> None:
        for _ in range(int(steps)):
            step().item()

    print(before, peak_bytes(train))


if __name__ == "__main__":
    main(*sys.argv[1:])
