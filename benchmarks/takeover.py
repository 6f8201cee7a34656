"""When machine code should take over from the wrappers in Python: what it takes to load it, and what it saves with each tensor."""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .report import machine, table, write_section

THREADS = 1
LOADING = """
import time, flambeau, flambeau.nn, flambeau.optim
from flambeau.core.calls import machine_calls
begin = time.thread_time()
machine_calls._load(True)
print(time.thread_time() - begin, len(machine_calls.exchanged))
"""


def _programs(torch: Any) -> dict[str, tuple[int, Callable[[], object]]]:
    """Programs of small calls, and how many tensors each makes."""
    x, y, layer = torch.randn(4, 4), torch.randn(4, 4), torch.nn.Linear(4, 4)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    batch, goal = torch.randn(16, 8), torch.randn(16, 4)

    def trained() -> None:
        model.zero_grad()
        torch.nn.functional.mse_loss(model(batch), goal).backward()

    def inferred() -> Any:
        with torch.no_grad():
            return layer(x).softmax(1)

    return {
        "arithmetic": (4, lambda: (x * y + 2.0).relu() - x),
        "views": (4, lambda: x[1:].view(3, 2, 2).transpose(1, 2).unsqueeze(0)),
        "inference": (2, inferred),
        "training": (10, trained),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=9, help="processes, and turns of each program")
    parser.add_argument("--quick", action="store_true", help="three of each")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def _load_in_a_process(cache: str) -> float:
    environment = {**os.environ, "FLAMBEAU_CACHE": cache, "FLAMBEAU_FAST_PATH": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    words = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True, env=environment).stdout.split()
    if not int(words[1]):
        raise RuntimeError("takeover: machine code cannot be had here")
    return float(words[0])


def _seconds(function: Callable[[], object], calls: int = 2000) -> float:
    begin = time.thread_time()
    for _ in range(calls):
        function()
    return (time.thread_time() - begin) / calls


def _saved(rounds: int) -> list[tuple[str, float, float]]:
    """Seconds of a tensor without machine code and with it, for each program."""
    import flambeau
    from flambeau.core.calls import machine_calls

    machine_calls._load(True)
    found = []
    for name, (tensors, function) in _programs(flambeau).items():
        fewest = [math.inf, math.inf]
        function()  # what is made in a block without machine code would have it
        for _ in range(rounds):
            with machine_calls.python_only():
                fewest[0] = min(fewest[0], _seconds(function))
            fewest[1] = min(fewest[1], _seconds(function))
        found.append((name, fewest[0] / tensors, fewest[1] / tensors))
    return found


def main(options: argparse.Namespace) -> int:
    rounds = 3 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        compiled, *kept = [_load_in_a_process(folder) for _ in range(rounds + 1)]
    loading, saved = min(kept), _saved(rounds)
    rows = [[name, f"{1e6 * python:.2f}", f"{1e6 * code:.2f}", f"{loading / (python - code):,.0f}"] for name, python, code in saved]
    text = table(["", "Python, us a tensor", "machine code, us", "tensors until it pays"], rows)
    text += (
        f"\n\nLoading takes {1e3 * loading:.0f} ms of a thread's time, {compiled:.1f} s where it has to be compiled first, once a machine."
    )
    print(text)
    if options.write:
        write_section("takeover", f"`python -m benchmarks takeover`; {machine()}; processor time of one thread.\n\n{text}")
    return 0
